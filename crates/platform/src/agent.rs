//! Services: agents that take turns. An [`Agent`] runs in bounded turns (an engine: one packet).
//! The agents of a service share a thread or a fiber and park together.
//!
//! Order when a service parks (see [`WakeWord`]): 1. the agents give back what they keep between
//! turns; 2. announce the sleep; 3. one more turn of each agent; 4. sleep.

use crate::event::Event;
use crate::memory::Word;
use crate::platform::{Platform, PlatformKind, Rests};
use crate::sync::WakeWord;
use crate::wait_order::{ClassId, WaitClass};
use crate::waits;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tidegate_machines::host::SLEEP_SLACK_NS;
use tidegate_machines::world::Role;
use tidegate_machines::{CpuTime, Deadline, Step, fiber, host, world};

/// The result of an agent's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The agent did something and may have more to do.
    Again,
    /// The agent has nothing to do.
    Park,
    /// The agent has nothing to do before this time.
    Until(CpuTime),
    /// As `Until`, for background work: the service sleeps until then and does not spin. A machine
    /// in which no other agent can move counts as stalled and does not wait for it. In virtual time
    /// it waits for two expirations first, once for each stall: what the machine did without a
    /// deadline may have to be noticed.
    Background(CpuTime),
}

/// An agent that runs in bounded turns.
pub trait Agent: Send {
    /// Handles one packet, one interrupt, or one decision. Must not block for long.
    fn turn(&mut self) -> Turn;

    /// Gives back what the agent keeps from turn to turn, because the service is about to park or
    /// to end. The turn in which an agent begins to keep something is one that returns
    /// [`Turn::Again`].
    fn give_back(&mut self) {}

    /// Returns the class of waits that the turns of this agent end.
    fn ends(&self) -> Option<&'static WaitClass> {
        None
    }
}

/// A service: it runs, rests between two runs, or has ended.
#[derive(Clone)]
pub struct ServiceHandle(Arc<Service>);

struct Service {
    name: String,
    wake: WakeWord,
    stop: Word,
    /// Set while it does not run.
    done: Event,
    /// The class of waits for its end.
    end: ClassId,
    /// Its agents while it rests.
    resting: Mutex<Option<Vec<Box<dyn Agent>>>>,
}

impl Service {
    /// Locked for a moment, and never over a call of an agent.
    fn resting(&self) -> MutexGuard<'_, Option<Vec<Box<dyn Agent>>>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rests for Service {
    fn restart(self: Arc<Self>) {
        let agents = self.resting().take();
        // One that was stopped meanwhile ends here.
        if let Some(agents) = agents.filter(|_| self.stop.load() == 0) {
            self.done.reset();
            start(&self.stop.platform().clone(), &ServiceHandle(self), agents);
        }
    }
}

impl ServiceHandle {
    /// Stops the service after its current turn and waits until it has ended.
    pub fn stop(&self) {
        let Service { wake, stop, done, end, .. } = &*self.0;
        waits::wait_for_service(stop.platform(), *end);
        stop.store(1);
        if let Some(agents) = self.0.resting().take() {
            drop(agents);
            return;
        }
        let platform = stop.platform();
        // Outside a run no agent moves. A cooperative service ends when it is next picked, or has
        // ended with its run.
        if platform.is_cooperative() && !fiber::on_fiber() {
            return;
        }
        wake.ring(Step::ThreadWake);
        done.wait();
    }
}

/// How long a host service polls for work before it parks, in nanoseconds. Polling costs CPU time
/// while idle, and saves two system calls and a wake-up of about 10 µs for the next ring.
const SPIN_NS: u64 = 20_000;

/// Polls between two readings of the clock by a service without a deadline. A reading costs more
/// than a poll.
const POLLS_PER_CLOCK: u32 = 16;

impl Platform {
    /// Starts a service: agents that take turns on one thread (or fiber) and park on `wake` when
    /// all are idle.
    pub fn spawn_service(
        &self,
        name: impl Into<String>,
        wake: WakeWord,
        agents: Vec<Box<dyn Agent>>,
    ) -> ServiceHandle {
        let name = name.into();
        let handle = ServiceHandle(Arc::new(Service {
            end: waits::class_of_service(self, &name),
            name,
            wake,
            stop: self.page(1).word(0).named("the stop of a service"),
            done: self.event(true),
            resting: Mutex::new(None),
        }));
        self.inner.services.add(Arc::downgrade(&handle.0) as Weak<dyn Rests>);
        start(self, &handle, agents);
        handle
    }
}

fn start(platform: &Platform, handle: &ServiceHandle, agents: Vec<Box<dyn Agent>>) {
    let (own, served) = (handle.clone(), platform.clone());
    let body = Box::new(move || {
        let service = &own.0;
        let ends = agents.iter().filter_map(|agent| agent.ends());
        let _owed = waits::begin_service(&served, service.end, ends);
        let agents = serve(&served, service, agents);
        // Read first: under exploration the word is a step, and no run of a scenario rests.
        if served.rests() && service.stop.load() == 0 {
            *service.resting() = Some(agents);
        } else {
            drop(agents);
        }
        service.done.set(Step::ThreadWake);
    });
    let name = handle.0.name.clone();
    match platform.kind() {
        PlatformKind::Host => host::spawn_service(platform, name, body),
        _ => {
            world::spawn(name, Role::Service, body);
        }
    }
}

/// Returns the agents when the service is stopped, or the run ends.
fn serve(
    platform: &Platform,
    handle: &Service,
    mut agents: Vec<Box<dyn Agent>>,
) -> Vec<Box<dyn Agent>> {
    let ended = || handle.stop.load() != 0 || platform.is_stopped();
    let is_host = platform.kind() == PlatformKind::Host;
    let (mut spin_until, mut polls) = (None, 0u32);
    while !ended() {
        let Pass::Idle(deadline) = one_pass(&mut agents) else {
            spin_until = None;
            continue;
        };
        if is_host {
            polls = polls.wrapping_add(1);
            if deadline.is_none() && !polls.is_multiple_of(POLLS_PER_CLOCK) {
                std::hint::spin_loop();
                continue;
            }
            let now = platform.now();
            let until = *spin_until.get_or_insert(now.after(SPIN_NS));
            let is_near = deadline.is_some_and(|d| d.is_within(SLEEP_SLACK_NS, now));
            let is_background = deadline.is_some_and(|d| d.in_background);
            if is_near || now < until && !is_background {
                std::hint::spin_loop();
                continue;
            }
        }
        agents.iter_mut().for_each(|agent| agent.give_back());
        handle.wake.announce_sleep();
        match one_pass(&mut agents) {
            Pass::Busy => handle.wake.retract(),
            Pass::Idle(_) if ended() => break,
            Pass::Idle(deadline) => {
                let slack_ns = if is_host { SLEEP_SLACK_NS } else { 0 };
                handle.wake.sleep_for(deadline.map(|d| d.before(slack_ns)));
            }
        }
        spin_until = None;
    }
    agents.iter_mut().for_each(|agent| agent.give_back());
    agents
}

enum Pass {
    Busy,
    Idle(Option<Deadline>),
}

fn one_pass(agents: &mut [Box<dyn Agent>]) -> Pass {
    let mut busy = false;
    let mut deadline: Option<Deadline> = None;
    let mut no_later_than =
        |next: Deadline| deadline = Some(deadline.map_or(next, |d| d.and(next)));
    for agent in agents {
        match agent.turn() {
            Turn::Again => busy = true,
            Turn::Park => {}
            Turn::Until(time) => no_later_than(Deadline::at(time)),
            Turn::Background(time) => no_later_than(Deadline::background(time)),
        }
    }
    if busy { Pass::Busy } else { Pass::Idle(deadline) }
}
