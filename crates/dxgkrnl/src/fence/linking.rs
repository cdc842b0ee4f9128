//! Owns links: members of a cross-adapter fence whose GPUs tell each other of signals, without the
//! CPU. Ours; see the decision on signals from GPU to GPU.
//!
//! A fence is linked while every member is native and its adapter declares a common doorbell. Then
//! MonitoredValue of each member says who waits on its adapter, as on a private fence, and nothing
//! is relayed after an interrupt: the others know already. CPU signals are relayed as ever.
//!
//! The order that matters when an adapter joins: its driver and the others' are told before anybody
//! can wait or signal there. When an adapter joins that cannot be linked, the fence is unlinked
//! first: 1. no member is armed any more, and every MonitoredValue becomes 0; 2. the drivers forget
//! each other; 3. each member looks once more, at whoever a signal between 1 and 2 was for. A fence
//! is never linked again.

use super::Fence;
use super::cross_adapter::EVERY_SIGNAL;
use super::waiters::NOBODY_WAITS;
use crate::adapter::Adapter;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::fence::UpdateMonitoredValue;
use tidegate_ddi::{Dirql, LinkNativeFence, Passive, PeerFence, VidSchCaps};

/// Whether members on the adapter can be linked.
pub(super) fn is_capable(adapter: &Adapter) -> bool {
    let native = adapter.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE);
    native && adapter.caps.peer_signal.common_doorbell && adapter.config.ordinal.is_some()
}

/// What MonitoredValue of a member is at first.
pub(super) fn first_monitored_value(linked: bool) -> u64 {
    if linked { NOBODY_WAITS } else { EVERY_SIGNAL }
}

/// Tells each member's driver of all others, the newest member's first.
pub(super) fn link(members: &[Arc<Fence>]) -> Result<(), Status> {
    for one in members {
        for other in members.iter().filter(|other| !Arc::ptr_eq(&one.adapter, &other.adapter)) {
            connect(&one.adapter, &other.adapter)?;
        }
    }
    members.iter().rev().try_for_each(|member| tell(member, members))
}

/// A member is about to end, or was unlinked: its driver forgets the others.
pub(super) fn forget(member: &Fence) {
    // A driver that was told of somebody forgets him; one that was not has nothing to forget.
    let _ = tell(member, &[]);
}

/// Names all adapters but the member's own to its driver.
pub(super) fn tell(member: &Fence, members: &[Arc<Fence>]) -> Result<(), Status> {
    let Some(native) = &member.native else { return Ok(()) };
    let shares = |adapter: &Adapter| adapter.caps.peer_signal.shared_fence_storage;
    let others = members.iter().filter(|other| !Arc::ptr_eq(&other.adapter, &member.adapter));
    let peers = others.filter_map(|other| {
        let both = shares(&member.adapter) && shares(&other.adapter);
        let monitored_value = both.then(|| other.storage.monitored_at());
        Some(PeerFence { peer: other.adapter.config.ordinal?, monitored_value })
    });
    let args = LinkNativeFence {
        fence: native.driver_global,
        current_value: member.storage.current_at(),
        history: member.adapter.caps.fence_history,
        monitored_value: member.storage.monitored_at(),
        peers: peers.collect(),
    };
    member.adapter.driver().link_native_fence(&Passive::enter(), args)
}

/// From now on every signal of the member interrupts, and its waiters are held unarmed.
pub(super) fn unlink(member: &Fence) {
    let Some(native) = &member.native else { return };
    {
        let held = member.adapter.interrupt_lock.lock_device();
        let closed = {
            let mut waiters = member.waiters.lock();
            waiters.pin();
            waiters.is_closed()
        };
        let monitored = native.monitored.word();
        if let Some(monitored_value) = monitored.as_ref().filter(|_| !closed) {
            let (fence, value) = (native.driver_global, EVERY_SIGNAL);
            let update = UpdateMonitoredValue { fence, value, monitored_value };
            member.adapter.driver().update_monitored_values(&Dirql::enter(&held), &[update]);
        }
    }
    forget(member);
}

/// Gives `one` the common doorbell of `other`, once.
fn connect(one: &Adapter, other: &Adapter) -> Result<(), Status> {
    let number = other.config.ordinal.ok_or(Status::NOT_SUPPORTED)?;
    if one.peers.lock().contains(&number) {
        return Ok(());
    }
    let doorbell = other.driver().common_doorbell(&Passive::enter())?;
    one.driver().connect_peer(&Passive::enter(), number, doorbell)?;
    one.peers.lock().insert(number);
    Ok(())
}
