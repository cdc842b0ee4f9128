//! Calls that wait for work or for the display, on threads beside the session: the process's other
//! calls are answered meanwhile, and the end of its connection is noticed.
//!
//! Order of such a call: 1. the message that enters it is answered; 2. a thread makes the call, and
//! the kernel waits; 3. the outcome is stored; 4. the notice is given in the client's slot; 5. the
//! client asks for the outcome.

use crate::wire::WaitingCall;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tidegate_calls::{Kernel, SlotKey, Status, WaitNotice};
use tidegate_platform::{Event, Mutex, Platform, Step};

/// Threads of one session. Further calls wait for one of them.
const MOST_THREADS: u32 = 8;

/// The waiting calls of one process.
pub(super) struct WaitingCalls {
    platform: Platform,
    kernel: Arc<dyn Kernel>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What no thread has taken.
    queued: VecDeque<Queued>,
    /// The calls whose outcome was not asked for, with the outcomes.
    entered: BTreeMap<SlotKey, (WaitingCall, Option<Result<(), Status>>)>,
    threads: u32,
    /// Set when the last thread ends.
    last_has_ended: Option<Event>,
}

struct Queued {
    key: SlotKey,
    call: WaitingCall,
    notice: WaitNotice,
}

impl State {
    fn count_end(&mut self) {
        self.threads -= 1;
        if let Some(ended) = self.last_has_ended.take_if(|_| self.threads == 0) {
            ended.set(Step::ThreadWake);
        }
    }
}

/// A thread that makes calls.
struct Thread {
    calls: Arc<WaitingCalls>,
    is_counted: bool,
}

impl WaitingCalls {
    pub(super) fn new(platform: &Platform, kernel: &Arc<dyn Kernel>) -> Arc<WaitingCalls> {
        let state = platform.mutex("waiting calls", State::default());
        Arc::new(WaitingCalls { platform: platform.clone(), kernel: kernel.clone(), state })
    }

    /// Checks that a call can be entered by this key.
    ///
    /// # Errors
    /// INSUFFICIENT_RESOURCES for `most` calls whose outcome was not asked for; INVALID_PARAMETER
    /// for the key of one of them.
    pub(super) fn check(&self, key: SlotKey, most: usize) -> Result<(), Status> {
        let state = self.state.lock();
        match state.entered.contains_key(&key) {
            true => Err(Status::INVALID_PARAMETER),
            false if state.entered.len() >= most => Err(Status::INSUFFICIENT_RESOURCES),
            false => Ok(()),
        }
    }

    /// Has a call made, by a key that was checked. `notice` is given when [`WaitingCalls::take`]
    /// has the outcome: before this returns, where the system has no thread left.
    // spec: UMS-206
    pub(super) fn enter(
        self: &Arc<WaitingCalls>,
        key: SlotKey,
        call: WaitingCall,
        notice: WaitNotice,
    ) {
        let mut state = self.state.lock();
        state.entered.insert(key, (call, None));
        state.queued.push_back(Queued { key, call, notice });
        drop(state);
        let Some(thread) = self.count_thread(MOST_THREADS) else { return };
        if self.platform.spawn_outside("a waiting call", move || thread.work()).is_err() {
            self.count_thread(u32::MAX).into_iter().for_each(Thread::work);
        }
    }

    /// Counts a thread, unless `most` are counted.
    fn count_thread(self: &Arc<WaitingCalls>, most: u32) -> Option<Thread> {
        let mut state = self.state.lock();
        let has_room = state.threads < most;
        state.threads += u32::from(has_room);
        drop(state);
        has_room.then(|| Thread { calls: self.clone(), is_counted: true })
    }

    /// Returns a call and its outcome, once.
    ///
    /// # Errors
    /// INVALID_PARAMETER for a call that was not entered, or is not over.
    pub(super) fn take(&self, key: SlotKey) -> Result<(WaitingCall, Result<(), Status>), Status> {
        let mut state = self.state.lock();
        let Some((call, Some(outcome))) = state.entered.get(&key).copied() else {
            return Err(Status::INVALID_PARAMETER);
        };
        state.entered.remove(&key);
        Ok((call, outcome))
    }

    /// Waits until each entered call is over.
    pub(super) fn join(&self) {
        let mut state = self.state.lock();
        if state.threads > 0 {
            let ended = self.platform.event(true);
            state.last_has_ended = Some(ended.clone());
            drop(state);
            let _ended = ended.wait();
        }
    }
}

impl Thread {
    fn work(mut self) {
        while let Some(Queued { key, call, notice }) = self.next() {
            let kernel = &self.calls.kernel;
            let outcome = match call {
                WaitingCall::DestroyDevice { device } => kernel.destroy_device(device),
                WaitingCall::WaitForVerticalBlankEvent => kernel.wait_for_vertical_blank_event(),
            };
            if let Some(entered) = self.calls.state.lock().entered.get_mut(&key) {
                entered.1 = Some(outcome);
            }
            notice.give(&self.calls.platform);
        }
    }

    /// Takes a call. Without one the thread no longer counts, in the same step: a call that comes
    /// later finds a free thread.
    fn next(&mut self) -> Option<Queued> {
        let mut state = self.calls.state.lock();
        let next = state.queued.pop_front();
        if next.is_none() {
            self.is_counted = false;
            state.count_end();
        }
        next
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.is_counted {
            self.calls.state.lock().count_end();
        }
    }
}
