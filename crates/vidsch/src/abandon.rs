//! Removal of queues that are destroyed or whose device is lost.

use crate::broadcast::BroadcastState;
use crate::queue::{Command, CommandKind, Payload, QueueKind, Signal, SignalEffect, Work};
use crate::scheduler::{Submitter, VidSch};
use tidegate_ddi::OsHandle;

/// Work of abandoned queues. The caller drops it outside of the lock.
pub struct AbandonedWork<P: Payload> {
    /// Submitters that may have effects to carry out.
    pub submitters: Vec<Submitter>,
    /// The fences that each queue was waiting for.
    pub waits: Vec<(OsHandle, P::Fence)>,
    /// Packets that were never submitted.
    pub packets: Vec<(OsHandle, Command)>,
    /// Signals that will not execute.
    pub signals: Vec<Signal<P>>,
}

impl<P: Payload> AbandonedWork<P> {
    fn empty() -> AbandonedWork<P> {
        AbandonedWork {
            submitters: Vec::new(),
            waits: Vec::new(),
            packets: Vec::new(),
            signals: Vec::new(),
        }
    }
}

impl<P: Payload> VidSch<P> {
    /// Removes a queue and abandons its work.
    pub fn remove_queue(&mut self, queue: OsHandle) -> AbandonedWork<P> {
        let abandoned = self.abandon(&[queue]);
        if let Some(removed) = self.queues.remove(&queue)
            && let Some(state) = removed.context()
        {
            self.engines[state.engine].forget(queue);
        }
        abandoned
    }

    /// Abandons the work of these queues. They are removed from their signals in one step, so
    /// removing one queue makes no signal due on another one of them. No packet is resubmitted.
    pub fn abandon(&mut self, queues: &[OsHandle]) -> AbandonedWork<P> {
        let mut abandoned = AbandonedWork::empty();
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
            for item in queue.items.take() {
                match item.work {
                    Work::Command(Command { kind: CommandKind::HwQueue { .. }, .. }) => {}
                    Work::Command(command) if item.returned.is_none() => {
                        abandoned.packets.push((*handle, command))
                    }
                    Work::Command(_) => {}
                    Work::Wait { fences, .. } => {
                        abandoned.waits.extend(fences.into_iter().map(|fence| (*handle, fence)));
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
                        abandoned.signals.extend(self.signals.remove(&ticket).map(|s| s.signal))
                    }
                },
            }
        }
        // A packet that became due above may have lost its last queue since.
        for ticket in due {
            let Some(queued) = self.signals.get(&ticket) else { continue };
            let first = queued.queues.queues().first().copied();
            abandoned.submitters.push(self.make_due(ticket, first));
        }
        abandoned
    }
}
