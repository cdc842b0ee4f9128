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

/// An injected failure, which comes once.
#[derive(Clone, Copy)]
pub(crate) struct Injected {
    /// What fails next.
    what: Option<Injection>,
    /// Whether the driver has started.
    is_on: bool,
}

impl Injected {
    pub(crate) fn new(what: Option<Injection>) -> Injected {
        Injected { what, is_on: false }
    }

    /// The driver has started.
    pub(crate) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Returns whether this call fails.
    pub(crate) fn fails(&mut self, what: Injection) -> bool {
        self.is_on && self.what.take_if(|next| *next == what).is_some()
    }
}
