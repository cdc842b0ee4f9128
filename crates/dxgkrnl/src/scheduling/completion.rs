//! Handles packet reports and deadlines: completed, preempted, overdue.

use super::scheduler::Scheduling;
use crate::error::BugCheck;
use crate::fence::{Fence, signaled};
use crate::stats::Count;
use std::sync::Arc;
use tidegate_ddi::{EngineId, Irql, MonitoredNotification, OsHandle, Passive};
use tidegate_platform::{CpuTime, Step};
use tidegate_vidsch::{Preempted, PreemptionReport, Submitter};

impl Scheduling {
    /// DXGK_INTERRUPT_DMA_COMPLETED: packets up to this ID are complete. They may have written
    /// monitored fences, which are scanned if the engine does not interrupt for its writes.
    pub(crate) fn dma_completed(&self, level: Irql<'_>, engine: EngineId, fence_id: u32) {
        let (completed, emptied) = {
            let mut state = self.lock();
            (state.completed(engine, fence_id, self.now()), state.take_emptied())
        };
        emptied.iter().for_each(|(_, event)| event.set(Step::ThreadWake));
        let Some(contexts) = completed else {
            return self.port.bug_check(level, BugCheck::unknown_packet(engine, fence_id));
        };
        self.scan_after(level, engine, &contexts);
        self.run(level, Submitter::Packets);
    }

    /// DXGK_INTERRUPT_DMA_PREEMPTED: a preemption request is acknowledged. Packets up to the last
    /// completed one are complete, whether already reported or not; the others were returned.
    pub(crate) fn dma_preempted(
        &self,
        level: Irql<'_>,
        engine: EngineId,
        report: PreemptionReport,
    ) {
        let (preempted, emptied) = {
            let mut state = self.lock();
            (state.preempted(engine, report, self.now()), state.take_emptied())
        };
        emptied.iter().for_each(|(_, event)| event.set(Step::ThreadWake));
        match preempted {
            Preempted::Answered { completed, returned } => {
                self.port.stats.add(Count::packets_preempted, returned as u64);
                self.scan_after(level, engine, &completed);
            }
            Preempted::Stale => self.port.count(Count::stale_preemptions),
            Preempted::Unknown(id) => {
                return self.port.bug_check(level, BugCheck::unknown_packet(engine, id));
            }
        }
        self.run(level, Submitter::Packets);
    }

    /// Scans the monitored fences of contexts with completed packets, if the engine does not
    /// interrupt for its writes.
    pub(super) fn scan_after(&self, level: Irql<'_>, engine: EngineId, contexts: &[OsHandle]) {
        let node = &self.port.declared.caps.nodes[engine.node_ordinal as usize];
        // spec: MF-053
        if node.monitored_notification == MonitoredNotification::Basic {
            self.basic_scan(level, contexts);
        }
    }

    // spec: MF-025
    fn basic_scan(&self, level: Irql<'_>, contexts: &[OsHandle]) {
        let Some(objects) = self.objects.get() else { return };
        let mut lists = Vec::with_capacity(contexts.len());
        for context in contexts {
            // A context that ended while its packet ran has no known process.
            let Some(context) = objects.packet_context(*context) else {
                signaled::scan_monitored(level, &self.fences);
                return;
            };
            lists.push(context.monitored_fences());
        }
        if let [one] = &lists[..] {
            signaled::scan(level, one);
            return;
        }
        // A fence may be open in several processes.
        let mut fences: Vec<Arc<Fence>> =
            lists.iter().flat_map(|list| list.iter().cloned()).collect();
        fences.sort_unstable_by_key(|fence| fence.os_handle);
        fences.dedup_by_key(|fence| fence.os_handle);
        signaled::scan(level, &fences);
    }

    /// Handles expired quanta and packets that have run too long. Calls DxgkDdiQueryCurrentFence
    /// first, so that a completion counts even if its interrupt was lost. Returns whether the
    /// deadline has changed.
    pub(crate) fn run_deadlines(&self, level: &Passive, now: CpuTime) -> bool {
        let Some(reports) = self.reports.get() else { return false };
        let port = &self.port;
        let (due, overdue) = {
            let state = self.lock();
            (state.next_deadline(), state.overdue(now))
        };
        if !overdue.is_empty() {
            reports.take_overdue_reports(level, now);
        }
        for engine in overdue {
            let Ok(fence_id) = port.driver(level).query_current_fence(&level.raise(), engine)
            else {
                continue;
            };
            if self.lock().context_of_packet(engine, fence_id).is_some() {
                port.count(Count::lost_completions);
                let what = format!(
                    "no interrupt reported packet {fence_id} of {engine}, which DxgkDdiQueryCurrentFence reported complete"
                );
                port.note_driver_fault("DxgkDdiInterruptRoutine", what);
                self.dma_completed(level.into(), engine, fence_id);
            }
        }
        self.run(level.into(), Submitter::Packets);
        self.lock().next_deadline() != due
    }
}
