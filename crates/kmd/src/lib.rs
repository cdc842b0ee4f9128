//! The reference kernel-mode driver: [`ReferenceDriver`] stands between the kernel's DDI
//! (`ddi::Driver`) and a GPU that it knows only as `gpu_abi::Device`: registers, memory, an
//! interrupt line.
//!
//! Rooms: `driver` (the DDI table; nothing but entries) · `start` (start and stop) · `caps`
//! (features, then what is declared) · `paging` (page tables) · `segments` (local memory, fence
//! storage in it and its moves) · `context` (devices and contexts, suspend and resume) ·
//! `node_ring` (the packet path) · `preempt` (its requests) · `hwqueue` (hardware queues of both
//! kinds) · `kernel_ring` (a ring that the driver writes) · `peer` (signals from GPU to GPU) ·
//! `doorbell` (connect and victimise) and `seats` (who has one of the physical doorbells) · `fence`
//! (native fences) · `log` (fence logs) · `isr` (the interrupt routine) · `display` (flips,
//! vertical syncs) · `power` (D-states, F-states) · `reset` (timeout recovery) · `mailbox` (asking
//! the CMP) · `objects` (what the driver keeps) · `handle` · `config` · `error`.
//!
//! Locks, outermost first:
//!
//! 1. the interrupt view: held by the interrupt routine from cause to last report, and by passive
//!    code while it changes what the routine looks up. So a DDI that destroys a fence or a queue
//!    returns only when no routine can report it any more;
//! 2. the mailbox: one admin command at a time;
//! 3. the objects and each ring's write pointer: policy state, innermost, never held over a
//!    callback or a register.
//!
//! The first two order calls rather than guard policy state (`Mutex::lock_device`), and neither is
//! taken with the other held. A mailbox command may wait for the end of an engine's turn, so none
//! is given from inside one: the interrupt routine gives none, and waits for nobody who could be
//! waiting in one (view and objects are dropped first); the deferred routine runs when the turn is
//! over. What the driver relies on from a device in return: it raises no interrupt from inside a
//! mailbox command (what a command sets off is raised from an engine's turn), and it does not give
//! a queue's number to another queue while records of the old one may still stand in its interrupt
//! lists.
//!
//! It does not do: scheduling (VidSch), memory management, and deciding what hangs.

mod caps;
pub mod config;
mod context;
mod display;
mod doorbell;
mod driver;
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

pub use config::{Config, DoorbellModel, FaultNaming, IdlePolicy, InterruptMode, NodeConfig};
pub use driver::ReferenceDriver;
pub use error::{KmdError, Violation};
pub use kind::Kind;
