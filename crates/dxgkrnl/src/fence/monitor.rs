//! Owns the kernel's half of the MonitoredValue protocol: arm, look again, until quiet.
//!
//! CurrentValue and MonitoredValue are a store-buffering pair. The GPU stores CurrentValue,
//! executes a barrier and loads MonitoredValue; the kernel has MonitoredValue stored, a barrier
//! executed (both inside UpdateMonitoredValues) and loads CurrentValue. At least one of the two
//! sees the other, so a signal either interrupts or is found by the second look.
//!
//! Publishing is ordered by the interrupt lock, and what to publish is decided inside it: the last
//! one to publish publishes the latest minimum.

use super::waiters::{Owner, WaiterId};
use super::{Events, Fence, Wakee};
use crate::stats::Count;
use std::sync::Arc;
use tidegate_d3dukmdt::FenceWait;
use tidegate_d3dukmdt::fence_cell::REACHED;
use tidegate_ddi::fence::UpdateMonitoredValue;
use tidegate_ddi::{Dirql, OsHandle};

/// Waiters taken off a fence, each with its ticket.
pub(crate) type Satisfied = Vec<(Arc<dyn Wakee>, u64)>;

/// Enters `wakee` for `value`. Returns `None` when the fence is there already: nothing was entered
/// and nobody is called.
///
/// The wait latches from here on: whatever the fence becomes after it has reached the value.
// spec: ME-042
pub(crate) fn wait(
    fence: &Fence,
    value: u64,
    wakee: Arc<dyn Wakee>,
    ticket: u64,
    owner: Owner,
) -> Option<WaiterId> {
    // 1. Reached already (0 always is): never enters the list.
    // spec: NF-023
    // spec: MF-041, ME-032, ME-039, ME-040
    if value == 0 {
        return None;
    }
    let wait = fence.current.as_ref()?.wait_for(value);
    if wait.epoch == REACHED {
        return None;
    }
    // 2. Enter; a fence that is being destroyed holds nobody.
    let id = fence.waiters.lock().insert(wait, wakee, ticket, owner)?;
    // 3. Arm and look again. Where the minimum is published already as this waiter wants it nobody
    //    has looked: whoever published it may have looked before this waiter was there.
    if !settle(fence) && is_met(fence, wait) {
        look(fence);
    }
    Some(id)
}

/// Takes a registration back; `false` when it was satisfied already (its wakee was called or is
/// being called).
pub(crate) fn cancel(fence: &Fence, id: WaiterId) -> bool {
    let removed = fence.waiters.lock().remove(id);
    if removed {
        settle(fence);
    }
    removed
}

/// Takes back whatever a context or hardware queue waits for here: it is given up, so nobody is
/// called.
pub(crate) fn forget(fence: &Fence, queue: OsHandle) {
    let forgotten = fence.waiters.lock().take_of(Owner::Queue(queue));
    if !forgotten.is_empty() {
        settle(fence);
    }
}

/// Publishes MonitoredValue and looks again, until quiet; returns whether it has looked.
// spec: NF-048, NF-054
pub(crate) fn settle(fence: &Fence) -> bool {
    let mut looked = false;
    loop {
        // 1. Arm, if the minimum has changed.
        let armed = arm(fence);
        if !armed && fence.is_armed() {
            return looked;
        }
        if !fence.is_armed() {
            // A monitored fence has no second cell, and a cross-adapter one always says "every
            // signal". Their writers are followed by a look that takes the waiters' lock after the
            // write; the barrier makes either this look see the write, or that one see the new
            // waiter.
            fence.adapter.platform.fence();
        }
        // 2. Look again, and release what is satisfied; the minimum has changed then, so go round
        //    again.
        // spec: NF-051, NF-052
        if !release_satisfied(fence) {
            return true;
        }
        looked = true;
    }
}

/// Whether the wait is satisfied by now.
fn is_met(fence: &Fence, wait: FenceWait) -> bool {
    let Some(current) = &fence.current else { return false };
    let behind = || current.look_behind(wait.epoch).is_some_and(|look| look.satisfies(wait));
    current.glance().satisfies(wait) || behind()
}

/// Calls UpdateMonitoredValues when the smallest value waited for has changed; returns whether it
/// did.
// spec: NF-037
fn arm(fence: &Fence) -> bool {
    let Some(native) = &fence.native else { return false };
    // Before the interrupt lock: whoever gives a device its power must be able to interrupt.
    let _awake = fence.adapter.awake();
    // spec: NF-049
    let held = fence.adapter.interrupt_lock.lock_device();
    let Some(value) = fence.waiters.lock().take_unpublished() else { return false };
    // spec: NF-017
    let monitored = native.monitored.word();
    let Some(monitored_value) = &monitored else { return false };
    let update = UpdateMonitoredValue { fence: native.driver_global, value, monitored_value };
    fence.adapter.count(Count::monitored_updates);
    fence.adapter.driver().update_monitored_values(&Dirql::enter(&held), &[update]);
    true
}

/// Releases whom the fence satisfies, and publishes who is left; returns whether anybody was
/// released.
pub(crate) fn look(fence: &Fence) -> bool {
    let released = release_satisfied(fence);
    if released {
        settle(fence);
    }
    released
}

/// Takes the waiters that the fence's value satisfies, or has satisfied since they came, and
/// releases them; returns whether there were any.
fn release_satisfied(fence: &Fence) -> bool {
    release(take_satisfied(fence, 0))
}

/// The same without the release; `stored` is a value that counts although the fence may be below it
/// already.
pub(crate) fn take_satisfied(fence: &Fence, stored: u64) -> Satisfied {
    // Nobody waits on the CPU for what it cannot see.
    let Some(current) = &fence.current else { return Vec::new() };
    let mut glance = current.glance();
    glance.value = glance.value.max(stored);
    let (mut satisfied, left) = {
        let mut waiters = fence.waiters.lock();
        (waiters.take_satisfied(&glance), waiters.oldest_epoch())
    };
    // Whoever is left came before the fence reached its value, or before it fell from it.
    if let Some(look) = left.and_then(|epoch| current.look_behind(epoch)) {
        satisfied.extend(fence.waiters.lock().take_satisfied(&look));
    }
    satisfied
}

/// The one place where waiters are released, with no lock held: a waiter may go on to signal other
/// fences. All of them were satisfied before the first goes on, so an event that stands behind
/// several is set once. Returns whether there were any.
// spec: NF-021
pub(crate) fn release(satisfied: Satisfied) -> bool {
    let any = !satisfied.is_empty();
    let mut events = Events::of(satisfied.len());
    for (wakee, ticket) in &satisfied {
        wakee.wake(*ticket, &mut events);
    }
    any
}
