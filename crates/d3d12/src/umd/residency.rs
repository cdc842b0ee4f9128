//! Residency for queues that manage it: a submission's buffers are resident while it runs and may
//! be evicted when it is complete. So a device's buffers can exceed local memory.
//!
//! A submission, in order: 1. each buffer gets a residency reference (MakeResident); 2. the queue
//! waits for the paging queue's fence, if any buffer must be paged in; 3. the submission is made;
//! 4. the references are dropped (Evict). The kernel knows the queued work by then and evicts its
//! buffers only after it is complete. No step blocks the CPU.
//!
//! A recreated queue does this for each command buffer that it resubmits.
//!
//! A lock of the device is held across steps 1 to 4: two submissions that each fit may not fit
//! together until one has dropped its references. The lock is taken under a queue's submitter lock,
//! and its holder never sleeps.

use crate::model::ResidencyChoice;
use crate::umd::command_memory::CommandMemory;
use crate::umd::failure::{Failure, Why};
use crate::umd::fence::FenceObject;
use crate::umd::kernel_object::{Object, Owned};
use crate::umd::queue_identity::QueueIdentity;
use std::sync::Arc;
use tidegate_calls::{CreatePagingQueue, Handle, PagingPriority, Priority, Status};
use tidegate_platform::MutexGuard;

/// Maximum number of ring slots for a wait for the paging fence: the wait and a checkpoint.
pub(crate) const WAIT_SLOTS: u64 = 2;

/// A queue's paging queue.
pub(crate) struct Pager {
    /// Declared before the paging queue, whose fence it is.
    fence: Arc<FenceObject>,
    paging_queue: Owned,
}

/// Residency references held while a submission is made.
pub(crate) struct Held<'a> {
    _one_at_a_time: MutexGuard<'a, ()>,
    buffers: Vec<Handle>,
    /// The fence and value that the submission must wait for.
    pub(crate) wait: Option<(&'a Arc<FenceObject>, u64)>,
}

impl Pager {
    /// Creates a paging queue of the queue's priority, if the queue manages residency.
    pub(crate) fn for_queue(id: &QueueIdentity) -> Result<Option<Pager>, Failure> {
        let device = &*id.device;
        if device.options.residency == ResidencyChoice::Explicit {
            return Ok(None);
        }
        let priority = match id.priority {
            Priority::Idle => PagingPriority::BelowNormal,
            Priority::Normal => PagingPriority::Normal,
            Priority::High | Priority::Realtime => PagingPriority::AboveNormal,
        };
        let call = "D3DKMTCreatePagingQueue";
        let args = CreatePagingQueue { device: device.handle(), priority };
        let made = device.enter().create_paging_queue(args).map_err(Why::of(call))?;
        let paging_queue = Owned::new(&device.kernel, Object::PagingQueue, made.handle);
        let fence = FenceObject::new(device, "paging", made.fence, 0);
        let fence = Arc::new(fence.ok_or(Why::Refused(call, Status::NOT_SUPPORTED))?);
        Ok(Some(Pager { fence, paging_queue }))
    }

    /// Steps 1 and 2; [`Held::release`] is step 4.
    pub(crate) fn hold<'a, 'b>(
        &'a self,
        id: &'a QueueIdentity,
        memories: impl Iterator<Item = &'b CommandMemory>,
    ) -> Result<Held<'a>, Failure> {
        let mut allocations: Vec<Handle> = memories
            .flat_map(|memory| &memory.buffers)
            .filter_map(|buffer| buffer.movable())
            .collect();
        allocations.sort_by_key(|handle| handle.0);
        allocations.dedup();
        let lock = id.device.residency.lock_device();
        let mut held = Held { _one_at_a_time: lock, buffers: allocations, wait: None };
        if held.buffers.is_empty() {
            return Ok(held);
        }
        let value = id.device.add_references(self.paging_queue.handle(), &held.buffers)?;
        held.wait = value.map(|value| (&self.fence, value));
        Ok(held)
    }
}

impl Held<'_> {
    /// Drops the references after the submission was made or refused.
    pub(crate) fn release(self, id: &QueueIdentity) -> Result<(), Failure> {
        if self.buffers.is_empty() {
            return Ok(());
        }
        let evicted = id.device.enter().evict(id.device.handle(), &self.buffers);
        evicted.map_err(Why::of("D3DKMTEvict"))
    }
}
