//! Arguments of every command, and their help.

use crate::BadInput;
use crate::preemption::{Preempting, Time, time};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use tidegate::d3d12::{MAX_RING_SLOTS, MIN_RING_SLOTS};
use tidegate::kmd::DoorbellModel;
use tidegate::service::server;
use tidegate::variants::{self, UnknownVariant, Variant};
use tidegate::workload::model::Submission;
use tidegate::workload::what_if::WhatIf;
use tidegate_conform::{Clause, Family, UnknownSituation};
use tidegate_swarm::hunt::Ground;

/// GPU synchronisation and submission, in user space: run multi-engine workloads under three
/// submission models, see every wait and signal, explore how they interleave.
#[derive(Parser)]
#[command(
    name = "tidegate",
    version,
    max_term_width = 100,
    after_help = "\
Exit codes: 0 ran and right, 1 ran and wrong, 2 bad input or output that cannot be written, 141 closed pipe.

Examples:
  tidegate compare                                  the ring buffer under the three models
  tidegate run workloads/ring-buffer.toml --timeline ring.html
  tidegate compare trace.json.gz                    a PyTorch profiler trace under the three models
  tidegate compare --adapter monitored              the same on a GPU without native fences
  tidegate explore --list                           the scenarios, with their planted bugs"
)]
pub(crate) struct Tidegate {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a workload: a TOML file, or a trace (PyTorch, JAX, Nsight Systems, rocprofv3, RPD,
    /// Perfetto, PresentMon)
    Run(Run),
    /// Host adapters for other processes, on a Unix socket
    Serve(Serve),
    /// View a running service: processes, queues, fences, waiters, doorbells, engines, recoveries
    Top(Top),
    /// Write the timeline of a running service
    Record(Record),
    /// Run a workload under the three submission models, side by side
    Compare(Compare),
    /// Compare two traces, or two workloads, by kernel name
    Diff(Diff),
    /// Explore the interleavings of scenarios of the real code
    Explore(Explore),
    /// Run random programs on the whole machine, and shrink those that fail
    Swarm(Swarm),
    /// Check a kernel-mode driver against the contract of the driver interface
    Conform(Conform),
    /// Replay a line that `explore` or `swarm` printed
    Replay(Replay),
    /// List the named adapters for `run` and `compare`, with their capabilities
    Adapters(Adapters),
    /// Measure, each row beside its physical floor
    Bench(Bench),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the man page, or write the pages of all commands into a folder
    Man(Man),
}

/// Clock of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clock {
    /// Threads and real time.
    Wall,
    /// One thread and modelled time.
    Virtual,
}

/// Doorbell model of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DoorbellKind {
    /// One for each connected queue.
    Dedicated,
    /// One location that all queues share.
    Global,
}

/// Treatment of unexplained idle time in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Gaps {
    /// Reproduce it.
    #[default]
    Keep,
    /// Leave it out.
    Drop,
}

/// What carries out waits and signals of native fences on hardware queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum HardwareFences {
    /// The engine, as commands of command buffers: no kernel call for a wait, no interrupt for a
    /// signal without a waiter.
    #[default]
    Engine,
    /// The scheduler: a kernel call each.
    Scheduler,
}

impl From<HardwareFences> for tidegate::d3d12::HardwareFences {
    fn from(chosen: HardwareFences) -> Self {
        match chosen {
            HardwareFences::Engine => Self::Engine,
            HardwareFences::Scheduler => Self::Scheduler,
        }
    }
}

/// Options of reading a workload.
#[derive(Args, Clone, Default)]
pub(crate) struct Reading {
    /// Clock: wall runs on threads, virtual models time (default: virtual for compare and for
    /// traces, else wall)
    #[arg(long, value_enum)]
    pub(crate) clock: Option<Clock>,
    /// Traces: idle time that no recorded dependency explains
    #[arg(long, value_enum, default_value = "keep")]
    pub(crate) gaps: Gaps,
    /// Recordings: the submission model under which the program ran: packet, hardware or user
    /// (default: user, as runtimes on Linux submit; hardware for a program that presents)
    #[arg(long, value_name = "MODEL", value_parser = submission)]
    pub(crate) recorded_as: Option<Submission>,
    /// Workloads: a value for a constant of [let]; can be repeated
    #[arg(long = "let", value_name = "NAME=VALUE", value_parser = constant)]
    pub(crate) constants: Vec<(String, i128)>,
    /// Local memory of the GPU in bytes, or with a suffix K, M or G; buffers that do not fit are
    /// paged
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) local_memory: Option<Bytes>,
    /// Physical doorbells of the GPU; if user-mode queues outnumber them, the least recently rung
    /// one is victimised (default: the adapter's, mostly 64)
    #[arg(long, value_name = "N")]
    pub(crate) doorbells: Option<u32>,
    /// Slots in the ring of each user-mode queue, a power of two from 8 to 1048576; work for a full
    /// ring is submitted as it drains (default: 1024; for traces 4 times the depth to which the
    /// recorded host ran ahead, rounded up to a power of two)
    #[arg(long, value_name = "N", value_parser = ring_slots)]
    pub(crate) ring_slots: Option<u64>,
    /// Hardware queues: what carries out waits and signals of native fences
    #[arg(long, value_enum, value_name = "WHAT", default_value = "engine")]
    pub(crate) hardware_fences: HardwareFences,
    /// Doorbells of the GPU: dedicated (one for each connected queue) or global (one location that
    /// all queues share)
    #[arg(long, value_enum, value_name = "MODEL")]
    pub(crate) doorbell_model: Option<DoorbellKind>,
    /// One of the named adapters; `tidegate adapters` lists them (default: standard)
    #[arg(long, value_name = "NAME", value_parser = adapter)]
    pub(crate) adapter: Option<Adapter>,
    /// Time after the start at which the system sleeps and resumes: the device goes to D3, and back
    /// to D0, unless a call of the driver is under way; with a unit, as 300us. Can be given several
    /// times
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) sleep_at: Vec<Time>,
    #[command(flatten)]
    pub(crate) preempting: Preempting,
    /// Check that waits and signals order all conflicting accesses of queues, threads and display,
    /// and that a signal ends each wait; a pair without a path and a wait without a signal are
    /// problems of the run, which the timeline shows with the edge that is missing
    #[arg(long)]
    pub(crate) validate: bool,
    /// No progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Reading {
    /// The submission model of a recording. Programs that present submit through the kernel.
    pub(crate) fn recorded_as(&self, presents: bool) -> Submission {
        let usual = if presents { Submission::Hardware } else { Submission::User };
        self.recorded_as.unwrap_or(usual)
    }

    /// Doorbell model for runs under `submissions`; `None` for the adapter's. The error names
    /// a flag without effect, and the reason.
    pub(crate) fn doorbells(
        &self,
        submissions: &[Submission],
    ) -> Result<Option<DoorbellModel>, String> {
        let flag = match (self.doorbells, self.doorbell_model) {
            (None, None) => return Ok(None),
            (Some(number), Some(DoorbellKind::Global)) => {
                return Err(format!(
                    "--doorbells {number} with --doorbell-model global: a global doorbell is one location for all \
                     queues and has no number; leave --doorbells out, or use --doorbell-model dedicated"
                ));
            }
            (Some(0), _) => {
                return Err("--doorbells 0: a queue needs one; give 1 or more".to_owned());
            }
            (Some(_), _) => "--doorbells",
            (None, Some(_)) => "--doorbell-model",
        };
        if let Some(named) = self.adapter
            && !named.0.submissions().contains(&Submission::User)
        {
            return Err(format!(
                "{flag} with --adapter {}: this adapter has no user-mode submission and no doorbells; leave {flag} out",
                named.0.name
            ));
        }
        if !submissions.contains(&Submission::User) {
            return Err(format!(
                "{flag}: no queue of this run submits from user mode, and no other rings a doorbell; leave {flag} out, or \
                 say --submission user"
            ));
        }
        Ok(Some(match (self.doorbell_model, self.doorbells) {
            (Some(DoorbellKind::Global), _) => DoorbellModel::Global,
            (_, number) => {
                DoorbellModel::Dedicated { physical: number.unwrap_or(STANDARD_DOORBELLS) }
            }
        }))
    }
}

/// Reads `frames=240`.
fn constant(text: &str) -> Result<(String, i128), String> {
    let wrong = || format!("'{text}' is not NAME=VALUE with a whole number, as frames=240");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let value = value.replace('_', "").parse().map_err(|_| wrong())?;
    Ok((name.to_owned(), value))
}

/// Physical doorbells of a dedicated model without a number.
const STANDARD_DOORBELLS: u32 = 64;

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate run workloads/ring-buffer.toml --timeline ring.html
  tidegate run trace.json.gz --submission packet --json -

Takes well under a second for the workloads here, and about a second for a trace of 100,000 events.")]
pub(crate) struct Run {
    /// The workload: a TOML file, or a trace; - is standard input; docs/traces.md lists the formats
    pub(crate) workload: PathBuf,
    /// Submission model of all queues: packet, hardware or user (default: the workload's,
    /// else user)
    #[arg(long, value_name = "MODEL", value_parser = submission)]
    pub(crate) submission: Option<Submission>,
    /// Run this workload at the same time on the same machine, in a process of its own; it has its
    /// own report, and hangs are injected into the first one
    #[arg(long, value_name = "WORKLOAD")]
    pub(crate) beside: Option<PathBuf>,
    /// Run as a client of the service that listens at this socket (`tidegate serve`), in real time;
    /// in a guest the folder of the device, as /sys/bus/pci/devices/0000:00:03.0; the machine is
    /// the service's, so flags that change one, and timelines, are refused
    #[arg(
        long,
        value_name = "SOCKET",
        conflicts_with_all = [
            "beside", "frames", "timeline", "perfetto", "chrome", "kernels", "summary", "clock", "adapter",
            "local_memory", "doorbells", "doorbell_model", "sleep_at", "preemption", "tdr_delay", "inject",
            "validate", "driver", "device", "verify_driver",
        ]
    )]
    pub(crate) connect: Option<PathBuf>,
    /// Run on this kernel-mode driver in C, a shared library (include/wddm/README.md); the
    /// submission model is packet unless --submission says another
    #[arg(long, value_name = "DRIVER.so")]
    pub(crate) driver: Option<PathBuf>,
    /// The device that the driver drives, a shared library (include/wddm/tidegate_device.h); it is
    /// the software GPU without the flag, whose counters of engines stay 0 with it
    #[arg(long, value_name = "MODEL.so")]
    pub(crate) device: Option<PathBuf>,
    /// Judge the driver by the clauses of `tidegate conform` while the workload runs; broken
    /// clauses are problems of the run
    #[arg(long)]
    pub(crate) verify_driver: bool,
    /// Connect as a client that is older than user-mode submission: the service shows it no node
    /// that offers user-mode queues, and refuses them and their doorbells
    #[arg(long, requires = "connect")]
    pub(crate) kernel_queues_only: bool,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Write every picture that a presenting workload shows into this folder, as frame-0001.png and
    /// so on
    #[arg(long, value_name = "DIR")]
    pub(crate) frames: Option<PathBuf>,
    /// Write a timeline as one HTML page
    #[arg(long, value_name = "F.html")]
    pub(crate) timeline: Option<PathBuf>,
    /// Write the timeline as a Perfetto trace
    #[arg(long, value_name = "F")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Write the timeline as Chrome trace events
    #[arg(long, value_name = "F.json")]
    pub(crate) chrome: Option<PathBuf>,
    /// Write a row for each kernel and copy: CSV, or Parquet for a name in .parquet
    /// (docs/tables.md)
    #[arg(long, value_name = "F")]
    pub(crate) kernels: Option<PathBuf>,
    /// Print count, total, mean, shortest, longest and share of kernels by name
    #[arg(long)]
    pub(crate) summary: bool,
    /// Write the report as JSON (- for standard output)
    #[arg(long, value_name = "F|-")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate serve --socket /tmp/tidegate.sock
  tidegate run workloads/ring-buffer.toml --connect /tmp/tidegate.sock
  tidegate serve --config service.toml
  tidegate serve --socket /tmp/tidegate.sock --ivshmem /tmp/guest.sock
  tidegate serve --socket /tmp/tidegate.sock --counters
  systemd-socket-activate --seqpacket -l /tmp/tidegate.sock tidegate serve

Each client is a process of its own: what it creates ends with it, and memory that it may only read is mapped read-only.
SIGTERM and SIGINT end the service: each client's next call says that its device was removed. docs/service.md has the
configuration, the limits and the counters.")]
pub(crate) struct Serve {
    /// The socket, which is made, and removed at the end; without it, and with LISTEN_FDS in the
    /// environment, the first socket that systemd passes
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Machine, limits and rights as TOML (docs/service.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Drive the adapters by this kernel-mode driver in C; what it breaks is told at the end
    #[arg(long, value_name = "DRIVER.so", conflicts_with = "counters")]
    pub(crate) driver: Option<PathBuf>,
    /// The device that the driver drives, a shared library (include/wddm/tidegate_device.h); each
    /// adapter has its own; it is the software GPU without the flag
    #[arg(long, value_name = "MODEL.so", requires = "driver")]
    pub(crate) device: Option<PathBuf>,
    /// Judge the drivers by the clauses of `tidegate conform`; a broken clause is logged at once,
    /// and told at the end
    #[arg(long, conflicts_with = "counters")]
    pub(crate) verify_driver: bool,
    /// Give one virtual machine at a time the adapters as a PCI device: a socket for QEMU's
    /// ivshmem-doorbell with vectors=2. May be repeated, for more machines at a time
    #[arg(long, value_name = "PATH")]
    pub(crate) ivshmem: Vec<PathBuf>,
    /// Memory of each virtual machine's device: a power of two of MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = mebibytes, requires = "ivshmem")]
    pub(crate) ivshmem_mib: u64,
    /// Print the counters of the service that listens at --socket, in Prometheus's text format, and
    /// leave
    #[arg(long, requires = "socket", conflicts_with_all = ["config", "ivshmem"])]
    pub(crate) counters: bool,
}

/// A power of two of MiB.
fn mebibytes(text: &str) -> Result<u64, String> {
    let most = server::GUEST_BYTES[1] >> 20;
    match text.parse() {
        Ok(mib @ 1u64..) if mib.is_power_of_two() && mib <= most => Ok(mib),
        _ => Err(format!("a power of two from 1 to {most} is allowed")),
    }
}

/// The socket of a service that runs.
#[derive(Args)]
pub(crate) struct ServiceSocket {
    /// The socket of the service (default: TIDEGATE_SOCKET)
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl ServiceSocket {
    pub(crate) fn path(&self) -> Result<PathBuf, BadInput> {
        let from_environment = || std::env::var_os("TIDEGATE_SOCKET").map(PathBuf::from);
        self.socket.clone().or_else(from_environment).ok_or_else(|| {
            let next = "name the socket of a service with --socket PATH or TIDEGATE_SOCKET";
            BadInput(format!("{next}; `tidegate serve --socket PATH` starts one"))
        })
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate top --socket /tmp/tidegate.sock
  tidegate top --socket /tmp/tidegate.sock --once
  tidegate top --socket /tmp/tidegate.sock --json | jq '.queues.rows[] | select(.lost)'

Keys: q ends the view, arrows, tab and 1 to 7 choose table and row, s and r sort, f shows the process of the row alone,
space pauses. The service goes on meanwhile; a service that ends is tried again. docs/service.md explains the columns.")]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) socket: ServiceSocket,
    /// Time between two readings: a number with the unit ns, us, ms or s
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub(crate) interval: Time,
    /// Most rows to read of each table; a table that is cut says so
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) rows: usize,
    /// Print the tables as text after one interval, and leave; so also where standard output is no
    /// terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) once: bool,
    /// Write the same as JSON (default: to standard output)
    #[arg(long, value_name = "F|-", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate record --attach --socket /tmp/tidegate.sock -o service.html --seconds 10
  tidegate record --attach --socket /tmp/tidegate.sock -o service.pftrace

Ends after --seconds, with Ctrl-C or SIGTERM, or with the service. One recording at a time; docs/timeline.md lists lanes
and records.")]
pub(crate) struct Record {
    /// Attach to a running service; needed, because nothing else is recorded
    #[arg(long)]
    pub(crate) attach: bool,
    #[command(flatten)]
    pub(crate) socket: ServiceSocket,
    /// The timeline: a page (.html), Chrome trace events (.json) or a Perfetto trace (.pftrace)
    #[arg(long, short, value_name = "F")]
    pub(crate) output: PathBuf,
    /// Record for so many seconds (default: until Ctrl-C)
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate compare trace.json.gz
  tidegate compare trace.json.gz --recorded-as hardware --what-if sync=gpu --what-if graphs=on
  tidegate compare workloads/ring-buffer.toml --adapter monitored

Takes a second or two for most workloads here and for a trace, and about a minute for the frame graph, which draws a
real picture 39 times.")]
pub(crate) struct Compare {
    /// The workload; - is standard input (default: the ring buffer of workloads/ring-buffer.toml,
    /// which is part of the program)
    pub(crate) workload: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Recordings: run a changed recording, too; can be given several times. ring=N:
    /// rings of N slots; streams=N: the work on N streams; graphs=on: launches in a row are one;
    /// graphs=off: each piece of work has its own launch; sync=gpu: streams wait in place of the
    /// host
    #[arg(long, value_name = "CHANGE")]
    pub(crate) what_if: Vec<WhatIf>,
    /// Write the verdict and the timelines of all models as one HTML page (default: compare.html in
    /// the working directory)
    #[arg(long, visible_alias = "timeline", value_name = "F.html")]
    pub(crate) html: Option<PathBuf>,
    /// Write the reports as JSON (- for standard output)
    #[arg(long, value_name = "F|-")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate diff before.json.gz after.json.gz
  tidegate diff before.json.gz after.json.gz --json - | jq '.kernels[0]'

Takes about a second for two traces of 100,000 events.")]
pub(crate) struct Diff {
    /// First file: a trace with its recorded times, or a workload, which is run in virtual time
    pub(crate) a: PathBuf,
    /// Second file
    pub(crate) b: PathBuf,
    /// Most names to print; the JSON has all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// Write the comparison as JSON (- for standard output)
    #[arg(long, value_name = "F|-")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate explore doorbell --junit explore.xml
  tidegate explore --list 'ring-*'

Takes about three minutes on two processors, and at most one for each search; with --full hours, at most one a search.")]
pub(crate) struct Explore {
    /// A scenario, a scenario and one of its planted bugs (NAME+BUG), a part of names, or a pattern
    /// with * and ? (default: all)
    #[arg(value_name = "NAME")]
    pub(crate) filter: Option<String>,
    /// List what NAME selects, with planted bugs, and run nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// The long form: larger bounds
    #[arg(long)]
    pub(crate) full: bool,
    /// Write the results as JSON (- for standard output)
    #[arg(long, value_name = "F|-")]
    pub(crate) json: Option<PathBuf>,
    /// Write the results as JUnit XML, a test case for each scenario and each planted bug (- for
    /// standard output)
    #[arg(long, value_name = "F|-")]
    pub(crate) junit: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate conform ./driver.so                          a driver in C
  tidegate conform ./driver.so --device ./model.so      on a device of yours
  tidegate conform ./driver.so --family packets --situation preemption
  tidegate conform ./driver.so --workload workloads/frame-graph.toml
  tidegate conform reference --adapter one-doorbell     the reference driver on a named adapter
  tidegate conform reference --faulty packets-order     with a planted mistake
  tidegate conform ./driver.so --seeds 20               each situation in 20 more orders
  tidegate conform ./driver.so --explore                orders of the driver's own steps
  tidegate conform --list                               the clauses and situations

Exit code 1: a clause is broken, or results are wrong. The driver runs in virtual time.")]
pub(crate) struct Conform {
    /// The library of a driver in C, or 'reference'
    #[arg(value_name = "DRIVER", required = true)]
    pub(crate) driver: Option<PathBuf>,
    /// The named adapter of the reference driver (default: standard)
    #[arg(long, value_name = "NAME", value_parser = adapter)]
    pub(crate) adapter: Option<Adapter>,
    /// The device of a driver in C, a shared library (include/wddm/tidegate_device.h; default: the
    /// software GPU)
    #[arg(long, value_name = "MODEL.so", conflicts_with = "adapter")]
    pub(crate) device: Option<PathBuf>,
    /// Judge only the clauses of this family; can be repeated
    #[arg(long, value_name = "FAMILY", value_parser = family)]
    pub(crate) family: Vec<Family>,
    /// Run only this situation; can be repeated
    #[arg(long, value_name = "NAME", value_parser = situation)]
    pub(crate) situation: Vec<String>,
    /// Run this workload under each submission model instead of the situations; can be repeated
    #[arg(long, value_name = "FILE", conflicts_with = "situation")]
    pub(crate) workload: Vec<PathBuf>,
    /// Run each situation also in N drawn orders: a seed from 1 to N draws what steps cost, and how
    /// late interrupts and DPCs are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) seeds: Option<u64>,
    /// Run each situation in the order of this seed only
    #[arg(long, value_name = "SEED", conflicts_with = "seeds")]
    pub(crate) seed: Option<u64>,
    /// Run a driver in C in other orders of its steps (register accesses, functions of the kernel,
    /// atomics), in a child process
    #[arg(long, conflicts_with_all = ["workload", "seeds", "seed", "faulty", "adapter"])]
    pub(crate) explore: bool,
    /// With --explore: how often an agent is stopped in the driver's code, at most
    #[arg(long, value_name = "N", default_value_t = 2, requires = "explore", value_parser = clap::value_parser!(u32).range(1..=3))]
    pub(crate) switches: u32,
    /// With --explore: the most runs of each situation with interrupts on an agent, and with them
    /// on the engines
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "explore", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) schedules: u64,
    /// Repeat one order that --explore has printed, without a child process
    #[arg(long, value_name = "LINE", conflicts_with_all = ["explore", "workload", "situation", "seeds", "seed", "faulty", "adapter"])]
    pub(crate) schedule: Option<String>,
    /// Run the orders that standard input names; the child process of --explore
    #[arg(long, hide = true)]
    pub(crate) run_schedules: bool,
    /// Put a mistake in front of the driver that breaks this clause
    #[arg(long, value_name = "CLAUSE", value_parser = tidegate_conform::clause)]
    pub(crate) faulty: Option<&'static Clause>,
    /// List the clauses and the situations, and run nothing
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
    /// Write the verdicts as JSON (- for standard output)
    #[arg(long, value_name = "F|-")]
    pub(crate) json: Option<PathBuf>,
    /// Write the verdicts as JUnit XML, a test case for each clause (- for standard output)
    #[arg(long, value_name = "F|-")]
    pub(crate) junit: Option<PathBuf>,
}

fn family(name: &str) -> Result<Family, String> {
    let all = || Family::ALL.map(Family::name).join(", ");
    Family::of_name(name).ok_or_else(|| format!("the families are {}", all()))
}

fn situation(name: &str) -> Result<String, UnknownSituation> {
    tidegate_conform::situation(name).map(|situation| situation.name.clone().into_owned())
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate swarm                                500 programs in virtual time
  tidegate swarm --on explored --seconds 60     schedules of smaller programs, with store buffers
  tidegate swarm --on processes --programs 50   each process of a program is a client in a process of its own
  tidegate swarm --on all --seconds 600 --shard 0/4 --json shard-0.json
  tidegate swarm --coverage                     also pairs of operations that never overlapped

Exit code 1: a program failed. A failure is printed as the few operations that it needs, a line
for `tidegate replay`, and a test.
The operations are in crates/swarm/src/operation.rs; docs/swarm.md explains the oracles.")]
pub(crate) struct Swarm {
    /// Where the programs run
    #[arg(long, value_enum, default_value_t = SwarmGround::Virtual)]
    pub(crate) on: SwarmGround,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of programs on each ground, of this shard (default: 500, or as many as --seconds
    /// allows)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) programs: Option<u64>,
    /// Number of operations of a program (default: 50, and 14 on explored machines)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=2000))]
    pub(crate) operations: Option<u16>,
    /// Time limit on each ground; a program that has begun is finished, and a failure is shrunk
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: Option<u64>,
    /// Run the seeds of part I of N only, counted from 0: every N-th seed from --seed + I
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub(crate) shard: Option<Shard>,
    /// End on each ground with the first program that fails
    #[arg(long)]
    pub(crate) first_failure: bool,
    /// Time limit for shrinking one failure
    #[arg(long, value_name = "S", default_value_t = 50)]
    pub(crate) shrink_seconds: u64,
    /// Also print which pairs of operations never overlapped in time; programs on threads and in
    /// processes are not counted
    #[arg(long)]
    pub(crate) coverage: bool,
    /// Judge the drivers by the clauses of `tidegate conform`, too
    #[arg(long)]
    pub(crate) verify_driver: bool,
    /// Have each driver make the mistake of this clause of `tidegate conform`: results may be wrong
    /// and adapters may stop, but each wait must end
    #[arg(long, value_name = "CLAUSE", value_parser = tidegate_conform::clause)]
    pub(crate) faulty: Option<&'static Clause>,
    /// Write the results as JSON (- for standard output)
    #[arg(long, value_name = "F|-")]
    pub(crate) json: Option<PathBuf>,
    /// Be a client of a program on the ground of processes; standard input is its machine
    #[arg(long, hide = true)]
    pub(crate) client: bool,
}

/// Where the programs of a swarm run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SwarmGround {
    /// Virtual time, one schedule of each program
    Virtual,
    /// Explored machines, 20 schedules of each program
    Explored,
    /// Threads of a child process for each program, beside a watchdog
    Threads,
    /// Processes that are clients of a service over a socket, beside a watchdog
    Processes,
    /// All four, one after the other
    All,
}

impl SwarmGround {
    pub(crate) fn grounds(self) -> Vec<Ground> {
        let explored = Ground::Explored { schedules: 20 };
        match self {
            SwarmGround::Virtual => vec![Ground::Virtual],
            SwarmGround::Explored => vec![explored],
            SwarmGround::Threads => vec![Ground::Threads],
            SwarmGround::Processes => vec![Ground::Processes],
            SwarmGround::All => {
                vec![Ground::Virtual, explored, Ground::Threads, Ground::Processes]
            }
        }
    }
}

/// A part of the seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) index: u64,
    pub(crate) count: u64,
}

fn shard(text: &str) -> Result<Shard, String> {
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((index, count)) if index < count => Ok(Shard { index, count }),
        _ => Err("write I/N, where I is from 0 to N - 1, such as 0/3".to_owned()),
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate replay 'LINE' --timeline race.html
  tidegate explore wake-word+no-barrier        prints a LINE to replay
  tidegate replay --test 'cargo test -p app ring' 'LINE'   replays a check of your own tests

Takes well under a second.")]
pub(crate) struct Replay {
    /// The line that `explore`, `swarm` or a failed check printed
    pub(crate) line: String,
    /// The command that runs the test of a `tidegate::check`: its program is in your crate, so the
    /// command replays the line and this prints the steps
    #[arg(long, value_name = "COMMAND")]
    pub(crate) test: Option<String>,
    /// Run a program of the swarm on threads or in processes once, and not until it fails
    #[arg(long)]
    pub(crate) once: bool,
    /// Write a timeline of the schedule as one HTML page
    #[arg(long, value_name = "F.html")]
    pub(crate) timeline: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate adapters
  tidegate adapters --json -

Takes well under a second.")]
pub(crate) struct Adapters {
    /// Write the adapters as JSON (- for standard output)
    #[arg(long, value_name = "F|-")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate bench
  tidegate bench submissions --passes 5 --json bench.json

A row is one operation beside the physical floor of what it does; the ratio of the two is what
another machine repeats. docs/performance.md explains the rows. Needs processors 0 and 1.
Takes a few seconds a pass; build with --release and leave the machine at rest.")]
pub(crate) struct Bench {
    /// Rows whose name contains this (default: all)
    pub(crate) filter: Option<String>,
    /// Write the rows as JSON (- for standard output)
    #[arg(long, value_name = "F|-")]
    pub(crate) json: Option<PathBuf>,
    /// Passes, 1 to 99; the median pass counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) passes: u8,
    /// Divide the operations of the rows by this
    #[arg(long, value_name = "N", default_value_t = 1, hide = true)]
    pub(crate) divide: u64,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate
  tidegate completions zsh > ~/.zfunc/_tidegate")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate man | man -l -
  tidegate man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Write tidegate.1, tidegate-run.1 and so on into this folder (default: the page of tidegate
    /// on standard output)
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

/// A named adapter.
#[derive(Clone, Copy)]
pub(crate) struct Adapter(pub(crate) &'static Variant);

fn adapter(word: &str) -> Result<Adapter, UnknownVariant> {
    variants::find(word).map(Adapter)
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

/// A number with an optional suffix K, M or G for 2^10, 2^20 or 2^30.
fn bytes(word: &str) -> Result<Bytes, String> {
    let (digits, shift) = match word.char_indices().last() {
        Some((at, 'K' | 'k')) => (&word[..at], 10),
        Some((at, 'M' | 'm')) => (&word[..at], 20),
        Some((at, 'G' | 'g')) => (&word[..at], 30),
        _ => (word, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number
        .filter(|n| *n > 0)
        .map(Bytes)
        .ok_or_else(|| "give a number of bytes, such as 65536, 64K or 2M".to_owned())
}

fn ring_slots(word: &str) -> Result<u64, String> {
    let slots = word.parse::<u64>().ok().filter(|n| n.is_power_of_two());
    slots.filter(|n| (MIN_RING_SLOTS..=MAX_RING_SLOTS).contains(n)).ok_or_else(|| {
        format!(
            "a ring has a power of two of slots from {MIN_RING_SLOTS} to {MAX_RING_SLOTS}, for example 4096"
        )
    })
}

fn submission(word: &str) -> Result<Submission, String> {
    let found = Submission::ALL.into_iter().find(|s| s.name() == word);
    found.ok_or_else(|| "use packet, hardware or user".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_numbers_with_or_without_a_unit() {
        let read = |word| bytes(word).map(|b| b.0).ok();
        assert_eq!(
            ["4096", "64K", "2m", "1G"].map(read),
            [4096, 65_536, 2 << 20, 1 << 30].map(Some)
        );
        assert_eq!(["", "K", "-1", "0", "1T", "99999999999G"].map(read), [None; 6]);
    }
}
