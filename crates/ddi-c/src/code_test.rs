//! What a test does to a driver's code: stops at its steps, and failures of its calls.

use crate::steps::Steps;
use std::collections::BTreeSet;
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

/// The entries that are tried with failing allocations.
#[derive(Default)]
pub(crate) struct Trial {
    tried: BTreeSet<&'static str>,
    /// Allocations that succeed before the one that fails.
    until: Option<u32>,
}

impl Trial {
    pub(crate) fn has_tried(&self, entry: &str) -> bool {
        self.tried.contains(entry)
    }

    pub(crate) fn note_tried(&mut self, entry: &'static str) {
        self.tried.insert(entry);
    }

    /// Has this allocation fail.
    pub(crate) fn begin(&mut self, number: u32) {
        self.until = Some(number);
    }

    /// Ends it. Returns whether the call came to it.
    pub(crate) fn end(&mut self) -> bool {
        self.until.take().is_none()
    }

    /// Returns whether this allocation fails.
    pub(crate) fn fails(&mut self) -> bool {
        let fails = self.until == Some(0);
        self.until = self.until.and_then(|until| until.checked_sub(1));
        fails
    }
}
