//! Work of hardware queues that is with the GPU, as far as the kernel can know.

use crate::driver::{DdiCall, OutstandingWork};
use crate::object::hw_queue::HwQueue;
use crate::object::objects::Objects;
use tidegate_calls::PendingWait;
use tidegate_platform::CpuTime;

impl HwQueue {
    /// Returns whether the GPU has incomplete work of this queue, as far as the kernel can know.
    pub(crate) fn has_work(&self, objects: &Objects) -> bool {
        if self.user_mode_submission {
            return objects.doorbells.of_queue(self.os_handle).iter().any(|d| d.has_work());
        }
        self.last_submitted() > self.progress.fence.value()
    }

    /// Returns the progress value announced last, by the kernel or by the process in its ring.
    pub(crate) fn announced_by_anyone(&self, objects: &Objects) -> u64 {
        match self.user_mode_submission {
            true => {
                let of_queue = objects.doorbells.of_queue(self.os_handle);
                of_queue.iter().map(|d| d.announced()).max().unwrap_or(0)
            }
            false => self.announced(),
        }
    }

    /// Describes the incomplete work. Returns the text, and the fence name and value that
    /// complete it.
    pub(crate) fn describe_work(&self, objects: &Objects) -> (String, u64, (String, u64)) {
        let (done, announced) = (self.progress.fence.value(), self.announced_by_anyone(objects));
        let (what, next) = match self.user_mode_submission {
            true => ("the command buffer of its ring that says progress", done.saturating_add(1)),
            false => {
                let first = objects.sched.lock().oldest_in_flight(self.os_handle, done);
                ("the command buffer that says progress", first.unwrap_or(announced))
            }
        };
        let command = format!("{what} {next}; {announced} was announced last");
        (command, next, ("progress".to_owned(), announced))
    }

    /// Returns the last driver calls for this queue.
    pub(crate) fn last_calls(&self, objects: &Objects) -> Vec<DdiCall> {
        let mut calls = Vec::new();
        if self.user_mode_submission {
            let doorbells = objects.doorbells.of_queue(self.os_handle);
            calls.extend(doorbells.iter().flat_map(|doorbell| doorbell.last_calls()));
        } else {
            let (submitted, submitted_ns) = objects.sched.lock().submitted_progress(self.os_handle);
            let (number, at) = (Some(submitted), CpuTime(submitted_ns));
            calls.push(DdiCall { entry: "DxgkDdiSubmitCommandToHwQueue", number, at });
        }
        calls.extend(self.context.suspension.last_call());
        calls.sort_by_key(|call| call.at);
        calls
    }
}

impl Objects {
    /// Returns work that the driver accepted and has not reported complete, by queue.
    pub(crate) fn outstanding_work(&self) -> Vec<OutstandingWork> {
        let of_engine = |engine| self.sched.outstanding_packets(engine);
        let mut all: Vec<_> = self.port.declared.caps.engines().flat_map(of_engine).collect();
        let queues =
            self.hw_queues_of(|queue| queue.device.check().is_ok() && queue.has_work(self));
        all.extend(queues.iter().map(|queue| OutstandingWork {
            queue: queue.os_handle.into(),
            engine: queue.engine(),
            calls: queue.last_calls(self),
            reported: queue.progress.fence.value(),
            context: queue.context.os_handle,
        }));
        all
    }

    /// Returns the waits that VidSch holds for contexts and kernel-mode hardware queues.
    pub(crate) fn pending_waits(&self) -> Vec<PendingWait> {
        let waits = self.sched.pending_waits().into_iter();
        waits.filter_map(|(queue, target)| target.fence.pending(queue, target.value)).collect()
    }
}
