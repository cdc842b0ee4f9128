//! Reads what rocprofv3 writes: JSON, CSV files and the rocpd database; and RPD databases.
//!
//! Purpose: kernels, copies and HIP calls become records of a recording; `run` is common to the
//! forms. Invariants: a kernel or copy is joined to its HIP call by the internal correlation
//! id. Event records and waits are host calls only: they are joined through the pointers in their
//! arguments, where the form has arguments. A stream pointer is tied to a stream number through the
//! launches on it. Entry points: [`json`], [`csv`], [`is_rocpd`], [`rocpd`], [`is_rpd`],
//! [`rpd()`].

mod database;
mod json;
mod rpd;
pub mod run;
mod table;

pub use database::{is_rocpd, read as rocpd};
pub use json::read as json;
pub use rpd::{is_rpd, read as rpd};
pub use table::{read as csv, siblings};

#[cfg(test)]
mod tests;
