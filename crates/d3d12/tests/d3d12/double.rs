//! A recording kernel: notes every call, hands out memory, and runs what was queued only when a
//! test, or a CPU wait, says so. It is no graphics kernel: nothing is validated, nothing scheduled,
//! nothing runs by itself.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use tidegate_calls::*;
use tidegate_gpu_abi::{
    CONTROL_READ_WORD, CONTROL_WRITE_WORD, Command, CommandReader, RingPacket, SLOT_BYTES,
};
use tidegate_platform::{
    Bulk, CacheType, Event, Mapping, Mutex, Page, Platform, QueueNumber, Step, Word,
};

/// What a test may want to know of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    CreateAllocation(AllocationKind),
    CreateContext { node: u32, priority: Priority },
    CreateHwQueue { user: bool, priority: Priority },
    CreateDoorbell,
    LogDetail,
    CreateFence { native: bool },
    SubmitCommand,
    SubmitToHwQueue { progress: u64 },
    QueueWait(FenceValue),
    QueueSignal(FenceValue),
    CpuWait { event: bool },
    CpuSignal(FenceValue, SignalFlags),
    Connect,
    Notify,
    Destroy(&'static str),
    Other,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    Commands { va: u64, bytes: u32, progress: u64 },
    Wait(FenceValue),
    Signal(FenceValue),
}

#[derive(Default)]
struct KernelQueue {
    items: VecDeque<Item>,
    progress: Option<Word>,
}

/// In which order the OS takes a doorbell away.
#[derive(Clone, Copy, PartialEq)]
pub enum Order {
    /// Status, then the mapping.
    Safe,
    /// As published: the mapping, then the status.
    Published,
}

/// The other end of a user-mode queue.
#[derive(Clone)]
pub struct UserEnd {
    pub ring: Bulk,
    pub control: Page,
    pub progress: Word,
    pub last_queued: Word,
    pub mapping: Mapping,
    pub status: Word,
    /// Pages that hardware looked at, the present one last.
    pub pages: Vec<Page>,
    pub notify: bool,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    next: u32,
    next_va: u64,
    memory: BTreeMap<u64, AllocationMemory>,
    allocations: HashMap<Handle, Allocation>,
    fences: BTreeMap<Handle, (Word, u64)>,
    kernel_queues: BTreeMap<Handle, KernelQueue>,
    user_queues: BTreeMap<Handle, Word>,
    doorbells: BTreeMap<Handle, UserEnd>,
    ran: Vec<Command>,
    packets: Vec<RingPacket>,
    lost: Option<FaultReport>,
    refuse_connect: Option<Status>,
    lose_every_connect: bool,
    /// What every destroy call answers.
    refuse_destroy: Option<Status>,
    log_entries: u32,
}

pub struct Double {
    platform: Platform,
    state: Mutex<State>,
    /// Whether command buffers are to be numbered.
    verbose: Word,
    pub info: AdapterInfo,
}

/// What an engine that looks everywhere needs: nothing. In particular it is no barrier.
struct NoHint;
impl RingHint for NoHint {
    fn rung(&self) {}
}

impl Double {
    pub fn new(platform: &Platform) -> Double {
        let node = |engine_type, name: &str, user_mode_submission| NodeInfo {
            writes_fences: true,
            engine_type,
            name: name.to_owned(),
            user_mode_submission,
        };
        let info = AdapterInfo {
            description: "double".to_owned(),
            native_gpu_fence_supported: true,
            hardware_scheduling: true,
            no_64bit_atomics: false,
            io_mmu: false,
            physical_adapters: 1,
            nodes: vec![
                node(1, "3d", true),
                node(0, "compute", true),
                node(6, "copy", true),
                node(6, "old copy", false),
            ],
        };
        let state = State { next: 0x40, next_va: 0x10_0000, log_entries: 84, ..State::default() };
        let verbose = platform.page(1).word(0);
        Double { platform: platform.clone(), state: platform.mutex("double", state), verbose, info }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.state.lock().calls.clone()
    }

    /// Calls since the last look.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock().calls)
    }

    /// Commands that ran so far.
    pub fn ran(&self) -> Vec<Command> {
        self.state.lock().ran.clone()
    }

    /// Packets taken from rings so far.
    pub fn packets(&self) -> Vec<RingPacket> {
        self.state.lock().packets.clone()
    }

    pub fn user_end(&self) -> UserEnd {
        self.state.lock().doorbells.values().next().expect("one user-mode queue").clone()
    }

    pub fn lose_device(&self, report: FaultReport) {
        let mut state = self.state.lock();
        for (word, _) in state.fences.values() {
            word.store(u64::MAX);
        }
        for end in state.doorbells.values() {
            end.status.store(DoorbellStatus::DisconnectedAbort as u64);
            end.progress.store(u64::MAX);
        }
        state.lost = Some(report);
    }

    pub fn set_status(&self, status: DoorbellStatus) {
        self.user_end().status.store(status as u64);
    }

    /// The OS takes the doorbell away, and hardware looks at its page a last time. Returns what it
    /// saw there. As with a connect, one transition at a time.
    pub fn disconnect(&self, order: Order) -> u64 {
        let dummy = self.platform.page(1);
        let retry = DoorbellStatus::DisconnectedRetry as u64;
        let state = self.state.lock();
        let end = state.doorbells.values().next().expect("one user-mode queue");
        if order == Order::Safe {
            end.status.store(retry);
        }
        let old = end.mapping.rotate(dummy);
        if order == Order::Published {
            end.status.store(retry);
        }
        self.platform.fence();
        old.word(0).load()
    }

    pub fn notify_from_now_on(&self) {
        self.state.lock().doorbells.values_mut().for_each(|end| end.notify = true);
    }

    pub fn refuse_connect(&self, status: Status) {
        self.state.lock().refuse_connect = Some(status);
    }

    pub fn refuse_destroy(&self, status: Status) {
        self.state.lock().refuse_destroy = Some(status);
    }

    pub fn lose_every_connect(&self, lose: bool) {
        self.state.lock().lose_every_connect = lose;
    }

    pub fn set_log_entries(&self, entries: u32) {
        self.state.lock().log_entries = entries;
    }

    pub fn set_verbose(&self, on: u64) {
        self.verbose.store(on);
    }

    /// Runs all that can run, rings without looking at doorbells; returns whether anything did.
    pub fn run(&self) -> bool {
        let mut moved = false;
        while self.state.lock().turn() {
            moved = true;
        }
        moved
    }

    fn note(&self, call: Call) -> tidegate_platform::MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.calls.push(call);
        state
    }

    fn create_fence(&self, initial: u64, native: bool) -> Result<FenceInstance, Status> {
        let word = self.platform.page(1);
        word.store(0, initial);
        let mut state = self.note(Call::CreateFence { native });
        let (handle, va) = (state.handle(), state.va(0x1000));
        state.fences.insert(handle, (word.word(0), va));
        state.memory.insert(va, AllocationMemory::Protocol(word.clone()));
        Ok(FenceInstance {
            handle,
            value: ReadOnly::new(word.word(0)).into(),
            epoch: None,
            value_cpu_va: 0x7000_0000_0000 + va,
            cache_type: CacheType::WriteBack,
            current_value_gpu_va: va,
            monitored_value_gpu_va: if native { va + 0x800 } else { 0 },
            native,
            private_data: [0; 64],
            trace_fence: self.platform.trace_fence("fence").0 + 1,
        })
    }

    fn remove(&self, what: &'static str) -> Result<(), Status> {
        self.note(Call::Destroy(what));
        self.state.lock().refuse_destroy.map_or(Ok(()), Err)
    }

    fn alive(&self) -> Result<(), Status> {
        match self.state.lock().lost {
            Some(_) => Err(Status::DEVICE_REMOVED),
            None => Ok(()),
        }
    }
}

impl State {
    fn handle(&mut self) -> Handle {
        self.next += 0x40;
        Handle(self.next)
    }

    fn va(&mut self, bytes: u64) -> u64 {
        let at = self.next_va;
        self.next_va += bytes.next_multiple_of(0x1000) + 0x1000;
        at
    }

    fn reached(&self, wait: &FenceValue) -> bool {
        self.fences.get(&wait.fence).is_some_and(|(word, _)| word.load() >= wait.value)
    }

    /// One item of each queue that can move.
    fn turn(&mut self) -> bool {
        let kernel: Vec<Handle> = self.kernel_queues.keys().copied().collect();
        let user: Vec<UserEnd> = self.doorbells.values().cloned().collect();
        let mut moved = false;
        for queue in kernel {
            moved |= self.kernel_turn(queue);
        }
        for end in user {
            moved |= self.user_turn(&end);
        }
        moved
    }

    fn kernel_turn(&mut self, queue: Handle) -> bool {
        let Some(&item) = self.kernel_queues[&queue].items.front() else { return false };
        match item {
            Item::Wait(wait) if !self.reached(&wait) => return false,
            Item::Wait(_) => {}
            Item::Signal(signal) => self.fences[&signal.fence].0.store(signal.value),
            Item::Commands { va, bytes, progress } => {
                self.run_commands(va, bytes);
                if let Some(word) = &self.kernel_queues[&queue].progress {
                    word.store(progress);
                }
            }
        }
        self.kernel_queues.get_mut(&queue).unwrap().items.pop_front();
        true
    }

    fn user_turn(&mut self, end: &UserEnd) -> bool {
        let (read, write) =
            (end.control.word(CONTROL_READ_WORD), end.control.word(CONTROL_WRITE_WORD).load());
        let slot = read.load();
        if slot >= write {
            return false;
        }
        let slots = end.ring.len() / SLOT_BYTES;
        assert!(write - slot <= slots, "slots were overwritten before they were taken");
        let mut bytes = [0; SLOT_BYTES as usize];
        end.ring.read(slot % slots * SLOT_BYTES, &mut bytes).unwrap();
        let packet = RingPacket::decode(&bytes).expect("a packet in every published slot");
        match packet {
            RingPacket::Execute { commands, bytes, progress, .. } => {
                assert!(progress <= end.last_queued.load(), "progress beyond what was queued");
                self.run_commands(commands.0, bytes);
                end.progress.store(progress);
            }
            RingPacket::Wait { value, fence_handle, .. } => {
                if !self.reached(&FenceValue { fence: Handle(fence_handle), value }) {
                    return false;
                }
            }
            RingPacket::Signal { current_value, value, .. } => self.store(current_value.0, value),
            RingPacket::Nop | RingPacket::ExecuteDma { .. } => {
                panic!("no such packet here: {packet:?}")
            }
        }
        self.packets.push(packet);
        read.store(slot + 1);
        true
    }

    fn memory_at(&self, va: u64) -> (&AllocationMemory, u64) {
        let (start, memory) = self.memory.range(..=va).next_back().expect("a mapped address");
        (memory, va - start)
    }

    fn store(&self, va: u64, value: u64) {
        match self.memory_at(va) {
            (AllocationMemory::Protocol(page), at) => page.store((at / 8) as usize, value),
            (AllocationMemory::Bulk(bulk), at) => bulk.write_u64(at, value).unwrap(),
            (AllocationMemory::Window(window), at) => {
                window.write(at, &value.to_le_bytes()).unwrap()
            }
        }
    }

    fn run_commands(&mut self, va: u64, bytes: u32) {
        let (memory, at) = self.memory_at(va);
        let AllocationMemory::Bulk(bulk) = memory else { panic!("commands in protocol memory") };
        let words: Vec<u64> =
            (0..u64::from(bytes) / 8).map(|n| bulk.read_u64(at + n * 8).unwrap()).collect();
        let mut rest = &words[..];
        while let Some(head) = rest.first() {
            let length =
                CommandReader::words(*head, rest.len() as u64).expect("a well-formed command");
            let command = CommandReader::decode(&rest[..length]).expect("a known command");
            rest = &rest[length..];
            self.run_command(&command);
            self.ran.push(command);
        }
    }

    fn run_command(&self, command: &Command) {
        match command {
            Command::WriteValue { destination, value } => self.store(destination.0, *value),
            Command::Fill { destination, bytes, value } => {
                let (AllocationMemory::Bulk(bulk), at) = self.memory_at(destination.0) else {
                    panic!("a fill of words")
                };
                let data: Vec<u8> =
                    value.to_le_bytes().into_iter().cycle().take(*bytes as usize).collect();
                bulk.write(at, &data).unwrap();
            }
            _ => {}
        }
    }
}

impl Kernel for Double {
    fn query_adapter_info(&self) -> AdapterInfo {
        self.note(Call::Other);
        self.info.clone()
    }

    fn create_device(&self) -> Result<Handle, Status> {
        Ok(self.note(Call::Other).handle())
    }

    fn destroy_device(&self, _: Handle) -> Result<(), Status> {
        self.remove("device")
    }

    fn device_state(&self, _: Handle) -> Result<DeviceState, Status> {
        let state = self.note(Call::Other);
        Ok(state.lost.clone().map_or(DeviceState::Active, DeviceState::Faulted))
    }

    fn create_allocation(&self, args: CreateAllocation) -> Result<Allocation, Status> {
        let memory = match args.kind {
            AllocationKind::Bulk => AllocationMemory::Bulk(self.platform.bulk(args.bytes as usize)),
            AllocationKind::Protocol => {
                AllocationMemory::Protocol(self.platform.page(args.bytes as usize / 8))
            }
        };
        let mut state = self.note(Call::CreateAllocation(args.kind));
        let (handle, gpu_va) = (state.handle(), state.va(args.bytes));
        state.memory.insert(gpu_va, memory.clone());
        let allocation = Allocation { handle, gpu_va, bytes: args.bytes, memory };
        state.allocations.insert(handle, allocation.clone());
        Ok(allocation)
    }

    fn destroy_allocation(&self, _: Handle) -> Result<(), Status> {
        self.remove("allocation")
    }

    fn create_context_virtual(&self, args: CreateContextVirtual) -> Result<Handle, Status> {
        let mut state =
            self.note(Call::CreateContext { node: args.node_ordinal, priority: args.priority });
        let handle = state.handle();
        state.kernel_queues.insert(handle, KernelQueue::default());
        Ok(handle)
    }

    fn destroy_context(&self, _: Handle) -> Result<(), Status> {
        self.remove("context")
    }

    fn submit_command(&self, args: SubmitCommand) -> Result<(), Status> {
        self.alive()?;
        let item =
            Item::Commands { va: args.commands_gpu_va, bytes: args.command_bytes, progress: 0 };
        let mut state = self.note(Call::SubmitCommand);
        state.kernel_queues.get_mut(&args.context).unwrap().items.push_back(item);
        Ok(())
    }

    fn create_hw_context(&self, args: CreateHwContext) -> Result<Handle, Status> {
        Ok(self
            .note(Call::CreateContext { node: args.node_ordinal, priority: Priority::Normal })
            .handle())
    }

    fn destroy_hw_context(&self, _: Handle) -> Result<(), Status> {
        self.remove("hw context")
    }

    fn queue_number(&self, queue: Handle) -> Option<QueueNumber> {
        Some(QueueNumber(queue.0.into()))
    }

    fn create_hw_queue(&self, args: CreateHwQueue) -> Result<HwQueue, Status> {
        if args.priority == Priority::Realtime {
            return Err(Status::PRIVILEGE_NOT_HELD);
        }
        let word = self.platform.page(1).word(0);
        let mut state = self
            .note(Call::CreateHwQueue { user: args.user_mode_submission, priority: args.priority });
        let (handle, progress_fence) = (state.handle(), state.handle());
        state.fences.insert(progress_fence, (word.clone(), 0));
        if args.user_mode_submission {
            state.user_queues.insert(handle, word.clone());
        } else {
            let queue = KernelQueue { progress: Some(word.clone()), ..KernelQueue::default() };
            state.kernel_queues.insert(handle, queue);
        }
        Ok(HwQueue {
            handle,
            progress_fence,
            progress_value: ReadOnly::new(word),
            progress_gpu_va: 0,
            native_progress_fence: true,
        })
    }

    fn destroy_hw_queue(&self, _: Handle) -> Result<(), Status> {
        self.remove("hw queue")
    }

    fn submit_command_to_hw_queue(&self, args: SubmitCommandToHwQueue) -> Result<(), Status> {
        self.alive()?;
        let progress = args.progress_fence_id;
        let item = Item::Commands { va: args.commands_gpu_va, bytes: args.command_bytes, progress };
        let mut state = self.note(Call::SubmitToHwQueue { progress });
        state.kernel_queues.get_mut(&args.hw_queue).unwrap().items.push_back(item);
        Ok(())
    }

    fn submit_wait_to_hw_queue(&self, queue: Handle, fences: &[FenceValue]) -> Result<(), Status> {
        self.wait_from_gpu(queue, fences)
    }

    fn submit_signal_to_hw_queues(&self, args: SubmitSignalToHwQueues<'_>) -> Result<(), Status> {
        self.signal_from_gpu(args.hw_queues[0], args.fences)
    }

    fn create_monitored_fence(
        &self,
        args: CreateMonitoredFence<'_>,
    ) -> Result<FenceInstance, Status> {
        self.create_fence(args.initial_value, false)
    }

    fn create_native_fence(&self, args: CreateNativeFence<'_>) -> Result<FenceInstance, Status> {
        self.create_fence(args.initial_value, true)
    }

    fn share_objects(&self, _: &[Handle], _: SyncObjectAccess) -> Result<NtHandle, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    fn open_sync_object_from_nt_handle(
        &self,
        _: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    fn open_native_fence_from_nt_handle(
        &self,
        _: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    fn destroy_synchronization_object(&self, _: Handle) -> Result<(), Status> {
        self.remove("fence")
    }

    fn wait_from_cpu(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        event: Option<Event>,
    ) -> Result<(), Status> {
        drop(self.note(Call::CpuWait { event: event.is_some() }));
        self.alive()?;
        loop {
            let met = {
                let state = self.state.lock();
                let mut each = fences.iter().map(|wait| state.reached(wait));
                match mode {
                    WaitMode::All => each.all(|m| m),
                    WaitMode::Any => each.any(|m| m),
                }
            };
            if met {
                event.inspect(|e| e.set(Step::ThreadWake));
                return Ok(());
            }
            if !self.state.lock().turn() {
                return Err(Status::CANCELLED);
            }
        }
    }

    fn signal_from_cpu(&self, fences: &[FenceValue], flags: SignalFlags) -> Result<(), Status> {
        let state = self.note(Call::CpuSignal(fences[0], flags));
        state.fences[&fences[0].fence].0.store(fences[0].value);
        Ok(())
    }

    fn wait_from_gpu(&self, context: Handle, fences: &[FenceValue]) -> Result<(), Status> {
        let mut state = self.note(Call::QueueWait(fences[0]));
        state.kernel_queues.get_mut(&context).unwrap().items.push_back(Item::Wait(fences[0]));
        Ok(())
    }

    fn signal_from_gpu2(&self, args: SignalFromGpu2<'_>) -> Result<(), Status> {
        let mut state = self.note(Call::QueueSignal(args.fences[0]));
        state
            .kernel_queues
            .get_mut(&args.contexts[0])
            .unwrap()
            .items
            .push_back(Item::Signal(args.fences[0]));
        Ok(())
    }

    fn create_doorbell(&self, args: CreateDoorbell) -> Result<Doorbell, Status> {
        let (dummy, words) = (self.platform.page(1), self.platform.page(2));
        words.store(0, DoorbellStatus::DisconnectedRetry as u64);
        let mut state = self.note(Call::CreateDoorbell);
        let handle = state.handle();
        let AllocationMemory::Bulk(ring) = state.allocations[&args.ring].memory.clone() else {
            panic!("ring")
        };
        let AllocationMemory::Protocol(control) = state.allocations[&args.control].memory.clone()
        else {
            panic!("control")
        };
        let end = UserEnd {
            ring,
            control,
            progress: state.user_queues[&args.hw_queue].clone(),
            last_queued: words.word(1),
            mapping: Mapping::new(&self.platform, dummy),
            status: words.word(0),
            pages: Vec::new(),
            notify: false,
        };
        state.doorbells.insert(handle, end.clone());
        Ok(Doorbell {
            handle,
            mapping: end.mapping,
            secondary: None,
            status: ReadOnly::new(end.status),
            last_queued: end.last_queued,
            private_data: args.private_data,
        })
    }

    fn connect_doorbell(&self, doorbell: Handle) -> Result<Connection, Status> {
        let page = self.platform.page(1);
        let mut state = self.note(Call::Connect);
        if let Some(status) = state.refuse_connect {
            return Err(status);
        }
        let lost = state.lose_every_connect;
        let end = state.doorbells.get_mut(&doorbell).unwrap();
        end.pages.push(page.clone());
        end.mapping.rotate(page);
        let status = match (lost, end.notify) {
            (true, _) => DoorbellStatus::DisconnectedRetry,
            (false, true) => DoorbellStatus::ConnectedNotify,
            (false, false) => DoorbellStatus::Connected,
        };
        end.status.store(status as u64);
        Ok(Connection { value_base: 0, hint: Arc::new(NoHint) })
    }

    fn destroy_doorbell(&self, doorbell: Handle) -> Result<(), Status> {
        self.state.lock().doorbells.remove(&doorbell);
        self.remove("doorbell")
    }

    fn notify_work_submission(&self, _: Handle) -> Result<(), Status> {
        self.note(Call::Notify);
        Ok(())
    }

    fn native_fence_log_detail(&self, _: Handle) -> Result<LogDetail, Status> {
        let entries = self.note(Call::LogDetail).log_entries;
        let (wait_entries, signal_entries, numbers) = (entries, entries, entries);
        let verbose = Some(ReadOnly::new(self.verbose.clone()));
        Ok(LogDetail { wait_entries, signal_entries, numbers, verbose, ..LogDetail::default() })
    }
}
