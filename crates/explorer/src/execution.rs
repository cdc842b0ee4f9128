//! One run: a fresh machine, the strategy that makes its choices, the trail and the verdict.
//!
//! Order: 1. the machine is built and the scenario prepared; 2. it runs to its end; 3. the verdict
//! is formed; 4. everything is dropped, because a thread holds one machine at a time. Callers:
//! `explore`, `verify`, `shrink`, `machine`.

use crate::lane::{Group, Lane};
use crate::property::{Failure, Rules, Verdict};
use crate::quiet::Quiet;
use crate::scenario::{Prepared, Scenario};
use crate::sharing::{Sharing, bit};
use crate::strategy::Strategy;
use std::cell::RefCell;
use std::rc::Rc;
use tidegate_platform::{
    AgentIx, Choice, Controller, MemoryModel, Object, OpKind, Platform, Point,
};

/// The choices of a run.
#[derive(Clone, Default)]
pub(crate) struct Trail {
    pub(crate) choices: Vec<u16>,
    /// State hash at each choice, in a replay.
    pub(crate) states: Vec<u64>,
}

impl Trail {
    /// Returns a checksum of the last state and the number of choices.
    pub(crate) fn checksum(&self) -> u32 {
        let last = self.states.last().copied().unwrap_or(0);
        let mixed = (last ^ self.choices.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as u32
    }

    /// Returns the index of the first choice at which the trails differ. The states count where
    /// both trails have them.
    pub(crate) fn diverges_from(&self, other: &Trail) -> Option<u64> {
        let choices = first_difference(&self.choices, &other.choices);
        match self.states.is_empty() || other.states.is_empty() {
            true => choices,
            false => first_difference(&self.states, &other.states).or(choices),
        }
    }
}

fn first_difference<T: PartialEq>(one: &[T], other: &[T]) -> Option<u64> {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    (same < one.len().max(other.len())).then_some(same as u64)
}

struct Controls<S> {
    strategy: S,
    trail: Trail,
    /// Whether the trail has states. Hashing them takes a third of a step.
    keeps_states: bool,
    /// Finds choices that need no decision. `None` leaves every choice to the strategy.
    sharing: Option<Sharing>,
    /// One for all agents, or one for each group that is searched by itself.
    lanes: Vec<Lane>,
    /// Whether runs do not build on each other and no choice is decided without the strategy.
    samples: bool,
    /// Number of the first choice at which a run does not repeat an earlier one.
    diverged_at: Option<u64>,
}

impl<S: Strategy> Controls<S> {
    fn choose(&mut self, point: &Point<'_>) -> usize {
        if self.samples {
            return self.strategy.choose(point);
        }
        if self.lanes.len() > 1 {
            return self.choose_of_group(point);
        }
        self.choose_in_lane(0, point)
    }

    /// Chooses in one lane. A run that does not repeat the previous one is noted, and goes on.
    fn choose_in_lane(&mut self, group: usize, point: &Point<'_>) -> usize {
        let lane = &mut self.lanes[group];
        let chosen = lane.choose(group, &mut self.strategy, &mut self.sharing, point);
        chosen.unwrap_or_else(|()| {
            self.diverged_at.get_or_insert(self.trail.choices.len() as u64);
            0
        })
    }

    /// Chooses in the first group that can move. A group that has one choice makes it.
    fn choose_of_group(&mut self, point: &Point<'_>) -> usize {
        let agents_of = |choice: &Choice| bit(choice.agent());
        let movers = point.choices.iter().fold(0, |all, choice| all | agents_of(choice));
        let group = self.lanes.iter().position(|lane| lane.agents & movers != 0).unwrap_or(0);
        let lane = &mut self.lanes[group];
        let mut choices = std::mem::take(&mut lane.choices);
        choices.clear();
        choices.extend(point.choices.iter().filter(|c| lane.agents & agents_of(c) != 0));
        let current = point.current.filter(|agent| lane.agents & bit(*agent) != 0);
        let agents = &Group { all: point.agents, agents: lane.agents };
        let of_group = Point { choices: &choices, agents, current, ..*point };
        let chosen = match choices.len() {
            1 => 0,
            _ => self.choose_in_lane(group, &of_group),
        };
        let chosen = choices.get(chosen).unwrap_or(&choices[0]);
        let index = point.choices.iter().position(|choice| choice == chosen);
        self.lanes[group].choices = choices;
        index.unwrap_or(0)
    }

    /// Begins a run, which repeats the previous one up to the strategy's last node.
    fn begin_run(&mut self) {
        self.trail.choices.clear();
        self.trail.states.clear();
        if let Some(sharing) = &mut self.sharing {
            sharing.begin_run();
        }
        let is_one_group = self.lanes.len() == 1 && !self.strategy.searches_groups();
        self.samples =
            is_one_group && self.sharing.is_none() && self.strategy.resumes_at(0).is_none();
        for (group, lane) in self.lanes.iter_mut().enumerate() {
            lane.begin_run(group, &self.strategy, &mut self.sharing);
        }
    }

    /// Adopts the groups that are known, at the start of a search.
    fn adopt_groups(&mut self) {
        self.diverged_at = None;
        let known = self.sharing.as_ref().map_or(&[][..], Sharing::groups);
        let known = if self.strategy.searches_groups() { known } else { &[] };
        self.lanes.clear();
        self.lanes.extend(known.iter().map(|agents| Lane::of(*agents)));
        let rest = known.iter().fold(u64::MAX, |rest, agents| rest & !agents);
        if rest != 0 {
            self.lanes.push(Lane::of(rest));
        }
    }
}

struct Handle<S>(Rc<RefCell<Controls<S>>>);

impl<S: Strategy> Controller for Handle<S> {
    fn choose(&mut self, point: &Point<'_>) -> usize {
        let controls = &mut *self.0.borrow_mut();
        let chosen = controls.choose(point);
        let index = if chosen < point.choices.len() { chosen } else { 0 };
        controls.trail.choices.push(index as u16);
        if controls.keeps_states {
            controls.trail.states.push(point.state());
        }
        index
    }

    fn observes(&self) -> bool {
        self.0.borrow().sharing.is_some()
    }

    fn touched(&mut self, agent: AgentIx, op: OpKind, object: Object) {
        if let Some(sharing) = &mut self.0.borrow_mut().sharing {
            sharing.touched(agent, op, object);
        }
    }

    fn forgot(&mut self, agent: AgentIx, position: u32) {
        if let Some(sharing) = &mut self.0.borrow_mut().sharing {
            sharing.forgot(agent, position);
        }
    }

    fn related_all(&mut self) {
        if let Some(sharing) = &mut self.0.borrow_mut().sharing {
            sharing.relate_all();
        }
    }
}

/// The outcome of one run.
pub(crate) struct Ran {
    pub(crate) failure: Option<Failure>,
    /// Number of visible steps.
    pub(crate) steps: u64,
    /// Hash of the final state.
    pub(crate) end: u64,
}

/// Makes runs with one strategy.
pub(crate) struct Runner<S> {
    controls: Rc<RefCell<Controls<S>>>,
    model: MemoryModel,
    /// Marks that any run has reached.
    pub(crate) reached: Vec<&'static str>,
}

impl<S: Strategy + 'static> Runner<S> {
    pub(crate) fn new(strategy: S, model: MemoryModel) -> Runner<S> {
        let controls = Controls {
            strategy,
            trail: Trail::default(),
            keeps_states: false,
            sharing: None,
            lanes: vec![Lane::of(u64::MAX)],
            samples: false,
            diverged_at: None,
        };
        Runner { controls: Rc::new(RefCell::new(controls)), model, reached: Vec::new() }
    }

    /// Enables reduction: the strategy is no longer asked about steps that commute with all others.
    /// `groups_apart` lets it search groups of agents that share nothing by themselves.
    pub(crate) fn reduce(&mut self, groups_apart: bool) {
        let mut sharing = Sharing::default();
        if groups_apart {
            sharing.find_groups();
        }
        self.controls.borrow_mut().sharing = Some(sharing);
    }

    /// Begins a pass of the strategy from its start, with what is known about sharing.
    pub(crate) fn begin_pass(&self) {
        self.controls.borrow_mut().adopt_groups();
    }

    /// Returns the number of groups that are known to share nothing, at least 1.
    pub(crate) fn groups(&self) -> u64 {
        let controls = self.controls.borrow();
        controls.sharing.as_ref().map_or(1, |sharing| sharing.groups().len().max(1) as u64)
    }

    /// Returns the index of the first choice at which a run diverged from an earlier one.
    pub(crate) fn diverged_at(&self) -> Option<u64> {
        let controls = self.controls.borrow();
        controls.diverged_at.or_else(|| controls.strategy.diverged_at())
    }

    /// Keeps the states of runs in their trails.
    pub(crate) fn keep_states(self) -> Runner<S> {
        self.controls.borrow_mut().keeps_states = true;
        self
    }

    pub(crate) fn is_reduced(&self) -> bool {
        self.controls.borrow().sharing.is_some()
    }

    /// Whether a run since the last call has shown that a step assumed to commute does not.
    pub(crate) fn take_refuted(&self) -> bool {
        self.controls.borrow_mut().sharing.as_mut().is_some_and(Sharing::take_refuted)
    }

    /// Replaces the strategy. Returns the previous one.
    pub(crate) fn exchange_strategy(&self, strategy: S) -> S {
        std::mem::replace(&mut self.controls.borrow_mut().strategy, strategy)
    }

    pub(crate) fn strategy<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        f(&mut self.controls.borrow_mut().strategy)
    }

    pub(crate) fn trail<R>(&self, f: impl FnOnce(&Trail) -> R) -> R {
        f(&self.controls.borrow().trail)
    }

    /// Returns a fresh machine under this runner's strategy.
    pub(crate) fn machine(&self) -> Platform {
        self.controls.borrow_mut().begin_run();
        Platform::explored(Box::new(Handle(Rc::clone(&self.controls))), self.model)
    }

    /// Runs a prepared scenario on `platform`.
    pub(crate) fn finish(&mut self, platform: &Platform, prepared: Prepared) -> Ran {
        let Prepared { main, check, may_block, of_program } = prepared;
        // The set-up is not silenced: its panics are no failures of a schedule.
        let _quiet = if of_program { Quiet::with_places() } else { Quiet::new() };
        let report = platform.run(main);
        let rules = Rules { may_block, of_program };
        let failure = Verdict::of(&report, rules, &mut self.reached).judge(check);
        Ran { failure, steps: report.steps, end: report.state }
    }

    pub(crate) fn run(&mut self, scenario: &dyn Scenario) -> Ran {
        let platform = self.machine();
        let prepared = scenario.prepare(&platform);
        self.finish(&platform, prepared)
    }
}
