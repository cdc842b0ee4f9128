//! A kernel that writes down what it is told, and a machine of driver, device and kernel that is
//! set up in one line.

use std::sync::Arc;
use tidegate_ddi::doorbell::{CreateDoorbell, CreateDoorbellFlags};
use tidegate_ddi::feature::{
    FeatureInterface, KernelFeatureTable, NativeFenceOsCaps, NativeFenceTable1,
    QueryFeatureInterface,
};
use tidegate_ddi::fence::{CreateNativeFence, OpenNativeFence};
use tidegate_ddi::queue::{
    CreateContext, CreateDevice, CreateHwQueue, ProgressFence, RingAllocations,
};
use tidegate_ddi::{
    Callbacks, ContextAllocation, CreateContextAllocation, Dirql, DisconnectReason, Dispatch,
    Driver, DriverHandle, FeatureId, FeatureState, HwContextLoss, InterruptData, InterruptService,
    NativeFenceType, OsHandle, Passive, StartInfo, Status,
};
use tidegate_ddi::{HwQueueDdi, NativeFenceDdi, UserModeSubmissionDdi};
use tidegate_gpu_abi::{AdminCommand, CONTROL_WORDS, Device, QueueId, SLOT_BYTES};
use tidegate_kmd::{Config, ReferenceDriver};
use tidegate_platform::{Mutex, PhysicalAddress, PhysicalMemory, Platform, current};

use crate::scripted::Scripted;

/// What happened, at the device and at the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Admin(AdminCommand),
    /// The CMP was told that MonitoredValue of this fence is this.
    Shadow(u64, u64),
    Notify(InterruptData),
    QueueDpc,
    NotifyDpc,
    Disconnect {
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    },
}

#[derive(Clone)]
pub struct Journal(Arc<Mutex<Vec<Event>>>);

impl Journal {
    pub fn new(platform: &Platform) -> Journal {
        Journal(Arc::new(platform.mutex("journal", Vec::new())))
    }

    pub fn push(&self, event: Event) {
        self.0.lock_device().push(event);
    }

    /// What happened since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock_device())
    }
}

/// What a test does at each notification.
pub type Look = Box<dyn Fn(&InterruptData) + Send + Sync>;

pub struct Recorder {
    journal: Journal,
    /// What DxgkCbDisconnectDoorbell answers.
    pub disconnect_answer: Mutex<Result<(), Status>>,
    /// Called at each notification, before it is written down.
    pub on_notify: Option<Look>,
}

impl Callbacks for Recorder {
    fn notify_interrupt(&self, _level: &Dirql<'_>, data: InterruptData) {
        current::assert_no_guards("DxgkCbNotifyInterrupt");
        if let Some(look) = &self.on_notify {
            look(&data);
        }
        self.journal.push(Event::Notify(data));
    }

    fn queue_dpc(&self, _level: &Dirql<'_>) {
        current::assert_no_guards("DxgkCbQueueDpc");
        self.journal.push(Event::QueueDpc);
    }

    fn notify_dpc(&self, _level: &Dispatch) {
        current::assert_no_guards("DxgkCbNotifyDpc");
        self.journal.push(Event::NotifyDpc);
    }

    fn disconnect_doorbell(
        &self,
        _level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        current::assert_no_guards("DxgkCbDisconnectDoorbell");
        self.journal.push(Event::Disconnect { hw_queue, doorbell, reason });
        *self.disconnect_answer.lock_device()
    }

    fn create_context_allocation(
        &self,
        _level: &Passive,
        _args: CreateContextAllocation,
    ) -> Result<ContextAllocation, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    fn destroy_context_allocation(
        &self,
        _level: &Passive,
        _allocation: OsHandle,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    fn invalidate_hw_context(
        &self,
        _level: &Passive,
        _context: OsHandle,
        _loss: HwContextLoss,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }
}

/// Which features are on.
pub struct Features(pub &'static [FeatureId]);

pub const ALL: &[FeatureId] =
    &[FeatureId::HWSCH, FeatureId::NATIVE_FENCE, FeatureId::USER_MODE_SUBMISSION];

/// In a list of features: the kernel allows INTRA_GPU fences.
pub const INTRA_GPU: FeatureId = FeatureId(3 << 28);

pub const ALL_AND_INTRA_GPU: &[FeatureId] =
    &[FeatureId::HWSCH, FeatureId::NATIVE_FENCE, FeatureId::USER_MODE_SUBMISSION, INTRA_GPU];

impl FeatureInterface for Features {
    fn is_feature_enabled(&self, _level: &Passive, feature: FeatureId) -> FeatureState {
        FeatureState {
            version: 1,
            enabled: self.0.contains(&feature),
            known: true,
            supported_by_driver: true,
            supported_on_current_config: true,
        }
    }

    fn query_feature_interface(
        &self,
        _level: &Passive,
        query: QueryFeatureInterface,
    ) -> Result<KernelFeatureTable, Status> {
        assert!(
            self.0.contains(&query.feature),
            "a table is asked for only when its feature is enabled"
        );
        assert_eq!((query.feature, query.version), (FeatureId::NATIVE_FENCE, 1));
        assert!(query.interface_size >= NativeFenceTable1::BYTES);
        let mut os_caps = NativeFenceOsCaps::empty();
        os_caps.set(NativeFenceOsCaps::INTRA_GPU_FENCE_TYPE, self.0.contains(&INTRA_GPU));
        Ok(KernelFeatureTable::NativeFence1(NativeFenceTable1::new(move |_| os_caps)))
    }
}

/// A kernel's interrupt dispatch that does both parts at once.
struct Dispatcher(Arc<ReferenceDriver>);

impl InterruptService for Dispatcher {
    fn raise(&self) {
        assert!(self.0.interrupt_routine(&Dirql::enter(&())));
    }

    fn turn_ended(&self) {
        self.0.dpc_routine(&Dispatch::enter());
    }
}

pub struct Machine {
    pub platform: Platform,
    pub device: Arc<Scripted>,
    pub driver: Arc<ReferenceDriver>,
    pub kernel: Arc<Recorder>,
    pub journal: Journal,
    pub system: PhysicalMemory,
}

/// A queue of each sort that the kernel could make, and what it hangs on.
pub struct Owned {
    pub device: DriverHandle,
    pub context: DriverHandle,
}

impl Machine {
    /// A machine whose adapter is not started.
    pub fn cold(platform: &Platform, config: Config, on_notify: Option<Look>) -> Machine {
        let journal = Journal::new(platform);
        let device = Scripted::new(platform, journal.clone());
        let kernel = Arc::new(Recorder {
            journal: journal.clone(),
            disconnect_answer: platform.mutex("answer", Ok(())),
            on_notify,
        });
        let driver = ReferenceDriver::new(platform, Arc::clone(&device) as Arc<dyn Device>, config);
        let system = PhysicalMemory::new(platform, PhysicalAddress(0x10_0000));
        Machine { platform: platform.clone(), device, driver, kernel, journal, system }
    }

    pub fn start(&self, features: &'static [FeatureId]) -> Result<(), Status> {
        self.driver.start_device(
            &Passive::enter(),
            StartInfo {
                callbacks: Arc::clone(&self.kernel) as Arc<dyn Callbacks>,
                features: Arc::new(Features(features)),
                system_memory: self.system.clone(),
            },
        )
    }

    /// A started machine on the host with all features, its journal empty.
    pub fn with(config: Config) -> Machine {
        let machine = Machine::cold(&Platform::host(), config, None);
        machine.start(ALL).unwrap();
        machine.driver.connect_interrupt(
            &Passive::enter(),
            Arc::new(Dispatcher(Arc::clone(&machine.driver))),
        );
        machine.journal.take();
        machine
    }

    pub fn interrupt(&self) -> Vec<Event> {
        self.device.raise();
        self.journal.take()
    }

    /// Makes the causes, the list and everything known to the device at once, then raises.
    pub fn interrupt_with(&self, cause: u64, signals: &[(QueueId, u64)]) -> Vec<Event> {
        let mut script = self.device.script.lock_device();
        script.causes.push_back(cause);
        script.signals.extend(signals.iter().copied().map(Some));
        drop(script);
        self.interrupt()
    }

    pub fn device_for(&self, address_space: u32) -> DriverHandle {
        let args = CreateDevice { os_handle: OsHandle(address_space.into()), address_space };
        self.driver.create_device(&Passive::enter(), args).unwrap()
    }

    pub fn context(
        &self,
        device: DriverHandle,
        node_ordinal: u32,
        hardware_scheduled: bool,
    ) -> DriverHandle {
        let args = CreateContext {
            device,
            os_handle: OsHandle(0xC0),
            node_ordinal,
            engine_affinity: 1,
            hardware_scheduled,
        };
        self.driver.create_context(&Passive::enter(), args).unwrap()
    }

    /// A device with a context for hardware queues.
    pub fn owned(&self, address_space: u32, node: u32) -> Owned {
        let device = self.device_for(address_space);
        Owned { device, context: self.context(device, node, true) }
    }

    pub fn fence(&self, os_handle: u64) -> DriverHandle {
        self.driver.create_native_fence(&Passive::enter(), fence_args(os_handle)).unwrap().0
    }

    pub fn open(
        &self,
        global: DriverHandle,
        device: DriverHandle,
        current_value: u64,
    ) -> DriverHandle {
        self.driver
            .open_native_fence(&Passive::enter(), open_args(global, device, current_value))
            .unwrap()
    }

    /// A hardware queue with a monitored progress fence at `progress`.
    pub fn queue(
        &self,
        context: DriverHandle,
        os: u64,
        user_mode: bool,
        progress: u64,
    ) -> DriverHandle {
        let args = queue_args(context, os, user_mode, progress);
        self.driver.create_hw_queue(&Passive::enter(), args).unwrap()
    }

    pub fn ring(&self, slots: u64) -> RingAllocations {
        RingAllocations {
            ring: self.platform.bulk((slots * SLOT_BYTES) as usize),
            ring_gpu_va: 0x10_0000,
            control: self.platform.page(CONTROL_WORDS),
            control_gpu_va: 0x20_0000,
        }
    }

    /// A doorbell, and the number of the hardware queue that came with it.
    pub fn doorbell(&self, hw_queue: DriverHandle, os: u64) -> DriverHandle {
        let mut args = CreateDoorbell {
            hw_queue,
            os_handle: OsHandle(os),
            ring: self.ring(16),
            flags: CreateDoorbellFlags::empty(),
            private_data: Vec::new(),
        };
        self.driver.create_doorbell(&Passive::enter(), &mut args).unwrap()
    }

    /// The admin commands since the last look.
    pub fn commands(&self) -> Vec<AdminCommand> {
        let commands = self.journal.take().into_iter().filter_map(|e| match e {
            Event::Admin(command) => Some(command),
            _ => None,
        });
        commands.collect()
    }

    pub fn refuse(&self, command: &AdminCommand, status: u64) {
        self.device.script.lock_device().refused.insert(command.encode()[0], status);
    }

    pub fn accept(&self) {
        self.device.script.lock_device().refused.clear();
    }
}

pub fn fence_args(os_handle: u64) -> CreateNativeFence {
    CreateNativeFence {
        os_handle: OsHandle(os_handle),
        fence_type: NativeFenceType::Default,
        system_process_va: None,
        private_data: [os_handle as u8; 64],
    }
}

pub fn open_args(
    global: DriverHandle,
    device: DriverHandle,
    current_value: u64,
) -> OpenNativeFence {
    OpenNativeFence {
        global,
        os_handle: OsHandle(0),
        device,
        current_value_gpu_va: current_value,
        monitored_value_gpu_va: current_value + 0x1000,
    }
}

pub fn queue_args(context: DriverHandle, os: u64, user_mode: bool, progress: u64) -> CreateHwQueue {
    CreateHwQueue {
        context,
        os_handle: OsHandle(os),
        user_mode_submission: user_mode,
        progress_fence: ProgressFence::Monitored { gpu_va: progress },
        progress_current_gpu_va: progress,
        progress_monitored_gpu_va: 0,
    }
}
