//! The surface of one process.
//!
//! Every call validates its handles and numbers and changes nothing when it fails. Unless said
//! otherwise: INVALID_PARAMETER for a handle, a number or a flag that makes no sense, ACCESS_DENIED
//! for an instance that must not, NOT_SUPPORTED when the adapter or node cannot do it,
//! DEVICE_REMOVED when the device was lost, CANCELLED when the machine stopped.

use crate::adapter::AdapterInfo;
use crate::allocation::{Allocation, AllocationMemory, CreateAllocation};
use crate::device::{
    CreateContextVirtual, CreateHwContext, CreateHwQueue, DeviceState, HwQueue, Render,
    SubmitCommand, SubmitCommandToHwQueue, TdrTest,
};
use crate::display::{DisplayInfo, Present};
use crate::doorbell::{Connection, CreateDoorbell, Doorbell};
use crate::fence::{
    CreateMonitoredFence, CreateNativeFence, FenceInstance, FenceValue, LogDetail, SignalFlags,
    SignalFromGpu2, SubmitSignalToHwQueues, WaitMode,
};
use crate::paging::{
    CreatePagingQueue, MakeResident, PagingQueue, Residency, SegmentGroup, VideoMemoryInfo,
};
use crate::share::{NtHandle, OpenSyncObject, SyncObjectAccess};
use crate::{Handle, Status};
use tidegate_platform::{Event, QueueNumber};

/// The D3DKMT calls of one process.
pub trait Kernel: Send + Sync {
    /// What the adapter offers.
    #[doc(alias = "D3DKMTQueryAdapterInfo")]
    fn query_adapter_info(&self) -> AdapterInfo;

    /// A device on the adapter.
    #[doc(alias = "D3DKMTCreateDevice")]
    fn create_device(&self) -> Result<Handle, Status>;

    /// Ends a device with all that is in it.
    #[doc(alias = "D3DKMTDestroyDevice")]
    fn destroy_device(&self, device: Handle) -> Result<(), Status>;

    /// How the device stands.
    #[doc(alias = "D3DKMTGetDeviceState")]
    fn device_state(&self, device: Handle) -> Result<DeviceState, Status>;

    /// DisableGpuTimeout, of D3DDDI_CREATECONTEXTFLAGS and of D3DDDI_CREATEHWQUEUEFLAGS: the
    /// packets of a context, or the work of a hardware queue, have no time limit. Before anything is
    /// queued. ACCESS_DENIED without the privilege to raise priorities, because the caller can keep
    /// an engine from others.
    #[doc(alias = "DisableGpuTimeout")]
    fn disable_gpu_timeout(&self, _object: Handle) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// The number of a context or hardware queue in reports, in statistics and on the timeline. No
    /// published call; `None` from a kernel that has none of these.
    fn queue_number(&self, _queue: Handle) -> Option<QueueNumber> {
        None
    }

    /// D3DKMTEscape with D3DKMT_ESCAPE_TDRDBGCTRL: has the adapter behave as if it had timed out,
    /// or changes how timeouts are treated. For tests; a kernel that is not tested so refuses with
    /// NOT_SUPPORTED.
    #[doc(alias = "D3DKMT_ESCAPE_TDRDBGCTRL")]
    fn debug_timeouts(&self, _test: TdrTest) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Memory, resident and mapped.
    #[doc(alias = "D3DKMTCreateAllocation2")]
    fn create_allocation(&self, args: CreateAllocation) -> Result<Allocation, Status>;

    /// Gives an allocation back. Its memory lives on while a doorbell uses it.
    #[doc(alias = "D3DKMTDestroyAllocation2")]
    fn destroy_allocation(&self, allocation: Handle) -> Result<(), Status>;

    /// The memory of an allocation of the device as the process reaches it: the place that creation
    /// returned. It stays while the allocation lives, whatever happens to the device's queues and
    /// doorbells, so there is nothing to unlock. INVALID_PARAMETER for an allocation of another
    /// device.
    #[doc(alias = "D3DKMTLock2")]
    fn lock2(&self, _device: Handle, _allocation: Handle) -> Result<AllocationMemory, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// A paging queue: an order of residency operations, and the fence that says which are done. A
    /// kernel that keeps everything resident has none, and refuses this and the calls that follow
    /// with NOT_SUPPORTED.
    #[doc(alias = "D3DKMTCreatePagingQueue")]
    fn create_paging_queue(&self, _args: CreatePagingQueue) -> Result<PagingQueue, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Ends a paging queue. Its pending operations are still done; its fence is gone.
    #[doc(alias = "D3DKMTDestroyPagingQueue")]
    fn destroy_paging_queue(&self, _paging_queue: Handle) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Gives each allocation a reference, and brings those into their memory that are not there.
    /// What has references stays. That there is no room is no failure of the call: see
    /// [`Residency::OverBudget`].
    #[doc(alias = "D3DKMTMakeResident")]
    fn make_resident(&self, _args: MakeResident<'_>) -> Result<Residency, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Takes one reference of each allocation away. One without references leaves when its room is
    /// needed, and not before all that the device has queued by now is complete; work that is
    /// queued later and uses it faults. INVALID_PARAMETER, and nothing done, when one has none to
    /// take.
    #[doc(alias = "D3DKMTEvict")]
    fn evict(&self, _device: Handle, _allocations: &[Handle]) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// What the process may count on of the adapter's memory, and what it has there.
    #[doc(alias = "D3DKMTQueryVideoMemoryInfo")]
    fn query_video_memory_info(&self, _group: SegmentGroup) -> Result<VideoMemoryInfo, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// A context whose packets VidSch schedules (model `packet`).
    #[doc(alias = "D3DKMTCreateContextVirtual")]
    fn create_context_virtual(&self, args: CreateContextVirtual) -> Result<Handle, Status>;

    /// After its queued work was given up or done.
    #[doc(alias = "D3DKMTDestroyContext")]
    fn destroy_context(&self, context: Handle) -> Result<(), Status>;

    /// Queues a command buffer on a context.
    #[doc(alias = "D3DKMTSubmitCommand")]
    fn submit_command(&self, args: SubmitCommand) -> Result<(), Status>;

    /// Queues commands with an allocation list on contexts: NOT_SUPPORTED where the driver patches
    /// nothing; INVALID_PARAMETER for commands that make no sense or reach beyond the list;
    /// NO_MEMORY when one of them needs more than local memory has.
    #[doc(alias = "D3DKMTRender")]
    fn render(&self, _args: Render<'_>) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// A hardware context.
    #[doc(alias = "D3DKMTCreateHwContext")]
    fn create_hw_context(&self, args: CreateHwContext) -> Result<Handle, Status>;

    /// Ends a hardware context that has no queues.
    #[doc(alias = "D3DKMTDestroyHwContext")]
    fn destroy_hw_context(&self, hw_context: Handle) -> Result<(), Status>;

    /// Puts a hardware context into a band: from -7 to -1 IDLE, 0 NORMAL, from 1 to 7 FOCUS, from 8
    /// to 39 the levels 0 to 31 of REALTIME. FOCUS and REALTIME are ACCESS_DENIED to a process
    /// without the privilege to raise priorities.
    #[doc(alias = "D3DKMTSetContextSchedulingPriority")]
    fn set_context_scheduling_priority(
        &self,
        _hw_context: Handle,
        _priority: i32,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// Orders a hardware context among those of its process, from -7 to 7; higher runs first.
    #[doc(alias = "D3DKMTSetContextInProcessSchedulingPriority")]
    fn set_context_in_process_scheduling_priority(
        &self,
        _hw_context: Handle,
        _priority: i32,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    /// A hardware queue.
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

    /// Queues one signal packet on all of these kernel-mode hardware queues: made when each of them
    /// has reached it. A queue that reached it is held until then. One that is destroyed meanwhile
    /// counts as having reached it.
    #[doc(alias = "D3DKMTSubmitSignalSyncObjectsToHwQueue")]
    fn submit_signal_to_hw_queues(&self, args: SubmitSignalToHwQueues<'_>) -> Result<(), Status>;

    /// A monitored fence.
    #[doc(alias = "D3DKMTCreateSynchronizationObject2")]
    fn create_monitored_fence(
        &self,
        args: CreateMonitoredFence<'_>,
    ) -> Result<FenceInstance, Status>;

    /// A native fence.
    #[doc(alias = "D3DKMTCreateNativeFence")]
    fn create_native_fence(&self, args: CreateNativeFence<'_>) -> Result<FenceInstance, Status>;

    /// A handle by which other processes can open these objects: here, one shareable fence.
    /// INVALID_PARAMETER when the fence was not made shareable, ACCESS_DENIED for rights that this
    /// instance does not have.
    #[doc(alias = "D3DKMTShareObjects")]
    fn share_objects(
        &self,
        objects: &[Handle],
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status>;

    /// Opens a shared fence, whichever kind it is on this adapter.
    #[doc(alias = "D3DKMTOpenSyncObjectFromNtHandle2")]
    fn open_sync_object_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status>;

    /// Opens a shared fence that is native on this adapter; OBJECT_TYPE_MISMATCH when it is not.
    #[doc(alias = "D3DKMTOpenNativeFenceFromNtHandle")]
    fn open_native_fence_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status>;

    /// Closes this process's instance of a fence; its waiters are released.
    #[doc(alias = "D3DKMTDestroySynchronizationObject")]
    fn destroy_synchronization_object(&self, fence: Handle) -> Result<(), Status>;

    /// Waits for 1 to 4096 fences: blocks until the condition holds, or, given an event, returns at
    /// once and sets it then.
    #[doc(alias = "D3DKMTWaitForSynchronizationObjectFromCpu")]
    fn wait_from_cpu(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        event: Option<Event>,
    ) -> Result<(), Status>;

    /// Signals 1 to 32 fences from the CPU: visible at once, waiters released.
    ///
    /// A value below the present one is stored with or without ALLOW_FENCE_REWIND, which is the
    /// only flag here; without it it is counted and reported, or, on an adapter that is strict
    /// about it, INVALID_PARAMETER. That holds for all signals; a queued one that only turns out to
    /// be lower when it is made is made and counted there, too.
    #[doc(alias = "D3DKMTSignalSynchronizationObjectFromCpu")]
    fn signal_from_cpu(&self, fences: &[FenceValue], flags: SignalFlags) -> Result<(), Status>;

    /// Queues a wait for all of 1 to 32 fences on a context; later submissions stay behind it.
    #[doc(alias = "D3DKMTWaitForSynchronizationObjectFromGpu")]
    fn wait_from_gpu(&self, context: Handle, fences: &[FenceValue]) -> Result<(), Status>;

    /// Queues signals of 1 to 32 fences on a context: made when everything before them is complete.
    #[doc(alias = "D3DKMTSignalSynchronizationObjectFromGpu")]
    fn signal_from_gpu(&self, context: Handle, fences: &[FenceValue]) -> Result<(), Status> {
        let (contexts, flags) = (&[context], SignalFlags::empty());
        self.signal_from_gpu2(SignalFromGpu2 { contexts, fences, flags, cpu_event: None })
    }

    /// Queues one signal packet, or one CPU event, on all of these contexts: made when each of them
    /// has reached it. A context that reached it is held until then. One that is destroyed
    /// meanwhile counts as having reached it; when none is left, fences are left alone and an event
    /// is set.
    #[doc(alias = "D3DKMTSignalSynchronizationObjectFromGpu2")]
    fn signal_from_gpu2(&self, args: SignalFromGpu2<'_>) -> Result<(), Status>;

    /// A doorbell for a user-mode queue.
    #[doc(alias = "D3DKMTCreateDoorbell")]
    fn create_doorbell(&self, args: CreateDoorbell) -> Result<Doorbell, Status>;

    /// Gives the doorbell hardware. A no-op on a connected one; DEVICE_REMOVED after ABORT.
    #[doc(alias = "D3DKMTConnectDoorbell")]
    fn connect_doorbell(&self, doorbell: Handle) -> Result<Connection, Status>;

    /// Frees a doorbell; always succeeds on a valid handle.
    #[doc(alias = "D3DKMTDestroyDoorbell")]
    fn destroy_doorbell(&self, doorbell: Handle) -> Result<(), Status>;

    /// After a ring whose status is CONNECTED_NOTIFY.
    #[doc(alias = "D3DKMTNotifyWorkSubmission")]
    fn notify_work_submission(&self, doorbell: Handle) -> Result<(), Status>;

    /// Where the fence logs of a user-mode queue stand, and how their entries are numbered.
    #[doc(alias = "D3DKMTGetNativeFenceLogDetail")]
    fn native_fence_log_detail(&self, hw_queue: Handle) -> Result<LogDetail, Status>;

    /// The adapter's display; `None` for one that only renders, which refuses the calls that follow
    /// with NOT_SUPPORTED.
    #[doc(alias = "D3DKMTGetDisplayModeList")]
    fn display(&self) -> Option<DisplayInfo> {
        None
    }

    /// Shows a picture when everything that the queue has now is complete: at the first vertical
    /// sync after that which its interval allows. Returns at once. GRAPHICS_PRESENT_DENIED on a
    /// user-mode queue; GRAPHICS_VIDPN_SOURCE_IN_USE while another device shows its pictures;
    /// GRAPHICS_TRY_AGAIN_LATER when too many are queued.
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
