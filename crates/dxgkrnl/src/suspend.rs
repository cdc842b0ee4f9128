//! Suspension of hardware contexts: off the run list, and back.
//!
//! 1. A context that is not suspended gets the next value of its suspend fence.
//! 2. The driver is called without the lock of the state. It may be done when the call returns, or
//!    acknowledge by an interrupt that overtakes the return.
//! 3. [`hold`] waits for each acknowledgement, for TdrDelay at most. The engine of a context that
//!    is not acknowledged hangs. A probe waits for nothing: its acknowledgement arms the timer.
//!
//! Invariants: holds are counted, and the driver sees the first and the end of the last. An
//! acknowledgement of an older suspend fence than the last counts for nothing. A suspended context
//! has no reference left on the GPU; its doorbells stay connected and its rings resident.

use crate::adapter::Adapter;
use crate::context::Context;
use crate::driver::DdiCall;
use crate::error::BugCheck;
use crate::recovery;
use crate::recovery::detect::Finding;
use crate::stats::Count;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::Passive;
use tidegate_platform::{CpuTime, Event, Mutex, Platform, Step, WaitEnd};

/// The suspension of one hardware context.
pub(crate) struct Suspension {
    /// Orders the driver's calls for the context; held over them.
    calls: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many callers keep it off the run list.
    holds: u32,
    /// The suspend fence of the last request; 0 before the first.
    fence: u64,
    /// Set when that request is acknowledged; `None` once it is, and while the context is on the
    /// run list.
    pending: Option<Event>,
    /// The acknowledgement arms the timer: the request was a probe.
    is_probe: bool,
    /// When the last request was made, for the timeline.
    since_ns: u64,
}

impl Suspension {
    pub(crate) fn new(platform: &Platform) -> Suspension {
        Suspension {
            calls: platform.mutex("suspensions of a context", ()),
            state: platform.mutex("suspension of a context", State::default()),
        }
    }
}

/// Contexts that are off the run list. Dropping it, or [`Suspended::resume`], ends the hold.
#[must_use = "dropping it resumes the contexts"]
pub struct Suspended {
    contexts: Vec<Arc<Context>>,
    complete: bool,
}

impl Suspended {
    /// Whether the driver has acknowledged every context. The devices of other contexts are lost.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Puts the contexts back that have no other hold.
    pub fn resume(self) {}

    /// Keeps the contexts off the run list for ever: their device is lost, or ends.
    pub fn keep_off(mut self) {
        self.contexts.clear();
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        self.contexts.drain(..).for_each(|context| release(&context));
    }
}

/// Takes `contexts`, which are of `adapter`, off the run list, and waits until no reference to them
/// is left on the GPU. Blocks for the TDR delay at most: no lock may be held that the deferred
/// routine needs.
#[doc(alias = "DxgkDdiSuspendContext")]
pub(crate) fn hold(adapter: &Adapter, contexts: Vec<Arc<Context>>) -> Suspended {
    contexts.iter().for_each(begin);
    let deadline = adapter.platform.now().after(adapter.config.tdr.delay_ns);
    let mut complete = true;
    for context in &contexts {
        if !wait_acknowledged(context, deadline) {
            // The reset acknowledges every context on the engine, so no engine is waited for twice.
            let finding = Finding::of_context(context);
            recovery::recover(&context.device.adapter, &Passive::enter(), finding);
            complete &= is_acknowledged(context) && context.device.check().is_ok();
        }
    }
    Suspended { contexts, complete }
}

/// Steps 1 and 2, without a wait for the acknowledgement. [`release`] ends the hold.
pub(crate) fn begin(context: &Arc<Context>) {
    request(context, false);
}

/// The same for a probe: the acknowledgement arms the timer.
pub(crate) fn probe(context: &Arc<Context>) {
    request(context, true);
}

// spec: UMS-044
fn request(context: &Arc<Context>, is_probe: bool) {
    let adapter = &context.device.adapter;
    let suspension = &context.suspension;
    let _one_call_at_a_time = suspension.calls.lock_device();
    let fence = {
        let mut state = suspension.state.lock();
        state.holds += 1;
        state.is_probe |= is_probe;
        if state.holds > 1 {
            return;
        }
        state.fence += 1;
        state.pending = Some(adapter.platform.event(true));
        state.since_ns = adapter.platform.stamp_ns();
        state.fence
    };
    adapter.count(Count::suspensions);
    let done = adapter.driver().suspend_context(&Passive::enter(), context.driver, fence);
    // A driver that refuses acknowledges nothing, which a waiter finds out by its deadline.
    if let Ok(true) = done {
        complete(context, fence);
    }
}

/// The last request that was made of the driver for a context, for a report.
pub(crate) fn last_call(context: &Context) -> Option<DdiCall> {
    let state = context.suspension.state.lock();
    let (number, at) = (Some(state.fence), CpuTime(state.since_ns));
    (state.fence > 0).then_some(DdiCall { entry: "DxgkDdiSuspendContext", number, at })
}

/// Whether the last request for a context is acknowledged.
pub(crate) fn is_acknowledged(context: &Context) -> bool {
    context.suspension.state.lock().pending.is_none()
}

/// The engines of these contexts were reset: no reference to the contexts is left, so every request
/// is complete.
pub(crate) fn acknowledge_all(adapter: &Arc<Adapter>, which: impl Fn(&Context) -> bool) {
    for context in adapter.hw_contexts_of(which) {
        let fence = context.suspension.state.lock().fence;
        complete(&context, fence);
    }
}

/// Step 3, for one context. Returns `false` when the deadline passed first.
fn wait_acknowledged(context: &Context, deadline: CpuTime) -> bool {
    let pending = context.suspension.state.lock().pending.clone();
    let Some(pending) = pending else { return true };
    let what = "the driver to say that a context is suspended";
    matches!(pending.wait_for(Some(deadline), what), WaitEnd::Woken)
}

/// The driver says that a request is complete.
// spec: UMS-048
pub(crate) fn acknowledge(context: &Arc<Context>, fence: u64) {
    let adapter = &context.device.adapter;
    let requested = context.suspension.state.lock().fence;
    if fence == 0 || fence > requested {
        let (context, acknowledged) = (context.os_handle.0, fence);
        return adapter.bug_check(BugCheck::UnknownSuspendFence {
            context,
            acknowledged,
            requested,
        });
    }
    if !complete(context, fence) {
        adapter.count(Count::stale_suspend_acknowledgements);
    }
}

/// Completes this request and wakes its waiters. Returns `false` when it is not the last one, or
/// was complete.
fn complete(context: &Context, fence: u64) -> bool {
    let (pending, since_ns, is_probe) = {
        let mut state = context.suspension.state.lock();
        let pending = if state.fence == fence { state.pending.take() } else { None };
        (pending, state.since_ns, state.is_probe)
    };
    let Some(pending) = pending else { return false };
    pending.set(Step::ThreadWake);
    let adapter = &context.device.adapter;
    adapter.record_power("suspend context", since_ns, fence);
    if is_probe {
        adapter.timer.arm(adapter.platform.now());
    }
    true
}

/// Ends one hold; the end of the last puts the context back.
#[doc(alias = "DxgkDdiResumeContext")]
pub(crate) fn release(context: &Arc<Context>) {
    let adapter = &context.device.adapter;
    let suspension = &context.suspension;
    let resumed = {
        let _one_call_at_a_time = suspension.calls.lock_device();
        {
            let mut state = suspension.state.lock();
            state.holds -= 1;
            if state.holds > 0 {
                return;
            }
            (state.pending, state.is_probe) = (None, false);
        }
        adapter.driver().resume_context(&Passive::enter(), context.driver)
    };
    match resumed {
        Ok(()) => adapter.record_power("resume context", adapter.platform.stamp_ns(), 0),
        Err(status) => {
            adapter.bug_check(BugCheck::DdiFailed { ddi: "DxgkDdiResumeContext", status })
        }
    }
}

impl Adapter {
    /// Takes every hardware context off the run list, as power and the end of a process do, until
    /// the returned hold ends. Blocks until the driver has acknowledged, for the TDR delay at most.
    ///
    /// # Errors
    /// DEVICE_REMOVED when a driver contract was broken.
    pub fn suspend_contexts(&self) -> Result<Suspended, Status> {
        self.check()?;
        Ok(hold(self, self.hw_contexts_of(|_| true)))
    }
}
