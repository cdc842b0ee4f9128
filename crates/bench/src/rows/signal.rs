//! Measures signals without a waiter: a ring is filled while its queue is held back by a wait,
//! then the engine runs through it. No interrupt, no kernel call and no system call may happen
//! meanwhile; all three are counted.
//!
//! A signal packet costs fetch, decode and the signal step. A second pass over slots that hold
//! nothing, in a ring of their own, shows what a slot costs without the step.

use crate::aim::{Aimed, lavapipe, pure, row};
use crate::floors;
use crate::sizes::CALLS;
use tidegate::calls::{CreateDoorbellFlags, FenceInstance};
use tidegate::d3d12::{CommandListType, Fence, Queue};
use tidegate::gpu_abi::RingPacket;
use tidegate::gpu_abi::ring::NO_LOG_ENTRY;
use tidegate_measure::{
    Count, CpuMeter, Found, Happened, Measured, Samples, Scale, Setup, Shape, WATCHED, floor,
    spin_rarely,
};
use tidegate_testbed::{Client, UserQueue, signal_packet, wait_packet};

/// Nanoseconds of a signal packet beyond the time of a slot that holds nothing.
pub(crate) const SIGNAL_STEP: &str = "the signal step";

const SLOTS: u64 = 65_536;
/// Operations in one filling of the ring, with room for gate, marks and checkpoints.
const OPERATIONS: u64 = 60_000;
const BATCHES: u64 = 6;

/// Rows of single signals, and the row that counts what must not happen.
pub(super) const ROWS: &[Aimed] = &[
    row(
        "signal_unwaited",
        "an engine's signal packet without a waiter, fetch and decode included, no log",
        floor("unlogged_signal", floors::unlogged_signal),
        |_| measure(false),
    )
    .within(1.5)
    .beside(&[
        lavapipe("host_signal", "vkSignalSemaphore", CALLS),
        pure("parking_lot", "condvar_unwaited", "a value behind a Mutex, notify_all", CALLS),
        pure("std", "std_condvar_unwaited", "a value behind a Mutex, notify_all", CALLS),
        pure("event-listener", "listener_unwaited", "a value, Event::notify", CALLS),
        pure("tokio", "watch_unwaited", "watch::Sender::send", CALLS),
    ]),
    row(
        "signal_unwaited_logged",
        "the same with a fence log entry",
        floor("logged_signal", floors::logged_signal),
        |_| measure(true),
    )
    .within(1.5),
    row(
        "signals_by_the_million",
        "an engine's signal packet without a waiter, logged; 20,000,000 in a pass",
        floor("logged_signal", floors::logged_signal),
        many,
    )
    .within(10.0),
];

struct Rig {
    setup: Setup,
    queue: Queue,
    /// Opens the queue for a batch.
    gate: Fence,
    /// Signalled before and after a batch. Apart from the others: reading a value takes its line
    /// from the engine.
    mark: Fence,
    fence: Fence,
    /// Fences between the others keep the values that are read off the lines of the measured fence.
    /// Their end would wait for turns of the engine.
    _apart: Vec<Fence>,
    batch: u64,
}

impl Rig {
    fn new(shape: Shape) -> Found<Rig> {
        let shape = Shape { ring_slots: SLOTS, ..shape };
        let setup = Setup::new(shape)?;
        let queue = setup.queue(CommandListType::Compute)?;
        let gate = setup.device.create_fence("gate", 0)?;
        let mark = setup.device.create_fence("mark", 0)?;
        let apart = (0..16).map(|n| setup.device.create_fence(&format!("apart {n}"), 0));
        let _apart = apart.collect::<Result<_, _>>()?;
        let fence = setup.device.create_fence("unwaited", 0)?;
        Ok(Rig { setup, queue, gate, mark, fence, _apart, batch: 0 })
    }

    /// Fills the ring with signals, opens the gate, and times the engine until the second mark;
    /// counts from the first mark on.
    fn run(&mut self) -> Found<(u64, Happened)> {
        let Rig { setup, queue, gate, mark, fence, batch, .. } = self;
        *batch += 1;
        queue.wait(gate, *batch)?;
        queue.signal(mark, 2 * *batch - 1)?;
        for n in 1..=OPERATIONS {
            queue.signal(fence, (*batch - 1) * OPERATIONS + n)?;
        }
        queue.signal(mark, 2 * *batch)?;
        // From the opening, and not from the first mark: a client that is kept from its processor
        // sees that late, and then would time only the rest.
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
    fn beside(queue: &Queue, setup: &Setup) -> Found<EmptySlots> {
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

fn measure(fence_logs: bool) -> Found<Measured> {
    let mut rig = Rig::new(Shape { fence_logs, ..Shape::default() })?;
    let mut slots = EmptySlots::beside(&rig.queue, &rig.setup)?;
    let (mut signals, mut empty) = (Samples::default(), Samples::default());
    let mut total = Happened::default();
    let mut cpu_ns = 0.0;
    for batch in 0..=BATCHES {
        let cpu = CpuMeter::start();
        let (took, happened) = rig.run()?;
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
    Ok(Measured { counts, figures, note: Some(note), ..Measured::of(signals, cpu_ns) })
}

/// Logged signals, which fill the ring `fills` times.
fn logged(fills: u64, log_entries: Option<u32>) -> Found<(Measured, Happened)> {
    let mut rig = Rig::new(Shape { fence_logs: true, log_entries, ..Shape::default() })?;
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    let mut total = Happened::default();
    for _ in 0..fills {
        let (took, happened) = rig.run()?;
        samples.push_batch(took, OPERATIONS);
        total += happened;
    }
    Ok((Measured::of(samples, cpu.per(fills * OPERATIONS)), total))
}

/// The same with a log of this many entries.
pub(crate) fn with_log_of(entries: u64, scale: Scale) -> Found<Measured> {
    Ok(logged(scale.of(BATCHES, 1), Some(entries as u32))?.0)
}

/// Row `signals_by_the_million`: no signal without a waiter interrupts, or makes a system call.
fn many(scale: Scale) -> Found<Measured> {
    /// Signals of a pass. Five passes make 10^8.
    const MANY: u64 = 20_000_000;
    let fills = (MANY / scale.0).div_ceil(OPERATIONS);
    let (measured, total) = logged(fills, None)?;
    let counts = vec![
        Count::of("signals", fills * OPERATIONS),
        Count::exactly("interrupts", total.interrupts, 0),
        Count::exactly("system calls to wake", total.wake_calls, 0),
        Count::exactly("kernel calls", total.kernel_calls, 0),
        Count::of(WATCHED, total.turn_ends),
    ];
    Ok(Measured { counts, ..measured })
}
