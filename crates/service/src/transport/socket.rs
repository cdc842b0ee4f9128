//! A link over a socket that keeps the bounds of messages (SOCK_SEQPACKET).
//!
//! Files that arrive are closed in a process that executes another program.
//!
//! Sending never blocks. Each end has one message at a time on its way, so there is room for it. A
//! client that sends on and reads no answer fills its buffer, and its connection ends. A service
//! that waited for it would wait for ever: messages that are not received may hold the last copy of
//! the client's own socket.

use super::attachment::Attachment;
use super::message::{Heard, MAX_ATTACHMENTS, MAX_MESSAGE_BYTES, Peer, Received};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

pub(super) fn send<'a>(
    socket: &OwnedFd,
    body: &[u8],
    attached: impl Iterator<Item = &'a Attachment>,
) -> io::Result<()> {
    let files = attached.map(|one| one.file().ok_or_else(|| invalid("no file")));
    let files: Vec<BorrowedFd<'_>> = files.collect::<io::Result<_>>()?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHMENTS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(invalid("too many files"));
    }
    let body = [IoSlice::new(body)];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match rustix::net::sendmsg(socket, &body, &mut ancillary, flags) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

pub(super) fn receive<'a>(
    socket: &OwnedFd,
    buffer: &'a mut Vec<u8>,
) -> io::Result<Option<Received<'a>>> {
    buffer.resize(MAX_MESSAGE_BYTES, 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHMENTS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let mut into = [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            other => break other?,
        }
    };
    let mut attached = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            attached.extend(rights.map(Attachment::from));
        }
    }
    if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    if message.bytes == 0 && attached.is_empty() {
        return Ok(None);
    }
    Ok(Some(Received { body: &buffer[..message.bytes], attached }))
}

/// Receives no more, and drops what came: a socket that is closed with unread messages would drop
/// what it has sent.
pub(super) fn drain(socket: &OwnedFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
    // Without room for them, files that came are closed.
    let drained = || {
        let mut files = RecvAncillaryBuffer::default();
        let read = rustix::net::recvmsg(socket, &mut [], &mut files, RecvFlags::DONTWAIT);
        read.map_or(true, |message| message.flags.is_empty() && message.bytes == 0)
    };
    while !drained() {}
}

pub(super) fn shut_down(socket: &OwnedFd) {
    // It is closed already, or the other end is.
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

pub(super) fn peer(socket: &OwnedFd) -> io::Result<Peer> {
    let peer = sockopt::socket_peercred(socket)?;
    let pid = peer.pid.as_raw_nonzero().get().unsigned_abs();
    Ok(Peer { pid, uid: peer.uid.as_raw() })
}

pub(super) fn wait_for(socket: &OwnedFd, bell: &OwnedFd) -> Heard {
    loop {
        let mut polled = [
            PollFd::new(bell, PollFlags::IN),
            // Only its end matters; messages are read by the calls.
            PollFd::new(socket, PollFlags::RDHUP),
        ];
        let result = rustix::event::poll(&mut polled, None);
        let ended = !polled[1].revents().is_empty();
        match result {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return Heard::End,
            Ok(_) if ended => return Heard::End,
            Ok(_) => {}
        }
        let _ = rustix::io::read(bell, &mut [0; 8]);
        return Heard::Bell;
    }
}
