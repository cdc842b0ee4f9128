//! The limit on what a process has queued with the kernel.
//!
//! Invariant: the room is at most the limit less what was queued at the last count. It shrinks with
//! each call. The queues are counted again only when it does not suffice, so a call whose work
//! completes costs a subtraction, and a process at its limit pays only for its queues.

use super::Process;
use crate::object::object_table::Object;
use crate::object::tile_update::TileUpdate;
use crate::scheduling::CommandRange;
use std::sync::Arc;
use tidegate_calls::Status;

impl Process {
    /// Checks that work of this cost may be queued, and takes its room. What is not queued after
    /// all is found at the next count.
    ///
    /// # Errors
    /// INSUFFICIENT_RESOURCES if the process would have more work queued than its limit.
    pub(super) fn take_room(&self, cost: usize) -> Result<(), Status> {
        let Some(limit) = self.kind.queued else { return Ok(()) };
        let mut room = self.queue_room.lock_device();
        if room.left < cost {
            room.left =
                (limit as usize).saturating_sub(self.queued_cost() + room.cost_of_updates());
        }
        room.left = room.left.checked_sub(cost).ok_or(Status::INSUFFICIENT_RESOURCES)?;
        Ok(())
    }

    /// Counts an update of reserved addresses, which has taken its room, for as long as it waits.
    pub(super) fn count_update(&self, update: &Arc<TileUpdate>, cost: usize) {
        if self.kind.queued.is_some() {
            self.queue_room.lock_device().add_update(update, cost);
        }
    }

    /// Checks address and length of commands to queue, and takes their room.
    ///
    /// # Errors
    /// INVALID_PARAMETER for commands outside of the address space, and as [`Process::take_room`].
    pub(super) fn take_room_for_commands(&self, commands: CommandRange) -> Result<(), Status> {
        let CommandRange { gpu_va, bytes } = commands;
        if gpu_va == 0 || bytes == 0 || gpu_va.checked_add(u64::from(bytes)).is_none() {
            return Err(Status::INVALID_PARAMETER);
        }
        self.take_room(1)
    }

    /// Returns what the work counts for that all queues of the process have now.
    fn queued_cost(&self) -> usize {
        let queues: Vec<_> = {
            let objects = self.handles.lock();
            let queues = objects.iter().filter_map(|(_, object)| match object {
                Object::Context(context) => Some(context.os_handle),
                Object::HwQueue(queue) => Some(queue.os_handle),
                _ => None,
            });
            queues.collect()
        };
        queues.into_iter().map(|queue| self.objects.sched.lock().queued_cost(queue)).sum()
    }
}
