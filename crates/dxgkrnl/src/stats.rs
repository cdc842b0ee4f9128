//! Counters of the kernel, the last unannounced fence rewinds, and the signals that were lost with
//! a process: what a report shows and a test asserts. Counting is not a step of a protocol.

use std::collections::VecDeque;
use std::fmt;
use tidegate_ddi::OsHandle;
use tidegate_platform::{Counters, Mutex, Platform};

/// Rewinds that are kept for a report; older ones are only counted.
const REWINDS_KEPT: usize = 64;
/// Fences that lost a process which could signal them, kept for a report; older ones are dropped.
const LOST_SIGNALS_KEPT: usize = 64;

/// Fences whose histories dropped values, kept for a report; older ones are only counted.
const LOST_HISTORIES_KEPT: usize = 64;

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

/// A shared fence that lost a process which could signal it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostSignal {
    /// The process that was ended.
    pub process: String,
    /// The fence's name.
    pub fence: String,
    /// The largest value whose signal the process had queued with the kernel; `None` when there was
    /// none. The rings of its user-mode queues are not included.
    pub queued: Option<u64>,
}

impl fmt::Display for LostSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process '{}', which could signal it, was ended", self.process)?;
        match self.queued {
            Some(value) => write!(f, " with a signal of {value} queued, which never comes"),
            None => write!(f, ", and what it had queued never comes"),
        }
    }
}

/// A fence whose history had no room for all values that it had before it fell. A wait that was
/// made before may have missed one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostHistory {
    /// The fence's name.
    pub fence: String,
    /// The number of dropped values.
    pub values: u64,
}

impl fmt::Display for LostHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values;
        write!(f, "its history dropped {values} values, and a wait made before may have missed one")
    }
}

/// How many kernel objects of all processes of an adapter there are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Devices.
    pub devices: usize,
    /// Contexts for packets.
    pub contexts: usize,
    /// Those of the devices that belong to the kernel. The memory manager makes its device, with a
    /// context, on first use.
    pub kernel_devices: usize,
    /// Those of the contexts that belong to the kernel.
    pub kernel_contexts: usize,
    /// Hardware contexts.
    pub hw_contexts: usize,
    /// Hardware queues.
    pub hw_queues: usize,
    /// Doorbells.
    pub doorbells: usize,
    /// Fences.
    pub fences: usize,
    /// Waits that are registered with fences: of CPUs, of queues in VidSch and of the kernel.
    pub fence_waits: usize,
    /// Context allocations, including the memory manager's.
    pub context_allocations: usize,
    /// Context allocations in local memory.
    pub local_context_allocations: usize,
    /// Regions of system memory: allocations, page tables, pages of fences, logs, and what driver
    /// and kernel have for themselves.
    pub memory_regions: usize,
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
    /// Signals below their fence's value that did not announce it: see `Adapter::fence_rewinds`.
    fence_rewinds,
    /// Packets given to the driver by VidSch.
    packets,
    /// Parts of buffers with physical addresses, the first one of each left out.
    split_parts,
    /// Requests for the packets of an engine.
    preemptions,
    /// Packets that came back with the answers to them.
    packets_preempted,
    /// Answers to preemption requests that were withdrawn before.
    stale_preemptions,
    /// Completions that no interrupt reported, and that were found when their packets had run for
    /// the timeout delay.
    lost_completions,
    /// Fences whose waiters were satisfied and that no interrupt named: the periodic check released
    /// them.
    missed_interrupts,
    /// Times that the kernel took interrupt reports for which no DPC was queued, or which the DPC
    /// had left.
    missed_dpcs,
    /// Command buffers given to kernel-mode hardware queues.
    hw_queue_commands,
    /// UpdateMonitoredValues calls.
    monitored_updates,
    /// Fence values read because an interrupt might have meant them.
    fence_reads,
    /// Objects of processes that were walked to find the monitored fences for a basic scan.
    objects_walked,
    /// Doorbells that were taken out of the adapter's table to find the doorbells of a queue, an
    /// engine, or all.
    doorbells_walked,
    /// Hardware queues that were taken out of the adapter's table to find the queues of a kind.
    queues_walked,
    /// Signalled interrupts (types 11 and 19) that were served: one routine may report several, or
    /// none.
    fence_interrupts,
    /// Fence interrupts that released no waiter. They are allowed: another check had released the
    /// waiter, or there was none.
    spurious_fence_interrupts,
    /// Peaks of fence values that histories had no room for: each may have lost a waiter. See
    /// `Adapter::lost_histories`.
    fence_history_lost,
    /// Fence log entries that were overwritten before they were read.
    log_entries_lost,
    /// Times in fence logs that are less than the one before.
    log_time_faults,
    /// Doorbell connects.
    doorbell_connects,
    /// Doorbells victimised by the driver.
    doorbell_victims,
    /// Suspensions asked of the driver.
    suspensions,
    /// Acknowledgements of suspensions that came when their request was over.
    stale_suspend_acknowledgements,
    /// Allocations brought in to local memory.
    allocations_paged_in,
    /// Allocations sent out to system memory.
    allocations_paged_out,
    /// Bytes that went either way.
    bytes_paged,
    /// Engines that lost their power.
    engines_in_f1,
    /// Times that the adapter lost its power.
    sleeps_in_d3,
    /// Times that the adapter regained power.
    wakes_from_d3,
    /// Power-downs aborted because of work or a call.
    power_downs_given_up,
    /// Engines that were to be reset.
    engine_timeouts,
    /// Resets of the adapter.
    adapter_resets,
    /// Devices put into error.
    devices_lost,
    /// Processes that ended normally, with their work complete.
    processes_closed,
    /// Processes that were ended with whatever they had queued.
    processes_terminated,
}

/// Counts of one adapter, and what its reports name.
pub(crate) struct Stats {
    counts: Counters,
    rewinds: Mutex<VecDeque<FenceRewind>>,
    lost_signals: Mutex<VecDeque<(OsHandle, LostSignal)>>,
    lost_histories: Mutex<VecDeque<(OsHandle, LostHistory)>>,
}

impl Stats {
    pub(crate) fn new(platform: &Platform) -> Stats {
        let rewinds = platform.mutex("fence rewinds", VecDeque::new());
        let lost_signals = platform.mutex("lost signals", VecDeque::new());
        let lost_histories = platform.mutex("lost histories", VecDeque::new());
        Stats { counts: Counters::new(platform, COUNTS), rewinds, lost_signals, lost_histories }
    }

    /// Counts an unannounced rewind, and keeps it for a report.
    pub(crate) fn note_rewind(&self, fence: &str, from: u64, to: u64) {
        self.add(Count::fence_rewinds, 1);
        let rewind = FenceRewind { fence: fence.to_owned(), from, to };
        let mut kept = self.rewinds.lock();
        if kept.len() == REWINDS_KEPT {
            kept.pop_front();
        }
        kept.push_back(rewind);
    }

    /// Records, for reports, the end of a process that could signal a fence.
    pub(crate) fn note_lost_signal(&self, fence: OsHandle, lost: LostSignal) {
        let mut kept = self.lost_signals.lock();
        if kept.len() == LOST_SIGNALS_KEPT {
            kept.pop_front();
        }
        kept.push_back((fence, lost));
    }

    /// The last process that this fence lost.
    pub(crate) fn lost_signal_of(&self, fence: OsHandle) -> Option<LostSignal> {
        let kept = self.lost_signals.lock();
        kept.iter().rev().find(|(of, _)| *of == fence).map(|(_, lost)| lost.clone())
    }

    /// Records, for reports, a fence whose history dropped values.
    pub(crate) fn note_lost_history(&self, fence: OsHandle, lost: LostHistory) {
        let mut kept = self.lost_histories.lock();
        kept.retain(|(of, _)| *of != fence);
        if kept.len() == LOST_HISTORIES_KEPT {
            kept.pop_front();
        }
        kept.push_back((fence, lost));
    }

    /// What the history of this fence dropped.
    pub(crate) fn lost_history_of(&self, fence: OsHandle) -> Option<LostHistory> {
        let kept = self.lost_histories.lock();
        kept.iter().find(|(of, _)| *of == fence).map(|(_, lost)| lost.clone())
    }

    /// The last fences whose histories dropped values, oldest first.
    pub(crate) fn lost_histories(&self) -> Vec<LostHistory> {
        self.lost_histories.lock().iter().map(|(_, lost)| lost.clone()).collect()
    }

    pub(crate) fn add(&self, count: Count, by: u64) {
        self.counts.add(count as usize, by);
    }

    /// The last rewinds that were not announced, oldest first.
    pub(crate) fn fence_rewinds(&self) -> Vec<FenceRewind> {
        self.rewinds.lock().iter().cloned().collect()
    }

    /// The last shared fences that lost a process which could signal them, oldest first.
    pub(crate) fn lost_signals(&self) -> Vec<LostSignal> {
        self.lost_signals.lock().iter().map(|(_, lost)| lost.clone()).collect()
    }

    /// Returns one counter.
    pub(crate) fn get(&self, count: Count) -> u64 {
        self.counts.get(count as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_name_what_was_lost_and_its_number() {
        let lost = LostHistory { fence: "f".to_owned(), values: 7 };
        assert_eq!(
            lost.to_string(),
            "its history dropped 7 values, and a wait made before may have missed one"
        );
        let of = |queued| LostSignal { process: "p".to_owned(), fence: "f".to_owned(), queued };
        let ended = "process 'p', which could signal it, was ended";
        assert_eq!(
            [of(Some(9)).to_string(), of(None).to_string()],
            [
                format!("{ended} with a signal of 9 queued, which never comes"),
                format!("{ended}, and what it had queued never comes"),
            ]
        );
    }
}
