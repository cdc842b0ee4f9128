//! Shrinks a failing schedule: first to fewer turns (choices other than the first), then to fewer
//! choices before the last turn, then to smaller choices. Each accepted schedule fails in the same
//! way.
//!
//! Delta debugging (Zeller and Hildebrandt, 2002) on the turns. Chunks of turns are reverted, from
//! halves down to single turns. Then chunks of choices are removed, and then choices are lowered.
//! This repeats until no step helps or the runs are used up.

use crate::execution::{Runner, Trail};
use crate::property::Failure;
use crate::scenario::Scenario;
use crate::strategy::replay::Replay;

/// Returns the smallest schedule found that fails with `failure`. Makes at most `runs_left` runs
/// while `keep_going` returns true.
pub(crate) fn shrink(
    scenario: &dyn Scenario,
    runner: &mut Runner<Replay>,
    failure: &Failure,
    trail: &Trail,
    runs_left: u64,
    keep_going: &dyn Fn() -> bool,
) -> Trail {
    let best = trail.clone();
    let mut work = Shrinking { scenario, runner, failure, best, runs_left, keep_going };
    loop {
        let before = work.size();
        work.revert_turns();
        work.remove_choices();
        work.lower_choices();
        if work.size() == before || !work.has_budget() {
            return work.best;
        }
    }
}

struct Shrinking<'a> {
    scenario: &'a dyn Scenario,
    runner: &'a mut Runner<Replay>,
    failure: &'a Failure,
    best: Trail,
    runs_left: u64,
    keep_going: &'a dyn Fn() -> bool,
}

/// Number of turns, number of choices up to the last turn, sum of the choices.
fn size(choices: &[u16]) -> (usize, usize, u64) {
    let turns = choices.iter().filter(|c| **c != 0).count();
    let end = choices.iter().rposition(|c| *c != 0).map_or(0, |last| last + 1);
    (turns, end, choices.iter().map(|c| u64::from(*c)).sum())
}

impl Shrinking<'_> {
    fn size(&self) -> (usize, usize, u64) {
        size(&self.best.choices)
    }

    fn has_budget(&self) -> bool {
        self.runs_left > 0 && (self.keep_going)()
    }

    /// Runs `choices` and keeps the resulting trail if it is smaller and fails in the same way.
    fn try_choices(&mut self, choices: &[u16]) -> bool {
        if !self.has_budget() {
            return false;
        }
        self.runs_left -= 1;
        self.runner.strategy(|s| s.set(choices));
        let ran = self.runner.run(self.scenario);
        let trail = self.runner.trail(Trail::clone);
        let better =
            ran.failure.as_ref() == Some(self.failure) && size(&trail.choices) < self.size();
        if better {
            self.best = trail;
        }
        better
    }

    fn revert_turns(&mut self) {
        let turns = |choices: &[u16]| -> Vec<usize> {
            (0..choices.len()).filter(|i| choices[*i] != 0).collect()
        };
        let mut chunk = self.size().0;
        while chunk > 0 && self.has_budget() {
            let (mut at, mut places) = (0, turns(&self.best.choices));
            while at < places.len() {
                let mut candidate = self.best.choices.clone();
                for place in places.iter().skip(at).take(chunk) {
                    candidate[*place] = 0;
                }
                if self.try_choices(&candidate) {
                    places = turns(&self.best.choices);
                } else {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }

    fn remove_choices(&mut self) {
        let mut chunk = self.size().1 / 2;
        while chunk > 0 && self.has_budget() {
            let mut at = 0;
            while at < self.size().1 {
                let end = self.size().1;
                let mut candidate = self.best.choices[..end].to_vec();
                candidate.drain(at..end.min(at + chunk));
                if !self.try_choices(&candidate) {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }

    fn lower_choices(&mut self) {
        let mut at = 0;
        while at < self.size().1 && self.has_budget() {
            for lower in 1..self.best.choices[at] {
                let mut candidate = self.best.choices.clone();
                candidate[at] = lower;
                if self.try_choices(&candidate) {
                    break;
                }
            }
            at += 1;
        }
    }
}
