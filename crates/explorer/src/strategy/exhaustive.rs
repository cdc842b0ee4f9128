//! Depth-first search over all choices, with pruning of states.
//!
//! **Guarantee.** At its end, every state reachable under the memory model was reached, so every
//! bug visible in a state, a blocked end or a panic was found. This relies on complete states
//! (memory, buffers, locks, agent histories) and on the absence of hash collisions. Time advances
//! only when no agent is runnable, so a deadline never races with a wake-up.
//!
//! The search is stateless in the sense of Godefroid (VeriSoft, POPL 1997): it returns to a state
//! by repeating a prefix. Pruning by the histories of all agents is that of a happens-before cache
//! (Musuvathi and Qadeer, "Partial-order reduction for context-bounded state exploration", 2007). A
//! run that reaches a known state is finished without branching.

use super::{Coverage, Finish, Strategy};
use crate::prune::Seen;
use tidegate_platform::Point;

struct Node {
    choice: u16,
    width: u16,
    state: u64,
}

/// Searches everything, depth first.
pub struct Exhaustive {
    path: Vec<Node>,
    depth: usize,
    seen: Seen,
    prune: bool,
    started: bool,
    /// Whether the rest of this run only finishes it.
    left: bool,
    finish: Finish,
    diverged_at: Option<u64>,
}

impl Exhaustive {
    /// Creates a search with pruning.
    pub fn new() -> Exhaustive {
        Exhaustive {
            path: Vec::new(),
            depth: 0,
            seen: Seen::default(),
            prune: true,
            started: false,
            left: false,
            finish: Finish::default(),
            diverged_at: None,
        }
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
        self.depth = 0;
        self.left = false;
        self.finish.restart();
        if !self.started {
            self.started = true;
            return true;
        }
        while let Some(node) = self.path.last_mut() {
            node.choice += 1;
            if node.choice < node.width {
                return true;
            }
            self.path.pop();
        }
        false
    }

    fn restart(&mut self) {
        *self = Exhaustive { prune: self.prune, ..Exhaustive::new() };
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
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
        if !self.seen.insert(state) && self.prune {
            self.left = true;
            return self.finish.choose(point);
        }
        self.path.push(Node { choice: 0, width: point.choices.len() as u16, state });
        0
    }

    fn states(&self) -> u64 {
        self.seen.len() as u64
    }

    fn coverage(&self) -> Coverage {
        Coverage::Everything
    }

    fn diverged_at(&self) -> Option<u64> {
        self.diverged_at
    }
}
