//! What a session answers to messages with wrong arguments, and what objects cost its process. The
//! kernel behind it is a machine's.

use super::*;
use crate::arguments::*;
use crate::long;
use crate::server::MOVING_PIECE_BYTES;
use crate::server::calls::{Answerer, bytes_in_files};
use crate::server::ledger::Ledger;
use crate::server::notices::Notices;
use crate::server::views::Files;
use crate::transport::{Attachment, Bell, new_eventfd};
use crate::wire::{
    self, AllocationView, Call, Message, OpenedResourceView, OwnMessage, WaitingCall,
};
use rustix::fs::MemfdFlags;
use serde::de::DeserializeOwned;
use std::os::fd::OwnedFd;
use tidegate::gpu_abi::{CONTROL_WORDS, Command, CommandWriter, GpuVa, SLOT_BYTES};
use tidegate::variants;
use tidegate_calls::*;
use tidegate_platform::ClientAccess;

const REFUSED: Status = Status::INVALID_PARAMETER;
const NONE: SyncObjectFlags = SyncObjectFlags::empty();
const SHARED: SyncObjectFlags = SyncObjectFlags::SHARED.union(SyncObjectFlags::NT_SECURITY_SHARING);

/// The session of a process that has a device.
struct Process {
    answerer: Answerer,
    device: Handle,
}

impl Process {
    fn new(limits: impl FnOnce(&mut Limits)) -> Process {
        Process::on(&Served::new(|_| {}), limits)
    }

    fn on(served: &Served, limits: impl FnOnce(&mut Limits)) -> Process {
        let config = limited(limits);
        let (limits, shared) = (config.limits, served.shared(config));
        Process::of(&shared, 1, limits)
    }

    fn of(shared: &Arc<Shared>, session: u64, limits: Limits) -> Process {
        let grant = Grant { queued: limits.queued, may_raise_priority: false };
        let opened = shared.adapters.open(0, "test", ClientKind::default(), grant).unwrap();
        let bell = Bell::Eventfd(Arc::new(new_eventfd().unwrap()));
        let notices = Notices::new(&shared.platform, bell, &limits);
        let (shared, ledger) = (shared.clone(), Ledger::new(limits));
        let answerer = Answerer::new(shared, session, opened, notices, ledger, true);
        let mut process = Process { answerer, device: Handle(0) };
        process.device = process.request(Call::CreateDevice {}).unwrap();
        process
    }

    /// Answers a message as it came with these files. Returns the files of the answer, too.
    fn request_with<T: DeserializeOwned>(
        &mut self,
        message: impl Into<Message>,
        came_with: Vec<Attachment>,
    ) -> (Result<T, Status>, Files) {
        let message = wire::decode(&wire::encode(&message.into())).unwrap();
        let mut files = Files { came_with, ..Files::default() };
        let answer = self.answerer.answer(message, &mut files);
        assert!(files.came_with.is_empty(), "what came is closed");
        (wire::decode(&answer).unwrap(), files)
    }

    fn request<T: DeserializeOwned>(&mut self, message: impl Into<Message>) -> Result<T, Status> {
        self.request_with(message, Vec::new()).0
    }

    /// Whether the notice of this slot was given.
    fn is_over(&self, key: SlotKey) -> bool {
        self.answerer.notices.page.load(key.slot as usize) == wire::over(key)
    }

    /// Objects, bytes, queues.
    fn held(&self) -> (u64, u64, u64) {
        self.answerer.ledger().held()
    }

    fn allocate(&mut self, bytes: u64, placement: Placement) -> Result<AllocationView, Status> {
        let (device, kind) = (self.device, AllocationKind::Bulk);
        self.request(Call::CreateAllocation {
            args: CreateAllocation { device, bytes, kind, placement },
        })
    }

    fn fence(&mut self, flags: SyncObjectFlags) -> Handle {
        let (device, name) = (self.device, "fence".to_owned());
        let args = CreateMonitoredFenceMessage {
            device,
            initial_value: 0,
            flags,
            engine_affinity: 0,
            name,
        };
        let made: Result<wire::FenceView, Status> =
            self.request(Call::CreateMonitoredFence { args });
        made.unwrap().handle
    }

    /// Shares an object. Returns the file of its NT handle.
    fn share(&mut self, object: Handle) -> Result<Attachment, Status> {
        let (objects, access) = (vec![object], SyncObjectAccess::all());
        let call = Call::ShareObjects { objects, access, name: None };
        let (shared, mut files) = self.request_with::<()>(call, Vec::new());
        shared.map(|()| files.all.pop().unwrap())
    }
}

fn at(fence: Handle, value: u64) -> Vec<FenceValue> {
    vec![FenceValue { fence, value }]
}

#[test]
fn memory_counts_in_pages() {
    let cases =
        [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192), (u64::MAX - 4095, u64::MAX - 4095)];
    for (bytes, counted) in cases {
        assert_eq!(bytes_in_files(bytes), counted, "{bytes}");
    }
    assert_eq!(bytes_in_files(u64::MAX - 4094), u64::MAX, "no page more");
}

#[test]
fn bytes_that_move_are_read_and_written_within_their_allocation() {
    let mut process = Process::new(|_| {});
    let size = MOVING_PIECE_BYTES as u64 + 4096;
    let allocation = process.allocate(size, Placement::LocalOnDemand).unwrap().handle;
    let device = process.device;
    let read = |offset, bytes| OwnMessage::ReadAllocation { device, allocation, offset, bytes };
    let write = |offset, data: &[u8]| OwnMessage::WriteAllocation {
        device,
        allocation,
        offset,
        data: data.to_vec(),
    };
    assert_eq!(process.request(write(size - 3, &[7, 8, 9])), Ok(()));
    assert_eq!(process.request(read(size - 4, 4)), Ok(vec![0u8, 7, 8, 9]));
    assert_eq!(process.request(read(size, 0)), Ok(Vec::<u8>::new()));
    let most = MOVING_PIECE_BYTES as u32;
    assert_eq!(
        process.request(read(0, most)).map(|data: Vec<u8>| data.len()),
        Ok(MOVING_PIECE_BYTES)
    );
    for (offset, bytes) in
        [(0, most + 1), (0, u32::MAX), (size - 3, 4), (size + 1, 0), (u64::MAX, 1)]
    {
        assert_eq!(
            process.request::<Vec<u8>>(read(offset, bytes)),
            Err(REFUSED),
            "{offset} {bytes}"
        );
    }
    for offset in [size - 2, u64::MAX - 1] {
        assert_eq!(process.request::<()>(write(offset, &[1, 2, 3])), Err(REFUSED), "{offset}");
    }
    // The process has mapped it, or it is of no device.
    let mapped = process.allocate(4096, Placement::System).unwrap().handle;
    let call = OwnMessage::ReadAllocation { device, allocation: mapped, offset: 0, bytes: 1 };
    assert_eq!(process.request::<Vec<u8>>(call), Err(REFUSED));
    let call = OwnMessage::ReadAllocation { device: Handle(0), allocation, offset: 0, bytes: 1 };
    assert!(process.request::<Vec<u8>>(call).is_err());
}

#[test]
fn commands_come_in_the_message_or_in_a_sealed_file_that_has_them_all() {
    let patching = |config: &mut MachineConfig| variants::find("patching").unwrap().apply(config);
    let mut process = Process::on(&Served::new(patching), |_| {});
    let args = CreateContextVirtual {
        device: process.device,
        node_ordinal: 0,
        engine_affinity: 0,
        priority: Priority::Normal,
    };
    let context = process.request(Call::CreateContextVirtual { args }).unwrap();
    let target = process.allocate(4096, Placement::LocalOnDemand).unwrap();
    let mut writer = CommandWriter::new();
    writer.push(&Command::Fill { destination: GpuVa(target.gpu_va), bytes: 8, value: 1 });
    let bytes = writer.to_bytes();
    let count = bytes.len() as u32;
    let mut render = |commands, came_with: Vec<OwnedFd>| {
        let allocations = vec![(target.handle, true)];
        let args = RenderMessage { contexts: vec![context], commands, allocations };
        let came_with = came_with.into_iter().map(Attachment::from).collect();
        process.request_with::<()>(Call::Render { args }, came_with).0
    };
    let file = || long::into_file(&bytes).unwrap();
    let here = || Commands::Here(bytes.clone());
    assert_eq!(render(here(), vec![]), Ok(()));
    assert_eq!(render(Commands::File(count), vec![file()]), Ok(()));
    let unsealed = rustix::fs::memfd_create(c"unsealed", MemfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&unsealed, &bytes).unwrap();
    let longest = long::into_file(&vec![0; MAX_RENDER_BYTES + 8]).unwrap();
    let wrong = [
        (here(), vec![file()]),
        (Commands::File(count), vec![]),
        (Commands::File(count + 1), vec![file()]),
        (Commands::File(count), vec![unsealed]),
        (Commands::File(MAX_RENDER_BYTES as u32 + 8), vec![longest]),
    ];
    for (number, (commands, came_with)) in wrong.into_iter().enumerate() {
        assert_eq!(render(commands, came_with), Err(REFUSED), "case {number}");
    }
    // In pieces, which the next call takes.
    let pieces = |process: &mut Process, lengths: &[usize]| {
        for &length in lengths {
            let piece = bytes[..length].to_vec();
            assert_eq!(process.request::<()>(OwnMessage::SendCommands { piece }), Ok(()));
        }
    };
    let render = |process: &mut Process, bytes| {
        let allocations = vec![(target.handle, true)];
        let commands = Commands::Pieces(bytes);
        let args = RenderMessage { contexts: vec![context], commands, allocations };
        process.request::<()>(Call::Render { args })
    };
    pieces(&mut process, &[bytes.len()]);
    let args = RenderMessage {
        contexts: vec![context],
        commands: here(),
        allocations: vec![(target.handle, true)],
    };
    let of_another_thread = process.request::<()>(Call::Render { args });
    assert_eq!(of_another_thread, Ok(()), "it takes no pieces");
    assert_eq!(render(&mut process, count), Ok(()));
    assert_eq!(render(&mut process, count), Err(REFUSED), "the call before took them");
    pieces(&mut process, &[bytes.len(), 8]);
    assert_eq!(render(&mut process, count), Err(REFUSED), "one that is too long");
    assert_eq!(render(&mut process, 0), Err(REFUSED), "no commands");
    // No more than a call may have. What was sent is forgotten then.
    let piece = vec![0; MAX_RENDER_BYTES / 8];
    for _ in 0..8 {
        let piece = piece.clone();
        assert_eq!(process.request::<()>(OwnMessage::SendCommands { piece }), Ok(()));
    }
    let piece = vec![0];
    assert_eq!(process.request::<()>(OwnMessage::SendCommands { piece }), Err(REFUSED));
    pieces(&mut process, &[bytes.len()]);
    assert_eq!(render(&mut process, count), Ok(()));
    // A client that can send a file sends no pieces.
    process.answerer.takes_pieces = false;
    let message = OwnMessage::SendCommands { piece: bytes };
    assert_eq!(process.request::<()>(message), Err(Status::NOT_SUPPORTED));
}

#[test]
fn private_data_of_a_native_fence_has_64_bytes() {
    let mut process = Process::new(|_| {});
    let device = process.device;
    let mut create = |bytes| {
        let args = CreateNativeFenceMessage {
            device,
            initial_value: 0,
            fence_type: NativeFenceType::Default,
            flags: NONE,
            engine_affinity: 0,
            private_data: vec![0; bytes],
            name: String::new(),
        };
        process.request::<wire::FenceView>(Call::CreateNativeFence { args }).map(drop)
    };
    assert_eq!(
        [0, 63, 64, 65].map(&mut create),
        [Err(REFUSED), Err(REFUSED), Ok(()), Err(REFUSED)]
    );
    assert_eq!(process.held().0, 2, "the device and one fence");
}

#[test]
fn an_object_is_opened_by_exactly_one_handle() {
    let mut process = Process::new(|_| {});
    let fence = process.fence(SHARED);
    let file = process.share(fence).unwrap();
    let (forged, _end) = std::io::pipe().unwrap();
    let forged = || Attachment::from(OwnedFd::from(forged.try_clone().unwrap()));
    let device = process.device;
    let mut open = |came_with: Vec<Attachment>| {
        let args = OpenSyncObjectMessage { device, flags: NONE, engine_affinity: 0 };
        let call = Call::OpenSyncObjectFromNtHandle { args };
        let (made, files) = process.request_with::<wire::FenceView>(call, came_with);
        made.map(|_| files.all.len())
    };
    let copy = || file.copy().unwrap();
    assert_eq!(open(vec![copy()]), Ok(1), "the page of its value comes with it");
    for came_with in [vec![], vec![copy(), copy()], vec![forged()]] {
        assert_eq!(open(came_with), Err(Status::INVALID_HANDLE));
    }
    let mut older = |came_with| {
        let args =
            OpenSynchronizationObjectMessage { shared: None, device: Some(device), flags: NONE };
        process.request_with::<Handle>(Call::OpenSynchronizationObject { args }, came_with).0
    };
    for came_with in [vec![], vec![copy(), copy()], vec![forged()]] {
        assert_eq!(older(came_with), Err(Status::INVALID_HANDLE));
    }
    let mut resource = |came_with| {
        let call = Call::OpenResource { device, name: SharedName::File };
        process.request_with::<OpenedResourceView>(call, came_with).0.map(drop)
    };
    for came_with in [vec![], vec![copy(), copy()], vec![forged()]] {
        assert_eq!(resource(came_with), Err(Status::INVALID_HANDLE));
    }
    assert_eq!(resource(vec![copy()]), Err(Status::OBJECT_TYPE_MISMATCH), "a fence");
}

#[test]
fn handles_of_a_client_are_limited_and_the_object_is_not_shared_then() {
    let mut process = Process::new(|limits| limits.nt_handles = 2);
    let fence = process.fence(SHARED);
    let (first, _second) = (process.share(fence).unwrap(), process.share(fence).unwrap());
    assert_eq!(process.share(fence).err(), Some(Status::INSUFFICIENT_RESOURCES));
    drop(first);
    assert!(process.share(fence).is_ok());
    assert_eq!(process.share(Handle(77)).err(), Some(REFUSED));
}

#[test]
fn a_slot_that_there_is_not_takes_no_notice() {
    let mut process = Process::new(|limits| limits.waits = 4);
    let fence = process.fence(NONE);
    let key = |slot| SlotKey { slot, generation: 0 };
    let register = |key| {
        let (fences, mode) = (at(fence, 1), WaitMode::All);
        OwnMessage::RegisterWait { fences, mode, key, announced: true }
    };
    assert_eq!(process.request(register(key(3))), Ok(()));
    assert_eq!(process.request::<()>(register(key(4))), Err(REFUSED));
    let enqueue = |key| {
        let (contexts, fences) = (Vec::new(), Vec::new());
        let (flags, event) = (SignalFlags::ENQUEUE_CPU_EVENT, Some(key));
        Call::SignalFromGpu2 { args: SignalFromGpu2Message { contexts, fences, flags, event } }
    };
    assert_eq!(process.request::<()>(enqueue(key(u32::MAX))), Err(REFUSED));
    // A slot that there is not is nothing to cancel.
    assert_eq!(process.request(OwnMessage::CancelWait { key: key(4) }), Ok(()));
}

#[test]
fn a_check_leaves_no_wait() {
    let served = Served::new(|_| {});
    let mut process = Process::on(&served, |_| {});
    let fence = process.fence(NONE);
    let waiters = || served.machine.adapter().waiter_rows(&PageRequest::default(), &[]).rows.len();
    assert_eq!(process.request(OwnMessage::CheckWait { fences: at(fence, 1) }), Ok(()));
    assert_eq!(waiters(), 0);
    let (key, fences) = (SlotKey { slot: 0, generation: 0 }, at(fence, 1));
    let wait = OwnMessage::RegisterWait { fences, mode: WaitMode::All, key, announced: false };
    assert_eq!(process.request(wait), Ok(()));
    assert_eq!(waiters(), 1);
    for missing in [at(Handle(77), 1), Vec::new()] {
        let check = OwnMessage::CheckWait { fences: missing };
        assert_eq!(process.request::<()>(check), Err(REFUSED));
    }
}

#[test]
fn queues_and_contexts_are_counted_until_they_end() {
    let mut process = Process::new(|limits| limits.queues = 2);
    let device = process.device;
    let context = |process: &mut Process| {
        let priority = Priority::Normal;
        let args = CreateContextVirtual { device, node_ordinal: 0, engine_affinity: 0, priority };
        process.request::<Handle>(Call::CreateContextVirtual { args })
    };
    let args = CreateHwContext { device, node_ordinal: 0, engine_affinity: 0 };
    let hw_context = process.request(Call::CreateHwContext { args }).unwrap();
    assert_eq!(process.held(), (2, 0, 0), "a hardware context is no queue");
    let queue = |process: &mut Process| {
        let args = CreateHwQueue {
            hw_context,
            user_mode_submission: false,
            native_fence_commands: false,
            exclusions: BroadcastExclusions::default(),
            priority: Priority::Normal,
        };
        process.request::<wire::HwQueueView>(Call::CreateHwQueue { args }).map(|made| made.handle)
    };
    let first = context(&mut process).unwrap();
    let _second = queue(&mut process).unwrap();
    assert_eq!(process.held().2, 2);
    assert_eq!(context(&mut process), Err(Status::INSUFFICIENT_RESOURCES));
    assert_eq!(queue(&mut process), Err(Status::INSUFFICIENT_RESOURCES));
    assert_eq!(process.request(Call::DestroyContext { context: first }), Ok(()));
    queue(&mut process).unwrap();
    assert_eq!(process.request(Call::DestroyHwContext { hw_context }), Ok(()));
    assert_eq!(process.request(Call::DestroyDevice { device }), Ok(()));
    assert_eq!(process.held(), (0, 0, 0));
}

#[test]
fn a_device_ends_beside_the_session_and_its_outcome_is_told_once() {
    let mut process = Process::new(|limits| limits.waits = 2);
    let first = process.device;
    let other: Handle = process.request(Call::CreateDevice {}).unwrap();
    let keys = [0, 1].map(|slot| SlotKey { slot, generation: 3 });
    let mut end = |device, key| {
        let call = WaitingCall::DestroyDevice { device };
        process.request::<()>(OwnMessage::Enter { call, key, announced: false })
    };
    assert_eq!(end(first, SlotKey { slot: 2, generation: 0 }), Err(REFUSED), "no such slot");
    assert_eq!(end(first, keys[0]), Ok(()));
    assert_eq!(end(other, keys[0]), Err(REFUSED), "the outcome of that key was not told");
    assert_eq!(end(Handle(77), keys[1]), Ok(()));
    let third = SlotKey { slot: 0, generation: 4 };
    assert_eq!(end(other, third), Err(Status::INSUFFICIENT_RESOURCES));
    process.answerer.waiting.join();
    assert!(keys.iter().all(|key| process.is_over(*key)));
    let mut outcome = |key| {
        let outcome = process.request::<()>(OwnMessage::TakeOutcome { key });
        (outcome, process.held().0)
    };
    assert_eq!(outcome(keys[1]), (Err(REFUSED), 2), "there is no such device");
    assert_eq!(outcome(third), (Err(REFUSED), 2), "it was not entered");
    assert_eq!(outcome(keys[0]), (Ok(()), 1));
    assert_eq!(outcome(keys[0]), (Err(REFUSED), 1), "it was told");
}

#[test]
fn what_the_kernel_refuses_costs_nothing() {
    let mut process = Process::new(|_| {});
    let before = process.held();
    assert!(process.allocate(0, Placement::System).is_err());
    let priority = PagingPriority::Normal;
    let args = CreatePagingQueue { device: Handle(77), priority };
    assert!(
        process.request::<(Handle, wire::FenceView)>(Call::CreatePagingQueue { args }).is_err()
    );
    assert!(process.request::<()>(Call::DestroyAllocation { allocation: process.device }).is_err());
    assert_eq!(process.held(), before);
}

#[test]
fn a_paging_queue_costs_a_page() {
    let mut process = Process::new(|limits| limits.memory_bytes = 4096);
    let args = CreatePagingQueue { device: process.device, priority: PagingPriority::Normal };
    let create = |process: &mut Process| {
        let made = process.request::<(Handle, wire::FenceView)>(Call::CreatePagingQueue { args });
        made.map(|(queue, _)| queue)
    };
    let paging_queue = create(&mut process).unwrap();
    assert_eq!(process.held(), (2, 4096, 0));
    assert_eq!(create(&mut process), Err(Status::NO_MEMORY));
    assert_eq!(process.request(Call::DestroyPagingQueue { paging_queue }), Ok(()));
    assert!(create(&mut process).is_ok());
}

/// A resource of one allocation with this number of bytes, and its global handle.
fn resource(process: &mut Process, bytes: u64, private: usize) -> Result<Resource, Status> {
    let allocation = process.allocate(bytes, Placement::System)?.handle;
    let allocations = vec![vec![7; private]];
    let data = ResourceData { runtime: Vec::new(), driver: Vec::new(), allocations };
    let (device, allocations) = (process.device, vec![allocation]);
    let args = CreateResourceMessage { device, allocations, data, nt_security_sharing: false };
    process.request(Call::CreateResource { args })
}

#[test]
fn a_resource_costs_its_creator_and_each_opener_its_memory() {
    let served = Served::new(|_| {});
    let config = limited(|limits| limits.memory_bytes = 5 * 4096);
    let (limits, shared) = (config.limits, served.shared(config));
    let [mut creator, mut opener] = [1, 2].map(|session| Process::of(&shared, session, limits));
    // Two pages of memory, and two of private data.
    let made = resource(&mut creator, 4097, 4097).unwrap();
    assert_eq!(creator.held(), (3, 4 * 4096, 0));
    let device = opener.device;
    let name = SharedName::Global(made.shared_handle);
    let open = |opener: &mut Process| {
        opener.request::<OpenedResourceView>(Call::OpenResource { device, name })
    };
    let (first, _, allocations) = open(&mut opener).unwrap();
    // The private data costs a page at most.
    assert_eq!((allocations.len(), opener.held()), (1, (3, 3 * 4096, 0)));
    assert_eq!(open(&mut opener).map(drop), Err(Status::NO_MEMORY), "three more of two left");
    assert_eq!(opener.held(), (3, 3 * 4096, 0));
    assert_eq!(opener.request(Call::DestroyResource { resource: first }), Ok(()));
    assert_eq!(opener.held(), (1, 0, 0));
    assert!(open(&mut opener).is_ok());
    assert_eq!(creator.request(Call::DestroyResource { resource: made.handle }), Ok(()));
    assert_eq!(creator.held(), (1, 0, 0), "with its allocations");
}

#[test]
fn a_call_about_a_doorbell_that_there_is_not_is_refused() {
    let mut process = Process::new(|_| {});
    let doorbell = process.device;
    assert_eq!(process.request::<()>(OwnMessage::WakeEngine { doorbell }), Err(REFUSED));
    assert_eq!(
        process.request::<()>(OwnMessage::PageIsMapped { doorbell, number: 0 }),
        Err(REFUSED)
    );
    let status = process.request::<wire::ConnectionView>(Call::ConnectDoorbell { doorbell });
    assert_eq!(status.map(drop), Err(REFUSED));
}

/// A user-mode queue with its doorbell, and the file of the status.
fn doorbell(process: &mut Process) -> (Handle, Attachment, u32) {
    let device = process.device;
    let args = CreateHwContext { device, node_ordinal: 0, engine_affinity: 0 };
    let hw_context = process.request(Call::CreateHwContext { args }).unwrap();
    let args = CreateHwQueue {
        hw_context,
        user_mode_submission: true,
        native_fence_commands: false,
        exclusions: BroadcastExclusions::default(),
        priority: Priority::Normal,
    };
    let queue: wire::HwQueueView = process.request(Call::CreateHwQueue { args }).unwrap();
    let (of_ring, of_control) = (64 * SLOT_BYTES, 8 * CONTROL_WORDS as u64);
    let parts = [(AllocationKind::Bulk, of_ring), (AllocationKind::Protocol, of_control)];
    let [ring, control] = parts.map(|(kind, bytes)| {
        let placement = Placement::System;
        let args = CreateAllocation { device, bytes, kind, placement };
        process.request::<AllocationView>(Call::CreateAllocation { args }).unwrap().handle
    });
    let (hw_queue, private_data) = (queue.handle, Vec::new());
    let args = CreateDoorbellMessage { hw_queue, ring, control, flags: 0, private_data };
    let (made, mut files) =
        process.request_with::<wire::DoorbellView>(Call::CreateDoorbell { args }, Vec::new());
    let made = made.unwrap();
    let status = files.all.swap_remove(usize::from(made.status.page.file));
    (made.handle, status, made.status.index)
}

/// A doorbell reads CONNECTED once the process has mapped the page of the present connect.
#[test]
fn the_status_waits_for_the_page_of_the_present_connect() {
    let mut process = Process::new(|_| {});
    let before = process.held();
    let (doorbell, status, index) = doorbell(&mut process);
    let pages = process.held().1 - before.1;
    assert_eq!(pages, 6 * 4096, "four of the doorbell, and ring and control");
    let page = status.map_page(&Platform::host(), 1 + index as usize, ClientAccess::ReadOnly);
    let page = page.unwrap();
    let status = || DoorbellStatus::from_word(page.load(index as usize));
    let connected = process.request::<wire::ConnectionView>(Call::ConnectDoorbell { doorbell });
    let number = connected.unwrap().number;
    let mapped = |number| OwnMessage::PageIsMapped { doorbell, number };
    for of_another in [number - 1, number + 1] {
        assert_eq!(process.request(mapped(of_another)), Ok(()));
        assert_ne!(status(), DoorbellStatus::Connected);
    }
    assert_eq!(process.request(mapped(number)), Ok(()));
    assert_eq!(status(), DoorbellStatus::Connected);
    assert_eq!(process.request(OwnMessage::WakeEngine { doorbell }), Ok(()));
    assert_eq!(process.request(Call::DestroyDoorbell { doorbell }), Ok(()));
    assert_eq!(process.request::<()>(OwnMessage::WakeEngine { doorbell }), Err(REFUSED));
}

#[test]
fn calls_of_the_owner_of_a_machine_are_refused() {
    let mut process = Process::new(|_| {});
    let test = TdrTest::ForceTdr;
    let refused = process.request::<()>(Call::DebugTimeouts { test });
    assert_eq!(refused, Err(Status::NOT_SUPPORTED));
}
