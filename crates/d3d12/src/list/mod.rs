//! Command lists: recording, the rules of what a list takes, and closing.
//!
//! Rooms: `copy`, `dispatch` and `modelled` (commands) · `recording` (the open list).
//!
//! A [`CommandList`] is open until [`CommandList::close`] consumes it; only the [`ClosedList`] that
//! it returns can be executed. A closed list can be executed any number of times, on any queue of
//! its type, also while it is running. It may be dropped at once after `execute`: the queue keeps
//! its memory until the GPU is done with it.
//!
//! Ranges are checked against their buffers while recording. The `_unchecked` calls take any
//! address. An address that is not mapped is a page fault of the GPU, which removes the device.

mod copy;
mod dispatch;
mod modelled;
mod recording;

pub use crate::umd::command_memory::ClosedList;
pub use dispatch::Arg;
pub use recording::CommandList;
