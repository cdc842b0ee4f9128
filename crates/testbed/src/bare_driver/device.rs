//! A device with scripted registers. It decodes and records mailbox commands and has no engines.

use super::journal::{Event, Journal};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tidegate::gpu_abi::admin::Mailbox;
use tidegate::gpu_abi::regs::MAILBOX_WORDS;
use tidegate::gpu_abi::{
    AdminCommand, AdminError, Device, EngineKind, InterruptSink, QueueId, Register, Summary,
};
use tidegate::platform::{Mutex, Page, PhysicalAddress, PhysicalMemory, Platform, WakeWord, Word};

/// The state of the registers.
#[derive(Default)]
pub struct Script {
    /// Values of consecutive reads of the cause register.
    pub causes: VecDeque<u64>,
    /// Queue and address of signals. `None` ends one read of the list.
    pub signals: VecDeque<Option<(QueueId, u64)>>,
    /// Fences that the CMP found above a new MonitoredValue: address space and address.
    pub of_cmp: VecDeque<(u32, u64)>,
    /// Faults: queue, address, position, code. The progress value and the command number are
    /// derived from the position.
    pub faults: VecDeque<(QueueId, u64, u64, u64)>,
    /// Queues that left the run list after their suspension.
    pub suspended: VecDeque<QueueId>,
    /// The kernel's handles of packet contexts that the driver said have ended.
    pub contexts_ended: Vec<u64>,
    /// Traits of the device and its nodes, and display registers.
    pub traits: HashMap<Register, u64>,
    /// Writes to display registers.
    pub display: Vec<(Register, u64)>,
    /// Values of consecutive reads of the mask of nodes that wrote monitored fences.
    pub monitored: VecDeque<u64>,
    /// Last completed fence ID of each node.
    pub completed: HashMap<u32, u64>,
    /// Planted status by command opcode.
    pub refused: HashMap<u64, u64>,
    /// Planted results by command opcode.
    pub results: HashMap<u64, (u64, u64)>,
    /// A node on which no queue can be created.
    pub broken_node: Option<u32>,
    /// Values of consecutive reads of the clock, with the nanoseconds that each read takes.
    pub clock: VecDeque<(u64, u64)>,
    /// Number of register writes.
    pub writes: usize,
    mailbox: Mailbox,
    /// The two words of the result.
    result: (u64, u64),
    status: u64,
    pending_signal: u64,
    /// The fence that the next MonitoredValue belongs to.
    shadow_fence: u64,
    /// Number of reads of the flush register.
    flushes: u64,
    queues: u32,
    doorbells: HashMap<QueueId, (Page, u32)>,
    secondaries: HashMap<QueueId, Page>,
    bells: u32,
    /// Time of the last ring of each queue.
    pub last_rings: HashMap<QueueId, u64>,
}

/// The scripted device.
pub struct Scripted {
    platform: Platform,
    journal: Journal,
    nodes: u32,
    local: PhysicalMemory,
    /// Summary of the doorbells.
    pub summary: Summary,
    /// The registers.
    pub script: Mutex<Script>,
    sink: Mutex<Option<Arc<dyn InterruptSink>>>,
    /// The waiting word of every fence.
    pub waiting: Word,
    /// The count of turns whose end a command waits for. No command of this device waits.
    turn_ends: Word,
}

impl Scripted {
    /// Creates a device with one node of each class.
    pub fn new(platform: &Platform, journal: Journal) -> Arc<Scripted> {
        let classes = (0..).zip(EngineKind::STANDARD);
        let traits = classes.map(|(n, class)| (Register::NODE_CLASS.offset(n), class as u64));
        let script = Script { traits: traits.collect(), ..Script::default() };
        Arc::new(Scripted {
            platform: platform.clone(),
            journal,
            nodes: EngineKind::STANDARD.len() as u32,
            local: PhysicalMemory::new(platform, PhysicalAddress(1 << 40)),
            summary: Summary::new(platform, WakeWord::new(platform)),
            script: platform.mutex("script", script),
            sink: platform.mutex("sink", None),
            waiting: platform.page(1).word(0),
            turn_ends: platform.page(1).word(0),
        })
    }

    /// Returns the number of reads of the flush register.
    pub fn flushes(&self) -> u64 {
        self.script.lock_device().flushes
    }

    /// Raises the interrupt line and ends the turn.
    pub fn raise(&self) {
        let sink = self.sink.lock_device().clone().expect("the line is connected");
        sink.raise();
        sink.turn_ended();
    }

    fn run(&self, script: &mut Script) {
        let command = AdminCommand::decode(&script.mailbox).expect("the driver sends commands");
        self.journal.push(Event::Admin(command));
        script.status = script.refused.get(&script.mailbox[0]).copied().unwrap_or(0);
        if script.status != 0 {
            return;
        }
        script.result = script.results.get(&script.mailbox[0]).copied().unwrap_or_default();
        match command {
            AdminCommand::CreateQueue { shape, .. } if script.broken_node == Some(shape.engine) => {
                script.status = AdminError::NoSuchEngine as u64;
            }
            AdminCommand::CreateQueue { .. } => {
                script.result.0 = u64::from(script.queues);
                script.queues += 1;
            }
            AdminCommand::ConnectDoorbell { queue, secondary, .. } => {
                if secondary {
                    script.secondaries.insert(queue, self.platform.page(1));
                }
                let bell = script.bells;
                script.bells += 1;
                script.doorbells.insert(queue, (self.platform.page(1), bell));
                script.result.0 = u64::from(bell);
            }
            AdminCommand::DisconnectDoorbell { queue }
                if script.doorbells.remove(&queue).is_none() =>
            {
                script.status = AdminError::NoSuchQueue as u64;
            }
            _ => {}
        }
    }
}

impl Device for Scripted {
    fn read_register(&self, register: Register) -> u64 {
        if register == Register::CLOCK {
            let (value, ns) = self.script.lock_device().clock.pop_front().unwrap_or_default();
            self.platform.busy(ns);
            return value;
        }
        let mut script = self.script.lock_device();
        match register {
            Register::MAILBOX_STATUS => script.status,
            Register::MAILBOX_RESULT => script.result.0,
            Register::MAILBOX_RESULT_HIGH => script.result.1,
            Register::INTERRUPT_CAUSE => script.causes.pop_front().unwrap_or(0),
            Register::SIGNALED_QUEUE => match script.signals.pop_front().flatten() {
                Some((queue, va)) => {
                    script.pending_signal = va;
                    u64::from(queue.0) + 1
                }
                None => match script.of_cmp.pop_front() {
                    Some((address_space, va)) => {
                        script.pending_signal = va;
                        Register::SIGNALED_BY_CMP | u64::from(address_space)
                    }
                    None => 0,
                },
            },
            Register::SUSPENDED_QUEUE => {
                script.suspended.pop_front().map_or(0, |queue| u64::from(queue.0) + 1)
            }
            Register::LOG_FLUSH => {
                script.flushes += 1;
                0
            }
            Register::SIGNALED_VA => script.pending_signal,
            Register::FAULT_QUEUE => script.faults.front().map_or(0, |f| u64::from(f.0.0) + 1),
            Register::FAULT_VA => script.faults[0].1,
            Register::FAULT_POSITION => script.faults[0].2,
            Register::FAULT_FENCE => script.faults[0].2 * 100,
            Register::FAULT_COMMAND => script.faults[0].2 * 10,
            Register::FAULT_INFO => script.faults.pop_front().expect("a fault record").3,
            Register::MONITORED_ENGINES => script.monitored.pop_front().unwrap_or(0),
            ring if ring.0 >= Register::LAST_RING.0 => {
                let queue = QueueId(ring.0 - Register::LAST_RING.0);
                script.last_rings.get(&queue).copied().unwrap_or(0)
            }
            traits if traits.0 >= Register::NODE_TRAITS.0 => {
                script.traits.get(&traits).copied().unwrap_or(0)
            }
            other => {
                script.completed.get(&(other.0 - Register::COMPLETED_FENCE.0)).copied().unwrap_or(0)
            }
        }
    }

    fn write_register(&self, register: Register, value: u64) {
        let mut script = self.script.lock_device();
        script.writes += 1;
        match register {
            Register::MAILBOX_RUN => self.run(&mut script),
            Register(word) if word < MAILBOX_WORDS => script.mailbox[word as usize] = value,
            Register::FENCE_STORED => self.journal.push(Event::FenceStored(value)),
            Register::CONTEXT_ENDED => script.contexts_ended.push(value),
            Register::SHADOW_FENCE => script.shadow_fence = value,
            Register::SHADOW_VALUE => self.journal.push(Event::Shadow(script.shadow_fence, value)),
            Register(display) if (Register::DISPLAY_PERIOD.0..).contains(&display) => {
                script.display.push((register, value));
                script.traits.insert(register, value);
            }
            Register(n) if (Register::COMPLETED_FENCE.0..Register::NODE_TRAITS.0).contains(&n) => {
                script.completed.insert(n - Register::COMPLETED_FENCE.0, value);
            }
            other => panic!("the driver writes {other:?}"),
        }
    }

    fn doorbell_page(&self, queue: QueueId) -> Option<(Page, Summary, u32)> {
        let script = self.script.lock_device();
        script.doorbells.get(&queue).map(|(page, bit)| (page.clone(), self.summary.clone(), *bit))
    }

    fn secondary_doorbell_page(&self, queue: QueueId) -> Option<Page> {
        self.script.lock_device().secondaries.get(&queue).cloned()
    }

    fn waiting_word(&self, _current_value: PhysicalAddress) -> Option<Word> {
        Some(self.waiting.clone())
    }

    fn turn_ends(&self) -> Word {
        self.turn_ends.clone()
    }

    fn connect_interrupt(&self, sink: Arc<dyn InterruptSink>) {
        *self.sink.lock_device() = Some(sink);
    }

    fn local_memory(&self, physical_gpu: u32) -> Option<&PhysicalMemory> {
        (physical_gpu == 0).then_some(&self.local)
    }

    fn local_memory_bytes(&self) -> u64 {
        1 << 30
    }

    fn node_count(&self) -> u32 {
        self.nodes
    }

    fn physical_gpu_count(&self) -> u32 {
        1
    }
}
