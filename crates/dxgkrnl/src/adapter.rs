//! Owns an adapter: one driver, what it declared, and all kernel state that hangs on it. Starts and
//! stops it.
//!
//! Start, in order: 1. the driver's version; 2. features are negotiated; 3. StartDevice, in which
//! the driver asks for them; 4. caps, of declared features too (a contradiction fails the start);
//! 5. entries that the driver lacks are closed; 6. interrupt. A broken driver contract later is a
//! [`BugCheck`]: it is kept, devices are lost, and calls return DEVICE_REMOVED.

use crate::config::AdapterConfig;
use crate::context::Context;
use crate::device::Device;
use crate::display::Display;
use crate::doorbell::{Doorbell, DoorbellTable, Victim};
use crate::driver::declaration::Declaration;
use crate::driver::entry::{self, OpenGroups};
use crate::driver::feature::Features;
use crate::driver::{BugCheckPort, DriverPort, OutstandingWork, PortParts};
use crate::error::StartError;
use crate::fence::FenceTable;
use crate::fence::log::{LogMode, LogTimeFault};
use crate::fence::residency::Residency;
use crate::fence::storage::Grave;
use crate::hwqueue::{HwQueue, HwQueueTable};
use crate::interrupt::{self, DpcQueue};
use crate::lock_order::LOCK_ORDER;
use crate::memory::{AddressSpace, ContextAllocations, LocalMemory};
use crate::power::{Power, WakeDevice};
use crate::process::Process;
use crate::recovery::Recovery;
use crate::registry::Registry;
use crate::sched::idle::IdleContexts;
use crate::sched::{FenceOperations, Limits, VidSch};
use crate::stats::{Census, Count};
use crate::supervisor;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_ddi::{AdapterCaps, Driver, OsHandle, Passive, StartInfo, Status, VidSchCaps};
use tidegate_platform::{Mutex, PhysicalAddress, PhysicalMemory, Platform, ServiceHandle};

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

/// One adapter: a driver and the kernel's state for it.
pub struct Adapter {
    pub(crate) port: Arc<DriverPort>,
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
    pub(crate) power: Arc<Power>,
    pub(crate) recovery: Recovery,
    /// Processes that have it open.
    pub(crate) processes: Mutex<Vec<Weak<Process>>>,
    /// One removal at a time; held over all of it.
    pub(crate) removing: Mutex<()>,
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
        platform.set_lock_order(LOCK_ORDER);
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
        let power = Arc::new(Power::new(platform, &config, declared.caps.engine_count() as usize));
        let port = DriverPort::new(PortParts {
            platform: platform.clone(),
            driver,
            version,
            declared,
            priority_bands,
            features,
            config,
            system_memory: system_memory.clone(),
            power: power.clone(),
        });
        let caps = &port.caps;
        let adapter = Arc::new(Adapter {
            memory: LocalMemory::new(platform, &port.segments),
            residency: Residency::new(platform),
            context_allocations: ContextAllocations::new(platform),
            system_process: platform.mutex("system process", None),
            sched: platform.mutex("VidSch", VidSch::new(caps, limits(caps, &config))),
            idle_contexts: platform.mutex("idle contexts", None),
            power,
            display: caps.display.map(|display| Display::new(platform, display)),
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
            recovery: Recovery::new(platform, &config.tdr),
            processes: platform.mutex("processes of an adapter", Vec::new()),
            removing: platform.mutex("removal of an adapter", ()),
            interrupt_worker: platform.mutex("interrupt worker", None),
            port,
        });
        adapter.attach_ports();
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

    /// Hands the lower layers what they need of the upper ones.
    fn attach_ports(self: &Arc<Adapter>) {
        let wake: Weak<dyn WakeDevice> = Arc::downgrade(self) as Weak<dyn WakeDevice>;
        self.power.set_wake_port(wake);
        self.port.set_bug_check_port(Arc::downgrade(self) as Weak<dyn BugCheckPort>);
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

    /// Work that the driver accepted and has not reported, by queue: for reports of machines that
    /// stand still.
    pub fn outstanding_work(&self) -> Vec<OutstandingWork> {
        let mut all = Vec::new();
        for number in 0..self.caps.engine_count() {
            let engine = self.caps.engine(number);
            all.extend(self.sched.lock().outstanding_on(number, engine));
        }
        let queues =
            self.hw_queues_of(|queue| queue.device.check().is_ok() && queue.has_work(self));
        all.extend(queues.iter().map(|queue| OutstandingWork {
            tag: queue.tag,
            engine: queue.engine(),
            calls: queue.last_calls(self),
            reported: queue.progress.fence.value(),
            context: queue.context.os_handle,
        }));
        all
    }

    /// How many kernel objects there are now.
    pub fn census(&self) -> Census {
        let (context_allocations, local_context_allocations) = self.context_allocations.census();
        Census {
            context_allocations,
            local_context_allocations,
            devices: self.devices.lock().len(),
            contexts: self.contexts.lock().len(),
            hw_contexts: self.hw_contexts.lock().len(),
            hw_queues: self.hw_queues.lock().len(),
            doorbells: self.doorbells.lock().len(),
            fences: self.fences.lock().len(),
            memory_regions: self.system_memory.regions(),
        }
    }
}

/// For the time being: rooms that still take the whole adapter reach the facts of its driver.
impl Deref for Adapter {
    type Target = DriverPort;

    fn deref(&self) -> &DriverPort {
        &self.port
    }
}

impl BugCheckPort for Adapter {
    fn lose_devices(self: Arc<Self>) {
        self.lose_all_devices();
    }

    fn lose_devices_later(&self) {
        interrupt::report_stop(self);
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
