//! When a signal packet that is queued on several queues takes effect.
//!
//! It takes effect once, when every queue has reached it: it heads the queue and, unless it is a
//! signal at submission, everything queued before it is complete. A queue that has reached it is
//! held until then, because a queue is first in, first out. A queue that goes away (destroyed, or
//! its device lost) counts as having reached it, so that it does not hold the others for ever. A
//! packet without queues is abandoned.

use tidegate_ddi::OsHandle;

/// What a step of one queue means for the broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BroadcastState {
    /// A queue has not reached it, or it has taken effect before.
    Held,
    /// The last queue has just reached it: it takes effect now.
    Complete,
    /// No queue is left.
    Abandoned,
}

struct Member {
    queue: OsHandle,
    reached: bool,
}

/// One signal packet on the queues that it was given to. A single queue is a broadcast to one.
pub(crate) struct Broadcast {
    members: Vec<Member>,
    complete: bool,
}

impl Broadcast {
    /// A packet that is queued on all of `queues` and reached by none.
    pub(crate) fn new(queues: &[OsHandle]) -> Broadcast {
        let members = queues.iter().map(|queue| Member { queue: *queue, reached: false }).collect();
        Broadcast { members, complete: false }
    }

    /// A queue has reached it.
    // spec: MF-027
    pub(crate) fn reach(&mut self, queue: OsHandle) -> BroadcastState {
        if let Some(member) = self.members.iter_mut().find(|p| p.queue == queue) {
            member.reached = true;
        }
        self.state()
    }

    /// A queue goes away with the packet in it.
    // spec: MF-065
    pub(crate) fn leave(&mut self, queue: OsHandle) -> BroadcastState {
        self.members.retain(|p| p.queue != queue);
        if self.members.is_empty() { BroadcastState::Abandoned } else { self.state() }
    }

    fn state(&mut self) -> BroadcastState {
        if self.complete || !self.members.iter().all(|p| p.reached) {
            return BroadcastState::Held;
        }
        self.complete = true;
        BroadcastState::Complete
    }

    /// The queues that it is queued on.
    pub(crate) fn queues(&self) -> Vec<OsHandle> {
        self.members.iter().map(|p| p.queue).collect()
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
        assert_eq!([three.reach(B), three.reach(A), three.reach(A)], [BroadcastState::Held; 3]);
        assert_eq!(three.reach(C), BroadcastState::Complete);
        assert_eq!((three.reach(C), three.leave(B)), (BroadcastState::Held, BroadcastState::Held));
        assert_eq!(three.queues(), [A, C]);
        assert_eq!(Broadcast::new(&[A]).reach(A), BroadcastState::Complete);
    }

    #[test]
    fn a_queue_that_goes_away_counts_as_having_reached_it() {
        let mut three = Broadcast::new(&[A, B, C]);
        assert_eq!((three.reach(A), three.leave(B)), (BroadcastState::Held, BroadcastState::Held));
        assert_eq!(three.leave(C), BroadcastState::Complete);
        let mut two = Broadcast::new(&[A, B]);
        assert_eq!((two.reach(A), two.leave(A)), (BroadcastState::Held, BroadcastState::Held));
        assert_eq!(two.reach(B), BroadcastState::Complete);
    }

    #[test]
    fn a_packet_whose_queues_are_all_gone_is_abandoned() {
        let mut two = Broadcast::new(&[A, B]);
        assert_eq!((two.leave(A), two.leave(B)), (BroadcastState::Held, BroadcastState::Abandoned));
    }
}
