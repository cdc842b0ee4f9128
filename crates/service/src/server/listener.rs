//! The socket of a service: takes clients, and ends them with it.

use super::counts::Counts;
use super::guests::{GUEST_BYTES, Guests};
use super::sessions::Sessions;
use crate::transport::{Link, new_eventfd};
use crate::wire::Refusal;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Weak};
use tidegate_platform::{Event, Mutex, Step};

/// Clients that may wait to be taken.
const BACKLOG: i32 = 1024;
/// Time until the next try, after a client could neither be taken nor turned away.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Why no client was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcceptFailure {
    /// The client left again, or a signal interrupted the call. The next client is accepted as
    /// usual.
    Passing,
    /// The process or the system lacks a descriptor or memory. The client still waits, so the
    /// listener stays readable.
    NoResources,
    /// Any other failure. The listener may stay readable.
    Other,
}

impl AcceptFailure {
    fn of(error: Errno) -> AcceptFailure {
        match error {
            Errno::CONNABORTED | Errno::INTR => AcceptFailure::Passing,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS => {
                AcceptFailure::NoResources
            }
            _ => AcceptFailure::Other,
        }
    }
}

/// Returns a socket for [`Server::new`] that listens at `path`, which it makes.
///
/// # Errors
/// The path is too long for a socket, or the system refuses it: AddrInUse for a file that exists.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let address = SocketAddrUnix::new(path)?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Raises this process's limit of descriptors as far as the system allows: each page that clients
/// map is a descriptor of the service. A limit that cannot be raised stays.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns a descriptor with an open file of its own.
fn spare_descriptor() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?)
}

/// A service that listens.
pub struct Server {
    sessions: Sessions,
    listener: OwnedFd,
    stop: Arc<OwnedFd>,
    /// A descriptor that is given up to turn a client away when no other is left; `None` when it
    /// could not be had again. It has an open file of its own, so giving it up also helps against
    /// ENFILE.
    spare: Mutex<Option<OwnedFd>>,
    /// Set when the thread that ends closed NT handles has ended.
    sweeper_has_ended: Event,
}

/// Has a thread end NT handles when their files are closed, until the service stops: a client that
/// is killed closes them one after the other, some of them after its session has ended.
///
/// # Errors
/// The system has no thread left.
fn end_closed_handles(sessions: &Sessions, stop: &Arc<OwnedFd>) -> io::Result<Event> {
    let platform = sessions.platform();
    let (sessions, stop, ended) = (sessions.clone(), stop.clone(), platform.event(true));
    let set = ended.clone();
    platform.spawn_outside("closed NT handles", move || {
        sessions.shared.nt_handles.sweep_until(&stop);
        drop(sessions);
        set.set(Step::ThreadWake);
    })?;
    Ok(ended)
}

/// Stops a service, from any thread or from a signal's.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// Has [`Server::serve`] return.
    pub fn stop(&self) {
        // A counter that is full is readable, too.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl Server {
    /// A service on a listening socket that keeps the bounds of messages (SOCK_SEQPACKET).
    ///
    /// # Errors
    /// The system has no descriptor or thread left.
    ///
    /// # Panics
    /// The platform does not share its memory ([`Platform::sharing_host`]).
    ///
    /// [`Platform::sharing_host`]: tidegate_platform::Platform::sharing_host
    pub fn new(listener: OwnedFd, sessions: Sessions) -> io::Result<Server> {
        let shares = sessions.platform().shares_memory();
        assert!(shares, "a socket's clients need memory that lies in files");
        let stop = Arc::new(new_eventfd()?);
        let spare = sessions.platform().mutex("spare descriptor", Some(spare_descriptor()?));
        let sweeper_has_ended = end_closed_handles(&sessions, &stop)?;
        Ok(Server { sessions, listener, stop, spare, sweeper_has_ended })
    }

    /// Takes guests at `listener` ([`super::listen_for_guests`]), one at a time, each with a memory
    /// of `bytes` bytes, until the service stops.
    ///
    /// # Errors
    /// InvalidInput for `bytes` outside of [`GUEST_BYTES`], or not a power of two; the system
    /// has no thread left.
    ///
    /// # Panics
    /// The platform was not made by [`Platform::hosting_guests`].
    ///
    /// [`Platform::hosting_guests`]: tidegate_platform::Platform::hosting_guests
    pub fn serve_guests(&self, listener: OwnedFd, bytes: u64) -> io::Result<()> {
        let platform = self.sessions.platform();
        assert!(platform.hosts_guests(), "guests need copies of memory that they may only read");
        let [least, most] = GUEST_BYTES;
        if !bytes.is_power_of_two() || !(least..=most).contains(&bytes) {
            let what = format!("{bytes} bytes are no power of two from {least} to {most}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let (sessions, stop) = (self.sessions.clone(), self.stop.clone());
        let taken = platform.page(1).word(0);
        let last = platform.mutex("the guest of a socket", Weak::new());
        let guests = Guests { sessions, listener, bytes, stop, taken, last };
        platform.spawn_outside("guests", move || guests.serve())
    }

    /// Returns what stops the service.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Returns what the service has counted.
    pub fn counts(&self) -> Counts {
        self.sessions.counts()
    }

    /// Takes clients until it is stopped. Then their sockets are closed, and it returns when each
    /// of their processes has ended.
    ///
    /// # Errors
    /// What the system refuses while it waits for clients.
    pub fn serve(&self) -> io::Result<()> {
        // Whether the last try failed, so that a lasting failure is logged once.
        let mut is_failing = false;
        let result = loop {
            let mut polled = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&self.stop, PollFlags::IN),
            ];
            match rustix::event::poll(&mut polled, None) {
                Err(Errno::INTR) => continue,
                Err(error) => break Err(error.into()),
                Ok(_) if !polled[1].revents().is_empty() => break Ok(()),
                Ok(_) => {}
            }
            let tried = match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    self.sessions.take(Link::Socket(socket));
                    Ok(())
                }
                Err(error) => match AcceptFailure::of(error) {
                    AcceptFailure::Passing => continue,
                    AcceptFailure::NoResources => self.turn_away_without_descriptor(),
                    AcceptFailure::Other => Err(error),
                },
            };
            if let Err(error) = tried {
                if !is_failing {
                    tracing::warn!(%error, "a client was not accepted");
                }
                // The listener stays readable: the next try waits, or for the stop.
                let mut stop = [PollFd::new(&self.stop, PollFlags::IN)];
                let _ = rustix::event::poll(&mut stop, Some(&RETRY));
            }
            is_failing = tried.is_err();
        };
        // Clients that were about to be taken are refused by the system.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        self.sessions.end();
        result
    }

    /// Turns the next client away, by the spare descriptor. Else the client would wait for an
    /// answer, and the service would try again and again to accept it.
    ///
    /// # Errors
    /// The client could not be accepted even so.
    fn turn_away_without_descriptor(&self) -> Result<(), Errno> {
        let mut spare = self.spare.lock_device();
        drop(spare.take());
        let accepted = rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC);
        let turned_away = match accepted {
            Ok(socket) => {
                self.sessions.turn_away(&Link::Socket(socket), Refusal::NoDescriptor);
                Ok(())
            }
            Err(error) if AcceptFailure::of(error) == AcceptFailure::Passing => Ok(()),
            Err(error) => Err(error),
        };
        *spare = spare_descriptor().ok();
        turned_away
    }

    /// Waits until all clients that were taken have left, and their processes have ended.
    pub fn wait_until_empty(&self) {
        self.sessions.wait_until_empty();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopper().stop();
        let _ended = self.sweeper_has_ended.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_turned_away_when_process_or_system_lacks_resources() {
        for error in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS] {
            assert_eq!(AcceptFailure::of(error), AcceptFailure::NoResources, "{error}");
        }
    }

    #[test]
    fn a_client_that_left_and_a_signal_are_no_failures() {
        for error in [Errno::CONNABORTED, Errno::INTR] {
            assert_eq!(AcceptFailure::of(error), AcceptFailure::Passing, "{error}");
        }
        assert_eq!(AcceptFailure::of(Errno::INVAL), AcceptFailure::Other);
    }
}
