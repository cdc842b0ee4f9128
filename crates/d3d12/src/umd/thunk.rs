//! Owns the way into the graphics kernel: each call is counted and its modelled cost spent here and
//! nowhere else.
//!
//! The counts are protocol words, so that threads need no lock for them. In an explored machine
//! they stay at 0: a count is a step that others can see, and would multiply the schedules without
//! being part of any protocol.

use crate::teardown::TeardownReport;
use std::sync::Arc;
use tidegate_calls::Kernel;
use tidegate_platform::{Platform, PlatformKind, Step, Word};

pub(crate) struct Thunk {
    kernel: Arc<dyn Kernel>,
    platform: Platform,
    teardown: TeardownReport,
    kernel_calls: Word,
    cpu_waits: Word,
    cpu_wakes: Word,
}

impl Thunk {
    pub(crate) fn new(platform: &Platform, kernel: Arc<dyn Kernel>) -> Thunk {
        let page = platform.page(3).named("the counters of kernel calls");
        Thunk {
            kernel,
            platform: platform.clone(),
            teardown: TeardownReport::new(platform),
            kernel_calls: page.word(0),
            cpu_waits: page.word(1),
            cpu_wakes: page.word(2),
        }
    }

    /// Enters the kernel for one call.
    pub(crate) fn enter(&self) -> &dyn Kernel {
        self.platform.spend(Step::KernelCall);
        self.count(&self.kernel_calls);
        &*self.kernel
    }

    /// Keeps the refusals of destroy calls that a `Drop` makes.
    pub(crate) fn teardown(&self) -> &TeardownReport {
        &self.teardown
    }

    pub(crate) fn cpu_wait_made(&self) {
        self.count(&self.cpu_waits);
    }

    pub(crate) fn cpu_wait_woken(&self) {
        self.count(&self.cpu_wakes);
    }

    fn count(&self, word: &Word) {
        if self.platform.kind() != PlatformKind::Explored {
            word.fetch_add(1);
        }
    }

    /// Kernel calls, CPU waits and CPU wakes so far.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.kernel_calls, &self.cpu_waits, &self.cpu_wakes].map(Word::load)
    }
}
