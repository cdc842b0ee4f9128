//! Owns the CPU's waits and signals.
//!
//! A wait for several fences latches each condition when it becomes true. It sets its event once,
//! whichever of its registrations comes first, and the others are taken back. What several waits
//! for one event come to is `events`.
//!
//! A signal call for several fences: 1. each value is stored, and whom it satisfies is taken, in
//! the order of the call; 2. all of those are released; 3. what is left is armed, and other
//! adapters are told.

use super::monitor::Satisfied;
use super::value::FenceValue;
use super::waiters::{Owner, WaiterId};
use super::{Events, Fence, FenceInstanceObject, NativeParts, Wakee, cross_adapter, monitor};
use crate::adapter::Adapter;
use crate::sched::FenceTarget;
use crate::stats::Count;
use std::sync::{Arc, Weak};
use tidegate_calls::{Status, WaitMode};
use tidegate_ddi::Dispatch;
use tidegate_ddi::fence::{UpdateCurrentMode, UpdateCurrentValue};
use tidegate_platform::{Event, Mutex, MutexGuard, Platform, Step, WaitEnd};

/// One condition of a CPU wait. It goes with the instance by which it was asked, which is held
/// until the condition is entered: whoever destroys the instance meanwhile, its end comes after,
/// and finds the wait to release.
pub(crate) type InstanceTarget = (Arc<FenceInstanceObject>, u64);

/// One CPU wait: blocking, or with an event of the caller.
struct CpuWait {
    adapter: Weak<Adapter>,
    event: Event,
    state: Mutex<WaitState>,
}

struct WaitState {
    /// Conditions that must still come true.
    remaining: usize,
    done: bool,
    /// What to take back when the wait is over before all registrations were satisfied.
    registered: Vec<(Weak<Fence>, WaiterId)>,
}

impl CpuWait {
    /// Notes a condition that came true; returns what to take back if that ends the wait.
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

fn take_back(registrations: Vec<(Weak<Fence>, WaiterId)>) {
    for (fence, id) in registrations {
        if let Some(fence) = fence.upgrade() {
            monitor::cancel(&fence, id);
        }
    }
}

impl Wakee for CpuWait {
    fn wake(&self, _ticket: u64, events: &mut Events) {
        let Some(leftover) = self.satisfied() else { return };
        if let Some(adapter) = self.adapter.upgrade() {
            adapter.count(Count::cpu_wakes);
        }
        events.set(&self.event);
        take_back(leftover);
    }
}

/// D3DKMTWaitForSynchronizationObjectFromCpu: with an event, returns at once; else blocks.
// spec: NF-002, MF-040
pub(crate) fn wait(
    adapter: &Arc<Adapter>,
    instances: Vec<InstanceTarget>,
    mode: WaitMode,
    event: Option<Event>,
) -> Result<(), Status> {
    let platform: &Platform = &adapter.platform;
    let blocking = event.is_none();
    let wait = Arc::new(CpuWait {
        adapter: Arc::downgrade(adapter),
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
    let mut waited = false;
    for (instance, value) in &instances {
        let fence = &instance.fence;
        match monitor::wait(fence, *value, wait.clone(), 0, Owner::Instance(instance.id)) {
            Some(id) => {
                waited = true;
                wait.state.lock().registered.push((Arc::downgrade(fence), id));
            }
            None => {
                if let Some(leftover) = wait.satisfied() {
                    wait.event.set(Step::ThreadWake);
                    take_back(leftover);
                }
            }
        }
    }
    // A wait for any that was over before its last registration takes that one back here.
    let leftover = {
        let mut state = wait.state.lock();
        if state.done { std::mem::take(&mut state.registered) } else { Vec::new() }
    };
    take_back(leftover);
    if waited {
        adapter.count(Count::cpu_waits);
        // Whoever waits may wait for a queue whose ring no call of the kernel announced.
        adapter.watch_for_hangs();
    }
    if !blocking {
        return Ok(());
    }
    let fences: Vec<FenceTarget> =
        instances.iter().map(|(i, value)| (i.fence.clone(), *value)).collect();
    // While it blocks, the wait keeps no instance from its end.
    drop(instances);
    block(&wait, &fences, mode)
}

// spec: MF-039
fn block(wait: &CpuWait, fences: &[FenceTarget], mode: WaitMode) -> Result<(), Status> {
    if wait.event.try_take() {
        return Ok(());
    }
    let join = if mode == WaitMode::All { " and " } else { " or " };
    let what: Vec<String> = fences.iter().map(|(fence, value)| fence.wait_text(*value)).collect();
    match wait.event.wait_for(None, &what.join(join)) {
        WaitEnd::Woken => Ok(()),
        WaitEnd::TimedOut | WaitEnd::Stopped => {
            let leftover = std::mem::take(&mut wait.state.lock().registered);
            take_back(leftover);
            Err(Status::CANCELLED)
        }
    }
}

/// Signals fences from the CPU: the values are visible, then everybody whom they satisfy is
/// released.
///
/// A waiter that was there when the value was stored is satisfied, whatever is stored next: the
/// cell remembers. Where it does not (hardware without histories), the value itself releases: CPU
/// signals of one fence are ordered by its update lock, so no wait that was made after a rewind by
/// the CPU is released by the value before it.
#[doc(alias = "D3DKMTSignalSynchronizationObjectFromCpu")]
// spec: NF-141, MF-036
pub(crate) fn signal(fences: &[FenceTarget]) {
    let mut satisfied = Vec::new();
    for (fence, value) in fences {
        fence.adapter.count(Count::cpu_signals);
        satisfied.push(store_and_take(fence, *value, UpdateCurrentMode::Write));
    }
    release(fences.iter().map(|(fence, _)| &**fence), satisfied);
}

/// The device that may signal the fences is lost: they read as their maximum, and everybody is
/// released.
// spec: ME-048
pub(crate) fn signal_always(fences: &[Arc<Fence>]) {
    let take =
        |fence: &Arc<Fence>| store_and_take(fence, u64::MAX, UpdateCurrentMode::AlwaysSignaled);
    release(fences.iter().map(|fence| &**fence), fences.iter().map(take).collect());
}

/// The fence ends: every wait for it passes, also one that hardware holds or has yet to come to.
pub(crate) fn let_all_pass(fence: &Fence) {
    if let Some(current) = &fence.current {
        fence.adapter.stats.add(Count::fence_history_lost, current.history_lost());
        current.condemn();
    }
    // Only a queue that user mode feeds can have given a wait to the hardware.
    let user_queues = fence.adapter.hw_queues_of(|queue| queue.user_mode_submission);
    if let Some(native) = &fence.native
        && !user_queues.is_empty()
    {
        let _still = hold_out_of_reach(fence);
        let _ordered = fence.update.lock_device();
        // What no CPU reaches the hardware condemns.
        update(
            fence,
            native,
            u64::MAX,
            match &fence.current {
                Some(_) => UpdateCurrentMode::NotificationOnly,
                None => UpdateCurrentMode::AlwaysSignaled,
            },
        );
    }
}

fn store_and_take(fence: &Fence, value: u64, mode: UpdateCurrentMode) -> Satisfied {
    let _still = hold_out_of_reach(fence);
    let _ordered = fence.update.lock_device();
    store(fence, value, mode);
    monitor::take_satisfied(fence, if fence.adapter.caps.fence_history { 0 } else { value })
}

/// Releases whom the values of `fences` satisfy, one list for each of them, and does the rest of
/// their signals.
fn release<'a>(fences: impl Iterator<Item = &'a Fence>, satisfied: Vec<Satisfied>) {
    let released: Vec<bool> = satisfied.iter().map(|of_fence| !of_fence.is_empty()).collect();
    monitor::release(satisfied.into_iter().flatten().collect());
    for (fence, released) in fences.zip(released) {
        if released {
            monitor::settle(fence);
        }
        // Also when the value is 0: it stands where others look, and no interrupt speaks of it.
        // spec: NF-156, NF-158, NF-161, NF-162, NF-164
        cross_adapter::propagate(fence);
    }
}

/// Somebody stored the value elsewhere: the hardware looks at the queues that wait.
pub(crate) fn notify(fence: &Fence) {
    let Some(native) = &fence.native else { return };
    let _ordered = fence.update.lock_device();
    // The driver may not hear of a fence that ends.
    if !fence.waiters.lock().is_closed() {
        update(fence, native, fence.value(), UpdateCurrentMode::NotificationOnly);
    }
}

fn store(fence: &Fence, value: u64, mode: UpdateCurrentMode) {
    match &fence.native {
        // The last instance is being closed: the driver may not hear of the fence any more, and
        // nobody waits for it.
        Some(_) if fence.waiters.lock().is_closed() => {
            if let Some(current) = &fence.current {
                current.store(value);
            }
        }
        Some(native) if mode == UpdateCurrentMode::AlwaysSignaled => lose(fence, native),
        // spec: NF-135
        Some(native) => update(fence, native, value, mode),
        None => {
            // spec: MF-035
            match (&fence.current, mode) {
                (Some(current), UpdateCurrentMode::AlwaysSignaled) => current.condemn(),
                (Some(current), _) => {
                    current.store(value);
                }
                (None, _) => {}
            }
        }
    }
}

/// The driver lets every wait pass and leaves the value alone; what readers see is the kernel's: 1.
/// the maximum; 2. the driver;
/// 3. the maximum again, if an engine stored between 1 and 2. Whoever came to wait then found that
///    value, so queues look again.
fn lose(fence: &Fence, native: &NativeParts) {
    // 1.
    if let Some(current) = &fence.current {
        current.store(u64::MAX);
    }
    // 2.
    update(fence, native, u64::MAX, UpdateCurrentMode::AlwaysSignaled);
    // 3.
    if let Some(current) = &fence.current
        && current.load() != u64::MAX
    {
        current.store(u64::MAX);
        update(fence, native, u64::MAX, UpdateCurrentMode::NotificationOnly);
    }
}

/// A fence that no CPU reaches is changed by the driver where it stands, so it stays there
/// meanwhile.
fn hold_out_of_reach(fence: &Fence) -> Option<MutexGuard<'_, ()>> {
    fence.current.is_none().then(|| fence.storage.hold_still(&fence.adapter)).flatten()
}

fn update(fence: &Fence, native: &NativeParts, value: u64, mode: UpdateCurrentMode) {
    let update = UpdateCurrentValue {
        fence: native.driver_global,
        value,
        // spec: NF-011
        current_value: fence.current.as_ref().map(FenceValue::cell),
    };
    fence.adapter.driver().update_current_values_from_cpu(&Dispatch::enter(), &[update], mode);
}
