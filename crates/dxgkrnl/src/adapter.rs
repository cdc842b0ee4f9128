//! Owns an adapter: one driver, what it declared, and all kernel state that hangs on it. Starts and stops it.
//!
//! Start, in order: 1. StartDevice; 2. caps; 3. dependency rules (a contradiction fails the start); 4. interrupt. A broken
//! driver contract later is a [`BugCheck`]: it is kept, devices are lost, and calls return DEVICE_REMOVED.

use crate::context::Context;
use crate::device::Device;
use crate::doorbell::Doorbell;
use crate::error::{BugCheck, StartError};
use crate::feature::Features;
use crate::fence::FenceTable;
use crate::fence::storage::Grave;
use crate::hwqueue::{HwQueue, HwQueueTable};
use crate::interrupt::{self, DpcQueue};
use crate::process::Process;
use crate::sched::VidSch;
use crate::stats::{Count, KernelStats, Stats};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_ddi::memory::{PageTableShape, Segment};
use tidegate_ddi::{AdapterCaps, Driver, OsHandle, Passive, StartInfo, Status, VidSchCaps};
use tidegate_platform::current;
use tidegate_platform::{
    Mutex, PhysicalAddress, PhysicalMemory, Platform, PlatformKind, ServiceHandle, Word,
};
use tidegate_trace::{LaneId, LaneKind};

/// Where the interrupt routine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptDelivery {
    /// The interrupt routine on the raising agent at once, the deferred routine at the end of its turn.
    Inline,
    /// Both on an agent of their own, as on another processor.
    Worker,
}

/// What a kernel is configured with.
#[derive(Clone, Copy, Debug)]
pub struct AdapterConfig {
    /// DXGK_FEATURE_NATIVE_FENCE is enabled.
    pub native_fence: bool,
    /// DXGK_FEATURE_USER_MODE_SUBMISSION is enabled.
    pub user_mode_submission: bool,
    /// Where interrupts run.
    pub interrupts: InterruptDelivery,
    /// Entries in each fence log of a user-mode queue; at most 84.
    pub log_entries: u32,
}

impl AdapterConfig {
    /// All features on; interrupts on a worker in virtual time (the engine is not held up by them), else inline.
    pub fn standard(platform: &Platform) -> AdapterConfig {
        let interrupts = match platform.kind() {
            PlatformKind::Virtual => InterruptDelivery::Worker,
            _ => InterruptDelivery::Inline,
        };
        AdapterConfig { native_fence: true, user_mode_submission: true, interrupts, log_entries: 84 }
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
    /// What the fence is at.
    pub current: u64,
}

/// One adapter: a driver and the kernel's state for it.
pub struct Adapter {
    pub(crate) platform: Platform,
    driver: Arc<dyn Driver>,
    pub(crate) caps: AdapterCaps,
    pub(crate) shape: PageTableShape,
    pub(crate) segments: Vec<Segment>,
    pub(crate) config: AdapterConfig,
    pub(crate) system_memory: PhysicalMemory,
    /// The interrupt lock: DIRQL. Serialises the interrupt routine with UpdateMonitoredValues.
    pub(crate) interrupt_lock: Mutex<()>,
    /// The doorbell transition lock: every connect, disconnect and destroy; owned by an agent, see `doorbell`.
    pub(crate) transition: Mutex<()>,
    /// What is mapped where shareable fences stood that are over.
    grave: OnceLock<Grave>,
    pub(crate) fences: Mutex<FenceTable>,
    pub(crate) sched: Mutex<VidSch>,
    pub(crate) contexts: Mutex<BTreeMap<OsHandle, Weak<Context>>>,
    pub(crate) hw_queues: Mutex<HwQueueTable>,
    pub(crate) doorbells: Mutex<BTreeMap<OsHandle, Weak<Doorbell>>>,
    /// Doorbells that the driver took away inside the present transition; see `doorbell`.
    pub(crate) victims: Mutex<Vec<Arc<Doorbell>>>,
    /// Devices of all processes.
    pub(crate) devices: Mutex<BTreeMap<OsHandle, Weak<Device>>>,
    pub(crate) dpc: DpcQueue,
    /// The timeline's lane of interrupt and deferred routines.
    pub(crate) interrupt_lane: LaneId,
    pub(crate) stats: Stats,
    next_handle: Word,
    bug_checks: Mutex<Vec<BugCheck>>,
    interrupt_worker: Mutex<Option<ServiceHandle>>,
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
        let features =
            Features { native_fence: config.native_fence, user_mode_submission: config.user_mode_submission };
        // The kernel's side of the callbacks exists before the adapter does: the driver may keep it from its first call on.
        let callbacks = Arc::new(interrupt::KernelCallbacks::new());
        let start = StartInfo {
            callbacks: callbacks.clone(),
            features: Arc::new(features),
            system_memory: system_memory.clone(),
        };
        driver.start_device(&level, start).map_err(StartError::Driver)?;
        let caps = driver.query_adapter_caps(&level);
        check_caps(&caps, features).inspect_err(|_| driver.stop_device(&level))?;
        let adapter = Arc::new(Adapter {
            platform: platform.clone(),
            shape: driver.page_table_shape(&level),
            segments: driver.query_segments(&level),
            sched: platform.mutex("VidSch", VidSch::new(&caps)),
            caps,
            driver,
            config,
            system_memory: system_memory.clone(),
            interrupt_lock: platform.mutex("interrupt lock", ()),
            transition: platform.mutex("doorbell transition", ()),
            grave: OnceLock::new(),
            fences: platform.mutex("fence table", FenceTable::default()),
            contexts: platform.mutex("contexts", BTreeMap::new()),
            hw_queues: platform.mutex("hardware queues", HwQueueTable::default()),
            doorbells: platform.mutex("doorbells", BTreeMap::new()),
            victims: platform.mutex("victims", Vec::new()),
            devices: platform.mutex("devices", BTreeMap::new()),
            dpc: DpcQueue::new(platform),
            interrupt_lane: platform.lane(LaneKind::Interrupt, "GPU", "interrupts"),
            stats: Stats::new(platform),
            next_handle: platform.page(1).word(0),
            bug_checks: platform.mutex("bug checks", Vec::new()),
            interrupt_worker: platform.mutex("interrupt worker", None),
        });
        callbacks.attach(&adapter);
        let worker = interrupt::connect(&adapter);
        *adapter.interrupt_worker.lock() = worker;
        Ok(adapter)
    }

    /// A process opens the adapter.
    pub fn open(self: &Arc<Adapter>, process_name: &str) -> Result<Arc<Process>, Status> {
        Process::new(self, process_name)
    }

    /// Stops the adapter: its interrupt worker and its driver. Processes must be closed first.
    pub fn stop(&self) {
        let worker = self.interrupt_worker.lock().take();
        if let Some(worker) = worker {
            worker.stop();
        }
        self.driver.stop_device(&Passive::enter());
    }

    /// Counts so far.
    pub fn stats(&self) -> KernelStats {
        self.stats.read()
    }

    /// Broken driver contracts so far.
    pub fn bug_checks(&self) -> Vec<BugCheck> {
        self.bug_checks.lock().clone()
    }

    /// The driver, for a DDI call: no guard of policy state may be held.
    pub(crate) fn driver(&self) -> &dyn Driver {
        current::assert_no_guards("a DDI call");
        &*self.driver
    }

    pub(crate) fn hw_queues_of(&self, which: impl Fn(&HwQueue) -> bool) -> Vec<Arc<HwQueue>> {
        let all = self.hw_queues.lock().live();
        all.into_iter().filter(|q| which(q)).collect()
    }

    pub(crate) fn doorbells_of(
        &self,
        which: impl Fn(&Doorbell) -> bool,
    ) -> impl Iterator<Item = Arc<Doorbell>> {
        let all: Vec<Arc<Doorbell>> = self.doorbells.lock().values().filter_map(Weak::upgrade).collect();
        all.into_iter().filter(move |d| which(d))
    }

    /// Keeps a broken contract and stops the adapter.
    // spec: PRE-054
    pub(crate) fn bug_check(self: &Arc<Adapter>, bug: BugCheck) {
        self.bug_checks.lock().push(bug);
        self.lose_all_devices();
    }

    /// DEVICE_REMOVED once a driver contract was broken: nothing begins on this adapter any more.
    pub(crate) fn check(&self) -> Result<(), Status> {
        if self.bug_checks.lock().is_empty() { Ok(()) } else { Err(Status::DEVICE_REMOVED) }
    }

    /// A handle that names a kernel object to the driver; never given twice, by no adapter of the platform: its upper part is
    /// the number of the adapter's timeline lane, which nobody else has, so that a handle of another adapter is a foreign one.
    pub(crate) fn new_handle(&self) -> OsHandle {
        OsHandle(u64::from(self.interrupt_lane.0) << 40 | (self.next_handle.fetch_add(1) + 1))
    }

    /// Waits that VidSch holds for contexts and kernel-mode hardware queues.
    pub fn pending_waits(&self) -> Vec<PendingWait> {
        let mut waits = self.sched.lock().pending_waits();
        waits.extend(self.hw_queues_of(|_| true).iter().flat_map(|q| q.pending_waits()));
        waits
    }

    /// What a hardware queue waits for whose wait names the cell at `current_value` on the bus: for reports of machines that
    /// stand still.
    pub fn describe_wait(&self, tag: u32, current_value: PhysicalAddress, value: u64) -> Option<PendingWait> {
        let fences = self.fences.lock().matching(|f| f.storage.current_at == current_value);
        fences.first()?.pending(tag, value)
    }

    /// Where what is left of ended fences leads.
    pub(crate) fn grave(&self) -> &Grave {
        self.grave.get_or_init(|| Grave::new(&self.system_memory, self.caps.fence_history))
    }

    pub(crate) fn count(&self, count: Count) {
        self.stats.add(count, 1);
    }
}

/// The rules that declarations must keep; a contradiction fails the start.
fn check_caps(caps: &AdapterCaps, features: Features) -> Result<(), StartError> {
    let has = |flag| caps.scheduling.contains(flag);
    if caps.nodes.is_empty() || caps.nodes.len() > 64 {
        return Err(StartError::Nodes(caps.nodes.len()));
    }
    // spec: PRE-007
    if has(VidSchCaps::PREEMPTION_AWARE) && !has(VidSchCaps::MULTI_ENGINE_AWARE) {
        return Err(StartError::CapDependency("PreemptionAware", "MultiEngineAware"));
    }
    if has(VidSchCaps::CANCEL_COMMAND_AWARE) && !has(VidSchCaps::MULTI_ENGINE_AWARE) {
        return Err(StartError::CapDependency("CancelCommandAware", "MultiEngineAware"));
    }
    if has(VidSchCaps::NO_DMA_PATCHING) && !has(VidSchCaps::PREEMPTION_AWARE) {
        return Err(StartError::CapDependency("NoDmaPatching", "PreemptionAware"));
    }
    if has(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT) && !has(VidSchCaps::NATIVE_GPU_FENCE) {
        return Err(StartError::CapDependency("OptimizedNativeFenceSignaledInterrupt", "NativeGpuFence"));
    }
    if caps.signaled_hw_queue_array && !has(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT) {
        return Err(StartError::CapDependency(
            "signaled_hw_queue_array",
            "OptimizedNativeFenceSignaledInterrupt",
        ));
    }
    if has(VidSchCaps::NATIVE_GPU_FENCE) {
        // spec: NF-058
        if !features.native_fence {
            return Err(StartError::NativeFenceNotEnabled);
        }
        // spec: NF-069
        if has(VidSchCaps::NO_64BIT_ATOMICS) {
            return Err(StartError::NativeFenceWithout64BitAtomics);
        }
        // spec: NF-028
        let stride = caps.native_fence.monitored_value_stride;
        if !stride.is_power_of_two() || !(8..=4096).contains(&stride) {
            return Err(StartError::FenceStride(stride));
        }
        if caps.native_fence.map_to_gpu_system_process {
            return Err(StartError::SystemProcessMapping);
        }
    }
    // spec: MF-052
    if let Some(node) = caps.nodes.iter().position(|n| n.user_mode_submission && !n.writes_fences) {
        return Err(StartError::UserModeSubmissionWithoutFenceWrites(node as u32));
    }
    let node = caps.nodes.iter().position(|n| n.user_mode_submission);
    match node {
        Some(node) if !has(VidSchCaps::NATIVE_GPU_FENCE) => {
            Err(StartError::UserModeSubmissionWithoutNativeFence(node as u32))
        }
        _ => Ok(()),
    }
}
