//! The machine of a run: what an operator does with it, and the oracles that need no process.
//!
//! Entry points: [`MachineSide::start`], [`MachineSide::carry_out`], [`MachineSide::fault`],
//! [`MachineSide::leak`] and [`left_at`].

use super::objects::{CallError, Called, QueueObject, RawQueue};
use crate::coverage::Coverage;
use crate::failure::Failure;
use crate::operation::Operation;
use crate::processor::Waiting;
use crate::program::{Program, ProgramStep};
use crate::words::AdapterId;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate::calls::{Kernel, Priority, TdrTest};
use tidegate::d3d12::Submission;
use tidegate::ddi::DevicePowerState;
use tidegate::dxgkrnl::{Census, FenceRewind};
use tidegate::platform::{CpuTime, Mutex};
use tidegate::{Machine, MachineError, Platform};
use tidegate_conform::{RunEnd, Verifier};
use tidegate_testbed::Client;

/// How often something that ends without the run is looked at.
pub(crate) const PERIOD_NS: u64 = 1_000_000;

/// Waits until `left` finds nothing, at most until `end`, and returns what it finds then. A thread
/// in a call of the kernel, and an engine, keep what they use until they return. On the host the
/// end is later by the time in which a thread of this process waited for a processor.
pub(crate) fn left_at(
    platform: &Platform,
    mut end: CpuTime,
    left: impl Fn() -> Option<Failure>,
) -> Option<Failure> {
    let (own, mut waiting) = ([std::process::id()], Waiting::default());
    let mut waited_ns = || match platform.is_cooperative() {
        true => 0,
        false => waiting.since_last_look(&own),
    };
    waited_ns();
    loop {
        let found = left()?;
        end = end.after(waited_ns());
        if platform.now() >= end {
            return Some(found);
        }
        platform.sleep_until(platform.now().after(PERIOD_NS));
    }
}

/// A machine with what it held before its processes.
pub(crate) struct MachineSide {
    platform: Platform,
    program: Arc<Program>,
    /// Adapters that a step has removed. The process whose step it is may be killed before.
    removed: Mutex<BTreeSet<AdapterId>>,
    /// Kernel objects of each adapter before the processes.
    before: Vec<Census>,
    /// Of each adapter.
    verifiers: Vec<Option<Arc<Verifier>>>,
    machine: Arc<Machine>,
}

impl MachineSide {
    /// Starts the machine of a program.
    pub(crate) fn start(
        platform: &Platform,
        program: Arc<Program>,
    ) -> Result<MachineSide, MachineError> {
        let (mut builder, mut verifiers) = (Machine::builder(platform), Vec::new());
        for adapter in &program.adapters {
            let verifier = adapter.is_verified().then(|| Arc::new(Verifier::new()));
            verifiers.push(verifier.clone());
            let mistake = adapter.mistake();
            builder = builder.reference_behind(adapter.config(platform), move |driver| {
                let driver = match mistake {
                    None => driver,
                    Some(clause) => clause.plant(platform, driver),
                };
                match verifier {
                    None => driver,
                    Some(verifier) => verifier.before(platform, driver),
                }
            });
        }
        let machine = Arc::new(builder.start()?);
        let before = (0..machine.adapter_count()).map(|a| machine.adapter_at(a).census()).collect();
        let removed = platform.mutex("removed adapters", BTreeSet::new());
        let platform = platform.clone();
        Ok(MachineSide { platform, program, removed, before, verifiers, machine })
    }

    /// Returns the machine.
    pub(crate) fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Carries out a step of an operator on an adapter. No process of a service can do it by a
    /// call.
    pub(crate) fn carry_out(&self, adapter: usize, operation: Operation) -> Called {
        let unit = self.machine.adapter_at(adapter);
        let rest = |ns| self.platform.sleep_until(self.platform.now().after(ns));
        match operation {
            Operation::Suspend { ns } => {
                let held = unit.suspend_contexts()?;
                rest(ns);
                drop(held);
                Ok(())
            }
            Operation::SleepResume { ns } => {
                unit.set_power_state(DevicePowerState::D3)?;
                rest(ns);
                unit.set_power_state(DevicePowerState::D0)?;
                Ok(())
            }
            Operation::IdleEngines {} => {
                unit.power_down_idle_engines();
                Ok(())
            }
            Operation::ResetEngine { class } => {
                let node_ordinal = self.program.adapters[adapter].node(class, &self.platform);
                let node_ordinal = node_ordinal.ok_or(CallError::Missing)?;
                let test = TdrTest::EngineTdr { node_ordinal, engine_ordinal: 0 };
                Ok(unit.debug_timeouts(test)?)
            }
            Operation::ResetAdapter {} => Ok(unit.debug_timeouts(TdrTest::ForceTdr)?),
            Operation::RemoveAdapter {} => {
                self.machine.remove_adapter(adapter);
                self.removed.lock().insert(AdapterId(adapter as u16));
                Ok(())
            }
            _ => Err(CallError::Missing),
        }
    }

    /// Has each engine do some work of a new process. An engine keeps what it has mapped last until
    /// its next turn, which it does not take without power or work.
    pub(crate) fn call_engines(&self) {
        for index in 0..self.machine.adapter_count() {
            // Of an adapter that has stopped, or is removed, nothing is expected.
            let _ = self.call_engines_of(index);
        }
    }

    fn call_engines_of(&self, index: usize) -> Called {
        let process = self.machine.process_on(index, "caller");
        let process = process.map_err(|_| CallError::Missing)?;
        let device = process.create_device()?;
        let client = Client::of(&self.platform, process.clone(), device);
        let setup = &self.program.adapters[index];
        let has_packets = setup.caps().submissions.contains(&Submission::Packet);
        let nodes = setup.config(&self.platform).gpu.nodes.len() as u32;
        let called = (0..nodes).try_for_each(|node| {
            let queue = if has_packets {
                RawQueue::packet(&client, client.try_context(node, Priority::Normal)?)?
            } else {
                let context = client.try_hw_context(node)?;
                RawQueue::hardware(&client, context, client.hw_queue_in(context, false)?)?
            };
            let queue = QueueObject::Raw(Arc::new(queue));
            queue.flood(1, 0, false)?;
            queue.drain()?;
            queue.destroy()
        });
        process.terminate();
        called
    }

    /// Returns what the kernel or the driver says is wrong.
    pub(crate) fn fault(&self) -> Option<Failure> {
        let machine = &self.machine;
        (0..machine.adapter_count()).find_map(|index| {
            let adapter = machine.adapter_at(index);
            if let Some(bug) = adapter.bug_checks().first() {
                return Some(Failure::BugCheck(bug.to_string()));
            }
            if let Some(fault) = adapter.driver_faults().first() {
                return Some(Failure::Driver(fault.to_string()));
            }
            // A CPU says of each signal that it may fall. The signals of a queue come in any order,
            // and a fence is at its maximum while its device becomes lost.
            let is_wrong = |rewind: &FenceRewind| rewind.from != u64::MAX && !self.queues_signal();
            if let Some(rewind) = adapter.fence_rewinds().into_iter().find(is_wrong) {
                let text = format!("an announced signal is reported: {rewind:?}");
                return Some(Failure::Blame(text));
            }
            let violation = machine.driver_at(index).violations().into_iter().next();
            violation.map(|violation| Failure::Driver(format!("{violation:?}")))
        })
    }

    /// Returns the first clause that a driver broke, at the end of the run. Obligations that are
    /// due at the end are judged if the run has ended by itself.
    pub(super) fn broken_clause(&self, has_ended: bool) -> Option<Failure> {
        let removed = self.removed.lock();
        (0..).zip(&self.verifiers).find_map(|(index, verifier)| {
            let mut end = RunEnd::of(self.machine.adapter_at(usize::from(index)));
            // A driver whose device is gone ends nothing.
            end.stopped |= !has_ended || removed.contains(&AdapterId(index));
            let broken = verifier.as_ref()?.finish(&end).into_iter().next();
            broken.map(|breach| Failure::Clause(breach.line()))
        })
    }

    /// Returns whether the program has signals of queues.
    fn queues_signal(&self) -> bool {
        let is_signal = |step: &ProgramStep| {
            matches!(step.operation, Operation::QueueSignal { .. } | Operation::Broadcast { .. })
        };
        self.program.steps.iter().any(is_signal)
    }

    /// Compares the kernel's objects with those before the processes.
    pub(crate) fn leak(&self) -> Option<Failure> {
        for (index, before) in self.before.iter().enumerate() {
            let after = self.machine.adapter_at(index).census();
            if self.removed.lock().contains(&AdapterId(index as u16)) {
                // A removal also ends what the kernel has made for itself.
                let rest = after.devices + after.contexts + after.hw_contexts + after.hw_queues;
                if rest + after.doorbells + after.fences + after.fence_waits > 0 {
                    return Some(Failure::Leak(format!("removed adapter {index} has {after:?}")));
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
                let text = format!("adapter {index} has {after:?} and had {before:?}");
                return Some(Failure::Leak(text));
            }
        }
        None
    }

    /// Notes the states that the adapters have entered.
    pub(super) fn note_states(&self, coverage: &mut Coverage) {
        for index in 0..self.machine.adapter_count() {
            coverage.states.note_adapter(&self.machine.adapter_at(index).stats());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_a_call_still_uses_is_no_leak() {
        let text = "adapter standard; process a0 steady; thread p0; t0 rest 5";
        let platform = Platform::virtual_time(tidegate::platform::StepCosts::free());
        let side = MachineSide::start(&platform, Arc::new(text.parse().unwrap())).unwrap();
        let (judge, own) = (platform.clone(), platform.clone());
        platform.run(move || {
            let call = side.machine().open("in a call").unwrap();
            let device = call.create_device().unwrap();
            let clock = own.clone();
            let caller = own.spawn("call", move || {
                clock.sleep_until(clock.now().after(3 * PERIOD_NS));
                call.destroy_device(device).unwrap();
            });
            let end = |periods| judge.now().after(periods * PERIOD_NS);
            assert!(left_at(&judge, end(1), || side.leak()).is_some(), "the call has not returned");
            assert_eq!(left_at(&judge, end(10), || side.leak()), None);
            caller.join();
        });
    }

    #[test]
    fn an_object_that_outlives_the_program_is_a_leak() {
        let text = "adapter standard; process a0 steady; thread p0; t0 rest 5";
        let platform = Platform::virtual_time(tidegate::platform::StepCosts::free());
        let side = MachineSide::start(&platform, Arc::new(text.parse().unwrap())).unwrap();
        let machine = Arc::clone(side.machine());
        assert_eq!(side.leak(), None);
        let kernel = machine.open("left behind").unwrap();
        let process = kernel.clone();
        platform.run(move || assert!(process.create_device().is_ok()));
        let Some(Failure::Leak(text)) = side.leak() else { panic!("a device is left") };
        assert!(text.starts_with("adapter 0 has Census {"), "{text}");
        drop(kernel);
    }
}
