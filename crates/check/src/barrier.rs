//! A barrier with the methods of std's, of a [`Mutex`] and a [`Condvar`].

use crate::belonging::opaque;
use crate::condvar::Condvar;
use crate::mutex::Mutex;
use std::sync::PoisonError;

/// Releases a number of threads together, as [`std::sync::Barrier`].
pub struct Barrier {
    state: Mutex<State>,
    all_here: Condvar,
    threads: usize,
}

struct State {
    waiting: usize,
    /// The number of times that the barrier has released its threads.
    generation: usize,
}

/// Whether a thread is the leader of those that were released together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns whether this thread came last.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// Creates a barrier for this number of threads.
    #[track_caller]
    pub fn new(threads: usize) -> Barrier {
        let state = Mutex::new(State { waiting: 0, generation: 0 });
        Barrier { state, all_here: Condvar::new(), threads }
    }

    /// Waits until all threads have called this. One of them is the leader.
    #[track_caller]
    pub fn wait(&self) -> BarrierWaitResult {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        if state.waiting >= self.threads {
            state.waiting = 0;
            state.generation += 1;
            drop(state);
            self.all_here.notify_all();
            return BarrierWaitResult(true);
        }
        let mine = state.generation;
        while state.generation == mine {
            state = self.all_here.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        BarrierWaitResult(false)
    }
}

opaque!("Barrier", Barrier);
