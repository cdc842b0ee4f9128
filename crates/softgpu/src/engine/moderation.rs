//! Moderation of an engine's fence interrupts.
//!
//! The first signal that must interrupt does so at once. For `interrupt_moderation_ns` after it,
//! further signals are held while the engine keeps the queue and goes on with ring slots that take
//! no time. One interrupt then reports all of them: before a command buffer, at the end of the ring,
//! at a wait, when the engine returns the queue, or after that time (decisions/0107).
//!
//! Invariants: CurrentValue is stored before its signal is held. An engine that holds signals keeps
//! its queue, so its next turn reports them or holds them on.

use tidegate_gpu_abi::{GpuVa, QueueId};
use tidegate_platform::CpuTime;

/// The signals for which an engine will interrupt.
#[derive(Default)]
pub(super) struct HeldSignals {
    /// Each queue and fence once.
    signals: Vec<(QueueId, GpuVa)>,
    /// Signals are held until this time; `None` before the first interrupt.
    until: Option<CpuTime>,
}

impl HeldSignals {
    pub(super) fn is_empty(&self) -> bool {
        self.signals.is_empty()
    }

    /// Adds a signal.
    pub(super) fn hold(&mut self, queue: QueueId, current_value: GpuVa) {
        let signal = (queue, current_value);
        if !self.signals.contains(&signal) {
            self.signals.push(signal);
        }
    }

    /// Returns whether the signals may be held on. `most` is the length of the list of signalled
    /// fences: with more of them it would name no fence.
    pub(super) fn may_wait(&self, most: usize, now: impl FnOnce() -> CpuTime) -> bool {
        self.signals.len() < most && self.until.is_some_and(|until| now() < until)
    }

    /// Takes the signals, because an interrupt reports them.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (QueueId, GpuVa)> {
        self.signals.drain(..)
    }

    /// Forgets the signals: a fault.
    pub(super) fn forget(&mut self) {
        self.signals.clear();
    }

    /// Begins the time in which further signals are held.
    pub(super) fn begin(&mut self, until: CpuTime) {
        self.until = Some(until);
    }
}
