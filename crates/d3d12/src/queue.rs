//! Owns queues as an application sees them: execute, wait and signal take effect in call order, and
//! each returns at once.
//!
//! What is common to the three submission models stands here: the checks, the lane, the records.
//! How work reaches the engine is the business of `umd::{packet_queue, hardware_queue,
//! user_queue}`. What was executed is submitted before the call returns. When the ring of a
//! user-mode queue is full it goes into the backlog, before every later wait and signal.

use crate::counters::QueueStats;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::list::ClosedList;
use crate::model::{CommandListType, QueueDesc, QueueOptions, Submission};
use crate::umd::hardware_queue::HardwareQueue;
use crate::umd::packet_queue::{self, PacketQueue};
use crate::umd::submit::Unit;
use crate::umd::user_queue::UserQueue;
use crate::umd::{EngineChoice, QueueIdentity};
use std::fmt;
use std::sync::Arc;
use tidegate_calls::{Present, PresentQueue};
use tidegate_calls::{Priority, Status};
use tidegate_trace::{Kind, LaneId, LaneKind, LinkId, NameId, Record};

// spec: ME-004, ME-014, ME-019
/// A queue. Calls from several threads are taken one after the other.
#[derive(Clone)]
pub struct Queue {
    pub(crate) inner: Arc<QueueInner>,
    lane: Option<LaneId>,
}

enum Path {
    Packet(PacketQueue),
    Hardware(HardwareQueue),
    User(UserQueue),
}

pub(crate) struct QueueInner {
    /// Before `id`: kernel objects end while the device is still there.
    path: Path,
    list_type: CommandListType,
    pub(crate) id: QueueIdentity,
}

/// What the kernel refuses for want of a privilege names the queue, and what to do.
fn name_privilege(error: Error, queue: &str, priority: Priority) -> Error {
    match error {
        Error::Call { status: Status::ACCESS_DENIED | Status::PRIVILEGE_NOT_HELD, .. }
            if priority == Priority::Realtime =>
        {
            Error::PrivilegeNotHeld { queue: queue.to_owned() }
        }
        other => other,
    }
}

/// What the queue's box of a list is called on the timeline.
fn timeline_name(list: &ClosedList) -> NameId {
    NameId(list.memory.trace_name.saturating_sub(1))
}

impl QueueInner {
    /// Records that command buffers are given to the queue, each under the name of its first list.
    /// Returns what links them.
    fn record_queued(&self, lists: &[&ClosedList], queued_ns: u64) -> LinkId {
        let platform = &self.id.device.platform;
        let link = platform.new_link();
        if !link.is_some() {
            return link;
        }
        let record = |list: &ClosedList| {
            let lane = self.id.lane;
            let queued = Record::instant(lane, Kind::ExecuteQueued, timeline_name(list), queued_ns);
            platform.record(queued.linked(link));
        };
        match &self.path {
            Path::Packet(_) => packet_queue::packets(lists).for_each(|packet| record(packet[0])),
            Path::Hardware(_) | Path::User(_) => lists.iter().for_each(|list| record(list)),
        }
        link
    }

    pub(crate) fn stats(&self) -> QueueStats {
        match &self.path {
            Path::Packet(queue) => queue.stats(),
            Path::Hardware(queue) => queue.stats(),
            Path::User(queue) => queue.stats(&self.id),
        }
    }

    pub(crate) fn wait_idle(self: &Arc<Self>) -> Result<()> {
        match &self.path {
            Path::Packet(queue) => queue.wait_idle(&self.id),
            Path::Hardware(queue) => queue.wait_idle(&self.id),
            Path::User(queue) => queue.wait_idle(self),
        }
    }

    /// Queues a flip behind everything that was queued before. Of a user-mode queue no swap chain
    /// is made; one that was made anew as a hardware queue is still refused.
    pub(crate) fn present(&self, args: impl FnOnce(PresentQueue) -> Present) -> Result<()> {
        match &self.path {
            Path::Packet(queue) => queue.present(&self.id, args),
            Path::Hardware(queue) => {
                queue.present(&self.id, args).map_err(|failure| self.id.error(failure))
            }
            Path::User(_) => Err(Error::NotSupported {
                what: format!("a present on queue '{}'", self.id.name),
                why: "a user-mode queue presents nothing; create the queue with packet or hardware submission",
            }),
        }
    }

    /// The queue behind a worker of its backlog.
    pub(crate) fn user_queue(&self) -> Option<&UserQueue> {
        match &self.path {
            Path::User(queue) => Some(queue),
            Path::Packet(_) | Path::Hardware(_) => None,
        }
    }

    /// What the list at a position of the queue was called. Only user-mode queues know: positions
    /// of the others are numbers that the scheduler gave.
    pub(crate) fn label_at(&self, position: u64) -> Option<String> {
        match &self.path {
            Path::User(queue) => queue.label_at(position),
            Path::Packet(_) | Path::Hardware(_) => None,
        }
    }
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        let stats = self.stats();
        self.id.device.queue_ended(self.id.tag, stats);
    }
}

impl Queue {
    pub(crate) fn new(
        device: &Device,
        desc: QueueDesc,
        options: QueueOptions,
        lane: Option<LaneId>,
    ) -> Result<Queue> {
        let inner = &device.inner;
        let node = inner.node(&desc)?;
        inner.check_node_mask(&desc)?;
        let at = EngineChoice { node_ordinal: node, engine_affinity: desc.node_mask };
        if desc.submission == Submission::User
            && !device.adapter().nodes[node as usize].user_mode_submission
        {
            return Err(Error::NotSupported {
                what: format!("user-mode submission for queue '{}'", desc.name),
                why: "its node does not offer it; create the queue with packet or hardware submission",
            });
        }
        if desc.submission == Submission::Hardware && !device.adapter().hardware_scheduling {
            return Err(Error::NotSupported {
                what: format!("hardware submission for queue '{}'", desc.name),
                why: "the adapter has no hardware scheduling; create the queue with packet submission",
            });
        }
        if desc.submission == Submission::Hardware
            && !device.adapter().nodes[node as usize].writes_fences
        {
            return Err(Error::NotSupported {
                what: format!("hardware submission for queue '{}'", desc.name),
                why: "its node cannot write a progress fence; create the queue with packet submission",
            });
        }
        let own = inner.platform.lane(LaneKind::Queue, &inner.options.process_name, &desc.name);
        // Lanes are numbered through the whole machine, so that tags of different processes differ
        // too.
        // spec: ME-018
        let tag = own.0 + 1;
        let id = QueueIdentity { device: Arc::clone(inner), name: desc.name, tag, lane: own };
        let path = match desc.submission {
            Submission::Packet => PacketQueue::new(&id, at, desc.priority).map(Path::Packet),
            Submission::Hardware => {
                let queue = HardwareQueue::new(&id, at, desc.priority);
                queue.map(Path::Hardware).map_err(|failure| id.error(failure))
            }
            Submission::User => {
                UserQueue::new(&id, at, desc.priority, options.on_abort).map(Path::User)
            }
        };
        let path = path.map_err(|error| name_privilege(error, &id.name, desc.priority))?;
        Ok(Queue { inner: Arc::new(QueueInner { path, list_type: desc.list_type, id }), lane })
    }

    /// A handle of a queue that exists.
    pub(crate) fn of(inner: Arc<QueueInner>, lane: Option<LaneId>) -> Queue {
        Queue { inner, lane }
    }

    /// The same queue for a CPU thread that is drawn on `lane`: its calls are recorded there.
    pub fn on_lane(&self, lane: LaneId) -> Queue {
        Queue { inner: Arc::clone(&self.inner), lane: Some(lane) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.id.name
    }

    /// The number under which its work is counted; no other queue of the machine has it.
    pub fn tag(&self) -> u32 {
        self.inner.id.tag
    }

    /// What it runs.
    pub fn list_type(&self) -> CommandListType {
        self.inner.list_type
    }

    /// How its work reaches the engine now: a user-mode queue may have become a hardware queue, see
    /// [`crate::OnAbort`].
    pub fn submission(&self) -> Submission {
        match &self.inner.path {
            Path::Packet(_) => Submission::Packet,
            Path::Hardware(_) => Submission::Hardware,
            Path::User(queue) => queue.submission(),
        }
    }

    /// Slots of its ring; `None` for a queue that has none: the software queues behind packet and
    /// hardware queues take any number of submissions.
    pub fn ring_slots(&self) -> Option<u64> {
        match &self.inner.path {
            Path::User(queue) => queue.ring_slots(),
            Path::Packet(_) | Path::Hardware(_) => None,
        }
    }

    /// Its own lane of the timeline.
    pub fn timeline_lane(&self) -> LaneId {
        self.inner.id.lane
    }

    /// What it did so far.
    pub fn stats(&self) -> QueueStats {
        self.inner.stats()
    }

    /// Blocks until everything that was queued before the call is complete.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::DeviceRemoved`]; an error of an earlier submission, as
    /// [`Queue::execute`].
    pub fn wait_idle(&self) -> Result<()> {
        self.inner.wait_idle()
    }

    // spec: ME-021, ME-023, ME-027, ME-022
    /// Submits lists as one ordered unit, behind everything that was queued before. Returns at
    /// once: what the ring of a user-mode queue has no room for is submitted as it drains. An error
    /// of such a submission is returned by a later call of the queue; the work of that call is
    /// queued nonetheless.
    ///
    /// # Errors
    /// [`Error::WrongQueue`], [`Error::Foreign`], [`Error::TooManyLists`];
    /// [`Error::DeviceRemoved`], [`Error::QueueAborted`], [`Error::WorkLost`], [`Error::Stopped`].
    #[doc(alias = "ExecuteCommandLists")]
    pub fn execute(&self, lists: &[&ClosedList]) -> Result<()> {
        let QueueInner { path, list_type, id } = &*self.inner;
        for list in lists {
            id.device.owns(&list.device, || {
                format!("the list '{}'", list.label().unwrap_or("without a label"))
            })?;
            if list.list_type != *list_type {
                return Err(Error::WrongQueue {
                    queue: id.name.clone(),
                    queue_type: *list_type,
                    list_type: list.list_type,
                });
            }
        }
        let Some(first) = lists.first() else { return Ok(()) };
        let start = id.device.stamp(self.lane);
        let queued_ns = id.queued_ns();
        let link = self.inner.record_queued(lists, queued_ns);
        let result = match path {
            Path::Packet(queue) => queue.execute(id, lists, queued_ns),
            Path::Hardware(queue) => {
                queue.execute(id, lists, queued_ns).map_err(|failure| id.error(failure))
            }
            Path::User(queue) => queue.submit(&self.inner, &Unit::Execute(lists), queued_ns),
        };
        let call = |record: Record| {
            record.for_queue(self.timeline_lane()).linked(link).with_arg(lists.len() as u64)
        };
        id.device.record_call(start, Kind::Submit, timeline_name(first), call);
        result
    }

    // spec: ME-026, MF-029, ME-025
    /// Holds later work of the queue back until the fence is at least `value`. The caller goes on
    /// at once.
    ///
    /// # Errors
    /// [`Error::MonitoredFence`] on a user-mode queue, [`Error::Foreign`]; as [`Queue::execute`].
    pub fn wait(&self, fence: &Fence, value: u64) -> Result<()> {
        self.takes(fence)?;
        let QueueInner { path, id, .. } = &*self.inner;
        let start = id.device.stamp(self.lane);
        let queued_ns = id.queued_ns();
        let result = match path {
            Path::Packet(queue) => queue.wait(id, &fence.inner, value),
            Path::Hardware(queue) => {
                queue.wait(id, &fence.inner, value).map_err(|failure| id.error(failure))
            }
            Path::User(queue) => {
                let wait = fence.inner.wait_for(value);
                queue.submit(&self.inner, &Unit::Wait(&fence.inner, wait), queued_ns)
            }
        };
        let call = |record: Record| {
            record.for_queue(self.timeline_lane()).on(fence.inner.on_timeline(value))
        };
        id.device.record_call(start, Kind::Submit, id.device.names.wait, call);
        result
    }

    // spec: ME-024
    /// Sets the fence to `value` when all earlier work of the queue is complete. The caller goes on
    /// at once.
    ///
    /// # Errors
    /// As [`Queue::wait`].
    pub fn signal(&self, fence: &Fence, value: u64) -> Result<()> {
        self.takes(fence)?;
        let QueueInner { path, id, .. } = &*self.inner;
        let start = id.device.stamp(self.lane);
        let queued_ns = id.queued_ns();
        let result = match path {
            Path::Packet(queue) => queue.signal(id, &fence.inner, value),
            Path::Hardware(queue) => {
                queue.signal(id, &fence.inner, value).map_err(|failure| id.error(failure))
            }
            Path::User(queue) => {
                queue.submit(&self.inner, &Unit::Signal(&fence.inner, value), queued_ns)
            }
        };
        let call = |record: Record| {
            record.for_queue(self.timeline_lane()).on(fence.inner.on_timeline(value))
        };
        id.device.record_call(start, Kind::Submit, id.device.names.signal, call);
        result
    }

    // spec: NF-143
    fn takes(&self, fence: &Fence) -> Result<()> {
        let id = &self.inner.id;
        id.device.owns(&fence.inner.device, || format!("fence '{}'", fence.name()))?;
        match &self.inner.path {
            Path::User(_) if !fence.is_native() => Err(Error::MonitoredFence {
                queue: id.name.clone(),
                fence: fence.name().to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({:?}, {}, {})", self.name(), self.list_type(), self.submission())
    }
}
