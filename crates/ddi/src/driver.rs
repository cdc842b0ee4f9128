//! What the kernel calls: [`Driver`] with its groups of entries.
//!
//! One table lists each entry once (see `table.rs` for its form). A driver implements [`Driver`]
//! and the groups that it has. The kernel calls every entry as a method of `dyn Driver`. The first
//! argument of an entry is the level at which the kernel calls it. Entries without the prefix of
//! published names are not published.

use crate::allocation::{CloseAllocation, CreateAllocation, OpenAllocation};
use crate::callbacks::{InterruptService, StartInfo};
use crate::caps::{AdapterCaps, AdapterInfoType, NativeFenceCaps, UserModeSubmissionCaps};
use crate::display::SetVidPnSourceAddress;
use crate::doorbell::{ConnectDoorbellFlags, ConnectedDoorbell, CreateDoorbell};
use crate::engine::EngineId;
use crate::feature::{
    DriverFeatureTable, FeatureId, FeatureSupport, QueryFeatureInterface, QueryFeatureSupport,
};
use crate::fence::{
    CreateNativeFence, GpuClockCalibration, OpenNativeFence, SetNativeFenceLogBuffer,
    UpdateCurrentMode, UpdateCurrentValue, UpdateMonitoredValue,
};
use crate::interrupt::InterruptType;
use crate::memory::{
    AllocationSegments, PageTableShape, PagingOperation, Segment, StandardAllocation,
    UpdatePageTable,
};
use crate::patch::{Patch, PatchLocation, Render, SubmitCommandPhysical};
use crate::peer::{LinkNativeFence, PeerDoorbell};
use crate::power::{ComponentState, DevicePowerState, PowerAction};
use crate::preemption::{CancelCommand, PreemptCommand};
use crate::queue::{
    CreateContext, CreateDevice, CreateHwQueue, SetRootPageTable, SubmitCommandToHwQueue,
    SubmitCommandVirtual,
};
use crate::record::{
    DoorbellCreation, FenceStorage, FenceUpdate, LogBuffer, PageTableUpdate, Paging, Patched,
    Rendered,
};
use crate::scheduling::{SetContextSchedulingProperties, SetupPriorityBands};
use crate::table::{
    ddi_table, declare_entries, enter_entries, forward_entries, list_entries, number_entries,
    override_entries, reach_entries, recorded,
};
use crate::timeout::{DebugInfo, DebugReason, EngineStatus};
use crate::{DdiVersion, Dirql, Dispatch, DriverHandle, Irql, Passive, Status};
use std::fmt;
use std::sync::Arc;
use tidegate_d3dukmdt::Surface;
use tidegate_platform::{PhysicalAddress, Word};

ddi_table! {
/// A kernel-mode driver of one adapter. The entries here are those that every driver has; further
/// entries are in groups, and a driver has all entries of a group or none. An adapter whose
/// driver declares a capability without the group that the capability needs does not start.
trait Driver {
    /// Starts the hardware. The driver may use its hardware from this call on.
    StartDevice "DxgkDdiStartDevice"
    fn start_device(&self, level: &Passive, start: StartInfo => ()) -> Result<(), Status>;

    /// Stops the hardware. The last call.
    StopDevice "DxgkDdiStopDevice"
    fn stop_device(&self, level: &Passive);

    /// Returns what the adapter can do. Called after [`Driver::start_device`].
    #[doc(alias = "DXGKQAITYPE_DRIVERCAPS")]
    QueryAdapterCaps "DxgkDdiQueryAdapterInfo"
    fn query_adapter_caps(&self, level: &Passive) -> AdapterCaps;

    /// Returns the shape of the page tables that [`Driver::update_page_table`] writes. This entry
    /// and the others of GPU virtual addresses are called from WDDM 2.0 on.
    #[doc(alias = "DXGK_GPUMMUCAPS")]
    PageTableShape "DxgkDdiQueryAdapterInfo"
    fn page_table_shape(&self, level: &Passive) -> PageTableShape;

    /// Returns the adapter's segments of local memory.
    #[doc(alias = "DXGKQAITYPE_QUERYSEGMENT4")]
    QuerySegments "DxgkDdiQueryAdapterInfo"
    fn query_segments(&self, level: &Passive) -> Vec<Segment>;

    /// Writes page table entries in the driver's format and invalidates cached translations of
    /// them.
    #[doc(alias = "DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE")]
    UpdatePageTable "DxgkDdiBuildPagingBuffer"
    fn update_page_table(&self, level: &Passive, args: UpdatePageTable<'_> => PageTableUpdate)
        -> Result<(), Status>;

    /// Moves memory, writes the commands that move it, or reports that it was moved.
    BuildPagingBuffer "DxgkDdiBuildPagingBuffer"
    fn build_paging_buffer(&self, level: &Passive, operation: PagingOperation<'_> => Paging)
        -> Result<(), Status>;

    /// Names a process's root page table.
    SetRootPageTable "DxgkDdiSetRootPageTable"
    fn set_root_page_table(&self, level: &Passive, args: SetRootPageTable) -> Result<(), Status>;

    /// Creates a device: a process opens the adapter.
    CreateDevice "DxgkDdiCreateDevice"
    fn create_device(&self, level: &Passive, args: CreateDevice) -> Result<DriverHandle, Status>;

    /// Destroys a device. Called after all its contexts are destroyed.
    DestroyDevice "DxgkDdiDestroyDevice"
    fn destroy_device(&self, level: &Passive, device: DriverHandle);

    /// Creates a context, for packets or for hardware queues. It is created resumed.
    #[doc(alias = "DxgkDdiCreateHwContext")]
    CreateContext "DxgkDdiCreateContext"
    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status>;

    /// Destroys a context. Called after its work and its queues are gone.
    #[doc(alias = "DxgkDdiDestroyHwContext")]
    DestroyContext "DxgkDdiDestroyContext"
    fn destroy_context(&self, level: &Passive, context: DriverHandle);

    /// Submits one DMA packet to a node. Packets of a node complete in order of submission.
    SubmitCommandVirtual "DxgkDdiSubmitCommandVirtual"
    fn submit_command_virtual(&self, level: &Dispatch, args: SubmitCommandVirtual)
        -> Result<(), Status>;

    /// Serves the interrupt line. Reads and clears the cause, reports with
    /// [`crate::Callbacks::notify_interrupt`] and requests the DPC with
    /// [`crate::Callbacks::queue_dpc`]. Returns whether the interrupt was the adapter's.
    InterruptRoutine "DxgkDdiInterruptRoutine"
    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool;

    /// Runs the DPC. Calls [`crate::Callbacks::notify_dpc`].
    DpcRoutine "DxgkDdiDpcRoutine"
    fn dpc_routine(&self, level: &Dispatch);

    /// Connects the driver's hardware to the kernel's interrupt dispatch. Called once, after start.
    ConnectInterrupt "ConnectInterrupt"
    fn connect_interrupt(&self, level: &Passive, service: Arc<dyn InterruptService> => ());
}

/// Which features the driver supports.
#[doc(alias = "DXGKDDI_FEATURE_INTERFACE")]
trait FeatureDdi = Features, fn features, WDDM_3_2, None;
{
    /// Returns what the driver supports of a feature. Called before [`Driver::start_device`], once
    /// for each feature that the kernel knows. The hardware must not be touched yet.
    #[doc(alias = "DXGKDDI_QUERYFEATURESUPPORT")]
    QueryFeatureSupport "DxgkDdiQueryFeatureSupport"
    fn query_feature_support(&self, level: &Passive, args: QueryFeatureSupport) -> FeatureSupport;

    /// Returns the driver's table of an enabled feature. Called after [`Driver::start_device`],
    /// once for each. At the negotiated version and with room for the table this must succeed; the
    /// statuses are as of [`crate::feature::FeatureInterface::query_feature_interface`].
    #[doc(alias = "DXGKDDI_QUERYFEATUREINTERFACE")]
    QueryFeatureInterface "DxgkDdiQueryFeatureInterface"
    fn query_feature_interface(&self, level: &Passive, args: QueryFeatureInterface)
        -> Result<DriverFeatureTable, Status>;
}

/// Hardware queues, for nodes with ContextSchedulingSupported.
trait HwQueueDdi = HwQueues, fn hw_queues, WDDM_2_7, Some(FeatureId::HWSCH);
{
    /// Takes all hardware queues of the context off the run list. `Ok(true)`: the context is
    /// suspended. `Ok(false)`: the suspension is pending, and
    /// [`crate::InterruptData::SuspendContextCompleted`] with this fence reports its end. Fences
    /// rise with each call for a context: a resume and another request may follow before this one
    /// is complete.
    SuspendContext "DxgkDdiSuspendContext"
    fn suspend_context(&self, level: &Passive, context: DriverHandle, suspend_fence: u64)
        -> Result<bool, Status>;

    /// Puts the queues of a suspended context back on the run list.
    ResumeContext "DxgkDdiResumeContext"
    fn resume_context(&self, level: &Passive, context: DriverHandle) -> Result<(), Status>;

    /// Creates a hardware queue in a context.
    CreateHwQueue "DxgkDdiCreateHwQueue"
    fn create_hw_queue(&self, level: &Passive, args: CreateHwQueue)
        -> Result<DriverHandle, Status>;

    /// Destroys a hardware queue. No GPU reference to it may remain.
    DestroyHwQueue "DxgkDdiDestroyHwQueue"
    fn destroy_hw_queue(&self, level: &Passive, hw_queue: DriverHandle);

    /// Submits one command buffer to a kernel-mode hardware queue. Calls for one queue do not
    /// overlap.
    SubmitCommandToHwQueue "DxgkDdiSubmitCommandToHwQueue"
    fn submit_command_to_hw_queue(&self, level: &Dispatch, args: SubmitCommandToHwQueue)
        -> Result<(), Status>;

    /// Resets the engine of hardware queues. The driver reports each context that lost work by
    /// [`crate::Callbacks::invalidate_hw_context`]. The engine runs nothing until
    /// [`HwQueueDdi::resume_hw_engine`].
    ResetHwEngine "DxgkDdiResetHwEngine"
    fn reset_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status>;

    /// Lets the engine run again after a reset.
    ResumeHwEngine "DxgkDdiResumeHwEngine"
    fn resume_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status>;
}

/// Priorities of hardware contexts, for hardware that knows priority bands.
trait PriorityBandDdi = PriorityBands, fn priority_bands, WDDM_2_7, Some(FeatureId::HWSCH);
{
    /// Sets the rules of each band. Called once, after the adapter's start. NOT_SUPPORTED from
    /// hardware without bands.
    SetupPriorityBands "DxgkDdiSetupPriorityBands"
    fn setup_priority_bands(&self, level: &Passive, args: SetupPriorityBands)
        -> Result<(), Status>;

    /// Sets the priority of a hardware context among others. A context starts in NORMAL, with all
    /// other properties 0.
    SetContextSchedulingProperties "DxgkDdiSetContextSchedulingProperties"
    fn set_context_scheduling_properties(
        &self, level: &Passive, args: SetContextSchedulingProperties
    ) -> Result<(), Status>;
}

/// Native fences: objects, storage, updates from the CPU, logs.
trait NativeFenceDdi = NativeFences, fn native_fences, WDDM_3_2, Some(FeatureId::NATIVE_FENCE);
{
    /// Returns the caps of native fences. Called only when native fences are enabled and declared.
    #[doc(alias = "DXGKQAITYPE_NATIVE_FENCE_CAPS")]
    QueryNativeFenceCaps "DxgkDdiQueryAdapterInfo"
    fn query_native_fence_caps(&self, level: &Passive) -> NativeFenceCaps;

    /// Returns the segments for fence storage. NOT_SUPPORTED: the driver has no segment for it.
    GetStandardAllocationDriverData "DxgkDdiGetStandardAllocationDriverData"
    fn get_standard_allocation_driver_data(
        &self, level: &Passive, args: StandardAllocation<'_> => FenceStorage
    ) -> Result<AllocationSegments, Status>;

    // spec: NF-078, NF-079
    /// Creates a native fence, once per adapter. Returns the driver's global handle and the private
    /// data for the user-mode driver.
    CreateNativeFence "DxgkDdiCreateNativeFence"
    fn create_native_fence(&self, level: &Passive, args: CreateNativeFence)
        -> Result<(DriverHandle, [u8; 64]), Status>;

    /// Opens an instance of a native fence: right after creation for the creator, and once per
    /// opening device.
    OpenNativeFence "DxgkDdiOpenNativeFence"
    fn open_native_fence(&self, level: &Passive, args: OpenNativeFence)
        -> Result<DriverHandle, Status>;

    /// Closes an instance.
    CloseNativeFence "DxgkDdiCloseNativeFence"
    fn close_native_fence(&self, level: &Passive, local: DriverHandle);

    /// Destroys a fence. Its last instance is closed; the kernel frees the storage after this.
    DestroyNativeFence "DxgkDdiDestroyNativeFence"
    fn destroy_native_fence(&self, level: &Passive, global: DriverHandle);

    /// Publishes the smallest value that a CPU waiter waits for, after it changed. When this
    /// returns, any CurrentValue that any processor reads was written by an agent that had seen the
    /// new MonitoredValue.
    // spec: NF-132
    UpdateMonitoredValues "DxgkDdiUpdateMonitoredValues"
    fn update_monitored_values(
        &self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>] => Vec<FenceUpdate>
    );

    /// Changes CurrentValues for a CPU signal, a signal from another adapter, or a device in error.
    // spec: NF-133
    UpdateCurrentValuesFromCpu "DxgkDdiUpdateCurrentValuesFromCpu"
    fn update_current_values_from_cpu(
        &self, level: &Dispatch, fences: &[UpdateCurrentValue<'_>] => Vec<FenceUpdate>,
        mode: UpdateCurrentMode
    );

    /// Sets the place of a hardware queue's log. The new place is in use when this returns.
    SetNativeFenceLogBuffer "DxgkDdiSetNativeFenceLogBuffer"
    fn set_native_fence_log_buffer(
        &self, level: &Dispatch, args: SetNativeFenceLogBuffer => LogBuffer
    );

    /// Returns how the times in fence logs relate to the CPU's clock.
    CalibrateGpuClock "DxgkDdiCalibrateGpuClock"
    fn calibrate_gpu_clock(&self, level: &Dispatch, node_ordinal: u32) -> GpuClockCalibration;

    /// Makes log entries readable: the driver supplies the barrier between entries and index, for
    /// all logs of each named queue. Called before the kernel reads them.
    UpdateNativeFenceLogs "DxgkDdiUpdateNativeFenceLogs"
    fn update_native_fence_logs(
        &self, level: &Dispatch, hw_queues: &[DriverHandle] => Vec<DriverHandle>
    );
}

/// User-mode submission: doorbells.
trait UserModeSubmissionDdi = UserModeSubmission, fn user_mode_submission, WDDM_3_1,
    Some(FeatureId::USER_MODE_SUBMISSION);
{
    /// Returns the caps of user-mode submission. Called only when it is enabled and a node declares
    /// it.
    #[doc(alias = "DXGKQAITYPE_USERMODESUBMISSION_CAPS")]
    QueryUserModeSubmissionCaps "DxgkDdiQueryAdapterInfo"
    fn query_user_mode_submission_caps(&self, level: &Passive) -> UserModeSubmissionCaps;

    /// Creates a doorbell object, without a physical doorbell.
    CreateDoorbell "DxgkDdiCreateDoorbell"
    fn create_doorbell(&self, level: &Passive, args: &mut CreateDoorbell => DoorbellCreation)
        -> Result<DriverHandle, Status>;

    /// Connects the doorbell to hardware. May victimise another doorbell
    /// ([`crate::Callbacks::disconnect_doorbell`]). Fails only when the GPU is lost or stopped.
    ConnectDoorbell "DxgkDdiConnectDoorbell"
    fn connect_doorbell(&self, level: &Passive, doorbell: DriverHandle, flags: ConnectDoorbellFlags)
        -> Result<ConnectedDoorbell, Status>;

    /// Disconnects a doorbell from its hardware. The object stays.
    DisconnectDoorbell "DxgkDdiDisconnectDoorbell"
    fn disconnect_doorbell(&self, level: &Passive, doorbell: DriverHandle);

    /// Destroys the object; disconnects it first if needed.
    DestroyDoorbell "DxgkDdiDestroyDoorbell"
    fn destroy_doorbell(&self, level: &Passive, doorbell: DriverHandle);

    /// Reports new work in the ring of a queue: from a client whose status is CONNECTED_NOTIFY, or
    /// from the kernel after a disconnect that may have lost a ring.
    NotifyWorkSubmission "DxgkDdiNotifyWorkSubmission"
    fn notify_work_submission(&self, level: &Passive, hw_queue: DriverHandle);
}

/// Power of the device and of its engines.
trait PowerDdi = Power, fn power, WDDM_1_2, None;
{
    /// Changes the adapter's power state. Before D3 every hardware context is suspended and every
    /// doorbell disconnected; until D0 no other call is made. D0 must succeed. D3 may be refused
    /// when the action is none and there is work.
    SetPowerState "DxgkDdiSetPowerState"
    fn set_power_state(&self, level: &Passive, state: DevicePowerState, action: PowerAction)
        -> Result<(), Status>;

    /// Changes an engine's power state; in F1 it runs nothing. The published call names the engine
    /// as a component (ComponentIndex). F0 must succeed, and may be requested in a DPC. F1 is
    /// requested at PASSIVE level and refused when there is work: the kernel does not know all work
    /// of user-mode queues.
    SetPowerComponentFState "DxgkDdiSetPowerComponentFState"
    fn set_power_component_f_state(&self, level: Irql<'_>, engine: EngineId, state: ComponentState)
        -> Result<(), Status>;
}

/// Preemption of packets, for drivers that are PreemptionAware.
trait PreemptionDdi = Preemption, fn preemption, WDDM_1_2, None;
{
    /// Requests the return of all packets of an engine that are not complete.
    /// [`crate::InterruptData::DmaPreempted`] reports the result. If every packet is complete and
    /// reported, the driver raises it itself.
    PreemptCommand "DxgkDdiPreemptCommand"
    fn preempt_command(&self, level: &Dispatch, args: PreemptCommand) -> Result<(), Status>;
}

/// Cancellation of packets, for drivers that are CancelCommandAware.
trait CancellationDdi = Cancellation, fn cancellation, WDDM_1_2, None;
{
    /// Drops a packet that was never submitted to the driver.
    CancelCommand "DxgkDdiCancelCommand"
    fn cancel_command(&self, level: &Dispatch, args: CancelCommand) -> Result<(), Status>;
}

/// Recovery of the adapter from a timeout.
trait AdapterResetDdi = AdapterReset, fn adapter_reset, WDDM_1_2, None;
{
    /// Returns the id of an engine's last complete packet, reported or not. Called near a timeout,
    /// because interrupts get lost.
    QueryCurrentFence "DxgkDdiQueryCurrentFence"
    fn query_current_fence(&self, level: &Dispatch, engine: EngineId) -> Result<u32, Status>;

    /// Resets the adapter: nothing runs on it when this returns, and the driver touches no
    /// allocation until [`AdapterResetDdi::restart_from_timeout`].
    ResetFromTimeout "DxgkDdiResetFromTimeout"
    fn reset_from_timeout(&self, level: &Passive) -> Result<(), Status>;

    /// Puts the adapter back into use. The kernel has cleaned up after the reset.
    RestartFromTimeout "DxgkDdiRestartFromTimeout"
    fn restart_from_timeout(&self, level: &Passive) -> Result<(), Status>;

    /// Returns the driver's description of the state at a recovery. At most 4 KiB of its text are
    /// kept.
    CollectDbgInfo "DxgkDdiCollectDbgInfo"
    fn collect_debug_info(&self, level: &Passive, engine: Option<EngineId>, reason: DebugReason)
        -> Result<DebugInfo, Status>;
}

/// Recovery of one engine, for drivers with SupportPerEngineTDR.
trait EngineResetDdi = EngineReset, fn engine_reset, WDDM_1_2, None;
{
    /// Returns the nodes that a reset of this engine resets too, one bit each, its own among them.
    /// Called before each reset.
    QueryDependentEngineGroup "DxgkDdiQueryDependentEngineGroup"
    fn query_dependent_engine_group(&self, level: &Passive, engine: EngineId)
        -> Result<u64, Status>;

    /// Returns whether an engine responds.
    QueryEngineStatus "DxgkDdiQueryEngineStatus"
    fn query_engine_status(&self, level: &Passive, engine: EngineId)
        -> Result<EngineStatus, Status>;

    /// Resets an engine: on return nothing is on it and it accepts new packets. Returns the id of
    /// the aborted packet, or, when there was none, of the last complete one (LastAbortedFenceId).
    /// A failure leads to a reset of the adapter.
    ResetEngine "DxgkDdiResetEngine"
    fn reset_engine(&self, level: &Passive, engine: EngineId) -> Result<u32, Status>;
}

/// A display: flips that are memory-mapped and latched at vertical sync.
trait DisplayDdi = Display, fn display, WDDM_1_2, None;
{
    /// Shows another surface from the next vertical sync on: a memory-mapped flip. The previous
    /// surface stays on the screen until an interrupt reports that this one was latched. The caller
    /// holds the interrupt lock, so no vertical sync is reported meanwhile.
    SetVidPnSourceAddress "DxgkDdiSetVidPnSourceAddress"
    fn set_vid_pn_source_address(&self, level: &Dirql<'_>, args: SetVidPnSourceAddress)
        -> Result<(), Status>;

    /// Makes a source visible or dark. The display reads no surface of a dark source, and the
    /// kernel waits for no latch.
    SetVidPnSourceVisibility "DxgkDdiSetVidPnSourceVisibility"
    fn set_vid_pn_source_visibility(&self, level: &Passive, vid_pn_source_id: u32, visible: bool)
        -> Result<(), Status>;

    /// Turns a kind of interrupt on or off. The kernel uses it for [`InterruptType::CrtcVsync`].
    ControlInterrupt "DxgkDdiControlInterrupt"
    fn control_interrupt(&self, level: &Passive, interrupt_type: InterruptType, enable: bool)
        -> Result<(), Status>;
}

/// Allocations of processes as objects of the driver. Order: create, open; then close, destroy. The
/// kernel creates none for its own buffers.
trait AllocationDdi = Allocations, fn allocations, WDDM_1_2, None;
{
    /// Creates the driver's object for memory of a process.
    ///
    /// # Errors
    /// NO_MEMORY: the process gets no allocation. With INVALID_PARAMETER and
    /// GRAPHICS_DRIVER_MISMATCH the driver has no object for it.
    CreateAllocation "DxgkDdiCreateAllocation"
    fn create_allocation(&self, level: &Passive, args: CreateAllocation)
        -> Result<DriverHandle, Status>;

    /// Opens an allocation for a device, and returns the device's handle of it
    /// (hDeviceSpecificAllocation), by which allocation lists name it.
    ///
    /// # Errors
    /// As of [`AllocationDdi::create_allocation`].
    OpenAllocation "DxgkDdiOpenAllocation"
    fn open_allocation(&self, level: &Passive, args: OpenAllocation)
        -> Result<DriverHandle, Status>;

    /// Closes a device's handle. No work that uses it is queued.
    CloseAllocation "DxgkDdiCloseAllocation"
    fn close_allocation(&self, level: &Passive, args: CloseAllocation);

    /// Destroys the driver's object. No device has it open.
    DestroyAllocation "DxgkDdiDestroyAllocation"
    fn destroy_allocation(&self, level: &Passive, allocation: DriverHandle);
}

/// Surfaces as allocations of the driver, for a driver that gets a surface by its handle.
trait PrimaryDdi = Primaries, fn primaries, WDDM_1_2, None;
{
    /// Creates the driver's allocation for surfaces of this description, if there is none. Called
    /// before a flip to such a surface is queued.
    CreatePrimary "DxgkDdiCreateAllocation"
    fn create_primary(&self, level: &Passive, surface: Surface) -> Result<(), Status>;
}

/// Packets with physical addresses, which the driver patches. A driver before WDDM 2.0 has them in
/// the place of packets with GPU virtual addresses.
trait PatchDdi = Patching, fn patching, WDDM_1_2, None;
{
    /// Checks commands of a process and writes the DMA buffer that carries them out, in the
    /// driver's own format and without addresses. Returns where addresses go.
    ///
    /// # Errors
    /// INVALID_PARAMETER for malformed commands, or for commands that reach beyond the allocations
    /// that are listed; GRAPHICS_INSUFFICIENT_DMA_BUFFER when the buffer is too small.
    // spec: PRE-034
    Render "DxgkDdiRender"
    fn render(&self, level: &Passive, args: Render<'_> => Rendered)
        -> Result<Vec<PatchLocation>, Status>;

    /// Patches the addresses of the part that is submitted next. The rest of the buffer stays
    /// unchanged: linked adapters may run it.
    Patch "DxgkDdiPatch"
    fn patch(&self, level: &Passive, args: Patch<'_> => Patched) -> Result<(), Status>;

    /// Submits one DMA packet with physical addresses. Otherwise as
    /// [`Driver::submit_command_virtual`].
    SubmitCommand "DxgkDdiSubmitCommand"
    fn submit_command(&self, level: &Dispatch, args: SubmitCommandPhysical) -> Result<(), Status>;
}

/// Words by which the kernel sees that hardware waits for a fence. A kernel that has the word of a
/// fence stores a CPU signal to CurrentValue itself, and calls
/// [`NativeFenceDdi::update_current_values_from_cpu`] only while the word is not 0
/// (decisions/0093). Not published.
trait FenceWaitDdi = FenceWaits, fn fence_waits, WDDM_1_2, None;
{
    /// Returns the word that is not 0 while a hardware queue may wait for the fence. A queue that
    /// begins to wait changes the word, executes a full barrier and loads CurrentValue again.
    /// `current_value` is the bus address of CurrentValue, which does not change. Called after
    /// [`NativeFenceDdi::create_native_fence`], for fences whose value the CPU reaches. After a
    /// refusal each CPU signal of the fence is a call.
    WaitingWord "WaitingWord"
    fn waiting_word(&self, level: &Passive, fence: DriverHandle, current_value: PhysicalAddress)
        -> Result<Word, Status>;
}

/// Signals between the adapters of one system without the CPU. Not published.
trait PeerDdi = Peers, fn peers, WDDM_1_2, None;
{
    /// Returns the adapter's common doorbell, for other adapters' drivers. Called only when the
    /// caps declare it.
    CommonDoorbell "CommonDoorbell"
    fn common_doorbell(&self, level: &Passive) -> Result<PeerDoorbell, Status>;

    /// Connects a peer's common doorbell. [`LinkNativeFence`] names the peer by its number.
    /// NOT_SUPPORTED when the hardware cannot write to the doorbell; the kernel then propagates
    /// signals between the two adapters.
    ConnectPeer "ConnectPeer"
    fn connect_peer(&self, level: &Passive, peer: u32, doorbell: PeerDoorbell => ())
        -> Result<(), Status>;

    /// Sets the other adapters that have a fence open. When this returns, the GPU reports every
    /// signal that it stores to them, and processes their reports.
    LinkNativeFence "LinkNativeFence"
    fn link_native_fence(&self, level: &Passive, args: LinkNativeFence) -> Result<(), Status>;
}
}

impl Entry {
    /// Returns the type of the query, for the queries of caps.
    pub fn adapter_info_type(self) -> Option<AdapterInfoType> {
        match self {
            Entry::QueryAdapterCaps => Some(AdapterInfoType::DriverCaps),
            Entry::QueryNativeFenceCaps => Some(AdapterInfoType::NativeFenceCaps),
            Entry::QueryUserModeSubmissionCaps => Some(AdapterInfoType::UserModeSubmissionCaps),
            _ => None,
        }
    }
}

impl DdiCall {
    /// Returns the entry's name, without the prefix of published names.
    pub fn name(&self) -> &'static str {
        self.entry().name()
    }

    /// Returns the operation of [`Driver::build_paging_buffer`].
    pub fn paging(&self) -> Option<&Paging> {
        match self {
            DdiCall::BuildPagingBuffer { operation } => Some(operation),
            _ => None,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.published_name())
    }
}

/// Lists the entries.
impl fmt::Display for EntryGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, entry) in self.entries().iter().enumerate() {
            write!(f, "{}{entry}", if place == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for DdiCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
