//! Makes a failing schedule smaller: fewer turns (choices that are not the first), then fewer
//! choices before the last turn, then smaller choices. Every schedule that is kept fails in the
//! same way.
//!
//! Delta debugging (Zeller and Hildebrandt, 2002) on the turns: chunks of turns are taken back,
//! from halves down to single turns; then chunks of choices are cut out; then choices are lowered.
//! This repeats until nothing helps or the runs are spent.

use crate::execution::{Runner, Trail};
use crate::property::Failure;
use crate::scenario::Scenario;
use crate::strategy::replay::Replay;

/// The smallest schedule found that fails with `failure`. Makes at most `runs_left` runs, while
/// `keep_going` says so.
pub(crate) fn shrink(
    scenario: &dyn Scenario,
    runner: &mut Runner<Replay>,
    failure: &Failure,
    trail: &Trail,
    (runs_left, keep_going): (u64, &dyn Fn() -> bool),
) -> Trail {
    let best = trail.clone();
    let mut work = Shrinking { scenario, runner, failure, best, runs_left, keep_going };
    loop {
        let before = work.size();
        work.take_back_turns();
        work.cut_out_choices();
        work.lower_choices();
        if work.size() == before || !work.may_go_on() {
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

/// Turns, choices up to the last turn, sum of the choices.
fn size(choices: &[u16]) -> (usize, usize, u64) {
    let turns = choices.iter().filter(|c| **c != 0).count();
    let end = choices.iter().rposition(|c| *c != 0).map_or(0, |last| last + 1);
    (turns, end, choices.iter().map(|c| u64::from(*c)).sum())
}

impl Shrinking<'_> {
    fn size(&self) -> (usize, usize, u64) {
        size(&self.best.choices)
    }

    fn may_go_on(&self) -> bool {
        self.runs_left > 0 && (self.keep_going)()
    }

    /// Keeps what a run of `choices` really chose, if it fails the same way and is smaller.
    fn try_choices(&mut self, choices: &[u16]) -> bool {
        if !self.may_go_on() {
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

    fn take_back_turns(&mut self) {
        let turns = |choices: &[u16]| -> Vec<usize> {
            (0..choices.len()).filter(|i| choices[*i] != 0).collect()
        };
        let mut chunk = self.size().0;
        while chunk > 0 && self.may_go_on() {
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

    fn cut_out_choices(&mut self) {
        let mut chunk = self.size().1 / 2;
        while chunk > 0 && self.may_go_on() {
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
        while at < self.size().1 && self.may_go_on() {
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
