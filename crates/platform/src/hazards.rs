//! The platform's hazard checker: the calls of the application's threads, and the accesses of
//! engines, reach it from here.
//!
//! Threads hand memory over by fences, events, starting and joining, which the checker sees, and by
//! other means, which it does not. Calls of threads that no machine started are taken to be ordered
//! as they were made. An operation of a type of the checker acquires what all threads did
//! before (decisions/0083).
//!
//! Off by default. Then each hook is one relaxed load. The checker's lock is a leaf: nothing is
//! called while it is held, and it is no scheduling point of an explored machine.

use crate::platform::{Handover, HazardState, Platform};
use tidegate_hazard::{Checker, Released, Report, SpaceKey, TimelineId};
use tidegate_machines::thread;

impl Platform {
    /// Enables the hazard check. What was done before is taken to be ordered.
    pub fn enable_hazard_check(&self) {
        let new = || Box::new(HazardState { checker: Checker::new(), ended: Released::default() });
        self.inner.hazards.state().get_or_insert_with(new);
        self.inner.switches.enable_hazard_check();
    }

    /// Returns whether the hazard check is enabled.
    #[inline]
    pub fn checks_hazards(&self) -> bool {
        self.instruments().has_hazard_check()
    }

    /// Reports a call of the application to the hazard check: calls `f` with the checker and the
    /// timeline of the calling thread. Returns `None`, without a call, while the check is off.
    #[inline]
    pub fn check_hazards<R>(&self, f: impl FnOnce(&mut Checker, TimelineId) -> R) -> Option<R> {
        if !self.checks_hazards() {
            return None;
        }
        self.with_checker(f)
    }

    fn with_checker<R>(&self, f: impl FnOnce(&mut Checker, TimelineId) -> R) -> Option<R> {
        let (number, is_agent) = thread::identity();
        let exact = is_agent || self.is_cooperative();
        let mut state = self.inner.hazards.state();
        let checker = &mut state.as_mut()?.checker;
        let thread = checker.thread(number, exact, || thread::name_for_people(number));
        Some(f(checker, thread))
    }

    /// Records that the calling agent has used a type of the checker, by which another agent
    /// may have handed memory over.
    #[inline]
    pub fn note_hand_over(&self) {
        self.check_hazards(Checker::acquire_from_all);
    }

    /// Calls `f` with the checker, for what no thread of the application did. Returns `None` while
    /// the check is off.
    pub fn hazard_checker<R>(&self, f: impl FnOnce(&mut Checker) -> R) -> Option<R> {
        if !self.checks_hazards() {
            return None;
        }
        self.inner.hazards.state().as_mut().map(|state| f(&mut state.checker))
    }

    /// Returns what the hazard check has found so far; `None` while it is off.
    pub fn hazard_report(&self) -> Option<Report> {
        self.hazard_checker(Checker::report)
    }

    /// Returns what the hazard check has found so far about one device; `None` while it is off.
    pub fn hazard_report_of(&self, device: SpaceKey) -> Option<Report> {
        self.hazard_checker(|checker| checker.report_of(device))
    }

    /// Releases what the calling agent has done, for an agent that it starts.
    pub(crate) fn hand_over(&self) -> Handover {
        Handover(self.check_hazards(|checker, thread| checker.release(thread)))
    }

    /// Orders what was handed over before what the calling agent does.
    pub(crate) fn take_over(&self, from: &Handover) {
        if let Some(released) = &from.0 {
            self.check_hazards(|checker, thread| checker.acquire(thread, released));
        }
    }

    /// Releases what the calling agent has done, because it ends.
    pub(crate) fn end_agent(&self) -> Handover {
        let handover = self.hand_over();
        if let Some(released) = &handover.0
            && let Some(state) = self.inner.hazards.state().as_mut()
        {
            state.ended.join(released);
        }
        handover
    }

    /// Orders what all ended agents did before what the calling thread does.
    pub(crate) fn take_over_ended(&self) {
        if self.checks_hazards() {
            let ended = self.inner.hazards.state().as_ref().map(|state| state.ended.clone());
            self.take_over(&Handover(ended));
        }
    }
}
