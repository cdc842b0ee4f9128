//! A machine for tests: a GPU with its memory, processes whose page tables are built by hand,
//! queues, fences, and an interrupt line that writes down what it reports. It stands where driver
//! and kernel stand in a whole machine.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tidegate_d3dukmdt::FenceCell;
use tidegate_d3dukmdt::fence_cell::{PAGE_WORDS, VALUE_BYTES};
use tidegate_explorer::machine;
use tidegate_explorer::strategy::replay::Replay;
use tidegate_gpu_abi::address::TABLE_LEVELS;
use tidegate_gpu_abi::admin::Mailbox;
use tidegate_gpu_abi::regs::{FaultInfo, FaultKind};
use tidegate_gpu_abi::ring::NO_LOG_ENTRY;
use tidegate_gpu_abi::{
    AddressSpaceId, AdminCommand, AdminError, CONTROL_READ_WORD, CONTROL_WORDS, CONTROL_WRITE_WORD,
    Cause, Command, CommandWriter, DOORBELL_VALUE_WORD, Device, GpuVa, InterruptSink, PAGE_BYTES,
    Pte, QueueId, QueueKind, QueueState, Register, RingPacket, SLOT_BYTES, Summary,
};
use tidegate_platform::{
    Bulk, Event, MemoryModel, Mutex, Page, PhysicalAddress, PhysicalMemory, Platform, Step,
    StepCosts, WaitEnd, Word,
};
use tidegate_softgpu::{Config, SoftGpu};

/// Node numbers of the default GPU.
pub const THREE_D: u32 = 0;
pub const COMPUTE: u32 = 1;
pub const COPY: u32 = 2;

/// What the interrupt line reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Signaled(QueueId, GpuVa),
    /// The CMP found the fence above a new MonitoredValue.
    OfCmp(AddressSpaceId, GpuVa),
    Collapsed,
    Completed(u32, u64),
    /// Engine, preemption fence id, last completed id.
    Preempted(u32, u64, u64),
    Suspended(QueueId),
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

/// The other end of the interrupt line: takes everything at once and wakes its waiters.
pub struct Line {
    gpu: Weak<SoftGpu>,
    seen: Mutex<Vec<Seen>>,
    news: Event,
    pub raised: Word,
    pub turns_ended: Word,
}

impl InterruptSink for Line {
    fn raise(&self) {
        tidegate_platform::current::assert_no_guards("the interrupt of a test");
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

pub struct Machine {
    pub platform: Platform,
    pub system: PhysicalMemory,
    pub gpu: Arc<SoftGpu>,
    pub line: Arc<Line>,
    processes: Mutex<u32>,
    /// What the mailbox holds: a driver writes only the words that change.
    mailbox: Mutex<Mailbox>,
}

impl Machine {
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

    /// Gives the CMP a command whose result does not matter.
    pub fn run_command(&self, command: AdminCommand) -> Result<(), AdminError> {
        let words = command.encode();
        let mut mailbox = self.mailbox.lock();
        for (number, (word, old)) in words.into_iter().zip(mailbox.iter_mut()).enumerate() {
            if word != std::mem::replace(old, word) {
                self.gpu.write_register(Register::MAILBOX.offset(number as u32), word);
            }
        }
        drop(mailbox);
        self.gpu.write_register(Register::MAILBOX_RUN, 1);
        match self.gpu.read_register(Register::MAILBOX_STATUS) {
            0 => Ok(()),
            error => Err(AdminError::from_number(error).expect("a known error")),
        }
    }

    /// Gives the CMP a command and returns its result.
    pub fn admin(&self, command: AdminCommand) -> Result<(u64, u64), AdminError> {
        self.run_command(command)?;
        let (low, high) = (Register::MAILBOX_RESULT, Register::MAILBOX_RESULT_HIGH);
        Ok((self.gpu.read_register(low), self.gpu.read_register(high)))
    }

    pub fn state(&self, queue: QueueId) -> QueueState {
        let (state, _) = self.admin(AdminCommand::QueryQueue { queue }).expect("a queue");
        QueueState::from_number(state).expect("a known state")
    }

    /// Blocks until `condition` holds, which no interrupt tells of. There is no limit: the host may
    /// be slow.
    pub fn poll_until(&self, condition: impl Fn() -> bool) {
        while !condition() {
            self.platform.sleep_until(self.platform.now().after(1_000));
        }
    }

    /// Has the CMP keep a shadow of the fence's MonitoredValue, under this number; returns whether
    /// there is one now.
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

    /// Tells the CMP of a new MonitoredValue.
    pub fn set_monitored(&self, number: u64, value: u64) {
        self.gpu.write_register(Register::SHADOW_FENCE, number);
        self.gpu.write_register(Register::SHADOW_VALUE, value);
    }

    /// Blocks until the interrupts that were seen satisfy `enough`, and returns them.
    pub fn await_seen(&self, enough: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        loop {
            let seen = self.line.seen.lock().clone();
            if enough(&seen) {
                return seen;
            }
            let end = self.line.news.wait_for(None, "interrupts");
            assert_ne!(end, WaitEnd::Stopped, "the machine stood still after {seen:?}");
        }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.line.seen.lock().clone()
    }

    /// Blocks until `fence` was reported `times` times.
    pub fn await_signals(&self, fence: &Fence, times: usize) {
        let of_fence = |s: &Seen| matches!(s, Seen::Signaled(_, va) if *va == fence.current_va);
        self.await_seen(|seen| seen.iter().filter(|s| of_fence(s)).count() >= times);
    }

    /// Blocks until `preemption_fence_id` was answered, and returns what was complete then.
    pub fn await_preempted(&self, engine: u32, preemption_fence_id: u64) -> u64 {
        let of = |s: &Seen| matches!(s, Seen::Preempted(e, id, _) if (*e, *id) == (engine, preemption_fence_id));
        let seen = self.await_seen(|seen| seen.iter().any(of));
        match seen.into_iter().find(of) {
            Some(Seen::Preempted(_, _, completed)) => completed,
            other => panic!("{other:?}"),
        }
    }

    /// Blocks until the engine has reported this packet, or a later one.
    pub fn await_completed(&self, engine: u32, id: u64) {
        self.await_seen(|seen| {
            seen.iter().any(|s| matches!(s, Seen::Completed(e, at) if *e == engine && *at >= id))
        });
    }

    pub fn await_fault(&self) -> Seen {
        let seen = self.await_seen(|seen| seen.iter().any(|s| matches!(s, Seen::Fault { .. })));
        seen.into_iter().find(|s| matches!(s, Seen::Fault { .. })).expect("it was seen")
    }

    /// A process with an address space of its own.
    pub fn process(self: &Arc<Machine>) -> Process {
        let number = {
            let mut processes = self.processes.lock();
            *processes += 1;
            *processes
        };
        self.process_of(AddressSpaceId(number))
    }

    /// The system process, in whose address space save areas stand.
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

    /// A queue whose ring the kernel owns.
    pub fn kernel_queue(
        self: &Arc<Machine>,
        node: u32,
        kind: QueueKind,
        process: &Process,
    ) -> Queue {
        let (ring_at, ring) = self.system.bulk(64 * SLOT_BYTES as usize);
        let (control_at, control) = self.system.protocol(CONTROL_WORDS);
        let places = (GpuVa(ring_at.0), GpuVa(control_at.0));
        Queue::create(
            process,
            node,
            kind,
            places,
            (ring, control),
            QueueOptions { slots: 64, ..Default::default() },
        )
    }
}

struct Layout {
    /// By level and the part of the address above the table.
    tables: BTreeMap<(u32, u64), (PhysicalAddress, Bulk)>,
    next: u64,
}

pub struct Process {
    pub machine: Arc<Machine>,
    pub id: AddressSpaceId,
    layout: Mutex<Layout>,
}

/// Bytes of a process.
#[derive(Clone)]
pub struct Buffer {
    pub va: GpuVa,
    pub bulk: Bulk,
}

impl Buffer {
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; self.bulk.len() as usize];
        self.bulk.read(0, &mut out).expect("inside");
        out
    }

    pub fn put(&self, offset: u64, data: &[u8]) {
        self.bulk.write(offset, data).expect("inside");
    }
}

/// A fence of a process.
#[derive(Clone)]
pub struct Fence {
    pub current_va: GpuVa,
    pub monitored_va: GpuVa,
    pub current: FenceCell,
    pub monitored: Word,
    pub current_at: PhysicalAddress,
}

impl Fence {
    pub fn wait(&self, value: u64) -> RingPacket {
        RingPacket::Wait {
            current_value: self.current_va,
            value,
            epoch: self.current.wait_for(value).epoch,
            fence_handle: 7,
            log_entry: NO_LOG_ENTRY,
        }
    }

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

    /// The same by an entry that does not ask for coherency.
    pub fn map_page_incoherently(&self, va: GpuVa, to: PhysicalAddress) {
        self.write_entry(va, Pte::new(to, true));
    }

    /// Maps a page of fence values where something may stand already.
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

    /// Takes a page's mapping away, in the table only.
    pub fn unmap_page(&self, va: GpuVa) {
        let layout = self.layout.lock();
        let last = &layout.tables[&(TABLE_LEVELS - 1, va.0 >> 21)].1;
        last.write_u64(va.table_index(TABLE_LEVELS - 1) * 8, 0).expect("inside a table");
    }

    /// Maps a region at fresh addresses, with a page that is not mapped behind it.
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

    pub fn buffer(&self, bytes: usize) -> Buffer {
        let (at, bulk) = self.machine.system.bulk(bytes);
        Buffer { va: self.map(at, bytes as u64, true), bulk }
    }

    /// A buffer in the GPU's local memory.
    pub fn local_buffer(&self, bytes: usize) -> Buffer {
        let (at, bulk) = self.machine.gpu.local_memory(0).expect("local memory").bulk(bytes);
        Buffer { va: self.map(at, bytes as u64, true), bulk }
    }

    /// A buffer that engines may not store to.
    pub fn read_only_buffer(&self, bytes: usize) -> Buffer {
        let (at, bulk) = self.machine.system.bulk(bytes);
        Buffer { va: self.map(at, bytes as u64, false), bulk }
    }

    /// Words that engines reach as memory.
    pub fn words(&self, count: usize) -> (GpuVa, Page, PhysicalAddress) {
        let (at, page) = self.machine.system.protocol(count);
        (self.map(at, count as u64 * 8, true), page, at)
    }

    /// A fence at `value` that interrupts for every value above `monitored`.
    pub fn fence(&self, value: u64, monitored: u64) -> Fence {
        let (current_at, current) = self.machine.system.protocol(PAGE_WORDS);
        let current_va = self.map(current_at, VALUE_BYTES, true);
        self.write_entry(current_va, Pte::new(current_at, true).of_fence_values().coherent());
        let (monitored_at, page) = self.machine.system.protocol(1);
        let monitored_va = self.map(monitored_at, 8, false);
        let (current, monitored_word) =
            (FenceCell::in_fence_page(current.word(0), 0), page.word(0));
        current.renew(value, 64);
        monitored_word.store(monitored);
        Fence { current_va, monitored_va, current, monitored: monitored_word, current_at }
    }

    /// Command buffer memory with these commands.
    pub fn commands(&self, commands: &[Command]) -> (GpuVa, u32) {
        let mut writer = CommandWriter::new();
        commands.iter().for_each(|c| writer.push(c));
        let bytes = writer.to_bytes();
        let buffer = self.buffer(bytes.len());
        buffer.put(0, &bytes);
        (buffer.va, bytes.len() as u32)
    }

    pub fn execute(&self, commands: &[Command], progress: u64) -> RingPacket {
        let (commands, bytes) = self.commands(commands);
        RingPacket::Execute { commands, bytes, progress }
    }

    pub fn queue(&self, node: u32) -> Queue {
        self.queue_with(node, QueueOptions::default())
    }

    pub fn queue_with(&self, node: u32, options: QueueOptions) -> Queue {
        let ring = self.buffer((options.slots * SLOT_BYTES) as usize);
        let (control_va, control, _) = self.words(CONTROL_WORDS);
        Queue::create(
            self,
            node,
            QueueKind::User,
            (ring.va, control_va),
            (ring.bulk, control),
            options,
        )
    }
}

#[derive(Clone)]
pub struct QueueOptions {
    pub slots: u64,
    pub priority: u32,
    pub progress: Option<Fence>,
    pub os_handle: u64,
    pub connect: bool,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions { slots: 64, priority: 1, progress: None, os_handle: 0, connect: true }
    }
}

pub struct Queue {
    machine: Arc<Machine>,
    pub id: QueueId,
    kind: QueueKind,
    pub ring: Bulk,
    pub ring_va: GpuVa,
    pub control: Page,
    slots: u64,
    pub written: u64,
    pub doorbell: Option<(Page, Summary, u32)>,
}

impl Queue {
    fn create(
        process: &Process,
        node: u32,
        kind: QueueKind,
        (ring_va, control_va): (GpuVa, GpuVa),
        (ring, control): (Bulk, Page),
        options: QueueOptions,
    ) -> Queue {
        let machine = Arc::clone(&process.machine);
        let progress = options.progress.as_ref();
        let (id, _) = machine
            .admin(AdminCommand::CreateQueue {
                engine: node,
                kind,
                address_space: process.id,
                ring: ring_va,
                slots: options.slots,
                control: control_va,
                progress_current: progress.map_or(GpuVa(0), |f| f.current_va),
                progress_monitored: progress.map_or(GpuVa(0), |f| f.monitored_va),
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

    /// Puts a packet into the ring without publishing it.
    pub fn put(&mut self, packet: &RingPacket) {
        self.put_bytes(&packet.encode());
    }

    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.ring.write(self.written % self.slots * SLOT_BYTES, bytes).expect("inside the ring");
        self.written += 1;
    }

    /// Stores the write pointer.
    pub fn publish(&self) {
        self.control.word(CONTROL_WRITE_WORD).store(self.written);
    }

    /// Rings the doorbell, or kicks where there is none.
    pub fn ring(&self) {
        match (&self.doorbell, self.kind) {
            (Some((page, summary, bit)), _) => {
                page.store(DOORBELL_VALUE_WORD, self.written);
                summary.ring(*bit);
            }
            (None, QueueKind::User) => {}
            (None, _) => {
                self.machine.admin(AdminCommand::KickQueue { queue: self.id }).expect("a queue");
            }
        }
    }

    /// Puts, publishes and rings.
    pub fn submit(&mut self, packets: &[RingPacket]) {
        packets.iter().for_each(|p| self.put(p));
        self.publish();
        self.ring();
    }

    pub fn read_pointer(&self) -> u64 {
        self.control.word(CONTROL_READ_WORD).load()
    }
}

/// Runs `test` on a started machine of each platform.
pub fn everywhere(config: Config, test: fn(&Arc<Machine>)) {
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
