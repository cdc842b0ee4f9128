//! Measures links from engine to engine: a chain in which each queue waits for the value that the
//! other queue signals, logs on.
//!
//! A chain that fits into the rings is queued whole before it starts. A deeper one is fed while it
//! runs: the submitter stays a part of the rings ahead, and slows down when the engines do.

use crate::aim::{Aimed, Counterpart, peer, row};
use crate::floors;
use crate::sizes::Calls;
use tidegate::d3d12::{CommandListType, Fence, Queue};
use tidegate_measure::{
    Count, CpuMeter, Floor, Found, Happened, Measured, Samples, Setup, Shape, floor, spin_rarely,
};

/// Links of one queue that are queued and not executed, at most.
const AHEAD: u64 = 12_000;
/// A wait and a signal for each link of a queue's half, with room for checkpoints and the marks.
const SLOTS: u64 = 32_768;
/// Links between two readings of the chain's progress.
const LINKS_PER_READ: u64 = 512;

const LOGGED: Floor = floor("logged_signal", floors::logged_signal);

const fn on(
    name: &'static str,
    key: &'static str,
    calls: &'static str,
    size: Calls,
) -> Counterpart {
    peer(name, key, calls, "less: no log", size)
}

const SUBMIT: &str = "vkQueueSubmit that waits and signals";
const KERNELS: &str = "kernels on an out-of-order queue";
const WATCH: &str = "a task for each link on one watch";
const NOTIFY: &str = "a task and a Notify for each link, no values";

/// Links and chains of a measurement of each depth.
const SHORT: Calls = Calls::new(100, 200);
const LONG: Calls = Calls::new(10_000, 6);
const LONGEST: Calls = Calls::new(1_000_000, 1);
const LONG_PEERS: Calls = Calls::new(10_000, 3);
/// A chain of one task for each link takes seconds.
const LONG_WATCH: Calls = Calls::new(10_000, 1);

/// Rows of single links, then of chains by depth.
pub(super) const ROWS: &[Aimed] = &[
    row(
        "link_one_thread",
        "one wait and signal of a chain that alternates between two engines of one service thread, logged",
        LOGGED,
        |_| links(1),
    )
    .within(6.0),
    row(
        "link_two_threads",
        "the same with the two engines on two processors",
        floor("line_one_way", floors::line_one_way),
        |_| links(2),
    )
    .within(3.0),
    row(
        "chain_100",
        "one link of a chain of 100 between two engines of one service thread, logged",
        LOGGED,
        |scale| measure(SHORT.scaled(scale)),
    )
    .within(6.0)
    .beside(&[
        on("lavapipe", "chain", SUBMIT, SHORT),
        on("pocl", "pocl_chain", KERNELS, SHORT),
        on("pocl", "cross_queue_chain", "kernels on two in-order queues", SHORT),
        on("tokio", "watch_chain", WATCH, SHORT),
        on("tokio", "notify_chain", NOTIFY, SHORT),
    ]),
    row("chain_10000", "the same of a chain of 10,000", LOGGED, |scale| measure(LONG.scaled(scale)))
        .within(6.0)
        .beside(&[
            on("lavapipe", "chain", SUBMIT, LONG_PEERS),
            on("pocl", "pocl_chain", KERNELS, LONG_PEERS),
            on("tokio", "watch_chain", WATCH, LONG_WATCH),
            on("tokio", "notify_chain", NOTIFY, LONG),
        ]),
    row(
        "chain_1000000",
        "the same of a chain of 1,000,000, fed by a submitter that the rings slow down",
        LOGGED,
        |scale| measure(LONGEST.scaled(scale)),
    )
    .within(6.0),
];

/// Both ends of a chain: a queue each, and the chain's fence as its adapter has it.
pub(crate) struct Ends(pub(crate) [(Queue, Fence); 2]);

impl Ends {
    /// The end that waits for `value`.
    pub(crate) fn at(&self, value: u64) -> &(Queue, Fence) {
        &self.0[(value % 2) as usize]
    }

    /// Waits for `value` and signals the next one.
    pub(crate) fn link(&self, value: u64) -> tidegate::d3d12::error::Result<()> {
        let (queue, fence) = self.at(value);
        queue.wait(fence, value)?;
        queue.signal(fence, value + 1)
    }
}

struct Chain {
    setup: Setup,
    ends: Ends,
    gate: Fence,
    mark: Fence,
    /// With a service thread for each engine both processors are theirs: the client sleeps until
    /// the chain's end, which is the one interrupt.
    sleeps: bool,
}

impl Chain {
    fn new(service_threads: usize) -> Found<Chain> {
        let shape =
            Shape { ring_slots: SLOTS, fence_logs: true, service_threads, ..Shape::default() };
        let setup = Setup::new(shape)?;
        let fence = |name: &str| setup.device.create_fence(name, 0);
        let (gate, mark, chain) = (fence("gate")?, fence("mark")?, fence("chain")?);
        let ends = Ends([
            (setup.queue(CommandListType::Compute)?, chain.clone()),
            (setup.queue(CommandListType::Copy)?, chain),
        ]);
        Ok(Chain { setup, ends, gate, mark, sleeps: service_threads > 1 })
    }

    /// Runs chain `number` of `depth` links. Returns the time from its opening to its end, and what
    /// happened from its first packet on.
    fn run(&self, number: u64, depth: u64) -> Found<(u64, Happened)> {
        let (first, last) = (number * depth, (number + 1) * depth);
        let (begun, ended) = (2 * number + 1, 2 * number + 2);
        let opening = &self.ends.at(first).0;
        opening.wait(&self.gate, number + 1)?;
        opening.signal(&self.mark, begun)?;
        let whole = last.min(first + 2 * AHEAD);
        (first..whole).try_for_each(|value| self.ends.link(value))?;
        let is_queued = whole == last;
        let end = || self.ends.at(last - 1).0.signal(&self.mark, ended);
        if is_queued {
            end()?;
        }
        // From the opening, and not from the first mark, which a client may see late.
        let start = self.setup.now_ns();
        self.gate.signal(number + 1)?;
        if is_queued && !self.sleeps {
            spin_rarely(|| self.mark.completed_value() >= begun);
        }
        let before = self.setup.counted();
        let (_, chain) = self.ends.at(0);
        for value in whole..last {
            if value % LINKS_PER_READ == 0 {
                spin_rarely(|| chain.completed_value() + 2 * AHEAD > value);
            }
            self.ends.link(value)?;
        }
        if !is_queued {
            end()?;
        }
        match self.sleeps {
            true => self.mark.wait(ended)?,
            false => spin_rarely(|| self.mark.completed_value() >= ended),
        }
        Ok((self.setup.now_ns() - start, self.setup.counted().since(&before)))
    }

    /// Measures `chains` chains of `depth` links after one that warms up.
    fn measure(
        &self,
        Calls { batch: depth, batches: chains }: Calls,
    ) -> Found<(Measured, Happened)> {
        let warm_up = depth.min(10_000);
        self.run(0, warm_up)?;
        // Numbers of chains begin after the values of the warm-up.
        let first = warm_up.div_ceil(depth);
        self.ends.at(0).1.signal(first * depth)?;
        self.gate.signal(first)?;
        self.mark.signal(2 * first)?;
        let (mut samples, cpu, mut total) =
            (Samples::default(), CpuMeter::start(), Happened::default());
        for number in first..first + chains {
            let (took, happened) = self.run(number, depth)?;
            samples.push_batch(took, depth);
            total += happened;
        }
        Ok((Measured::of(samples, cpu.per(depth * chains)), total))
    }
}

fn counted(links: Calls, mut counts: Vec<Count>, measured: Measured) -> Measured {
    counts.push(Count::of("links", links.all()));
    Measured { counts, ..measured }
}

/// Rows `link_…`: no interrupt, kernel call or system call may happen while a chain runs on one
/// thread.
fn links(service_threads: usize) -> Found<Measured> {
    let (measured, happened) = Chain::new(service_threads)?.measure(LONG)?;
    let counts = match service_threads {
        1 => happened.nothing(),
        _ => {
            vec![Count::of("interrupts", happened.interrupts), Count::of("parks", happened.parks)]
        }
    };
    Ok(counted(LONG, counts, measured))
}

/// Rows `chain_…`: one link of chains of `size.batch` links.
pub(crate) fn measure(size: Calls) -> Found<Measured> {
    let (measured, happened) = Chain::new(1)?.measure(size)?;
    Ok(counted(size, happened.of_a_run(), measured))
}
