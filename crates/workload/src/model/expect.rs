//! Expected results of a workload, and the metrics that it names. `toml_file` reads them; the
//! runner measures and compares.

use super::expression::{BufferRef, Expr, FenceRef, QueueRef};
use super::ids::Span;
use super::program::Args;
use tidegate_d3dukmdt::Submission;
use tidegate_programs::ProgramId;
use tidegate_trace::labelled;

/// An expectation and its place in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Expect {
    /// The expected result.
    pub what: Expectation,
    /// Explanation for the report; may be empty.
    pub says: String,
    /// Judged only under these submission models; all when empty. Metrics are shown under every
    /// model.
    pub under: Vec<Submission>,
    /// Judged only with this clock; with both when `None`.
    pub clock: Option<Clock>,
    /// Where it is written.
    pub span: Span,
}

/// The clock of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Real time.
    Wall,
    /// Virtual time from the cost model.
    Virtual,
}

/// The kinds of expectation.
#[derive(Debug, Clone, PartialEq)]
pub enum Expectation {
    /// A fence ends at this value.
    Fence {
        /// The fence.
        fence: FenceRef,
        /// Its last value.
        value: Expr,
    },
    /// An expression over fences holds at the end.
    Condition {
        /// Must not be 0.
        condition: Expr,
        /// As written, for the report.
        text: String,
    },
    /// Words of a buffer.
    Words {
        /// The buffer.
        buffer: BufferRef,
        /// First byte.
        offset: Expr,
        /// The expected content, in order.
        values: Vec<Expr>,
    },
    /// Floats of a buffer.
    Floats {
        /// The buffer.
        buffer: BufferRef,
        /// First byte.
        offset: Expr,
        /// The expected content, in order.
        values: Vec<f32>,
        /// Tolerance, as a share of the larger of 1 and the value.
        tolerance: f32,
    },
    /// A buffer equals the first or the last content of another buffer.
    SameAs {
        /// The buffer.
        buffer: BufferRef,
        /// First byte.
        offset: Expr,
        /// The other buffer.
        other: BufferRef,
        /// Compare with its last content instead of its first.
        now: bool,
        /// First byte in the other buffer.
        other_offset: Expr,
        /// Size in bytes.
        bytes: Expr,
    },
    /// A program's output equals the result of plain Rust on the first content of its input
    /// buffers.
    Check {
        /// The program.
        program: ProgramId,
        /// Its arguments, as in the dispatch.
        args: Args,
        /// Number of runs, one after the other.
        times: Expr,
        /// As in `Floats`.
        tolerance: f32,
    },
    /// A picture is not empty.
    Picture {
        /// The buffer, 4 bytes a pixel.
        buffer: BufferRef,
        /// Least number of different pixels.
        distinct: u32,
        /// Least share of pixels that differ from the most frequent one, in thousandths.
        covered_permille: u32,
    },
    /// A number of the run.
    Metric {
        /// The metric.
        metric: Metric,
        /// Its queues; none for numbers of the whole run.
        queues: Vec<QueueRef>,
        /// Lower bound.
        at_least: Option<Expr>,
        /// Upper bound.
        at_most: Option<Expr>,
    },
}

labelled! {
    /// Numbers of a run that a workload can name. Times are in nanoseconds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Metric {
        /// From the start to the end of the last work.
        MakespanNs = "makespan_ns",
        /// Time during which at least two of the named queues executed.
        OverlapNs = "overlap_ns",
        /// Median time from submission to start of the queue's submissions.
        QueueLatencyNs = "queue_latency_ns",
        /// Longest time from submission to start.
        QueueLatencyMaxNs = "queue_latency_max_ns",
        /// Time during which the queue executed.
        BusyNs = "busy_ns",
        /// Time during which the queue was blocked at waits.
        BlockedNs = "blocked_ns",
        /// End of the queue's last work.
        FinishNs = "finish_ns",
        /// Most submissions of the queue that were in flight at once.
        InFlightMax = "in_flight_max",
        /// Submissions of the queue.
        Packets = "packets",
        /// Preemptions of running work for another queue.
        Preemptions = "preemptions",
        /// Calls into the kernel.
        KernelCalls = "kernel_calls",
        /// Interrupts raised.
        Interrupts = "interrupts",
        /// Signals that needed no interrupt.
        InterruptsSuppressed = "interrupts_suppressed",
        /// Waits of CPU threads for fences.
        CpuWaits = "cpu_waits",
        /// Wakes of CPU threads.
        CpuWakes = "cpu_wakes",
        /// Waits on the GPU.
        GpuWaits = "gpu_waits",
        /// Signals by the GPU.
        GpuSignals = "gpu_signals",
        /// Pictures that the display has latched.
        FramesShown = "frames_shown",
        /// Vertical syncs that showed an older picture although a newer one was presented and its
        /// interval over.
        MissedVsyncs = "missed_vsyncs",
    }
}

impl Metric {
    /// The least number of queues of the metric.
    pub fn queues_needed(self) -> usize {
        match self {
            Self::OverlapNs => 2,
            Self::QueueLatencyNs
            | Self::QueueLatencyMaxNs
            | Self::BusyNs
            | Self::BlockedNs
            | Self::FinishNs
            | Self::InFlightMax
            | Self::Packets => 1,
            _ => 0,
        }
    }
}
