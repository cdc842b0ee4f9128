//! Placeholder until the room is built.
pub(crate) fn command(_: &crate::arguments::Explore) -> Result<crate::End, crate::BadInput> { Ok(crate::End::Right) }
pub(crate) fn replay(_: &crate::arguments::Replay) -> Result<crate::End, crate::BadInput> { Ok(crate::End::Right) }
