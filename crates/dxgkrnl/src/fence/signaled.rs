//! Owns what a signalled interrupt means: which fences to look at, and the release of their waiters.
//!
//! Normal mode: an array of fences is looked at; a NULL array means any native fence with waiters, and no monitored one.
//! Optimized mode: the logs of the named hardware queue (NULL: of all) name the fences; when a log ran over, every fence with
//! waiters is looked at. A logged value is a process's word: CurrentValue decides.

use super::log::LogNews;
use super::{Fence, monitor};
use crate::adapter::Adapter;
use crate::stats::Count;
use std::sync::Arc;
use tidegate_ddi::{Dispatch, DriverHandle, VidSchCaps};

/// DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED.
pub(crate) fn native_signaled(
    adapter: &Arc<Adapter>,
    level: &Dispatch,
    fences: Option<&[Arc<Fence>]>,
    hw_queue: Option<DriverHandle>,
) {
    if adapter.caps.scheduling.contains(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT) {
        return logged(adapter, level, hw_queue);
    }
    match fences {
        // spec: NF-219
        Some(fences) => fences.iter().for_each(|fence| look(fence)),
        // spec: NF-125
        // spec: NF-127
        None => scan(adapter, |f| f.native.is_some()),
    }
}

/// DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED, or the basic scan after a completed packet.
pub(crate) fn scan_monitored(adapter: &Arc<Adapter>) {
    scan(adapter, |f| f.native.is_none());
}

fn scan(adapter: &Arc<Adapter>, which: impl Fn(&Fence) -> bool) {
    let fences = adapter.fences.lock().matching(which);
    for fence in fences {
        if !fence.waiters.lock().is_empty() {
            look(&fence);
        }
    }
}

// spec: NF-022, NF-053
fn look(fence: &Fence) {
    fence.adapter.count(Count::fence_reads);
    if monitor::release_satisfied(fence) {
        monitor::settle(fence);
    }
}

fn logged(adapter: &Arc<Adapter>, level: &Dispatch, hw_queue: Option<DriverHandle>) {
    let mut overrun = false;
    // spec: NF-224
    for queue in adapter.hw_queues_of(|q| hw_queue.is_none_or(|h| q.driver == h)) {
        // Progress is never logged, and a kernel-mode queue has no logs at all.
        look(&queue.progress.fence);
        let Some(logs) = &queue.logs else { continue };
        match logs.signals.read_news(adapter, level, queue.driver) {
            LogNews::Entries(entries) => {
                // spec: NF-223
                for entry in entries {
                    if let Some(fence) = queue.device.fence_of_handle(entry.fence_handle) {
                        look(&fence);
                    }
                }
            }
            LogNews::Overrun { lost } => {
                queue.record_lost(lost);
                overrun = true;
            }
        }
    }
    // spec: NF-203, NF-225
    if overrun {
        scan(adapter, |f| f.native.is_some());
    }
}
