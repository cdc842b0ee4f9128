//! A process with a device at the kernel's call surface, and its calls.
//!
//! Calls unwrap their results, so a refusal fails the test. The `try_` variants return it.

use std::sync::Arc;
use tidegate::calls::{
    Allocation, AllocationKind, AllocationMemory, BroadcastExclusions, CreateAllocation,
    CreateContextVirtual, CreateHwContext, CreateHwQueue, CreateMonitoredFence, CreateNativeFence,
    CreatePagingQueue, DeviceState, FenceInstance, FenceValue, Handle, HwQueue, Kernel,
    MakeResident, NativeFenceType, NtHandle, OpenSyncObject, PagingPriority, PagingQueue,
    Placement, Priority, Residency, SignalFlags, Status, SubmitCommand, SubmitCommandToHwQueue,
    SyncObjectAccess, SyncObjectFlags, WaitMode,
};
use tidegate::gpu_abi::{Command, CommandWriter, GpuVa, RingPacket};
use tidegate::platform::{Bulk, Event, QueueNumber};
use tidegate::{Machine, Platform};

/// The flags of a fence with an NT handle.
pub const SHARED: SyncObjectFlags =
    SyncObjectFlags::SHARED.union(SyncObjectFlags::NT_SECURITY_SHARING);

/// A process and its device.
#[derive(Clone)]
pub struct Client {
    /// The process, for kernel calls.
    pub kernel: Arc<dyn Kernel>,
    /// Its device.
    pub device: Handle,
    /// Engine affinity of the objects it creates; 0 for all physical GPUs.
    pub engine_affinity: u32,
    /// The platform of the machine.
    pub platform: Platform,
}

impl Client {
    /// Creates a process on the first adapter.
    pub fn open(machine: &Machine, name: &str) -> Client {
        let kernel: Arc<dyn Kernel> = machine.open(name).expect("a process");
        let device = kernel.create_device().expect("a device");
        Client::of(machine.platform(), kernel, device)
    }

    /// Creates a process that may raise priorities and disable timeouts.
    pub fn privileged(machine: &Machine, name: &str) -> Client {
        let kernel: Arc<dyn Kernel> = machine.privileged_process(name).expect("a process");
        let device = kernel.create_device().expect("a device");
        Client::of(machine.platform(), kernel, device)
    }

    /// Wraps an existing process.
    pub fn of(platform: &Platform, kernel: Arc<dyn Kernel>, device: Handle) -> Client {
        Client { kernel, device, engine_affinity: 0, platform: platform.clone() }
    }

    /// Returns the kernel's number of a context or hardware queue.
    pub fn number(&self, queue: Handle) -> QueueNumber {
        self.kernel.queue_number(queue).expect("a queue")
    }

    /// Returns the same process with a new device.
    pub fn another_device(&self) -> Client {
        Client { device: self.kernel.create_device().unwrap(), ..self.clone() }
    }

    /// Returns the same process with another engine affinity.
    pub fn affine(&self, engine_affinity: u32) -> Client {
        Client { engine_affinity, ..self.clone() }
    }

    /// Returns the state of the device.
    pub fn state(&self) -> Result<DeviceState, Status> {
        self.kernel.device_state(self.device)
    }

    /// Creates a native fence.
    pub fn native(&self, initial_value: u64) -> FenceInstance {
        self.try_native(initial_value, SyncObjectFlags::empty()).unwrap()
    }

    /// Creates a native fence at 0, and an event that is set when it has reached `value`.
    pub fn native_awaited(&self, value: u64) -> (FenceInstance, Event) {
        let fence = self.native(0);
        let event = self.wait_event(&fence, value);
        (fence, event)
    }

    /// Creates a native fence with flags.
    ///
    /// # Errors
    /// The kernel's refusal, as in the other `try_` variants.
    pub fn try_native(
        &self,
        initial_value: u64,
        flags: SyncObjectFlags,
    ) -> Result<FenceInstance, Status> {
        self.native_with(|args| (args.initial_value, args.flags) = (initial_value, flags))
    }

    /// Creates a native fence at 0 with changed arguments.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn native_with(
        &self,
        change: impl FnOnce(&mut CreateNativeFence<'_>),
    ) -> Result<FenceInstance, Status> {
        let mut args = CreateNativeFence {
            device: self.device,
            initial_value: 0,
            fence_type: NativeFenceType::Default,
            flags: SyncObjectFlags::empty(),
            engine_affinity: self.engine_affinity,
            private_data: [0; 64],
            name: "f",
        };
        change(&mut args);
        self.kernel.create_native_fence(args)
    }

    /// Creates an IntraGPU fence at 0 with flags.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn try_intra(&self, flags: SyncObjectFlags) -> Result<FenceInstance, Status> {
        let fence_type = NativeFenceType::IntraGpu;
        self.native_with(|args| (args.fence_type, args.flags) = (fence_type, flags))
    }

    /// Creates a monitored fence.
    pub fn monitored(&self, initial_value: u64) -> FenceInstance {
        self.try_monitored(initial_value, SyncObjectFlags::empty()).unwrap()
    }

    /// Creates a monitored fence with flags.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn try_monitored(
        &self,
        initial_value: u64,
        flags: SyncObjectFlags,
    ) -> Result<FenceInstance, Status> {
        self.kernel.create_monitored_fence(CreateMonitoredFence {
            device: self.device,
            initial_value,
            flags,
            engine_affinity: self.engine_affinity,
            name: "m",
        })
    }

    /// Creates an NT handle of a fence.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn share(
        &self,
        fence: &FenceInstance,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status> {
        self.kernel.share_objects(&[fence.handle], access, None)
    }

    /// Creates an NT handle of a fence with all access rights.
    pub fn share_all(&self, fence: &FenceInstance) -> NtHandle {
        self.share(fence, SyncObjectAccess::all()).unwrap()
    }

    /// Opens a fence of either kind by its NT handle, without flags.
    pub fn open_fence(&self, nt_handle: &NtHandle) -> FenceInstance {
        self.open_shared(nt_handle, SyncObjectFlags::empty()).unwrap()
    }

    /// Opens a fence of either kind by its NT handle.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn open_shared(
        &self,
        nt_handle: &NtHandle,
        flags: SyncObjectFlags,
    ) -> Result<FenceInstance, Status> {
        self.kernel.open_sync_object_from_nt_handle(self.open_args(nt_handle, flags))
    }

    /// Opens a native fence by its NT handle.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn open_native(
        &self,
        nt_handle: &NtHandle,
        flags: SyncObjectFlags,
    ) -> Result<FenceInstance, Status> {
        self.kernel.open_native_fence_from_nt_handle(self.open_args(nt_handle, flags))
    }

    fn open_args<'a>(&self, nt_handle: &'a NtHandle, flags: SyncObjectFlags) -> OpenSyncObject<'a> {
        let (device, engine_affinity) = (self.device, self.engine_affinity);
        OpenSyncObject { device, nt_handle, flags, engine_affinity }
    }

    /// Destroys an instance of a fence.
    pub fn destroy(&self, fence: &FenceInstance) {
        self.kernel.destroy_synchronization_object(fence.handle).unwrap();
    }

    /// Signals a fence from the CPU.
    pub fn signal(&self, fence: &FenceInstance, value: u64) {
        self.try_signal(fence, value).unwrap();
    }

    /// Signals a fence from the CPU.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn try_signal(&self, fence: &FenceInstance, value: u64) -> Result<(), Status> {
        self.kernel.signal_from_cpu(&at(fence, value), SignalFlags::empty())
    }

    /// Blocks until the fence has reached `value`.
    ///
    /// # Errors
    /// Fails if the device is lost or the fence destroyed.
    pub fn wait(&self, fence: Handle, value: u64) -> Result<(), Status> {
        self.kernel.wait_from_cpu(&[FenceValue { fence, value }], WaitMode::All, None)
    }

    /// Returns an event that is set when the fence has reached `value`.
    pub fn wait_event(&self, fence: &FenceInstance, value: u64) -> Event {
        self.try_wait_event(fence, value).unwrap()
    }

    /// Returns an event that is set when the fence has reached `value`.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn try_wait_event(&self, fence: &FenceInstance, value: u64) -> Result<Event, Status> {
        let event = self.platform.event(true);
        self.kernel.wait_from_cpu(&at(fence, value), WaitMode::All, Some(event.clone()))?;
        Ok(event)
    }

    /// Creates a hardware context.
    pub fn hw_context(&self, node_ordinal: u32) -> Handle {
        self.try_hw_context(node_ordinal).unwrap()
    }

    /// Creates a hardware context.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn try_hw_context(&self, node_ordinal: u32) -> Result<Handle, Status> {
        let device = self.device;
        self.kernel.create_hw_context(CreateHwContext {
            device,
            node_ordinal,
            engine_affinity: self.engine_affinity,
        })
    }

    /// Creates a kernel-mode hardware queue on node 0.
    pub fn hw_queue(&self) -> HwQueue {
        self.hw_queue_on(0)
    }

    /// Creates a kernel-mode hardware queue in a new context.
    pub fn hw_queue_on(&self, node_ordinal: u32) -> HwQueue {
        self.try_hw_queue(node_ordinal, false).unwrap()
    }

    /// Creates a hardware queue in a new context.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn try_hw_queue(
        &self,
        node_ordinal: u32,
        user_mode_submission: bool,
    ) -> Result<HwQueue, Status> {
        self.hw_queue_in(self.try_hw_context(node_ordinal)?, user_mode_submission)
    }

    /// Creates a hardware queue in a context.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn hw_queue_in(
        &self,
        hw_context: Handle,
        user_mode_submission: bool,
    ) -> Result<HwQueue, Status> {
        self.kernel.create_hw_queue(CreateHwQueue {
            hw_context,
            user_mode_submission,
            native_fence_commands: false,
            exclusions: BroadcastExclusions::default(),
            priority: Priority::Normal,
        })
    }

    /// Creates a packet context.
    pub fn context(&self, node_ordinal: u32) -> Handle {
        self.context_of(node_ordinal, Priority::Normal)
    }

    /// Creates a packet context with a priority.
    pub fn context_of(&self, node_ordinal: u32, priority: Priority) -> Handle {
        self.try_context(node_ordinal, priority).unwrap()
    }

    /// Creates a packet context with a priority.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn try_context(&self, node_ordinal: u32, priority: Priority) -> Result<Handle, Status> {
        let args = CreateContextVirtual {
            device: self.device,
            node_ordinal,
            engine_affinity: self.engine_affinity,
            priority,
        };
        self.kernel.create_context_virtual(args)
    }

    /// Allocates system memory.
    pub fn allocate(&self, bytes: u64, kind: AllocationKind) -> Allocation {
        self.try_allocate(bytes, kind, Placement::System).unwrap()
    }

    /// Allocates bulk memory with a placement.
    pub fn allocate_in(&self, bytes: u64, placement: Placement) -> Allocation {
        self.try_allocate(bytes, AllocationKind::Bulk, placement).unwrap()
    }

    /// Allocates memory of any kind with any placement.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn try_allocate(
        &self,
        bytes: u64,
        kind: AllocationKind,
        placement: Placement,
    ) -> Result<Allocation, Status> {
        let device = self.device;
        self.kernel.create_allocation(CreateAllocation { device, bytes, kind, placement })
    }

    /// Creates a paging queue.
    pub fn paging_queue(&self) -> PagingQueue {
        let args = CreatePagingQueue { device: self.device, priority: PagingPriority::Normal };
        self.kernel.create_paging_queue(args).unwrap()
    }

    /// Makes allocations resident, or queues the paging operation for them.
    pub fn make_resident(&self, queue: &PagingQueue, of: &[&Allocation]) -> Residency {
        let allocations: Vec<Handle> = of.iter().map(|a| a.handle).collect();
        let args = MakeResident { paging_queue: queue.handle, allocations: &allocations };
        self.kernel.make_resident(args).unwrap()
    }

    /// Allocates bytes that engines and this process share. Returns them with their GPU address.
    pub fn bytes(&self, bytes: u64) -> (Bulk, u64) {
        let made = self.allocate(bytes, AllocationKind::Bulk);
        let AllocationMemory::Bulk(memory) = made.memory else {
            panic!("bulk memory was requested")
        };
        (memory, made.gpu_va)
    }

    /// Creates a command buffer in GPU memory. Returns its address and its length in bytes.
    pub fn commands(&self, commands: &[Command]) -> (u64, u32) {
        let mut writer = CommandWriter::new();
        commands.iter().for_each(|command| writer.push(command));
        let bytes = writer.to_bytes();
        let (memory, gpu_va) = self.bytes(bytes.len() as u64);
        memory.write(0, &bytes).expect("the memory has the length of the commands");
        (gpu_va, bytes.len() as u32)
    }

    /// Returns a ring packet that executes commands, then stores the progress value.
    pub fn execute_packet(&self, commands: &[Command], progress: u64) -> RingPacket {
        let (commands, bytes) = self.commands(commands);
        RingPacket::execute(GpuVa(commands), bytes, progress)
    }

    /// A command buffer for a kernel-mode hardware queue, to be submitted.
    pub fn command_buffer(
        &self,
        queue: &HwQueue,
        progress_fence_id: u64,
        commands: &[Command],
    ) -> SubmitCommandToHwQueue {
        let (commands_gpu_va, command_bytes) = self.commands(commands);
        SubmitCommandToHwQueue {
            hw_queue: queue.handle,
            progress_fence_id,
            commands_gpu_va,
            command_bytes,
        }
    }

    /// Submits commands to a kernel-mode hardware queue.
    pub fn submit(&self, queue: &HwQueue, progress_fence_id: u64, commands: &[Command]) {
        let args = self.command_buffer(queue, progress_fence_id, commands);
        self.kernel.submit_command_to_hw_queue(args).unwrap();
    }

    /// Submits commands to a packet context.
    pub fn submit_packet(&self, context: Handle, commands: &[Command]) {
        let (commands_gpu_va, command_bytes) = self.commands(commands);
        let args = SubmitCommand { context, commands_gpu_va, command_bytes };
        self.kernel.submit_command(args).unwrap();
    }

    /// Blocks until the queue's progress fence has reached `value`.
    ///
    /// # Errors
    /// Fails if the device is lost.
    pub fn wait_progress(&self, queue: &HwQueue, value: u64) -> Result<(), Status> {
        self.wait(queue.progress_fence, value)
    }

    /// Blocks until the queue's progress fence has reached `value`, and asserts that the device is
    /// still active.
    pub fn finish(&self, queue: &HwQueue, value: u64) {
        self.wait_progress(queue, value).unwrap();
        assert_eq!(self.state(), Ok(DeviceState::Active));
        assert_eq!(queue.progress_value.load(), value);
    }
}

/// Returns a fence with a value, the argument of most calls.
pub fn at(fence: &FenceInstance, value: u64) -> [FenceValue; 1] {
    [FenceValue { fence: fence.handle, value }]
}
