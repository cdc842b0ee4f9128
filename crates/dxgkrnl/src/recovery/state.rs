//! State shared by the recoveries of one adapter: policy, detector, history.

use super::blame::ContextLosses;
use super::decide::RecoveryPolicy;
use super::detector::Detector;
use super::report::{self, RecoveryReport};
use crate::config::TdrDebugMode;
use crate::display::Display;
use crate::driver::DriverPort;
use crate::object::Objects;
use crate::object::context::Context;
use crate::power::PowerTransitions;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{HwContextLoss, OsHandle};
use tidegate_platform::Mutex;
use tidegate_trace::Kind;

/// A debugger hook that runs before a recovery begins.
pub type RecoveryHook = Arc<dyn Fn(&RecoveryReport) + Send + Sync>;

/// Timeout detection and recovery of one adapter.
pub(crate) struct Recovery {
    pub(crate) objects: Arc<Objects>,
    pub(super) port: Arc<DriverPort>,
    pub(super) power: Arc<PowerTransitions>,
    /// `None` for a render-only adapter.
    pub(super) display: Option<Arc<Display>>,
    /// Serialises recoveries. Held for a whole recovery.
    pub(super) one_at_a_time: Mutex<()>,
    pub(super) policy: Mutex<RecoveryPolicy>,
    pub(super) detector: Detector,
    pub(super) losses: ContextLosses,
    pub(super) history: Mutex<History>,
}

/// Past recoveries and their lasting effects.
#[derive(Default)]
pub(super) struct History {
    pub(super) reports: VecDeque<RecoveryReport>,
    count: u64,
    /// Address spaces of blocked processes.
    pub(super) blocked: BTreeSet<u32>,
    pub(super) hook: Option<RecoveryHook>,
}

impl Recovery {
    pub(crate) fn new(
        objects: &Arc<Objects>,
        power: &Arc<PowerTransitions>,
        display: Option<&Arc<Display>>,
    ) -> Arc<Recovery> {
        let DriverPort { platform, config, .. } = &*objects.port;
        Arc::new(Recovery {
            one_at_a_time: platform.mutex("recovery of an adapter", ()),
            policy: platform.mutex("recovery policy", RecoveryPolicy::new(&config.tdr)),
            detector: Detector::new(platform),
            losses: ContextLosses::new(platform),
            history: platform.mutex("recovery history", History::default()),
            objects: objects.clone(),
            port: objects.port.clone(),
            power: power.clone(),
            display: display.cloned(),
        })
    }

    /// Returns whether a process is blocked for causing too many timeouts (0x142).
    pub(super) fn is_blocked(&self, address_space: u32) -> bool {
        self.history.lock().blocked.contains(&address_space)
    }

    /// Runs `change` while no recovery is in progress.
    pub(crate) fn between_recoveries(&self, change: impl FnOnce()) {
        let _between_recoveries = self.one_at_a_time.lock_device();
        change();
    }

    /// Drops all references to process objects, because the adapter stops.
    pub(crate) fn forget(&self) {
        self.detector.forget();
    }

    /// DxgkCbInvalidateHwContext: what a reset did to a hardware context.
    ///
    /// # Errors
    /// INVALID_PARAMETER for an unknown context, or outside a reset.
    pub(crate) fn invalidated(&self, context: OsHandle, loss: HwContextLoss) -> Result<(), Status> {
        let found = self.objects.hw_contexts.lock().get(context);
        self.losses.note(found.ok_or(Status::INVALID_PARAMETER)?, loss)
    }

    /// Stores the report of a finished recovery.
    pub(super) fn keep(&self, mut report: RecoveryReport) {
        let mut history = self.history.lock();
        history.count += 1;
        report.number = history.count;
        if history.reports.len() == report::KEPT {
            history.reports.pop_front();
        }
        history.reports.push_back(report);
    }

    /// Returns the reports of the last 16 recoveries, oldest first.
    pub(crate) fn reports(&self) -> Vec<RecoveryReport> {
        self.history.lock().reports.iter().cloned().collect()
    }

    /// Sets the hook that runs before a recovery begins, if TdrDebugMode or
    /// [`TdrTest::EnableBreak`] enables it. The recovery continues when the hook returns.
    pub(crate) fn before_recovery(&self, hook: RecoveryHook) {
        self.history.lock().hook = Some(hook);
    }

    /// Returns whether TdrDebugMode ignores timeouts after reporting them.
    pub(super) fn ignores_timeouts(&self) -> bool {
        self.port.config.tdr.debug_mode == TdrDebugMode::Ignore
    }

    /// Records a recovery that ends now.
    pub(super) fn record_recovery(&self, what: &str, start_ns: u64, code: u64) {
        self.port.lanes.record_recovery(Kind::Recovery, what, start_ns, code);
    }

    /// Records a step of a recovery; the step ends now.
    pub(super) fn record_recovery_step(&self, what: &str, start_ns: u64) {
        self.port.lanes.record_recovery(Kind::Mark, what, start_ns, 0);
    }

    /// Completes the suspensions of contexts whose engines were reset, since no reference to them
    /// is left on the GPU.
    pub(crate) fn complete_suspensions(&self, which: impl Fn(&Context) -> bool) {
        for context in self.objects.hw_contexts_of(which) {
            context.suspension.complete_by_reset();
        }
    }
}
