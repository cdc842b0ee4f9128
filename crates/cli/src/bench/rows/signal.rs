//! Measures signals without a waiter: a ring is filled while its queue is held back by a wait,
//! then the engine runs through it. No interrupt, no kernel call and no system call may happen
//! meanwhile; all three are counted.
//!
//! A signal packet costs fetch, decode and the signal step. A second pass over slots that hold
//! nothing, in a ring of their own, shows what a slot costs without the step.

use super::setup::{Happened, Setup, Shape, WATCHED};
use crate::bench::floors;
use crate::bench::measure::{Count, CpuMeter, Measured, Samples, spin_rarely};
use crate::bench::row::{Goal, Row, Unit, floor, own};
use crate::bench::sizes::Scale;
use tidegate::calls::{CreateDoorbellFlags, FenceInstance};
use tidegate::d3d12::{CommandListType, Fence, Queue};
use tidegate::gpu_abi::RingPacket;
use tidegate::gpu_abi::ring::NO_LOG_ENTRY;
use tidegate_testbed::{Client, UserQueue, signal_packet, wait_packet};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Nanoseconds of a signal packet beyond those of a slot that holds nothing.
pub(crate) const SIGNAL_STEP: &str = "the signal step";

const SLOTS: u64 = 65_536;
/// Operations in one filling of the ring, with room for gate, marks and checkpoints.
const OPERATIONS: u64 = 60_000;
const BATCHES: u64 = 6;

/// The row that counts what must not happen.
pub(super) const ROWS: &[Row] = &[Row {
    name: "signals_by_the_million",
    about: "an engine's signal packet without a waiter, logged; 20,000,000 in a pass",
    unit: Unit::Time,
    floor: floor("logged_signal", floors::logged_signal),
    goal: Goal::TimesFloor(10.0),
    measure: |scale| own(move || many(scale)),
    peers: &[],
}];

struct Rig {
    setup: Setup,
    queue: Queue,
    /// Opens the queue for a batch.
    gate: Fence,
    /// Signalled before a batch and behind it. A fence of its own, since reading a value takes
    /// its line from the engine.
    mark: Fence,
    fence: Fence,
    /// Fences between the others keep the values that are read off the lines of the one that is
    /// measured. Their end would wait for turns of the engine.
    _apart: Vec<Fence>,
    batch: u64,
}

impl Rig {
    fn new(fence_logs: bool) -> Result<Rig> {
        Rig::of(Shape { ring_slots: SLOTS, fence_logs, ..Shape::default() })
    }

    fn of(shape: Shape) -> Result<Rig> {
        let setup = Setup::new(shape)?;
        let queue = setup.queue(CommandListType::Compute)?;
        let gate = setup.device.create_fence("gate", 0)?;
        let mark = setup.device.create_fence("mark", 0)?;
        let apart = (0..16).map(|n| setup.device.create_fence(&format!("apart {n}"), 0));
        let _apart = apart.collect::<std::result::Result<_, _>>()?;
        let fence = setup.device.create_fence("unwaited", 0)?;
        Ok(Rig { setup, queue, gate, mark, fence, _apart, batch: 0 })
    }

    /// Fills the ring by `queue_one`, opens the gate, and times the engine until the second mark;
    /// counts from the first one on.
    fn run(
        &mut self,
        queue_one: impl Fn(&Queue, &Fence, u64) -> tidegate::d3d12::error::Result<()>,
    ) -> Result<(u64, Happened)> {
        let Rig { setup, queue, gate, mark, fence, batch, .. } = self;
        *batch += 1;
        queue.wait(gate, *batch)?;
        queue.signal(mark, 2 * *batch - 1)?;
        for n in 1..=OPERATIONS {
            queue_one(queue, fence, (*batch - 1) * OPERATIONS + n)?;
        }
        queue.signal(mark, 2 * *batch)?;
        // From the opening, not from the first mark: a client that is kept from its processor sees
        // that late, and then would time only the rest.
        let start = setup.now_ns();
        gate.signal(*batch)?;
        spin_rarely(|| mark.completed_value() >= 2 * *batch - 1);
        let before = setup.counted();
        spin_rarely(|| mark.completed_value() >= 2 * *batch);
        let took = setup.now_ns() - start;
        Ok((took, setup.counted().since(&before)))
    }
}

/// A ring of slots that hold nothing, on the same engine.
struct EmptySlots {
    client: Client,
    queue: UserQueue,
    gate: FenceInstance,
    mark: FenceInstance,
    batch: u64,
}

impl EmptySlots {
    fn beside(queue: &Queue, setup: &Setup) -> Result<EmptySlots> {
        let client = Client::open(&setup.machine, "empty slots");
        let node = queue.desc().node.unwrap_or_default();
        let made = client.try_hw_queue(node, true).map_err(|status| status.to_string())?;
        let queue = client.with_ring_of(SLOTS, CreateDoorbellFlags::empty(), made);
        queue.connect().map_err(|status| status.to_string())?;
        let (gate, mark) = (client.native(0), client.native(0));
        Ok(EmptySlots { client, queue, gate, mark, batch: 0 })
    }

    /// Fills the ring, opens the gate, and times the engine until the last slot.
    fn run(&mut self, setup: &Setup) -> u64 {
        self.batch += 1;
        self.queue.put(&wait_packet(&self.gate, self.batch, NO_LOG_ENTRY));
        (0..OPERATIONS).for_each(|_| self.queue.put(&RingPacket::Nop));
        self.queue.put(&signal_packet(&self.mark, self.batch, NO_LOG_ENTRY));
        self.queue.ring();
        let start = setup.now_ns();
        self.client.signal(&self.gate, self.batch);
        spin_rarely(|| self.mark.value.get().is_some_and(|value| value >= self.batch));
        setup.now_ns() - start
    }
}

pub(super) fn measure(fence_logs: bool) -> Result<Measured> {
    let mut rig = Rig::new(fence_logs)?;
    let mut slots = EmptySlots::beside(&rig.queue, &rig.setup)?;
    let (mut signals, mut empty) = (Samples::default(), Samples::default());
    let mut total = Happened::default();
    let mut cpu_ns = 0.0;
    for batch in 0..=BATCHES {
        let cpu = CpuMeter::start();
        let (took, happened) = rig.run(|queue, fence, value| queue.signal(fence, value))?;
        if batch > 0 {
            signals.push_batch(took, OPERATIONS);
            cpu_ns += cpu.per(OPERATIONS * BATCHES);
            total += happened;
        }
        let took = slots.run(&rig.setup);
        if batch > 0 {
            empty.push_batch(took, OPERATIONS);
        }
    }
    let mut counts = total.nothing();
    counts.push(Count::of("interrupts suppressed", total.suppressed));
    let step = (signals.median() - empty.median()).max(0.0);
    let note = format!(
        "a slot that holds nothing takes {:.1} ns, so the signal step itself about {step:.1} ns",
        empty.median()
    );
    let figures = vec![(SIGNAL_STEP, step)];
    Ok(Measured { samples: signals, cpu_ns, counts, figures, note: Some(note) })
}

/// Logged signals, with a log of so many entries.
pub(super) fn with_log_of(entries: u32, scale: Scale) -> Result<Measured> {
    let batches = (BATCHES / scale.0).max(1);
    let shape = Shape {
        ring_slots: SLOTS,
        fence_logs: true,
        log_entries: Some(entries),
        ..Shape::default()
    };
    let (mut rig, mut samples, cpu) = (Rig::of(shape)?, Samples::default(), CpuMeter::start());
    for _ in 0..batches {
        let (took, _) = rig.run(|queue, fence, value| queue.signal(fence, value))?;
        samples.push_batch(took, OPERATIONS);
    }
    Ok(Measured { samples, cpu_ns: cpu.per(batches * OPERATIONS), ..Measured::default() })
}

/// Signals of one pass of the row that only counts. Five passes make 10^8.
const MANY: u64 = 20_000_000;

/// Row `signals_by_the_million`: no signal without a waiter interrupts, or makes a system call.
pub(super) fn many(scale: Scale) -> Result<Measured> {
    let fills = (MANY / scale.0).div_ceil(OPERATIONS);
    let mut rig = Rig::new(true)?;
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    let mut total = Happened::default();
    for _ in 0..fills {
        let (took, happened) = rig.run(|queue, fence, value| queue.signal(fence, value))?;
        samples.push_batch(took, OPERATIONS);
        total += happened;
    }
    let counts = vec![
        Count::of("signals", fills * OPERATIONS),
        Count::exactly("interrupts", total.interrupts, 0),
        Count::exactly("system calls to wake", total.wake_calls, 0),
        Count::exactly("kernel calls", total.kernel_calls, 0),
        Count::of(WATCHED, total.turn_ends),
    ];
    let cpu_ns = cpu.per(fills * OPERATIONS);
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}
