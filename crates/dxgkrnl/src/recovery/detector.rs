//! Findings of detection, and its state between runs.

use super::report::TimeoutCause;
use crate::driver::OutstandingWork;
use crate::object::context::Context;
use crate::object::device::Device;
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
    /// Devices suspected by the kernel. Blame reported by the driver takes precedence.
    pub(super) suspects: Vec<Arc<Device>>,
    /// Whether the engine had packets at detection. If they are complete by now, no reset
    /// takes place.
    pub(super) had_packets: bool,
}

impl Finding {
    pub(super) fn of_adapter(cause: TimeoutCause) -> Finding {
        Finding { cause, engine: None, suspects: Vec::new(), had_packets: false }
    }

    /// Creates the finding for a context whose suspension was not acknowledged in time, or
    /// was refused.
    pub(super) fn of_context(context: &Context) -> Finding {
        Finding {
            cause: TimeoutCause::ContextNotSuspended { engine: context.engine },
            engine: Some(context.engine),
            suspects: vec![context.device.clone()],
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
    /// The context that was preempted after the last sample.
    pub(super) probe: Option<Arc<Context>>,
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
