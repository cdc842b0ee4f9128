//! The reference kernel-mode driver. [`ReferenceDriver`] implements the kernel's DDI
//! (`ddi::Driver`) on a GPU that it accesses only through `gpu_abi::Device`: registers, memory, and
//! an interrupt line.
//!
//! Rooms: `entries` (one row for each DDI) · `driver` (its state) · `start` (start and stop) ·
//! `caps` (features, then what is declared) · `paging` (page tables) · `segments` (local memory,
//! fence storage in it and its moves) · `allocation` (memory of processes) · `context` (devices and
//! contexts, suspend and resume) · `packets` (the packet path) · `preempt` (its requests) ·
//! `hwqueue` (hardware queues of both kinds) · `kernel_ring` (a ring that the driver writes) ·
//! `peer` (signals from GPU to GPU) · `doorbell` (connect and victimise) and `seats` (which
//! doorbells have a physical one) · `fence` (native fences) · `log` (fence logs) · `isr` (the
//! interrupt routine) · `display` (flips, vertical syncs) · `power` (D-states, F-states) · `reset`
//! (timeout recovery) · `mailbox` (commands to the CMP) · `objects` (what the driver keeps) ·
//! `handle` · `config` · `error`.
//!
//! Locks, outermost first:
//!
//! 1. the interrupt view: held by the interrupt routine from cause to last report, and by passive
//!    code while it changes the tables of the routine. A DDI that destroys a fence or a queue
//!    therefore returns only when no routine can report it;
//! 2. the mailbox: one exchange with its registers at a time, never held over a wait;
//! 3. the objects and each ring's write pointer: policy state, innermost, never held over a
//!    callback or a register access.
//!
//! The first two order calls and guard no policy state (`Mutex::lock_device`). They are never held
//! together. A mailbox command that needs the end of an engine's turn is pending, and its caller
//! waits at PASSIVE level with none of these locks. A DPC on the engine's thread can therefore take
//! each of them before that turn ends. The interrupt routine issues no command.
//!
//! The driver relies on two properties of the device. Interrupts caused by a mailbox command are
//! raised from an engine's turn, never inside the command. A queue's number is not reused while the
//! interrupt lists may still hold records of it.
//!
//! Scheduling, memory management and hang detection belong to the kernel.

mod allocation;
mod caps;
pub mod config;
mod context;
mod display;
mod doorbell;
mod driver;
mod engine;
mod entries;
pub mod error;
mod fence;
pub mod handle;
mod hwqueue;
mod interrupt_view;
mod isr;
mod kernel_ring;
pub mod kind;
mod log;
mod mailbox;
mod objects;
mod packets;
mod paging;
mod patch;
mod peer;
mod power;
mod preempt;
mod reset;
mod scheduling;
mod seats;
mod segments;
mod start;

pub use config::{Config, DoorbellModel, FaultNaming, IdlePolicy, InterruptMode};
pub use driver::ReferenceDriver;
pub use error::{KmdError, Violation};
pub use kind::Kind;
