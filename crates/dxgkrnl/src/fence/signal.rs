//! Signals from the CPU and from queued packets: flags, rewinds, stores and the releases
//! they cause.
//!
//! A signal call for several fences: 1. in the order of the call, the values are stored and the
//! waiters that they satisfy are taken. Neighbours of one kind are one batch, and one call of the
//! driver. 2. All waiters are released. 3. The fences are armed for the rest, in one call of the
//! driver, and the signals relayed to other adapters.
//!
//! An unannounced rewind (a value below the present one without AllowFenceRewind) is carried out,
//! counted and reported with the fence's name. A strict adapter rejects the call before any value
//! is stored. A queued signal that turns out to be a rewind has no caller to reject.

use super::monitor::{self, Satisfied};
use super::object::{Fence, FenceTarget, NativeParts};
use super::relay;
use super::value::FenceValue;
use crate::driver::{DriverPort, Powered};
use crate::stats::Count;
use smallvec::SmallVec;
use std::sync::Arc;
use tidegate_calls::{SignalFlags, Status};
use tidegate_ddi::Irql;
use tidegate_ddi::fence::{UpdateCurrentMode, UpdateCurrentValue};
use tidegate_platform::MutexGuard;
use tidegate_platform::planted;

/// Checks that a call has only flags in `taken`. A reserved bit is never accepted.
// spec: MF-063
pub(crate) fn check_flags(flags: SignalFlags, taken: SignalFlags) -> Result<(), Status> {
    if taken.contains(flags) { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
}

/// Rejects a call that contains an unannounced rewind, on a strict adapter.
pub(crate) fn check_rewinds(
    port: &DriverPort,
    targets: &[FenceTarget],
    flags: SignalFlags,
) -> Result<(), Status> {
    if !port.config.strict_fence_rewind || flags.contains(SignalFlags::ALLOW_FENCE_REWIND) {
        return Ok(());
    }
    let rewinds = (0..targets.len()).any(|index| falls_from(targets, index).is_some());
    if rewinds { Err(Status::INVALID_PARAMETER) } else { Ok(()) }
}

/// Signals the fences of a call or of a packet whose turn has come. The values are visible before
/// the waiters are released.
///
/// A waiter registered before the store is satisfied, whatever is stored next, because the cell
/// keeps a history. Without histories the value itself releases the waiter. The update lock
/// orders CPU signals of one fence, so a wait made after a CPU rewind is not released by the
/// value before it.
#[doc(alias = "D3DKMTSignalSynchronizationObjectFromCpu")]
// spec: MF-038
// spec: NF-141
pub(crate) fn signal(level: Irql<'_>, targets: &[FenceTarget], flags: SignalFlags) {
    note_rewinds(targets, flags);
    let mut collected = Collected::new();
    let mut rest = targets;
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(batch_len(rest));
        batch.iter().for_each(|target| target.fence.port().count(Count::cpu_signals));
        let updates: Updates<'_> = batch.iter().map(|to| (&*to.fence, to.value)).collect();
        store_and_collect(level, &updates, UpdateCurrentMode::Write, &mut collected);
        rest = later;
    }
    release(level, collected);
}

/// Returns how many of the first targets are stored in one step: fences of one kind, each named
/// once. A fence that is named again has other waiters between its two values.
fn batch_len(targets: &[FenceTarget]) -> usize {
    let starts_another = |index: &usize| {
        let (earlier, next) = (&targets[..*index], &targets[*index].fence);
        next.native.is_some() != earlier[0].fence.native.is_some()
            || earlier.iter().any(|other| Arc::ptr_eq(&other.fence, next))
    };
    (1..targets.len()).find(starts_another).unwrap_or(targets.len())
}

/// What a stored CPU signal leaves to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    /// A hardware queue may wait for the fence.
    hardware_waits: bool,
    /// A waiter may be satisfied.
    satisfies: bool,
}

impl Stored {
    /// Returns whether the signal is complete.
    pub(crate) fn is_done(self) -> bool {
        !self.hardware_waits && !self.satisfies
    }
}

/// Stores the value of a CPU signal that does not fall. Returns `None`, and stores nothing, if the
/// value falls or the fence has no direct signals: the caller then calls [`signal`].
///
/// 1. Store CurrentValue: a full barrier.
/// 2. Load the word of the hardware and the word of the waiters. A queue or a waiter that the loads
///    miss
///    loads CurrentValue after step 1.
///
/// The cell keeps a history, so a waiter that was there before step 1 is satisfied whatever is
/// stored next, and no lock is needed.
pub(crate) fn store_directly(fence: &Fence, value: u64) -> Option<Stored> {
    let (direct, cell) = (fence.direct.as_ref()?, fence.current.as_ref()?.cell());
    let waits = || Stored {
        hardware_waits: direct.waiting.as_ref().is_some_and(|word| word.load() != 0),
        satisfies: fence.waiters.may_be_satisfied_by(value),
    };
    let platform = &fence.port().platform;
    let early = planted!(platform, WaitersTestedBeforeTheCPUSignal).then(waits);
    // 1.
    if planted!(platform, NoBarrierInTheCPUSignal) {
        cell.word().store(value);
    } else if !cell.raise(value) {
        return None;
    }
    fence.port().count(Count::cpu_signals);
    // 2.
    Some(early.unwrap_or_else(waits))
}

/// Completes a direct signal: the hardware re-checks its queues, then the satisfied waiters are
/// released.
// spec: MF-036
pub(crate) fn complete(level: Irql<'_>, fence: &Fence, stored: Stored) {
    if stored.hardware_waits {
        notify(level, fence);
    }
    if stored.satisfies {
        monitor::wake_by_cpu_signal(level, fence);
    }
}

/// Reports unannounced rewinds.
fn note_rewinds(targets: &[FenceTarget], flags: SignalFlags) {
    if flags.contains(SignalFlags::ALLOW_FENCE_REWIND) {
        return;
    }
    for (index, FenceTarget { fence, value }) in targets.iter().enumerate() {
        if let Some(from) = falls_from(targets, index) {
            fence.port().stats.note_rewind(&fence.name, from, *value);
        }
    }
}

/// Returns the value of a fence before its turn in the call, if the signal takes it below. A fence
/// named twice already has its first value when the second is stored. A signal of a fence of a lost
/// device stores nothing.
fn falls_from(targets: &[FenceTarget], index: usize) -> Option<u64> {
    let FenceTarget { fence, value } = &targets[index];
    let earlier = targets[..index].iter().rfind(|other| Arc::ptr_eq(&other.fence, fence));
    let from = earlier.map_or_else(|| fence.value(), |other| other.value);
    let is_condemned = || fence.current.as_ref().is_some_and(FenceValue::is_condemned);
    (*value < from && !is_condemned()).then_some(from)
}

/// Sets fences to their maximum and releases all waiters, after the loss of a device that may
/// signal them.
// spec: ME-048
pub(crate) fn signal_always(level: Irql<'_>, fences: &[Arc<Fence>]) {
    let (native, monitored): (Updates<'_>, Updates<'_>) = fences
        .iter()
        .map(|fence| (&**fence, u64::MAX))
        .partition(|(fence, _)| fence.native.is_some());
    let mut collected = Collected::new();
    for batch in [native, monitored] {
        store_and_collect(level, &batch, UpdateCurrentMode::AlwaysSignaled, &mut collected);
    }
    release(level, collected);
}

/// Makes every wait pass because the fence ends, including waits that hardware holds or has yet
/// to reach.
pub(super) fn let_all_pass(level: Irql<'_>, fence: &Fence) {
    if let Some(current) = &fence.current {
        fence.note_history_lost();
        current.condemn();
    }
    let has_hardware_waits = fence.fences.has_hardware_waits();
    if let Some(native) = &fence.native
        && has_hardware_waits
    {
        let driver = fence.port().driver(level);
        let _still = hold_out_of_reach(fence);
        let _ordered = fence.fences.updates.lock_device();
        // The hardware condemns a value that no CPU can access.
        let mode = match &fence.current {
            Some(_) => UpdateCurrentMode::NotificationOnly,
            None => UpdateCurrentMode::AlwaysSignaled,
        };
        update(level, &driver, &[(fence, native, u64::MAX)], mode);
    }
}

/// New values of fences of one adapter and one kind, each named once.
type Updates<'f> = SmallVec<[(&'f Fence, u64); 1]>;

/// Fences whose values were stored, each with the waiters that were taken from it.
type Collected<'f> = SmallVec<[(&'f Fence, Satisfied); 1]>;

/// Stores the values, and takes the waiters that they satisfy, of each fence in order.
fn store_and_collect<'f>(
    level: Irql<'_>,
    updates: &Updates<'f>,
    mode: UpdateCurrentMode,
    collected: &mut Collected<'f>,
) {
    let Some((first, _)) = updates.first() else { return };
    let driver = first.native.is_some().then(|| first.port().driver(level));
    let _still = updates.iter().find_map(|(fence, _)| hold_out_of_reach(fence));
    let _ordered = first.fences.updates.lock_device();
    match &driver {
        Some(driver) => store_native(level, driver, updates, mode),
        None => updates.iter().for_each(|(fence, value)| store_monitored(fence, *value, mode)),
    }
    let has_history = first.port().declared.caps.fence_history;
    collected.extend(updates.iter().map(|&(fence, value)| {
        let stored = Some(value).filter(|_| !has_history);
        (fence, monitor::collect_satisfied(fence, stored))
    }));
}

/// Releases the waiters, then rearms the fences that had some, and relays the signals of all.
fn release(level: Irql<'_>, mut collected: Collected<'_>) {
    let mut satisfied = Satisfied::new();
    let mut rearmed: SmallVec<[&Fence; 1]> = SmallVec::new();
    for (fence, of_fence) in &mut collected {
        if !of_fence.is_empty() {
            rearmed.push(fence);
            satisfied.extend(std::mem::take(of_fence));
        }
    }
    monitor::release(level, satisfied);
    monitor::rearm_all(level, rearmed.into_iter());
    for (fence, _) in collected {
        // Relayed even if the value is 0: other members may read it, and no interrupt reports it.
        // spec: NF-156, NF-158, NF-161, NF-162, NF-164
        relay::relay(fence);
    }
}

/// Makes the hardware re-check its waiting queues after another adapter stored the value.
pub(super) fn notify(level: Irql<'_>, fence: &Fence) {
    let Some(native) = &fence.native else { return };
    let driver = fence.port().driver(level);
    let _ordered = fence.fences.updates.lock_device();
    // An ending fence must not be named to the driver.
    if !fence.waiters.lock().is_closed() {
        let named = [(fence, native, fence.value())];
        update(level, &driver, &named, UpdateCurrentMode::NotificationOnly);
    }
}

// spec: MF-035
fn store_monitored(fence: &Fence, value: u64, mode: UpdateCurrentMode) {
    let Some(current) = &fence.current else { return };
    match mode {
        UpdateCurrentMode::AlwaysSignaled => current.condemn(),
        _ => current.store(value),
    }
}

/// A fence that is named to the driver, and its new value.
type Named<'f> = (&'f Fence, &'f NativeParts, u64);

fn store_native(
    level: Irql<'_>,
    driver: &Powered<'_>,
    updates: &[(&Fence, u64)],
    mode: UpdateCurrentMode,
) {
    let mut named: SmallVec<[Named<'_>; 1]> = SmallVec::new();
    for &(fence, value) in updates {
        let Some(native) = &fence.native else { continue };
        if fence.waiters.lock().is_closed() {
            // The last instance is being closed, so the fence must not be named to the driver. It
            // has no waiters.
            if let Some(current) = &fence.current {
                current.store(value);
            }
        } else {
            named.push((fence, native, value));
        }
    }
    match mode {
        UpdateCurrentMode::AlwaysSignaled => condemn(level, driver, &named),
        // spec: NF-135
        _ => update(level, driver, &named, mode),
    }
}

/// Makes every wait pass. The driver releases hardware waits without changing the values; the
/// kernel stores the values that readers see. Order: (1) store the maximum, (2) call the driver,
/// (3) store the maximum again where an engine stored between 1 and 2. A wait that began in between
/// saw the engine's value, so the hardware re-checks its queues.
fn condemn(level: Irql<'_>, driver: &Powered<'_>, fences: &[Named<'_>]) {
    // 1.
    for current in fences.iter().filter_map(|(fence, ..)| fence.current.as_ref()) {
        current.store(u64::MAX);
    }
    // 2.
    update(level, driver, fences, UpdateCurrentMode::AlwaysSignaled);
    // 3.
    let mut stored_since: SmallVec<[Named<'_>; 1]> = SmallVec::new();
    for named in fences {
        if let Some(current) = &named.0.current
            && current.load() != u64::MAX
        {
            current.store(u64::MAX);
            stored_since.push(*named);
        }
    }
    update(level, driver, &stored_since, UpdateCurrentMode::NotificationOnly);
}

/// Holds the storage of fences that no CPU can access in place, because the driver changes the
/// value there.
fn hold_out_of_reach(fence: &Fence) -> Option<MutexGuard<'_, ()>> {
    fence.current.is_none().then(|| fence.storage.hold_still(&fence.fences.memory)).flatten()
}

/// Hands all values to the driver in one call. The update lock is held, which a DPC can want. The
/// caller has therefore entered the driver before: it may wait for power and at the gate.
fn update(level: Irql<'_>, driver: &Powered<'_>, fences: &[Named<'_>], mode: UpdateCurrentMode) {
    if fences.is_empty() {
        return;
    }
    let updates: SmallVec<[UpdateCurrentValue<'_>; 1]> = fences
        .iter()
        .map(|&(fence, native, value)| UpdateCurrentValue {
            fence: native.driver_global,
            value,
            // spec: NF-011
            current_value: fence.current.as_ref().map(FenceValue::cell),
        })
        .collect();
    driver.update_current_values_from_cpu(&level.raise(), &updates, mode);
}
