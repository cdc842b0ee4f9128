//! Messages with attachments between a client and its session, the only seam of the service.
//!
//! A [`Link`] is one end of a connection, in one of three forms: a socket (`socket`), a pair of
//! queues between agents of one cooperative platform (`queues`), on which sessions and calls are
//! explored, or the memory that a guest has as a BAR (`mailbox`). What travels beside a message is
//! an [`Attachment`]; a [`Bell`] wakes a client that sleeps for no call. Everything above this file
//! is the same code in each form.
//!
//! Invariants: a message arrives whole or not at all, and in order. None is longer than
//! [`MAX_MESSAGE_BYTES`] or brings more than [`message::MAX_ATTACHMENTS`] attachments. Sending
//! never blocks.

mod attachment;
mod bell;
mod eventfd;
mod mailbox;
mod message;
mod queues;
mod socket;

pub(crate) use attachment::{Attachment, Number, Remains, ended, file_number};
pub(crate) use bell::Bell;
pub(crate) use eventfd::new_eventfd;
pub use mailbox::GuestDevice;
pub(crate) use mailbox::{
    GUEST_PEER, GuestEnd, GuestRing, HOST_PEER, HostEnd, Mailbox, OBJECTS_AT, VECTORS,
};
pub(crate) use message::{Heard, MAX_MESSAGE_BYTES, Peer, Received};
pub use queues::Life;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tidegate_platform::Platform;

/// One end of a connection. Dropping it ends the connection.
#[derive(Debug)]
pub(crate) enum Link {
    Socket(OwnedFd),
    Queues(queues::End),
    /// The host's end.
    Host(HostEnd),
    /// The guest's end.
    Guest(GuestEnd),
}

impl Link {
    /// Returns a new connection between agents of a cooperative platform: the client's end, the
    /// session's, and the client's life.
    pub(crate) fn pair(platform: &Platform) -> (Link, Link, Life) {
        let (client, session) = queues::pair(platform);
        let life = client.life();
        (Link::Queues(client), Link::Queues(session), life)
    }

    /// Sends a message, which does not block.
    ///
    /// # Errors
    /// InvalidInput for a message or a list of attachments that is too long; WouldBlock for an end
    /// that does not read; what the system refuses, when the other end is closed above all.
    pub(crate) fn send<'a>(
        &self,
        body: &[u8],
        attached: impl IntoIterator<Item = &'a Attachment>,
    ) -> io::Result<()> {
        if body.len() > MAX_MESSAGE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
        }
        let attached = attached.into_iter();
        match self {
            Link::Socket(socket) => socket::send(socket, body, attached),
            Link::Queues(end) => end.send(body, attached),
            Link::Host(end) => end.send(body, attached),
            Link::Guest(end) => match attached.count() {
                0 => end.send(body),
                _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a guest sends no files")),
            },
        }
    }

    /// Waits for a message. `None`: the other end is closed.
    ///
    /// # Errors
    /// InvalidData for a message that is too long, or brings too many files; what the system
    /// refuses.
    pub(crate) fn receive<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<Option<Received<'a>>> {
        match self {
            Link::Socket(socket) => socket::receive(socket, buffer),
            Link::Queues(end) => Ok(end.receive(buffer)),
            Link::Host(end) => end.receive(buffer),
            Link::Guest(end) => end.receive(buffer),
        }
    }

    /// Sends a last message, which the other end reads whether or not it has sent one itself.
    pub(crate) fn turn_away(&self, body: &[u8]) {
        if let Link::Socket(socket) = self {
            socket::drain(socket);
        }
        // The client may be gone already.
        let _ = self.send(body, []);
    }

    /// Sends a last message without attachments, and ends the connection, both in one step. The
    /// other end receives it although answers are unread here, which are dropped.
    pub(crate) fn send_last(&self, body: &[u8]) {
        match self {
            Link::Socket(socket) => {
                // The other end may be gone already.
                let _ = socket::send(socket, body, std::iter::empty());
                socket::shut_down(socket);
                socket::drain(socket);
            }
            Link::Queues(end) => end.send_last(body),
            Link::Guest(end) => end.send_last(body),
            // A session sends no goodbye.
            Link::Host(end) => end.mailbox().cut_off(),
        }
    }

    /// Ends the connection. Both ends receive what was sent before, and no more.
    pub(crate) fn shut_down(&self) {
        match self {
            Link::Socket(socket) => socket::shut_down(socket),
            Link::Queues(end) => end.shut_down(),
            Link::Host(end) => end.mailbox().cut_off(),
            Link::Guest(end) => end.shut_down(),
        }
    }

    /// Returns the process at the other end.
    ///
    /// # Errors
    /// The system does not know it.
    pub(crate) fn peer(&self) -> io::Result<Peer> {
        match self {
            Link::Socket(socket) => socket::peer(socket),
            Link::Host(end) => end.peer(),
            Link::Queues(_) | Link::Guest(_) => Ok(Peer {
                pid: rustix::process::getpid().as_raw_nonzero().get().unsigned_abs(),
                uid: rustix::process::geteuid().as_raw(),
            }),
        }
    }

    /// Returns the session's side of a bell for the client.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn bell(&self) -> io::Result<Bell> {
        match self {
            Link::Socket(_) => Ok(Bell::Eventfd(Arc::new(new_eventfd()?))),
            Link::Queues(end) => Ok(Bell::Word(end.bell())),
            Link::Host(end) => Ok(Bell::Guest(end.mailbox().clone())),
            Link::Guest(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Returns the mailbox of the guest at the other end.
    pub(crate) fn mailbox(&self) -> Option<&Arc<Mailbox>> {
        match self {
            Link::Host(end) => Some(end.mailbox()),
            _ => None,
        }
    }

    /// Wakes the engines of this process by a register; false where only a message does.
    pub(crate) fn wake_engines(&self) -> bool {
        let Link::Guest(end) = self else { return false };
        end.wake_engines();
        true
    }

    /// Returns whether messages of the client may have attachments.
    pub(crate) fn carries_attachments(&self) -> bool {
        !matches!(self, Link::Host(_) | Link::Guest(_))
    }

    /// Returns whether a thread of this process that sleeps on a word of shared memory is woken by
    /// the other end.
    pub(crate) fn wakes_sleepers(&self) -> bool {
        !matches!(self, Link::Guest(_))
    }

    /// Waits until the bell rings or the connection ends; messages end no wait. For a client. The
    /// ring is taken before this returns, so that a later one ends the next wait.
    pub(crate) fn wait_for(&self, bell: &Bell) -> Heard {
        match (self, bell) {
            (Link::Socket(socket), Bell::Eventfd(bell)) => socket::wait_for(socket, bell),
            (_, Bell::Word(word)) => queues::wait_for(word),
            (Link::Guest(end), _) => end.wait_for_notices(),
            _ => Heard::End,
        }
    }
}

#[cfg(test)]
impl Link {
    /// Returns the two ends of a new connection over a socket.
    pub(crate) fn socket_pair() -> (Link, Link) {
        use rustix::net::{AddressFamily, SocketFlags, SocketType};
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (one, other) =
            rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        (Link::Socket(one), Link::Socket(other))
    }

    /// Sends no more. The other end receives what was sent.
    pub(crate) fn finish(&self) {
        let Link::Socket(socket) = self else { panic!("a link over a socket") };
        rustix::net::shutdown(socket, rustix::net::Shutdown::Write).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::StepCosts;

    /// Runs a test over a socket, and over queues: an explored machine behaves as the system does.
    fn over_both(test: impl Fn(Link, Link)) {
        let (one, other) = Link::socket_pair();
        test(one, other);
        let (client, session, _) = Link::pair(&Platform::virtual_time(StepCosts::free()));
        test(client, session);
    }

    fn received(link: &Link) -> Option<Vec<u8>> {
        link.receive(&mut Vec::new()).unwrap().map(|received| received.body.to_vec())
    }

    #[test]
    fn what_was_sent_before_the_end_is_received_in_order() {
        over_both(|client, session| {
            client.send(b"one", []).unwrap();
            client.send(b"two", []).unwrap();
            drop(client);
            assert_eq!(received(&session).as_deref(), Some(&b"one"[..]));
            assert_eq!(received(&session).as_deref(), Some(&b"two"[..]));
            assert_eq!(received(&session), None);
            assert!(session.send(b"three", []).is_err());
        });
    }

    #[test]
    fn an_end_that_is_closed_with_an_unread_message_resets_the_connection() {
        over_both(|client, session| {
            client.send(b"a call", []).unwrap();
            session.send(b"an answer", []).unwrap();
            drop(client);
            assert_eq!(received(&session), None);
        });
    }

    #[test]
    fn both_ends_of_a_connection_that_was_shut_down_receive_what_was_sent() {
        over_both(|client, session| {
            client.send(b"a call", []).unwrap();
            session.send(b"an answer", []).unwrap();
            session.shut_down();
            assert_eq!(received(&session).as_deref(), Some(&b"a call"[..]));
            assert_eq!(received(&client).as_deref(), Some(&b"an answer"[..]));
            assert_eq!((received(&session), received(&client)), (None, None));
            assert!(client.send(b"another call", []).is_err());
        });
    }

    #[test]
    fn a_last_message_is_received_before_the_end() {
        over_both(|client, session| {
            client.send(b"a call", []).unwrap();
            client.send_last(b"goodbye");
            assert_eq!(received(&session).as_deref(), Some(&b"a call"[..]));
            assert_eq!(received(&session).as_deref(), Some(&b"goodbye"[..]));
            assert_eq!((received(&session), received(&client)), (None, None));
            client.send_last(b"late");
            assert_eq!(received(&session), None);
        });
    }

    #[test]
    fn a_last_message_is_received_although_an_answer_was_unread() {
        over_both(|client, session| {
            session.send(b"an answer", []).unwrap();
            client.send_last(b"goodbye");
            drop(client);
            assert_eq!(received(&session).as_deref(), Some(&b"goodbye"[..]));
            assert_eq!(received(&session), None);
        });
    }

    #[test]
    fn a_ring_is_heard_once_and_the_end_before_it() {
        over_both(|client, session| {
            let bell = session.bell().unwrap();
            let heard = Bell::of(bell.attachment().unwrap()).unwrap();
            bell.ring();
            bell.ring();
            assert_eq!(client.wait_for(&heard), Heard::Bell);
            bell.ring();
            session.shut_down();
            assert_eq!(client.wait_for(&heard), Heard::End);
        });
    }
}
