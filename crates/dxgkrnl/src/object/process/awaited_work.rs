//! The waits of normal ends for queued work. An abnormal end of the process ends them.
//!
//! Invariant: a wait is entered under the lock under which `ended` is set. So each wait is either
//! refused or among those that [`AwaitedWork::end`] wakes. The lock is a leaf.

use crate::wait_classes::WORK_OF_PROCESS;
use crate::wait_limit::WaitLimit;
use std::collections::BTreeMap;
use tidegate_platform::{Event, Mutex, Platform, Step, WaitEnd};

pub(super) struct AwaitedWork(Mutex<State>);

#[derive(Default)]
struct State {
    /// Work is not waited for any more.
    ended: bool,
    /// The number of the last wait.
    last: u64,
    /// The events of each wait that is under way.
    waits: BTreeMap<u64, Vec<Event>>,
}

impl AwaitedWork {
    pub(super) fn new(platform: &Platform) -> AwaitedWork {
        AwaitedWork(platform.mutex("awaited work of a process", State::default()))
    }

    /// Waits until all events of `work` are set. Returns `false` if the limit was used up first,
    /// or the waits were ended.
    pub(super) fn wait(&self, work: &[Event], mut limit: WaitLimit) -> bool {
        if work.iter().all(Event::is_set) {
            return true;
        }
        let number = {
            let mut state = self.0.lock();
            if state.ended {
                return false;
            }
            state.last += 1;
            let number = state.last;
            state.waits.insert(number, work.to_vec());
            number
        };
        let is_woken = |event: &Event| limit.wait(event, &WORK_OF_PROCESS) == WaitEnd::Woken;
        let woken = work.iter().all(is_woken);
        let mut state = self.0.lock();
        let entered = state.waits.remove(&number);
        let ended = state.ended;
        drop(state);
        drop(entered);
        woken && !ended
    }

    /// Ends the waits that are under way, and refuses later ones.
    pub(super) fn end(&self) {
        let waits = {
            let mut state = self.0.lock();
            state.ended = true;
            std::mem::take(&mut state.waits)
        };
        waits.values().flatten().for_each(|event| event.set(Step::ThreadWake));
    }
}
