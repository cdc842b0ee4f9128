//! The thread that watches the doorbells of this process, and its setting.
//!
//! Entry point: [`Rings::watch`].

use std::io::Write;
use std::sync::OnceLock;
use tidegate_calls::Status;
use tidegate_d3dukmdt::ring_watch::{LookTimes, RingWatch};
use tidegate_platform::{Platform, once};

/// Names the time between two looks at an idle doorbell, in microseconds. Without it the system's
/// traps on stores are used if it has them.
const INTERVAL: &str = "TIDEGATE_DOORBELL_INTERVAL_US";

/// The least interval: the thread sleeps between two looks.
const LEAST_NS: u64 = 1_000;

/// The watch, whose thread starts with the first connected doorbell.
pub(crate) struct Rings {
    watch: RingWatch,
    started: OnceLock<Result<(), Status>>,
}

impl Rings {
    /// Opens the system's traps. Their descriptors are open as long as the library is loaded.
    pub(crate) fn new(platform: &Platform) -> Rings {
        let watch = match interval_us() {
            Some(us) => {
                let idle_ns = us.saturating_mul(1_000).max(LEAST_NS);
                let default = LookTimes::default();
                let busy_ns = default.busy_ns.min(idle_ns);
                let times = LookTimes { idle_ns, busy_ns, ..default };
                RingWatch::without_traps(platform, times)
            }
            None => RingWatch::of_system(platform, LookTimes::default()),
        };
        Rings { watch, started: OnceLock::new() }
    }

    /// Returns the watch, whose thread runs.
    ///
    /// # Errors
    /// NO_MEMORY if the system has no thread left.
    pub(crate) fn watch(&self, platform: &Platform) -> Result<&RingWatch, Status> {
        let start = || {
            let thread = self.watch.clone();
            let started = platform.spawn_outside("watched doorbells", move || thread.run());
            started.map_err(|_| Status::NO_MEMORY)
        };
        once::make_alone(&self.started, start).map(|()| &self.watch)
    }
}

fn interval_us() -> Option<u64> {
    let text = std::env::var_os(INTERVAL).filter(|text| !text.is_empty())?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    if number.is_none() {
        let text = text.display();
        let _ = writeln!(
            std::io::stderr(),
            "tidegate: {INTERVAL}: '{text}' is no number of microseconds; traps on stores are used"
        );
    }
    number
}
