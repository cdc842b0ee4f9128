//! Owns who has one of the physical doorbells, in order of connecting. Pure policy.
//!
//! A seat passes straight from a victim to the doorbell that takes it, so there is never a moment at which a third one could
//! slip in between. The hardware follows: the victim's connection ends before the new one is made (see `doorbell`).

use crate::DoorbellModel;
use std::collections::VecDeque;
use tidegate_ddi::DriverHandle;

/// The seats.
pub(crate) struct Seats {
    /// `None`: one location for all.
    physical: Option<usize>,
    /// Least recently connected first.
    taken: VecDeque<DriverHandle>,
}

impl Seats {
    pub(crate) fn new(model: DoorbellModel) -> Seats {
        let physical = match model {
            DoorbellModel::Global => None,
            DoorbellModel::Dedicated { physical } => Some(physical as usize),
        };
        Seats { physical, taken: VecDeque::new() }
    }

    /// Seats `doorbell`, which has none, as the most recent one. Returns the victim whose seat it gets, if all were taken.
    // spec: UMS-007
    pub(crate) fn claim(&mut self, doorbell: DriverHandle) -> Option<DriverHandle> {
        let full = self.physical.is_some_and(|physical| self.taken.len() >= physical);
        let victim = if full { self.taken.pop_front() } else { None };
        self.taken.push_back(doorbell);
        victim
    }

    /// Frees the seat of `doorbell`, if it has one.
    pub(crate) fn leave(&mut self, doorbell: DriverHandle) {
        self.taken.retain(|d| *d != doorbell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bell(number: u64) -> DriverHandle {
        DriverHandle(number)
    }

    // spec: UMS-007
    #[test]
    fn the_least_recently_connected_doorbell_gives_way() {
        let mut seats = Seats::new(DoorbellModel::Dedicated { physical: 2 });
        assert_eq!([1, 2, 3, 4].map(|d| seats.claim(bell(d))), [None, None, Some(bell(1)), Some(bell(2))]);
        // 3 leaves and comes back: now 4 is the older one.
        seats.leave(bell(3));
        assert_eq!(seats.claim(bell(3)), None);
        assert_eq!(seats.claim(bell(5)), Some(bell(4)));
        assert_eq!(seats.claim(bell(6)), Some(bell(3)));
        // Nobody gives way while a seat is free.
        seats.leave(bell(5));
        seats.leave(bell(5));
        assert_eq!(seats.claim(bell(7)), None);
    }

    #[test]
    fn a_global_doorbell_has_room_for_all() {
        let mut seats = Seats::new(DoorbellModel::Global);
        assert!((0..10_000).all(|d| seats.claim(bell(d)).is_none()));
    }
}
