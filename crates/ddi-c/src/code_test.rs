//! What a test does to a driver's code: stops at its steps, and failures of its calls.

use crate::steps::Steps;
use tidegate_ddi::Injection;

/// What a test does to a driver's code.
#[derive(Default)]
pub struct CodeTest {
    /// Its code makes these steps.
    pub steps: Option<Steps>,
    /// Calls of its code fail.
    pub injection: Option<Injection>,
}

/// An injected failure.
#[derive(Clone, Copy)]
pub(crate) struct Injected {
    what: Option<Injection>,
    /// Whether the driver has started.
    is_on: bool,
    /// Calls that could fail, since then.
    calls: u64,
}

impl Injected {
    pub(crate) fn new(what: Option<Injection>) -> Injected {
        Injected { what, is_on: false, calls: 0 }
    }

    /// The driver has started.
    pub(crate) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Counts a call, and returns whether it fails.
    pub(crate) fn fails(&mut self, what: Injection) -> bool {
        if !self.is_on || self.what != Some(what) {
            return false;
        }
        self.calls += 1;
        match what {
            Injection::Synchronize => self.calls == 1,
        }
    }
}
