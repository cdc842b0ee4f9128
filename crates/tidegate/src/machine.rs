//! Assembles one machine: system memory, and for each adapter hardware, its driver and the graphics
//! kernel. Each part is handed only what its contract names.
//!
//! Entry points: [`Machine::builder`], whose `start` is the order of a start; [`Machine::new`] for
//! one adapter of the software GPU and the reference driver.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::sync::Arc;
use tidegate_calls::{Kernel, Status};
use tidegate_d3d12::{Device, DeviceOptions, RefusedDestroy, TeardownReport};
use tidegate_ddi::Driver;
use tidegate_dxgkrnl::{Adapter, AdapterConfig, ObjectNames, Process, ProcessKind, StartError};
use tidegate_kmd::ReferenceDriver;
use tidegate_platform::{Mutex, PhysicalAddress, PhysicalMemory, Platform, RunReport, current};
use tidegate_softgpu::{EngineKind, LOCAL_WINDOW_BYTES, ParkedWait, SoftGpu};

/// What a machine is made of.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// The hardware.
    pub gpu: tidegate_softgpu::Config,
    /// The driver.
    pub driver: tidegate_kmd::Config,
    /// The kernel.
    pub kernel: AdapterConfig,
}

/// How the agents of an adapter share threads: the grouping of its engines, and where its interrupt
/// routine and DPCs run. Explored machines take the shape that ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadShape {
    /// The number of threads that the engines share. Virtual time gives each engine its own agent.
    pub engine_threads: usize,
    /// Where interrupts run.
    pub interrupts: tidegate_dxgkrnl::InterruptDelivery,
}

impl ThreadShape {
    /// The shape that ships: all engines on one thread, and interrupts inline on it.
    pub const SHIPPED: ThreadShape =
        ThreadShape { engine_threads: 1, interrupts: tidegate_dxgkrnl::InterruptDelivery::Inline };
}

impl MachineConfig {
    /// Returns how its agents share threads.
    pub fn thread_shape(&self) -> ThreadShape {
        let (engine_threads, interrupts) = (self.gpu.service_threads, self.kernel.interrupts);
        ThreadShape { engine_threads, interrupts }
    }

    /// The same with another sharing of threads.
    pub fn with_thread_shape(mut self, shape: ThreadShape) -> MachineConfig {
        self.gpu.service_threads = shape.engine_threads;
        self.kernel.interrupts = shape.interrupts;
        self
    }

    /// A 3D, a compute and a copy engine, everything switched on.
    pub fn standard(platform: &Platform) -> MachineConfig {
        MachineConfig {
            gpu: tidegate_softgpu::Config::default(),
            driver: tidegate_kmd::Config::standard(),
            kernel: AdapterConfig::standard(platform),
        }
    }

    /// The same with this many physical GPUs linked into the adapter, from 1 to 4: each has all the
    /// engines.
    pub fn linked(mut self, physical_gpus: u32) -> MachineConfig {
        self.gpu.physical_gpus = physical_gpus;
        self
    }

    /// The same with a display that refreshes so often: a period in nanoseconds, of a microsecond
    /// or more.
    pub fn with_display(mut self, refresh_period_ns: u64) -> MachineConfig {
        self.gpu.display =
            Some(tidegate_softgpu::DisplayConfig { refresh_period_ns, ..Default::default() });
        self
    }

    /// The same with this many engines of each kind. Of the standard kinds there is at least one.
    pub fn with_engines(mut self, counts: &BTreeMap<EngineKind, u32>) -> MachineConfig {
        let of_kind = |kind: &EngineKind| {
            let least = u32::from(EngineKind::STANDARD.contains(kind));
            let count = counts.get(kind).copied().unwrap_or_default().max(least);
            repeat_n(*kind, count as usize)
        };
        let kinds: Vec<EngineKind> = EngineKind::ALL.iter().flat_map(of_kind).collect();
        self.gpu.nodes = tidegate_softgpu::NodeConfig::of_classes(&kinds);
        self
    }
}

/// A configuration that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    /// None, or more than can be linked.
    #[error("gpu.physical_gpus is {0}: link from 1 to {max}", max = tidegate_softgpu::MAX_PHYSICAL_GPUS)]
    PhysicalGpus(u32),
    /// None, or more than the hardware has room for.
    #[error(
        "the hardware has {0} engines, nodes times physical GPUs: give it from 1 to {max}",
        max = tidegate_softgpu::MAX_ENGINES
    )]
    Engines(usize),
    /// Native fences on hardware that cannot store them whole.
    #[error(
        "native fences need 64-bit atomics: set driver.native_fence to false, or gpu.atomics_64bit to true"
    )]
    NativeFencesWithout64BitAtomics,
    /// A display that refreshes too often.
    #[error(
        "gpu.display refreshes every {0} ns: give it at least {min} ns",
        min = tidegate_softgpu::MIN_REFRESH_PERIOD_NS
    )]
    RefreshPeriod(u64),
    /// A stride that no fence page has.
    #[error("driver.fence_stride_bytes is {0}: it must be a power of two from 8 to 4096")]
    Stride(u32),
    /// Dedicated doorbells, and none of them.
    #[error("driver.doorbells: a GPU with dedicated doorbells has at least 1")]
    NoDoorbell,
}

/// Why a machine did not come up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// Its configuration contradicts itself.
    #[error("the machine's configuration contradicts itself: {0}")]
    Config(#[from] BadConfig),
    /// The adapter did not start.
    #[error("the adapter did not start: {0}")]
    Start(#[from] StartError),
    /// A machine has at least one adapter, and they are counted from 0.
    #[error("there is no such adapter; name one that the machine was built with")]
    NoAdapter,
    /// A process could not open it.
    #[error("a process could not open the adapter: {0}")]
    Open(Status),
    /// A device could not be made.
    #[error(transparent)]
    Device(#[from] tidegate_d3d12::Error),
    /// A driver could not be made.
    #[error("{0}")]
    Driver(String),
}

/// A run in which an agent panicked, in which no agent could move before all had ended, or in which
/// locks and waits made a circle.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the run did not complete: {}", self.lines().join("; "))]
pub struct IncompleteRun {
    /// Blocked agents, panics, and the time of the end.
    pub report: Box<RunReport>,
    /// The waits of agents, queues and engines at the standstill ([`Machine::standstill`]).
    pub waits: Vec<String>,
}

impl IncompleteRun {
    /// Returns the panics of agents, the circles of waits, and then the waits.
    pub fn lines(&self) -> Vec<String> {
        let panics = self.report.panics.iter();
        panics
            .chain(self.report.wait_circles.iter())
            .chain(self.waits.iter().filter(|_| !self.report.blocked.is_empty()))
            .cloned()
            .collect()
    }
}

/// First address of system memory on the bus; local memory lies far above.
const SYSTEM_MEMORY_BASE: PhysicalAddress = PhysicalAddress(0x1_0000);

/// Hardware as the machine starts and stops it. Everything else of it is between it and its driver.
pub trait Hardware: Send + Sync {
    /// Starts the engines. The adapter has started by then, and with it the driver.
    fn start(&self);

    /// Stops the engines.
    fn stop(&self);

    /// Queues whose head is a wait that the hardware holds back, for [`Machine::standstill`].
    fn parked_waits(&self) -> Vec<ParkedWait> {
        Vec::new()
    }
}

impl Hardware for SoftGpu {
    fn start(&self) {
        SoftGpu::start(self);
    }

    fn stop(&self) {
        SoftGpu::stop(self);
    }

    fn parked_waits(&self) -> Vec<ParkedWait> {
        SoftGpu::parked_waits(self)
    }
}

/// Hardware with its driver, and the kernel's configuration for the two.
pub struct AdapterParts {
    /// The hardware.
    pub hardware: Arc<dyn Hardware>,
    /// Its driver.
    pub driver: Arc<dyn Driver>,
    /// The kernel.
    pub kernel: AdapterConfig,
}

/// What the parts of an adapter are assembled on.
pub struct Bus<'m> {
    /// The platform of the machine.
    pub platform: &'m Platform,
    /// The memory that all adapters share.
    pub system_memory: &'m PhysicalMemory,
    /// Number of the adapter on a machine of several; `None` on a machine of one.
    pub ordinal: Option<u32>,
}

impl Bus<'_> {
    /// Distance of the adapter's window for local memory from the first adapter's.
    pub fn local_window(&self) -> u64 {
        u64::from(self.ordinal.unwrap_or(0)) * LOCAL_WINDOW_BYTES
    }
}

/// The software GPU of an adapter that has it, and the reference driver.
struct Reference {
    gpu: Arc<SoftGpu>,
    /// `None` with another driver on it.
    driver: Option<Arc<ReferenceDriver>>,
}

/// A driver, and the same as the reference driver if it is that one.
type MadeDriver = (Arc<dyn Driver>, Option<Arc<ReferenceDriver>>);
type Assembled = (AdapterParts, Option<Reference>);
type Assemble<'a> = Box<dyn FnOnce(&Bus<'_>) -> Result<Assembled, MachineError> + 'a>;

/// Assembles a machine, adapter by adapter, in the order in which they were added.
///
/// [`MachineBuilder::start`] does for each: 1. hardware; 2. driver; 3. kernel, which starts the
/// driver; 4. the engines. A stop goes the other way.
pub struct MachineBuilder<'a> {
    platform: Platform,
    adapters: Vec<Assemble<'a>>,
    contradiction: Option<BadConfig>,
}

impl<'a> MachineBuilder<'a> {
    /// Adds an adapter of any hardware and driver.
    pub fn adapter(mut self, assemble: impl FnOnce(&Bus<'_>) -> AdapterParts + 'a) -> Self {
        self.adapters.push(Box::new(|bus| Ok((assemble(bus), None))));
        self
    }

    /// Adds an adapter of the software GPU and the reference driver.
    pub fn reference(self, config: MachineConfig) -> Self {
        self.reference_behind(config, |driver| driver)
    }

    /// Adds the same, with `wrap` around the driver: a recording or a faulty driver.
    pub fn reference_behind(
        self,
        config: MachineConfig,
        wrap: impl FnOnce(Arc<dyn Driver>) -> Arc<dyn Driver> + 'a,
    ) -> Self {
        let driver = config.driver.clone();
        self.on_software_gpu(config, move |bus, gpu| {
            let driver = ReferenceDriver::new(bus.platform, gpu, driver);
            Ok((wrap(driver.clone()), Some(driver)))
        })
    }

    /// Adds an adapter of the software GPU and the driver that `make` returns, or its reason why
    /// there is none. The reference driver's configuration is unused.
    pub fn driven(
        self,
        config: MachineConfig,
        make: impl FnOnce(&Bus<'_>, Arc<SoftGpu>) -> Result<Arc<dyn Driver>, String> + 'a,
    ) -> Self {
        self.on_software_gpu(config, move |bus, gpu| {
            Ok((make(bus, gpu).map_err(MachineError::Driver)?, None))
        })
    }

    fn on_software_gpu(
        mut self,
        mut config: MachineConfig,
        make: impl FnOnce(&Bus<'_>, Arc<SoftGpu>) -> Result<MadeDriver, MachineError> + 'a,
    ) -> Self {
        // spec: NF-302
        let checked = config.check();
        self.contradiction = self.contradiction.or(checked.err());
        self.adapters.push(Box::new(move |bus| {
            if let Some(ordinal) = bus.ordinal {
                config.gpu.local_memory_base.0 += bus.local_window();
                config.gpu.lane_group = format!("GPU {ordinal}");
            }
            let gpu = SoftGpu::new(bus.platform, bus.system_memory, config.gpu);
            let (driver, reference) = make(bus, gpu.clone())?;
            let parts = AdapterParts { hardware: gpu.clone(), driver, kernel: config.kernel };
            Ok((parts, Some(Reference { gpu, driver: reference })))
        }));
        self
    }

    /// Assembles and starts the machine.
    ///
    /// # Errors
    /// [`MachineError::NoAdapter`] for a machine of none; a configuration that contradicts itself;
    /// what an adapter or its driver contradicts at start.
    pub fn start(self) -> Result<Machine, MachineError> {
        let MachineBuilder { platform, adapters, contradiction } = self;
        contradiction.map_or(Ok(()), Err)?;
        if adapters.is_empty() {
            return Err(MachineError::NoAdapter);
        }
        let system_memory = PhysicalMemory::new(&platform, SYSTEM_MEMORY_BASE);
        let names = ObjectNames::new(&platform);
        let several = adapters.len() > 1;
        let mut units = Vec::with_capacity(adapters.len());
        for (ordinal, assemble) in (0..).zip(adapters) {
            let ordinal = several.then_some(ordinal);
            let bus = Bus { platform: &platform, system_memory: &system_memory, ordinal };
            // 1. and 2.
            let (AdapterParts { hardware, driver, mut kernel }, reference) = assemble(&bus)?;
            kernel.ordinal = ordinal;
            // 3.
            let adapter = Adapter::start(&platform, driver, &system_memory, &names, kernel)?;
            // 4.
            hardware.start();
            units.push(Unit { hardware, adapter, reference });
        }
        let teardowns = platform.mutex("teardown reports", Teardowns::default());
        Ok(Machine { platform, units, teardowns })
    }
}

/// One adapter: hardware and kernel; the kernel holds the driver.
struct Unit {
    hardware: Arc<dyn Hardware>,
    adapter: Arc<Adapter>,
    reference: Option<Reference>,
}

impl Drop for Unit {
    fn drop(&mut self) {
        // The engines run until the adapter has ended: a paging operation in flight ends by their
        // interrupt.
        self.adapter.stop();
        self.hardware.stop();
    }
}

/// One or several adapters that reach the same system memory, with all that is behind them.
///
/// Methods without an index are about the first adapter.
pub struct Machine {
    platform: Platform,
    units: Vec<Unit>,
    /// The report of each device that was made by [`Machine::device`] and the like.
    teardowns: Mutex<Teardowns>,
}

/// The number of reports at which the reports of ended devices are first removed. The next is twice
/// the number of those that are left, so the cost of a device does not depend on their number.
const COLLECT_FIRST: usize = 64;

/// How long [`Machine::wait_idle`] waits, and how often it asks the adapters.
const IDLE_LIMIT_NS: u64 = 10_000_000_000;
const IDLE_STEP_NS: u64 = 1_000_000;

#[derive(Default)]
struct Teardowns {
    reports: Vec<TeardownReport>,
    collect_at: usize,
}

impl Drop for Machine {
    /// # Panics
    /// In debug builds, when a destroy call of the user-mode driver was refused: that is a leak
    /// which no call has returned.
    fn drop(&mut self) {
        if !current::is_panicking() {
            self.platform.rest_unless_run();
        }
        let refused = self.refused_destroys();
        debug_assert!(refused.is_empty() || current::is_panicking(), "{refused:?}");
    }
}

impl Machine {
    /// Begins a machine on `platform`.
    pub fn builder<'a>(platform: &Platform) -> MachineBuilder<'a> {
        MachineBuilder { platform: platform.clone(), adapters: Vec::new(), contradiction: None }
    }

    /// Builds and starts a machine of one adapter: the software GPU with the reference driver.
    ///
    /// # Errors
    /// As [`MachineBuilder::start`].
    pub fn new(platform: &Platform, config: MachineConfig) -> Result<Machine, MachineError> {
        Machine::builder(platform).reference(config).start()
    }

    /// A device, whose teardown is reported by the machine.
    fn reported(&self, device: Device) -> Device {
        let all = {
            let mut teardowns = self.teardowns.lock();
            teardowns.reports.push(device.teardown_report());
            if teardowns.reports.len() < teardowns.collect_at.max(COLLECT_FIRST) {
                return device;
            }
            std::mem::take(&mut teardowns.reports)
        };
        let is_needed = |of: &TeardownReport| !of.is_complete() || !of.refused().is_empty();
        let needed: Vec<TeardownReport> = all.into_iter().filter(is_needed).collect();
        let mut teardowns = self.teardowns.lock();
        teardowns.collect_at = 2 * needed.len();
        teardowns.reports.extend(needed);
        device
    }

    /// The destroy calls of this machine's devices, their queues and their resources that the
    /// kernel refused. Each left an object behind.
    pub fn refused_destroys(&self) -> Vec<RefusedDestroy> {
        let reports = self.teardowns.lock().reports.clone();
        reports.iter().flat_map(TeardownReport::refused).collect()
    }

    /// The platform that it runs on.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// How many adapters there are.
    pub fn adapter_count(&self) -> usize {
        self.units.len()
    }

    /// The software GPU of the first adapter.
    ///
    /// # Panics
    /// As [`Machine::gpu_at`].
    pub fn gpu(&self) -> &Arc<SoftGpu> {
        self.gpu_at(0)
    }

    /// The software GPU of adapter `index`.
    ///
    /// # Panics
    /// When there is no such adapter, or it has other hardware.
    pub fn gpu_at(&self, index: usize) -> &Arc<SoftGpu> {
        &self.reference_at(index).gpu
    }

    /// The reference driver of the first adapter, for its record of broken contracts.
    ///
    /// # Panics
    /// As [`Machine::driver_at`].
    pub fn driver(&self) -> &Arc<ReferenceDriver> {
        self.driver_at(0)
    }

    /// The reference driver of adapter `index`.
    ///
    /// # Panics
    /// When there is no such adapter, or it has another driver.
    pub fn driver_at(&self, index: usize) -> &Arc<ReferenceDriver> {
        let driver = self.reference_at(index).driver.as_ref();
        driver.expect("the adapter has the reference driver")
    }

    fn reference_at(&self, index: usize) -> &Reference {
        let reference = self.units[index].reference.as_ref();
        reference.expect("the adapter has the software GPU")
    }

    /// The kernel, for its counts.
    pub fn adapter(&self) -> &Arc<Adapter> {
        self.adapter_at(0)
    }

    /// The kernel's side of adapter `index`.
    ///
    /// # Panics
    /// When there is no such adapter.
    pub fn adapter_at(&self, index: usize) -> &Arc<Adapter> {
        &self.units[index].adapter
    }

    /// A new process. The caller ends it: by [`Process::close`] when its queued work is done, or by
    /// [`Process::terminate`]. [`Machine::device_in`] makes devices in it.
    ///
    /// # Errors
    /// What the kernel refuses.
    #[track_caller]
    pub fn process(&self, name: &str) -> Result<Arc<Process>, MachineError> {
        let _call = self.platform.enter_call("Machine::process");
        self.process_on(0, name)
    }

    /// The same on adapter `index`.
    ///
    /// # Errors
    /// As [`Machine::open_on`].
    #[track_caller]
    pub fn process_on(&self, index: usize, name: &str) -> Result<Arc<Process>, MachineError> {
        let _call = self.platform.enter_call("Machine::process_on");
        let unit = self.units.get(index).ok_or(MachineError::NoAdapter)?;
        unit.adapter.open(name).map_err(MachineError::Open)
    }

    /// A new process of this kind on adapter `index`.
    ///
    /// # Errors
    /// As [`Machine::open_on`].
    pub fn process_of_kind(
        &self,
        index: usize,
        name: &str,
        kind: ProcessKind,
    ) -> Result<Arc<Process>, MachineError> {
        let unit = self.units.get(index).ok_or(MachineError::NoAdapter)?;
        unit.adapter.open_as(name, kind).map_err(MachineError::Open)
    }

    /// The same with the privilege to raise priorities (SE_INC_BASE_PRIORITY): its contexts may be
    /// in the bands FOCUS and REALTIME.
    ///
    /// # Errors
    /// As [`Machine::process`].
    pub fn privileged_process(&self, name: &str) -> Result<Arc<Process>, MachineError> {
        self.privileged_process_on(0, name)
    }

    /// The same on adapter `index`.
    ///
    /// # Errors
    /// As [`Machine::open_on`].
    pub fn privileged_process_on(
        &self,
        index: usize,
        name: &str,
    ) -> Result<Arc<Process>, MachineError> {
        let unit = self.units.get(index).ok_or(MachineError::NoAdapter)?;
        unit.adapter.open_privileged(name).map_err(MachineError::Open)
    }

    /// A device in `process`, whose name and privilege count instead of those in `options`.
    ///
    /// # Errors
    /// As [`Machine::device`].
    #[track_caller]
    pub fn device_in(
        &self,
        process: &Arc<Process>,
        options: DeviceOptions,
    ) -> Result<Device, MachineError> {
        let _call = self.platform.enter_call("Machine::device_in");
        let options = DeviceOptions { process_name: process.name().to_owned(), ..options };
        Ok(self.reported(Device::new(&self.platform, process.clone(), options)?))
    }

    /// Removes adapter `index` while processes may use it: its engines stop, and then the kernel's
    /// side is removed as [`Adapter::remove`] says. The other adapters go on, also with fences that
    /// they share with it.
    ///
    /// # Panics
    /// When there is no such adapter.
    pub fn remove_adapter(&self, index: usize) {
        let unit = &self.units[index];
        unit.hardware.stop();
        unit.adapter.remove();
    }

    /// Waits until no driver owes an end of work, also of work that the kernel made for itself; at
    /// most for 10 s, in which a hang is found. Called inside of a run whose drivers are judged at
    /// its end: what is in flight then seems to have no end. Returns whether all work has ended.
    pub fn wait_idle(&self) -> bool {
        let limit = self.platform.now().after(IDLE_LIMIT_NS);
        while self.units.iter().any(|unit| unit.adapter.has_due_work()) {
            let now = self.platform.now();
            if now >= limit {
                return false;
            }
            self.platform.sleep_until(now.after(IDLE_STEP_NS));
        }
        true
    }

    /// Describes a run that stood still: the wait of each blocked thread and service, of each queue
    /// that the kernel holds back, and of each queue that engines hold back; then the fences that
    /// lost a process which could have signalled them.
    pub fn standstill(&self, report: &RunReport) -> Vec<String> {
        let mut lines: Vec<String> = report
            .blocked
            .iter()
            .map(|(agent, what)| format!("'{agent}' waits for {what}"))
            .collect();
        let services = report.blocked_services.iter();
        lines.extend(services.map(|(agent, what)| format!("service '{agent}' waits for {what}")));
        if let Some(found) = self.platform.hazard_report() {
            lines.extend(found.deadlocks.iter().chain(&found.unsignalled).map(ToString::to_string));
        }
        for unit in &self.units {
            let on_engines = unit.hardware.parked_waits().into_iter();
            let on_engines = on_engines
                .filter_map(|w| unit.adapter.describe_wait(w.queue, w.current_value, w.value));
            let waits = unit.adapter.pending_waits().into_iter().chain(on_engines);
            lines.extend(waits.map(|w| format!("queue {} waits for {w}", w.queue)));
            let lost = unit.adapter.lost_signals().into_iter();
            lines.extend(lost.map(|lost| format!("fence '{}': {lost}", lost.fence)));
            lines.extend(unit.adapter.outstanding_work().iter().map(ToString::to_string));
            lines.extend(
                unit.adapter.driver_faults().iter().map(|fault| format!("the driver's {fault}")),
            );
            lines.extend(
                unit.adapter.bug_checks().iter().map(|bug| format!("the adapter stopped: {bug}")),
            );
        }
        lines
    }

    /// The call surface of a new process.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn open(&self, process_name: &str) -> Result<Arc<dyn Kernel>, MachineError> {
        self.open_on(0, process_name)
    }

    /// The call surface of a process on adapter `index`. A program that uses several adapters opens
    /// each of them.
    ///
    /// # Errors
    /// [`MachineError::NoAdapter`] when there is no such adapter; what the kernel refuses.
    pub fn open_on(
        &self,
        index: usize,
        process_name: &str,
    ) -> Result<Arc<dyn Kernel>, MachineError> {
        Ok(self.process_on(index, process_name)?)
    }

    /// A device in a process of its own.
    ///
    /// # Errors
    /// As [`Machine::open`], and what the device's options ask in vain.
    #[track_caller]
    pub fn device(&self, options: DeviceOptions) -> Result<Device, MachineError> {
        let _call = self.platform.enter_call("Machine::device");
        self.device_on(0, options)
    }

    /// The same on adapter `index`.
    ///
    /// # Errors
    /// As [`Machine::open_on`] and [`Machine::device`].
    #[track_caller]
    pub fn device_on(&self, index: usize, options: DeviceOptions) -> Result<Device, MachineError> {
        let _call = self.platform.enter_call("Machine::device_on");
        let process = match options.may_raise_priority {
            true => self.privileged_process_on(index, &options.process_name)?,
            false => self.process_on(index, &options.process_name)?,
        };
        Ok(self.reported(Device::new(&self.platform, process, options)?))
    }

    /// Runs `main` as an application on this machine, to its end, and returns its value. `main` may
    /// borrow from the caller. The machine can be run again: work that is queued goes on then, and
    /// between two runs the machine rests (on [`Platform::host`] it goes on meanwhile). What
    /// user-mode queues logged is on the timeline when the run ends, if there is one.
    ///
    /// # Errors
    /// [`IncompleteRun`] when an agent panicked, or when no agent could move any more; `main` has
    /// ended then, too.
    ///
    /// # Panics
    /// On a cooperative platform, inside an agent of the same machine.
    pub fn run<R>(&self, main: impl FnOnce() -> R) -> Result<R, IncompleteRun> {
        let (value, report) = self.run_to_report(main);
        match value {
            Some(value) if report.completed() => Ok(value),
            _ => Err(self.incomplete(report)),
        }
    }

    fn incomplete(&self, report: RunReport) -> IncompleteRun {
        let waits = self.standstill(&report);
        IncompleteRun { report: Box::new(report), waits }
    }

    /// Runs `main` as [`Machine::run`] does. Returns its value, unless it panicked, and the report
    /// of the run.
    pub fn run_to_report<R>(&self, main: impl FnOnce() -> R) -> (Option<R>, RunReport) {
        let (mut main, mut value) = (Some(main), None);
        let report = self.run_lent(&mut || value = main.take().map(|main| main()));
        (value, report)
    }

    /// Runs the application. Compiled once: a copy for each application would be most of the code
    /// of a program with many.
    fn run_lent(&self, main: &mut dyn FnMut()) -> RunReport {
        let report = self.platform.run_scoped(main);
        for unit in &self.units {
            unit.adapter.read_fence_logs();
        }
        report
    }
}
