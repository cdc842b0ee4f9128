//! The future of a fence: `fence.reached(n).await`, for any executor.
//!
//! The first poll that finds the value missing registers a wait with the kernel. The end of the
//! wait calls the task's waker on the device's thread (`wakers`). Dropping the future cancels the
//! wait.

use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::umd::registration::Registration;
use crate::wakers::Entry;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tidegate_calls::WaitNotice;
use tidegate_platform::planted;

/// The future of [`Fence::reached`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Reached {
    fence: Fence,
    value: u64,
    pending: Option<Pending>,
}

struct Pending {
    /// Dropped first: after that the kernel reports no end to the entry.
    registration: Registration,
    entry: Entry,
}

impl Fence {
    /// Returns a future that is ready once the value is at least `value`, under any executor. The
    /// condition latches at the first poll: a fence that reaches the value and falls again has
    /// reached it.
    ///
    /// No thread is needed for each wait, and none polls. A value that is reached already needs no
    /// kernel call. Dropping the future cancels its wait.
    ///
    /// # Errors
    /// The output has the errors of [`Fence::wait`].
    pub fn reached(&self, value: u64) -> Reached {
        Reached { fence: self.clone(), value, pending: None }
    }
}

impl Reached {
    /// The result of a wait that is over.
    fn finish(&mut self) -> Poll<Result<()>> {
        self.pending = None;
        self.fence.note_reached(self.value);
        let result = self.fence.check_not_lost();
        if result.is_ok() {
            self.fence.note_waited(self.value);
        }
        Poll::Ready(result)
    }

    fn register(&mut self, cx: &Context<'_>) -> Result<bool> {
        let device = self.fence.device();
        let is_late = planted!(device.umd.platform, LateWaker);
        let waker = if is_late { Waker::noop() } else { cx.waker() };
        let entry = device.wakers.enter(waker.clone());
        let notice = WaitNotice::Callback(entry.callback());
        let registration = self.fence.register(self.value, notice)?;
        let is_over = registration.is_over();
        self.pending = Some(Pending { registration, entry });
        Ok(is_over)
    }
}

impl Future for Reached {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        if this.fence.object.value.load() >= this.value {
            return this.finish();
        }
        let device = this.fence.device();
        if device.umd.platform.is_stopped() {
            this.pending = None;
            return Poll::Ready(Err(Error::Stopped));
        }
        let is_over = match &this.pending {
            Some(pending) => Ok(pending.entry.poll(cx.waker())),
            None => this.register(cx),
        };
        match is_over {
            Ok(false) => {
                // Last: if the machine stops from now on, the thread wakes this task for it.
                let device = this.fence.device();
                device.wakers.ensure_running(&device.umd.options.process_name);
                if planted!(device.umd.platform, LateWaker)
                    && let Some(pending) = &this.pending
                {
                    let _is_over = pending.entry.poll(cx.waker());
                }
                Poll::Pending
            }
            Ok(true) => this.finish(),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl fmt::Debug for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = self.pending.as_ref().is_some_and(|p| !p.registration.is_over());
        write!(f, "Reached({:?}, {}, waits: {waits})", self.fence.name(), self.value)
    }
}
