//! Packets during timeout recovery: engines stop, packets end or are returned, engines resume.
//!
//! Invariant: an engine is stopped by the holder of the packet submission right, so no submission
//! to it is in progress.

use super::scheduler::Scheduling;
use crate::wait_classes::{DEPENDENT_PACKETS, SUBMISSION_RIGHT};
use crate::wait_limit::WaitLimit;
use tidegate_ddi::{EngineId, Irql, OsHandle, Passive};
use tidegate_platform::{CpuTime, WaitEnd};
use tidegate_vidsch::{Submitter, WaiterId};

/// Other engines affected by a reset.
#[derive(Default)]
pub(crate) struct Dependents {
    /// Engines that returned their packets or had none.
    pub(crate) empty: Vec<EngineId>,
    /// Engines that did not return their packets, in ordinal order.
    pub(crate) silent: Vec<EngineId>,
}

impl Scheduling {
    /// Runs `change` under the packet submission right. Waits for the present holder, at most
    /// for TdrDdiDelay.
    fn with_right(&self, level: &Passive, change: impl FnOnce()) {
        let platform = &self.port.platform;
        let _went_on = self.carry_out_deferred(level);
        platform.may_wait_for(&SUBMISSION_RIGHT);
        let wait = {
            let mut state = self.lock();
            match state.try_take_right(Submitter::Packets) {
                true => None,
                false => {
                    state.next_waiter += 1;
                    let (waiter, handoff) = (WaiterId(state.next_waiter), platform.event(false));
                    state.wait_for_right(waiter);
                    state.handoffs.push((waiter, handoff.clone()));
                    Some((waiter, handoff))
                }
            }
        };
        if let Some((waiter, handoff)) = wait {
            // The adapter reset detects an agent stuck in the driver, so a longer wait would
            // not help.
            let mut limit = WaitLimit::new(platform, self.port.config.tdr.ddi_delay_ns);
            loop {
                // A DPC that defers an effect wakes this waiter, which continues in its place.
                let _went_on = self.carry_out_deferred(level);
                let end = limit.wait(&handoff, &SUBMISSION_RIGHT);
                if end != WaitEnd::Woken && self.cancel_handoff(waiter) {
                    return change();
                }
                if !self.lock().handoffs.iter().any(|(id, _)| *id == waiter) {
                    break;
                }
            }
        }
        change();
        self.carry_out_packets(level.into());
    }

    fn cancel_handoff(&self, waiter: WaiterId) -> bool {
        let mut state = self.lock();
        let cancelled = state.cancel_wait_for_right(waiter);
        if cancelled {
            state.handoffs.retain(|(id, _)| *id != waiter);
        }
        cancelled
    }

    /// Stops submissions to the engine. On return none is in progress.
    pub(crate) fn stop_engine(&self, level: &Passive, engine: EngineId) {
        self.with_right(level, || self.lock().stop(engine));
    }

    /// Stops submissions to all engines and ignores their completions. Returns the contexts with
    /// packets queued or in flight.
    pub(crate) fn stop_all_engines(&self, level: &Passive) -> Vec<OsHandle> {
        self.with_right(level, || self.lock().stop_all());
        let Some(reports) = self.reports.get() else { return Vec::new() };
        {
            let _at_interrupt_level = self.port.interrupt_lock.lock_device();
            for engine in self.port.declared.caps.engines() {
                let _reported = reports.ignore_packets(engine);
            }
        }
        reports.flush_reports(level);
        self.lock().busy_contexts()
    }

    /// Returns the IDs of the last completed and last submitted packets, and starts to ignore the
    /// engine's completions. Atomic at interrupt level.
    pub(crate) fn snapshot(&self, engine: EngineId) -> (u32, u32) {
        let Some(reports) = self.reports.get() else { return (0, 0) };
        let _at_interrupt_level = self.port.interrupt_lock.lock_device();
        let reported = reports.ignore_packets(engine);
        let (completed, submitted) = self.lock().completed_and_submitted(engine);
        let later = |id: &u32| id.wrapping_sub(completed).cast_signed() > 0;
        (reported.filter(later).unwrap_or(completed), submitted)
    }

    /// Stops the engines of the nodes in `group` other than this one, and preempts them. Waits for
    /// their acknowledgements, up to the dependent delay.
    pub(crate) fn preempt_dependents(
        &self,
        level: &Passive,
        engine: EngineId,
        group: u64,
    ) -> Dependents {
        let platform = &self.port.platform;
        let nodes =
            (0..self.port.declared.caps.nodes.len() as u32).filter(|n| *n != engine.node_ordinal);
        let nodes = nodes.filter(|node| group >> node & 1 != 0);
        let engines: Vec<EngineId> =
            nodes.map(|node_ordinal| EngineId { node_ordinal, ..engine }).collect();
        for dependent in &engines {
            self.stop_engine(level, *dependent);
            let request = self.lock().preempt_now(*dependent, platform.now());
            if let Some(id) = request {
                let _made = self.preempt(level.into(), *dependent, id);
            }
        }
        let empty = platform.event(true);
        let waits = {
            let mut state = self.lock();
            let waits = engines.iter().any(|engine| state.has_packets(*engine));
            if waits {
                state.empty.push((engines.clone(), empty.clone()));
            }
            waits
        };
        if waits {
            let mut limit = WaitLimit::new(platform, self.port.config.tdr.dependent_delay_ns);
            limit.wait(&empty, &DEPENDENT_PACKETS);
            self.lock().empty.retain(|(_, event)| event.id() != empty.id());
        }
        let (silent, empty) =
            engines.into_iter().partition(|engine| self.lock().has_packets(*engine));
        Dependents { empty, silent }
    }

    /// Resumes submissions to the engine, and accepts its completions again.
    pub(crate) fn resume_engine(&self, level: &Passive, engine: EngineId) {
        if let Some(reports) = self.reports.get() {
            // An interrupt routine that read reports of aborted packets ends first, and they are
            // ignored.
            let _at_interrupt_level = self.port.interrupt_lock.lock_device();
            reports.heed_packets(engine);
        }
        let over = self.lock().resume(engine, self.now());
        self.scan_after(level.into(), engine, &over);
        self.run(level.into(), Submitter::Packets);
    }

    /// Resumes every engine.
    pub(crate) fn resume_all_engines(&self, level: &Passive) {
        self.port.declared.caps.engines().for_each(|engine| self.resume_engine(level, engine));
    }

    /// Ends packets of kernel contexts after an adapter reset, and wakes the threads that wait
    /// for them.
    pub(crate) fn end_kernel_packets(&self, level: Irql<'_>) {
        let Some(objects) = self.objects.get() else { return };
        let busy = self.lock().busy_contexts();
        let of_kernel = |context: &OsHandle| {
            objects.packet_context(*context).is_some_and(|context| context.is_of_kernel())
        };
        let contexts: Vec<OsHandle> = busy.into_iter().filter(of_kernel).collect();
        self.lock().end_packets(|context| contexts.contains(&context), self.now());
        let _not_made = self.give_up(level, &contexts);
        self.run(level, Submitter::Packets);
    }

    /// Ends every packet after an adapter reset.
    pub(crate) fn end_all_packets(&self, level: &Passive) {
        self.lock().end_packets(|_| true, self.now());
        self.run(level.into(), Submitter::Packets);
    }

    /// Returns when the next engine times out.
    pub(crate) fn next_timeout(&self) -> Option<CpuTime> {
        let config = &self.port.config;
        if config.tdr.is_on() { self.lock().next_timeout(config.tdr.delay_ns) } else { None }
    }

    /// Takes the engines that have timed out.
    pub(crate) fn take_timed_out(&self, now: CpuTime) -> Vec<EngineId> {
        self.lock().take_timed_out(now, self.port.config.tdr.delay_ns)
    }
}
