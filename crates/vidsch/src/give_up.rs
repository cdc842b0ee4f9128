//! The end of queues: their device is lost, or they are destroyed.

use crate::broadcast::BroadcastState;
use crate::queue::{Command, CommandKind, Payload, QueueKind, Signal, SignalEffect, Work};
use crate::scheduler::{Submitter, VidSch};
use tidegate_ddi::OsHandle;

/// What was queued on queues that were given up, to be dropped outside of the lock.
pub struct GivenUp<P: Payload> {
    /// The submitters that have effects to carry out now.
    pub submitters: Vec<Submitter>,
    /// The fences that each queue waited for.
    pub waits: Vec<(OsHandle, P::Fence)>,
    /// Packets that no engine ever had.
    pub packets: Vec<(OsHandle, Command)>,
    /// Signals that are not made.
    pub abandoned: Vec<Signal<P>>,
}

impl<P: Payload> GivenUp<P> {
    fn nothing() -> GivenUp<P> {
        GivenUp {
            submitters: Vec::new(),
            waits: Vec::new(),
            packets: Vec::new(),
            abandoned: Vec::new(),
        }
    }
}

impl<P: Payload> VidSch<P> {
    /// Removes a queue.
    pub fn remove_queue(&mut self, queue: OsHandle) -> GivenUp<P> {
        let given_up = self.give_up(&[queue]);
        if let Some(removed) = self.queues.remove(&queue)
            && let Some(state) = removed.context()
        {
            self.engines[state.engine].exempt.remove(&queue);
        }
        given_up
    }

    /// Gives up everything that these queues hold, at once, so that none of them makes a signal
    /// because another one left first. Packets that come back from an engine are not submitted
    /// again.
    pub fn give_up(&mut self, queues: &[OsHandle]) -> GivenUp<P> {
        let mut given_up = GivenUp::nothing();
        let (mut left, mut due) = (Vec::new(), Vec::new());
        for handle in queues {
            let Some(queue) = self.queues.get_mut(handle) else { continue };
            match &mut queue.kind {
                QueueKind::Context(state) => {
                    state.given_up = true;
                    self.engines[state.engine].end_split(*handle);
                }
                // Another queue's submitter makes them.
                QueueKind::HwQueue(state) => due.extend(state.due_signals.drain(..)),
            }
            for item in queue.items.drain(..) {
                match item.work {
                    Work::Command(Command { kind: CommandKind::HwQueue { .. }, .. }) => {}
                    Work::Command(command) if !item.came_back => {
                        given_up.packets.push((*handle, command))
                    }
                    Work::Command(_) => {}
                    Work::Wait { fences, .. } => {
                        given_up.waits.extend(fences.into_iter().map(|fence| (*handle, fence)));
                    }
                    Work::Signal { .. } => left.push((item.ticket, *handle)),
                }
            }
        }
        for (ticket, queue) in left {
            let Some(queued) = self.signals.get_mut(&ticket) else { continue };
            match queued.queues.leave(queue) {
                BroadcastState::Held => {}
                BroadcastState::Complete => due.push(ticket),
                BroadcastState::Abandoned => match &queued.signal.effect {
                    SignalEffect::Event(_) => due.push(ticket),
                    SignalEffect::Fences(_) | SignalEffect::Action(_) => {
                        given_up.abandoned.extend(self.signals.remove(&ticket).map(|s| s.signal))
                    }
                },
            }
        }
        // A packet that became due may have lost its last queue after that.
        for ticket in due {
            let Some(queued) = self.signals.get(&ticket) else { continue };
            let first = queued.queues.queues().first().copied();
            given_up.submitters.push(self.make_due(ticket, first));
        }
        given_up
    }
}
