//! The objects that processes hold by handle, their calls, and how processes end.
//!
//! Files, each using those before it: `handle_table` (pure) · `device` · `fence` · `context` ·
//! `hw_queue` · `idle_contexts` · `doorbell` · `objects` (all of one adapter) · `process` (with the
//! D3DKMT calls) · `object_table` · `teardown`.

pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod doorbell;
mod fence;
mod handle_table;
pub(crate) mod hw_queue;
pub(crate) mod idle_contexts;
mod object_table;
mod objects;
pub(crate) mod process;
mod teardown;

pub(crate) use fence::FenceObject;
pub(crate) use objects::Objects;
