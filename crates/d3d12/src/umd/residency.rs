//! Owns residency for queues that manage it: the buffers of a submission are resident when it runs,
//! and may be evicted when it is complete. So a device can have more buffers than local memory
//! holds.
//!
//! A submission, in order: 1. its buffers get a reference each (MakeResident); 2. the queue waits
//! for the paging queue's fence, if anything has to be moved for that; 3. the submission; 4. the
//! references go (Evict): the kernel knows by then what is queued, and moves nothing before it is
//! complete. Nothing is waited for on the CPU.
//!
//! A recreated queue holds what it submits again, one command buffer after the other.
//!
//! One lock of the device is held over 1 to 4: two submissions that each fit would not both fit
//! before one has given its references back. It is taken under a queue's submitter lock, and its
//! holder never sleeps.

use crate::model::ResidencyChoice;
use crate::umd::command_memory::CommandMemory;
use crate::umd::failure::Failure;
use crate::umd::fence::FenceObject;
use crate::umd::kernel_object::{Object, Owned};
use crate::umd::queue_identity::QueueIdentity;
use std::sync::Arc;
use tidegate_calls::{CreatePagingQueue, Handle, PagingPriority, Priority, Status};
use tidegate_platform::MutexGuard;

/// Ring slots that a wait for the paging fence may need: itself and a checkpoint.
pub(crate) const WAIT_SLOTS: u64 = 2;

/// A queue's paging queue.
pub(crate) struct Pager {
    /// Before the paging queue: it is the paging queue's fence.
    fence: Arc<FenceObject>,
    paging_queue: Owned,
}

/// Buffers that are held resident for a submission that is being made.
pub(crate) struct Held<'a> {
    _one_at_a_time: MutexGuard<'a, ()>,
    buffers: Vec<Handle>,
    /// The fence and the value that the submission waits for.
    pub(crate) wait: Option<(&'a Arc<FenceObject>, u64)>,
}

impl Pager {
    /// A paging queue as urgent as the queue, if the queue manages residency.
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
        let made = device.enter().create_paging_queue(args).map_err(Failure::of(call))?;
        let paging_queue = Owned::new(&device.kernel, Object::PagingQueue, made.handle);
        let fence = FenceObject::new(device, "paging", made.fence, 0);
        let fence = Arc::new(fence.ok_or(Failure::Refused(call, Status::NOT_SUPPORTED))?);
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
    /// Gives the references back, after the submission was made or refused.
    pub(crate) fn release(self, id: &QueueIdentity) -> Result<(), Failure> {
        if self.buffers.is_empty() {
            return Ok(());
        }
        let evicted = id.device.enter().evict(id.device.handle(), &self.buffers);
        evicted.map_err(Failure::of("D3DKMTEvict"))
    }
}
