//! The successor of a user-mode queue whose doorbell is permanently lost or cannot be connected
//! while its device is active: the queue is recreated, and work that has not run is resubmitted.
//!
//! Order: 1. the new queue is created, so a refusal loses nothing; 2. the old doorbell is
//! destroyed, after which nothing in its ring runs; 3. packets that the engine had not taken are
//! read from the ring and put into the new queue, in order, with new progress values. A command
//! buffer that the engine had begun is omitted, because part of it would run twice; the caller
//! receives its range; 4. the old progress fence is signalled, and its waiters continue on the new
//! queue.
//!
//! `user_queue` holds its lock until the new queue has replaced the old one.

use crate::model::OnAbort;
use crate::umd::command_memory::CommandMemory;
use crate::umd::encode;
use crate::umd::failure::{Failure, Why};
use crate::umd::kernel_queue::KernelQueue;
use crate::umd::queue_identity::QueueIdentity;
use crate::umd::residency::{Pager, WAIT_SLOTS};
use crate::umd::submit::Submitter;
use crate::umd::user_ring::UserRing;
use std::sync::Arc;
use tidegate_calls::{DeviceState, FenceValue, SignalFlags, Status};
use tidegate_gpu_abi::RingPacket;
use tidegate_gpu_abi::ring::MAX_RING_SLOTS;
use tidegate_platform::{Queued, SubmissionKey};

/// Maximum number of slots beyond those carried over: a checkpoint per quarter.
const CHECKPOINTS: u64 = 4;

pub(crate) enum Successor {
    User(Box<UserRing>),
    Hardware(Arc<KernelQueue>),
}

/// A packet of the old ring that the engine had not taken.
struct Unfinished {
    packet: RingPacket,
    /// Its timeline record.
    queued: Queued,
    /// The memory of its command buffer.
    memory: Option<Arc<CommandMemory>>,
}

/// Returns whether a successor can continue after `failure`: the device is not lost and the machine
/// is not stopping.
pub(crate) fn can_continue(id: &QueueIdentity, failure: &Failure) -> bool {
    let curable = match &**failure {
        Why::Aborted => true,
        Why::Refused(call, status) => {
            *call == "D3DKMTConnectDoorbell" && *status != Status::CANCELLED
        }
        _ => false,
    };
    curable && id.device.state() == Ok(DeviceState::Active)
}

// spec: UMS-041, UMS-082
/// Recreates the queue in place of `old`. The second value is a later failure: a command buffer was
/// interrupted, or the new queue does not accept work either.
pub(crate) fn recreate(
    id: &Arc<QueueIdentity>,
    pager: Option<&Pager>,
    old: &mut UserRing,
) -> Result<(Successor, Result<(), Failure>), Failure> {
    // 1.
    let slots = old.submitter.ring.slots();
    let each = 1 + pager.map_or(0, |_| WAIT_SLOTS);
    let slots = slots
        .max(old.submitter.ring.unfinished().0.len() as u64 * each + CHECKPOINTS)
        .next_power_of_two();
    let mut successor = match id.on_abort {
        OnAbort::Report => return Err(Why::Aborted.into()),
        OnAbort::RecreateHardware => Successor::Hardware(Arc::new(KernelQueue::hardware(id)?)),
        OnAbort::RecreateUser if slots > MAX_RING_SLOTS => return Err(Why::Aborted.into()),
        OnAbort::RecreateUser => Successor::User(Box::new(UserRing::new(id, slots)?)),
    };
    // 2.
    old.stop();
    // 3.
    let (unfinished, interrupted) = unfinished_work(id, &old.submitter);
    let mut stats = old.submitter.stats;
    stats.recreations += 1;
    id.note_doorbell("queue recreated");
    let submitted = match &mut successor {
        Successor::User(user) => {
            user.submitter.stats = stats;
            let taken_over = take_over(id, pager, &mut user.submitter, unfinished);
            let written = user.submitter.ring.written();
            user.submitter.held.take_over(&mut old.submitter.held, written);
            taken_over
        }
        Successor::Hardware(queue) => {
            old.submitter.stats = stats;
            let submitted =
                unfinished.iter().try_for_each(|Unfinished { packet, queued, memory }| {
                    queue.submit_packet(packet, memory.as_ref(), *queued)
                });
            queue.take_over_fences(&mut old.submitter.held);
            submitted
        }
    };
    // 4. The value queued last is the highest that a waiter can wait for.
    let reached = [FenceValue { fence: old.progress_fence, value: old.submitter.progress }];
    let _gone_already = id.device.enter().signal_from_cpu(&reached, SignalFlags::empty());
    let interrupted = interrupted.map(|list| Why::Interrupted(list).into());
    let outcome = submitted.and(interrupted.map_or(Ok(()), Err));
    Ok((successor, outcome))
}

// spec: UMS-151
/// Returns the work to resubmit and the label of the interrupted command buffer.
fn unfinished_work(
    id: &QueueIdentity,
    submitter: &Submitter,
) -> (Vec<Unfinished>, Option<Option<String>>) {
    let platform = &id.device.platform;
    let (packets, interrupted) = submitter.ring.unfinished();
    let mut unfinished = Vec::with_capacity(packets.len());
    let mut lost = None;
    for (slot, packet) in packets {
        let executes = matches!(packet, RingPacket::Execute { .. });
        let memory = submitter.in_flight.memory_at(slot).filter(|_| executes).cloned();
        if executes && memory.is_none() {
            continue; // It is complete, because its memory is no longer held.
        }
        // Empty command buffers were placed for the old ring; the new ring places its own.
        if memory.as_ref().is_some_and(|memory| Arc::ptr_eq(memory, &id.device.marker)) {
            continue;
        }
        if interrupted == Some(slot) {
            lost = Some(memory.and_then(|memory| memory.label.clone()));
            continue;
        }
        let key = key_of(&packet, slot);
        let queued = platform.take_queued(platform.instruments(), submitter.number, key);
        unfinished.push(Unfinished { packet, queued, memory });
    }
    (unfinished, lost)
}

/// Returns the timeline's key of a packet.
fn key_of(packet: &RingPacket, slot: u64) -> SubmissionKey {
    match *packet {
        RingPacket::Execute { progress, .. } => SubmissionKey::Completion(progress),
        _ => SubmissionKey::Slot(slot),
    }
}

/// Submits the unfinished work as one unit: progress, last queued, ring, write pointer, doorbell,
/// status. The buffers may be evicted as soon as the old queue's progress shows it idle, so they
/// are held until the new queue has stored its last-queued value.
fn take_over(
    id: &QueueIdentity,
    pager: Option<&Pager>,
    to: &mut Submitter,
    unfinished: Vec<Unfinished>,
) -> Result<(), Failure> {
    for Unfinished { packet, queued, memory } in unfinished {
        let held = match (pager, &memory) {
            (Some(pager), Some(memory)) => Some(pager.hold(id, std::iter::once(&**memory))?),
            _ => None,
        };
        if let Some((fence, value)) = held.as_ref().and_then(|held| held.wait) {
            let queued = id.queued();
            to.put_checkpoint(id, &queued);
            let at = (to.next_slot(), &queued);
            to.ring.put(&encode::wait(id, fence, fence.wait_for(value), &mut to.wait_log, at));
        }
        match &memory {
            Some(_) => _ = to.queue_progress(1),
            None => to.put_checkpoint(id, &id.queued()),
        }
        let packet = encode::reencode(
            packet,
            to.progress,
            &mut to.wait_log,
            &mut to.signal_log,
            &mut to.verbose_log,
        );
        let key = key_of(&packet, to.ring.written());
        id.device.platform.note_queued(to.number, key, queued);
        match &memory {
            Some(memory) => {
                to.in_flight.hold(memory, to.progress, to.ring.written());
                to.ring.put_execute(&packet, to.progress);
            }
            None => to.ring.put(&packet),
        }
        to.ends_with_progress = memory.is_some();
        held.map_or(Ok(()), |held| held.release(id))?;
    }
    if to.ring.written() == 0 {
        return Ok(());
    }
    to.ring.publish();
    to.ring_until_accepted(id)
}
