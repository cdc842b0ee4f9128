//! Instruments that are switched on beside the work of a machine: a timeline, the hazard check, a
//! planted fault, modelled time.
//!
//! Invariants: all of it is one byte, so code that needs none of it checks once. A switch takes
//! effect at the next look; it orders no other memory.
//!
//! Entry point: [`crate::Platform::instruments`].

use std::sync::atomic::{AtomicU8, Ordering};

const TIMELINE: u8 = 1;
const HAZARD_CHECK: u8 = 2;
const FAULT: u8 = 4;
const MODELLED_TIME: u8 = 8;

/// The switches of a platform.
pub(crate) struct Switches(AtomicU8);

impl Switches {
    /// Nothing is on but `modelled_time`, which never changes.
    pub(crate) fn new(modelled_time: bool) -> Switches {
        Switches(AtomicU8::new(if modelled_time { MODELLED_TIME } else { 0 }))
    }

    fn set(&self, bit: u8, on: bool) {
        match on {
            true => self.0.fetch_or(bit, Ordering::Relaxed),
            false => self.0.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    pub(crate) fn set_timeline(&self, on: bool) {
        self.set(TIMELINE, on);
    }

    pub(crate) fn enable_hazard_check(&self) {
        self.set(HAZARD_CHECK, true);
    }

    #[inline]
    pub(crate) fn read(&self) -> Instruments {
        Instruments(self.0.load(Ordering::Relaxed))
    }

    /// Called after the fault is planted.
    pub(crate) fn enable_fault(&self) {
        self.set(FAULT, true);
    }
}

/// What was switched on when [`crate::Platform::instruments`] read it.
#[derive(Clone, Copy, Debug)]
pub struct Instruments(u8);

impl Instruments {
    /// Returns whether anything is on.
    #[inline]
    pub fn any(self) -> bool {
        self.0 != 0
    }

    /// Returns whether a timeline is recorded.
    #[inline]
    pub fn has_timeline(self) -> bool {
        self.0 & TIMELINE != 0
    }

    /// Returns whether accesses of engines are checked for hazards.
    #[inline]
    pub fn has_hazard_check(self) -> bool {
        self.0 & HAZARD_CHECK != 0
    }

    /// Returns whether a timeline or the hazard check wants to know what was queued.
    #[inline]
    pub fn follows_queued(self) -> bool {
        self.0 & (TIMELINE | HAZARD_CHECK) != 0
    }

    /// Returns whether a fault is planted.
    #[inline]
    pub fn has_fault(self) -> bool {
        self.0 & FAULT != 0
    }
}
