//! The surface of one process.
//!
//! Every call validates its handles and numbers and changes nothing when it fails. Statuses, unless
//! stated otherwise: INVALID_PARAMETER for an invalid handle, number or flag; ACCESS_DENIED for an
//! instance without the right; NOT_SUPPORTED by the adapter or node; DEVICE_REMOVED for a lost
//! device; CANCELLED when the machine stopped.

use crate::adapter::{AdapterInfo, ClockCalibration};
use crate::allocation::{
    Allocation, AllocationMemory, CreateAllocation, ReserveGpuVirtualAddress, ReservedAddresses,
    UpdateGpuVirtualAddress,
};
use crate::device::{
    CreateContextVirtual, CreateHwContext, CreateHwQueue, DeviceErrorReason, DeviceState, HwQueue,
    Render, SubmitCommand, SubmitCommandToHwQueue, TdrTest,
};
use crate::display::{DisplayInfo, Present};
use crate::doorbell::{Connection, CreateDoorbell, Doorbell};
use crate::fence::{
    CpuWaitRegistration, CreateMonitoredFence, CreateNativeFence, FenceInstance, FenceValue,
    LogDetail, SignalFlags, SignalFromGpu2, SubmitSignalToHwQueues, WaitMode, WaitNotice,
};
use crate::older::{CreateSynchronizationObject, OpenSynchronizationObject, SynchronizationObject};
use crate::paging::{
    AllocationResidency, CreatePagingQueue, MakeResident, PagingQueue, Residency,
    ResidencyPriority, SegmentGroup, VideoMemoryInfo,
};
use crate::resource::{CreateResource, OpenedResource, Resource, ResourceData, ResourceName};
use crate::share::{NtHandle, OpenSyncObject, SyncObjectAccess};
use crate::{Handle, Status};
use tidegate_platform::{Event, QueueNumber};

/// The D3DKMT calls of one process.
pub trait Kernel: Send + Sync {
    /// Returns the adapter's capabilities.
    #[doc(alias = "D3DKMTQueryAdapterInfo")]
    fn query_adapter_info(&self) -> AdapterInfo;

    /// Reads the clocks of an engine and of the CPU together. INVALID_PARAMETER for an engine that
    /// is not there.
    #[doc(alias = "D3DKMTQueryClockCalibration")]
    fn query_clock_calibration(
        &self,
        _node_ordinal: u32,
        _engine_ordinal: u32,
    ) -> Result<ClockCalibration, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Creates a device on the adapter.
    #[doc(alias = "D3DKMTCreateDevice")]
    fn create_device(&self) -> Result<Handle, Status>;

    /// Ends a device with all its objects.
    #[doc(alias = "D3DKMTDestroyDevice")]
    fn destroy_device(&self, device: Handle) -> Result<(), Status>;

    /// Returns the state of the device.
    #[doc(alias = "D3DKMTGetDeviceState")]
    fn device_state(&self, device: Handle) -> Result<DeviceState, Status>;

    /// Puts the device into error: its queued work is given up, and its fences read their maximum.
    /// A device that was lost before keeps its first reason.
    #[doc(alias = "D3DKMTMarkDeviceAsError")]
    fn mark_device_as_error(
        &self,
        _device: Handle,
        _reason: DeviceErrorReason,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// DisableGpuTimeout, of D3DDDI_CREATECONTEXTFLAGS and of D3DDDI_CREATEHWQUEUEFLAGS: removes
    /// the time limit of a context's packets or a hardware queue's work. Call it before work is
    /// queued. ACCESS_DENIED without the privilege to raise priorities, because such work can
    /// occupy an engine for ever.
    #[doc(alias = "DisableGpuTimeout")]
    fn disable_gpu_timeout(&self, _object: Handle) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Returns the number of a context or hardware queue in reports, statistics and the timeline.
    /// Not published; `None` from a kernel without them.
    fn queue_number(&self, _queue: Handle) -> Option<QueueNumber> {
        None
    }

    /// D3DKMTEscape with D3DKMT_ESCAPE_TDRDBGCTRL: simulates a timeout, or changes the treatment of
    /// timeouts. For tests; other kernels return NOT_SUPPORTED.
    #[doc(alias = "D3DKMT_ESCAPE_TDRDBGCTRL")]
    fn debug_timeouts(&self, _test: TdrTest) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Creates an allocation.
    #[doc(alias = "D3DKMTCreateAllocation2")]
    fn create_allocation(&self, args: CreateAllocation) -> Result<Allocation, Status>;

    /// Destroys an allocation. Its memory stays while a doorbell uses it. INVALID_PARAMETER for one
    /// of a shared resource.
    #[doc(alias = "D3DKMTDestroyAllocation2")]
    fn destroy_allocation(&self, allocation: Handle) -> Result<(), Status>;

    /// Returns the memory of an allocation of the device, as its creation did. It is valid while
    /// the allocation exists, so there is no unlock. INVALID_PARAMETER for an allocation of another
    /// device.
    #[doc(alias = "D3DKMTLock2")]
    fn lock2(&self, _device: Handle, _allocation: Handle) -> Result<AllocationMemory, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Makes allocations a shared resource. INVALID_PARAMETER for allocations of another resource
    /// or device; NOT_SUPPORTED for memory that moves.
    #[doc(alias = "D3DKMTCreateAllocation2")]
    fn create_resource(&self, _args: CreateResource<'_>) -> Result<Resource, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Returns what the creator of a shared resource has passed. INVALID_PARAMETER for a global
    /// handle whose resource has ended or is of another adapter; OBJECT_TYPE_MISMATCH for an NT
    /// handle of anything else.
    #[doc(alias = "D3DKMTQueryResourceInfo")]
    #[doc(alias = "D3DKMTQueryResourceInfoFromNtHandle")]
    fn query_resource_info(
        &self,
        _device: Handle,
        _name: ResourceName<'_>,
    ) -> Result<ResourceData, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Opens a shared resource for a device. Statuses as of [`Kernel::query_resource_info`].
    #[doc(alias = "D3DKMTOpenResource")]
    #[doc(alias = "D3DKMTOpenResourceFromNtHandle")]
    fn open_resource(
        &self,
        _device: Handle,
        _name: ResourceName<'_>,
    ) -> Result<OpenedResource, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Ends this process's part of a shared resource, with its allocations.
    #[doc(alias = "D3DKMTDestroyAllocation2")]
    fn destroy_resource(&self, _resource: Handle) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Reserves GPU addresses. Engines that use them fault until memory is mapped there.
    #[doc(alias = "D3DKMTReserveGpuVirtualAddress")]
    fn reserve_gpu_virtual_address(
        &self,
        _args: ReserveGpuVirtualAddress,
    ) -> Result<ReservedAddresses, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Unmaps reserved addresses and frees them. No queued work uses them any more.
    #[doc(alias = "D3DKMTFreeGpuVirtualAddress")]
    fn free_gpu_virtual_address(&self, _reserved: Handle) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Queues changes of the memory behind reserved addresses, in the order that a fence gives.
    /// Memory that is mapped stays until it is unmapped. INVALID_PARAMETER, without effect, for
    /// tiles outside the reserved addresses or the allocation, and for an allocation of words or of
    /// another device.
    #[doc(alias = "D3DKMTUpdateGpuVirtualAddress")]
    fn update_gpu_virtual_address(&self, _args: UpdateGpuVirtualAddress<'_>) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// A paging queue: an order of residency operations, and the fence that says which are done. A
    /// kernel that keeps everything resident has none, and refuses this and the calls that follow
    /// with NOT_SUPPORTED.
    #[doc(alias = "D3DKMTCreatePagingQueue")]
    fn create_paging_queue(&self, _args: CreatePagingQueue) -> Result<PagingQueue, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Ends a paging queue and its fence. Its pending operations are still carried out.
    #[doc(alias = "D3DKMTDestroyPagingQueue")]
    fn destroy_paging_queue(&self, _paging_queue: Handle) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Adds a reference to each allocation, and pages in those that are not resident. Allocations
    /// with references stay resident. Lack of room is reported by [`Residency::OverBudget`], not as
    /// an error.
    #[doc(alias = "D3DKMTMakeResident")]
    fn make_resident(&self, _args: MakeResident<'_>) -> Result<Residency, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Removes one reference of each allocation. An allocation without references may be evicted
    /// when all work that the device has queued until now is complete; later work that uses it
    /// faults. INVALID_PARAMETER, without effect, if an allocation has no reference.
    #[doc(alias = "D3DKMTEvict")]
    fn evict(&self, _device: Handle, _allocations: &[Handle]) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Sets how late each allocation leaves local memory. It is in force from the next eviction on.
    #[doc(alias = "D3DKMTSetAllocationPriority")]
    fn set_allocation_priority(
        &self,
        _device: Handle,
        _allocations: &[Handle],
        _priority: ResidencyPriority,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Returns where each allocation is, as of now.
    #[doc(alias = "D3DKMTQueryAllocationResidency")]
    fn query_allocation_residency(
        &self,
        _device: Handle,
        _allocations: &[Handle],
    ) -> Result<Vec<AllocationResidency>, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Returns the budget and the use of the adapter's memory by the process.
    #[doc(alias = "D3DKMTQueryVideoMemoryInfo")]
    fn query_video_memory_info(&self, _group: SegmentGroup) -> Result<VideoMemoryInfo, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Creates a context whose packets VidSch schedules (model `packet`).
    #[doc(alias = "D3DKMTCreateContextVirtual")]
    fn create_context_virtual(&self, args: CreateContextVirtual) -> Result<Handle, Status>;

    /// After its queued work was given up or done.
    #[doc(alias = "D3DKMTDestroyContext")]
    fn destroy_context(&self, context: Handle) -> Result<(), Status>;

    /// Queues a command buffer on a context.
    #[doc(alias = "D3DKMTSubmitCommand")]
    fn submit_command(&self, args: SubmitCommand) -> Result<(), Status>;

    /// Queues commands with an allocation list on contexts. NOT_SUPPORTED if the driver does not
    /// patch; INVALID_PARAMETER for malformed commands, and commands that reach beyond the list;
    /// NO_MEMORY if one of them needs more than local memory has.
    #[doc(alias = "D3DKMTRender")]
    fn render(&self, _args: Render<'_>) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Creates a hardware context.
    #[doc(alias = "D3DKMTCreateHwContext")]
    fn create_hw_context(&self, args: CreateHwContext) -> Result<Handle, Status>;

    /// Ends a hardware context that has no queues.
    #[doc(alias = "D3DKMTDestroyHwContext")]
    fn destroy_hw_context(&self, hw_context: Handle) -> Result<(), Status>;

    /// Sets the band of a hardware context: -7 to -1 IDLE, 0 NORMAL, 1 to 7 FOCUS, 8 to 39 the
    /// levels 0 to 31 of REALTIME. FOCUS and REALTIME: ACCESS_DENIED without the privilege to raise
    /// priorities.
    #[doc(alias = "D3DKMTSetContextSchedulingPriority")]
    fn set_context_scheduling_priority(
        &self,
        _hw_context: Handle,
        _priority: i32,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Sets the priority of a hardware context inside its process, from -7 to 7; higher runs first.
    #[doc(alias = "D3DKMTSetContextInProcessSchedulingPriority")]
    fn set_context_in_process_scheduling_priority(
        &self,
        _hw_context: Handle,
        _priority: i32,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Creates a hardware queue.
    #[doc(alias = "D3DKMTCreateHwQueue")]
    fn create_hw_queue(&self, args: CreateHwQueue) -> Result<HwQueue, Status>;

    /// Ends a hardware queue that has no doorbell.
    #[doc(alias = "D3DKMTDestroyHwQueue")]
    fn destroy_hw_queue(&self, hw_queue: Handle) -> Result<(), Status>;

    /// Queues a command buffer on a kernel-mode hardware queue. INVALID_PARAMETER for a user-mode
    /// queue.
    #[doc(alias = "D3DKMTSubmitCommandToHwQueue")]
    fn submit_command_to_hw_queue(&self, args: SubmitCommandToHwQueue) -> Result<(), Status>;

    /// Queues a wait for all of 1 to 32 fences on a kernel-mode hardware queue.
    #[doc(alias = "D3DKMTSubmitWaitForSyncObjectsToHwQueue")]
    fn submit_wait_to_hw_queue(
        &self,
        hw_queue: Handle,
        fences: &[FenceValue],
    ) -> Result<(), Status>;

    /// Queues signals of 1 to 32 fences on a kernel-mode hardware queue.
    fn submit_signal_to_hw_queue(
        &self,
        hw_queue: Handle,
        fences: &[FenceValue],
    ) -> Result<(), Status> {
        let (hw_queues, flags) = (&[hw_queue], SignalFlags::empty());
        self.submit_signal_to_hw_queues(SubmitSignalToHwQueues { hw_queues, fences, flags })
    }

    /// Queues one signal packet on all of these kernel-mode hardware queues. The signal is made
    /// when each of them has reached it. A queue that has reached it is held until then. A
    /// destroyed queue counts as having reached it.
    #[doc(alias = "D3DKMTSubmitSignalSyncObjectsToHwQueue")]
    fn submit_signal_to_hw_queues(&self, args: SubmitSignalToHwQueues<'_>) -> Result<(), Status>;

    /// Creates a monitored fence.
    #[doc(alias = "D3DKMTCreateSynchronizationObject2")]
    fn create_monitored_fence(
        &self,
        args: CreateMonitoredFence<'_>,
    ) -> Result<FenceInstance, Status>;

    /// Creates a native fence.
    #[doc(alias = "D3DKMTCreateNativeFence")]
    fn create_native_fence(&self, args: CreateNativeFence<'_>) -> Result<FenceInstance, Status>;

    /// Returns a handle by which other processes can open these objects: one shareable fence, or a
    /// shared resource, for which `access` is [`SyncObjectAccess::all`]. Under `name` every process
    /// of the machine finds it while a handle with this name exists. INVALID_PARAMETER for an
    /// object that is not shareable; NOT_SUPPORTED for the name of a resource; ACCESS_DENIED for
    /// rights that this instance does not have; OBJECT_NAME_COLLISION for a name that is taken;
    /// OBJECT_NAME_INVALID for an empty one, or one with a backslash.
    #[doc(alias = "D3DKMTShareObjects")]
    fn share_objects(
        &self,
        objects: &[Handle],
        access: SyncObjectAccess,
        name: Option<&str>,
    ) -> Result<NtHandle, Status>;

    /// Returns another handle of the object that was shared under this name. OBJECT_NAME_NOT_FOUND
    /// if there is none; ACCESS_DENIED for rights that the sharing did not grant.
    #[doc(alias = "D3DKMTOpenSyncObjectNtHandleFromName")]
    fn open_sync_object_nt_handle_from_name(
        &self,
        name: &str,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status>;

    /// Opens a shared fence of either kind.
    #[doc(alias = "D3DKMTOpenSyncObjectFromNtHandle2")]
    fn open_sync_object_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status>;

    /// Opens a shared fence that is native on this adapter; OBJECT_TYPE_MISMATCH for any other.
    #[doc(alias = "D3DKMTOpenNativeFenceFromNtHandle")]
    fn open_native_fence_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status>;

    /// Closes this process's instance of a fence or an older object. The waiters of a fence's
    /// instance are released, those of an older object with its last instance or NT handle.
    #[doc(alias = "D3DKMTDestroySynchronizationObject")]
    fn destroy_synchronization_object(&self, fence: Handle) -> Result<(), Status>;

    /// Waits for 1 to 4096 fences. Without an event it blocks until the condition holds. With an
    /// event it returns immediately, and the event is set when the condition holds.
    #[doc(alias = "D3DKMTWaitForSynchronizationObjectFromCpu")]
    fn wait_from_cpu(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        event: Option<Event>,
    ) -> Result<(), Status>;

    /// As [`Kernel::wait_from_cpu`] with an event, for a wait that can be cancelled: dropping the
    /// result removes what is left of it. Not published. The caller drops it at PASSIVE_LEVEL.
    fn register_cpu_wait(
        &self,
        _fences: &[FenceValue],
        _mode: WaitMode,
        _notice: WaitNotice,
    ) -> Result<CpuWaitRegistration, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Signals 1 to 32 fences from the CPU and releases their waiters.
    ///
    /// ALLOW_FENCE_REWIND is the only flag. Without it a value below the present one is stored,
    /// counted and reported, or refused with INVALID_PARAMETER on a strict adapter. The same holds
    /// for queued signals, except that a signal which proves lower only when it is made is stored
    /// and counted on a strict adapter, too.
    #[doc(alias = "D3DKMTSignalSynchronizationObjectFromCpu")]
    fn signal_from_cpu(&self, fences: &[FenceValue], flags: SignalFlags) -> Result<(), Status>;

    /// Queues a wait for all of 1 to 32 fences on a context. Later submissions follow it.
    #[doc(alias = "D3DKMTWaitForSynchronizationObjectFromGpu")]
    fn wait_from_gpu(&self, context: Handle, fences: &[FenceValue]) -> Result<(), Status>;

    /// Queues signals of 1 to 32 fences on a context. They are made when all earlier work is
    /// complete.
    #[doc(alias = "D3DKMTSignalSynchronizationObjectFromGpu")]
    fn signal_from_gpu(&self, context: Handle, fences: &[FenceValue]) -> Result<(), Status> {
        let (contexts, flags) = (&[context], SignalFlags::empty());
        self.signal_from_gpu2(SignalFromGpu2 { contexts, fences, flags, cpu_event: None })
    }

    /// Queues one signal packet, or one CPU event, on all of these contexts. It is made when each
    /// of them has reached it. A context that has reached it is held until then. A destroyed
    /// context counts as having reached it. If all are destroyed, fences do not change and the
    /// event is set.
    #[doc(alias = "D3DKMTSignalSynchronizationObjectFromGpu2")]
    fn signal_from_gpu2(&self, args: SignalFromGpu2<'_>) -> Result<(), Status>;

    /// Creates a mutex, a semaphore or a fence of WDDM 1.x. INVALID_PARAMETER for
    /// NT_SECURITY_SHARING without SHARED.
    #[doc(alias = "D3DKMTCreateSynchronizationObject2")]
    fn create_synchronization_object(
        &self,
        _args: CreateSynchronizationObject,
    ) -> Result<SynchronizationObject, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Opens such an object, of this adapter. INVALID_PARAMETER for a global handle whose object
    /// has ended or is of another adapter; OBJECT_TYPE_MISMATCH for an NT handle of anything else.
    #[doc(alias = "D3DKMTOpenSynchronizationObject")]
    fn open_synchronization_object(
        &self,
        _args: OpenSynchronizationObject<'_>,
    ) -> Result<Handle, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Queues waits of a context for 1 to 32 such objects, one after the other; `fence_value` is
    /// that of fences. A wait for a mutex or a semaphore takes its place among the waiters when the
    /// context arrives at it.
    #[doc(alias = "D3DKMTWaitForSynchronizationObject2")]
    fn wait_for_synchronization_objects(
        &self,
        _context: Handle,
        _objects: &[Handle],
        _fence_value: u64,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Queues signals of 1 to 32 such objects on 1 to 64 contexts of one device, as
    /// [`Kernel::signal_from_gpu2`]. A mutex of which a context has ended, or has lost its device,
    /// is signalled for it. A semaphore is not.
    #[doc(alias = "D3DKMTSignalSynchronizationObject2")]
    fn signal_synchronization_objects(
        &self,
        _contexts: &[Handle],
        _objects: &[Handle],
        _flags: SignalFlags,
        _fence_value: u64,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Creates a doorbell for a user-mode queue.
    #[doc(alias = "D3DKMTCreateDoorbell")]
    fn create_doorbell(&self, args: CreateDoorbell) -> Result<Doorbell, Status>;

    /// Connects the doorbell to hardware. No effect on a connected one; DEVICE_REMOVED after ABORT.
    #[doc(alias = "D3DKMTConnectDoorbell")]
    fn connect_doorbell(&self, doorbell: Handle) -> Result<Connection, Status>;

    /// Frees a doorbell; always succeeds on a valid handle.
    #[doc(alias = "D3DKMTDestroyDoorbell")]
    fn destroy_doorbell(&self, doorbell: Handle) -> Result<(), Status>;

    /// Notifies the driver of work, after a ring with the status CONNECTED_NOTIFY.
    #[doc(alias = "D3DKMTNotifyWorkSubmission")]
    fn notify_work_submission(&self, doorbell: Handle) -> Result<(), Status>;

    /// Returns the addresses and the numbering of the fence logs of a user-mode queue.
    #[doc(alias = "D3DKMTGetNativeFenceLogDetail")]
    fn native_fence_log_detail(&self, hw_queue: Handle) -> Result<LogDetail, Status>;

    /// Returns the adapter's display. `None` for an adapter without one, which returns
    /// NOT_SUPPORTED for the following calls.
    #[doc(alias = "D3DKMTGetDisplayModeList")]
    fn display(&self) -> Option<DisplayInfo> {
        None
    }

    /// Queues a picture. It is shown when all earlier work of the queue is complete, at the first
    /// vertical sync that its interval allows. GRAPHICS_PRESENT_DENIED on a user-mode queue;
    /// GRAPHICS_VIDPN_SOURCE_IN_USE while another device presents; GRAPHICS_TRY_AGAIN_LATER for too
    /// many queued pictures.
    #[doc(alias = "D3DKMTPresent")]
    #[doc(alias = "D3DKMTSubmitPresentToHwQueue")]
    fn present(&self, _args: Present) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Blocks until the display's next vertical sync.
    #[doc(alias = "D3DKMTWaitForVerticalBlankEvent")]
    fn wait_for_vertical_blank_event(&self) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }
}
