//! The facts and the driver of one adapter, which every layer of the kernel has.
//!
//! Invariants: the first broken contract is kept, unless the adapter was removed before. Handles
//! are never given twice. See `driver` for the rules of a DDI call.

use super::declaration::Declaration;
use super::fault::{DriverFault, FAULTS_KEPT};
use super::feature::Features;
use super::removed::RemovedDriver;
use super::thread_gate::{Inside, ThreadGate};
use crate::config::AdapterConfig;
use crate::error::BugCheck;
use crate::port::Port;
use crate::stats::{Count, Stats};
use crate::timer::Timer;
use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use tidegate_calls::Status;
use tidegate_ddi::memory::{PageTableShape, Segment};
use tidegate_ddi::{
    AdapterCaps, Driver, EngineId, Irql, NativeFenceCaps, OsHandle, Passive, UserModeSubmissionCaps,
};
use tidegate_platform::current;
use tidegate_platform::{Mutex, PhysicalMemory, Platform, Word};
use tidegate_trace::{Kind, LaneId, LaneKind, Record};

/// What `power` does for every DDI call.
pub(crate) trait DevicePower: Send + Sync {
    /// Power until the guard is dropped; wakes a device in D3 as a whole. A DPC runs on a device
    /// that keeps its power.
    fn awake(&self, level: Irql<'_>) -> Awake<'_>;

    /// The same, with the contexts suspended until [`Awake::resume`] if this woke the device.
    fn awake_but_suspended(&self, level: &Passive) -> Awake<'_>;

    /// A guard that was counted is dropped.
    fn release(&self);

    /// Gives an engine its power, and keeps it until [`DevicePower::release_engine`]. A caller that
    /// may not wait gets [`EngineUse::Changing`] while another agent changes the power.
    fn use_engine(&self, level: Irql<'_>, port: &DriverPort, engine: EngineId) -> EngineUse;

    /// A DPC begins: the device keeps its power until [`DevicePower::end_dpc`]. Returns `false`
    /// where the device has none, or is about to lose it.
    fn begin_dpc(&self) -> bool;

    /// A DPC that was begun ends.
    fn end_dpc(&self);

    /// One user of an engine less.
    fn release_engine(&self, engine: EngineId);

    /// A doorbell of the engine was connected.
    fn doorbell_connected(&self, port: &DriverPort, engine: EngineId);
}

/// What a caller that uses an engine finds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineUse {
    /// It has power until it is released.
    Counted,
    /// Engines always have power, or the machine stopped.
    Uncounted,
    Changing,
}

/// The engine has power as long as this lives.
pub(crate) struct EngineInUse<'a> {
    counted: Option<(&'a dyn DevicePower, EngineId)>,
}

impl Drop for EngineInUse<'_> {
    fn drop(&mut self) {
        if let Some((power, engine)) = self.counted {
            power.release_engine(engine);
        }
    }
}

/// What happens on an adapter whose driver has broken the contract, or whose GPU hangs.
pub(crate) trait FailurePort: Send + Sync {
    /// Puts every device into error. Any level; the caller holds no lock.
    fn lose_devices(self: Arc<Self>, level: Irql<'_>);

    /// The driver did not take a hardware context off the run list in time: its engine is
    /// recovered. Returns whether the context's device still works.
    fn context_not_suspended(self: Arc<Self>, level: &Passive, context: OsHandle) -> bool;

    /// Work may have been announced to a hardware queue: the engines are sampled when the timeout
    /// delay is over.
    fn watch_for_hangs(&self);
}

/// The device has power as long as this lives.
pub(crate) struct Awake<'a> {
    counted: Option<&'a dyn DevicePower>,
    /// Contexts that stay suspended until this is dropped, when this call woke the device.
    suspended: Option<Box<dyn Any>>,
}

impl<'a> Awake<'a> {
    /// Power that nothing counts: it cannot go, or the caller is the one that changes it.
    pub(crate) fn uncounted() -> Awake<'a> {
        Awake { counted: None, suspended: None }
    }

    /// Power that `power` has counted.
    pub(crate) fn counted(power: &'a dyn DevicePower, suspended: Option<Box<dyn Any>>) -> Self {
        Awake { counted: Some(power), suspended }
    }

    /// Resumes the contexts of a device that this call woke. The device keeps its power until the
    /// guard is dropped.
    pub(crate) fn resume(mut self) -> Self {
        drop(self.suspended.take());
        self
    }
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        // First: the driver is called for it.
        drop(self.suspended.take());
        if let Some(power) = self.counted {
            power.release();
        }
    }
}

/// The driver of a device that has power.
pub(crate) struct Powered<'a> {
    driver: &'a dyn Driver,
    _awake: Awake<'a>,
    _inside: Inside<'a>,
}

impl<'a> Deref for Powered<'a> {
    type Target = dyn Driver + 'a;

    fn deref(&self) -> &Self::Target {
        self.driver
    }
}

/// Why nothing begins on an adapter any more.
#[derive(Default)]
struct Condition {
    bug_checks: Vec<BugCheck>,
    removed: bool,
}

/// What a [`DriverPort`] is made of.
pub(crate) struct PortParts {
    pub(crate) platform: Platform,
    /// With the entries that it lacks closed; see `entry`.
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) declared: Declaration,
    pub(crate) priority_bands: bool,
    pub(crate) features: Arc<Features>,
    pub(crate) config: AdapterConfig,
    pub(crate) system_memory: PhysicalMemory,
}

/// One adapter as every layer of the kernel sees it.
pub(crate) struct DriverPort {
    pub(crate) platform: Platform,
    driver: Arc<dyn Driver>,
    /// Stands in for the driver once the adapter has stopped.
    removed: RemovedDriver,
    pub(crate) features: Arc<Features>,
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
    /// Counts the threads that are inside the driver.
    pub(crate) threads: ThreadGate,
    power: Arc<dyn DevicePower>,
    /// What loses devices and recovers engines.
    pub(crate) failures: Port<dyn FailurePort>,
    pub(crate) timer: Arc<Timer>,
    pub(crate) stats: Stats,
    /// The timeline's lane of suspensions and power states, once there was one.
    power_lane: OnceLock<LaneId>,
    /// The timeline's lane of processes that ended, once there was one.
    process_lane: OnceLock<LaneId>,
    /// The timeline's lane of interrupt and deferred routines.
    pub(crate) interrupt_lane: LaneId,
    next_handle: Word,
    resets: Word,
    condition: Mutex<Condition>,
    faults: Mutex<Vec<DriverFault>>,
    /// Set when the driver has stopped: it is not called any more.
    stopped: OnceLock<()>,
}

impl DriverPort {
    /// The port of a driver that has started.
    pub(crate) fn new(parts: PortParts, power: Arc<dyn DevicePower>) -> Arc<DriverPort> {
        let PortParts { platform, driver, declared, features, config, .. } = parts;
        Arc::new(DriverPort {
            removed: RemovedDriver(Arc::clone(&driver)),
            caps: declared.caps,
            native_fence_caps: declared.native_fence,
            priority_bands: parts.priority_bands,
            user_mode_submission_caps: declared.user_mode_submission,
            shape: declared.shape,
            segments: declared.segments,
            system_memory: parts.system_memory,
            interrupt_lock: platform.mutex("interrupt lock", ()),
            threads: ThreadGate::new(&platform, config.tdr.is_on()),
            failures: Port::default(),
            timer: Timer::new(&platform),
            stats: Stats::new(&platform),
            power_lane: OnceLock::new(),
            process_lane: OnceLock::new(),
            interrupt_lane: platform.lane(LaneKind::Interrupt, &lane_group(config), "interrupts"),
            next_handle: platform.page(1).word(0),
            resets: platform.page(1).word(0).named("the count of adapter resets"),
            condition: platform.mutex("bug checks", Condition::default()),
            faults: platform.mutex("faults of a driver", Vec::new()),
            stopped: OnceLock::new(),
            platform,
            driver,
            features,
            config,
            power,
        })
    }

    /// The engine of a context that was not suspended in time is recovered. Returns whether the
    /// context's device still works.
    pub(crate) fn context_not_suspended(&self, level: &Passive, context: OsHandle) -> bool {
        let port = self.failures.get();
        port.is_some_and(|port| port.context_not_suspended(level, context))
    }

    /// Work may have been announced to a hardware queue; see [`FailurePort::watch_for_hangs`].
    pub(crate) fn watch_for_hangs(&self) {
        if let Some(port) = self.failures.get() {
            port.watch_for_hangs();
        }
    }

    /// Changes with the beginning and with the end of each adapter reset; odd in between.
    pub(crate) fn resets(&self) -> u64 {
        self.resets.load()
    }

    /// An adapter reset begins or ends.
    pub(crate) fn note_reset(&self) {
        self.resets.fetch_add(1);
    }

    /// Whether an interrupt may name this engine.
    pub(crate) fn check_engine(&self, engine: EngineId) -> Result<(), BugCheck> {
        if engine.node_ordinal as usize >= self.caps.nodes.len() {
            return Err(BugCheck::UnknownNode(engine.node_ordinal));
        }
        if engine.engine_ordinal >= self.caps.physical_adapters {
            return Err(BugCheck::UnknownPhysicalAdapter(engine.engine_ordinal));
        }
        Ok(())
    }

    /// The broken driver contract that stopped the adapter, if one did. What follows from it is not
    /// a bug check of its own.
    pub(crate) fn bug_checks(&self) -> Vec<BugCheck> {
        self.condition.lock().bug_checks.clone()
    }

    /// The driver, for a DDI call, on a device that has power until the call is over: no guard of
    /// policy state may be held.
    pub(crate) fn driver<'a>(&self, level: impl Into<Irql<'a>>) -> Powered<'_> {
        let level = level.into();
        current::assert_no_guards("a DDI call");
        let awake = self.awake(level);
        // The driver is chosen inside the gate, through which DxgkDdiStopDevice goes alone.
        let inside = self.threads.enter(level);
        Powered { driver: self.present_driver(), _awake: awake, _inside: inside }
    }

    /// The driver, for a call that says itself whether the device has power, or that only comes
    /// from one that has.
    pub(crate) fn driver_as_it_is(&self) -> &dyn Driver {
        current::assert_no_guards("a DDI call");
        self.present_driver()
    }

    fn present_driver(&self) -> &dyn Driver {
        if self.is_stopped() { &self.removed } else { &*self.driver }
    }

    /// Power for the device until the guard is dropped. Wakes a device in D3.
    pub(crate) fn awake<'a>(&self, level: impl Into<Irql<'a>>) -> Awake<'_> {
        self.power.awake(level.into())
    }

    /// The same with the contexts suspended still, if this woke the device.
    pub(crate) fn awake_but_suspended(&self, level: &Passive) -> Awake<'_> {
        self.power.awake_but_suspended(level)
    }

    /// Power for the engine until the guard is dropped.
    pub(crate) fn engine_in_use(&self, level: &Passive, engine: EngineId) -> EngineInUse<'_> {
        let in_use = self.try_engine_in_use(level.into(), engine);
        in_use.unwrap_or(EngineInUse { counted: None })
    }

    /// The same at any level: `None` in a DPC while another agent changes the engine's power.
    pub(crate) fn try_engine_in_use(
        &self,
        level: Irql<'_>,
        engine: EngineId,
    ) -> Option<EngineInUse<'_>> {
        match self.power.use_engine(level, self, engine) {
            EngineUse::Changing => None,
            EngineUse::Counted => Some(EngineInUse { counted: Some((&*self.power, engine)) }),
            EngineUse::Uncounted => Some(EngineInUse { counted: None }),
        }
    }

    /// A DPC begins; see [`DevicePower::begin_dpc`].
    pub(crate) fn begin_dpc(&self) -> bool {
        self.power.begin_dpc()
    }

    /// A DPC that was begun ends.
    pub(crate) fn end_dpc(&self) {
        self.power.end_dpc();
    }

    /// A doorbell of the engine was connected: its progress is watched from now on.
    pub(crate) fn watch_progress(&self, engine: EngineId) {
        self.power.doorbell_connected(self, engine);
    }

    /// Whether the driver has stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// DxgkDdiStopDevice has returned, or never will: the driver is not called any more.
    pub(crate) fn note_stopped(&self) {
        let _first = self.stopped.set(());
    }

    /// Faults of the driver, the first 64. The kernel worked around each of them.
    pub(crate) fn driver_faults(&self) -> Vec<DriverFault> {
        self.faults.lock().clone()
    }

    pub(crate) fn note_driver_fault(&self, entry: &'static str, what: String) {
        let at = self.platform.now();
        let mut faults = self.faults.lock();
        if faults.len() < FAULTS_KEPT {
            faults.push(DriverFault { at, entry, what });
        }
    }

    /// Puts something that is about power, and ended now, on the timeline.
    pub(crate) fn record_power(&self, what: &str, start_ns: u64, arg: u64) {
        self.record_on((&self.power_lane, "power"), (Kind::Mark, what), start_ns, arg);
    }

    /// The same of an engine's power; the record has the engine's number.
    pub(crate) fn record_engine_power(&self, what: &str, start_ns: u64, engine: EngineId) {
        let number = self.caps.engine_number(engine).map_or(u64::MAX, u64::from);
        self.record_power(what, start_ns, number);
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
    pub(crate) fn bug_check<'a>(&self, level: impl Into<Irql<'a>>, bug: BugCheck) {
        if self.keep_bug_check(bug)
            && let Some(port) = self.failures.get()
        {
            port.lose_devices(level.into());
        }
    }

    /// The same for a caller that holds locks: the contract counts as broken at once, and a work
    /// item loses the devices.
    pub(crate) fn stop_later(&self, bug: BugCheck) {
        if self.keep_bug_check(bug)
            && let Some(port) = self.failures.get()
        {
            self.timer.queue_work(Box::new(move |level| port.lose_devices(level.into())));
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
    /// platform: its upper part is the number of the adapter's timeline lane, which is
    /// unique, so that a handle of another adapter is a foreign one.
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

    pub(crate) fn count(&self, count: Count) {
        self.stats.add(count, 1);
    }

    /// The group of the adapter's lanes on the timeline.
    pub(crate) fn lane_group(&self) -> String {
        lane_group(self.config)
    }
}

fn lane_group(config: AdapterConfig) -> String {
    config.ordinal.map_or_else(|| "GPU".to_owned(), |ordinal| format!("GPU {ordinal}"))
}
