//! Command lists: recording, the rules of what a list takes, and closing.
//!
//! Rooms: `any` · `allocator` · `pipeline`, `descriptors`, `query`, `barrier`, `clear`, `copy`,
//! `texture`, `tiles` and `dispatch` (commands) · `recording` (the open list) · `root_state`.
//!
//! A [`CommandList`] is open until [`CommandList::close`] consumes it; only the [`ClosedList`] that
//! it returns can be executed. It may be dropped at once after `execute`: the queue keeps its
//! memory until the GPU is done with it.
//!
//! A list has a command memory of its own, or records from a [`CommandAllocator`]. With memory of
//! its own it can be executed any number of times, on any queue of its type, also while it is
//! running. With an allocator it obeys the published rules, see there.
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
