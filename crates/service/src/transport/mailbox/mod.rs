//! A link to a process in a guest: messages in the memory that the guest has as a BAR, and memory
//! of objects in the same BAR.
//!
//! Invariants: the guest may store to each byte at any time. The host loads a word of it once and
//! checks the copy, copies a message out before it is decoded, and reads nothing back that it has
//! stored. A guest reads what it likes: the BAR has nothing of other clients.
//!
//! A request: the guest stores its bytes, kind and length, then its number, and rings the host. The
//! answer: the host stores its bytes, length and places, then the number, and interrupts the guest.
//! `docs/service.md` has the layout as a table.

mod guest;
mod host;

pub use guest::GuestDevice;
pub(crate) use guest::GuestEnd;
pub(crate) use host::{GuestRing, HostEnd, Mailbox};

use super::message::{MAX_ATTACHMENTS, MAX_MESSAGE_BYTES};

/// The first word of the BAR: "tidegate" as bytes.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"tidegate");
/// The version of the layout.
pub(super) const LAYOUT_VERSION: u64 = 1;
/// The peer that the host is, and the guest.
pub(crate) const HOST_PEER: u16 = 0;
pub(crate) const GUEST_PEER: u16 = 1;
/// Vectors of each peer.
pub(crate) const VECTORS: usize = 2;
/// Vectors of the host: a request is there; an engine that slept has work.
pub(super) const REQUESTED: usize = 0;
pub(super) const WOKEN: usize = 1;
/// Vectors of the guest: an answer is there; waits are over.
pub(super) const ANSWERED: usize = 0;
pub(super) const NOTICED: usize = 1;

pub(super) const PAGE_BYTES: u64 = 4096;
pub(super) const PAGE_WORDS: usize = 512;
/// Offsets: words of the mailbox, bytes of a request, bytes of an answer, memory of objects.
pub(super) const WORDS_AT: u64 = PAGE_BYTES;
pub(super) const REQUEST_AT: u64 = 2 * PAGE_BYTES;
pub(super) const ANSWER_AT: u64 = REQUEST_AT + MAX_MESSAGE_BYTES as u64;
pub(crate) const OBJECTS_AT: u64 = ANSWER_AT + MAX_MESSAGE_BYTES as u64;

/// The words of the header, in order.
pub(super) fn header(bytes: u64) -> [u64; 8] {
    let version = u64::from(crate::wire::VERSION);
    let room = MAX_MESSAGE_BYTES as u64;
    [MAGIC, LAYOUT_VERSION, version, bytes, WORDS_AT, REQUEST_AT, ANSWER_AT, room]
}

/// Words of the mailbox. The guest stores the first ones.
pub(super) const REQUEST_NUMBER: usize = 0;
pub(super) const REQUEST_KIND: usize = 1;
pub(super) const REQUEST_BYTES: usize = 2;
/// The host stores the others, each kind on a cache line.
pub(super) const ANSWER_NUMBER: usize = 8;
pub(super) const ANSWER_BYTES: usize = 9;
pub(super) const ANSWER_PLACES: usize = 10;
/// Offset and length of each place.
pub(super) const FIRST_PLACE: usize = 16;
/// The number of the first request of the process that has ended last.
pub(super) const ENDED: usize = FIRST_PLACE + 2 * MAX_ATTACHMENTS;
/// 1 once the service has left.
pub(super) const CLOSED: usize = ENDED + 1;
/// Changes when waits are over.
pub(super) const NOTICES: usize = ENDED + 8;

/// Kinds of requests: the first message of a process, a later one, the end of the process.
pub(super) const BEGIN: u64 = 1;
pub(super) const MESSAGE: u64 = 2;
pub(super) const END: u64 = 3;

#[cfg(test)]
mod tests;
