//! The C library of this process, as a C program sees it: its names, its structures, and memory
//! that ends where a structure ends. The target `library` chooses the calls.
//!
//! Rooms: `memory` (guarded memory) · `field` (what is in a structure) · `calls` (the names) ·
//! `in_process` (the machine behind the library). `memory` and `calls` may use `unsafe`.

pub(crate) mod calls;
pub(crate) mod field;
mod in_process;
pub(crate) mod memory;

pub(crate) use in_process::{InProcess, objects};
