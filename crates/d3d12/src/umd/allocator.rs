//! The state of a command allocator: the list that records, the lists recorded since the last
//! reset, and the queue that executed each last.
//!
//! A list executes while its queue holds its command memory in addition to the closed handles. This
//! is exact after the queue has released the memory that its progress has passed ([`RunsLists`]).
//!
//! Locks: the allocator's lock is the innermost. It is never held across a call of a queue.

use crate::umd::command_memory::CommandMemory;
use std::sync::{Arc, Weak};
use tidegate_platform::{Mutex, Platform};

/// The interface of a queue to an allocator.
pub(crate) trait RunsLists: Send + Sync {
    /// Releases the command memory that the GPU has finished with.
    fn release_finished(&self);

    /// Returns the queue's name.
    fn queue_name(&self) -> &str;
}

/// Shared by all closed handles of a list that was recorded from an allocator.
pub(crate) struct Link {
    allocator: Arc<AllocatorState>,
    generation: u64,
    index: usize,
}

/// A list that was recorded since the last reset.
struct Recorded {
    label: Option<String>,
    memory: Weak<CommandMemory>,
    /// One strong reference per closed handle.
    handles: Weak<Link>,
    /// The queue that executed it last.
    queue: Option<Weak<dyn RunsLists>>,
    /// Set during a call that executes it.
    submitting: bool,
}

impl Recorded {
    fn is_held(&self) -> bool {
        self.submitting || self.memory.strong_count() > self.handles.strong_count()
    }

    fn label(&self) -> String {
        self.label.clone().unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    /// Number of resets.
    generation: u64,
    /// A list records from it.
    recording: bool,
    recorded: Vec<Recorded>,
}

pub(crate) struct AllocatorState {
    pub(crate) name: String,
    state: Mutex<State>,
}

/// The reason why an allocator cannot be used.
pub(crate) enum Busy {
    /// A list records from it.
    Records,
    /// One of its lists executes.
    Executes { list: String, queue: String },
}

/// A use of a list that violates its allocator's rules.
pub(crate) enum Misuse {
    /// Its allocator was reset after it was closed.
    AllocatorReset,
    /// It is still executing.
    Executes { queue: String },
}

/// The exclusive right to record from an allocator.
pub(crate) struct Recording {
    allocator: Arc<AllocatorState>,
}

impl Recording {
    pub(crate) fn begin(allocator: &Arc<AllocatorState>) -> Result<Recording, Busy> {
        let mut state = allocator.state.lock();
        if state.recording {
            return Err(Busy::Records);
        }
        state.recording = true;
        drop(state);
        Ok(Recording { allocator: Arc::clone(allocator) })
    }

    /// Ends the recording with a closed list.
    pub(crate) fn close(self, memory: &Arc<CommandMemory>) -> Arc<Link> {
        let allocator = &self.allocator;
        let mut state = allocator.state.lock();
        let (generation, index) = (state.generation, state.recorded.len());
        let link = Arc::new(Link { allocator: Arc::clone(allocator), generation, index });
        state.recorded.push(Recorded {
            label: memory.label.clone(),
            memory: Arc::downgrade(memory),
            handles: Arc::downgrade(&link),
            queue: None,
            submitting: false,
        });
        drop(state);
        link
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.allocator.state.lock().recording = false;
    }
}

impl AllocatorState {
    pub(crate) fn new(platform: &Platform, name: String) -> AllocatorState {
        let state = platform.mutex("command allocator", State::default());
        AllocatorState { name, state }
    }

    /// Resets the allocator, after which its lists can no longer be executed.
    pub(crate) fn reset(&self) -> Result<(), Busy> {
        let queues: Vec<_> = {
            let state = self.state.lock();
            let held = state.recorded.iter().filter(|list| list.is_held());
            held.filter_map(|list| list.queue.as_ref()?.upgrade()).collect()
        };
        queues.iter().for_each(|queue| queue.release_finished());
        let mut state = self.state.lock();
        if state.recording {
            return Err(Busy::Records);
        }
        if let Some(list) = state.recorded.iter().find(|list| list.is_held()) {
            let queue = list.queue.as_ref().and_then(Weak::upgrade);
            let queue = queue.map_or_else(String::new, |queue| queue.queue_name().to_owned());
            return Err(Busy::Executes { list: list.label(), queue });
        }
        state.generation += 1;
        state.recorded.clear();
        Ok(())
    }
}

impl Link {
    /// Returns the name of the allocator.
    pub(crate) fn allocator_name(&self) -> &str {
        &self.allocator.name
    }

    // spec: ME-030
    /// Begins a call that executes the list on `queue`; `end_submission` ends it.
    fn begin_submission(&self, queue: Weak<dyn RunsLists>) -> Result<(), Misuse> {
        let last = {
            let state = self.allocator.state.lock();
            let list = self.find(&state).ok_or(Misuse::AllocatorReset)?;
            let list = &state.recorded[list];
            if list.is_held() { list.queue.as_ref().and_then(Weak::upgrade) } else { None }
        };
        if let Some(last) = &last {
            last.release_finished();
        }
        let mut state = self.allocator.state.lock();
        let list = self.find(&state).ok_or(Misuse::AllocatorReset)?;
        let list = &mut state.recorded[list];
        if list.is_held() {
            let queue = last.map_or_else(String::new, |queue| queue.queue_name().to_owned());
            return Err(Misuse::Executes { queue });
        }
        (list.submitting, list.queue) = (true, Some(queue));
        Ok(())
    }

    /// Ends the call: the queue now holds the list's memory, or has refused the list.
    fn end_submission(&self) {
        let mut state = self.allocator.state.lock();
        if let Some(list) = self.find(&state) {
            state.recorded[list].submitting = false;
        }
    }

    fn find(&self, state: &State) -> Option<usize> {
        (state.generation == self.generation).then_some(self.index)
    }
}

/// The lists with allocators in a call that executes them, until it returns.
#[derive(Default)]
pub(crate) struct SubmittedLists<'a> {
    links: Vec<&'a Link>,
}

impl<'a> SubmittedLists<'a> {
    pub(crate) fn begin(
        &mut self,
        link: &'a Link,
        queue: Weak<dyn RunsLists>,
    ) -> Result<(), Misuse> {
        link.begin_submission(queue)?;
        self.links.push(link);
        Ok(())
    }
}

impl Drop for SubmittedLists<'_> {
    #[inline]
    fn drop(&mut self) {
        self.links.iter().for_each(|link| link.end_submission());
    }
}
