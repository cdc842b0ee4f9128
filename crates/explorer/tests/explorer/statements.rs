//! Random programs with every kind of operation of the platform, as a scenario. `reference` says
//! what they may do.
//!
//! Invariants: a locked part contains no wait, so every lock is dropped. An agent observes at most
//! [`OBSERVED`] values. An agent whose wait is stopped returns.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use tidegate_explorer::{Options, Platform, Prepared, Probe, Report, Scenario, Strategy};
use tidegate_explorer::{Verdict, explore_with};
use tidegate_platform::{AgentHandle, Bulk, Event, Mutex, Step, WaitEnd, Word};

/// One statement of an agent. Numbers of words, events and locks are indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Load(usize),
    Store(usize, u64),
    Swap(usize, u64),
    /// Compares with the first value and stores the second.
    Compare(usize, u64, u64),
    Add(usize, u64),
    Or(usize, u64),
    And(usize, u64),
    /// Adds, and observes whether [`FLAG`] was set.
    AddAndTest(usize, u64),
    Fence,
    /// Sleeps while the word has the value; observes how the sleep ended.
    Sleep(usize, u32, Limit),
    Wake(usize, u32),
    Nap,
    Set(usize),
    Reset(usize),
    IsSet(usize),
    Take(usize),
    Await(usize, Limit),
    Any([usize; 2], Limit),
    All([usize; 2], Limit),
    Lock(usize),
    /// Drops the lock, if it is held.
    Unlock(usize),
    ReadBytes(u64),
    WriteBytes(u64, u64),
    AddToBytes(u64, u64),
    /// Observes the clock.
    Now,
    /// Waits for the end of this agent; a statement of `main`.
    Join(usize),
}

/// Whether a wait ends after a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    None,
    Nanosecond,
}

/// The bit that [`Op::AddAndTest`] observes.
pub const FLAG: u64 = 1 << 63;
pub const WORDS: usize = 3;
pub const EVENTS: usize = 3;
pub const LOCKS: usize = 2;
/// Bytes of the bulk memory, in words.
pub const BULK_WORDS: usize = 2;
/// Number of values that an agent may observe.
pub const OBSERVED: usize = 8;

/// What became of a run: the observations of each agent; the final words, bytes and events.
pub type Outcome = (Vec<Vec<u64>>, Vec<u64>);

/// The statements of each agent. Agent 0 is `main`, which starts the others.
#[derive(Clone, Debug)]
pub struct Statements {
    pub agents: Vec<Vec<Op>>,
    /// Whether each event is reset by hand.
    pub manual: [bool; EVENTS],
    /// Whether groups of agents that share nothing are searched by themselves.
    pub apart: bool,
    /// The outcome of each final state.
    seen: Rc<RefCell<BTreeMap<u64, Outcome>>>,
}

impl Statements {
    pub fn new(agents: Vec<Vec<Op>>) -> Statements {
        let seen = Rc::default();
        Statements { agents, manual: [false, false, true], apart: false, seen }
    }

    /// Returns the outcomes and the report of a search. What only the runs before the last pass
    /// reached does not count: a search that is complete reaches it again.
    pub fn search(
        &self,
        options: &Options<'_>,
        strategy: Box<dyn Strategy>,
    ) -> (BTreeSet<Outcome>, Report) {
        self.seen.borrow_mut().clear();
        let options = Options { keep_ends: true, ..*options };
        let report = explore_with(self, &options, strategy).unwrap();
        assert!(report.failure.is_none(), "{report:?}");
        let seen = self.seen.take().into_iter();
        let of_last_pass = seen.filter(|(end, _)| report.ends.contains(end));
        (of_last_pass.map(|(_, outcome)| outcome).collect(), report)
    }
}

#[derive(Clone)]
struct Things {
    platform: Platform,
    words: Vec<Word>,
    bulk: Bulk,
    locks: Vec<Arc<Mutex<()>>>,
    events: Vec<Event>,
    probe: Probe,
}

impl Things {
    fn new(platform: &Platform, manual: [bool; EVENTS]) -> Things {
        let page = platform.page(WORDS);
        let names = ["lock 0", "lock 1"];
        Things {
            platform: platform.clone(),
            words: (0..WORDS).map(|index| page.word(index)).collect(),
            bulk: platform.bulk(8 * BULK_WORDS),
            locks: names[..LOCKS].iter().map(|name| Arc::new(platform.mutex(name, ()))).collect(),
            events: manual.iter().map(|manual| platform.event(*manual)).collect(),
            probe: Probe::new(),
        }
    }

    /// Returns what the statement observes; an error if the machine stopped.
    fn perform(&self, op: Op) -> Result<Option<u64>, WaitEnd> {
        let word = |index: usize| &self.words[index];
        let event = |index: usize| &self.events[index];
        let both = |events: [usize; 2]| events.map(event);
        let until = |limit: Limit| match limit {
            Limit::None => None,
            Limit::Nanosecond => Some(self.platform.now().after(1)),
        };
        let ended = |end: WaitEnd| match end {
            WaitEnd::Stopped => Err(end),
            WaitEnd::TimedOut => Ok(Some(TIMED_OUT)),
            WaitEnd::Woken => Ok(Some(WOKEN)),
        };
        Ok(match op {
            Op::Load(at) => Some(word(at).load()),
            Op::Store(at, value) => {
                word(at).store(value);
                None
            }
            Op::Swap(at, value) => Some(word(at).exchange(value)),
            Op::Compare(at, from, to) => {
                let (Ok(old) | Err(old)) = word(at).compare_exchange(from, to);
                Some(old)
            }
            Op::Add(at, value) => Some(word(at).fetch_add(value)),
            Op::Or(at, bits) => Some(word(at).fetch_or(bits)),
            Op::And(at, bits) => Some(word(at).fetch_and(bits)),
            Op::AddAndTest(at, value) => Some(u64::from(word(at).add_and_test(value, FLAG))),
            Op::Fence => {
                self.platform.fence();
                None
            }
            Op::Sleep(at, value, limit) => {
                ended(word(at).wait_while(value, until(limit), "a wake"))?
            }
            Op::Wake(at, count) => {
                word(at).wake(count, Step::ThreadWake);
                None
            }
            Op::Nap => {
                self.platform.sleep_until(self.platform.now().after(1));
                None
            }
            Op::Set(at) => {
                event(at).set(Step::ThreadWake);
                None
            }
            Op::Reset(at) => {
                event(at).reset();
                None
            }
            Op::IsSet(at) => Some(u64::from(event(at).is_set())),
            Op::Take(at) => Some(u64::from(event(at).try_take())),
            Op::Await(at, limit) => ended(event(at).wait_for(until(limit), "an event"))?,
            Op::Any(events, limit) => {
                match Event::wait_any_for(&both(events), until(limit), "any event") {
                    Ok(index) => Some(index as u64),
                    Err(end) => ended(end)?,
                }
            }
            Op::All(events, limit) => {
                ended(Event::wait_all(&both(events), until(limit), "all events"))?
            }
            Op::Lock(_) | Op::Unlock(_) | Op::Join(_) => None,
            Op::Now => Some(self.platform.now().0),
            Op::ReadBytes(at) => Some(self.bulk.read_u64(8 * at).unwrap()),
            Op::WriteBytes(at, value) => {
                self.bulk.write_u64(8 * at, value).unwrap();
                None
            }
            Op::AddToBytes(at, value) => {
                Some(self.bulk.update(8 * at, 8, |old| old.wrapping_add(value)).unwrap())
            }
        })
    }

    fn run(&self, agent: usize, ops: &[Op], others: &[AgentHandle]) {
        let mut held: Vec<_> = (0..LOCKS).map(|_| None).collect();
        let mut note = agent * OBSERVED;
        for op in ops {
            match *op {
                Op::Lock(at) => held[at] = Some(self.locks[at].lock()),
                Op::Unlock(at) => held[at] = None,
                Op::Join(of) if others[of - 1].join() == WaitEnd::Stopped => return,
                _ => {}
            }
            match self.perform(*op) {
                Err(_) => return,
                Ok(None) => {}
                Ok(Some(value)) => {
                    self.probe.note(note, value);
                    note += 1;
                }
            }
        }
    }

    fn outcome(&self, agents: usize) -> Outcome {
        let of = |agent: usize| {
            let notes = agent * OBSERVED..(agent + 1) * OBSERVED;
            notes.map_while(|note| self.probe.seen(note)).collect()
        };
        let words = self.words.iter().map(Word::load);
        let bytes = (0..BULK_WORDS).map(|at| self.bulk.read_u64(8 * at as u64).unwrap());
        let events = self.events.iter().map(|event| u64::from(event.is_set()));
        ((0..agents).map(of).collect(), words.chain(bytes).chain(events).collect())
    }
}

/// Observations of waits, above all indices of events.
pub const WOKEN: u64 = 100;
pub const TIMED_OUT: u64 = 101;

impl Scenario for Statements {
    named!("statements", "agents run random statements");

    fn judges_groups_apart(&self) -> bool {
        self.apart
    }

    fn prepare(&self, platform: &Platform) -> Prepared {
        let things = Things::new(platform, self.manual);
        let (inside, seen) = (things.clone(), Rc::clone(&self.seen));
        let agents = self.agents.clone();
        let count = agents.len();
        let main = move || {
            let mut others = Vec::new();
            for (agent, ops) in agents.iter().enumerate().skip(1) {
                let (mine, ops) = (inside.clone(), ops.clone());
                let body = move || mine.run(agent, &ops, &[]);
                others.push(inside.platform.spawn("agent", body));
            }
            inside.run(0, &agents[0], &others);
        };
        Prepared::new(main, move |verdict: &mut Verdict<'_>| {
            seen.borrow_mut().insert(verdict.report().state, things.outcome(count));
        })
        .may_block()
    }
}
