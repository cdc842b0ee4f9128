//! The driver's part of timeout recovery: engine state, engine resets for packets and for hardware
//! queues, and the adapter reset.
//!
//! Order of a reset for hardware queues: 1. the engine loses power, so it starts no work; 2. its
//! current work ends; 3. contexts with a pending suspension are suspended, because the engine holds
//! none; 4. the kernel is told which contexts lost work. DxgkDdiResumeHwEngine restores power.
//! Other queued work is in memory and continues.
//!
//! A queue that a fault has stopped keeps its state through resets. If the report of the fault
//! named the engine only, the next reset of the engine names the queue's context as the culprit.
//! Until then its work does not count as held back, so detection finds it if no reset follows.
//!
//! The engines of this hardware are reset individually. None depends on another.

use crate::interrupt_view::Owner;
use crate::{KmdError, ReferenceDriver};
use std::fmt::Write;
use tidegate_ddi::{
    DebugInfo, DriverHandle, EngineId, EngineStatus, HwContextLoss, OsHandle, Passive,
    RunningCommand,
};
use tidegate_gpu_abi::admin::EngineAnswer;
use tidegate_gpu_abi::{AdminCommand, AdminError, QueueId, QueueState, Register};
use tidegate_platform::QueueNumber;

/// The maximum number of queues in the debug information.
const QUEUES_TOLD: usize = 24;

impl ReferenceDriver {
    /// Returns the nodes that are reset with an engine: its own only.
    pub(crate) fn dependent_nodes(&self, engine: EngineId) -> Result<u64, KmdError> {
        self.engine_number(engine).map(|_| 1 << engine.node_ordinal)
    }

    fn query_engine(&self, level: &Passive, engine: EngineId) -> Result<EngineAnswer, KmdError> {
        let engine = self.engine_number(engine)?;
        let command = AdminCommand::QueryEngine { engine };
        Ok(EngineAnswer::decode(self.mailbox.complete_for_pair(level, command)?))
    }

    /// Ends the engine's current work. Returns the packet that was aborted, or the last complete
    /// one, and the hardware queue whose work was cut off (see `report_cut_off`).
    fn end_work(&self, level: &Passive, engine: EngineId) -> Result<(u64, u64), KmdError> {
        let engine = self.engine_number(engine)?;
        self.mailbox.complete_for_pair(level, AdminCommand::ResetEngine { engine })
    }

    /// Makes `last` the last completed packet of an engine whose ring a reset has emptied. The
    /// packets up to it never complete, and the next reset must not return an earlier one.
    // spec: PRE-151
    fn continue_after(&self, engine: EngineId, last: u32) -> Result<(), KmdError> {
        let register = Register::COMPLETED_FENCE.offset(self.engine_number(engine)?);
        let mut view = self.view.lock_device();
        self.device.write_register(register, u64::from(last));
        view.reported[engine] = last;
        Ok(())
    }

    pub(crate) fn engine_status(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<EngineStatus, KmdError> {
        let answer = self.query_engine(level, engine)?;
        let hw_context = answer.queue.and_then(|queue| self.context_of(queue));
        let held_back = match hw_context {
            Some(_) => None,
            None => Some(self.held_back_on(engine)?),
        };
        Ok(EngineStatus {
            responsive: answer.responsive,
            hw_context,
            progress: answer.progress,
            held_back,
        })
    }

    /// Returns the engine's queues whose work may not run, for a reason that the kernel knows.
    fn held_back_on(&self, engine: EngineId) -> Result<Vec<OsHandle>, KmdError> {
        let queues: Vec<(OsHandle, QueueId)> = {
            let objects = self.objects.lock();
            let handles = objects.hw_queues.handles();
            let all = handles.filter_map(|handle| objects.hw_queues.get(handle).ok());
            all.filter(|q| q.engine == engine)
                .filter_map(|q| Some((q.os_handle, q.hardware?)))
                .collect()
        };
        let mut held_back = Vec::new();
        for (os_handle, queue) in queues {
            let answer = self.mailbox.run_for_pair(AdminCommand::QueryQueue { queue });
            // Destroyed meanwhile.
            if answer == Err(KmdError::Refused(AdminError::NoSuchQueue)) {
                continue;
            }
            let may_run = match QueueState::from_number(answer?.0) {
                Some(QueueState::Idle | QueueState::Ready) => true,
                Some(QueueState::Faulted) => {
                    self.view.lock_device().unnamed_faults.contains(&(engine, queue))
                }
                _ => false,
            };
            if !may_run {
                held_back.push(os_handle);
            }
        }
        Ok(held_back)
    }

    /// Returns the kernel's handle of the context that a hardware queue belongs to; `None` for the
    /// driver's own queue.
    fn context_of(&self, queue: QueueId) -> Option<OsHandle> {
        let owner = self.view.lock_device().queues.get(&queue)?.owner;
        let Owner::Queue { driver, .. } = owner else { return None };
        let objects = self.objects.lock();
        let context = objects.hw_queues.get(driver).ok()?.context;
        Some(objects.contexts.get(context).ok()?.os_handle)
    }

    /// Resets an engine for packets. After this call the engine is idle and accepts new packets.
    pub(crate) fn reset_node(&self, level: &Passive, engine: EngineId) -> Result<u32, KmdError> {
        let (aborted, cut_off) = self.end_work(level, engine)?;
        self.continue_after(engine, aborted as u32)?;
        self.suspend_again(level, engine)?;
        self.report_cut_off(level, engine, cut_off, HwContextLoss::Culprit)?;
        Ok(aborted as u32)
    }

    /// Resets an engine for hardware queues.
    pub(crate) fn reset_queues_of(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<(), KmdError> {
        // 1.
        self.power_off(level, engine, false)?;
        self.objects.lock().reset_engines.insert(engine);
        // 2.
        let (_, cut_off) = self.end_work(level, engine)?;
        // 3.
        self.suspend_again(level, engine)?;
        // 4.
        self.report_cut_off(level, engine, cut_off, HwContextLoss::Culprit)
    }

    pub(crate) fn resume_queues_of(&self, engine: EngineId) -> Result<(), KmdError> {
        self.objects.lock().reset_engines.remove(&engine);
        self.power_on(engine)
    }

    /// Holds and resets every engine. Contexts whose work is cut off are reported as bystanders.
    pub(crate) fn reset_all(&self, level: &Passive) -> Result<(), KmdError> {
        self.mailbox.complete(level, AdminCommand::HoldEngines)?;
        for engine in self.engines() {
            let (_, cut_off) = self.end_work(level, engine)?;
            let submitted = self.objects.lock().started()?.packets[engine].submitted;
            self.continue_after(engine, submitted)?;
            self.suspend_again(level, engine)?;
            self.report_cut_off(level, engine, cut_off, HwContextLoss::Bystander)?;
        }
        Ok(())
    }

    /// Releases all engines, including those left without power by a reset of their own.
    pub(crate) fn restart(&self) -> Result<(), KmdError> {
        let unpowered = std::mem::take(&mut self.objects.lock().reset_engines);
        for engine in unpowered {
            self.power_on(engine)?;
        }
        self.mailbox.run(AdminCommand::ReleaseEngines)
    }

    /// Completes suspensions of contexts that waited for the engine, which now holds no queue.
    fn suspend_again(&self, level: &Passive, engine: EngineId) -> Result<(), KmdError> {
        let queues: Vec<QueueId> = {
            let objects = self.objects.lock();
            let contexts = objects.contexts.values().filter(|c| c.suspended && c.engine == engine);
            let queues = contexts.flat_map(|c| &c.queues);
            queues.filter_map(|q| objects.hw_queues.get(*q).ok()?.hardware).collect()
        };
        queues.into_iter().try_for_each(|queue| {
            self.complete_for_queue(level, AdminCommand::SuspendQueue { queue })
        })
    }

    /// Names the contexts that lost work. `cut_off` is the number of a hardware queue plus one, 0
    /// for none. It is innocent if a fault of another queue is the cause.
    fn report_cut_off(
        &self,
        level: &Passive,
        engine: EngineId,
        cut_off: u64,
        loss: HwContextLoss,
    ) -> Result<(), KmdError> {
        let callbacks = std::sync::Arc::clone(&self.objects.lock().started()?.callbacks);
        let named = |queue: QueueId, loss: HwContextLoss| {
            if let Some(context) = self.context_of(queue) {
                // An unknown context needs no report, because the kernel has destroyed it.
                let _known = callbacks.invalidate_hw_context(level, context, loss);
            }
        };
        let faulted = self.view.lock_device().take_unnamed_faults(engine);
        let loss = if faulted.is_empty() { loss } else { HwContextLoss::Bystander };
        faulted.into_iter().for_each(|queue| named(queue, HwContextLoss::Culprit));
        if let Some(queue) = cut_off.checked_sub(1) {
            named(QueueId(queue as u32), loss);
        }
        Ok(())
    }

    /// Returns the kernel's handle of a hardware queue; `None` for the ring of a node.
    fn os_handle_of(&self, queue: QueueId) -> Option<OsHandle> {
        let objects = self.objects.lock();
        let mut all = objects.hw_queues.handles().filter_map(|h| objects.hw_queues.get(h).ok());
        all.find(|q| q.hardware == Some(queue)).map(|q| q.os_handle)
    }

    /// Returns the state of engines and their queues.
    pub(crate) fn debug_info(
        &self,
        level: &Passive,
        engine: Option<EngineId>,
    ) -> Result<DebugInfo, KmdError> {
        let engines = engine.map_or_else(|| self.engines().collect(), |engine| vec![engine]);
        let mut info = DebugInfo::default();
        for engine in engines {
            self.describe_engine(level, engine, &mut info)?;
        }
        Ok(info)
    }

    fn describe_engine(
        &self,
        level: &Passive,
        engine: EngineId,
        info: &mut DebugInfo,
    ) -> Result<(), KmdError> {
        let DebugInfo { text, commands } = info;
        let answer = self.query_engine(level, engine)?;
        if let Some(queue) = answer.queue {
            let hw_queue = self.os_handle_of(queue);
            commands.push(RunningCommand { engine, hw_queue, number: answer.command.into() });
        }
        let stands = match (answer.responsive, answer.queue) {
            (false, _) => "does not respond",
            (true, Some(_)) => "works",
            (true, None) => "works for no context",
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "{engine} {stands}, progress {}", answer.progress);
        let (all, queues): (usize, Vec<(DriverHandle, QueueId, QueueNumber)>) = {
            let objects = self.objects.lock();
            let here = || {
                objects
                    .hw_queues
                    .handles()
                    .filter_map(|h| Some((h, objects.hw_queues.get(h).ok()?)))
            };
            let there = here().filter(|(_, q)| q.engine == engine);
            let found = there.filter_map(|(handle, q)| {
                Some((handle, q.hardware?, QueueNumber::from(q.os_handle)))
            });
            let found: Vec<_> = found.collect();
            (found.len(), found.into_iter().take(QUEUES_TOLD).collect())
        };
        for (_, id, queue) in queues {
            let described = self.mailbox.run_for_pair(AdminCommand::QueryQueue { queue: id });
            // Destroyed meanwhile.
            if described == Err(KmdError::Refused(AdminError::NoSuchQueue)) {
                continue;
            }
            let (state, taken) = described?;
            let state = match QueueState::from_number(state) {
                Some(QueueState::Idle) => "is idle",
                Some(QueueState::Ready) => "is running or ready",
                Some(QueueState::Waiting) => "waits for a fence",
                Some(QueueState::Suspended) => "is suspended",
                Some(QueueState::Faulted) => "is stopped by a fault",
                None => "is in a state that the driver does not know",
            };
            let at = if answer.queue == Some(id) { ", the engine runs it" } else { "" };
            let _ = write!(text, "; queue {queue} {state} at packet {taken}{at}");
        }
        if all > QUEUES_TOLD {
            let _ = write!(text, "; {} more queues", all - QUEUES_TOLD);
        }
        text.push('\n');
        Ok(())
    }
}
