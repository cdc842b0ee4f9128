//! One run: a fresh machine, the strategy that makes its choices, the trail and the verdict.
//!
//! Order: 1. the machine is built and the scenario prepared; 2. it runs to its end; 3. the verdict
//! is formed; 4. everything is dropped, because a thread holds one machine at a time. Callers:
//! `explore`, `verify`, `shrink`, `machine`.

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
    /// The agent that the strategy last selected.
    mover: Option<AgentIx>,
    /// The choices offered to the strategy, each with its index among all.
    order: Vec<(u16, Choice)>,
    choices: Vec<Choice>,
}

impl<S: Strategy> Controls<S> {
    fn choose(&mut self, point: &Point<'_>) -> usize {
        let Some(sharing) = &mut self.sharing else { return self.strategy.choose(point) };
        if let Some(index) = sharing.commuting(point) {
            return index;
        }
        let found = matches!(point.choices[0], Choice::Find(..));
        let counts = self.strategy.counts_switches();
        let group = if found || counts { None } else { sharing.closed_group(point) };
        let index = if group.is_none() && self.mover == point.current || found {
            self.strategy.choose(point)
        } else {
            self.choose_among(group.unwrap_or(u64::MAX), point)
        };
        if let Some(Choice::Run(agent)) = point.choices.get(index) {
            self.mover = Some(*agent);
        }
        index
    }

    /// Leaves the choice among the agents of `group` to the strategy. Steps made without the
    /// strategy are no switches, so the choices are ordered as if those steps had not happened.
    fn choose_among(&mut self, group: u64, point: &Point<'_>) -> usize {
        let mover = self.mover;
        let all = (0..).zip(point.choices.iter().copied());
        self.order.clear();
        self.order.extend(all.filter(|(_, choice)| group & bit(choice.agent()) != 0));
        self.order.sort_by_key(|(_, choice)| {
            let flushes = matches!(choice, Choice::Flush(_));
            (flushes, Some(choice.agent()) != mover, choice.agent())
        });
        self.choices.clear();
        self.choices.extend(self.order.iter().map(|(_, choice)| *choice));
        let current = mover.filter(|agent| self.choices[0] == Choice::Run(*agent));
        let choices = &self.choices;
        let chosen = match choices.len() {
            1 => 0,
            _ => self.strategy.choose(&Point { choices, current, ..*point }),
        };
        usize::from(self.order[if chosen < choices.len() { chosen } else { 0 }].0)
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

    fn forwarded(&mut self, agent: AgentIx, object: Object) {
        if let Some(sharing) = &mut self.0.borrow_mut().sharing {
            sharing.forwarded(agent, object);
        }
    }

    fn forgot(&mut self, agent: AgentIx, position: u32) {
        if let Some(sharing) = &mut self.0.borrow_mut().sharing {
            sharing.forgot(agent, position);
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
            mover: None,
            order: Vec::new(),
            choices: Vec::new(),
        };
        Runner { controls: Rc::new(RefCell::new(controls)), model, reached: Vec::new() }
    }

    /// Enables reduction: the strategy is no longer asked about steps that commute with all others.
    pub(crate) fn reduce(&mut self) {
        self.controls.borrow_mut().sharing = Some(Sharing::default());
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
        let mut controls = self.controls.borrow_mut();
        controls.trail.choices.clear();
        controls.trail.states.clear();
        controls.mover = None;
        if let Some(sharing) = &mut controls.sharing {
            sharing.begin_run();
        }
        drop(controls);
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
