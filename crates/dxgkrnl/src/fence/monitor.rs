//! The kernel's half of the MonitoredValue protocol: arm, collect the satisfied waiters, repeat.
//!
//! CurrentValue and MonitoredValue are a store-buffering pair. The GPU stores CurrentValue,
//! executes a barrier and loads MonitoredValue. The kernel has the driver store MonitoredValue and
//! execute a barrier (both in UpdateMonitoredValues), then loads CurrentValue. At least one side
//! sees the other's store, so a signal either interrupts or is found by the load after arming.
//!
//! Invariant: the interrupt lock orders publishing, and the value is computed inside it. The last
//! agent to publish therefore publishes the latest minimum. A CPU signal raises the value under the
//! lock of the waiters instead (decisions/0094).

use super::event_set::EventSet;
use super::object::{Fence, Waiter};
use super::value::FenceValue;
use super::waiter_queue::WaiterId;
use super::waiter_set::{Taken, WaitOwner};
use crate::stats::Count;
use smallvec::SmallVec;
use std::sync::Arc;
use tidegate_d3dukmdt::FenceWait;
use tidegate_d3dukmdt::fence_cell::{REACHED, Snapshot};
use tidegate_ddi::fence::UpdateMonitoredValue;
use tidegate_ddi::{DriverHandle, Irql, OsHandle};
use tidegate_platform::{Word, planted};

/// Waiters removed from a fence, each with its ticket.
pub(crate) type Satisfied = Taken<Arc<dyn Waiter>>;

/// Begins a wait of this moment for `value`. Its epoch is [`REACHED`] if the fence has already
/// reached the value.
pub(crate) fn begin_wait(fence: &Fence, value: u64) -> FenceWait {
    // 0 always is. A fence that the CPU cannot read has no waiters.
    // spec: NF-023
    // spec: MF-041, ME-032, ME-039, ME-040
    match fence.current.as_ref().filter(|_| value > 0) {
        Some(current) => current.wait_for(value),
        None => FenceWait { value, epoch: REACHED },
    }
}

/// A wait to register.
pub(crate) struct Registration<'f> {
    pub(crate) fence: &'f Fence,
    /// The wait, which was begun.
    pub(crate) wait: FenceWait,
    pub(crate) waiter: Arc<dyn Waiter>,
    pub(crate) ticket: u64,
    pub(crate) owner: WaitOwner,
}

/// Registers `waiter` for `value`. Returns `None` if the fence has already reached it. The waiter
/// is then neither registered nor called.
///
/// The wait latches once begun: any later value that reaches `value` satisfies it, even if the
/// fence falls again.
pub(crate) fn wait(
    level: Irql<'_>,
    fence: &Fence,
    value: u64,
    waiter: Arc<dyn Waiter>,
    ticket: u64,
    owner: WaitOwner,
) -> Option<WaiterId> {
    let wait = begin_wait(fence, value);
    register(level, std::iter::once(Registration { fence, wait, waiter, ticket, owner }))[0]
}

/// Registers waits of fences of one adapter, as [`wait`] does, and returns the registrations in the
/// same order. The driver is called once for all new minimums.
// spec: ME-042
pub(crate) fn register<'f>(
    level: Irql<'_>,
    waits: impl Iterator<Item = Registration<'f>>,
) -> SmallVec<[Option<WaiterId>; 1]> {
    let (mut ids, mut rearmed) = (SmallVec::new(), Rearmed::new());
    let mut registered: SmallVec<[FenceWait; 1]> = SmallVec::new();
    for Registration { fence, wait, waiter, ticket, owner } in waits {
        // 1. A wait that was satisfied when it began never enters the list.
        // 2. Enter. The set of a fence that is being destroyed is closed.
        let id = (wait.epoch != REACHED)
            .then(|| fence.waiters.lock().insert(wait, waiter, ticket, owner))
            .flatten();
        if id.is_some() {
            registered.push(wait);
            rearmed.push(Rearming::of(fence));
        }
        ids.push(id);
    }
    // 3. Arm and collect. If another agent had already published the minimum that a waiter needs,
    //    it may have collected before this waiter was registered.
    rearm(level, &mut rearmed);
    for (Rearming { fence, collected, .. }, wait) in rearmed.iter().zip(registered) {
        if !collected && is_satisfied(fence, wait) {
            wake_satisfied(level, fence);
        }
    }
    ids
}

/// Removes registrations of fences of one adapter. One that was already satisfied is left out: its
/// waiter was called or is being called.
pub(crate) fn cancel<'f>(level: Irql<'_>, waits: impl Iterator<Item = (&'f Fence, WaiterId)>) {
    let is_removed = |&(fence, id): &(&Fence, WaiterId)| fence.waiters.lock().remove(id);
    rearm(level, &mut waits.filter(is_removed).map(|(fence, _)| Rearming::of(fence)).collect());
}

/// Removes the waits of contexts or hardware queues without calling the waiters, because the
/// queues' work is abandoned. The fences are of one adapter.
pub(crate) fn forget<'f>(level: Irql<'_>, waits: impl Iterator<Item = (&'f Fence, OsHandle)>) {
    let is_removed = |&(fence, queue): &(&Fence, OsHandle)| {
        let forgotten = fence.waiters.lock().take_of(WaitOwner::Queue(queue));
        !forgotten.is_empty()
    };
    rearm(level, &mut waits.filter(is_removed).map(|(fence, _)| Rearming::of(fence)).collect());
}

/// Fences of one adapter whose minimum may have changed: mostly one, which takes no memory.
type Rearmed<'f> = SmallVec<[Rearming<'f>; 1]>;

/// A fence while [`rearm`] runs.
struct Rearming<'f> {
    fence: &'f Fence,
    /// This round has published its value.
    armed: bool,
    /// The value was loaded after the last waiter was registered.
    collected: bool,
    /// Neither step changes anything any more.
    done: bool,
}

impl Rearming<'_> {
    fn of(fence: &Fence) -> Rearming<'_> {
        Rearming { fence, armed: false, collected: false, done: false }
    }

    /// Takes the satisfied waiters, which changes the minimum.
    fn collect(&mut self) -> Satisfied {
        let fence = self.fence;
        if !self.armed && fence.is_armed() {
            self.done = true;
            return Satisfied::new();
        }
        if !fence.is_armed() {
            // A monitored fence has no second cell, and an unlinked member always publishes "every
            // signal". Their writers collect after the write, under the waiters' lock. With the
            // barrier, either this collection sees the write or the writer's collection sees the
            // new waiter.
            fence.port().platform.fence();
        }
        let after = if self.armed { Publishing::Ended } else { Publishing::Left };
        let Collected { satisfied, is_published } = collect_publishing(fence, after);
        self.collected = true;
        self.done = satisfied.is_empty() && (is_published || !self.armed);
        satisfied
    }
}

/// Publishes MonitoredValue of one fence, as [`rearm_all`] does.
pub(super) fn rearm_waiters(level: Irql<'_>, fence: &Fence) {
    rearm_all(level, std::iter::once(fence));
}

/// Publishes MonitoredValues of fences of one adapter and releases satisfied waiters, until neither
/// changes anything.
pub(super) fn rearm_all<'f>(level: Irql<'_>, fences: impl Iterator<Item = &'f Fence>) {
    rearm(level, &mut fences.map(Rearming::of).collect());
}

// spec: NF-048, NF-054
fn rearm(level: Irql<'_>, fences: &mut Rearmed<'_>) {
    while fences.iter().any(|of_fence| !of_fence.done) {
        // 1. Arm those whose minimum has changed.
        arm_monitored_values(level, fences);
        // 2. Release satisfied waiters.
        let mut satisfied = Satisfied::new();
        for of_fence in fences.iter_mut().filter(|of_fence| !of_fence.done) {
            take_over(&mut satisfied, of_fence.collect());
        }
        // spec: NF-051, NF-052
        release(level, satisfied);
    }
}

/// Appends `more`. Into an empty list it is moved, without a copy.
fn take_over(satisfied: &mut Satisfied, more: Satisfied) {
    match satisfied.is_empty() {
        true => *satisfied = more,
        false => satisfied.extend(more),
    }
}

/// Returns whether the wait is satisfied.
fn is_satisfied(fence: &Fence, wait: FenceWait) -> bool {
    let Some(current) = &fence.current else { return false };
    let behind =
        || current.snapshot_since(wait.epoch).is_some_and(|snapshot| snapshot.satisfies(wait));
    current.latest().satisfies(wait) || behind()
}

/// Calls UpdateMonitoredValues, once, for the fences whose smallest awaited value has changed.
// spec: NF-037
fn arm_monitored_values(level: Irql<'_>, fences: &mut [Rearming<'_>]) {
    let Some(port) = fences
        .iter()
        .find(|of_fence| !of_fence.done && of_fence.fence.native.is_some())
        .map(|of_fence| of_fence.fence.port())
    else {
        return;
    };
    // Before the interrupt lock: a call that wakes the device must be able to interrupt, and the
    // interrupt routine does not wait for an exclusive call of the driver.
    let driver = port.driver(level);
    // spec: NF-049
    let held = port.interrupt_lock.lock_device();
    let mut changed: SmallVec<[(DriverHandle, u64, Word); 1]> = SmallVec::new();
    for of_fence in fences.iter_mut().filter(|of_fence| !of_fence.done) {
        let change = unpublished_value(of_fence.fence);
        of_fence.armed = change.is_some();
        changed.extend(change);
    }
    if changed.is_empty() {
        return;
    }
    let updates: SmallVec<[UpdateMonitoredValue<'_>; 1]> = changed
        .iter()
        .map(|(fence, value, monitored_value)| UpdateMonitoredValue {
            fence: *fence,
            value: *value,
            monitored_value,
        })
        .collect();
    port.count(Count::monitored_updates);
    driver.update_monitored_values(&level.raise_to_dirql(&held), &updates);
}

/// Returns the value that a native fence has to publish, if it has changed, and where. The caller
/// holds the interrupt lock.
fn unpublished_value(fence: &Fence) -> Option<(DriverHandle, u64, Word)> {
    let native = fence.native.as_ref()?;
    // spec: NF-017
    let monitored_value = native.monitored.word()?;
    let value = fence.waiters.lock().take_unpublished()?;
    Some((native.driver_global, value, monitored_value))
}

/// Releases the waiters that a CPU signal satisfies, and raises MonitoredValue to the minimum of
/// the rest: by a store under the lock of the waiters where the hardware has no copy of it, else by
/// the driver.
pub(super) fn wake_by_cpu_signal(level: Irql<'_>, fence: &Fence) {
    let monitored = fence.direct.as_ref().and_then(|direct| direct.monitored.as_ref());
    let raise = monitored.map_or(Publishing::Left, Publishing::Raised);
    let Collected { satisfied, is_published } = collect_publishing(fence, raise);
    if release(level, satisfied) && !is_published {
        rearm_waiters(level, fence);
    }
}

/// Releases the satisfied waiters and publishes the minimum of the rest. Returns whether any
/// was released.
pub(crate) fn wake_satisfied(level: Irql<'_>, fence: &Fence) -> bool {
    wake_all_satisfied(level, std::iter::once(fence))
}

/// As [`wake_satisfied`], for fences of one adapter.
pub(crate) fn wake_all_satisfied<'f>(
    level: Irql<'_>,
    fences: impl Iterator<Item = &'f Fence>,
) -> bool {
    let (mut satisfied, mut rearmed) = (Satisfied::new(), Rearmed::new());
    for fence in fences {
        let of_fence = collect_satisfied(fence, None);
        if !of_fence.is_empty() {
            rearmed.push(Rearming::of(fence));
            take_over(&mut satisfied, of_fence);
        }
    }
    let released = release(level, satisfied);
    rearm(level, &mut rearmed);
    released
}

/// What a collection does about MonitoredValue under the lock of the waiters.
#[derive(Clone, Copy)]
enum Publishing<'w> {
    /// Nothing: the caller publishes afterwards if it has to.
    Left,
    /// The caller has just published a value, and ends with this.
    Ended,
    /// The minimum of the rest is stored here.
    Raised(&'w Word),
}

/// What [`collect_publishing`] took.
#[derive(Default)]
struct Collected {
    satisfied: Satisfied,
    /// Whether the minimum of the rest is published.
    is_published: bool,
}

/// Takes the waiters that the fence's value satisfies, or has satisfied since they were registered.
/// `stored` counts as reached even if the fence is already below it.
pub(super) fn collect_satisfied(fence: &Fence, stored: Option<u64>) -> Satisfied {
    // A fence that the CPU cannot read has no waiters.
    let Some(current) = &fence.current else { return Satisfied::new() };
    let mut latest = current.latest();
    latest.value = latest.value.max(stored.unwrap_or_default());
    collect_since(fence, current, &latest, Publishing::Left).satisfied
}

/// Takes waiters as [`collect_satisfied`] does, and publishes.
fn collect_publishing(fence: &Fence, publishing: Publishing<'_>) -> Collected {
    let Some(current) = &fence.current else { return Collected::default() };
    collect_since(fence, current, &current.latest(), publishing)
}

/// Takes the waiters that `latest` satisfies, then those that an earlier value has satisfied. The
/// fence is loaded before the lock, which would hide the lack of a barrier.
fn collect_since(
    fence: &Fence,
    current: &FenceValue,
    latest: &Snapshot,
    publishing: Publishing<'_>,
) -> Collected {
    let (mut collected, left) = take(fence, latest, publishing);
    // The rest were registered before the fence reached their value, or before it fell below it.
    if let Some(snapshot) = left.and_then(|epoch| current.snapshot_since(epoch)) {
        if snapshot.has_lost() {
            fence.note_history_lost();
        }
        let again = match publishing {
            Publishing::Ended => Publishing::Left,
            other => other,
        };
        let (more, _) = take(fence, &snapshot, again);
        collected.is_published = more.is_published;
        if !more.satisfied.is_empty() {
            collected.satisfied.extend(more.satisfied);
        }
    }
    collected
}

/// Takes the waiters that one snapshot satisfies. Returns also the oldest epoch of the rest.
fn take(fence: &Fence, seen: &Snapshot, publishing: Publishing<'_>) -> (Collected, Option<u64>) {
    let mut waiters = fence.waiters.lock();
    if matches!(publishing, Publishing::Ended) {
        waiters.end_publishing();
    }
    let satisfied = waiters.take_satisfied(seen);
    let raised = match publishing {
        Publishing::Raised(word) => waiters.take_raised().map(|value| (word, value)),
        Publishing::Left | Publishing::Ended => None,
    };
    let (left, is_published) = (waiters.oldest_epoch(), waiters.is_published());
    let waiters = Some(waiters)
        .filter(|_| !planted!(fence.port().platform, MonitoredValueRaisedWithoutTheLock));
    if let Some((word, value)) = raised {
        word.store(value);
    }
    drop(waiters);
    (Collected { satisfied, is_published }, left)
}

/// Releases waiters: the only place that does. No lock is held, since a waiter may signal other
/// fences. All waits were satisfied before the first waiter is called, so an event shared by
/// several waits is set once. Returns whether there were any.
// spec: NF-021
pub(super) fn release(level: Irql<'_>, satisfied: Satisfied) -> bool {
    let any = !satisfied.is_empty();
    let mut events = EventSet::of(satisfied.len());
    for (waiter, ticket) in satisfied.iter() {
        waiter.wake(level, *ticket, &mut events);
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fences::{FencesOfDevice, Released};
    use tidegate_ddi::Passive;
    use tidegate_platform::Platform;

    #[test]
    fn a_stored_value_releases_its_waits_though_the_fence_has_fallen_and_keeps_no_history() {
        let level = &Passive::enter();
        let made = FencesOfDevice::new(&Platform::closed_host());
        let (instance, released) = (made.instance(3), Released::new(&made.port.platform));
        let enter = |value, ticket| {
            let owner = WaitOwner::Kernel;
            wait(level.into(), &instance.fence, value, released.clone(), ticket, owner).is_some()
        };
        assert_eq!([enter(6, 1), enter(7, 2)], [true, true]);
        assert!(collect_satisfied(&instance.fence, None).is_empty());
        release(level.into(), collect_satisfied(&instance.fence, Some(6)));
        assert_eq!(*released.0.lock(), [1]);
    }
}
