//! The reference driver: its state, and its record of violations, calls that must succeed and
//! failed. Its DDI entries are in `entries`; the lock order is in the crate's header.

use crate::interrupt_view::InterruptView;
use crate::mailbox::Mailbox;
use crate::objects::Objects;
use crate::{Config, KmdError, Violation};
use std::sync::Arc;
use tidegate_gpu_abi::Device;
use tidegate_platform::{Mutex, Platform, Step, current};

/// Violations that are kept with their text. Later ones are only counted.
const KEPT_VIOLATIONS: usize = 64;

/// The reference kernel-mode driver of one adapter.
pub struct ReferenceDriver {
    pub(crate) platform: Platform,
    pub(crate) config: Config,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) mailbox: Mailbox,
    /// The interrupt lock and the tables of the interrupt routine. Never taken inside `objects`.
    pub(crate) view: Mutex<InterruptView>,
    pub(crate) objects: Mutex<Objects>,
    violations: Mutex<Violations>,
}

#[derive(Default)]
struct Violations {
    count: u64,
    kept: Vec<Violation>,
}

impl ReferenceDriver {
    /// Returns a driver for `device`. `config` is checked when the adapter starts.
    pub fn new(
        platform: &Platform,
        device: Arc<dyn Device>,
        config: Config,
    ) -> Arc<ReferenceDriver> {
        Arc::new(ReferenceDriver {
            platform: platform.clone(),
            mailbox: Mailbox::new(platform, Arc::clone(&device)),
            device,
            view: platform.mutex("kmd interrupt view", InterruptView::new()),
            objects: platform.mutex("kmd objects", Objects::new(&config)),
            violations: platform.mutex("kmd violations", Violations::default()),
            config,
        })
    }

    /// Returns the first 64 failures of calls that must succeed, each with its reason. The list is
    /// empty while the contract is kept. [`ReferenceDriver::violation_count`] counts all.
    pub fn violations(&self) -> Vec<Violation> {
        self.violations.lock().kept.clone()
    }

    /// Returns the number of violations.
    pub fn violation_count(&self) -> u64 {
        self.violations.lock().count
    }

    /// Returns the number of live objects of each kind: devices, contexts, hardware queues, fences,
    /// fence instances, doorbells, address spaces.
    pub fn census(&self) -> [usize; 9] {
        self.objects.lock().census()
    }

    /// Charges the modelled cost of a DDI call and asserts that the caller holds no lock of policy
    /// state.
    pub(crate) fn enter(&self, ddi: &'static str) {
        current::assert_no_guards(ddi);
        self.platform.spend(Step::DdiCall);
    }

    /// Records the failure of a call that must succeed.
    // spec: UMS-066
    pub(crate) fn must(&self, ddi: &'static str, outcome: Result<(), KmdError>) {
        if let Err(error) = outcome {
            self.violated(ddi, &[error]);
        }
    }

    pub(crate) fn violated(&self, ddi: &'static str, errors: &[KmdError]) {
        if errors.is_empty() {
            return;
        }
        let mut violations = self.violations.lock();
        for &error in errors {
            violations.count += 1;
            if violations.kept.len() < KEPT_VIOLATIONS {
                violations.kept.push(Violation { ddi, error });
            }
        }
    }
}
