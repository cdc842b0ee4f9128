//! The objects that processes hold by handle, their calls, and how processes end.
//!
//! Files, each using those before it: `layers` · `device` · `fence` · `older` (mutexes and the
//! like) · `keyed_mutex` · `context` · `hw_queue` · `doorbell` · `paging_queue` · `resource` ·
//! `tile_update` · `port` (what the rooms above do) · `objects` (all of one adapter) ·
//! `hw_queue_work` · `idle_contexts` · `engine_work`, `scheduled` (the objects as memory and
//! scheduling see them) · `object_table` · `process` (with the D3DKMT calls and the end of a
//! process).

pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod doorbell;
mod engine_work;
mod fence;
pub(crate) mod hw_queue;
mod hw_queue_work;
pub(crate) mod idle_contexts;
mod keyed_mutex;
mod layers;
mod object_table;
mod objects;
mod older;
mod paging_queue;
mod port;
pub(crate) mod process;
mod resource;
mod scheduled;
mod tile_update;

pub(crate) use fence::FenceObject;
pub(crate) use layers::Layers;
pub(crate) use objects::Objects;
pub(crate) use port::{DisplayPort, FlipDesc, RecoveryPort, RefusedCommands};
