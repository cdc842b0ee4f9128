//! Explores the interleavings of the caller's own program, in the manner of loom and shuttle.
//!
//! [`check`](fn@crate::check) runs a closure under many schedules. The closure is an ordinary
//! program: it starts threads with [`thread`], shares data through [`sync`] and [`cell`], and may
//! use a whole machine ([`machine`]) with queues, fences and events.
//!
//! ```
//! use tidegate::check::sync::atomic::{AtomicU64, Ordering::SeqCst};
//! use tidegate::check::{sync::Arc, thread};
//!
//! tidegate::check(|| {
//!     let count = Arc::new(AtomicU64::new(0));
//!     let other = Arc::clone(&count);
//!     let adder = thread::spawn(move || other.fetch_add(1, SeqCst));
//!     count.fetch_add(1, SeqCst);
//!     adder.join().unwrap();
//!     assert_eq!(count.load(SeqCst), 2);
//! });
//! ```
//!
//! # What is a failure
//!
//! - a panic of any thread, with its place;
//! - a standstill: a deadlock, a lost wake-up, a loop that polls memory which no thread changes;
//! - a data race on a [`cell::UnsafeCell`] or [`cell::RaceCell`]: two accesses, one of them a
//!   write, without happens-before;
//! - an object of the machine that a dropped device leaves behind, and a driver or GPU that
//!   outlives its adapter.
//!
//! The failing schedule is shrunk and told step by step, with names and source lines. A line of
//! text replays it through `cargo test` ([`REPLAY`]) and through `tidegate replay`.
//!
//! # What is explored
//!
//! Without configuration: every schedule, up to a number; a program with more is then sampled by
//! probabilistic concurrency testing. [`Builder`] has the limits, the other strategies, the seed
//! and the memory model. A check depends on no clock and no chance: it gives the same answer each
//! time, unless [`Builder::seconds`] limits its time. A check that takes longer than two seconds
//! shows its progress on the terminal.
//!
//! Memory is as on x86 (total store order): a store waits in its thread's store buffer until a
//! sequentially consistent operation drains it. So Dekker's algorithm without such stores fails.
//! Weaker orders matter to the race detector only: without a release and an acquire,
//! a plain cell is racy. Reorderings of weaker processors are not explored.
//!
//! # Types
//!
//! | module | types |
//! |---|---|
//! | [`cell`] | [`cell::UnsafeCell`] for raw pointers; [`cell::RaceCell`] without `unsafe` |
//! | [`sync`] | [`sync::Mutex`], [`sync::RwLock`], [`sync::Condvar`], [`sync::Barrier`] |
//! | | [`sync::Once`], [`sync::OnceLock`], [`sync::Arc`] |
//! | [`sync::atomic`] | [`sync::atomic::AtomicU64`] and the others of std; [`sync::atomic::fence`] |
//! | [`sync::mpsc`] | [`sync::mpsc::channel`], [`sync::mpsc::sync_channel`] |
//! | [`thread`] | [`thread::spawn`], [`thread::scope`], [`thread::park`], [`thread::JoinHandle`] |
//!
//! # The closure
//!
//! It runs once for each schedule and must do the same each time: no clock, no random hash order.
//! It makes the values that its threads share. The types of [`sync`], [`cell`] and [`thread`] are
//! std's types when they are made outside of a check, so code that uses them is for the product
//! too. A value of one side that is used on the other is a panic. Loops that poll call
//! [`thread::yield_now`] or [`hint::spin_loop`].

mod builder;
mod program;
mod progress;
mod report;
pub mod timeline;

pub use builder::{Builder, Checked};
pub use program::{REPLAY, REPORT, TIMELINE};
pub use tidegate_check::{cell, hint, sync, thread};
pub use tidegate_explorer::{Coverage, MemoryModel, StrategyKind};

use crate::{Machine, MachineConfig, Platform};
use std::sync::Arc;

/// Explores `program` under many schedules, with the limits of [`Builder::new`]. See
/// [`mod@crate::check`].
///
/// # Panics
/// A schedule fails. The message tells its steps and has a line that replays it.
#[track_caller]
pub fn check(program: impl Fn() + Send + Sync + 'static) -> Checked {
    Builder::new().check(program)
}

/// Returns the platform of the running check, on which machines of the program are built.
///
/// # Panics
/// No check runs the caller.
#[track_caller]
pub fn platform() -> Platform {
    Platform::current()
        .expect("no check runs here: call this inside of the closure of tidegate::check")
}

/// Builds a machine for the program: one engine of each class and few entries in every table, so
/// that it is made quickly for each schedule. Building and dropping it are not explored.
///
/// # Panics
/// As [`platform`].
#[track_caller]
pub fn machine() -> Explored {
    machine_with(|_| {})
}

/// Builds a machine as [`machine`] does, after `change` of its configuration.
///
/// # Panics
/// As [`platform`], and when the configuration contradicts itself.
#[track_caller]
pub fn machine_with(change: impl FnOnce(&mut MachineConfig)) -> Explored {
    let platform = platform();
    let mut config = MachineConfig::standard(&platform);
    config.kernel.interrupts = crate::dxgkrnl::InterruptDelivery::Inline;
    config.kernel.log_entries = 8;
    config.driver.kernel_ring_slots = 2;
    config.driver.idle = crate::kmd::IdlePolicy { engine_after_ns: 0, looks_at_queues: false };
    config.gpu.kept_translations = 32;
    change(&mut config);
    let machine = platform.unexplored(|| Machine::new(&platform, config));
    Explored { machine: Some(machine.expect("the machine of a check starts")) }
}

/// A machine of an explored program. Dereferences to [`Machine`].
pub struct Explored {
    machine: Option<Machine>,
}

impl std::ops::Deref for Explored {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        self.machine.as_ref().expect("a machine is there until it is dropped")
    }
}

impl Drop for Explored {
    /// # Panics
    /// The driver or the GPU outlives its adapter.
    fn drop(&mut self) {
        let Some(machine) = self.machine.take() else { return };
        let platform = machine.platform().clone();
        let adapter = Arc::downgrade(machine.adapter());
        let (driver, gpu) = (Arc::downgrade(machine.driver()), Arc::downgrade(machine.gpu()));
        platform.unexplored(|| drop(machine));
        // A device that is dropped after its machine keeps the whole adapter.
        let is_whole = adapter.strong_count() > 0;
        if is_whole || platform.is_stopped() || std::thread::panicking() {
            return;
        }
        let left = [("driver", driver.strong_count()), ("GPU", gpu.strong_count())];
        for (part, count) in left {
            assert!(
                count == 0,
                "the {part} of a machine outlives its adapter in this schedule: \
                 drop clones of Machine::driver and Machine::gpu before the machine"
            );
        }
    }
}
