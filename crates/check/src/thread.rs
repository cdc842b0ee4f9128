//! Threads with the functions of std's.
//!
//! In a machine a thread is an agent. A panic of any thread is reported as a failure of the run,
//! also when its `join` handles the error.

pub use crate::parking::{Thread, current, park, park_timeout};

use crate::belonging::{belongs_elsewhere, end_agent, machine, opaque, step};
use crate::parking::Parking;
use std::any::Any;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
pub use std::thread::Result;
use std::time::Duration;
use tidegate_machines::fiber_scope::AgentScope;
use tidegate_machines::thread as agent;
use tidegate_machines::{Stopped, fiber_scope, world};
use tidegate_platform::{AgentIx, Platform, PlatformKind, Site, WaitEnd};

/// What a poll costs in virtual time, in nanoseconds.
const POLL_NS: u64 = 1_000;

/// The result of an agent, on its way to the agent that joins it.
struct Packet<T>(Arc<StdMutex<Option<Result<T>>>>);

impl<T> Packet<T> {
    fn new() -> Packet<T> {
        Packet(Arc::default())
    }

    fn clone(&self) -> Packet<T> {
        Packet(Arc::clone(&self.0))
    }

    fn take(&self) -> Option<Result<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Runs the body of an agent and keeps its result.
    fn fill(self, body: impl FnOnce() -> T) {
        let result = run_body(body);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }
}

/// Runs the body of an agent, and reports its panic.
fn run_body<T>(body: impl FnOnce() -> T) -> Result<T> {
    let result = catch_unwind(AssertUnwindSafe(body));
    if let Err(payload) = &result {
        report_panic(payload.as_ref());
    }
    result
}

/// Reports a panic that the calling agent has caught, unless the stop of the machine caused it.
fn report_panic(payload: &(dyn Any + Send)) {
    if !payload.is::<Stopped>() {
        world::report_panic(payload);
    }
}

/// Runs the first agent of an explored program.
pub fn run_main(body: impl FnOnce()) {
    // Reported already.
    let _ = run_body(body);
}

enum Handle<T, S> {
    Std(S),
    Agent { agent: AgentIx, packet: Packet<T> },
}

/// Waits for the end of an agent, and takes its result.
fn join_agent<T>(agent: AgentIx, packet: &Packet<T>, site: Site) -> Result<T> {
    let Some(platform) = machine() else { belongs_elsewhere("a thread's handle", site) };
    let end = step(&platform, "a thread's handle", site, || world::join(agent));
    match packet.take() {
        Some(result) => result,
        None if end == WaitEnd::Stopped => end_agent(),
        None => Err(Box::new("the thread ended without a result")),
    }
}

/// An agent that is about to start, and what its starter keeps.
struct New<'a, T> {
    name: String,
    body: Box<dyn FnOnce() + Send + 'a>,
    packet: Packet<T>,
    thread: Thread,
}

impl<'a, T: Send + 'a> New<'a, T> {
    fn of(
        platform: &Platform,
        name: Option<String>,
        body: impl FnOnce() -> T + Send + 'a,
    ) -> New<'a, T> {
        let name = name.unwrap_or_else(world::name_of_child);
        let parking = Parking::new(platform, &name);
        let thread = Thread::of_agent(parking.clone());
        let packet = Packet::new();
        let filled = packet.clone();
        let body = move || {
            parking.keep();
            filled.fill(body);
        };
        New { name, body: Box::new(body), packet, thread }
    }
}

/// The right to wait for a thread's end, as [`std::thread::JoinHandle`].
pub struct JoinHandle<T> {
    handle: Handle<T, std::thread::JoinHandle<T>>,
    thread: Thread,
}

impl<T> JoinHandle<T> {
    /// Waits for the thread's end and returns its result.
    ///
    /// # Errors
    /// The thread panicked.
    #[track_caller]
    pub fn join(self) -> Result<T> {
        match self.handle {
            Handle::Std(handle) => handle.join(),
            Handle::Agent { agent, packet } => join_agent(agent, &packet, Site::caller()),
        }
    }

    /// Returns the handle of the thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

/// Names a thread before it is started, as [`std::thread::Builder`].
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
}

impl Builder {
    /// Begins a thread.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the thread, for reports.
    pub fn name(self, name: impl Into<String>) -> Builder {
        Builder { name: Some(name.into()) }
    }

    fn of_std(self) -> std::thread::Builder {
        let builder = std::thread::Builder::new();
        match self.name {
            Some(name) => builder.name(name),
            None => builder,
        }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let Some(platform) = machine() else {
            let handle = self.of_std().spawn(body)?;
            let thread = Thread::of_std(handle.thread().clone());
            return Ok(JoinHandle { handle: Handle::Std(handle), thread });
        };
        let (handle, thread) = step(&platform, "a thread", Site::caller(), || {
            let New { name, body, packet, thread } = New::of(&platform, self.name, body);
            let agent = world::spawn(name, world::Role::Script, body);
            (Handle::Agent { agent, packet }, thread)
        });
        Ok(JoinHandle { handle, thread })
    }

    /// Starts the thread in `scope`.
    ///
    /// # Errors
    /// The system has no thread left.
    #[track_caller]
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &Scope<'scope, '_>,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let (handle, thread) = match scope.0 {
            ScopeKind::Std(scope) => {
                let handle = self.of_std().spawn_scoped(scope, body)?;
                let thread = Thread::of_std(handle.thread().clone());
                (Handle::Std(handle), thread)
            }
            ScopeKind::Agents(scope) => {
                let site = Site::caller();
                let Some(platform) = machine() else { belongs_elsewhere("a scope", site) };
                step(&platform, "a scope", site, || {
                    let New { name, body, packet, thread } = New::of(&platform, self.name, body);
                    let agent = scope.spawn(name, body);
                    (Handle::Agent { agent, packet }, thread)
                })
            }
        };
        Ok(ScopedJoinHandle { handle, thread, scope: PhantomData })
    }
}

/// Starts a thread.
///
/// # Panics
/// The system has no thread left.
#[track_caller]
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(body).expect("the system has no thread left")
}

/// The threads of a [`scope`].
pub struct Scope<'scope, 'env: 'scope>(ScopeKind<'scope, 'env>);

enum ScopeKind<'scope, 'env: 'scope> {
    Std(&'scope std::thread::Scope<'scope, 'env>),
    Agents(&'scope AgentScope<'scope, 'env>),
}

/// The right to wait for the end of a scope's thread.
pub struct ScopedJoinHandle<'scope, T> {
    handle: Handle<T, std::thread::ScopedJoinHandle<'scope, T>>,
    thread: Thread,
    scope: PhantomData<&'scope ()>,
}

impl<'scope, T> ScopedJoinHandle<'scope, T> {
    /// Waits for the thread's end and returns its result.
    ///
    /// # Errors
    /// The thread panicked.
    #[track_caller]
    pub fn join(self) -> Result<T> {
        match self.handle {
            Handle::Std(handle) => handle.join(),
            Handle::Agent { agent, packet } => join_agent(agent, &packet, Site::caller()),
        }
    }

    /// Returns the handle of the thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread that may borrow what lives longer than the scope.
    ///
    /// # Panics
    /// The system has no thread left.
    #[track_caller]
    pub fn spawn<T: Send + 'scope>(
        &self,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        Builder::new().spawn_scoped(self, body).expect("the system has no thread left")
    }
}

/// Calls `body` with a scope whose threads may borrow. Returns when all of them have ended.
#[track_caller]
pub fn scope<'env, T>(body: impl for<'scope> FnOnce(&Scope<'scope, 'env>) -> T) -> T {
    match machine() {
        None => std::thread::scope(|scope| body(&Scope(ScopeKind::Std(scope)))),
        Some(_) => {
            let site = Site::caller();
            fiber_scope::scope(site, report_panic, |scope| body(&Scope(ScopeKind::Agents(scope))))
        }
    }
}

/// Lets other threads run. In an explored program the caller runs again when another thread has
/// changed memory, so a loop that polls yields once per turn and is finite.
#[track_caller]
pub fn yield_now() {
    let Some(platform) = machine() else { return std::thread::yield_now() };
    let site = Site::caller();
    if platform.kind() != PlatformKind::Explored {
        let _woken = platform.sleep_until(platform.now().after(POLL_NS));
        return;
    }
    let poll = || world::poll("a change of memory, which it polls");
    if step(&platform, "a thread", site, poll) == WaitEnd::Stopped {
        end_agent();
    }
}

/// Sleeps: on the clock of the machine in one, where time is virtual.
#[track_caller]
pub fn sleep(duration: Duration) {
    let Some(platform) = machine() else { return std::thread::sleep(duration) };
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2);
    let deadline = platform.now().after(ns);
    let sleep = || platform.sleep_until(deadline);
    if step(&platform, "a thread", Site::caller(), sleep) == WaitEnd::Stopped {
        end_agent();
    }
}

/// Returns the name of the calling thread, for reports; empty if it has none.
pub fn name() -> String {
    match machine() {
        Some(_) => agent::name(),
        None => std::thread::current().name().unwrap_or_default().to_owned(),
    }
}

opaque!("JoinHandle", JoinHandle<T>, T);
opaque!("ScopedJoinHandle", ScopedJoinHandle<'_, T>, T);
opaque!("Scope", Scope<'_, '_>);
