//! Cooperative machines: one thread, one fiber per agent, one world per thread at a time.
//!
//! Two disciplines share the fibers, the waits and the stop: `virtual_time` (the agent with
//! the earliest time runs) and `explored` (a controller chooses at each visible step). The
//! world is a thread-local, so that a `Word` stays two words long. Nothing is borrowed from it
//! across a switch.
//!
//! A run ends when every straight-line agent has returned. If no agent can move before that, the
//! blocked agents are recorded and released with [`WaitEnd::Stopped`]: a run is always finished,
//! never unwound.
//!
//! This file has the run loop and the waits. Below it, in this order: `explored` with `outside`
//! (accesses outside of a run), `program` (steps of the checker's types), `barrier` and `step_log`;
//! `virtual_time`, `machine`, discipline state (`exploration`, `run_queue` over `wheel`), `slot`,
//! `store_buffer`, `happens_before`, `table`, `hash`.

mod exploration;
mod explored;
mod happens_before;
mod hash;
mod machine;
mod run_queue;
mod slot;
mod store_buffer;
mod table;
mod virtual_time;
mod wheel;

pub use explored::barrier::{agent_index, agents, fence_of_agents};
pub use explored::outside::{
    add_and_test, bulk_read, bulk_write, exchange, fence, load, load_as, load_untrusted, lock,
    store, store_as, try_lock, unlock,
};
pub use explored::program::{
    EnteredCall, access_cell, at, detect_races, enter_call, light_fence, poll, store_through,
    unexplored,
};
pub use explored::step_log::{log_steps, name, steps, take_log};
pub use explored::{
    bulk_read_untrusted, bulk_update, forget_history, next_object_id, update_as, update_at_once,
};
pub use machine::{ELSEWHERE, World, agent_number, close, lock_dropped, wait_for_lock};
pub use virtual_time::{skip_ns, spend_ns, spend_step};

use crate::cells::WordRef;
use crate::explorer::{AgentIx, Site};
use crate::fiber::{Fiber, LeftAt};
use crate::run_report::{RunReport, panic_text};
use crate::thread::{self, Belongings, OwnRecorder, note_panic_place};
use crate::time::{CpuTime, Step};
use crate::wait::{Deadline, WaitEnd};
use machine::{Discipline, block, is_outside, with};
use run_queue::QueuedTimer;
pub use slot::Role;
use slot::{CLOCK_KEY, Slot, State, join_key};
use std::borrow::Cow;
use std::sync::atomic::Ordering;

/// Adds an agent. It first runs when the discipline picks it. The start of a thread is a barrier of
/// the agent that starts it.
pub fn spawn(name: impl Into<Cow<'static, str>>, role: Role, body: Box<dyn FnOnce()>) -> AgentIx {
    let name = name.into();
    // A thread sees what was stored before its start.
    explored::empty_buffer();
    let fiber = Fiber::new(move || {
        if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
            report_panic(payload.as_ref());
        }
    });
    with(|w| {
        let agent = AgentIx(u16::try_from(w.agents.len()).expect("more than 65,535 agents"));
        let explored = explored::seed(w);
        w.log(|log, _| log.agents.push(name.clone().into_owned()));
        w.agents.push(Slot {
            role,
            state: State::Blocked,
            fiber: Some(fiber),
            left_at: LeftAt::NOWHERE,
            belongings: Belongings::named(name),
            wait: None,
            what: String::new(),
            wait_end: WaitEnd::Woken,
            wait_over: false,
            entry: 0,
            queued_timer: QueuedTimer::default(),
            children: 0,
            reported_panic: 0,
            explored,
        });
        w.scripts_live += usize::from(role == Role::Script);
        w.clock_spawn(agent);
        w.make_ready(agent, 0);
        agent
    })
}

/// Records a panic that the calling agent has caught, unless it is recorded.
pub fn report_panic(payload: &(dyn std::any::Any + Send)) {
    // A panic that leaves a scope is caught again with the same payload.
    let address = std::ptr::from_ref(payload).addr();
    let (is_known, site) = with(|w| match w.current {
        Some(me) => {
            let slot = w.slot(me);
            let known = std::mem::replace(&mut slot.reported_panic, address);
            (known == address, slot.explored.site)
        }
        None => (false, Site::NONE),
    });
    // The address of a payload without size says nothing.
    if is_known && std::mem::size_of_val(payload) > 0 {
        return;
    }
    if site.is_some() {
        note_panic_place(&site.place());
    }
    let text = panic_text(&thread::name(), payload);
    with(|w| w.report_panic(text));
}

/// As [`report_panic`], for a panic that ends here: a later payload may have the same address.
pub fn report_contained(payload: &(dyn std::any::Any + Send)) {
    report_panic(payload);
    with(|w| {
        if let Some(me) = w.current {
            w.slot(me).reported_panic = 0;
        }
    });
}

/// Lets agents block and services start after a run that only rests.
pub fn resume() {
    with(World::resume);
}

/// Runs `main` and all agents to the end. `rests`: services rest then, and the next run goes on
/// with them.
pub fn run(rests: bool, main: Box<dyn FnOnce()>) -> RunReport {
    with(|w| w.begin_run(rests));
    spawn("main", Role::Script, main);
    move_agents(|_| false);
    end_run(rests)
}

fn end_run(rests: bool) -> RunReport {
    let (mut agents, report) = with(|w| {
        w.report.end = CpuTime(w.now);
        w.report.steps = w.steps;
        w.report.state = w.state_hash();
        w.end_run();
        (std::mem::take(&mut w.agents), std::mem::take(&mut w.report))
    });
    if rests {
        // The agents of the next run take other numbers: a timer of this one ends none of their
        // sleeps, and the log of steps names them.
        with(|w| w.agents = agents);
        return report;
    }
    // Dropped outside the world, because destructors of the agents' state may enter it.
    agents.drain(..).for_each(|slot| slot.belongings.recycle());
    with(|w| {
        w.agents = agents;
        w.is_left_behind = w.has_clocks();
    });
    report
}

/// Runs `first` to its end, and other agents while it waits. They stay where they are then, and the
/// run goes on with them. If no agent can move meanwhile, this was the run.
pub fn run_first(first: Box<dyn FnOnce()>) {
    with(|w| w.begin_run(false));
    let first = spawn("before the run", Role::Script, first);
    move_agents(|ended| ended == first);
    if is_stopped() {
        move_agents(|_| false);
        end_run(false);
    } else {
        with(World::pause_run);
    }
}

/// Moves agents until none is left that can move, or one has ended that `is_last` names.
fn move_agents(is_last: impl Fn(AgentIx) -> bool) {
    let mut next = with(World::next_fiber);
    while let Some((agent, mut fiber)) = next {
        if !fiber.resume() {
            next = with(|w| w.switch_from(agent, fiber));
            continue;
        }
        fiber.recycle();
        if let Some(recorder) = with(|w| w.end_agent(agent)) {
            recorder.give_back();
        }
        if is_last(agent) {
            return;
        }
        next = with(World::next_fiber);
    }
}

impl World {
    fn report_panic(&mut self, text: String) {
        self.report.panicked_first |= !self.stopped;
        self.report.panics.push(text);
    }

    fn blocked(&self) -> Vec<(String, String)> {
        self.blocked_among(|slot| slot.role == Role::Script)
    }

    /// Notes what is blocked, for the report.
    fn note_blocked(&mut self) {
        self.report.blocked = self.blocked();
        self.report.blocked_services =
            self.blocked_among(|slot| slot.role == Role::Worker || slot.is_in_turn());
    }

    fn blocked_among(&self, which: impl Fn(&Slot) -> bool) -> Vec<(String, String)> {
        let agents = self.agents.iter().filter(|slot| which(slot));
        agents
            .filter_map(|a| {
                let is_asleep = a.wait.is_some() && a.state == State::Blocked;
                let what = if is_asleep { Some(a.what.clone()) } else { self.lock_waited_for(a) }?;
                let site = a.explored.site;
                let what = match (site.is_some(), site.call()) {
                    (false, _) => what,
                    (true, "") => format!("{what}, at {}", site.place()),
                    (true, call) => format!("{what}, in {call} at {}", site.place()),
                };
                Some((a.belongings.name().to_owned(), what))
            })
            .collect()
    }

    /// Returns the agent to run next, or `None` if the run is over.
    fn pick(&mut self) -> Option<AgentIx> {
        loop {
            let next = match &mut self.discipline {
                Discipline::Virtual(_) => {
                    if self.scripts_live == 0 && !self.stopped && self.may_stop() {
                        self.stop_all();
                    }
                    self.pick_earliest()
                }
                Discipline::Explored(_) => self.pick_chosen(),
            };
            match next {
                Some(agent) => return Some(agent),
                None if !self.stopped => {
                    if let Some(agent) = self.pick_at_stall() {
                        return Some(agent);
                    }
                    if self.scripts_live > 0 {
                        self.note_blocked();
                    }
                    self.stop_all();
                }
                None if self.break_locks() => {
                    if self.report.blocked.is_empty() {
                        self.note_blocked();
                    }
                }
                None => return None,
            }
        }
    }

    /// Picks an agent and takes its fiber to resume it.
    fn next_fiber(&mut self) -> Option<(AgentIx, Box<Fiber>)> {
        let agent = self.pick()?;
        self.set_current(Some(agent));
        let slot = self.slot(agent);
        slot.state = State::Running;
        thread::swap(&mut slot.belongings);
        Some((agent, slot.fiber.take().expect("a picked agent has its fiber")))
    }

    /// Takes the fiber back from a suspended agent, and picks the next one.
    fn switch_from(&mut self, agent: AgentIx, fiber: Box<Fiber>) -> Option<(AgentIx, Box<Fiber>)> {
        let is_going_on =
            self.scripts_live > 0 && matches!(self.discipline, Discipline::Virtual(_));
        if is_going_on && let Some(next) = self.pick_earliest() {
            return self.switch_to(next, (agent, fiber));
        }
        self.leave(agent).return_fiber(fiber);
        self.next_fiber()
    }

    /// Switches from a suspended agent to `next`, without the run loop between them.
    #[inline]
    fn switch_to(
        &mut self,
        next: AgentIx,
        (agent, fiber): (AgentIx, Box<Fiber>),
    ) -> Option<(AgentIx, Box<Fiber>)> {
        if next == agent {
            self.slot(agent).state = State::Running;
            return Some((agent, fiber));
        }
        self.set_current(Some(next));
        self.prefetch_earliest();
        let both = [usize::from(agent.0), usize::from(next.0)];
        let [from, to] = self.agents.get_disjoint_mut(both).expect("two agents of the machine");
        thread::pass(&mut from.belongings, &mut to.belongings);
        from.return_fiber(fiber);
        to.state = State::Running;
        Some((next, to.fiber.take().expect("a picked agent has its fiber")))
    }

    fn leave(&mut self, agent: AgentIx) -> &mut Slot {
        self.set_current(None);
        let slot = self.slot(agent);
        thread::swap(&mut slot.belongings);
        slot
    }

    /// Marks an agent as ended. Returns its recorder, if it has one.
    fn end_agent(&mut self, agent: AgentIx) -> Option<OwnRecorder> {
        let slot = self.leave(agent);
        slot.state = State::Finished;
        let is_script = slot.role == Role::Script;
        let recorded = slot.belongings.take_recorder();
        self.scripts_live -= usize::from(is_script);
        self.wake_joiners(agent);
        recorded
    }
}

/// Returns the clock of the world.
pub fn now() -> CpuTime {
    with(|w| {
        explored::observe(w, w.now);
        CpuTime(w.now)
    })
}

/// Returns whether the world is stopped.
pub fn is_stopped() -> bool {
    with(|w| {
        explored::observe(w, 0x57 + u64::from(w.stopped));
        w.stopped
    })
}

/// Releases every blocked agent, and every later one.
pub fn stop() {
    with(World::stop_all);
}

/// Returns the blocked agents, each with the reason of its wait.
pub fn blocked_agents() -> Vec<(String, String)> {
    with(|w| w.blocked())
}

/// Waits for the end of an agent. No choice under exploration: an end is permanent, so its order
/// relative to the wait does not matter.
pub fn join(agent: AgentIx) -> WaitEnd {
    let go = with(|w| {
        // After the stop, the order in which agents end is no choice, so no agent may observe it.
        if w.stopped { Some(WaitEnd::Stopped) } else { w.is_over(agent).then_some(WaitEnd::Woken) }
    });
    let what = || with(|w| format!("the end of '{}'", w.slot(agent).belongings.name()));
    let end = go.unwrap_or_else(|| block(join_key(agent), None, &what()));
    explored::after_wait(end);
    if end == WaitEnd::Woken {
        with(|w| {
            w.relate_all();
            w.clock_join(agent);
        });
    }
    end
}

/// Waits until an agent has ended, also after the stop. The agent must end by itself then.
pub fn join_to_the_end(agent: AgentIx) {
    while !with(|w| w.is_over(agent)) {
        let what = with(|w| format!("the end of '{}'", w.slot(agent).belongings.name()));
        let end = block(join_key(agent), None, &what);
        explored::after_wait(end);
    }
    with(|w| {
        w.relate_all();
        w.clock_join(agent);
    });
}

/// Returns the name of the calling agent's next thread.
pub fn name_of_child() -> String {
    let count = with(|w| {
        let me = w.current?;
        let children = &mut w.slot(me).children;
        *children += 1;
        Some((me, *children))
    });
    match count {
        Some((AgentIx(0), count)) => format!("thread {count}"),
        Some((_, count)) => format!("{}.{count}", thread::name()),
        None => "thread".to_owned(),
    }
}

/// Sleeps on a word while its low half is `expected`.
pub fn wait_word(
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
pub fn wake_word(word: WordRef<'_>, count: u32, step: Step) {
    if is_outside() {
        return;
    }
    explored::at_wake(word, |w| {
        let delay = match &w.discipline {
            Discipline::Virtual(v) => v.costs.ns(step),
            Discipline::Explored(_) => 0,
        };
        w.wake(word.key(), count, delay);
    });
}

/// Sleeps until `deadline`.
pub fn sleep_until(deadline: CpuTime) -> WaitEnd {
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
