//! Removal of queues that are destroyed or whose device is lost.

use crate::broadcast::BroadcastState;
use crate::queue::{Command, CommandKind, Payload, QueueKind, Signal, SignalEffect, Work};
use crate::scheduler::{Submitter, VidSch};
use tidegate_ddi::OsHandle;

/// Work of abandoned queues. The caller drops it outside of the lock.
pub struct GivenUp<P: Payload> {
    /// Submitters that may have effects to carry out.
    pub submitters: Vec<Submitter>,
    /// The fences that each queue was waiting for.
    pub waits: Vec<(OsHandle, P::Fence)>,
    /// Packets that were never submitted.
    pub packets: Vec<(OsHandle, Command)>,
    /// Signals that will not execute.
    pub abandoned: Vec<Signal<P>>,
}

impl<P: Payload> GivenUp<P> {
    fn empty() -> GivenUp<P> {
        GivenUp {
            submitters: Vec::new(),
            waits: Vec::new(),
            packets: Vec::new(),
            abandoned: Vec::new(),
        }
    }
}

impl<P: Payload> VidSch<P> {
    /// Removes a queue and abandons its work.
    pub fn remove_queue(&mut self, queue: OsHandle) -> GivenUp<P> {
        let given_up = self.give_up(&[queue]);
        if let Some(removed) = self.queues.remove(&queue)
            && let Some(state) = removed.context()
        {
            self.engines[state.engine].exempt.remove(&queue);
        }
        given_up
    }

    /// Abandons the work of these queues. They are removed from their signals in one step, so
    /// removing one queue makes no signal due on another one of them. Preempted packets are not
    /// resubmitted.
    pub fn give_up(&mut self, queues: &[OsHandle]) -> GivenUp<P> {
        let mut given_up = GivenUp::empty();
        let (mut left, mut due) = (Vec::new(), Vec::new());
        for handle in queues {
            let Some(queue) = self.queues.get_mut(handle) else { continue };
            match &mut queue.kind {
                QueueKind::Context(state) => {
                    state.abandoned = true;
                    self.engines[state.engine].clear_split(*handle);
                }
                // The submitter of another queue executes them.
                QueueKind::HwQueue(state) => due.extend(state.due_signals.drain(..)),
            }
            for item in queue.items.drain(..) {
                match item.work {
                    Work::Command(Command { kind: CommandKind::HwQueue { .. }, .. }) => {}
                    Work::Command(command) if !item.returned => {
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
        // A packet that became due above may have lost its last queue since.
        for ticket in due {
            let Some(queued) = self.signals.get(&ticket) else { continue };
            let first = queued.queues.queues().first().copied();
            given_up.submitters.push(self.make_due(ticket, first));
        }
        given_up
    }
}
