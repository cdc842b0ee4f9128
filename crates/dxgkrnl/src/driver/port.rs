//! The driver of one adapter, and what the layers share: its declarations, timer, counters, lanes
//! and condition.
//!
//! Invariants: handles are never reused. See `driver` for the rules of a DDI call.

use super::condition::Condition;
use super::declaration::Declaration;
use super::fault::DriverFault;
use super::feature::Features;
use super::lanes::Lanes;
use super::removed::RemovedDriver;
use super::thread_gate::{Inside, ThreadGate};
use crate::config::AdapterConfig;
use crate::error::BugCheck;
use crate::port::Port;
use crate::stats::{Count, Stats};
use crate::timer::Timer;
use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{Driver, EngineId, Irql, OsHandle, Passive};
use tidegate_platform::{Mutex, PhysicalMemory, Platform, Word, current};

/// The port to `power`, used by every DDI call.
pub(crate) trait DevicePower: Send + Sync {
    /// Keeps the device powered until the guard is dropped. Wakes a device in D3 completely. In a
    /// DPC the device is already powered.
    fn awake(&self, level: Irql<'_>) -> Awake<'_>;

    /// Like `awake`. If this woke the device, contexts stay suspended until [`Awake::resume`].
    fn awake_but_suspended(&self, level: &Passive) -> Awake<'_>;

    /// Releases a counted guard.
    fn release(&self);

    /// Powers an engine until [`DevicePower::release_engine`]. A caller that must not wait gets
    /// [`EngineUse::Changing`] while another agent changes the power.
    fn use_engine(&self, level: Irql<'_>, port: &DriverPort, engine: EngineId) -> EngineUse;

    /// Begins a DPC: the device stays powered until [`DevicePower::end_dpc`]. Returns `false` if
    /// the device has no power or is about to lose it.
    fn begin_dpc(&self) -> bool;

    /// A DPC that was begun ends.
    fn end_dpc(&self);

    /// Releases one use of an engine.
    fn release_engine(&self, engine: EngineId);

    /// Records that a doorbell of the engine was connected.
    fn doorbell_connected(&self, port: &DriverPort, engine: EngineId);
}

/// Result of a request to use an engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineUse {
    /// The engine has power until it is released.
    Counted,
    /// Not counted: engines always have power, or the machine stopped.
    Uncounted,
    Changing,
}

/// Keeps the engine powered.
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

/// Keeps the device powered.
pub(crate) struct Awake<'a> {
    counted: Option<&'a dyn DevicePower>,
    /// If this call woke the device, the contexts that stay suspended until this is dropped.
    suspended: Option<Box<dyn Any>>,
}

impl<'a> Awake<'a> {
    /// Creates an uncounted guard: power is permanent, or the caller is the agent that changes it.
    pub(crate) fn uncounted() -> Awake<'a> {
        Awake { counted: None, suspended: None }
    }

    /// Creates a guard counted by `power`.
    pub(crate) fn counted(power: &'a dyn DevicePower, suspended: Option<Box<dyn Any>>) -> Self {
        Awake { counted: Some(power), suspended }
    }

    /// Resumes the contexts of a device that this call woke. The device stays powered until the
    /// guard is dropped.
    pub(crate) fn resume(mut self) -> Self {
        drop(self.suspended.take());
        self
    }
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        // First, since it calls the driver.
        drop(self.suspended.take());
        if let Some(power) = self.counted {
            power.release();
        }
    }
}

/// The port to failure handling: contract violations and hangs.
pub(crate) trait FailurePort: Send + Sync {
    /// Puts every device into error. Any level; the caller holds no lock.
    fn lose_devices(self: Arc<Self>, level: Irql<'_>);

    /// Recovers the engine of a hardware context that the driver did not suspend in time. Returns
    /// whether the context's device is still usable.
    fn context_not_suspended(self: Arc<Self>, level: &Passive, context: OsHandle) -> bool;

    /// Schedules a sampling of engines after the timeout delay, because work may have been
    /// announced to a hardware queue.
    fn watch_for_hangs(&self);
}

/// The driver of a powered device.
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

/// Parts of a new [`DriverPort`].
pub(crate) struct PortParts {
    pub(crate) platform: Platform,
    /// The driver with missing entries closed; see `entry`.
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) declared: Declaration,
    pub(crate) priority_bands: bool,
    pub(crate) features: Arc<Features>,
    pub(crate) config: AdapterConfig,
    pub(crate) system_memory: PhysicalMemory,
}

/// One adapter as the layers of the kernel see it.
pub(crate) struct DriverPort {
    pub(crate) platform: Platform,
    driver: Arc<dyn Driver>,
    /// Replaces the driver once the adapter has stopped.
    removed: RemovedDriver,
    pub(crate) features: Arc<Features>,
    /// What the driver declared.
    pub(crate) declared: Declaration,
    /// Whether the driver schedules by bands.
    pub(crate) priority_bands: bool,
    pub(crate) config: AdapterConfig,
    pub(crate) system_memory: PhysicalMemory,
    /// The interrupt lock: DIRQL. Serialises the interrupt routine with UpdateMonitoredValues.
    pub(crate) interrupt_lock: Mutex<()>,
    /// Counts the threads that are inside the driver.
    pub(crate) threads: ThreadGate,
    power: Arc<dyn DevicePower>,
    /// Loses devices and recovers engines.
    pub(crate) failures: Port<dyn FailurePort>,
    pub(crate) timer: Arc<Timer>,
    pub(crate) stats: Stats,
    pub(crate) lanes: Lanes,
    next_handle: Word,
    pub(crate) condition: Condition,
}

impl DriverPort {
    /// Creates the port of a started driver.
    pub(crate) fn new(parts: PortParts, power: Arc<dyn DevicePower>) -> Arc<DriverPort> {
        let PortParts { platform, driver, declared, features, config, .. } = parts;
        Arc::new(DriverPort {
            removed: RemovedDriver(Arc::clone(&driver)),
            declared,
            priority_bands: parts.priority_bands,
            system_memory: parts.system_memory,
            interrupt_lock: platform.mutex("interrupt lock", ()),
            threads: ThreadGate::new(&platform, config.tdr.is_on()),
            failures: Port::default(),
            timer: Timer::new(&platform),
            stats: Stats::new(&platform),
            lanes: Lanes::new(&platform, config),
            next_handle: platform.page(1).word(0),
            condition: Condition::new(&platform),
            platform,
            driver,
            features,
            config,
            power,
        })
    }

    /// Recovers the engine of a context that was not suspended in time. Returns whether the
    /// context's device is still usable.
    pub(crate) fn context_not_suspended(&self, level: &Passive, context: OsHandle) -> bool {
        let port = self.failures.get();
        port.is_some_and(|port| port.context_not_suspended(level, context))
    }

    /// Schedules a sampling; see [`FailurePort::watch_for_hangs`].
    pub(crate) fn watch_for_hangs(&self) {
        if let Some(port) = self.failures.get() {
            port.watch_for_hangs();
        }
    }

    /// Checks that the engine exists, for an interrupt that names it.
    pub(crate) fn check_engine(&self, engine: EngineId) -> Result<(), BugCheck> {
        if engine.node_ordinal as usize >= self.declared.caps.nodes.len() {
            return Err(BugCheck::UnknownNode(engine.node_ordinal));
        }
        if engine.engine_ordinal >= self.declared.caps.physical_adapters {
            return Err(BugCheck::UnknownPhysicalAdapter(engine.engine_ordinal));
        }
        Ok(())
    }

    /// Returns the driver for a DDI call. The device stays powered until the call ends. No guard of
    /// policy state may be held. A caller that takes a lock for its DDI calls takes it after this,
    /// so that it does not wait at the gate with the lock (decision 142).
    pub(crate) fn driver<'a>(&self, level: impl Into<Irql<'a>>) -> Powered<'_> {
        let level = level.into();
        current::assert_no_guards("a DDI call");
        let awake = self.awake(level);
        // The driver is chosen inside the gate, which DxgkDdiStopDevice passes exclusively.
        let inside = self.threads.enter(level);
        Powered { driver: self.present_driver(), _awake: awake, _inside: inside }
    }

    /// Returns the driver, for a call that sets the power state or that only a powered
    /// device causes.
    pub(crate) fn driver_as_it_is(&self) -> &dyn Driver {
        current::assert_no_guards("a DDI call");
        self.present_driver()
    }

    fn present_driver(&self) -> &dyn Driver {
        if self.condition.is_stopped() { &self.removed } else { &*self.driver }
    }

    /// Keeps the device powered until the guard is dropped. Wakes a device in D3.
    pub(crate) fn awake<'a>(&self, level: impl Into<Irql<'a>>) -> Awake<'_> {
        self.power.awake(level.into())
    }

    /// Like `awake`, but contexts stay suspended if this woke the device.
    pub(crate) fn awake_but_suspended(&self, level: &Passive) -> Awake<'_> {
        self.power.awake_but_suspended(level)
    }

    /// Keeps the engine powered until the guard is dropped.
    pub(crate) fn engine_in_use(&self, level: &Passive, engine: EngineId) -> EngineInUse<'_> {
        let in_use = self.try_engine_in_use(level.into(), engine);
        in_use.unwrap_or(EngineInUse { counted: None })
    }

    /// Like `engine_in_use`, at any level. Returns `None` in a DPC while another agent changes the
    /// engine's power.
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

    /// Starts progress checks of an engine after a doorbell connect or a notification of work.
    pub(crate) fn watch_progress(&self, engine: EngineId) {
        self.power.doorbell_connected(self, engine);
    }

    /// Records a driver fault that the kernel worked around.
    pub(crate) fn note_driver_fault(&self, entry: &'static str, what: String) {
        self.condition.keep_fault(DriverFault { at: self.platform.now(), entry, what });
    }

    /// Records an engine power event, with the engine's number.
    pub(crate) fn record_engine_power(&self, what: &str, start_ns: u64, engine: EngineId) {
        let number = self.declared.caps.engine_number(engine).map_or(u64::MAX, u64::from);
        self.lanes.record_power(what, start_ns, number);
    }

    /// Records a contract violation and stops the adapter. A violation after the stop is a
    /// consequence and is not recorded.
    // spec: PRE-054
    pub(crate) fn bug_check<'a>(&self, level: impl Into<Irql<'a>>, bug: BugCheck) {
        if self.condition.keep_bug_check(bug)
            && let Some(port) = self.failures.get()
        {
            port.lose_devices(level.into());
        }
    }

    /// Records a contract violation for a caller that holds locks. Takes effect immediately; a work
    /// item loses the devices.
    pub(crate) fn stop_later(&self, bug: BugCheck) {
        if self.condition.keep_bug_check(bug)
            && let Some(port) = self.failures.get()
        {
            self.timer.queue_work(Box::new(move |level| port.lose_devices(level.into())));
        }
    }

    /// Checks that the adapter works.
    ///
    /// # Errors
    /// DEVICE_REMOVED after a driver contract violation or removal.
    pub(crate) fn check(&self) -> Result<(), Status> {
        self.condition.check()
    }

    /// Creates a handle that names a kernel object to the driver. Handles are unique across
    /// all adapters of the platform, because the upper part is the number of the adapter's
    /// timeline lane.
    pub(crate) fn new_handle(&self) -> OsHandle {
        OsHandle(u64::from(self.lanes.interrupts.0) << 40 | self.new_number())
    }

    /// Allocates a number for an address space; `None` if all are used.
    pub(crate) fn new_address_space(&self) -> Option<u32> {
        u32::try_from(self.new_number()).ok()
    }

    fn new_number(&self) -> u64 {
        self.next_handle.fetch_add(1) + 1
    }

    pub(crate) fn count(&self, count: Count) {
        self.stats.add(count, 1);
    }
}
