//! Owns fences: one object for both kinds, and where their values are looked at.
//!
//! A native fence has two cells, CurrentValue and MonitoredValue; a monitored fence has one. Rooms:
//! `storage` (where the cells stand) · `residency` (those in local memory) · `value` (what they
//! hold) · `waiters` (who waits for what: pure) · `monitor` (arm, look again, until quiet) ·
//! `signaled` (what an interrupt means) · `log` (fence logs; `log_place` their memory,
//! `log_timeline` their records) · `create` (making, opening, destroying) · `sharing` (NT handles)
//! · `cross_adapter` (one value, a member on each adapter) · `linking` (members whose GPUs tell
//! each other) · `cpu` (the calls that wait and signal) · `events` (what one release sets).
//!
//! Waiters are released in one place: `monitor::release`.

pub(crate) mod cpu;
pub(crate) mod create;
pub(crate) mod cross_adapter;
mod events;
mod linking;
pub(crate) mod log;
mod log_place;
mod log_timeline;
pub(crate) mod monitor;
pub(crate) mod residency;
pub(crate) mod sharing;
mod signaled;
pub(crate) mod storage;
mod value;
pub(crate) mod waiters;

pub(crate) use create::{CreateFence, FenceInstanceObject};
pub(crate) use events::Events;
pub(crate) use signaled::{
    Meant, Named, look_at_monitored, native_signaled, queue_ended, scan_monitored, unreleased,
    what_is_meant,
};

use crate::adapter::Adapter;
use crate::registry::Emptied;
use cross_adapter::CrossAdapterFence;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use storage::{FenceStorage, Mapping, MonitoredCell};
use tidegate_calls::SyncObjectFlags;
use tidegate_ddi::{DriverHandle, OsHandle};
use tidegate_platform::{Event, Mutex};
use tidegate_trace::FenceId;
use value::FenceValue;
use waiters::WaiterSet;

pub(crate) use waiters::Owner;

/// Somebody who waits for a fence. Called with no lock held, once per satisfied registration.
pub(crate) trait Wakee: Send + Sync {
    /// The registration `ticket` is satisfied. An event of a caller is set through `events`.
    fn wake(&self, ticket: u64, events: &mut Events);
}

/// What makes a fence native.
pub(crate) struct NativeParts {
    pub(crate) monitored: MonitoredCell,
    pub(crate) driver_global: DriverHandle,
}

/// One fence of one adapter.
pub(crate) struct Fence {
    pub(crate) adapter: Arc<Adapter>,
    pub(crate) os_handle: OsHandle,
    pub(crate) name: String,
    pub(crate) trace: FenceId,
    /// What it was made with; NO_SIGNAL and NO_WAIT are its instances'.
    pub(crate) flags: SyncObjectFlags,
    /// What the driver left of the creator's private data.
    pub(crate) private_data: [u8; 64],
    /// `None` for an INTRA_GPU fence: no CPU reaches it, waits for it, or signals it.
    pub(crate) current: Option<FenceValue>,
    pub(crate) native: Option<NativeParts>,
    /// What it shares with the fences that it is on other adapters.
    pub(crate) cross_adapter: Option<Arc<CrossAdapterFence>>,
    pub(crate) waiters: Mutex<WaiterSet<Arc<dyn Wakee>>>,
    /// Orders CPU updates of the value, so that the value handed to the driver is the latest.
    // spec: NF-140
    pub(crate) update: Mutex<()>,
    /// Its instances.
    pub(crate) openers: Mutex<Vec<Opener>>,
    /// Where it was ever opened: it stays there until it ends.
    mappings: Mutex<Vec<Arc<Mapping>>>,
    /// How many instances and NT handles keep it from its end.
    holders: Mutex<u32>,
    /// Gives the cells back when the fence dies.
    pub(crate) storage: FenceStorage,
}

/// An instance as its fence knows it.
#[derive(Clone, Copy)]
pub(crate) struct Opener {
    instance: OsHandle,
    pub(crate) device: OsHandle,
    flags: SyncObjectFlags,
}

/// The fences of an adapter, by the kernel's handle; weak, since processes hold them.
#[derive(Default)]
pub(crate) struct FenceTable {
    all: BTreeMap<OsHandle, Weak<Fence>>,
    emptied: Emptied,
}

impl FenceTable {
    pub(crate) fn insert(&mut self, fence: &Arc<Fence>) {
        self.all.insert(fence.os_handle, Arc::downgrade(fence));
    }

    /// Removes a fence that the driver has released. Returns an event to set without the lock.
    pub(crate) fn remove(&mut self, handle: OsHandle) -> Option<Event> {
        self.all.remove(&handle);
        self.emptied.removed(self.all.len())
    }

    /// Has `event` set when the table becomes empty. Returns `false` when it is empty now.
    pub(crate) fn await_empty(&mut self, event: &Event) -> bool {
        self.emptied.await_empty(self.all.len(), event)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The fences of these handles, without those that are being destroyed; or the first handle
    /// that is of no fence.
    pub(crate) fn resolve(&self, handles: &[OsHandle]) -> Result<Vec<Arc<Fence>>, OsHandle> {
        let known = handles.iter().map(|handle| self.all.get(handle).ok_or(*handle));
        let live: Result<Vec<Option<Arc<Fence>>>, OsHandle> =
            known.map(|found| found.map(Weak::upgrade)).collect();
        Ok(live?.into_iter().flatten().collect())
    }

    pub(crate) fn matching(&self, which: impl Fn(&Fence) -> bool) -> Vec<Arc<Fence>> {
        self.all.values().filter_map(Weak::upgrade).filter(|f| which(f)).collect()
    }
}

impl Fence {
    /// Whether the device has it open with the right to signal it: when that device is lost, the
    /// fence goes to its maximum.
    pub(crate) fn may_be_signalled_by(&self, device: OsHandle) -> bool {
        let may = |o: &Opener| o.device == device && !o.flags.contains(SyncObjectFlags::NO_SIGNAL);
        self.openers.lock().iter().any(may)
    }

    /// Whether the device has it open.
    pub(crate) fn is_open_on(&self, device: OsHandle) -> bool {
        self.openers.lock().iter().any(|opener| opener.device == device)
    }

    /// Whether anybody holds it but so many instances: others that have it open, on whichever
    /// adapter, or an NT handle.
    pub(crate) fn is_held_beside(&self, instances: usize) -> bool {
        let elsewhere =
            self.cross_adapter.as_ref().is_some_and(|shared| shared.members().len() > 1);
        elsewhere || *self.holders.lock() as usize > instances
    }

    /// The value as the CPU sees it: 0 where it sees none.
    pub(crate) fn value(&self) -> u64 {
        self.current.as_ref().map_or(0, FenceValue::load)
    }

    /// Whether MonitoredValue says who waits; else every signal is looked at.
    pub(crate) fn is_armed(&self) -> bool {
        self.native.is_some() && (self.cross_adapter.is_none() || !self.waiters.lock().is_pinned())
    }

    fn keep(&self, mapping: &Arc<Mapping>) {
        let mut mappings = self.mappings.lock();
        // Those of processes that are gone lead nowhere.
        mappings.retain(|known| known.is_there());
        if !mappings.iter().any(|known| Arc::ptr_eq(known, mapping)) {
            mappings.push(mapping.clone());
        }
    }

    /// What a report says that somebody waits for.
    pub(crate) fn wait_text(&self, value: u64) -> String {
        let lost = self.lost_text(value).map_or_else(String::new, |lost| format!("; {lost}"));
        format!("fence '{}' to reach {value} (it is at {}{lost})", self.name, self.value())
    }
}

impl Fence {
    /// A report's row for somebody who waits for `value`, while it is not reached.
    pub(crate) fn pending(&self, tag: u32, value: u64) -> Option<crate::PendingWait> {
        let current = self.value();
        (current < value).then(|| crate::PendingWait {
            tag,
            fence: self.name.clone(),
            value,
            current,
            lost: self.lost_text(value),
        })
    }

    /// Who could have signalled it, and was ended.
    fn lost_text(&self, value: u64) -> Option<String> {
        let stats = &self.adapter.stats;
        // A look for a report's sake is no step of any protocol.
        let lost = stats.on().then(|| stats.lost_signal_of(self.os_handle)).flatten()?;
        (self.value() < value).then(|| lost.to_string())
    }
}
