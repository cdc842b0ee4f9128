//! Owns the rules that every signal keeps, whoever makes it: which flags a call takes, and what a
//! value below the present one means when the caller did not announce it (AllowFenceRewind).
//!
//! An unannounced rewind is made, counted and reported with the fence's name. A strict adapter
//! refuses it at the call, before anything of the call is done; a queued signal that only turns out
//! to be a rewind when it is made has no caller left to refuse, and is made, counted and reported
//! there as well.
//!
//! It does not store values or release waiters: that is `fence::cpu`.

use crate::adapter::Adapter;
use crate::fence::cpu;
use crate::sched::FenceTarget;
use std::sync::Arc;
use tidegate_calls::{SignalFlags, Status};

/// A call takes these flags and no other; a reserved bit is never taken.
// spec: MF-063
pub(crate) fn check_flags(flags: SignalFlags, taken: SignalFlags) -> Result<(), Status> {
    if taken.contains(flags) { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
}

/// A strict adapter's look at a whole call before anything of it is done.
pub(crate) fn check_rewinds(
    adapter: &Adapter,
    targets: &[FenceTarget],
    flags: SignalFlags,
) -> Result<(), Status> {
    if !adapter.config.strict_fence_rewind || flags.contains(SignalFlags::ALLOW_FENCE_REWIND) {
        return Ok(());
    }
    let rewinds =
        targets.iter().enumerate().any(|(index, (_, value))| *value < value_before(targets, index));
    if rewinds { Err(Status::INVALID_PARAMETER) } else { Ok(()) }
}

/// Signals the fences of a call, or of a packet that was reached, from the CPU.
// spec: MF-038
pub(crate) fn signal(targets: &[FenceTarget], flags: SignalFlags) {
    for (index, (fence, value)) in targets.iter().enumerate() {
        let stats = &fence.adapter.stats;
        // A look for the report's sake is no step of the protocol: where nothing is counted nothing
        // is looked at.
        if stats.on() && !flags.contains(SignalFlags::ALLOW_FENCE_REWIND) {
            let from = value_before(targets, index);
            if *value < from {
                stats.note_rewind(&fence.name, from, *value);
            }
        }
    }
    cpu::signal(targets);
}

/// What a fence is at when its turn comes: one that is named twice is at its first value when the
/// second is stored.
fn value_before(targets: &[FenceTarget], index: usize) -> u64 {
    let fence = &targets[index].0;
    let earlier = targets[..index].iter().rfind(|(other, _)| Arc::ptr_eq(other, fence));
    earlier.map_or_else(|| fence.value(), |(_, value)| *value)
}
