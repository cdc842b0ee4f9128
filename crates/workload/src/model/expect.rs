//! Expected results of a workload, and the metrics that it names. `toml_file` reads them; the runner
//! measures and compares.

use super::expression::{BufferRef, Expr, FenceRef, QueueRef};
use super::ids::Span;
use super::program::Args;
use tidegate_d3dukmdt::Submission;
use tidegate_programs::ProgramId;
use tidegate_trace::labelled;

/// One expectation and where it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Expect {
    /// What is expected.
    pub what: Expectation,
    /// What it means, for the report; may be empty.
    pub says: String,
    /// Judged only under these submission models; all when empty. Metrics are shown under every
    /// model.
    pub under: Vec<Submission>,
    /// Judged only with this clock; with both when `None`.
    pub clock: Option<Clock>,
    /// Where it is written.
    pub span: Span,
}

/// Which clock a run has.
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
        /// What is there, in order.
        values: Vec<Expr>,
    },
    /// Floats of a buffer.
    Floats {
        /// The buffer.
        buffer: BufferRef,
        /// First byte.
        offset: Expr,
        /// What is there, in order.
        values: Vec<f32>,
        /// How far off each may be, as a share of the larger of 1 and the value.
        tolerance: f32,
    },
    /// A buffer holds what another one held at the start, or holds now.
    SameAs {
        /// The buffer.
        buffer: BufferRef,
        /// First byte.
        offset: Expr,
        /// The other buffer.
        other: BufferRef,
        /// Its content at the end is meant, not its first one.
        now: bool,
        /// First byte there.
        other_offset: Expr,
        /// How many bytes.
        bytes: Expr,
    },
    /// A program's output equals what plain Rust computes from the first content of its input
    /// buffers.
    Check {
        /// The program.
        program: ProgramId,
        /// Its arguments, as in the dispatch.
        args: Args,
        /// How often it was run, one after the other.
        times: Expr,
        /// As in `Floats`.
        tolerance: f32,
    },
    /// A picture is not empty: at least so many different pixels.
    Picture {
        /// The buffer, 4 bytes a pixel.
        buffer: BufferRef,
        /// At least so many different values.
        distinct: u32,
        /// At least so many of a thousand pixels differ from the most frequent one.
        covered_permille: u32,
    },
    /// A number of the run.
    Metric {
        /// Which.
        metric: Metric,
        /// Of which queues; none for numbers of the whole run.
        queues: Vec<QueueRef>,
        /// Not less than this.
        at_least: Option<Expr>,
        /// Not more than this.
        at_most: Option<Expr>,
    },
}

labelled! {
    /// Numbers of a run that a workload can name. Times are in nanoseconds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Metric {
        /// From the start to the end of the last work.
        MakespanNs = "makespan_ns",
        /// How long at least two of the named queues were executing at once.
        OverlapNs = "overlap_ns",
        /// Median time from submission to start of the queue's submissions.
        QueueLatencyNs = "queue_latency_ns",
        /// Longest such time.
        QueueLatencyMaxNs = "queue_latency_max_ns",
        /// How long the queue was executing.
        BusyNs = "busy_ns",
        /// How long the queue was blocked on waits.
        BlockedNs = "blocked_ns",
        /// When the queue's last work ended.
        FinishNs = "finish_ns",
        /// Most submissions of the queue that were on their way at once.
        InFlightMax = "in_flight_max",
        /// Submissions of the queue.
        Packets = "packets",
        /// How often running work was interrupted for another queue.
        Preemptions = "preemptions",
        /// Calls into the kernel.
        KernelCalls = "kernel_calls",
        /// Interrupts raised.
        Interrupts = "interrupts",
        /// Signals that needed no interrupt.
        InterruptsSuppressed = "interrupts_suppressed",
        /// Times that a CPU thread waited for a fence.
        CpuWaits = "cpu_waits",
        /// Times that one was woken.
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
    /// How many queues it needs at least.
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
