//! Carries out the calls of one process.
//!
//! The kernel validates handles, numbers and flags. Here is what it does not see: limits, slots of
//! notices, and the files of memory.

use super::ledger::{Charge, Ledger};
use super::notices::Notices;
use super::shared::{Opened, Shared};
use super::views::Files;
use crate::long::from_file;
use crate::transport::{Attachment, MAX_MESSAGE_BYTES};
use crate::wire::{
    self, AllocationView, Call, Commands, ConnectionView, DoorbellCall, DoorbellView, FenceCall,
    FenceView, HwQueueView, ObjectCall, WorkCall,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::snapshot::{QueueKind, shortened};
use tidegate_calls::{
    AllocationMemory, ConnectAnnouncement, CreateAllocation, CreateDoorbell, CreateMonitoredFence,
    CreateNativeFence, CreatePagingQueue, Doorbell, FenceInstance, Handle, Kernel,
    MAX_RENDER_BYTES, MakeResident, NtHandle, OpenSyncObject, OpenSynchronizationObject, Render,
    RingHint, SignalFromGpu2, Status, SubmitSignalToHwQueues, SyncObjectAccess, SyncObjectFlags,
    UpdateGpuVirtualAddress, WaitCallback, WaitMode, WaitNotice, doorbell::CreateDoorbellFlags,
};
use tidegate_platform::Mapping;

/// Memory that a file takes at least.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Most bytes of one read or write of an allocation that is not mapped.
pub(crate) const MOVING_PIECE_BYTES: usize = MAX_MESSAGE_BYTES / 2;

/// Most bytes of the name of a process or a fence, which the kernel keeps for reports.
pub(super) const MOST_NAME_BYTES: usize = 256;
/// Most bytes of a name by which an object is found: 260 characters.
const MOST_SHARED_NAME_BYTES: usize = 4 * 260;

/// A doorbell of the process, as the kernel shows it.
struct Rung {
    mapping: Mapping,
    secondary: Option<Mapping>,
    /// Of the present connect.
    hint: Option<Arc<dyn RingHint>>,
    announcement: Option<Arc<dyn ConnectAnnouncement>>,
}

pub(super) struct Answerer {
    pub(super) shared: Arc<Shared>,
    pub(super) session: u64,
    pub(super) opened: Opened,
    notices: Notices,
    pub(super) ledger: Ledger,
    doorbells: BTreeMap<Handle, Rung>,
}

/// The notice of a wait that is entered for its checks.
struct Nothing;

impl WaitCallback for Nothing {
    fn wait_is_over(&self) {}
}

/// Returns a name of a client, which the kernel keeps.
fn checked_name(name: &str) -> Result<&str, Status> {
    if name.len() > MOST_SHARED_NAME_BYTES { Err(Status::OBJECT_NAME_INVALID) } else { Ok(name) }
}

pub(super) fn bytes_in_files(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX)
}

impl Answerer {
    pub(super) fn new(
        shared: Arc<Shared>,
        session: u64,
        opened: Opened,
        notices: Notices,
        ledger: Ledger,
    ) -> Answerer {
        Answerer { shared, session, opened, notices, ledger, doorbells: BTreeMap::new() }
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn process(&self) -> Option<u32> {
        self.opened.number
    }

    pub(super) fn kernel(&self) -> &Arc<dyn Kernel> {
        &self.opened.kernel
    }

    /// Cancels the process's waits. Returns the process, for its end.
    pub(super) fn end_waits(&mut self) -> &Opened {
        self.notices.cancel_all();
        &self.opened
    }

    /// Carries out a call. Returns the encoded result, and in `files` the memory that it names.
    pub(super) fn answer(
        &mut self,
        call: Call,
        came_with: Vec<Attachment>,
        files: &mut Files,
    ) -> Vec<u8> {
        match call {
            Call::Object(call) => self.of_objects(call, &came_with, files),
            Call::Fence(call) => self.of_fences(call, came_with, files),
            Call::Work(call) => self.of_work(call, came_with, files),
            Call::Doorbell(call) => self.of_doorbells(call, files),
        }
    }

    /// Creates an object from `parent` within the limits.
    pub(super) fn create<T>(
        &mut self,
        parent: Handle,
        charge: Charge,
        create: impl FnOnce(&dyn Kernel) -> Result<T, Status>,
        handle: impl FnOnce(&T) -> Handle,
    ) -> Result<T, Status> {
        self.ledger.check(charge)?;
        let made = create(&*self.opened.kernel)?;
        let handle = handle(&made);
        self.ledger.enter(handle, if parent == Handle(0) { handle } else { parent }, charge);
        Ok(made)
    }

    /// Gives a new queue its lane, if there is a recording.
    fn draw<T>(
        &self,
        made: Result<T, Status>,
        kind: QueueKind,
        handle: impl FnOnce(&T) -> Handle,
    ) -> Result<T, Status> {
        if let (Ok(queue), true) = (&made, self.shared.platform.tracing())
            && let Some(number) = self.opened.kernel.queue_number(handle(queue))
        {
            let usage = self.shared.sessions.lock().get(&self.session).cloned();
            let name = usage.as_ref().map_or("", |usage| usage.name());
            self.shared.draw_queue(number, kind, name);
        }
        made
    }

    /// Ends an object.
    fn destroy(
        &mut self,
        handle: Handle,
        destroy: impl FnOnce(&dyn Kernel, Handle) -> Result<(), Status>,
    ) -> Result<(), Status> {
        destroy(&*self.opened.kernel, handle)?;
        for ended in self.ledger.leave(handle) {
            self.doorbells.remove(&ended);
        }
        Ok(())
    }

    /// Ends an object whose memory could not be handed over: the client has no handle of it.
    fn end_without_view<T>(
        &mut self,
        view: Result<T, Status>,
        handle: Handle,
        destroy: impl FnOnce(&dyn Kernel, Handle) -> Result<(), Status>,
    ) -> Result<T, Status> {
        if view.is_err() {
            self.destroy(handle, destroy)?;
        }
        view
    }

    fn of_objects(
        &mut self,
        call: ObjectCall,
        came_with: &[Attachment],
        files: &mut Files,
    ) -> Vec<u8> {
        let kernel = self.opened.kernel.clone();
        match call {
            ObjectCall::CreateDevice => encode(self.create(
                Handle(0),
                Charge::default(),
                |kernel| kernel.create_device(),
                |device| *device,
            )),
            ObjectCall::DestroyDevice(device) => {
                encode(self.destroy(device, |kernel, device| kernel.destroy_device(device)))
            }
            ObjectCall::DeviceState(device) => encode(kernel.device_state(device)),
            ObjectCall::MarkDeviceAsError(device, reason) => {
                encode(kernel.mark_device_as_error(device, reason))
            }
            ObjectCall::CreateAllocation(args) => encode(self.create_allocation(args, files)),
            ObjectCall::DestroyAllocation(allocation) => {
                encode(self.destroy(allocation, |kernel, a| kernel.destroy_allocation(a)))
            }
            ObjectCall::Lock2(device, allocation) => {
                let memory = kernel.lock2(device, allocation);
                encode(memory.and_then(|memory| {
                    let bytes = match &memory {
                        AllocationMemory::Window(window) => window.len(),
                        // A view of mapped memory says its size.
                        _ => 0,
                    };
                    Ok((files.memory(&memory)?, bytes))
                }))
            }
            ObjectCall::ReadAllocation { device, allocation, offset, bytes } => {
                encode(self.read(device, allocation, offset, bytes))
            }
            ObjectCall::WriteAllocation { device, allocation, offset, data } => {
                encode(self.write(device, allocation, offset, &data))
            }
            ObjectCall::ReserveGpuVirtualAddress(args) => encode(self.create(
                args.device,
                Charge::default(),
                |kernel| kernel.reserve_gpu_virtual_address(args),
                |made| made.handle,
            )),
            ObjectCall::FreeGpuVirtualAddress(reserved) => {
                encode(self.destroy(reserved, |kernel, r| kernel.free_gpu_virtual_address(r)))
            }
            ObjectCall::UpdateGpuVirtualAddress { reserved, operations, fence, value } => {
                let operations = &operations;
                let args = UpdateGpuVirtualAddress { reserved, operations, fence, value };
                encode(kernel.update_gpu_virtual_address(args))
            }
            ObjectCall::CreatePagingQueue { device, priority } => {
                let args = CreatePagingQueue { device, priority };
                let made = self.create(
                    device,
                    Charge { bytes: PAGE_BYTES, queue: false },
                    |kernel| kernel.create_paging_queue(args),
                    |made| made.handle,
                );
                encode(made.and_then(|made| {
                    let view = files.fence(&made.fence).map(|fence| (made.handle, fence));
                    self.end_without_view(view, made.handle, |kernel, queue| {
                        kernel.destroy_paging_queue(queue)
                    })
                }))
            }
            ObjectCall::DestroyPagingQueue(queue) => {
                encode(self.destroy(queue, |kernel, queue| kernel.destroy_paging_queue(queue)))
            }
            ObjectCall::MakeResident { paging_queue, allocations } => {
                let args = MakeResident { paging_queue, allocations: &allocations };
                encode(kernel.make_resident(args))
            }
            ObjectCall::Evict(device, allocations) => encode(kernel.evict(device, &allocations)),
            ObjectCall::SetAllocationPriority(device, allocations, priority) => {
                encode(kernel.set_allocation_priority(device, &allocations, priority))
            }
            ObjectCall::QueryAllocationResidency(device, allocations) => {
                encode(kernel.query_allocation_residency(device, &allocations))
            }
            ObjectCall::QueryVideoMemoryInfo(group) => {
                encode(kernel.query_video_memory_info(group))
            }
            ObjectCall::CreateResource { device, allocations, data, nt_security_sharing } => {
                encode(self.create_resource(device, &allocations, &data, nt_security_sharing))
            }
            ObjectCall::QueryResourceInfo(device, name) => {
                encode(self.query_resource(device, name, came_with))
            }
            ObjectCall::OpenResource(device, name) => {
                encode(self.open_resource(device, name, came_with))
            }
            ObjectCall::DestroyResource(resource) => {
                encode(self.destroy(resource, |kernel, r| kernel.destroy_resource(r)))
            }
        }
    }

    fn create_allocation(
        &mut self,
        args: CreateAllocation,
        files: &mut Files,
    ) -> Result<AllocationView, Status> {
        let charge = Charge { bytes: bytes_in_files(args.bytes), queue: false };
        let made = self.create(
            args.device,
            charge,
            |kernel| kernel.create_allocation(args),
            |made| made.handle,
        )?;
        let (handle, gpu_va, bytes) = (made.handle, made.gpu_va, made.bytes);
        let view = files.memory(&made.memory);
        let view = view.map(|memory| AllocationView { handle, gpu_va, bytes, memory });
        self.end_without_view(view, handle, |kernel, a| kernel.destroy_allocation(a))
    }

    fn read(
        &self,
        device: Handle,
        allocation: Handle,
        offset: u64,
        bytes: u32,
    ) -> Result<Vec<u8>, Status> {
        if bytes as usize > MOVING_PIECE_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        let mut data = vec![0; bytes as usize];
        let memory = self.opened.kernel.lock2(device, allocation)?;
        let AllocationMemory::Window(window) = memory else {
            return Err(Status::INVALID_PARAMETER);
        };
        window.read(offset, &mut data).map_err(|_| Status::INVALID_PARAMETER)?;
        Ok(data)
    }

    fn write(
        &self,
        device: Handle,
        allocation: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Status> {
        let memory = self.opened.kernel.lock2(device, allocation)?;
        let AllocationMemory::Window(window) = memory else {
            return Err(Status::INVALID_PARAMETER);
        };
        window.write(offset, data).map_err(|_| Status::INVALID_PARAMETER)
    }

    fn of_fences(
        &mut self,
        call: FenceCall,
        came_with: Vec<Attachment>,
        files: &mut Files,
    ) -> Vec<u8> {
        let kernel = self.opened.kernel.clone();
        match call {
            FenceCall::CreateMonitoredFence {
                device,
                initial_value,
                flags,
                engine_affinity,
                name,
            } => {
                let name = &shortened(&name, MOST_NAME_BYTES);
                let args =
                    CreateMonitoredFence { device, initial_value, flags, engine_affinity, name };
                encode(self.make_fence(device, files, |kernel| kernel.create_monitored_fence(args)))
            }
            FenceCall::CreateNativeFence {
                device,
                initial_value,
                fence_type,
                flags,
                engine_affinity,
                private_data,
                name,
            } => encode(
                <[u8; 64]>::try_from(private_data).map_err(|_| Status::INVALID_PARAMETER).and_then(
                    |private_data| {
                        let args = CreateNativeFence {
                            device,
                            initial_value,
                            fence_type,
                            flags,
                            engine_affinity,
                            private_data,
                            name: &shortened(&name, MOST_NAME_BYTES),
                        };
                        self.make_fence(device, files, |kernel| kernel.create_native_fence(args))
                    },
                ),
            ),
            FenceCall::ShareObjects { objects, access, name } => {
                encode(self.share(&objects, access, name.as_deref(), files))
            }
            FenceCall::OpenSyncObjectNtHandleFromName(name, access) => {
                self.shared.nt_handles.sweep();
                let opened = checked_name(&name)
                    .and_then(|name| kernel.open_sync_object_nt_handle_from_name(name, access));
                encode(opened.and_then(|handle| self.export(handle, 0, files)))
            }
            FenceCall::OpenSyncObject { device, flags, engine_affinity, native } => {
                let handle = match &came_with[..] {
                    [file] => self.shared.nt_handles.of_attachment(file),
                    _ => Err(Status::INVALID_HANDLE),
                };
                encode(handle.and_then(|nt_handle| {
                    let nt_handle = &nt_handle;
                    let args = OpenSyncObject { device, nt_handle, flags, engine_affinity };
                    self.make_fence(device, files, |kernel| match native {
                        true => kernel.open_native_fence_from_nt_handle(args),
                        false => kernel.open_sync_object_from_nt_handle(args),
                    })
                }))
            }
            FenceCall::DestroySynchronizationObject(fence) => encode(
                self.destroy(fence, |kernel, fence| kernel.destroy_synchronization_object(fence)),
            ),
            FenceCall::RegisterWait { fences, mode, key, announced } => {
                let count = fences.len();
                encode(self.notices.register(key, announced, count, |notice| {
                    kernel.register_cpu_wait(&fences, mode, notice)
                }))
            }
            FenceCall::CancelWait { key } => {
                self.notices.cancel(key);
                encode(Ok(()))
            }
            FenceCall::CheckWait { fences } => {
                let notice = WaitNotice::Callback(Arc::new(Nothing));
                // Entered for its checks, and cancelled.
                encode(kernel.register_cpu_wait(&fences, WaitMode::Any, notice).map(drop))
            }
            FenceCall::SignalFromCpu(fences, flags) => {
                encode(kernel.signal_from_cpu(&fences, flags))
            }
            FenceCall::WaitFromGpu(context, fences) => {
                encode(kernel.wait_from_gpu(context, &fences))
            }
            FenceCall::SignalFromGpu2 { contexts, fences, flags, event } => {
                let notice = event.map(|key| self.notices.notice(key, true)).transpose();
                encode(notice.and_then(|cpu_event| {
                    let (contexts, fences) = (&contexts[..], &fences[..]);
                    kernel.signal_from_gpu2(SignalFromGpu2 { contexts, fences, flags, cpu_event })
                }))
            }
            FenceCall::NativeFenceLogDetail(queue) => {
                let detail = kernel.native_fence_log_detail(queue);
                encode(detail.and_then(|detail| files.log(&detail)))
            }
            FenceCall::CreateSynchronizationObject(args) => encode(self.create(
                args.device,
                Charge::default(),
                |kernel| kernel.create_synchronization_object(args),
                |made| made.handle,
            )),
            FenceCall::OpenSynchronizationObject { shared, device, flags } => {
                encode(self.open_older(shared, device, flags, &came_with))
            }
            FenceCall::WaitForSynchronizationObjects { context, objects, fence_value } => {
                encode(kernel.wait_for_synchronization_objects(context, &objects, fence_value))
            }
            FenceCall::SignalSynchronizationObjects { contexts, objects, flags, fence_value } => {
                encode(kernel.signal_synchronization_objects(
                    &contexts,
                    &objects,
                    flags,
                    fence_value,
                ))
            }
        }
    }

    fn make_fence(
        &mut self,
        device: Handle,
        files: &mut Files,
        make: impl FnOnce(&dyn Kernel) -> Result<FenceInstance, Status>,
    ) -> Result<FenceView, Status> {
        let made = self.create(device, Charge::default(), make, |made| made.handle)?;
        let view = files.fence(&made);
        self.end_without_view(view, made.handle, |kernel, f| {
            kernel.destroy_synchronization_object(f)
        })
    }

    fn share(
        &self,
        objects: &[Handle],
        access: SyncObjectAccess,
        name: Option<&str>,
        files: &mut Files,
    ) -> Result<(), Status> {
        // A name is free again once the last file of its handle is closed. The fault is the mistake
        // that the scenario served-handle-against-death must find.
        if !self.shared.platform.fault("a name is kept") {
            self.shared.nt_handles.sweep();
        }
        name.map(checked_name).transpose()?;
        let shared = self.opened.kernel.share_objects(objects, access, name)?;
        let keeps = objects.iter().map(|object| self.ledger.bytes_held_by(*object)).sum();
        self.export(shared, keeps, files)
    }

    /// Opens an older object. An instance without a device counts until it is destroyed.
    fn open_older(
        &mut self,
        shared: Option<u32>,
        device: Option<Handle>,
        flags: SyncObjectFlags,
        came_with: &[Attachment],
    ) -> Result<Handle, Status> {
        let nt_handle = match (shared, came_with) {
            (Some(_), _) => None,
            (None, [file]) => Some(self.shared.nt_handles.of_attachment(file)?),
            (None, _) => return Err(Status::INVALID_HANDLE),
        };
        let args = match (shared, &nt_handle) {
            (Some(shared), _) => OpenSynchronizationObject::Shared(shared),
            (None, Some(nt_handle)) => {
                OpenSynchronizationObject::NtHandle { nt_handle, device, flags }
            }
            (None, None) => return Err(Status::INVALID_HANDLE),
        };
        self.create(
            device.unwrap_or(Handle(0)),
            Charge::default(),
            |kernel| kernel.open_synchronization_object(args),
            |handle| *handle,
        )
    }

    /// Adds an NT handle that keeps so much memory to an answer.
    fn export(&self, handle: NtHandle, bytes: u64, files: &mut Files) -> Result<(), Status> {
        files.all.push(self.handle_file(handle, bytes)?);
        files.nt_handle = true;
        Ok(())
    }

    fn of_work(
        &mut self,
        call: WorkCall,
        mut came_with: Vec<Attachment>,
        files: &mut Files,
    ) -> Vec<u8> {
        let kernel = self.opened.kernel.clone();
        match call {
            WorkCall::QueryClockCalibration(node, engine) => {
                encode(kernel.query_clock_calibration(node, engine))
            }
            WorkCall::DisableGpuTimeout(object) => encode(kernel.disable_gpu_timeout(object)),
            WorkCall::QueueNumber(queue) => encode(Ok(kernel.queue_number(queue))),
            // For the owner of a machine, not for its clients.
            WorkCall::DebugTimeouts(_) => encode::<()>(Err(Status::NOT_SUPPORTED)),
            WorkCall::CreateContextVirtual(args) => {
                let made = self.create(
                    args.device,
                    Charge { bytes: 0, queue: true },
                    |kernel| kernel.create_context_virtual(args),
                    |context| *context,
                );
                encode(self.draw(made, QueueKind::Packet, |context| *context))
            }
            WorkCall::DestroyContext(context) => {
                encode(self.destroy(context, |kernel, context| kernel.destroy_context(context)))
            }
            WorkCall::SubmitCommand(args) => encode(kernel.submit_command(args)),
            WorkCall::Render { contexts, commands, allocations } => {
                let file = came_with.pop().and_then(Attachment::into_file);
                let commands = match (commands, file) {
                    (Commands::Here(commands), None) => Ok(commands),
                    (Commands::File(bytes), Some(file)) if bytes as usize <= MAX_RENDER_BYTES => {
                        from_file(file, bytes as usize).map_err(|_| Status::INVALID_PARAMETER)
                    }
                    _ => Err(Status::INVALID_PARAMETER),
                };
                encode(commands.and_then(|commands| {
                    let (contexts, allocations) = (&contexts[..], &allocations[..]);
                    kernel.render(Render { contexts, commands: &commands, allocations })
                }))
            }
            WorkCall::CreateHwContext(args) => encode(self.create(
                args.device,
                Charge::default(),
                |kernel| kernel.create_hw_context(args),
                |context| *context,
            )),
            WorkCall::DestroyHwContext(context) => {
                encode(self.destroy(context, |kernel, context| kernel.destroy_hw_context(context)))
            }
            WorkCall::SetContextSchedulingPriority(context, priority) => {
                encode(kernel.set_context_scheduling_priority(context, priority))
            }
            WorkCall::SetContextInProcessSchedulingPriority(context, priority) => {
                encode(kernel.set_context_in_process_scheduling_priority(context, priority))
            }
            WorkCall::CreateHwQueue(args) => {
                let kind = match args.user_mode_submission {
                    true => QueueKind::User,
                    false => QueueKind::Hardware,
                };
                let made = self.create(
                    args.hw_context,
                    Charge { bytes: 0, queue: true },
                    |kernel| kernel.create_hw_queue(args),
                    |made| made.handle,
                );
                let made = self.draw(made, kind, |made| made.handle);
                encode(made.and_then(|made| {
                    let value = files.read_only(&made.progress_value);
                    let view = value.map(|progress_value| HwQueueView {
                        handle: made.handle,
                        progress_fence: made.progress_fence,
                        progress_value,
                        progress_gpu_va: made.progress_gpu_va,
                        native_progress_fence: made.native_progress_fence,
                    });
                    self.end_without_view(view, made.handle, |kernel, q| kernel.destroy_hw_queue(q))
                }))
            }
            WorkCall::DestroyHwQueue(queue) => {
                encode(self.destroy(queue, |kernel, queue| kernel.destroy_hw_queue(queue)))
            }
            // spec: UMS-192
            WorkCall::SubmitCommandToHwQueue(args) => {
                encode(kernel.submit_command_to_hw_queue(args))
            }
            WorkCall::SubmitWaitToHwQueue(queue, fences) => {
                encode(kernel.submit_wait_to_hw_queue(queue, &fences))
            }
            WorkCall::SubmitSignalToHwQueues { hw_queues, fences, flags } => {
                let (hw_queues, fences) = (&hw_queues[..], &fences[..]);
                let args = SubmitSignalToHwQueues { hw_queues, fences, flags };
                encode(kernel.submit_signal_to_hw_queues(args))
            }
            WorkCall::Display => encode(Ok(kernel.display())),
            WorkCall::Present(args) => encode(kernel.present(args)),
            WorkCall::WaitForVerticalBlankEvent => encode(kernel.wait_for_vertical_blank_event()),
        }
    }

    fn of_doorbells(&mut self, call: DoorbellCall, files: &mut Files) -> Vec<u8> {
        let kernel = self.opened.kernel.clone();
        match call {
            DoorbellCall::CreateDoorbell { hw_queue, ring, control, flags, private_data } => {
                let flags = CreateDoorbellFlags::from_bits_retain(flags);
                let args = CreateDoorbell { hw_queue, ring, control, flags, private_data };
                let charge = Charge { bytes: 4 * PAGE_BYTES, queue: false };
                let made = self.create(
                    hw_queue,
                    charge,
                    |kernel| kernel.create_doorbell(args),
                    |made| made.handle,
                );
                encode(made.and_then(|made| {
                    let handle = made.handle;
                    let view = self.enter_doorbell(made, files);
                    self.end_without_view(view, handle, |kernel, d| kernel.destroy_doorbell(d))
                }))
            }
            DoorbellCall::ConnectDoorbell(doorbell) => encode(self.connect(doorbell, files)),
            DoorbellCall::DestroyDoorbell(doorbell) => {
                encode(self.destroy(doorbell, |kernel, doorbell| kernel.destroy_doorbell(doorbell)))
            }
            DoorbellCall::NotifyWorkSubmission(doorbell) => {
                encode(kernel.notify_work_submission(doorbell))
            }
            DoorbellCall::PageIsMapped(doorbell, number) => {
                let rung = self.doorbells.get(&doorbell);
                let announcement = rung.and_then(|rung| rung.announcement.as_ref());
                // A later connect of the client's own has a later number, and maps its page.
                if let Some(announcement) = announcement.filter(|a| a.number() == number) {
                    announcement.page_is_mapped();
                }
                encode(rung.map(|_| ()).ok_or(Status::INVALID_PARAMETER))
            }
            DoorbellCall::WakeEngine(doorbell) => {
                let hint = self.doorbells.get(&doorbell).and_then(|rung| rung.hint.as_ref());
                encode(hint.map(|hint| hint.rung()).ok_or(Status::INVALID_PARAMETER))
            }
        }
    }

    fn enter_doorbell(
        &mut self,
        made: Doorbell,
        files: &mut Files,
    ) -> Result<DoorbellView, Status> {
        let view = DoorbellView {
            handle: made.handle,
            has_secondary: made.secondary.is_some(),
            status: files.read_only(&made.status)?,
            last_queued: files.word(&made.last_queued)?,
            private_data: made.private_data,
        };
        let Doorbell { mapping, secondary, .. } = made;
        let rung = Rung { mapping, secondary, hint: None, announcement: None };
        self.doorbells.insert(made.handle, rung);
        Ok(view)
    }

    /// Connects a doorbell. Its page is a fresh one, which the process maps in place of the last: a
    /// store through a mapping that it has kept reaches no hardware. The status reads CONNECTED
    /// when the process has said that it has mapped the page.
    fn connect(&mut self, doorbell: Handle, files: &mut Files) -> Result<ConnectionView, Status> {
        let connection = self.opened.kernel.connect_doorbell(doorbell)?;
        let rung = self.doorbells.get_mut(&doorbell).ok_or(Status::INVALID_PARAMETER)?;
        let bits = connection.hint.bits();
        let number = connection.announcement.as_ref().map_or(0, |a| a.number());
        (rung.hint, rung.announcement) = (Some(connection.hint), connection.announcement);
        let page = rung.mapping.page();
        // A doorbell that was disconnected meanwhile shows a page of the kernel's own.
        let page = Files::holds(&page).then(|| files.page(&page)).transpose()?;
        let secondary = match &rung.secondary {
            Some(secondary) if Files::holds(&secondary.page()) => {
                Some(files.page(&secondary.page())?)
            }
            _ => None,
        };
        let bits = bits.map(|bits| files.bits(&bits)).transpose()?;
        Ok(ConnectionView { number, value_base: connection.value_base, page, secondary, bits })
    }
}

fn encode<T: Serialize>(result: Result<T, Status>) -> Vec<u8> {
    wire::encode(&result)
}
