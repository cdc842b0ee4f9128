//! A run of a program: the machine, its processes, and the threads that carry out their steps.
//!
//! Order: 1. the machine and its processes are made; 2. the threads run; 3. the objects are judged
//! (`judge`); 4. everything is dropped, process by process; 5. the machine is judged. 2 to 4 happen
//! inside of the run.
//!
//! Rooms: `bounds` (of time) · `machine` · `process` · `slot` (objects shared by threads) ·
//! `objects` (calls on them) · `steps` (an arm for each operation), `stories` (operations of
//! several calls) · `judge` (the oracles) · `client` (a run of one process, whose machine is in
//! another one).

mod bounds;
mod client;
mod judge;
mod machine;
mod objects;
mod process;
mod slot;
mod steps;
mod stories;

use self::bounds::Bounds;
use crate::control::Parent;
use crate::coverage::{Coverage, Overlaps};
use crate::failure::Failure;
use crate::model::{Facts, Model};
use crate::operation::Operation;
use crate::program::{Program, ProgramStep};
use crate::watchdog::{Progress, Watched};
use crate::words::{BufferId, FenceId, ProcessId, QueueId, Surface, ThreadId, WaitId};
pub(crate) use machine::{MachineSide, PERIOD_NS, left_at};
pub(crate) use objects::CallError;
use objects::{BufferObject, Called, FenceObject, QueueObject, Registered};
pub(crate) use process::SocketService;
use process::{RunProcess, Transport};
use slot::{Key, Objects, Slot};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use tidegate::calls::{DeviceState, NtHandle};
use tidegate::platform::{Mutex, QueueNumber};
use tidegate::service::server::{ServerConfig, Sessions};
use tidegate::{Machine, MachineError, Platform};

/// A queue in which a step has injected a hang, or whose wait it may have lost.
#[derive(Clone)]
struct Injected {
    process: ProcessId,
    surface: Surface,
    queues: Vec<QueueNumber>,
}

/// Time after the end of the last process, before leaks are looked for: more than two hangs of work
/// that a killed process has left take to be found.
const SETTLE_NS: u64 = 10_000_000_000;

/// What a run in virtual time may take beyond its bound before it is ended. Programs of the
/// generator without a bound take some seconds with hangs.
const LIMIT_NS: u64 = 120_000_000_000;

/// The service of a run, to be ended.
enum Running {
    InProcess,
    Agents(Sessions),
    Socket(SocketService),
}

/// A run of a program.
pub struct Stage {
    program: Arc<Program>,
    /// The state of the model after the last step.
    end: Model,
    platform: Platform,
    /// Opened at the beginning of the run.
    processes: OnceLock<BTreeMap<ProcessId, RunProcess>>,
    queues: BTreeMap<QueueId, Slot<QueueObject>>,
    fences: BTreeMap<(FenceId, ProcessId, Surface), Slot<FenceObject>>,
    handles: BTreeMap<FenceId, Slot<NtHandle>>,
    buffers: BTreeMap<BufferId, Slot<BufferObject>>,
    surfaces: BTreeMap<QueueId, Surface>,
    bounds: Bounds,
    failures: Mutex<Vec<Failure>>,
    injected: Mutex<Vec<Injected>>,
    /// Rings whose waits may be lost to a short history.
    may_fault: Mutex<Vec<Injected>>,
    /// Registered waits after their threads have ended.
    ended_waits: Mutex<Vec<(ProgramStep, Registered, EndOfWait)>>,
    overlaps: Overlaps,
    /// Of the devices after the last step.
    device_states: Mutex<Vec<DeviceState>>,
    /// Counts the steps that have ended, for a watchdog.
    progress: Progress,
    around: Around,
}

/// What is around the processes of a stage.
enum Around {
    /// The machine. All processes are here.
    Machine(MachineSide),
    /// The process of the machine. One process of the program is here.
    Parent(Arc<Parent>),
}

/// Returns the state of the model after the last step.
pub(crate) fn end_of(program: &Program) -> Model {
    let facts = Facts::of(program);
    let mut end = Model::default();
    for step in &program.steps {
        let admitted = end.admit(&facts, step);
        debug_assert_eq!(admitted, Ok(()), "{} {}", step.thread, step.operation);
    }
    end
}

impl Watched for Stage {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn under_way(&self) -> Vec<String> {
        self.overlaps.under_way().iter().map(|kind| kind.name().to_owned()).collect()
    }

    fn failure(&self) -> Option<Failure> {
        self.failures.lock().first().cloned()
    }

    fn work_ns(&self) -> u64 {
        self.program.work_ns()
    }

    fn line(&self) -> String {
        format!("swarm/threads | {}", self.program.line())
    }
}

/// How a thread has ended a registered wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndOfWait {
    Awaited,
    Cancelled {
        /// The notices by the end of the cancellation.
        notices: u64,
    },
}

impl Stage {
    /// Makes the machine and the processes of a program.
    ///
    /// # Errors
    /// A configuration that contradicts itself, or a process that is refused.
    pub fn new(platform: &Platform, program: Arc<Program>) -> Result<Stage, MachineError> {
        let end = end_of(&program);
        let machine = MachineSide::start(platform, program.clone())?;
        Ok(Stage::around(platform, program, end, Around::Machine(machine)))
    }

    fn around(platform: &Platform, program: Arc<Program>, end: Model, around: Around) -> Stage {
        let surfaces = slot::surfaces(&program);
        let mut stage = Stage {
            end,
            platform: platform.clone(),
            processes: OnceLock::new(),
            queues: BTreeMap::new(),
            fences: BTreeMap::new(),
            handles: BTreeMap::new(),
            buffers: BTreeMap::new(),
            surfaces,
            bounds: Bounds::of(&program, platform),
            failures: platform.mutex("failures of the program", Vec::new()),
            injected: platform.mutex("injected hangs", Vec::new()),
            may_fault: platform.mutex("rings that may lose a wait", Vec::new()),
            ended_waits: platform.mutex("ended waits", Vec::new()),
            overlaps: Overlaps::new(platform),
            device_states: platform.mutex("states of devices", Vec::new()),
            progress: Progress::new(platform, "steps that have ended"),
            around,
            program,
        };
        stage.make_slots();
        stage
    }

    fn objects_of(&self, step: &ProgramStep) -> Objects {
        let process = self.program.process_of(step.thread);
        Objects::of(step.operation, process, |queue| self.surfaces[&queue])
    }

    fn make_slots(&mut self) {
        let mut uses: BTreeMap<Key, u64> = BTreeMap::new();
        let program = self.program.clone();
        for step in &program.steps {
            let objects = self.objects_of(step);
            objects.made.iter().for_each(|key| *uses.entry(*key).or_default() += 0);
            objects.used.iter().for_each(|key| *uses.entry(*key).or_default() += 1);
        }
        let platform = self.platform.clone();
        for (key, count) in uses {
            match key {
                Key::Queue(queue) => drop(self.queues.insert(queue, Slot::new(&platform, count))),
                Key::Fence(fence, process, surface) => {
                    let slot = Slot::new(&platform, count);
                    drop(self.fences.insert((fence, process, surface), slot));
                }
                Key::Handle(fence) => {
                    drop(self.handles.insert(fence, Slot::new(&platform, count)));
                }
                Key::Buffer(buffer) => {
                    drop(self.buffers.insert(buffer, Slot::new(&platform, count)));
                }
            }
        }
    }

    /// Returns the machine.
    ///
    /// # Panics
    /// It is in another process.
    pub fn machine(&self) -> &Arc<Machine> {
        match &self.around {
            Around::Machine(machine) => machine.machine(),
            Around::Parent(_) => panic!("the machine is in another process"),
        }
    }

    /// Returns the pairs of operations that were under way at the same time, and the states that
    /// objects entered.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage::default();
        self.overlaps.add_to(&mut coverage.pairs);
        if let Around::Machine(machine) = &self.around {
            machine.note_states(&mut coverage);
        }
        for state in self.device_states.lock().iter() {
            coverage.states.note_device(state);
        }
        coverage
    }

    /// Opens the processes, runs the threads, judges their objects and drops everything. The main
    /// agent of a run.
    pub fn perform(self: &Arc<Stage>) {
        let service = match self.platform.unexplored(|| self.open()) {
            Ok(service) => service,
            Err(why) => return self.fail(Failure::Panic(why)),
        };
        self.limit_time();
        let begun = self.platform.now().0;
        self.run_threads(|_| true);
        self.platform.unexplored(|| {
            if self.failures.lock().is_empty() && !self.platform.is_stopped() {
                self.judge_objects();
            }
            self.drop_all();
            match service {
                Running::InProcess => {}
                Running::Agents(sessions) => sessions.end(),
                Running::Socket(service) => service.stop(),
            }
            self.judge_time(self.platform.now().0 - begun);
            self.let_objects_go();
        });
    }

    /// Lets the kernel let go of the last objects, which it does when engines and calls have.
    fn let_objects_go(&self) {
        let settled = self.platform.now().after(SETTLE_NS);
        match &self.around {
            // Virtual time costs nothing, and what a killed process has left is found to hang.
            _ if self.platform.is_cooperative() => drop(self.platform.sleep_until(settled)),
            // What is left at the end is judged with the run.
            Around::Machine(machine) => {
                drop(left_at(&self.platform, settled, || machine.leak()));
                machine.machine().wait_idle();
            }
            Around::Parent(_) => {}
        }
    }

    /// Runs the threads of the processes that `are_here`.
    fn run_threads(self: &Arc<Stage>, are_here: impl Fn(ProcessId) -> bool) {
        let threads = (0..self.program.threads.len() as u16).map(ThreadId);
        let threads = threads.filter(|thread| are_here(self.program.process_of(*thread)));
        let started: Vec<_> = threads
            .map(|thread| {
                let stage = self.clone();
                self.platform.spawn(thread.to_string(), move || stage.run_thread(thread))
            })
            .collect();
        for thread in started {
            thread.join();
        }
    }

    /// Ends a run in virtual time that goes on for ever: timers move although no thread does.
    fn limit_time(self: &Arc<Stage>) {
        if !self.platform.is_cooperative() {
            return;
        }
        let stage = Arc::downgrade(self);
        let limit_ns = LIMIT_NS.saturating_add(self.bounds.run_ns.unwrap_or(0));
        let (platform, end) = (self.platform.clone(), self.platform.now().after(limit_ns));
        self.platform.spawn_worker("limit of the run", move || {
            platform.sleep_until(end);
            if let Some(stage) = stage.upgrade()
                && !platform.is_stopped()
            {
                let waits = platform
                    .blocked_agents()
                    .into_iter()
                    .map(|(agent, what)| format!("'{agent}' waits for {what}"));
                stage.fail(Failure::Standstill(waits.collect()));
                platform.stop();
            }
        });
    }

    /// Opens the processes. Returns the service that they are clients of.
    fn open(&self) -> Result<Running, String> {
        let machine = self.machine();
        let (running, transport) = match (self.program.served, self.platform.is_cooperative()) {
            (false, _) => (Running::InProcess, Transport::InProcess(machine)),
            (true, true) => {
                let sessions = machine.sessions(ServerConfig::default());
                (Running::Agents(sessions.clone()), Transport::Agents(sessions))
            }
            (true, false) => {
                let service = SocketService::start(machine)?;
                let transport = Transport::Socket(service.path.clone());
                (Running::Socket(service), transport)
            }
        };
        let all = (0..self.program.processes.len() as u16).map(ProcessId);
        self.open_processes(&transport, all)?;
        Ok(running)
    }

    fn open_processes(
        &self,
        transport: &Transport<'_>,
        processes: impl Iterator<Item = ProcessId>,
    ) -> Result<(), String> {
        let open = |id: ProcessId| {
            let may_be_destroyed = self.end.destroyed.contains(&id);
            let opened =
                RunProcess::open(&self.platform, &self.program, transport, (id, may_be_destroyed));
            Ok::<_, String>((id, opened?))
        };
        let _first = self.processes.set(processes.map(open).collect::<Result<_, _>>()?);
        Ok(())
    }

    fn run_process(&self, process: ProcessId) -> &RunProcess {
        &self.all_processes()[&process]
    }

    fn all_processes(&self) -> &BTreeMap<ProcessId, RunProcess> {
        static NONE: BTreeMap<ProcessId, RunProcess> = BTreeMap::new();
        self.processes.get().unwrap_or(&NONE)
    }

    fn run_thread(&self, thread: ThreadId) {
        let mut waits: BTreeMap<WaitId, (ProgramStep, Registered)> = BTreeMap::new();
        let steps = self.program.steps.iter().enumerate();
        for (index, step) in steps.filter(|(_, step)| step.thread == thread) {
            let kind = step.operation.kind();
            if let Around::Parent(parent) = &self.around {
                parent.begins(index);
            }
            let under_way = self.overlaps.begin(kind);
            let called = self.carry_out(step, &mut waits);
            self.overlaps.end(under_way);
            self.progress.end_step();
            if let Around::Parent(parent) = &self.around {
                parent.ends(index);
            }
            if let Err(error) = called
                && !self.accepts(step, &error)
            {
                self.fail(Failure::Refused { step: *step, error: error.to_string() });
            }
            let objects = self.objects_of(step);
            objects.used.iter().for_each(|key| self.end_use(*key));
        }
        // What is still registered is cancelled, as by a program that ends.
        for (_, (step, mut wait)) in waits {
            let notices = wait.cancel();
            self.ended_waits.lock().push((step, wait, EndOfWait::Cancelled { notices }));
        }
    }

    /// Returns whether the step may fail with this error.
    fn accepts(&self, step: &ProgramStep, error: &CallError) -> bool {
        let process = self.program.process_of(step.thread);
        // The failure of the step that should have made the object counts.
        let is_consequence =
            error.is_end_of_run() || *error == CallError::Missing || self.platform.is_stopped();
        is_consequence
            || (self.program.is_doomed(process) && error.is_loss())
            || (error.is_closed() && self.may_be_closed(step, process))
            || (error.is_unsupported() && self.opens_other_width(step, process))
    }

    /// Returns whether the step names what another thread may have closed.
    fn may_be_closed(&self, step: &ProgramStep, process: ProcessId) -> bool {
        let is_closed = |key: &Key| match key {
            Key::Queue(queue) => self.end.queues.get(queue).is_some_and(|queue| queue.is_closed),
            Key::Fence(fence, ..) => self.end.fences.get(fence).is_some_and(|f| f.is_closed),
            Key::Handle(_) | Key::Buffer(_) => false,
        };
        self.end.destroyed.contains(&process) || self.objects_of(step).used.iter().any(is_closed)
    }

    /// Returns whether the step opens a fence of an adapter with atomics of another width.
    fn opens_other_width(&self, step: &ProgramStep, process: ProcessId) -> bool {
        let Operation::OpenFence { fence, .. } = step.operation else { return false };
        let facts = Facts::of(&self.program);
        let owner = self.end.fences.get(&fence).map_or(process, |fence| fence.owner);
        facts.caps(owner).atomics_64bit != facts.caps(process).atomics_64bit
    }

    /// Keeps a failure for the verdict, or reports it to the process of the machine.
    fn fail(&self, failure: Failure) {
        match &self.around {
            Around::Machine(_) => self.failures.lock().push(failure),
            Around::Parent(parent) => parent.fail(&failure),
        }
    }

    fn end_use(&self, key: Key) {
        match key {
            Key::Queue(queue) => self.queues[&queue].end_use(),
            Key::Fence(fence, process, surface) => {
                self.fences[&(fence, process, surface)].end_use();
            }
            Key::Handle(fence) => self.handles[&fence].end_use(),
            Key::Buffer(buffer) => self.buffers[&buffer].end_use(),
        }
    }

    fn process_of(&self, step: &ProgramStep) -> (ProcessId, &RunProcess) {
        let process = self.program.process_of(step.thread);
        (process, self.run_process(process))
    }

    /// Drops the objects that are left, then the devices and the processes.
    fn drop_all(&self) {
        for (_, wait, _) in self.ended_waits.lock().iter_mut() {
            wait.cancel();
        }
        let note = |what: &str, process: &RunProcess, called: Called| {
            if let Err(error) = called
                && !self.platform.is_stopped()
                && !(error.is_end_of_run() || (process.is_doomed && error.is_loss()))
                && !(error.is_closed() && process.may_be_destroyed)
            {
                self.fail(Failure::Leak(format!("{what} is not destroyed: {error}")));
            }
        };
        for (id, slot) in &self.queues {
            if let (Some(queue), Some(state)) = (slot.take_now(), self.end.queues.get(id)) {
                let process = self.run_process(state.process);
                let destroyed = match state.is_closed {
                    true => queue.destroy_rest(),
                    false => queue.destroy(),
                };
                note(&id.to_string(), process, destroyed);
            }
        }
        for (id, slot) in &self.buffers {
            if let (Some(buffer), Some(state)) = (slot.take_now(), self.end.buffers.get(id)) {
                let process = self.run_process(state.process);
                note(&id.to_string(), process, buffer.destroy());
            }
        }
        for ((id, process, _), slot) in &self.fences {
            let is_closed = self.end.fences.get(id).is_some_and(|fence| fence.is_closed);
            if let Some(fence) = slot.take_now().filter(|_| !is_closed) {
                let process = self.run_process(*process);
                note(&id.to_string(), process, fence.destroy());
            }
        }
        self.handles.values().for_each(|slot| drop(slot.take_now()));
        for process in self.all_processes().values() {
            process.drop_device();
            let destroyed = process.client.kernel.destroy_device(process.client.device);
            note("a device", process, destroyed.map_err(CallError::from));
            process.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Kind;
    use tidegate::platform::RunReport;

    /// What a watchdog writes about a run at a standstill.
    #[test]
    fn a_watched_run_says_what_is_under_way_and_what_has_failed() {
        let text = "adapter standard; process a0 steady; thread p0; thread p0; \
                    t0 queue q0 api packet copy normal; t1 rest 5";
        let program: Arc<Program> = Arc::new(text.parse().unwrap());
        let platform = Platform::virtual_time(tidegate::platform::StepCosts::free());
        let stage = Stage::new(&platform, program).unwrap();
        assert_eq!((stage.under_way(), stage.failure()), (vec![], None));
        let numbers = [Kind::CreateQueue, Kind::Rest].map(|kind| stage.overlaps.begin(kind));
        assert_eq!(stage.under_way(), ["queue", "rest"]);
        stage.overlaps.end(numbers[0]);
        assert_eq!(stage.under_way(), ["rest"]);
        for text in ["first", "second"] {
            stage.fail(Failure::Leak(text.to_owned()));
        }
        assert_eq!(stage.failure(), Some(Failure::Leak("first".to_owned())));
        assert_eq!(stage.line(), format!("swarm/threads | {text}"));
    }

    /// A signal that falls without saying so is reported by the kernel. The program has none.
    #[test]
    fn a_report_of_the_machine_is_the_verdict_before_failures_of_steps() {
        let text = "adapter standard; process a0 steady; thread p0; t0 rest 5";
        for is_wrong in [false, true] {
            let program: Arc<Program> = Arc::new(text.parse().unwrap());
            let platform = Platform::virtual_time(tidegate::platform::StepCosts::free());
            let stage = Stage::new(&platform, program).unwrap();
            let kernel = stage.machine().open("by hand").unwrap();
            let own = platform.clone();
            let (_, mut report) = stage.machine().run_to_report(move || {
                let device = kernel.create_device().unwrap();
                let client = tidegate_testbed::Client::of(&own, kernel, device);
                let fence = client.monitored(5);
                client.signal(&fence, if is_wrong { 3 } else { 6 });
            });
            stage.fail(Failure::Leak("of a step".to_owned()));
            let mut verdict_is = |unless_wrong: Failure, change: fn(&mut RunReport)| {
                change(&mut report);
                match stage.verdict(&report) {
                    Some(Failure::Blame(text)) if is_wrong => {
                        assert!(text.contains("from: 5, to: 3"), "{text}");
                    }
                    other => assert_eq!((other, is_wrong), (Some(unless_wrong), false)),
                }
            };
            let standstill = |report: &mut RunReport| {
                report.blocked.push(("an agent".to_owned(), "a fence".to_owned()));
            };
            verdict_is(Failure::Leak("of a step".to_owned()), |_| ());
            verdict_is(Failure::Leak("of a step".to_owned()), standstill);
            let panicked = Failure::Panic("of an agent".to_owned());
            verdict_is(panicked, |report| report.panics.push("of an agent".to_owned()));
        }
    }
}
