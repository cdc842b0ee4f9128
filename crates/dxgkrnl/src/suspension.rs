//! Suspension of hardware contexts: off the run list, and back.
//!
//! 1. A context that is not suspended gets the next value of its suspend fence.
//! 2. The driver is called without the lock of the state. It may be done when the call returns, or
//!    acknowledge by an interrupt that overtakes the return.
//! 3. [`hold`] waits for each acknowledgement, for TdrDelay at most. The engine of an
//!    unacknowledged context is treated as hung. A probe waits for nothing: its acknowledgement
//!    arms the timer.
//!
//! Invariants: holds are counted, and the driver is called for the first hold and after the last.
//! An acknowledgement of an older suspend fence is ignored. A suspended context has no reference
//! left on the GPU; its doorbells stay connected and its rings resident.

use crate::driver::{DdiCall, DriverPort};
use crate::error::BugCheck;
use crate::stats::Count;
use crate::timer::{AtPassive, EndAtPassive};
use crate::wait_classes::SUSPENSION;
use crate::wait_limit::WaitLimit;
use std::sync::{Arc, Weak};
use tidegate_ddi::{DriverHandle, Irql, OsHandle, Passive};
use tidegate_platform::{CpuTime, Event, Mutex, Step, WaitEnd};

/// The suspension of one hardware context.
pub(crate) struct Suspension {
    port: Arc<DriverPort>,
    /// The kernel's handle and the driver's.
    context: OsHandle,
    driver: DriverHandle,
    /// Serialises the driver calls for the context. Held across them.
    calls: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number of holds that keep the context off the run list.
    holds: u32,
    /// The suspend fence of the last request; 0 before the first.
    fence: u64,
    /// Set when the request is acknowledged; `None` if no acknowledgement is pending.
    pending: Option<Event>,
    /// The acknowledgement arms the timer: the request was a probe.
    is_probe: bool,
    /// When the last request was made, for the timeline.
    since_ns: u64,
}

/// An object with a suspension: a hardware context.
pub(crate) trait Suspendable: Send + Sync {
    fn suspension(&self) -> &Suspension;
}

/// Contexts that are off the run list. Dropping it, or [`Suspended::resume`], ends the hold. A held
/// context may end: with its process, or with its adapter.
#[must_use = "dropping it resumes the contexts"]
pub struct Suspended {
    held: AtPassive<Held>,
    complete: bool,
}

/// The contexts of one hold. Weak, so that a hold that lasts keeps no context from ending.
// spec: PRE-143
struct Held(Vec<Weak<dyn Suspendable>>);

impl Suspended {
    /// Returns whether the driver has acknowledged every context. The devices of other contexts
    /// are lost.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns contexts without another hold to the run list.
    pub fn resume(self) {}

    /// Keeps the contexts off the run list permanently, because their device is lost or ends.
    pub fn keep_off(self) {
        self.held.forget();
    }
}

impl EndAtPassive for Held {
    fn end(&mut self, level: &Passive) {
        let live = self.0.drain(..).filter_map(|context| context.upgrade());
        live.for_each(|context| context.suspension().release(level));
    }
}

/// Takes `contexts` off the run list, and waits until no reference to them is left on the GPU.
/// Blocks for at most the TDR delay, so the caller must not hold a lock that the DPC needs.
#[doc(alias = "DxgkDdiSuspendContext")]
pub(crate) fn hold(
    port: &DriverPort,
    level: &Passive,
    contexts: Vec<Arc<dyn Suspendable>>,
) -> Suspended {
    contexts.iter().for_each(|context| context.suspension().begin(level));
    let mut limit = WaitLimit::new(&port.platform, port.config.tdr.delay_ns);
    let mut complete = true;
    for context in &contexts {
        let suspension = context.suspension();
        if !suspension.wait_acknowledged(&mut limit) {
            // The reset acknowledges every context on the engine, so no engine is waited for twice.
            complete &= port.context_not_suspended(level, suspension.context)
                && suspension.is_acknowledged();
        }
    }
    let held = Held(contexts.iter().map(Arc::downgrade).collect());
    Suspended { held: AtPassive::wrap(&port.timer, held), complete }
}

impl Suspension {
    pub(crate) fn new(
        port: &Arc<DriverPort>,
        context: OsHandle,
        driver: DriverHandle,
    ) -> Suspension {
        Suspension {
            port: port.clone(),
            context,
            driver,
            calls: port.platform.mutex("suspensions of a context", ()),
            state: port.platform.mutex("suspension of a context", State::default()),
        }
    }

    /// Steps 1 and 2, without a wait for the acknowledgement. [`Suspension::release`] ends the
    /// hold.
    pub(crate) fn begin(&self, level: &Passive) {
        self.request(level, false);
    }

    /// Performs steps 1 and 2 for a probe, whose acknowledgement arms the timer.
    pub(crate) fn probe(&self, level: &Passive) {
        self.request(level, true);
    }

    // spec: UMS-044
    fn request(&self, level: &Passive, is_probe: bool) {
        let port = &self.port;
        let driver = port.driver(level);
        let _one_call_at_a_time = self.calls.lock_device();
        let fence = {
            let mut state = self.state.lock();
            state.holds += 1;
            state.is_probe |= is_probe;
            if state.holds > 1 {
                return;
            }
            state.fence += 1;
            state.pending = Some(port.platform.event(true));
            state.since_ns = port.platform.stamp_ns();
            state.fence
        };
        port.count(Count::suspensions);
        let done = driver.suspend_context(level, self.driver, fence);
        // A driver that fails the call never acknowledges, so a waiter times out. A removal
        // completes the requests that it finds, and waits for no acknowledgement of later ones.
        if done == Ok(true) || port.condition.check_present().is_err() {
            self.complete(fence);
        }
    }

    /// Returns the last request to the driver, for a report.
    pub(crate) fn last_call(&self) -> Option<DdiCall> {
        let state = self.state.lock();
        let (number, at) = (Some(state.fence), CpuTime(state.since_ns));
        (state.fence > 0).then_some(DdiCall { entry: "DxgkDdiSuspendContext", number, at })
    }

    /// Returns whether the last request is acknowledged.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.state.lock().pending.is_none()
    }

    /// Completes the request after an engine reset, which leaves no reference to the context.
    pub(crate) fn complete_by_reset(&self) {
        let fence = self.state.lock().fence;
        self.complete(fence);
    }

    /// Step 3. Returns `false` when the limit was used up first.
    fn wait_acknowledged(&self, limit: &mut WaitLimit) -> bool {
        self.port.platform.may_wait_for(&SUSPENSION);
        let pending = self.state.lock().pending.clone();
        let Some(pending) = pending else { return true };
        limit.wait(&pending, &SUSPENSION) == WaitEnd::Woken
    }

    /// Handles the driver's acknowledgement of a request.
    // spec: UMS-048
    pub(crate) fn acknowledge(&self, level: Irql<'_>, fence: u64) {
        let requested = self.state.lock().fence;
        if fence == 0 || fence > requested {
            let (context, acknowledged) = (self.context.0, fence);
            return self.port.bug_check(
                level,
                BugCheck::UnknownSuspendFence { context, acknowledged, requested },
            );
        }
        if !self.complete(fence) {
            self.port.count(Count::stale_suspend_acknowledgements);
        }
    }

    /// Completes this request and wakes its waiters. Returns `false` if it is not the last one or
    /// was already complete.
    fn complete(&self, fence: u64) -> bool {
        let (pending, since_ns, is_probe) = {
            let mut state = self.state.lock();
            let pending = if state.fence == fence { state.pending.take() } else { None };
            (pending, state.since_ns, state.is_probe)
        };
        let Some(pending) = pending else { return false };
        pending.set(Step::ThreadWake);
        self.port.lanes.record_power("suspend context", since_ns, fence);
        if is_probe {
            self.port.timer.arm(self.port.platform.now());
        }
        true
    }

    /// Ends one hold. The end of the last returns the context to the run list.
    #[doc(alias = "DxgkDdiResumeContext")]
    pub(crate) fn release(&self, level: &Passive) {
        let port = &self.port;
        let resumed = {
            let driver = port.driver(level);
            let _one_call_at_a_time = self.calls.lock_device();
            {
                let mut state = self.state.lock();
                state.holds -= 1;
                if state.holds > 0 {
                    return;
                }
                (state.pending, state.is_probe) = (None, false);
            }
            driver.resume_context(level, self.driver)
        };
        match resumed {
            Ok(()) => port.lanes.record_power("resume context", port.platform.stamp_ns(), 0),
            Err(status) => {
                port.bug_check(level, BugCheck::DdiFailed { ddi: "DxgkDdiResumeContext", status });
            }
        }
    }
}
