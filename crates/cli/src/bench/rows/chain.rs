//! Measures how the cost of a link grows with the depth of a chain: each queue waits for the value
//! that the other one signals, on two engines of one service thread, logs on.
//!
//! A chain that fits into the rings is queued whole before it starts. A deeper one is fed while it
//! runs: the submitter stays a part of the rings ahead, and slows down when the engines do.

use super::setup::{Setup, Shape};
use crate::bench::floors;
use crate::bench::measure::{Count, CpuMeter, Measured, Samples, spin_rarely};
use crate::bench::row::{Counterpart, Goal, Row, Unit, floor, own};
use crate::bench::sizes::{Calls, Scale};
use tidegate::d3d12::{CommandListType, Fence, Queue};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Links of one queue that are queued and not executed, at most.
const AHEAD: u64 = 12_000;
/// A wait and a signal for each link of a queue's half, with room for checkpoints and the marks.
const SLOTS: u64 = 32_768;
/// Links between two looks at the chain's progress.
const LINKS_PER_READ: u64 = 512;

const LESS: &str = "less: no log";

const fn on(
    peer: &'static str,
    key: &'static str,
    calls: &'static str,
    size: Calls,
) -> Counterpart {
    Counterpart::Calls { peer, key, calls, does: LESS, size }
}

/// Chains in a measurement of each depth.
const CHAINS: [(u64, u64); 3] = [(100, 200), (10_000, 6), (1_000_000, 1)];

const fn size(at: usize) -> Calls {
    Calls::new(CHAINS[at].0, CHAINS[at].1)
}

/// A chain of one task for each link takes seconds, so that one of them is enough.
const LONG_WATCH: Calls = Calls::new(10_000, 1);

/// Rows of chains, by depth.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "chain_100",
        about: "one link of a chain of 100 between two engines of one service thread, logged",
        unit: Unit::Time,
        floor: floor("logged_signal", floors::logged_signal),
        goal: Goal::TimesFloor(6.0),
        measure: |scale| own(move || measure(size(0), scale)),
        peers: &[
            on("lavapipe", "chain", "vkQueueSubmit that waits and signals", size(0)),
            on("pocl", "pocl_chain", "kernels on an out-of-order queue", size(0)),
            on("pocl", "cross_queue_chain", "kernels on two in-order queues", size(0)),
            on("tokio", "watch_chain", "a task for each link on one watch", size(0)),
            on("tokio", "notify_chain", "a task and a Notify for each link, no values", size(0)),
        ],
    },
    Row {
        name: "chain_10000",
        about: "the same of a chain of 10,000",
        unit: Unit::Time,
        floor: floor("logged_signal", floors::logged_signal),
        goal: Goal::TimesFloor(6.0),
        measure: |scale| own(move || measure(size(1), scale)),
        peers: &[
            on("lavapipe", "chain", "vkQueueSubmit that waits and signals", Calls::new(10_000, 3)),
            on("pocl", "pocl_chain", "kernels on an out-of-order queue", Calls::new(10_000, 3)),
            on("tokio", "watch_chain", "a task for each link on one watch", LONG_WATCH),
            on("tokio", "notify_chain", "a task and a Notify for each link, no values", size(1)),
        ],
    },
    Row {
        name: "chain_1000000",
        about: "the same of a chain of 1,000,000, fed by a submitter that the rings slow down",
        unit: Unit::Time,
        floor: floor("logged_signal", floors::logged_signal),
        goal: Goal::TimesFloor(6.0),
        measure: |scale| own(move || measure(size(2), scale)),
        peers: &[],
    },
];

struct Chain {
    setup: Setup,
    queues: [Queue; 2],
    gate: Fence,
    mark: Fence,
    chain: Fence,
}

impl Chain {
    fn new() -> Result<Chain> {
        let shape = Shape { ring_slots: SLOTS, fence_logs: true, ..Shape::default() };
        let setup = Setup::new(shape)?;
        let queues = [setup.queue(CommandListType::Compute)?, setup.queue(CommandListType::Copy)?];
        let fence = |name: &str| setup.device.create_fence(name, 0);
        let (gate, mark, chain) = (fence("gate")?, fence("mark")?, fence("chain")?);
        Ok(Chain { setup, queues, gate, mark, chain })
    }

    fn link(&self, value: u64) -> Result<()> {
        let queue = &self.queues[(value % 2) as usize];
        queue.wait(&self.chain, value)?;
        queue.signal(&self.chain, value + 1)?;
        Ok(())
    }

    /// Runs chain `number` of `depth` links. Returns the time from its opening to its end.
    fn run(&self, number: u64, depth: u64) -> Result<u64> {
        let (first, last) = (number * depth, (number + 1) * depth);
        self.queues[(first % 2) as usize].wait(&self.gate, number + 1)?;
        let before = last.min(first + 2 * AHEAD);
        (first..before).try_for_each(|value| self.link(value))?;
        let start = self.setup.now_ns();
        if before == last {
            self.queues[((last - 1) % 2) as usize].signal(&self.mark, number + 1)?;
        }
        self.gate.signal(number + 1)?;
        for value in before..last {
            if value % LINKS_PER_READ == 0 {
                spin_rarely(|| self.chain.completed_value() + 2 * AHEAD > value);
            }
            self.link(value)?;
        }
        if before < last {
            self.queues[((last - 1) % 2) as usize].signal(&self.mark, number + 1)?;
        }
        spin_rarely(|| self.mark.completed_value() > number);
        Ok(self.setup.now_ns() - start)
    }
}

/// One link of chains of `size.batch` links.
pub(super) fn measure(size: Calls, scale: Scale) -> Result<Measured> {
    let Calls { batch: depth, batches: chains } = size.scaled(scale);
    let chain = Chain::new()?;
    let warm_up = depth.min(10_000);
    chain.run(0, warm_up)?;
    // Numbers of chains begin behind the values of the warm-up.
    let first = warm_up.div_ceil(depth);
    chain.chain.signal(first * depth)?;
    chain.gate.signal(first)?;
    chain.mark.signal(first)?;
    let (mut samples, cpu, before) = (Samples::default(), CpuMeter::start(), chain.setup.counted());
    for number in first..first + chains {
        samples.push_batch(chain.run(number, depth)?, depth);
    }
    let cpu_ns = cpu.per(depth * chains);
    let mut counts = chain.setup.counted().since(&before).of_a_run();
    counts.push(Count::of("links", depth * chains));
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}
