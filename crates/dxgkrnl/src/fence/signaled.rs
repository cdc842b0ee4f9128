//! Releases waiters after an interrupt: of fences named by the interrupt, named by logs, or of
//! all fences.
//!
//! `interrupt` resolves a report to fences or hardware queues and calls this file from the DPC. A
//! process can write logged values, so CurrentValue decides.
//!
//! Invariant: a queue that ended before its report is served needs no reading, because its end
//! scans all native fences ([`queue_ended`]).

use super::log::{LogEntries, LogReader, LoggedQueue};
use super::object::{Fence, Fences};
use super::{monitor, relay, signal};
use crate::stats::Count;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_d3dukmdt::fence_cell::Snapshot;
use tidegate_ddi::{Irql, MonitoredNotification, NodeMetadata, VidSchCaps};

/// Releases satisfied waiters of named fences. Returns whether any was released.
// spec: NF-219
pub(crate) fn wake_named(level: Irql<'_>, fences: &[Arc<Fence>]) -> bool {
    wake_signalled(level, fences, Read::All)
}

/// Scans every native fence with waiters; returns whether any was released.
pub(crate) fn scan_native(level: Irql<'_>, fences: &Fences) -> bool {
    scan(level, &fences.matching(|fence| fence.native.is_some()))
}

/// Scans the cross-adapter fences: signals of other GPUs are in no log of this adapter.
pub(crate) fn scan_cross_adapter(level: Irql<'_>, fences: &Fences) -> bool {
    scan(level, &fences.matching(|fence| fence.cross_adapter.is_some()))
}

/// Scans every monitored fence with waiters: DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED.
pub(crate) fn scan_monitored(level: Irql<'_>, fences: &Fences) -> bool {
    scan(level, &fences.matching(|fence| fence.native.is_none()))
}

/// Releases the satisfied waiters of these fences and relays changed values. A wait registered
/// after this scan arms and collects itself.
pub(crate) fn scan(level: Irql<'_>, fences: &[Arc<Fence>]) -> bool {
    let released = wake(level, fences, Read::Awaited);
    fences.iter().for_each(|fence| relay::relay_if_changed(fence));
    released
}

/// Reads the new signals in the logs of `queues` and releases the waiters of the fences that they
/// name; returns whether any was released.
pub(crate) fn read_and_wake(
    reader: &LogReader,
    level: Irql<'_>,
    queues: &[&dyn LoggedQueue],
) -> bool {
    let signals = reader.read_signals(level, queues);
    wake_logged(level, queues, signals)
}

/// Collects once for every fence that was logged and that has waiters.
// spec: NF-227, NF-231
pub(super) fn wake_logged(
    level: Irql<'_>,
    queues: &[&dyn LoggedQueue],
    signals: Vec<LogEntries>,
) -> bool {
    let mut fences = BTreeMap::new();
    for (queue, signals) in queues.iter().zip(signals) {
        // Progress is never logged, and many kernel-mode queues have no logs.
        let progress = queue.progress();
        fences.insert(progress.os_handle, progress.clone());
        // spec: NF-223
        let known = signals.entries.iter().filter_map(|e| queue.fence_of_handle(e.fence_handle));
        fences.extend(known.map(|fence| (fence.os_handle, fence)));
        // spec: NF-203, NF-225
        if signals.overrun {
            let native = queue.fences_of_device().into_iter().filter(|f| f.native.is_some());
            fences.extend(native.map(|fence| (fence.os_handle, fence)));
        }
    }
    wake_signalled(level, &fences.into_values().collect::<Vec<_>>(), Read::Awaited)
}

/// Scans all native fences after the driver has released a hardware queue, if logs report signals.
/// The queue's log is no longer read.
// spec: NF-235
pub(crate) fn queue_ended(level: Irql<'_>, fences: &Fences, queue: &dyn LoggedQueue) {
    let optimized = VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT;
    if fences.port.declared.caps.scheduling.contains(optimized) && queue.logs().is_some() {
        scan_native(level, fences);
    }
}

/// Handles, in the DPC of the fence's adapter, a signal of a member on another adapter.
// spec: NF-149, NF-163
pub(crate) fn relayed(level: Irql<'_>, fence: &Fence) {
    // 1. Queues that the hardware holds.
    signal::notify(level, fence);
    // 2. CPU waiters and queues that VidSch holds.
    // spec: NF-150, NF-154, NF-157, NF-159, NF-160
    monitor::wake_satisfied(level, fence);
}

/// Returns fences with satisfied waiters that are not yet released. Monitored fences count only if
/// every engine interrupts for its writes. Otherwise packet completion releases their waiters. Each
/// has the value that satisfies them: a later check with it asks for the same waiters.
pub(crate) fn unreleased(fences: &Fences) -> Vec<(Arc<Fence>, Snapshot)> {
    let advanced =
        |node: &NodeMetadata| node.monitored_notification == MonitoredNotification::Advanced;
    let monitored = fences.port.declared.caps.nodes.iter().all(advanced);
    let found = fences.matching(|fence| monitored || fence.native.is_some()).into_iter();
    let satisfied = found.filter_map(|fence| {
        let latest = fence.current.as_ref()?.latest();
        let is_satisfied = fence.waiters.lock().has_satisfied(&latest);
        is_satisfied.then_some((fence, latest))
    });
    satisfied.collect()
}

/// Which fences are read after a signal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    All,
    /// Those with waiters.
    Awaited,
}

fn wake_signalled(level: Irql<'_>, fences: &[Arc<Fence>], read: Read) -> bool {
    let released = wake(level, fences, read);
    // spec: NF-155
    fences.iter().for_each(|fence| relay::relay_interrupt(fence));
    released
}

// spec: NF-022, NF-053
fn wake(level: Irql<'_>, fences: &[Arc<Fence>], read: Read) -> bool {
    let is_read = |fence: &&Arc<Fence>| read == Read::All || !fence.waiters.lock().is_empty();
    let read = fences.iter().filter(is_read).map(|fence| {
        fence.port().count(Count::fence_reads);
        &**fence
    });
    monitor::wake_all_satisfied(level, read)
}
