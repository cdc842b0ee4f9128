//! Owns the machines that the tests of the kernel's call surface stand on: one process with one
//! device, on virtual time, with a driver in the middle that writes down every call and can be told
//! to misbehave.

#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

pub mod declaring;
pub mod hooked;
pub mod neighbour;
pub mod page_tables;
pub mod pair;
pub mod save_areas;

pub use hooked::{ChangeCaps, Hooked};
pub use neighbour::Neighbour;

use std::sync::Arc;
use tidegate::calls::{
    Allocation, AllocationKind, AllocationMemory, Connection, CreateAllocation,
    CreateContextVirtual, CreateDoorbell, CreateDoorbellFlags, CreateHwContext, CreateHwQueue,
    CreateMonitoredFence, CreateNativeFence, Doorbell, FenceInstance, FenceValue, Handle, HwQueue,
    Kernel, NativeFenceType, Placement, Priority, RingHint, SignalFlags, Status, SyncObjectFlags,
    WaitMode,
};
use tidegate::d3dukmdt::FenceCell;
use tidegate::d3dukmdt::fence_cell::REACHED;
use tidegate::ddi::recording::Called;
use tidegate::ddi::{Driver, InterruptData, OsHandle, Recording};
use tidegate::dxgkrnl::{InterruptDelivery, Process};
use tidegate::gpu_abi::{
    CONTROL_WORDS, CONTROL_WRITE_WORD, Command, DOORBELL_VALUE_WORD, GpuVa, RingPacket, SLOT_BYTES,
    TraceWords,
};
use tidegate::platform::{Bulk, Event, Mapping, Mutex, Page, RunReport, StepCosts, Word};
use tidegate::{Machine, MachineConfig, MachineError, Platform};

/// A machine, and what the tests do with it.
pub struct World {
    pub kernel: Arc<dyn Kernel>,
    /// The same, for its end.
    pub process: Arc<Process>,
    pub device: Handle,
    /// After the process: a machine is stopped when nobody is left on it.
    pub machine: Machine,
    /// Who was called, in order.
    pub driver: Arc<Recording>,
    /// Who was called while the adapter started.
    pub start_calls: Vec<Called>,
    /// The driver in the middle.
    pub hooked: Arc<Hooked>,
    pub platform: Platform,
}

/// A thread has one machine at a time, and its services end with its run: one that was never run is
/// run here.
impl Drop for World {
    fn drop(&mut self) {
        if !self.platform.is_stopped() {
            self.machine.run(|| ());
        }
    }
}

/// A machine of the standard kind.
pub fn world() -> World {
    world_with(|config| config)
}

/// The same, changed.
pub fn world_with(change: impl FnOnce(MachineConfig) -> MachineConfig) -> World {
    start(change, None).unwrap()
}

/// A machine whose interrupts run on the raising agent, so that a test can raise them outside of a
/// run.
pub fn inline_world() -> World {
    world_with(inline)
}

/// Interrupts run on the raising agent.
pub fn inline(mut config: MachineConfig) -> MachineConfig {
    config.kernel.interrupts = InterruptDelivery::Inline;
    config
}

/// Starts a machine that is configured and declares as asked.
pub fn start(
    change: impl FnOnce(MachineConfig) -> MachineConfig,
    caps: Option<ChangeCaps>,
) -> Result<World, MachineError> {
    start_on(Platform::virtual_time(StepCosts::free()), change, caps)
}

/// A machine of the standard kind on threads.
pub fn host_world() -> World {
    start_on(Platform::closed_host(), |config| config, None).unwrap()
}

/// The same where steps cost time.
pub fn start_at(
    costs: StepCosts,
    change: impl FnOnce(MachineConfig) -> MachineConfig,
    caps: Option<ChangeCaps>,
) -> Result<World, MachineError> {
    start_on(Platform::virtual_time(costs), change, caps)
}

/// The same on any platform.
pub fn start_on(
    platform: Platform,
    change: impl FnOnce(MachineConfig) -> MachineConfig,
    caps: Option<ChangeCaps>,
) -> Result<World, MachineError> {
    start_around(platform, change, caps, |driver| driver)
}

/// The same with something else in the place of the reference driver, or around it.
pub fn start_with(
    change: impl FnOnce(MachineConfig) -> MachineConfig,
    caps: Option<ChangeCaps>,
    layer: impl FnOnce(Arc<dyn Driver>) -> Arc<dyn Driver>,
) -> Result<World, MachineError> {
    start_around(Platform::virtual_time(StepCosts::free()), change, caps, layer)
}

pub fn start_around(
    platform: Platform,
    change: impl FnOnce(MachineConfig) -> MachineConfig,
    caps: Option<ChangeCaps>,
    layer: impl FnOnce(Arc<dyn Driver>) -> Arc<dyn Driver>,
) -> Result<World, MachineError> {
    let mut config = MachineConfig::standard(&platform);
    // Tests of the contract count calls, packets and bytes: whoever has packets preempted in the
    // middle switches them on.
    config.driver.save_areas = false;
    let config = change(config);
    let mut drivers = None;
    let machine = Machine::with_driver(&platform, config, |driver| {
        let hooked = Hooked::new(&platform, layer(driver), caps);
        let recording = Recording::new(&platform, hooked.clone());
        drivers = Some((recording.clone(), hooked));
        recording
    })?;
    let (driver, hooked) = drivers.expect("the machine asked for its driver");
    let start_calls = driver.take();
    let process = machine.process("test")?;
    let kernel: Arc<dyn Kernel> = process.clone();
    let device = kernel.create_device().map_err(MachineError::Open)?;
    driver.take();
    Ok(World { kernel, process, device, machine, driver, start_calls, hooked, platform })
}

impl World {
    pub fn native(&self, initial_value: u64) -> FenceInstance {
        self.try_native(initial_value, SyncObjectFlags::empty()).unwrap()
    }

    pub fn try_native(
        &self,
        initial_value: u64,
        flags: SyncObjectFlags,
    ) -> Result<FenceInstance, Status> {
        let (device, fence_type) = (self.device, NativeFenceType::Default);
        self.kernel.create_native_fence(CreateNativeFence {
            device,
            initial_value,
            fence_type,
            flags,
            engine_affinity: 0,
            private_data: [0; 64],
            name: "f",
        })
    }

    pub fn monitored(&self, initial_value: u64) -> FenceInstance {
        self.try_monitored(initial_value, SyncObjectFlags::empty()).unwrap()
    }

    pub fn try_monitored(
        &self,
        initial_value: u64,
        flags: SyncObjectFlags,
    ) -> Result<FenceInstance, Status> {
        let device = self.device;
        self.kernel.create_monitored_fence(CreateMonitoredFence {
            device,
            initial_value,
            flags,
            engine_affinity: 0,
            name: "m",
        })
    }

    /// An event that is set when the fence has reached `value`.
    pub fn wait_event(&self, fence: &FenceInstance, value: u64) -> Event {
        let event = self.platform.event(true);
        self.kernel.wait_from_cpu(&at(fence, value), WaitMode::All, Some(event.clone())).unwrap();
        event
    }

    pub fn signal(&self, fence: &FenceInstance, value: u64) {
        self.kernel.signal_from_cpu(&at(fence, value), SignalFlags::empty()).unwrap();
    }

    /// The MonitoredValues published since the last look at the calls.
    pub fn armed(&self) -> Vec<String> {
        let calls = self.driver.take().into_iter();
        calls.filter(|c| c.ddi == "UpdateMonitoredValues").map(|c| c.about).collect()
    }

    /// CurrentValue as the kernel's CPU reaches it: a store there is a GPU signal that nobody was
    /// told of.
    pub fn current_word(&self, fence: &FenceInstance) -> FenceCell {
        self.signal(fence, fence.value.load());
        let kept = self.hooked.told().current.pop().unwrap().0;
        kept.current_value.expect("the kernel reaches a DEFAULT fence")
    }

    /// The kernel's handle of the native fence made last.
    pub fn last_os_handle(&self) -> OsHandle {
        self.hooked.told().fences.last().unwrap().0
    }

    pub fn hw_context(&self, node_ordinal: u32) -> Handle {
        self.kernel
            .create_hw_context(CreateHwContext {
                device: self.device,
                node_ordinal,
                engine_affinity: 0,
            })
            .unwrap()
    }

    /// A hardware queue of the kernel-mode kind on node 0.
    pub fn hw_queue(&self) -> HwQueue {
        self.hw_queue_on(0)
    }

    /// The same on any node.
    pub fn hw_queue_on(&self, node_ordinal: u32) -> HwQueue {
        self.try_hw_queue(node_ordinal, false).unwrap()
    }

    pub fn try_hw_queue(
        &self,
        node_ordinal: u32,
        user_mode_submission: bool,
    ) -> Result<HwQueue, Status> {
        let hw_context = CreateHwContext { device: self.device, node_ordinal, engine_affinity: 0 };
        let (hw_context, priority) = (self.kernel.create_hw_context(hw_context)?, Priority::Normal);
        self.kernel.create_hw_queue(CreateHwQueue {
            hw_context,
            user_mode_submission,
            priority,
            tag: 1,
            lane: 0,
        })
    }

    /// A context for packets.
    pub fn context(&self, node_ordinal: u32) -> Handle {
        self.context_of(node_ordinal, Priority::Normal)
    }

    /// The same of any priority.
    pub fn context_of(&self, node_ordinal: u32, priority: Priority) -> Handle {
        let device = self.device;
        let args = CreateContextVirtual {
            device,
            node_ordinal,
            engine_affinity: 0,
            priority,
            tag: 1,
            lane: 0,
        };
        self.kernel.create_context_virtual(args).unwrap()
    }

    pub fn allocate(&self, bytes: u64, kind: AllocationKind) -> Allocation {
        let args =
            CreateAllocation { device: self.device, bytes, kind, placement: Placement::System };
        self.kernel.create_allocation(args).unwrap()
    }

    /// Bytes that engines and this process share.
    pub fn bytes(&self, bytes: u64) -> (Bulk, u64) {
        let made = self.allocate(bytes, AllocationKind::Bulk);
        let AllocationMemory::Bulk(memory) = made.memory else { panic!("bytes were asked for") };
        (memory, made.gpu_va)
    }

    /// This process, for what is the same for every one.
    fn itself(&self) -> Neighbour {
        Neighbour { kernel: Arc::clone(&self.kernel), device: self.device }
    }

    /// Commands in GPU memory: where, and how many bytes.
    pub fn commands(&self, commands: &[Command]) -> (u64, u32) {
        self.itself().commands(commands)
    }

    /// Gives commands to a kernel-mode hardware queue.
    pub fn submit(&self, queue: &HwQueue, progress_fence_id: u64, commands: &[Command]) {
        self.itself().submit(queue, progress_fence_id, commands);
    }

    /// Gives commands to a context for packets.
    pub fn submit_packet(&self, context: Handle, commands: &[Command]) {
        self.itself().submit_packet(context, commands);
    }

    /// Blocks until the fence has reached `value`.
    pub fn wait(&self, fence: Handle, value: u64) -> Result<(), Status> {
        self.kernel.wait_from_cpu(&[FenceValue { fence, value }], WaitMode::All, None)
    }

    /// Lets everybody else move until the modelled clock has gone on by `ns`.
    pub fn pass(&self, ns: u64) {
        self.platform.sleep_until(self.platform.now().after(ns));
    }

    /// Runs `main` as the application, to its end, and asserts that nobody panicked or stayed
    /// blocked.
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

/// One fence and a value, as most calls take them.
pub fn at(fence: &FenceInstance, value: u64) -> [FenceValue; 1] {
    [FenceValue { fence: fence.handle, value }]
}

/// An interrupt that says which fences were signalled.
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

/// The commands of a buffer that stores `value` to `destination`.
pub fn store(destination: u64, value: u64) -> Command {
    Command::WriteValue { destination: GpuVa(destination), value }
}

/// A buffer that copies 8 bytes.
pub fn copy_word(destination: u64, source: u64) -> Command {
    Command::Copy { source: GpuVa(source), destination: GpuVa(destination), bytes: 8 }
}

/// A ring packet that signals a fence, and writes no log entry.
pub fn signal_packet(fence: &FenceInstance, value: u64, log_entry: u32) -> RingPacket {
    RingPacket::Signal {
        current_value: GpuVa(fence.current_value_gpu_va),
        monitored_value: GpuVa(fence.monitored_value_gpu_va),
        value,
        fence_handle: fence.handle.0,
        log_entry,
        trace: TraceWords::default(),
    }
}

/// A ring packet that waits for a fence, and writes no log entry.
pub fn wait_packet(fence: &FenceInstance, value: u64, log_entry: u32) -> RingPacket {
    RingPacket::Wait {
        current_value: GpuVa(fence.current_value_gpu_va),
        value,
        epoch: epoch_of_wait(fence, value),
        fence_handle: fence.handle.0,
        log_entry,
        trace: TraceWords::default(),
    }
}

/// What a wait carries so that it latches from its call on.
pub fn epoch_of_wait(fence: &FenceInstance, value: u64) -> u64 {
    let epoch = fence.epoch.as_ref().map_or(0, |word| word.load());
    if fence.value.get().is_some_and(|now| now >= value) { REACHED } else { epoch }
}

/// A user-mode queue as a user-mode driver holds it, with nothing that hides the steps.
pub struct UserQueue {
    pub queue: HwQueue,
    pub ring: Allocation,
    pub control: Allocation,
    pub doorbell: Doorbell,
    slots: Bulk,
    pointers: Page,
    connection: Mutex<Option<Connection>>,
    written: Word,
}

/// Slots of the ring of a [`UserQueue`].
const SLOTS: u64 = 64;

impl World {
    /// A user-mode queue on `node` with its doorbell, not connected.
    pub fn user_queue(&self, node_ordinal: u32) -> UserQueue {
        self.with_ring(self.try_hw_queue(node_ordinal, true).unwrap())
    }

    /// A ring and a doorbell for a queue, not connected.
    pub fn with_ring(&self, queue: HwQueue) -> UserQueue {
        self.ring_of(&self.itself(), queue)
    }

    /// The same for a queue of another process.
    pub fn ring_of(&self, owner: &Neighbour, queue: HwQueue) -> UserQueue {
        let allocate = |bytes, kind| {
            let args = CreateAllocation {
                device: owner.device,
                bytes,
                kind,
                placement: Placement::System,
            };
            owner.kernel.create_allocation(args).unwrap()
        };
        let ring = allocate(SLOTS * SLOT_BYTES, AllocationKind::Bulk);
        let control = allocate(CONTROL_WORDS as u64 * 8, AllocationKind::Protocol);
        let args = CreateDoorbell {
            hw_queue: queue.handle,
            ring: ring.handle,
            control: control.handle,
            flags: CreateDoorbellFlags::empty(),
            private_data: Vec::new(),
        };
        let doorbell = owner.kernel.create_doorbell(args).unwrap();
        let (AllocationMemory::Bulk(slots), AllocationMemory::Protocol(pointers)) =
            (ring.memory.clone(), control.memory.clone())
        else {
            panic!("ring and control area are of the kinds that were asked for")
        };
        let connection = self.platform.mutex("a connection", None);
        let written = self.platform.page(1).word(0);
        UserQueue { queue, ring, control, doorbell, slots, pointers, connection, written }
    }

    /// The same, connected.
    pub fn connected_queue(&self, node_ordinal: u32) -> UserQueue {
        let queue = self.user_queue(node_ordinal);
        queue.connect(self).unwrap();
        queue
    }
}

impl UserQueue {
    /// The same ring behind another doorbell.
    pub fn with_doorbell(self, doorbell: Doorbell) -> UserQueue {
        UserQueue { doorbell, ..self }
    }

    pub fn connect(&self, world: &World) -> Result<(), Status> {
        self.connect_by(&*world.kernel)
    }

    /// The same by the calls of the process that owns the queue.
    pub fn connect_by(&self, kernel: &dyn Kernel) -> Result<(), Status> {
        let connection = kernel.connect_doorbell(self.doorbell.handle)?;
        *self.connection.lock() = Some(connection);
        Ok(())
    }

    /// Puts a packet into the ring and publishes the write pointer; nobody is told.
    pub fn put(&self, packet: &RingPacket) {
        let slot = self.written.fetch_add(1);
        self.slots.write(slot % SLOTS * SLOT_BYTES, &packet.encode()).unwrap();
        self.pointers.store(CONTROL_WRITE_WORD, slot + 1);
    }

    /// Rings with the present write pointer.
    pub fn ring(&self) {
        self.ring_at(&self.doorbell.mapping);
    }

    /// The doorbell value of an earlier write pointer.
    pub fn stale(&self, pointer: u64) -> u64 {
        self.connection.lock().as_ref().map_or(0, |c| c.value_base) + pointer
    }

    /// Rings at the secondary address.
    pub fn ring_secondary(&self) {
        self.ring_at(self.doorbell.secondary.as_ref().unwrap());
    }

    fn ring_at(&self, mapping: &Mapping) {
        let connection = self.connection.lock().clone();
        let base = connection.as_ref().map_or(0, |c| c.value_base);
        mapping.store(DOORBELL_VALUE_WORD, base + self.written.load());
        if let Some(Connection { hint, .. }) = connection {
            hint.rung();
        }
    }

    /// Puts a packet and rings.
    pub fn push(&self, packet: &RingPacket) {
        self.put(packet);
        self.ring();
    }
}
