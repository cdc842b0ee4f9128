//! A machine with one process and one device, and a driver in the middle that records every call
//! and can fail or change it.
//!
//! The platform is virtual time unless a test names another.

use crate::{ChangeCaps, Client, DriverCalls, Hooked};
use std::cell::OnceCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use tidegate::calls::{FenceInstance, Kernel};
use tidegate::d3dukmdt::FenceCell;
use tidegate::ddi::{
    AdapterCaps, DdiCall, DisconnectReason, Driver, InterruptData, OsHandle, Overrides, Passive,
    Recording, Status,
};
use tidegate::dxgkrnl::{Adapter, InterruptDelivery, KernelStats, Process};
use tidegate::platform::{RunReport, StepCosts};
use tidegate::{Machine, MachineConfig, MachineError, Platform};

/// A machine with one process. It derefs to that process's [`Client`].
pub struct World {
    client: Client,
    /// The process, to be closed or terminated.
    pub process: Arc<Process>,
    /// The machine. It is dropped after the process, because it stops when its last process ends.
    pub machine: Machine,
    /// The driver calls, in order.
    pub driver: Arc<Recording>,
    /// The driver calls of the adapter's start.
    pub start_calls: Vec<DdiCall>,
    /// The driver in the middle.
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

/// A thread has one machine at a time, and the machine's services end with its run. A machine that
/// was never run is run here.
impl Drop for World {
    fn drop(&mut self) {
        if !self.platform.is_stopped() {
            self.machine.run(|| ());
        }
    }
}

/// A machine to be started: the standard configuration with changes, on virtual time where steps are
/// free.
#[must_use]
pub struct Setup<'a> {
    platform: Option<Platform>,
    change: Box<dyn FnOnce(&mut MachineConfig) + 'a>,
    caps: Option<ChangeCaps>,
    layer: Layer<'a>,
}

/// Puts a driver around another.
type Layer<'a> = Box<dyn FnOnce(Arc<dyn Driver>) -> Arc<dyn Driver> + 'a>;

/// Begins a machine whose configuration is changed so.
pub fn setup<'a>(change: impl FnOnce(&mut MachineConfig) + 'a) -> Setup<'a> {
    Setup { platform: None, change: Box::new(change), caps: None, layer: Box::new(|driver| driver) }
}

fn free_steps() -> Platform {
    Platform::virtual_time(StepCosts::free())
}

impl<'a> Setup<'a> {
    /// On this platform.
    pub fn on(self, platform: Platform) -> Self {
        Setup { platform: Some(platform), ..self }
    }

    /// On virtual time with these costs.
    pub fn costs(self, costs: StepCosts) -> Self {
        self.on(Platform::virtual_time(costs))
    }

    /// With this change of what the driver declares.
    pub fn caps(self, change: impl Fn(&mut AdapterCaps) + Send + Sync + 'static) -> Self {
        Setup { caps: Some(Box::new(change)), ..self }
    }

    /// With `layer` around the reference driver, or in its place.
    pub fn behind(self, layer: impl FnOnce(Arc<dyn Driver>) -> Arc<dyn Driver> + 'a) -> Self {
        Setup { layer: Box::new(layer), ..self }
    }

    /// With these entries in place of those of the reference driver.
    pub fn overriding(self, overrides: Overrides) -> Self {
        self.behind(|driver| overrides.before(driver))
    }

    /// Starts a machine that must start behind `layer`, and returns the layer, too.
    pub fn start_behind<L: Driver + 'static>(
        self,
        layer: impl FnOnce(Arc<dyn Driver>) -> Arc<L>,
    ) -> (World, Arc<L>) {
        let made = OnceCell::new();
        let world = self.behind(|driver| made.get_or_init(|| layer(driver)).clone()).start();
        (world, made.into_inner().expect("the machine asked for its driver"))
    }

    /// Starts the machine alone, as [`Machine::new`] does.
    pub fn machine(self) -> Machine {
        let platform = self.platform.unwrap_or_else(free_steps);
        let mut config = MachineConfig::standard(&platform);
        (self.change)(&mut config);
        Machine::new(&platform, config).unwrap()
    }

    /// Starts a machine that must start.
    pub fn start(self) -> World {
        self.try_start().unwrap()
    }

    /// Starts the machine, with one process that has one device.
    ///
    /// # Errors
    /// What contradicts itself in the configuration or in what the driver declares.
    pub fn try_start(self) -> Result<World, MachineError> {
        let Setup { platform, change, caps, layer } = self;
        let platform = platform.unwrap_or_else(free_steps);
        let mut config = MachineConfig::standard(&platform);
        // Save areas cost calls and bytes, which many tests count. Tests that preempt packets in
        // their middle switch them on.
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
        let (driver, hooked) = drivers.expect("the machine asked for its driver");
        let start_calls = driver.take();
        let process = machine.process("test")?;
        let kernel: Arc<dyn Kernel> = process.clone();
        let device = kernel.create_device().map_err(MachineError::Open)?;
        driver.take();
        let client = Client::of(&platform, kernel, device);
        Ok(World { client, process, machine, driver, start_calls, hooked })
    }
}

/// A machine of the standard kind.
pub fn world() -> World {
    world_with(|_| ())
}

/// The same, changed.
pub fn world_with(change: impl FnOnce(&mut MachineConfig)) -> World {
    setup(change).start()
}

/// A machine whose interrupts run on the raising agent, so that a test can raise them outside of a
/// run.
pub fn inline_world() -> World {
    world_with(inline)
}

/// Interrupts run on the raising agent.
pub fn inline(config: &mut MachineConfig) {
    config.kernel.interrupts = InterruptDelivery::Inline;
}

/// A machine of the standard kind on threads.
pub fn host_world() -> World {
    setup(|_| ()).on(Platform::closed_host()).start()
}

impl World {
    /// The kernel.
    pub fn adapter(&self) -> &Arc<Adapter> {
        self.machine.adapter()
    }

    /// Counts of the kernel.
    pub fn stats(&self) -> KernelStats {
        self.adapter().stats()
    }

    /// Counts of the hardware.
    pub fn gpu_stats(&self) -> tidegate::softgpu::Stats {
        self.machine.gpu().stats()
    }

    /// What the kernel handed to the driver so far.
    pub fn calls(&self) -> DriverCalls {
        self.hooked.calls()
    }

    /// The MonitoredValues published since the recorded calls were last taken.
    pub fn armed(&self) -> Vec<Vec<u64>> {
        let values = |call| match call {
            DdiCall::UpdateMonitoredValues { fences } => {
                Some(fences.iter().map(|fence| fence.value).collect())
            }
            _ => None,
        };
        self.driver.take().into_iter().filter_map(values).collect()
    }

    /// CurrentValue as the kernel's CPU reaches it. A store there is a GPU signal without an
    /// interrupt.
    pub fn current_word(&self, fence: &FenceInstance) -> FenceCell {
        self.signal(fence, fence.value.load());
        let kept = self.hooked.calls().current.pop().unwrap().0;
        kept.current_value.expect("the kernel reaches a DEFAULT fence")
    }

    /// The kernel's handle of the native fence made last.
    pub fn last_os_handle(&self) -> OsHandle {
        self.hooked.calls().fences.last().unwrap().0
    }

    /// The driver disconnects the doorbell made last, of its own accord.
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

    /// A process beside the world's own, on the same machine.
    pub fn client(&self, name: &str) -> Client {
        Client::open(&self.machine, name)
    }

    /// Sleeps for `ns` of modelled time.
    pub fn pass(&self, ns: u64) {
        self.platform.sleep_until(self.platform.now().after(ns));
    }

    /// Lets the agents of the machine work for `ns` of modelled time, for a test that is no
    /// application: what a DPC leaves to the timer's agent is done afterwards.
    pub fn let_agents_work(&self, ns: u64) {
        let platform = self.platform.clone();
        let report = self.machine.run(move || {
            platform.sleep_until(platform.now().after(ns));
        });
        assert!(report.completed(), "{report:?}");
    }

    /// Runs `main` as the application to its end. Asserts that no agent panicked or stayed blocked,
    /// and that no contract was broken.
    pub fn run(self, main: impl FnOnce(&World) + Send + 'static) -> Arc<World> {
        let (world, report) = self.run_to_report(main);
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
        let world = Arc::new(self);
        let own = world.clone();
        let report = world.machine.run(move || main(&own));
        (world, report)
    }
}

/// An interrupt that names signalled fences.
pub fn signalled(fences: &[OsHandle]) -> InterruptData {
    native_signalled(Some(fences.to_vec()), false)
}

/// An interrupt of the signalled kind without a hardware queue.
pub fn native_signalled(fences: Option<Vec<OsHandle>>, legacy: bool) -> InterruptData {
    InterruptData::NativeFenceSignaled {
        node_ordinal: 0,
        engine_ordinal: 0,
        fences,
        hw_queue: None,
        evaluate_legacy_monitored_fences: legacy,
    }
}
