//! What all sessions share: the adapters, NT handles, sockets and counters.

use super::config::ServerConfig;
use super::counts::{Counters, Counts};
use super::usage::Usage;
use crate::nt_handles::NtHandles;
use crate::transport::Link;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::snapshot::{
    DoorbellRow, FenceRow, MachineRow, Page, PageRequest, QueueKind, QueueRow, WaiterRow,
};
use tidegate_calls::{ClientKind, Grant, Kernel, Status};
use tidegate_platform::{Mutex, Platform, QueueNumber, Word};
use tidegate_trace::{LaneId, LaneKind};

/// A process that the kernel has opened for a client.
pub struct Opened {
    /// Its calls.
    pub kernel: Arc<dyn Kernel>,
    /// Its end.
    pub process: Arc<dyn OpenedProcess>,
    /// Its number, as in rows of its objects.
    pub number: Option<u32>,
}

/// How a client's process ends.
pub trait OpenedProcess: Send + Sync {
    /// Ends it after its queued work, for which it waits for at most the TDR delay.
    fn close(&self);

    /// Ends it. Work that is queued is dropped. Does nothing after another end.
    fn terminate(&self);

    /// Ends the waits for queued work, in [`OpenedProcess::close`] and in calls of the process.
    /// Blocks for nothing.
    fn end_waits_for_work(&self);
}

/// The adapters of a machine whose platform shares its memory.
pub trait Adapters: Send + Sync {
    /// How many there are.
    fn count(&self) -> u32;

    /// Opens a process on one of them.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn open(
        &self,
        adapter: u32,
        process_name: &str,
        kind: ClientKind,
        grant: Grant,
    ) -> Result<Opened, Status>;

    /// Returns an adapter as a whole. This one and those below are called for adapters that exist.
    fn machine(&self, adapter: u32) -> MachineRow;

    /// Returns contexts for packets and hardware queues.
    fn queues(&self, adapter: u32, request: &PageRequest) -> Page<QueueRow>;

    /// Returns fences.
    fn fences(&self, adapter: u32, request: &PageRequest) -> Page<FenceRow>;

    /// Returns waits for fences.
    fn waiters(&self, adapter: u32, request: &PageRequest) -> Page<WaiterRow>;

    /// Returns doorbells.
    fn doorbells(&self, adapter: u32, request: &PageRequest) -> Page<DoorbellRow>;

    /// Makes the logs of queues large for a recording, or small again.
    fn enlarge_logs(&self, adapter: u32, large: bool);

    /// Reads the logs of queues for a recording.
    fn read_logs(&self, adapter: u32);
}

/// What all sessions share.
pub(crate) struct Shared {
    pub(crate) platform: Platform,
    pub(super) adapters: Box<dyn Adapters>,
    pub(super) config: ServerConfig,
    pub(super) nt_handles: NtHandles,
    pub(super) links: Mutex<BTreeMap<u64, Arc<Link>>>,
    /// The processes that have not ended.
    pub(super) processes: Mutex<Processes>,
    /// Sessions that have not ended.
    pub(super) live: Word,
    pub(super) counts: Counters,
    pub(super) recorder: Mutex<Recorder>,
}

/// The processes of sessions.
#[derive(Default)]
pub(super) struct Processes {
    /// The service stops: no end waits for queued work.
    stopping: bool,
    of_sessions: BTreeMap<u64, Served>,
}

/// A process of a session.
pub(super) struct Served {
    pub(super) usage: Arc<Usage>,
    pub(super) process: Arc<dyn OpenedProcess>,
}

impl Processes {
    /// Adds a process. One that comes while the service stops waits for no work either.
    pub(super) fn enter(&mut self, session: u64, served: Served) {
        if self.stopping {
            served.process.end_waits_for_work();
        }
        self.of_sessions.insert(session, served);
    }

    pub(super) fn remove(&mut self, session: u64) -> Option<Served> {
        self.of_sessions.remove(&session)
    }

    /// The service stops. Returns the processes whose waits for work the caller ends.
    pub(super) fn stop(&mut self) -> Vec<Arc<dyn OpenedProcess>> {
        self.stopping = true;
        self.of_sessions.values().map(|served| served.process.clone()).collect()
    }

    pub(super) fn usage(&self, session: u64) -> Option<&Arc<Usage>> {
        self.of_sessions.get(&session).map(|served| &served.usage)
    }

    /// Returns what the processes of sessions from this number on hold.
    pub(super) fn usages_from(&self, session: u64) -> impl Iterator<Item = (u64, &Arc<Usage>)> {
        self.of_sessions.range(session..).map(|(number, served)| (*number, &served.usage))
    }
}

impl Shared {
    pub(super) fn counts(&self) -> Counts {
        self.nt_handles.sweep();
        self.counts.read(self.live.load(), self.nt_handles.count() as u64)
    }
}

/// Lanes that recordings of a service make. Queues beyond them have none.
const MOST_LANES: usize = 65_536;

/// The state of recordings that sessions share.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) attached: bool,
    lanes: usize,
}

impl Shared {
    /// Gives a queue its lane, if there is a recording. `name` names its process.
    pub(super) fn draw_queue(&self, queue: QueueNumber, kind: QueueKind, name: &str) {
        if !self.platform.tracing() || self.platform.lane_of(queue).is_some() {
            return;
        }
        let kind = match kind {
            QueueKind::Packet => "packets",
            QueueKind::Hardware => "hardware queue",
            QueueKind::User => "user queue",
        };
        if let Some(lane) = self.lane(LaneKind::Queue, name, &format!("{kind} {}", queue.0)) {
            self.platform.assign_lane(queue, lane);
        }
    }

    /// Makes a lane, if there is room.
    pub(super) fn lane(&self, kind: LaneKind, group: &str, name: &str) -> Option<LaneId> {
        let mut recorder = self.recorder.lock();
        recorder.lanes += 1;
        let has_room = recorder.lanes <= MOST_LANES;
        drop(recorder);
        has_room.then(|| self.platform.lane(kind, group, name))
    }
}
