//! Owns a driver that wraps a driver and writes down who called what, in order. It changes nothing:
//! faults are other wrappers.

use crate::caps::{
    AdapterCaps, AdapterInfoType, EngineId, NativeFenceCaps, UserModeSubmissionCaps,
};
use crate::display::SetVidPnSourceAddress;
use crate::doorbell::{ConnectDoorbellFlags, ConnectedDoorbell, CreateDoorbell};
use crate::driver::{Driver, StartInfo};
use crate::feature::{
    DriverFeatureTable, FeatureSupport, QueryFeatureInterface, QueryFeatureSupport,
};
use crate::fence::{
    CreateNativeFence, OpenNativeFence, SetNativeFenceLogBuffer, UpdateCurrentMode,
    UpdateCurrentValue, UpdateMonitoredValue,
};
use crate::interrupt::InterruptType;
use crate::layer::DriverLayer;
use crate::memory::{AllocationSegments, PagingOperation, StandardAllocation, UpdatePageTable};
use crate::patch::{Patch, PatchLocation, Render, SubmitCommandPhysical};
use crate::power::{ComponentState, DevicePowerState, PowerAction};
use crate::preemption::{CancelCommand, PreemptCommand};
use crate::queue::{
    CreateContext, CreateDevice, CreateHwQueue, SetRootPageTable, SubmitCommandToHwQueue,
    SubmitCommandVirtual,
};
use crate::scheduling::{SetContextSchedulingProperties, SetupPriorityBands};
use crate::timeout::{DebugReason, EngineStatus};
use crate::{Dirql, Dispatch, DriverHandle, Passive, Status};
use std::sync::Arc;
use tidegate_platform::{Mutex, Platform};

/// One call of a DDI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The DDI's name without its prefix.
    pub ddi: &'static str,
    /// What it was about: handles and values, in words.
    pub about: String,
}

/// A driver that writes down its calls.
pub struct Recording {
    inner: Arc<dyn Driver>,
    calls: Mutex<Vec<Called>>,
}

impl Recording {
    /// Wraps `inner`.
    pub fn new(platform: &Platform, inner: Arc<dyn Driver>) -> Arc<Recording> {
        Arc::new(Recording { inner, calls: platform.mutex("recorded calls", Vec::new()) })
    }

    /// The calls since the last look.
    pub fn take(&self) -> Vec<Called> {
        std::mem::take(&mut *self.calls.lock())
    }

    /// The names of the calls since the last look, but for page tables and interrupts.
    pub fn take_names(&self) -> Vec<&'static str> {
        let uninteresting = ["UpdatePageTable", "InterruptRoutine", "DpcRoutine"];
        self.take().into_iter().map(|c| c.ddi).filter(|n| !uninteresting.contains(n)).collect()
    }

    fn note(&self, ddi: &'static str, about: String) {
        self.calls.lock().push(Called { ddi, about });
    }

    fn note_query(&self, what: AdapterInfoType) {
        self.note("QueryAdapterInfo", format!("type {} {what:?}", what as u32));
    }
}

impl DriverLayer for Recording {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn query_feature_support(&self, level: &Passive, args: QueryFeatureSupport) -> FeatureSupport {
        self.note("QueryFeatureSupport", args.feature.to_string());
        self.inner.query_feature_support(level, args)
    }

    fn query_feature_interface(
        &self,
        level: &Passive,
        args: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, Status> {
        self.note("QueryFeatureInterface", format!("{} version {}", args.feature, args.version));
        self.inner.query_feature_interface(level, args)
    }

    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status> {
        self.note("StartDevice", String::new());
        self.inner.start_device(level, start)
    }

    fn stop_device(&self, level: &Passive) {
        self.note("StopDevice", String::new());
        self.inner.stop_device(level);
    }

    fn query_adapter_caps(&self, level: &Passive) -> AdapterCaps {
        self.note_query(AdapterInfoType::DriverCaps);
        self.inner.query_adapter_caps(level)
    }

    fn query_native_fence_caps(&self, level: &Passive) -> NativeFenceCaps {
        self.note_query(AdapterInfoType::NativeFenceCaps);
        self.inner.query_native_fence_caps(level)
    }

    fn query_user_mode_submission_caps(&self, level: &Passive) -> UserModeSubmissionCaps {
        self.note_query(AdapterInfoType::UserModeSubmissionCaps);
        self.inner.query_user_mode_submission_caps(level)
    }

    fn update_page_table(&self, level: &Passive, args: UpdatePageTable<'_>) -> Result<(), Status> {
        self.note("UpdatePageTable", format!("level {} index {}", args.level, args.start_index));
        self.inner.update_page_table(level, args)
    }

    fn get_standard_allocation_driver_data(
        &self,
        level: &Passive,
        args: StandardAllocation<'_>,
    ) -> Result<AllocationSegments, Status> {
        self.note("GetStandardAllocationDriverData", format!("{args:?}"));
        self.inner.get_standard_allocation_driver_data(level, args)
    }

    fn build_paging_buffer(
        &self,
        level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status> {
        let about = match operation {
            PagingOperation::NotifyFenceResidency(fences) => {
                let at: Vec<_> =
                    fences.iter().map(|f| (f.fence, f.current_value, f.monitored_value)).collect();
                format!("NotifyFenceResidency {at:?}")
            }
            other => format!("{other:?}"),
        };
        self.note("BuildPagingBuffer", about);
        self.inner.build_paging_buffer(level, operation)
    }

    fn set_root_page_table(&self, level: &Passive, args: SetRootPageTable) -> Result<(), Status> {
        self.note("SetRootPageTable", format!("{args:?}"));
        self.inner.set_root_page_table(level, args)
    }

    fn create_device(&self, level: &Passive, args: CreateDevice) -> Result<DriverHandle, Status> {
        self.note("CreateDevice", format!("{args:?}"));
        self.inner.create_device(level, args)
    }

    fn destroy_device(&self, level: &Passive, device: DriverHandle) {
        self.note("DestroyDevice", format!("{device:?}"));
        self.inner.destroy_device(level, device);
    }

    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        self.note("CreateContext", format!("{args:?}"));
        self.inner.create_context(level, args)
    }

    fn destroy_context(&self, level: &Passive, context: DriverHandle) {
        self.note("DestroyContext", format!("{context:?}"));
        self.inner.destroy_context(level, context);
    }

    fn suspend_context(
        &self,
        level: &Passive,
        context: DriverHandle,
        suspend_fence: u64,
    ) -> Result<bool, Status> {
        self.note("SuspendContext", format!("{context:?} fence {suspend_fence}"));
        self.inner.suspend_context(level, context, suspend_fence)
    }

    fn setup_priority_bands(
        &self,
        level: &Passive,
        args: SetupPriorityBands,
    ) -> Result<(), Status> {
        self.note("SetupPriorityBands", format!("NORMAL {} %", args.target_normal_band_percentage));
        self.inner.setup_priority_bands(level, args)
    }

    fn set_context_scheduling_properties(
        &self,
        level: &Passive,
        args: SetContextSchedulingProperties,
    ) -> Result<(), Status> {
        let (context, p) = (args.context.0, args.properties);
        let (band, in_process) = (p.priority_band, p.in_process_priority);
        let about =
            format!("context {context} {band:?} {} {in_process}", p.realtime_band_priority_level);
        self.note("SetContextSchedulingProperties", about);
        self.inner.set_context_scheduling_properties(level, args)
    }

    fn resume_context(&self, level: &Passive, context: DriverHandle) -> Result<(), Status> {
        self.note("ResumeContext", format!("{context:?}"));
        self.inner.resume_context(level, context)
    }

    fn submit_command_virtual(
        &self,
        level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        self.note("SubmitCommandVirtual", format!("id {}", args.submission_fence_id));
        self.inner.submit_command_virtual(level, args)
    }

    fn render(&self, level: &Passive, args: Render<'_>) -> Result<Vec<PatchLocation>, Status> {
        let about =
            format!("{} bytes, {} allocations", args.commands.len(), args.allocations.len());
        self.note("Render", about);
        self.inner.render(level, args)
    }

    fn patch(&self, level: &Passive, args: Patch<'_>) -> Result<(), Status> {
        self.note("Patch", format!("{} to {}", args.start_offset, args.end_offset));
        self.inner.patch(level, args)
    }

    fn submit_command(&self, level: &Dispatch, args: SubmitCommandPhysical) -> Result<(), Status> {
        let (id, start, end) = (args.submission_fence_id, args.start_offset, args.end_offset);
        self.note("SubmitCommand", format!("id {id}, {start} to {end}, {:?}", args.context));
        self.inner.submit_command(level, args)
    }

    fn create_hw_queue(
        &self,
        level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        self.note("CreateHwQueue", format!("{args:?}"));
        self.inner.create_hw_queue(level, args)
    }

    fn destroy_hw_queue(&self, level: &Passive, hw_queue: DriverHandle) {
        self.note("DestroyHwQueue", format!("{hw_queue:?}"));
        self.inner.destroy_hw_queue(level, hw_queue);
    }

    fn submit_command_to_hw_queue(
        &self,
        level: &Dispatch,
        args: SubmitCommandToHwQueue,
    ) -> Result<(), Status> {
        self.note("SubmitCommandToHwQueue", format!("progress {}", args.progress_fence_id));
        self.inner.submit_command_to_hw_queue(level, args)
    }

    fn create_native_fence(
        &self,
        level: &Passive,
        args: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status> {
        let about = format!("{:?}", args.os_handle);
        let created = self.inner.create_native_fence(level, args);
        self.note("CreateNativeFence", about);
        created
    }

    fn open_native_fence(
        &self,
        level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        self.note("OpenNativeFence", format!("{args:?}"));
        self.inner.open_native_fence(level, args)
    }

    fn close_native_fence(&self, level: &Passive, local: DriverHandle) {
        self.note("CloseNativeFence", format!("{local:?}"));
        self.inner.close_native_fence(level, local);
    }

    fn destroy_native_fence(&self, level: &Passive, global: DriverHandle) {
        self.note("DestroyNativeFence", format!("{global:?}"));
        self.inner.destroy_native_fence(level, global);
    }

    fn update_monitored_values(&self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]) {
        let values: Vec<u64> = fences.iter().map(|f| f.value).collect();
        self.note("UpdateMonitoredValues", format!("{values:?}"));
        self.inner.update_monitored_values(level, fences);
    }

    fn update_current_values_from_cpu(
        &self,
        level: &Dispatch,
        fences: &[UpdateCurrentValue<'_>],
        mode: UpdateCurrentMode,
    ) {
        let values: Vec<u64> = fences.iter().map(|f| f.value).collect();
        self.note("UpdateCurrentValuesFromCpu", format!("{values:?} {mode:?}"));
        self.inner.update_current_values_from_cpu(level, fences, mode);
    }

    fn set_native_fence_log_buffer(&self, level: &Dispatch, args: SetNativeFenceLogBuffer) {
        self.note(
            "SetNativeFenceLogBuffer",
            format!("{:?} {}", args.log_type, args.number_of_entries),
        );
        self.inner.set_native_fence_log_buffer(level, args);
    }

    fn update_native_fence_logs(&self, level: &Dispatch, hw_queues: &[DriverHandle]) {
        self.note("UpdateNativeFenceLogs", format!("{hw_queues:?}"));
        self.inner.update_native_fence_logs(level, hw_queues);
    }

    fn create_doorbell(
        &self,
        level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        self.note("CreateDoorbell", format!("{:?}", args.os_handle));
        self.inner.create_doorbell(level, args)
    }

    fn connect_doorbell(
        &self,
        level: &Passive,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        self.note("ConnectDoorbell", format!("{doorbell:?}"));
        self.inner.connect_doorbell(level, doorbell, flags)
    }

    fn disconnect_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        self.note("DisconnectDoorbell", format!("{doorbell:?}"));
        self.inner.disconnect_doorbell(level, doorbell);
    }

    fn destroy_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        self.note("DestroyDoorbell", format!("{doorbell:?}"));
        self.inner.destroy_doorbell(level, doorbell);
    }

    fn notify_work_submission(&self, level: &Passive, hw_queue: DriverHandle) {
        self.note("NotifyWorkSubmission", format!("{hw_queue:?}"));
        self.inner.notify_work_submission(level, hw_queue);
    }

    fn set_power_state(
        &self,
        level: &Passive,
        state: DevicePowerState,
        action: PowerAction,
    ) -> Result<(), Status> {
        self.note("SetPowerState", format!("{state:?} {action:?}"));
        self.inner.set_power_state(level, state, action)
    }

    fn set_power_component_f_state(
        &self,
        level: &Dispatch,
        node_ordinal: u32,
        state: ComponentState,
    ) -> Result<(), Status> {
        self.note("SetPowerComponentFState", format!("{state:?} of node {node_ordinal}"));
        self.inner.set_power_component_f_state(level, node_ordinal, state)
    }

    fn preempt_command(&self, level: &Dispatch, args: PreemptCommand) -> Result<(), Status> {
        self.note("PreemptCommand", format!("{args:?}"));
        self.inner.preempt_command(level, args)
    }

    fn cancel_command(&self, level: &Dispatch, args: CancelCommand) -> Result<(), Status> {
        self.note("CancelCommand", format!("{args:?}"));
        self.inner.cancel_command(level, args)
    }

    fn query_current_fence(&self, level: &Dispatch, engine: EngineId) -> Result<u32, Status> {
        self.note("QueryCurrentFence", engine.to_string());
        self.inner.query_current_fence(level, engine)
    }

    fn query_dependent_engine_group(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<u64, Status> {
        self.note("QueryDependentEngineGroup", engine.to_string());
        self.inner.query_dependent_engine_group(level, engine)
    }

    fn query_engine_status(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<EngineStatus, Status> {
        self.note("QueryEngineStatus", engine.to_string());
        self.inner.query_engine_status(level, engine)
    }

    fn reset_engine(&self, level: &Passive, engine: EngineId) -> Result<u32, Status> {
        self.note("ResetEngine", engine.to_string());
        self.inner.reset_engine(level, engine)
    }

    fn reset_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        self.note("ResetFromTimeout", String::new());
        self.inner.reset_from_timeout(level)
    }

    fn restart_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        self.note("RestartFromTimeout", String::new());
        self.inner.restart_from_timeout(level)
    }

    fn reset_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.note("ResetHwEngine", engine.to_string());
        self.inner.reset_hw_engine(level, engine)
    }

    fn resume_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.note("ResumeHwEngine", engine.to_string());
        self.inner.resume_hw_engine(level, engine)
    }

    fn collect_debug_info(
        &self,
        level: &Passive,
        engine: Option<EngineId>,
        reason: DebugReason,
    ) -> Result<String, Status> {
        self.note("CollectDbgInfo", format!("{engine:?} {reason:?}"));
        self.inner.collect_debug_info(level, engine, reason)
    }

    fn set_vid_pn_source_address(
        &self,
        level: &Dirql<'_>,
        args: SetVidPnSourceAddress,
    ) -> Result<(), Status> {
        self.note(
            "SetVidPnSourceAddress",
            format!("{:#x} {:?}", args.primary_address.0, args.flags),
        );
        self.inner.set_vid_pn_source_address(level, args)
    }

    fn set_vid_pn_source_visibility(
        &self,
        level: &Passive,
        vid_pn_source_id: u32,
        visible: bool,
    ) -> Result<(), Status> {
        self.note("SetVidPnSourceVisibility", format!("{vid_pn_source_id} {visible}"));
        self.inner.set_vid_pn_source_visibility(level, vid_pn_source_id, visible)
    }

    fn control_interrupt(
        &self,
        level: &Passive,
        interrupt_type: InterruptType,
        enable: bool,
    ) -> Result<(), Status> {
        self.note("ControlInterrupt", format!("{interrupt_type:?} {enable}"));
        self.inner.control_interrupt(level, interrupt_type, enable)
    }

    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool {
        self.note("InterruptRoutine", String::new());
        self.inner.interrupt_routine(level)
    }

    fn dpc_routine(&self, level: &Dispatch) {
        self.note("DpcRoutine", String::new());
        self.inner.dpc_routine(level);
    }
}
