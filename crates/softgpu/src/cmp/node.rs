//! The CMP's record of an engine, and the levels of an engine's attention word.

use crate::runlist::RunList;
use tidegate_gpu_abi::QueueId;
use tidegate_platform::{CpuTime, QueueNumber};

/// Attention level: the run list has a queue for the engine.
const RUN_LIST: u64 = 1;
/// Attention level: the CMP needs the queue that the engine keeps.
const QUEUE_REQUESTED: u64 = RUN_LIST;
/// Attention level: another queue outranks the timed work on the engine.
pub(crate) const OUTRANKED: u64 = 2;
/// Attention level: the engine reloads all of its state, whatever it runs.
const RECALL: u64 = u64::MAX;

/// The CMP's record of an engine, a node of a physical GPU.
#[derive(Default)]
pub(crate) struct Node {
    pub(crate) list: RunList,
    /// Counts turns; odd while the engine is in one.
    pub(crate) turns: u64,
    pub(crate) recall: bool,
    /// A mailbox command waits for the end of the turn, so the engine must not keep its queue.
    pub(crate) queue_requested: bool,
    /// The number of doorbell summaries added and removed so far.
    pub(crate) summaries: u64,
    /// The number of mailbox commands that need the engine between two turns. While it is not 0,
    /// the engine takes no queue.
    pub(crate) holds: u32,
    /// The engine has no power: its list is not served.
    pub(crate) unpowered: bool,
    /// The queue that the engine took last, unless the engine has left it.
    pub(crate) current: Option<QueueId>,
    /// The queue in whose command the engine hangs. The engine takes no other.
    pub(crate) hung: Option<QueueId>,
    /// The submission fence id of the last packet that faulted and was skipped.
    pub(crate) skipped: Option<u32>,
    /// The fence id of an unanswered preemption request for its ring.
    pub(crate) preemption: Option<u32>,
    /// The slot that followed the ring's packets when that was requested. Later packets stay.
    pub(crate) preempted_until: u64,
    /// When that was requested, for statistics.
    pub(crate) ring_requested: Option<CpuTime>,
    /// An unanswered request by a queue that precedes the running one, for statistics.
    pub(crate) requested: Option<PreemptionRequest>,
    /// Counts packets, commands and parts of them.
    pub(crate) progress: u64,
    /// The timed work that occupies the engine, with the run list's state when the engine went
    /// to rest.
    pub(crate) resting: Option<Resting>,
    /// Idle time in nanoseconds after which the engine reports it; 0 for never.
    pub(crate) report_idle_ns: u64,
    /// When the present stretch of work began, if the engine is busy.
    pub(crate) busy_since: Option<CpuTime>,
    /// The value of the attention word.
    pub(super) published: u64,
}

/// A request for an engine by a queue that precedes the one it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreemptionRequest {
    pub(crate) since: CpuTime,
    /// The preceding queue.
    pub(crate) queue: QueueNumber,
}

/// An engine that is resting in timed work.
#[derive(Clone, Copy)]
pub(crate) struct Resting {
    pub(crate) queue: QueueId,
    /// Whether another band waited for its share.
    pub(crate) contended: bool,
    /// When the queue had to give way.
    pub(crate) gives_way_at: Option<CpuTime>,
}

impl Resting {
    /// Returns whether the run list still has the state recorded here.
    fn is_current(&self, list: &RunList) -> bool {
        list.next() == Some(self.queue)
            && list.is_contended() == self.contended
            && list.gives_way_at() == self.gives_way_at
    }
}

impl Node {
    /// Returns whether the engine is in a turn.
    pub(crate) fn is_in_turn(&self) -> bool {
        !self.turns.is_multiple_of(2)
    }

    /// Returns whether the turn numbered `turns`, if it was one, has ended.
    pub(crate) fn has_ended(&self, turns: u64) -> bool {
        turns.is_multiple_of(2) || self.turns != turns
    }

    /// Returns the attention level for the engine's state. `held_back`: the CMP lets no
    /// engine work.
    // spec: PRE-003
    pub(super) fn attention(&self, held_back: bool) -> u64 {
        let queue_requested =
            if self.is_in_turn() && self.queue_requested { QUEUE_REQUESTED } else { 0 };
        self.level(held_back).max(queue_requested)
    }

    fn level(&self, held_back: bool) -> u64 {
        match self.resting {
            _ if held_back || self.unpowered || self.holds > 0 || self.hung.is_some() => 0,
            _ if self.recall => RECALL,
            _ if self.list.is_empty() || self.list.waits_for_kept() => 0,
            _ if self.is_in_turn() && self.list.is_outranked() => OUTRANKED,
            Some(resting) if !resting.is_current(&self.list) => OUTRANKED,
            _ => RUN_LIST,
        }
    }
}
