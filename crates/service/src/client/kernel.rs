//! The calls, each a message and its answer. Waits for values that are reached, and rings, are
//! none.

use super::channel::Channel;
use super::doorbells::Doorbells;
use super::memory::Mapped;
use super::notices::{Notices, Wait};
use super::nt_handle;
use crate::long;
use crate::transport::Attachment;
use crate::wire::{
    AllocationView, Call, Commands, ConnectionView, DoorbellCall, DoorbellView, FenceCall,
    FenceView, HwQueueView, LogView, ObjectCall, OpenedResourceView, SharedName, WorkCall,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tidegate_calls::{
    AdapterInfo, Allocation, AllocationMemory, AllocationResidency, ClockCalibration, Connection,
    CpuWaitRegistration, CreateAllocation, CreateContextVirtual, CreateDoorbell, CreateHwContext,
    CreateHwQueue, CreateMonitoredFence, CreateNativeFence, CreatePagingQueue, CreateResource,
    CreateSynchronizationObject, CurrentValueView, DeviceErrorReason, DeviceState, DisplayInfo,
    Doorbell, FenceInstance, FenceValue, Handle, HwQueue, Kernel, LogDetail, MAX_RENDER_BYTES,
    MakeResident, NtHandle, OpenSyncObject, OpenSynchronizationObject, OpenedResource, PagingQueue,
    Present, Render, ReserveGpuVirtualAddress, ReservedAddresses, Residency, ResidencyPriority,
    Resource, ResourceData, ResourceName, SegmentGroup, SignalFlags, SignalFromGpu2, Status,
    SubmitCommand, SubmitCommandToHwQueue, SubmitSignalToHwQueues, SyncObjectAccess,
    SyncObjectFlags, SynchronizationObject, TdrTest, UpdateGpuVirtualAddress, VideoMemoryInfo,
    WaitMode, WaitNotice,
};
use tidegate_platform::{CpuTime, Event, Mutex, Platform, QueueNumber};

/// How long a blocking wait polls before it is armed, in nanoseconds: about what an armed wait
/// costs.
const POLL_NS: u64 = 20_000;

/// The calls of a process that a service has opened. Dropping the last reference ends the process.
pub struct RemoteKernel {
    platform: Platform,
    info: AdapterInfo,
    adapters: u32,
    /// Nanoseconds from the service's clock to this platform's.
    clock_ahead_ns: i128,
    channel: Arc<Channel>,
    notices: Arc<Notices>,
    mapped: Mapped,
    doorbells: Doorbells,
    /// The values of open fences that the process may wait for.
    values: Mutex<BTreeMap<Handle, OpenFence>>,
}

/// A fence that is open until its device or paging queue ends.
struct OpenFence {
    ends_with: [Handle; 2],
    value: CurrentValueView,
}

impl fmt::Debug for RemoteKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteKernel({})", self.info.description)
    }
}

impl Drop for RemoteKernel {
    fn drop(&mut self) {
        self.channel.close();
    }
}

impl RemoteKernel {
    /// `clock_ahead_ns`: nanoseconds from the service's clock to the platform's.
    pub(super) fn new(
        platform: &Platform,
        channel: Arc<Channel>,
        notices: Arc<Notices>,
        (info, adapters): (AdapterInfo, u32),
        clock_ahead_ns: i128,
    ) -> RemoteKernel {
        RemoteKernel {
            platform: platform.clone(),
            info,
            adapters,
            clock_ahead_ns,
            channel,
            notices,
            mapped: Mapped::new(platform),
            doorbells: Doorbells::new(platform),
            values: platform.mutex("values of fences", BTreeMap::new()),
        }
    }

    /// Returns how many adapters the service has.
    pub fn adapters(&self) -> u32 {
        self.adapters
    }

    /// Makes a call without an effect, and returns whether the service has answered it.
    pub fn check_connection(&self) -> bool {
        let _: Option<QueueNumber> = self.queue_number(Handle(0));
        self.is_connected()
    }

    /// Returns whether the service still answers, as far as the client knows.
    pub fn is_connected(&self) -> bool {
        !self.channel.is_lost()
    }
}

impl RemoteKernel {
    fn object<T: serde::de::DeserializeOwned>(&self, call: ObjectCall) -> Result<T, Status> {
        let answer = self.channel.call(&Call::Object(call));
        self.notices.give_due();
        answer
    }

    fn fence<T: serde::de::DeserializeOwned>(&self, call: FenceCall) -> Result<T, Status> {
        let answer = self.channel.call(&Call::Fence(call));
        self.notices.give_due();
        answer
    }

    fn work<T: serde::de::DeserializeOwned>(&self, call: WorkCall) -> Result<T, Status> {
        self.channel.call(&Call::Work(call))
    }

    fn make_fence(
        &self,
        device: Handle,
        call: FenceCall,
        may_wait: bool,
    ) -> Result<FenceInstance, Status> {
        let (view, files): (FenceView, _) = self.channel.call_with(&Call::Fence(call), &[])?;
        self.keep_fence([device; 2], view, &files, may_wait)
    }

    fn keep_fence(
        &self,
        ends_with: [Handle; 2],
        view: FenceView,
        files: &[Attachment],
        may_wait: bool,
    ) -> Result<FenceInstance, Status> {
        let made = self.mapped.fence(view, files)?;
        if may_wait && !self.info.no_64bit_atomics {
            let open = OpenFence { ends_with, value: made.value.clone() };
            self.values.lock().insert(made.handle, open);
        }
        Ok(made)
    }

    /// Removes the fences that have ended with their device or paging queue.
    fn end_fences_of(&self, ended: Handle) {
        self.values.lock().retain(|_, open| !open.ends_with.contains(&ended));
    }

    /// Returns whether a wait is over, as far as the values say. A fence that reads its maximum may
    /// be that of a lost device, which the kernel knows.
    fn is_reached(&self, fences: &[FenceValue], mode: WaitMode) -> bool {
        let values = self.values.lock();
        let reached = |wanted: &FenceValue| {
            let value = values.get(&wanted.fence).and_then(|open| open.value.get());
            value.is_some_and(|value| value >= wanted.value && value != u64::MAX)
        };
        match mode {
            WaitMode::All => !fences.is_empty() && fences.iter().all(reached),
            WaitMode::Any => fences.iter().any(reached),
        }
    }

    fn nt_handle(&self, call: FenceCall) -> Result<NtHandle, Status> {
        let ((), files) = self.channel.call_with(&Call::Fence(call), &[])?;
        files.into_iter().next().map(nt_handle::of_attachment).ok_or(Status::DEVICE_REMOVED)
    }

    fn by_resource_name<T: serde::de::DeserializeOwned>(
        &self,
        name: ResourceName<'_>,
        call: impl FnOnce(SharedName) -> ObjectCall,
    ) -> Result<T, Status> {
        let (name, files) = match name {
            ResourceName::Shared(handle) => (SharedName::Global(handle), &[][..]),
            ResourceName::NtHandle(handle) => {
                let file = nt_handle::attachment(handle).ok_or(Status::INVALID_HANDLE)?;
                (SharedName::File, std::slice::from_ref(file))
            }
        };
        self.channel.call_with(&Call::Object(call(name)), files).map(|(value, _)| value)
    }

    fn open_fence(&self, args: OpenSyncObject<'_>, native: bool) -> Result<FenceInstance, Status> {
        let OpenSyncObject { device, nt_handle, flags, engine_affinity } = args;
        let file = nt_handle::attachment(nt_handle).ok_or(Status::INVALID_HANDLE)?;
        let call = FenceCall::OpenSyncObject { device, flags, engine_affinity, native };
        let (view, files) =
            self.channel.call_with(&Call::Fence(call), std::slice::from_ref(file))?;
        let may_wait = !flags.contains(SyncObjectFlags::NO_WAIT);
        self.keep_fence([device; 2], view, &files, may_wait)
    }
}

impl Kernel for RemoteKernel {
    fn query_adapter_info(&self) -> AdapterInfo {
        self.info.clone()
    }

    fn query_clock_calibration(&self, node: u32, engine: u32) -> Result<ClockCalibration, Status> {
        let read: ClockCalibration = self.work(WorkCall::QueryClockCalibration(node, engine))?;
        let cpu = i128::from(read.cpu.0) + self.clock_ahead_ns;
        Ok(ClockCalibration { cpu: CpuTime(u64::try_from(cpu).unwrap_or(0)), ..read })
    }

    fn create_device(&self) -> Result<Handle, Status> {
        self.object(ObjectCall::CreateDevice)
    }

    fn destroy_device(&self, device: Handle) -> Result<(), Status> {
        self.object::<()>(ObjectCall::DestroyDevice(device))?;
        self.end_fences_of(device);
        self.doorbells.forget_ended();
        Ok(())
    }

    fn device_state(&self, device: Handle) -> Result<DeviceState, Status> {
        match self.object(ObjectCall::DeviceState(device)) {
            Err(_) if self.channel.is_lost() => Ok(DeviceState::Removed),
            state => state,
        }
    }

    fn mark_device_as_error(
        &self,
        device: Handle,
        reason: DeviceErrorReason,
    ) -> Result<(), Status> {
        self.object(ObjectCall::MarkDeviceAsError(device, reason))
    }

    fn disable_gpu_timeout(&self, object: Handle) -> Result<(), Status> {
        self.work(WorkCall::DisableGpuTimeout(object))
    }

    fn queue_number(&self, queue: Handle) -> Option<QueueNumber> {
        self.work(WorkCall::QueueNumber(queue)).ok().flatten()
    }

    fn debug_timeouts(&self, test: TdrTest) -> Result<(), Status> {
        self.work(WorkCall::DebugTimeouts(test))
    }

    fn create_allocation(&self, args: CreateAllocation) -> Result<Allocation, Status> {
        let call = Call::Object(ObjectCall::CreateAllocation(args));
        let (view, files): (AllocationView, _) = self.channel.call_with(&call, &[])?;
        let AllocationView { handle, gpu_va, bytes, memory } = view;
        let memory =
            self.mapped.allocation((&self.channel, args.device, handle), (memory, bytes), &files);
        let memory = memory.inspect_err(|_| {
            let _: Result<(), Status> = self.destroy_allocation(handle);
        })?;
        Ok(Allocation { handle, gpu_va, bytes, memory })
    }

    fn destroy_allocation(&self, allocation: Handle) -> Result<(), Status> {
        self.object(ObjectCall::DestroyAllocation(allocation))
    }

    fn lock2(&self, device: Handle, allocation: Handle) -> Result<AllocationMemory, Status> {
        let call = Call::Object(ObjectCall::Lock2(device, allocation));
        let ((view, bytes), files) = self.channel.call_with(&call, &[])?;
        self.mapped.allocation((&self.channel, device, allocation), (view, bytes), &files)
    }

    fn create_resource(&self, args: CreateResource<'_>) -> Result<Resource, Status> {
        let CreateResource { device, nt_security_sharing, .. } = args;
        let (allocations, data) = (args.allocations.to_vec(), args.data.clone());
        let call = ObjectCall::CreateResource { device, allocations, data, nt_security_sharing };
        self.object(call)
    }

    fn query_resource_info(
        &self,
        device: Handle,
        name: ResourceName<'_>,
    ) -> Result<ResourceData, Status> {
        self.by_resource_name(name, |name| ObjectCall::QueryResourceInfo(device, name))
    }

    fn open_resource(
        &self,
        device: Handle,
        name: ResourceName<'_>,
    ) -> Result<OpenedResource, Status> {
        let view: OpenedResourceView =
            self.by_resource_name(name, |name| ObjectCall::OpenResource(device, name))?;
        let (handle, data, allocations) = view;
        let map = |(handle, gpu_va, bytes)| {
            let memory = self.lock2(device, handle)?;
            Ok(Allocation { handle, gpu_va, bytes, memory })
        };
        let allocations: Result<Vec<Allocation>, Status> =
            allocations.into_iter().map(map).collect();
        let allocations = allocations.inspect_err(|_| {
            let _ended = self.destroy_resource(handle);
        })?;
        Ok(OpenedResource { handle, data, allocations })
    }

    fn destroy_resource(&self, resource: Handle) -> Result<(), Status> {
        self.object(ObjectCall::DestroyResource(resource))
    }

    fn reserve_gpu_virtual_address(
        &self,
        args: ReserveGpuVirtualAddress,
    ) -> Result<ReservedAddresses, Status> {
        self.object(ObjectCall::ReserveGpuVirtualAddress(args))
    }

    fn free_gpu_virtual_address(&self, reserved: Handle) -> Result<(), Status> {
        self.object(ObjectCall::FreeGpuVirtualAddress(reserved))
    }

    fn update_gpu_virtual_address(&self, args: UpdateGpuVirtualAddress<'_>) -> Result<(), Status> {
        let UpdateGpuVirtualAddress { reserved, operations, fence, value } = args;
        let operations = operations.to_vec();
        self.object(ObjectCall::UpdateGpuVirtualAddress { reserved, operations, fence, value })
    }

    fn create_paging_queue(&self, args: CreatePagingQueue) -> Result<PagingQueue, Status> {
        let CreatePagingQueue { device, priority } = args;
        let call = Call::Object(ObjectCall::CreatePagingQueue { device, priority });
        let ((handle, fence), files) = self.channel.call_with(&call, &[])?;
        let fence = self.keep_fence([device, handle], fence, &files, true)?;
        Ok(PagingQueue { handle, fence })
    }

    fn destroy_paging_queue(&self, paging_queue: Handle) -> Result<(), Status> {
        self.object::<()>(ObjectCall::DestroyPagingQueue(paging_queue))?;
        self.end_fences_of(paging_queue);
        Ok(())
    }

    fn make_resident(&self, args: MakeResident<'_>) -> Result<Residency, Status> {
        let (paging_queue, allocations) = (args.paging_queue, args.allocations.to_vec());
        self.object(ObjectCall::MakeResident { paging_queue, allocations })
    }

    fn evict(&self, device: Handle, allocations: &[Handle]) -> Result<(), Status> {
        self.object(ObjectCall::Evict(device, allocations.to_vec()))
    }

    fn set_allocation_priority(
        &self,
        device: Handle,
        allocations: &[Handle],
        priority: ResidencyPriority,
    ) -> Result<(), Status> {
        let allocations = allocations.to_vec();
        self.object(ObjectCall::SetAllocationPriority(device, allocations, priority))
    }

    fn query_allocation_residency(
        &self,
        device: Handle,
        allocations: &[Handle],
    ) -> Result<Vec<AllocationResidency>, Status> {
        self.object(ObjectCall::QueryAllocationResidency(device, allocations.to_vec()))
    }

    fn query_video_memory_info(&self, group: SegmentGroup) -> Result<VideoMemoryInfo, Status> {
        self.object(ObjectCall::QueryVideoMemoryInfo(group))
    }

    fn create_context_virtual(&self, args: CreateContextVirtual) -> Result<Handle, Status> {
        self.work(WorkCall::CreateContextVirtual(args))
    }

    fn destroy_context(&self, context: Handle) -> Result<(), Status> {
        self.work(WorkCall::DestroyContext(context))
    }

    fn submit_command(&self, args: SubmitCommand) -> Result<(), Status> {
        self.work(WorkCall::SubmitCommand(args))
    }

    fn render(&self, args: Render<'_>) -> Result<(), Status> {
        let (contexts, allocations) = (args.contexts.to_vec(), args.allocations.to_vec());
        let render = |commands| Call::Work(WorkCall::Render { contexts, commands, allocations });
        if args.commands.len() <= long::MAX_INLINE_BYTES {
            return self.channel.call(&render(Commands::Here(args.commands.to_vec())));
        }
        if args.commands.len() > MAX_RENDER_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        let file = long::into_file(args.commands).map_err(|_| Status::NO_MEMORY)?;
        let file = Attachment::from(file);
        let call = render(Commands::File(args.commands.len() as u32));
        self.channel.call_with(&call, &[file]).map(|((), _)| ())
    }

    fn create_hw_context(&self, args: CreateHwContext) -> Result<Handle, Status> {
        self.work(WorkCall::CreateHwContext(args))
    }

    fn destroy_hw_context(&self, hw_context: Handle) -> Result<(), Status> {
        self.work(WorkCall::DestroyHwContext(hw_context))
    }

    fn set_context_scheduling_priority(
        &self,
        hw_context: Handle,
        priority: i32,
    ) -> Result<(), Status> {
        self.work(WorkCall::SetContextSchedulingPriority(hw_context, priority))
    }

    fn set_context_in_process_scheduling_priority(
        &self,
        hw_context: Handle,
        priority: i32,
    ) -> Result<(), Status> {
        self.work(WorkCall::SetContextInProcessSchedulingPriority(hw_context, priority))
    }

    fn create_hw_queue(&self, args: CreateHwQueue) -> Result<HwQueue, Status> {
        let call = Call::Work(WorkCall::CreateHwQueue(args));
        let (view, files): (HwQueueView, _) = self.channel.call_with(&call, &[])?;
        Ok(HwQueue {
            handle: view.handle,
            progress_fence: view.progress_fence,
            progress_value: self.mapped.read_only(view.progress_value, &files)?,
            progress_gpu_va: view.progress_gpu_va,
            native_progress_fence: view.native_progress_fence,
        })
    }

    fn destroy_hw_queue(&self, hw_queue: Handle) -> Result<(), Status> {
        self.work(WorkCall::DestroyHwQueue(hw_queue))
    }

    fn submit_command_to_hw_queue(&self, args: SubmitCommandToHwQueue) -> Result<(), Status> {
        self.work(WorkCall::SubmitCommandToHwQueue(args))
    }

    fn submit_wait_to_hw_queue(
        &self,
        hw_queue: Handle,
        fences: &[FenceValue],
    ) -> Result<(), Status> {
        self.work(WorkCall::SubmitWaitToHwQueue(hw_queue, fences.to_vec()))
    }

    fn submit_signal_to_hw_queues(&self, args: SubmitSignalToHwQueues<'_>) -> Result<(), Status> {
        let (hw_queues, fences) = (args.hw_queues.to_vec(), args.fences.to_vec());
        self.work(WorkCall::SubmitSignalToHwQueues { hw_queues, fences, flags: args.flags })
    }

    fn create_monitored_fence(
        &self,
        args: CreateMonitoredFence<'_>,
    ) -> Result<FenceInstance, Status> {
        let CreateMonitoredFence { device, initial_value, flags, engine_affinity, name } = args;
        let name = name.to_owned();
        let call =
            FenceCall::CreateMonitoredFence { device, initial_value, flags, engine_affinity, name };
        self.make_fence(device, call, !flags.contains(SyncObjectFlags::NO_WAIT))
    }

    fn create_native_fence(&self, args: CreateNativeFence<'_>) -> Result<FenceInstance, Status> {
        let call = FenceCall::CreateNativeFence {
            device: args.device,
            initial_value: args.initial_value,
            fence_type: args.fence_type,
            flags: args.flags,
            engine_affinity: args.engine_affinity,
            private_data: args.private_data.to_vec(),
            name: args.name.to_owned(),
        };
        self.make_fence(args.device, call, !args.flags.contains(SyncObjectFlags::NO_WAIT))
    }

    fn share_objects(
        &self,
        objects: &[Handle],
        access: SyncObjectAccess,
        name: Option<&str>,
    ) -> Result<NtHandle, Status> {
        let (objects, name) = (objects.to_vec(), name.map(str::to_owned));
        self.nt_handle(FenceCall::ShareObjects { objects, access, name })
    }

    fn open_sync_object_nt_handle_from_name(
        &self,
        name: &str,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status> {
        self.nt_handle(FenceCall::OpenSyncObjectNtHandleFromName(name.to_owned(), access))
    }

    fn open_sync_object_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status> {
        self.open_fence(args, false)
    }

    fn open_native_fence_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status> {
        self.open_fence(args, true)
    }

    fn destroy_synchronization_object(&self, fence: Handle) -> Result<(), Status> {
        self.values.lock().remove(&fence);
        self.fence(FenceCall::DestroySynchronizationObject(fence))
    }

    fn wait_from_cpu(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        event: Option<Event>,
    ) -> Result<(), Status> {
        if let Some(event) = event {
            // Nothing cancels this wait: it ends with its fences, or with the connection.
            let notice = WaitNotice::Event(event);
            return self.notices.register(fences, mode, notice).map(|wait: Wait| drop(wait));
        }
        let reached = || self.is_reached(fences, mode);
        if reached() || self.platform.poll_for(POLL_NS, reached) {
            return Ok(());
        }
        self.notices.block(fences, mode)?;
        if self.is_reached(fences, mode) {
            return Ok(());
        }
        // The fences of a lost device read their maximum, and those of an ended wait-any may not
        // have been reached.
        match self.fence(FenceCall::CheckWait { fences: fences.to_vec() }) {
            // The wait was entered, so each fence existed: one of them was destroyed, which
            // releases its waiters.
            Err(Status::INVALID_PARAMETER) => Ok(()),
            checked => checked,
        }
    }

    fn register_cpu_wait(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        notice: WaitNotice,
    ) -> Result<CpuWaitRegistration, Status> {
        self.notices.register(fences, mode, notice).map(CpuWaitRegistration::new)
    }

    fn signal_from_cpu(&self, fences: &[FenceValue], flags: SignalFlags) -> Result<(), Status> {
        self.fence(FenceCall::SignalFromCpu(fences.to_vec(), flags))
    }

    fn wait_from_gpu(&self, context: Handle, fences: &[FenceValue]) -> Result<(), Status> {
        self.fence(FenceCall::WaitFromGpu(context, fences.to_vec()))
    }

    fn signal_from_gpu2(&self, args: SignalFromGpu2<'_>) -> Result<(), Status> {
        let call = |event| {
            let (contexts, fences) = (args.contexts.to_vec(), args.fences.to_vec());
            FenceCall::SignalFromGpu2 { contexts, fences, flags: args.flags, event }
        };
        match args.cpu_event.clone() {
            // Nothing cancels a queued event.
            Some(event) => self.notices.announce(event, |key| call(Some(key))).map(drop),
            None => self.fence(call(None)),
        }
    }

    fn create_synchronization_object(
        &self,
        args: CreateSynchronizationObject,
    ) -> Result<SynchronizationObject, Status> {
        self.fence(FenceCall::CreateSynchronizationObject(args))
    }

    fn open_synchronization_object(
        &self,
        args: OpenSynchronizationObject<'_>,
    ) -> Result<Handle, Status> {
        let (shared, device, flags, nt_handle) = match args {
            OpenSynchronizationObject::Shared(shared) => {
                (Some(shared), None, SyncObjectFlags::empty(), None)
            }
            OpenSynchronizationObject::NtHandle { nt_handle: shared, device, flags } => {
                (None, device, flags, Some(shared))
            }
        };
        let file = |handle| nt_handle::attachment(handle).ok_or(Status::INVALID_HANDLE);
        let files = nt_handle.map(file).transpose()?.map_or(&[][..], std::slice::from_ref);
        let call = FenceCall::OpenSynchronizationObject { shared, device, flags };
        self.channel.call_with(&Call::Fence(call), files).map(|(handle, _)| handle)
    }

    fn wait_for_synchronization_objects(
        &self,
        context: Handle,
        objects: &[Handle],
        fence_value: u64,
    ) -> Result<(), Status> {
        let objects = objects.to_vec();
        self.fence(FenceCall::WaitForSynchronizationObjects { context, objects, fence_value })
    }

    fn signal_synchronization_objects(
        &self,
        contexts: &[Handle],
        objects: &[Handle],
        flags: SignalFlags,
        fence_value: u64,
    ) -> Result<(), Status> {
        let (contexts, objects) = (contexts.to_vec(), objects.to_vec());
        self.fence(FenceCall::SignalSynchronizationObjects {
            contexts,
            objects,
            flags,
            fence_value,
        })
    }

    fn create_doorbell(&self, args: CreateDoorbell) -> Result<Doorbell, Status> {
        let CreateDoorbell { hw_queue, ring, control, flags, private_data } = args;
        let flags = flags.bits();
        let call = DoorbellCall::CreateDoorbell { hw_queue, ring, control, flags, private_data };
        let (view, files): (DoorbellView, _) =
            self.channel.call_with(&Call::Doorbell(call), &[])?;
        self.doorbells.enter(&self.mapped, view, &files)
    }

    fn connect_doorbell(&self, doorbell: Handle) -> Result<Connection, Status> {
        let call = Call::Doorbell(DoorbellCall::ConnectDoorbell(doorbell));
        let (view, files): (ConnectionView, _) = self.channel.call_with(&call, &[])?;
        self.doorbells.show((&self.mapped, &self.channel), doorbell, view, &files)
    }

    fn destroy_doorbell(&self, doorbell: Handle) -> Result<(), Status> {
        self.doorbells.forget(doorbell);
        self.channel.call(&Call::Doorbell(DoorbellCall::DestroyDoorbell(doorbell)))
    }

    fn notify_work_submission(&self, doorbell: Handle) -> Result<(), Status> {
        self.channel.call(&Call::Doorbell(DoorbellCall::NotifyWorkSubmission(doorbell)))
    }

    fn native_fence_log_detail(&self, hw_queue: Handle) -> Result<LogDetail, Status> {
        let call = Call::Fence(FenceCall::NativeFenceLogDetail(hw_queue));
        let (view, files): (LogView, _) = self.channel.call_with(&call, &[])?;
        let verbose = view.verbose.map(|word| self.mapped.read_only(word, &files));
        Ok(LogDetail {
            wait_entries: view.wait_entries,
            signal_entries: view.signal_entries,
            wait_log_gpu_va: view.wait_log_gpu_va,
            signal_log_gpu_va: view.signal_log_gpu_va,
            numbers: view.numbers,
            verbose: verbose.transpose()?,
        })
    }

    fn display(&self) -> Option<DisplayInfo> {
        self.work(WorkCall::Display).ok().flatten()
    }

    fn present(&self, args: Present) -> Result<(), Status> {
        self.work(WorkCall::Present(args))
    }

    fn wait_for_vertical_blank_event(&self) -> Result<(), Status> {
        self.work(WorkCall::WaitForVerticalBlankEvent)
    }
}
