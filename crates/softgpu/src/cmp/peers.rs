//! Owns what this GPU has to do with others: whom to tell of a signal, and what to do when it is
//! told.
//!
//! Signaller, in order: 1. store CurrentValue, a full barrier; 2. for each GPU that watches the
//! fence, where it shares its fence storage: load its count of waiting queues and its
//! MonitoredValue, and pass it over when neither asks; 3. write the payload into its common
//! doorbell. Watcher, in order: 1. take the payload, a full barrier; 2. look at the queues that
//! wait for the fence; 3. load its own MonitoredValue and interrupt if the fence has been above it
//! since the last look here.
//!
//! Where storage is shared there are two store-load pairs, each with a full barrier on both sides.
//! Waiting queue: count up, load CurrentValue; signaller: store CurrentValue, load the count.
//! Kernel: store MonitoredValue, (barrier of UpdateMonitoredValues,) load CurrentValue; signaller:
//! store CurrentValue, load MonitoredValue. One of each two sees the other. Where it is not shared,
//! the payload is always written: the watcher loads after it has taken it, so it sees the store,
//! and whoever begins to wait after that look does too.

use super::Shared;
use std::collections::BTreeMap;
use tidegate_d3dukmdt::fence_cell::{NO_EPOCH, PAGE_WORDS, VALUE_WORDS};
use tidegate_d3dukmdt::{FenceCell, FenceWait};
use tidegate_gpu_abi::AdminError;
use tidegate_gpu_abi::peer::{ANY_FENCE, CommonDoorbell};
use tidegate_platform::{Mutex, PhysicalAddress, Platform, Target, Word};

/// Somebody who watches a fence.
#[derive(Clone)]
struct Watcher {
    peer: u32,
    doorbell: CommonDoorbell,
    /// Its MonitoredValue, where this GPU loads it.
    monitored: Option<Word>,
}

/// A fence that other GPUs tell this one about.
struct Watched {
    cell: FenceCell,
    monitored: Word,
    /// The cell's epoch at the last look: what it was before does not interrupt again.
    seen_epoch: u64,
}

type Watchers = BTreeMap<PhysicalAddress, Vec<Watcher>>;

/// Other GPUs.
pub(crate) struct Peers {
    table: Mutex<Table>,
    /// Counts changes of the table's watchers.
    changes: Word,
}

/// Whom this GPU tells, and what it is told about.
#[derive(Default)]
struct Table {
    doorbells: BTreeMap<u32, CommonDoorbell>,
    watchers: Watchers,
    watched: BTreeMap<PhysicalAddress, Watched>,
}

/// What an engine knows of whom to tell. It is as old as the last change that the engine has seen,
/// and it looks for one at every signal: a signaller that misses a link has stored before the link
/// was made, and who is linked looks at the value after that.
#[derive(Default)]
pub(crate) struct Links {
    changes: u64,
    watchers: Watchers,
}

impl Links {
    /// Learns of changes.
    pub(crate) fn learn(&mut self, gpu: &Shared) {
        let Some(peers) = gpu.peers.get() else { return };
        let changes = peers.changes.load();
        if changes != self.changes {
            self.watchers.clone_from(&peers.table.lock().watchers);
            self.changes = changes;
        }
    }

    /// The fence at `at` was signalled with `value` by this GPU. A full barrier comes before.
    // spec: NF-166
    #[inline]
    pub(crate) fn tell(&mut self, gpu: &Shared, at: PhysicalAddress, value: u64) {
        if gpu.peers.get().is_some() {
            self.learn(gpu);
            for watcher in self.watchers.get(&at).into_iter().flatten() {
                watcher.tell(at, value);
            }
        }
    }
}

impl Peers {
    fn new(platform: &Platform) -> Peers {
        let changes = platform.page(1).word(0);
        Peers { table: platform.mutex("peers", Table::default()), changes }
    }
}

impl Watched {
    /// Whether the fence is, or was since the last look, above MonitoredValue.
    fn is_due(&mut self) -> bool {
        let monitored = self.monitored.load();
        let epoch = self.cell.epoch_word().map_or(NO_EPOCH, |word| word.load() & !1);
        let wait = FenceWait { value: monitored.wrapping_add(1), epoch: self.seen_epoch };
        let due = monitored != u64::MAX && self.cell.satisfies(wait);
        self.seen_epoch = epoch;
        due
    }
}

impl Shared {
    /// The common doorbell of another GPU, under the number by which its watching is spoken of.
    pub(crate) fn connect_peer(&self, peer: u32, doorbell: CommonDoorbell) {
        let peers = self.peers.get_or_init(|| Peers::new(&self.platform));
        peers.table.lock().doorbells.insert(peer, doorbell);
    }

    /// Other GPUs will tell this one of a fence, or will no more (`monitored` 0).
    pub(crate) fn watch_fence(
        &self,
        current: PhysicalAddress,
        monitored: PhysicalAddress,
        history: bool,
    ) -> Result<(), AdminError> {
        let mut peers = self.peers.get().ok_or(AdminError::BadValue)?.table.lock();
        if monitored.0 == 0 {
            peers.watched.remove(&current);
            return Ok(());
        }
        let Some(Target::Protocol(page, offset)) = self.bus.resolve(current) else {
            return Err(AdminError::BadAddress);
        };
        let index = (offset / 8) as usize;
        if !offset.is_multiple_of(8) || index >= page.len().min(VALUE_WORDS) {
            return Err(AdminError::BadAddress);
        }
        let word = page.word(index);
        // A history takes the room of a fence page.
        let cell = match history && page.len() >= PAGE_WORDS {
            true => FenceCell::in_fence_page(word, 0),
            false => FenceCell::plain(word),
        };
        let monitored = self.word_at(monitored)?;
        let seen_epoch = cell.epoch_word().map_or(NO_EPOCH, |word| word.load() & !1);
        peers.watched.insert(current, Watched { cell, monitored, seen_epoch });
        Ok(())
    }

    /// Another GPU watches a fence, or does no more.
    pub(crate) fn link_peer(
        &self,
        current: PhysicalAddress,
        peer: u32,
        monitored: PhysicalAddress,
        linked: bool,
    ) -> Result<(), AdminError> {
        let monitored = (monitored.0 != 0).then(|| self.word_at(monitored)).transpose()?;
        let peers = self.peers.get().ok_or(AdminError::BadValue)?;
        let mut table = peers.table.lock();
        let doorbell = table.doorbells.get(&peer).cloned().ok_or(AdminError::BadValue)?;
        let watchers = table.watchers.entry(current).or_default();
        watchers.retain(|known| known.peer != peer);
        if linked {
            watchers.push(Watcher { peer, doorbell, monitored });
        } else if watchers.is_empty() {
            table.watchers.remove(&current);
        }
        drop(table);
        // A full barrier: signals that do not see it have stored before whatever follows.
        peers.changes.fetch_add(1);
        Ok(())
    }

    fn word_at(&self, at: PhysicalAddress) -> Result<Word, AdminError> {
        self.bus.resolve(at).and_then(|target| target.word()).ok_or(AdminError::BadAddress)
    }

    /// Another GPU says that this fence, or some fence, was signalled. Says whether to interrupt.
    pub(crate) fn hear(&self, payload: u64) -> bool {
        if payload == 0 {
            return false;
        }
        let at = (payload != ANY_FENCE).then_some(PhysicalAddress(payload));
        self.unblock(at, None);
        let Some(peers) = self.peers.get() else { return false };
        let mut table = peers.table.lock();
        let meant = table.watched.iter_mut().filter(|(cell, _)| at.is_none_or(|at| **cell == at));
        // Each is looked at: a look says also what was seen.
        meant.fold(false, |due, (_, watched)| watched.is_due() || due)
    }
}

impl Watcher {
    fn tell(&self, at: PhysicalAddress, value: u64) {
        let asked = match &self.monitored {
            None => true,
            Some(monitored) => self.doorbell.may_hold(at) || value > monitored.load(),
        };
        if asked {
            self.doorbell.ring(at);
        }
    }
}
