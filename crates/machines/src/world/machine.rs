//! A cooperative machine, one per thread: its agents, its clock, and the sleeps. Nothing is
//! borrowed from it across a switch of fibers.

use super::exploration::Explored;
use super::hash::Map;
use super::run_queue::RunQueue;
use super::slot::{Sleepers, Slot, State, Wait, join_key};
use crate::explorer::{AgentIx, Controller, MemoryModel};
use crate::fiber;
use crate::run_report::RunReport;
use crate::thread::{self, WorldId, check_step};
use crate::time::{Step, StepCosts};
use crate::wait::{Deadline, WaitEnd};
use std::cell::Cell;
use std::mem::ManuallyDrop;

pub(super) enum Discipline {
    Virtual(RunQueue),
    Explored(Explored),
}

/// A cooperative machine.
pub struct World {
    id: WorldId,
    pub(super) discipline: Discipline,
    pub(super) now: u64,
    pub(super) steps: u64,
    pub(super) agents: Vec<Slot>,
    pub(super) scripts_live: usize,
    pub(super) current: Option<AgentIx>,
    pub(super) sleepers: Map<usize, Sleepers>,
    /// The number of keys on which more than one agent sleeps.
    pub(super) crowded_words: usize,
    pub(super) stopped: bool,
    /// How far the other agents had come at the last stall, and the expirations that are left.
    pub(super) stall: (u64, u32),
    pub(super) is_running: bool,
    /// Whether the run rests at its end.
    pub(super) rests: bool,
    pub(super) report: RunReport,
    /// The run of a program is over. An object that the program leaves behind may keep the platform
    /// alive, but no agent uses it any more.
    pub(super) is_left_behind: bool,
}

thread_local! {
    /// A thread-local without a destructor needs no check at an access. [`close`] removes
    /// the world.
    static WORLD: Cell<ManuallyDrop<Option<Box<World>>>> =
        const { Cell::new(ManuallyDrop::new(None)) };
    /// An emptied world for reuse: explorers create a million per second.
    static SPARE: Cell<Option<Box<World>>> = const { Cell::new(None) };
    /// 0, except outside of the run of the thread's explored machine: then 1 more than the number
    /// of changes of memory since the last run.
    static OUTSIDE: Cell<u64> = const { Cell::new(0) };
    /// The number of agents that wait for a lock, by [`waiter_place`] of the lock. Each end of a
    /// lock reads one of them.
    static LOCK_WAITERS: [Cell<u32>; WAITER_PLACES] = const { [const { Cell::new(0) }; WAITER_PLACES] };
}

/// Locks share the count of their waiters with few others, so most ends of a lock wake nothing.
const WAITER_PLACES: usize = 64;

/// Returns the place in [`LOCK_WAITERS`] of the lock with this address.
#[inline]
fn waiter_place(key: usize) -> usize {
    // Locks lie at least this far apart.
    key / 16 % WAITER_PLACES
}

/// Returns the calling agent's number, never 0.
#[inline]
pub fn agent_number() -> u64 {
    thread::agent_number().expect(ELSEWHERE).get()
}

/// Returns whether the thread's explored machine is built or ends. While clocks are kept the answer
/// is no.
#[inline]
pub(super) fn is_outside() -> bool {
    OUTSIDE.get() != 0
}

/// Returns [`is_outside`], and then counts a change of memory by the caller.
#[inline]
pub(super) fn changes_outside() -> bool {
    let count = OUTSIDE.get();
    if count == 0 {
        return false;
    }
    OUTSIDE.set(count + 1);
    true
}

/// Waits until the lock at `key` is dropped. Its owner's time has passed while holding it.
pub fn wait_for_lock(key: usize, name: &'static str) {
    let place = waiter_place(key);
    LOCK_WAITERS.with(|waiters| waiters[place].set(waiters[place].get() + 1));
    block(key, None, name);
    LOCK_WAITERS.with(|waiters| waiters[place].set(waiters[place].get() - 1));
}

/// Wakes an agent that waits for the lock at `key`, if there is one.
#[inline]
pub fn lock_dropped(key: usize) {
    if LOCK_WAITERS.with(|waiters| waiters[waiter_place(key)].get()) > 0 {
        with(|w| w.wake(key, 1, 0));
    }
}

/// The world during one access, taken from its place.
struct Taken(ManuallyDrop<Option<Box<World>>>);

impl Drop for Taken {
    #[inline]
    fn drop(&mut self) {
        WORLD.set(std::mem::take(&mut self.0));
    }
}

#[inline]
pub(super) fn with<R>(f: impl FnOnce(&mut World) -> R) -> R {
    let mut taken = Taken(WORLD.take());
    f(taken.0.as_mut().expect(ELSEWHERE))
}

/// The message of a call on a thread on which the machine does not run.
pub const ELSEWHERE: &str = "the machine of this platform runs on another thread: \
    start agents with Platform::spawn, or make the machine on Platform::host";

impl World {
    fn new(id: WorldId, discipline: Discipline) -> World {
        World {
            id,
            discipline,
            now: 0,
            steps: 0,
            agents: Vec::new(),
            scripts_live: 0,
            current: None,
            sleepers: Map::default(),
            crowded_words: 0,
            stopped: false,
            stall: (0, 0),
            is_running: false,
            rests: false,
            report: RunReport::default(),
            is_left_behind: false,
        }
    }

    /// Returns an emptied world with the allocations of the lists of `world`, and its discipline,
    /// which the caller has renewed.
    fn renewed(mut world: Box<World>, id: WorldId) -> Box<World> {
        let World { discipline, mut agents, mut sleepers, .. } = *world;
        agents.clear();
        sleepers.clear();
        *world = World { agents, sleepers, ..World::new(id, discipline) };
        world
    }

    fn open(mut world: Box<World>) -> WorldId {
        let id = world.id;
        let mut taken = Taken(WORLD.take());
        let left_behind = taken.0.take_if(|world| world.is_left_behind);
        drop(left_behind);
        assert!(
            taken.0.is_none(),
            "this thread already has a cooperative machine: drop it before making another"
        );
        OUTSIDE.set(0);
        world.note_outside();
        *taken.0 = Some(world);
        thread::open(id);
        id
    }

    /// Makes a machine in virtual time, and puts it on the calling thread.
    pub fn open_virtual(costs: StepCosts) -> WorldId {
        World::open(Box::new(World::new(
            WorldId::next(),
            Discipline::Virtual(RunQueue::new(costs)),
        )))
    }

    /// Makes an explored machine, and puts it on the calling thread.
    pub fn open_explored(controller: Box<dyn Controller>, model: MemoryModel) -> WorldId {
        let id = WorldId::next();
        let mut spare = SPARE.take();
        if let Some(world) = &mut spare
            && let Discipline::Explored(explored) = &mut world.discipline
        {
            explored.renew(controller, model);
            spare = spare.map(|world| World::renewed(world, id));
        } else {
            let discipline = Discipline::Explored(Explored::new(controller, model));
            spare = Some(Box::new(World::new(id, discipline)));
        }
        World::open(spare.expect("it was created above"))
    }

    /// Notes whether the thread is outside of a run, and adopts the changes of memory since the
    /// last run.
    pub(super) fn note_outside(&mut self) {
        let is_outside = !self.is_running && !self.rests;
        let Discipline::Explored(explored) = &mut self.discipline else { return OUTSIDE.set(0) };
        let count = u64::from(is_outside && explored.clocks.is_none());
        explored.changes += OUTSIDE.replace(count).saturating_sub(1);
    }

    /// Begins a run, which `rests` at its end or not.
    pub(super) fn begin_run(&mut self, rests: bool) {
        (self.is_running, self.rests, self.stall) = (true, rests, (0, 0));
        self.note_outside();
    }

    /// Leaves a run that goes on later.
    pub(super) fn pause_run(&mut self) {
        self.is_running = false;
        self.note_outside();
    }

    /// Ends a run.
    pub(super) fn end_run(&mut self) {
        self.is_running = false;
        self.note_outside();
        match &mut self.discipline {
            Discipline::Virtual(v) => v.clear(),
            Discipline::Explored(_) => self.end_exploration(),
        }
    }

    pub(super) fn slot(&mut self, agent: AgentIx) -> &mut Slot {
        &mut self.agents[agent.0 as usize]
    }

    #[inline]
    pub(super) fn set_current(&mut self, agent: Option<AgentIx>) {
        self.current = agent;
        thread::set_agent(agent.map(|a| a.0));
    }

    pub(super) fn make_ready(&mut self, agent: AgentIx, delay_ns: u64) {
        let at = self.now + delay_ns;
        let slot = &mut self.agents[usize::from(agent.0)];
        slot.state = State::Ready;
        if let Discipline::Virtual(v) = &mut self.discipline {
            slot.entry = v.push(at, agent);
        }
    }

    /// Ends the sleep of `agent` with `end`; it runs again after `delay_ns`.
    pub(super) fn end_sleep(&mut self, agent: AgentIx, end: WaitEnd, delay_ns: u64) {
        self.end_wait(agent, end);
        self.make_ready(agent, delay_ns);
    }

    /// Ends the sleep of `agent` with `end`, and leaves it to the caller to run the agent.
    pub(super) fn end_wait(&mut self, agent: AgentIx, end: WaitEnd) {
        if let Some(key) = self.slot(agent).end_wait(end)
            && let Some(list) = self.sleepers.get_mut(&key)
        {
            list.retain(|a| *a != agent);
            self.crowded_words -= usize::from(list.len() == 1);
        }
    }

    /// Wakes the first `count` agents that sleep on `key`.
    pub(super) fn wake(&mut self, key: usize, count: u32, delay_ns: u64) {
        let Some(list) = self.sleepers.get_mut(&key) else { return };
        match list[..] {
            [] => {}
            [agent] if count > 0 => {
                list.clear();
                self.slot(agent).end_wait(WaitEnd::Woken);
                self.make_ready(agent, delay_ns);
            }
            _ => {
                let count = list.len().min(count as usize);
                let no_longer_crowded = list.len() > 1 && list.len() - count <= 1;
                let woken: Sleepers = list.drain(..count).collect();
                self.crowded_words -= usize::from(no_longer_crowded);
                for agent in woken {
                    self.slot(agent).end_wait(WaitEnd::Woken);
                    self.make_ready(agent, delay_ns);
                }
            }
        }
    }

    pub(super) fn stop_all(&mut self) {
        self.stopped = true;
        for index in 0..self.agents.len() {
            if self.agents[index].state == State::Blocked {
                self.end_sleep(AgentIx(index as u16), WaitEnd::Stopped, 0);
            }
        }
    }

    /// Returns whether the run may end as far as services are concerned: one that rests cuts off no
    /// turn.
    pub(super) fn may_stop(&self) -> bool {
        !self.rests || !self.agents.iter().any(Slot::is_in_turn)
    }

    pub(super) fn resume(&mut self) {
        self.stopped = false;
        if let Discipline::Explored(explored) = &mut self.discipline {
            explored.locks_broken = false;
        }
    }

    /// Returns whether the agent has ended and all of its stores are visible.
    pub(super) fn is_over(&self, agent: AgentIx) -> bool {
        let slot = &self.agents[usize::from(agent.0)];
        slot.state == State::Finished && slot.explored.has_drained()
    }

    /// Wakes the agents that wait for the end of `agent`, if it is over.
    pub(super) fn wake_joiners(&mut self, agent: AgentIx) {
        if !self.sleepers.is_empty() && self.is_over(agent) {
            let delay = match &self.discipline {
                Discipline::Virtual(v) => v.costs.ns(Step::ThreadWake),
                Discipline::Explored(_) => 0,
            };
            self.wake(join_key(agent), u32::MAX, delay);
        }
    }
}

/// Puts the calling agent to sleep on `key`. The caller has checked the condition.
pub(super) fn block(key: usize, deadline: Option<Deadline>, what: &str) -> WaitEnd {
    check_step();
    let agent = with(|w| {
        let agent = w.current.expect("only an agent can block: call it inside Platform::run");
        let list = w.sleepers.entry(key).or_default();
        list.push(agent);
        w.crowded_words += usize::from(list.len() == 2);
        let slot = &mut w.agents[usize::from(agent.0)];
        slot.state = State::Blocked;
        slot.wait = Some(Wait { key, deadline });
        slot.what.clear();
        slot.what.push_str(what);
        if let (Discipline::Virtual(v), Some(d)) = (&mut w.discipline, deadline) {
            slot.entry = v.push_timer(d, agent, &mut slot.queued_timer);
        }
        agent
    });
    fiber::suspend();
    with(|w| {
        let slot = w.slot(agent);
        slot.wait_over = false;
        slot.wait_end
    })
}

/// Forgets a world; called when the last handle of its platform is dropped.
pub fn close(id: WorldId) {
    let mut taken = Taken(WORLD.take());
    if let Some(world) = taken.0.take_if(|world| world.id == id) {
        OUTSIDE.set(0);
        thread::close();
        // Dropped instead if the thread is ending.
        let _ = SPARE.try_with(|s| s.set(Some(world)));
    }
}
