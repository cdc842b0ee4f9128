//! Signal packets that are queued on several queues.
//!
//! A broadcast takes effect once, when every queue has reached it. A queue reaches it when the
//! packet is at the head and, unless it is a signal at submission, all earlier work is complete. A
//! queue that has reached the packet stays blocked until it takes effect, to keep the queue FIFO. A
//! removed queue (destroyed, or its device lost) no longer counts, so it cannot block the others. A
//! packet whose queues are all removed is abandoned.

use tidegate_ddi::OsHandle;

/// Outcome of an event on one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BroadcastState {
    /// At least one queue has not reached the packet, or it has already taken effect.
    Held,
    /// The last queue has just reached the packet, which takes effect now.
    Complete,
    /// All queues were removed.
    Abandoned,
}

struct Member {
    queue: OsHandle,
    reached: bool,
}

/// One signal packet and the queues it is on. A packet on a single queue is a broadcast to one.
pub(crate) struct Broadcast {
    members: Vec<Member>,
    complete: bool,
}

impl Broadcast {
    /// Creates a packet that is queued on all of `queues` and that none has reached.
    pub(crate) fn new(queues: &[OsHandle]) -> Broadcast {
        let members = queues.iter().map(|queue| Member { queue: *queue, reached: false }).collect();
        Broadcast { members, complete: false }
    }

    /// Records that a queue has reached the packet.
    // spec: MF-027
    pub(crate) fn reach(&mut self, queue: OsHandle) -> BroadcastState {
        if let Some(member) = self.members.iter_mut().find(|p| p.queue == queue) {
            member.reached = true;
        }
        self.state()
    }

    /// Removes a queue from the broadcast.
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

    /// Returns the queues that the packet is on.
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
    fn a_removed_queue_does_not_hold_the_broadcast() {
        let mut three = Broadcast::new(&[A, B, C]);
        assert_eq!((three.reach(A), three.leave(B)), (BroadcastState::Held, BroadcastState::Held));
        assert_eq!(three.leave(C), BroadcastState::Complete);
        let mut two = Broadcast::new(&[A, B]);
        assert_eq!((two.reach(A), two.leave(A)), (BroadcastState::Held, BroadcastState::Held));
        assert_eq!(two.reach(B), BroadcastState::Complete);
    }

    #[test]
    fn a_packet_whose_queues_are_all_removed_is_abandoned() {
        let mut two = Broadcast::new(&[A, B]);
        assert_eq!((two.leave(A), two.leave(B)), (BroadcastState::Held, BroadcastState::Abandoned));
    }
}
