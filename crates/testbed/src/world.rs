//! A machine with one process and one device, and a driver layer that records every call and can
//! fail or change it.
//!
//! The platform is virtual time unless a test selects another.

use crate::{ChangeCaps, Client, DriverCalls, Hooked};
use std::cell::OnceCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use tidegate::calls::{FenceInstance, Kernel};
use tidegate::d3dukmdt::FenceCell;
use tidegate::ddi::{
    AdapterCaps, DdiCall, DisconnectReason, Driver, DriverHandle, EngineId, EngineState,
    InterruptData, OsHandle, Overrides, Passive, Recording, Status,
};
use tidegate::dxgkrnl::{Adapter, InterruptDelivery, KernelStats, Process};
use tidegate::platform::{RunReport, StepCosts};
use tidegate::{Machine, MachineConfig, MachineError, Platform};

/// A machine with one process. Dereferences to that process's [`Client`].
pub struct World {
    client: Client,
    /// The process, for closing or terminating it.
    pub process: Arc<Process>,
    /// The machine. Dropped after the process, because it stops when its last process ends.
    pub machine: Machine,
    /// The driver calls, in order.
    pub driver: Arc<Recording>,
    /// The driver calls during the adapter's start.
    pub start_calls: Vec<DdiCall>,
    /// The driver layer.
    pub hooked: Arc<Hooked>,
}

impl Deref for World {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

/// A machine under construction: the standard configuration with changes, with free steps.
#[must_use]
pub struct Setup<'a> {
    platform: Option<Platform>,
    change: Box<dyn FnOnce(&mut MachineConfig) + 'a>,
    caps: Option<ChangeCaps>,
    layer: Layer<'a>,
}

/// Wraps a driver in another.
type Layer<'a> = Box<dyn FnOnce(Arc<dyn Driver>) -> Arc<dyn Driver> + 'a>;

/// Begins a machine with a changed configuration.
pub fn setup<'a>(change: impl FnOnce(&mut MachineConfig) + 'a) -> Setup<'a> {
    Setup { platform: None, change: Box::new(change), caps: None, layer: Box::new(|driver| driver) }
}

fn free_steps() -> Platform {
    Platform::virtual_time(StepCosts::free())
}

impl<'a> Setup<'a> {
    /// Selects the platform.
    pub fn on(self, platform: Platform) -> Self {
        Setup { platform: Some(platform), ..self }
    }

    /// Selects virtual time with these costs.
    pub fn costs(self, costs: StepCosts) -> Self {
        self.on(Platform::virtual_time(costs))
    }

    /// Changes the driver's declaration.
    pub fn caps(self, change: impl Fn(&mut AdapterCaps) + Send + Sync + 'static) -> Self {
        Setup { caps: Some(Box::new(change)), ..self }
    }

    /// Puts `layer` around the reference driver, or in its place.
    pub fn behind(self, layer: impl FnOnce(Arc<dyn Driver>) -> Arc<dyn Driver> + 'a) -> Self {
        Setup { layer: Box::new(layer), ..self }
    }

    /// Replaces these entries of the reference driver.
    pub fn overriding(self, overrides: Overrides) -> Self {
        self.behind(|driver| overrides.before(driver))
    }

    /// Starts the machine with the driver `layer`. Returns both.
    pub fn start_behind<L: Driver + 'static>(
        self,
        layer: impl FnOnce(Arc<dyn Driver>) -> Arc<L>,
    ) -> (World, Arc<L>) {
        let made = OnceCell::new();
        let world = self.behind(|driver| made.get_or_init(|| layer(driver)).clone()).start();
        (world, made.into_inner().expect("the machine has created its driver"))
    }

    /// Starts the machine without a process, as [`Machine::new`] does.
    pub fn machine(self) -> Machine {
        let platform = self.platform.unwrap_or_else(free_steps);
        let mut config = MachineConfig::standard(&platform);
        (self.change)(&mut config);
        Machine::new(&platform, config).unwrap()
    }

    /// Starts the machine.
    pub fn start(self) -> World {
        self.try_start().unwrap()
    }

    /// Starts the machine with one process and one device.
    ///
    /// # Errors
    /// A contradiction in the configuration or in the driver's declaration.
    pub fn try_start(self) -> Result<World, MachineError> {
        let Setup { platform, change, caps, layer } = self;
        let platform = platform.unwrap_or_else(free_steps);
        let mut config = MachineConfig::standard(&platform);
        // Save areas cost calls and bytes, which many tests count. Tests that preempt inside of
        // packets enable them.
        config.driver.save_areas = false;
        change(&mut config);
        let mut drivers = None;
        let machine = Machine::builder(&platform).reference_behind(config, |driver| {
            let hooked = Hooked::new(&platform, layer(driver), caps);
            let recording = Recording::new(&platform, hooked.clone());
            drivers = Some((recording.clone(), hooked));
            recording
        });
        let machine = machine.start()?;
        let (driver, hooked) = drivers.expect("the machine has created its driver");
        let start_calls = driver.take();
        let process = machine.process("test")?;
        let kernel: Arc<dyn Kernel> = process.clone();
        let device = kernel.create_device().map_err(MachineError::Open)?;
        driver.take();
        let client = Client::of(&platform, kernel, device);
        Ok(World { client, process, machine, driver, start_calls, hooked })
    }
}

/// Creates a machine with the standard configuration.
pub fn world() -> World {
    world_with(|_| ())
}

/// Creates a machine with a changed configuration.
pub fn world_with(change: impl FnOnce(&mut MachineConfig)) -> World {
    setup(change).start()
}

/// Creates a machine whose interrupts run on the raising agent, so that a test can raise them
/// outside of a run.
pub fn inline_world() -> World {
    world_with(inline)
}

/// Makes interrupts run on the raising agent.
pub fn inline(config: &mut MachineConfig) {
    config.kernel.interrupts = InterruptDelivery::Inline;
}

/// Creates a machine with the standard configuration on host threads.
pub fn host_world() -> World {
    setup(|_| ()).on(Platform::closed_host()).start()
}

impl World {
    /// Returns the kernel's adapter.
    pub fn adapter(&self) -> &Arc<Adapter> {
        self.machine.adapter()
    }

    /// Returns the kernel's counters.
    pub fn stats(&self) -> KernelStats {
        self.adapter().stats()
    }

    /// Returns the hardware's counters.
    pub fn gpu_stats(&self) -> tidegate::softgpu::Stats {
        self.machine.gpu().stats()
    }

    /// Returns the driver calls so far.
    pub fn calls(&self) -> DriverCalls {
        self.hooked.calls()
    }

    /// Returns the MonitoredValues published since the recorded calls were last taken.
    pub fn armed(&self) -> Vec<Vec<u64>> {
        let values = |call| match call {
            DdiCall::UpdateMonitoredValues { fences } => {
                Some(fences.iter().map(|fence| fence.value).collect())
            }
            _ => None,
        };
        self.driver.take().into_iter().filter_map(values).collect()
    }

    /// Returns CurrentValue at the kernel's CPU address. A store acts as a silent GPU signal.
    pub fn current_word(&self, fence: &FenceInstance) -> FenceCell {
        self.signal(fence, fence.value.load());
        let kept = self.hooked.calls().current.pop().unwrap().0;
        kept.current_value.expect("the kernel can access a DEFAULT fence")
    }

    /// Returns the kernel's handle of the last created native fence.
    pub fn last_os_handle(&self) -> OsHandle {
        self.hooked.calls().fences.last().unwrap().0
    }

    /// Makes the driver disconnect the doorbell that was created last.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn disconnect_last_doorbell(
        &self,
        level: &Passive,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        let calls = self.calls();
        let (doorbell, _) = calls.doorbells.last().expect("a doorbell");
        let queue = calls.queues.iter().rfind(|(_, driver)| *driver == doorbell.hw_queue);
        let (queue, doorbell) = (queue.expect("its queue").0.os_handle, doorbell.os_handle);
        let callbacks = self.hooked.start_info().callbacks;
        callbacks.disconnect_doorbell(level, queue, doorbell, reason)
    }

    /// Creates another process on the machine.
    pub fn client(&self, name: &str) -> Client {
        Client::open(&self.machine, name)
    }

    /// Sleeps for `ns` nanoseconds of virtual time.
    pub fn pass(&self, ns: u64) {
        self.platform.sleep_until(self.platform.now().after(ns));
    }

    /// Lets the machine's agents run for `ns` nanoseconds of virtual time, for a test that runs no
    /// application. Work that a DPC leaves to the timer's agent is done afterwards.
    pub fn let_agents_work(&self, ns: u64) {
        let platform = self.platform.clone();
        self.machine.run(|| platform.sleep_until(platform.now().after(ns))).unwrap();
    }

    /// Runs `main` as the application. Asserts that no agent panicked or stayed blocked, and that
    /// no contract was broken.
    pub fn run(self, main: impl FnOnce(&World) + Send + 'static) -> Arc<World> {
        self.run_whole(Box::new(main))
    }

    fn run_whole(self, main: Application) -> Arc<World> {
        let (world, report) = self.run_boxed(main);
        assert!(report.completed(), "{report:?}");
        assert_eq!(world.machine.adapter().bug_checks(), []);
        assert_eq!(world.machine.driver().violations(), []);
        world
    }

    /// Runs `main` as the application.
    pub fn run_to_report(
        self,
        main: impl FnOnce(&World) + Send + 'static,
    ) -> (Arc<World>, RunReport) {
        self.run_boxed(Box::new(main))
    }

    fn run_boxed(self, main: Application) -> (Arc<World>, RunReport) {
        let world = Arc::new(self);
        let own = world.clone();
        let (_, report) = world.machine.run_to_report(move || main(&own));
        (world, report)
    }
}

/// The application of a run. Boxed, so that a run is compiled once and not for each test.
type Application = Box<dyn FnOnce(&World) + Send>;

/// Returns an interrupt that reports signalled fences.
pub fn signalled(fences: &[OsHandle]) -> InterruptData {
    native_signalled(Some(fences.to_vec()), false)
}

/// An interrupt of the signalled kind that names a hardware queue, or none.
pub fn hw_queue_signalled(node_ordinal: u32, hw_queue: Option<DriverHandle>) -> InterruptData {
    InterruptData::NativeFenceSignaled {
        engine: EngineId::of_node(node_ordinal),
        fences: None,
        hw_queue,
        evaluate_legacy_monitored_fences: false,
    }
}

/// An interrupt of an engine's state.
pub fn engine_state_change(node_ordinal: u32, new_state: EngineState) -> InterruptData {
    InterruptData::EngineStateChange { engine: EngineId::of_node(node_ordinal), new_state }
}

/// Returns a fence-signalled interrupt without a hardware queue.
pub fn native_signalled(fences: Option<Vec<OsHandle>>, legacy: bool) -> InterruptData {
    InterruptData::NativeFenceSignaled {
        engine: EngineId::of_node(0),
        fences,
        hw_queue: None,
        evaluate_legacy_monitored_fences: legacy,
    }
}
