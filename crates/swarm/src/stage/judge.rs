//! The oracles: what must be true of the objects while they are there, and of the machine after the
//! run.

use super::{EndOfWait, Stage};
use crate::failure::Failure;
use crate::words::{AdapterId, Surface};
use tidegate::calls::DeviceState;
use tidegate::dxgkrnl::Census;
use tidegate::platform::RunReport;

impl Stage {
    /// Fails a run that took longer than its bound.
    pub(super) fn judge_time(&self, took: u64) {
        let bound = self.bounds.run_ns.filter(|bound| took > *bound);
        if let Some(bound) = bound.filter(|_| !self.platform.is_stopped()) {
            self.fail(Failure::Late(format!("the run took {took} ns of at most {bound} ns")));
        }
    }

    /// Judges memory, waits and devices when all threads have ended and all work is done.
    pub(super) fn judge_objects(&self) {
        self.drain();
        self.judge_memory();
        self.judge_waits();
        self.judge_devices();
    }

    /// Waits for the work of all queues. It ends, because the program was admitted.
    fn drain(&self) {
        for (id, slot) in &self.queues {
            let Some(queue) = slot.peek() else { continue };
            let process = self.end.queues[id].process;
            if self.end.queues[id].is_closed {
                continue;
            }
            if let Err(error) = queue.drain()
                && !error.is_end_of_run()
                && !self.program.is_doomed(process)
            {
                self.fail(Failure::Blame(format!("{id} of {process} is lost: {error}")));
            }
        }
    }

    fn judge_memory(&self) {
        for (id, slot) in &self.buffers {
            let Some(buffer) = slot.peek() else { continue };
            if self.program.is_doomed(self.end.buffers[id].process) {
                continue;
            }
            for (word, value) in self.end.words(*id) {
                match buffer.read(word) {
                    Ok(found) if found == value => {}
                    Ok(found) => self.fail(Failure::Memory(format!(
                        "word {word} of {id} is {found}, and the model says {value}"
                    ))),
                    Err(error) => self.fail(Failure::Memory(format!(
                        "word {word} of {id} cannot be read: {error}"
                    ))),
                }
            }
        }
    }

    fn judge_waits(&self) {
        for (step, wait, end) in self.ended_waits.lock().iter() {
            let notices = wait.notices();
            let allowed = match end {
                // An awaited notice of the queue API is taken.
                EndOfWait::Awaited => u64::from(wait.is_counted()),
                EndOfWait::Cancelled { notices } if wait.is_counted() => *notices,
                EndOfWait::Cancelled { .. } => 0,
            };
            let is_doomed = self.program.is_doomed(self.program.process_of(step.thread));
            if notices > allowed.max(u64::from(wait.is_counted()))
                || (notices != allowed && !is_doomed)
            {
                self.fail(Failure::Event(format!(
                    "the wait of '{} {}' ({end:?}) has {notices} notices, and {allowed} are right",
                    step.thread, step.operation
                )));
            }
        }
    }

    /// A steady process keeps its devices. A hang names its queue.
    fn judge_devices(&self) {
        for (index, process) in self.all_processes().iter().enumerate() {
            let raw = process.client.kernel.device_state(process.client.device);
            self.device_states.lock().extend(raw.clone());
            let api = process.device().ok().and_then(|device| device.removed_reason());
            if !process.is_doomed {
                if raw != Ok(DeviceState::Active) {
                    self.fail(Failure::Blame(format!("the device of p{index} is {raw:?}")));
                }
                if let Some(reason) = api {
                    self.fail(Failure::Blame(format!("the device of p{index} was lost: {reason}")));
                }
                continue;
            }
            if let Ok(DeviceState::Hung(hang)) = raw {
                let injected = self.injected.lock();
                let of_process = injected
                    .iter()
                    .filter(|i| usize::from(i.process.0) == index && i.surface == Surface::Raw);
                let mut queues = of_process.flat_map(|injected| injected.queues.iter());
                // A forced reset of an engine is not a hang of a queue.
                let forced = self.program.steps.iter().any(|step| {
                    matches!(step.operation, crate::operation::Operation::ResetEngine { .. })
                });
                if !forced && !queues.any(|queue| *queue == hang.queue) {
                    let text = format!("p{index} hung by queue {}, which did not hang", hang.queue);
                    drop(injected);
                    self.fail(Failure::Blame(text));
                }
            }
        }
    }

    /// Compares the kernel's objects with those before the processes.
    fn leak(&self) -> Option<String> {
        for (index, before) in self.before.iter().enumerate() {
            let after = self.machine.adapter_at(index).census();
            if self.end.removed.contains(&AdapterId(index as u16)) {
                // A removal also ends what the kernel has made for itself.
                let rest = after.devices + after.contexts + after.hw_contexts + after.hw_queues;
                if rest + after.doorbells + after.fences + after.fence_waits > 0 {
                    return Some(format!("removed adapter {index} has {after:?}"));
                }
                continue;
            }
            // What belongs to the kernel may be made at any time. Context allocations and regions
            // of memory are kept for reuse.
            let of_processes = |census: &Census| Census {
                devices: census.devices - census.kernel_devices,
                contexts: census.contexts - census.kernel_contexts,
                kernel_devices: 0,
                kernel_contexts: 0,
                context_allocations: 0,
                local_context_allocations: 0,
                memory_regions: 0,
                ..*census
            };
            let is_more = after.kernel_devices > before.kernel_devices + 1
                || after.kernel_contexts > before.kernel_contexts + 1;
            if is_more || of_processes(&after) != of_processes(before) {
                return Some(format!("adapter {index} has {after:?} and had {before:?}"));
            }
        }
        None
    }
}

impl Stage {
    /// Returns what is wrong after the run, most telling first.
    pub fn verdict(&self, report: &RunReport) -> Option<Failure> {
        self.is_over.store(1);

        let machine = &self.machine;
        for index in 0..machine.adapter_count() {
            let adapter = machine.adapter_at(index);
            if let Some(bug) = adapter.bug_checks().first() {
                return Some(Failure::BugCheck(bug.to_string()));
            }
            if let Some(fault) = adapter.driver_faults().first() {
                return Some(Failure::Driver(fault.to_string()));
            }
            if let Some(violation) = machine.driver_at(index).violations().first() {
                return Some(Failure::Driver(format!("{violation:?}")));
            }
        }
        if let Some(panic) = report.panics.first() {
            return Some(Failure::Panic(panic.clone()));
        }
        if let Some(failure) = self.failures.lock().first() {
            return Some(failure.clone());
        }
        if !report.blocked.is_empty() {
            return Some(Failure::Standstill(machine.standstill(report)));
        }
        let refused = self.all_processes().iter().position(|p| !p.is_doomed && p.refused() > 0);
        if let Some(process) = refused {
            return Some(Failure::Leak(format!("destroy calls of p{process} were refused")));
        }
        self.leak().map(Failure::Leak)
    }
}
