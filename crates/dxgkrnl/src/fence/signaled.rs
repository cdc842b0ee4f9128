//! Owns what a signalled interrupt means: which fences to look at, and the release of their
//! waiters.
//!
//! | the adapter declared | the report names | looked at |
//! |---|---|---|
//! | nothing | fences | those |
//! | nothing | no fence: a NULL array, or an empty one | every native fence with waiters |
//! | optimized | a hardware queue; an array of fences is ignored | what its log says since the last reading |
//! | optimized | no queue | what the logs of all queues of that engine say |
//! | queue array | hardware queues | what their logs say; without any, those of all queues of that engine |
//! | optimized or queue array | a log ran over | every native fence of that queue's device |
//!
//! Monitored fences are looked at when EvaluateLegacyMonitoredFences says so, in each of the rows
//! (`interrupt`).
//!
//! The order that matters: 1. at interrupt level, handles become objects ([`what_is_meant`]): one
//! that names nothing is a broken contract, one that names what is being destroyed is rightly said;
//! 2. at dispatch level the objects are looked at ([`native_signaled`]); a logged value is a
//! process's word, CurrentValue decides; 3. a queue that ended meanwhile is passed over, because
//! whoever ends a queue looks at all that its log may have said ([`queue_ended`]).

use super::log::{self, LogNews};
use super::{Fence, cross_adapter, monitor};
use crate::adapter::Adapter;
use crate::error::BugCheck;
use crate::hwqueue::HwQueue;
use crate::stats::Count;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tidegate_ddi::{
    Dispatch, DriverHandle, EngineId, MonitoredNotification, NodeMetadata, OsHandle, VidSchCaps,
};

/// What a report names.
#[derive(Clone, Copy)]
pub(crate) enum Named<'a> {
    /// The published data.
    Published { fences: Option<&'a [OsHandle]>, hw_queue: Option<DriverHandle> },
    /// The array of hardware queues.
    HwQueues(&'a [DriverHandle]),
}

/// What a report is about.
pub(crate) enum Meant {
    /// These fences.
    Fences(Vec<Arc<Fence>>),
    /// Any native fence.
    AnyFence,
    /// What these hardware queues logged. Weak: a report keeps no queue from being destroyed.
    Queues(Vec<Weak<HwQueue>>),
    /// What any hardware queue of this engine logged.
    AnyQueue { engine: EngineId },
}

/// The part at interrupt level: what a report is about, or how it breaks the contract.
pub(crate) fn what_is_meant(
    adapter: &Adapter,
    engine: EngineId,
    named: Named<'_>,
) -> Result<Meant, BugCheck> {
    adapter.check_engine(engine)?;
    let optimized =
        adapter.caps.scheduling.contains(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT);
    match named {
        // spec: NF-233
        Named::HwQueues(_) if !adapter.caps.signaled_hw_queue_array => {
            Err(BugCheck::QueueArrayNotDeclared)
        }
        Named::HwQueues([]) => Ok(Meant::AnyQueue { engine }),
        Named::HwQueues(handles) => queues(adapter, handles),
        Named::Published { hw_queue: Some(handle), .. } if optimized => queues(adapter, &[handle]),
        // spec: NF-224
        Named::Published { hw_queue: None, .. } if optimized => Ok(Meant::AnyQueue { engine }),
        // spec: NF-125
        // spec: NF-127
        // spec: NF-234
        Named::Published { fences: None | Some([]), .. } => Ok(Meant::AnyFence),
        Named::Published { fences: Some(handles), .. } => {
            match adapter.fences.lock().resolve(handles) {
                Ok(fences) => Ok(Meant::Fences(fences)),
                // spec: NF-122
                // spec: NF-123
                Err(unknown) => Err(BugCheck::UnknownFence(unknown.0)),
            }
        }
    }
    // The waiters go on first; the times are for tools.
}

// spec: NF-232
fn queues(adapter: &Adapter, handles: &[DriverHandle]) -> Result<Meant, BugCheck> {
    let table = adapter.hw_queues.lock();
    let find =
        |handle: &DriverHandle| table.of_driver(*handle).ok_or(BugCheck::UnknownQueue(handle.0));
    handles.iter().map(find).collect::<Result<_, _>>().map(Meant::Queues)
}

/// The part at dispatch level of DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED; returns whether anybody was
/// released.
pub(crate) fn native_signaled(adapter: &Arc<Adapter>, level: &Dispatch, meant: &Meant) -> bool {
    match meant {
        // spec: NF-219
        Meant::Fences(fences) => {
            let released = look_at(fences.iter().cloned(), look);
            read_times(adapter, level, fences);
            released
        }
        Meant::AnyFence => scan(adapter, |f| f.native.is_some()),
        Meant::Queues(queues) => {
            let live: Vec<_> = queues.iter().filter_map(Weak::upgrade).collect();
            logged(adapter, level, &live)
        }
        Meant::AnyQueue { engine } => {
            let released = logged(adapter, level, &adapter.hw_queues_of(|q| q.engine() == *engine));
            // What other GPUs signalled stands in no log of ours.
            scan(adapter, |f| f.cross_adapter.is_some()) | released
        }
    }
}

/// DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED: every monitored fence with waiters; returns whether
/// anybody was released.
pub(crate) fn scan_monitored(adapter: &Arc<Adapter>) -> bool {
    scan(adapter, |f| f.native.is_none())
}

/// Fences with satisfied waiters that are not released. Monitored fences count where every engine
/// interrupts for its writes; elsewhere their waiters are released when a packet completes.
pub(crate) fn unreleased(adapter: &Arc<Adapter>) -> Vec<Arc<Fence>> {
    let advanced =
        |node: &NodeMetadata| node.monitored_notification == MonitoredNotification::Advanced;
    let monitored = adapter.caps.nodes.iter().all(advanced);
    let mut fences = adapter.fences.lock().matching(|fence| monitored || fence.native.is_some());
    fences.retain(|fence| {
        let look = fence.current.as_ref().map(|current| current.glance());
        look.is_some_and(|look| fence.waiters.lock().has_satisfied(&look))
    });
    fences
}

impl Fence {
    /// Why its satisfied waiters were not released: the driver's entry, and what was seen.
    pub(crate) fn missed_text(&self) -> (&'static str, String) {
        let published = self.waiters.lock().published();
        let word = self
            .native
            .as_ref()
            .filter(|_| self.is_armed())
            .and_then(|native| native.monitored.word());
        let (name, value) = (&self.name, self.value());
        match word.map(|word| word.load()).filter(|seen| *seen != published) {
            Some(seen) => (
                "DxgkDdiUpdateMonitoredValues",
                format!(
                    "MonitoredValue of fence '{name}' is {seen} and was set to {published}: its waiters miss {value}"
                ),
            ),
            None => (
                "DxgkDdiInterruptRoutine",
                format!(
                    "fence '{name}' reached {value}, and no interrupt named it: its waiters were not released"
                ),
            ),
        }
    }
}

/// Looks at those of these monitored fences that have waiters: the basic scan after a completed
/// packet.
pub(crate) fn look_at_monitored(fences: &[Arc<Fence>]) {
    look_over(fences);
}

/// The driver has let go of a hardware queue, and its signals are all made. Where logs tell what
/// was signalled, nobody reads this one's any more: whoever waits for a native fence may have been
/// meant by it.
// spec: NF-235
pub(crate) fn queue_ended(adapter: &Arc<Adapter>, queue: &HwQueue) {
    let optimized =
        adapter.caps.scheduling.contains(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT);
    if optimized && queue.logs.is_some() {
        scan(adapter, |f| f.native.is_some());
    }
}

fn scan(adapter: &Arc<Adapter>, which: impl Fn(&Fence) -> bool) -> bool {
    let fences = adapter.fences.lock().matching(which);
    look_over(&fences)
}

/// Looks at the fences that somebody waits for, here or on another adapter. Who begins to wait
/// after this look arms and looks for himself.
fn look_over(fences: &[Arc<Fence>]) -> bool {
    let mut released = false;
    for fence in fences {
        released |= look_if_awaited(fence);
        cross_adapter::propagate_if_changed(fence);
    }
    released
}

/// Looks at fences that are known to have been signalled; returns whether anybody was released.
fn look_at(fences: impl Iterator<Item = Arc<Fence>>, look: impl Fn(&Fence) -> bool) -> bool {
    let mut released = false;
    for fence in fences {
        released |= look(&fence);
        // spec: NF-155
        cross_adapter::propagate_interrupt(&fence);
    }
    released
}

fn look_if_awaited(fence: &Fence) -> bool {
    !fence.waiters.lock().is_empty() && look(fence)
}

// spec: NF-022, NF-053
fn look(fence: &Fence) -> bool {
    fence.adapter.count(Count::fence_reads);
    monitor::look(fence)
}

/// Reads what is new in the signal logs of `queues`, and looks at what they speak of.
fn logged(adapter: &Arc<Adapter>, level: &Dispatch, queues: &[Arc<HwQueue>]) -> bool {
    let news = log::read_news(adapter, level, queues);
    release_logged(queues.iter().map(|queue| &**queue), news)
}

/// Looks once at every fence that was logged and that has waiters.
// spec: NF-227, NF-231
pub(super) fn release_logged<'a>(
    queues: impl IntoIterator<Item = &'a HwQueue>,
    news: Vec<LogNews>,
) -> bool {
    let mut fences = BTreeMap::new();
    for (queue, news) in queues.into_iter().zip(news) {
        // Progress is never logged, and a kernel-mode queue has no logs at all.
        let progress = &queue.progress.fence;
        fences.insert(progress.os_handle, progress.clone());
        // spec: NF-223
        let known =
            news.entries.iter().filter_map(|e| queue.device.fence_of_handle(e.fence_handle));
        fences.extend(known.map(|f| (f.os_handle, f)));
        // spec: NF-203, NF-225
        if news.overrun {
            let native = queue.device.fences().into_iter().filter(|f| f.native.is_some());
            fences.extend(native.map(|f| (f.os_handle, f)));
        }
    }
    look_at(fences.into_values(), look_if_awaited)
}

/// The interrupt named fences and not who signalled them: the logs of all hardware queues of their
/// devices have the times. Only the timeline needs those.
// spec: NF-220
fn read_times(adapter: &Arc<Adapter>, level: &Dispatch, fences: &[Arc<Fence>]) {
    if adapter.platform.tracing() {
        let of_fences = |q: &HwQueue| fences.iter().any(|f| f.is_open_on(q.device.os_handle));
        let _released_already = log::read_news(adapter, level, &adapter.hw_queues_of(of_fences));
    }
}
