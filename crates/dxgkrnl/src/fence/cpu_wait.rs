//! CPU waits: blocking, with the caller's event, or registered, so that the caller can cancel them.
//!
//! Invariants: each condition latches when it becomes true. The condition that ends the wait gives
//! its notice, once. The remaining registrations are then removed. `event_set` describes how
//! several waits on one event collapse. The notice of a registered wait is given under the wait's
//! lock, which orders it with the cancellation: after a cancellation has returned there is no
//! notice. A blocking wait is used again while a signal of an earlier use may still call it or
//! remove that use's registrations. The ticket of a registration is the number of its use
//! (decisions/0133).

use super::event_set::EventSet;
use super::instance::Instance;
use super::monitor::{self, Registration};
use super::object::FenceTarget;
use super::object::{Fence, Fences, Waiter};
use super::waiter_queue::WaiterId;
use super::waiter_set::WaitOwner;
use crate::driver::DriverPort;
use crate::stats::Count;
use smallvec::SmallVec;
use std::sync::{Arc, Weak};
use tidegate_calls::{Status, WaitCallback, WaitMode, WaitNotice};
use tidegate_d3dukmdt::FenceWait;
use tidegate_d3dukmdt::fence_cell::REACHED;
use tidegate_ddi::Irql;
use tidegate_platform::planted;
use tidegate_platform::{Event, Mutex, Platform, WaitEnd};

/// One CPU wait.
pub(crate) struct CpuWait {
    port: Arc<DriverPort>,
    /// `None` once it is dropped.
    notice: Option<WaitNotice>,
    end: NoticeEnd,
    state: Mutex<WaitState>,
}

/// Until when a wait's notice may be given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NoticeEnd {
    /// The caller cannot cancel the wait.
    Never,
    /// No notice is given after a cancellation has returned.
    Cancellation,
}

struct WaitState {
    /// The number of the use, which its registrations have as their ticket.
    number: u64,
    conditions: usize,
    /// Number of conditions not yet satisfied.
    remaining: usize,
    done: bool,
    /// Registrations to remove when the wait ends before all of them were satisfied.
    registered: Registrations,
}

/// Conditions that are registered with their fences: mostly one, which takes no memory.
type Registrations = SmallVec<[(Weak<Fence>, WaiterId); 1]>;

fn remove_registrations(level: Irql<'_>, registrations: Registrations) {
    let known: SmallVec<[(Arc<Fence>, WaiterId); 1]> =
        registrations.into_iter().filter_map(|(fence, id)| Some((fence.upgrade()?, id))).collect();
    monitor::cancel(level, known.iter().map(|(fence, id)| (&**fence, *id)));
}

impl WaitState {
    fn of(number: u64, conditions: usize, mode: WaitMode) -> WaitState {
        WaitState {
            number,
            conditions,
            // spec: MF-042
            remaining: if mode == WaitMode::All { conditions } else { 1 },
            done: false,
            registered: Registrations::new(),
        }
    }

    /// Records a satisfied condition. Returns the registrations to remove if that ends the wait.
    fn satisfied(&mut self) -> Option<Registrations> {
        if self.done {
            return None;
        }
        // spec: MF-043
        self.remaining = self.remaining.saturating_sub(1);
        if self.remaining > 0 {
            return None;
        }
        self.done = true;
        Some(std::mem::take(&mut self.registered))
    }
}

impl CpuWait {
    /// Gives the notice.
    fn notify(&self, events: &mut EventSet) {
        self.port.count(Count::cpu_wakes);
        // It is taken when the wait is dropped.
        let Some(notice) = &self.notice else { return };
        match notice {
            WaitNotice::Event(event) => {
                events.set(event);
            }
            callback => callback.give(&self.port.platform),
        }
    }
}

impl Drop for CpuWait {
    fn drop(&mut self) {
        if let Some(notice @ WaitNotice::Callback(_)) = self.notice.take() {
            // Its destructor is the application's.
            let _contained = self.port.platform.call_foreign(|| drop(notice));
        }
    }
}

impl Waiter for CpuWait {
    fn wake(&self, level: Irql<'_>, ticket: u64, events: &mut EventSet) {
        // The faults are the mistakes that the scenarios reused-wait-against-signal and
        // unregister-against-signal must find.
        let platform = &self.port.platform;
        let mut state = self.state.lock_device();
        if state.number != ticket && !planted!(platform, LateSignalEndsTheNextWait) {
            return;
        }
        let Some(mut leftover) = state.satisfied() else { return };
        let conditions = state.conditions;
        // A notice that cannot be cancelled may call the kernel.
        let held = self.end == NoticeEnd::Cancellation && !planted!(platform, StaleWake);
        let until_given = Some(state).filter(|_| held);
        self.notify(events);
        drop(until_given);
        // The registration of a single condition is the one that was satisfied.
        if conditions > 1 {
            if planted!(platform, RegistrationsTakenAfterTheNotice) {
                leftover = std::mem::take(&mut self.state.lock_device().registered);
            }
            remove_registrations(level, leftover);
        }
    }
}

/// A use of a blocking wait.
struct Use {
    wait: Arc<CpuWait>,
    number: u64,
}

/// Blocking waits that have ended, for reuse with their events. The last use of each is known,
/// since a signal of that use may still hold the wait.
pub(crate) struct SpareWaits(Mutex<Vec<Use>>);

impl SpareWaits {
    const MOST: usize = 64;

    pub(crate) fn new(platform: &Platform) -> SpareWaits {
        SpareWaits(platform.mutex("spare CPU waits", Vec::new()))
    }

    /// Begins another use of a kept wait.
    fn take(&self, conditions: usize, mode: WaitMode) -> Option<Use> {
        let mut next = self.0.lock_device().pop()?;
        next.number += 1;
        *next.wait.state.lock_device() = WaitState::of(next.number, conditions, mode);
        Some(next)
    }

    /// Keeps a wait that is over. Its event was taken, and no signal sets it again before the next
    /// use.
    fn keep(&self, ended: Use) {
        let mut list = self.0.lock_device();
        if list.len() < SpareWaits::MOST {
            list.push(ended);
        }
    }
}

/// A CPU wait whose conditions are registered.
pub(crate) struct EnteredWait {
    used: Use,
    /// Whether any condition was unsatisfied when it was registered.
    pub(crate) is_pending: bool,
    mode: WaitMode,
}

/// Polls the fence of a wait that was begun, for a bounded time. Returns whether it is over.
///
/// A wait that is not over is registered with its epoch. A value that came and went while the
/// caller polled is then found in the fence's history, so fences without one are not polled.
pub(crate) fn poll(fence: &Fence, wait: FenceWait) -> bool {
    let port = fence.port();
    let Some(current) = fence.current.as_ref().filter(|_| wait.epoch != REACHED) else {
        return true;
    };
    let is_kept = port.declared.caps.fence_history && current.is_whole();
    is_kept && port.platform.poll_for(port.config.cpu_wait_poll_ns, || current.load() >= wait.value)
}

/// Registers the conditions of D3DKMTWaitForSynchronizationObjectFromCpu, which were begun. Without
/// an event the caller blocks in [`EnteredWait::block`].
///
/// A wait ends with the instance it was made on. The caller holds the instances until this returns,
/// so an instance destroyed concurrently ends afterwards and releases the wait.
// spec: NF-002, MF-040
pub(crate) fn enter<'a>(
    level: Irql<'_>,
    fences: &Fences,
    instances: impl ExactSizeIterator<Item = (&'a Instance, FenceWait)>,
    mode: WaitMode,
    event: Option<Event>,
    spare: &SpareWaits,
) -> EnteredWait {
    let with =
        |event| new_wait(fences, &instances, mode, WaitNotice::Event(event), NoticeEnd::Never);
    let used = match event {
        Some(event) => with(event),
        // The event of the wait's own. The wait that it releases resets it, for the next use.
        None => spare
            .take(instances.len(), mode)
            .unwrap_or_else(|| with(fences.port.platform.event(false))),
    };
    register(level, fences, instances, mode, used)
}

fn new_wait(
    fences: &Fences,
    instances: &impl ExactSizeIterator,
    mode: WaitMode,
    notice: WaitNotice,
    end: NoticeEnd,
) -> Use {
    let state = WaitState::of(0, instances.len(), mode);
    let state = fences.port.platform.mutex("a CPU wait", state);
    let notice = Some(notice);
    let wait = Arc::new(CpuWait { port: fences.port.clone(), notice, end, state });
    Use { wait, number: 0 }
}

/// Registers a wait of the kernel itself for one value, which ends with the instance at the latest.
pub(crate) fn enter_callback(
    level: Irql<'_>,
    fences: &Fences,
    instance: &Instance,
    value: u64,
    callback: Arc<dyn WaitCallback>,
) {
    let wait = monitor::begin_wait(&instance.fence, value);
    let (one, notice) = (std::iter::once((instance, wait)), WaitNotice::Callback(callback));
    let wait = new_wait(fences, &one, WaitMode::All, notice, NoticeEnd::Never);
    let _entered = register(level, fences, one, WaitMode::All, wait);
}

/// Registers the conditions of a wait that can be cancelled.
pub(crate) fn enter_registered<'a>(
    level: Irql<'_>,
    fences: &Fences,
    instances: impl ExactSizeIterator<Item = (&'a Instance, FenceWait)>,
    mode: WaitMode,
    notice: WaitNotice,
) -> EnteredWait {
    let wait = new_wait(fences, &instances, mode, notice, NoticeEnd::Cancellation);
    register(level, fences, instances, mode, wait)
}

fn register<'a>(
    level: Irql<'_>,
    fences: &Fences,
    instances: impl ExactSizeIterator<Item = (&'a Instance, FenceWait)>,
    mode: WaitMode,
    used: Use,
) -> EnteredWait {
    let Use { wait, number } = &used;
    let of_fences: SmallVec<[_; 1]> = instances.collect();
    let ids = monitor::register(
        level,
        of_fences.iter().map(|(instance, begun)| Registration {
            fence: &instance.fence,
            wait: *begun,
            waiter: wait.clone(),
            ticket: *number,
            owner: WaitOwner::Instance(instance.id),
        }),
    );
    let mut is_pending = false;
    for ((instance, _), id) in of_fences.iter().zip(ids) {
        match id {
            Some(id) => {
                is_pending = true;
                wait.state.lock().registered.push((Arc::downgrade(&instance.fence), id));
            }
            None => {
                let ended = wait.state.lock().satisfied();
                if let Some(leftover) = ended {
                    wait.notice.iter().for_each(|notice| notice.give(&wait.port.platform));
                    remove_registrations(level, leftover);
                }
            }
        }
    }
    // A wait-any that ended before its last registration was recorded removes that
    // registration here.
    let leftover = {
        let mut state = wait.state.lock();
        if state.done { std::mem::take(&mut state.registered) } else { Registrations::new() }
    };
    remove_registrations(level, leftover);
    if is_pending {
        fences.port.count(Count::cpu_waits);
    }
    EnteredWait { used, is_pending, mode }
}

impl EnteredWait {
    /// Blocks until the wait ends. Reports name the wait by `fences`.
    ///
    /// # Errors
    /// CANCELLED when the machine stops.
    // spec: MF-039
    pub(crate) fn block(
        self,
        level: Irql<'_>,
        spare: &SpareWaits,
        fences: &[FenceTarget],
    ) -> Result<(), Status> {
        let used = self.used;
        let Some(WaitNotice::Event(event)) = &used.wait.notice else { return Ok(()) };
        if event.try_take() {
            spare.keep(used);
            return Ok(());
        }
        let text = |target: &FenceTarget| target.fence.wait_text(target.value);
        let what = match (fences, self.mode) {
            ([one], _) => text(one),
            (_, WaitMode::All) => fences.iter().map(text).collect::<Vec<_>>().join(" and "),
            (_, WaitMode::Any) => fences.iter().map(text).collect::<Vec<_>>().join(" or "),
        };
        match event.wait_for(None, &what) {
            WaitEnd::Woken => {
                spare.keep(used);
                Ok(())
            }
            WaitEnd::TimedOut | WaitEnd::Stopped => {
                let leftover = std::mem::take(&mut used.wait.state.lock().registered);
                remove_registrations(level, leftover);
                Err(Status::CANCELLED)
            }
        }
    }
}

impl EnteredWait {
    /// Returns the wait, for its caller to cancel.
    pub(crate) fn into_registered(self) -> Registered {
        Registered(self.used.wait)
    }
}

/// A wait that its caller can cancel.
pub(crate) struct Registered(Arc<CpuWait>);

impl Registered {
    /// Returns whether the condition has held.
    pub(crate) fn is_over(&self) -> bool {
        self.0.state.lock().done
    }

    /// Cancels the wait. Order: 1. a notice that is being given ends, and no further condition ends
    /// the wait; 2. its registrations leave the fences.
    pub(crate) fn cancel(&self, level: Irql<'_>) {
        let leftover = {
            let mut state = self.0.state.lock();
            state.done = true;
            std::mem::take(&mut state.registered)
        };
        remove_registrations(level, leftover);
    }
}
