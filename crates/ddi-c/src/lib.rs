//! Kernel-mode drivers in C, with the published interface of display miniport drivers.
//!
//! A driver is a shared library with `DriverEntry`. It is compiled against `include/wddm`, together
//! with `include/wddm/tidegate_nt.c`, which has the functions of the NT kernel. [`CDriver`] loads
//! it and is the `ddi::Driver` that the graphics kernel calls. It translates the calls into the
//! entries of DRIVER_INITIALIZATION_DATA, and the driver's callbacks into `ddi::Callbacks`
//! (decisions/0173).
//!
//! Rooms, each using those before it: `address` · `error` · `rule` (what the host checks) · `steps`
//! (of an exploration) · `pci`, `model`, `hardware` (the device: the software GPU, or a library of
//! the user) · `objects` · `dpc_queue`, `callers`, `registry`, `waitable`, `handle_data` (what the
//! host keeps) · `host` (what the driver's code uses: levels, locks, memory, registers, reports) ·
//! `stack` (callers and their stacks) · `handles` (keys and objects) · `waits` (events, mutexes,
//! semaphores) · `agents` (DPCs, timers, threads, work) · `foreign` (all unsafe code: the library,
//! the two tables of functions, calls into the driver) · `driver` (the driver's state, loading and
//! ending) · `start` (start, stop, capabilities) · `memory` (page tables and paging) · `packets`
//! (contexts, packets, interrupts, recovery) · `allocations` · `patching` (packets with physical
//! addresses) · `display` (flips and vertical syncs).
//!
//! Invariants:
//! - each [`CDriver`] has its own copy of the library, so static variables belong to one adapter;
//! - no lock of the host is held while the driver's code runs, except `line`, which orders the
//!   interrupt routine and DxgkCbSynchronizeExecution;
//! - a broken rule of the driver is a text in [`CDriver::findings`], not a panic.

mod address;
mod agents;
mod allocations;
mod callers;
mod code_test;
mod display;
mod doorbells;
mod dpc_queue;
mod driver;
mod error;
mod fences;
mod foreign;
mod handle_data;
mod handles;
mod hardware;
mod host;
mod hw_queues;
mod kernel_calls;
mod memory;
mod memory_failures;
mod model;
mod objects;
mod packets;
mod patching;
mod pci;
mod power;
mod registry;
mod rule;
mod stack;
mod start;
mod steps;
mod waitable;
mod waits;

pub use code_test::CodeTest;
pub use driver::{CDriver, Findings};
pub use error::LoadError;
pub use model::DeviceModel;
pub use registry::{Registry, RegistryError};
pub use rule::{Finding, Rule};
pub use steps::{StepSeen, Steps};
