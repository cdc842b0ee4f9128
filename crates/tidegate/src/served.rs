//! A machine as a service for other processes, and a workload that runs on one.

use crate::machine::{Machine, MachineError};
use crate::run::{RunError, RunResult, outcome_in_words};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_calls::snapshot::{
    DoorbellRow, EngineRow as EngineView, FenceRow, MachineRow, Page, PageRequest, QueueRow,
    WaiterRow,
};
use tidegate_calls::{PendingWait, Status};
use tidegate_d3d12::{Device, DeviceOptions, HardwareFences, Validation};
use tidegate_dxgkrnl::{EngineWait, Process, ProcessKind};
use tidegate_platform::{Platform, QueueNumber, WorkStats};
use tidegate_runner::recovery::{EngineRow, RecoveryRow};
use tidegate_runner::{self as runner, MachineCounters, MachineProbe, Progress, RunOptions};
use tidegate_service::client::{self, ClientKind, RemoteKernel};
use tidegate_service::server::{
    Adapters, Grant, Opened, OpenedProcess, Server, ServerConfig, Sessions,
};
use tidegate_workload::expect::Clock;
use tidegate_workload::model::{Submission, Workload};

struct Served(Arc<Machine>);

/// The process of a client.
struct ServedProcess(Arc<Process>);

impl OpenedProcess for ServedProcess {
    fn close(&self) {
        self.0.close();
    }

    fn terminate(&self) {
        self.0.terminate();
    }

    fn end_waits_for_work(&self) {
        self.0.end_waits_for_work();
    }
}

impl Adapters for Served {
    fn count(&self) -> u32 {
        self.0.adapter_count() as u32
    }

    fn open(
        &self,
        adapter: u32,
        process_name: &str,
        client: ClientKind,
        grant: Grant,
    ) -> Result<Opened, Status> {
        let kind = ProcessKind::from((client, grant));
        let process = self.0.process_of_kind(adapter as usize, process_name, kind);
        let process = process.map_err(|error| match error {
            MachineError::Open(status) => status,
            _ => Status::INVALID_PARAMETER,
        })?;
        let (kernel, number) = (process.clone(), process.number());
        Ok(Opened { kernel, process: Arc::new(ServedProcess(process)), number })
    }

    fn machine(&self, adapter: u32) -> MachineRow {
        let engines = self.0.gpu_at(adapter as usize).engines().into_iter();
        let engines = engines.map(|stats| EngineView {
            name: stats.name,
            power: String::new(),
            busy_ns: stats.busy_ns,
            packets: stats.packets,
            context_switches: stats.context_switches,
            preemptions_requested: stats.preemptions_requested,
            preemptions: stats.preemptions.count(),
        });
        self.0.adapter_at(adapter as usize).machine_row(engines.collect(), outcome_in_words)
    }

    fn queues(&self, adapter: u32, request: &PageRequest) -> Page<QueueRow> {
        self.0.adapter_at(adapter as usize).queue_rows(request)
    }

    fn fences(&self, adapter: u32, request: &PageRequest) -> Page<FenceRow> {
        self.0.adapter_at(adapter as usize).fence_rows(request)
    }

    fn waiters(&self, adapter: u32, request: &PageRequest) -> Page<WaiterRow> {
        let parked = self.0.gpu_at(adapter as usize).parked_waits().into_iter();
        let parked: Vec<EngineWait> =
            parked.map(|wait| (wait.queue, wait.current_value, wait.value)).collect();
        self.0.adapter_at(adapter as usize).waiter_rows(request, &parked)
    }

    fn doorbells(&self, adapter: u32, request: &PageRequest) -> Page<DoorbellRow> {
        self.0.adapter_at(adapter as usize).doorbell_rows(request)
    }

    fn enlarge_logs(&self, adapter: u32, large: bool) {
        let adapter = self.0.adapter_at(adapter as usize);
        // A log for which no address space is left stays small: entries that it loses are counted.
        let _ = if large { adapter.start_log_tracing() } else { adapter.stop_log_tracing() };
    }

    fn read_logs(&self, adapter: u32) {
        self.0.adapter_at(adapter as usize).read_fence_logs();
    }
}

impl Machine {
    /// A service of this machine for the processes that connect to `listener`, a listening socket
    /// of the type SOCK_SEQPACKET.
    ///
    /// # Errors
    /// The system has no descriptor left.
    ///
    /// # Panics
    /// The machine's platform is not [`tidegate_platform::Platform::sharing_host`].
    pub fn service(
        self: &Arc<Machine>,
        listener: OwnedFd,
        config: ServerConfig,
    ) -> io::Result<Server> {
        Server::new(listener, self.sessions(config))
    }

    /// The sessions of a service of this machine without a socket, for processes that are agents of
    /// its cooperative platform ([`client::connect_agent`]).
    ///
    /// # Panics
    /// The machine's platform hands no memory over.
    pub fn sessions(self: &Arc<Machine>, config: ServerConfig) -> Sessions {
        Sessions::new(self.platform(), Box::new(Served(self.clone())), config)
    }
}

/// A workload for a machine that a service hosts.
#[derive(Clone)]
pub struct ConnectedRun {
    /// The workload.
    pub workload: Arc<Workload>,
    /// The socket of the service.
    pub socket: PathBuf,
    /// The adapter, counted from 0.
    pub adapter: u32,
    /// Whether the run knows kernel queues only ([`ClientKind::kernel_queues_only`]).
    pub kernel_queues_only: bool,
    /// Submission model of all queues; `None` leaves it to the workload.
    pub submission: Option<Submission>,
    /// Slots in the ring of each user-mode queue; `None` takes what fits the workload.
    pub ring_slots: Option<u64>,
    /// What carries out waits and signals of native fences on hardware queues.
    pub hardware_fences: HardwareFences,
    /// Called with operations done and operations in all.
    pub progress: Option<Progress>,
}

/// What a client sees of the machine: nothing. Its counters are the service's.
struct NoProbe;

impl MachineProbe for NoProbe {
    fn has_counters(&self) -> bool {
        false
    }

    fn counters(&self) -> MachineCounters {
        MachineCounters::default()
    }

    fn queues(&self, queues: &[Vec<QueueNumber>]) -> Vec<WorkStats> {
        queues.iter().map(|_| WorkStats::default()).collect()
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        Vec::new()
    }

    fn engines(&self) -> Vec<EngineRow> {
        Vec::new()
    }

    fn recoveries(&self, _name: &dyn Fn(QueueNumber) -> String) -> Vec<RecoveryRow> {
        Vec::new()
    }
}

/// Runs a workload as a client of a service, in real time, to its end. Wrong results are problems
/// of the outcome, not errors. The report has no counters of the machine
/// ([`runner::report::Report::remote_machine`]), and expectations of them are not judged.
///
/// # Errors
/// No service listens at the socket, or it turns the client away, or it ends before the run does;
/// the workload cannot run there.
pub fn run_connected(request: &ConnectedRun) -> Result<RunResult, RunError> {
    let platform = Platform::host();
    let name = &request.workload.name;
    let kind =
        ClientKind { kernel_queues_only: request.kernel_queues_only, ..ClientKind::default() };
    let kernel = client::connect_as(&platform, &request.socket, (request.adapter, kind), name)?;
    let result = run_on(&platform, kernel.clone(), request);
    match result {
        Ok(result) if result.outcome.report.verified => Ok(result),
        // What else the run met is due to the end of its machine.
        _ if !kernel.check_connection() => Err(RunError::ServiceEnded(request.socket.clone())),
        result => result,
    }
}

fn run_on(
    platform: &Platform,
    kernel: Arc<RemoteKernel>,
    request: &ConnectedRun,
) -> Result<RunResult, RunError> {
    let ConnectedRun { workload, submission, .. } = request;
    let options = DeviceOptions {
        process_name: workload.name.clone(),
        fences: runner::fence_choice(workload, *submission),
        ring_slots: request.ring_slots.unwrap_or_else(|| runner::ring_slots(workload)),
        hardware_fences: request.hardware_fences,
        validation: Validation::empty(),
        ..DeviceOptions::default()
    };
    let device = Device::new(platform, kernel, options).map_err(MachineError::Device)?;
    let run_options = RunOptions {
        submission: *submission,
        progress: request.progress.clone(),
        clock: Clock::Wall,
        hangs: Vec::new(),
        shares_machine: true,
        stops_at_failure: true,
        kernels: false,
    };
    let probe = Arc::new(NoProbe);
    let prepared = runner::prepare(platform, workload.clone(), device, probe, run_options)?;
    let main = prepared.main(platform);
    let report = platform.run_scoped(main);
    let mut outcome = prepared.finish(&report, None, prepared.started_ns());
    outcome.report.remote_machine = true;
    Ok(RunResult {
        outcome,
        trace: None,
        shown: Vec::new(),
        hazards: None,
        violations: Vec::new(),
        driver_faults: Vec::new(),
    })
}
