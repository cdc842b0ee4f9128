//! Entry into the graphics kernel. Each call is counted and its modelled cost charged here only.

use crate::teardown::TeardownReport;
use std::sync::Arc;
use tidegate_calls::{CpuWaitRegistration, Handle, Kernel};
use tidegate_platform::{Counters, Platform, QueueNumber, Step, current};

pub(crate) struct Thunk {
    kernel: Arc<dyn Kernel>,
    platform: Platform,
    teardown: TeardownReport,
    counts: Counters,
}

/// The official name of the call for CPU waits on fences.
pub(crate) const CPU_WAIT_CALL: &str = "D3DKMTWaitForSynchronizationObjectFromCpu";

const KERNEL_CALLS: usize = 0;
const CPU_WAITS: usize = 1;
const CPU_WAKES: usize = 2;

impl Thunk {
    pub(crate) fn new(platform: &Platform, kernel: Arc<dyn Kernel>) -> Thunk {
        Thunk {
            kernel,
            platform: platform.clone(),
            teardown: TeardownReport::new(platform),
            counts: Counters::new(platform, 3),
        }
    }

    pub(crate) fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Enters the kernel for one call.
    #[inline]
    pub(crate) fn enter(&self) -> &dyn Kernel {
        self.platform.spend(Step::KernelCall);
        self.counts.add(KERNEL_CALLS, 1);
        &*self.kernel
    }

    /// Cancels a registered wait. A finished wait needs no call.
    pub(crate) fn cancel(&self, wait: CpuWaitRegistration) {
        if !wait.is_over() && !current::is_panicking() {
            self.platform.spend(Step::KernelCall);
            self.counts.add(KERNEL_CALLS, 1);
        }
        drop(wait);
    }

    /// Returns the kernel's number of a queue on the timeline. Not a published call, so it is
    /// neither counted nor charged.
    pub(crate) fn queue_number(&self, queue: Handle) -> Option<QueueNumber> {
        self.kernel.queue_number(queue)
    }

    /// Returns the report of destroy calls refused in a `Drop`.
    pub(crate) fn teardown(&self) -> &TeardownReport {
        &self.teardown
    }

    pub(crate) fn cpu_wait_made(&self) {
        self.counts.add(CPU_WAITS, 1);
    }

    pub(crate) fn cpu_wait_woken(&self) {
        self.counts.add(CPU_WAKES, 1);
    }

    /// Returns the numbers of kernel calls, CPU waits and CPU wakes.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [KERNEL_CALLS, CPU_WAITS, CPU_WAKES].map(|index| self.counts.get(index))
    }
}
