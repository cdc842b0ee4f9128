//! A registered CPU wait for fences. Dropping it cancels the wait.

use crate::umd::thunk::Thunk;
use std::fmt;
use std::sync::Arc;
use tidegate_calls::{CpuWaitRegistration, FenceValue, Status, WaitMode, WaitNotice};

pub(crate) struct Registration {
    /// `None` after cancellation.
    wait: Option<CpuWaitRegistration>,
    thunk: Arc<Thunk>,
}

impl Registration {
    /// Registers a wait for `fences`, which triggers `notice` when it ends.
    pub(crate) fn new(
        thunk: &Arc<Thunk>,
        fences: &[FenceValue],
        mode: WaitMode,
        notice: WaitNotice,
    ) -> Result<Registration, Status> {
        let wait = thunk.enter().register_cpu_wait(fences, mode, notice)?;
        Ok(Registration { wait: Some(wait), thunk: Arc::clone(thunk) })
    }

    /// Returns whether the wait's condition was satisfied.
    pub(crate) fn is_over(&self) -> bool {
        self.wait.as_ref().is_none_or(CpuWaitRegistration::is_over)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(wait) = self.wait.take() {
            self.thunk.cancel(wait);
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registration({})", if self.is_over() { "over" } else { "pending" })
    }
}
