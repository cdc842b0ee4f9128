//! The program that wrote a recording, and the facts that it does not record.
//!
//! Purpose: names of the formats, and the remarks of a reader about facts that its file lacks.
//! Entry points: [`Source`], [`Remark`].

use std::fmt;

/// The format that a recording was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// JSON of the PyTorch profiler.
    #[default]
    Kineto,
    /// SQLite export of Nsight Systems.
    Nsight,
    /// JSON of rocprofv3.
    RocprofJson,
    /// CSV of rocprofv3.
    RocprofCsv,
    /// The rocpd database of rocprofv3.
    Rocpd,
    /// The RPD database of rocmProfileData.
    Rpd,
    /// Perfetto packets of rocprofv3.
    RocprofPerfetto,
    /// Perfetto packets with GPU render stages.
    Perfetto,
    /// CSV of PresentMon.
    PresentMon,
    /// Profile of XLA, or the JSON made of it.
    Xla,
    /// Chrome JSON or Perfetto packets that tidegate wrote.
    Tidegate,
}

impl Source {
    /// The name for display.
    pub fn name(self) -> &'static str {
        match self {
            Source::Kineto => "PyTorch profiler JSON",
            Source::Nsight => "Nsight Systems SQLite export",
            Source::RocprofJson => "rocprofv3 JSON",
            Source::RocprofCsv => "rocprofv3 CSV",
            Source::Rocpd => "rocprofv3 database",
            Source::Rpd => "RPD database",
            Source::RocprofPerfetto => "rocprofv3 Perfetto trace",
            Source::Perfetto => "Perfetto trace with GPU render stages",
            Source::PresentMon => "PresentMon CSV",
            Source::Xla => "XLA profile",
            Source::Tidegate => "tidegate timeline",
        }
    }

    /// How to record GPU work with the program.
    pub fn how_to_record(self) -> &'static str {
        match self {
            Source::Kineto => "record with ProfilerActivity.CUDA and give that trace",
            Source::Nsight => "record with `nsys profile -t cuda` and export again",
            Source::RocprofJson | Source::RocprofCsv | Source::Rocpd | Source::RocprofPerfetto => {
                "record with `rocprofv3 --hip-trace --kernel-trace --memory-copy-trace --output-format json -- APP`"
            }
            Source::Rpd => "record with `runTracer.sh APP` of rocmProfileData",
            Source::Perfetto => {
                "record with a GPU render stage data source, such as gpu.renderstages"
            }
            Source::PresentMon => {
                "record with `PresentMon --output_file run.csv`, without --no_track_gpu"
            }
            Source::Xla => {
                "record on a GPU with `jax.profiler.trace(FOLDER)` and give the xplane.pb"
            }
            Source::Tidegate => {
                "write it with `tidegate run WORKLOAD --chrome FILE` or `--perfetto FILE`"
            }
        }
    }
}

/// Work of devices and tools that is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Foreign {
    /// Meta's MTIA accelerators.
    Mtia,
    /// Ascend accelerators, recorded by torch_npu.
    Npu,
    /// Gaudi accelerators.
    Hpu,
    /// Ranges of CUPTI's profiler, which are in place of kernels.
    Ranges,
}

impl Foreign {
    /// The name for display.
    pub fn name(self) -> &'static str {
        match self {
            Foreign::Mtia => "MTIA accelerators",
            Foreign::Npu => "Ascend accelerators (torch_npu)",
            Foreign::Hpu => "Gaudi accelerators",
            Foreign::Ranges => "ranges of CUPTI's profiler, which replace kernels",
        }
    }

    /// What can be recorded instead.
    pub fn instead(self) -> &'static str {
        match self {
            Foreign::Mtia | Foreign::Npu | Foreign::Hpu => {
                "only queues of GPUs are replayed: record the program on a GPU with ProfilerActivity.CUDA"
            }
            Foreign::Ranges => {
                "record without profiler_metrics in torch.profiler._ExperimentalConfig, so that kernels are there"
            }
        }
    }
}

/// A fact that a file lacks, or records that a reader left out.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Remark {
    /// Event records were called, but no row says on which stream.
    RecordsWithoutStream {
        /// Their number.
        calls: u64,
    },
    /// Synchronisation rows whose host call is not in the file.
    SyncsWithoutCall {
        /// Their number.
        rows: u64,
    },
    /// Synchronisation rows whose stream and event numbers contradict the name of their host call.
    SyncsContradicted {
        /// Their number.
        rows: u64,
    },
    /// Host calls that synchronise as a side effect; their time is kept, the order they impose is
    /// not.
    SyncsInsideOtherCalls {
        /// Their number.
        rows: u64,
    },
    /// Streams that wait implicitly for the default stream of their context.
    ImplicitOrder {
        /// Their number.
        streams: u64,
    },
    /// Graphs recorded as a whole: one piece of work each.
    WholeGraphs {
        /// Number of launches.
        launches: u64,
    },
    /// Rows or events without a usable start and end.
    Unusable {
        /// Their number.
        rows: u64,
    },
    /// No host calls are recorded.
    NoHostCalls,
    /// The arguments of host calls are not recorded, so streams and events of synchronisations are
    /// unknown.
    NoArguments,
    /// The stream of copies is not recorded; each direction of a device has a stream of its own.
    CopiesWithoutStream {
        /// Their number.
        copies: u64,
    },
    /// The recorder moved the ends of work that overlapped on one hardware queue.
    OverlapRemoved,
    /// The recorder lost packets.
    PacketsLost {
        /// Number of packets that refer to lost packets.
        packets: u64,
    },
    /// Work inside other work of its queue; only the outermost is replayed.
    NestedStages {
        /// Their number.
        stages: u64,
    },
    /// Work whose end its successors on the stream contradict; cut at the start of the next.
    OverrunsCut {
        /// Number of pieces of work.
        work: u64,
        /// Name of the first.
        first: String,
        /// Its recorded length in nanoseconds.
        length_ns: u64,
        /// Number of successors that began before its recorded end.
        over: u64,
    },
    /// Waits for an event or signal that is not in the file, or that no GPU work precedes.
    WaitsUnknown {
        /// Their number.
        waits: u64,
    },
    /// Waits of the host for single pieces of GPU work.
    HostWaitsForWork {
        /// Their number.
        waits: u64,
    },
    /// Frames that a driver or a library generated. No program worked on them.
    GeneratedFrames {
        /// Their number.
        frames: u64,
    },
    /// Swap chains whose presents only take time: a replay has one display.
    ChainsWithoutDisplay {
        /// Their number.
        chains: u64,
    },
    /// No frame was on the screen, so presents only take time.
    NothingShown,
    /// The frames on the screen do not show the refresh period.
    RefreshUnknown,
    /// Packets of Windows' graphics kernel, beside the work that they carried.
    PacketsBesideWork {
        /// Their number.
        packets: u64,
    },
    /// Work of devices and tools that is not read.
    Foreign {
        /// What it is.
        of: Foreign,
        /// Number of its events.
        events: u64,
    },
    /// Another file of the same run was read, too.
    AlsoRead {
        /// Its name.
        file: String,
    },
    /// A file with a matching name was left out, because it was recorded at another time.
    OtherRun {
        /// Its name.
        file: String,
    },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::RecordsWithoutStream { calls } => write!(
                f,
                "event records whose stream is not in the file: {calls} (record with --cuda-event-trace=true)"
            ),
            Remark::SyncsWithoutCall { rows } => {
                write!(f, "not replayed, host call not in the file: {rows} synchronisations")
            }
            Remark::SyncsContradicted { rows } => {
                write!(f, "not replayed, stream and event contradict the call's name: {rows} synchronisations")
            }
            Remark::SyncsInsideOtherCalls { rows } => {
                write!(f, "synchronisations inside other calls, kept as time of the host: {rows}")
            }
            Remark::ImplicitOrder { streams } => {
                write!(f, "not replayed, implicit order with the default stream: {streams} streams")
            }
            Remark::WholeGraphs { launches } => write!(
                f,
                "graph launches recorded as one piece of work: {launches} (record with --cuda-graph-trace=node)"
            ),
            Remark::Unusable { rows } => write!(f, "left out, no usable start and end: {rows} rows"),
            Remark::NoHostCalls => f.write_str("no host calls are recorded, so launch times are unknown"),
            Remark::NoArguments => {
                f.write_str("arguments of host calls are not recorded, so their streams and events are unknown")
            }
            Remark::CopiesWithoutStream { copies } => {
                write!(f, "copies whose stream is not recorded, given a stream per direction: {copies}")
            }
            Remark::OverlapRemoved => f.write_str(
                "the recorder moves the ends of work that overlaps on a hardware queue; JSON output keeps them",
            ),
            Remark::PacketsLost { packets } => {
                write!(f, "left out, they refer to packets that the recorder lost: {packets} packets")
            }
            Remark::NestedStages { stages } => {
                write!(f, "stages inside other stages of their queue, counted as part of them: {stages}")
            }
            Remark::OverrunsCut { work, first, length_ns, over } => {
                let ms = *length_ns as f64 / 1e6;
                write!(
                    f,
                    "cut at the start of the next work of their stream, which began inside: {work} pieces of work; the \
                     first is '{first}', {ms:.3} ms long over {over} successors"
                )
            }
            Remark::WaitsUnknown { waits } => {
                write!(f, "not replayed, awaited work not in the file: {waits} waits")
            }
            Remark::HostWaitsForWork { waits } => {
                write!(f, "not replayed, waits of the host for single pieces of work: {waits}")
            }
            Remark::GeneratedFrames { frames } => {
                write!(f, "left out, generated by a driver or library: {frames} frames")
            }
            Remark::ChainsWithoutDisplay { chains } => write!(
                f,
                "presents that only take time, because a replay has one display: those of {chains} swap chains"
            ),
            Remark::NothingShown => {
                f.write_str("no frame was on the screen, or that is not recorded, so presents only take time")
            }
            Remark::RefreshUnknown => {
                f.write_str("the frames on the screen do not show the refresh period: 60 Hz is taken")
            }
            Remark::PacketsBesideWork { packets } => {
                write!(f, "not read, packets of WDDM beside the work that they carried: {packets}")
            }
            Remark::Foreign { of, events } => {
                write!(f, "not read, work of {}: {events} events", of.name())
            }
            Remark::AlsoRead { file } => write!(f, "also read: {file}"),
            Remark::OtherRun { file } => write!(f, "not read, recorded at another time: {file}"),
        }
    }
}
