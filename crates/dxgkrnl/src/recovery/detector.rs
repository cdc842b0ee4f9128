//! Findings of detection, and its state between runs.

use super::blame::Culprit;
use super::report::TimeoutCause;
use crate::driver::OutstandingWork;
use crate::object::context::Context;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
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
}

impl Finding {
    pub(super) fn of_adapter(cause: TimeoutCause) -> Finding {
        let (suspects, suspects_all) = (Vec::new(), false);
        Finding { cause, engine: None, suspects, suspects_all, had_packets: false }
    }

    /// Creates the finding for a context whose suspension was not acknowledged in time, or
    /// was refused.
    pub(super) fn of_context(context: &Context) -> Finding {
        Finding {
            cause: TimeoutCause::ContextNotSuspended { engine: context.engine },
            engine: Some(context.engine),
            suspects: vec![Culprit::of_context(context)],
            suspects_all: false,
            had_packets: false,
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
    /// Findings queued by agents that cannot run a recovery, oldest first.
    pub(super) reported: VecDeque<TimeoutCause>,
    pub(super) sampling: SampleTimer,
    pub(super) engines: BTreeMap<EngineId, EngineState>,
    /// Fences with satisfied waiters, and when to check them again: the interrupt may be in flight.
    pub(super) unreleased: Option<(CpuTime, Vec<OsHandle>)>,
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

    /// Updates the state of one engine.
    pub(super) fn engine<R>(
        &self,
        engine: EngineId,
        change: impl FnOnce(&mut EngineState) -> R,
    ) -> R {
        change(self.state.lock().engines.entry(engine).or_default())
    }
}
