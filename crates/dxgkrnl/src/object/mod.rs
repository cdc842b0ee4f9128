//! The objects that processes hold by handle.

mod fence;

pub(crate) use fence::FenceObject;
