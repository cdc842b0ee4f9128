//! The fuzz targets, as listed in the crate's documentation.

pub(crate) mod calls;
pub(crate) mod commands;
pub(crate) mod files;
pub(crate) mod guests;
pub(crate) mod library;
pub(crate) mod logs;
pub(crate) mod messages;
pub(crate) mod packets;
pub(crate) mod queue;
pub(crate) mod unsteady;
