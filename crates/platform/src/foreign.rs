//! Calls of foreign code: wakers, callbacks and hooks of the application, and their destructors.
//!
//! Invariant: a panic of foreign code ends the call of that code and nothing else. The caller goes
//! on, so other waiters, tasks and agents are served as if the code had returned (decisions/0145).
//! The report of the run has the panic, as it has an agent's panic. Callers hold no lock over a
//! foreign call, with the exceptions that decisions/0145 lists.

use crate::platform::Platform;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use tidegate_machines::{Stopped, world};

impl Platform {
    /// Calls foreign code. Returns `None` if it panics.
    #[inline]
    pub fn call_foreign<R>(&self, call: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(result) => Some(result),
            Err(payload) => {
                self.contain(payload);
                None
            }
        }
    }

    /// Reports a panic of foreign code, unless the stop of the machine caused it: then the agent
    /// ends.
    #[cold]
    fn contain(&self, payload: Box<dyn std::any::Any + Send>) {
        if payload.is::<Stopped>() {
            resume_unwind(payload);
        }
        match &self.inner.host {
            Some(host) => host.report_panic(payload.as_ref()),
            None if self.is_current() => world::report_contained(payload.as_ref()),
            // Outside of a run there is no report. The panic hook has printed the panic.
            None => {}
        }
        // The payload is foreign too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StepCosts;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the payload panics too");
        }
    }

    #[test]
    fn a_panic_of_foreign_code_is_reported_and_the_caller_goes_on() {
        for platform in [Platform::host(), Platform::virtual_time(StepCosts::free())] {
            let went_on = Arc::new(AtomicU32::new(0));
            let (own, counted) = (platform.clone(), went_on.clone());
            let report = platform.run(move || {
                assert_eq!(own.call_foreign(|| 7), Some(7));
                for number in 0..2 {
                    assert_eq!(own.call_foreign(|| panic!("planted {number}")), None::<()>);
                }
                assert_eq!(own.call_foreign(|| std::panic::panic_any(Bomb)), None::<()>);
                counted.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(went_on.load(Ordering::Relaxed), 1);
            assert_eq!(report.panics.len(), 3, "{:?}", report.panics);
            assert!(report.panics[1].contains("planted 1"), "{:?}", report.panics);
        }
    }

    #[test]
    fn a_panic_outside_of_a_run_is_contained() {
        for platform in [Platform::host(), Platform::virtual_time(StepCosts::free())] {
            assert_eq!(platform.call_foreign(|| panic!("planted")), None::<()>);
        }
    }
}
