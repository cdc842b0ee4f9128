//! The progress bar: on standard error, on a terminal only, and only for runs longer than two
//! seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::platform::CpuTime;

/// Runs shorter than this show no bar.
const PATIENCE_NS: u64 = 2_000_000_000;

/// What a run calls with (operations done, operations in all).
pub(crate) type Callback = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// A bar for one run, or nothing when it would be in the way.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar called `what`.
    pub(crate) fn new(what: &str, quiet: bool) -> Progress {
        if quiet || !std::io::stderr().is_terminal() {
            return Progress { bar: None };
        }
        let style =
            ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} operations, {elapsed}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar =
            ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden()).with_style(style);
        Progress { bar: Some(bar.with_prefix(what.to_owned())) }
    }

    /// The callback for the run; frequent calls are cheap.
    pub(crate) fn callback(&self) -> Option<Callback> {
        let bar = self.bar.clone()?;
        let clock = Platform::host();
        Some(Arc::new(move |done, total| {
            if bar.is_hidden() && clock.now() > CpuTime(PATIENCE_NS) {
                bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(8));
            }
            bar.set_length(total);
            bar.set_position(done);
        }))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
