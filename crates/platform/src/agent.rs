//! Services: agents that take turns. An [`Agent`] runs in bounded turns (an engine: one packet).
//! The agents of a service share a thread or a fiber and park together.
//!
//! Order when a service parks (see [`WakeWord`]): 1. the agents give back what they keep between
//! turns; 2. announce the sleep; 3. one more turn of each agent; 4. sleep.

use crate::host::SLEEP_SLACK_NS;
use crate::wait::Deadline;
use crate::wait_order::{self, ClassId, WaitClass};
use crate::world::Role;
use crate::{CpuTime, Event, Platform, PlatformKind, Step, WakeWord, fiber, host, world};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The result of an agent's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The agent did something and may have more to do.
    Again,
    /// The agent has nothing to do.
    Park,
    /// The agent has nothing to do before this time.
    Until(CpuTime),
    /// As `Until`, for background work: a machine in which no other agent can move counts as
    /// stalled and does not wait for it. In virtual time it waits for two expirations first, once
    /// for each stall: what the machine did without a deadline may have to be noticed.
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
    stop: crate::Word,
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

/// The services that a platform starts again after a rest.
#[derive(Default)]
pub(crate) struct Services {
    started: Mutex<Vec<Weak<Service>>>,
    /// Whether services rest at the end of the run that is under way.
    rest: AtomicBool,
}

impl Services {
    fn started(&self) -> MutexGuard<'_, Vec<Weak<Service>>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_rest(&self, rest: bool) {
        self.rest.store(rest, Ordering::Release);
    }

    pub(crate) fn rest(&self) -> bool {
        self.rest.load(Ordering::Acquire)
    }
}

/// Starts the services of `platform` that rest.
pub(crate) fn restart_services(platform: &Platform) {
    let known: Vec<_> = {
        let mut started = platform.inner.services.started();
        started.retain(|service| service.strong_count() > 0);
        started.iter().filter_map(Weak::upgrade).collect()
    };
    for service in known {
        let agents = service.resting().take();
        // One that was stopped meanwhile ends here.
        if let Some(agents) = agents.filter(|_| service.stop.load() == 0) {
            service.done.reset();
            start(platform, &ServiceHandle(service), agents);
        }
    }
}

impl ServiceHandle {
    /// Stops the service after its current turn and waits until it has ended.
    pub fn stop(&self) {
        let Service { wake, stop, done, end, .. } = &*self.0;
        wait_order::wait_for_service(stop.platform(), *end);
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

pub(crate) fn spawn_service(
    platform: &Platform,
    name: String,
    wake: WakeWord,
    agents: Vec<Box<dyn Agent>>,
) -> ServiceHandle {
    let handle = ServiceHandle(Arc::new(Service {
        end: wait_order::class_of_service(platform, &name),
        name,
        wake,
        stop: platform.page(1).word(0).named("the stop of a service"),
        done: platform.event(true),
        resting: Mutex::new(None),
    }));
    platform.inner.services.started().push(Arc::downgrade(&handle.0));
    start(platform, &handle, agents);
    handle
}

fn start(platform: &Platform, handle: &ServiceHandle, agents: Vec<Box<dyn Agent>>) {
    let (own, served) = (handle.clone(), platform.clone());
    let body = Box::new(move || {
        let service = &own.0;
        let ends = agents.iter().filter_map(|agent| agent.ends());
        let _owed = wait_order::begin_service(&served, service.end, ends);
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
            let is_near = deadline.is_some_and(|d| d.is_within(SLEEP_SLACK_NS, now));
            if is_near || now < *spin_until.get_or_insert(now.after(SPIN_NS)) {
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
