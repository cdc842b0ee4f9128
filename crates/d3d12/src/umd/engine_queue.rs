//! The part of a queue that runs on one node: a kernel-mode queue or a user-mode queue.

use crate::counters::QueueStats;
use crate::model::Submission;
use crate::umd::closed_list::ClosedList;
use crate::umd::command_memory::{CommandMemory, ReportedBuffer};
use crate::umd::failure::{Failure, Why};
use crate::umd::fence::FenceObject;
use crate::umd::kernel_queue::KernelQueue;
use crate::umd::queue_identity::QueueIdentity;
use crate::umd::submit::Unit;
use crate::umd::user_queue::{Submitted, UserQueue};
use std::sync::Arc;
use tidegate_calls::{Present, PresentQueue};
use tidegate_platform::{CpuTime, QueueNumber, Queued};

enum Path {
    Kernel(Box<KernelQueue>),
    User(Arc<UserQueue>),
}

pub(crate) struct EngineQueue {
    path: Path,
    pub(crate) id: Arc<QueueIdentity>,
}

type Result<T = ()> = std::result::Result<T, Failure>;

impl EngineQueue {
    pub(crate) fn new(id: Arc<QueueIdentity>, submission: Submission) -> Result<EngineQueue> {
        let path = match submission {
            Submission::Packet => Path::Kernel(Box::new(KernelQueue::packet(&id)?)),
            Submission::Hardware => Path::Kernel(Box::new(KernelQueue::hardware(&id)?)),
            Submission::User => Path::User(Arc::new(UserQueue::new(&id)?)),
        };
        Ok(EngineQueue { path, id })
    }

    /// Returns the present submission model. A user-mode queue may have become a hardware queue.
    pub(crate) fn submission(&self) -> Submission {
        match &self.path {
            Path::Kernel(queue) => queue.submission(),
            Path::User(queue) => queue.submission(),
        }
    }

    /// Returns whether it was created as a user-mode queue, which accepts native fences only.
    pub(crate) fn is_user_mode(&self) -> bool {
        matches!(self.path, Path::User(_))
    }

    pub(crate) fn stats(&self) -> QueueStats {
        match &self.path {
            Path::Kernel(queue) => queue.stats(),
            Path::User(queue) => queue.stats(),
        }
    }

    /// Returns the number of ring slots; `None` without a ring.
    pub(crate) fn ring_slots(&self) -> Option<u64> {
        match &self.path {
            Path::Kernel(_) => None,
            Path::User(queue) => queue.ring_slots(),
        }
    }

    /// Returns the command buffer named in a report on the kernel's queue with this number, if it
    /// is still known.
    pub(crate) fn reported(
        &self,
        number: QueueNumber,
        buffer: ReportedBuffer,
    ) -> Option<Arc<CommandMemory>> {
        match &self.path {
            Path::Kernel(queue) => queue.reported(number, buffer),
            Path::User(queue) => queue.reported(number, buffer),
        }
    }

    pub(crate) fn wait_idle(&self, by: Option<CpuTime>) -> Result {
        match &self.path {
            Path::Kernel(queue) => queue.wait_idle(by),
            Path::User(queue) => queue.wait_idle(by),
        }
    }

    /// Returns whether all queued work is complete, as far as user mode can see.
    pub(crate) fn is_known_idle(&self) -> bool {
        match &self.path {
            Path::Kernel(queue) => queue.is_known_idle(),
            Path::User(queue) => queue.is_known_idle(),
        }
    }

    /// Returns whether all queued work is complete and the device was not lost before.
    pub(crate) fn has_completed(&self) -> bool {
        match &self.path {
            Path::Kernel(queue) => queue.has_completed(),
            Path::User(queue) => queue.has_completed(),
        }
    }

    /// Returns whether queued work is incomplete.
    pub(crate) fn is_pending(&self) -> Result<bool> {
        match &self.path {
            Path::Kernel(queue) => queue.is_pending(),
            Path::User(queue) => queue.is_pending(),
        }
    }

    /// Releases the command memory that the GPU has finished with.
    pub(crate) fn release_finished(&self) {
        match &self.path {
            Path::Kernel(queue) => queue.release_finished(),
            Path::User(queue) => queue.release_finished(),
        }
    }

    /// Returns the failure of an earlier submission and releases the resources held by an idle
    /// part. A kernel-mode queue reads its progress with its next submission.
    pub(crate) fn collect_idle(&self) -> Result {
        match &self.path {
            Path::Kernel(_) => Ok(()),
            Path::User(queue) => queue.wait_idle(None),
        }
    }

    /// Refuses more lists than fit into one submission.
    pub(crate) fn check_length(&self, lists: &[&ClosedList]) -> Result {
        match &self.path {
            Path::Kernel(_) => Ok(()),
            Path::User(queue) => queue.check_length(&Unit::Execute(lists)),
        }
    }

    /// Recreates a user-mode queue whose doorbell is permanently lost, as its next submission
    /// would.
    pub(crate) fn check_doorbell(&self) -> Submitted {
        match &self.path {
            Path::Kernel(_) => Ok(None),
            Path::User(queue) => queue.check_doorbell(),
        }
    }

    /// Connects the doorbell of a user-mode queue.
    pub(crate) fn connect_doorbell(&self) -> Result {
        match &self.path {
            Path::Kernel(_) => Ok(()),
            Path::User(queue) => queue.connect_doorbell(),
        }
    }

    #[inline]
    pub(crate) fn execute(&self, lists: &[&ClosedList], queued: Queued) -> Submitted {
        match &self.path {
            Path::Kernel(queue) => queue.execute(lists, queued).map(|()| None),
            Path::User(queue) => queue.submit(&Unit::Execute(lists), queued),
        }
    }

    #[inline]
    pub(crate) fn wait(&self, fence: &Arc<FenceObject>, value: u64, queued: Queued) -> Submitted {
        match &self.path {
            Path::Kernel(queue) => queue.wait(fence, value, queued).map(|()| None),
            Path::User(queue) => queue.submit(&Unit::Wait(fence, fence.wait_for(value)), queued),
        }
    }

    #[inline]
    pub(crate) fn signal(&self, fence: &Arc<FenceObject>, value: u64, queued: Queued) -> Submitted {
        match &self.path {
            Path::Kernel(queue) => queue.signal(fence, value, queued).map(|()| None),
            Path::User(queue) => queue.submit(&Unit::Signal(fence, value), queued),
        }
    }

    /// Queues a flip behind all queued work. Also refused for a user-mode queue that was recreated
    /// as a hardware queue.
    pub(crate) fn present(&self, args: impl FnOnce(PresentQueue) -> Present) -> Result {
        match &self.path {
            Path::Kernel(queue) => queue.present(args),
            Path::User(_) => Err(Why::PresentOnUserQueue.into()),
        }
    }
}
