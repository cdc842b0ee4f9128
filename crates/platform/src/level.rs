//! The interrupt request level of the running agent.
//!
//! An interrupt routine and a DPC run on the agent that raised the interrupt, so a call that blocks
//! there stops that agent. [`raise`] marks the region. [`assert_may_block`] and [`assert_at_most`]
//! check it in debug builds.

use tidegate_machines::thread;
pub use tidegate_machines::thread::Level;

/// Keeps a raised level until dropped.
#[must_use = "the level falls when this is dropped"]
pub struct Raised(Level);

/// Raises the calling agent's level to `level`. A higher level is kept.
#[inline]
pub fn raise(level: Level) -> Raised {
    Raised(thread::exchange_level(thread::level().max(level)))
}

impl Drop for Raised {
    #[inline]
    fn drop(&mut self) {
        thread::exchange_level(self.0);
    }
}

/// Returns the calling agent's level.
#[inline]
pub fn current() -> Level {
    thread::level()
}

/// Sets the calling agent's level, for foreign code that raises and lowers it in separate calls.
/// Returns the previous level, which the caller of that code restores.
#[inline]
pub fn exchange(level: Level) -> Level {
    thread::exchange_level(level)
}

/// Returns whether the calling agent may block: it is at PASSIVE level.
#[inline]
pub fn may_block() -> bool {
    thread::level() == Level::Passive
}

/// Checks, in debug builds only, that the agent may wait for `what`.
///
/// # Panics
///
/// The agent is in an interrupt routine or a DPC.
#[inline]
pub fn assert_may_block(what: &str) {
    if cfg!(debug_assertions) && thread::level() > Level::Passive {
        panic!(
            "agent '{}' waits for {what} at {:?} level: hand the work to a worker",
            thread::name(),
            thread::level()
        );
    }
}

/// Checks, in debug builds only, that `what` may be called at the agent's level.
///
/// # Panics
///
/// The agent's level is above `level`.
#[inline]
pub fn assert_at_most(level: Level, what: &str) {
    if cfg!(debug_assertions) && thread::level() > level {
        panic!(
            "agent '{}' is at {:?} level, and {what} needs {level:?}: hand the work to a worker",
            thread::name(),
            thread::level()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Platform, Step};

    #[test]
    fn a_raised_level_falls_at_the_end_of_its_region() {
        let outer = raise(Level::Dispatch);
        drop(raise(Level::Dirql));
        drop(raise(Level::Passive));
        assert_eq!(thread::level(), Level::Dispatch);
        drop(outer);
        assert_may_block("an event");
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "waits for the end of a copy at Dispatch level")]
    fn a_wait_in_a_dpc_is_a_panic_although_the_event_is_set() {
        let event = Platform::closed_host().event(true);
        event.set(Step::ThreadWake);
        let _dpc = raise(Level::Dispatch);
        event.wait_for(None, "the end of a copy");
    }
}
