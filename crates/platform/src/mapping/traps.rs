//! Traps on stores to the addresses of windows.
//!
//! An armed window stops the next store to its address. [`StoreTraps::wait`] lets later stores
//! pass, says which window it is, and lets the stopped store pass. A store that was not stopped is
//! visible when the call that arms the window returns.
//!
//! Below it: `os::traps` of the machines; `stopped` for an explored machine.

use super::stopped::TrapsOfAgents;
use super::{Mapping, Window};
use crate::platform::{Platform, PlatformKind};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tidegate_machines::os::traps::PageTraps;
use tidegate_machines::{CpuTime, Step};

/// Traps of a process.
pub struct StoreTraps {
    platform: Platform,
    kind: Kind,
}

enum Kind {
    OfThreads(PageTraps),
    OfAgents(Arc<TrapsOfAgents>),
}

impl StoreTraps {
    /// Returns traps that stop no store yet.
    ///
    /// # Errors
    /// The system has no such traps, or no descriptor is left; in virtual time.
    pub fn new(platform: &Platform) -> io::Result<StoreTraps> {
        let kind = match platform.kind() {
            PlatformKind::Host => Kind::OfThreads(PageTraps::new()?),
            PlatformKind::Explored => Kind::OfAgents(Arc::new(TrapsOfAgents::new(platform))),
            PlatformKind::Virtual => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(StoreTraps { platform: platform.clone(), kind })
    }

    /// Has the next store to the window's address trapped.
    ///
    /// # Errors
    /// The page that the window shows cannot be trapped. No store is stopped.
    pub fn arm(&self, window: &Mapping) -> io::Result<()> {
        match (&self.kind, &window.0) {
            (Kind::OfThreads(traps), Window::OfThreads(_)) => traps.arm(window.place()?),
            (Kind::OfAgents(traps), Window::OfAgents(shown)) => {
                shown.arm(traps);
                Ok(())
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Has stores to the window's address pass again.
    pub fn release(&self, window: &Mapping) {
        match (&self.kind, &window.0) {
            (Kind::OfThreads(traps), _) => {
                if let Ok(address) = window.place() {
                    traps.release(address);
                }
            }
            (Kind::OfAgents(_), Window::OfAgents(shown)) => shown.release(),
            _ => {}
        }
    }

    /// Has a wait return, or the next one.
    pub fn poke(&self) {
        match &self.kind {
            Kind::OfThreads(traps) => traps.poke(),
            Kind::OfAgents(traps) => traps.ready.set(Step::ThreadWake),
        }
    }

    /// Waits for a store that is trapped, for a poke, or until `deadline`. Calls `trapped` with the
    /// address of each window while the store is stopped, and then lets it pass. It may return
    /// early.
    pub fn wait(&self, deadline: Option<CpuTime>, mut trapped: impl FnMut(u64)) {
        match &self.kind {
            Kind::OfThreads(traps) => {
                let now = self.platform.now();
                let left = deadline.map(|at| Duration::from_nanos(at.0.saturating_sub(now.0)));
                traps.wait(left, trapped);
            }
            Kind::OfAgents(traps) => {
                let _ended = traps.ready.wait_for(deadline, "a trapped store");
                for stopped in traps.take() {
                    if let Some(number) = stopped.disarm() {
                        trapped(number);
                    }
                    stopped.pass();
                }
            }
        }
    }
}
