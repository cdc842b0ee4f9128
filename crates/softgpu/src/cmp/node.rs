//! What the CMP knows of an engine, and the level at which an engine's attention word calls it.

use crate::runlist::RunList;
use tidegate_gpu_abi::QueueId;
use tidegate_platform::{CpuTime, QueueNumber};

/// Attention level: the run list has a queue for the engine.
const RUN_LIST: u64 = 1;
/// Attention level: timed work that keeps the engine gives way to another queue.
pub(crate) const OUTRANKED: u64 = 2;
/// Attention level: the engine reads all of its state anew, whatever it is busy with.
const RECALL: u64 = u64::MAX;

/// What the CMP knows of an engine: a node of a physical GPU.
#[derive(Default)]
pub(crate) struct Node {
    pub(crate) list: RunList,
    /// Counts turns; odd while the engine is in one.
    pub(crate) turns: u64,
    pub(crate) recall: bool,
    /// Grows with the number of doorbell summaries.
    pub(crate) summaries: u64,
    /// It has no power: its list is not served.
    pub(crate) unpowered: bool,
    /// The queue that the engine took last, unless it is done with it.
    pub(crate) current: Option<QueueId>,
    /// The queue in whose command the engine hangs: it takes no other.
    pub(crate) hung: Option<QueueId>,
    /// The preemption of its ring that is not answered yet.
    pub(crate) preemption: Option<u32>,
    /// When that was requested; for counting.
    pub(crate) ring_requested: Option<CpuTime>,
    /// A queue precedes the one that runs, and the engine has not left that one yet; for counting.
    pub(crate) requested: Option<PreemptionRequest>,
    /// Counts packets, commands and parts of them.
    pub(crate) progress: u64,
    /// The timed work that keeps the engine, with the state of the run list when it began to rest.
    pub(crate) resting: Option<Resting>,
    /// How long the engine may be idle before it reports that, in nanoseconds; 0 for never.
    pub(crate) report_idle_ns: u64,
    /// What the attention word holds.
    pub(super) published: u64,
}

/// A request for an engine by a queue that precedes the one it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreemptionRequest {
    pub(crate) since: CpuTime,
    /// The preceding queue.
    pub(crate) queue: QueueNumber,
}

/// An engine that rests in timed work.
#[derive(Clone, Copy)]
pub(crate) struct Resting {
    pub(crate) queue: QueueId,
    /// Whether another band waited for its share.
    pub(crate) contended: bool,
    /// When the queue was to give way.
    pub(crate) gives_way_at: Option<CpuTime>,
}

impl Resting {
    /// Whether the run list still has the state in which the engine began to rest.
    fn is_current(&self, list: &RunList) -> bool {
        list.next() == Some(self.queue)
            && list.is_contended() == self.contended
            && list.gives_way_at() == self.gives_way_at
    }
}

impl Node {
    /// Whether a turn of the engine has begun and not ended.
    pub(crate) fn is_in_turn(&self) -> bool {
        !self.turns.is_multiple_of(2)
    }

    /// Whether the turn that `turns` counted, if it counted one, has ended.
    pub(crate) fn has_ended(&self, turns: u64) -> bool {
        turns.is_multiple_of(2) || self.turns != turns
    }

    /// The attention level that its state calls for. `held_back`: the CMP lets no engine work.
    // spec: PRE-003
    pub(super) fn attention(&self, held_back: bool) -> u64 {
        match self.resting {
            _ if held_back || self.unpowered || self.hung.is_some() => 0,
            _ if self.recall => RECALL,
            _ if self.list.is_empty() || self.list.waits_for_kept() => 0,
            _ if self.is_in_turn() && self.list.is_outranked() => OUTRANKED,
            Some(resting) if !resting.is_current(&self.list) => OUTRANKED,
            _ => RUN_LIST,
        }
    }
}
