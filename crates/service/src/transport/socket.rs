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
    SendAncillaryMessage, SendFlags, Shutdown,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tidegate_platform::os;

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
    // The space is aligned, so that one more may fit.
    let fits = files.len() <= MAX_ATTACHMENTS;
    if !fits || (!files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&files))) {
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
    let is_cut = message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    if is_cut || attached.len() > MAX_ATTACHMENTS {
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
    let peer = os::socket_peer(socket.as_fd())?;
    Ok(Peer { pid: peer.pid, uid: peer.uid })
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use std::io::PipeWriter;

    fn pair() -> (OwnedFd, OwnedFd) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    /// Files as attachments, and the ends that say when no copy of a file is left.
    fn files(count: usize) -> (Vec<Attachment>, Vec<PipeWriter>) {
        let pipes = (0..count).map(|_| io::pipe().unwrap());
        pipes.map(|(file, end)| (Attachment::from(OwnedFd::from(file)), end)).unzip()
    }

    fn is_closed(end: &PipeWriter) -> bool {
        let mut polled = [PollFd::new(end, PollFlags::empty())];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&now)).unwrap();
        polled[0].revents().contains(PollFlags::ERR)
    }

    /// Sends as a client does that keeps no limit.
    fn send_raw(socket: &OwnedFd, body: &[u8], attached: &[Attachment]) {
        let files: Vec<BorrowedFd<'_>> = attached.iter().map(|one| one.file().unwrap()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
        let body = [IoSlice::new(body)];
        rustix::net::sendmsg(socket, &body, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    }

    /// The length of the next message and the number of its files, or the kind of the error.
    fn received(socket: &OwnedFd) -> Result<Option<(usize, usize)>, io::ErrorKind> {
        let mut buffer = Vec::new();
        let received = receive(socket, &mut buffer).map_err(|error| error.kind())?;
        Ok(received.map(|received| (received.body.len(), received.attached.len())))
    }

    #[test]
    fn the_longest_message_is_received_and_a_longer_one_is_an_error() {
        let (client, session) = pair();
        let (attached, ends) = files(1);
        send(&client, &vec![7; MAX_MESSAGE_BYTES], attached.iter()).unwrap();
        assert_eq!(received(&session), Ok(Some((MAX_MESSAGE_BYTES, 1))));
        send_raw(&client, &vec![7; MAX_MESSAGE_BYTES + 1], &attached);
        drop(attached);
        assert_eq!(received(&session), Err(io::ErrorKind::InvalidData));
        assert!(ends.iter().all(is_closed), "its file is closed");
    }

    #[test]
    fn a_message_brings_eight_files_and_none_of_more_is_kept() {
        let (client, session) = pair();
        let (eight, _ends) = files(8);
        send(&client, b"eight", eight.iter()).unwrap();
        assert_eq!(received(&session), Ok(Some((5, 8))));
        let (nine, ends) = files(9);
        let refused = send(&client, b"nine", nine.iter()).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::InvalidInput));
        send_raw(&client, b"nine", &nine);
        drop(nine);
        assert_eq!(received(&session), Err(io::ErrorKind::InvalidData));
        assert!(ends.iter().all(is_closed));
    }

    #[test]
    fn a_message_without_bytes_is_the_end_unless_it_brings_a_file() {
        let (client, session) = pair();
        let (attached, _ends) = files(1);
        send(&client, &[], attached.iter()).unwrap();
        send(&client, &[], [].iter()).unwrap();
        assert_eq!((received(&session), received(&session)), (Ok(Some((0, 1))), Ok(None)));
    }

    #[test]
    fn files_arrive_in_order_and_are_closed_when_another_program_runs() {
        let (client, session) = pair();
        let (attached, _ends) = files(3);
        let sent: Vec<_> = attached.iter().map(|one| one.number().unwrap()).collect();
        send(&client, b"three", attached.iter()).unwrap();
        let mut buffer = Vec::new();
        let received = receive(&session, &mut buffer).unwrap().unwrap();
        let numbers: Vec<_> = received.attached.iter().map(|one| one.number().unwrap()).collect();
        assert_eq!(numbers, sent);
        for one in &received.attached {
            let flags = rustix::io::fcntl_getfd(one.file().unwrap()).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
    }

    #[test]
    fn what_is_no_file_is_not_sent() {
        let (client, session) = pair();
        let platform = tidegate_platform::Platform::host();
        let word = Attachment::of_word(&platform.page(1).word(0));
        let refused = send(&client, b"a word", [word].iter()).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::InvalidInput));
        send(&client, b"next", [].iter()).unwrap();
        assert_eq!(received(&session), Ok(Some((4, 0))));
    }

    #[test]
    fn a_sender_whose_messages_are_not_received_is_refused_and_does_not_block() {
        let (client, session) = pair();
        let sent = (0..1_000_000).find_map(|_| send(&client, &[7; 4096], [].iter()).err());
        assert_eq!(sent.unwrap().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(received(&session), Ok(Some((4096, 0))));
        send(&client, b"room again", [].iter()).unwrap();
        drop(session);
        let refused = send(&client, b"closed", [].iter()).map_err(|error| error.kind());
        assert!(matches!(refused, Err(io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)));
    }

    #[test]
    fn a_drained_socket_hands_over_its_last_message_and_closes_what_came() {
        let (client, session) = pair();
        let (attached, ends) = files(2);
        send(&client, b"hello", attached[..1].iter()).unwrap();
        send(&client, b"and more", attached[1..].iter()).unwrap();
        drop(attached);
        drain(&session);
        assert!(ends.iter().all(is_closed));
        send(&session, b"no", [].iter()).unwrap();
        drop(session);
        assert_eq!((received(&client), received(&client)), (Ok(Some((2, 0))), Ok(None)));
    }

    #[test]
    fn the_peer_of_a_socket_pair_is_this_process() {
        let (client, _session) = pair();
        let uid = rustix::process::getuid().as_raw();
        assert_eq!(peer(&client).unwrap(), Peer { pid: std::process::id(), uid });
    }

    #[test]
    fn the_end_of_a_connection_is_heard_before_a_ring() {
        let (client, session) = pair();
        let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
        rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
        send(&session, b"a message ends no wait", [].iter()).unwrap();
        assert_eq!(wait_for(&client, &bell), Heard::Bell);
        rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
        shut_down(&session);
        assert_eq!(wait_for(&client, &bell), Heard::End);
        let _open = client.as_fd();
    }
}
