//! The place of an object that threads of a program share.
//!
//! Invariants: a thread that needs an object waits until its maker has put it there. A thread that
//! drops one waits until the uses before the drop in the reference order have ended. Both waits go
//! back in the reference order, so they end in every admitted program.

use crate::operation::Operation;
use crate::program::Program;
use crate::words::{BufferId, FenceId, ProcessId, QueueId, Surface};
use std::collections::BTreeMap;
use tidegate::Platform;
use tidegate::platform::{Event, Mutex, Step, Word};

/// The name of an object of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Queue(QueueId),
    /// The instance of a process at a surface.
    Fence(FenceId, ProcessId, Surface),
    /// The handle by which other processes open a fence.
    Handle(FenceId),
    Buffer(BufferId),
}

/// The objects that a step makes, uses and drops.
#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) made: Vec<Key>,
    pub(crate) used: Vec<Key>,
    pub(crate) dropped: Option<Key>,
}

impl Objects {
    /// Returns the objects of an operation of `process`. `surface_of` is the surface of a queue.
    pub(crate) fn of(
        operation: Operation,
        process: ProcessId,
        surface_of: impl Fn(QueueId) -> Surface,
    ) -> Objects {
        let mut objects = Objects::default();
        let instance = |fence, surface| Key::Fence(fence, process, surface);
        match operation {
            Operation::CreateQueue { queue, .. } => objects.made.push(Key::Queue(queue)),
            Operation::DropQueue { queue } => objects.dropped = Some(Key::Queue(queue)),
            Operation::Execute { queue, .. }
            | Operation::CloseQueue { queue }
            | Operation::Flood { queue, .. }
            | Operation::Prompt { queue, .. }
            | Operation::Drain { queue }
            | Operation::SetPriority { queue, .. }
            | Operation::Hang { queue } => objects.used.push(Key::Queue(queue)),
            Operation::Store { queue, buffer, .. } => {
                objects.used.extend([Key::Queue(queue), Key::Buffer(buffer)]);
            }
            Operation::CreateFence { fence, surface, .. } => {
                objects.made.extend([instance(fence, surface), Key::Handle(fence)]);
            }
            Operation::OpenFence { fence, surface } => {
                objects.used.push(Key::Handle(fence));
                objects.made.push(instance(fence, surface));
            }
            Operation::CloseFence { fence } => objects.used.push(instance(fence, Surface::Raw)),
            Operation::WaitAll { fence, other, .. } | Operation::WaitAny { fence, other, .. } => {
                let both = [fence, other].map(|fence| instance(fence, Surface::Raw));
                objects.used.extend(both);
            }
            Operation::DropFence { fence, surface } => {
                objects.dropped = Some(instance(fence, surface));
            }
            Operation::Broadcast { queue, other, fence, .. } => {
                let queues = [Key::Queue(queue), Key::Queue(other)];
                objects.used.extend(queues);
                objects.used.push(instance(fence, surface_of(queue)));
            }
            Operation::QueueSignal { queue, fence, .. }
            | Operation::QueueWait { queue, fence, .. }
            | Operation::PulseQueue { queue, fence, .. } => {
                objects.used.extend([Key::Queue(queue), instance(fence, surface_of(queue))]);
            }
            Operation::Signal { fence, surface, .. }
            | Operation::Wait { fence, surface, .. }
            | Operation::PulseWait { fence, surface, .. }
            | Operation::Register { fence, surface, .. } => {
                objects.used.push(instance(fence, surface));
            }
            Operation::CreateBuffer { buffer, .. } => objects.made.push(Key::Buffer(buffer)),
            Operation::DropBuffer { buffer } => objects.dropped = Some(Key::Buffer(buffer)),
            Operation::Evict { buffer }
            | Operation::PageOut { buffer }
            | Operation::PageIn { buffer } => objects.used.push(Key::Buffer(buffer)),
            Operation::Await { .. }
            | Operation::Cancel { .. }
            | Operation::Scratch { .. }
            | Operation::Query { .. }
            | Operation::Tiles { .. }
            | Operation::ShareResource { .. }
            | Operation::Semaphore { .. }
            | Operation::KeyedMutex { .. }
            | Operation::NameFence { .. }
            | Operation::Vsync {}
            | Operation::Flip { .. }
            | Operation::Rest { .. }
            | Operation::StopProcess { .. }
            | Operation::Suspend { .. }
            | Operation::SleepResume { .. }
            | Operation::IdleEngines {}
            | Operation::ResetEngine { .. }
            | Operation::ResetAdapter {}
            | Operation::RemoveAdapter {}
            | Operation::DestroyDevice {}
            | Operation::MarkDevice { .. }
            | Operation::Kill { .. } => {}
        }
        objects
    }
}

/// Returns the surface of each queue of a program.
pub(crate) fn surfaces(program: &Program) -> BTreeMap<QueueId, Surface> {
    let created = program.steps.iter().filter_map(|step| match step.operation {
        Operation::CreateQueue { queue, surface, .. } => Some((queue, surface)),
        _ => None,
    });
    created.collect()
}

/// The place of an object.
pub(crate) struct Slot<T> {
    /// `None` before it is made, after it is dropped, and if it could not be made.
    value: Mutex<Option<T>>,
    made: Event,
    /// Uses before the drop that have not ended.
    uses: Word,
    unused: Event,
}

impl<T: Clone> Slot<T> {
    /// Returns an empty place whose object is dropped after `uses` uses.
    pub(crate) fn new(platform: &Platform, uses: u64) -> Slot<T> {
        let word = platform.page(1).word(0);
        word.store(uses);
        let unused = platform.event(true);
        if uses == 0 {
            unused.set(Step::ThreadWake);
        }
        Slot {
            value: platform.mutex("an object", None),
            made: platform.event(true),
            uses: word,
            unused,
        }
    }

    /// Puts the object there, or says that there is none.
    pub(crate) fn put(&self, value: Option<T>) {
        *self.value.lock() = value;
        self.made.set(Step::ThreadWake);
    }

    /// Returns the object when it is made.
    pub(crate) fn get(&self) -> Option<T> {
        self.made.wait_for(None, "an object of the program");
        self.value.lock().clone()
    }

    /// Ends a use.
    pub(crate) fn end_use(&self) {
        if self.uses.fetch_add(u64::MAX) == 1 {
            self.unused.set(Step::ThreadWake);
        }
    }

    /// Takes the object when all uses have ended.
    pub(crate) fn take(&self) -> Option<T> {
        self.made.wait_for(None, "an object of the program");
        self.unused.wait_for(None, "uses of an object of the program");
        self.value.lock().take()
    }

    /// Returns the object that is there now.
    pub(crate) fn peek(&self) -> Option<T> {
        self.value.lock().clone()
    }

    /// Takes the object without waiting, at the end of the program.
    pub(crate) fn take_now(&self) -> Option<T> {
        self.value.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A thread that drops an object may come before its maker and its users.
    #[test]
    fn the_last_thread_takes_the_object_after_its_maker_and_all_uses() {
        for uses in 0..3 {
            let platform = Platform::virtual_time(tidegate::platform::StepCosts::free());
            let slot = Arc::new(Slot::new(&platform, uses));
            let taken = Arc::new(platform.mutex("the time and the object", None));
            let (own, into) = (platform.clone(), taken.clone());
            platform.run(move || {
                let (clock, taker) = (own.clone(), slot.clone());
                let drops = own.spawn("drops", move || {
                    let object = taker.take();
                    *into.lock() = Some((clock.now().0, object));
                });
                own.sleep_until(own.now().after(10));
                slot.put(Some(7));
                for _ in 0..uses {
                    own.sleep_until(own.now().after(10));
                    assert_eq!(slot.get(), Some(7));
                    slot.end_use();
                }
                drops.join();
                assert_eq!(slot.peek(), None);
            });
            assert_eq!(*taken.lock(), Some((10 + 10 * uses, Some(7))));
        }
    }
}
