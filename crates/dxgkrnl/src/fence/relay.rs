//! Relays signals of a cross-adapter fence to its members on other adapters.
//!
//! Invariants: a relayed signal is not relayed again (`signaled::relayed`). No lock of any adapter
//! is held.

use super::object::Fence;
use super::value::FenceValue;
use crate::stats::Count;

/// Relays a value that may have changed to the other members.
pub(super) fn relay(fence: &Fence) {
    let Some(shared) = &fence.cross_adapter else { return };
    for other in shared.members().into_iter().filter(|other| !std::ptr::eq(&**other, fence)) {
        fence.port().count(Count::relays);
        if let Some(port) = other.fences.relays.get() {
            port.relay(other);
        }
    }
}

/// Relays a GPU signal that an interrupt names, unless linked GPUs have signalled each other.
pub(super) fn relay_interrupt(fence: &Fence) {
    if fence.cross_adapter.as_ref().is_some_and(|shared| !shared.is_linked()) {
        relay(fence);
    }
}

/// Relays the value after a report that names no fences, unless it was already relayed. Skipping is
/// safe: a waiter on another adapter reads the value after it registers, so relaying the same value
/// again satisfies no further waiter.
pub(super) fn relay_if_changed(fence: &Fence) {
    let Some(shared) = fence.cross_adapter.as_ref().filter(|shared| !shared.is_linked()) else {
        return;
    };
    let Some(seen) = fence.current.as_ref().map(FenceValue::latest) else { return };
    let changed = shared.relayed.lock().replace(seen.clone()).is_none_or(|before| before != seen);
    if changed {
        relay(fence);
    }
}
