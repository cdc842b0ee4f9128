//! CPU waits: blocking, or with the caller's event.
//!
//! Invariants: each condition latches when it becomes true. The condition that ends the wait sets
//! its event, once. The remaining registrations are then removed. `event_set` describes how several
//! waits on one event collapse.

use super::event_set::EventSet;
use super::instance::Instance;
use super::monitor;
use super::object::{Fence, Fences, Waiter};
use super::waiter_set::{WaitOwner, WaiterId};
use crate::driver::DriverPort;
use crate::stats::Count;
use std::sync::{Arc, Weak};
use tidegate_calls::{Status, WaitMode};
use tidegate_ddi::Irql;
use tidegate_platform::{Event, Mutex, Step, WaitEnd};

/// One CPU wait.
pub(crate) struct CpuWait {
    port: Arc<DriverPort>,
    event: Event,
    state: Mutex<WaitState>,
}

struct WaitState {
    /// Number of conditions not yet satisfied.
    remaining: usize,
    done: bool,
    /// Registrations to remove when the wait ends before all of them were satisfied.
    registered: Vec<(Weak<Fence>, WaiterId)>,
}

impl CpuWait {
    /// Records a satisfied condition. Returns the registrations to remove if that ends the wait.
    fn satisfied(&self) -> Option<Vec<(Weak<Fence>, WaiterId)>> {
        let mut state = self.state.lock();
        if state.done {
            return None;
        }
        // spec: MF-043
        state.remaining = state.remaining.saturating_sub(1);
        if state.remaining > 0 {
            return None;
        }
        state.done = true;
        Some(std::mem::take(&mut state.registered))
    }
}

fn remove_registrations(level: Irql<'_>, registrations: Vec<(Weak<Fence>, WaiterId)>) {
    for (fence, id) in registrations {
        if let Some(fence) = fence.upgrade() {
            monitor::cancel(level, &fence, id);
        }
    }
}

impl Waiter for CpuWait {
    fn wake(&self, level: Irql<'_>, _ticket: u64, events: &mut EventSet) {
        let Some(leftover) = self.satisfied() else { return };
        self.port.count(Count::cpu_wakes);
        events.set(&self.event);
        remove_registrations(level, leftover);
    }
}

/// A CPU wait whose conditions are registered.
pub(crate) struct EnteredWait {
    wait: Arc<CpuWait>,
    /// Whether any condition was unsatisfied when it was registered.
    pub(crate) is_pending: bool,
    mode: WaitMode,
}

/// Registers the conditions of D3DKMTWaitForSynchronizationObjectFromCpu. Without an event the
/// caller blocks in [`EnteredWait::block`].
///
/// A wait ends with the instance it was made on. The caller holds the instances until this returns,
/// so an instance destroyed concurrently ends afterwards and releases the wait.
// spec: NF-002, MF-040
pub(crate) fn enter<'a>(
    level: Irql<'_>,
    fences: &Fences,
    instances: impl ExactSizeIterator<Item = (&'a Instance, u64)>,
    mode: WaitMode,
    event: Option<Event>,
) -> EnteredWait {
    let platform = &fences.port.platform;
    let wait = Arc::new(CpuWait {
        port: fences.port.clone(),
        event: event.unwrap_or_else(|| platform.event(true)),
        state: platform.mutex(
            "a CPU wait",
            WaitState {
                // spec: MF-042
                remaining: if mode == WaitMode::All { instances.len() } else { 1 },
                done: false,
                registered: Vec::new(),
            },
        ),
    });
    let mut is_pending = false;
    for (instance, value) in instances {
        let (fence, owner) = (&instance.fence, WaitOwner::Instance(instance.id));
        match monitor::wait(level, fence, value, wait.clone(), 0, owner) {
            Some(id) => {
                is_pending = true;
                wait.state.lock().registered.push((Arc::downgrade(fence), id));
            }
            None => {
                if let Some(leftover) = wait.satisfied() {
                    wait.event.set(Step::ThreadWake);
                    remove_registrations(level, leftover);
                }
            }
        }
    }
    // A wait-any that ended before its last registration was recorded removes that
    // registration here.
    let leftover = {
        let mut state = wait.state.lock();
        if state.done { std::mem::take(&mut state.registered) } else { Vec::new() }
    };
    remove_registrations(level, leftover);
    if is_pending {
        fences.port.count(Count::cpu_waits);
    }
    EnteredWait { wait, is_pending, mode }
}

impl EnteredWait {
    /// Blocks until the wait ends. Reports name the wait by `fences`.
    ///
    /// # Errors
    /// CANCELLED when the machine stops.
    // spec: MF-039
    pub(crate) fn block(self, level: Irql<'_>, fences: &[(Arc<Fence>, u64)]) -> Result<(), Status> {
        let wait = self.wait;
        if wait.event.try_take() {
            return Ok(());
        }
        let join = if self.mode == WaitMode::All { " and " } else { " or " };
        let what: Vec<String> =
            fences.iter().map(|(fence, value)| fence.wait_text(*value)).collect();
        match wait.event.wait_for(None, &what.join(join)) {
            WaitEnd::Woken => Ok(()),
            WaitEnd::TimedOut | WaitEnd::Stopped => {
                let leftover = std::mem::take(&mut wait.state.lock().registered);
                remove_registrations(level, leftover);
                Err(Status::CANCELLED)
            }
        }
    }
}
