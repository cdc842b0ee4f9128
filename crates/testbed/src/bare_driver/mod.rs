//! The reference driver between a scripted device and a scripted kernel. Both record to one
//! journal, so a test can assert the order of calls across the two, which the real kernel hides.
//!
//! Invariant: level tokens come only from [`ScriptedKernel`].
//!
//! Entry points: [`Machine::with`] and [`Machine::cold`]; [`Machine::interrupt_with`];
//! [`Machine::commands`].

mod device;
mod journal;
mod kernel;

pub use device::{Script, Scripted};
pub use journal::{Event, Journal};
pub use kernel::{ALL, ALL_AND_INTRA_GPU, Features, ScriptedKernel, Watch};

use kernel::InlineInterrupts;
use std::ops::Deref;
use std::sync::Arc;
use tidegate::ddi::doorbell::{CreateDoorbell, CreateDoorbellFlags};
use tidegate::ddi::fence::{CreateNativeFence, OpenNativeFence};
use tidegate::ddi::queue::{
    CreateContext, CreateDevice, CreateHwQueue, ProgressFence, RingAllocations,
};
use tidegate::ddi::{
    BroadcastExclusions, Callbacks, Driver, DriverHandle, FeatureId, HwQueueDdi, NativeFenceDdi,
    NativeFenceType, OsHandle, Passive, StartInfo, Status, UserModeSubmissionDdi,
};
use tidegate::gpu_abi::{AdminCommand, CONTROL_WORDS, Device, QueueId, SLOT_BYTES};
use tidegate::kmd::{Config, ReferenceDriver};
use tidegate::platform::{PhysicalAddress, PhysicalMemory, Platform};

/// The driver between a scripted device and a scripted kernel. Dereferences to the kernel.
pub struct Machine {
    /// The platform.
    pub platform: Platform,
    /// The device.
    pub device: Arc<Scripted>,
    /// The driver.
    pub driver: Arc<ReferenceDriver>,
    /// The kernel.
    pub kernel: Arc<ScriptedKernel>,
    /// The calls of the driver.
    pub journal: Journal,
    /// System memory.
    pub system: PhysicalMemory,
}

impl Deref for Machine {
    type Target = ScriptedKernel;

    fn deref(&self) -> &ScriptedKernel {
        &self.kernel
    }
}

/// A device with a context for hardware queues.
pub struct Owned {
    /// The device.
    pub device: DriverHandle,
    /// The context.
    pub context: DriverHandle,
}

impl Machine {
    /// Creates a machine whose adapter is not started.
    pub fn cold(platform: &Platform, config: Config) -> Machine {
        Machine::watched(platform, config, None)
    }

    /// Creates a machine whose adapter is not started. `watch` runs at each notification.
    pub fn watched(platform: &Platform, config: Config, watch: Option<Watch>) -> Machine {
        let journal = Journal::new(platform);
        let device = Scripted::new(platform, journal.clone());
        let kernel = ScriptedKernel::new(platform, journal.clone(), watch);
        let driver = ReferenceDriver::new(platform, Arc::clone(&device) as Arc<dyn Device>, config);
        let system = PhysicalMemory::new(platform, PhysicalAddress(0x10_0000));
        Machine { platform: platform.clone(), device, driver, kernel, journal, system }
    }

    /// Starts the adapter.
    ///
    /// # Errors
    /// The driver's refusal.
    pub fn start(&self, features: &'static [FeatureId]) -> Result<(), Status> {
        self.driver.start_device(
            &self.passive(),
            StartInfo {
                callbacks: Arc::clone(&self.kernel) as Arc<dyn Callbacks>,
                features: Arc::new(Features(features)),
                system_memory: self.system.clone(),
            },
        )
    }

    /// Creates the machine of [`Machine::with`] with the standard configuration.
    pub fn standard() -> Machine {
        Machine::with(Config::standard())
    }

    /// Creates the standard machine, and the level at which a test calls its driver.
    pub fn at_passive() -> (Machine, Passive) {
        let machine = Machine::standard();
        let level = machine.passive();
        (machine, level)
    }

    /// Creates the standard machine with a device and a context.
    pub fn with_owned(address_space: u32, node: u32) -> (Machine, Owned) {
        let machine = Machine::standard();
        let owned = machine.owned(address_space, node);
        (machine, owned)
    }

    /// Creates a started machine on the host with all features and an empty journal.
    pub fn with(config: Config) -> Machine {
        let machine = Machine::cold(&Platform::host(), config);
        machine.start(ALL).unwrap();
        machine.driver.connect_interrupt(
            &machine.passive(),
            Arc::new(InlineInterrupts {
                driver: Arc::clone(&machine.driver),
                kernel: Arc::clone(&machine.kernel),
            }),
        );
        machine.journal.take();
        machine
    }

    /// Raises the interrupt line and returns the resulting calls.
    pub fn interrupt(&self) -> Vec<Event> {
        self.device.raise();
        self.journal.take()
    }

    /// Plants a cause and signals, raises the interrupt line and returns the resulting calls.
    pub fn interrupt_with(&self, cause: u64, signals: &[(QueueId, u64)]) -> Vec<Event> {
        let mut script = self.device.script.lock_device();
        script.causes.push_back(cause);
        script.signals.extend(signals.iter().copied().map(Some));
        drop(script);
        self.interrupt()
    }

    /// Creates a device of an address space.
    pub fn device_for(&self, address_space: u32) -> DriverHandle {
        let args = CreateDevice { os_handle: OsHandle(address_space.into()), address_space };
        self.driver.create_device(&self.passive(), args).unwrap()
    }

    /// Creates a context.
    pub fn context(
        &self,
        device: DriverHandle,
        node_ordinal: u32,
        hardware_scheduled: bool,
    ) -> DriverHandle {
        let made = context_args(device, 0xC0, node_ordinal);
        let args = CreateContext { hardware_scheduled, ..made };
        self.driver.create_context(&self.passive(), args).unwrap()
    }

    /// Creates a device with a context for hardware queues.
    pub fn owned(&self, address_space: u32, node: u32) -> Owned {
        let device = self.device_for(address_space);
        Owned { device, context: self.context(device, node, true) }
    }

    /// Creates a native fence.
    pub fn fence(&self, os_handle: u64) -> DriverHandle {
        self.driver.create_native_fence(&self.passive(), fence_args(os_handle)).unwrap().0
    }

    /// Opens a native fence on a device.
    pub fn open(
        &self,
        global: DriverHandle,
        device: DriverHandle,
        current_value: u64,
    ) -> DriverHandle {
        self.driver
            .open_native_fence(&self.passive(), open_args(global, device, current_value))
            .unwrap()
    }

    /// Creates a hardware queue with a monitored progress fence at `progress`.
    pub fn queue(
        &self,
        context: DriverHandle,
        os: u64,
        user_mode: bool,
        progress: u64,
    ) -> DriverHandle {
        let args = queue_args(context, os, user_mode, progress);
        self.driver.create_hw_queue(&self.passive(), args).unwrap()
    }

    /// Creates the memory of a ring.
    pub fn ring(&self, slots: u64) -> RingAllocations {
        RingAllocations {
            ring: self.platform.bulk((slots * SLOT_BYTES) as usize),
            ring_gpu_va: 0x10_0000,
            control: self.platform.page(CONTROL_WORDS),
            control_gpu_va: 0x20_0000,
        }
    }

    /// Creates a doorbell of a hardware queue.
    pub fn doorbell(&self, hw_queue: DriverHandle, os: u64) -> DriverHandle {
        let mut args = doorbell_args(hw_queue, os, self.ring(16));
        self.driver.create_doorbell(&self.passive(), &mut args).unwrap()
    }

    /// Removes and returns the mailbox commands since the last take.
    pub fn commands(&self) -> Vec<AdminCommand> {
        let commands = self.journal.take().into_iter().filter_map(|e| match e {
            Event::Admin(command) => Some(command),
            _ => None,
        });
        commands.collect()
    }

    /// Plants a status for all commands of this kind.
    pub fn refuse(&self, command: &AdminCommand, status: u64) {
        self.device.script.lock_device().refused.insert(command.encode()[0], status);
    }

    /// Plants a result for all commands of this kind.
    pub fn answer(&self, command: &AdminCommand, result: (u64, u64)) {
        self.device.script.lock_device().results.insert(command.encode()[0], result);
    }

    /// Clears the planted statuses.
    pub fn accept(&self) {
        self.device.script.lock_device().refused.clear();
    }
}

/// Arguments of a native fence of the default type.
pub fn fence_args(os_handle: u64) -> CreateNativeFence {
    CreateNativeFence {
        os_handle: OsHandle(os_handle),
        fence_type: NativeFenceType::Default,
        system_process_va: None,
        private_data: [os_handle as u8; 64],
    }
}

/// Arguments of an instance whose MonitoredValue is one page after its CurrentValue.
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

/// Arguments of a hardware queue with a monitored progress fence at `progress`.
pub fn queue_args(context: DriverHandle, os: u64, user_mode: bool, progress: u64) -> CreateHwQueue {
    CreateHwQueue {
        context,
        os_handle: OsHandle(os),
        user_mode_submission: user_mode,
        exclusions: BroadcastExclusions::default(),
        progress_fence: ProgressFence::Monitored { gpu_va: progress },
        progress_current_gpu_va: progress,
        progress_monitored_gpu_va: 0,
    }
}

/// Arguments of a hardware-scheduled context.
pub fn context_args(device: DriverHandle, os: u64, node_ordinal: u32) -> CreateContext {
    CreateContext {
        device,
        os_handle: OsHandle(os),
        node_ordinal,
        engine_affinity: 1,
        hardware_scheduled: true,
    }
}

/// Arguments of a doorbell without flags.
pub fn doorbell_args(hw_queue: DriverHandle, os: u64, ring: RingAllocations) -> CreateDoorbell {
    CreateDoorbell {
        hw_queue,
        os_handle: OsHandle(os),
        ring,
        flags: CreateDoorbellFlags::empty(),
        private_data: Vec::new(),
    }
}
