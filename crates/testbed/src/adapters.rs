//! Machines with several adapters under the queue API: a process and a device on each, and a driver
//! layer that records its calls.

use crate::Hooked;
use std::cell::OnceCell;
use std::sync::Arc;
use tidegate::calls::NtHandle;
use tidegate::d3d12::{
    CommandListType, Device, DeviceOptions, Fence, FenceChoice, FenceDesc, FenceFlags, Queue,
    QueueDesc,
};
use tidegate::ddi::Recording;
use tidegate::ddi::fence::UpdateCurrentMode;
use tidegate::dxgkrnl::{FeatureSetting, InterruptDelivery};
use tidegate::kmd::InterruptMode;
use tidegate::{Machine, MachineConfig, Platform, Submission};

/// The properties of one adapter.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Whether the kernel supports native fences on it.
    pub native: bool,
    /// The agent that runs interrupts.
    pub interrupts: InterruptDelivery,
    /// The content of fence-signalled interrupts.
    pub mode: InterruptMode,
}

impl Kind {
    /// An adapter with native fences.
    pub const CAPABLE: Kind = Kind {
        native: true,
        interrupts: InterruptDelivery::Inline,
        mode: InterruptMode::FenceArray,
    };
    /// An adapter without native fences.
    pub const PLAIN: Kind = Kind { native: false, ..Kind::CAPABLE };
}

/// A machine with a device on each adapter.
pub struct Adapters {
    /// One device on each adapter.
    pub devices: Vec<Device>,
    /// The machine. Dropped after the devices, because it stops when its last process ends.
    pub machine: Machine,
    /// The driver layer of each adapter.
    pub drivers: Vec<Arc<Hooked>>,
    /// The driver calls of each adapter since its start.
    pub calls: Vec<Arc<Recording>>,
}

impl Adapters {
    /// Creates a machine with one adapter of each kind.
    pub fn new(platform: &Platform, kinds: &[Kind]) -> Adapters {
        Adapters::with(platform, kinds, |_, _| {})
    }

    /// As [`Adapters::new`], with a change of each adapter's configuration by its index.
    pub fn with(
        platform: &Platform,
        kinds: &[Kind],
        change: impl Fn(usize, &mut MachineConfig),
    ) -> Adapters {
        let hooked: Vec<_> = kinds.iter().map(|_| OnceCell::new()).collect();
        let mut builder = Machine::builder(platform);
        for ((index, kind), driver) in kinds.iter().enumerate().zip(&hooked) {
            let mut config = MachineConfig::standard(platform);
            if !kind.native {
                config.kernel.native_fence = FeatureSetting::OFF;
            }
            config.kernel.interrupts = kind.interrupts;
            config.driver.interrupt = kind.mode;
            change(index, &mut config);
            builder = builder.reference_behind(config, |inner| {
                let hooked = Hooked::new(platform, inner, None);
                let recording = Recording::new(platform, hooked.clone());
                driver.set((hooked, recording.clone())).ok().expect("one driver per adapter");
                recording
            });
        }
        let machine = builder.start().unwrap();
        let (drivers, calls): (Vec<_>, Vec<_>) =
            hooked.into_iter().map(|made| made.into_inner().expect("a driver")).unzip();
        let device = |index: usize| {
            let process_name = format!("process {index}");
            let options = DeviceOptions {
                process_name,
                fences: FenceChoice::Auto,
                ..DeviceOptions::default()
            };
            machine.device_on(index, options).unwrap()
        };
        let devices = (0..kinds.len()).map(device).collect();
        calls.iter().for_each(|c| drop(c.take()));
        Adapters { devices, machine, drivers, calls }
    }

    /// Creates a fence on adapter `creator` and opens it on all others. Returns the fence on each
    /// adapter, and its handle.
    pub fn fence_from(&self, creator: usize, initial: u64) -> (Vec<Fence>, NtHandle) {
        let flags = FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER;
        let made = self.devices[creator]
            .create_fence_with(FenceDesc::new("shared").initial_value(initial).flags(flags))
            .unwrap();
        let handle = self.devices[creator].create_shared_handle(&made).unwrap();
        let open = |(index, device): (usize, &Device)| match index == creator {
            true => made.clone(),
            false => device.open_shared_handle("shared", &handle).unwrap(),
        };
        (self.devices.iter().enumerate().map(open).collect(), handle)
    }

    /// Creates a compute queue on an adapter.
    pub fn queue(&self, adapter: usize, submission: Submission) -> Queue {
        let desc = QueueDesc {
            name: format!("queue of {adapter}"),
            ..QueueDesc::new(CommandListType::Compute).submission(submission)
        };
        self.devices[adapter].create_queue(desc).unwrap()
    }

    /// Returns mode and value of each CurrentValue update that the adapter's driver received.
    pub fn updates(&self, adapter: usize) -> Vec<(UpdateCurrentMode, u64)> {
        self.drivers[adapter]
            .calls()
            .current
            .iter()
            .map(|(update, mode)| (*mode, update.value))
            .collect()
    }

    /// Returns the number of pure notifications that the adapter's driver received.
    pub fn notifications(&self, adapter: usize) -> usize {
        let updates = self.updates(adapter);
        updates.iter().filter(|(mode, _)| *mode == UpdateCurrentMode::NotificationOnly).count()
    }

    /// Runs `main` as the application. Asserts that it ended and that no contract was broken.
    pub fn run(self, main: impl FnOnce(&Adapters) + Send + 'static) -> Arc<Adapters> {
        self.run_boxed(Box::new(main))
    }

    /// The same, compiled once and not for each test.
    fn run_boxed(self, main: Box<dyn FnOnce(&Adapters) + Send>) -> Arc<Adapters> {
        let world = Arc::new(self);
        let own = world.clone();
        world.machine.run(move || main(&own)).unwrap();
        for adapter in 0..world.machine.adapter_count() {
            assert_eq!(world.machine.adapter_at(adapter).bug_checks(), []);
            let records = world.machine.driver_at(adapter).violations();
            assert!(records.is_empty(), "{records:?}");
        }
        world
    }
}
