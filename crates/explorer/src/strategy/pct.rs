//! Probabilistic concurrency testing: random priorities, and d-1 random change points at which the
//! mover with the highest priority drops below all others.
//!
//! **Guarantee.** In a scenario with n movers and k choices, each run finds a bug of depth d (it
//! needs d orderings between steps) with a probability of at least 1/(n k^(d-1)): Burckhardt,
//! Kothari, Musuvathi, Nagarakatte, "A randomized scheduler with probabilistic guarantees of
//! finding bugs", ASPLOS 2010. An agent and its store buffer are two movers here, so n is twice the
//! number of agents. k is the length of the longest run so far, and the first run has none.

use super::Strategy;
use crate::random_numbers::Numbers;
use tidegate_platform::{Choice, Point};

/// Probabilistic concurrency testing.
pub struct Pct {
    depth: u32,
    seed: u64,
    run: u64,
    numbers: Numbers,
    /// Priority of each mover; 0 if not drawn yet. The highest one moves.
    priorities: Vec<u64>,
    /// Choices at which the current mover's priority drops.
    changes: Vec<u64>,
    at: u64,
    longest: u64,
}

impl Pct {
    /// Creates a strategy for bugs of `depth` (at least 1).
    pub fn new(depth: u32, seed: u64) -> Pct {
        Pct {
            depth: depth.max(1),
            seed,
            run: 0,
            numbers: Numbers::new(seed),
            priorities: Vec::new(),
            changes: Vec::new(),
            at: 0,
            longest: 0,
        }
    }

    fn mover(choice: Choice) -> usize {
        let agent = usize::from(choice.agent().0);
        match choice {
            Choice::Flush(_) => 2 * agent + 1,
            _ => 2 * agent,
        }
    }

    /// Returns a mover's priority. Random ones are above all those assigned at change points.
    fn priority(&mut self, mover: usize) -> u64 {
        if self.priorities.len() <= mover {
            self.priorities.resize(mover + 1, 0);
        }
        if self.priorities[mover] == 0 {
            self.priorities[mover] = (self.numbers.draw() >> 1) + u64::from(self.depth) + 1;
        }
        self.priorities[mover]
    }

    /// Chooses the value of a load from hostile memory, which has no priority. Returns the value in
    /// memory every other time, so that runs make progress, and a random one otherwise.
    fn found(&mut self, point: &Point<'_>) -> usize {
        if self.numbers.below(2) == 0 {
            0
        } else {
            self.numbers.below(point.choices.len() as u64) as usize
        }
    }

    fn highest(&mut self, point: &Point<'_>) -> usize {
        let mut best = (0, 0);
        for (index, choice) in point.choices.iter().enumerate() {
            let priority = self.priority(Pct::mover(*choice));
            if priority > best.0 {
                best = (priority, index);
            }
        }
        best.1
    }
}

impl Strategy for Pct {
    fn begin(&mut self) -> bool {
        self.longest = self.longest.max(self.at);
        self.numbers = Numbers::new(Numbers::new(self.seed ^ self.run.rotate_left(32)).draw());
        self.run += 1;
        self.at = 0;
        self.priorities.clear();
        self.changes.clear();
        if self.longest > 0 {
            for _ in 1..self.depth {
                let change = self.numbers.below(self.longest);
                self.changes.push(change);
            }
        }
        true
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
        if matches!(point.choices[0], Choice::Find(..)) {
            return self.found(point);
        }
        let at = self.at;
        self.at += 1;
        for change in 0..self.changes.len() {
            if self.changes[change] == at {
                let falls = Pct::mover(point.choices[self.highest(point)]);
                self.priorities[falls] = change as u64 + 1;
            }
        }
        self.highest(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::{AgentIx, Agents, Object, OpKind, Site, WaitsFor};

    /// The strategy asks only for priorities.
    struct Unasked;

    impl Agents for Unasked {
        fn state(&self) -> u64 {
            unreachable!()
        }

        fn state_of(&self, _agents: u64) -> u64 {
            unreachable!()
        }

        fn count(&self) -> usize {
            unreachable!()
        }

        fn step(&self, _choice: Choice) -> (OpKind, Object) {
            unreachable!()
        }

        fn site(&self, _choice: Choice) -> Site {
            unreachable!()
        }

        fn waits_for(&self, _agent: AgentIx) -> WaitsFor {
            unreachable!()
        }
    }

    /// A run of three agents that can always move: where another agent goes on.
    fn switches(pct: &mut Pct, choices: u64) -> Vec<u64> {
        pct.begin();
        let all = [0, 1, 2].map(|agent| Choice::Run(AgentIx(agent)));
        let mut last = None;
        let mut moves = |step: &u64| {
            let point = Point { choices: &all, agents: &Unasked, current: None, step: *step };
            let chosen = pct.choose(&point);
            last.replace(chosen).is_some_and(|before| before != chosen)
        };
        (0..choices).filter(|step| moves(step)).collect()
    }

    #[test]
    fn a_run_has_one_change_fewer_than_its_depth() {
        for depth in 1..=3 {
            let mut pct = Pct::new(depth, 7);
            assert_eq!(switches(&mut pct, 50), [], "the length of a run is unknown");
            let most = (0..200).map(|_| switches(&mut pct, 50).len()).max();
            assert_eq!(most, Some(depth as usize - 1));
        }
    }

    #[test]
    fn changes_fall_anywhere_in_the_longest_run() {
        let mut pct = Pct::new(2, 7);
        switches(&mut pct, 100);
        let late = (0..100).filter(|_| {
            switches(&mut pct, 2);
            switches(&mut pct, 100).iter().any(|at| *at >= 50)
        });
        let late = late.count();
        assert!((30..70).contains(&late), "{late} of 100 in the second half");
    }
}
