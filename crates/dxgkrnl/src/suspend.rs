//! Owns the suspending and resuming of hardware contexts: whoever must have contexts off the run
//! list holds them, and the driver hears of the first hold and of the end of the last.
//!
//! The order that matters, for a hold of some contexts:
//! 1. each context that nobody holds gets the next value of its suspend fence, and what will be
//!    acknowledged is entered;
//! 2. the driver is asked, outside of that entry's lock: it may be done when the call returns, or
//!    say so by an interrupt, which may overtake the return;
//! 3. when all are asked, each answer is waited for, at most for the TDR delay; the engine of who
//!    does not answer hangs (`tdr`). The looks at engines ask as well and do not wait: an answer
//!    wakes the supervisor, which ends the hold.
//!
//! The value tells requests apart: a context may be suspended, resumed without waiting and
//! suspended again, and then the acknowledgement of the first request says nothing about the
//! second.
//!
//! Suspended means that no reference to the context is left on the GPU. Doorbells stay connected
//! and rings resident; what is rung meanwhile runs after the resume without another ring.
//!
//! Power, the end of a process, `recovery` and `tdr` call in; `interrupt` brings acknowledgements;
//! `tdr` is called where none comes. It knows nothing of doorbells and queues.

use crate::adapter::Adapter;
use crate::context::Context;
use crate::driver::DdiCall;
use crate::error::BugCheck;
use crate::stats::Count;
use crate::tdr;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::Passive;
use tidegate_platform::{CpuTime, Event, Mutex, Platform, Step, WaitEnd};

/// How one hardware context stands.
pub(crate) struct Suspension {
    /// Orders the driver's calls for the context; held over them.
    calls: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Who wants it off the run list.
    holds: u32,
    /// The suspend fence of the last request; 0 before the first.
    fence: u64,
    /// Set when that request is acknowledged; `None` once it is, and when nobody holds the context.
    pending: Option<Event>,
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
    /// Whether the driver has acknowledged every one. Those that it has not belong to devices that
    /// are lost by now.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Puts the contexts back, unless somebody else holds them, too.
    pub fn resume(self) {}

    /// They never run again: their device is lost, or ends.
    pub fn for_good(mut self) {
        self.contexts.clear();
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        self.contexts.drain(..).for_each(|context| let_go(&context));
    }
}

/// Takes `contexts`, which are of `adapter`, off the run list, and waits until no reference to them
/// is left on the GPU. Blocks for the TDR delay at most: no lock may be held that the deferred
/// routine needs.
#[doc(alias = "DxgkDdiSuspendContext")]
pub(crate) fn hold(adapter: &Adapter, contexts: Vec<Arc<Context>>) -> Suspended {
    contexts.iter().for_each(ask);
    let deadline = adapter.platform.now().after(adapter.config.tdr.delay_ns);
    let mut complete = true;
    for context in &contexts {
        if !is_acknowledged(context, deadline) {
            // The reset lets go of it, and of all others on its engine: nobody waits for the same
            // engine twice.
            tdr::not_suspended(&context.device.adapter, context);
            complete &= is_settled(context) && context.device.check().is_ok();
        }
    }
    Suspended { contexts, complete }
}

/// Takes a context off the run list for ever, and waits for nothing: its device is lost.
pub(crate) fn for_good(context: &Arc<Context>) {
    ask(context);
}

/// Steps 1 and 2: asks for a context, and waits for nothing. [`let_go`] ends the hold.
// spec: UMS-044
pub(crate) fn ask(context: &Arc<Context>) {
    let adapter = &context.device.adapter;
    let suspension = &context.suspension;
    let _one_call_at_a_time = suspension.calls.lock_device();
    let fence = {
        let mut state = suspension.state.lock();
        state.holds += 1;
        if state.holds > 1 {
            return;
        }
        state.fence += 1;
        state.pending = Some(adapter.platform.event(true));
        state.since_ns = adapter.platform.stamp_ns();
        state.fence
    };
    adapter.count(Count::suspensions);
    let asked = adapter.driver().suspend_context(&Passive::enter(), context.driver, fence);
    if let Ok(true) = asked {
        settle(context, fence);
    }
    // A driver that refuses acknowledges nothing either: whoever waits finds out.
}

/// The last request that was made of the driver for a context, for a report.
pub(crate) fn last_call(context: &Context) -> Option<DdiCall> {
    let state = context.suspension.state.lock();
    let (number, at) = (Some(state.fence), CpuTime(state.since_ns));
    (state.fence > 0).then_some(DdiCall { entry: "DxgkDdiSuspendContext", number, at })
}

/// Whether the last request for a context is answered.
pub(crate) fn is_settled(context: &Context) -> bool {
    context.suspension.state.lock().pending.is_none()
}

/// The engines of these contexts were reset: no reference to them is left, and whoever waits for
/// that need not wait any longer.
pub(crate) fn settle_all(adapter: &Arc<Adapter>, which: impl Fn(&Context) -> bool) {
    for context in adapter.hw_contexts_of(which) {
        let fence = context.suspension.state.lock().fence;
        settle(&context, fence);
    }
}

/// Step 3, for one context; `false` when the time was over before the driver answered.
fn is_acknowledged(context: &Context, deadline: CpuTime) -> bool {
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
    if !settle(context, fence) {
        adapter.count(Count::stale_suspend_acknowledgements);
    }
}

/// Releases who waits for this request; `false` when nobody waits for it any more.
fn settle(context: &Context, fence: u64) -> bool {
    let (pending, since_ns) = {
        let mut state = context.suspension.state.lock();
        let pending = if state.fence == fence { state.pending.take() } else { None };
        (pending, state.since_ns)
    };
    let Some(pending) = pending else { return false };
    pending.set(Step::ThreadWake);
    context.device.adapter.record_power("suspend context", since_ns, fence);
    tdr::suspended(&context.device.adapter, context);
    true
}

/// One hold less; the last one puts the context back.
#[doc(alias = "DxgkDdiResumeContext")]
pub(crate) fn let_go(context: &Arc<Context>) {
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
            state.pending = None;
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
