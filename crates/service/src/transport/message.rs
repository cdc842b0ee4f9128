//! Common to both forms of a link: bounds of messages, and received messages.

use super::attachment::Attachment;

/// The longest message in bytes: a call with the longest published list fits.
pub(crate) const MAX_MESSAGE_BYTES: usize = 160 << 10;
/// Most attachments of one message.
pub(crate) const MAX_ATTACHMENTS: usize = 8;

/// A message that arrived.
pub(crate) struct Received<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) attached: Vec<Attachment>,
}

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
}

/// What ended a wait for a bell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Bell,
    End,
}
