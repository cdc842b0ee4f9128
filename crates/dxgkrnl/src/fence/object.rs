//! The fences of one adapter, what they share, and the ports to the rooms above.
//!
//! Invariants: a fence is in the table from its creation until the driver has destroyed it. The
//! table holds weakly, since processes hold the fences.

use super::event_set::EventSet;
use super::storage::{FenceStorage, Mapping, MonitoredCell};
use super::value::{FenceValue, SharedValue};
use super::waiters::Waiters;
use crate::driver::DriverPort;
use crate::memory::{AddressSpace, FenceValuePage, Memory};
use crate::port::Port;
use crate::registry::Registry;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::SyncObjectFlags;
use tidegate_d3dukmdt::fence_cell::Snapshot;
use tidegate_ddi::{DriverHandle, Irql, OsHandle};
use tidegate_platform::{Event, Mutex, PhysicalAddress, PhysicalMemory, Step, TracedFence, Word};
use tidegate_trace::FenceId;

/// A fence and the value that is waited for or signalled.
#[derive(Clone)]
pub(crate) struct FenceTarget {
    pub(crate) fence: Arc<Fence>,
    pub(crate) value: u64,
}

/// Fences that an interrupt names: mostly one, which takes no memory.
pub(crate) type NamedFences = SmallVec<[Arc<Fence>; 1]>;

/// A waiter on a fence, called with no lock held, once per satisfied registration.
pub(crate) trait Waiter: Send + Sync {
    /// Called when the registration `ticket` is satisfied. Sets a caller's event through `events`.
    fn wake(&self, level: Irql<'_>, ticket: u64, events: &mut EventSet);
}

/// Relays signals of cross-adapter fences to another member's adapter.
pub(crate) trait RelayPort: Send + Sync {
    /// Makes the DPC of the fence's adapter call [`super::signaled::relayed`]. Called with no lock
    /// of any adapter held.
    fn relay(self: Arc<Self>, fence: Arc<Fence>);
}

/// Tells whether hardware may hold a wait on a fence.
pub(crate) trait HardwareWaits: Send + Sync {
    /// Returns whether a queue exists whose waits the hardware holds: a user-mode queue, or one
    /// with fence commands.
    fn may_hold_waits(&self) -> bool;
}

/// The parts that only a native fence has.
pub(crate) struct NativeParts {
    pub(crate) monitored: MonitoredCell,
    pub(crate) driver_global: DriverHandle,
    /// Set when DxgkDdiDestroyNativeFence has returned, while pages of fence values stay where
    /// they are.
    pub(super) destroyed: OnceLock<()>,
}

impl NativeParts {
    pub(super) fn new(monitored: MonitoredCell, driver_global: DriverHandle) -> NativeParts {
        NativeParts { monitored, driver_global, destroyed: OnceLock::new() }
    }

    /// Returns whether the driver has the fence. A fence leaves the kernel's table later.
    pub(super) fn exists(&self) -> bool {
        self.destroyed.get().is_none()
    }
}

/// CPU signals that are stores: the fence keeps a history and is on one adapter (`signal`).
pub(crate) struct DirectSignals {
    /// Not 0 while a hardware queue may wait for the fence; `None` for a monitored fence, for which
    /// no hardware waits.
    pub(super) waiting: Option<Word>,
    /// MonitoredValue, if the kernel may raise it itself.
    pub(super) monitored: Option<Word>,
}

/// The fence on the timeline.
pub(super) enum OnTimeline {
    Own(TracedFence),
    /// That of a cross-adapter fence, whose members are one fence of the timeline.
    Shared(FenceId, u64),
}

/// One fence of one adapter.
pub(crate) struct Fence {
    pub(crate) fences: Arc<Fences>,
    pub(crate) os_handle: OsHandle,
    pub(crate) name: String,
    pub(super) timeline: OnTimeline,
    /// Creation flags. NO_SIGNAL and NO_WAIT belong to the instance.
    pub(crate) flags: SyncObjectFlags,
    /// The creator's private data as the driver returned it.
    pub(crate) private_data: [u8; 64],
    /// `None` for an INTRA_GPU fence, which no CPU accesses, waits on or signals.
    pub(crate) current: Option<FenceValue>,
    pub(crate) native: Option<NativeParts>,
    /// State shared with the members on other adapters.
    pub(crate) cross_adapter: Option<Arc<CrossAdapterFence>>,
    pub(crate) waiters: Waiters<Arc<dyn Waiter>>,
    /// `None` if each CPU signal calls the driver or is relayed to another adapter.
    pub(super) direct: Option<DirectSignals>,
    /// The open instances.
    pub(super) openers: Mutex<Vec<Opener>>,
    /// Mappings in every process that ever opened the fence. They stay until the fence ends.
    pub(super) mappings: Mutex<Vec<Arc<Mapping>>>,
    /// Number of instances and NT handles that keep the fence alive.
    pub(super) holders: Mutex<u32>,
    /// Frees the cells on drop.
    pub(crate) storage: FenceStorage,
}

/// An instance in the list of its fence.
#[derive(Clone, Copy)]
pub(super) struct Opener {
    pub(super) instance: OsHandle,
    pub(super) device: OsHandle,
    pub(super) flags: SyncObjectFlags,
}

/// What the members of a cross-adapter fence share; see `cross_adapter`.
pub(crate) struct CrossAdapterFence {
    pub(super) current: Arc<FenceValuePage>,
    pub(super) memory: PhysicalMemory,
    pub(super) name: String,
    pub(super) flags: SyncObjectFlags,
    /// `None` if the members' GPUs update all 64 bits.
    pub(super) narrow: Option<SharedValue>,
    pub(super) traced: TracedFence,
    /// Serialises joins, so that no adapter gets two members.
    pub(super) joining: Mutex<()>,
    /// Whether the members' GPUs signal each other (see `link`); changed under `joining`.
    pub(super) linked: Mutex<bool>,
    pub(super) members: Mutex<Vec<Weak<Fence>>>,
    /// The value last relayed for an interrupt that named no fence.
    pub(super) relayed: Mutex<Option<Snapshot>>,
}

/// The fences of one adapter.
pub(crate) struct Fences {
    pub(crate) port: Arc<DriverPort>,
    pub(super) memory: Arc<Memory>,
    table: Mutex<Registry<Fence>>,
    /// Serialises CPU updates of values, so that the driver is passed the latest ones. One call of
    /// the driver names many fences, so the lock is the adapter's.
    // spec: NF-140
    pub(super) updates: Mutex<()>,
    /// Ordinals of the adapters whose common doorbell the driver has.
    pub(super) peers: Mutex<BTreeSet<u32>>,
    pub(crate) relays: Port<dyn RelayPort>,
    pub(crate) hardware_waits: Port<dyn HardwareWaits>,
}

impl Fences {
    pub(crate) fn new(memory: &Arc<Memory>) -> Arc<Fences> {
        let platform = &memory.driver.platform;
        Arc::new(Fences {
            table: platform.mutex("fence table", Registry::default()),
            updates: platform.mutex("CPU updates of fences", ()),
            peers: platform.mutex("peers of an adapter", BTreeSet::new()),
            relays: Port::default(),
            hardware_waits: Port::default(),
            port: memory.driver.clone(),
            memory: memory.clone(),
        })
    }

    pub(super) fn has_hardware_waits(&self) -> bool {
        self.hardware_waits.get().is_some_and(|queues| queues.may_hold_waits())
    }

    pub(super) fn insert(&self, fence: &Arc<Fence>) {
        self.table.lock().insert(fence.os_handle, fence);
    }

    /// Removes a fence that the driver has destroyed.
    pub(super) fn remove(&self, handle: OsHandle) {
        let emptied = self.table.lock().remove(handle);
        emptied.iter().for_each(|event| event.set(Step::ThreadWake));
    }

    /// Arranges for `event` to be set when the table becomes empty. Returns `false` if it is
    /// already empty.
    pub(crate) fn await_empty(&self, event: &Event) -> bool {
        self.table.lock().await_empty(event)
    }

    /// Returns the number of fences.
    pub(crate) fn len(&self) -> usize {
        self.table.lock().len()
    }

    /// Returns the number of waits that are registered with fences.
    pub(crate) fn waits(&self) -> usize {
        self.matching(|_| true).iter().map(|fence| fence.waiters.lock().len()).sum()
    }

    /// Resolves handles to fences, skipping fences that are being destroyed. Fails with the first
    /// handle that names no fence.
    pub(crate) fn resolve(&self, handles: &[OsHandle]) -> Result<NamedFences, OsHandle> {
        // Dropped after the lock: the end of a fence takes it.
        let mut named = NamedFences::new();
        let table = self.table.lock();
        for handle in handles {
            named.extend(table.named(*handle).ok_or(*handle)?.upgrade());
        }
        Ok(named)
    }

    /// Returns at most `most` fences that were created after `handle`, in order of creation.
    pub(crate) fn after(&self, handle: u64, most: usize) -> Vec<(u64, Arc<Fence>)> {
        self.table.lock().live_after(handle, most)
    }

    /// Returns the fences for which `is_wanted` holds, in order of creation.
    pub(crate) fn matching(&self, is_wanted: impl Fn(&Fence) -> bool) -> Vec<Arc<Fence>> {
        self.table.lock().matching(is_wanted)
    }

    /// Returns the fence whose CurrentValue is at this bus address.
    pub(crate) fn at(&self, current_value: PhysicalAddress) -> Option<Arc<Fence>> {
        self.matching(|fence| fence.storage.current_at() == current_value).into_iter().next()
    }
}

impl Fence {
    pub(crate) fn port(&self) -> &DriverPort {
        &self.fences.port
    }

    /// Returns its number on the timeline.
    pub(crate) fn trace(&self) -> FenceId {
        match &self.timeline {
            OnTimeline::Own(traced) => traced.id(),
            OnTimeline::Shared(id, _) => *id,
        }
    }

    /// Returns a number that no other fence of the kernel has or had.
    pub(crate) fn number(&self) -> u64 {
        match &self.timeline {
            OnTimeline::Own(traced) => traced.serial(),
            OnTimeline::Shared(_, number) => *number,
        }
    }

    /// Returns whether the device has the fence open with the right to signal it. The loss of such
    /// a device sets the fence to its maximum.
    pub(crate) fn may_be_signalled_by(&self, device: OsHandle) -> bool {
        let may = |o: &Opener| o.device == device && !o.flags.contains(SyncObjectFlags::NO_SIGNAL);
        self.openers.lock().iter().any(may)
    }

    /// Returns the instances in order of opening, each with its device.
    pub(crate) fn instances(&self) -> Vec<(OsHandle, OsHandle)> {
        self.openers.lock().iter().map(|opener| (opener.instance, opener.device)).collect()
    }

    /// Returns whether the device has the fence open.
    pub(crate) fn is_open_on(&self, device: OsHandle) -> bool {
        self.openers.lock().iter().any(|opener| opener.device == device)
    }

    /// Returns whether more than `instances` holders exist: other instances, on any adapter, or
    /// NT handles.
    pub(crate) fn is_held_beside(&self, instances: usize) -> bool {
        let elsewhere =
            self.cross_adapter.as_ref().is_some_and(|shared| shared.members().len() > 1);
        elsewhere || *self.holders.lock() as usize > instances
    }

    /// Returns the value as the CPU sees it, or 0 if the CPU cannot read it.
    pub(crate) fn value(&self) -> u64 {
        self.current.as_ref().map_or(0, FenceValue::load)
    }

    /// Returns whether MonitoredValue follows the waiters. Otherwise every signal interrupts or is
    /// found by a scan.
    pub(crate) fn is_armed(&self) -> bool {
        self.native.is_some() && (self.cross_adapter.is_none() || !self.waiters.lock().is_pinned())
    }

    /// Returns whether CurrentValue is at `va` in this address space. The fence is open there.
    pub(crate) fn is_mapped_at(&self, space: &Arc<AddressSpace>, va: u64) -> bool {
        let is_it = |m: &Arc<Mapping>| m.current_va == va && m.is_in(space);
        self.mappings.lock().iter().any(is_it)
    }

    pub(super) fn keep_mapping(&self, mapping: &Arc<Mapping>) {
        let mut mappings = self.mappings.lock();
        // Drop mappings of ended processes.
        mappings.retain(|known| known.exists());
        if !mappings.iter().any(|known| Arc::ptr_eq(known, mapping)) {
            mappings.push(mapping.clone());
        }
    }
}

impl CrossAdapterFence {
    pub(super) fn is_linked(&self) -> bool {
        *self.linked.lock()
    }

    pub(crate) fn members(&self) -> Vec<Arc<Fence>> {
        self.members.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
