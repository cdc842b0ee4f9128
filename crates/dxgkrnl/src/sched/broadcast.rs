//! Owns when a signal packet that stands in several queues takes effect: pure, for contexts and
//! hardware queues alike.
//!
//! It takes effect once, when every queue has reached it: when it heads the queue and, unless it is
//! a signal at submission, all that stood before it is complete. A queue that has reached it is
//! held until then, since a queue is first in, first out. A queue that goes away (destroyed, or its
//! device lost) counts as having reached it, so that it does not hold the others for ever; when
//! none is left nobody made the signal, and it is abandoned.

use tidegate_ddi::OsHandle;

/// How a broadcast stands after one of its queues moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Some queue has not reached it, or it took effect before.
    Held,
    /// The last queue has just reached it: it takes effect now.
    Complete,
    /// No queue is left.
    Abandoned,
}

struct Party {
    queue: OsHandle,
    reached: bool,
}

/// One signal packet in the queues that it was given to; a single queue is a broadcast to one.
pub(crate) struct Broadcast {
    parties: Vec<Party>,
    complete: bool,
}

impl Broadcast {
    /// A packet that is queued on all of `queues`, and reached by none.
    pub(crate) fn new(queues: &[OsHandle]) -> Broadcast {
        let parties = queues.iter().map(|queue| Party { queue: *queue, reached: false }).collect();
        Broadcast { parties, complete: false }
    }

    /// A queue has reached it.
    // spec: MF-027
    pub(crate) fn reach(&mut self, queue: OsHandle) -> Standing {
        if let Some(party) = self.parties.iter_mut().find(|p| p.queue == queue) {
            party.reached = true;
        }
        self.standing()
    }

    /// A queue goes away with the packet in it.
    // spec: MF-065
    pub(crate) fn leave(&mut self, queue: OsHandle) -> Standing {
        self.parties.retain(|p| p.queue != queue);
        if self.parties.is_empty() { Standing::Abandoned } else { self.standing() }
    }

    fn standing(&mut self) -> Standing {
        if self.complete || !self.parties.iter().all(|p| p.reached) {
            return Standing::Held;
        }
        self.complete = true;
        Standing::Complete
    }

    /// The queues that it stands in.
    pub(crate) fn queues(&self) -> Vec<OsHandle> {
        self.parties.iter().map(|p| p.queue).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: OsHandle = OsHandle(1);
    const B: OsHandle = OsHandle(2);
    const C: OsHandle = OsHandle(3);

    #[test]
    fn it_takes_effect_once_when_the_last_queue_reaches_it() {
        let mut three = Broadcast::new(&[A, B, C]);
        assert_eq!([three.reach(B), three.reach(A), three.reach(A)], [Standing::Held; 3]);
        assert_eq!(three.reach(C), Standing::Complete);
        assert_eq!((three.reach(C), three.leave(B)), (Standing::Held, Standing::Held));
        assert_eq!(three.queues(), [A, C]);
        assert_eq!(Broadcast::new(&[A]).reach(A), Standing::Complete);
    }

    #[test]
    fn a_queue_that_goes_away_counts_as_having_reached_it() {
        let mut three = Broadcast::new(&[A, B, C]);
        assert_eq!((three.reach(A), three.leave(B)), (Standing::Held, Standing::Held));
        assert_eq!(three.leave(C), Standing::Complete);
        let mut two = Broadcast::new(&[A, B]);
        assert_eq!((two.reach(A), two.leave(A)), (Standing::Held, Standing::Held));
        assert_eq!(two.reach(B), Standing::Complete);
    }

    #[test]
    fn a_packet_whose_queues_are_all_gone_is_abandoned() {
        let mut two = Broadcast::new(&[A, B]);
        assert_eq!((two.leave(A), two.leave(B)), (Standing::Held, Standing::Abandoned));
    }
}
