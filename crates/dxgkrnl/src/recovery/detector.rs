//! What detection finds, and what it keeps between its runs.

use super::report::TimeoutCause;
use crate::driver::OutstandingWork;
use crate::object::context::Context;
use crate::object::device::Device;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tidegate_ddi::{EngineId, OsHandle};
use tidegate_platform::{CpuTime, Mutex, Platform, Word};
use tidegate_vidsch::{EngineWatch, SampleTimer};

/// A timeout that was found.
pub(super) struct Finding {
    pub(super) cause: TimeoutCause,
    /// `None` for the adapter as a whole.
    pub(super) engine: Option<EngineId>,
    /// Devices whose work it is, as far as the kernel knows. The driver knows better.
    pub(super) suspects: Vec<Arc<Device>>,
    /// The engine had packets when this was found. They may be complete by now: then nothing is
    /// reset.
    pub(super) had_packets: bool,
}

impl Finding {
    pub(super) fn of_adapter(cause: TimeoutCause) -> Finding {
        Finding { cause, engine: None, suspects: Vec::new(), had_packets: false }
    }

    /// A context was not taken off the run list in time: its suspension was not acknowledged, or
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

/// What detection keeps between its runs.
pub(super) struct Detector {
    pub(super) state: Mutex<State>,
    /// Sampling is due already.
    pub(super) watched: Word,
}

#[derive(Default)]
pub(super) struct State {
    /// Reports of agents that could not recover themselves, oldest first.
    pub(super) reported: VecDeque<TimeoutCause>,
    pub(super) sampling: SampleTimer,
    pub(super) engines: BTreeMap<EngineId, EngineState>,
    /// Fences with satisfied waiters, to check again at this time: the interrupt may be under way.
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

    /// Drops what it holds of processes.
    pub(super) fn forget(&self) {
        let engines = std::mem::take(&mut self.state.lock().engines);
        drop(engines);
    }

    /// Changes what is kept of one engine.
    pub(super) fn engine<R>(
        &self,
        engine: EngineId,
        change: impl FnOnce(&mut EngineState) -> R,
    ) -> R {
        change(self.state.lock().engines.entry(engine).or_default())
    }
}
