//! Owns messages with files over a socket that keeps their bounds (SOCK_SEQPACKET).
//!
//! Invariants: a message arrives whole or not at all, and none is longer than [`MAX_MESSAGE_BYTES`] or
//! brings more than [`MAX_FILES`] files. Files that arrive are closed in a process that executes
//! another program.
//!
//! Sending never blocks. Each end has one message at a time on its way, so there is room for it. A client
//! that sends on and reads no answer fills its buffer, and its connection ends. A service that waited for it
//! would wait for ever: messages that are not received may hold the last copy of the client's own socket.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The longest message in bytes: a call with the longest published list fits.
pub(crate) const MAX_MESSAGE_BYTES: usize = 160 << 10;
/// Most files of one message.
pub(crate) const MAX_FILES: usize = 8;

/// One end of a socket.
#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

/// A message that arrived.
pub(crate) struct Received<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) files: Vec<OwnedFd>,
}

impl Link {
    pub(crate) fn new(socket: OwnedFd) -> Link {
        Link(socket)
    }

    /// Sends a message, which does not block.
    ///
    /// # Errors
    /// InvalidInput for a message or a list of files that is too long; WouldBlock for an end that does
    /// not read; what the system refuses, when the other end is closed above all.
    pub(crate) fn send(&self, body: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        if body.len() > MAX_MESSAGE_BYTES || files.len() > MAX_FILES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files"));
        }
        let body = [IoSlice::new(body)];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match rustix::net::sendmsg(&self.0, &body, &mut ancillary, flags) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for a message. `None`: the other end is closed.
    ///
    /// # Errors
    /// InvalidData for a message that is too long, or brings too many files; what the system refuses.
    pub(crate) fn receive<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<Option<Received<'a>>> {
        buffer.resize(MAX_MESSAGE_BYTES, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = loop {
            let mut into = [IoSliceMut::new(buffer)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match rustix::net::recvmsg(&self.0, &mut into, &mut ancillary, flags) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        let mut files = Vec::new();
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = part {
                files.extend(rights);
            }
        }
        if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
        }
        if message.bytes == 0 && files.is_empty() {
            return Ok(None);
        }
        Ok(Some(Received { body: &buffer[..message.bytes], files }))
    }

    /// Sends a last message, which the other end reads whether or not it has sent one itself: a
    /// socket that is closed with unread messages would drop it.
    pub(crate) fn turn_away(self, body: &[u8]) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Read);
        // Without room for them, files that came are closed.
        let drained = || {
            let mut files = RecvAncillaryBuffer::default();
            let read = rustix::net::recvmsg(&self.0, &mut [], &mut files, RecvFlags::DONTWAIT);
            read.map_or(true, |message| message.flags.is_empty() && message.bytes == 0)
        };
        while !drained() {}
        // The client may be gone already.
        let _ = self.send(body, &[]);
    }

    /// Ends the connection. Both ends receive no more messages.
    pub(crate) fn shut_down(&self) {
        // It is closed already, or the other end is.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
