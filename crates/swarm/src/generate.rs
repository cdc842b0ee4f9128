//! Programs from seeds, after the model of swarm testing (Groce et al., ISSTA 2012).
//!
//! Each run draws: the variant and switches of its adapters, processes and threads, which kinds of
//! operations it uses and how often. A run that leaves most kinds out uses the rest often, so that
//! rare combinations come up.
//!
//! Invariant: the model has admitted every step. A proposed step that it refuses is not in the
//! program.
//!
//! Entry point: [`program`].

use crate::model::{BufferState, Facts, FenceState, Model, PAGE_WORDS};
use crate::operation::{Kind, Operation};
use crate::program::{ProcessSetup, Program, ProgramStep};
use crate::setup::{AdapterSetup, HISTORY, OPENED_ALLOCATIONS, SCHEDULER_FENCES, SWITCHES, VERIFY};
use crate::words::{
    AdapterId, Band, BufferId, Class, Costs, Fate, FenceId, FenceKind, Model as Submission,
    ProcessId, Question, QueueId, Sharing, Surface, ThreadId, WaitId,
};
use tidegate::explorer::random_numbers::Numbers;
use tidegate::variants::{self, Variant};

/// The weight of queued waits that are pulsed on adapters with short histories.
const SHORT_HISTORY_PULSES: u64 = 120;

/// What programs are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Steps of a program.
    pub steps: usize,
    /// The most processes.
    pub processes: u64,
    /// The most threads.
    pub threads: u64,
    /// The most quanta that the packets of a flood take.
    pub flood_quanta: u64,
    /// Whether processes may be doomed.
    pub doom: bool,
    /// Whether the processes are real ones: always clients of a service, and killed in most
    /// programs.
    pub clients: bool,
}

impl Shape {
    /// Programs for virtual time and for host threads.
    pub const WHOLE: Shape = Shape {
        steps: 50,
        processes: 4,
        threads: 6,
        flood_quanta: u64::MAX,
        doom: true,
        clients: false,
    };
    /// Programs for explored machines, whose runs grow with each agent and each packet.
    pub const SMALL: Shape = Shape {
        steps: 14,
        processes: 2,
        threads: 3,
        flood_quanta: 4_000,
        doom: true,
        clients: false,
    };
    /// Programs whose processes are real ones.
    pub const CLIENTS: Shape = Shape { clients: true, ..Shape::WHOLE };
}

/// How often a kind of operation is proposed, before the draw of a run.
fn weight(kind: Kind) -> u64 {
    match kind {
        Kind::Execute | Kind::QueueSignal | Kind::QueueWait => 12,
        Kind::Store | Kind::Signal | Kind::Wait | Kind::Scratch => 8,
        Kind::CreateQueue | Kind::CreateFence => 6,
        Kind::Register | Kind::Await | Kind::Drain | Kind::PulseQueue | Kind::PulseWait => 5,
        Kind::CreateBuffer | Kind::OpenFence | Kind::Evict | Kind::Rest => 4,
        Kind::PageOut | Kind::PageIn | Kind::Broadcast => 4,
        Kind::DropQueue | Kind::DropFence | Kind::DropBuffer | Kind::Cancel | Kind::Query => 3,
        Kind::SetPriority | Kind::Tiles | Kind::ShareResource => 2,
        Kind::Semaphore | Kind::KeyedMutex => 2,
        Kind::NameFence | Kind::Vsync | Kind::Flip => 2,
        Kind::Suspend | Kind::SleepResume | Kind::IdleEngines | Kind::ResetEngine => 2,
        Kind::Hang | Kind::MarkDevice | Kind::Kill | Kind::DestroyDevice => 2,
        Kind::ResetAdapter | Kind::RemoveAdapter => 1,
        Kind::WaitAll | Kind::WaitAny | Kind::Prompt => 4,
        Kind::CloseFence | Kind::CloseQueue | Kind::StopProcess => 3,
        Kind::Flood => 1,
    }
}

/// Returns the program of a seed.
pub fn program(seed: u64, shape: Shape) -> Program {
    let mut numbers = Numbers::new(seed);
    let mut program = machine(&mut numbers, shape);
    shorten_histories(&mut Numbers::new(!seed), &mut program, shape);
    turn_on(SCHEDULER_FENCES, 3, &mut Numbers::new(!seed.rotate_left(32)), &mut program);
    turn_on(OPENED_ALLOCATIONS, 6, &mut Numbers::new(!seed.rotate_left(24)), &mut program);
    choose_other_variants(&mut Numbers::new(!seed.rotate_left(16)), &mut program);
    let also = KINDS_APART
        .iter()
        .filter(|(_, rotation, odds)| Numbers::new(!seed.rotate_left(*rotation)).chance(*odds));
    let also: Vec<Kind> = also.map(|(kind, ..)| *kind).collect();
    let steps = steps(&mut numbers, &program, shape, &also);
    program.steps = steps;
    program
}

/// The longest stop of the process: more than any delay of the kernel.
const MOST_STOPPED_NS: u64 = 8_000_000_000;

/// Kinds that are drawn apart, as these switches are: each with the rotation of the seed and the
/// odds.
const KINDS_APART: [(Kind, u32, u64); 2] = [(Kind::KeyedMutex, 48, 4), (Kind::StopProcess, 40, 6)];

/// Switches that are drawn apart, so that the other programs of a seed stay as they were.
const APART: [&str; 4] = [HISTORY, SCHEDULER_FENCES, OPENED_ALLOCATIONS, VERIFY];

fn index_of(name: &str) -> usize {
    SWITCHES.iter().position(|switch| switch.name == name).expect("a switch of the table")
}

/// Turns on a switch of all adapters in one program of `odds`.
fn turn_on(switch: &str, odds: u64, numbers: &mut Numbers, program: &mut Program) {
    if numbers.chance(odds) {
        let index = index_of(switch);
        program.adapters.iter_mut().for_each(|adapter| adapter.set(index, 1));
    }
}

/// One program in six has short histories.
fn shorten_histories(numbers: &mut Numbers, program: &mut Program, shape: Shape) {
    let index = index_of(HISTORY);
    if !numbers.chance(6) {
        return;
    }
    for adapter in &mut program.adapters {
        adapter.set(index, numbers.below(2));
    }
    // Only rings of doomed processes may lose a wait.
    for process in &mut program.processes {
        if shape.doom && numbers.chance(2) {
            process.fate = Fate::Doomed;
        }
    }
}

/// Named adapters that are drawn apart, like the switches of [`APART`].
const VARIANTS_APART: [&str; 16] = [
    "global-doorbell-of-all",
    "managed-power",
    "lazy-context-switch",
    "cancel-command-aware",
    "no-save-areas",
    "windows-7-preemption",
    "verbose-logs",
    "peer-doorbells",
    "peer-signals",
    "faults-name-context",
    "faults-name-process",
    "faults-name-engine",
    "one-doorbell-address",
    "default-fences-only",
    "untimed-logs",
    "out-of-order",
];

/// In one program in four the standard adapters are named ones of [`VARIANTS_APART`].
fn choose_other_variants(numbers: &mut Numbers, program: &mut Program) {
    if !numbers.chance(4) {
        return;
    }
    for adapter in program.adapters.iter_mut().filter(|a| a.variant() == variants::ALL[0].name) {
        let name = numbers.pick(&VARIANTS_APART).expect("there are variants");
        adapter.set_variant(variants::find(name).expect("a variant of the table"));
    }
}

/// Variants that programs have as a switch instead ([`OPENED_ALLOCATIONS`]).
fn is_switch(variant: &Variant) -> bool {
    SWITCHES.iter().any(|switch| switch.name == variant.name)
}

fn drawn_variants() -> Vec<&'static Variant> {
    let is_drawn =
        |variant: &&Variant| !VARIANTS_APART.contains(&variant.name) && !is_switch(variant);
    variants::ALL.iter().filter(is_drawn).collect()
}

fn adapter(numbers: &mut Numbers) -> AdapterSetup {
    // Half of the adapters are standard, so that switches are also met by themselves.
    let variant = match numbers.chance(2) {
        true => &variants::ALL[0],
        false => *numbers.pick(&drawn_variants()).expect("there are variants"),
    };
    let mut adapter = AdapterSetup::shipped(variant);
    let odds = 1 + numbers.below(8);
    for (index, switch) in SWITCHES.iter().enumerate() {
        if !APART.contains(&switch.name) && numbers.chance(odds) {
            adapter.set(index, *numbers.pick(switch.values).expect("a switch has values"));
        }
    }
    adapter
}

fn machine(numbers: &mut Numbers, shape: Shape) -> Program {
    let adapters: Vec<AdapterSetup> = match numbers.chance(5) {
        true => (0..2).map(|_| adapter(numbers)).collect(),
        false => vec![adapter(numbers)],
    };
    // One machine in eight has doomed processes only: its adapters may be reset at any time.
    let all_doomed = shape.doom && numbers.chance(8);
    // One real process kills another.
    let count = (1 + numbers.below(shape.processes)).max(1 + u64::from(shape.clients));
    let processes: Vec<ProcessSetup> = (0..count)
        .map(|index| {
            let is_last_client = shape.clients && index == count - 1;
            let is_doomed =
                all_doomed || (shape.doom && index > 0 && numbers.chance(4)) || is_last_client;
            ProcessSetup {
                adapter: AdapterId(numbers.below(adapters.len() as u64) as u16),
                fate: if is_doomed { Fate::Doomed } else { Fate::Steady },
            }
        })
        .collect();
    let count = (1 + numbers.below(shape.threads)).max(processes.len() as u64);
    let mut threads: Vec<ProcessId> = (0..processes.len() as u16).map(ProcessId).collect();
    for _ in threads.len() as u64..count {
        threads.push(ProcessId(numbers.below(processes.len() as u64) as u16));
    }
    let served = numbers.chance(5) || shape.clients;
    let costs = match numbers.chance(2) {
        true => Costs::Nominal,
        false => *numbers.pick(Costs::ALL).expect("there are cost models"),
    };
    Program { served, costs, adapters, processes, threads, steps: Vec::new() }
}

fn steps(
    numbers: &mut Numbers,
    program: &Program,
    shape: Shape,
    also: &[Kind],
) -> Vec<ProgramStep> {
    let count = shape.steps;
    let facts = Facts::of(program);
    let mut proposer = Proposer::new(numbers, &facts, shape, also);
    let mut model = Model::default();
    let mut steps = Vec::with_capacity(count);
    // A program whose draw leaves out what other kinds need stays short.
    for _ in 0..count * 20 {
        if steps.len() == count {
            break;
        }
        let Some(step) = proposer.propose(numbers, &model) else { continue };
        let mut next = model.clone();
        if next.admit(&facts, &step).is_ok() {
            model = next;
            proposer.took(&step);
            steps.push(step);
        }
    }
    steps
}

struct Proposer<'f, 'p> {
    facts: &'f Facts<'p>,
    /// Kinds with their accumulated weights.
    kinds: Vec<(Kind, u64)>,
    total: u64,
    /// Durations of work are below this.
    most_ns: u64,
    /// The most quanta that the packets of a flood take.
    flood_quanta: u64,
    /// The classes of the engines that queues use: one in some runs, so that all compete.
    classes: &'static [Class],
    next_queue: u16,
    next_fence: u16,
    next_buffer: u16,
    next_wait: u16,
}

impl<'f, 'p> Proposer<'f, 'p> {
    fn new(
        numbers: &mut Numbers,
        facts: &'f Facts<'p>,
        shape: Shape,
        also: &[Kind],
    ) -> Proposer<'f, 'p> {
        let (mut kinds, mut total) = (Vec::new(), 0);
        let odds = 1 + numbers.below(4);
        let is_apart = |kind: &&Kind| KINDS_APART.iter().any(|(apart, ..)| apart == *kind);
        for kind in Kind::ALL.iter().filter(|kind| !is_apart(kind)) {
            // Queues and fences are in every program: most kinds need them.
            let is_kept = matches!(kind, Kind::CreateQueue | Kind::CreateFence)
                || (shape.clients && *kind == Kind::Kill);
            if is_kept || !numbers.chance(odds + 1) {
                let times = if is_kept && *kind == Kind::Kill { 8 } else { 1 };
                total += weight(*kind) * times * (1 + numbers.below(4));
                kinds.push((*kind, total));
            }
        }
        for kind in also {
            total += 4 * weight(*kind);
            kinds.push((*kind, total));
        }
        if facts.has_short_history() {
            total += SHORT_HISTORY_PULSES;
            kinds.push((Kind::PulseQueue, total));
        }
        let most_ns = [2_000, 20_000, 200_000][numbers.below(3) as usize];
        let only = numbers.below(3 * Class::ALL.len() as u64) as usize;
        let classes = Class::ALL.get(only..=only).unwrap_or(Class::ALL);
        Proposer {
            facts,
            kinds,
            total,
            most_ns,
            flood_quanta: shape.flood_quanta,
            classes,
            next_queue: 0,
            next_fence: 0,
            next_buffer: 0,
            next_wait: 0,
        }
    }

    /// Returns how many packets of `ns` each a process may have in a flood.
    fn most_packets(&self, process: ProcessId, ns: u64) -> u64 {
        let adapter = self.facts.program.process(process).adapter;
        let quantum_ns = self.facts.program.adapters[usize::from(adapter.0)].quantum_ns().max(1);
        (self.flood_quanta / ns.div_ceil(quantum_ns)).max(1)
    }

    /// Counts the names that an admitted step takes.
    fn took(&mut self, step: &ProgramStep) {
        match step.operation {
            Operation::CreateQueue { .. } => self.next_queue += 1,
            Operation::CreateFence { .. } => self.next_fence += 1,
            Operation::CreateBuffer { .. } => self.next_buffer += 1,
            Operation::Register { .. } => self.next_wait += 1,
            _ => {}
        }
    }

    fn propose(&self, numbers: &mut Numbers, model: &Model) -> Option<ProgramStep> {
        let threads = self.facts.program.threads.len() as u64;
        let thread = ThreadId(numbers.below(threads) as u16);
        let process = self.facts.program.process_of(thread);
        let drawn = numbers.below(self.total);
        let kind = self.kinds.iter().find(|(_, upto)| drawn < *upto)?.0;
        // Without a queue and a fence most kinds are refused.
        let kind = match kind {
            Kind::CreateQueue | Kind::CreateFence | Kind::Scratch | Kind::CreateBuffer => kind,
            _ if !model.live_queues(process).any(|(_, state)| state.owner == thread) => {
                Kind::CreateQueue
            }
            _ if !model.fences.values().any(|fence| fence.owner == process) => Kind::CreateFence,
            _ => kind,
        };
        let operation = self.operation(numbers, model, thread, process, kind)?;
        Some(ProgramStep { thread, operation })
    }

    fn operation(
        &self,
        numbers: &mut Numbers,
        model: &Model,
        thread: ThreadId,
        process: ProcessId,
        kind: Kind,
    ) -> Option<Operation> {
        Some(match kind {
            Kind::CreateQueue => Operation::CreateQueue {
                queue: QueueId(self.next_queue),
                surface: *numbers.pick(Surface::ALL)?,
                model: *numbers.pick(Submission::ALL)?,
                class: *numbers.pick(self.classes)?,
                band: if numbers.chance(4) { Band::High } else { Band::Normal },
            },
            Kind::DropQueue => Operation::DropQueue { queue: self.queue(numbers, model, thread)? },
            Kind::Drain => Operation::Drain { queue: self.queue(numbers, model, thread)? },
            Kind::Execute => Operation::Execute {
                queue: self.any_queue(numbers, model, thread)?,
                ns: numbers.below(self.most_ns),
            },
            Kind::Hang => Operation::Hang { queue: self.queue(numbers, model, thread)? },
            Kind::Store => {
                let queue = self.queue(numbers, model, thread)?;
                let surface = model.queues[&queue].surface;
                let buffers: Vec<(BufferId, u64)> = self
                    .buffers(model, thread)
                    .filter(|(_, state)| state.surface == surface)
                    .map(|(id, state)| (id, state.pages))
                    .collect();
                let (buffer, pages) = *numbers.pick(&buffers)?;
                let word = (u64::from(queue.0) * 8 + numbers.below(4)) % (pages * PAGE_WORDS);
                Operation::Store { queue, buffer, word, value: numbers.below(1 << 32) }
            }
            Kind::CreateFence => {
                let surface = *numbers.pick(Surface::ALL)?;
                let is_for_pulses = self.facts.has_short_history() && !numbers.chance(3);
                let kind = match surface {
                    Surface::Api => self.facts.api_kind(process),
                    Surface::Raw if is_for_pulses => FenceKind::Native,
                    Surface::Raw => *numbers.pick(FenceKind::ALL)?,
                };
                let sharing =
                    if is_for_pulses { Sharing::Private } else { *numbers.pick(Sharing::ALL)? };
                let initial = self.initial(numbers, process);
                Operation::CreateFence {
                    fence: FenceId(self.next_fence),
                    surface,
                    kind,
                    sharing,
                    initial,
                }
            }
            Kind::OpenFence => Operation::OpenFence {
                fence: self.any_fence(numbers, model)?,
                surface: *numbers.pick(Surface::ALL)?,
            },
            Kind::DropFence => {
                let (fence, surface) = self.instance(numbers, model, process, |_| true)?;
                Operation::DropFence { fence, surface }
            }
            Kind::QueueSignal | Kind::QueueWait | Kind::PulseQueue | Kind::Broadcast => {
                self.queued(numbers, model, thread, process, kind)?
            }
            Kind::Signal => {
                let (fence, surface) =
                    self.instance(numbers, model, process, |fence| !fence.is_pulsed())?;
                let value = higher(numbers, &model.fences[&fence]);
                Operation::Signal { fence, surface, value }
            }
            Kind::PulseWait => {
                let (fence, surface) =
                    self.instance(numbers, model, process, |f| f.is_fresh() || f.is_pulsed())?;
                let (value, low) = pulse(numbers, &model.fences[&fence]);
                Operation::PulseWait { fence, surface, value, low }
            }
            Kind::Wait => {
                let (fence, surface) =
                    self.instance(numbers, model, process, |fence| !fence.is_pulsed())?;
                let value = reached(numbers, model.fences[&fence].guaranteed());
                Operation::Wait { fence, surface, value }
            }
            Kind::Register => {
                let (fence, surface) =
                    self.instance(numbers, model, process, |fence| !fence.is_pulsed())?;
                let value = model.fences[&fence].guaranteed() + numbers.below(4);
                Operation::Register { wait: WaitId(self.next_wait), fence, surface, value }
            }
            Kind::Await | Kind::Cancel => {
                let waits: Vec<WaitId> = model
                    .waits
                    .iter()
                    .filter(|(_, state)| !state.is_over && state.thread == thread)
                    .map(|(id, _)| *id)
                    .collect();
                let wait = *numbers.pick(&waits)?;
                match kind {
                    Kind::Await => Operation::Await { wait },
                    _ => Operation::Cancel { wait },
                }
            }
            _ => self.other_operation(numbers, model, thread, process, kind)?,
        })
    }

    /// Proposes an operation of memory, of several calls or of the machine.
    fn other_operation(
        &self,
        numbers: &mut Numbers,
        model: &Model,
        thread: ThreadId,
        process: ProcessId,
        kind: Kind,
    ) -> Option<Operation> {
        let program = self.facts.program;
        Some(match kind {
            Kind::CloseQueue => {
                Operation::CloseQueue { queue: self.queue(numbers, model, thread)? }
            }
            Kind::Flood => {
                let queue = self.raw_queue(numbers, model, thread)?;
                let is_long = numbers.chance(2);
                let (count, ns) = match (model.queues[&queue].model, is_long) {
                    (Submission::Packet, true) => (100 + numbers.below(101), 20_000_000),
                    // Equals delay these by slices, however long a packet is. A ring takes few.
                    (_, true) => (4 + numbers.below(9), 250_000_000),
                    (Submission::User, false) => (10 + numbers.below(11), 50_000_000),
                    (_, false) => (100 + numbers.below(101), 5_000_000),
                };
                let count = match model.queues[&queue].model {
                    Submission::Packet => {
                        count.min(self.most_packets(model.queues[&queue].process, ns))
                    }
                    _ => count,
                };
                Operation::Flood { queue, count, ns, signals: numbers.below(2) }
            }
            Kind::Prompt => Operation::Prompt {
                queue: self.raw_queue(numbers, model, thread)?,
                ns: numbers.below(self.most_ns),
            },
            Kind::CloseFence => {
                let (fence, _) = self.instance(numbers, model, process, |fence| {
                    fence.sharing == Sharing::Private && !fence.is_pulsed()
                })?;
                Operation::CloseFence { fence }
            }
            Kind::WaitAll | Kind::WaitAny => self.wait_for_two(numbers, model, process, kind)?,
            Kind::CreateBuffer => Operation::CreateBuffer {
                buffer: BufferId(self.next_buffer),
                surface: *numbers.pick(Surface::ALL)?,
                pages: 1 + numbers.below(16),
            },
            Kind::DropBuffer | Kind::Evict | Kind::PageOut | Kind::PageIn => {
                let buffers: Vec<BufferId> = self
                    .buffers(model, thread)
                    .filter(|(_, state)| {
                        kind == Kind::DropBuffer || state.is_out == (kind == Kind::PageIn)
                    })
                    .map(|(id, _)| id)
                    .collect();
                let buffer = *numbers.pick(&buffers)?;
                match kind {
                    Kind::Evict => Operation::Evict { buffer },
                    Kind::PageOut => Operation::PageOut { buffer },
                    Kind::PageIn => Operation::PageIn { buffer },
                    _ => Operation::DropBuffer { buffer },
                }
            }
            Kind::Scratch => Operation::Scratch {
                surface: *numbers.pick(Surface::ALL)?,
                pages: 1 + numbers.below(16),
            },
            Kind::Query => Operation::Query { question: *numbers.pick(Question::ALL)? },
            Kind::SetPriority => Operation::SetPriority {
                queue: self.queue(numbers, model, thread)?,
                below: numbers.below(8),
            },
            Kind::Tiles => Operation::Tiles { tiles: 1 + numbers.below(4) },
            Kind::ShareResource => Operation::ShareResource { pages: 1 + numbers.below(16) },
            Kind::Semaphore => Operation::Semaphore { rounds: 1 + numbers.below(4) },
            Kind::KeyedMutex => Operation::KeyedMutex { rounds: 1 + numbers.below(4) },
            Kind::NameFence => Operation::NameFence { value: 1 + numbers.below(9) },
            Kind::Vsync => Operation::Vsync {},
            Kind::Flip => Operation::Flip { interval: 1 + numbers.below(2) },
            Kind::Rest => Operation::Rest { ns: numbers.below(self.most_ns * 2) },
            Kind::StopProcess => Operation::StopProcess { ns: numbers.below(MOST_STOPPED_NS) },
            Kind::Suspend => Operation::Suspend { ns: self.hold_ns(numbers) },
            Kind::SleepResume => Operation::SleepResume { ns: self.hold_ns(numbers) },
            Kind::IdleEngines => Operation::IdleEngines {},
            Kind::ResetEngine => Operation::ResetEngine { class: *numbers.pick(Class::ALL)? },
            Kind::ResetAdapter => Operation::ResetAdapter {},
            Kind::RemoveAdapter => Operation::RemoveAdapter {},
            Kind::DestroyDevice => Operation::DestroyDevice {},
            Kind::MarkDevice => Operation::MarkDevice { process },
            Kind::Kill => {
                let target = numbers.below(program.processes.len() as u64) as u16;
                Operation::Kill { process: ProcessId(target) }
            }
            _ => return None,
        })
    }

    /// Returns how long contexts or the device are held. A long hold meets many steps of other
    /// threads.
    fn hold_ns(&self, numbers: &mut Numbers) -> u64 {
        let times = if numbers.chance(2) { 16 } else { 1 };
        numbers.below(self.most_ns * times)
    }

    /// Returns the initial value of a fence: often low, else near a bound of 32 or more bits.
    fn initial(&self, numbers: &mut Numbers, process: ProcessId) -> u64 {
        match numbers.below(6) {
            0 | 1 => numbers.below(10),
            2 if self.facts.caps(process).atomics_64bit => {
                let near = [1 << 31, 1 << 32, 1 << 40];
                near[numbers.below(3) as usize] - 3 + numbers.below(4)
            }
            _ => 0,
        }
    }

    fn wait_for_two(
        &self,
        numbers: &mut Numbers,
        model: &Model,
        process: ProcessId,
        kind: Kind,
    ) -> Option<Operation> {
        let is_raw = |fence: &FenceState| !fence.is_pulsed() && fence.has(process, Surface::Raw);
        let fences: Vec<FenceId> =
            model.fences.iter().filter(|(_, fence)| is_raw(fence)).map(|(id, _)| *id).collect();
        let (fence, other) = (*numbers.pick(&fences)?, *numbers.pick(&fences)?);
        let value = reached(numbers, model.fences[&fence].guaranteed());
        let least = model.fences[&other].guaranteed();
        Some(match kind {
            Kind::WaitAll => Operation::WaitAll { fence, value, other, least },
            // One of them is enough.
            _ => {
                let least = least + numbers.below(3);
                Operation::WaitAny { fence, value, other, least }
            }
        })
    }

    /// Returns a queue of the thread.
    fn queue(&self, numbers: &mut Numbers, model: &Model, thread: ThreadId) -> Option<QueueId> {
        let process = self.facts.program.process_of(thread);
        let own = model.live_queues(process).filter(|(_, state)| state.owner == thread);
        let queues: Vec<QueueId> = own.map(|(id, _)| id).collect();
        numbers.pick(&queues).copied()
    }

    /// Returns the first queue of the thread whose waits an engine judges.
    fn ring(&self, model: &Model, thread: ThreadId) -> Option<QueueId> {
        let process = self.facts.program.process_of(thread);
        let mut own = model.live_queues(process).filter(|(_, state)| state.owner == thread);
        own.find(|(_, state)| self.facts.waits_on_engine(state)).map(|(id, _)| id)
    }

    /// Returns a queue of the thread at the call surface.
    fn raw_queue(&self, numbers: &mut Numbers, model: &Model, thread: ThreadId) -> Option<QueueId> {
        let process = self.facts.program.process_of(thread);
        let own = model.live_queues(process).filter(|(_, state)| state.owner == thread);
        let raw = own.filter(|(_, state)| state.surface == Surface::Raw);
        let queues: Vec<QueueId> = raw.map(|(id, _)| id).collect();
        numbers.pick(&queues).copied()
    }

    /// Returns a queue of the process, most often of the thread.
    fn any_queue(&self, numbers: &mut Numbers, model: &Model, thread: ThreadId) -> Option<QueueId> {
        if !numbers.chance(6) {
            return self.queue(numbers, model, thread);
        }
        let process = self.facts.program.process_of(thread);
        let queues: Vec<QueueId> = model.live_queues(process).map(|(id, _)| id).collect();
        numbers.pick(&queues).copied()
    }

    /// Returns the buffers of the thread.
    fn buffers<'m>(
        &self,
        model: &'m Model,
        thread: ThreadId,
    ) -> impl Iterator<Item = (BufferId, &'m BufferState)> {
        let process = self.facts.program.process_of(thread);
        model.live_buffers(process).filter(move |(_, state)| state.owner == thread)
    }

    fn any_fence(&self, numbers: &mut Numbers, model: &Model) -> Option<FenceId> {
        let fences: Vec<FenceId> = model
            .fences
            .iter()
            .filter(|(_, state)| state.sharing != Sharing::Private)
            .map(|(id, _)| *id)
            .collect();
        numbers.pick(&fences).copied()
    }

    /// Returns a random instance of a fence in the process.
    fn instance(
        &self,
        numbers: &mut Numbers,
        model: &Model,
        process: ProcessId,
        may: impl Fn(&FenceState) -> bool,
    ) -> Option<(FenceId, Surface)> {
        let mut found = Vec::new();
        for (id, state) in model.fences.iter().filter(|(_, state)| may(state)) {
            let surfaces = Surface::ALL.iter().filter(|surface| state.has(process, **surface));
            found.extend(surfaces.map(|surface| (*id, *surface)));
        }
        numbers.pick(&found).copied()
    }

    /// Proposes a queued wait or signal.
    fn queued(
        &self,
        numbers: &mut Numbers,
        model: &Model,
        thread: ThreadId,
        process: ProcessId,
        kind: Kind,
    ) -> Option<Operation> {
        let is_pulse = kind == Kind::PulseQueue;
        let is_short = is_pulse && self.facts.has_short_history();
        let queue = match self.ring(model, thread).filter(|_| is_short && !numbers.chance(4)) {
            Some(ring) => ring,
            None => self.queue(numbers, model, thread)?,
        };
        let surface = model.queues[&queue].surface;
        let mut fences: Vec<FenceId> = model
            .fences
            .iter()
            .filter(|(_, f)| f.has(process, surface))
            .filter(|(_, f)| if is_pulse { f.is_fresh() || f.is_pulsed() } else { !f.is_pulsed() })
            .map(|(id, _)| *id)
            .collect();
        // Only many pulses of one fence fill its history.
        let is_pulsed = |fence: &FenceId| model.fences[fence].is_pulsed();
        if is_short && fences.iter().any(is_pulsed) && !numbers.chance(4) {
            fences.retain(is_pulsed);
        }
        let fence = *numbers.pick(&fences)?;
        let state = &model.fences[&fence];
        Some(match kind {
            Kind::QueueSignal => {
                let value = higher(numbers, state);
                Operation::QueueSignal { queue, fence, value }
            }
            Kind::QueueWait => {
                let value = reached(numbers, state.guaranteed());
                Operation::QueueWait { queue, fence, value }
            }
            Kind::Broadcast => {
                let value = higher(numbers, state);
                let other = self.queue(numbers, model, thread)?;
                Operation::Broadcast { queue, other, fence, value }
            }
            _ => {
                let (value, low) = pulse(numbers, state);
                Operation::PulseQueue { queue, fence, value, low }
            }
        })
    }
}

/// A value up to what is guaranteed, most often that one.
fn reached(numbers: &mut Numbers, guaranteed: u64) -> u64 {
    match numbers.chance(4) {
        true => numbers.below(guaranteed + 1),
        false => guaranteed,
    }
}

/// A value above those that were signalled, at times above 2^32.
fn higher(numbers: &mut Numbers, fence: &FenceState) -> u64 {
    let is_far = fence.limit > 1 << 32 && numbers.chance(10);
    fence.highest + 1 + if is_far { 1 << 32 } else { numbers.below(3) }
}

/// A value and a lower one. Those of a short history fall most often, until it is full.
fn pulse(numbers: &mut Numbers, fence: &FenceState) -> (u64, u64) {
    let least = fence.initial + 2;
    let last = fence.history.last_peak().filter(|_| fence.history.is_short());
    if let Some(below) = last.filter(|peak| *peak > least && !numbers.chance(4)) {
        return (below - 1, fence.initial + numbers.below(2));
    }
    (fence.initial + 2 + numbers.below(8), fence.initial + numbers.below(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn programs_read_back_from_their_text_and_reach_every_operation() {
        let mut seen = BTreeSet::new();
        for seed in 0..2_000 {
            let program = program(seed, Shape::WHOLE);
            let read: Program = program.line().parse().unwrap();
            assert_eq!(read, program, "seed {seed}");
            assert_eq!(crate::model::repaired(&program), program, "seed {seed}");
            seen.extend(program.steps.iter().map(|step| step.operation.kind()));
        }
        let all: BTreeSet<Kind> = Kind::ALL.iter().copied().collect();
        assert_eq!(all, seen);
    }

    /// Lost waits come up, in rings of doomed processes and nowhere else.
    #[test]
    fn short_histories_have_rings_that_may_lose_a_wait() {
        for (shape, least) in [(Shape::WHOLE, 40), (Shape::SMALL, 10)] {
            let mut rings = 0;
            for seed in 0..2_000 {
                let program = program(seed, shape);
                let (facts, mut model) = (Facts::of(&program), Model::default());
                for step in &program.steps {
                    model.admit(&facts, step).unwrap();
                }
                rings += u32::from(!model.may_fault.is_empty());
                for ring in &model.may_fault {
                    assert!(program.is_doomed(model.queues[ring].process), "seed {seed}");
                }
            }
            assert!(rings >= least, "{rings} programs of {shape:?}");
        }
    }

    /// No operation is left out where the processes are real ones.
    #[test]
    fn programs_of_clients_are_served_and_reach_every_operation() {
        let mut seen = BTreeSet::new();
        let mut kills = 0;
        for seed in 0..1_000 {
            let program = program(seed, Shape::CLIENTS);
            assert!(program.served, "seed {seed}");
            let kinds: BTreeSet<Kind> =
                program.steps.iter().map(|step| step.operation.kind()).collect();
            kills += u32::from(kinds.contains(&Kind::Kill));
            seen.extend(kinds);
        }
        assert_eq!(seen, Kind::ALL.iter().copied().collect());
        assert!(kills > 400, "{kills} programs have a kill");
    }
}
