//! The table of the D3DKMT calls. From it come the trait [`Kernel`](crate::Kernel), the calls of
//! the graphics kernel, the messages of a service with both of their ends, and the layer that tests
//! put before a kernel.
//!
//! A row is the documentation with the published names, the name of the message, what a service has
//! to do for the call, and the signature. `argument: Type => Message` names the form in which a
//! message carries an argument that borrows memory. What a service has to do:
//!
//! - `passed`: nothing but to pass on arguments and result;
//! - `queues`: the same, and the call ends no wait before it returns, so its client looks for none;
//! - `ends`: the object of the first argument no longer counts against the limits;
//! - `forgets`: the same, and the client forgets what it knows of the object;
//! - `makes`: the result is a new object, which counts;
//! - `adapts`: the service passes the call on, and the client has code of its own for the answer;
//! - `refused`: it is for the owner of a machine, not for its clients;
//! - `special`: files, memory or waits are part of the call, so both ends have code for it.
//!
//! Calls under `local` are not sent. A client answers them by messages that are no calls.
//!
//! Entry point: [`for_each_call`].

/// Calls `callback! { [with] local { rows } sent { rows } }`. A callback needs the names of this
/// crate, `Event` and `QueueNumber` in scope.
#[macro_export]
macro_rules! for_each_call {
    ($callback:ident! { $($with:tt)* }) => { $callback! { [$($with)*]
local {
    /// Returns the adapter's capabilities.
    #[doc(alias = "D3DKMTQueryAdapterInfo")]
    QueryAdapterInfo fn query_adapter_info() -> AdapterInfo;

    /// Waits for 1 to 4096 fences. Without an event it blocks until the condition holds. With an
    /// event it returns immediately, and the event is set when the condition holds.
    #[doc(alias = "D3DKMTWaitForSynchronizationObjectFromCpu")]
    WaitFromCpu fn wait_from_cpu(
        fences: &[FenceValue],
        mode: WaitMode,
        event: Option<Event>,
    ) -> Result<(), Status>;

    /// As [`Kernel::wait_from_cpu`] with an event, for a wait that can be cancelled: dropping the
    /// result removes what is left of it. Not published. The caller drops it at PASSIVE_LEVEL.
    RegisterCpuWait fn register_cpu_wait(
        fences: &[FenceValue],
        mode: WaitMode,
        notice: WaitNotice,
    ) -> Result<CpuWaitRegistration, Status>;
}
sent {
    /// Reads the clocks of an engine and of the CPU together. INVALID_PARAMETER for an engine that
    /// is not there.
    #[doc(alias = "D3DKMTQueryClockCalibration")]
    QueryClockCalibration adapts fn query_clock_calibration(
        node_ordinal: u32,
        engine_ordinal: u32,
    ) -> Result<ClockCalibration, Status>;

    /// Creates a device on the adapter.
    #[doc(alias = "D3DKMTCreateDevice")]
    CreateDevice makes fn create_device() -> Result<Handle, Status>;

    /// Ends a device with all its objects.
    #[doc(alias = "D3DKMTDestroyDevice")]
    DestroyDevice forgets fn destroy_device(device: Handle) -> Result<(), Status>;

    /// Returns the state of the device.
    #[doc(alias = "D3DKMTGetDeviceState")]
    DeviceState adapts fn device_state(device: Handle) -> Result<DeviceState, Status>;

    /// Puts the device into error: its queued work is given up, and its fences read their maximum.
    /// A device that was lost before keeps its first reason.
    #[doc(alias = "D3DKMTMarkDeviceAsError")]
    MarkDeviceAsError passed fn mark_device_as_error(
        device: Handle,
        reason: DeviceErrorReason,
    ) -> Result<(), Status>;

    /// DisableGpuTimeout, of D3DDDI_CREATECONTEXTFLAGS and of D3DDDI_CREATEHWQUEUEFLAGS: removes
    /// the time limit of a context's packets or a hardware queue's work. Call it before work is
    /// queued. ACCESS_DENIED without the privilege to raise priorities, because such work can
    /// occupy an engine for ever.
    #[doc(alias = "DisableGpuTimeout")]
    DisableGpuTimeout queues fn disable_gpu_timeout(object: Handle) -> Result<(), Status>;

    /// Returns the number of a context or hardware queue in reports, statistics and the timeline.
    /// Not published; `None` from a kernel without them.
    QueueNumber adapts fn queue_number(queue: Handle) -> Option<QueueNumber>;

    /// D3DKMTEscape with D3DKMT_ESCAPE_TDRDBGCTRL: simulates a timeout, or changes the treatment of
    /// timeouts. For tests; other kernels return NOT_SUPPORTED.
    #[doc(alias = "D3DKMT_ESCAPE_TDRDBGCTRL")]
    DebugTimeouts refused fn debug_timeouts(test: TdrTest) -> Result<(), Status>;

    /// Creates an allocation.
    #[doc(alias = "D3DKMTCreateAllocation2")]
    CreateAllocation special fn create_allocation(
        args: CreateAllocation,
    ) -> Result<Allocation, Status>;

    /// Destroys an allocation. Its memory stays while a doorbell uses it. INVALID_PARAMETER for one
    /// of a shared resource.
    #[doc(alias = "D3DKMTDestroyAllocation2")]
    DestroyAllocation ends fn destroy_allocation(allocation: Handle) -> Result<(), Status>;

    /// Returns the memory of an allocation of the device, as its creation did. It is valid while
    /// the allocation exists, so there is no unlock. INVALID_PARAMETER for an allocation of another
    /// device.
    #[doc(alias = "D3DKMTLock2")]
    Lock2 special fn lock2(device: Handle, allocation: Handle) -> Result<AllocationMemory, Status>;

    /// Makes allocations a shared resource. INVALID_PARAMETER for allocations of another resource
    /// or device; NOT_SUPPORTED for memory that moves.
    #[doc(alias = "D3DKMTCreateAllocation2")]
    CreateResource makes fn create_resource(
        args: CreateResource<'_> => CreateResourceMessage,
    ) -> Result<Resource, Status>;

    /// Returns what the creator of a shared resource has passed. INVALID_PARAMETER for a global
    /// handle whose resource has ended or is of another adapter; OBJECT_TYPE_MISMATCH for an NT
    /// handle of anything else.
    #[doc(alias = "D3DKMTQueryResourceInfo")]
    #[doc(alias = "D3DKMTQueryResourceInfoFromNtHandle")]
    QueryResourceInfo special fn query_resource_info(
        device: Handle,
        name: ResourceName<'_> => SharedName,
    ) -> Result<ResourceData, Status>;

    /// Opens a shared resource for a device. Statuses as of [`Kernel::query_resource_info`].
    #[doc(alias = "D3DKMTOpenResource")]
    #[doc(alias = "D3DKMTOpenResourceFromNtHandle")]
    OpenResource special fn open_resource(
        device: Handle,
        name: ResourceName<'_> => SharedName,
    ) -> Result<OpenedResource, Status>;

    /// Ends this process's part of a shared resource, with its allocations.
    #[doc(alias = "D3DKMTDestroyAllocation2")]
    DestroyResource ends fn destroy_resource(resource: Handle) -> Result<(), Status>;

    /// Reserves GPU addresses. Engines that use them fault until memory is mapped there.
    #[doc(alias = "D3DKMTReserveGpuVirtualAddress")]
    ReserveGpuVirtualAddress makes fn reserve_gpu_virtual_address(
        args: ReserveGpuVirtualAddress,
    ) -> Result<ReservedAddresses, Status>;

    /// Unmaps reserved addresses and frees them. No queued work uses them any more.
    #[doc(alias = "D3DKMTFreeGpuVirtualAddress")]
    FreeGpuVirtualAddress ends fn free_gpu_virtual_address(reserved: Handle) -> Result<(), Status>;

    /// Queues changes of the memory behind reserved addresses, in the order that a fence gives.
    /// Memory that is mapped stays until it is unmapped. INVALID_PARAMETER, without effect, for
    /// tiles outside the reserved addresses or the allocation, and for an allocation of words or of
    /// another device.
    #[doc(alias = "D3DKMTUpdateGpuVirtualAddress")]
    UpdateGpuVirtualAddress passed fn update_gpu_virtual_address(
        args: UpdateGpuVirtualAddress<'_> => UpdateGpuVirtualAddressMessage,
    ) -> Result<(), Status>;

    /// A paging queue: an order of residency operations, and the fence that says which are done. A
    /// kernel that keeps everything resident has none, and refuses this and the calls that follow
    /// with NOT_SUPPORTED.
    #[doc(alias = "D3DKMTCreatePagingQueue")]
    CreatePagingQueue special fn create_paging_queue(
        args: CreatePagingQueue,
    ) -> Result<PagingQueue, Status>;

    /// Ends a paging queue and its fence. Its pending operations are still carried out.
    #[doc(alias = "D3DKMTDestroyPagingQueue")]
    DestroyPagingQueue forgets fn destroy_paging_queue(paging_queue: Handle) -> Result<(), Status>;

    /// Adds a reference to each allocation, and pages in those that are not resident. Allocations
    /// with references stay resident. Lack of room is reported by [`Residency::OverBudget`], not as
    /// an error.
    #[doc(alias = "D3DKMTMakeResident")]
    MakeResident passed fn make_resident(
        args: MakeResident<'_> => MakeResidentMessage,
    ) -> Result<Residency, Status>;

    /// Removes one reference of each allocation. An allocation without references may be evicted
    /// when all work that the device has queued until now is complete; later work that uses it
    /// faults. INVALID_PARAMETER, without effect, if an allocation has no reference.
    #[doc(alias = "D3DKMTEvict")]
    Evict passed fn evict(
        device: Handle,
        allocations: &[Handle] => Vec<Handle>,
    ) -> Result<(), Status>;

    /// Sets how late each allocation leaves local memory. It is in force from the next eviction on.
    #[doc(alias = "D3DKMTSetAllocationPriority")]
    SetAllocationPriority passed fn set_allocation_priority(
        device: Handle,
        allocations: &[Handle] => Vec<Handle>,
        priority: ResidencyPriority,
    ) -> Result<(), Status>;

    /// Returns where each allocation is, as of now.
    #[doc(alias = "D3DKMTQueryAllocationResidency")]
    QueryAllocationResidency passed fn query_allocation_residency(
        device: Handle,
        allocations: &[Handle] => Vec<Handle>,
    ) -> Result<Vec<AllocationResidency>, Status>;

    /// Returns the budget and the use of the adapter's memory by the process.
    #[doc(alias = "D3DKMTQueryVideoMemoryInfo")]
    QueryVideoMemoryInfo passed fn query_video_memory_info(
        group: SegmentGroup,
    ) -> Result<VideoMemoryInfo, Status>;

    /// Creates a context whose packets VidSch schedules (model `packet`).
    #[doc(alias = "D3DKMTCreateContextVirtual")]
    CreateContextVirtual makes fn create_context_virtual(
        args: CreateContextVirtual,
    ) -> Result<Handle, Status>;

    /// After its queued work was given up or done.
    #[doc(alias = "D3DKMTDestroyContext")]
    DestroyContext ends fn destroy_context(context: Handle) -> Result<(), Status>;

    /// Queues a command buffer on a context.
    #[doc(alias = "D3DKMTSubmitCommand")]
    SubmitCommand queues fn submit_command(args: SubmitCommand) -> Result<(), Status>;

    /// Queues commands with an allocation list on contexts. NOT_SUPPORTED if the driver does not
    /// patch; INVALID_PARAMETER for malformed commands, and commands that reach beyond the list;
    /// NO_MEMORY if one of them needs more than local memory has.
    #[doc(alias = "D3DKMTRender")]
    Render special fn render(args: Render<'_> => RenderMessage) -> Result<(), Status>;

    /// Creates a hardware context.
    #[doc(alias = "D3DKMTCreateHwContext")]
    CreateHwContext makes fn create_hw_context(args: CreateHwContext) -> Result<Handle, Status>;

    /// Ends a hardware context that has no queues.
    #[doc(alias = "D3DKMTDestroyHwContext")]
    DestroyHwContext ends fn destroy_hw_context(hw_context: Handle) -> Result<(), Status>;

    /// Sets the band of a hardware context: -7 to -1 IDLE, 0 NORMAL, 1 to 7 FOCUS, 8 to 39 the
    /// levels 0 to 31 of REALTIME. FOCUS and REALTIME: ACCESS_DENIED without the privilege to raise
    /// priorities.
    #[doc(alias = "D3DKMTSetContextSchedulingPriority")]
    SetContextSchedulingPriority queues fn set_context_scheduling_priority(
        hw_context: Handle,
        priority: i32,
    ) -> Result<(), Status>;

    /// Sets the priority of a hardware context inside its process, from -7 to 7; higher runs first.
    #[doc(alias = "D3DKMTSetContextInProcessSchedulingPriority")]
    SetContextInProcessSchedulingPriority queues
    fn set_context_in_process_scheduling_priority(
        hw_context: Handle,
        priority: i32,
    ) -> Result<(), Status>;

    /// Creates a hardware queue.
    #[doc(alias = "D3DKMTCreateHwQueue")]
    CreateHwQueue special fn create_hw_queue(args: CreateHwQueue) -> Result<HwQueue, Status>;

    /// Ends a hardware queue that has no doorbell.
    #[doc(alias = "D3DKMTDestroyHwQueue")]
    DestroyHwQueue ends fn destroy_hw_queue(hw_queue: Handle) -> Result<(), Status>;

    /// Queues a command buffer on a kernel-mode hardware queue. INVALID_PARAMETER for a user-mode
    /// queue.
    #[doc(alias = "D3DKMTSubmitCommandToHwQueue")]
    SubmitCommandToHwQueue queues fn submit_command_to_hw_queue(
        args: SubmitCommandToHwQueue,
    ) -> Result<(), Status>;

    /// Queues a wait for all of 1 to 32 fences on a kernel-mode hardware queue.
    #[doc(alias = "D3DKMTSubmitWaitForSyncObjectsToHwQueue")]
    SubmitWaitToHwQueue queues fn submit_wait_to_hw_queue(
        hw_queue: Handle,
        fences: &[FenceValue] => Vec<FenceValue>,
    ) -> Result<(), Status>;

    /// Queues one signal packet on all of these kernel-mode hardware queues. The signal is made
    /// when each of them has reached it. A queue that has reached it is held until then. A
    /// destroyed queue counts as having reached it.
    #[doc(alias = "D3DKMTSubmitSignalSyncObjectsToHwQueue")]
    SubmitSignalToHwQueues queues fn submit_signal_to_hw_queues(
        args: SubmitSignalToHwQueues<'_> => SubmitSignalToHwQueuesMessage,
    ) -> Result<(), Status>;

    /// Creates a monitored fence.
    #[doc(alias = "D3DKMTCreateSynchronizationObject2")]
    CreateMonitoredFence special fn create_monitored_fence(
        args: CreateMonitoredFence<'_> => CreateMonitoredFenceMessage,
    ) -> Result<FenceInstance, Status>;

    /// Creates a native fence.
    #[doc(alias = "D3DKMTCreateNativeFence")]
    CreateNativeFence special fn create_native_fence(
        args: CreateNativeFence<'_> => CreateNativeFenceMessage,
    ) -> Result<FenceInstance, Status>;

    /// Returns a handle by which other processes can open these objects: one shareable fence or
    /// older object, or a shared resource, whose memory has one form, so that rights do not
    /// restrict it; or a resource, a keyed mutex and an older object, in this order. Under `name`
    /// every process of the machine finds it while a handle with this name exists.
    /// INVALID_PARAMETER for an object that is not shareable, and for no rights; ACCESS_DENIED for
    /// rights that this instance does not have; OBJECT_NAME_COLLISION for a name that is taken;
    /// OBJECT_NAME_INVALID for an empty one, or one with a backslash.
    #[doc(alias = "D3DKMTShareObjects")]
    ShareObjects special fn share_objects(
        objects: &[Handle] => Vec<Handle>,
        access: SyncObjectAccess,
        name: Option<&str> => Option<String>,
    ) -> Result<NtHandle, Status>;

    /// Returns another handle of the fence or older object that was shared under this name, in any
    /// letter case. OBJECT_NAME_NOT_FOUND if there is none; ACCESS_DENIED for no rights, and for
    /// rights that the sharing did not grant; OBJECT_TYPE_MISMATCH for the name of a resource.
    #[doc(alias = "D3DKMTOpenSyncObjectNtHandleFromName")]
    OpenSyncObjectNtHandleFromName special fn open_sync_object_nt_handle_from_name(
        name: &str => String,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status>;

    /// Returns another handle of the resource that was shared under this name. Statuses as of
    /// [`Kernel::open_sync_object_nt_handle_from_name`].
    #[doc(alias = "D3DKMTOpenNtHandleFromName")]
    OpenNtHandleFromName special fn open_nt_handle_from_name(
        name: &str => String,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status>;

    /// Opens a shared fence of either kind.
    #[doc(alias = "D3DKMTOpenSyncObjectFromNtHandle2")]
    OpenSyncObjectFromNtHandle special fn open_sync_object_from_nt_handle(
        args: OpenSyncObject<'_> => OpenSyncObjectMessage,
    ) -> Result<FenceInstance, Status>;

    /// Opens a shared fence that is native on this adapter; OBJECT_TYPE_MISMATCH for any other.
    #[doc(alias = "D3DKMTOpenNativeFenceFromNtHandle")]
    OpenNativeFenceFromNtHandle special fn open_native_fence_from_nt_handle(
        args: OpenSyncObject<'_> => OpenSyncObjectMessage,
    ) -> Result<FenceInstance, Status>;

    /// Closes this process's instance of a fence or an older object. The waiters of a fence's
    /// instance are released, the waits of an older object with its last instance or NT handle.
    #[doc(alias = "D3DKMTDestroySynchronizationObject")]
    DestroySynchronizationObject forgets fn destroy_synchronization_object(
        fence: Handle,
    ) -> Result<(), Status>;

    /// Signals 1 to 32 fences from the CPU and releases their waiters.
    ///
    /// ALLOW_FENCE_REWIND is the only flag. Without it a value below the present one is stored,
    /// counted and reported, or refused with INVALID_PARAMETER on a strict adapter. The same holds
    /// for queued signals, except that a signal which proves lower only when it is made is stored
    /// and counted on a strict adapter, too.
    #[doc(alias = "D3DKMTSignalSynchronizationObjectFromCpu")]
    SignalFromCpu passed fn signal_from_cpu(
        fences: &[FenceValue] => Vec<FenceValue>,
        flags: SignalFlags,
    ) -> Result<(), Status>;

    /// Queues a wait for all of 1 to 32 fences on a context. Later submissions follow it.
    #[doc(alias = "D3DKMTWaitForSynchronizationObjectFromGpu")]
    WaitFromGpu passed fn wait_from_gpu(
        context: Handle,
        fences: &[FenceValue] => Vec<FenceValue>,
    ) -> Result<(), Status>;

    /// Queues one signal packet, or one CPU event, on all of these contexts. It is made when each
    /// of them has reached it. A context that has reached it is held until then. A destroyed
    /// context counts as having reached it. If all are destroyed, fences do not change and the
    /// event is set.
    #[doc(alias = "D3DKMTSignalSynchronizationObjectFromGpu2")]
    SignalFromGpu2 special fn signal_from_gpu2(
        args: SignalFromGpu2<'_> => SignalFromGpu2Message,
    ) -> Result<(), Status>;

    /// Creates a mutex, a semaphore or a fence of WDDM 1.x. INVALID_PARAMETER for
    /// NT_SECURITY_SHARING without SHARED.
    #[doc(alias = "D3DKMTCreateSynchronizationObject2")]
    CreateSynchronizationObject makes fn create_synchronization_object(
        args: CreateSynchronizationObject,
    ) -> Result<SynchronizationObject, Status>;

    /// Opens such an object, of this adapter. INVALID_PARAMETER for a global handle whose object
    /// has ended or is of another adapter; OBJECT_TYPE_MISMATCH for an NT handle of anything else.
    #[doc(alias = "D3DKMTOpenSynchronizationObject")]
    OpenSynchronizationObject special fn open_synchronization_object(
        args: OpenSynchronizationObject<'_> => OpenSynchronizationObjectMessage,
    ) -> Result<Handle, Status>;

    /// Queues waits of a context for 1 to 32 such objects, one after the other; `fence_value` is
    /// that of fences. A wait for a mutex or a semaphore takes its place among the waiters when the
    /// context arrives at it.
    #[doc(alias = "D3DKMTWaitForSynchronizationObject2")]
    WaitForSynchronizationObjects passed fn wait_for_synchronization_objects(
        context: Handle,
        objects: &[Handle] => Vec<Handle>,
        fence_value: u64,
    ) -> Result<(), Status>;

    /// Queues signals of 1 to 32 such objects on 1 to 64 contexts of one device, as
    /// [`Kernel::signal_from_gpu2`]. A mutex of which a context has ended, or has lost its device,
    /// is signalled for it. A semaphore is not.
    #[doc(alias = "D3DKMTSignalSynchronizationObject2")]
    SignalSynchronizationObjects passed fn signal_synchronization_objects(
        contexts: &[Handle] => Vec<Handle>,
        objects: &[Handle] => Vec<Handle>,
        flags: SignalFlags,
        fence_value: u64,
    ) -> Result<(), Status>;

    /// Creates a keyed mutex. INVALID_PARAMETER for too much data.
    #[doc(alias = "D3DKMTCreateKeyedMutex2")]
    CreateKeyedMutex makes fn create_keyed_mutex(
        args: CreateKeyedMutex,
    ) -> Result<KeyedMutex, Status>;

    /// Opens a keyed mutex of this adapter. INVALID_PARAMETER for a global handle whose mutex has
    /// ended or is of another adapter; OBJECT_TYPE_MISMATCH for an NT handle of anything else.
    #[doc(alias = "D3DKMTOpenKeyedMutex2")]
    #[doc(alias = "D3DKMTOpenKeyedMutexFromNtHandle")]
    OpenKeyedMutex special fn open_keyed_mutex(
        name: ResourceName<'_> => SharedName,
    ) -> Result<OpenedKeyedMutex, Status>;

    /// Opens the fence of the changes of a keyed mutex, which counts them, for a device. Nothing
    /// but the kernel signals it. Not published.
    OpenKeyedMutexChanges special fn open_keyed_mutex_changes(
        device: Handle,
        mutex: Handle,
    ) -> Result<FenceInstance, Status>;

    /// Acquires a keyed mutex, if it was released with this key. Does not block: a caller that has
    /// to wait does so for a change.
    #[doc(alias = "D3DKMTAcquireKeyedMutex2")]
    AcquireKeyedMutex passed fn acquire_keyed_mutex(
        mutex: Handle,
        key: u64,
    ) -> Result<KeyedMutexAcquire, Status>;

    /// Releases a keyed mutex. INVALID_PARAMETER for an instance that does not own it, and for too
    /// much data.
    #[doc(alias = "D3DKMTReleaseKeyedMutex2")]
    ReleaseKeyedMutex passed fn release_keyed_mutex(
        args: ReleaseKeyedMutex<'_> => ReleaseKeyedMutexMessage,
    ) -> Result<(), Status>;

    /// Closes this process's instance of a keyed mutex. A mutex that it owns is abandoned.
    #[doc(alias = "D3DKMTDestroyKeyedMutex")]
    DestroyKeyedMutex ends fn destroy_keyed_mutex(mutex: Handle) -> Result<(), Status>;

    /// Creates a doorbell for a user-mode queue.
    #[doc(alias = "D3DKMTCreateDoorbell")]
    CreateDoorbell special fn create_doorbell(args: CreateDoorbell => CreateDoorbellMessage) -> Result<Doorbell, Status>;

    /// Connects the doorbell to hardware. No effect on a connected one; DEVICE_REMOVED after ABORT.
    #[doc(alias = "D3DKMTConnectDoorbell")]
    ConnectDoorbell special fn connect_doorbell(doorbell: Handle) -> Result<Connection, Status>;

    /// Frees a doorbell; always succeeds on a valid handle.
    #[doc(alias = "D3DKMTDestroyDoorbell")]
    DestroyDoorbell forgets fn destroy_doorbell(doorbell: Handle) -> Result<(), Status>;

    /// Notifies the driver of work, after a ring with the status CONNECTED_NOTIFY.
    #[doc(alias = "D3DKMTNotifyWorkSubmission")]
    NotifyWorkSubmission queues fn notify_work_submission(doorbell: Handle) -> Result<(), Status>;

    /// Returns the addresses and the numbering of the fence logs of a user-mode queue.
    #[doc(alias = "D3DKMTGetNativeFenceLogDetail")]
    NativeFenceLogDetail special fn native_fence_log_detail(
        hw_queue: Handle,
    ) -> Result<LogDetail, Status>;

    /// Returns the adapter's display. `None` for an adapter without one, which returns
    /// NOT_SUPPORTED for the following calls.
    #[doc(alias = "D3DKMTGetDisplayModeList")]
    Display adapts fn display() -> Option<DisplayInfo>;

    /// Queues a picture. It is shown when all earlier work of the queue is complete, at the first
    /// vertical sync that its interval allows. GRAPHICS_PRESENT_DENIED on a user-mode queue;
    /// GRAPHICS_VIDPN_SOURCE_IN_USE while another device presents; GRAPHICS_TRY_AGAIN_LATER for too
    /// many queued pictures.
    #[doc(alias = "D3DKMTPresent")]
    #[doc(alias = "D3DKMTSubmitPresentToHwQueue")]
    Present queues fn present(args: Present) -> Result<(), Status>;

    /// Blocks until the display's next vertical sync.
    #[doc(alias = "D3DKMTWaitForVerticalBlankEvent")]
    WaitForVerticalBlankEvent adapts fn wait_for_vertical_blank_event() -> Result<(), Status>;
}
    }};
}
