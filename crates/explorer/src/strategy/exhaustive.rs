//! Depth-first search over all choices, with pruning by state.
//!
//! **Guarantee.** When it ends, every state that the scenario can reach under the memory model has
//! been reached, so a bug that shows in a state, a blocked end or an agent's panic has been found.
//! It rests on the state being whole (memory, buffers, locks, each agent's history) and on 64-bit
//! hashes not colliding. Time passes only when nothing else can happen, so a deadline never races a
//! wake-up here.
//!
//! The search is stateless in the sense of Godefroid (VeriSoft, POPL 1997): a prefix is run again
//! to come back to a state. Pruning by the histories of all agents is that of a happens-before
//! cache (Musuvathi and Qadeer, "Partial-order reduction for context-bounded state exploration",
//! 2007). A run that comes to a state seen before is finished, not continued.

use super::{Coverage, Finish, Strategy};
use crate::prune::Seen;
use tidegate_platform::Point;

struct Node {
    choice: u16,
    width: u16,
    state: u64,
}

/// Everything, depth first.
pub struct Exhaustive {
    path: Vec<Node>,
    depth: usize,
    seen: Seen,
    prune: bool,
    started: bool,
    /// The rest of this run is only for its end.
    left: bool,
    finish: Finish,
    parted_at: Option<u64>,
}

impl Exhaustive {
    /// With pruning.
    pub fn new() -> Exhaustive {
        Exhaustive {
            path: Vec::new(),
            depth: 0,
            seen: Seen::default(),
            prune: true,
            started: false,
            left: false,
            finish: Finish::default(),
            parted_at: None,
        }
    }

    /// Every schedule one by one: only for checking that pruning hides nothing.
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
        let depth = self.depth;
        self.depth += 1;
        if let Some(node) = self.path.get(depth) {
            if node.state != point.state || usize::from(node.width) != point.choices.len() {
                self.parted_at.get_or_insert(depth as u64);
                self.left = true;
                return 0;
            }
            return usize::from(node.choice);
        }
        if !self.seen.insert(point.state) && self.prune {
            self.left = true;
            return self.finish.choose(point);
        }
        self.path.push(Node { choice: 0, width: point.choices.len() as u16, state: point.state });
        0
    }

    fn states(&self) -> u64 {
        self.seen.len() as u64
    }

    fn coverage(&self) -> Coverage {
        Coverage::Everything
    }

    fn parted_at(&self) -> Option<u64> {
        self.parted_at
    }
}
