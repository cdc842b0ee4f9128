//! The interrupt routine, which turns the cause register into reports with the kernel's handles.
//!
//! Order: 1. the cause is read, which clears it and lowers the line; 2. the lists of that cause are
//! emptied; 3. their records are reported; 4. the cause is read again until it is 0, so that no
//! event in between is lost; 5. the DPC is queued. A cause set after step 4 raises the line again.
//! If an earlier routine has taken its records, the later routine finds none.
//!
//! The whole routine runs with the interrupt view held (see `interrupt_view`).

mod faults;
mod signals;

use crate::ReferenceDriver;
use crate::interrupt_view::{InterruptView, Owner};
use crate::preempt::Answers;
use signals::{Signals, report};
use tidegate_ddi::EngineState;
use tidegate_ddi::display::VID_PN_TARGET;
use tidegate_ddi::{Callbacks, Dirql, EngineId, InterruptData};
use tidegate_gpu_abi::{AddressSpaceId, Cause, GpuVa, QueueId, Register};
use tidegate_platform::PhysicalAddress;

/// The value of every register read when no device responds on the bus.
const NO_DEVICE: u64 = u64::MAX;

impl ReferenceDriver {
    /// Returns whether the interrupt was the adapter's.
    pub(crate) fn service_interrupt(&self, level: &Dirql<'_>) -> bool {
        let mut view = self.view.lock_device();
        let Some(callbacks) = view.callbacks.clone() else { return false };
        let callbacks = &*callbacks;
        let (mut ours, mut synced) = (false, false);
        loop {
            // 1.
            let cause = Cause(self.device.read_register(Register::INTERRUPT_CAUSE));
            if cause.0 == 0 || cause.0 == NO_DEVICE {
                break;
            }
            ours = true;
            synced |= cause.has(Cause::VSYNC);
            // 2. and 3. Preemption answers are read first and reported last: an answer counts all
            //    packets of earlier completions and faults as settled.
            let preempted =
                if cause.has(Cause::DMA_PREEMPTED) { Answers::take(self) } else { Answers::none() };
            let faults = self.report_completions(level, callbacks, &mut view, cause, &preempted);
            if cause.has(Cause::MONITORED_SIGNALED) {
                self.report_monitored(level, callbacks);
            }
            if cause.has(Cause::FENCE_SIGNALED) || cause.has(Cause::FENCE_COLLAPSED) {
                let signals = self.drain_signals(&view, cause.has(Cause::FENCE_COLLAPSED));
                let notify = |data| callbacks.notify_interrupt(level, data);
                report(&signals, self.config.interrupt, &view, self.engines(), notify);
            }
            if cause.has(Cause::QUEUE_SUSPENDED) {
                self.report_suspended(level, callbacks, &view);
            }
            if cause.has(Cause::ENGINE_IDLE) {
                self.report_idle(level, callbacks);
            }
            let last = faults.into_iter().chain(preempted.into_reports());
            last.for_each(|data| callbacks.notify_interrupt(level, data));
        }
        // A flip may depend on a packet that is complete, so vertical syncs are reported after all
        // engine events.
        // spec: PRE-080
        if synced {
            self.report_vsync(level, callbacks);
        }
        if ours {
            // 5.
            callbacks.queue_dpc(level);
        }
        ours
    }

    /// Reports completions, and returns the faults to report after everything else.
    ///
    /// An engine continues after a faulted packet, so the completed value may already be beyond a
    /// fault whose cause is not yet read. Therefore the list of faults is read after the completed
    /// values, and a fault among the completed packets is reported before the completion.
    fn report_completions(
        &self,
        level: &Dirql<'_>,
        callbacks: &dyn Callbacks,
        view: &mut InterruptView,
        cause: Cause,
        preempted: &Answers,
    ) -> Vec<InterruptData> {
        let mut completed = Vec::new();
        for (number, (engine, reported)) in (0..).zip(view.reported.iter_mut()) {
            if cause.has(Cause::engine(number)) || preempted.name(engine) {
                let register = Register::COMPLETED_FENCE.offset(number);
                *reported = self.device.read_register(register) as u32;
                completed.push((engine, *reported));
            }
        }
        if completed.is_empty() && !cause.has(Cause::FAULT) {
            return Vec::new();
        }
        let complete = |engine: EngineId, submission_fence_id| {
            let data = InterruptData::DmaCompleted { engine, submission_fence_id };
            callbacks.notify_interrupt(level, data);
        };
        let mut later = Vec::new();
        for fault in self.take_faults(view) {
            match passed(&fault, &completed) {
                Some((engine, faulted_fence_id)) => {
                    // Complete the packets before it, then report the fault.
                    complete(engine, faulted_fence_id.wrapping_sub(1));
                    callbacks.notify_interrupt(level, fault);
                }
                None => later.push(fault),
            }
        }
        completed.into_iter().for_each(|(engine, id)| complete(engine, id));
        later
    }

    /// Reports a vertical sync and the surface that it latched.
    fn report_vsync(&self, level: &Dirql<'_>, callbacks: &dyn Callbacks) {
        let latched = self.device.read_register(Register::DISPLAY_LATCHED);
        let data = InterruptData::CrtcVsync {
            vid_pn_target_id: VID_PN_TARGET,
            physical_address: PhysicalAddress(latched),
        };
        callbacks.notify_interrupt(level, data);
    }

    /// Reports the engines that wrote monitored fences and notify of their writes.
    fn report_monitored(&self, level: &Dirql<'_>, callbacks: &dyn Callbacks) {
        for (_, engine) in self.read_engines(Register::MONITORED_ENGINES) {
            let data = InterruptData::MonitoredFenceSignaled { engine };
            callbacks.notify_interrupt(level, data);
        }
    }

    /// Reports contexts whose suspension is complete. Their last queue left the run list after its
    /// engine reached a point where it could be switched.
    fn report_suspended(&self, level: &Dirql<'_>, callbacks: &dyn Callbacks, view: &InterruptView) {
        loop {
            let number = self.device.read_register(Register::SUSPENDED_QUEUE);
            if number == 0 || number == NO_DEVICE {
                return;
            }
            let id = QueueId((number - 1) as u32);
            let Some(Owner::Queue { driver, .. }) = view.queues.get(&id).map(|queue| queue.owner)
            else {
                continue;
            };
            let complete = {
                let mut objects = self.objects.lock();
                let context = objects.hw_queues.get(driver).map(|queue| queue.context);
                context.ok().and_then(|context| {
                    let suspend_fence = objects.queue_left(context, id)?;
                    Some((objects.contexts.get(context).ok()?.os_handle, suspend_fence))
                })
            };
            if let Some((context, suspend_fence)) = complete {
                callbacks.notify_interrupt(
                    level,
                    InterruptData::SuspendContextCompleted { context, suspend_fence },
                );
            }
        }
    }

    /// Offers engines that were idle for the configured time for F1.
    fn report_idle(&self, level: &Dirql<'_>, callbacks: &dyn Callbacks) {
        let new_state = EngineState::TransitionToF1;
        for (_, engine) in self.read_engines(Register::IDLE_ENGINES) {
            let data = InterruptData::EngineStateChange { engine, new_state };
            callbacks.notify_interrupt(level, data);
        }
    }

    /// Empties the list of signalled fences.
    fn drain_signals(&self, view: &InterruptView, collapsed: bool) -> Signals {
        let mut signals = Signals::new(collapsed);
        loop {
            let number = self.device.read_register(Register::SIGNALED_QUEUE);
            if number == 0 || number == NO_DEVICE {
                return signals;
            }
            let current_value = GpuVa(self.device.read_register(Register::SIGNALED_VA));
            if number & Register::SIGNALED_BY_CMP != 0 {
                signals.add_of_cmp(view, AddressSpaceId(number as u32), current_value);
                continue;
            }
            signals.add(view, QueueId((number - 1) as u32), current_value);
        }
    }
}

/// Returns the engine and packet of a packet's fault, if the completed value already covers
/// the packet.
fn passed(fault: &InterruptData, completed: &[(EngineId, u32)]) -> Option<(EngineId, u32)> {
    let InterruptData::DmaPageFaulted { engine, faulted_fence_id, .. } = *fault else {
        return None;
    };
    let (_, complete) = completed.iter().find(|(of, _)| *of == engine)?;
    (complete.wrapping_sub(faulted_fence_id).cast_signed() >= 0)
        .then_some((engine, faulted_fence_id))
}
