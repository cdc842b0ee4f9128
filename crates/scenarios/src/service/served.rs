//! A service without a socket: its sessions, its clients and their threads are agents of the
//! machine. Links are queues, and pages are handed over themselves; the rest is what `tidegate
//! serve` runs.
//!
//! Invariants: processes connect in a part of the run that is not explored, and the sessions end in
//! another one, so that only the race is explored.

use crate::world::World;
use tidegate::Platform;
use tidegate::calls::{FenceInstance, Kernel, Status, SyncObjectFlags};
use tidegate::explorer::Verdict;
use tidegate::service::client::{Life, connect_agent};
use tidegate::service::server::{Limits, ServerConfig, Sessions};
use tidegate_testbed::{Client, UserQueue};

/// Flags of a fence that can be shared.
pub(crate) const SHARED: SyncObjectFlags =
    SyncObjectFlags::SHARED.union(SyncObjectFlags::NT_SECURITY_SHARING);

/// Waits that a client may have at a time; few, because each has a word of a page.
pub(crate) const WAITS: usize = 2;

/// The service of a scenario.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) sessions: Sessions,
    platform: Platform,
}

/// A process of the service.
pub(crate) struct Process {
    pub(crate) client: Client,
    pub(crate) life: Life,
}

impl Served {
    /// A service of the world's machine.
    pub(crate) fn new(world: &World) -> Served {
        let limits = Limits { waits: WAITS as u32, ..Limits::default() };
        let config = ServerConfig { limits, ..ServerConfig::default() };
        let platform = world.machine.platform().clone();
        Served { sessions: world.machine.sessions(config), platform }
    }

    /// Connects a process with a device.
    pub(crate) fn connect(&self, name: &str) -> Process {
        let (kernel, life) = connect_agent(&self.sessions, 0, name).expect("a session");
        let device = kernel.create_device().expect("a device");
        Process { client: Client::of(&self.platform, kernel, device), life }
    }

    /// Connects two processes with a fence of the first that the second has opened.
    pub(crate) fn connect_two(&self, names: [&str; 2]) -> [(Process, FenceInstance); 2] {
        let [owner, other] = names.map(|name| self.connect(name));
        let fence = owner.client.try_monitored(0, SHARED).expect("a fence");
        let opened = other.client.open_fence(&owner.client.share_all(&fence));
        [(owner, fence), (other, opened)]
    }

    /// Connects a process with the queue that `make` makes and a native fence. The race comes
    /// later, so no step of it is explored.
    pub(crate) fn connect_with_queue(
        &self,
        name: &str,
        make: impl FnOnce(&Client) -> UserQueue,
    ) -> (Process, UserQueue, FenceInstance) {
        self.platform.unexplored(|| {
            let process = self.connect(name);
            let (queue, fence) = (make(&process.client), process.client.native(0));
            (process, queue, fence)
        })
    }

    /// Ends the sessions.
    pub(crate) fn end(&self) {
        self.platform.unexplored(|| self.sessions.end());
    }

    /// Checks that no session has failed, and that none is left, nor what it held.
    pub(crate) fn has_ended(&self, end: &mut Verdict<'_>) {
        let counts = self.sessions.counts();
        end.always("no session has panicked", counts.sessions_failed == 0);
        end.eventually("each process has ended with its session", counts.processes == 0);
        end.eventually("no NT handle is left", counts.nt_handles == 0);
    }
}

/// Asserts the success of a wait in the run. One that the end of the run cancels is ignored,
/// because the blocked agent is reported as the failure.
pub(crate) fn passes(wait: Result<(), Status>) {
    assert!(matches!(wait, Ok(()) | Err(Status::CANCELLED)), "{wait:?}");
}
