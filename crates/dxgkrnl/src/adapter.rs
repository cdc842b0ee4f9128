//! Owns an adapter: one driver, what it declared, and all kernel state that hangs on it. Starts and
//! stops it.
//!
//! Start, in order: 1. the driver's version; 2. features are negotiated; 3. StartDevice, in which
//! the driver asks for them; 4. caps, of declared features too (a contradiction fails the start);
//! 5. entries that the driver lacks are closed; 6. interrupt. A broken driver contract later is a
//! [`BugCheck`]: it is kept, devices are lost, and calls return DEVICE_REMOVED.

use crate::context::Context;
use crate::declaration::Declaration;
use crate::device::Device;
use crate::display::Display;
use crate::doorbell::{Doorbell, DoorbellTable, Victim};
use crate::driver_fault::DriverFault;
use crate::entry::{self, OpenGroups};
use crate::error::{BugCheck, StartError};
use crate::feature::{FeatureSetting, Features};
use crate::fence::FenceTable;
use crate::fence::log::{LogMode, LogTimeFault};
use crate::fence::residency::Residency;
use crate::fence::storage::Grave;
use crate::gone::Gone;
use crate::hwqueue::{HwQueue, HwQueueTable};
use crate::interrupt::{self, DpcQueue};
use crate::memory::{AddressSpace, ContextAllocations, LocalMemory};
use crate::power::{Power, PowerManagement, Powered};
use crate::process::Process;
use crate::registry::Registry;
use crate::sched::idle::IdleContexts;
use crate::sched::{FenceOperations, Limits, VidSch};
use crate::stats::{Count, KernelStats, Stats};
use crate::supervisor::{self, Supervisor};
use crate::tdr::{Tdr, TdrConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_ddi::feature::NativeFenceOsCaps;
use tidegate_ddi::memory::{PageTableShape, Segment};
use tidegate_ddi::scheduling::SetupPriorityBands;
use tidegate_ddi::{
    AdapterCaps, Driver, EngineId, FeatureId, FeatureState, NativeFenceCaps, OsHandle, Passive,
    StartInfo, Status, UserModeSubmissionCaps, VidSchCaps,
};
use tidegate_platform::current;
use tidegate_platform::{
    Mutex, PhysicalAddress, PhysicalMemory, Platform, PlatformKind, ServiceHandle, Word,
};
use tidegate_trace::{Kind, LaneId, LaneKind, Record};

/// Where the interrupt routine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptDelivery {
    /// The interrupt routine on the raising agent at once, the deferred routine at the end of its
    /// turn.
    Inline,
    /// Both on an agent of their own, as on another processor.
    Worker,
}

/// What a kernel is configured with.
#[derive(Clone, Copy, Debug)]
pub struct AdapterConfig {
    /// DXGK_FEATURE_HWSCH.
    pub hardware_scheduling: FeatureSetting,
    /// DXGK_FEATURE_NATIVE_FENCE; rests on hardware scheduling.
    pub native_fence: FeatureSetting,
    /// DXGK_FEATURE_USER_MODE_SUBMISSION; rests on native fences.
    pub user_mode_submission: FeatureSetting,
    /// The fence types that this kernel makes, and says so. Without the optimised one DEFAULT
    /// fences stand in system memory, whatever segments the driver names. Today's Windows answers
    /// GetOSCaps with neither.
    pub native_fence_os_caps: NativeFenceOsCaps,
    /// Most bytes of fence storage in local memory; the oldest leaves for system memory when there
    /// would be more.
    pub fence_storage_budget_bytes: u64,
    /// How long a paging operation waits for engines that use what it sends out, in nanoseconds,
    /// before it makes do without.
    pub paging_patience_ns: u64,
    /// Verification of drivers that patch addresses: a part of a split buffer that leaves a binding
    /// behind is refused.
    pub verify_split_buffers: bool,
    /// Where interrupts run.
    pub interrupts: InterruptDelivery,
    /// Entries in each fence log of a user-mode queue: 84 in the published 4 KiB, fewer for tests.
    /// Logging is mandatory: 0 makes no logs and is outside of the contract. It is for the bench
    /// that measures the cost of a log entry (decision 14).
    pub log_entries: u32,
    /// A signal below its fence's value that does not announce it is refused, instead of made,
    /// counted and reported.
    pub strict_fence_rewind: bool,
    /// Whether adapter and engines may lose power.
    pub power: PowerManagement,
    /// When a GPU counts as hung, and what is done then.
    pub tdr: TdrConfig,
    /// What the driver is told of priority bands.
    pub priority_bands: SetupPriorityBands,
    /// How long a packet may keep its engine, in nanoseconds, while packets of contexts of the same
    /// priority wait for it.
    pub quantum_ns: u64,
    /// Whether somebody looks when deadlines have come. Without, no quantum ends and nothing is
    /// found to hang: for explorations, where time stands still as long as anybody can move.
    pub supervised: bool,
    /// Which adapter of its machine it is, for people: adapter n's lanes on the timeline are those
    /// of "GPU n"; `None` where there is only one.
    pub ordinal: Option<u32>,
}

impl AdapterConfig {
    /// All features and fence types on, without a budget; interrupts on a worker in virtual time
    /// (the engine is not held up by them), else inline.
    pub fn standard(platform: &Platform) -> AdapterConfig {
        let interrupts = match platform.kind() {
            PlatformKind::Virtual => InterruptDelivery::Worker,
            _ => InterruptDelivery::Inline,
        };
        AdapterConfig {
            hardware_scheduling: FeatureSetting::ON,
            native_fence: FeatureSetting::ON,
            user_mode_submission: FeatureSetting::ON,
            native_fence_os_caps: NativeFenceOsCaps::all(),
            fence_storage_budget_bytes: u64::MAX,
            paging_patience_ns: 2_000_000,
            verify_split_buffers: true,
            interrupts,
            log_entries: 84,
            strict_fence_rewind: false,
            power: PowerManagement::AlwaysOn,
            tdr: TdrConfig::standard(),
            priority_bands: SetupPriorityBands::default(),
            quantum_ns: 10_000_000,
            supervised: platform.kind() != PlatformKind::Explored,
            ordinal: None,
        }
    }
}

/// A wait that VidSch holds, for reports of machines that stand still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWait {
    /// The tag of the context or hardware queue.
    pub tag: u32,
    /// The fence's name.
    pub fence: String,
    /// What is waited for.
    pub value: u64,
    /// What the fence is at; 0 where the CPU cannot see it.
    pub current: u64,
    /// Who could have signalled it and was ended, in words.
    pub lost: Option<String>,
}

impl fmt::Display for PendingWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fence '{}' to reach {} (it is at {})", self.fence, self.value, self.current)
    }
}

/// Why nothing begins on an adapter any more.
#[derive(Default)]
struct Condition {
    bug_checks: Vec<BugCheck>,
    removed: bool,
}

/// One adapter: a driver and the kernel's state for it.
pub struct Adapter {
    pub(crate) platform: Platform,
    /// With the entries that it lacks closed; see `entry`.
    driver: Arc<dyn Driver>,
    /// Stands in for the driver once the adapter has stopped.
    gone: Gone,
    features: Arc<Features>,
    pub(crate) caps: AdapterCaps,
    pub(crate) native_fence_caps: NativeFenceCaps,
    /// Whether the driver schedules by bands.
    pub(crate) priority_bands: bool,
    /// `None` while no node declares user-mode submission.
    pub(crate) user_mode_submission_caps: Option<UserModeSubmissionCaps>,
    pub(crate) shape: PageTableShape,
    pub(crate) segments: Vec<Segment>,
    pub(crate) config: AdapterConfig,
    pub(crate) system_memory: PhysicalMemory,
    /// The interrupt lock: DIRQL. Serialises the interrupt routine with UpdateMonitoredValues.
    pub(crate) interrupt_lock: Mutex<()>,
    /// The doorbell transition lock: every connect, disconnect and destroy; owned by an agent, see
    /// `doorbell`.
    pub(crate) transition: Mutex<()>,
    /// Fence storage in local memory.
    pub(crate) residency: Residency,
    /// Allocations in local memory.
    pub(crate) memory: LocalMemory,
    /// What drivers have for the states of their contexts.
    pub(crate) context_allocations: ContextAllocations,
    /// The system process's address space, once fences or save areas are mapped there; gone after
    /// stop.
    pub(crate) system_process: Mutex<Option<Arc<AddressSpace>>>,
    /// What is mapped where shareable fences stood that are over.
    grave: OnceLock<Grave>,
    pub(crate) fences: Mutex<FenceTable>,
    pub(crate) sched: Mutex<VidSch>,
    /// What engines are turned to that would keep the last context; gone after stop.
    pub(crate) idle_contexts: Mutex<Option<IdleContexts>>,
    pub(crate) contexts: Mutex<Registry<Context>>,
    /// Hardware contexts of all processes.
    pub(crate) hw_contexts: Mutex<Registry<Context>>,
    pub(crate) hw_queues: Mutex<HwQueueTable>,
    pub(crate) doorbells: Mutex<DoorbellTable>,
    /// Doorbells that the driver took away inside the present transition; see `doorbell`.
    pub(crate) victims: Mutex<Vec<Victim>>,
    /// Devices of all processes.
    pub(crate) devices: Mutex<Registry<Device>>,
    /// Orders readings of fence logs among each other and with changes of their places; held over
    /// the DDI calls of both.
    pub(crate) log_reading: Mutex<()>,
    /// What fence logs are to be like.
    pub(crate) log_mode: Mutex<LogMode>,
    pub(crate) log_faults: Mutex<Vec<LogTimeFault>>,
    /// The timeline's time at the GPU clock's 0, once it was asked for.
    pub(crate) gpu_clock_zero: OnceLock<u64>,
    pub(crate) dpc: DpcQueue,
    /// `None` for an adapter that only renders.
    pub(crate) display: Option<Display>,
    /// Adapters whose common doorbell its driver was given, by ordinal.
    pub(crate) peers: Mutex<BTreeSet<u32>>,
    pub(crate) power: Power,
    /// The timeline's lane of suspensions and power states, once there was one.
    pub(crate) power_lane: OnceLock<LaneId>,
    /// The timeline's lane of processes that ended, once there was one.
    pub(crate) process_lane: OnceLock<LaneId>,
    /// The timeline's lane of interrupt and deferred routines.
    pub(crate) interrupt_lane: LaneId,
    pub(crate) stats: Stats,
    /// Looks when deadlines have come.
    pub(crate) supervisor: Supervisor,
    pub(crate) tdr: Tdr,
    next_handle: Word,
    condition: Mutex<Condition>,
    pub(crate) faults: Mutex<Vec<DriverFault>>,
    /// Processes that have it open.
    pub(crate) processes: Mutex<Vec<Weak<Process>>>,
    /// One removal at a time; held over all of it.
    pub(crate) removing: Mutex<()>,
    /// Set when the driver has stopped: it is not called any more.
    pub(crate) stopped: OnceLock<()>,
    pub(crate) interrupt_worker: Mutex<Option<ServiceHandle>>,
}

impl Adapter {
    /// Starts an adapter on `driver`.
    #[doc(alias = "DxgkDdiStartDevice")]
    pub fn start(
        platform: &Platform,
        driver: Arc<dyn Driver>,
        system_memory: &PhysicalMemory,
        config: AdapterConfig,
    ) -> Result<Arc<Adapter>, StartError> {
        let level = Passive::enter();
        config.tdr.check()?;
        // 1. Which contract is it written for?
        let version = driver.ddi_version();
        let (oldest, newest) = (entry::OLDEST, entry::NEWEST);
        if !(oldest..=newest).contains(&version) {
            return Err(StartError::UnknownDdiVersion { states: version, oldest, newest });
        }
        // 2. What can both sides do?
        let interface = entry::admit(&driver, OpenGroups::new(version, |_| false));
        let features = Arc::new(Features::negotiate(&level, &*interface, &config));
        // 3. The kernel's side of the callbacks exists before the adapter does: the driver may keep
        //    it from its first call on.
        let callbacks = Arc::new(interrupt::KernelCallbacks::new());
        let start = StartInfo {
            callbacks: callbacks.clone(),
            features: features.clone(),
            system_memory: system_memory.clone(),
        };
        driver.start_device(&level, start).map_err(StartError::Driver)?;
        // 4. What does it declare?
        let declared = Declaration::query(&level, &driver, &features);
        let declared = declared.inspect_err(|_| driver.stop_device(&level))?;
        // 5. From here on it is called through what is open.
        let driver = entry::admit(&driver, declared.open_groups(version));
        let priority_bands =
            declared.set_up_priority_bands(&level, &*driver, config.priority_bands);
        let priority_bands = priority_bands.inspect_err(|_| driver.stop_device(&level))?;
        let adapter = Arc::new(Adapter {
            platform: platform.clone(),
            shape: declared.shape,
            memory: LocalMemory::new(platform, &declared.segments),
            segments: declared.segments,
            residency: Residency::new(platform),
            context_allocations: ContextAllocations::new(platform),
            system_process: platform.mutex("system process", None),
            sched: platform
                .mutex("VidSch", VidSch::new(&declared.caps, limits(&declared.caps, &config))),
            idle_contexts: platform.mutex("idle contexts", None),
            power: Power::new(platform, &config, declared.caps.engine_count() as usize),
            display: declared.caps.display.map(|display| Display::new(platform, display)),
            gone: Gone { version, caps: declared.caps.clone(), shape: declared.shape },
            caps: declared.caps,
            native_fence_caps: declared.native_fence,
            user_mode_submission_caps: declared.user_mode_submission,
            driver,
            priority_bands,
            features,
            config,
            system_memory: system_memory.clone(),
            interrupt_lock: platform.mutex("interrupt lock", ()),
            transition: platform.mutex("doorbell transition", ()),
            grave: OnceLock::new(),
            fences: platform.mutex("fence table", FenceTable::default()),
            contexts: platform.mutex("contexts", Registry::default()),
            hw_contexts: platform.mutex("hardware contexts", Registry::default()),
            hw_queues: platform.mutex("hardware queues", HwQueueTable::default()),
            doorbells: platform.mutex("doorbells", DoorbellTable::default()),
            victims: platform.mutex("victims", Vec::new()),
            devices: platform.mutex("devices", Registry::default()),
            log_reading: platform.mutex("reading of fence logs", ()),
            log_mode: platform.mutex("mode of fence logs", LogMode::default()),
            log_faults: platform.mutex("faults in fence logs", Vec::new()),
            gpu_clock_zero: OnceLock::new(),
            dpc: DpcQueue::new(platform),
            peers: platform.mutex("peers of an adapter", BTreeSet::new()),
            power_lane: OnceLock::new(),
            process_lane: OnceLock::new(),
            interrupt_lane: platform.lane(LaneKind::Interrupt, &lane_group(config), "interrupts"),
            stats: Stats::new(platform),
            supervisor: Supervisor::new(platform, config.supervised),
            tdr: Tdr::new(platform, &config.tdr, config.supervised),
            next_handle: platform.page(1).word(0),
            condition: platform.mutex("bug checks", Condition::default()),
            faults: platform.mutex("faults of a driver", Vec::new()),
            processes: platform.mutex("processes of an adapter", Vec::new()),
            removing: platform.mutex("removal of an adapter", ()),
            stopped: OnceLock::new(),
            interrupt_worker: platform.mutex("interrupt worker", None),
        });
        // 6. It may interrupt.
        callbacks.attach(&adapter);
        let worker = interrupt::connect(&adapter);
        *adapter.interrupt_worker.lock() = worker;
        supervisor::start(&adapter);
        if adapter.native_fence_caps.map_to_gpu_system_process {
            let space = adapter.system_space();
            space.inspect_err(|_| adapter.stop()).map_err(StartError::Driver)?;
        }
        if adapter.caps.lazy_context_switch {
            let contexts = IdleContexts::new(&adapter);
            let contexts = contexts.inspect_err(|_| adapter.stop()).map_err(StartError::Driver)?;
            *adapter.idle_contexts.lock() = Some(contexts);
        }
        Ok(adapter)
    }

    /// What was negotiated about a feature.
    #[doc(alias = "D3DKMTIsFeatureEnabled")]
    pub fn feature(&self, feature: FeatureId) -> FeatureState {
        self.features.state(feature)
    }

    /// A process opens the adapter.
    pub fn open(self: &Arc<Adapter>, process_name: &str) -> Result<Arc<Process>, Status> {
        Process::new(self, process_name, false)
    }

    /// The same for a process with the privilege to raise priorities (SE_INC_BASE_PRIORITY): its
    /// contexts may be in the bands FOCUS and REALTIME.
    pub fn open_privileged(
        self: &Arc<Adapter>,
        process_name: &str,
    ) -> Result<Arc<Process>, Status> {
        Process::new(self, process_name, true)
    }

    /// Physical adapters behind this one: as many bits has an engine affinity.
    pub fn physical_adapters(&self) -> u32 {
        self.caps.physical_adapters
    }

    /// Whether an interrupt may name this engine.
    pub(crate) fn check_engine(&self, engine: EngineId) -> Result<(), BugCheck> {
        if engine.node_ordinal as usize >= self.caps.nodes.len() {
            return Err(BugCheck::UnknownNode(engine.node_ordinal));
        }
        if engine.engine_ordinal >= self.physical_adapters() {
            return Err(BugCheck::UnknownPhysicalAdapter(engine.engine_ordinal));
        }
        Ok(())
    }

    /// Counts so far.
    pub fn stats(&self) -> KernelStats {
        self.stats.read()
    }

    /// The broken driver contract that stopped the adapter, if one did. What follows from it is not
    /// a bug check of its own.
    pub fn bug_checks(&self) -> Vec<BugCheck> {
        self.condition.lock().bug_checks.clone()
    }

    /// The driver, for a DDI call, on a device that has power until the call is over: no guard of
    /// policy state may be held.
    pub(crate) fn driver(&self) -> Powered<'_> {
        current::assert_no_guards("a DDI call");
        let awake = self.awake();
        // The driver is chosen inside the gate, through which DxgkDdiStopDevice goes alone.
        let inside = self.tdr.gate.enter();
        Powered { driver: self.present_driver(), _awake: awake, _inside: inside }
    }

    /// The driver, for a call that says itself whether the device has power, or that only comes
    /// from one that has.
    pub(crate) fn driver_as_it_is(&self) -> &dyn Driver {
        current::assert_no_guards("a DDI call");
        self.present_driver()
    }

    fn present_driver(&self) -> &dyn Driver {
        if self.is_stopped() { &self.gone } else { &*self.driver }
    }

    /// Whether the driver has stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    pub(crate) fn hw_queues_of(&self, which: impl Fn(&HwQueue) -> bool) -> Vec<Arc<HwQueue>> {
        let all = self.hw_queues.lock().live();
        all.into_iter().filter(|q| which(q)).collect()
    }

    /// Contexts of packets that are not being destroyed, in order of creation.
    pub(crate) fn contexts_of(&self, which: impl Fn(&Context) -> bool) -> Vec<Arc<Context>> {
        let all = self.contexts.lock().live();
        all.into_iter().filter(|c| which(c)).collect()
    }

    /// Hardware contexts that are not being destroyed, in order of creation.
    pub(crate) fn hw_contexts_of(&self, which: impl Fn(&Context) -> bool) -> Vec<Arc<Context>> {
        let all = self.hw_contexts.lock().live();
        all.into_iter().filter(|c| which(c)).collect()
    }

    pub(crate) fn doorbells_of(
        &self,
        which: impl Fn(&Doorbell) -> bool,
    ) -> impl Iterator<Item = Arc<Doorbell>> {
        let all = self.doorbells.lock().all();
        self.stats.add(Count::doorbells_walked, all.len() as u64);
        all.into_iter().filter(move |d| which(d))
    }

    /// The doorbells of one hardware queue: one, or two while a ring is resized.
    pub(crate) fn doorbells_of_queue(&self, hw_queue: OsHandle) -> Vec<Arc<Doorbell>> {
        let found = self.doorbells.lock().of_queue(hw_queue);
        self.stats.add(Count::doorbells_walked, found.len() as u64);
        found
    }

    /// Puts something that is about power, and ended now, on the timeline.
    pub(crate) fn record_power(&self, what: &str, start_ns: u64, arg: u64) {
        self.record_on((&self.power_lane, "power"), (Kind::Mark, what), start_ns, arg);
    }

    /// Puts the end of a process, which is over now, on the timeline.
    pub(crate) fn record_process(&self, what: &str, start_ns: u64) {
        self.record_on((&self.process_lane, "processes"), (Kind::Mark, what), start_ns, 0);
    }

    /// Records what began at `start_ns` and ends now, on a lane of the adapter that is made with
    /// its first record.
    pub(crate) fn record_on(
        &self,
        (lane, lane_name): (&OnceLock<LaneId>, &str),
        (kind, what): (Kind, &str),
        start_ns: u64,
        arg: u64,
    ) {
        let platform = &self.platform;
        if !platform.tracing() {
            return;
        }
        let made = || platform.lane(LaneKind::Interrupt, &lane_group(self.config), lane_name);
        let (lane, name) = (*lane.get_or_init(made), platform.trace_name(what));
        platform
            .record(Record::span(lane, kind, name, start_ns, platform.stamp_ns()).with_arg(arg));
    }

    /// Keeps a broken contract and stops the adapter. What breaks on an adapter that has stopped
    /// already is a consequence of that, and is not kept.
    // spec: PRE-054
    pub(crate) fn bug_check(self: &Arc<Adapter>, bug: BugCheck) {
        if self.keep_bug_check(bug) {
            self.lose_all_devices();
        }
    }

    /// The same for a caller that holds locks: the contract counts as broken at once, and the
    /// deferred routine loses the devices.
    pub(crate) fn stop_later(&self, bug: BugCheck) {
        if self.keep_bug_check(bug) {
            interrupt::report_stop(self);
        }
    }

    /// Keeps the first broken contract of an adapter that was not removed. Returns whether it was
    /// kept.
    // spec: PRE-092
    fn keep_bug_check(&self, bug: BugCheck) -> bool {
        let mut condition = self.condition.lock();
        let first = !condition.removed && condition.bug_checks.is_empty();
        if first {
            condition.bug_checks.push(bug);
        }
        first
    }

    /// Nothing begins any more: the adapter is being removed.
    // spec: PRE-095
    pub(crate) fn begin_removal(&self) {
        self.condition.lock().removed = true;
    }

    /// A call that stays in the driver has kept a removal from stopping it.
    pub(crate) fn note_stuck_in_driver(&self, bug: BugCheck) {
        self.condition.lock().bug_checks.push(bug);
    }

    /// DEVICE_REMOVED once a driver contract was broken or the adapter was removed.
    pub(crate) fn check(&self) -> Result<(), Status> {
        let condition = self.condition.lock();
        let stands = condition.bug_checks.is_empty() && !condition.removed;
        if stands { Ok(()) } else { Err(Status::DEVICE_REMOVED) }
    }

    /// DEVICE_REMOVED once the adapter was removed.
    pub(crate) fn check_present(&self) -> Result<(), Status> {
        if self.condition.lock().removed { Err(Status::DEVICE_REMOVED) } else { Ok(()) }
    }

    /// A handle that names a kernel object to the driver; never given twice, by no adapter of the
    /// platform: its upper part is the number of the adapter's timeline lane, which nobody else
    /// has, so that a handle of another adapter is a foreign one.
    pub(crate) fn new_handle(&self) -> OsHandle {
        OsHandle(u64::from(self.interrupt_lane.0) << 40 | self.new_number())
    }

    /// A number for an address space of this adapter; `None` when all are used up.
    pub(crate) fn new_address_space(&self) -> Option<u32> {
        u32::try_from(self.new_number()).ok()
    }

    fn new_number(&self) -> u64 {
        self.next_handle.fetch_add(1) + 1
    }

    /// What contexts and kernel-mode hardware queues did with fences in software until now, by
    /// their tags.
    pub fn fence_operations(&self) -> BTreeMap<u32, FenceOperations> {
        let now_ns = self.platform.stamp_ns();
        let mut all: BTreeMap<u32, FenceOperations> = BTreeMap::new();
        let of_contexts: Vec<_> = self.sched.lock().fence_operations(now_ns).collect();
        let of_queues = self.hw_queues_of(|_| true);
        let of_queues = of_queues.iter().map(|queue| (queue.tag, queue.fence_operations(now_ns)));
        for (tag, done) in of_contexts.into_iter().chain(of_queues) {
            *all.entry(tag).or_default() += done;
        }
        all
    }

    /// Waits that VidSch holds for contexts and kernel-mode hardware queues.
    pub fn pending_waits(&self) -> Vec<PendingWait> {
        let mut waits = self.sched.lock().pending_waits();
        waits.extend(self.hw_queues_of(|_| true).iter().flat_map(|q| q.pending_waits()));
        waits
    }

    /// What a hardware queue waits for whose wait names the cell at `current_value` on the bus: for
    /// reports of machines that stand still.
    pub fn describe_wait(
        &self,
        tag: u32,
        current_value: PhysicalAddress,
        value: u64,
    ) -> Option<PendingWait> {
        let fences = self.fences.lock().matching(|f| f.storage.current_at() == current_value);
        fences.first()?.pending(tag, value)
    }

    /// Where what is left of ended fences leads.
    pub(crate) fn grave(&self) -> &Grave {
        self.grave.get_or_init(|| Grave::new(&self.system_memory, self.caps.fence_history))
    }

    /// The system process's address space, where the driver asked for fences to be mapped in it.
    pub(crate) fn system_process(&self) -> Option<Arc<AddressSpace>> {
        let asked = self.native_fence_caps.map_to_gpu_system_process;
        asked.then(|| self.system_process.lock().clone()).flatten()
    }

    /// The same for whatever is mapped there; made when it is wanted first.
    pub(crate) fn system_space(self: &Arc<Adapter>) -> Result<Arc<AddressSpace>, Status> {
        let mut there = self.system_process.lock_device();
        if let Some(space) = &*there {
            return Ok(space.clone());
        }
        let space = Arc::new(AddressSpace::of_system_process(self)?);
        *there = Some(space.clone());
        Ok(space)
    }

    pub(crate) fn count(&self, count: Count) {
        self.stats.add(count, 1);
    }
}

impl Adapter {
    /// What its lanes on the timeline are grouped under.
    pub(crate) fn lane_group(&self) -> String {
        lane_group(self.config)
    }
}

/// When packets are asked for.
// spec: PRE-001, PRE-004, PRE-005, PRE-006
fn limits(caps: &AdapterCaps, config: &AdapterConfig) -> Limits {
    let aware = VidSchCaps::PREEMPTION_AWARE | VidSchCaps::MULTI_ENGINE_AWARE;
    Limits {
        preempts: caps.scheduling.contains(aware),
        quantum_ns: config.quantum_ns.max(1),
        timeout_ns: config.tdr.is_on().then_some(config.tdr.delay_ns),
    }
}

fn lane_group(config: AdapterConfig) -> String {
    config.ordinal.map_or_else(|| "GPU".to_owned(), |ordinal| format!("GPU {ordinal}"))
}
