//! The timer of an adapter as its rooms reach it: a room that has a new deadline arms the timer.
//! The agent that runs the watches is `supervisor`'s.
//!
//! Invariants: a deadline is armed after the lock of the policy that has it is dropped. `until` is
//! the deadline that the agent sleeps for; an earlier one wakes the agent.
//!
//! Entry points: [`Timer::arm`], [`Timer::arm_background`].

use tidegate_platform::{CpuTime, Mutex, Platform, ServiceHandle, Step, WakeWord, Word};

/// The way to the agent that runs watches when their deadlines are due.
pub(crate) struct Timer {
    /// The deadline that the agent sleeps for, in ns, whether or not another agent can run;
    /// `u64::MAX`: every deadline wakes the agent.
    until: Word,
    wake: WakeWord,
    is_on: bool,
    service: Mutex<Option<ServiceHandle>>,
}

impl Timer {
    pub(crate) fn new(platform: &Platform, is_on: bool) -> Timer {
        let until = platform.page(1).word(0).named("the timer's deadline");
        until.store(u64::MAX);
        Timer {
            until,
            wake: WakeWord::new(platform),
            is_on,
            service: platform.mutex("timer", None),
        }
    }

    /// Whether deadlines are kept.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// A watch has this deadline now. Called with no lock of policy state held.
    pub(crate) fn arm(&self, deadline: CpuTime) {
        if self.is_on && deadline.0 < self.until.load() {
            self.wake.ring(Step::ThreadWake);
        }
    }

    /// A background watch that had no deadline has one now.
    pub(crate) fn arm_background(&self) {
        if self.is_on {
            self.wake.ring(Step::ThreadWake);
        }
    }

    /// The agent sleeps for this deadline from now on.
    pub(crate) fn sleep_until(&self, deadline_ns: u64) {
        self.until.store(deadline_ns);
    }

    /// What wakes the agent.
    pub(crate) fn wake_word(&self) -> WakeWord {
        self.wake.clone()
    }

    /// Keeps the agent's service until [`Timer::stop`].
    pub(crate) fn keep(&self, service: ServiceHandle) {
        *self.service.lock() = Some(service);
    }

    /// Ends the agent after its present turn.
    pub(crate) fn stop(&self) {
        let service = self.service.lock().take();
        if let Some(service) = service {
            service.stop();
        }
    }
}
