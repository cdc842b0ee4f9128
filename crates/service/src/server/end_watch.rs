//! Notices that a client has ended while its session waits for queued work in a call.
//!
//! A session reads its connection only between two calls. For a call that waits for work a thread
//! waits for the end of the connection. Unless the client has said goodbye, it ends the process's
//! waits for work, so that the call returns.

use super::shared::OpenedProcess;
use crate::transport::{Bell, Heard, Link};
use crate::wire::{self, Message};
use std::sync::Arc;
use tidegate_platform::{Event, Platform, Step};

/// A watch over one call. Its thread has ended when this is dropped.
pub(super) struct EndWatch {
    call_is_over: Bell,
    thread_is_over: Event,
}

impl EndWatch {
    /// `None` between agents of a cooperative platform, or where the system has no thread or
    /// descriptor left: such an end is noticed after the call.
    pub(super) fn begin(
        platform: &Platform,
        link: &Arc<Link>,
        process: &Arc<dyn OpenedProcess>,
    ) -> Option<EndWatch> {
        let call_is_over = link.bell_of_end()?;
        let thread_is_over = platform.event(true);
        let (link, process) = (link.clone(), process.clone());
        let (bell, over) = (call_is_over.clone(), thread_is_over.clone());
        let watch = move || {
            if link.wait_for(&bell) == Heard::End && !brings_goodbye(&link) {
                process.end_waits_for_work();
            }
            // The connection is closed by its session.
            drop((link, process));
            over.set(Step::ThreadWake);
        };
        platform.spawn_outside("the end of a client", watch).ok()?;
        Some(EndWatch { call_is_over, thread_is_over })
    }
}

/// Returns whether the next message is a goodbye. A client makes one call at a time, so it is the
/// only one.
fn brings_goodbye(link: &Link) -> bool {
    wire::decode::<Message>(&link.next_bytes()).is_some_and(|message| message.is_goodbye())
}

impl Drop for EndWatch {
    fn drop(&mut self) {
        self.call_is_over.ring();
        let _ended = self.thread_is_over.wait();
    }
}
