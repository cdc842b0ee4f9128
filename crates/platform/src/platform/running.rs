//! The platform whose cooperative machine runs the caller.

use super::{Inner, Platform};
use std::sync::Arc;
use tidegate_machines::thread;
use tidegate_machines::thread::{RUNS_NONE, Running};

/// Marks `platform` as the one that runs on this thread, until the result is dropped.
pub(crate) fn enter(platform: &Platform) -> Running {
    thread::enter_running(Arc::clone(&platform.inner) as _)
}

impl Platform {
    /// Returns the cooperative machine on which the caller is an agent.
    pub fn current() -> Option<Platform> {
        Some(Platform { inner: thread::running()?.downcast::<Inner>().ok()? })
    }

    /// Returns whether the caller is an agent of this cooperative machine.
    #[inline]
    pub fn is_current(&self) -> bool {
        thread::running_address() == self.address()
    }

    /// Returns whether the caller is an agent of a cooperative machine.
    #[inline]
    pub fn is_any_current() -> bool {
        thread::running_address() != RUNS_NONE
    }
}
