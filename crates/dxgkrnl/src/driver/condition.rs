//! Whether an adapter works: contract violations, faults that were worked around, resets, removal.
//!
//! Invariant: the first contract violation is kept, unless the adapter was already removed.

use super::fault::{DriverFault, FAULTS_KEPT};
use crate::error::BugCheck;
use std::sync::OnceLock;
use tidegate_calls::Status;
use tidegate_platform::{Mutex, Platform, Word};

/// Why an adapter accepts no more work.
#[derive(Default)]
struct Refusal {
    bug_checks: Vec<BugCheck>,
    removed: bool,
}

/// The condition of one adapter.
pub(crate) struct Condition {
    resets: Word,
    refusal: Mutex<Refusal>,
    faults: Mutex<Vec<DriverFault>>,
    /// Set when the driver has stopped and must not be called.
    stopped: OnceLock<()>,
}

impl Condition {
    pub(super) fn new(platform: &Platform) -> Condition {
        Condition {
            resets: platform.page(1).word(0).named("the count of adapter resets"),
            refusal: platform.mutex("bug checks", Refusal::default()),
            faults: platform.mutex("faults of a driver", Vec::new()),
            stopped: OnceLock::new(),
        }
    }

    /// Returns a counter that changes at the start and end of each adapter reset; odd during one.
    pub(crate) fn resets(&self) -> u64 {
        self.resets.load()
    }

    /// Counts the start or end of an adapter reset.
    pub(crate) fn note_reset(&self) {
        self.resets.fetch_add(1);
    }

    /// Returns the driver contract violation that stopped the adapter, if any. Its consequences are
    /// not reported.
    pub(crate) fn bug_checks(&self) -> Vec<BugCheck> {
        self.refusal.lock().bug_checks.clone()
    }

    /// Records the first contract violation of an adapter that is not removed. Returns whether it
    /// was recorded.
    // spec: PRE-092
    pub(super) fn keep_bug_check(&self, bug: BugCheck) -> bool {
        let mut refusal = self.refusal.lock();
        let first = !refusal.removed && refusal.bug_checks.is_empty();
        if first {
            refusal.bug_checks.push(bug);
        }
        first
    }

    /// Begins a removal: no further work is accepted.
    // spec: PRE-095
    pub(crate) fn begin_removal(&self) {
        self.refusal.lock().removed = true;
    }

    /// Records that a call stuck in the driver kept a removal from stopping it.
    pub(crate) fn note_stuck_in_driver(&self, bug: BugCheck) {
        self.refusal.lock().bug_checks.push(bug);
    }

    /// Returns whether the driver has stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// Records that DxgkDdiStopDevice has returned or never will. The driver is not
    /// called afterwards.
    pub(crate) fn note_stopped(&self) {
        let _first = self.stopped.set(());
    }

    /// Returns the first 64 driver faults that the kernel worked around.
    pub(crate) fn driver_faults(&self) -> Vec<DriverFault> {
        self.faults.lock().clone()
    }

    pub(super) fn keep_fault(&self, fault: DriverFault) {
        let mut faults = self.faults.lock();
        if faults.len() < FAULTS_KEPT {
            faults.push(fault);
        }
    }

    /// Checks that the adapter works.
    ///
    /// # Errors
    /// DEVICE_REMOVED after a driver contract violation or removal.
    pub(super) fn check(&self) -> Result<(), Status> {
        let refusal = self.refusal.lock();
        let works = refusal.bug_checks.is_empty() && !refusal.removed;
        if works { Ok(()) } else { Err(Status::DEVICE_REMOVED) }
    }

    /// Checks that the adapter is present.
    ///
    /// # Errors
    /// DEVICE_REMOVED after its removal.
    pub(crate) fn check_present(&self) -> Result<(), Status> {
        if self.refusal.lock().removed { Err(Status::DEVICE_REMOVED) } else { Ok(()) }
    }
}
