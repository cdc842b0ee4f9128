//! The states of objects in the model.

use crate::words::{
    Band, BufferId, FenceId, FenceKind, Model as Submission, ProcessId, QueueId, Sharing, Surface,
    ThreadId,
};
use std::collections::{BTreeMap, BTreeSet};

/// What signals a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Signaller {
    Thread(ThreadId),
    Queue(QueueId),
}

#[derive(Clone, Debug)]
pub(crate) struct QueueState {
    pub(crate) process: ProcessId,
    /// The thread that made it.
    pub(crate) owner: ThreadId,
    /// Whether another thread has added work.
    pub(super) is_shared: bool,
    pub(crate) surface: Surface,
    pub(crate) model: Submission,
    pub(crate) band: Band,
    pub(super) dropped: bool,
    /// Whether its hardware context may be below others of its process or of other processes.
    pub(super) is_lowered: bool,
    /// Whether it was closed beside steps of other threads.
    pub(crate) is_closed: bool,
    /// Steps since the last drain.
    pub(super) steps: u32,
    /// Fences that undrained steps name.
    pub(super) fences: BTreeSet<FenceId>,
    /// Buffers that undrained steps name.
    pub(super) buffers: BTreeSet<BufferId>,
}

#[derive(Clone, Debug)]
pub(crate) struct FenceState {
    pub(crate) owner: ProcessId,
    pub(crate) kind: FenceKind,
    pub(crate) sharing: Sharing,
    pub(super) instances: BTreeSet<(ProcessId, Surface)>,
    /// Instances that were there at any time. None is opened twice.
    pub(super) opened: BTreeSet<(ProcessId, Surface)>,
    /// The highest value that a step has signalled.
    pub(crate) highest: u64,
    pub(crate) initial: u64,
    /// Values are below this one.
    pub(crate) limit: u64,
    /// Whether engines of its adapter write 64 bits.
    pub(super) is_wide: bool,
    /// The last value of each signaller.
    pub(super) last: BTreeMap<Signaller, u64>,
    /// Whether it was closed beside its users. Each of its waits ends then.
    pub(crate) is_closed: bool,
    pub(super) pulsed_by: Option<ThreadId>,
    /// What the pulses have left.
    pub(crate) history: History,
    /// The rings whose waits were pulsed.
    pub(super) pulsed_rings: BTreeSet<QueueId>,
    /// The threads whose steps name the fence.
    pub(super) threads: BTreeSet<ThreadId>,
    /// Whether a ring has named it.
    pub(super) has_ring: bool,
    /// The threads whose queues have used each instance.
    pub(super) users: BTreeSet<(ProcessId, Surface, ThreadId)>,
}

/// A history with room for this many values is short.
pub(super) const MOST_SHORT: usize = 4;

/// The peaks of a pulsed fence. Only one thread changes it, so its order is the order of a run.
#[derive(Clone, Debug)]
pub(crate) struct History {
    value: u64,
    /// Peaks that no later peak has reached, also those that the hardware drops.
    peaks: Vec<u64>,
    /// The peaks that the hardware has room for.
    room: usize,
    /// Whether it has dropped one. From then on a wait of a ring may be undecided (NF-342).
    pub(super) has_dropped: bool,
}

impl History {
    pub(super) fn new(value: u64, room: usize) -> History {
        History { value, peaks: Vec::new(), room, has_dropped: false }
    }

    /// Stores a value. A value that falls leaves a peak.
    pub(super) fn store(&mut self, value: u64) {
        let peak = std::mem::replace(&mut self.value, value);
        if value < peak {
            self.peaks.retain(|kept| *kept > peak);
            self.peaks.push(peak);
            self.has_dropped |= self.peaks.len() > self.room;
        }
    }

    /// Returns whether the pulses of a program can fill it.
    pub(crate) fn is_short(&self) -> bool {
        self.room <= MOST_SHORT
    }

    /// Returns the last peak.
    pub(crate) fn last_peak(&self) -> Option<u64> {
        self.peaks.last().copied()
    }
}

impl FenceState {
    /// Returns the value below which the fence cannot be once all earlier steps are done: the last
    /// signal to be made is one of the last signals of the signallers.
    pub(crate) fn guaranteed(&self) -> u64 {
        self.last.values().copied().min().unwrap_or(self.initial)
    }

    pub(crate) fn is_pulsed(&self) -> bool {
        self.pulsed_by.is_some()
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.last.is_empty() && self.pulsed_by.is_none()
    }

    pub(crate) fn has(&self, process: ProcessId, surface: Surface) -> bool {
        self.instances.contains(&(process, surface))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct BufferState {
    pub(crate) process: ProcessId,
    /// The thread that made it.
    pub(crate) owner: ThreadId,
    pub(crate) surface: Surface,
    pub(crate) pages: u64,
    pub(super) dropped: bool,
    /// Whether its reference is taken away.
    pub(crate) is_out: bool,
    /// The owner and the last value of each stored word.
    pub(super) words: BTreeMap<u64, (QueueId, u32)>,
}

/// The local memory that a thread keeps referenced, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LocalUse {
    pub(super) now: u64,
    /// The most at any time. Threads reach theirs in any order.
    pub(super) most: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct WaitState {
    pub(crate) thread: ThreadId,
    pub(crate) fence: FenceId,
    pub(crate) value: u64,
    pub(crate) is_over: bool,
}
