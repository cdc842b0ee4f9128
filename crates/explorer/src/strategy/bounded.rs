//! Depth-first search over schedules with few forced switches: first none, then one, and so on.
//!
//! **Guarantee.** After round c, every state reachable with at most c forced switches was reached.
//! A failure found in round c needs c switches. A forced switch runs another agent although the
//! last one could continue; flushes of stores cost nothing. Steps that commute with all others are
//! taken at once and are no switches (`decisions/0147`). Most bugs need one or two switches:
//! Musuvathi and Qadeer, "Iterative context bounding for systematic testing of multithreaded
//! programs", PLDI 2007.
//!
//! A state is pruned only if it was seen with the same last agent and at least as many switches
//! left. If the last agent cannot continue, it is not known here, and it may cost one switch once a
//! flush unblocks it. One more switch must then have been left.

use super::{Coverage, Finish, Strategy};
use crate::prune::{Seen, SeenWithBudget};
use tidegate_platform::{Choice, Point};

struct Node {
    choice: u16,
    width: u16,
    state: u64,
    /// Switches left before this choice.
    left: u32,
    /// Bit mask of the choices that are not forced switches.
    free: u64,
}

/// Searches up to a number of forced switches.
pub struct Bounded {
    most: u32,
    bound: u32,
    /// Whether the current round skipped a choice for lack of switches.
    cut: bool,
    path: Vec<Node>,
    depth: usize,
    left: u32,
    best: SeenWithBudget,
    states: Seen,
    started: bool,
    over: bool,
    finish: Finish,
    diverged_at: Option<u64>,
}

/// Number of choices in the bit mask. Later choices count as forced switches.
const NOTED: usize = 64;

impl Bounded {
    /// Allows at most `switches` forced switches per run.
    pub fn new(switches: u32) -> Bounded {
        Bounded {
            most: switches,
            bound: 0,
            cut: false,
            path: Vec::new(),
            depth: 0,
            left: 0,
            best: SeenWithBudget::default(),
            states: Seen::default(),
            started: false,
            over: false,
            finish: Finish::default(),
            diverged_at: None,
        }
    }

    fn next_round(&mut self) -> bool {
        if !self.cut || self.bound == self.most {
            return false;
        }
        self.bound += 1;
        self.cut = false;
        self.best.clear();
        true
    }

    /// Moves to the next choice of the last node that has one, or to the next round.
    fn advance(&mut self) -> bool {
        self.over = false;
        self.finish.restart();
        self.left = self.bound;
        if !self.started {
            self.started = true;
            return true;
        }
        while let Some(node) = self.path.last_mut() {
            node.choice += 1;
            while node.choice < node.width
                && Bounded::cost(node.free, usize::from(node.choice)) > node.left
            {
                self.cut = true;
                node.choice += 1;
            }
            if node.choice < node.width {
                return true;
            }
            self.path.pop();
        }
        let more = self.next_round();
        self.left = self.bound;
        more
    }

    /// Returns the number of switches that the choice costs at this node, 0 or 1.
    fn cost(free: u64, choice: usize) -> u32 {
        u32::from(choice >= NOTED || free & 1 << choice == 0)
    }

    fn free_choices(point: &Point<'_>) -> u64 {
        let Some(current) = point.current else { return u64::MAX };
        let choices = point.choices.iter().take(NOTED).enumerate();
        let free =
            |choice: &Choice| choice.agent() == current || matches!(choice, Choice::Flush(_));
        choices.fold(0, |bits, (index, choice)| bits | u64::from(free(choice)) << index)
    }
}

impl Strategy for Bounded {
    fn begin(&mut self) -> bool {
        let more = self.advance();
        // The run repeats the choices before the last node.
        self.depth = self.path.len().saturating_sub(1);
        more
    }

    fn restart(&mut self) {
        *self = Bounded::new(self.most);
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
        if self.over {
            return self.finish.choose(point);
        }
        let (depth, state) = (self.depth, point.state());
        self.depth += 1;
        if let Some(node) = self.path.get(depth) {
            if node.state != state || usize::from(node.width) != point.choices.len() {
                self.diverged_at.get_or_insert(depth as u64);
                self.over = true;
                return 0;
            }
            self.left = node.left - Bounded::cost(node.free, usize::from(node.choice));
            return usize::from(node.choice);
        }
        self.states.insert(state);
        let current = point.current.map_or(0, |a| u64::from(a.0) + 1);
        let key = state ^ current.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
        // Stored plus one, because 0 means that the state was not seen.
        let best = self.best.entry(key).or_insert(0);
        let enough = self.left + u32::from(point.current.is_none());
        if *best > enough {
            self.over = true;
            return self.finish.choose(point);
        }
        *best = (*best).max(self.left + 1);
        let free = Bounded::free_choices(point);
        // The first choice is always free: either it continues the current agent, or there is none.
        let width = point.choices.len() as u16;
        self.path.push(Node { choice: 0, width, state, left: self.left, free });
        0
    }

    fn resumes_at(&self, _group: usize) -> Option<usize> {
        Some(self.path.len())
    }

    fn is_finishing(&self, _group: usize) -> bool {
        self.over
    }

    fn counts_switches(&self) -> bool {
        true
    }

    fn states(&self) -> u64 {
        self.states.len() as u64
    }

    fn coverage(&self) -> Coverage {
        if self.cut { Coverage::UpToSwitches(self.bound) } else { Coverage::Everything }
    }

    fn diverged_at(&self) -> Option<u64> {
        self.diverged_at
    }
}
