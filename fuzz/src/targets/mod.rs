//! The targets: each takes its surface from bytes, as the table of the crate says.

pub(crate) mod calls;
pub(crate) mod commands;
pub(crate) mod files;
pub(crate) mod logs;
pub(crate) mod packets;
pub(crate) mod queue;
pub(crate) mod unsteady;
