//! The graphics kernel: what stands between processes (the D3DKMT calls) and one kernel-mode driver
//! (the DDI).
//!
//! Rooms: [`adapter`] (one driver and all that hangs on it) · `process` (handles, address space,
//! the call surface) · `handle` · `device` · `memory` (allocations, GPU addresses) · `fence`
//! (storage, waiters, the MonitoredValue protocol, logs) · `signal` (the rules that every signal
//! keeps) · `scheduling` (the port to VidSch) · `hwqueue` (hardware queues) · `doorbell` ·
//! `suspend` (hardware contexts off the run list and back) · `power` (D-states, F-states) · `registry` (how objects are found) · `interrupt` (interrupt and deferred routine) ·
//! `display` (flips) · `recovery` (a device in error) · `supervisor` (the timer) · `teardown` (how
//! processes end) · `removal` (how an adapter ends; `gone` stands in for its driver) ·
//! `driver_fault` (faults of a driver, and its outstanding work) · `feature` (what both sides can
//! do) · `declaration` (what the driver says it is) · `entry` (which of its entries may be called)
//! · `error`.
//!
//! Locks are ordered by `lock_order`. Guards of policy state (`Mutex::lock`) are never held over a
//! DDI call, a callback or a wake: decide, drop, call, take, apply.
//!
//! It does not know what a packet or a page table entry looks like: that is between the user-mode
//! and the kernel-mode driver.

pub mod adapter;
mod config;
mod display;
mod driver;
pub mod error;
mod fence;
mod interrupt;
mod interrupt_port;
mod lock_order;
mod memory;
mod object;
mod paging_work;
mod power;
mod recovery;
mod registry;
mod removal;
mod scheduling;
mod scheduling_port;
mod stats;
mod supervisor;
mod suspension;
mod timer;

// For the time being: rooms that name these modules by their former places.
use object::hw_queue as hwqueue;
use object::{context, device, doorbell, process};

pub use adapter::Adapter;
pub use config::{
    AdapterConfig, FeatureSetting, InterruptDelivery, PowerManagement, TdrConfig, TdrDebugMode,
    TdrLevel,
};
pub use display::DisplayStats;
pub use driver::{DdiCall, DriverFault, OutstandingWork};
pub use error::{BugCheck, StartError};
pub use fence::PendingWait;
pub use fence::log::LogTimeFault;
pub use memory::LocalMemoryUse;
pub use process::Process;
pub use recovery::{
    HeldBack, Promotion, RecoveryHook, RecoveryOutcome, RecoveryReason, RecoveryReport,
    TimeoutCause, WorkAtReset,
};
pub use stats::{Census, FenceRewind, KernelStats, LostSignal};
pub use suspension::Suspended;
pub use tidegate_vidsch::FenceOperations;
