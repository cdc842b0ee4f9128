//! Owns a process with a device, and how it gives work to engines: beside the world's own, whoever
//! must not be punished for the first.

use super::{UserQueue, World};
use std::sync::Arc;
use tidegate::calls::{
    Allocation, AllocationKind, AllocationMemory, CreateAllocation, CreateContextVirtual,
    CreateHwContext, CreateHwQueue, CreateNativeFence, DeviceState, FenceInstance, FenceValue,
    Handle, HwQueue, Kernel, NativeFenceType, Placement, Priority, Status, SubmitCommand,
    SubmitCommandToHwQueue, SyncObjectFlags, WaitMode,
};
use tidegate::gpu_abi::{Command, CommandWriter};

/// A process and its device.
pub struct Neighbour {
    pub kernel: Arc<dyn Kernel>,
    pub device: Handle,
}

impl Neighbour {
    pub fn of(w: &World, name: &str) -> Neighbour {
        let kernel = w.machine.open(name).unwrap();
        let device = kernel.create_device().unwrap();
        Neighbour { kernel, device }
    }

    pub fn state(&self) -> Result<DeviceState, Status> {
        self.kernel.device_state(self.device)
    }

    /// A native fence.
    pub fn native(&self, initial_value: u64) -> FenceInstance {
        let (device, fence_type) = (self.device, NativeFenceType::Default);
        let args = CreateNativeFence {
            device,
            initial_value,
            fence_type,
            flags: SyncObjectFlags::empty(),
            engine_affinity: 0,
            private_data: [0; 64],
            name: "f",
        };
        self.kernel.create_native_fence(args).unwrap()
    }

    /// A kernel-mode hardware queue.
    pub fn queue(&self, node_ordinal: u32, tag: u32) -> HwQueue {
        self.queue_of(node_ordinal, tag, false)
    }

    /// A user-mode queue that rings its doorbell itself.
    pub fn ring(&self, w: &World, node_ordinal: u32, tag: u32) -> UserQueue {
        let queue = w.ring_of(self, self.queue_of(node_ordinal, tag, true));
        queue.connect_by(&*self.kernel).unwrap();
        queue
    }

    fn queue_of(&self, node_ordinal: u32, tag: u32, user_mode_submission: bool) -> HwQueue {
        let context = CreateHwContext { device: self.device, node_ordinal, engine_affinity: 0 };
        let hw_context = self.kernel.create_hw_context(context).unwrap();
        let priority = Priority::Normal;
        let args = CreateHwQueue { hw_context, user_mode_submission, priority, tag, lane: 0 };
        self.kernel.create_hw_queue(args).unwrap()
    }

    /// A context for packets.
    pub fn context(&self, node_ordinal: u32, tag: u32) -> Handle {
        let (device, priority) = (self.device, Priority::Normal);
        let args = CreateContextVirtual {
            device,
            node_ordinal,
            engine_affinity: 0,
            priority,
            tag,
            lane: 0,
        };
        self.kernel.create_context_virtual(args).unwrap()
    }

    pub fn allocate(&self, bytes: u64, placement: Placement) -> Allocation {
        let args =
            CreateAllocation { device: self.device, bytes, kind: AllocationKind::Bulk, placement };
        self.kernel.create_allocation(args).unwrap()
    }

    /// Commands in GPU memory: where, and how many bytes.
    pub fn commands(&self, commands: &[Command]) -> (u64, u32) {
        let mut writer = CommandWriter::new();
        commands.iter().for_each(|c| writer.push(c));
        let bytes = writer.to_bytes();
        let made = self.allocate(bytes.len() as u64, Placement::System);
        let AllocationMemory::Bulk(memory) = made.memory else { panic!("bytes were asked for") };
        memory.write(0, &bytes).unwrap();
        (made.gpu_va, bytes.len() as u32)
    }

    /// Gives commands to a kernel-mode hardware queue.
    pub fn submit(&self, queue: &HwQueue, progress_fence_id: u64, commands: &[Command]) {
        let (commands_gpu_va, command_bytes) = self.commands(commands);
        let hw_queue = queue.handle;
        let args = SubmitCommandToHwQueue {
            hw_queue,
            progress_fence_id,
            commands_gpu_va,
            command_bytes,
            queued_ns: 0,
        };
        self.kernel.submit_command_to_hw_queue(args).unwrap();
    }

    /// Gives commands to a context for packets.
    pub fn submit_packet(&self, context: Handle, commands: &[Command]) {
        let (commands_gpu_va, command_bytes) = self.commands(commands);
        let args = SubmitCommand { context, commands_gpu_va, command_bytes, queued_ns: 0 };
        self.kernel.submit_command(args).unwrap();
    }

    /// Blocks until the queue has done so much; an error when the device was lost.
    pub fn wait(&self, queue: &HwQueue, value: u64) -> Result<(), Status> {
        let fence = FenceValue { fence: queue.progress_fence, value };
        self.kernel.wait_from_cpu(&[fence], WaitMode::All, None)
    }

    /// Blocks until the queue has done so much, and asserts that nobody is lost for it.
    pub fn finish(&self, queue: &HwQueue, value: u64) {
        self.wait(queue, value).unwrap();
        assert_eq!(self.state(), Ok(DeviceState::Active));
        assert_eq!(queue.progress_value.load(), value);
    }
}
