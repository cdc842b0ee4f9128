//! Queues: create, destroy, suspend, resume, kick, schedule, and their logs.

use crate::cmp::{Cmp, Entry};
use crate::granularity::may_switch;
use crate::hardware::Hardware;
use crate::log::LogBuffer;
use crate::mmu;
use crate::queue::{Packet, Shape};
use crate::runlist::{BANDS, Bands, MAX_IN_PROCESS, MAX_NORMAL_PERCENT, MAX_REALTIME_LEVEL, Place};
use tidegate_gpu_abi::admin::{AdminAnswer, DONE};
use tidegate_gpu_abi::log::LogType;
use tidegate_gpu_abi::ring::MAX_RING_SLOTS;
use tidegate_gpu_abi::{
    AdminError, CONTROL_INTERRUPTED_WORD, CONTROL_WORDS, QueueId, QueueKind, QueueShape,
    QueueState, SLOT_BYTES,
};
use tidegate_platform::{MutexGuard, PhysicalAddress, QueueNumber, Target};

/// Creates a queue in `band`, in the context with the driver's number, or in its own if that is 0.
pub(super) fn create(
    gpu: &Hardware,
    made: QueueShape,
    band: u32,
    number: QueueNumber,
    context: u32,
) -> AdminAnswer {
    if made.engine as usize >= gpu.nodes.len() {
        return Err(AdminError::NoSuchEngine);
    }
    let has_valid_size = made.slots.is_power_of_two() && made.slots <= MAX_RING_SLOTS;
    let words = [made.control, made.progress_current, made.progress_monitored];
    let is_aligned =
        made.ring.0.is_multiple_of(SLOT_BYTES) && words.iter().all(|at| at.0.is_multiple_of(8));
    if !has_valid_size || !is_aligned || band >= BANDS || made.address_space.0 == u32::MAX {
        return Err(AdminError::BadValue);
    }
    if made.kind != QueueKind::User && !stands_on_bus(gpu, &made) {
        return Err(AdminError::BadAddress);
    }
    let mut cmp = gpu.awake()?;
    if made.kind == QueueKind::Node {
        // A new ring restarts its engine's sequence of submission fence ids.
        gpu.nodes[made.engine as usize].completed.store(0);
    }
    let id = cmp.add_queue(|id| {
        // A queue without a driver's context has its own. Both numbers have 32 bits.
        let context = if context == 0 { 1 << 32 | u64::from(id.0) } else { u64::from(context) };
        let place = Place::new(made.address_space, context, band);
        Entry::new(Shape { id, number, made }, place)
    })?;
    Ok((u64::from(id.0), 0))
}

/// Returns whether ring and control area of a kernel-owned queue are memory of the right kind
/// and size.
fn stands_on_bus(gpu: &Hardware, made: &QueueShape) -> bool {
    let ring = gpu.bus.resolve(PhysicalAddress(made.ring.0));
    let control = gpu.bus.resolve(PhysicalAddress(made.control.0));
    let (slots, words) = (made.slots * SLOT_BYTES, CONTROL_WORDS as u64 * 8);
    matches!(ring, Some(Target::Bulk(bytes, start)) if bytes.len() - start >= slots)
        && matches!(control, Some(Target::Protocol(p, start)) if p.len() as u64 * 8 - start >= words)
}

pub(super) fn destroy(gpu: &Hardware, mut cmp: MutexGuard<'_, Cmp>, queue: QueueId) -> AdminAnswer {
    let entry = cmp.remove_queue(&gpu.armed, queue).ok_or(AdminError::NoSuchQueue)?;
    mark_interrupted(gpu, &cmp, &entry);
    gpu.recall(cmp, entry.shape.engine);
    DONE
}

/// Stores in the control area the slot of an incomplete command buffer, so that a resubmission of
/// the rest of the ring to another queue skips it.
fn mark_interrupted(gpu: &Hardware, cmp: &Cmp, entry: &Entry) {
    let shape = &entry.shape;
    let Some(run) = entry.run.as_ref().filter(|_| shape.kind == QueueKind::User) else { return };
    if matches!(run.packet, Some(Packet::Execute(_))) {
        let at = shape.control.plus(CONTROL_INTERRUPTED_WORD as u64 * 8);
        let physical_gpu = gpu.config.physical_gpu_of(shape.engine as usize);
        let space = cmp.space(shape.address_space, physical_gpu);
        if let Some((_, word)) = mmu::find_protocol_word(&gpu.bus, space, at) {
            word.store(run.state.taken + 1);
        }
    }
}

pub(super) fn suspend(gpu: &Hardware, mut cmp: MutexGuard<'_, Cmp>, queue: QueueId) -> AdminAnswer {
    let now = gpu.platform.now();
    let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
    let node = gpu.config.node_of(entry.shape.engine as usize);
    // A queue that a fault stopped is on no engine.
    if !entry.faulted && entry.run.as_ref().is_some_and(|run| !may_switch(run, node)) {
        entry.suspending = true;
        gpu.release_queue(cmp, queue);
        return Err(AdminError::Busy);
    }
    entry.suspended = true;
    cmp.delist(queue);
    let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
    if let Some(run) = &mut entry.run {
        run.pause(now);
    }
    let node = entry.shape.engine;
    gpu.recall(cmp, node);
    DONE
}

// spec: UMS-047
pub(super) fn resume(gpu: &Hardware, mut cmp: MutexGuard<'_, Cmp>, queue: QueueId) -> AdminAnswer {
    let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
    (entry.suspended, entry.suspending) = (false, false);
    if let Some(run) = &mut entry.run {
        run.state.reread = true;
    }
    gpu.release_queue(cmp, queue);
    DONE
}

/// Does not wait for the queue's turn, because the kernel submits this way.
pub(super) fn kick(gpu: &Hardware, queue: QueueId) -> AdminAnswer {
    let mut cmp = gpu.awake()?;
    cmp.note_ring(queue);
    let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
    match &mut entry.run {
        Some(run) => run.state.reread = true,
        None => {
            entry.kicked = true;
            let engine = entry.shape.engine;
            gpu.request_queues(&mut cmp, engine..engine + 1);
        }
    }
    gpu.release_queue(cmp, queue);
    DONE
}

/// Does not wait for the queue's turn, because the kernel sets logs at DISPATCH level. A queue in a
/// turn gets the log at its end.
pub(super) fn set_log(
    gpu: &Hardware,
    queue: QueueId,
    kind: LogType,
    header: PhysicalAddress,
    payload: PhysicalAddress,
    entries: u32,
    notify_every: u32,
) -> AdminAnswer {
    let log = match entries {
        0 => None,
        _ => {
            let found = LogBuffer::find(&gpu.bus, header, payload, entries, notify_every);
            Some(found.ok_or(AdminError::BadAddress)?)
        }
    };
    let mut cmp = gpu.awake()?;
    let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
    entry.new_logs.push((kind, log));
    let engine = entry.shape.engine;
    if entry.run.is_some() {
        entry.take_new_logs(&gpu.posted);
    } else {
        gpu.request_queues(&mut cmp, engine..engine + 1);
    }
    DONE
}

pub(super) fn query(gpu: &Hardware, queue: QueueId) -> AdminAnswer {
    let mut cmp = gpu.awake()?;
    let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
    let state = if entry.faulted {
        QueueState::Faulted
    } else if entry.suspended {
        QueueState::Suspended
    } else if entry.waiting.is_some() {
        QueueState::Waiting
    } else if entry.run.as_ref().is_none_or(|r| r.has_work()) {
        QueueState::Ready
    } else {
        QueueState::Idle
    };
    Ok((state as u64, entry.taken))
}

/// Changes the queue's place. The engine uses it from its next turn on.
// spec: HS-013
pub(super) fn set_scheduling(
    gpu: &Hardware,
    queue: QueueId,
    band: u32,
    realtime_level: u32,
    in_process: i32,
    quantum_ns: u64,
) -> AdminAnswer {
    let in_range = band < BANDS
        && realtime_level <= MAX_REALTIME_LEVEL
        && (-MAX_IN_PROCESS..=MAX_IN_PROCESS).contains(&in_process);
    if !in_range {
        return Err(AdminError::BadValue);
    }
    let mut cmp = gpu.awake()?;
    cmp.delist(queue);
    let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
    entry.place = Place { band, realtime_level, in_process, quantum_ns, ..entry.place };
    let node = entry.shape.engine;
    let in_packet = entry.run.as_ref().is_some_and(|run| run.packet.is_some());
    cmp.enlist(queue, in_packet);
    gpu.recall(cmp, node);
    DONE
}

pub(super) fn set_bands(gpu: &Hardware, bands: Bands) -> AdminAnswer {
    if bands.normal_percent > MAX_NORMAL_PERCENT {
        return Err(AdminError::BadValue);
    }
    let mut cmp = gpu.awake()?;
    cmp.nodes.iter_mut().for_each(|node| node.list.set_bands(bands));
    DONE
}
