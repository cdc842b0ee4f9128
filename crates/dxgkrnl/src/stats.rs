//! Owns the counters of the kernel, and the last fence rewinds that nobody announced: what a report shows and a test asserts.
//! Counting takes part in nothing.

use crate::adapter::Adapter;
use std::collections::VecDeque;
use tidegate_platform::{Mutex, Page, Platform};

/// Rewinds that are kept for a report; older ones are only counted.
const REWINDS_KEPT: usize = 64;

/// A signal below its fence's value that did not announce it (AllowFenceRewind).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceRewind {
    /// The fence's name.
    pub fence: String,
    /// What the fence was at.
    pub from: u64,
    /// What it was signalled to.
    pub to: u64,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Counts since the adapter started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct KernelStats { $($(#[$doc])* pub $name: u64),+ }

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        pub(crate) enum Count { $($name),+ }

        const COUNTS: usize = [$(stringify!($name)),+].len();

        impl Stats {
            /// All counters now.
            pub(crate) fn read(&self) -> KernelStats {
                KernelStats { $($name: self.get(Count::$name)),+ }
            }
        }
    };
}

counters! {
    /// Signals of cross-adapter fences that were passed on to another adapter.
    relays,
    /// Interrupt routine runs.
    interrupts,
    /// Deferred routine runs.
    dpcs,
    /// CPU waits that had to wait.
    cpu_waits,
    /// CPU waiters released (blocking calls and events).
    cpu_wakes,
    /// CPU signals.
    cpu_signals,
    /// Waits queued on contexts and kernel-mode hardware queues.
    queued_waits,
    /// Signals made by VidSch for contexts and kernel-mode hardware queues.
    queued_signals,
    /// CPU events set by VidSch for contexts (EnqueueCpuEvent).
    queued_events,
    /// Signals below their fence's value that did not announce it: see [`Adapter::fence_rewinds`].
    fence_rewinds,
    /// Packets given to the driver by VidSch.
    packets,
    /// Command buffers given to kernel-mode hardware queues.
    hw_queue_commands,
    /// UpdateMonitoredValues calls.
    monitored_updates,
    /// Fence values read because an interrupt might have meant them.
    fence_reads,
    /// Signalled interrupts (types 11 and 19) that were served: one routine may report several, or none.
    fence_interrupts,
    /// Those of them that released nobody. They are allowed: the waiter was found by another look, or there was none.
    spurious_fence_interrupts,
    /// Peaks of fence values that histories had no room for, of fences that have ended: each may have lost a waiter.
    fence_history_lost,
    /// Fence log entries that were overwritten before they were read.
    log_entries_lost,
    /// Times in fence logs that are less than the one before.
    log_time_faults,
    /// Doorbell connects.
    doorbell_connects,
    /// Doorbells taken away by the driver.
    doorbell_victims,
    /// Suspensions asked of the driver.
    suspensions,
    /// Acknowledgements of suspensions that came when their request was over.
    stale_suspend_acknowledgements,
    /// Engines that lost their power.
    engines_in_f1,
    /// Times that the adapter lost its power.
    sleeps_in_d3,
    /// Times that it got it back.
    wakes_from_d3,
    /// Times that power was to be taken and there was work, or a call.
    power_downs_given_up,
    /// Devices put into error.
    devices_lost,
}

/// Plain words outside exploration: a counter is no step of any protocol.
pub(crate) struct Stats {
    counts: Page,
    rewinds: Mutex<VecDeque<FenceRewind>>,
    on: bool,
}

impl Stats {
    pub(crate) fn new(platform: &Platform) -> Stats {
        let on = platform.kind() != tidegate_platform::PlatformKind::Explored;
        let rewinds = platform.mutex("fence rewinds", VecDeque::new());
        Stats { counts: platform.page(COUNTS), rewinds, on }
    }

    /// Whether anything is counted.
    pub(crate) fn on(&self) -> bool {
        self.on
    }

    /// Counts a rewind that nobody announced, and keeps it for a report.
    pub(crate) fn note_rewind(&self, fence: &str, from: u64, to: u64) {
        self.add(Count::fence_rewinds, 1);
        let rewind = FenceRewind { fence: fence.to_owned(), from, to };
        let mut kept = self.rewinds.lock();
        if kept.len() == REWINDS_KEPT {
            kept.pop_front();
        }
        kept.push_back(rewind);
    }

    pub(crate) fn add(&self, count: Count, by: u64) {
        if self.on {
            self.counts.word(count as usize).fetch_add(by);
        }
    }

    fn get(&self, count: Count) -> u64 {
        self.counts.word(count as usize).load()
    }
}

impl Adapter {
    /// The last 64 signals below their fence's value that did not announce it, oldest first.
    pub fn fence_rewinds(&self) -> Vec<FenceRewind> {
        self.stats.rewinds.lock().iter().cloned().collect()
    }
}
