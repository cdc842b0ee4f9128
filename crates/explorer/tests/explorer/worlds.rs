//! Scenarios of the explorer's own tests: programs as data, and intentionally broken ones.

#![allow(dead_code)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use tidegate_explorer::strategy::exhaustive::Exhaustive;
use tidegate_explorer::{
    MemoryModel, Options, Platform, Prepared, Probe, Report, Scenario, Strategy, Verdict,
    explore_with,
};
use tidegate_platform::{AgentHandle, Step, WaitEnd, Word};

/// One statement of a program. Values that it observes are part of the outcome.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Stores to a word.
    Store(usize, u64),
    /// Loads a word and observes the value.
    Load(usize),
    /// Executes a full barrier.
    Fence,
    /// Exchanges a word and observes the old value.
    Swap(usize, u64),
    /// Increments the counter behind a lock and observes the old value.
    Locked(usize),
    /// Replaces the counter behind a lock and observes the old value.
    Put(usize, u64),
    /// Under a lock, stores to the word of the same number and loads the other word.
    Guarded(usize, u64),
    /// Sets an event.
    Set(usize),
    /// Waits for an event and observes that it was set.
    Await(usize),
    /// Creates a page and stores to it.
    Make,
    /// Sleeps for a nanosecond of virtual time.
    Nap,
    /// Forgets the history, if the program does. What the agent observed before is not a part of
    /// the outcome.
    Forget,
}

const WORDS: usize = 2;
/// Number of outcomes, limited by the notes of a probe.
const OUTCOMES: usize = 10;

/// The statements of each agent. Agent 0 is `main`.
#[derive(Clone, Debug)]
pub struct Program {
    agents: Vec<Vec<Op>>,
    /// Outcome of each run: observations by agent (99 if missing), then the final words.
    seen: Rc<RefCell<BTreeSet<Vec<u64>>>>,
    /// Whether each agent starts the next one. Otherwise `main` starts all of them.
    pub chained: bool,
    /// Whether `main` joins the others at its end and loads both words.
    pub joined: bool,
    /// Whether [`Op::Forget`] has an effect.
    pub forgets: bool,
    /// Whether groups of agents that share nothing are searched by themselves.
    pub apart: bool,
}

impl Program {
    pub fn new(agents: &[&[Op]]) -> Program {
        Program::from(agents.iter().map(|a| a.to_vec()).collect())
    }

    pub fn from(agents: Vec<Vec<Op>>) -> Program {
        let seen = Rc::default();
        Program { agents, seen, chained: false, joined: false, forgets: false, apart: false }
    }

    /// Adds a statement that forgets to each agent, at the index that `place` returns.
    pub fn insert_forgets(&mut self, mut place: impl FnMut(usize) -> usize) {
        for ops in &mut self.agents {
            ops.insert(place(ops.len()), Op::Forget);
        }
    }

    fn observing(op: &Op) -> bool {
        matches!(op, Op::Load(_) | Op::Swap(..) | Op::Locked(_) | Op::Put(..) | Op::Await(_))
    }

    /// Returns the index of the first statement whose observation is part of the outcome.
    fn first_noted(ops: &[Op]) -> usize {
        ops.iter().rposition(|op| matches!(op, Op::Forget)).map_or(0, |last| last + 1)
    }
}

#[derive(Clone)]
struct Things {
    platform: Platform,
    words: Vec<Word>,
    counters: Vec<Arc<tidegate_platform::Mutex<u64>>>,
    events: Vec<tidegate_platform::Event>,
    probe: Probe,
    forgets: bool,
}

impl Things {
    fn perform(&self, ops: &[Op], first_note: usize) {
        let mut note = first_note;
        let first_noted = Program::first_noted(ops);
        for (index, op) in ops.iter().enumerate() {
            let observed = match *op {
                Op::Store(word, value) => {
                    self.words[word].store(value);
                    None
                }
                Op::Load(word) => Some(self.words[word].load()),
                Op::Fence => {
                    self.platform.fence();
                    None
                }
                Op::Swap(word, value) => Some(self.words[word].exchange(value)),
                Op::Locked(lock) => {
                    let mut count = self.counters[lock].lock();
                    *count += 1;
                    Some(*count - 1)
                }
                Op::Put(lock, value) => {
                    Some(std::mem::replace(&mut *self.counters[lock].lock(), value))
                }
                Op::Guarded(word, value) => {
                    let _guard = self.counters[word].lock();
                    self.words[word].store(value);
                    self.words[1 - word].load();
                    None
                }
                Op::Set(event) => {
                    self.events[event].set(Step::ThreadWake);
                    None
                }
                Op::Await(event) => match self.events[event].wait() {
                    WaitEnd::Stopped => return,
                    end => Some(end as u64 + 10),
                },
                Op::Make => {
                    self.platform.page(1).word(0).store(1);
                    None
                }
                Op::Nap => {
                    self.platform.sleep_until(self.platform.now().after(1));
                    None
                }
                Op::Forget => {
                    if self.forgets {
                        self.platform.forget_history(index as u32 + 1);
                    }
                    None
                }
            };
            if let Some(value) = observed.filter(|_| index >= first_noted) {
                self.probe.note(note, value);
                note += 1;
            }
        }
    }
}

fn start(things: Things, mut rest: Vec<(Vec<Op>, usize)>, chained: bool) -> Vec<AgentHandle> {
    if rest.is_empty() {
        return Vec::new();
    }
    let (ops, note) = rest.remove(0);
    let platform = things.platform.clone();
    let (mine, next) =
        (things.clone(), if chained { std::mem::take(&mut rest) } else { Vec::new() });
    let handle = platform.spawn("agent", move || {
        start(mine.clone(), next, chained);
        mine.perform(&ops, note);
    });
    let mut handles = start(things, rest, chained);
    handles.push(handle);
    handles
}

impl Scenario for Program {
    named!("program", "agents run statements");

    fn judges_groups_apart(&self) -> bool {
        self.apart
    }

    fn prepare(&self, platform: &Platform) -> Prepared {
        let page = platform.page(WORDS);
        let things = Things {
            platform: platform.clone(),
            words: (0..WORDS).map(|i| page.word(i)).collect(),
            counters: ["lock 0", "lock 1"].map(|n| Arc::new(platform.mutex(n, 0))).to_vec(),
            events: (0..2).map(|_| platform.event(false)).collect(),
            probe: Probe::new(),
            forgets: self.forgets,
        };
        let mut notes = 0;
        let agents: Vec<(Vec<Op>, usize)> = self
            .agents
            .iter()
            .map(|ops| {
                let first = notes;
                let noted = &ops[Program::first_noted(ops)..];
                notes += noted.iter().filter(|o| Program::observing(o)).count();
                (ops.clone(), first)
            })
            .collect();
        let (inside, seen) = (things.clone(), Rc::clone(&self.seen));
        let (chained, joined, last_notes) = (self.chained, self.joined, notes);
        if joined {
            notes += WORDS;
        }
        assert!(notes <= OUTCOMES, "too many observations for a probe");
        let main = move || {
            let mut agents = agents;
            let (own, note) = agents.remove(0);
            let handles = start(inside.clone(), agents, chained);
            inside.perform(&own, note);
            if joined {
                if handles.iter().any(|h| h.join() == WaitEnd::Stopped) {
                    return;
                }
                inside.perform(&[Op::Load(0), Op::Load(1)], last_notes);
            }
        };
        let check = move |_: &mut Verdict<'_>| {
            let observed = (0..notes).map(|n| things.probe.seen(n).unwrap_or(99));
            let outcome: Vec<u64> = observed.chain(things.words.iter().map(Word::load)).collect();
            seen.borrow_mut().insert(outcome);
        };
        Prepared::new(main, check).may_block()
    }
}

/// Returns all outcomes of `program` in an exhaustive search.
pub fn outcomes(program: &Program, model: MemoryModel) -> BTreeSet<Vec<u64>> {
    search(program, model, Box::new(Exhaustive::new())).0
}

/// Returns the outcomes and the report of a search that must be complete.
pub fn search(
    program: &Program,
    model: MemoryModel,
    strategy: Box<dyn Strategy>,
) -> (BTreeSet<Vec<u64>>, Report) {
    search_with(program, &Options { model, ..Options::default() }, strategy)
}

/// As [`search`], with the given options.
pub fn search_with(
    program: &Program,
    options: &Options<'_>,
    strategy: Box<dyn Strategy>,
) -> (BTreeSet<Vec<u64>>, Report) {
    program.seen.borrow_mut().clear();
    let report = explore_with(program, options, strategy).unwrap();
    assert!(report.failure.is_none(), "{report:?}");
    (program.seen.borrow().clone(), report)
}

/// A broken condition variable, which sleeps without checking again.
pub struct LostWakeUp;

impl Scenario for LostWakeUp {
    named!("lost-wake-up", "a flag is tested, then the agent sleeps without checking it again");

    fn prepare(&self, platform: &Platform) -> Prepared {
        let page = platform.page(2);
        let (flag, bell) = (page.word(0), page.word(1));
        let p = platform.clone();
        let main = move || {
            let (f, b) = (flag.clone(), bell.clone());
            p.spawn("other", move || {
                f.exchange(1);
                b.wake(u32::MAX, Step::ThreadWake);
            });
            if flag.load() == 0 {
                bell.wait_while(0, None, "the condition");
            }
        };
        Prepared::new(main, |_| {})
    }
}

/// A store before the start of an agent, which loads it. Another agent moves beside them.
pub struct StoreBeforeStart;

impl Scenario for StoreBeforeStart {
    named!("store-before-start", "an agent loads what was stored before its start");

    fn prepare(&self, platform: &Platform) -> Prepared {
        let page = platform.page(2);
        let p = platform.clone();
        let main = move || {
            let (stored, other) = (page.word(0), page.word(1));
            p.spawn("other", move || other.store(1));
            let loaded = stored.clone();
            stored.store(1);
            p.spawn("started", move || assert_eq!(loaded.load(), 1, "the store came late"));
            page.word(1).load();
        };
        Prepared::new(main, |_| {})
    }
}

/// Two locks, acquired in both orders.
pub struct CrossedLocks;

impl Scenario for CrossedLocks {
    named!("crossed-locks", "two agents acquire two locks in different orders");

    fn prepare(&self, platform: &Platform) -> Prepared {
        let (a, b) = (Arc::new(platform.mutex("a", ())), Arc::new(platform.mutex("b", ())));
        let p = platform.clone();
        let main = move || {
            let (a2, b2) = (Arc::clone(&a), Arc::clone(&b));
            p.spawn("other", move || {
                let _b = b2.lock();
                let _a = a2.lock();
            });
            let _a = a.lock();
            let _b = b.lock();
        };
        Prepared::new(main, |_| {})
    }
}

/// Two agents sleep on one word, and one of them is woken.
pub struct OneWakeTwoSleepers;

const FIRST: &str = "the first agent is woken alone";
const SECOND: &str = "the second agent is woken alone";

impl Scenario for OneWakeTwoSleepers {
    named!("one-wake-two-sleepers", "waking one agent wakes the first sleeper", &[FIRST, SECOND]);

    fn prepare(&self, platform: &Platform) -> Prepared {
        let word = platform.page(1).word(0);
        let probe = Probe::new();
        let (p, notes) = (platform.clone(), probe.clone());
        let main = move || {
            for slot in 0..2 {
                let (word, notes) = (word.clone(), notes.clone());
                p.spawn("sleeper", move || {
                    if word.wait_while(0, None, "a wake") == WaitEnd::Woken {
                        notes.note(slot, 1);
                    }
                });
            }
            word.wake(1, Step::ThreadWake);
        };
        let check = move |end: &mut Verdict<'_>| {
            let (first, second) = (probe.seen(0).is_some(), probe.seen(1).is_some());
            let both_slept = end.report().blocked.len() == 1;
            end.sometimes(FIRST, both_slept && first);
            end.sometimes(SECOND, both_slept && second);
        };
        Prepared::new(main, check).may_block()
    }
}

/// Behaves differently in each run.
#[derive(Default)]
pub struct Restless {
    runs: Cell<u64>,
}

impl Scenario for Restless {
    named!("restless", "every third run stores another value");

    fn prepare(&self, platform: &Platform) -> Prepared {
        self.runs.set(self.runs.get() + 1);
        let value = if self.runs.get().is_multiple_of(3) { 2 } else { 1 };
        let (word, p) = (platform.page(1).word(0), platform.clone());
        let main = move || {
            let other = word.clone();
            p.spawn("other", move || {
                other.exchange(value);
                other.load();
                other.exchange(4);
            });
            word.exchange(3);
            word.load();
            word.exchange(5);
        };
        Prepared::new(main, |_| {})
    }
}

/// Has a mark that it never reaches.
pub struct Vacuous;

impl Scenario for Vacuous {
    named!("vacuous", "there is no other agent", &["the other agent ran"]);

    fn prepare(&self, platform: &Platform) -> Prepared {
        let word = platform.page(1).word(0);
        let seen = word.clone();
        Prepared::new(
            move || {
                word.load();
            },
            move |end| end.sometimes("the other agent ran", seen.load() == 1),
        )
    }
}

/// Fails in every possible way.
pub enum Broken {
    Always,
    Eventually,
    Panic,
    Check,
}

impl Scenario for Broken {
    named!("broken", "fails on some schedule");

    fn prepare(&self, platform: &Platform) -> Prepared {
        let page = platform.page(2);
        let (word, total) = (page.word(0), page.word(1));
        let panics = matches!(self, Broken::Panic);
        let (p, w, t) = (platform.clone(), word.clone(), total.clone());
        let main = move || {
            let (w2, t2) = (w.clone(), t.clone());
            p.spawn("other", move || {
                let seen = w2.load();
                t2.fetch_add(seen);
                assert!(!(panics && seen == 1), "observed the store");
            });
            w.exchange(1);
            let seen = w.load();
            t.fetch_add(seen);
        };
        let check: Box<dyn FnOnce(&mut Verdict<'_>)> = match self {
            Broken::Always => {
                Box::new(move |end| end.always("the total is not 2", total.load() != 2))
            }
            Broken::Eventually => {
                Box::new(move |end| end.eventually("both stores are visible", total.load() == 2))
            }
            Broken::Panic => Box::new(|_| {}),
            Broken::Check => Box::new(move |_| assert!(total.load() != 2, "the total is 2")),
        };
        Prepared::new(main, check)
    }
}
