//! The graphics kernel, between processes (the D3DKMT calls) and one kernel-mode driver (the DDI).
//!
//! Rooms, from the top down (`docs/architecture.md` has the layers and the walks): [`adapter`]
//! (builds the layers) · `removal` and `supervisor` (the end of an adapter; the timer's agent) ·
//! `recovery`, `power`, `interrupt`, `display`, `suspension` (the published protocols) · `object`
//! (processes, devices, contexts, queues, doorbells, the D3DKMT calls) · `scheduling` (carries out
//! what VidSch decides) · `fence` · `memory` (carries out what VidMm decides) · `driver` (the
//! driver as the kernel may call it) · `config`, `stats`, `timer`, `wait_limit`, `registry`, `port`
//! (the way to an upper room), `error`.
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
mod lock_order;
mod memory;
mod object;
mod port;
mod power;
mod recovery;
mod registry;
mod removal;
mod scheduling;
mod stats;
mod supervisor;
mod suspension;
#[cfg(test)]
mod tests;
mod timer;
mod wait_classes;
mod wait_limit;

pub use adapter::{Adapter, EngineWait};
pub use config::{
    AdapterConfig, FeatureSetting, InterruptDelivery, PagingBuffers, PowerManagement, TdrConfig,
    TdrDebugMode, TdrLevel,
};
pub use driver::{DdiCall, DriverFault, OutstandingWork};
pub use error::{BugCheck, StartError};
pub use fence::log::LogTimeFault;
pub use fence::names::ObjectNames;
pub use memory::LocalMemoryUse;
pub use object::process::{Process, ProcessKind};
pub use recovery::{
    HeldBack, Promotion, RecoveryHook, RecoveryOutcome, RecoveryReason, RecoveryReport,
    TimeoutCause, WorkAtReset,
};
pub use stats::{Census, FenceRewind, KernelStats, LostHistory, LostSignal};
pub use suspension::Suspended;
