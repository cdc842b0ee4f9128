//! Guests: a socket for virtual machines that speaks QEMU's ivshmem server protocol, and the
//! processes of a guest.
//!
//! A socket has one guest at a time, with a memory that no other guest has. When the virtual
//! machine closes its end, the guest's process ends as a killed one does. The next guest has a
//! fresh memory.
//!
//! Threads of a guest: one serves its process, one its rings. Both end with its connection.

use super::sessions::Sessions;
use crate::transport::{GUEST_PEER, HOST_PEER, Link, Mailbox, OBJECTS_AT, VECTORS};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Weak};
use tidegate_platform::{Mutex, Step, WaitEnd, Word};

/// The version of the protocol of ivshmem.
const PROTOCOL: i64 = 0;
/// Announces the memory.
const MEMORY: i64 = -1;
/// Virtual machines that may wait to be taken or turned away.
const BACKLOG: i32 = 8;

/// The smallest and largest memory of a guest, in bytes.
pub const GUEST_BYTES: [u64; 2] = [1 << 20, 1 << 40];
const _: () = assert!(OBJECTS_AT < GUEST_BYTES[0]);

/// Returns a socket for [`super::Server::serve_guests`] that listens at `path`, which it makes.
///
/// # Errors
/// As [`super::listen`].
pub fn listen_for_guests(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Sends one message of the protocol.
fn send(machine: &OwnedFd, value: i64, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes = value.to_le_bytes();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match rustix::net::sendmsg(machine, &[IoSlice::new(&bytes)], &mut ancillary, flags)? {
        8 => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Tells a virtual machine its number, its memory, and the vectors of the host and its own.
fn introduce(mailbox: &Mailbox) -> io::Result<()> {
    let machine = mailbox.machine();
    send(machine, PROTOCOL, None)?;
    send(machine, i64::from(GUEST_PEER), None)?;
    send(machine, MEMORY, Some(mailbox.room().file()))?;
    let peers = [HOST_PEER, GUEST_PEER];
    for (peer, vectors) in peers.into_iter().zip(mailbox.vectors()) {
        let vectors: &[OwnedFd; VECTORS] = vectors;
        vectors.iter().try_for_each(|one| send(machine, i64::from(peer), Some(one.as_fd())))?;
    }
    Ok(())
}

/// The socket of guests, and what a thread needs to serve one.
pub(super) struct Guests {
    pub(super) sessions: Sessions,
    pub(super) listener: OwnedFd,
    pub(super) bytes: u64,
    /// Readable once the service stops.
    pub(super) stop: Arc<OwnedFd>,
    /// 1 while there is a guest.
    pub(super) taken: Word,
    /// The memory of the guest that came last.
    pub(super) last: Mutex<Weak<Mailbox>>,
}

/// The end of a guest, also by a panic.
struct Ended {
    mailbox: Arc<Mailbox>,
    taken: Word,
    sessions: Sessions,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.mailbox.close();
        self.sessions.shared.counts.guests.fetch_add(1u64.wrapping_neg());
        self.taken.store(0);
        self.taken.wake(u32::MAX, Step::ThreadWake);
    }
}

impl Guests {
    /// Takes virtual machines until the service stops.
    pub(super) fn serve(&self) {
        loop {
            let mut polled = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&self.stop, PollFlags::IN),
            ];
            match rustix::event::poll(&mut polled, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) if !polled[1].revents().is_empty() => return,
                Ok(_) => {}
            }
            let machine = match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(machine) => machine,
                Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => continue,
                Err(error) => return tracing::error!(%error, "no more guests are taken"),
            };
            if !self.is_free() {
                tracing::warn!("a second guest at one socket was turned away");
                continue;
            }
            if let Err(error) = self.begin(machine) {
                tracing::warn!(%error, "a guest was not taken");
            }
        }
    }

    /// Returns whether the socket has no guest. Waits for the end of a guest that has left.
    fn is_free(&self) -> bool {
        let last = self.last.lock_device().upgrade();
        if last.is_some_and(|last| !last.has_left()) {
            return false;
        }
        while self.taken.load() != 0 {
            if self.taken.wait_while(1, None, "the end of a guest") == WaitEnd::Stopped {
                return false;
            }
        }
        true
    }

    fn begin(&self, machine: OwnedFd) -> io::Result<()> {
        let platform = self.sessions.platform().clone();
        let mailbox = Arc::new(Mailbox::new(&platform, self.bytes, machine, &self.stop)?);
        introduce(&mailbox)?;
        *self.last.lock_device() = Arc::downgrade(&mailbox);
        self.taken.store(1);
        self.sessions.shared.counts.guests.fetch_add(1);
        let (sessions, taken) = (self.sessions.clone(), self.taken.clone());
        let ended = Ended { mailbox: mailbox.clone(), taken, sessions: sessions.clone() };
        let (rings, wakes) = (mailbox.clone(), sessions.clone());
        platform.spawn_outside("rings of a guest", move || {
            rings.serve_rings(|| _ = wakes.shared.counts.guest_wakes.fetch_add(1));
        })?;
        platform.spawn_outside("guest", move || {
            let ended = ended;
            tracing::info!("a guest has come");
            while let Some(process) = ended.mailbox.next_process() {
                sessions.serve(Link::Host(process));
            }
            tracing::info!("a guest has left");
        })
    }
}
