//! What runs have met: operations that were under way at the same time, and states of objects.
//!
//! A step is under way from its call to its return. On a cooperative platform one thread runs all
//! agents, so the table is that thread's, and noting is not a step of the run.

use crate::operation::Kind;
use crate::states::States;
use std::collections::BTreeMap;
use tidegate::Platform;
use tidegate::platform::Mutex;

/// The pairs of kinds that have overlapped, with how often.
pub type Pairs = BTreeMap<(Kind, Kind), u64>;

/// What runs have met.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// The operations that overlapped.
    pub pairs: Pairs,
    /// The states that objects entered.
    pub states: States,
}

impl Coverage {
    /// Adds what other runs have met.
    pub fn add(&mut self, more: &Coverage) {
        for (pair, times) in &more.pairs {
            *self.pairs.entry(*pair).or_default() += times;
        }
        self.states.add(&more.states);
    }
}

#[derive(Default)]
struct Table {
    under_way: BTreeMap<u64, Kind>,
    next: u64,
    pairs: Pairs,
}

/// The overlaps of a run.
pub struct Overlaps(Mutex<Table>);

impl Overlaps {
    pub(crate) fn new(platform: &Platform) -> Overlaps {
        Overlaps(platform.mutex("overlaps", Table::default()))
    }

    /// Notes that a step begins. Returns its number for [`Overlaps::end`].
    pub(crate) fn begin(&self, kind: Kind) -> u64 {
        let table = &mut *self.0.lock();
        for other in table.under_way.values() {
            let pair = (kind.min(*other), kind.max(*other));
            *table.pairs.entry(pair).or_default() += 1;
        }
        table.next += 1;
        table.under_way.insert(table.next, kind);
        table.next
    }

    pub(crate) fn end(&self, number: u64) {
        self.0.lock().under_way.remove(&number);
    }

    /// Returns the kinds that are under way.
    pub(crate) fn under_way(&self) -> Vec<Kind> {
        self.0.lock().under_way.values().copied().collect()
    }

    /// Adds the pairs to `all`.
    pub fn add_to(&self, all: &mut Pairs) {
        for (pair, times) in &self.0.lock().pairs {
            *all.entry(*pair).or_default() += times;
        }
    }
}
