//! DRIVER_INITIALIZATION_DATA: the entries of a driver.
//!
//! The structure grows with the version in its first word, so a table is read by the length of its
//! version and not by the length that this program was compiled for.

use std::ffi::c_void;
use std::mem::transmute;
use tidegate_wddm_abi::d3dkmddi::{
    CalibrateGpuClock, CloseNativeFence, ConnectDoorbell, CreateDoorbell, CreateHwContext,
    CreateHwQueue, CreateNativeFence, DestroyDoorbell, DestroyNativeFence, DisconnectDoorbell,
    NotifyWorkSubmission, OpenNativeFence, QueryInterface, ResetHwEngine, ResumeContext,
    ResumeHwEngine, SetContextSchedulingProperties, SetNativeFenceLogBuffer, SetupPriorityBands,
    SubmitCommandToHwQueue, SuspendContext, UpdateCurrentValuesFromCpu, UpdateMonitoredValues,
    UpdateNativeFenceLogs,
};
use tidegate_wddm_abi::d3dukmdt::NodeMetadata;
use tidegate_wddm_abi::miniport::{
    BuildPagingBuffer, CancelCommand, CloseAllocation, CollectDbgInfo, CreateAllocation,
    CreateContext, CreateDevice, CreateProcess, DestroyAllocation, InterfaceVersion,
    OpenAllocation, Patch, PreemptCommand, QueryAdapterInfo, QueryCurrentFence,
    QueryDependentEngineGroup, QueryEngineStatus, Render, ResetEngine, SetRootPageTable,
    SetVidPnSourceAddress, SetVidPnSourceVisibility, SubmitCommand, SubmitCommandVirtual,
};

/// The entries that a driver has.
#[derive(Clone)]
pub(crate) struct Entries {
    pub(crate) version: &'static InterfaceVersion,
    /// Addresses of functions by their place in the structure; place 0 is the version.
    places: Vec<usize>,
}

/// DXGK_START_INFO.
#[repr(C)]
#[derive(Default)]
pub(crate) struct DxgkStartInfo {
    required_dma_queue_entry: u32,
    adapter_guid: [u32; 4],
    adapter_luid: [u32; 2],
}

/// Declares entries: name, place in DRIVER_INITIALIZATION_DATA, published name, signature.
macro_rules! entries {
    ($($name:ident = $place:literal $published:literal
       fn($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        impl Entries {
            $(
                #[doc = concat!("Calls `", $published, "`. `None` if the driver lacks it.")]
                pub(crate) fn $name(&self $(, $arg: $ty)*) -> Option<entries!(@ret $($ret)?)> {
                    let entry = self.at($place)?;
                    // SAFETY: the driver's table has a function of this type at this place.
                    let entry = unsafe {
                        transmute::<*const c_void, unsafe extern "C-unwind" fn($($ty),*) $(-> $ret)?>(
                            entry,
                        )
                    };
                    // SAFETY: the arguments are of the published types and live during the call.
                    Some(unsafe { entry($($arg),*) })
                }
            )*

            /// The place and published name of each entry that is called.
            const PLACES: &[(usize, &str)] = &[$(($place, $published)),*];
        }
    };
    (@ret) => { () };
    (@ret $ret:ty) => { $ret };
}

// Arguments that a driver may keep no longer than the call are references. A handle of the driver
// is a number.
entries! {
    add_device = 1 "DxgkDdiAddDevice" fn(physical_device: u64, context: &mut u64) -> i32;
    start_device = 2 "DxgkDdiStartDevice" fn(
        context: u64, start: &mut DxgkStartInfo, interface: *mut u64, sources: &mut u32,
        children: &mut u32,
    ) -> i32;
    stop_device = 3 "DxgkDdiStopDevice" fn(context: u64) -> i32;
    remove_device = 4 "DxgkDdiRemoveDevice" fn(context: u64) -> i32;
    interrupt_routine = 6 "DxgkDdiInterruptRoutine" fn(context: u64, message: u32) -> u8;
    dpc_routine = 7 "DxgkDdiDpcRoutine" fn(context: u64);
    set_power_state = 11 "DxgkDdiSetPowerState"
        fn(context: u64, device_uid: u32, state: u32, action: u32) -> i32;
    unload = 14 "DxgkDdiUnload" fn();
    query_interface = 15 "DxgkDdiQueryInterface"
        fn(context: u64, args: &mut QueryInterface) -> i32;
    query_adapter_info = 17 "DxgkDdiQueryAdapterInfo"
        fn(adapter: u64, args: &mut QueryAdapterInfo) -> i32;
    create_device = 18 "DxgkDdiCreateDevice" fn(adapter: u64, args: &mut CreateDevice) -> i32;
    create_allocation = 19 "DxgkDdiCreateAllocation"
        fn(adapter: u64, args: &mut CreateAllocation) -> i32;
    destroy_allocation = 20 "DxgkDdiDestroyAllocation"
        fn(adapter: u64, args: &mut DestroyAllocation) -> i32;
    patch = 25 "DxgkDdiPatch" fn(adapter: u64, args: &mut Patch) -> i32;
    submit_command = 26 "DxgkDdiSubmitCommand"
        fn(adapter: u64, args: &mut SubmitCommand) -> i32;
    preempt_command = 27 "DxgkDdiPreemptCommand"
        fn(adapter: u64, args: &mut PreemptCommand) -> i32;
    build_paging_buffer = 28 "DxgkDdiBuildPagingBuffer"
        fn(adapter: u64, args: &mut BuildPagingBuffer) -> i32;
    reset_from_timeout = 32 "DxgkDdiResetFromTimeout" fn(adapter: u64) -> i32;
    restart_from_timeout = 33 "DxgkDdiRestartFromTimeout" fn(adapter: u64) -> i32;
    collect_dbg_info = 35 "DxgkDdiCollectDbgInfo"
        fn(adapter: u64, args: &mut CollectDbgInfo) -> i32;
    query_current_fence = 36 "DxgkDdiQueryCurrentFence"
        fn(adapter: u64, args: &mut QueryCurrentFence) -> i32;
    set_vid_pn_source_address = 40 "DxgkDdiSetVidPnSourceAddress"
        fn(adapter: u64, args: &mut SetVidPnSourceAddress) -> i32;
    set_vid_pn_source_visibility = 41 "DxgkDdiSetVidPnSourceVisibility"
        fn(adapter: u64, args: &mut SetVidPnSourceVisibility) -> i32;
    control_interrupt = 48 "DxgkDdiControlInterrupt"
        fn(adapter: u64, interrupt_type: u32, enable: u8) -> i32;
    destroy_device = 50 "DxgkDdiDestroyDevice" fn(device: u64) -> i32;
    open_allocation = 51 "DxgkDdiOpenAllocation"
        fn(device: u64, args: &mut OpenAllocation) -> i32;
    close_allocation = 52 "DxgkDdiCloseAllocation"
        fn(device: u64, args: &mut CloseAllocation) -> i32;
    render = 53 "DxgkDdiRender" fn(context: u64, args: &mut Render) -> i32;
    create_context = 58 "DxgkDdiCreateContext" fn(device: u64, args: &mut CreateContext) -> i32;
    destroy_context = 59 "DxgkDdiDestroyContext" fn(context: u64) -> i32;
    set_power_component_f_state = 71 "DxgkDdiSetPowerComponentFState"
        fn(context: u64, component: u32, state: u32) -> i32;
    query_dependent_engine_group = 72 "DxgkDdiQueryDependentEngineGroup"
        fn(adapter: u64, args: &mut QueryDependentEngineGroup) -> i32;
    query_engine_status = 73 "DxgkDdiQueryEngineStatus"
        fn(adapter: u64, args: &mut QueryEngineStatus) -> i32;
    reset_engine = 74 "DxgkDdiResetEngine" fn(adapter: u64, args: &mut ResetEngine) -> i32;
    cancel_command = 78 "DxgkDdiCancelCommand" fn(adapter: u64, args: &mut CancelCommand) -> i32;
    get_node_metadata = 83 "DxgkDdiGetNodeMetadata"
        fn(adapter: u64, node: u32, metadata: &mut NodeMetadata) -> i32;
    calibrate_gpu_clock = 87 "DxgkDdiCalibrateGpuClock"
        fn(adapter: u64, node: u32, engine: u32, args: &mut CalibrateGpuClock) -> i32;
    submit_command_virtual = 90 "DxgkDdiSubmitCommandVirtual"
        fn(adapter: u64, args: &mut SubmitCommandVirtual) -> i32;
    set_root_page_table = 91 "DxgkDdiSetRootPageTable"
        fn(adapter: u64, args: &mut SetRootPageTable);
    create_process = 96 "DxgkDdiCreateProcess" fn(adapter: u64, args: &mut CreateProcess) -> i32;
    destroy_process = 97 "DxgkDdiDestroyProcess" fn(adapter: u64, process: u64) -> i32;
    create_hw_context = 110 "DxgkDdiCreateHwContext"
        fn(device: u64, args: &mut CreateHwContext) -> i32;
    destroy_hw_context = 111 "DxgkDdiDestroyHwContext" fn(context: u64) -> i32;
    create_hw_queue = 112 "DxgkDdiCreateHwQueue"
        fn(context: u64, args: &mut CreateHwQueue) -> i32;
    destroy_hw_queue = 113 "DxgkDdiDestroyHwQueue" fn(queue: u64) -> i32;
    submit_command_to_hw_queue = 114 "DxgkDdiSubmitCommandToHwQueue"
        fn(adapter: u64, args: &mut SubmitCommandToHwQueue) -> i32;
    reset_hw_engine = 116 "DxgkDdiResetHwEngine"
        fn(adapter: u64, args: &mut ResetHwEngine) -> i32;
    setup_priority_bands = 133 "DxgkDdiSetupPriorityBands"
        fn(adapter: u64, args: &mut SetupPriorityBands) -> i32;
    set_context_scheduling_properties = 135 "DxgkDdiSetContextSchedulingProperties"
        fn(adapter: u64, args: &mut SetContextSchedulingProperties) -> i32;
    suspend_context = 136 "DxgkDdiSuspendContext"
        fn(adapter: u64, args: &mut SuspendContext) -> i32;
    resume_context = 137 "DxgkDdiResumeContext"
        fn(adapter: u64, args: &mut ResumeContext) -> i32;
    resume_hw_engine = 143 "DxgkDdiResumeHwEngine"
        fn(adapter: u64, args: &mut ResumeHwEngine) -> i32;
    create_native_fence = 162 "DxgkDdiCreateNativeFence"
        fn(adapter: u64, args: &mut CreateNativeFence) -> i32;
    destroy_native_fence = 163 "DxgkDdiDestroyNativeFence"
        fn(args: &mut DestroyNativeFence) -> i32;
    update_monitored_values = 164 "DxgkDdiUpdateMonitoredValues"
        fn(args: &mut UpdateMonitoredValues) -> i32;
    update_current_values_from_cpu = 165 "DxgkDdiUpdateCurrentValuesFromCpu"
        fn(args: &mut UpdateCurrentValuesFromCpu);
    create_doorbell = 166 "DxgkDdiCreateDoorbell" fn(args: &mut CreateDoorbell) -> i32;
    connect_doorbell = 167 "DxgkDdiConnectDoorbell" fn(args: &mut ConnectDoorbell) -> i32;
    disconnect_doorbell = 168 "DxgkDdiDisconnectDoorbell"
        fn(args: &mut DisconnectDoorbell) -> i32;
    destroy_doorbell = 169 "DxgkDdiDestroyDoorbell" fn(args: &mut DestroyDoorbell) -> i32;
    notify_work_submission = 170 "DxgkDdiNotifyWorkSubmission"
        fn(args: &mut NotifyWorkSubmission) -> i32;
    open_native_fence = 186 "DxgkDdiOpenNativeFence"
        fn(adapter: u64, args: &mut OpenNativeFence) -> i32;
    close_native_fence = 187 "DxgkDdiCloseNativeFence"
        fn(adapter: u64, args: &mut CloseNativeFence) -> i32;
    set_native_fence_log_buffer = 188 "DxgkDdiSetNativeFenceLogBuffer"
        fn(args: &mut SetNativeFenceLogBuffer) -> i32;
    update_native_fence_logs = 189 "DxgkDdiUpdateNativeFenceLogs"
        fn(args: &mut UpdateNativeFenceLogs) -> i32;
}

impl Entries {
    /// Copies a driver's structure by the length of its version.
    ///
    /// # Safety
    /// `data` is a DRIVER_INITIALIZATION_DATA of the version in its first word.
    pub(crate) unsafe fn read(data: *const u32) -> Result<Entries, String> {
        // SAFETY: every version of the structure begins with its number.
        let number = unsafe { data.read_unaligned() };
        let Some(version) = InterfaceVersion::of_number(number) else {
            return Err(format!(
                "DxgkInitialize with the version {number:#x}: known are WDDM 1.2 (0x300e) to 3.2 \
                 (0x11007)"
            ));
        };
        let words = version.initialization_data_bytes as usize / 8;
        let data = data.cast::<usize>();
        // SAFETY: the structure of this version has as many words.
        let places = (0..words).map(|place| unsafe { data.add(place).read_unaligned() }).collect();
        Ok(Entries { version, places })
    }

    /// Returns the entries without which no packet runs and that the driver lacks.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let of_addresses = match self.has_virtual_addresses() {
            true => &NEEDED_VIRTUAL[..],
            false => place::PATCHING,
        };
        let is_needed = |place: &usize| NEEDED.contains(place) || of_addresses.contains(place);
        let needed = Entries::PLACES.iter().filter(|(place, _)| is_needed(place));
        needed.filter(|(place, _)| !self.has(*place)).map(|(_, name)| *name).collect()
    }

    /// Returns whether the driver has GPU virtual addresses. A driver before WDDM 2.0 has none, and
    /// a later one may patch physical addresses instead.
    pub(crate) fn has_virtual_addresses(&self) -> bool {
        let only_patches =
            self.has_all(place::PATCHING) && !self.has(place::SUBMIT_COMMAND_VIRTUAL);
        self.has_segments4() && !only_patches
    }

    /// Returns whether the driver's version describes segments by DXGK_QUERYSEGMENTOUT4.
    pub(crate) fn has_segments4(&self) -> bool {
        self.version.wddm >= (2, 0)
    }

    /// Returns whether the driver has the entry at a place.
    pub(crate) fn has(&self, place: usize) -> bool {
        self.at(place).is_some()
    }

    /// Returns whether the driver has the entries at these places.
    pub(crate) fn has_all(&self, places: &[usize]) -> bool {
        places.iter().all(|place| self.has(*place))
    }

    fn at(&self, place: usize) -> Option<*const c_void> {
        let address = self.places.get(place).copied().filter(|address| *address != 0)?;
        Some(std::ptr::with_exposed_provenance(address))
    }
}

/// Places of the entries that every driver of packets has.
const NEEDED: [usize; 12] = [1, 2, 3, 4, 6, 7, 17, 18, 28, 50, 58, 59];
/// Places of further entries of a driver with GPU virtual addresses.
const NEEDED_VIRTUAL: [usize; 4] = [83, 90, 91, 96];

/// Places of entries that groups of the DDI depend on.
pub(crate) mod place {
    pub(crate) const SET_POWER_STATE: usize = 11;
    pub(crate) const SET_POWER_COMPONENT_F_STATE: usize = 71;
    pub(crate) const PREEMPT_COMMAND: usize = 27;
    pub(crate) const RESET_FROM_TIMEOUT: usize = 32;
    pub(crate) const RESTART_FROM_TIMEOUT: usize = 33;
    pub(crate) const QUERY_CURRENT_FENCE: usize = 36;
    pub(crate) const QUERY_DEPENDENT_ENGINE_GROUP: usize = 72;
    pub(crate) const QUERY_ENGINE_STATUS: usize = 73;
    pub(crate) const RESET_ENGINE: usize = 74;
    pub(crate) const CANCEL_COMMAND: usize = 78;
    pub(crate) const GET_NODE_METADATA: usize = 83;
    pub(crate) const SUBMIT_COMMAND_VIRTUAL: usize = 90;
    pub(crate) const DESTROY_PROCESS: usize = 97;
    pub(crate) const QUERY_INTERFACE: usize = 15;
    /// The entries of a display, of which two are those of allocations.
    pub(crate) const DISPLAY: &[usize] = &[19, 20, 40, 41, 48];
    /// From DxgkDdiCreateAllocation to DxgkDdiCloseAllocation.
    pub(crate) const ALLOCATIONS: &[usize] = &[19, 20, 51, 52];
    /// DxgkDdiPatch, DxgkDdiSubmitCommand, DxgkDdiRender.
    pub(crate) const PATCHING: &[usize] = &[25, 26, 53];
    /// From DxgkDdiCreateHwContext to DxgkDdiResumeHwEngine.
    pub(crate) const HW_QUEUES: &[usize] = &[110, 111, 112, 113, 114, 116, 136, 137, 143];
    /// DxgkDdiSetupPriorityBands, DxgkDdiSetContextSchedulingProperties.
    pub(crate) const PRIORITY_BANDS: &[usize] = &[133, 135];
    /// DxgkDdiCalibrateGpuClock, then the entries of fences and logs.
    pub(crate) const NATIVE_FENCES: &[usize] = &[87, 162, 163, 164, 165, 186, 187, 188, 189];
    /// Two entries of allocations, which the rings are, then the entries of doorbells.
    pub(crate) const DOORBELLS: &[usize] = &[19, 20, 166, 167, 168, 169, 170];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The headers list the entries in the order of the structure, one pointer each.
    #[test]
    fn places_are_those_of_the_header() {
        let header = include_str!("../../../../include/wddm/dispmprt.h");
        let start = header.find("typedef struct _DRIVER_INITIALIZATION_DATA {").unwrap();
        let body =
            &header[start..][..header[start..].find("} DRIVER_INITIALIZATION_DATA;").unwrap()];
        let members = body.split(';').filter_map(|member| {
            let name = member.split_whitespace().last()?;
            member.contains("PDXGKDDI").then_some(name).or(member.contains("PVOID").then_some(name))
        });
        let members: Vec<&str> = members.collect();
        for (place, name) in Entries::PLACES {
            // Place 0 is the version.
            assert_eq!(members[place - 1], *name, "at {place}");
        }
    }

    #[test]
    fn a_table_is_read_by_the_length_of_its_version() {
        let of_version = |number: u32| {
            let version = InterfaceVersion::of_number(number)?;
            // No word after the table may be read.
            let mut table = vec![0_usize; version.initialization_data_bytes as usize / 8];
            table[0] = number as usize;
            table[3] = 0x1000;
            // SAFETY: the words are a structure of this version.
            unsafe { Entries::read(table.as_ptr().cast()) }.ok()
        };
        let oldest = of_version(0x300E).unwrap();
        assert_eq!((oldest.places.len(), oldest.has(3), oldest.has(90)), (83, true, false));
        assert_eq!(of_version(0x1_1007).unwrap().places.len(), 193);
        let unknown = [0x2005_u32, 0];
        // SAFETY: an unknown version is refused by its first word.
        let refused = unsafe { Entries::read(unknown.as_ptr()) }.err().unwrap();
        assert!(refused.contains("0x2005"), "{refused}");
    }
}
