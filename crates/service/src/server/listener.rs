//! The socket of a service: takes clients, and ends them with it.

use super::config::ServerConfig;
use super::counts::{Counters, Counts};
use super::session;
use super::shared::{Adapters, Recorder, Shared};
use crate::nt_handles::NtHandles;
use crate::transport::Link;
use crate::wire::{self, Refusal, Welcome};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use tidegate_platform::{Platform, Step};

/// Clients that may wait to be taken.
const BACKLOG: i32 = 1024;

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

/// A service that listens.
pub struct Server {
    shared: Arc<Shared>,
    listener: OwnedFd,
    stop: Arc<OwnedFd>,
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
    /// The system has no descriptor left.
    ///
    /// # Panics
    /// The platform does not share its memory ([`Platform::sharing_host`]).
    pub fn new(
        platform: &Platform,
        listener: OwnedFd,
        adapters: Box<dyn Adapters>,
        config: ServerConfig,
    ) -> io::Result<Server> {
        assert!(platform.shares_memory(), "a service needs memory that processes can map");
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let stop = Arc::new(rustix::event::eventfd(0, flags)?);
        let shared = Arc::new(Shared {
            platform: platform.clone(),
            adapters,
            config,
            nt_handles: NtHandles::new(platform),
            links: platform.mutex("sockets of clients", BTreeMap::new()),
            sessions: platform.mutex("processes of clients", BTreeMap::new()),
            live: platform.page(1).word(0),
            counts: Counters::new(platform),
            recorder: platform.mutex("recordings of a service", Recorder::default()),
        });
        Ok(Server { shared, listener, stop })
    }

    /// Returns what stops the service.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Returns what the service has counted.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Takes clients until it is stopped. Then their sockets are closed, and it returns when each of
    /// their processes has ended.
    ///
    /// # Errors
    /// What the system refuses while it waits for clients.
    pub fn serve(&self) -> io::Result<()> {
        let mut next = 1;
        let result = loop {
            let mut polled = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&self.stop, PollFlags::IN),
            ];
            match rustix::event::poll(&mut polled, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => break Err(error.into()),
                Ok(_) if !polled[1].revents().is_empty() => break Ok(()),
                Ok(_) => {}
            }
            match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    self.take(Link::new(socket), next);
                    next += 1;
                }
                // A client that left again, or no descriptor for it: the next one may have more luck.
                Err(error) => tracing::warn!(%error, "a client was not accepted"),
            }
        };
        // Clients that were about to be taken are refused by the system.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        self.shared.links.lock().values().for_each(|link| link.shut_down());
        loop {
            match self.shared.live.load() {
                0 => return result,
                live => {
                    self.shared.live.wait_while(live as u32, None, "the last sessions");
                }
            }
        }
    }

    fn take(&self, link: Link, number: u64) {
        let shared = &self.shared;
        if let Some(refusal) = self.refusal(&link) {
            shared.counts.refused.fetch_add(1);
            let answer: Result<Welcome, Refusal> = Err(refusal);
            link.turn_away(&wire::encode(&answer));
            return;
        }
        let link = Arc::new(link);
        shared.links.lock().insert(number, link.clone());
        shared.live.fetch_add(1);
        shared.counts.accepted.fetch_add(1);
        let ended = Ended { shared: shared.clone(), number };
        let begun = shared.platform.spawn_outside(&format!("client {number}"), move || {
            let ended = ended;
            session::serve(&ended.shared, &link, number);
        });
        if let Err(error) = begun {
            tracing::warn!(session = number, %error, "no thread for a client");
        }
    }

    fn refusal(&self, link: &Link) -> Option<Refusal> {
        let (config, live) = (&self.shared.config, self.shared.live.load());
        if live >= u64::from(config.clients) {
            return Some(Refusal::TooManyClients(config.clients));
        }
        let own = rustix::process::geteuid();
        let peer = sockopt::socket_peercred(link).map(|peer| peer.uid);
        match peer {
            Ok(uid) if config.any_user || uid == own || uid.is_root() => None,
            _ => Some(Refusal::OtherUser),
        }
    }
}

/// The end of a session, also by a panic.
struct Ended {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Ended {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.counts.sessions_failed.fetch_add(1);
        }
        self.shared.links.lock().remove(&self.number);
        self.shared.live.fetch_add(1u64.wrapping_neg());
        self.shared.live.wake(u32::MAX, Step::ThreadWake);
    }
}
