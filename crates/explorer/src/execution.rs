//! Owns one run: a fresh machine, a strategy at its controls, the trail of what was chosen, the
//! verdict.
//!
//! The order that matters: 1. the machine is made and the scenario prepared; 2. run to its end; 3.
//! judged; 4. everything of it is dropped, since a thread holds one machine at a time. Who calls:
//! `explore`, `verify`, `shrink`.

use crate::property::{Failure, Verdict};
use crate::quiet::Quiet;
use crate::scenario::{Prepared, Scenario};
use crate::strategy::Strategy;
use std::cell::RefCell;
use std::rc::Rc;
use tidegate_platform::{Controller, MemoryModel, Platform, Point};

/// What was chosen in a run.
#[derive(Clone, Default)]
pub(crate) struct Trail {
    pub(crate) choices: Vec<u16>,
    /// State at each choice.
    pub(crate) states: Vec<u64>,
}

impl Trail {
    /// Of the state at the last choice and the number of choices.
    pub(crate) fn checksum(&self) -> u32 {
        let last = self.states.last().copied().unwrap_or(0);
        let mixed = (last ^ self.choices.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as u32
    }

    /// Number of the first choice that differs from `other`'s.
    pub(crate) fn parts_from(&self, other: &Trail) -> Option<u64> {
        let mine = self.choices.iter().zip(&self.states);
        let theirs = other.choices.iter().zip(&other.states);
        let same = mine.zip(theirs).take_while(|(a, b)| a == b).count();
        (same < self.states.len().max(other.states.len())).then_some(same as u64)
    }
}

struct Controls<S> {
    strategy: S,
    trail: Trail,
}

struct Handle<S>(Rc<RefCell<Controls<S>>>);

impl<S: Strategy> Controller for Handle<S> {
    fn choose(&mut self, point: &Point<'_>) -> usize {
        let mut controls = self.0.borrow_mut();
        let chosen = controls.strategy.choose(point);
        let index = if chosen < point.choices.len() { chosen } else { 0 };
        controls.trail.choices.push(index as u16);
        controls.trail.states.push(point.state);
        index
    }
}

/// How one run went.
pub(crate) struct Ran {
    pub(crate) failure: Option<Failure>,
    /// Visible steps.
    pub(crate) steps: u64,
}

/// Makes runs with one strategy.
pub(crate) struct Runner<S> {
    controls: Rc<RefCell<Controls<S>>>,
    model: MemoryModel,
    /// Marks reached by any run so far.
    pub(crate) reached: Vec<&'static str>,
}

impl<S: Strategy + 'static> Runner<S> {
    pub(crate) fn new(strategy: S, model: MemoryModel) -> Runner<S> {
        let controls = Rc::new(RefCell::new(Controls { strategy, trail: Trail::default() }));
        Runner { controls, model, reached: Vec::new() }
    }

    pub(crate) fn strategy<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        f(&mut self.controls.borrow_mut().strategy)
    }

    pub(crate) fn trail<R>(&self, f: impl FnOnce(&Trail) -> R) -> R {
        f(&self.controls.borrow().trail)
    }

    /// A fresh machine under this runner's strategy.
    pub(crate) fn machine(&self) -> Platform {
        let mut controls = self.controls.borrow_mut();
        controls.trail.choices.clear();
        controls.trail.states.clear();
        drop(controls);
        Platform::explored(Box::new(Handle(Rc::clone(&self.controls))), self.model)
    }

    /// Runs what was prepared on `platform`.
    pub(crate) fn finish(&mut self, platform: &Platform, prepared: Prepared) -> Ran {
        let Prepared { main, check, may_block } = prepared;
        // Not over the set-up: a panic there is no failure of a schedule but goes up to the caller.
        let _quiet = Quiet::new();
        let report = platform.run(main);
        let failure = Verdict::of(&report, may_block, &mut self.reached).judge(check);
        Ran { failure, steps: report.steps }
    }

    pub(crate) fn run(&mut self, scenario: &dyn Scenario) -> Ran {
        let platform = self.machine();
        let prepared = scenario.prepare(&platform);
        self.finish(&platform, prepared)
    }
}
