//! The links to other GPUs: those that this GPU notifies of signals, and the fences of which they
//! notify this GPU.
//!
//! Order of a signaller: 1. store CurrentValue, a full barrier; 2. for each GPU that watches the
//! fence and shares its fence storage, load its count of waiting queues and its MonitoredValue, and
//! skip it if neither calls for a notification; 3. write the payload to its common doorbell. Order
//! of a watcher: 1. take the payload, a full barrier; 2. unblock the queues that wait for the
//! fence; 3. load its own MonitoredValue, and interrupt if the fence has been above it since the
//! last check. Why no notification is lost: decision 0015.

use crate::bus::Bus;
use std::collections::BTreeMap;
use tidegate_d3dukmdt::fence_cell::{NO_EPOCH, PAGE_WORDS, VALUE_WORDS, Verdict};
use tidegate_d3dukmdt::{FenceCell, FenceWait};
use tidegate_gpu_abi::AdminError;
use tidegate_gpu_abi::peer::CommonDoorbell;
use tidegate_platform::{Mutex, PhysicalAddress, Platform, Target, Word};

/// Another GPU that watches a fence.
#[derive(Clone)]
struct Watcher {
    peer: u32,
    doorbell: CommonDoorbell,
    /// Its MonitoredValue, if this GPU loads it.
    monitored: Option<Word>,
}

impl Watcher {
    fn notify(&self, at: PhysicalAddress, value: u64) {
        let wanted = match &self.monitored {
            None => true,
            Some(monitored) => self.doorbell.may_hold(at) || value > monitored.load(),
        };
        if wanted {
            self.doorbell.ring(at);
        }
    }
}

/// A fence that other GPUs signal to this one.
struct Watched {
    cell: FenceCell,
    monitored: Word,
    /// The cell's epoch at the last check. Earlier values do not interrupt again.
    seen_epoch: u64,
}

impl Watched {
    /// Returns whether the fence is above MonitoredValue, or was since the last check.
    fn take_due(&mut self) -> bool {
        let monitored = self.monitored.load();
        let epoch = epoch_of(&self.cell);
        let wait = FenceWait { value: monitored.wrapping_add(1), epoch: self.seen_epoch };
        // A wait that the history has lost interrupts: the kernel judges its own waits.
        let due = monitored != u64::MAX && self.cell.judge(wait) != Verdict::Unsatisfied;
        self.seen_epoch = epoch;
        due
    }
}

fn epoch_of(cell: &FenceCell) -> u64 {
    cell.epoch_word().map_or(NO_EPOCH, |word| word.load() & !1)
}

type Watchers = BTreeMap<PhysicalAddress, Vec<Watcher>>;

/// The links to other GPUs.
pub(crate) struct Peers {
    table: Mutex<Table>,
    /// Counts changes of the watchers.
    changes: Word,
}

#[derive(Default)]
struct Table {
    doorbells: BTreeMap<u32, CommonDoorbell>,
    watchers: Watchers,
    watched: BTreeMap<PhysicalAddress, Watched>,
}

impl Peers {
    pub(crate) fn new(platform: &Platform) -> Peers {
        let changes = platform.page(1).word(0);
        Peers { table: platform.mutex("peers", Table::default()), changes }
    }

    /// Adds another GPU under the number that link commands use.
    pub(crate) fn connect(&self, peer: u32, doorbell: CommonDoorbell) {
        self.table.lock().doorbells.insert(peer, doorbell);
    }

    /// Starts or stops (`monitored` 0) the notifications of a fence from other GPUs.
    pub(crate) fn watch(
        &self,
        bus: &Bus,
        current: PhysicalAddress,
        monitored: PhysicalAddress,
        history: bool,
    ) -> Result<(), AdminError> {
        let mut table = self.table.lock();
        if monitored.0 == 0 {
            table.watched.remove(&current);
            return Ok(());
        }
        let Some(Target::Protocol(page, offset)) = bus.resolve(current) else {
            return Err(AdminError::BadAddress);
        };
        let index = (offset / 8) as usize;
        if !offset.is_multiple_of(8) || index >= page.len().min(VALUE_WORDS) {
            return Err(AdminError::BadAddress);
        }
        let word = page.word(index);
        // Only a fence page has room for histories.
        let cell = match history && page.len() >= PAGE_WORDS {
            true => FenceCell::in_fence_page(word, 0),
            false => FenceCell::plain(word),
        };
        let monitored = bus.word(monitored)?;
        let seen_epoch = epoch_of(&cell);
        table.watched.insert(current, Watched { cell, monitored, seen_epoch });
        Ok(())
    }

    /// Adds or removes another GPU that watches a fence.
    pub(crate) fn link(
        &self,
        bus: &Bus,
        current: PhysicalAddress,
        peer: u32,
        monitored: PhysicalAddress,
        linked: bool,
    ) -> Result<(), AdminError> {
        let monitored = (monitored.0 != 0).then(|| bus.word(monitored)).transpose()?;
        let mut table = self.table.lock();
        let doorbell = table.doorbells.get(&peer).cloned().ok_or(AdminError::BadValue)?;
        let watchers = table.watchers.entry(current).or_default();
        watchers.retain(|known| known.peer != peer);
        if linked {
            watchers.push(Watcher { peer, doorbell, monitored });
        } else if watchers.is_empty() {
            table.watchers.remove(&current);
        }
        drop(table);
        // Full barrier: a signal that misses the change stored its value before the
        // following loads.
        self.changes.fetch_add(1);
        Ok(())
    }

    /// Returns whether the watched fence at `at`, or any if `None`, calls for an interrupt.
    pub(crate) fn take_due(&self, at: Option<PhysicalAddress>) -> bool {
        let mut table = self.table.lock();
        let named = table.watched.iter_mut().filter(|(cell, _)| at.is_none_or(|at| **cell == at));
        // No short circuit: each check also advances the recorded epoch.
        named.fold(false, |due, (_, watched)| watched.take_due() || due)
    }
}

/// An engine's copy of the watchers, refreshed at every signal. A signal that misses a new link
/// stored its value before the link was made, and the linked GPU reads the value after that.
#[derive(Default)]
pub(crate) struct Links {
    changes: u64,
    watchers: Watchers,
}

impl Links {
    /// Refreshes the copy if the watchers have changed.
    #[cold]
    pub(crate) fn refresh(&mut self, peers: &Peers) {
        let changes = peers.changes.load();
        if changes != self.changes {
            self.watchers.clone_from(&peers.table.lock().watchers);
            self.changes = changes;
        }
    }

    /// Notifies other GPUs that this GPU signalled the fence at `at` with `value`. The caller has
    /// executed a full barrier.
    // spec: NF-166
    #[cold]
    pub(crate) fn notify(&mut self, peers: &Peers, at: PhysicalAddress, value: u64) {
        self.refresh(peers);
        for watcher in self.watchers.get(&at).into_iter().flatten() {
            watcher.notify(at, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use tidegate_d3dukmdt::fence_cell::{MAX_ANNEX_PEAKS, VALUE_BYTES};
    use tidegate_gpu_abi::peer::COMMON_SLOTS;
    use tidegate_platform::{Page, PhysicalMemory, WakeWord};

    /// Two GPUs on one bus: the peers of one, and the common doorbell of the other.
    struct Bench {
        platform: Platform,
        system: PhysicalMemory,
        bus: Bus,
        peers: Peers,
    }

    impl Bench {
        fn new() -> Bench {
            let platform = Platform::host();
            let system = PhysicalMemory::new(&platform, PhysicalAddress(0x1000));
            let bus = Bus::new(&platform, system.clone(), &Config::default());
            Bench { peers: Peers::new(&platform), platform, system, bus }
        }

        /// A word of MonitoredValue and its address.
        fn monitored(&self, value: u64) -> (PhysicalAddress, Page) {
            let (at, page) = self.system.protocol(1);
            page.store(0, value);
            (at, page)
        }
    }

    #[test]
    fn a_peer_that_is_linked_again_is_asked_for_its_new_value_and_one_that_is_unlinked_is_not() {
        let bench = Bench::new();
        let none_waits = bench.platform.page(COMMON_SLOTS);
        let doorbell =
            CommonDoorbell::new(&bench.platform, WakeWord::new(&bench.platform), none_waits);
        bench.peers.connect(1, doorbell.clone());
        let fence = PhysicalAddress(0x8_0000);
        let mut links = Links::default();
        let mut rings = |value: u64| {
            links.notify(&bench.peers, fence, value);
            let mut rung = 0;
            doorbell.summary().take(|slot| rung += usize::from(doorbell.take(slot) == fence.0));
            rung
        };
        let link = |at, linked| bench.peers.link(&bench.bus, fence, 1, at, linked).unwrap();

        let (low, high) = (bench.monitored(4), bench.monitored(9));
        assert_eq!(rings(5), 0);
        link(low.0, true);
        assert_eq!([rings(4), rings(5)], [0, 1]);
        link(high.0, true);
        assert_eq!([rings(5), rings(9), rings(10)], [0, 0, 1], "only the new value counts");
        link(high.0, false);
        assert_eq!(rings(10), 0);
        let unknown = bench.peers.link(&bench.bus, fence, 2, high.0, true);
        assert_eq!(unknown, Err(AdminError::BadValue));
    }

    #[test]
    fn a_check_of_all_fences_ends_the_earlier_values_of_each() {
        let bench = Bench::new();
        let (start, page) = bench.system.protocol(PAGE_WORDS);
        let (monitored_at, monitored) = bench.monitored(2);
        let fences = [0, 1, 2].map(|index| {
            let cell = FenceCell::in_fence_page(page.word(index), 0);
            cell.renew(0, VALUE_BYTES, MAX_ANNEX_PEAKS);
            let at = PhysicalAddress(start.0 + 8 * index as u64);
            bench.peers.watch(&bench.bus, at, monitored_at, true).unwrap();
            (at, cell)
        });
        assert!(!bench.peers.take_due(None));
        for (_, cell) in &fences {
            cell.store(5);
            cell.store(1);
        }
        assert!(bench.peers.take_due(Some(fences[2].0)), "it was above the value");
        assert!(bench.peers.take_due(None), "the others were");
        assert!(!bench.peers.take_due(None), "each interrupts once for a value that is gone");
        fences[1].1.store(3);
        assert!(!bench.peers.take_due(Some(fences[0].0)));
        assert!(bench.peers.take_due(None) && bench.peers.take_due(Some(fences[1].0)));
        monitored.store(0, u64::MAX);
        assert!(!bench.peers.take_due(None), "none waits");

        let stop = bench.peers.watch(&bench.bus, fences[1].0, PhysicalAddress(0), true);
        monitored.store(0, 2);
        assert_eq!((stop, bench.peers.take_due(None)), (Ok(()), false));
    }

    #[test]
    fn the_first_check_after_a_link_sees_the_values_since_the_link_only() {
        let bench = Bench::new();
        let (monitored_at, _monitored) = bench.monitored(2);
        for is_pulsed in [false, true] {
            let (start, page) = bench.system.protocol(PAGE_WORDS);
            let cell = FenceCell::in_fence_page(page.word(0), 0);
            cell.renew(0, VALUE_BYTES, MAX_ANNEX_PEAKS);
            let pulse = || [5, 1].map(|value| cell.store(value));
            pulse();
            bench.peers.watch(&bench.bus, start, monitored_at, true).unwrap();
            if is_pulsed {
                pulse();
            }
            assert_eq!(bench.peers.take_due(Some(start)), is_pulsed);
        }
    }
}
