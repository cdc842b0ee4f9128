//! The hardware's counts for reports and benchmarks. An engine counts locally and adds its counts
//! at the end of a turn.

use std::collections::{BTreeMap, VecDeque};
use tidegate_platform::{PhysicalAddress, QueueNumber};
use tidegate_trace::{Durations, WorkStats};

/// Queues and contexts that have ended whose counts are kept for reports. Those of older ones are
/// dropped.
const ENDED_KEPT: usize = 1_024;

/// A wait that blocks a queue, for reports of stalled machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkedWait {
    /// The queue.
    pub queue: QueueNumber,
    /// The bus address of CurrentValue.
    pub current_value: PhysicalAddress,
    /// The value waited for.
    pub value: u64,
}

/// The numbers of live objects that belong to processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Hardware queues, including the driver's own.
    pub queues: usize,
    /// Queues blocked by a wait.
    pub parked: usize,
    /// Address spaces with a root page table.
    pub address_spaces: usize,
    /// Doorbell summaries that engines scan.
    pub doorbell_groups: usize,
    /// Connected doorbells.
    pub doorbells: usize,
}

/// The counts of one engine, a node of a physical GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// The node's name, followed by its physical GPU's number if several are linked.
    pub name: String,
    /// See [`WorkStats::packets`].
    pub packets: u64,
    /// See [`WorkStats::busy_ns`].
    pub busy_ns: u64,
    /// Times that it switched from one context to another.
    pub context_switches: u64,
    /// Preemption requests: by a queue of higher precedence, or by the kernel for its ring.
    pub preemptions_requested: u64,
    /// Latencies of answered requests, until the engine left its work.
    pub preemptions: Durations,
}

/// All counts since the GPU was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// By queue. Of queues that have ended the last ones are there.
    pub queues: BTreeMap<QueueNumber, WorkStats>,
    /// By engine number.
    pub nodes: Vec<NodeStats>,
    /// Fence values stored by signals, progress fences included.
    pub signals: u64,
    /// Times the interrupt line was raised.
    pub interrupts_raised: u64,
    /// Signals that were compared with MonitoredValue and needed no interrupt.
    pub interrupts_suppressed: u64,
    /// Waits that reached the head of a queue.
    pub gpu_waits: u64,
    /// Waits that were not satisfied when they reached the head.
    pub gpu_waits_stalled: u64,
    /// Times the signalled list was full.
    pub signals_collapsed: u64,
    /// Times the CMP changed a shadow of MonitoredValue.
    pub shadow_updates: u64,
    /// Times the CMP found CurrentValue above the new value and requested an interrupt.
    pub shadow_interrupts: u64,
    /// Payloads of other GPUs taken from the common doorbell.
    pub peer_signals: u64,
    /// Doorbell words read by engines after a ring.
    pub doorbell_reads: u64,
    /// Faults, including those that found the list of fault records full.
    pub faults: u64,
    /// Time in which at least two nodes were busy, in nanoseconds.
    pub overlap_ns: u64,
    /// Queues and contexts that have ended and whose counts are kept, oldest first.
    ended: VecDeque<QueueNumber>,
}

impl Stats {
    pub(crate) fn new(nodes: Vec<NodeStats>) -> Stats {
        Stats { nodes, ..Stats::default() }
    }

    /// Records that a queue or a context of packets has ended.
    pub(crate) fn note_end(&mut self, queue: QueueNumber) {
        if self.ended.len() == ENDED_KEPT
            && let Some(oldest) = self.ended.pop_front()
        {
            self.queues.remove(&oldest);
        }
        self.ended.push_back(queue);
    }

    /// Returns the sum of the counts of several queues.
    pub fn of(&self, queues: &[QueueNumber]) -> WorkStats {
        let mut all = WorkStats::default();
        queues.iter().filter_map(|queue| self.queues.get(queue)).for_each(|one| all += one);
        all
    }
}

/// What one engine counted since it last added its counts.
#[derive(Default)]
pub(crate) struct Tally {
    /// The queue that was counted last, and its counts.
    queue: Option<QueueNumber>,
    counts: WorkStats,
    /// The counts of other queues.
    others: Vec<(QueueNumber, WorkStats)>,
    pub(crate) signals: u64,
    pub(crate) interrupts_suppressed: u64,
    pub(crate) gpu_waits: u64,
    pub(crate) gpu_waits_stalled: u64,
    pub(crate) context_switches: u64,
}

impl Tally {
    /// Returns the counts of `queue`. An engine runs few queues between two additions.
    #[inline]
    pub(crate) fn of(&mut self, queue: QueueNumber) -> &mut WorkStats {
        if self.queue != Some(queue) {
            self.switch_to(queue);
        }
        &mut self.counts
    }

    #[cold]
    fn switch_to(&mut self, queue: QueueNumber) {
        self.put_aside();
        if let Some(known) = self.others.iter().position(|(other, _)| *other == queue) {
            self.counts = self.others.swap_remove(known).1;
        }
        self.queue = Some(queue);
    }

    fn put_aside(&mut self) {
        if let Some(queue) = self.queue.take() {
            self.others.push((queue, std::mem::take(&mut self.counts)));
        }
    }

    /// Adds all counts to `stats` for `node` and resets them.
    pub(crate) fn hand_over(&mut self, node: usize, stats: &mut Stats) {
        self.put_aside();
        for (queue, counts) in self.others.drain(..) {
            *stats.queues.entry(queue).or_default() += &counts;
            if let Some(node) = stats.nodes.get_mut(node) {
                node.packets += counts.packets;
            }
        }
        let switches = std::mem::take(&mut self.context_switches);
        if let Some(node) = stats.nodes.get_mut(node) {
            node.context_switches += switches;
        }
        stats.signals += std::mem::take(&mut self.signals);
        stats.interrupts_suppressed += std::mem::take(&mut self.interrupts_suppressed);
        stats.gpu_waits += std::mem::take(&mut self.gpu_waits);
        stats.gpu_waits_stalled += std::mem::take(&mut self.gpu_waits_stalled);
    }
}

/// Measures the time in which two or more nodes are busy.
#[derive(Default)]
pub(crate) struct Overlap {
    busy_nodes: u32,
    since_ns: u64,
    pub(crate) total_ns: u64,
}

impl Overlap {
    /// Records that a node became busy or idle at `now_ns`.
    pub(crate) fn changes(&mut self, busy: bool, now_ns: u64) {
        if self.busy_nodes >= 2 {
            self.total_ns += now_ns.saturating_sub(self.since_ns);
        }
        self.since_ns = self.since_ns.max(now_ns);
        self.busy_nodes =
            if busy { self.busy_nodes + 1 } else { self.busy_nodes.saturating_sub(1) };
    }

    /// Returns the total at `now_ns`.
    pub(crate) fn as_of(&self, now_ns: u64) -> u64 {
        let open = if self.busy_nodes >= 2 { now_ns.saturating_sub(self.since_ns) } else { 0 };
        self.total_ns + open
    }
}

#[cfg(test)]
mod tests {
    use super::{ENDED_KEPT, Overlap, QueueNumber, Stats, Tally};

    #[test]
    fn counts_of_queues_that_ended_long_ago_are_dropped() {
        let (mut stats, mut tally) = (Stats::default(), Tally::default());
        let last = 10 * ENDED_KEPT as u64;
        for number in 0..=last {
            tally.of(QueueNumber(number)).packets += 1;
            tally.hand_over(0, &mut stats);
            // The first queue goes on.
            if number > 0 {
                stats.note_end(QueueNumber(number));
            }
        }
        assert_eq!(stats.queues.len(), 1 + ENDED_KEPT);
        let kept = [0, last - ENDED_KEPT as u64 + 1, last].map(QueueNumber);
        assert_eq!(stats.of(&kept).packets, 3);
    }

    #[test]
    fn overlap_counts_only_the_time_of_two_or_more() {
        let mut overlap = Overlap::default();
        for (busy, at) in
            [(true, 10), (true, 20), (true, 25), (false, 30), (false, 40), (false, 60)]
        {
            overlap.changes(busy, at);
        }
        assert_eq!(overlap.total_ns, 20);
        assert_eq!(overlap.as_of(1_000), 20);
    }

    /// An engine that comes back to a queue goes on with its counts.
    #[test]
    fn the_counts_of_a_queue_go_on_when_its_engine_comes_back_to_it() {
        let (mut tally, mut stats) = (Tally::default(), Stats::default());
        let [first, second] = [1, 2].map(QueueNumber);
        for (queue, packets) in [(first, 2), (second, 3), (first, 5), (second, 7)] {
            tally.of(queue).packets += packets;
        }
        tally.hand_over(0, &mut stats);
        assert_eq!([first, second].map(|queue| stats.of(&[queue]).packets), [7, 10]);
    }
}
