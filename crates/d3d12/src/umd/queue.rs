//! Owns a queue as the API holds it: a kernel-mode queue or a user-mode queue.

use crate::counters::QueueStats;
use crate::model::Submission;
use crate::umd::allocator::RunsLists;
use crate::umd::closed_list::ClosedList;
use crate::umd::failure::Failure;
use crate::umd::fence::FenceObject;
use crate::umd::kernel_queue::{self, KernelQueue};
use crate::umd::queue_identity::QueueIdentity;
use crate::umd::submit::Unit;
use crate::umd::user_queue::UserQueue;
use std::sync::Arc;
use tidegate_calls::{Present, PresentQueue};
use tidegate_platform::Queued;
use tidegate_trace::{Kind, NameId, Record};

enum Path {
    Kernel(Box<KernelQueue>),
    User(Arc<UserQueue>),
}

pub(crate) struct UmdQueue {
    path: Path,
    pub(crate) id: Arc<QueueIdentity>,
}

type Result<T = ()> = std::result::Result<T, Failure>;

impl UmdQueue {
    pub(crate) fn new(id: QueueIdentity, submission: Submission) -> Result<UmdQueue> {
        let id = Arc::new(id);
        let path = match submission {
            Submission::Packet => Path::Kernel(Box::new(KernelQueue::packet(&id)?)),
            Submission::Hardware => Path::Kernel(Box::new(KernelQueue::hardware(&id)?)),
            Submission::User => Path::User(Arc::new(UserQueue::new(&id)?)),
        };
        Ok(UmdQueue { path, id })
    }

    /// How its work reaches the engine now: a user-mode queue may have become a hardware queue.
    pub(crate) fn submission(&self) -> Submission {
        match &self.path {
            Path::Kernel(queue) => queue.submission(),
            Path::User(queue) => queue.submission(),
        }
    }

    /// Whether it was created as a user-mode queue, which takes native fences only.
    pub(crate) fn is_user_mode(&self) -> bool {
        matches!(self.path, Path::User(_))
    }

    pub(crate) fn stats(&self) -> QueueStats {
        match &self.path {
            Path::Kernel(queue) => queue.stats(),
            Path::User(queue) => queue.stats(),
        }
    }

    /// Slots of its ring; `None` for a queue that has none.
    pub(crate) fn ring_slots(&self) -> Option<u64> {
        match &self.path {
            Path::Kernel(_) => None,
            Path::User(queue) => queue.ring_slots(),
        }
    }

    /// The label of the list at a position of the queue. Only user-mode queues know it: the
    /// scheduler numbers the packets of the others.
    pub(crate) fn label_at(&self, position: u64) -> Option<String> {
        match &self.path {
            Path::Kernel(_) => None,
            Path::User(queue) => queue.label_at(position),
        }
    }

    pub(crate) fn wait_idle(&self) -> Result {
        match &self.path {
            Path::Kernel(queue) => queue.wait_idle(),
            Path::User(queue) => queue.wait_idle(),
        }
    }

    pub(crate) fn execute(&self, lists: &[&ClosedList], queued: Queued) -> Result {
        match &self.path {
            Path::Kernel(queue) => queue.execute(lists, queued),
            Path::User(queue) => queue.submit(&Unit::Execute(lists), queued),
        }
    }

    pub(crate) fn wait(&self, fence: &Arc<FenceObject>, value: u64, queued: Queued) -> Result {
        match &self.path {
            Path::Kernel(queue) => queue.wait(fence, value),
            Path::User(queue) => queue.submit(&Unit::Wait(fence, fence.wait_for(value)), queued),
        }
    }

    pub(crate) fn signal(&self, fence: &Arc<FenceObject>, value: u64, queued: Queued) -> Result {
        match &self.path {
            Path::Kernel(queue) => queue.signal(fence, value),
            Path::User(queue) => queue.submit(&Unit::Signal(fence, value), queued),
        }
    }

    /// Queues a flip behind everything that is queued. A user-mode queue that was recreated as a
    /// hardware queue is refused too.
    pub(crate) fn present(&self, args: impl FnOnce(PresentQueue) -> Present) -> Result {
        match &self.path {
            Path::Kernel(queue) => queue.present(args),
            Path::User(_) => Err(Failure::PresentOnUserQueue),
        }
    }

    /// Records that command buffers are given to the queue, each under the name of its first list.
    /// Returns what the records say of the call.
    pub(crate) fn record_queued(&self, lists: &[&ClosedList]) -> Queued {
        let platform = &self.id.device.platform;
        let queued = Queued { link: platform.new_link(), ..self.id.queued() };
        if !queued.link.is_some() {
            return queued;
        }
        let record = |list: &ClosedList| {
            let lane = self.id.lane;
            let name = timeline_name(list);
            let record = Record::instant(lane, Kind::ExecuteQueued, name, queued.at_ns);
            platform.record(record.linked(queued.link));
        };
        match &self.path {
            Path::Kernel(queue) if queue.submission() == Submission::Packet => {
                kernel_queue::packets(lists).for_each(|packet| record(packet[0]));
            }
            Path::Kernel(_) | Path::User(_) => lists.iter().for_each(|list| record(list)),
        }
        queued
    }
}

impl RunsLists for UmdQueue {
    fn release_finished(&self) {
        match &self.path {
            Path::Kernel(queue) => queue.release_finished(),
            Path::User(queue) => queue.release_finished(),
        }
    }

    fn queue_name(&self) -> &str {
        &self.id.name
    }
}

impl Drop for UmdQueue {
    fn drop(&mut self) {
        let stats = self.stats();
        *self.id.device.ended.lock() += stats;
    }
}

/// The name of the queue's box of a list on the timeline.
pub(crate) fn timeline_name(list: &ClosedList) -> NameId {
    NameId(list.memory.trace_name.saturating_sub(1))
}
