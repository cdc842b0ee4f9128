//! The seam: every shared access, lock, wait, agent and clock reading of tidegate goes through a
//! [`Platform`] value.
//!
//! The platform is chosen when a machine is built, not when it is compiled, so the code that users
//! run is the code that the explorer explores:
//!
//! | platform | memory | agents | clock |
//! |---|---|---|---|
//! | [`Platform::host`], [`Platform::closed_host`] | real atomics | threads that park | wall |
//! | [`Platform::virtual_time`] | the same | fibers on one thread, in order of time | virtual, with step costs |
//! | [`Platform::explored`] | words behind store buffers | fibers, a [`Controller`] chooses the next | virtual |
//!
//! Files, each layer over the next:
//!
//! - [`Platform`], [`agent`] (turns and services), `tracing`, `instruments`, `window` (onto bytes
//!   that move)
//! - [`wait_order`] (what may wait for what), `foreign` (calls of wakers and callbacks of the
//!   application)
//! - [`event`] (Event and its descriptor), [`sync`] (Mutex, WakeWord), `passage` (a gate in the
//!   lock order), [`mapping`] (a window that can be rotated)
//! - [`memory`] (Word, Page, Bulk, physical addresses)
//! - `host` and `world`: the two ways to run agents; `spin`: polling before a sleep
//! - [`check`] (types like those of std, for programs to explore), `running`
//! - `cells` (the storage of pages and bulk bytes), `fiber`, `os`, [`stacks`]: the rooms with
//!   `unsafe`
//! - [`current`], `here`, [`controller`] (what an explorer decides), `access`, `steps`, [`time`],
//!   `wait`: plain types
//!
//! It knows nothing about graphics.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod access;
pub mod agent;
mod cells;
pub mod check;
pub mod controller;
mod counters;
pub mod current;
pub mod event;
pub mod fiber;
mod fiber_scope;
mod findings;
mod foreign;
mod hazards;
mod here;
mod host;
mod instruments;
pub mod level;
pub mod mapping;
pub mod memory;
pub mod once;
pub mod os;
mod own_recorder;
mod passage;
mod planted;
mod run_report;
mod running;
mod site;
mod spin;
pub mod stacks;
mod steps;
pub mod sync;
pub mod time;
mod tracing;
mod wait;
pub mod wait_order;
mod window;
mod world;

pub use access::ClientAccess;
pub use agent::{Agent, ServiceHandle, Turn};
pub use cells::{LineWords, Lines};
pub use controller::{
    AgentIx, Agents, Choice, Controller, MemoryModel, Object, OpKind, Point, WaitsFor,
};
pub use counters::Counters;
pub use event::{DescriptorError, Event, EventFd, EventId};
pub use instruments::Instruments;
pub use mapping::Mapping;
pub use memory::{
    Bulk, CacheType, FoundRegion, OutOfBounds, Page, PageKind, PhysicalAddress, PhysicalMemory,
    SharedFile, Target, Untrusted, Word,
};
pub use passage::Passage;
pub use planted::PlantedFault;
pub use run_report::{RunReport, note_panic_place};
pub use site::Site;
pub use steps::{Happened, StepEvent, StepLog};
pub use sync::{Mutex, MutexGuard, WakeWord};
pub use tidegate_hazard as hazard;
pub use tidegate_trace::{Part, QueueNumber, Queued, SubmissionKey, WorkStats};
pub use time::{CpuTime, Step, StepCosts};
pub use tracing::{Recording, TracedFence, TracedLane};
pub use wait::WaitEnd;
pub use wait_order::{Owed, WaitClass};
pub use window::BulkWindow;
pub use world::EnteredCall;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use tidegate_trace::ClockName;

/// The kind of a [`Platform`]'s back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlatformKind {
    /// Threads, real atomics, wall clock.
    Host,
    /// One thread, fibers in order of virtual time.
    Virtual,
    /// One thread, fibers in the order that a [`Controller`] chooses, stores behind store buffers.
    Explored,
}

/// A machine: memory, agents, clock. Cheap to clone; every part of a machine holds one.
#[derive(Clone)]
pub struct Platform {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) kind: PlatformKind,
    /// The host's threads; `None` for a cooperative machine.
    host: Option<host::Host>,
    pub(crate) tracing: tracing::Tracing,
    hazards: hazards::Hazards,
    pub(crate) switches: instruments::Switches,
    pub(crate) world: Option<here::WorldId>,
    lock_order: OnceLock<&'static [&'static str]>,
    waits: wait_order::Graph,
    /// The planted fault.
    fault: OnceLock<PlantedFault>,
    pub(crate) services: agent::Services,
}

impl Platform {
    /// Returns a platform of threads, real atomics and the wall clock.
    ///
    /// Threads of the application may call in and wait as agents do. No standstill is detected:
    /// a wait returns [`WaitEnd::Stopped`] only on a stop, because an unknown thread may still
    /// end it.
    pub fn host() -> Platform {
        Platform::new(PlatformKind::Host, None, Some(host::Host::new(false)))
    }

    /// Returns a platform as [`Platform::host`] does, for programs that start every thread with
    /// [`Platform::spawn`] or [`Platform::spawn_service`].
    ///
    /// If no agent can move, [`Platform::run`] ends after a second and names the blocked agents, as
    /// on the cooperative platforms. Other threads are not considered: a wait that one of them
    /// would end may return [`WaitEnd::Stopped`].
    pub fn closed_host() -> Platform {
        Platform::new(PlatformKind::Host, None, Some(host::Host::new(true)))
    }

    /// Returns a platform as [`Platform::host`] does whose memory for processes lies in files that
    /// other processes can map ([`Platform::client_page`]).
    pub fn sharing_host() -> Platform {
        Platform::new(PlatformKind::Host, None, Some(host::Host::sharing()))
    }

    /// Returns a platform of fibers on the calling thread, in order of virtual time.
    /// [`Platform::spend`] charges `costs`. The machine is bound to its thread.
    ///
    /// # Panics
    ///
    /// The thread already has a cooperative machine. A call from another thread panics there,
    /// without effect.
    pub fn virtual_time(costs: StepCosts) -> Platform {
        Platform::cooperative(PlatformKind::Virtual, world::World::open_virtual(costs))
    }

    /// Returns a platform of fibers on the calling thread, in the order chosen by
    /// `controller`, with store buffers as in `model`. The machine is bound to its thread, as
    /// with [`Platform::virtual_time`].
    pub fn explored(controller: Box<dyn Controller>, model: MemoryModel) -> Platform {
        Platform::cooperative(
            PlatformKind::Explored,
            world::World::open_explored(controller, model),
        )
    }

    fn cooperative(kind: PlatformKind, world: here::WorldId) -> Platform {
        Platform::new(kind, Some(world), None)
    }

    fn new(kind: PlatformKind, world: Option<here::WorldId>, host: Option<host::Host>) -> Platform {
        let clock = match kind {
            PlatformKind::Host => ClockName::Wall,
            PlatformKind::Virtual => ClockName::Virtual,
            PlatformKind::Explored => ClockName::Steps,
        };
        Platform {
            inner: Arc::new(Inner {
                kind,
                host,
                hazards: hazards::Hazards::default(),
                switches: instruments::Switches::new(kind == PlatformKind::Virtual),
                tracing: tracing::Tracing::new(clock),
                world,
                lock_order: OnceLock::new(),
                waits: wait_order::Graph::new(kind),
                fault: OnceLock::new(),
                services: agent::Services::default(),
            }),
        }
    }

    #[inline]
    pub(crate) fn host_threads(&self) -> &host::Host {
        self.inner.host.as_ref().expect("only a host platform has threads")
    }

    /// Starts to look for data races on the cells of [`check::cell`]. Effective on an explored
    /// platform, before its run.
    pub fn detect_races(&self) {
        if self.kind() == PlatformKind::Explored {
            world::detect_races();
        }
    }

    /// Runs `act`, a part of the calling agent's program that is not explored: the agent moves
    /// while it can, and other agents move in a fixed order. For set-up and teardown.
    pub fn unexplored<R>(&self, act: impl FnOnce() -> R) -> R {
        struct Ends;
        impl Drop for Ends {
            fn drop(&mut self) {
                world::unexplored(false);
            }
        }
        if self.kind() != PlatformKind::Explored {
            return act();
        }
        world::unexplored(true);
        let _ends = Ends;
        act()
    }

    /// Declares that the calling agent has reached `position`: what it does from here on depends on
    /// `position` and on shared memory alone. Under exploration, runs that reach the position with
    /// the same memory are then in the same state, whatever the agent has observed before. No
    /// effect elsewhere.
    ///
    /// A check of the run may read notes that the agent took before only to see that each of them
    /// was taken in some run (decisions/0002).
    ///
    /// # Panics
    ///
    /// `position` is not above the agent's last one, or 0. States would form a circle.
    pub fn forget_history(&self, position: u32) {
        if self.kind() == PlatformKind::Explored {
            world::forget_history(position);
        }
    }

    /// Makes `call`, the calling function, the place of the agent's steps until the result is
    /// dropped. Reports of explored machines then name the line from which it was called. A call
    /// inside of another one is part of that. No effect elsewhere.
    #[track_caller]
    #[inline]
    pub fn enter_call(&self, call: &'static str) -> EnteredCall {
        let is_explored = self.inner.kind == PlatformKind::Explored;
        EnteredCall(is_explored && world::enter_call(Site::of_call(call)))
    }

    /// Returns the kind of back end.
    pub fn kind(&self) -> PlatformKind {
        self.inner.kind
    }

    /// Returns whether agents are fibers of one thread (virtual and explored).
    pub fn is_cooperative(&self) -> bool {
        self.inner.kind != PlatformKind::Host
    }

    /// Returns CPU time, in nanoseconds since this platform was created.
    #[inline]
    pub fn now(&self) -> CpuTime {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().now(),
            _ => world::now(),
        }
    }

    /// Returns the time for a timeline: the clock, or under exploration, where the clock does not
    /// advance, the number of events in the log of steps ([`Platform::take_steps`]). Without
    /// tracing that is the number of visible steps.
    pub fn stamp_ns(&self) -> u64 {
        match self.inner.kind {
            PlatformKind::Explored => world::steps(),
            _ => self.now().0,
        }
    }

    /// Returns the clock and [`Platform::stamp_ns`], reading the clock once if they are the same.
    pub fn now_and_stamp(&self) -> (CpuTime, u64) {
        let now = self.now();
        match self.inner.kind {
            PlatformKind::Explored => (now, world::steps()),
            _ => (now, now.0),
        }
    }

    /// Returns whether work takes modelled time, which [`Platform::spend`] charges to the agent
    /// that does it. Work for another agent then needs its own agent.
    pub fn models_time(&self) -> bool {
        self.inner.kind == PlatformKind::Virtual
    }

    /// Charges the modelled cost of one step to the calling agent. No effect on the host, where
    /// the step itself takes time, and under exploration, where time passes only when no other
    /// event is possible.
    #[inline]
    pub fn spend(&self, step: Step) {
        if self.inner.kind == PlatformKind::Virtual {
            world::spend_step(step);
        }
    }

    /// Charges `ns` of modelled work to the calling agent, as [`Platform::spend`] does for a step.
    pub fn spend_ns(&self, ns: u64) {
        if ns > 0 && self.inner.kind == PlatformKind::Virtual {
            world::spend_ns(ns);
        }
    }

    /// Keeps the calling agent busy for `ns` nanoseconds: real time on the host (mostly sleeping,
    /// then spinning), modelled time elsewhere.
    pub fn busy(&self, ns: u64) {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().busy(ns),
            PlatformKind::Virtual => world::spend_ns(ns),
            PlatformKind::Explored => {}
        }
    }

    /// Blocks the calling agent until `deadline`. Returns [`WaitEnd::Stopped`] early when the
    /// machine stops.
    pub fn sleep_until(&self, deadline: CpuTime) -> WaitEnd {
        level::assert_may_block("a deadline");
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().sleep_until(deadline),
            _ => world::sleep_until(deadline),
        }
    }

    /// Blocks as [`Platform::sleep_until`] does, and wakes on time: where the system's sleep is
    /// coarse, the last part is spun.
    pub fn sleep_precisely_until(&self, deadline: CpuTime) -> WaitEnd {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().sleep_precisely_until(deadline),
            _ => world::sleep_until(deadline),
        }
    }

    // spec: NF-055
    /// Executes a full (sequentially consistent) memory barrier: every store of this agent is
    /// visible before its next load.
    #[inline]
    pub fn fence(&self) {
        if self.inner.kind == PlatformKind::Explored {
            world::fence();
        } else {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        }
    }

    /// Creates a page of `words` protocol words, all zero.
    pub fn page(&self, words: usize) -> Page {
        Page::new(self, words)
    }

    /// Creates a zeroed run of bulk bytes.
    pub fn bulk(&self, bytes: usize) -> Bulk {
        Bulk::new(self, bytes)
    }

    /// Sets the lock order, outermost first, once, before any lock is created. In debug builds an
    /// agent that takes a lock of the list while it holds the same or a later one panics with both
    /// names. Locks that are not in the list are not ordered.
    pub fn set_lock_order(&self, order: &'static [&'static str]) {
        let _first = self.inner.lock_order.set(order);
    }

    fn lock_rank(&self, name: &str) -> Option<u32> {
        let order = self.inner.lock_order.get().filter(|_| cfg!(debug_assertions))?;
        order.iter().position(|other| *other == name).map(|at| at as u32)
    }

    /// Creates a mutex. The name appears in panics and reports.
    pub fn mutex<T>(&self, name: &'static str, value: T) -> Mutex<T> {
        Mutex::new(self, name, value)
    }

    /// Creates the place of a gate in the lock order.
    pub fn passage(&self, name: &'static str) -> Passage {
        Passage::new(self, name)
    }

    /// Creates an event. A manual-reset event stays set until reset; any other releases one waiter
    /// per set.
    pub fn event(&self, manual_reset: bool) -> Event {
        Event::new(self, manual_reset)
    }

    /// Starts a straight-line agent (an application thread). It blocks in calls, and ends when
    /// it returns.
    pub fn spawn(
        &self,
        name: impl Into<Cow<'static, str>>,
        body: impl FnOnce() + Send + 'static,
    ) -> AgentHandle {
        let name = name.into();
        let (platform, started) = (self.clone(), self.hand_over());
        let ended = Arc::new(OnceLock::new());
        let set_ended = Arc::clone(&ended);
        let body = move || {
            platform.take_over(&started);
            body();
            let _ = set_ended.set(platform.end_agent());
        };
        let handle = |end| AgentHandle { end, platform: self.clone(), ended };
        if self.is_cooperative() {
            return handle(End::Fiber(world::spawn(name, world::Role::Script, Box::new(body))));
        }
        let done = self.event(true);
        let signal_done = done.clone();
        let body = move || {
            let _done = SetAtEnd(signal_done);
            body();
        };
        host::spawn(self, name.into_owned(), Box::new(body));
        handle(End::Thread(done))
    }

    /// Starts a straight-line agent that a run does not wait for, such as a driver's thread. It
    /// ends when it returns. At the end of the run it is released like every blocked agent.
    pub fn spawn_worker(&self, name: impl Into<String>, body: impl FnOnce() + Send + 'static) {
        let (name, body) = (name.into(), Box::new(body));
        match self.inner.kind {
            PlatformKind::Host => host::spawn(self, name, body),
            _ => {
                world::spawn(name, world::Role::Worker, body);
            }
        }
    }

    /// Starts a thread that no run waits for: for work that waits outside of the platform, such as
    /// for a socket. It may call in as any thread of an application may. On a cooperative platform
    /// it is an agent that is released at the end of the run.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn spawn_outside(
        &self,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        match self.inner.kind {
            PlatformKind::Host => {
                std::thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
            }
            _ => {
                world::spawn(name.to_owned(), world::Role::Worker, Box::new(body));
                Ok(())
            }
        }
    }

    /// Returns the system's monotonic clock when the platform's clock was 0, in nanoseconds; 0 on a
    /// cooperative platform, whose agents have one clock.
    pub fn clock_origin_ns(&self) -> u64 {
        self.inner.host.as_ref().map_or(0, host::Host::start_ns)
    }

    /// Starts a straight-line agent that does work of the machine itself, and ends without help of
    /// the application. Every run waits for it, also on the host where it rests.
    pub fn spawn_task(&self, name: impl Into<String>, body: impl FnOnce() + Send + 'static) {
        let (name, body) = (name.into(), Box::new(body));
        match self.inner.kind {
            PlatformKind::Host => host::spawn_task(self, name, body),
            _ => {
                world::spawn(name, world::Role::Script, body);
            }
        }
    }

    /// Starts a service: agents that take turns on one thread (or fiber) and park on `wake` when
    /// all are idle.
    pub fn spawn_service(
        &self,
        name: impl Into<String>,
        wake: WakeWord,
        agents: Vec<Box<dyn Agent>>,
    ) -> ServiceHandle {
        agent::spawn_service(self, name.into(), wake, agents)
    }

    /// Runs `main` as the first agent. On the host it runs on the calling thread. On the others
    /// this call drives all agents until every straight-line agent has returned, or none can move.
    ///
    /// If none can move, [`RunReport::blocked`] names the blocked agents and what each waits for.
    /// They are then released with [`WaitEnd::Stopped`] so that their calls return.
    /// [`Platform::host`] never does this, because an unknown thread may still act. There, all
    /// waits on the platform end when `main` returns, even those of other threads.
    pub fn run(&self, main: impl FnOnce() + Send + 'static) -> RunReport {
        let (platform, started) = (self.clone(), self.hand_over());
        let main = move || {
            platform.take_over(&started);
            main();
            platform.end_agent();
        };
        let mut report = match self.inner.kind {
            PlatformKind::Host => self.host_threads().run(self, main),
            _ => world::run(self, Box::new(main)),
        };
        self.take_over_ended();
        report.wait_circles = self.wait_circles().into();
        report
    }

    /// Runs `main` as [`Platform::run`] does. `main` may borrow from the caller, because it has
    /// ended when this call returns. Services rest at the end of the run with all that they know.
    /// The next call continues with them, and with the clock, where this one ended.
    ///
    /// Between two calls the platform is stopped. [`Platform::host`] goes on instead: other threads
    /// may act on it at any time.
    ///
    /// A service rests until it is stopped, so the owner of a [`ServiceHandle`] stops it.
    ///
    /// # Panics
    /// Aborts the process when `main` is blocked for ever by a [`Mutex`] in virtual time.
    pub fn run_scoped(&self, main: impl FnOnce()) -> RunReport {
        self.resume();
        let services = &self.inner.services;
        services.set_rest(true);
        let started = self.hand_over();
        let main = || {
            self.take_over(&started);
            main();
            self.end_agent();
        };
        let mut report = match &self.inner.host {
            Some(host) => host.run(self, main),
            None => fiber::lend(Box::new(main), |main| world::run(self, main)),
        };
        self.take_over_ended();
        services.set_rest(false);
        report.wait_circles = self.wait_circles().into();
        if self.inner.host.as_ref().is_some_and(host::Host::is_open) {
            self.resume();
        }
        report
    }

    /// Returns whether services rest at the end of the run that is under way.
    pub(crate) fn rests(&self) -> bool {
        self.inner.services.rest()
    }

    /// Lets agents block, and starts the services that rest.
    fn resume(&self) {
        match &self.inner.host {
            Some(host) => host.resume(),
            None => world::resume(),
        }
        agent::restart_services(self);
    }

    /// Lets the services of a cooperative platform that never ran rest, so that their owners can
    /// stop them. No effect elsewhere, inside an agent, and after a run.
    pub fn rest_unless_run(&self) {
        if self.is_cooperative() && !fiber::on_fiber() && !self.is_stopped() {
            self.run_scoped(|| ());
        }
    }

    /// Releases every blocked agent, and every later blocking call, with [`WaitEnd::Stopped`].
    pub fn stop(&self) {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().stop(),
            _ => world::stop(),
        }
    }

    /// Returns whether [`Platform::stop`] was called, or a cooperative run ended.
    pub fn is_stopped(&self) -> bool {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().is_stopped(),
            _ => world::is_stopped(),
        }
    }

    /// Returns what each blocked agent waits for, as (agent, reason). Empty while an agent can
    /// move, and always on [`Platform::host`].
    pub fn blocked_agents(&self) -> Vec<(String, String)> {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().blocked_agents(),
            _ => world::blocked_agents(),
        }
    }

    /// Returns the number of system calls made so far to put threads to sleep and to wake them
    /// (host), or of their modelled equivalents.
    pub fn parking_counts(&self) -> ParkingCounts {
        self.inner.host.as_ref().map_or_else(ParkingCounts::default, host::Host::parking_counts)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(id) = self.world {
            world::close(id);
        }
    }
}

/// Counts of thread sleeps and wakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkingCounts {
    /// Times an agent went to sleep in a wait, except for background work.
    pub sleeps: u64,
    /// Wake calls made.
    pub wakes: u64,
}

/// A started straight-line agent.
pub struct AgentHandle {
    end: End,
    platform: Platform,
    /// What the agent had done when it ended, for the hazard check.
    ended: Arc<OnceLock<hazards::Handover>>,
}

enum End {
    Thread(Event),
    Fiber(AgentIx),
}

/// An event that is set when this is dropped, also by a panic.
struct SetAtEnd(Event);

impl Drop for SetAtEnd {
    fn drop(&mut self) {
        self.0.set(Step::ThreadWake);
    }
}

impl AgentHandle {
    /// Blocks until the agent has returned or panicked, or the machine is stopped.
    pub fn join(&self) -> WaitEnd {
        let end = match &self.end {
            End::Thread(done) => done.wait(),
            End::Fiber(agent) => world::join(*agent),
        };
        if let Some(ended) = self.ended.get() {
            self.platform.take_over(ended);
        }
        end
    }
}
