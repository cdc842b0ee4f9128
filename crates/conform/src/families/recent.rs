//! Names of objects, of which ended ones are kept for a while.

use std::collections::{BTreeSet, VecDeque};

/// Ended names that are kept. Reports name an object that has just ended; this many objects do not
/// end between an event on the device and its report.
const ENDED_KEPT: usize = 4096;

/// The names that exist, and the last ones that have ended.
pub(super) struct Recent<T> {
    known: BTreeSet<T>,
    ended: VecDeque<T>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Recent { known: BTreeSet::new(), ended: VecDeque::new() }
    }
}

impl<T: Copy + Ord> Recent<T> {
    /// Adds a name.
    pub(super) fn insert(&mut self, name: T) {
        if !self.known.insert(name) {
            // It exists again.
            self.ended.retain(|ended| *ended != name);
        }
    }

    /// Adds a name that has ended already.
    pub(super) fn insert_ended(&mut self, name: T) {
        if self.known.insert(name) {
            self.end(name);
        }
    }

    /// Notes that a name has ended.
    pub(super) fn end(&mut self, name: T) {
        if !self.known.contains(&name) {
            return;
        }
        if self.ended.len() == ENDED_KEPT
            && let Some(oldest) = self.ended.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.ended.push_back(name);
    }

    /// Forgets a name.
    pub(super) fn remove(&mut self, name: T) {
        if self.known.remove(&name) {
            self.ended.retain(|ended| *ended != name);
        }
    }

    pub(super) fn contains(&self, name: T) -> bool {
        self.known.contains(&name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ended_names_are_kept_and_older_ones_are_not() {
        let mut names = Recent::default();
        names.insert(0);
        for name in 1..=ENDED_KEPT + 1 {
            names.insert_ended(name);
        }
        assert!(names.contains(0) && !names.contains(1) && names.contains(2));
        names.insert(2);
        names.insert_ended(ENDED_KEPT + 2);
        names.insert_ended(ENDED_KEPT + 3);
        assert!(names.contains(2), "it exists again");
        assert!(!names.contains(3));
        names.remove(4);
        assert!(!names.contains(4));
        assert_eq!(names.known.len(), ENDED_KEPT + 1);
    }
}
