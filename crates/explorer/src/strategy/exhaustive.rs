//! Depth-first search over all choices, with pruning of states.
//!
//! **Guarantee.** At its end, every state reachable under the memory model was reached, so every
//! bug visible in a state, a blocked end or a panic was found. This relies on complete states
//! (memory, buffers, locks, agent histories) and on the absence of hash collisions. Time advances
//! only when no agent is runnable, so a deadline never races with a wake-up.
//!
//! The search is stateless in the sense of Godefroid (VeriSoft, POPL 1997): it returns to a state
//! by repeating a prefix. Pruning by the histories of all agents works as a happens-before cache
//! (Musuvathi and Qadeer, "Partial-order reduction for context-bounded state exploration", 2007). A
//! run that reaches a known state is finished without branching.
//!
//! Groups of agents that share nothing have a search each. All of them advance in each run, so the
//! number of runs is the largest group's.

use super::{Coverage, Finish, Strategy};
use crate::prune::Seen;
use tidegate_platform::Point;

struct Node {
    choice: u16,
    width: u16,
    state: u64,
}

/// The search of one group of agents, or of all.
#[derive(Default)]
struct Tree {
    path: Vec<Node>,
    depth: usize,
    seen: Seen,
    /// Whether the rest of this run only finishes it.
    left: bool,
    finish: Finish,
    diverged_at: Option<u64>,
}

impl Tree {
    /// Moves to the next choice of the last node that has one.
    fn advance(&mut self) -> bool {
        self.finish.restart();
        while let Some(node) = self.path.last_mut() {
            node.choice += 1;
            if node.choice < node.width {
                break;
            }
            self.path.pop();
        }
        self.left = self.path.is_empty();
        // The run repeats the choices before the last node.
        self.depth = self.path.len().saturating_sub(1);
        !self.left
    }

    fn choose(&mut self, point: &Point<'_>, prune: bool) -> usize {
        if self.left {
            return self.finish.choose(point);
        }
        let (depth, state) = (self.depth, point.state());
        self.depth += 1;
        if let Some(node) = self.path.get(depth) {
            if node.state != state || usize::from(node.width) != point.choices.len() {
                self.diverged_at.get_or_insert(depth as u64);
                self.left = true;
                return 0;
            }
            return usize::from(node.choice);
        }
        if !self.seen.insert(state) && prune {
            self.left = true;
            return self.finish.choose(point);
        }
        self.path.push(Node { choice: 0, width: point.choices.len() as u16, state });
        0
    }
}

/// Searches everything, depth first.
pub struct Exhaustive {
    groups: Vec<Tree>,
    prune: bool,
    started: bool,
}

impl Exhaustive {
    /// Creates a search with pruning.
    pub fn new() -> Exhaustive {
        Exhaustive { groups: Vec::new(), prune: true, started: false }
    }

    /// Creates a search of every single schedule. Only for tests of the pruning.
    pub fn without_pruning() -> Exhaustive {
        Exhaustive { prune: false, ..Exhaustive::new() }
    }
}

impl Default for Exhaustive {
    fn default() -> Exhaustive {
        Exhaustive::new()
    }
}

impl Strategy for Exhaustive {
    fn begin(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.started, true);
        self.groups.iter_mut().fold(is_first, |more, tree| tree.advance() || more)
    }

    fn restart(&mut self) {
        *self = Exhaustive { prune: self.prune, ..Exhaustive::new() };
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
        self.choose_in(0, point)
    }

    fn choose_in(&mut self, group: usize, point: &Point<'_>) -> usize {
        while self.groups.len() <= group {
            self.groups.push(Tree::default());
        }
        self.groups[group].choose(point, self.prune)
    }

    fn searches_groups(&self) -> bool {
        true
    }

    fn resumes_at(&self, group: usize) -> Option<usize> {
        Some(self.groups.get(group).map_or(0, |tree| tree.path.len()))
    }

    fn is_finishing(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(|tree| tree.left)
    }

    fn states(&self) -> u64 {
        self.groups.iter().map(|tree| tree.seen.len() as u64).sum()
    }

    fn coverage(&self) -> Coverage {
        Coverage::Everything
    }

    fn diverged_at(&self) -> Option<u64> {
        self.groups.iter().find_map(|tree| tree.diverged_at)
    }
}
