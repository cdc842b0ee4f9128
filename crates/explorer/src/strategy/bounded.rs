//! Depth-first search over the schedules with few forced switches: first none, then one, and so on.
//!
//! **Guarantee.** After bound c every state that can be reached with at most c forced switches has
//! been reached, and a failure that is found cannot be had with fewer switches than its round's
//! bound. A forced switch lets another agent take its step while the agent that moved last could go
//! on; stores leave their buffers at any time for nothing. Most bugs need one or two: Musuvathi and
//! Qadeer, "Iterative context bounding for systematic testing of multithreaded programs", PLDI
//! 2007.
//!
//! A state is pruned only when it was seen before with the same agent moving and at least as many
//! switches left. Where the last agent cannot go on, this room does not know which it was, and it may cost
//! one switch once a flush lets it go on: there, one switch more must have been left.

use super::{Coverage, Finish, Strategy};
use crate::prune::{Seen, SeenWithBudget};
use tidegate_platform::{Choice, Point};

struct Node {
    choice: u16,
    width: u16,
    state: u64,
    /// Switches left before this choice.
    left: u32,
    /// The choices that are no forced switch, a bit each.
    free: u64,
}

/// Up to a number of forced switches.
pub struct Bounded {
    most: u32,
    bound: u32,
    /// Some choice was left out for want of switches in the present round.
    cut: bool,
    path: Vec<Node>,
    depth: usize,
    left: u32,
    best: SeenWithBudget,
    states: Seen,
    started: bool,
    over: bool,
    finish: Finish,
    parted_at: Option<u64>,
}

/// Choices whose freedom one word can note; those beyond count as forced switches.
const NOTED: usize = 64;

impl Bounded {
    /// At most `switches` forced switches in a run.
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
            parted_at: None,
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

    /// What the choice costs at this node: 0 or 1.
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
        self.depth = 0;
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

    fn restart(&mut self) {
        *self = Bounded::new(self.most);
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
        if self.over {
            return self.finish.choose(point);
        }
        let depth = self.depth;
        self.depth += 1;
        if let Some(node) = self.path.get(depth) {
            if node.state != point.state || usize::from(node.width) != point.choices.len() {
                self.parted_at.get_or_insert(depth as u64);
                self.over = true;
                return 0;
            }
            self.left = node.left - Bounded::cost(node.free, usize::from(node.choice));
            return usize::from(node.choice);
        }
        self.states.insert(point.state);
        let current = point.current.map_or(0, |a| u64::from(a.0) + 1);
        let key = point.state ^ current.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
        // 0 stands for "not seen", so what is left is kept plus one.
        let best = self.best.entry(key).or_insert(0);
        let enough = self.left + u32::from(point.current.is_none());
        if *best > enough {
            self.over = true;
            return self.finish.choose(point);
        }
        *best = (*best).max(self.left + 1);
        let free = Bounded::free_choices(point);
        // The first choice is always free: it is the current agent's own step, or there is no
        // current agent.
        let width = point.choices.len() as u16;
        self.path.push(Node { choice: 0, width, state: point.state, left: self.left, free });
        0
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

    fn parted_at(&self) -> Option<u64> {
        self.parted_at
    }
}
