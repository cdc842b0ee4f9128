//! The software GPU without driver and kernel. A test accesses registers, mailbox, page
//! tables, rings and doorbells itself, and an interrupt line records each report.
//!
//! Entry points: [`everywhere`], [`with_process`] and [`on`] run a test. [`Machine::process`]
//! creates an address space. [`Process`] creates memory, fences and queues. [`Queue::submit`]
//! submits packets.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tidegate::d3dukmdt::FenceCell;
use tidegate::d3dukmdt::fence_cell::{MAX_ANNEX_PEAKS, PAGE_WORDS, VALUE_BYTES};
use tidegate::explorer::machine;
use tidegate::explorer::strategy::replay::Replay;
use tidegate::gpu_abi::address::TABLE_LEVELS;
use tidegate::gpu_abi::admin::{Mailbox, PENDING};
use tidegate::gpu_abi::regs::{FaultInfo, FaultKind};
use tidegate::gpu_abi::ring::NO_LOG_ENTRY;
use tidegate::gpu_abi::{
    AddressSpaceId, AdminCommand, AdminError, CONTROL_READ_WORD, CONTROL_WORDS, CONTROL_WRITE_WORD,
    Cause, Command, CommandWriter, DOORBELL_VALUE_WORD, Device, GpuVa, InterruptSink, PAGE_BYTES,
    Pte, QueueId, QueueKind, QueueShape, QueueState, Register, RingPacket, SLOT_BYTES, Summary,
};
use tidegate::platform::{
    Bulk, Event, MemoryModel, Mutex, Page, PhysicalAddress, PhysicalMemory, Platform, Step,
    StepCosts, WaitEnd, Word, current,
};
use tidegate::softgpu::{Config, SoftGpu};

/// The 3D engine of the default GPU.
pub const THREE_D: u32 = 0;
/// The compute engine of the default GPU.
pub const COMPUTE: u32 = 1;
/// The copy engine of the default GPU.
pub const COPY: u32 = 2;

/// A report of the interrupt line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A queue signalled the fence at an address.
    Signaled(QueueId, GpuVa),
    /// The CMP found a fence above its new MonitoredValue.
    OfCmp(AddressSpaceId, GpuVa),
    /// Signals were reported without fences.
    Collapsed,
    /// A completion: engine, last completed ID.
    Completed(u32, u64),
    /// An answered preemption: engine, preemption fence ID, last completed ID.
    Preempted(u32, u64, u64),
    /// A queue has left its engine.
    Suspended(QueueId),
    /// A fault record.
    #[expect(missing_docs, reason = "named as the registers of a fault are")]
    Fault {
        queue: QueueId,
        va: GpuVa,
        position: u64,
        kind: FaultKind,
        progress: u64,
        command: u64,
        info: FaultInfo,
    },
}

/// The receiver of the interrupt line, which reads all reports and wakes its waiters.
pub struct Line {
    gpu: Weak<SoftGpu>,
    seen: Mutex<Vec<Seen>>,
    news: Event,
    /// Number of interrupts.
    pub raised: Word,
    /// Number of ended turns of raising agents.
    pub turns_ended: Word,
}

impl InterruptSink for Line {
    fn raise(&self) {
        current::assert_no_guards("the interrupt of a test");
        self.raised.fetch_add(1);
        let Some(gpu) = self.gpu.upgrade() else { return };
        let cause = Cause(gpu.read_register(Register::INTERRUPT_CAUSE));
        let mut seen = Vec::new();
        if cause.has(Cause(Cause::FENCE_SIGNALED.0 | Cause::FENCE_COLLAPSED.0)) {
            while let number @ 1.. = gpu.read_register(Register::SIGNALED_QUEUE) {
                let va = gpu.read_register(Register::SIGNALED_VA);
                if number & Register::SIGNALED_BY_CMP != 0 {
                    seen.push(Seen::OfCmp(AddressSpaceId(number as u32), GpuVa(va)));
                    continue;
                }
                seen.push(Seen::Signaled(QueueId(number as u32 - 1), GpuVa(va)));
            }
        }
        if cause.has(Cause::FENCE_COLLAPSED) {
            seen.push(Seen::Collapsed);
        }
        for node in (0..gpu.node_count()).filter(|n| cause.has(Cause::engine(*n))) {
            seen.push(Seen::Completed(
                node,
                gpu.read_register(Register::COMPLETED_FENCE.offset(node)),
            ));
        }
        if cause.has(Cause::DMA_PREEMPTED) {
            let engines = gpu.read_register(Register::PREEMPTED_ENGINES);
            for engine in (0..gpu.engine_count()).filter(|e| engines >> e & 1 != 0) {
                let read = |register: Register| gpu.read_register(register.offset(engine));
                let fence = read(Register::PREEMPTED_FENCE);
                seen.push(Seen::Preempted(engine, fence, read(Register::PREEMPTED_COMPLETED)));
            }
        }
        if cause.has(Cause::QUEUE_SUSPENDED) {
            while let number @ 1.. = gpu.read_register(Register::SUSPENDED_QUEUE) {
                seen.push(Seen::Suspended(QueueId(number as u32 - 1)));
            }
        }
        if cause.has(Cause::FAULT) {
            while let number @ 1.. = gpu.read_register(Register::FAULT_QUEUE) {
                let va = GpuVa(gpu.read_register(Register::FAULT_VA));
                let position = gpu.read_register(Register::FAULT_POSITION);
                let progress = gpu.read_register(Register::FAULT_FENCE);
                let command = gpu.read_register(Register::FAULT_COMMAND);
                let info = FaultInfo::decode(gpu.read_register(Register::FAULT_INFO));
                let kind = info.kind.expect("a kind of fault");
                let queue = QueueId(number as u32 - 1);
                seen.push(Seen::Fault { queue, va, position, kind, progress, command, info });
            }
        }
        self.seen.lock().extend(seen);
        self.news.set(Step::ThreadWake);
    }

    fn turn_ended(&self) {
        self.turns_ended.fetch_add(1);
    }
}

/// A GPU with its memory and interrupt line.
pub struct Machine {
    /// The platform.
    pub platform: Platform,
    /// System memory.
    pub system: PhysicalMemory,
    /// The GPU.
    pub gpu: Arc<SoftGpu>,
    /// The receiver of its interrupts.
    pub line: Arc<Line>,
    processes: Mutex<u32>,
    /// Copy of the mailbox, because a driver writes only the words that change.
    mailbox: Mutex<Mailbox>,
}

impl Machine {
    /// Creates a GPU that is not started.
    pub fn new(platform: &Platform, config: Config) -> Arc<Machine> {
        let system = PhysicalMemory::new(platform, PhysicalAddress(0x10_0000));
        let gpu = SoftGpu::new(platform, &system, config);
        let counts = platform.page(2);
        let line = Arc::new(Line {
            gpu: Arc::downgrade(&gpu),
            seen: platform.mutex("seen interrupts", Vec::new()),
            news: platform.event(false),
            raised: counts.word(0),
            turns_ended: counts.word(1),
        });
        gpu.connect_interrupt(Arc::clone(&line) as Arc<dyn InterruptSink>);
        let processes = platform.mutex("processes", 0);
        let mailbox = platform.mutex("mailbox of the test", Mailbox::default());
        Arc::new(Machine { platform: platform.clone(), system, gpu, line, processes, mailbox })
    }

    /// Executes a CMP command and ignores its result. Waits for a command that is pending.
    ///
    /// # Errors
    /// The CMP's refusal, as in the other commands.
    pub fn run_command(&self, command: AdminCommand) -> Result<(), AdminError> {
        self.admin(command).map(|_| ())
    }

    /// Executes a CMP command and returns its result. Waits for a command that is pending.
    ///
    /// # Errors
    /// The CMP's refusal.
    pub fn admin(&self, command: AdminCommand) -> Result<(u64, u64), AdminError> {
        let (mut command, turn_ends) = (command, self.gpu.turn_ends());
        loop {
            let seen = turn_ends.load();
            let (status, results) = self.exchange(command);
            match status {
                0 => return Ok(results),
                PENDING => {}
                error => return Err(AdminError::from_number(error).expect("a known error")),
            }
            let stopped =
                turn_ends.wait_while(seen as u32, None, "the end of a turn") == WaitEnd::Stopped;
            command = AdminCommand::Continue { ticket: results.0, at_once: stopped };
        }
    }

    /// Writes a command to the mailbox. Returns the status and the results.
    pub fn exchange(&self, command: AdminCommand) -> (u64, (u64, u64)) {
        let words = command.encode();
        let mut mailbox = self.mailbox.lock();
        for (number, (word, old)) in words.into_iter().zip(mailbox.iter_mut()).enumerate() {
            if word != std::mem::replace(old, word) {
                self.gpu.write_register(Register::MAILBOX.offset(number as u32), word);
            }
        }
        drop(mailbox);
        self.gpu.write_register(Register::MAILBOX_RUN, 1);
        let status = self.gpu.read_register(Register::MAILBOX_STATUS);
        let result = self.gpu.read_register(Register::MAILBOX_RESULT);
        (status, (result, self.gpu.read_register(Register::MAILBOX_RESULT_HIGH)))
    }

    /// Returns the state of a queue.
    pub fn state(&self, queue: QueueId) -> QueueState {
        let (state, _) = self.admin(AdminCommand::QueryQueue { queue }).expect("a queue");
        QueueState::from_number(state).expect("a known state")
    }

    /// Blocks until `condition` holds, by polling. There is no limit, because hosts may be slow.
    pub fn poll_until(&self, condition: impl Fn() -> bool) {
        while !condition() {
            self.platform.sleep_until(self.platform.now().after(1_000));
        }
    }

    /// Assigns a shadow number to the fence's MonitoredValue. Returns whether the CMP has room.
    ///
    /// # Errors
    /// The CMP's refusal.
    pub fn keep_shadow(
        &self,
        number: u64,
        process: &Process,
        fence: &Fence,
    ) -> Result<bool, AdminError> {
        let keep = AdminCommand::KeepShadow {
            fence: number,
            address_space: process.id,
            current_value: fence.current_va,
            monitored_value: fence.monitored_va,
        };
        self.admin(keep).map(|(kept, _)| kept != 0)
    }

    /// Writes a new MonitoredValue to the shadow registers.
    pub fn set_monitored(&self, number: u64, value: u64) {
        self.gpu.write_register(Register::SHADOW_FENCE, number);
        self.gpu.write_register(Register::SHADOW_VALUE, value);
    }

    /// Blocks until the reports satisfy `enough`. Returns the reports.
    pub fn await_seen(&self, enough: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        loop {
            let seen = self.line.seen.lock().clone();
            if enough(&seen) {
                return seen;
            }
            let end = self.line.news.wait_for(None, "interrupts");
            assert_ne!(end, WaitEnd::Stopped, "the machine is blocked after {seen:?}");
        }
    }

    /// Returns the reports so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.line.seen.lock().clone()
    }

    /// Blocks until `fence` has been reported `times` times.
    pub fn await_signals(&self, fence: &Fence, times: usize) {
        let of_fence = |s: &Seen| matches!(s, Seen::Signaled(_, va) if *va == fence.current_va);
        self.await_seen(|seen| seen.iter().filter(|s| of_fence(s)).count() >= times);
    }

    /// Blocks until `preemption_fence_id` is answered. Returns the last completed ID of the answer.
    pub fn await_preempted(&self, engine: u32, preemption_fence_id: u64) -> u64 {
        let of = |s: &Seen| matches!(s, Seen::Preempted(e, id, _) if (*e, *id) == (engine, preemption_fence_id));
        let seen = self.await_seen(|seen| seen.iter().any(of));
        match seen.into_iter().find(of) {
            Some(Seen::Preempted(_, _, completed)) => completed,
            other => panic!("{other:?}"),
        }
    }

    /// Blocks until the engine has reported this packet or a later one.
    pub fn await_completed(&self, engine: u32, id: u64) {
        self.await_seen(|seen| {
            seen.iter().any(|s| matches!(s, Seen::Completed(e, at) if *e == engine && *at >= id))
        });
    }

    /// Blocks until a fault is reported. Returns the first one.
    pub fn await_fault(&self) -> Seen {
        let seen = self.await_seen(|seen| seen.iter().any(|s| matches!(s, Seen::Fault { .. })));
        seen.into_iter().find(|s| matches!(s, Seen::Fault { .. })).expect("it was seen")
    }

    /// Creates a process with its own address space.
    pub fn process(self: &Arc<Machine>) -> Process {
        let number = {
            let mut processes = self.processes.lock();
            *processes += 1;
            *processes
        };
        self.process_of(AddressSpaceId(number))
    }

    /// Creates the system process, whose address space contains the save areas.
    pub fn system_process(self: &Arc<Machine>) -> Process {
        self.process_of(AddressSpaceId(0))
    }

    fn process_of(self: &Arc<Machine>, id: AddressSpaceId) -> Process {
        let (root, table) = self.system.bulk(PAGE_BYTES as usize);
        self.admin(AdminCommand::SetAddressSpace { address_space: id, root, physical_gpu: 0 })
            .expect("an address space");
        let tables = BTreeMap::from([((0, 0), (root, table))]);
        let layout = self.platform.mutex("page tables", Layout { tables, next: 0x1_0000_0000 });
        Process { machine: Arc::clone(self), id, layout }
    }

    /// Creates a queue with a kernel-owned ring.
    pub fn kernel_queue(
        self: &Arc<Machine>,
        node: u32,
        kind: QueueKind,
        process: &Process,
    ) -> Queue {
        let (ring_at, ring) = self.system.bulk(64 * SLOT_BYTES as usize);
        let (control_at, control) = self.system.protocol(CONTROL_WORDS);
        let (ring_va, control_va) = (GpuVa(ring_at.0), GpuVa(control_at.0));
        Queue::create(
            process,
            node,
            kind,
            RingMemory { ring_va, control_va, ring, control },
            QueueOptions { slots: 64, ..Default::default() },
        )
    }
}

struct Layout {
    /// Page tables by level and the address bits above the table.
    tables: BTreeMap<(u32, u64), (PhysicalAddress, Bulk)>,
    next: u64,
}

/// An address space and its mapped memory.
pub struct Process {
    /// The machine.
    pub machine: Arc<Machine>,
    /// Number of the address space.
    pub id: AddressSpaceId,
    layout: Mutex<Layout>,
}

/// Mapped memory of a process.
#[derive(Clone)]
pub struct Buffer {
    /// GPU virtual address.
    pub va: GpuVa,
    /// The memory.
    pub bulk: Bulk,
}

impl Buffer {
    /// Returns the content.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; self.bulk.len() as usize];
        self.bulk.read(0, &mut out).expect("inside");
        out
    }

    /// Writes a part of the content.
    pub fn put(&self, offset: u64, data: &[u8]) {
        self.bulk.write(offset, data).expect("inside");
    }
}

/// A fence of a process.
#[derive(Clone)]
pub struct Fence {
    /// Address of CurrentValue.
    pub current_va: GpuVa,
    /// Address of MonitoredValue.
    pub monitored_va: GpuVa,
    /// CurrentValue.
    pub current: FenceCell,
    /// MonitoredValue.
    pub monitored: Word,
    /// Bus address of CurrentValue.
    pub current_at: PhysicalAddress,
}

impl Fence {
    /// Returns the packet that waits for `value`.
    pub fn wait(&self, value: u64) -> RingPacket {
        RingPacket::Wait {
            current_value: self.current_va,
            value,
            epoch: self.current.wait_for(value).epoch,
            fence_handle: 7,
            log_entry: NO_LOG_ENTRY,
        }
    }

    /// Returns the packet that signals `value`.
    pub fn signal(&self, value: u64) -> RingPacket {
        RingPacket::Signal {
            current_value: self.current_va,
            monitored_value: self.monitored_va,
            value,
            fence_handle: 7,
            log_entry: NO_LOG_ENTRY,
        }
    }
}

impl Process {
    /// Maps a page.
    pub fn map_page(&self, va: GpuVa, to: PhysicalAddress, writable: bool) {
        self.write_entry(va, Pte::new(to, writable).coherent());
    }

    /// Maps a page of fence values, replacing an existing mapping.
    pub fn map_fence_page(&self, va: GpuVa, to: PhysicalAddress) {
        self.write_entry(va, Pte::new(to, true).of_fence_values().coherent());
    }

    fn write_entry(&self, va: GpuVa, entry: Pte) {
        let mut layout = self.layout.lock();
        let prefix =
            |level: u32| if level == 0 { 0 } else { va.0 >> (12 + 9 * (TABLE_LEVELS - level)) };
        for level in 1..TABLE_LEVELS {
            if layout.tables.contains_key(&(level, prefix(level))) {
                continue;
            }
            let (at, table) = self.machine.system.bulk(PAGE_BYTES as usize);
            let parent = &layout.tables[&(level - 1, prefix(level - 1))].1;
            let pte = Pte::new(at, true);
            parent.write_u64(va.table_index(level - 1) * 8, pte.0).expect("inside a table");
            layout.tables.insert((level, prefix(level)), (at, table));
        }
        let last = &layout.tables[&(TABLE_LEVELS - 1, prefix(TABLE_LEVELS - 1))].1;
        last.write_u64(va.table_index(TABLE_LEVELS - 1) * 8, entry.0).expect("inside a table");
    }

    /// Clears the page table entry of a page without invalidating translations.
    pub fn unmap_page(&self, va: GpuVa) {
        let layout = self.layout.lock();
        let last = &layout.tables[&(TABLE_LEVELS - 1, va.0 >> 21)].1;
        last.write_u64(va.table_index(TABLE_LEVELS - 1) * 8, 0).expect("inside a table");
    }

    /// Maps a region at new addresses, followed by an unmapped page.
    pub fn map(&self, at: PhysicalAddress, bytes: u64, writable: bool) -> GpuVa {
        let pages = bytes.div_ceil(PAGE_BYTES);
        let va = {
            let mut layout = self.layout.lock();
            let va = layout.next;
            layout.next += (pages + 1) * PAGE_BYTES;
            va
        };
        for page in 0..pages {
            let offset = page * PAGE_BYTES;
            self.map_page(GpuVa(va + offset), PhysicalAddress(at.0 + offset), writable);
        }
        GpuVa(va)
    }

    /// Creates a buffer in system memory.
    pub fn buffer(&self, bytes: usize) -> Buffer {
        let (at, bulk) = self.machine.system.bulk(bytes);
        Buffer { va: self.map(at, bytes as u64, true), bulk }
    }

    /// Creates a buffer in the GPU's local memory.
    pub fn local_buffer(&self, bytes: usize) -> Buffer {
        let (at, bulk) = self.machine.gpu.local_memory(0).expect("local memory").bulk(bytes);
        Buffer { va: self.map(at, bytes as u64, true), bulk }
    }

    /// Creates a buffer that engines cannot write.
    pub fn read_only_buffer(&self, bytes: usize) -> Buffer {
        let (at, bulk) = self.machine.system.bulk(bytes);
        Buffer { va: self.map(at, bytes as u64, false), bulk }
    }

    /// Creates words that engines can access as memory.
    pub fn words(&self, count: usize) -> (GpuVa, Page, PhysicalAddress) {
        let (at, page) = self.machine.system.protocol(count);
        (self.map(at, count as u64 * 8, true), page, at)
    }

    /// Creates a fence at `value` that interrupts for values above `monitored`.
    pub fn fence(&self, value: u64, monitored: u64) -> Fence {
        let (current_at, current) = self.machine.system.protocol(PAGE_WORDS);
        let current_va = self.map(current_at, VALUE_BYTES, true);
        self.write_entry(current_va, Pte::new(current_at, true).of_fence_values().coherent());
        let (monitored_at, page) = self.machine.system.protocol(1);
        let monitored_va = self.map(monitored_at, 8, false);
        let (current, monitored_word) =
            (FenceCell::in_fence_page(current.word(0), 0), page.word(0));
        current.renew(value, 64, MAX_ANNEX_PEAKS);
        monitored_word.store(monitored);
        Fence { current_va, monitored_va, current, monitored: monitored_word, current_at }
    }

    /// Creates fences at 0. Each interrupts for values above its own number in `monitored`.
    pub fn fences<const N: usize>(&self, monitored: [u64; N]) -> [Fence; N] {
        monitored.map(|monitored| self.fence(0, monitored))
    }

    /// Creates command buffer memory with these commands.
    pub fn commands(&self, commands: &[Command]) -> (GpuVa, u32) {
        let mut writer = CommandWriter::new();
        commands.iter().for_each(|c| writer.push(c));
        let bytes = writer.to_bytes();
        let buffer = self.buffer(bytes.len());
        buffer.put(0, &bytes);
        (buffer.va, bytes.len() as u32)
    }

    /// Returns the packet that executes these commands.
    pub fn execute(&self, commands: &[Command], progress: u64) -> RingPacket {
        let (commands, bytes) = self.commands(commands);
        RingPacket::execute(commands, bytes, progress)
    }

    /// Creates a user-mode queue with a connected doorbell.
    pub fn queue(&self, node: u32) -> Queue {
        self.queue_with(node, QueueOptions::default())
    }

    /// Creates a user-mode queue.
    pub fn queue_with(&self, node: u32, options: QueueOptions) -> Queue {
        let ring = self.buffer((options.slots * SLOT_BYTES) as usize);
        let (control_va, control, _) = self.words(CONTROL_WORDS);
        Queue::create(
            self,
            node,
            QueueKind::User,
            RingMemory { ring_va: ring.va, control_va, ring: ring.bulk, control },
            options,
        )
    }
}

/// Properties of a queue.
#[derive(Clone)]
pub struct QueueOptions {
    /// Number of slots of the ring.
    pub slots: u64,
    /// Priority band of the run list.
    pub priority: u32,
    /// The progress fence.
    pub progress: Option<Fence>,
    /// The kernel's handle, which reports contain.
    pub os_handle: u64,
    /// Whether the doorbell is connected on creation.
    pub connect: bool,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions { slots: 64, priority: 1, progress: None, os_handle: 0, connect: true }
    }
}

/// A queue of the GPU, with the user-mode side of its ring.
pub struct Queue {
    machine: Arc<Machine>,
    /// Number of the queue.
    pub id: QueueId,
    kind: QueueKind,
    /// Content of the ring.
    pub ring: Bulk,
    /// Address of the ring.
    pub ring_va: GpuVa,
    /// The read and write pointers.
    pub control: Page,
    slots: u64,
    /// Number of packets written to the ring.
    pub written: u64,
    /// The doorbell's page, the engine's summary and the doorbell's bit in it.
    pub doorbell: Option<(Page, Summary, u32)>,
}

/// The memory of a new queue.
struct RingMemory {
    ring_va: GpuVa,
    control_va: GpuVa,
    ring: Bulk,
    control: Page,
}

impl Queue {
    fn create(
        process: &Process,
        node: u32,
        kind: QueueKind,
        memory: RingMemory,
        options: QueueOptions,
    ) -> Queue {
        let RingMemory { ring_va, control_va, ring, control } = memory;
        let machine = Arc::clone(&process.machine);
        let progress = options.progress.as_ref();
        let (id, _) = machine
            .admin(AdminCommand::CreateQueue {
                shape: QueueShape {
                    engine: node,
                    kind,
                    address_space: process.id,
                    ring: ring_va,
                    slots: options.slots,
                    control: control_va,
                    progress_current: progress.map_or(GpuVa(0), |f| f.current_va),
                    progress_monitored: progress.map_or(GpuVa(0), |f| f.monitored_va),
                },
                band: options.priority,
                os_handle: options.os_handle,
                context: 0,
            })
            .expect("a queue");
        let id = QueueId(id as u32);
        let mut queue = Queue {
            machine,
            id,
            kind,
            ring,
            ring_va,
            control,
            slots: options.slots,
            written: 0,
            doorbell: None,
        };
        if kind == QueueKind::User && options.connect {
            queue.connect();
        }
        queue
    }

    /// Connects the doorbell.
    pub fn connect(&mut self) {
        self.machine
            .admin(AdminCommand::ConnectDoorbell {
                queue: self.id,
                global: false,
                secondary: false,
            })
            .expect("a doorbell");
        self.doorbell = self.machine.gpu.doorbell_page(self.id);
        assert!(self.doorbell.is_some());
    }

    /// Writes a packet to the ring without publishing it.
    pub fn put(&mut self, packet: &RingPacket) {
        self.put_bytes(&packet.encode());
    }

    /// Writes the bytes of a slot to the ring without publishing them.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.ring.write(self.written % self.slots * SLOT_BYTES, bytes).expect("inside the ring");
        self.written += 1;
    }

    /// Publishes the write pointer.
    pub fn publish(&self) {
        self.control.word(CONTROL_WRITE_WORD).store(self.written);
    }

    /// Rings the doorbell, or kicks the queue if it has none.
    pub fn ring(&self) {
        match (&self.doorbell, self.kind) {
            (Some((page, summary, bit)), _) => {
                page.store(DOORBELL_VALUE_WORD, self.written);
                summary.ringer(*bit).ring();
            }
            (None, QueueKind::User) => {}
            (None, _) => {
                self.machine.admin(AdminCommand::KickQueue { queue: self.id }).expect("a queue");
            }
        }
    }

    /// Writes and publishes packets and rings.
    pub fn submit(&mut self, packets: &[RingPacket]) {
        packets.iter().for_each(|p| self.put(p));
        self.publish();
        self.ring();
    }

    /// Submits packets, and blocks until `done` was signalled `times` times since the start.
    pub fn run_until(&mut self, packets: &[RingPacket], done: &Fence, times: usize) {
        self.submit(packets);
        self.machine.await_signals(done, times);
    }

    /// Returns the read pointer.
    pub fn read_pointer(&self) -> u64 {
        self.control.word(CONTROL_READ_WORD).load()
    }
}

/// Runs `test` on a started machine of each platform: threads, virtual time and exploration.
pub fn everywhere(config: Config, test: fn(&Arc<Machine>)) {
    on_each(config, test);
}

/// The same, with a process of the machine.
pub fn with_process(config: Config, test: fn(&Arc<Machine>, Process)) {
    on_each(config, move |machine| test(machine, machine.process()));
}

/// Runs `test` with a process in virtual time with free steps, on a machine as it ships.
pub fn timed_process(test: fn(&Arc<Machine>, Process)) {
    let platform = Platform::virtual_time(StepCosts::free());
    on(&platform, Config::default(), move |machine| test(machine, machine.process()));
}

fn on_each(config: Config, test: impl Fn(&Arc<Machine>) + Copy + Send + 'static) {
    let platforms: [fn() -> Platform; 3] = [
        Platform::closed_host,
        || {
            Platform::virtual_time(
                StepCosts::free().with(Step::GpuWaitUnblock, 100).with(Step::RingFetch, 10),
            )
        },
        || machine(Replay::default(), MemoryModel::TotalStoreOrder),
    ];
    for make in platforms {
        let platform = make();
        on(&platform, config.clone(), test);
    }
}

/// Runs `test` on a started machine of `platform`.
pub fn on(platform: &Platform, config: Config, test: impl FnOnce(&Arc<Machine>) + Send + 'static) {
    let owned = platform.clone();
    let report = platform.run(move || {
        let machine = Machine::new(&owned, config);
        machine.gpu.start();
        test(&machine);
        machine.gpu.stop();
    });
    assert!(report.completed(), "{:?}: {report:?}", platform.kind());
}
