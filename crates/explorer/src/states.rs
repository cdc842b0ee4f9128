//! The states of a search in words, so that two searches of different sizes can be compared.
//!
//! A state is a hash. Its words are the position of each agent: the step that it takes next, or
//! what it waits for. Many states share their words; a line has the number of its states. A
//! scenario with many combinations of positions has a line for each position of each agent, so a
//! list stays short.
//!
//! Invariant: the strategy below chooses as if its states were not listed, so the list has as many
//! states as the search counts.
//!
//! Entry points: [`list_states`], [`StateList::compare`].

use crate::error::ExplorerError;
use crate::explore::{Options, Report, explore, explore_with};
use crate::scenario::{Prepared, Scenario};
use crate::strategy::{Coverage, Strategy, StrategyKind};
use crate::verify::step_in_words;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::rc::Rc;
use tidegate_platform::{AgentIx, Choice, Object, OpKind, Platform, Point, StepLog, WaitsFor};

/// The most lines of a list of combined positions.
const MOST_COMBINED: usize = 120;

/// The states of a search in words, each line with its number of states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateList {
    /// The number of states.
    pub states: u64,
    lines: BTreeMap<String, u64>,
}

/// Where an agent is in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Its next step; whether stores are in its buffer.
    Step(OpKind, Object, bool),
    Waits(WaitsFor),
    Ended,
}

impl Position {
    fn of(agent: AgentIx, point: &Point<'_>) -> Position {
        let stores = point.choices.contains(&Choice::Flush(agent));
        let step = |stores| {
            let (op, object) = point.agents.step(Choice::Run(agent));
            Position::Step(op, object, stores)
        };
        if point.choices.contains(&Choice::Run(agent)) {
            return step(stores);
        }
        match point.agents.waits_for(agent) {
            WaitsFor::Nothing if stores => step(stores),
            WaitsFor::Nothing => Position::Ended,
            waits => Position::Waits(waits),
        }
    }

    fn object(self) -> Object {
        match self {
            Position::Step(_, object, _) | Position::Waits(WaitsFor::Word(object)) => object,
            Position::Waits(WaitsFor::Lock(lock)) => Object::Mutex(lock),
            _ => Object::None,
        }
    }
}

/// What a search meets.
#[derive(Default)]
struct Met {
    known: HashSet<(usize, u64)>,
    /// The number of states by the positions of all agents of the group.
    combined: BTreeMap<Vec<(u16, u32)>, u64>,
    positions: Vec<Position>,
    names: BTreeMap<u32, String>,
    agents: Vec<String>,
}

impl Met {
    fn add(&mut self, group: usize, point: &Point<'_>) {
        if !self.known.insert((group, point.state())) {
            return;
        }
        let mut positions = Vec::new();
        for agent in (0..point.agents.count()).map(|agent| AgentIx(agent as u16)) {
            let position = Position::of(agent, point);
            let known = self.positions.iter().position(|known| *known == position);
            let number = known.unwrap_or_else(|| {
                self.positions.push(position);
                self.positions.len() - 1
            });
            positions.push((agent.0, number as u32));
        }
        *self.combined.entry(positions).or_default() += 1;
    }

    /// Takes the names of a finished run.
    fn name(&mut self, log: &StepLog) {
        for (number, position) in (0u32..).zip(&self.positions) {
            let name = || match *position {
                Position::Step(op, object, stores) => {
                    let after = if stores { ", with stores in its buffer" } else { "" };
                    format!("{}{after}", step_in_words(op, object, log))
                }
                Position::Waits(waits) => format!("waits for {}", awaited(waits, log)),
                Position::Ended => "has ended".to_owned(),
            };
            // An object that this run did not make has no name in its log.
            let is_named = |words: &str| !words.contains("of page ");
            let words = self.names.entry(number).or_insert_with(name);
            if !is_named(words) && is_named(&log.name_of(position.object())) {
                *words = name();
            }
        }
        if log.agents.len() > self.agents.len() {
            self.agents.clone_from(&log.agents);
        }
    }

    fn in_words(&self, (agent, position): (u16, u32)) -> String {
        let name = self.agents.get(usize::from(agent)).map_or("an agent", String::as_str);
        let position = self.names.get(&position).map_or("", String::as_str);
        format!("{name} {position}")
    }

    fn list(&self) -> StateList {
        let mut lines = BTreeMap::new();
        for (positions, states) in &self.combined {
            let words = positions.iter().map(|position| self.in_words(*position));
            if self.combined.len() <= MOST_COMBINED {
                *lines.entry(words.collect::<Vec<_>>().join(" | ")).or_default() += states;
            } else {
                for word in words {
                    *lines.entry(word).or_default() += states;
                }
            }
        }
        StateList { states: self.known.len() as u64, lines }
    }
}

fn awaited(waits: WaitsFor, log: &StepLog) -> String {
    match waits {
        WaitsFor::Nothing => String::new(),
        WaitsFor::Word(word) => format!("a wake on {}", log.name_of(word)),
        WaitsFor::Lock(lock) => log.name_of(Object::Mutex(lock)),
        WaitsFor::Clock => "the clock".to_owned(),
        WaitsFor::End(agent) | WaitsFor::Stores(agent) => {
            let name = log.agents.get(usize::from(agent.0)).map_or("an agent", String::as_str);
            let what = if matches!(waits, WaitsFor::End(_)) { "end" } else { "stores" };
            format!("the {what} of {name}")
        }
    }
}

/// A strategy whose states are listed.
struct Listed {
    below: Box<dyn Strategy>,
    met: Rc<RefCell<Met>>,
}

impl Strategy for Listed {
    fn begin(&mut self) -> bool {
        self.below.begin()
    }
    fn restart(&mut self) {
        let mut met = self.met.borrow_mut();
        met.known.clear();
        met.combined.clear();
        self.below.restart();
    }
    fn choose(&mut self, point: &Point<'_>) -> usize {
        self.choose_in(0, point)
    }
    fn choose_in(&mut self, group: usize, point: &Point<'_>) -> usize {
        if !self.below.is_finishing(group) {
            self.met.borrow_mut().add(group, point);
        }
        self.below.choose_in(group, point)
    }
    fn searches_groups(&self) -> bool {
        self.below.searches_groups()
    }
    fn resumes_at(&self, group: usize) -> Option<usize> {
        self.below.resumes_at(group)
    }
    fn is_finishing(&self, group: usize) -> bool {
        self.below.is_finishing(group)
    }
    fn counts_switches(&self) -> bool {
        self.below.counts_switches()
    }
    fn states(&self) -> u64 {
        self.below.states()
    }
    fn coverage(&self) -> Coverage {
        self.below.coverage()
    }
    fn diverged_at(&self) -> Option<u64> {
        self.below.diverged_at()
    }
}

/// A scenario whose machines name their objects in the log of steps.
struct Named<'a> {
    scenario: &'a dyn Scenario,
    met: Rc<RefCell<Met>>,
}

impl Scenario for Named<'_> {
    fn name(&self) -> &str {
        self.scenario.name()
    }
    fn about(&self) -> &str {
        self.scenario.about()
    }
    fn marks(&self) -> &[&'static str] {
        self.scenario.marks()
    }
    fn judges_groups_apart(&self) -> bool {
        self.scenario.judges_groups_apart()
    }
    fn prepare(&self, platform: &Platform) -> Prepared {
        platform.enable_tracing();
        let mut prepared = self.scenario.prepare(platform);
        let (met, platform, check) = (Rc::clone(&self.met), platform.clone(), prepared.check);
        prepared.check = Box::new(move |verdict| {
            met.borrow_mut().name(&platform.take_steps());
            check(verdict);
        });
        prepared
    }
}

/// Number of traced runs that name the objects. They come after the search, because a traced
/// machine may take other steps.
const NAMING_RUNS: u64 = 40;

/// Searches `scenario` as [`crate::explore()`] does, and lists the states that it meets.
///
/// # Errors
/// As [`crate::explore()`].
pub fn list_states(
    scenario: &dyn Scenario,
    options: &Options<'_>,
) -> Result<(StateList, Report), ExplorerError> {
    let met = Rc::new(RefCell::new(Met::default()));
    let below = options.strategy.build(options.seed);
    let listed = Box::new(Listed { below, met: Rc::clone(&met) });
    let report = explore_with(scenario, options, listed)?;
    let named = Named { scenario, met: Rc::clone(&met) };
    let naming = StrategyKind::Random;
    let naming = Options { strategy: naming, max_runs: NAMING_RUNS, shrink_runs: 0, ..*options };
    explore(&named, &naming)?;
    let list = met.borrow().list();
    Ok((list, report))
}

impl StateList {
    /// Parses what [`StateList`] prints.
    pub fn parse(text: &str) -> Option<StateList> {
        let mut rows = text.lines().map(|line| line.split_once(' '));
        let states = rows.next()??.0.parse().ok()?;
        let lines = rows.map(|row| {
            let (number, words) = row?;
            Some((words.to_owned(), number.parse().ok()?))
        });
        Some(StateList { states, lines: lines.collect::<Option<_>>()? })
    }

    /// Lists what came, went or changed since `old`, one line each; empty if nothing did.
    pub fn compare(&self, old: &StateList) -> Vec<String> {
        let all: BTreeSet<&String> = self.lines.keys().chain(old.lines.keys()).collect();
        let row = |words: &String| {
            let of = |list: &StateList| list.lines.get(words).copied();
            match (of(old), of(self)) {
                (None, Some(now)) => Some(format!("came: {words} ({now} states)")),
                (Some(then), None) => Some(format!("went: {words} ({then} states)")),
                (then, now) if then == now => None,
                (then, now) => Some(format!(
                    "was {}, is {}: {words}",
                    then.unwrap_or_default(),
                    now.unwrap_or_default()
                )),
            }
        };
        all.into_iter().filter_map(row).collect()
    }
}

impl fmt::Display for StateList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} states", self.states)?;
        self.lines.iter().try_for_each(|(words, states)| writeln!(f, "{states} {words}"))
    }
}
