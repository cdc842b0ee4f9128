//! Signals from the CPU and from queued packets: flags, rewinds, stores and the releases
//! they cause.
//!
//! A signal call for several fences: 1. in the order of the call, each value is stored and the
//! waiters that it satisfies are taken; 2. all of them are released; 3. each fence is armed for the
//! rest and its signal relayed to other adapters.
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
    let mut satisfied = Vec::new();
    for FenceTarget { fence, value } in targets {
        fence.port().count(Count::cpu_signals);
        satisfied.push(store_and_collect(level, fence, *value, UpdateCurrentMode::Write));
    }
    release(level, targets.iter().map(|target| &*target.fence), satisfied);
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
    let collect = |fence: &Arc<Fence>| {
        store_and_collect(level, fence, u64::MAX, UpdateCurrentMode::AlwaysSignaled)
    };
    release(level, fences.iter().map(|fence| &**fence), fences.iter().map(collect).collect());
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
        let _ordered = fence.update.lock_device();
        // The hardware condemns a value that no CPU can access.
        let mode = match &fence.current {
            Some(_) => UpdateCurrentMode::NotificationOnly,
            None => UpdateCurrentMode::AlwaysSignaled,
        };
        update(level, &driver, fence, native, u64::MAX, mode);
    }
}

fn store_and_collect(
    level: Irql<'_>,
    fence: &Fence,
    value: u64,
    mode: UpdateCurrentMode,
) -> Satisfied {
    let driver = fence.native.as_ref().map(|native| (native, fence.port().driver(level)));
    let _still = hold_out_of_reach(fence);
    let _ordered = fence.update.lock_device();
    store(level, fence, driver.as_ref(), value, mode);
    monitor::collect_satisfied(
        fence,
        Some(value).filter(|_| !fence.port().declared.caps.fence_history),
    )
}

/// Releases the waiters taken from `fences` (one list per fence), then rearms and relays
/// each fence.
fn release<'a>(
    level: Irql<'_>,
    fences: impl Iterator<Item = &'a Fence>,
    satisfied: Vec<Satisfied>,
) {
    let released: Vec<bool> = satisfied.iter().map(|of_fence| !of_fence.is_empty()).collect();
    monitor::release(level, satisfied.into_iter().flatten().collect());
    for (fence, released) in fences.zip(released) {
        if released {
            monitor::rearm_waiters(level, fence);
        }
        // Relayed even if the value is 0: other members may read it, and no interrupt reports it.
        // spec: NF-156, NF-158, NF-161, NF-162, NF-164
        relay::relay(fence);
    }
}

/// Makes the hardware re-check its waiting queues after another adapter stored the value.
pub(super) fn notify(level: Irql<'_>, fence: &Fence) {
    let Some(native) = &fence.native else { return };
    let driver = fence.port().driver(level);
    let _ordered = fence.update.lock_device();
    // An ending fence must not be named to the driver.
    if !fence.waiters.lock().is_closed() {
        update(level, &driver, fence, native, fence.value(), UpdateCurrentMode::NotificationOnly);
    }
}

fn store(
    level: Irql<'_>,
    fence: &Fence,
    native: Option<&(&NativeParts, Powered<'_>)>,
    value: u64,
    mode: UpdateCurrentMode,
) {
    match native {
        // The last instance is being closed, so the fence must not be named to the driver. It has
        // no waiters.
        Some(_) if fence.waiters.lock().is_closed() => {
            if let Some(current) = &fence.current {
                current.store(value);
            }
        }
        Some((native, driver)) if mode == UpdateCurrentMode::AlwaysSignaled => {
            condemn(level, driver, fence, native);
        }
        // spec: NF-135
        Some((native, driver)) => update(level, driver, fence, native, value, mode),
        None => {
            // spec: MF-035
            match (&fence.current, mode) {
                (Some(current), UpdateCurrentMode::AlwaysSignaled) => current.condemn(),
                (Some(current), _) => {
                    current.store(value);
                }
                (None, _) => {}
            }
        }
    }
}

/// Makes every wait pass. The driver releases hardware waits without changing the value; the kernel
/// stores the value that readers see. Order: (1) store the maximum, (2) call the driver, (3) store
/// the maximum again if an engine stored between 1 and 2. A wait that began in between saw the
/// engine's value, so the hardware re-checks its queues.
fn condemn(level: Irql<'_>, driver: &Powered<'_>, fence: &Fence, native: &NativeParts) {
    // 1.
    if let Some(current) = &fence.current {
        current.store(u64::MAX);
    }
    // 2.
    update(level, driver, fence, native, u64::MAX, UpdateCurrentMode::AlwaysSignaled);
    // 3.
    if let Some(current) = &fence.current
        && current.load() != u64::MAX
    {
        current.store(u64::MAX);
        update(level, driver, fence, native, u64::MAX, UpdateCurrentMode::NotificationOnly);
    }
}

/// Holds the storage of a fence that no CPU can access in place, because the driver changes the
/// value there.
fn hold_out_of_reach(fence: &Fence) -> Option<MutexGuard<'_, ()>> {
    fence.current.is_none().then(|| fence.storage.hold_still(&fence.fences.memory)).flatten()
}

/// The update lock is held, which a DPC can want. The caller has therefore entered the driver
/// before: it may wait for power and at the gate.
fn update(
    level: Irql<'_>,
    driver: &Powered<'_>,
    fence: &Fence,
    native: &NativeParts,
    value: u64,
    mode: UpdateCurrentMode,
) {
    let update = UpdateCurrentValue {
        fence: native.driver_global,
        value,
        // spec: NF-011
        current_value: fence.current.as_ref().map(FenceValue::cell),
    };
    driver.update_current_values_from_cpu(&level.raise(), &[update], mode);
}
