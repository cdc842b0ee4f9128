//! The oracles of processes: what must be true of their objects while they are there, and the order
//! of what can be wrong after the run.

use super::{Around, EndOfWait, Injected, MachineSide, Stage};
use crate::failure::Failure;
use crate::words::{ProcessId, Surface};
use tidegate::calls::DeviceState;
use tidegate::d3d12::RemovedReason;
use tidegate::kmd::FaultNaming;
use tidegate::platform::{QueueNumber, RunReport};

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
        for (id, process) in self.all_processes() {
            let raw = process.client.kernel.device_state(process.client.device);
            self.device_states.lock().extend(raw.clone());
            let api = process.device().ok().and_then(|device| device.removed_reason());
            if !process.is_doomed {
                if raw != Ok(DeviceState::Active) {
                    self.fail(Failure::Blame(format!("the device of {id} is {raw:?}")));
                }
                if let Some(reason) = api {
                    self.fail(Failure::Blame(format!("the device of {id} was lost: {reason}")));
                }
                continue;
            }
            self.judge_faults(*id, raw.as_ref().ok(), api.as_ref());
            if let Ok(DeviceState::Hung(hang)) = raw {
                let mut injected = self.injected.lock().clone();
                let faults = self.may_fault.lock().clone();
                // A fault of an unnamed queue may be that of several.
                if self.faults_name(*id) == FaultNaming::Engine {
                    let is_unknown = hang.queue == QueueNumber::default();
                    if is_unknown && faults.iter().any(|ring| ring.process == *id) {
                        continue;
                    }
                    injected.extend(faults);
                }
                let of_process =
                    injected.iter().filter(|i| i.process == *id && i.surface == Surface::Raw);
                let mut queues = of_process.flat_map(|injected| injected.queues.iter());
                // A forced reset of an engine is not a hang of a queue.
                let forced = self.program.steps.iter().any(|step| {
                    matches!(step.operation, crate::operation::Operation::ResetEngine { .. })
                });
                if !forced && !queues.any(|queue| *queue == hang.queue) {
                    let text = format!("{id} hung by queue {}, which did not hang", hang.queue);
                    self.fail(Failure::Blame(text));
                }
            }
        }
    }
}

impl Stage {
    /// Returns what a fault report of the process's adapter names.
    fn faults_name(&self, id: ProcessId) -> FaultNaming {
        let adapter = self.program.process(id).adapter;
        self.program.adapters[usize::from(adapter.0)].faults_name()
    }

    /// A doomed process faults only where a short history has lost the wait of a ring. Its device
    /// names the ring. If the hardware knows the context, it names the ring's context; if it knows
    /// the process, it names no ring, and the process loses its other device too.
    fn judge_faults(&self, id: ProcessId, raw: Option<&DeviceState>, api: Option<&RemovedReason>) {
        let raw = match raw {
            Some(DeviceState::Faulted(report)) => Some((Surface::Raw, report)),
            _ => None,
        };
        let api = match api {
            Some(RemovedReason::Faulted(fault)) => Some((Surface::Api, &fault.report)),
            _ => None,
        };
        for (surface, report) in raw.into_iter().chain(api) {
            let naming = self.faults_name(id);
            let is_of = |ring: &&Injected| {
                ring.process == id && (ring.surface == surface || naming == FaultNaming::Process)
            };
            let rings = self.may_fault.lock();
            let mut queues = rings.iter().filter(is_of).flat_map(|ring| ring.queues.iter());
            let is_ring = match naming {
                FaultNaming::HwQueue => queues.any(|queue| *queue == report.queue),
                FaultNaming::HwContext | FaultNaming::Process => queues.next().is_some(),
                FaultNaming::Engine => false,
            };
            drop(rings);
            if !is_ring || !report.what.contains("history") {
                let (queue, what) = (report.queue, &report.what);
                let text = format!("{id} faulted in queue {queue}, which lost no wait: {what}");
                self.fail(Failure::Blame(text));
            }
        }
    }

    /// Returns whether destroy calls of a steady process were refused.
    pub(super) fn refused(&self) -> Option<Failure> {
        let mut processes = self.all_processes().iter();
        let refused = processes.find(|(_, p)| !p.is_doomed && p.refused() > 0);
        refused.map(|(id, _)| Failure::Leak(format!("destroy calls of {id} were refused")))
    }

    /// Returns what is wrong after the run, most telling first.
    pub fn verdict(&self, report: &RunReport) -> Option<Failure> {
        self.progress.end_run();
        let Around::Machine(machine) = &self.around else { return None };
        if self.program.is_faulty() {
            return self.verdict_beside_a_mistake(report, machine);
        }
        if let Some(fault) = machine.fault() {
            return Some(fault);
        }
        // A run that stood still ends nothing.
        let has_ended = report.panics.is_empty() && report.blocked.is_empty();
        if let Some(broken) = machine.broken_clause(has_ended) {
            return Some(broken);
        }
        if let Some(panic) = report.panics.first() {
            return Some(Failure::Panic(panic.clone()));
        }
        if let Some(failure) = self.failures.lock().first() {
            return Some(failure.clone());
        }
        if !report.blocked.is_empty() {
            return Some(Failure::Standstill(machine.machine().standstill(report)));
        }
        self.refused().or_else(|| machine.leak())
    }

    /// The verdict of a run with a wrong driver: its adapter may stop and its results may be wrong,
    /// but every wait ends, and nothing panics.
    fn verdict_beside_a_mistake(
        &self,
        report: &RunReport,
        machine: &MachineSide,
    ) -> Option<Failure> {
        if let Some(panic) = report.panics.first() {
            return Some(Failure::Panic(panic.clone()));
        }
        let waits = || machine.machine().standstill(report);
        (!report.blocked.is_empty()).then(|| Failure::Standstill(waits()))
    }
}
