//! Connect and disconnect of a queue's doorbell.

use crate::cmp::Cmp;
use crate::doorbell::{Placement, Reading, SeatOwner};
use crate::hardware::Hardware;
use tidegate_gpu_abi::admin::{AdminAnswer, DONE};
use tidegate_gpu_abi::{AdminError, QueueId, QueueKind};
use tidegate_platform::MutexGuard;

pub(super) fn connect(
    gpu: &Hardware,
    mut cmp: MutexGuard<'_, Cmp>,
    queue: QueueId,
    placement: Placement,
) -> AdminAnswer {
    cmp.note_ring(queue);
    let (entry, doorbells) = cmp.queue_and_doorbells(queue).ok_or(AdminError::NoSuchQueue)?;
    if entry.shape.kind != QueueKind::User {
        return Err(AdminError::BadValue);
    }
    let was_polled = entry.seat.take().is_some_and(|old| doorbells.disconnect(&old));
    let node = entry.shape.engine;
    let wake = &gpu.wakes[gpu.nodes[node as usize].service];
    let owner = SeatOwner { queue, address_space: entry.shape.address_space, node };
    let (seat, new_summary) = doorbells.connect(&gpu.platform, wake, owner, placement);
    if let Some(run) = &mut entry.run {
        run.state.doorbell = Some(seat.bell());
    }
    entry.seat = Some(seat);
    cmp.nodes[node as usize].summaries += u64::from(was_polled);
    if new_summary {
        cmp.nodes[node as usize].summaries += 1;
        cmp.enlist(queue, false);
        gpu.recall(cmp, node);
    } else {
        gpu.release_queue(cmp, queue);
    }
    DONE
}

// spec: UMS-009
pub(super) fn disconnect(
    gpu: &Hardware,
    mut cmp: MutexGuard<'_, Cmp>,
    queue: QueueId,
) -> AdminAnswer {
    let (entry, doorbells) = cmp.queue_and_doorbells(queue).ok_or(AdminError::NoSuchQueue)?;
    let node = entry.shape.engine as usize;
    let was_polled = entry.seat.take().is_some_and(|seat| doorbells.disconnect(&seat));
    if let Some(run) = &mut entry.run
        && let Some(doorbell) = run.state.doorbell.take()
    {
        gpu.platform.fence();
        match doorbell.read() {
            // A suspended queue's doorbell is not read: the resume reloads the write pointer. Until
            // then the queue counts as having work.
            Reading::Pointer(last) if entry.suspended => run.state.reread |= last > run.state.known,
            Reading::Pointer(last) if last > run.state.known => run.state.last_ring = Some(last),
            Reading::Pointer(_) => {}
            Reading::InControlArea => run.state.reread = true,
        }
    }
    // The engine leaves the page, which is not a doorbell any more.
    cmp.nodes[node].summaries += u64::from(was_polled);
    gpu.release_queue(cmp, queue);
    DONE
}
