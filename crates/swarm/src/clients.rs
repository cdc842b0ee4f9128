//! Programs whose processes are real ones: the machine and its service are here, and each process
//! of the program is a child that is a client over the socket (`client`).
//!
//! Order: 1. the service starts; 2. the clients start and connect; 3. their threads run; 4. each
//! client judges its objects; 5. each destroys them and ends; 6. what the machine and this process
//! hold is judged; 7. the service ends, and it is judged again. No phase begins before all clients
//! that live have ended the one before. A step of an operator is carried out here when a client
//! asks, and a kill is a SIGKILL.
//!
//! Entry point: [`run_watched`].

use crate::control::{Answer, Socket, ToClient, ToMachine};
use crate::coverage::Coverage;
use crate::failure::Failure;
use crate::operation::Operation;
use crate::processor::tasks;
use crate::program::Program;
use crate::run::Outcome;
use crate::stage::{CallError, MachineSide, PERIOD_NS, SocketService, left_at};
use crate::watchdog::{Progress, Watched, watch};
use crate::words::{FenceId, ProcessId, ThreadId};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use tidegate::Platform;
use tidegate::platform::{Event, Mutex, RunReport, Step};

/// The arguments with which the program is a client.
pub const CLIENT_ARGUMENTS: [&str; 2] = ["swarm", "--client"];

/// How long the machine may hold something after its last client: the work of killed processes that
/// hangs is found meanwhile.
const SETTLE_NS: u64 = 12_000_000_000;
/// How long clients may take to write their stacks.
const STACKS_NS: u64 = 5_000_000_000;
/// How often what is held without a client is looked at.
const SAMPLES: u32 = 8;

/// Runs a program under the watchdog. The clients are processes of `executable`.
pub fn run_watched(platform: &Platform, program: &Arc<Program>, executable: &Path) -> Outcome {
    let run = match Run::new(platform, program, executable) {
        Ok(run) => Arc::new(run),
        Err(why) => return Outcome::of_failure(Failure::Panic(why)),
    };
    watch(&run);
    let performed = run.clone();
    let (_, report) = run.machine.machine().run_to_report(move || performed.perform());
    let failure = run.verdict(&report);
    run.progress.end_run();
    Outcome { failure, coverage: Coverage::default(), digest: (report.end.0, report.steps) }
}

/// How far a client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Started,
    Opened,
    ThreadsEnded,
    Judged,
    Destroyed,
    /// Its socket is closed, and its messages are read.
    Gone,
}

impl Phase {
    fn in_words(self) -> &'static str {
        match self {
            Phase::Started => "has started",
            Phase::Opened => "has connected",
            Phase::ThreadsEnded => "has ended its threads",
            Phase::Judged => "has judged its objects",
            Phase::Destroyed => "has destroyed its objects",
            Phase::Gone => "has gone",
        }
    }
}

/// A client.
struct ClientProcess {
    id: ProcessId,
    socket: Socket,
    child: Mutex<Child>,
    /// The fences of other processes that it opens.
    opens: BTreeSet<FenceId>,
}

struct ClientState {
    phase: Phase,
    is_killed: bool,
    has_written_stacks: bool,
}

#[derive(Default)]
struct State {
    clients: BTreeMap<ProcessId, ClientState>,
    /// The step of each thread that is in one: its number.
    under_way: BTreeMap<ThreadId, usize>,
    /// Steps of the operator that are being carried out.
    asked: usize,
    failures: Vec<Failure>,
}

struct Run {
    platform: Platform,
    program: Arc<Program>,
    machine: MachineSide,
    clients: Mutex<Vec<Arc<ClientProcess>>>,
    executable: std::path::PathBuf,
    state: Mutex<State>,
    /// The state has changed.
    changed: Event,
    /// Counts messages and steps of the operator, for the watchdog.
    progress: Progress,
}

impl Run {
    fn new(platform: &Platform, program: &Arc<Program>, executable: &Path) -> Result<Run, String> {
        let machine = MachineSide::start(platform, program.clone())
            .map_err(|error| format!("the machine did not start: {error}"))?;
        Ok(Run {
            platform: platform.clone(),
            program: program.clone(),
            machine,
            clients: platform.mutex("clients", Vec::new()),
            executable: executable.to_owned(),
            state: platform.mutex("state of the clients", State::default()),
            changed: platform.event(false),
            progress: Progress::new(platform, "messages of clients"),
        })
    }

    /// The main agent of the run.
    fn perform(self: &Arc<Run>) {
        let before = self.held_without_clients();
        match SocketService::start(self.machine.machine()) {
            Ok(service) => {
                let serving = before.most_with(Held::now());
                let serving = Held { threads: before.threads + SocketService::THREADS, ..serving };
                self.run_clients(&service);
                self.await_no_leak(&serving);
                service.stop();
                drop(service);
                self.await_no_leak(&before);
            }
            Err(why) => self.fail(Failure::Panic(why)),
        }
    }

    /// Returns what is held without a client. The kernel makes what it keeps for all processes with
    /// the first one, and how much an engine without power keeps of the last one varies.
    fn held_without_clients(&self) -> Held {
        let bare = Held::now();
        let sample = |most: Held, _| {
            self.machine.call_engines();
            most.most_with(Held::now())
        };
        let most = (0..SAMPLES).fold(bare.clone(), sample);
        Held { threads: bare.threads, ..most }
    }

    fn run_clients(self: &Arc<Run>, service: &SocketService) {
        for id in (0..self.program.processes.len() as u16).map(ProcessId) {
            if let Err(error) = self.start_client(id, &service.path) {
                self.fail(Failure::Panic(format!("{id} does not start: {error}")));
                return self.end_clients();
            }
        }
        self.await_phase(Phase::Opened);
        self.send_to_all(&ToClient::Start);
        self.await_phase(Phase::ThreadsEnded);
        let objects = self.state.lock().failures.is_empty();
        self.send_to_all(&ToClient::Judge { objects });
        self.await_phase(Phase::Judged);
        self.send_to_all(&ToClient::Destroy);
        self.await_phase(Phase::Gone);
    }

    fn start_client(self: &Arc<Run>, id: ProcessId, service: &Path) -> std::io::Result<()> {
        let (socket, theirs) = Socket::pair()?;
        let child = Command::new(&self.executable)
            .args(CLIENT_ARGUMENTS)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        let child = self.platform.mutex("a child", child);
        let client = Arc::new(ClientProcess { id, socket, child, opens: self.opened_by(id) });
        let state =
            ClientState { phase: Phase::Started, is_killed: false, has_written_stacks: false };
        self.state.lock().clients.insert(id, state);
        // Before anything is sent: the end of a client that never reads is seen by its reader.
        let (run, read) = (self.clone(), client.clone());
        let reader = self.platform.spawn_outside("messages of a client", move || run.read(&read));
        if let Err(error) = reader {
            self.state.lock().clients.remove(&id);
            let _ = client.child.lock().kill();
            return Err(error);
        }
        self.clients.lock().push(client.clone());
        let program = self.program.line();
        let open = ToClient::Open { process: id.0, service: service.to_owned(), program };
        match client.socket.send(&open, None) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            sent => sent,
        }
    }

    fn opened_by(&self, id: ProcessId) -> BTreeSet<FenceId> {
        let mut opened = BTreeSet::new();
        for step in &self.program.steps {
            match step.operation {
                Operation::OpenFence { fence, .. }
                    if self.program.process_of(step.thread) == id =>
                {
                    opened.insert(fence);
                }
                _ => {}
            }
        }
        // Its own handles do not leave it.
        for step in &self.program.steps {
            match step.operation {
                Operation::CreateFence { fence, .. }
                    if self.program.process_of(step.thread) == id =>
                {
                    opened.remove(&fence);
                }
                _ => {}
            }
        }
        opened
    }

    /// Reads the messages of a client to its end.
    fn read(self: &Arc<Run>, client: &Arc<ClientProcess>) {
        while let Ok(Some((message, file))) = client.socket.receive() {
            self.take(client, message, file);
            self.progress.end_step();
            self.changed.set(Step::ThreadWake);
        }
        // A watchdog may want the child meanwhile.
        let status = loop {
            match client.child.lock().try_wait().transpose() {
                Some(status) => break status,
                None => self.pause(),
            }
        };
        self.note_end(client.id, status);
        self.changed.set(Step::ThreadWake);
    }

    fn take(
        self: &Arc<Run>,
        client: &Arc<ClientProcess>,
        message: ToMachine,
        file: Option<OwnedFd>,
    ) {
        let reach = |phase| {
            let mut state = self.state.lock();
            state.client(client.id).phase = phase;
        };
        match message {
            ToMachine::Opened => reach(Phase::Opened),
            ToMachine::ThreadsEnded => reach(Phase::ThreadsEnded),
            ToMachine::Judged => reach(Phase::Judged),
            ToMachine::Destroyed => reach(Phase::Destroyed),
            ToMachine::StacksWritten => {
                self.state.lock().client(client.id).has_written_stacks = true
            }
            ToMachine::Begins(step) => {
                let thread = self.program.steps[step].thread;
                self.state.lock().under_way.insert(thread, step);
            }
            ToMachine::Ends(step) => {
                let thread = self.program.steps[step].thread;
                self.state.lock().under_way.remove(&thread);
            }
            ToMachine::Failed(text) => self.fail(Failure::of_child(&text)),
            ToMachine::Handle { fence } => {
                let message = ToClient::Handle { fence };
                for other in self.clients() {
                    if other.opens.contains(&FenceId(fence)) {
                        // One that was killed takes none.
                        let _ = other.socket.send(&message, file.as_ref().map(AsFd::as_fd));
                    }
                }
            }
            ToMachine::Asks { thread } => self.start_step(client, ThreadId(thread)),
        }
    }

    /// Carries out a step of the operator on a thread of its own, because it may take some time.
    fn start_step(self: &Arc<Run>, client: &Arc<ClientProcess>, thread: ThreadId) {
        let step = self.state.lock().under_way.get(&thread).copied();
        let is_by_operator =
            |step: &usize| self.program.steps[*step].operation.kind().is_by_operator();
        let Some(step) = step.filter(is_by_operator) else {
            let text = format!("{} asks for a step that is no operator's", client.id);
            return self.fail(Failure::Panic(text));
        };
        self.state.lock().asked += 1;
        let (run, client) = (self.clone(), client.clone());
        let carry_out = move || {
            let answer = run.carry_out(client.id, run.program.steps[step].operation);
            // A client that was killed meanwhile takes no answer.
            let _ = client.socket.send(&ToClient::Answer { thread: thread.0, answer }, None);
            run.state.lock().asked -= 1;
            run.progress.end_step();
            run.changed.set(Step::ThreadWake);
        };
        if let Err(error) = self.platform.spawn_outside("a step of the operator", carry_out) {
            self.state.lock().asked -= 1;
            self.fail(Failure::Panic(format!("no thread for a step of the operator: {error}")));
        }
    }

    fn carry_out(&self, by: ProcessId, operation: Operation) -> Answer {
        if let Operation::Kill { process } = operation {
            self.kill(process);
            return Answer::Done;
        }
        let adapter = usize::from(self.program.process(by).adapter.0);
        match self.machine.carry_out(adapter, operation) {
            Ok(()) => Answer::Done,
            Err(CallError::Status(status)) => Answer::Refused(status),
            Err(_) => Answer::Nothing,
        }
    }

    fn kill(&self, id: ProcessId) {
        self.state.lock().client(id).is_killed = true;
        if let Some(client) = self.clients().into_iter().find(|client| client.id == id) {
            // It may have ended by itself.
            let _ = client.child.lock().kill();
        }
    }

    /// Notes that a client has ended. One that was not killed ends with its last message.
    fn note_end(&self, id: ProcessId, status: std::io::Result<ExitStatus>) {
        let mut state = self.state.lock();
        let client = state.client(id);
        let (phase, is_killed) = (client.phase, client.is_killed);
        client.phase = Phase::Gone;
        let is_own = |(thread, _): &(&ThreadId, &usize)| self.program.process_of(**thread) == id;
        let steps: Vec<usize> =
            state.under_way.iter().filter(is_own).map(|(_, step)| *step).collect();
        state.under_way.retain(|thread, _| self.program.process_of(*thread) != id);
        let is_right = phase == Phase::Destroyed && status.as_ref().is_ok_and(ExitStatus::success);
        if !is_killed && !is_right {
            let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            let steps: Vec<String> = steps.iter().map(|step| self.in_words(*step)).collect();
            let text =
                format!("{id} {} and has ended: {status}; {}", phase.in_words(), steps.join(", "));
            state.failures.push(Failure::Panic(text));
        }
    }

    fn in_words(&self, step: usize) -> String {
        let step = self.program.steps[step];
        format!("'{} {}' of {}", step.thread, step.operation, self.program.process_of(step.thread))
    }

    fn clients(&self) -> Vec<Arc<ClientProcess>> {
        self.clients.lock().clone()
    }

    fn fail(&self, failure: Failure) {
        self.state.lock().failures.push(failure);
    }

    /// Waits until every client has come so far, and no step of the operator is under way.
    fn await_phase(&self, phase: Phase) {
        let is_there = |state: &State| {
            state.asked == 0 && state.clients.values().all(|client| client.phase >= phase)
        };
        while !is_there(&self.state.lock()) {
            self.changed.wait_for(None, "the clients");
        }
    }

    fn send_to_all(&self, message: &ToClient) {
        for client in self.clients() {
            // One that has ended is not told.
            let _ = client.socket.send(message, None);
        }
    }

    /// Ends all clients.
    fn end_clients(&self) {
        for client in self.clients() {
            self.kill(client.id);
        }
        self.await_phase(Phase::Gone);
    }

    /// Waits until nothing is left of the clients, or for some time.
    fn await_no_leak(&self, before: &Held) {
        self.clients.lock().clear();
        let end = self.platform.now().after(SETTLE_NS);
        let left = || {
            let leak = self.machine.leak().or_else(|| before.leak());
            leak.inspect(|_| self.machine.call_engines())
        };
        if let Some(leak) = left_at(&self.platform, end, left) {
            self.fail(leak);
        }
    }

    /// Lets some time pass for what is outside of the platform.
    fn pause(&self) {
        self.platform.sleep_until(self.platform.now().after(PERIOD_NS));
    }

    /// Returns what is wrong after the run, most telling first.
    fn verdict(&self, report: &RunReport) -> Option<Failure> {
        if let Some(fault) = self.machine.fault() {
            return Some(fault);
        }
        if let Some(panic) = report.panics.first() {
            return Some(Failure::Panic(panic.clone()));
        }
        let failures = std::mem::take(&mut self.state.lock().failures);
        let blocked = || Failure::Standstill(self.machine.machine().standstill(report));
        failures.into_iter().next().or_else(|| (!report.blocked.is_empty()).then(blocked))
    }
}

impl State {
    fn client(&mut self, id: ProcessId) -> &mut ClientState {
        self.clients.get_mut(&id).expect("a client that was started")
    }
}

impl Watched for Run {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn under_way(&self) -> Vec<String> {
        let state = self.state.lock();
        let steps = state.under_way.values().map(|step| self.in_words(*step));
        let clients = state.clients.iter().filter(|(_, client)| client.phase < Phase::Gone);
        steps
            .chain(clients.map(|(id, client)| format!("{id} {}", client.phase.in_words())))
            .collect()
    }

    fn failure(&self) -> Option<Failure> {
        self.state.lock().failures.first().cloned()
    }

    fn work_ns(&self) -> u64 {
        self.program.work_ns()
    }

    fn line(&self) -> String {
        format!("swarm/processes | {}", self.program.line())
    }

    fn other_processes(&self) -> Vec<u32> {
        self.clients().iter().map(|client| client.child.lock().id()).collect()
    }

    fn give_up(&self) {
        let living = |state: &State| {
            let living = state.clients.iter().filter(|(_, client)| client.phase < Phase::Gone);
            living.filter(|(_, client)| !client.has_written_stacks).count()
        };
        self.send_to_all(&ToClient::WriteStacks);
        let end = self.platform.now().after(STACKS_NS);
        while living(&self.state.lock()) > 0 && self.platform.now().0 < end.0 {
            self.pause();
        }
        for client in self.clients() {
            self.kill(client.id);
        }
    }
}

/// What this process holds: descriptors of each kind, and threads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    /// The kinds are named as the system does, without numbers. Memory has its size.
    descriptors: BTreeMap<String, usize>,
    threads: usize,
    /// Their names, for a failure.
    names: Vec<String>,
}

impl Held {
    fn now() -> Held {
        let mut descriptors = BTreeMap::new();
        for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
            // The descriptor by which the folder is read is closed meanwhile, or counts each time.
            if let Ok(target) = std::fs::read_link(entry.path()) {
                let target = target.to_string_lossy();
                let mut kind: String = target.chars().filter(|c| !c.is_ascii_digit()).collect();
                if kind.starts_with("/memfd:") {
                    let bytes = entry.path().metadata().map_or(0, |about| about.len());
                    kind = format!("memory of {bytes} bytes");
                }
                *descriptors.entry(kind).or_default() += 1;
            }
        }
        let names = thread_names();
        Held { descriptors, threads: names.len(), names }
    }

    /// Returns the most of each kind.
    fn most_with(&self, other: Held) -> Held {
        let mut descriptors = self.descriptors.clone();
        for (kind, count) in other.descriptors {
            let most = descriptors.entry(kind).or_default();
            *most = (*most).max(count);
        }
        Held { descriptors, threads: self.threads.max(other.threads), names: other.names }
    }

    fn leak(&self) -> Option<Failure> {
        let now = Held::now();
        let had = |kind: &String| self.descriptors.get(kind).copied().unwrap_or_default();
        let more = now.descriptors.iter().find(|(kind, count)| **count > had(kind));
        let text = match more {
            Some((kind, count)) => {
                format!("the service has {count} descriptors of '{kind}' and had {}", had(kind))
            }
            None if now.threads > self.threads => {
                format!(
                    "the service has {} threads and had {}; now {}, before clients {}",
                    now.threads,
                    self.threads,
                    now.names.join(", "),
                    self.names.join(", ")
                )
            }
            None => return None,
        };
        Some(Failure::Leak(text))
    }
}

/// The names of the threads of this process, in order.
fn thread_names() -> Vec<String> {
    let name = |task: std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        format!("'{}'", name.trim_end())
    };
    let mut names: Vec<String> = tasks(std::process::id()).map(name).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::ReplayLine;
    use crate::threads;
    use std::os::unix::process::ExitStatusExt;

    const KILLED: i32 = 9;
    const FAILED: i32 = 1 << 8;

    /// Ends a client of two in this phase, in steps of two of its three threads. Returns the
    /// failures, and the steps that are still under way.
    fn end(phase: Phase, is_killed: bool, status: i32) -> (Vec<String>, Vec<usize>) {
        let line = "swarm/processes | service; adapter standard; process a0 steady; \
                    process a0 steady; thread p0; thread p0; thread p0; thread p1; t0 rest 100; \
                    t1 rest 200; t2 rest 300; t3 rest 400";
        let line: ReplayLine = line.parse().unwrap();
        let program = Arc::new(line.program);
        let platform = threads::platform(&program);
        let run = Run::new(&platform, &program, Path::new("")).unwrap();
        {
            let mut state = run.state.lock();
            for id in [0, 1].map(ProcessId) {
                let client = ClientState { phase, is_killed, has_written_stacks: false };
                state.clients.insert(id, client);
            }
            state.under_way = [(0, 0), (2, 2), (3, 3)].map(|(t, step)| (ThreadId(t), step)).into();
        }
        run.note_end(ProcessId(0), Ok(ExitStatus::from_raw(status)));
        let state = run.state.lock();
        let phases = [0, 1].map(|id| state.clients[&ProcessId(id)].phase);
        assert_eq!(phases, [Phase::Gone, phase]);
        let failures = state.failures.iter().map(|failure| match failure {
            Failure::Panic(text) => text.clone(),
            other => panic!("{other}"),
        });
        (failures.collect(), state.under_way.values().copied().collect())
    }

    #[test]
    fn the_end_of_a_client_names_its_steps_unless_it_was_killed_or_was_its_last_one() {
        let others = vec![3];
        let named = |text: &str| (vec![text.to_owned()], others.clone());
        let steps = "'t0 rest 100' of p0, 't2 rest 300' of p0";
        assert_eq!(
            end(Phase::Opened, false, KILLED),
            named(&format!("p0 has connected and has ended: signal: 9 (SIGKILL); {steps}"))
        );
        assert_eq!(
            end(Phase::Judged, false, 0),
            named(&format!("p0 has judged its objects and has ended: exit status: 0; {steps}"))
        );
        assert_eq!(
            end(Phase::Destroyed, false, FAILED),
            named(&format!("p0 has destroyed its objects and has ended: exit status: 1; {steps}"))
        );
        for (phase, is_killed, status) in
            [(Phase::Opened, true, KILLED), (Phase::Destroyed, false, 0)]
        {
            assert_eq!(end(phase, is_killed, status), (vec![], others.clone()));
        }
    }
}
