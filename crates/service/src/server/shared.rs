//! What all sessions share: the adapters, NT handles, sockets and counters.

use super::config::ServerConfig;
use super::counts::{Counters, Counts};
use super::usage::Usage;
use crate::nt_handles::NtHandles;
use crate::transport::Link;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::snapshot::{
    DoorbellRow, FenceRow, MachineRow, Page, PageRequest, QueueRow, WaiterRow,
};
use tidegate_calls::{Kernel, Status};
use tidegate_platform::{Mutex, Platform, Word};

/// A process that the kernel has opened for a client.
pub struct Opened {
    /// Its calls.
    pub kernel: Arc<dyn Kernel>,
    /// Ends it. Work that is queued is dropped.
    pub end: Box<dyn Fn() + Send + Sync>,
    /// Its number, as in rows of its objects.
    pub number: Option<u32>,
}

/// The adapters of a machine whose platform shares its memory.
pub trait Adapters: Send + Sync {
    /// How many there are.
    fn count(&self) -> u32;

    /// Opens a process on one of them. `notifies`: it knows the published contract alone, and
    /// notifies the driver of each ring.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn open(&self, adapter: u32, process_name: &str, notifies: bool) -> Result<Opened, Status>;

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
}

/// What all sessions share.
pub(crate) struct Shared {
    pub(crate) platform: Platform,
    pub(super) adapters: Box<dyn Adapters>,
    pub(super) config: ServerConfig,
    pub(super) nt_handles: NtHandles,
    pub(super) links: Mutex<BTreeMap<u64, Arc<Link>>>,
    /// The processes, by session.
    pub(super) sessions: Mutex<BTreeMap<u64, Arc<Usage>>>,
    /// Sessions that have not ended.
    pub(super) live: Word,
    pub(super) counts: Counters,
}

impl Shared {
    pub(super) fn counts(&self) -> Counts {
        self.nt_handles.sweep();
        self.counts.read(self.nt_handles.count() as u64)
    }
}
