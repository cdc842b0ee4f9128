//! A gate where agents wait, as a place in the lock order.
//!
//! An agent is inside from [`Passage::enter`] to [`Passage::leave`]. Debug builds check the order:
//! an agent goes in only while every lock that it holds comes before the gate, and takes inside
//! only locks that come after it. So no agent waits at a gate with a lock that an agent inside
//! wants.

use crate::platform::Platform;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_machines::thread;
use tidegate_machines::thread::HeldItem;

/// The place of one gate; see [`Platform::passage`].
pub struct Passage {
    name: &'static str,
    rank: Option<u32>,
    /// Unique in the process.
    number: u64,
}

impl Platform {
    /// Creates the place of a gate in the lock order.
    pub fn passage(&self, name: &'static str) -> Passage {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Passage { name, rank: self.lock_rank(name), number }
    }
}

impl Passage {
    /// Records that the calling agent waits at the gate and goes in. `waits` is whether it may have
    /// to wait: an agent that never waits may hold any lock.
    ///
    /// # Panics
    ///
    /// In debug builds, if an agent that may have to wait holds a lock that comes after the gate.
    pub fn enter(&self, waits: bool) {
        if cfg!(debug_assertions) && waits {
            // The waits that the gate orders declare their own classes (`wait_order`).
            thread::lock_taken(HeldItem {
                address: self.address(),
                name: self.name,
                rank: self.rank,
                class: 0,
                machine: 0,
            });
        }
        thread::entered(self.number);
    }

    /// Records that the calling agent is outside again.
    pub fn leave(&self) {
        if cfg!(debug_assertions) {
            thread::lock_dropped(self.address());
        }
        thread::left(self.number);
    }

    /// Returns whether the calling agent is inside.
    #[inline]
    pub fn is_inside(&self) -> bool {
        thread::is_inside(self.number)
    }

    /// The number, as an address that no lock has: locks are aligned.
    fn address(&self) -> usize {
        (self.number as usize) << 1 | 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn an_agent_is_inside_until_it_leaves() {
        let platform = Platform::host();
        let (one, other) = (platform.passage("one"), platform.passage("other"));
        assert!(!one.is_inside());
        one.enter(true);
        other.enter(false);
        assert!(one.is_inside() && other.is_inside());
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| one.is_inside()).join();
            assert!(!elsewhere.expect("no panic"), "another thread is not inside");
        });
        one.leave();
        assert!(!one.is_inside() && other.is_inside());
        other.leave();
        assert!(!other.is_inside());
    }

    #[test]
    fn an_agent_that_may_wait_at_a_gate_holds_no_later_lock() {
        let platform = Platform::host();
        platform.set_lock_order(&["outer", "the gate", "inner"]);
        let gate = platform.passage("the gate");
        let (outer, inner) = (platform.mutex("outer", ()), platform.mutex("inner", ()));
        {
            let _outer = outer.lock_device();
            gate.enter(true);
            drop(inner.lock_device());
            gate.leave();
        }
        let _inner = inner.lock_device();
        gate.enter(false);
        gate.leave();
        let refused = catch_unwind(AssertUnwindSafe(|| gate.enter(true)));
        assert_eq!(refused.is_err(), cfg!(debug_assertions));
    }
}
