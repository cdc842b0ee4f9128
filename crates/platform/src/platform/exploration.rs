//! Barriers, planted faults, and what a program tells the explorer of its machine.

use super::{PlantedFault, Platform, PlatformKind};
use tidegate_machines::world::EnteredCall;
use tidegate_machines::{Site, world};

impl Platform {
    // spec: NF-055
    /// Executes a full (sequentially consistent) memory barrier: every store of this agent is
    /// visible before its next load.
    #[inline]
    pub fn fence(&self) {
        if self.inner.kind == PlatformKind::Explored {
            world::fence();
        } else {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        }
    }

    /// Plants a fault for an exploration that must find it. A machine has at most one; later calls
    /// have no effect.
    pub fn plant(&self, fault: PlantedFault) {
        self.inner.fault.get_or_init(|| fault);
        self.inner.switches.enable_fault();
    }

    /// Returns whether this fault is planted. Product code asks by [`crate::planted!`].
    #[inline]
    pub fn has_planted(&self, fault: PlantedFault) -> bool {
        self.instruments().has_fault() && self.is_planted(fault)
    }

    #[cold]
    fn is_planted(&self, fault: PlantedFault) -> bool {
        self.inner.fault.get() == Some(&fault)
    }

    /// Executes a full barrier ([`Platform::fence`]), unless `left_out` is planted.
    #[inline]
    pub fn barrier(&self, left_out: PlantedFault) {
        if !self.has_planted(left_out) {
            self.fence();
        }
    }

    /// Starts to look for data races on the cells of the checker. Effective on an explored
    /// platform, before its run.
    pub fn detect_races(&self) {
        if self.kind() == PlatformKind::Explored {
            world::detect_races();
        }
    }

    /// Runs `act`, a part of the calling agent's program that is not explored: the agent moves
    /// while it can, and other agents move in a fixed order. For set-up and teardown.
    pub fn unexplored<R>(&self, act: impl FnOnce() -> R) -> R {
        struct Ends;
        impl Drop for Ends {
            fn drop(&mut self) {
                world::unexplored(false);
            }
        }
        if self.kind() != PlatformKind::Explored {
            return act();
        }
        world::unexplored(true);
        let _ends = Ends;
        act()
    }

    /// Declares that the calling agent has reached `position`: what it does from here on depends on
    /// `position` and on shared memory alone. Under exploration, runs that reach the position with
    /// the same memory are then in the same state, whatever the agent has observed before. No
    /// effect elsewhere.
    ///
    /// A check of the run may read notes that the agent took before only to see that each of them
    /// was taken in some run (decisions/0002).
    ///
    /// # Panics
    ///
    /// `position` is not above the agent's last one, or 0. States would form a circle.
    pub fn forget_history(&self, position: u32) {
        if self.kind() == PlatformKind::Explored {
            world::forget_history(position);
        }
    }

    /// Makes `call`, the calling function, the place of the agent's steps until the result is
    /// dropped. Reports of explored machines then name the line from which it was called. A call
    /// inside of another one is part of that. No effect elsewhere.
    #[track_caller]
    #[inline]
    pub fn enter_call(&self, call: &'static str) -> EnteredCall {
        match self.inner.kind {
            PlatformKind::Explored => world::enter_call(Site::of_call(call)),
            _ => EnteredCall::NONE,
        }
    }
}
