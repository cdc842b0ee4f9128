//! The user-mode driver: the layer between the API objects and the kernel or the ring. It does not
//! depend on API objects.
//!
//! Rooms, each above the ones that it uses: [`queue`] (the engines of a queue and their order) ·
//! [`engine_queue`] (a queue on one node) · [`user_queue`], [`kernel_queue`] (the submission
//! models) · [`successor`] (recreating a user-mode queue) · [`user_ring`] (its parts) · [`backlog`]
//! (submissions without room in the ring) · [`submit`] (the published order) · [`residency`],
//! [`paging_signals`] · [`encode`] (packets, log entries) · [`queue_identity`], [`context`],
//! [`fence`] · [`device`] · [`closed_list`], [`allocator`], [`command_memory`], [`buffer`],
//! [`arena`] · [`in_flight`], [`held_fences`], [`ring`], [`progress`] · [`kernel_object`],
//! [`registration`], [`thunk`], [`failure`].
//!
//! Locks: a queue's submitter lock orders calls and may be held across a kernel call. The device's
//! residency lock comes after it. The arena's lock only guards its state and is the innermost.

pub(crate) mod allocator;
pub(crate) mod arena;
pub(crate) mod backlog;
pub(crate) mod buffer;
pub(crate) mod checked_memory;
pub(crate) mod closed_list;
pub(crate) mod command_memory;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod encode;
pub(crate) mod engine_queue;
pub(crate) mod failure;
pub(crate) mod fence;
mod fence_commands;
pub(crate) mod held_fences;
pub(crate) mod in_flight;
pub(crate) mod kernel_object;
pub(crate) mod kernel_queue;
pub(crate) mod paging_signals;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod queue_identity;
pub(crate) mod registration;
pub(crate) mod residency;
pub(crate) mod ring;
pub(crate) mod submit;
pub(crate) mod successor;
pub(crate) mod thunk;
pub(crate) mod tile_mappings;
pub(crate) mod user_queue;
pub(crate) mod user_ring;
