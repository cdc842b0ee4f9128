//! The two sides of the contract: [`Driver`] and [`Callbacks`].
//!
//! A driver stands behind one adapter. Calls are grouped as in DRIVER_INITIALIZATION_DATA; each
//! says its level by its token and when the kernel calls it.

use crate::caps::{AdapterCaps, EngineId, NativeFenceCaps, UserModeSubmissionCaps};
use crate::display::SetVidPnSourceAddress;
use crate::doorbell::{ConnectDoorbellFlags, ConnectedDoorbell, CreateDoorbell, DisconnectReason};
use crate::entries::OptionalEntries;
use crate::feature::{
    DriverFeatureTable, FeatureInterface, FeatureSupport, QueryFeatureInterface,
    QueryFeatureSupport,
};
use crate::fence::{
    CreateNativeFence, GpuClockCalibration, OpenNativeFence, SetNativeFenceLogBuffer,
    UpdateCurrentMode, UpdateCurrentValue, UpdateMonitoredValue,
};
use crate::interrupt::InterruptData;
use crate::interrupt::InterruptType;
use crate::memory::{
    AllocationSegments, PageTableShape, PagingOperation, Segment, StandardAllocation,
    UpdatePageTable,
};
use crate::patch::{Patch, PatchLocation, Render, SubmitCommandPhysical};
use crate::peer::{LinkNativeFence, PeerDoorbell};
use crate::power::{ComponentState, DevicePowerState, PowerAction};
use crate::preemption::{
    CancelCommand, ContextAllocation, CreateContextAllocation, PreemptCommand,
};
use crate::queue::{
    CreateContext, CreateDevice, CreateHwQueue, SetRootPageTable, SubmitCommandToHwQueue,
    SubmitCommandVirtual,
};
use crate::scheduling::{SetContextSchedulingProperties, SetupPriorityBands};
use crate::timeout::{DebugReason, EngineStatus, HwContextLoss};
use crate::{DdiVersion, Dirql, Dispatch, DriverHandle, OsHandle, Passive, Status};
use std::sync::Arc;
use tidegate_platform::PhysicalMemory;

/// What the kernel gives a driver at start (DXGKRNL_INTERFACE).
#[derive(Clone)]
pub struct StartInfo {
    /// The driver's way back into the kernel.
    pub callbacks: Arc<dyn Callbacks>,
    /// What the kernel has enabled: the service DxgkServicesFeature, which a driver may use from
    /// StartDevice on.
    pub features: Arc<dyn FeatureInterface>,
    /// System memory, for the driver's own rings.
    pub system_memory: PhysicalMemory,
}

/// A kernel-mode driver, as the kernel calls it.
pub trait Driver: Send + Sync {
    /// The version of the contract that the driver is written for. Entries of a later one are never
    /// called.
    #[doc(alias = "DRIVER_INITIALIZATION_DATA")]
    fn ddi_version(&self) -> DdiVersion;

    /// The optional entries that the driver has; none by default. An adapter whose driver declares
    /// a capability without the entries that the capability needs does not start.
    #[doc(alias = "DRIVER_INITIALIZATION_DATA")]
    fn optional_entries(&self) -> OptionalEntries {
        OptionalEntries::empty()
    }

    /// Before [`Driver::start_device`], once for each feature that the kernel knows: what the
    /// driver supports. The hardware is not to be touched yet.
    #[doc(alias = "DXGKDDI_QUERYFEATURESUPPORT")]
    fn query_feature_support(&self, level: &Passive, args: QueryFeatureSupport) -> FeatureSupport;

    /// After [`Driver::start_device`], once for each enabled feature: the driver's table. At the
    /// negotiated version and with room for the table this must succeed; the statuses are those of
    /// [`FeatureInterface::query_feature_interface`].
    #[doc(alias = "DXGKDDI_QUERYFEATUREINTERFACE")]
    fn query_feature_interface(
        &self,
        level: &Passive,
        args: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, Status>;

    /// The driver may talk to its hardware from now on.
    #[doc(alias = "DxgkDdiStartDevice")]
    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status>;

    /// Last call.
    #[doc(alias = "DxgkDdiStopDevice")]
    fn stop_device(&self, level: &Passive);

    /// After [`Driver::start_device`]: what the adapter can do.
    #[doc(alias = "DxgkDdiQueryAdapterInfo")]
    fn query_adapter_caps(&self, level: &Passive) -> AdapterCaps;

    /// DxgkDdiQueryAdapterInfo(NATIVE_FENCE_CAPS), only when native fences are enabled and
    /// declared.
    #[doc(alias = "DXGKQAITYPE_NATIVE_FENCE_CAPS")]
    fn query_native_fence_caps(&self, level: &Passive) -> NativeFenceCaps;

    /// DxgkDdiQueryAdapterInfo(USERMODESUBMISSION_CAPS), only when user-mode submission is enabled
    /// and a node declares it.
    #[doc(alias = "DXGKQAITYPE_USERMODESUBMISSION_CAPS")]
    fn query_user_mode_submission_caps(&self, level: &Passive) -> UserModeSubmissionCaps;

    /// The shape of the page tables that [`Driver::update_page_table`] writes.
    #[doc(alias = "DXGK_GPUMMUCAPS")]
    fn page_table_shape(&self, level: &Passive) -> PageTableShape;

    /// The adapter's local memory segments.
    #[doc(alias = "DXGKQAITYPE_QUERYSEGMENT4")]
    fn query_segments(&self, level: &Passive) -> Vec<Segment>;

    /// Writes page table entries in the driver's format and forgets cached translations of them.
    #[doc(alias = "DxgkDdiBuildPagingBuffer")]
    fn update_page_table(&self, level: &Passive, args: UpdatePageTable<'_>) -> Result<(), Status>;

    /// Where a standard allocation may stand. NOT_SUPPORTED: the driver offers no segment for it.
    #[doc(alias = "DxgkDdiGetStandardAllocationDriverData")]
    fn get_standard_allocation_driver_data(
        &self,
        level: &Passive,
        args: StandardAllocation<'_>,
    ) -> Result<AllocationSegments, Status>;

    /// Moves memory, writes the commands that move it, or tells that it was moved.
    #[doc(alias = "DxgkDdiBuildPagingBuffer")]
    fn build_paging_buffer(
        &self,
        level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status>;

    /// Names a process's root page table.
    #[doc(alias = "DxgkDdiSetRootPageTable")]
    fn set_root_page_table(&self, level: &Passive, args: SetRootPageTable) -> Result<(), Status>;

    /// A process opens the adapter.
    #[doc(alias = "DxgkDdiCreateDevice")]
    fn create_device(&self, level: &Passive, args: CreateDevice) -> Result<DriverHandle, Status>;

    /// After all its contexts are gone.
    #[doc(alias = "DxgkDdiDestroyDevice")]
    fn destroy_device(&self, level: &Passive, device: DriverHandle);

    /// A context, for packets or for hardware queues. Created resumed.
    #[doc(alias = "DxgkDdiCreateContext")]
    #[doc(alias = "DxgkDdiCreateHwContext")]
    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status>;

    /// After its work and its queues are gone.
    #[doc(alias = "DxgkDdiDestroyContext")]
    #[doc(alias = "DxgkDdiDestroyHwContext")]
    fn destroy_context(&self, level: &Passive, context: DriverHandle);

    /// Takes all hardware queues of the context off the run list. `Ok(true)`: suspended already;
    /// `Ok(false)`: pending, and [`InterruptData::SuspendContextCompleted`] with this fence will
    /// say when. Fences rise with each call for a context: a request may be followed by a resume
    /// and another one before it is complete.
    #[doc(alias = "DxgkDdiSuspendContext")]
    fn suspend_context(
        &self,
        level: &Passive,
        context: DriverHandle,
        suspend_fence: u64,
    ) -> Result<bool, Status>;

    /// Puts them back.
    #[doc(alias = "DxgkDdiResumeContext")]
    fn resume_context(&self, level: &Passive, context: DriverHandle) -> Result<(), Status>;

    /// Right after the adapter's start, where hardware scheduling is in use: what holds for each
    /// band. NOT_SUPPORTED from a driver whose hardware knows no bands.
    #[doc(alias = "DxgkDdiSetupPriorityBands")]
    fn setup_priority_bands(
        &self,
        _level: &Passive,
        _args: SetupPriorityBands,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Where a hardware context stands among others, whenever that changes. It begins in NORMAL,
    /// with all else 0.
    #[doc(alias = "DxgkDdiSetContextSchedulingProperties")]
    fn set_context_scheduling_properties(
        &self,
        _level: &Passive,
        _args: SetContextSchedulingProperties,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// One DMA packet for a node. Packets of a node complete in order of submission.
    #[doc(alias = "DxgkDdiSubmitCommandVirtual")]
    fn submit_command_virtual(
        &self,
        level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status>;

    /// Checks commands of a process and writes the DMA buffer that does what they say, in the
    /// driver's own format, with no address in it: returns where addresses go. INVALID_PARAMETER
    /// for commands that make no sense or reach beyond the allocations that are listed;
    /// GRAPHICS_INSUFFICIENT_DMA_BUFFER when the buffer is too small.
    // spec: PRE-034
    #[doc(alias = "DxgkDdiRender")]
    fn render(&self, _level: &Passive, _args: Render<'_>) -> Result<Vec<PatchLocation>, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Patches the addresses of a part that is submitted next. Nothing else of the buffer changes:
    /// linked adapters may run it.
    #[doc(alias = "DxgkDdiPatch")]
    fn patch(&self, _level: &Passive, _args: Patch<'_>) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// One DMA packet with physical addresses. Otherwise as [`Driver::submit_command_virtual`].
    #[doc(alias = "DxgkDdiSubmitCommand")]
    fn submit_command(
        &self,
        _level: &Dispatch,
        _args: SubmitCommandPhysical,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// A hardware queue in a context.
    #[doc(alias = "DxgkDdiCreateHwQueue")]
    fn create_hw_queue(&self, level: &Passive, args: CreateHwQueue)
    -> Result<DriverHandle, Status>;

    /// No GPU reference may remain.
    #[doc(alias = "DxgkDdiDestroyHwQueue")]
    fn destroy_hw_queue(&self, level: &Passive, hw_queue: DriverHandle);

    /// One command buffer for a kernel-mode hardware queue. Not called twice at once for one queue.
    #[doc(alias = "DxgkDdiSubmitCommandToHwQueue")]
    fn submit_command_to_hw_queue(
        &self,
        level: &Dispatch,
        args: SubmitCommandToHwQueue,
    ) -> Result<(), Status>;

    // spec: NF-078, NF-079
    /// A native fence, once per adapter. Returns the driver's global handle and the private data to
    /// give back.
    #[doc(alias = "DxgkDdiCreateNativeFence")]
    fn create_native_fence(
        &self,
        level: &Passive,
        args: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status>;

    /// An instance of a native fence: right after creation for the creator, and once per opening
    /// device.
    #[doc(alias = "DxgkDdiOpenNativeFence")]
    fn open_native_fence(
        &self,
        level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status>;

    /// An instance dies.
    #[doc(alias = "DxgkDdiCloseNativeFence")]
    fn close_native_fence(&self, level: &Passive, local: DriverHandle);

    /// The last instance is closed; the kernel frees the storage after this.
    #[doc(alias = "DxgkDdiDestroyNativeFence")]
    fn destroy_native_fence(&self, level: &Passive, global: DriverHandle);

    /// The smallest value that a CPU waiter waits for has changed. When this returns, any
    /// CurrentValue that any processor reads was written by an agent that had seen the new
    /// MonitoredValue.
    #[doc(alias = "DxgkDdiUpdateMonitoredValues")]
    // spec: NF-132
    fn update_monitored_values(&self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]);

    /// A CPU signal, a propagation from another adapter, or a device in error.
    #[doc(alias = "DxgkDdiUpdateCurrentValuesFromCpu")]
    // spec: NF-133
    fn update_current_values_from_cpu(
        &self,
        level: &Dispatch,
        fences: &[UpdateCurrentValue<'_>],
        mode: UpdateCurrentMode,
    );

    /// The adapter's common doorbell, for other adapters' drivers. Asked for only when the caps
    /// declare it.
    fn common_doorbell(&self, _level: &Passive) -> Result<PeerDoorbell, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Another adapter's common doorbell, under the number by which [`LinkNativeFence`] names that
    /// adapter. NOT_SUPPORTED when the hardware cannot write to it: then the kernel propagates
    /// signals between the two.
    fn connect_peer(
        &self,
        _level: &Passive,
        _peer: u32,
        _doorbell: PeerDoorbell,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Which other adapters have a fence open. When this returns, the GPU tells them of every
    /// signal that it stores from now on, and acts on what they tell it.
    fn link_native_fence(&self, _level: &Passive, _args: LinkNativeFence) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Where a hardware queue's log is now. The new place is in use when this returns.
    #[doc(alias = "DxgkDdiSetNativeFenceLogBuffer")]
    fn set_native_fence_log_buffer(&self, level: &Dispatch, args: SetNativeFenceLogBuffer);

    /// How the times in fence logs relate to the CPU's clock.
    #[doc(alias = "DxgkDdiCalibrateGpuClock")]
    fn calibrate_gpu_clock(&self, level: &Dispatch, node_ordinal: u32) -> GpuClockCalibration;

    /// Before the kernel reads log entries: the driver supplies the barrier between entries and
    /// index, for all logs of each named queue.
    #[doc(alias = "DxgkDdiUpdateNativeFenceLogs")]
    fn update_native_fence_logs(&self, level: &Dispatch, hw_queues: &[DriverHandle]);

    /// A doorbell object. Must not assign a physical doorbell yet.
    #[doc(alias = "DxgkDdiCreateDoorbell")]
    fn create_doorbell(
        &self,
        level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status>;

    /// Gives the doorbell hardware, taking it from another one if it must (see
    /// [`Callbacks::disconnect_doorbell`]). Fails only when the GPU is lost or stopped.
    #[doc(alias = "DxgkDdiConnectDoorbell")]
    fn connect_doorbell(
        &self,
        level: &Passive,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status>;

    /// Takes the hardware away. The object stays.
    #[doc(alias = "DxgkDdiDisconnectDoorbell")]
    fn disconnect_doorbell(&self, level: &Passive, doorbell: DriverHandle);

    /// Frees the object, disconnecting it if needed.
    #[doc(alias = "DxgkDdiDestroyDoorbell")]
    fn destroy_doorbell(&self, level: &Passive, doorbell: DriverHandle);

    /// New work stands in the ring of this queue: from a client whose status is CONNECTED_NOTIFY,
    /// or from the kernel after a disconnect that may have lost a ring.
    #[doc(alias = "DxgkDdiNotifyWorkSubmission")]
    fn notify_work_submission(&self, level: &Passive, hw_queue: DriverHandle);

    /// Gives the adapter power or takes it. Before D3 every hardware context is suspended and every
    /// doorbell disconnected; until D0 no other call is made. D0 must succeed. D3 may be refused
    /// when the action is none and there is work.
    #[doc(alias = "DxgkDdiSetPowerState")]
    fn set_power_state(
        &self,
        _level: &Passive,
        _state: DevicePowerState,
        _action: PowerAction,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Gives an engine power or takes it; it runs nothing in F1. `component` is the engine's number
    /// ([`AdapterCaps::engine_number`]). F0 must succeed. F1 is refused when there is work: the
    /// kernel does not know of all that user-mode queues have.
    #[doc(alias = "DxgkDdiSetPowerComponentFState")]
    fn set_power_component_f_state(
        &self,
        _level: &Dispatch,
        _component: u32,
        _state: ComponentState,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Asks for all packets of an engine that are not complete. Answered by
    /// [`InterruptData::DmaPreempted`]; when everything is complete and reported, by the driver
    /// itself.
    #[doc(alias = "DxgkDdiPreemptCommand")]
    fn preempt_command(&self, _level: &Dispatch, _args: PreemptCommand) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// A packet that the driver was never given is given up. Only with
    /// [`crate::VidSchCaps::CANCEL_COMMAND_AWARE`].
    #[doc(alias = "DxgkDdiCancelCommand")]
    fn cancel_command(&self, _level: &Dispatch, _args: CancelCommand) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// The last packet of an engine that is complete, reported or not: asked near a timeout, for
    /// interrupts get lost.
    #[doc(alias = "DxgkDdiQueryCurrentFence")]
    fn query_current_fence(&self, _level: &Dispatch, _engine: EngineId) -> Result<u32, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// The nodes that a reset of this engine resets too, bit by bit, its own among them. Asked
    /// before each reset.
    #[doc(alias = "DxgkDdiQueryDependentEngineGroup")]
    fn query_dependent_engine_group(
        &self,
        _level: &Passive,
        _engine: EngineId,
    ) -> Result<u64, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Whether an engine takes part.
    #[doc(alias = "DxgkDdiQueryEngineStatus")]
    fn query_engine_status(
        &self,
        _level: &Passive,
        _engine: EngineId,
    ) -> Result<EngineStatus, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Resets an engine: on return nothing is on it and it takes new packets. Returns the id of the
    /// packet that was cut off, or, when there was none any more, of the last complete one
    /// (LastAbortedFenceId). A failure leads to a reset of the adapter.
    #[doc(alias = "DxgkDdiResetEngine")]
    fn reset_engine(&self, _level: &Passive, _engine: EngineId) -> Result<u32, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// The adapter is reset: nothing runs on it when this returns, and the driver touches no
    /// allocation until [`Driver::restart_from_timeout`].
    #[doc(alias = "DxgkDdiResetFromTimeout")]
    fn reset_from_timeout(&self, _level: &Passive) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// The kernel has cleaned up after a reset of the adapter: it is used again.
    #[doc(alias = "DxgkDdiRestartFromTimeout")]
    fn restart_from_timeout(&self, _level: &Passive) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Resets the engine of hardware queues. The driver names each context that lost work by
    /// [`Callbacks::invalidate_hw_context`]; the engine runs nothing until
    /// [`Driver::resume_hw_engine`].
    #[doc(alias = "DxgkDdiResetHwEngine")]
    fn reset_hw_engine(&self, _level: &Passive, _engine: EngineId) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// The engine goes on after a reset.
    #[doc(alias = "DxgkDdiResumeHwEngine")]
    fn resume_hw_engine(&self, _level: &Passive, _engine: EngineId) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// What the driver can say about the state that a recovery finds, in words; at most 4 KiB are
    /// kept.
    #[doc(alias = "DxgkDdiCollectDbgInfo")]
    fn collect_debug_info(
        &self,
        _level: &Passive,
        _engine: Option<EngineId>,
        _reason: DebugReason,
    ) -> Result<String, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Shows another surface from the next vertical sync on: a memory-mapped flip. The surface
    /// before stays on the screen until an interrupt says that this one was latched. Called with
    /// the interrupt lock held, so that no vertical sync is reported meanwhile.
    #[doc(alias = "DxgkDdiSetVidPnSourceAddress")]
    fn set_vid_pn_source_address(
        &self,
        _level: &Dirql<'_>,
        _args: SetVidPnSourceAddress,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Makes a source visible, or dark: when that is done the display reads no surface, and none is
    /// waited for to be latched.
    #[doc(alias = "DxgkDdiSetVidPnSourceVisibility")]
    fn set_vid_pn_source_visibility(
        &self,
        _level: &Passive,
        _vid_pn_source_id: u32,
        _visible: bool,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Turns a kind of interrupt on or off: [`InterruptType::CrtcVsync`] is the only one that is
    /// asked for.
    #[doc(alias = "DxgkDdiControlInterrupt")]
    fn control_interrupt(
        &self,
        _level: &Passive,
        _interrupt_type: InterruptType,
        _enable: bool,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// The line went up. Reads and clears the cause, reports with [`Callbacks::notify_interrupt`],
    /// asks for the deferred routine with [`Callbacks::queue_dpc`]. Returns whether the interrupt
    /// was the adapter's.
    #[doc(alias = "DxgkDdiInterruptRoutine")]
    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool;

    /// The deferred routine. Calls [`Callbacks::notify_dpc`].
    #[doc(alias = "DxgkDdiDpcRoutine")]
    fn dpc_routine(&self, level: &Dispatch);

    /// Connects the driver's hardware to the kernel's interrupt dispatch; the kernel calls it once,
    /// after start.
    fn connect_interrupt(&self, level: &Passive, service: Arc<dyn InterruptService>);
}

/// The kernel's interrupt dispatch, as the bus calls it.
pub trait InterruptService: Send + Sync {
    /// The line went up.
    fn raise(&self);
    /// The raising agent's turn is over.
    fn turn_ended(&self);
}

/// The kernel, as a driver calls it.
pub trait Callbacks: Send + Sync {
    /// Reports one interrupt's data.
    #[doc(alias = "DxgkCbNotifyInterrupt")]
    fn notify_interrupt(&self, level: &Dirql<'_>, data: InterruptData);

    /// Asks for the deferred routine.
    #[doc(alias = "DxgkCbQueueDpc")]
    fn queue_dpc(&self, level: &Dirql<'_>);

    /// From the deferred routine: the scheduler takes what was reported.
    #[doc(alias = "DxgkCbNotifyDpc")]
    fn notify_dpc(&self, level: &Dispatch);

    // spec: UMS-068
    /// Takes a doorbell away from a queue (victimising). Only after it returns may the driver treat
    /// the physical doorbell as free. INVALID_PARAMETER when the kernel knows no such doorbell for
    /// that queue; success in every other case, also if it is disconnected already.
    #[doc(alias = "DxgkCbDisconnectDoorbell")]
    fn disconnect_doorbell(
        &self,
        level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status>;

    /// Makes memory for the state of a context, or of a device for all its contexts. The kernel
    /// keeps it over eviction and moves; its first content is built by DxgkDdiBuildPagingBuffer.
    /// Memory of a device has its content when the call returns, so the call waits for the GPU. It
    /// must not be made from a reset or a change of power, nor from DxgkDdiCreateDevice, where the
    /// kernel does not know the device yet.
    #[doc(alias = "DxgkCbCreateContextAllocation")]
    fn create_context_allocation(
        &self,
        level: &Passive,
        args: CreateContextAllocation,
    ) -> Result<ContextAllocation, Status>;

    /// Frees it. INVALID_HANDLE when there is none.
    // spec: PRE-014
    #[doc(alias = "DxgkCbDestroyContextAllocation")]
    fn destroy_context_allocation(
        &self,
        level: &Passive,
        allocation: OsHandle,
    ) -> Result<(), Status>;

    /// From [`Driver::reset_hw_engine`]: what the reset did to a context.
    #[doc(alias = "DxgkCbInvalidateHwContext")]
    fn invalidate_hw_context(
        &self,
        level: &Passive,
        context: OsHandle,
        loss: HwContextLoss,
    ) -> Result<(), Status>;
}
