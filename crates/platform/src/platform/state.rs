//! What a platform keeps beside its machine: the timeline, the hazard check, and its services.
//!
//! Invariant: each lock of this file is a leaf, and no step of an explored machine.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tidegate_hazard::{Checker, Released};
use tidegate_trace::{ClockName, QueueTable, TraceBuilder};

/// The state of the timeline.
pub(crate) struct Timeline {
    /// Only records of what engines executed are kept.
    pub(crate) executions_only: AtomicBool,
    /// Created on first use: most explored machines are never traced.
    pub(crate) builder: Mutex<Option<Box<TraceBuilder>>>,
    pub(crate) queues: Mutex<QueueTable>,
    pub(crate) clock: ClockName,
    /// The last allocated link.
    pub(crate) links: AtomicU32,
    /// The last number of `Platform::serial`.
    pub(crate) serials: AtomicU64,
    /// The number of traces that were taken. Each begins a new builder.
    pub(crate) taken: AtomicU32,
    /// Records for which a recording has room; 0 before the first one. Records then go to the
    /// builder, because its agents do not end.
    pub(crate) room: AtomicUsize,
}

impl Timeline {
    pub(crate) fn new(clock: ClockName) -> Timeline {
        Timeline {
            executions_only: AtomicBool::new(false),
            builder: Mutex::new(None),
            queues: Mutex::new(QueueTable::new()),
            clock,
            links: AtomicU32::new(0),
            serials: AtomicU64::new(0),
            taken: AtomicU32::new(0),
            room: AtomicUsize::new(0),
        }
    }

    pub(crate) fn with_builder<R>(&self, f: impl FnOnce(&mut TraceBuilder) -> R) -> R {
        let mut builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner);
        f(builder.get_or_insert_with(|| Box::new(TraceBuilder::new("", self.clock))))
    }

    pub(crate) fn queues(&self) -> MutexGuard<'_, QueueTable> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of the hazard check.
#[derive(Default)]
pub(crate) struct Hazards {
    /// Created when the check is enabled.
    state: Mutex<Option<Box<HazardState>>>,
}

pub(crate) struct HazardState {
    pub(crate) checker: Checker,
    /// What agents that have ended did.
    pub(crate) ended: Released,
}

/// What an agent had done when it started another agent, or ended.
#[derive(Clone, Default)]
pub(crate) struct Handover(pub(crate) Option<Released>);

impl Hazards {
    pub(crate) fn state(&self) -> MutexGuard<'_, Option<Box<HazardState>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A service that rests between two runs.
pub(crate) trait Rests: Send + Sync {
    /// Starts it again, if it rests and was not stopped.
    fn restart(self: Arc<Self>);
}

/// The services that a platform starts again after a rest.
#[derive(Default)]
pub(crate) struct Services {
    started: Mutex<Vec<Weak<dyn Rests>>>,
    /// Whether services rest at the end of the run that is under way.
    rest: AtomicBool,
}

impl Services {
    fn started(&self) -> MutexGuard<'_, Vec<Weak<dyn Rests>>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, service: Weak<dyn Rests>) {
        self.started().push(service);
    }

    /// Starts those that rest.
    pub(crate) fn restart(&self) {
        let known: Vec<_> = {
            let mut started = self.started();
            started.retain(|service| service.strong_count() > 0);
            started.iter().filter_map(Weak::upgrade).collect()
        };
        known.into_iter().for_each(Rests::restart);
    }

    pub(crate) fn set_rest(&self, rest: bool) {
        self.rest.store(rest, Ordering::Release);
    }

    pub(crate) fn rest(&self) -> bool {
        self.rest.load(Ordering::Acquire)
    }
}
