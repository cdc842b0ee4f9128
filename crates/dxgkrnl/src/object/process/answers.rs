//! The D3DKMT calls of a process, and what each returns once the adapter is removed or the process
//! has ended.
//!
//! Invariant: a call that fails because of a removal, or of the end of its process, returns
//! DEVICE_REMOVED, wherever that met it. The object that the call names may have ended meanwhile,
//! and every other status would blame the caller.

use super::Process;
use tidegate_calls::*;
use tidegate_platform::{Event, QueueNumber};

impl Process {
    /// Returns the status of a call that failed.
    fn answer<T>(&self, outcome: Result<T, Status>) -> Result<T, Status> {
        outcome.map_err(|status| match self.objects.port.check_present() {
            Ok(()) if self.handles.lock().is_closed() => Status::DEVICE_REMOVED,
            Ok(()) => status,
            Err(removed) => removed,
        })
    }
}

impl Kernel for Process {
    fn query_adapter_info(&self) -> AdapterInfo {
        Process::query_adapter_info(self)
    }

    fn query_clock_calibration(
        &self,
        node_ordinal: u32,
        engine_ordinal: u32,
    ) -> Result<ClockCalibration, Status> {
        self.answer(Process::query_clock_calibration(self, node_ordinal, engine_ordinal))
    }

    fn create_device(&self) -> Result<Handle, Status> {
        self.answer(Process::create_device(self))
    }

    fn destroy_device(&self, device: Handle) -> Result<(), Status> {
        self.answer(Process::destroy_device(self, device))
    }

    fn device_state(&self, device: Handle) -> Result<DeviceState, Status> {
        self.answer(Process::device_state(self, device))
    }

    fn mark_device_as_error(
        &self,
        device: Handle,
        reason: DeviceErrorReason,
    ) -> Result<(), Status> {
        self.answer(Process::mark_device_as_error(self, device, reason))
    }

    fn disable_gpu_timeout(&self, object: Handle) -> Result<(), Status> {
        self.answer(Process::disable_gpu_timeout(self, object))
    }

    fn queue_number(&self, queue: Handle) -> Option<QueueNumber> {
        Process::queue_number(self, queue)
    }

    fn debug_timeouts(&self, test: TdrTest) -> Result<(), Status> {
        self.answer(Process::debug_timeouts(self, test))
    }

    fn create_allocation(&self, args: CreateAllocation) -> Result<Allocation, Status> {
        self.answer(Process::create_allocation(self, args))
    }

    fn destroy_allocation(&self, allocation: Handle) -> Result<(), Status> {
        self.answer(Process::destroy_allocation(self, allocation))
    }

    fn lock2(&self, device: Handle, allocation: Handle) -> Result<AllocationMemory, Status> {
        self.answer(Process::lock2(self, device, allocation))
    }

    fn create_resource(&self, args: CreateResource<'_>) -> Result<Resource, Status> {
        self.answer(Process::create_resource(self, args))
    }

    fn query_resource_info(
        &self,
        device: Handle,
        name: ResourceName<'_>,
    ) -> Result<ResourceData, Status> {
        self.answer(Process::query_resource_info(self, device, name))
    }

    fn open_resource(
        &self,
        device: Handle,
        name: ResourceName<'_>,
    ) -> Result<OpenedResource, Status> {
        self.answer(Process::open_resource(self, device, name))
    }

    fn destroy_resource(&self, resource: Handle) -> Result<(), Status> {
        self.answer(Process::destroy_resource(self, resource))
    }

    fn reserve_gpu_virtual_address(
        &self,
        args: ReserveGpuVirtualAddress,
    ) -> Result<ReservedAddresses, Status> {
        self.answer(Process::reserve_gpu_virtual_address(self, args))
    }

    fn free_gpu_virtual_address(&self, reserved: Handle) -> Result<(), Status> {
        self.answer(Process::free_gpu_virtual_address(self, reserved))
    }

    fn update_gpu_virtual_address(&self, args: UpdateGpuVirtualAddress<'_>) -> Result<(), Status> {
        self.answer(Process::update_gpu_virtual_address(self, args))
    }

    fn create_paging_queue(&self, args: CreatePagingQueue) -> Result<PagingQueue, Status> {
        self.answer(Process::create_paging_queue(self, args))
    }

    fn destroy_paging_queue(&self, paging_queue: Handle) -> Result<(), Status> {
        self.answer(Process::destroy_paging_queue(self, paging_queue))
    }

    fn make_resident(&self, args: MakeResident<'_>) -> Result<Residency, Status> {
        self.answer(Process::make_resident(self, args))
    }

    fn evict(&self, device: Handle, allocations: &[Handle]) -> Result<(), Status> {
        self.answer(Process::evict(self, device, allocations))
    }

    fn set_allocation_priority(
        &self,
        device: Handle,
        allocations: &[Handle],
        priority: ResidencyPriority,
    ) -> Result<(), Status> {
        self.answer(Process::set_allocation_priority(self, device, allocations, priority))
    }

    fn query_allocation_residency(
        &self,
        device: Handle,
        allocations: &[Handle],
    ) -> Result<Vec<AllocationResidency>, Status> {
        self.answer(Process::query_allocation_residency(self, device, allocations))
    }

    fn query_video_memory_info(&self, group: SegmentGroup) -> Result<VideoMemoryInfo, Status> {
        self.answer(Process::query_video_memory_info(self, group))
    }

    fn create_context_virtual(&self, args: CreateContextVirtual) -> Result<Handle, Status> {
        self.answer(Process::create_context_virtual(self, args))
    }

    fn destroy_context(&self, context: Handle) -> Result<(), Status> {
        self.answer(Process::destroy_context(self, context))
    }

    fn submit_command(&self, args: SubmitCommand) -> Result<(), Status> {
        self.answer(Process::submit_command(self, args))
    }

    fn render(&self, args: Render<'_>) -> Result<(), Status> {
        self.answer(Process::render(self, args))
    }

    fn create_hw_context(&self, args: CreateHwContext) -> Result<Handle, Status> {
        self.answer(Process::create_hw_context(self, args))
    }

    fn destroy_hw_context(&self, hw_context: Handle) -> Result<(), Status> {
        self.answer(Process::destroy_hw_context(self, hw_context))
    }

    fn set_context_scheduling_priority(
        &self,
        hw_context: Handle,
        priority: i32,
    ) -> Result<(), Status> {
        self.answer(Process::set_context_scheduling_priority(self, hw_context, priority))
    }

    fn set_context_in_process_scheduling_priority(
        &self,
        hw_context: Handle,
        priority: i32,
    ) -> Result<(), Status> {
        self.answer(Process::set_context_in_process_scheduling_priority(self, hw_context, priority))
    }

    fn create_hw_queue(&self, args: CreateHwQueue) -> Result<HwQueue, Status> {
        self.answer(Process::create_hw_queue(self, args))
    }

    fn destroy_hw_queue(&self, hw_queue: Handle) -> Result<(), Status> {
        self.answer(Process::destroy_hw_queue(self, hw_queue))
    }

    fn submit_command_to_hw_queue(&self, args: SubmitCommandToHwQueue) -> Result<(), Status> {
        self.answer(Process::submit_command_to_hw_queue(self, args))
    }

    fn submit_wait_to_hw_queue(
        &self,
        hw_queue: Handle,
        fences: &[FenceValue],
    ) -> Result<(), Status> {
        self.answer(Process::submit_wait_to_hw_queue(self, hw_queue, fences))
    }

    fn submit_signal_to_hw_queues(&self, args: SubmitSignalToHwQueues<'_>) -> Result<(), Status> {
        self.answer(Process::submit_signal_to_hw_queues(self, args))
    }

    fn create_monitored_fence(
        &self,
        args: CreateMonitoredFence<'_>,
    ) -> Result<FenceInstance, Status> {
        self.answer(Process::create_monitored_fence(self, args))
    }

    fn create_native_fence(&self, args: CreateNativeFence<'_>) -> Result<FenceInstance, Status> {
        self.answer(Process::create_native_fence(self, args))
    }

    fn share_objects(
        &self,
        objects: &[Handle],
        access: SyncObjectAccess,
        name: Option<&str>,
    ) -> Result<NtHandle, Status> {
        self.answer(Process::share_objects(self, objects, access, name))
    }

    fn open_sync_object_nt_handle_from_name(
        &self,
        name: &str,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status> {
        self.answer(Process::open_sync_object_nt_handle_from_name(self, name, access))
    }

    fn open_sync_object_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status> {
        self.answer(Process::open_sync_object_from_nt_handle(self, args))
    }

    fn open_native_fence_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status> {
        self.answer(Process::open_native_fence_from_nt_handle(self, args))
    }

    fn destroy_synchronization_object(&self, fence: Handle) -> Result<(), Status> {
        self.answer(Process::destroy_synchronization_object(self, fence))
    }

    fn wait_from_cpu(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        event: Option<Event>,
    ) -> Result<(), Status> {
        self.answer(Process::wait_from_cpu(self, fences, mode, event))
    }

    fn register_cpu_wait(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        notice: WaitNotice,
    ) -> Result<CpuWaitRegistration, Status> {
        self.answer(Process::register_cpu_wait(self, fences, mode, notice))
    }

    fn signal_from_cpu(&self, fences: &[FenceValue], flags: SignalFlags) -> Result<(), Status> {
        self.answer(Process::signal_from_cpu(self, fences, flags))
    }

    fn wait_from_gpu(&self, context: Handle, fences: &[FenceValue]) -> Result<(), Status> {
        self.answer(Process::wait_from_gpu(self, context, fences))
    }

    fn signal_from_gpu2(&self, args: SignalFromGpu2<'_>) -> Result<(), Status> {
        self.answer(Process::signal_from_gpu2(self, args))
    }

    fn create_synchronization_object(
        &self,
        args: CreateSynchronizationObject,
    ) -> Result<SynchronizationObject, Status> {
        self.answer(Process::create_synchronization_object(self, args))
    }

    fn open_synchronization_object(
        &self,
        args: OpenSynchronizationObject<'_>,
    ) -> Result<Handle, Status> {
        self.answer(Process::open_synchronization_object(self, args))
    }

    fn wait_for_synchronization_objects(
        &self,
        context: Handle,
        objects: &[Handle],
        fence_value: u64,
    ) -> Result<(), Status> {
        self.answer(Process::wait_for_synchronization_objects(self, context, objects, fence_value))
    }

    fn signal_synchronization_objects(
        &self,
        contexts: &[Handle],
        objects: &[Handle],
        flags: SignalFlags,
        fence_value: u64,
    ) -> Result<(), Status> {
        self.answer(Process::signal_synchronization_objects(
            self,
            contexts,
            objects,
            flags,
            fence_value,
        ))
    }

    fn create_doorbell(&self, args: CreateDoorbell) -> Result<Doorbell, Status> {
        self.answer(Process::create_doorbell(self, args))
    }

    fn connect_doorbell(&self, doorbell: Handle) -> Result<Connection, Status> {
        self.answer(Process::connect_doorbell(self, doorbell))
    }

    fn destroy_doorbell(&self, doorbell: Handle) -> Result<(), Status> {
        self.answer(Process::destroy_doorbell(self, doorbell))
    }

    fn notify_work_submission(&self, doorbell: Handle) -> Result<(), Status> {
        self.answer(Process::notify_work_submission(self, doorbell))
    }

    fn native_fence_log_detail(&self, hw_queue: Handle) -> Result<LogDetail, Status> {
        self.answer(Process::native_fence_log_detail(self, hw_queue))
    }

    fn display(&self) -> Option<DisplayInfo> {
        Process::display(self)
    }

    fn present(&self, args: Present) -> Result<(), Status> {
        self.answer(Process::present(self, args))
    }

    fn wait_for_vertical_blank_event(&self) -> Result<(), Status> {
        self.answer(Process::wait_for_vertical_blank_event(self))
    }
}
