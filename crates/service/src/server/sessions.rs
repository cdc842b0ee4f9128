//! The sessions of a service: takes connections, and ends them.
//!
//! Entry points: [`super::Server`] takes clients from a socket, [`crate::client::connect_agent`] on
//! a cooperative platform.

use super::config::ServerConfig;
use super::counts::{Counters, Counts};
use super::session;
use super::shared::{Adapters, Processes, Recorder, Shared};
use super::users::{may_connect, own_user};
use crate::nt_handles::NtHandles;
use crate::transport::Link;
use crate::wire::{self, Refusal, Welcome};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_platform::planted;
use tidegate_platform::{Platform, Step, WaitEnd, Word};

/// The sessions of a service. A clone is the same ones.
#[derive(Clone)]
pub struct Sessions {
    pub(super) shared: Arc<Shared>,
    /// The number of the last one.
    last: Word,
}

impl Sessions {
    /// Sessions of a service of these adapters.
    ///
    /// # Panics
    /// The platform hands no memory over ([`Platform::hands_over_memory`]).
    pub fn new(platform: &Platform, adapters: Box<dyn Adapters>, config: ServerConfig) -> Sessions {
        assert!(platform.hands_over_memory(), "a service needs memory that processes can map");
        let shared = Arc::new(Shared {
            platform: platform.clone(),
            adapters,
            config,
            nt_handles: NtHandles::watched(platform),
            links: platform.mutex("sockets of clients", BTreeMap::new()),
            processes: platform.mutex("processes of clients", Processes::default()),
            live: platform.page(1).word(0),
            counts: Counters::new(platform),
            recorder: platform.mutex("recordings of a service", Recorder::default()),
        });
        Sessions { shared, last: platform.page(1).word(0) }
    }

    pub(crate) fn platform(&self) -> &Platform {
        &self.shared.platform
    }

    /// Returns what the service has counted.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Returns how many have not ended.
    pub fn live(&self) -> u64 {
        self.shared.live.load()
    }

    /// Ends all connections. Returns when each of their processes has ended, or the platform stops.
    /// No queued work is waited for, in orderly ends neither.
    pub fn end(&self) {
        self.shared.links.lock().values().for_each(|link| link.shut_down());
        let processes = self.shared.processes.lock().stop();
        processes.iter().for_each(|process| process.end_waits_for_work());
        self.wait_until_empty();
    }

    /// Returns when the process of each connection has ended, or the platform stops.
    pub(super) fn wait_until_empty(&self) {
        let live = &self.shared.live;
        let mut left = live.load();
        while left != 0 {
            if live.wait_while(left as u32, None, "the last sessions") == WaitEnd::Stopped {
                return;
            }
            left = live.load();
        }
    }

    /// Counts a connection, or turns the client away.
    fn admit(&self, link: Link) -> Option<(Arc<Link>, Ended)> {
        let shared = &self.shared;
        if let Some(refusal) = self.refusal(&link) {
            self.turn_away(&link, refusal);
            return None;
        }
        let (link, number) = (Arc::new(link), self.last.fetch_add(1) + 1);
        shared.links.lock().insert(number, link.clone());
        shared.live.fetch_add(1);
        shared.counts.accepted.fetch_add(1);
        Some((link, Ended { shared: shared.clone(), number }))
    }

    /// Serves a client on the calling thread until it ends, or turns it away.
    pub(super) fn serve(&self, link: Link) {
        if let Some((link, ended)) = self.admit(link) {
            session::serve(&ended.shared, &link, ended.number);
        }
    }

    /// Begins a session, or turns the client away.
    pub(crate) fn take(&self, link: Link) {
        let Some((link, ended)) = self.admit(link) else { return };
        let (shared, number) = (&self.shared, ended.number);
        let served = link.clone();
        let begun = shared.platform.spawn_outside(&format!("client {number}"), move || {
            let (link, ended) = (served, ended);
            session::serve(&ended.shared, &link, number);
        });
        if let Err(error) = begun {
            tracing::warn!(session = number, %error, "no thread for a client");
            // The session has ended with the closure. The client waits for an answer.
            self.turn_away(&link, Refusal::Open(Status::NO_MEMORY));
        }
    }

    /// Tells a client why it is not taken.
    pub(super) fn turn_away(&self, link: &Link, refusal: Refusal) {
        self.shared.counts.refused.fetch_add(1);
        let answer: Result<Welcome, Refusal> = Err(refusal);
        link.turn_away(&wire::encode(&answer));
    }

    fn refusal(&self, link: &Link) -> Option<Refusal> {
        let (config, live) = (&self.shared.config, self.shared.live.load());
        if live >= u64::from(config.clients) {
            return Some(Refusal::TooManyClients(config.clients));
        }
        match link.peer() {
            Ok(peer) if may_connect(peer.uid, own_user(), config) => None,
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
        // The fault is the mistake that the scenario served-stop-against-wait must find.
        if !planted!(self.shared.platform, LastSessionUnseen) {
            self.shared.live.wake(u32::MAX, Step::ThreadWake);
        }
    }
}
