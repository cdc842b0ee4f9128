//! Measures preemption: how long work of high priority waits for an engine that is busy with long
//! packets, and what its coming costs those packets.
//!
//! Both queues are user-mode queues of one engine. The low one has real work: dispatches of
//! `saxpy`, as many as make up the length that is wanted on this machine, and always more than one
//! packet queued. The high one rings at odd moments, and its packet is a signal, as in
//! `doorbell_to_fence_seen`, which on an idle engine is the floor.

use crate::aim::{Aimed, row};
use std::hint::spin_loop;
use tidegate::d3d12::{Buffer, BufferDesc, ClosedList, CommandListType, Fence, Priority, Queue};
use tidegate::programs::Saxpy;
use tidegate_measure::{
    Count, CpuMeter, Floor, Found, Measured, Samples, Setup, Shape, floor, see, spin_rarely,
};

/// An otherwise idle engine.
const IDLE: Floor = floor("idle_doorbell_to_start", || {
    Load::new()?.starts(None, STARTS).map(|(samples, _)| samples)
});

/// Rows that start beside long packets, all with one goal, and the loss of the long packets.
pub(super) const ROWS: &[Aimed] = &[
    row(
        "preempt_10us",
        "doorbell of a high-priority queue to its packet's fence, on an engine that is busy with packets of 10 µs",
        IDLE,
        |_| start_beside(10_000),
    )
    .within_or(4.0, 2_000.0),
    row("preempt_100us", "the same beside packets of 100 µs", IDLE, |_| start_beside(100_000))
        .within_or(4.0, 2_000.0),
    row("preempt_1ms", "the same beside packets of 1 ms", IDLE, |_| start_beside(1_000_000))
        .within_or(4.0, 2_000.0),
    row("preempt_1s", "the same beside packets of 1 s", IDLE, |_| start_beside(1_000_000_000))
        .within_or(4.0, 2_000.0),
    row(
        "preempted_1000_times_a_second",
        "one low-priority packet of 1,600 thread groups, with the engine taken away from it once a millisecond",
        floor("undisturbed_packet", undisturbed),
        |_| Load::new()?.loss(),
    )
    .within(1.05),
];

/// The packets of the loss without preemption.
fn undisturbed() -> Found<Samples> {
    let load = Load::new()?;
    let list = load.list(GROUPS)?;
    let mut samples = Samples::default();
    for _ in 0..2 * LOSS_ROUNDS {
        samples.push_batch(load.low_packets(&list, None)?.0, LOSS_PACKETS);
    }
    Ok(samples)
}

const STARTS: u64 = 3_000;
/// Between two starts of the high queue: long enough for the low one to be back on the engine. A
/// part is drawn, so that starts meet the low work anywhere.
const PAUSE_NS: u64 = 10_000;
const PAUSE_DRAWN_NS: u64 = 20_000;
const WARM_UP: u64 = 200;
/// Packets of the low queue that are announced and not done: it never runs dry.
const QUEUED: u64 = 2;
/// Groups of one dispatch at most, and floats of one group: 13 MB of memory for both vectors.
const GROUPS: u64 = 1_600;
const GROUP_FLOATS: u64 = 1_024;

/// Packets of one round of the loss, of one dispatch each; rounds of both kinds; the interval of
/// the preemptions.
const LOSS_PACKETS: u64 = 20;
const LOSS_ROUNDS: u64 = 8;
const LOSS_EVERY_NS: u64 = 1_000_000;

/// The figure of the rounds without preemptions: a minute later the machine may be another.
pub(crate) const UNDISTURBED: &str = "an undisturbed packet";

/// A machine with a low and a high queue on its compute engine.
struct Load {
    setup: Setup,
    low: Queue,
    high: Queue,
    done: Fence,
    started: Fence,
    vectors: [Buffer; 2],
}

fn start_beside(packet_ns: u64) -> Found<Measured> {
    let load = Load::new()?;
    let list = load.list_of(packet_ns)?;
    let cpu = CpuMeter::start();
    let (samples, low_packets) = load.starts(Some(&list), STARTS)?;
    let cpu_ns = cpu.per(STARTS);
    let note = format!("low-priority packets that ended meanwhile: {low_packets}");
    Ok(Measured { note: Some(note), ..Measured::of(samples, cpu_ns) })
}

impl Load {
    fn new() -> Found<Load> {
        let setup = Setup::new(Shape::default())?;
        let low = setup.queue_of(CommandListType::Compute, Priority::Normal)?;
        let high = setup.queue_of(CommandListType::Compute, Priority::High)?;
        let bytes = GROUPS * GROUP_FLOATS * 4;
        let vector = |name: &str| setup.device.create_buffer(BufferDesc::gpu_upload(name, bytes));
        let vectors = [vector("x")?, vector("y")?];
        let (done, started) =
            (setup.device.create_fence("done", 0)?, setup.device.create_fence("started", 0)?);
        Ok(Load { setup, low, high, done, started, vectors })
    }

    /// A list of so many groups.
    fn list(&self, groups: u64) -> Found<ClosedList> {
        let mut list = self.setup.device.create_command_list(CommandListType::Compute);
        let mut left = groups;
        while left > 0 {
            let now = left.min(GROUPS);
            let [x, y] = &self.vectors;
            let saxpy = Saxpy { x, y, n: (now * GROUP_FLOATS) as u32, a: 0.5 };
            list.dispatch(&saxpy, [now as u32, 1, 1])?;
            left -= now;
        }
        Ok(list.close()?)
    }

    /// A list that keeps the engine busy for about so long, on this machine and in this minute.
    fn list_of(&self, packet_ns: u64) -> Found<ClosedList> {
        let probe = self.list(GROUPS)?;
        let mut best_ns = u64::MAX;
        for round in 1..=4 {
            let start = self.setup.now_ns();
            self.low.execute(&[&probe])?;
            self.low.signal(&self.done, round)?;
            spin_rarely(|| self.done.completed_value() >= round);
            best_ns = best_ns.min(self.setup.now_ns() - start);
        }
        self.done.signal(0)?;
        self.list((packet_ns.saturating_mul(GROUPS) / best_ns.max(1)).max(1))
    }

    /// From the ring of the high queue to its fence, seen by a spinning client;
    /// `low` keeps the engine busy. Returns how many low packets ended as well.
    fn starts(&self, low: Option<&ClosedList>, starts: u64) -> Found<(Samples, u64)> {
        let mut samples = Samples::default();
        let (mut queued, mut drawn) = (0, 0x9E37_79B9_7F4A_7C15u64);
        for start in 1..=WARM_UP + starts {
            drawn ^= drawn << 13;
            drawn ^= drawn >> 7;
            drawn ^= drawn << 17;
            // On an idle engine one start follows the other: that is the stricter floor.
            let pause_ns = if low.is_some() { PAUSE_NS + drawn % PAUSE_DRAWN_NS } else { 0 };
            let until = self.setup.now_ns() + pause_ns;
            while self.setup.now_ns() < until {
                if let Some(list) = low {
                    self.keep_busy(list, &mut queued)?;
                }
                spin_loop();
            }
            let begin = self.setup.now_ns();
            self.high.signal(&self.started, start)?;
            see(&self.started, start);
            let took = self.setup.now_ns() - begin;
            if start > WARM_UP {
                samples.push(took as f64);
            }
        }
        Ok((samples, self.done.completed_value()))
    }

    fn keep_busy(&self, list: &ClosedList, queued: &mut u64) -> Found<()> {
        if *queued < self.done.completed_value() + QUEUED {
            *queued += 1;
            self.low.execute(&[list])?;
            self.low.signal(&self.done, *queued)?;
        }
        Ok(())
    }

    /// Rounds with and without preemptions in turn, so that both meet the same machine.
    fn loss(&self) -> Found<Measured> {
        // The same work in the row and in its floor, whatever time it takes.
        let list = self.list(GROUPS)?;
        let (mut samples, mut undisturbed, mut preemptions) =
            (Samples::default(), Samples::default(), 0);
        let cpu = CpuMeter::start();
        for _ in 0..LOSS_ROUNDS {
            let (took_ns, _) = self.low_packets(&list, None)?;
            undisturbed.push_batch(took_ns, LOSS_PACKETS);
            let (took_ns, times) = self.low_packets(&list, Some(LOSS_EVERY_NS))?;
            samples.push_batch(took_ns, LOSS_PACKETS);
            preemptions += times;
        }
        let lost = (samples.median() / undisturbed.median() - 1.0) * 100.0;
        let note = format!("against undisturbed rounds between them: {lost:.1} % lost");
        let counts = vec![Count::of("preemptions", preemptions)];
        let figures = vec![(UNDISTURBED, undisturbed.median())];
        let cpu_ns = cpu.per(2 * LOSS_ROUNDS * LOSS_PACKETS);
        Ok(Measured { counts, figures, note: Some(note), ..Measured::of(samples, cpu_ns) })
    }

    /// How long a round of low packets takes, one after the other, and how often the high queue
    /// came, which comes at this interval.
    fn low_packets(&self, list: &ClosedList, preempted_every_ns: Option<u64>) -> Found<(u64, u64)> {
        self.done.signal(0)?;
        self.started.signal(0)?;
        let (mut queued, mut preemptions, start) = (0, 0, self.setup.now_ns());
        let mut next = start + preempted_every_ns.unwrap_or(u64::MAX / 2);
        while self.done.completed_value() < LOSS_PACKETS {
            if queued < LOSS_PACKETS {
                self.keep_busy(list, &mut queued)?;
            }
            if self.setup.now_ns() >= next {
                preemptions += 1;
                self.high.signal(&self.started, preemptions)?;
                next += preempted_every_ns.unwrap_or(0);
            }
            (0..20).for_each(|_| spin_loop());
        }
        Ok((self.setup.now_ns() - start, preemptions))
    }
}
