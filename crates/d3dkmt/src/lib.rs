//! The D3DKMT calls as a C library: `libtidegate_d3dkmt.so`, with the names and layouts of the
//! public headers.
//!
//! Rooms, each using those before it: `caller` (the caller's memory and descriptors) · `event` ·
//! `process` · `object` · `internal_fence` · `named_object` · `gpu_ranges` · `own_devices` ·
//! `nt_handles` · `timeout` · `backend` (the one place that chooses the kernel) · `library`
//! (objects by handle) · `call` · the calls (`adapter`, `device`, `queue`, `doorbell`,
//! `keyed_mutex`, `legacy`, `resource`, `memory`, `gpu_address`, `sync`, `sharing`), which check
//! and translate arguments ·
//! [`exports`] (the names).
//!
//! Invariants: no panic leaves the library. No lock of the library is held while the kernel is
//! called, except for the lock that orders the rings of one doorbell.

mod adapter;
mod backend;
mod call;
mod caller;
mod device;
mod doorbell;
mod event;
pub mod exports;
mod gpu_address;
mod gpu_ranges;
mod internal_fence;
mod keyed_mutex;
mod legacy;
mod library;
mod memory;
mod named_object;
mod nt_handles;
mod object;
mod own_devices;
mod process;
mod queue;
mod resource;
mod rings;
mod sharing;
mod sync;
mod timeout;

pub use library::{Held, held};
