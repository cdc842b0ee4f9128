//! Resources: memory that lists name.
//!
//! Rooms: [`buffer`] · [`reference`] (any resource, as barriers take it).

pub mod buffer;
pub mod reference;

pub use buffer::Buffer;
pub use reference::Resource;
