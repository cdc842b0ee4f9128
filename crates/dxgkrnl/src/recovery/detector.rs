//! Findings of detection, and its state between runs.

use super::blame::Culprit;
use super::report::TimeoutCause;
use crate::driver::OutstandingWork;
use crate::object::context::Context;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tidegate_d3dukmdt::fence_cell::Snapshot;
use tidegate_ddi::{EngineId, OsHandle};
use tidegate_platform::{CpuTime, Mutex, Platform, Word};
use tidegate_vidsch::{EngineWatch, SampleTimer};

/// A detected timeout.
pub(super) struct Finding {
    pub(super) cause: TimeoutCause,
    /// `None` for the adapter as a whole.
    pub(super) engine: Option<EngineId>,
    /// Work suspected by the kernel. Blame reported by the driver takes precedence.
    pub(super) suspects: Vec<Culprit>,
    /// Whether the suspects are all that the engine has. What the engine runs narrows them down.
    pub(super) suspects_all: bool,
    /// Whether the engine had packets at detection. If they are complete by now, no reset
    /// takes place.
    pub(super) had_packets: bool,
    /// The resets of the engine, or of the adapter, that were over before the facts were read; see
    /// [`Detector::resets`].
    pub(super) resets: u64,
}

impl Finding {
    pub(super) fn of_adapter(cause: TimeoutCause, resets: u64) -> Finding {
        let (suspects, suspects_all) = (Vec::new(), false);
        Finding { cause, engine: None, suspects, suspects_all, had_packets: false, resets }
    }

    /// Creates the finding for a context whose suspension was not acknowledged in time, or
    /// was refused.
    pub(super) fn of_context(context: &Context, resets: u64) -> Finding {
        Finding {
            cause: TimeoutCause::ContextNotSuspended { engine: context.engine },
            engine: Some(context.engine),
            suspects: vec![Culprit::of_context(context)],
            suspects_all: false,
            had_packets: false,
            resets,
        }
    }
}

/// Detection state kept between runs.
pub(super) struct Detector {
    pub(super) state: Mutex<State>,
    /// Set while a sampling is scheduled.
    pub(super) watched: Word,
}

#[derive(Default)]
pub(super) struct State {
    /// Findings queued by agents that cannot run a recovery, oldest first, each with the resets
    /// before it.
    pub(super) reported: VecDeque<(TimeoutCause, u64)>,
    pub(super) sampling: SampleTimer,
    pub(super) engines: BTreeMap<EngineId, EngineState>,
    /// Resets of the adapter that are over.
    adapter_resets: u64,
    pub(super) unreleased: Option<Unreleased>,
}

/// Fences with satisfied waiters, which are checked again: the interrupt may be in flight.
pub(super) struct Unreleased {
    pub(super) at: CpuTime,
    pub(super) seen: Vec<(OsHandle, Snapshot)>,
    /// Parts of the grace period that are left with this one.
    pub(super) parts_left: u64,
}

#[derive(Default)]
pub(super) struct EngineState {
    pub(super) watch: EngineWatch,
    /// The contexts that were preempted after the last sample and have not left the engine.
    pub(super) probes: Vec<Arc<Context>>,
    /// Whether every context of the engine was preempted.
    pub(super) probes_each: bool,
    /// The wrong context that the driver named last, which is noted once.
    pub(super) noted: Option<OsHandle>,
    /// Unserved work at the time of the probe.
    pub(super) unserved: Option<OutstandingWork>,
    /// Resets of the engine that are over, by themselves or with the adapter.
    pub(super) resets: u64,
}

impl State {
    /// Returns the resets of an engine, or of the adapter, that are over.
    pub(super) fn resets(&self, engine: Option<EngineId>) -> u64 {
        match engine {
            Some(engine) => self.engines.get(&engine).map_or(0, |state| state.resets),
            None => self.adapter_resets,
        }
    }
}

impl Detector {
    pub(super) fn new(platform: &Platform) -> Detector {
        Detector {
            state: platform.mutex("timeouts", State::default()),
            watched: platform.page(1).word(0).named("the timeouts"),
        }
    }

    /// Drops all references to process objects.
    pub(super) fn forget(&self) {
        let engines = std::mem::take(&mut self.state.lock().engines);
        drop(engines);
    }

    /// Returns how often an engine, or the adapter, was reset. Read before the facts of a finding:
    /// the count changes after the facts did and before the engine takes packets again. A finding
    /// with an older count is stale.
    pub(super) fn resets(&self, engine: Option<EngineId>) -> u64 {
        self.state.lock().resets(engine)
    }

    /// Counts a reset of an engine. Work that it cut off has left the engine.
    pub(super) fn note_reset(&self, engine: EngineId) {
        self.engine(engine, |state| state.resets += 1);
    }

    /// Counts a reset of the adapter, which resets each of `engines`.
    pub(super) fn note_adapter_reset(&self, engines: impl Iterator<Item = EngineId>) {
        let mut state = self.state.lock();
        state.adapter_resets += 1;
        engines.for_each(|engine| state.engines.entry(engine).or_default().resets += 1);
    }

    /// Updates the state of one engine.
    pub(super) fn engine<R>(
        &self,
        engine: EngineId,
        change: impl FnOnce(&mut EngineState) -> R,
    ) -> R {
        change(self.state.lock().engines.entry(engine).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_of_the_adapter_is_one_of_each_engine_and_no_engine_s_is_the_adapter_s() {
        let detector = Detector::new(&Platform::closed_host());
        let [first, second] = [0, 1].map(EngineId::of_node);
        let resets = || [None, Some(first), Some(second)].map(|engine| detector.resets(engine));
        detector.note_reset(first);
        assert_eq!(resets(), [0, 1, 0]);
        detector.note_adapter_reset([first, second].into_iter());
        assert_eq!(resets(), [1, 2, 1]);
        detector.note_adapter_reset([second].into_iter());
        assert_eq!(resets(), [2, 2, 2]);
    }
}
