//! Encoding: ring packets with their log entries, and command buffers joined from closed lists.
//!
//! The user-mode driver chooses the log entry of each wait and signal. A queue's entries are
//! consecutive because the submitter lock is held from the choice until the packet is in the ring.
//! Unread log entries are overwritten.

use crate::umd::closed_list::ClosedList;
use crate::umd::command_memory::CommandMemory;
use crate::umd::fence::FenceObject;
use crate::umd::queue_identity::QueueIdentity;
use std::sync::Arc;
use tidegate_calls::{ReadOnly, Status};
use tidegate_d3dukmdt::fence_cell::FenceWait;
use tidegate_gpu_abi::ring::NO_LOG_ENTRY;
use tidegate_gpu_abi::{Command, CommandWriter, GpuVa, RingPacket, SignalPacket};
use tidegate_platform::{QueueNumber, Queued, Step, SubmissionKey};
use tidegate_trace::{Kind, NameId, Record};

/// The log entry of the next operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogCursor {
    next: u32,
    numbers: u32,
}

impl LogCursor {
    /// Entries are numbered from 0 up to `numbers`, and again; 0 without a log. A multiple of every
    /// capacity that the log may have, so the entry after number n is number n + 1's
    /// whichever log is in place.
    pub(crate) fn new(numbers: u32) -> LogCursor {
        LogCursor { next: 0, numbers }
    }

    // spec: NF-180, NF-182, NF-207
    /// Returns the next entry's number; [`NO_LOG_ENTRY`] without a log.
    #[inline]
    pub(crate) fn take(&mut self) -> u32 {
        if self.numbers == 0 {
            return NO_LOG_ENTRY;
        }
        let entry = self.next;
        self.next = if entry + 1 == self.numbers { 0 } else { entry + 1 };
        entry
    }
}

/// The verbose log of a queue, which the kernel enables and disables.
#[derive(Debug)]
pub(crate) struct VerboseLog {
    switch: Option<ReadOnly>,
    cursor: LogCursor,
}

impl VerboseLog {
    pub(crate) fn new(switch: Option<ReadOnly>, numbers: u32) -> VerboseLog {
        VerboseLog { switch, cursor: LogCursor::new(numbers) }
    }

    /// Returns the log entry of the next command buffer, if the log is enabled.
    #[inline]
    fn take(&mut self) -> Option<u32> {
        if self.switch.is_none() { None } else { self.take_if_enabled() }
    }

    #[inline(never)]
    fn take_if_enabled(&mut self) -> Option<u32> {
        let on = self.switch.as_ref().is_some_and(|switch| switch.load() != 0);
        on.then(|| self.cursor.take())
    }
}

/// A filled slot and its time, for the timeline.
pub(crate) type QueuedSlot<'a> = ((QueueNumber, u64), &'a Queued);

/// A fence operation in a ring or a command buffer, and its time.
type QueuedAt<'a> = ((QueueNumber, SubmissionKey), &'a Queued);

#[inline]
fn in_slot(((queue, slot), queued): QueuedSlot<'_>) -> QueuedAt<'_> {
    ((queue, SubmissionKey::Slot(slot)), queued)
}

/// Re-encodes a packet of an ended ring for another ring of the same process, with a new progress
/// value and new log entries.
pub(crate) fn reencode(
    mut packet: RingPacket,
    next_progress: u64,
    waits: &mut LogCursor,
    signals: &mut LogCursor,
    verbose: &mut VerboseLog,
) -> RingPacket {
    match &mut packet {
        RingPacket::Wait { log_entry, .. } => *log_entry = waits.take(),
        RingPacket::Signal { log_entry, .. } => *log_entry = signals.take(),
        RingPacket::Execute { progress, log_entry, .. } => {
            (*progress, *log_entry) = (next_progress, verbose.take());
        }
        RingPacket::Nop | RingPacket::ExecuteDma { .. } => {}
    }
    packet
}

#[inline]
pub(crate) fn execute(
    memory: &CommandMemory,
    progress: u64,
    verbose: &mut VerboseLog,
) -> RingPacket {
    let (commands, bytes) = (memory.gpu_va(), memory.bytes);
    RingPacket::Execute { commands, bytes, progress, log_entry: verbose.take() }
}

/// Records a queued fence operation, if a timeline or a hazard check is on.
#[inline]
fn record_queued(
    id: &QueueIdentity,
    kind: Kind,
    fence: &FenceObject,
    value: u64,
    log_entry: u32,
    at: QueuedAt<'_>,
) {
    if id.notes_submissions() {
        note_queued(id, fence, at);
        record_on_timeline(id, kind, fence, value, log_entry, at.1);
    }
}

/// Gives the engine the time at which the operation was queued.
#[inline(never)]
fn note_queued(id: &QueueIdentity, fence: &FenceObject, ((queue, key), queued): QueuedAt<'_>) {
    let name = fence.instance.trace_fence;
    id.device.platform.note_queued(queue, key, Queued { name, ..*queued });
}

/// Records a queued fence operation on the timeline. Log entries carry the time of execution, so
/// the time of queueing is recorded here. Operations without a log entry are recorded by the
/// engine.
#[inline(never)]
pub(crate) fn record_on_timeline(
    id: &QueueIdentity,
    kind: Kind,
    fence: &FenceObject,
    value: u64,
    log_entry: u32,
    queued: &Queued,
) {
    let platform = &id.device.platform;
    if log_entry == NO_LOG_ENTRY || !platform.tracing() {
        return;
    }
    let queued = Record::instant(id.lane, kind, NameId::NONE, queued.at_ns);
    platform.record(queued.on(fence.on_timeline(value)));
}

// spec: NF-167, NF-178
#[inline]
pub(crate) fn wait(
    id: &QueueIdentity,
    fence: &FenceObject,
    FenceWait { value, epoch }: FenceWait,
    log: &mut LogCursor,
    at: QueuedSlot<'_>,
) -> RingPacket {
    let log_entry = log.take();
    record_queued(id, Kind::WaitQueued, fence, value, log_entry, in_slot(at));
    RingPacket::Wait {
        current_value: GpuVa(fence.engine_va),
        value,
        epoch,
        fence_handle: fence.handle().0,
        log_entry,
    }
}

// spec: NF-168
#[inline]
pub(crate) fn signal(
    id: &QueueIdentity,
    fence: &FenceObject,
    value: u64,
    log: &mut LogCursor,
    at: QueuedSlot<'_>,
) -> RingPacket {
    let log_entry = log.take();
    record_queued(id, Kind::SignalQueued, fence, value, log_entry, in_slot(at));
    signal_packet(fence, value, log_entry).into()
}

#[inline]
fn signal_packet(fence: &FenceObject, value: u64, log_entry: u32) -> SignalPacket {
    SignalPacket {
        current_value: GpuVa(fence.engine_va),
        monitored_value: GpuVa(fence.instance.monitored_value_gpu_va),
        value,
        fence_handle: fence.handle().0,
        log_entry,
    }
}

/// Gives the engine the time at which a command was queued, if a timeline or a hazard check is on.
#[inline]
fn note_command(id: &QueueIdentity, fence: &FenceObject, at: QueuedAt<'_>) {
    if id.notes_submissions() {
        note_queued(id, fence, at);
    }
}

/// Encodes a wait as a command of a command buffer. Its record is made when the kernel has the
/// command buffer ([`record_on_timeline`]).
pub(crate) fn wait_command(
    id: &QueueIdentity,
    fence: &FenceObject,
    FenceWait { value, epoch }: FenceWait,
    log_entry: u32,
    at: QueuedAt<'_>,
) -> Command {
    note_command(id, fence, at);
    Command::WaitFence {
        current_value: GpuVa(fence.engine_va),
        value,
        epoch,
        fence_handle: fence.handle().0,
        log_entry,
    }
}

/// Encodes a signal as a command of a command buffer, as [`wait_command`] a wait.
pub(crate) fn signal_command(
    id: &QueueIdentity,
    fence: &FenceObject,
    value: u64,
    log_entry: u32,
    at: QueuedAt<'_>,
) -> Command {
    note_command(id, fence, at);
    Command::SignalFence(signal_packet(fence, value, log_entry))
}

// spec: MF-024
/// Joins several lists into one command buffer, behind the commands `before`. With `progress`, a
/// value and its address, the buffer ends with a store of that value. An engine of the packet model
/// that can write a fence thus reports, without a kernel call, that it has finished with the
/// memory.
pub(crate) fn joined(
    id: &QueueIdentity,
    before: &[u8],
    lists: &[&ClosedList],
    progress: Option<(GpuVa, u64)>,
) -> Result<Arc<CommandMemory>, Status> {
    let length: usize = lists.iter().map(|list| list.memory.bytes as usize).sum();
    let (mut bytes, mut joined) = (Vec::with_capacity(before.len() + length + 64), Vec::new());
    bytes.extend_from_slice(before);
    let encoded = |command| {
        let mut writer = CommandWriter::new();
        writer.push(&command);
        writer.to_bytes()
    };
    for list in lists {
        let start = bytes.len();
        bytes.resize(start + list.memory.bytes as usize, 0);
        list.memory.block.read(&mut bytes[start..]);
        // A label ends with its list.
        bytes.extend(encoded(Command::Label { name: 0 }));
        if lists.len() > 1 {
            joined.push((bytes.len(), list.memory.label.clone()));
        }
    }
    if let Some((destination, value)) = progress {
        bytes.extend(encoded(Command::WriteValue { destination, value }));
    }
    id.device.platform.spend(Step::UmdEncode);
    let first = lists.first().map(|l| &l.memory);
    let mut memory = CommandMemory::upload(&id.device.arena, &bytes)?;
    memory.trace_name = first.map_or(0, |m| m.trace_name);
    memory.label = first.and_then(|m| m.label.clone());
    memory.joined = joined;
    memory.buffers = lists.iter().flat_map(|l| l.memory.buffers.iter().cloned()).collect();
    let of_allocators = lists.iter().filter(|list| list.allocator.is_some());
    memory.parts = of_allocators.map(|list| Arc::clone(&list.memory)).collect();
    Ok(Arc::new(memory))
}

/// Maximum number of bytes that [`joined`] adds to a single list.
pub(crate) const JOINED_EXTRA_BYTES: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    // spec: NF-180, NF-182, NF-207
    fn log_entries_follow_each_other_and_wrap() {
        let mut log = LogCursor::new(3);
        let taken: Vec<u32> = (0..7).map(|_| log.take()).collect();
        assert_eq!(taken, [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(LogCursor::new(0).take(), NO_LOG_ENTRY);
    }
}
