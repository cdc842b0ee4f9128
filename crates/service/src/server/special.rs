//! What a service does for the calls of the table that make objects, or that have files, memory or
//! waits.
//!
//! The kernel validates handles, numbers and flags. Here is what it does not see: limits, slots of
//! notices, and files.

use super::calls::{Answerer, PAGE_BYTES, Rung, bytes_in_files};
use super::ledger::Charge;
use super::views::Files;
use crate::arguments::*;
use crate::long::from_file;
use crate::transport::{Attachment, MAX_MESSAGE_BYTES, Mailbox};
use crate::wire::{
    AllocationView, ConnectionView, DoorbellView, FenceView, HwQueueView, LogView, MemoryView,
};
use std::sync::Arc;
use tidegate_calls::doorbell::CreateDoorbellFlags;
use tidegate_calls::snapshot::{QueueKind, shortened};
use tidegate_calls::*;
use tidegate_platform::planted;

/// Most bytes of one read or write of an allocation that is not mapped.
pub(crate) const MOVING_PIECE_BYTES: usize = MAX_MESSAGE_BYTES / 2;

/// Most bytes of the name of a process or a fence, which the kernel keeps for reports.
pub(super) const MOST_NAME_BYTES: usize = 256;
/// Most bytes of a name by which an object is found: 260 characters.
const MOST_SHARED_NAME_BYTES: usize = 4 * 260;

/// Returns a name of a client, which the kernel keeps.
fn checked_name(name: &str) -> Result<&str, Status> {
    if name.len() > MOST_SHARED_NAME_BYTES { Err(Status::OBJECT_NAME_INVALID) } else { Ok(name) }
}

/// Devices and memory.
impl Answerer {
    pub(super) fn create_device(&mut self) -> Result<Handle, Status> {
        let create = |kernel: &dyn Kernel| kernel.create_device();
        self.create(Handle(0), Charge::default(), create, |device| *device)
    }

    pub(super) fn create_allocation(
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

    pub(super) fn lock2(
        &mut self,
        device: Handle,
        allocation: Handle,
        files: &mut Files,
    ) -> Result<(MemoryView, u64), Status> {
        let memory = self.kernel().lock2(device, allocation)?;
        let bytes = match &memory {
            AllocationMemory::Window(window) => window.len(),
            // A view of mapped memory says its size.
            _ => 0,
        };
        Ok((files.memory(&memory)?, bytes))
    }

    pub(super) fn read(
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

    pub(super) fn write(
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

    pub(super) fn reserve_gpu_virtual_address(
        &mut self,
        args: ReserveGpuVirtualAddress,
    ) -> Result<ReservedAddresses, Status> {
        let create = |kernel: &dyn Kernel| kernel.reserve_gpu_virtual_address(args);
        self.create(args.device, Charge::default(), create, |made| made.handle)
    }

    pub(super) fn create_paging_queue(
        &mut self,
        args: CreatePagingQueue,
        files: &mut Files,
    ) -> Result<(Handle, FenceView), Status> {
        let charge = Charge { bytes: PAGE_BYTES, queue: false };
        let create = |kernel: &dyn Kernel| kernel.create_paging_queue(args);
        let made = self.create(args.device, charge, create, |made| made.handle)?;
        let view = files.fence(&made.fence).map(|fence| (made.handle, fence));
        self.end_without_view(view, made.handle, |kernel, queue| kernel.destroy_paging_queue(queue))
    }
}

/// Contexts, queues and their work.
impl Answerer {
    pub(super) fn create_context_virtual(
        &mut self,
        args: CreateContextVirtual,
    ) -> Result<Handle, Status> {
        let charge = Charge { bytes: 0, queue: true };
        let create = |kernel: &dyn Kernel| kernel.create_context_virtual(args);
        let made = self.create(args.device, charge, create, |context| *context);
        self.draw(made, QueueKind::Packet, |context| *context)
    }

    pub(super) fn create_hw_context(&mut self, args: CreateHwContext) -> Result<Handle, Status> {
        let create = |kernel: &dyn Kernel| kernel.create_hw_context(args);
        self.create(args.device, Charge::default(), create, |context| *context)
    }

    pub(super) fn create_hw_queue(
        &mut self,
        args: CreateHwQueue,
        files: &mut Files,
    ) -> Result<HwQueueView, Status> {
        let kind = match args.user_mode_submission {
            true => QueueKind::User,
            false => QueueKind::Hardware,
        };
        let charge = Charge { bytes: 0, queue: true };
        let create = |kernel: &dyn Kernel| kernel.create_hw_queue(args);
        let made = self.create(args.hw_context, charge, create, |made| made.handle);
        let made = self.draw(made, kind, |made| made.handle)?;
        let value = files.read_only(&made.progress_value);
        let view = value.map(|progress_value| HwQueueView {
            handle: made.handle,
            progress_fence: made.progress_fence,
            progress_value,
            progress_gpu_va: made.progress_gpu_va,
            native_progress_fence: made.native_progress_fence,
        });
        self.end_without_view(view, made.handle, |kernel, queue| kernel.destroy_hw_queue(queue))
    }

    /// Keeps a piece of the commands of the next render call in pieces, up to the most that a call
    /// takes.
    pub(super) fn take_commands(&mut self, piece: &[u8]) -> Result<(), Status> {
        if !self.takes_pieces {
            return Err(Status::NOT_SUPPORTED);
        }
        if piece.len() > MAX_RENDER_BYTES - self.commands.len() {
            self.commands = Vec::new();
            return Err(Status::INVALID_PARAMETER);
        }
        self.commands.extend(piece);
        Ok(())
    }

    pub(super) fn render(&mut self, args: RenderMessage, files: &mut Files) -> Result<(), Status> {
        let file = files.came_with.pop().and_then(Attachment::into_file);
        let commands = match (args.commands, file) {
            (Commands::Here(commands), None) => commands,
            (Commands::Pieces(bytes), None) => {
                let pieces = std::mem::take(&mut self.commands);
                if bytes as usize != pieces.len() {
                    return Err(Status::INVALID_PARAMETER);
                }
                pieces
            }
            (Commands::File(bytes), Some(file)) if bytes as usize <= MAX_RENDER_BYTES => {
                from_file(file, bytes as usize).map_err(|_| Status::INVALID_PARAMETER)?
            }
            _ => return Err(Status::INVALID_PARAMETER),
        };
        let (contexts, allocations) = (&args.contexts[..], &args.allocations[..]);
        self.kernel().render(Render { contexts, commands: &commands, allocations })
    }

    pub(super) fn native_fence_log_detail(
        &mut self,
        hw_queue: Handle,
        files: &mut Files,
    ) -> Result<LogView, Status> {
        files.log(&self.kernel().native_fence_log_detail(hw_queue)?)
    }
}

/// Fences and older objects.
impl Answerer {
    pub(super) fn create_monitored_fence(
        &mut self,
        args: CreateMonitoredFenceMessage,
        files: &mut Files,
    ) -> Result<FenceView, Status> {
        let CreateMonitoredFenceMessage { device, initial_value, flags, engine_affinity, name } =
            args;
        let name = &shortened(&name, MOST_NAME_BYTES);
        let args = CreateMonitoredFence { device, initial_value, flags, engine_affinity, name };
        self.make_fence(device, files, |kernel| kernel.create_monitored_fence(args))
    }

    pub(super) fn create_native_fence(
        &mut self,
        args: CreateNativeFenceMessage,
        files: &mut Files,
    ) -> Result<FenceView, Status> {
        let private_data =
            <[u8; 64]>::try_from(args.private_data).map_err(|_| Status::INVALID_PARAMETER)?;
        let args = CreateNativeFence {
            device: args.device,
            initial_value: args.initial_value,
            fence_type: args.fence_type,
            flags: args.flags,
            engine_affinity: args.engine_affinity,
            private_data,
            name: &shortened(&args.name, MOST_NAME_BYTES),
        };
        self.make_fence(args.device, files, |kernel| kernel.create_native_fence(args))
    }

    pub(super) fn open_sync_object_from_nt_handle(
        &mut self,
        args: OpenSyncObjectMessage,
        files: &mut Files,
    ) -> Result<FenceView, Status> {
        self.open_fence(args, files, |kernel, args| kernel.open_sync_object_from_nt_handle(args))
    }

    pub(super) fn open_native_fence_from_nt_handle(
        &mut self,
        args: OpenSyncObjectMessage,
        files: &mut Files,
    ) -> Result<FenceView, Status> {
        self.open_fence(args, files, |kernel, args| kernel.open_native_fence_from_nt_handle(args))
    }

    fn open_fence(
        &mut self,
        args: OpenSyncObjectMessage,
        files: &mut Files,
        open: impl FnOnce(&dyn Kernel, OpenSyncObject<'_>) -> Result<FenceInstance, Status>,
    ) -> Result<FenceView, Status> {
        let nt_handle = match &files.came_with[..] {
            [file] => &self.shared.nt_handles.of_attachment(file)?,
            _ => return Err(Status::INVALID_HANDLE),
        };
        let OpenSyncObjectMessage { device, flags, engine_affinity } = args;
        let args = OpenSyncObject { device, nt_handle, flags, engine_affinity };
        self.make_fence(device, files, |kernel| open(kernel, args))
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

    pub(super) fn signal_from_gpu2(
        &mut self,
        args: SignalFromGpu2Message,
        _files: &mut Files,
    ) -> Result<(), Status> {
        let cpu_event = args.event.map(|key| self.notices.notice(key, true)).transpose()?;
        let (contexts, fences, flags) = (&args.contexts[..], &args.fences[..], args.flags);
        self.kernel().signal_from_gpu2(SignalFromGpu2 { contexts, fences, flags, cpu_event })
    }

    pub(super) fn share_objects(
        &mut self,
        objects: Vec<Handle>,
        access: SyncObjectAccess,
        name: Option<String>,
        files: &mut Files,
    ) -> Result<(), Status> {
        // A name is free again once the last file of its handle is closed. The fault is the mistake
        // that the scenario served-handle-against-death must find.
        if !planted!(self.shared.platform, NameIsKept) {
            self.shared.nt_handles.sweep();
        }
        let name = name.as_deref().map(checked_name).transpose()?;
        let shared = self.opened.kernel.share_objects(&objects, access, name)?;
        let keeps = objects.iter().map(|object| self.ledger.bytes_held_by(*object)).sum();
        self.export(shared, keeps, files)
    }

    pub(super) fn open_sync_object_nt_handle_from_name(
        &mut self,
        name: String,
        access: SyncObjectAccess,
        files: &mut Files,
    ) -> Result<(), Status> {
        self.shared.nt_handles.sweep();
        let name = checked_name(&name)?;
        let opened = self.kernel().open_sync_object_nt_handle_from_name(name, access)?;
        self.export(opened, 0, files)
    }

    pub(super) fn open_nt_handle_from_name(
        &mut self,
        name: String,
        access: SyncObjectAccess,
        files: &mut Files,
    ) -> Result<(), Status> {
        self.shared.nt_handles.sweep();
        let name = checked_name(&name)?;
        let opened = self.kernel().open_nt_handle_from_name(name, access)?;
        self.export(opened, 0, files)
    }

    /// Adds an NT handle that keeps so much memory to an answer.
    fn export(&self, handle: NtHandle, bytes: u64, files: &mut Files) -> Result<(), Status> {
        if files.mailbox.is_some() {
            // A descriptor of the host does not reach a guest.
            return Err(Status::NOT_SUPPORTED);
        }
        files.all.push(self.handle_file(handle, bytes)?);
        files.nt_handle = true;
        Ok(())
    }

    pub(super) fn create_synchronization_object(
        &mut self,
        args: CreateSynchronizationObject,
    ) -> Result<SynchronizationObject, Status> {
        let create = |kernel: &dyn Kernel| kernel.create_synchronization_object(args);
        self.create(args.device, Charge::default(), create, |made| made.handle)
    }

    /// Opens an older object. An instance without a device counts until it is destroyed.
    pub(super) fn open_synchronization_object(
        &mut self,
        args: OpenSynchronizationObjectMessage,
        files: &mut Files,
    ) -> Result<Handle, Status> {
        let OpenSynchronizationObjectMessage { shared, device, flags } = args;
        let nt_handle = match (shared, &files.came_with[..]) {
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
}

/// Keyed mutexes.
impl Answerer {
    /// Creates a keyed mutex, which counts until it is destroyed.
    pub(super) fn create_keyed_mutex(
        &mut self,
        args: CreateKeyedMutex,
    ) -> Result<KeyedMutex, Status> {
        // Refused by the kernel, too. Here it bounds what is charged.
        let bytes = bytes_in_files(args.data.len() as u64);
        let create = |kernel: &dyn Kernel| kernel.create_keyed_mutex(args);
        self.create(Handle(0), Charge { bytes, queue: false }, create, |made| made.handle)
    }

    pub(super) fn open_keyed_mutex(
        &mut self,
        name: SharedName,
        files: &mut Files,
    ) -> Result<OpenedKeyedMutex, Status> {
        let nt_handle = match (name, &files.came_with[..]) {
            (SharedName::Global(_), _) => None,
            (SharedName::File, [file]) => Some(self.shared.nt_handles.of_attachment(file)?),
            (SharedName::File, _) => return Err(Status::INVALID_HANDLE),
        };
        let name = match (name, &nt_handle) {
            (SharedName::Global(handle), _) => ResourceName::Shared(handle),
            (SharedName::File, Some(nt_handle)) => ResourceName::NtHandle(nt_handle),
            (SharedName::File, None) => return Err(Status::INVALID_HANDLE),
        };
        let open = |kernel: &dyn Kernel| kernel.open_keyed_mutex(name);
        self.create(Handle(0), Charge::default(), open, |opened| opened.handle)
    }

    pub(super) fn open_keyed_mutex_changes(
        &mut self,
        device: Handle,
        mutex: Handle,
        files: &mut Files,
    ) -> Result<FenceView, Status> {
        self.make_fence(device, files, |kernel| kernel.open_keyed_mutex_changes(device, mutex))
    }
}

/// Doorbells.
impl Answerer {
    pub(super) fn create_doorbell(
        &mut self,
        args: CreateDoorbellMessage,
        files: &mut Files,
    ) -> Result<DoorbellView, Status> {
        let CreateDoorbellMessage { hw_queue, ring, control, flags, private_data } = args;
        let flags = CreateDoorbellFlags::from_bits_retain(flags);
        let args = CreateDoorbell { hw_queue, ring, control, flags, private_data };
        let charge = Charge { bytes: 4 * PAGE_BYTES, queue: false };
        let create = |kernel: &dyn Kernel| kernel.create_doorbell(args);
        let made = self.create(hw_queue, charge, create, |made| made.handle)?;
        let handle = made.handle;
        let view = self.enter_doorbell(made, files);
        self.end_without_view(view, handle, |kernel, doorbell| kernel.destroy_doorbell(doorbell))
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
        let rung = Rung { mapping, secondary, hint: None, announcement: None, guest: None };
        self.doorbells.insert(made.handle, rung);
        Ok(view)
    }

    /// Connects a doorbell. Its page is a fresh one, which the process maps in place of the last: a
    /// store through a mapping that it has kept reaches no hardware. The status reads CONNECTED
    /// when the process has said that it has mapped the page.
    pub(super) fn connect_doorbell(
        &mut self,
        doorbell: Handle,
        files: &mut Files,
    ) -> Result<ConnectionView, Status> {
        let connection = self.opened.kernel.connect_doorbell(doorbell)?;
        let rung = self.doorbells.get_mut(&doorbell).ok_or(Status::INVALID_PARAMETER)?;
        let bits = connection.hint.bits();
        let number = connection.announcement.as_ref().map_or(0, |a| a.number());
        let ring = |mailbox: &Arc<Mailbox>| mailbox.add_ring(doorbell, &connection.hint);
        rung.guest = files.mailbox.as_ref().map(ring);
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
