//! Owns cooperative machines: one thread, one fiber per agent, one world per thread at a time.
//!
//! Two disciplines share the fibers, the waits and the stopping: `virtual_time` (the agent whose time is earliest runs, until
//! it waits or its time passes another's) and `explored` (at each visible step a controller chooses). Agents reach their
//! world through a thread-local, so that a `Word` stays two words long; nothing is borrowed from it across a switch.
//!
//! A run ends when every straight-line agent has returned. When nobody can move before that, the blocked ones are
//! noted, then released with [`WaitEnd::Stopped`]: a run is always finished, never unwound.

mod explored;
mod virtual_time;

pub(crate) use explored::{
    bulk_read, bulk_write, exchange, fence, load, lock, mapping_step, next_object_id, steps, store, unlock,
};
pub(crate) use virtual_time::{lock_dropped, spend_ns, spend_step, wait_for_lock};

use crate::controller::{AgentIx, Controller, MemoryModel};
use crate::current::{self, Belongings};
use crate::fiber::{self, Fiber};
use crate::memory::PageInner;
use crate::time::{Step, StepCosts};
use crate::{CpuTime, Platform, WaitEnd, host};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A word as the world sees it.
#[derive(Clone, Copy)]
pub(crate) struct WordRef<'a> {
    pub(crate) page: &'a std::sync::Arc<PageInner>,
    pub(crate) index: u32,
}

impl WordRef<'_> {
    fn cell(&self) -> &AtomicU64 {
        &self.page.cells[self.index as usize]
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self.cell()) as usize
    }
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Agents that could not go on when nobody could move any more, and what each waited for.
    pub blocked: Vec<(String, String)>,
    /// Panics of agents, with their names.
    pub panics: Vec<String>,
    /// The clock at the end.
    pub end: CpuTime,
    /// Visible steps taken (explored), or turns of the run loop (virtual time).
    pub steps: u64,
}

impl RunReport {
    /// Whether every agent returned by itself.
    pub fn completed(&self) -> bool {
        self.blocked.is_empty() && self.panics.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Running,
    Blocked,
    Finished,
}

struct Slot {
    name: String,
    /// A straight-line agent, which the run waits for; services are stopped at its end.
    script: bool,
    state: State,
    fiber: Option<Fiber>,
    belongings: Belongings,
    /// Where it sleeps, what for, and how the sleep ended.
    wait: Option<Wait>,
    wait_end: WaitEnd,
    /// Counts its sleeps, so that an old timer does not end a new sleep.
    sleep_number: u64,
    explored: explored::AgentState,
}

struct Wait {
    key: usize,
    what: String,
    deadline: Option<CpuTime>,
}

enum Discipline {
    Virtual(virtual_time::Virtual),
    Explored(explored::Explored),
}

pub(crate) struct World {
    id: WorldId,
    discipline: Discipline,
    now: u64,
    steps: u64,
    agents: Vec<Slot>,
    scripts_live: usize,
    current: Option<AgentIx>,
    sleepers: HashMap<usize, Vec<AgentIx>>,
    stopped: bool,
    report: RunReport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorldId(u64);

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    static NEXT_WORLD: Cell<u64> = const { Cell::new(1) };
}

fn with<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with(|w| {
        let mut world = w.borrow_mut();
        f(world
            .as_mut()
            .expect("this machine lives on another thread: a cooperative platform stays where it was made"))
    })
}

impl World {
    fn open(discipline: Discipline) -> WorldId {
        let id = WorldId(NEXT_WORLD.replace(NEXT_WORLD.get() + 1));
        let world = World {
            id,
            discipline,
            now: 0,
            steps: 0,
            agents: Vec::new(),
            scripts_live: 0,
            current: None,
            sleepers: HashMap::new(),
            stopped: false,
            report: RunReport::default(),
        };
        WORLD.with(|w| {
            let before = w.borrow_mut().replace(world);
            assert!(
                before.is_none(),
                "this thread already has a cooperative machine: drop it before making another"
            );
        });
        id
    }

    pub(crate) fn open_virtual(costs: StepCosts) -> WorldId {
        World::open(Discipline::Virtual(virtual_time::Virtual::new(costs)))
    }

    pub(crate) fn open_explored(controller: Box<dyn Controller>, model: MemoryModel) -> WorldId {
        World::open(Discipline::Explored(explored::Explored::new(controller, model)))
    }

    fn slot(&mut self, agent: AgentIx) -> &mut Slot {
        &mut self.agents[agent.0 as usize]
    }

    fn make_ready(&mut self, agent: AgentIx, delay_ns: u64) {
        self.slot(agent).state = State::Ready;
        let at = self.now + delay_ns;
        if let Discipline::Virtual(v) = &mut self.discipline {
            v.push(at, agent, None);
        }
    }

    /// Ends the sleep of `agent` with `end`; it runs again after `delay_ns`.
    fn end_sleep(&mut self, agent: AgentIx, end: WaitEnd, delay_ns: u64) {
        let slot = self.slot(agent);
        slot.wait_end = end;
        slot.sleep_number += 1;
        if let Some(wait) = slot.wait.take()
            && let Some(list) = self.sleepers.get_mut(&wait.key)
        {
            list.retain(|a| *a != agent);
            if list.is_empty() {
                self.sleepers.remove(&wait.key);
            }
        }
        self.make_ready(agent, delay_ns);
    }

    fn wake(&mut self, key: usize, count: u32, delay_ns: u64) {
        let Some(list) = self.sleepers.get(&key) else { return };
        let woken: Vec<AgentIx> = list.iter().copied().take(count as usize).collect();
        for agent in woken {
            self.end_sleep(agent, WaitEnd::Woken, delay_ns);
        }
    }

    fn stop_all(&mut self) {
        self.stopped = true;
        for index in 0..self.agents.len() {
            if self.agents[index].state == State::Blocked {
                self.end_sleep(AgentIx(index as u16), WaitEnd::Stopped, 0);
            }
        }
    }

    fn blocked(&self) -> Vec<(String, String)> {
        let waiting = self.agents.iter().filter(|a| a.state == State::Blocked && a.script);
        waiting
            .map(|a| (a.name.clone(), a.wait.as_ref().map_or_else(String::new, |w| w.what.clone())))
            .collect()
    }

    /// The agent to run next, or `None` when the run is over.
    fn pick(&mut self) -> Option<AgentIx> {
        loop {
            if self.scripts_live == 0 && !self.stopped {
                self.stop_all();
            }
            let next = match &mut self.discipline {
                Discipline::Virtual(_) => self.pick_earliest(),
                Discipline::Explored(_) => self.pick_chosen(),
            };
            match next {
                Some(agent) => return Some(agent),
                None if self.stopped => return None,
                None => {
                    self.report.blocked = self.blocked();
                    self.stop_all();
                }
            }
        }
    }
}

/// Adds an agent; it first runs when the discipline picks it.
pub(crate) fn spawn(platform: &Platform, name: String, script: bool, body: Box<dyn FnOnce() + Send>) {
    // The world holds no platform: a weak one would do, but the body needs the trace only after the last record.
    let tracing = std::sync::Arc::downgrade(&platform.inner);
    let agent_name = name.clone();
    let guarded = move || {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        if let Some(inner) = tracing.upgrade() {
            inner.tracing.collect();
        }
        with(|w| {
            if let Err(payload) = result {
                w.report.panics.push(host::panic_text(&agent_name, payload.as_ref()));
            }
        });
    };
    let fiber = Fiber::new(Box::new(guarded));
    with(|w| {
        let agent = AgentIx(u16::try_from(w.agents.len()).expect("more than 65,535 agents"));
        w.agents.push(Slot {
            name: name.clone(),
            script,
            state: State::Blocked,
            fiber: Some(fiber),
            belongings: Belongings::named(name),
            wait: None,
            wait_end: WaitEnd::Woken,
            sleep_number: 0,
            explored: explored::AgentState::default(),
        });
        w.scripts_live += usize::from(script);
        w.make_ready(agent, 0);
    });
}

/// Runs `main` and all agents to the end.
pub(crate) fn run(platform: &Platform, main: Box<dyn FnOnce() + Send>) -> RunReport {
    assert!(!fiber::on_fiber(), "Platform::run inside an agent of the same machine");
    spawn(platform, "main".to_owned(), true, main);
    while let Some(agent) = with(World::pick) {
        resume(agent);
    }
    with(|w| {
        w.agents.clear();
        w.report.end = CpuTime(w.now);
        w.report.steps = w.steps;
        std::mem::take(&mut w.report)
    })
}

fn resume(agent: AgentIx) {
    let (mut fiber, mine) = with(|w| {
        w.current = Some(agent);
        let slot = w.slot(agent);
        slot.state = State::Running;
        (slot.fiber.take().expect("a picked agent has its fiber"), std::mem::take(&mut slot.belongings))
    });
    let outer = current::exchange(mine);
    let ended = fiber.resume();
    let mine = current::exchange(outer);
    let ended_fiber = with(|w| {
        w.current = None;
        let slot = w.slot(agent);
        slot.belongings = mine;
        if ended {
            slot.state = State::Finished;
            let script = slot.script;
            w.scripts_live -= usize::from(script);
            Some(fiber)
        } else {
            slot.fiber = Some(fiber);
            None
        }
    });
    drop(ended_fiber);
}

/// Forgets a world; called when the last handle of its platform is dropped.
pub(crate) fn close(id: WorldId) {
    let world = WORLD.try_with(|w| match w.try_borrow_mut() {
        Ok(mut slot) if slot.as_ref().is_some_and(|w| w.id == id) => slot.take(),
        _ => None,
    });
    drop(world);
}

pub(crate) fn now() -> CpuTime {
    with(|w| CpuTime(w.now))
}

/// The calling agent's number, never 0.
pub(crate) fn agent_number() -> u64 {
    with(|w| w.current.map_or(u64::MAX, |a| u64::from(a.0) + 1))
}

pub(crate) fn is_stopped() -> bool {
    with(|w| w.stopped)
}

pub(crate) fn stop() {
    with(World::stop_all);
}

pub(crate) fn blocked_agents() -> Vec<(String, String)> {
    with(|w| w.blocked())
}

/// Puts the calling agent to sleep on `key`; the caller has decided that it must.
fn block(key: usize, deadline: Option<CpuTime>, what: &str) -> WaitEnd {
    let agent = with(|w| {
        let agent = w.current.expect("only an agent can block: call it inside Platform::run");
        w.sleepers.entry(key).or_default().push(agent);
        let slot = w.slot(agent);
        slot.state = State::Blocked;
        slot.wait = Some(Wait { key, what: what.to_owned(), deadline });
        let number = slot.sleep_number;
        if let (Discipline::Virtual(v), Some(d)) = (&mut w.discipline, deadline) {
            v.push(d.0, agent, Some(number));
        }
        agent
    });
    fiber::suspend();
    with(|w| w.slot(agent).wait_end)
}

/// Sleeps on a word while its low half is `expected`.
pub(crate) fn wait_word(word: WordRef<'_>, expected: u32, deadline: Option<CpuTime>, what: &str) -> WaitEnd {
    explored::before_wait(word);
    let go = with(|w| {
        if w.stopped {
            Some(WaitEnd::Stopped)
        } else if word.cell().load(Ordering::Relaxed) as u32 != expected {
            Some(WaitEnd::Woken)
        } else if deadline.is_some_and(|d| d.0 <= w.now) {
            Some(WaitEnd::TimedOut)
        } else {
            None
        }
    });
    let end = go.unwrap_or_else(|| block(word.key(), deadline, what));
    explored::after_wait(end);
    end
}

/// Wakes sleepers of a word.
pub(crate) fn wake_word(word: WordRef<'_>, count: u32, step: Step) {
    explored::before_wake(word);
    with(|w| {
        let delay = match &w.discipline {
            Discipline::Virtual(v) => v.costs.ns(step),
            Discipline::Explored(_) => 0,
        };
        w.wake(word.key(), count, delay);
    });
}

/// Sleeps on the clock.
pub(crate) fn sleep_until(deadline: CpuTime) -> WaitEnd {
    explored::before_sleep();
    if let Some(end) = with(|w| {
        if w.stopped {
            Some(WaitEnd::Stopped)
        } else if deadline.0 <= w.now {
            Some(WaitEnd::TimedOut)
        } else {
            None
        }
    }) {
        return end;
    }
    // A key that no word has: nobody wakes it but the clock.
    block(0, Some(deadline), "the clock")
}
