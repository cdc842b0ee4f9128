//! The CPU threads of a check, and what they hand over to each other.

use super::Checker;
use crate::access::SpaceKey;
use crate::clock::{Clock, Released, TimelineId};
use crate::finding::TimelineKind;
use std::sync::Arc;

impl Checker {
    /// Returns the timeline of a CPU thread. `exact`: all synchronisation of the thread is reported
    /// to the checker. Calls of other threads are assumed to be ordered as reported.
    pub fn thread(
        &mut self,
        number: u64,
        exact: bool,
        name: impl FnOnce() -> String,
    ) -> TimelineId {
        let id = match self.threads.get(&number) {
            Some(id) => *id,
            None => {
                let id = self.add_timeline(TimelineKind::Thread, name(), SpaceKey(0));
                self.at(id).exact = exact;
                self.threads.insert(number, id);
                if !exact && self.inexact.is_none() {
                    self.begin_inexact();
                }
                id
            }
        };
        if let Some((inexact, all)) = &self.inexact {
            let timeline = &mut self.timelines[id.0 as usize];
            timeline.join(if timeline.exact { inexact } else { all });
        }
        id
    }

    /// Records that a thread may have been handed memory by any other thread, by means that are not
    /// reported: what all threads did so far precedes what it does next.
    pub fn acquire_from_all(&mut self, thread: TimelineId) {
        for index in 0..self.timelines.len() {
            let other = TimelineId(index as u32);
            if other != thread && self.at(other).kind == TimelineKind::Thread {
                let released = self.release_clock(other);
                self.at(thread).join(&released);
            }
        }
        self.publish_acquired(thread);
    }

    /// Orders all calls made so far before the calls of inexact threads.
    fn begin_inexact(&mut self) {
        let mut all = Clock::default();
        for (index, timeline) in self.timelines.iter_mut().enumerate() {
            if timeline.kind == TimelineKind::Thread {
                all.join(&timeline.clock);
                timeline.advance(TimelineId(index as u32));
            }
        }
        self.inexact = Some((Clock::default(), all));
    }

    /// Returns the thread's clock and begins its next tick.
    pub(super) fn release_clock(&mut self, thread: TimelineId) -> Arc<Clock> {
        let released = self.at(thread).snapshot();
        self.at(thread).advance(thread);
        self.publish(thread, &released);
        released
    }

    fn publish(&mut self, thread: TimelineId, released: &Clock) {
        let exact = self.at(thread).exact;
        if let Some((inexact, all)) = &mut self.inexact {
            all.join(released);
            if !exact {
                inexact.join(released);
            }
        }
    }

    /// Releases the thread's operations to a thread that it starts or that joins it.
    pub fn release(&mut self, thread: TimelineId) -> Released {
        Released((*self.release_clock(thread)).clone())
    }

    /// Orders the released operations before all later operations of a thread.
    pub fn acquire(&mut self, thread: TimelineId, released: &Released) {
        self.at(thread).join(&released.0);
        self.publish_acquired(thread);
    }

    pub(super) fn publish_acquired(&mut self, thread: TimelineId) {
        if self.inexact.is_some() {
            self.release_clock(thread);
        }
    }
}
