//! Links: members of a cross-adapter fence whose GPUs signal each other without the CPU. This is an
//! extension; see the decision on GPU-to-GPU signals.
//!
//! A fence is linked while every member is native and its adapter declares a common doorbell.
//! MonitoredValue of each member then follows the waiters on its adapter, as on a private fence,
//! and interrupts are not relayed. CPU signals are.
//!
//! Order of a join: the drivers name each other before a wait or signal can enter on the new
//! member. Order when a member cannot be linked: 1. members are pinned and MonitoredValue becomes
//! 0; 2. the drivers forget each other; 3. each member collects once more, for a signal between 1
//! and 2. A fence is never linked again.

use super::object::{Fence, Fences};
use super::waiter_set::{EVERY_SIGNAL, NO_WAITER};
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::fence::UpdateMonitoredValue;
use tidegate_ddi::{AdapterCaps, LinkNativeFence, Passive, PeerFence, VidSchCaps};

/// Whether members on the adapter can be linked.
pub(super) fn is_capable(fences: &Fences) -> bool {
    let port = &fences.port;
    let native = port.declared.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE);
    native && port.declared.caps.peer_signal.common_doorbell && port.config.ordinal.is_some()
}

/// The initial MonitoredValue of a member.
pub(super) fn first_monitored_value(linked: bool) -> u64 {
    if linked { NO_WAITER } else { EVERY_SIGNAL }
}

/// Names the members to each other's drivers, the newest member's driver first.
pub(super) fn link(level: &Passive, members: &[Arc<Fence>]) -> Result<(), Status> {
    for one in members {
        for other in members.iter().filter(|other| !Arc::ptr_eq(&one.fences, &other.fences)) {
            connect(level, &one.fences, &other.fences)?;
        }
    }
    members.iter().rev().try_for_each(|member| name_peers(level, member, members))
}

/// Makes the member's driver forget the others, because the member ends or was unlinked.
pub(super) fn forget_peers(level: &Passive, member: &Fence) {
    // A driver that was named no peers has none to forget.
    let _ = name_peers(level, member, &[]);
}

/// Names all adapters but the member's own to its driver.
pub(super) fn name_peers(
    level: &Passive,
    member: &Fence,
    members: &[Arc<Fence>],
) -> Result<(), Status> {
    let Some(native) = &member.native else { return Ok(()) };
    let shares = |caps: &AdapterCaps| caps.peer_signal.shared_fence_storage;
    let caps = &member.port().declared.caps;
    let others = members.iter().filter(|other| !Arc::ptr_eq(&other.fences, &member.fences));
    let peers = others.filter_map(|other| {
        let both = shares(caps) && shares(&other.port().declared.caps);
        let monitored_value = both.then(|| other.storage.monitored_at());
        Some(PeerFence { peer: other.port().config.ordinal?, monitored_value })
    });
    let args = LinkNativeFence {
        fence: native.driver_global,
        current_value: member.storage.current_at(),
        history: caps.fence_history,
        monitored_value: member.storage.monitored_at(),
        peers: peers.collect(),
    };
    member.port().driver(level).link_native_fence(level, args)
}

/// Unlinks a member: every signal of it then interrupts, and no value is armed for its waiters.
pub(super) fn unlink(level: &Passive, member: &Fence) {
    let Some(native) = &member.native else { return };
    let port = member.port();
    {
        // Before the interrupt lock, which a DPC can want: a caller may wait at the gate.
        let driver = port.driver(level);
        let held = port.interrupt_lock.lock_device();
        let closed = {
            let mut waiters = member.waiters.lock();
            waiters.pin();
            waiters.is_closed()
        };
        let monitored = native.monitored.word();
        if let Some(monitored_value) = monitored.as_ref().filter(|_| !closed) {
            let (fence, value) = (native.driver_global, EVERY_SIGNAL);
            let update = UpdateMonitoredValue { fence, value, monitored_value };
            driver.update_monitored_values(&level.raise_to_dirql(&held), &[update]);
        }
    }
    forget_peers(level, member);
}

/// Gives `one` the common doorbell of `other`, unless it has it already.
fn connect(level: &Passive, one: &Fences, other: &Fences) -> Result<(), Status> {
    let number = other.port.config.ordinal.ok_or(Status::NOT_SUPPORTED)?;
    if one.peers.lock().contains(&number) {
        return Ok(());
    }
    let doorbell = other.port.driver(level).common_doorbell(level)?;
    one.port.driver(level).connect_peer(level, number, doorbell)?;
    one.peers.lock().insert(number);
    Ok(())
}
