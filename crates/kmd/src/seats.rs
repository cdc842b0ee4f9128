//! The assignment of physical doorbells. The least recently rung doorbell is victimised. Pure
//! policy: the caller passes in the times of the last rings, which the hardware keeps.
//!
//! A seat passes from the victim to its successor in one step, so no third doorbell can claim it
//! in between. The hardware follows: the victim is disconnected before its successor is connected
//! (see `doorbell`).

use crate::DoorbellModel;
use tidegate_ddi::DriverHandle;

/// The physical doorbells.
pub(crate) struct Seats {
    /// The number of physical doorbells; `None` if all queues share one location.
    physical: Option<usize>,
    /// The seated doorbells, in order of connecting.
    taken: Vec<DriverHandle>,
}

impl Seats {
    pub(crate) fn new(model: DoorbellModel) -> Seats {
        let physical = match model {
            DoorbellModel::Global => None,
            DoorbellModel::Dedicated { physical } => Some(physical as usize),
        };
        Seats { physical, taken: Vec::new() }
    }

    /// Returns the candidates for victimisation by the next claim; none while a seat is free.
    pub(crate) fn candidates(&self) -> &[DriverHandle] {
        let full = self.physical.is_some_and(|physical| self.taken.len() >= physical);
        if full { &self.taken } else { &[] }
    }

    /// Seats `doorbell`, which has no seat. If all are taken, returns the victim whose seat it
    /// gets: the doorbell with the smallest `last_ring`, the time of its last ring or connect.
    /// Among equals, the doorbell that connected first is the victim.
    // spec: UMS-007
    pub(crate) fn claim(
        &mut self,
        doorbell: DriverHandle,
        last_ring: impl Fn(DriverHandle) -> u64,
    ) -> Option<DriverHandle> {
        let victim = self.candidates().iter().copied().min_by_key(|d| last_ring(*d));
        self.taken.retain(|d| Some(*d) != victim);
        self.taken.push(doorbell);
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
    fn the_least_recently_rung_doorbell_gives_way() {
        let mut seats = Seats::new(DoorbellModel::Dedicated { physical: 2 });
        let alike = |_| 0;
        assert_eq!(seats.candidates(), []);
        assert_eq!([1, 2].map(|d| seats.claim(bell(d), alike)), [None, None]);
        assert_eq!(seats.candidates(), [bell(1), bell(2)]);
        // 1 connected first, 2 was rung longer ago.
        assert_eq!(seats.claim(bell(3), |d| if d == bell(1) { 9 } else { 4 }), Some(bell(2)));
        // Among equals the doorbell that connected first.
        assert_eq!(seats.claim(bell(4), alike), Some(bell(1)));
        assert_eq!(seats.claim(bell(5), alike), Some(bell(3)));
        // While a seat is free there is no victim.
        seats.leave(bell(5));
        seats.leave(bell(5));
        assert_eq!(seats.claim(bell(7), alike), None);
    }

    #[test]
    fn a_global_doorbell_has_room_for_all() {
        let mut seats = Seats::new(DoorbellModel::Global);
        assert!((0..10_000).all(|d| seats.claim(bell(d), |_| 0).is_none()));
    }
}
