//! Requirements of a workload, and the counters of a machine that the runner reads.
//!
//! The owner of the machine implements [`MachineProbe`]. Counters are totals since the machine was
//! created; the runner takes differences.

use serde::Serialize;
use std::collections::BTreeMap;
use tidegate_d3d12::{DEFAULT_RING_SLOTS, FenceChoice, MAX_RING_SLOTS, ResidencyChoice};

use crate::recovery::{EngineRow, RecoveryRow};
use tidegate_calls::{DisplayStats, PendingWait};
use tidegate_platform::{QueueNumber, WorkStats};
use tidegate_workload::expect::{Expectation, Metric};
use tidegate_workload::model::{EngineKind, Queue, Submission, Workload};

/// Returns how many engines of each kind the queues of workloads name.
pub fn required_engines<'w>(
    workloads: impl IntoIterator<Item = &'w Workload>,
) -> BTreeMap<EngineKind, u32> {
    let mut counts = BTreeMap::new();
    for queue in workloads.into_iter().flat_map(|workload| &workload.queues) {
        let count = counts.entry(queue.engine).or_default();
        *count = queue.node.saturating_add(1).max(*count);
    }
    counts
}

/// The submission model of a queue: the run's, else the file's, else `user`.
pub fn submission_of(queue: &Queue, requested: Option<Submission>) -> Submission {
    requested.or(queue.submission).unwrap_or(Submission::User)
}

/// Monitored fences if every queue takes packets, else native fences where the adapter has them.
pub fn fence_choice(workload: &Workload, requested: Option<Submission>) -> FenceChoice {
    let packets = |queue: &Queue| submission_of(queue, requested) == Submission::Packet;
    match workload.queues.iter().all(packets) {
        true if !workload.queues.is_empty() || requested == Some(Submission::Packet) => {
            FenceChoice::Monitored
        }
        _ => FenceChoice::Auto,
    }
}

/// Automatic residency if the buffers nearly fill local memory, which also holds fences; else
/// explicit residency.
pub fn residency_choice(workload: &Workload, local_memory_bytes: u64) -> ResidencyChoice {
    let bytes = workload.buffers.iter().map(|buffer| buffer.bytes).fold(0, u64::saturating_add);
    match bytes > local_memory_bytes - local_memory_bytes / 16 {
        true => ResidencyChoice::Automatic,
        false => ResidencyChoice::Explicit,
    }
}

/// Slots for the ring of each user-mode queue: `RUN_AHEAD_HEADROOM` times the depth to which the
/// recorded host ran ahead, rounded up to a power of two, so that rings are full no more often than
/// in the recording. At least [`DEFAULT_RING_SLOTS`].
pub fn ring_slots(workload: &Workload) -> u64 {
    let deepest =
        workload.recorded.as_ref().map_or(0, |recorded| recorded.report.deepest_run_ahead);
    let slots = deepest.saturating_mul(RUN_AHEAD_HEADROOM).min(MAX_RING_SLOTS);
    slots.max(DEFAULT_RING_SLOTS).next_power_of_two()
}

/// Factor by which a replayed thread may run further ahead than the recorded one. A modelled
/// machine may be slower than the recorded one, while the host submits at the recorded pace.
const RUN_AHEAD_HEADROOM: u64 = 4;

/// Whether expectations of the workload need a timeline: starts of recorded work, and metrics of
/// queues.
pub fn wants_trace(workload: &Workload) -> bool {
    let of_a_queue = |metric: Metric| {
        matches!(
            metric,
            Metric::MakespanNs
                | Metric::OverlapNs
                | Metric::QueueLatencyNs
                | Metric::QueueLatencyMaxNs
                | Metric::FinishNs
                | Metric::InFlightMax
                | Metric::Preemptions
        )
    };
    let metric = |what: &Expectation| matches!(what, Expectation::Metric { metric, .. } if of_a_queue(*metric));
    workload.recorded.is_some() || workload.expects.iter().any(|expect| metric(&expect.what))
}

/// Counters of the hardware and the kernel for the whole machine; fields of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MachineCounters {
    /// Times the interrupt line went up.
    pub interrupts: u64,
    /// Signals that were compared with MonitoredValue and needed none.
    pub interrupts_suppressed: u64,
    /// Waits that were not satisfied when they headed their queue on an engine.
    pub gpu_waits_stalled: u64,
    /// Fence log entries overwritten before they were read.
    pub log_entries_lost: u64,
    /// Packets that VidSch handed to the driver, and command buffers to kernel-mode hardware
    /// queues.
    #[serde(rename = "kernel_packets")]
    pub packets: u64,
    /// Time in nanoseconds during which at least two engines were busy.
    pub overlap_ns: u64,
    /// Doorbells connected.
    pub doorbell_connects: u64,
    /// Doorbells that were victimised.
    pub doorbell_victims: u64,
    /// Allocations paged in to local memory.
    pub page_ins: u64,
    /// Allocations evicted to system memory.
    pub page_outs: u64,
    /// Bytes moved by both.
    pub bytes_paged: u64,
    /// Bytes of local memory; no difference is taken.
    pub local_memory_bytes: u64,
    /// Most bytes of local memory in use at once; no difference is taken.
    pub local_memory_peak_bytes: u64,
}

impl MachineCounters {
    /// The difference from `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        Self {
            interrupts: less(self.interrupts, earlier.interrupts),
            interrupts_suppressed: less(self.interrupts_suppressed, earlier.interrupts_suppressed),
            gpu_waits_stalled: less(self.gpu_waits_stalled, earlier.gpu_waits_stalled),
            log_entries_lost: less(self.log_entries_lost, earlier.log_entries_lost),
            packets: less(self.packets, earlier.packets),
            overlap_ns: less(self.overlap_ns, earlier.overlap_ns),
            doorbell_connects: less(self.doorbell_connects, earlier.doorbell_connects),
            doorbell_victims: less(self.doorbell_victims, earlier.doorbell_victims),
            page_ins: less(self.page_ins, earlier.page_ins),
            page_outs: less(self.page_outs, earlier.page_outs),
            bytes_paged: less(self.bytes_paged, earlier.bytes_paged),
            ..*self
        }
    }
}

/// Counters and state of the machine. Read before, during and after a run, by one agent at a time.
pub trait MachineProbe: Send + Sync {
    /// Whether the counters of the machine can be read. Otherwise all totals are 0, and metrics of
    /// the machine are not measured.
    fn has_counters(&self) -> bool {
        true
    }
    /// Totals since the machine was created.
    fn counters(&self) -> MachineCounters;
    /// Totals of the queues, in their order; each queue is a list of its numbers.
    fn queues(&self, queues: &[Vec<QueueNumber>]) -> Vec<WorkStats>;
    /// Totals of the display; 0 without one.
    fn display(&self) -> DisplayStats {
        DisplayStats::default()
    }
    /// Waits at which queues are parked, in the kernel and on engines.
    fn pending_waits(&self) -> Vec<PendingWait>;
    /// Preemptions of each engine since the machine was created.
    fn engines(&self) -> Vec<EngineRow>;
    /// The recoveries since the machine was created, oldest first, with times on the machine's
    /// clock. `name` gives the name of a queue.
    fn recoveries(&self, name: &dyn Fn(QueueNumber) -> String) -> Vec<RecoveryRow>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_workload::{LoadOptions, load_bytes};

    fn workload(text: &str) -> Workload {
        let text = format!("{text}[[thread]]\nname = \"t\"\nprogram = [{{ sleep_ns = 1 }}]\n");
        load_bytes(text.as_bytes(), "w.toml", &LoadOptions::default()).unwrap().0
    }

    #[test]
    fn engines_are_counted_by_kind() {
        let w = workload(
            "[[queue]]\nname = \"a\"\nengine = \"copy\"\nnode = 2\n[[queue]]\nname = \"b\"\nengine = \"3d\"\n",
        );
        let counts = [(EngineKind::ThreeD, 1), (EngineKind::Copy, 3)].into();
        assert_eq!(required_engines([&w]), counts);
    }

    #[test]
    fn fences_are_monitored_only_where_all_queues_get_packets() {
        let text = "[[queue]]\nname = \"a\"\nengine = \"copy\"\nsubmission = \"packet\"\n";
        let (one, two) = (
            workload(text),
            workload(&format!("{text}[[queue]]\nname = \"b\"\nengine = \"3d\"\n")),
        );
        assert_eq!(fence_choice(&one, None), FenceChoice::Monitored);
        assert_eq!(fence_choice(&two, None), FenceChoice::Auto);
        assert_eq!(fence_choice(&two, Some(Submission::Packet)), FenceChoice::Monitored);
        assert_eq!(fence_choice(&one, Some(Submission::User)), FenceChoice::Auto);
        assert_eq!(submission_of(&two.queues[1], None), Submission::User);
    }

    #[test]
    fn residency_is_automatic_where_buffers_fill_local_memory() {
        let text = "[[buffer]]\nname = \"b\"\nbytes = 4096\n";
        let w = workload(text);
        assert_eq!(residency_choice(&w, 1 << 20), ResidencyChoice::Explicit);
        assert_eq!(residency_choice(&w, 4096), ResidencyChoice::Automatic);
        assert_eq!(residency_choice(&w, 0), ResidencyChoice::Automatic);
    }

    #[test]
    fn counters_are_differences() {
        let earlier =
            MachineCounters { interrupts: 3, overlap_ns: 10, ..MachineCounters::default() };
        let now = MachineCounters {
            interrupts: 5,
            overlap_ns: 25,
            packets: 1,
            ..MachineCounters::default()
        };
        let since = now.since(&earlier);
        assert_eq!((since.interrupts, since.overlap_ns, since.packets), (2, 15, 1));
    }
}
