//! Owns cooperative machines: one thread, one fiber per agent, one world per thread at a time.
//!
//! Two disciplines share the fibers, the waits and the stopping: `virtual_time` (the agent whose
//! time is earliest runs, until it waits or its time passes another's) and `explored` (at each
//! visible step a controller chooses). Agents reach their world through a thread-local, so that a
//! `Word` stays two words long; nothing is borrowed from it across a switch.
//!
//! A run ends when every straight-line agent has returned. When no agent can move before that, the
//! blocked ones are noted, then released with [`WaitEnd::Stopped`]: a run is always finished, never
//! unwound.

mod explored;
mod virtual_time;

pub(crate) use explored::{
    add_and_test, bulk_read, bulk_read_untrusted, bulk_write, exchange, fence, load,
    load_untrusted, lock, log_steps, mapping_step, name, next_object_id, steps, store, take_log,
    unlock,
};
pub(crate) use virtual_time::{lock_dropped, spend_ns, spend_step, wait_for_lock};

use crate::controller::{AgentIx, Controller, MemoryModel};
use crate::current::{self, Belongings};
use crate::fiber::{self, Fiber};
use crate::memory::PageInner;
use crate::time::{Deadline, Step, StepCosts};
use crate::{CpuTime, Platform, WaitEnd, host};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_trace::Recorder;

/// A word as the world sees it.
#[derive(Clone, Copy)]
pub(crate) struct WordRef<'a> {
    pub(crate) page: &'a std::sync::Arc<PageInner>,
    pub(crate) index: u32,
}

impl WordRef<'_> {
    fn cell(&self) -> &AtomicU64 {
        self.page.cell(self.index as usize)
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self.cell()) as usize
    }
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Agents that were blocked when no agent could move any more, and what each waited for. Always
    /// empty on [`Platform::host`].
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
    /// A straight-line agent, which the run waits for; services are stopped at its end.
    script: bool,
    state: State,
    fiber: Option<Fiber>,
    /// Its name among them; while it runs, what the run loop owns lies here.
    belongings: Belongings,
    /// Where it sleeps, what for, and how the sleep ended.
    wait: Option<Wait>,
    wait_end: WaitEnd,
    /// Its sleep has ended, but it has not run since.
    wait_over: bool,
    /// Counts its sleeps, so that an old timer does not end a new sleep.
    sleep_number: u64,
    explored: explored::AgentState,
}

struct Wait {
    key: usize,
    what: String,
    deadline: Option<Deadline>,
}

/// The key of sleeps that only the clock ends. No word has it.
const CLOCK_KEY: usize = 0;

impl Wait {
    fn deadline_only(&self) -> bool {
        self.key == CLOCK_KEY
    }

    /// The agent whose end is waited for.
    fn joined(&self) -> Option<AgentIx> {
        u16::try_from(usize::MAX - self.key).ok().map(AgentIx)
    }
}

enum Discipline {
    Virtual(virtual_time::Virtual),
    Explored(explored::Explored),
}

impl Discipline {
    /// Takes over the memory of an old one's lists.
    fn inherit(&mut self, old: &mut Discipline) {
        if let (Discipline::Explored(new), Discipline::Explored(old)) = (self, old) {
            new.inherit(old);
        }
    }
}

/// Keys are addresses and numbers that this process made up: no need of a hash that resists an
/// enemy.
type Map<K, V> = HashMap<K, V, BuildHasherDefault<Scramble>>;

#[derive(Default)]
struct Scramble(u64);

impl Hasher for Scramble {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

pub(crate) struct World {
    id: WorldId,
    discipline: Discipline,
    now: u64,
    steps: u64,
    agents: Vec<Slot>,
    scripts_live: usize,
    current: Option<AgentIx>,
    sleepers: Map<usize, Vec<AgentIx>>,
    /// Keys on which more than one agent sleeps.
    crowded_words: usize,
    stopped: bool,
    report: RunReport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorldId(u64);

thread_local! {
    static WORLD: RefCell<Option<Box<World>>> = const { RefCell::new(None) };
    /// An emptied world: explorers make a million of them a second.
    static SPARE: Cell<Option<Box<World>>> = const { Cell::new(None) };
    static NEXT_WORLD: Cell<u64> = const { Cell::new(1) };
}

fn with<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with(|w| {
        let mut world = w.borrow_mut();
        f(world
            .as_mut()
            .expect("the machine of this platform runs on another thread: start agents with Platform::spawn, or make the machine on Platform::host"))
    })
}

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
            report: RunReport::default(),
        }
    }

    /// Makes a spare world as good as new, with the memory that its lists have.
    fn renew(&mut self, id: WorldId, mut discipline: Discipline) {
        discipline.inherit(&mut self.discipline);
        let (mut agents, mut sleepers) =
            (std::mem::take(&mut self.agents), std::mem::take(&mut self.sleepers));
        agents.clear();
        sleepers.clear();
        *self = World { agents, sleepers, ..World::new(id, discipline) };
    }

    fn open(discipline: Discipline) -> WorldId {
        let id = WorldId(NEXT_WORLD.replace(NEXT_WORLD.get() + 1));
        let world = match SPARE.take() {
            None => Box::new(World::new(id, discipline)),
            Some(mut spare) => {
                spare.renew(id, discipline);
                spare
            }
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
            v.push(at, agent);
        }
    }

    /// Ends the sleep of `agent` with `end`; it runs again after `delay_ns`.
    fn end_sleep(&mut self, agent: AgentIx, end: WaitEnd, delay_ns: u64) {
        let slot = self.slot(agent);
        slot.wait_end = end;
        slot.wait_over = slot.wait.is_some();
        slot.sleep_number += 1;
        if let Some(wait) = slot.wait.take()
            && let Some(list) = self.sleepers.get_mut(&wait.key)
        {
            list.retain(|a| *a != agent);
            self.crowded_words -= usize::from(list.len() == 1);
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
        let scripts = self.agents.iter().filter(|a| a.script);
        scripts
            .filter_map(|a| {
                let asleep =
                    a.wait.as_ref().filter(|_| a.state == State::Blocked).map(|w| w.what.clone());
                Some((a.belongings.name.clone(), asleep.or_else(|| self.lock_waited_for(a))?))
            })
            .collect()
    }

    /// The agent to run next, or `None` when the run is over.
    fn pick(&mut self) -> Option<AgentIx> {
        loop {
            let next = match &mut self.discipline {
                Discipline::Virtual(_) => {
                    if self.scripts_live == 0 && !self.stopped {
                        self.stop_all();
                    }
                    self.pick_earliest()
                }
                Discipline::Explored(_) => self.pick_chosen(),
            };
            match next {
                Some(agent) => return Some(agent),
                None if !self.stopped => {
                    self.report.blocked = self.blocked();
                    self.stop_all();
                }
                None if self.break_locks() => {
                    if self.report.blocked.is_empty() {
                        self.report.blocked = self.blocked();
                    }
                }
                None => return None,
            }
        }
    }
}

/// Adds an agent; it first runs when the discipline picks it.
pub(crate) fn spawn(name: String, script: bool, body: Box<dyn FnOnce() + Send>) -> AgentIx {
    let fiber = Fiber::new(move || {
        if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
            let text = host::panic_text(&current::name(), payload.as_ref());
            with(|w| w.report.panics.push(text));
        }
    });
    with(|w| {
        let agent = AgentIx(u16::try_from(w.agents.len()).expect("more than 65,535 agents"));
        let explored = explored::seed(w);
        w.agents.push(Slot {
            script,
            state: State::Blocked,
            fiber: Some(fiber),
            belongings: Belongings::named(name),
            wait: None,
            wait_end: WaitEnd::Woken,
            wait_over: false,
            sleep_number: 0,
            explored,
        });
        w.scripts_live += usize::from(script);
        w.make_ready(agent, 0);
        agent
    })
}

/// Runs `main` and all agents to the end.
pub(crate) fn run(platform: &Platform, main: Box<dyn FnOnce() + Send>) -> RunReport {
    assert!(!fiber::on_fiber(), "Platform::run inside an agent of the same machine");
    spawn("main".to_owned(), true, main);
    while let Some((agent, mut fiber)) = with(World::next_fiber) {
        let ended = fiber.resume();
        let recorded = with(|w| w.back_from(agent, fiber, ended));
        if let Some(mut recorder) = recorded {
            platform.inner.tracing.append(&mut recorder);
        }
    }
    let (agents, report) = with(|w| {
        w.report.end = CpuTime(w.now);
        w.report.steps = w.steps;
        w.end_run();
        (std::mem::take(&mut w.agents), std::mem::take(&mut w.report))
    });
    drop(agents);
    report
}

impl World {
    /// Picks an agent and lets it have the thread.
    fn next_fiber(&mut self) -> Option<(AgentIx, Fiber)> {
        let agent = self.pick()?;
        self.current = Some(agent);
        let slot = self.slot(agent);
        slot.state = State::Running;
        current::swap(&mut slot.belongings);
        Some((agent, slot.fiber.take().expect("a picked agent has its fiber")))
    }

    /// The agent has given the thread back; returns what it recorded, if it has ended.
    fn back_from(&mut self, agent: AgentIx, fiber: Fiber, ended: bool) -> Option<Recorder> {
        self.current = None;
        let slot = self.slot(agent);
        current::swap(&mut slot.belongings);
        if !ended {
            slot.fiber = Some(fiber);
            return None;
        }
        slot.state = State::Finished;
        let recorded = slot.belongings.recorder.take();
        self.scripts_live -= usize::from(self.agents[agent.0 as usize].script);
        self.wake_joiners(agent);
        recorded
    }

    /// Whether the agent has ended, and all that it stored can be seen.
    fn is_over(&self, agent: AgentIx) -> bool {
        let slot = &self.agents[usize::from(agent.0)];
        slot.state == State::Finished && slot.explored.has_drained()
    }

    /// To be called whenever an agent may have become over.
    fn wake_joiners(&mut self, agent: AgentIx) {
        if !self.sleepers.is_empty() && self.is_over(agent) {
            let delay = match &self.discipline {
                Discipline::Virtual(v) => v.costs.ns(Step::ThreadWake),
                Discipline::Explored(_) => 0,
            };
            self.wake(join_key(agent), u32::MAX, delay);
        }
    }
}

/// Forgets a world; called when the last handle of its platform is dropped.
pub(crate) fn close(id: WorldId) {
    let world = WORLD.try_with(|w| match w.try_borrow_mut() {
        Ok(mut slot) if slot.as_ref().is_some_and(|w| w.id == id) => slot.take(),
        _ => None,
    });
    if let Ok(Some(world)) = world {
        // Not kept if the thread is ending.
        let _ = SPARE.try_with(|s| s.set(Some(world)));
    }
}

pub(crate) fn now() -> CpuTime {
    with(|w| {
        explored::observe(w, w.now);
        CpuTime(w.now)
    })
}

/// The calling agent's number, never 0.
pub(crate) fn agent_number() -> u64 {
    with(|w| w.current.map_or(u64::MAX, |a| u64::from(a.0) + 1))
}

pub(crate) fn is_stopped() -> bool {
    with(|w| {
        explored::observe(w, 0x57 + u64::from(w.stopped));
        w.stopped
    })
}

pub(crate) fn stop() {
    with(World::stop_all);
}

pub(crate) fn blocked_agents() -> Vec<(String, String)> {
    with(|w| w.blocked())
}

/// Puts the calling agent to sleep on `key`; the caller has decided that it must.
fn block(key: usize, deadline: Option<Deadline>, what: &str) -> WaitEnd {
    let agent = with(|w| {
        let agent = w.current.expect("only an agent can block: call it inside Platform::run");
        let list = w.sleepers.entry(key).or_default();
        list.push(agent);
        w.crowded_words += usize::from(list.len() == 2);
        let slot = w.slot(agent);
        slot.state = State::Blocked;
        slot.wait = Some(Wait { key, what: what.to_owned(), deadline });
        let number = slot.sleep_number;
        if let (Discipline::Virtual(v), Some(d)) = (&mut w.discipline, deadline) {
            v.push_timer(d, agent, number);
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

/// No word has an address so high.
fn join_key(agent: AgentIx) -> usize {
    usize::MAX - usize::from(agent.0)
}

/// Waits for the end of an agent. No choice under exploration: an end is not taken back, so it does
/// not matter which comes first, the end or the wait.
pub(crate) fn join(agent: AgentIx) -> WaitEnd {
    let go = with(|w| {
        if w.is_over(agent) { Some(WaitEnd::Woken) } else { w.stopped.then_some(WaitEnd::Stopped) }
    });
    let what = || with(|w| format!("the end of '{}'", w.slot(agent).belongings.name));
    let end = go.unwrap_or_else(|| block(join_key(agent), None, &what()));
    explored::after_wait(end);
    end
}

/// Sleeps on a word while its low half is `expected`.
pub(crate) fn wait_word(
    word: WordRef<'_>,
    expected: u32,
    deadline: Option<Deadline>,
    what: &str,
) -> WaitEnd {
    let go = explored::at_wait(word, |w| {
        if w.stopped {
            Some(WaitEnd::Stopped)
        } else if word.cell().load(Ordering::Relaxed) as u32 != expected {
            Some(WaitEnd::Woken)
        } else if deadline.is_some_and(|d| d.time.0 <= w.now) {
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
    explored::at_wake(word, |w| {
        let delay = match &w.discipline {
            Discipline::Virtual(v) => v.costs.ns(step),
            Discipline::Explored(_) => 0,
        };
        w.wake(word.key(), count, delay);
    });
}

/// Sleeps on the clock.
pub(crate) fn sleep_until(deadline: CpuTime) -> WaitEnd {
    let over = explored::at_sleep(|w| {
        if w.stopped {
            Some(WaitEnd::Stopped)
        } else if deadline.0 <= w.now {
            Some(WaitEnd::TimedOut)
        } else {
            None
        }
    });
    over.unwrap_or_else(|| block(CLOCK_KEY, Some(Deadline::at(deadline)), "the clock"))
}
