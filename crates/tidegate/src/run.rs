//! Runs a workload on a fresh machine: as many engines as it asks for, threads or virtual time
//! as told.

use crate::machine::{Bus, Machine, MachineConfig, MachineError};
use crate::variants::Variant;
use std::sync::Arc;
use tidegate_calls::{DisplayStats, PendingWait};
use tidegate_d3d12::{DeviceOptions, HardwareFences, Validation};
use tidegate_d3dukmdt::{ComputePreemption, GraphicsPreemption};
use tidegate_ddi::{DevicePowerState, Driver, EngineId};
use tidegate_dxgkrnl::{Adapter, BugCheck, DriverFault, InterruptDelivery, PowerManagement};
use tidegate_dxgkrnl::{HeldBack, RecoveryOutcome, RecoveryReport, WorkAtReset};
use tidegate_gpu_abi::regs::NodePreemption;
use tidegate_kmd::DoorbellModel;
use tidegate_platform::{Mutex, Platform, QueueNumber, WorkStats};
use tidegate_runner::cost::{self, CostModel};
use tidegate_runner::recovery::{
    EngineRow, FenceAt, HeldBackRow, LostRow, RecoveryRow, WaiterKind, WorkRow,
};
use tidegate_runner::{
    self as runner, HangAt, MachineCounters, MachineProbe, Outcome, Picture, Progress, RunOptions,
};
use tidegate_softgpu::{NodeStats, SoftGpu, WorkRates};
use tidegate_trace::Trace;
use tidegate_workload::expect::Clock;
use tidegate_workload::model::{Submission, Workload};

/// What to run, and how.
#[derive(Clone)]
pub struct RunRequest {
    /// The workload.
    pub workload: Arc<Workload>,
    /// Submission model of all queues; `None` leaves it to the workload.
    pub submission: Option<Submission>,
    /// Threads and real time, or one thread and modelled time.
    pub clock: Clock,
    /// Keep a timeline.
    pub tracing: bool,
    /// Make the per-kernel table ([`Outcome::kernels`]).
    pub kernels: bool,
    /// Bytes of local memory; `None` is as much as the workload or the machine says. With less than
    /// the workload's buffers need, submissions look after their residency.
    pub local_memory_bytes: Option<u64>,
    /// Slots in the ring of each user-mode queue, a power of two from 8 to 2^20; `None` takes what
    /// fits the workload ([`runner::ring_slots`]).
    pub ring_slots: Option<u64>,
    /// What carries out waits and signals of native fences on hardware queues.
    pub hardware_fences: HardwareFences,
    /// How the GPU gives out doorbells; `None` leaves it to the adapter.
    pub doorbells: Option<DoorbellModel>,
    /// What the steps cost in virtual time.
    pub costs: CostModel,
    /// Which of the named machines it is; `None` is the standard one.
    pub adapter: Option<&'static Variant>,
    /// Called with operations done and operations in all.
    pub progress: Option<Progress>,
    /// How finely all nodes are preempted; what is `None` is left to the adapter.
    pub preemption: PreemptionChoice,
    /// How long the GPU may take to give up what it runs, in nanoseconds, before it counts as hung
    /// (TdrDelay).
    pub tdr_delay_ns: Option<u64>,
    /// Changes what else the machine is configured with, after all other choices.
    pub machine: fn(&mut MachineConfig),
    /// Times from the start of the run, in nanoseconds, at which the system sleeps: the device goes
    /// to D3 and comes back. If there are any, power is managed.
    pub sleeps_at_ns: Vec<u64>,
    /// Submissions that are to hang.
    pub hangs: Vec<HangAt>,
    /// Keep every picture that the display shows.
    pub frames: bool,
    /// Another workload that runs on the same machine at the same time, in a process of its own.
    /// Nothing of it hangs.
    pub beside: Option<Arc<Workload>>,
    /// Check the workload's use of the machine ([`RunResult::hazards`]).
    pub validation: Validation,
    /// Makes the driver of the software GPU; `None` is the reference driver.
    pub driver: Option<MakeDriver>,
    /// Where interrupts run; `None` leaves it to the clock and the adapter.
    pub interrupts: Option<InterruptDelivery>,
    /// Put in front of the driver, whichever it is.
    pub layer: Option<MakeLayer>,
}

/// Returns the driver with a layer in front of it.
pub type MakeLayer = Arc<dyn Fn(&Platform, Arc<dyn Driver>) -> Arc<dyn Driver> + Send + Sync>;

/// Makes a driver for a software GPU, or returns why it cannot be made.
pub type MakeDriver =
    Arc<dyn Fn(&Bus<'_>, Arc<SoftGpu>) -> Result<Arc<dyn Driver>, String> + Send + Sync>;

impl RunRequest {
    /// The workload as it stands, on the standard machine, without a timeline.
    pub fn new(workload: Arc<Workload>, clock: Clock) -> RunRequest {
        RunRequest {
            workload,
            submission: None,
            clock,
            tracing: false,
            kernels: false,
            local_memory_bytes: None,
            ring_slots: None,
            hardware_fences: HardwareFences::default(),
            doorbells: None,
            costs: CostModel::nominal(),
            adapter: None,
            progress: None,
            preemption: PreemptionChoice::default(),
            tdr_delay_ns: None,
            machine: |_| {},
            sleeps_at_ns: Vec::new(),
            hangs: Vec::new(),
            frames: false,
            beside: None,
            validation: Validation::empty(),
            driver: None,
            interrupts: None,
            layer: None,
        }
    }
}

/// The preemption granularity of engines, where the caller chose one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreemptionChoice {
    /// Draws.
    pub graphics: Option<GraphicsPreemption>,
    /// Everything else.
    pub compute: Option<ComputePreemption>,
}

impl PreemptionChoice {
    /// Makes the nodes of a configuration so.
    pub fn apply(self, config: &mut MachineConfig) {
        for node in &mut config.gpu.nodes {
            node.preemption.graphics = self.graphics.unwrap_or(node.preemption.graphics);
            node.preemption.compute = self.compute.unwrap_or(node.preemption.compute);
        }
    }
}

/// Why a workload did not run at all.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The machine did not come up.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The workload cannot run on it.
    #[error(transparent)]
    Workload(#[from] runner::RunError),
    /// The service was not reached.
    #[cfg(feature = "service")]
    #[error(transparent)]
    Connect(#[from] tidegate_service::client::ConnectError),
    /// The service ended before the run did.
    #[cfg(feature = "service")]
    #[error("the service at {} ended before the run did: start it, and run the workload again", .0.display())]
    ServiceEnded(std::path::PathBuf),
}

/// What a run came to.
pub struct RunResult {
    /// Report, problems, pictures.
    pub outcome: Outcome,
    /// The timeline, if it was asked for.
    pub trace: Option<Trace>,
    /// The pictures that the display showed, in their order, if they were to be kept; each once,
    /// however many refreshes it stayed.
    pub shown: Vec<Picture>,
    /// What the hazard check found, if it was asked for.
    pub hazards: Option<tidegate_platform::hazard::Report>,
    /// The violations of the driver's contract that stopped the adapter.
    pub violations: Vec<BugCheck>,
    /// What else the driver did wrong, and the kernel worked around.
    pub driver_faults: Vec<DriverFault>,
}

struct Probe(Arc<Machine>);

impl MachineProbe for Probe {
    fn counters(&self) -> MachineCounters {
        let (gpu, kernel) = (self.0.gpu().stats(), self.0.adapter().stats());
        let memory = self.0.adapter().local_memory_use();
        MachineCounters {
            interrupts: kernel.interrupts,
            interrupts_suppressed: gpu.interrupts_suppressed,
            gpu_waits_stalled: gpu.gpu_waits_stalled,
            log_entries_lost: kernel.log_entries_lost,
            packets: kernel.packets + kernel.hw_queue_commands,
            overlap_ns: gpu.overlap_ns,
            doorbell_connects: kernel.doorbell_connects,
            doorbell_victims: kernel.doorbell_victims,
            page_ins: kernel.allocations_paged_in,
            page_outs: kernel.allocations_paged_out,
            bytes_paged: kernel.bytes_paged,
            local_memory_bytes: memory.capacity_bytes,
            local_memory_peak_bytes: memory.most_bytes,
        }
    }

    fn queues(&self, queues: &[Vec<QueueNumber>]) -> Vec<WorkStats> {
        let (hardware, software) = (self.0.gpu().stats(), self.0.adapter().fence_operations());
        let of = |numbers: &Vec<QueueNumber>| {
            let mut stats = hardware.of(numbers);
            numbers.iter().filter_map(|n| software.get(n)).for_each(|more| stats += more);
            stats
        };
        queues.iter().map(of).collect()
    }

    fn display(&self) -> DisplayStats {
        self.0.adapter().display_stats()
    }

    fn engines(&self) -> Vec<EngineRow> {
        let stats = self.0.gpu().stats();
        let nodes = stats.nodes.iter().zip(self.0.gpu().preemption());
        let row = |(node, granularity): (&NodeStats, NodePreemption)| EngineRow {
            engine: node.name.clone(),
            graphics_preemption: granularity.graphics.to_string(),
            compute_preemption: granularity.compute.to_string(),
            preemptions_requested: node.preemptions_requested,
            preemptions: node.preemptions.clone(),
        };
        nodes.map(row).collect()
    }

    fn recoveries(&self, name: &dyn Fn(QueueNumber) -> String) -> Vec<RecoveryRow> {
        let names: Vec<String> =
            self.0.gpu().stats().nodes.into_iter().map(|node| node.name).collect();
        let nodes = self.0.gpu().nodes_of_each();
        let engine_name = |engine: EngineId| {
            names.get((engine.engine_ordinal * nodes + engine.node_ordinal) as usize).cloned()
        };
        let reports = self.0.adapter().recoveries().into_iter();
        reports.map(|report| recovery(report, engine_name, name)).collect()
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let adapter = self.0.adapter();
        let parked = self.0.gpu().parked_waits().into_iter();
        let on_engines =
            parked.filter_map(|w| adapter.describe_wait(w.queue, w.current_value, w.value));
        adapter.pending_waits().into_iter().chain(on_engines).collect()
    }
}

fn recovery(
    report: RecoveryReport,
    engine_name: impl Fn(EngineId) -> Option<String>,
    name: &dyn Fn(QueueNumber) -> String,
) -> RecoveryRow {
    let at = |(fence, value): (String, u64)| FenceAt { fence, value };
    let work = |work: WorkAtReset| WorkRow {
        queue: name(work.queue),
        command: work.command,
        injected: None,
        submission: None,
        signals: work.signals.into_iter().map(at).collect(),
        guilty: work.guilty,
    };
    let held_back = |held: HeldBack| HeldBackRow {
        kind: WaiterKind::Queue,
        waiter: name(held.wait.queue),
        wait: FenceAt { fence: held.wait.fence, value: held.wait.value },
        current: held.wait.current,
        signaller: name(held.signaller),
    };
    let lost = |(queue, guilty)| LostRow { queue: name(queue), guilty };
    RecoveryRow {
        at_ns: report.at.0,
        code: report.code,
        engine: report.engine.and_then(engine_name),
        noticed: report.reason.to_string(),
        work: report.work.into_iter().map(work).collect(),
        held_back: report.held_back.into_iter().map(held_back).collect(),
        outcome: outcome_in_words(&report.outcome),
        lost: report.lost.into_iter().map(lost).collect(),
        driver: report.driver,
    }
}

pub(crate) fn outcome_in_words(outcome: &RecoveryOutcome) -> String {
    match outcome {
        RecoveryOutcome::Begun => "the recovery had begun".to_owned(),
        RecoveryOutcome::Ignored => "nothing was done about it".to_owned(),
        RecoveryOutcome::NothingLeft => {
            "the engine was done by itself, and nothing was reset".to_owned()
        }
        RecoveryOutcome::EngineReset => "the engine was reset".to_owned(),
        RecoveryOutcome::DeviceLost => {
            "the engine did not run the work, and nothing was reset".to_owned()
        }
        RecoveryOutcome::AdapterReset => "the adapter was reset".to_owned(),
        RecoveryOutcome::Fatal(why) => format!("the adapter is stopped: {why}"),
    }
}

/// Returns the configuration of the machine of a run.
fn machine_of(request: &RunRequest, platform: &Platform) -> MachineConfig {
    let workloads = std::iter::once(&request.workload).chain(&request.beside);
    let engines = runner::required_engines(workloads.map(|workload| &**workload));
    let mut config = MachineConfig::standard(platform).with_engines(&engines);
    if request.clock == Clock::Virtual {
        config.gpu.rates = WorkRates {
            byte_ps: cost::WORK.byte_ps,
            group_ns: cost::WORK.group_ns,
            ..WorkRates::default()
        };
    }
    if let Some(variant) = request.adapter {
        variant.apply(&mut config);
    }
    if let Some(bytes) = request.local_memory_bytes.or(request.workload.local_memory_bytes) {
        config.gpu.local_memory_bytes = bytes;
    }
    if let Some(model) = request.doorbells {
        config.driver.doorbells = model;
    }
    let displays = [Some(&request.workload), request.beside.as_ref()];
    if let Some(display) =
        displays.into_iter().flatten().find_map(|workload| workload.display.as_ref())
    {
        config = config.with_display(display.refresh_ns);
    }
    request.preemption.apply(&mut config);
    if let Some(interrupts) = request.interrupts {
        config.kernel.interrupts = interrupts;
    }
    if let Some(delay_ns) = request.tdr_delay_ns {
        config.kernel.tdr.delay_ns = delay_ns;
    }
    if !request.sleeps_at_ns.is_empty() {
        config.kernel.power = PowerManagement::Managed;
    }
    (request.machine)(&mut config);
    config
}

/// Runs a workload to its end. Wrong results, deadlocks and GPU faults are problems of the outcome,
/// not errors.
pub fn run_workload(request: &RunRequest) -> Result<RunResult, RunError> {
    let workloads = || std::iter::once(&request.workload).chain(&request.beside);
    let platform = match request.clock {
        Clock::Wall => Platform::closed_host(),
        Clock::Virtual => Platform::virtual_time(request.costs.steps.clone()),
    };
    let measured = request.kernels || workloads().any(|workload| runner::wants_trace(workload));
    if request.tracing {
        platform.enable_tracing();
    } else if measured {
        platform.enable_tracing_of_executions();
    }
    let config = machine_of(request, &platform);
    let local_memory_bytes = config.gpu.local_memory_bytes;
    let machine = Arc::new(start_machine(&platform, config, request)?);
    let shown = request.frames.then(|| keep_frames(&machine));
    let prepare = |workload: &Arc<Workload>, process_name: String, hangs: Vec<HangAt>| {
        let options = DeviceOptions {
            process_name,
            fences: runner::fence_choice(workload, request.submission),
            residency: runner::residency_choice(workload, local_memory_bytes),
            ring_slots: request.ring_slots.unwrap_or_else(|| runner::ring_slots(workload)),
            hardware_fences: request.hardware_fences,
            // Running a workload grants what it contains.
            may_raise_priority: true,
            validation: request.validation,
        };
        let device = machine.device(options)?;
        let run_options = RunOptions {
            submission: request.submission,
            progress: request.progress.clone(),
            clock: request.clock,
            hangs,
            shares_machine: request.beside.is_some(),
            stops_at_failure: false,
            kernels: request.kernels,
        };
        let probe = Arc::new(Probe(machine.clone()));
        Ok::<_, RunError>(runner::prepare(&platform, workload.clone(), device, probe, run_options)?)
    };
    let prepared =
        prepare(&request.workload, request.workload.name.clone(), request.hangs.clone())?;
    let beside = match &request.beside {
        None => None,
        Some(workload) if workload.name == request.workload.name => {
            Some(prepare(workload, format!("{} beside it", workload.name), Vec::new())?)
        }
        Some(workload) => Some(prepare(workload, workload.name.clone(), Vec::new())?),
    };
    if let Some(beside) = &beside {
        prepared.set_other_queues(beside.queue_names());
        beside.set_other_queues(prepared.queue_names());
    }
    let (main, other) =
        (prepared.main(&platform), beside.as_ref().map(|beside| beside.main(&platform)));
    let (spawner, sleeps_at_ns) = (platform.clone(), request.sleeps_at_ns.clone());
    let sleeper = machine.adapter().clone();
    let judged = request.layer.as_ref().map(|_| machine.clone());
    let (_, report) = machine.run_to_report(move || {
        sleep_at(&spawner, sleeper, sleeps_at_ns);
        let other = other.map(|other| spawner.spawn("beside", other));
        main();
        if let Some(other) = other {
            other.join();
        }
        if let Some(machine) = judged {
            machine.wait_idle();
        }
    });
    let violations = machine.adapter().bug_checks();
    let driver_faults = machine.adapter().driver_faults();
    // Before the results are read, which is not an access of the workload.
    let hazards = platform.hazard_report();
    prepared.check_hangs()?;
    let mut trace =
        (request.tracing || measured).then(|| platform.take_trace(&request.workload.name));
    let origin_ns =
        std::iter::once(&prepared).chain(&beside).map(|p| p.started_ns()).min().unwrap_or(0);
    let mut outcome = prepared.finish(&report, trace.as_ref(), origin_ns);
    if let Some(beside) = &beside {
        let other = beside.finish(&report, trace.as_ref(), origin_ns);
        outcome.report.beside = Some(Box::new(other.report));
    }
    let found = hazards.iter().flat_map(|report| &report.hazards);
    outcome.report.problems.extend(found.map(ToString::to_string));
    // A run that stood still has its explanation with the lines of the workload.
    if report.completed() {
        let waits =
            hazards.iter().flat_map(|found| found.deadlocks.iter().chain(&found.unsignalled));
        outcome.report.problems.extend(waits.map(ToString::to_string));
    }
    if let Some(trace) = &mut trace {
        let workloads = std::iter::once(&request.workload).chain(&request.beside);
        workloads.for_each(|workload| runner::restore_kinds(workload, trace));
    }
    let shown = shown.map_or_else(Vec::new, |frames| std::mem::take(&mut *frames.lock()));
    let trace = trace.filter(|_| request.tracing);
    Ok(RunResult { outcome, trace, shown, hazards, violations, driver_faults })
}

/// Starts the machine with the driver of the request.
fn start_machine(
    platform: &Platform,
    config: MachineConfig,
    request: &RunRequest,
) -> Result<Machine, MachineError> {
    let machine = Machine::builder(platform);
    let layered = |driver| match &request.layer {
        None => driver,
        Some(layer) => layer(platform, driver),
    };
    let machine = match &request.driver {
        None => machine.reference_behind(config, layered),
        Some(make) => machine.driven(config, move |bus, gpu| Ok(layered(make(bus, gpu)?))),
    };
    machine.start()
}

/// Has the system sleep at these times after now, and resume at once.
fn sleep_at(platform: &Platform, adapter: Arc<Adapter>, mut times_ns: Vec<u64>) {
    if times_ns.is_empty() {
        return;
    }
    times_ns.sort_unstable();
    let (agent, start) = (platform.clone(), platform.now());
    platform.spawn_worker("system sleep", move || {
        for ns in times_ns {
            agent.sleep_until(start.after(ns));
            let states = [DevicePowerState::D3, DevicePowerState::D0];
            // The adapter has ended with the run, or is lost.
            if states.into_iter().any(|state| adapter.set_power_state(state).is_err()) {
                return;
            }
        }
    });
}

/// Keeps each picture that the display shows, from its first refresh.
fn keep_frames(machine: &Machine) -> Arc<Mutex<Vec<Picture>>> {
    let kept = Arc::new(machine.platform().mutex("frames that were shown", Vec::new()));
    let frames = kept.clone();
    machine.gpu().show_frames_to(Arc::new(move |frame| {
        if frame.first {
            let mut frames = frames.lock();
            let name = format!("frame-{:04}.png", frames.len() + 1);
            frames.push((name, frame.width, frame.height, frame.pixels));
        }
    }));
    kept
}
