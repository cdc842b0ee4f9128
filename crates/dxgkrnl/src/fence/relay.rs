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

/// The same for a signal of a GPU that an interrupt names. Linked GPUs have signalled each other.
pub(super) fn relay_interrupt(fence: &Fence) {
    if fence.cross_adapter.as_ref().is_some_and(|shared| !shared.is_linked()) {
        relay(fence);
    }
}

/// The same where no report names the fences that changed. A value that was relayed already is not
/// relayed again: a waiter on another adapter read the value after it had entered, so a value
/// relayed since then, or read then, satisfies no further waiter.
pub(super) fn relay_if_changed(fence: &Fence) {
    let Some(shared) = fence.cross_adapter.as_ref().filter(|shared| !shared.is_linked()) else {
        return;
    };
    let Some(seen) = fence.current.as_ref().map(FenceValue::glance) else { return };
    let changed = shared.relayed.lock().replace(seen.clone()).is_none_or(|before| before != seen);
    if changed {
        relay(fence);
    }
}
