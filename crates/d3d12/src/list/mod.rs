//! Command lists: recording, the commands each list type accepts, and closing.
//!
//! Rooms: `any` · `allocator` · `pipeline`, `descriptors`, `query`, `barrier`, `clear`, `copy`,
//! `texture`, `tiles` and `dispatch` (commands) · `recording` (the open list) · `root_state`.
//!
//! A [`CommandList`] is open until [`CommandList::close`] consumes it; only the [`ClosedList`] that
//! it returns can be executed. It may be dropped right after `execute`: the queue keeps its memory
//! until the GPU has finished with it.
//!
//! A list has its own command memory or records from a [`CommandAllocator`]. With its own memory it
//! can be executed any number of times on any queue of its type, also while it is executing. With
//! an allocator the published rules apply, see [`CommandAllocator`].
//!
//! Ranges are checked against their buffers while recording.

mod allocator;
mod any;
mod barrier;
mod clear;
mod copy;
mod descriptors;
mod dispatch;
mod pipeline;
mod query;
mod recording;
mod root_state;
mod texture;
mod tiles;

pub use crate::umd::closed_list::ClosedList;
pub use allocator::CommandAllocator;
pub use any::AnyList;
pub use barrier::Barrier;
pub use descriptors::DescriptorHeap;
pub use dispatch::{Arg, BufferAt};
pub use pipeline::{INDIRECT_BYTES, MAX_INDIRECT, PipelineState, PredicationOp};
pub use query::QueryHeap;
pub(crate) use query::check_queries;
pub use recording::CommandList;
pub use texture::{TexelBox, TextureCopyLocation};
pub use tiles::TileCopy;
