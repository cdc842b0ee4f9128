//! The edges of one machine, and the circles among them.
//!
//! Invariants: a bit of a row is an edge of this machine. [`sightings`](super::sightings) holds the
//! union over all machines of the process. A circle of a machine is a circle of the union, so edges
//! are searched for circles only between classes that are in a circle of the union. An edge
//! enters the union after the marks of its circles are set, so no circle is missed by two agents
//! that add its edges at the same time.

use super::class::{ClassId, name_of};
use super::rows::{Row, Rows, path};
use super::sightings::{self, Kind};
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// Empty ones for reuse: explorers make millions of machines.
    static SPARE: RefCell<Vec<Recorded>> = const { RefCell::new(Vec::new()) };
}

struct Recorded {
    rows: Rows,
    /// The classes whose rows are not empty.
    used: Row,
}

/// The edges of a machine.
pub(crate) struct Graph {
    /// `None` where the order of waits is not recorded.
    recorded: Option<Recorded>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// The classes of each circle, sorted.
    classes: Vec<Vec<u16>>,
    texts: Vec<String>,
}

impl Graph {
    /// Returns a graph that `records` edges or not.
    pub(crate) fn new(records: bool) -> Graph {
        let new = || {
            let spare = SPARE.with_borrow_mut(Vec::pop);
            spare.unwrap_or_else(|| Recorded { rows: Rows::new(), used: Row::empty() })
        };
        Graph { recorded: records.then(new), found: Mutex::default() }
    }

    #[inline]
    pub(crate) fn has(&self, from: ClassId, to: ClassId) -> bool {
        self.recorded.as_ref().is_none_or(|recorded| recorded.rows.of(from).has(to))
    }

    /// Adds an edge. Returns the text of a new circle that it closes.
    #[cold]
    pub(crate) fn add(&self, (from, to): (ClassId, ClassId), kind: Kind) -> Option<String> {
        let Recorded { rows, used } = self.recorded.as_ref()?;
        if to == ClassId::NONE || !rows.of(from).insert(to) {
            return None;
        }
        used.insert(from);
        if !sightings::note((from, to), kind) {
            return None;
        }
        let mut circle = path(|class| rows.of(class), to, from)?;
        // The text is the same whichever edge closes the circle.
        let first = (0..circle.len()).min_by_key(|at| name_of(circle[*at]));
        circle.rotate_left(first.unwrap_or(0));
        let mut classes: Vec<u16> = circle.iter().map(|class| class.0).collect();
        classes.sort_unstable();
        {
            let mut found = self.found();
            if found.classes.contains(&classes) {
                return None;
            }
            found.classes.push(classes);
        }
        let text = sightings::text_of_circle(&circle);
        self.found().texts.push(text.clone());
        Some(text)
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_circles(&self) -> Vec<String> {
        std::mem::take(&mut self.found().texts)
    }

    pub(crate) fn circles(&self) -> Vec<String> {
        self.found().texts.clone()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        const KEPT: usize = 4;
        let Some(recorded) = self.recorded.take() else { return };
        // Dropped instead if the thread is ending.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT {
                recorded.used.iter().for_each(|class| recorded.rows.of(class).clear());
                recorded.used.clear();
                spare.push(recorded);
            }
        });
    }
}
