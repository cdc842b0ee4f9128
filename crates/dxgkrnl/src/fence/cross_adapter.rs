//! Owns fences that several adapters have open: one CurrentValue in system memory, and a member for
//! each adapter.
//!
//! A member is a [`Fence`] of its adapter: native where the adapter declares native fences, else a
//! monitored one, whatever the creator's is. Its MonitoredValue is 0 for its whole life, so that
//! each of its GPU signals interrupts and the kernel can tell the others; unless all members' GPUs
//! tell each other (`linking`).
//!
//! The order that matters when a signal was seen on one adapter: 1. its own waiters are released;
//! 2. for each other member an item goes into the deferred routine's queue of that adapter; 3.
//! there, its driver is told (NotificationOnly), so that the hardware looks at its waiting queues;
//! 4. its waiters are released. A signal that was relayed is not relayed again. No lock of one
//! adapter is held while another is told.
//!
//! A member dies with its last hold on its adapter; what still waits in rings there finds the
//! adapter's grave. The cell is condemned with the last member of all.

use super::create::{self, CreateFence, FenceHold};
use super::storage::{FenceStorage, StorageKind, ValuePage};
use super::value::FenceValue;
use super::{Fence, cpu, linking, monitor};
use crate::adapter::Adapter;
use crate::interrupt;
use crate::memory::Affinity;
use crate::stats::Count;
use std::sync::{Arc, Weak};
use tidegate_calls::{NativeFenceType, Status, SyncObjectFlags};
use tidegate_d3dukmdt::fence_cell::Look;
use tidegate_ddi::VidSchCaps;
use tidegate_platform::{Mutex, PhysicalMemory};
use tidegate_trace::FenceId;

/// MonitoredValue of a member that is not linked: every signal is above it, save that of 0, which
/// satisfies nobody.
// spec: NF-147, NF-148
pub(crate) const EVERY_SIGNAL: u64 = 0;

/// What the members of one fence share.
pub(crate) struct CrossAdapterFence {
    current: Arc<ValuePage>,
    memory: PhysicalMemory,
    name: String,
    flags: SyncObjectFlags,
    pub(crate) trace: FenceId,
    /// One adapter joins at a time, so that none has two members.
    joining: Mutex<()>,
    /// Whether the members' GPUs tell each other (see `linking`); changed under `joining`.
    linked: Mutex<bool>,
    members: Mutex<Vec<Weak<Fence>>>,
    /// What the value was when it was last relayed because an interrupt might have meant it.
    relayed: Mutex<Option<Look>>,
}

impl CrossAdapterFence {
    /// What a fence that is created on `adapter` will share.
    pub(crate) fn new(adapter: &Adapter, args: &CreateFence<'_>) -> Arc<CrossAdapterFence> {
        let platform = &adapter.platform;
        Arc::new(CrossAdapterFence {
            // Another adapter may keep histories where this one does not.
            current: Arc::new(ValuePage::of_current_values(&adapter.system_memory, true)),
            memory: adapter.system_memory.clone(),
            name: args.name.to_owned(),
            flags: args.flags,
            trace: platform.trace_fence(args.name),
            joining: platform.mutex("joining a cross-adapter fence", ()),
            linked: platform.mutex("link of a cross-adapter fence", linking::is_capable(adapter)),
            members: platform.mutex("members of a cross-adapter fence", Vec::new()),
            relayed: platform.mutex("last relay of a cross-adapter fence", None),
        })
    }

    /// The cells of the member on `adapter`: the one CurrentValue, and a MonitoredValue of its own.
    // spec: NF-031, NF-145, NF-146, NF-165
    pub(crate) fn storage_on(&self, adapter: &Arc<Adapter>) -> Result<FenceStorage, Status> {
        FenceStorage::around(adapter, StorageKind::Default, &self.current)
    }

    /// A member was made.
    pub(crate) fn enter(&self, member: &Arc<Fence>) {
        self.members.lock().push(Arc::downgrade(member));
    }

    /// A member ends; says whether it was the last.
    pub(crate) fn leave(&self, member: &Fence) -> bool {
        let _one_at_a_time = self.joining.lock_device();
        let last = {
            let mut members = self.members.lock();
            members
                .retain(|known| known.strong_count() > 0 && !std::ptr::eq(known.as_ptr(), member));
            members.is_empty()
        };
        if self.is_linked() {
            let left = self.members();
            // Who is left only has somebody to forget, which nothing hinders.
            for other in &left {
                let _ = linking::tell(other, &left);
            }
            linking::forget(member);
        }
        last
    }

    pub(crate) fn is_linked(&self) -> bool {
        *self.linked.lock()
    }

    /// What MonitoredValue of a new member is.
    pub(crate) fn first_monitored_value(&self) -> u64 {
        linking::first_monitored_value(self.is_linked())
    }

    pub(crate) fn members(&self) -> Vec<Arc<Fence>> {
        self.members.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn others(&self, member: &Fence) -> Vec<Arc<Fence>> {
        self.members().into_iter().filter(|other| !std::ptr::eq(&**other, member)).collect()
    }

    fn member_on(&self, adapter: &Arc<Adapter>) -> Option<FenceHold> {
        self.members().iter().filter(|m| Arc::ptr_eq(&m.adapter, adapter)).find_map(FenceHold::new)
    }

    /// A hold on the adapter's member, which is made if there is none.
    pub(crate) fn join(
        self: &Arc<CrossAdapterFence>,
        adapter: &Arc<Adapter>,
    ) -> Result<FenceHold, Status> {
        // Adapters that do not reach the same memory cannot share a value.
        if !adapter.system_memory.same(&self.memory) {
            return Err(Status::NOT_SUPPORTED);
        }
        let (hold, unlinked) = {
            let _one_at_a_time = self.joining.lock_device();
            if let Some(hold) = self.member_on(adapter) {
                return Ok(hold);
            }
            let mut unlinked =
                if linking::is_capable(adapter) { Vec::new() } else { self.unlink() };
            let hold = self.add_member(adapter)?;
            if self.is_linked() && linking::link(&self.members()).is_err() {
                unlinked = self.unlink();
            }
            (hold, unlinked)
        };
        unlinked.into_iter().for_each(interrupt::relay);
        Ok(hold)
    }

    /// The kernel propagates from now on. Returns the members, which are to look once more.
    fn unlink(&self) -> Vec<Arc<Fence>> {
        if !std::mem::replace(&mut *self.linked.lock(), false) {
            return Vec::new();
        }
        let members = self.members();
        members.iter().for_each(|member| linking::unlink(member));
        members
    }

    fn add_member(
        self: &Arc<CrossAdapterFence>,
        adapter: &Arc<Adapter>,
    ) -> Result<FenceHold, Status> {
        // spec: NF-152, NF-153
        let native = adapter.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE);
        let args = CreateFence {
            name: &self.name,
            initial_value: 0,
            flags: self.flags,
            native: native.then_some(NativeFenceType::Default),
            private_data: [0; 64],
            // Each open says where it is mapped.
            affinity: Affinity::ALL,
        };
        let storage = self.storage_on(adapter)?;
        storage.begin_monitored(adapter, &self.name, self.first_monitored_value());
        create::make(adapter, &args, storage, Some(self.clone()))
    }
}

/// The value that `fence` shares with other adapters may have changed: they are told.
pub(crate) fn propagate(fence: &Fence) {
    let Some(cross) = &fence.cross_adapter else { return };
    for other in cross.others(fence) {
        fence.adapter.count(Count::relays);
        interrupt::relay(other);
    }
}

/// The same for a signal of a GPU, of which an interrupt speaks: linked GPUs have told each other
/// already.
pub(crate) fn propagate_interrupt(fence: &Fence) {
    if fence.cross_adapter.as_ref().is_some_and(|cross| !cross.is_linked()) {
        propagate(fence);
    }
}

/// The same where nobody knows which fences changed: nothing is relayed that was relayed already.
///
/// Whoever waits on another adapter looked at the value after it had entered, so a value that was
/// relayed since then, or was there at the look, satisfies nobody whom it did not satisfy before.
pub(crate) fn propagate_if_changed(fence: &Fence) {
    let Some(cross) = fence.cross_adapter.as_ref().filter(|cross| !cross.is_linked()) else {
        return;
    };
    let Some(seen) = fence.current.as_ref().map(FenceValue::glance) else { return };
    let changed = cross.relayed.lock().replace(seen.clone()).is_none_or(|before| before != seen);
    if changed {
        propagate(fence);
    }
}

/// In the deferred routine of the fence's adapter: it was signalled on another one.
// spec: NF-149, NF-163
pub(crate) fn receive(fence: &Fence) {
    // 1. Queues that the hardware holds.
    cpu::notify(fence);
    // 2. CPU waiters and queues that VidSch holds.
    // spec: NF-150, NF-154, NF-157, NF-159, NF-160
    monitor::look(fence);
}
