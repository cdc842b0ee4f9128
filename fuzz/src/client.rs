//! The hostile process: one device with a connected user-mode queue, whose memory it writes at
//! will. It uses valid calls but breaks the rest of the contract.

use crate::input::Input;
use std::ops::Deref;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::calls::{
    CreateDoorbellFlags, FenceInstance, Kernel, RingHint, SyncObjectFlags, WaitMode,
};
use tidegate::gpu_abi::{
    AddressSpaceId, CONTROL_WRITE_WORD, Command, CommandWriter, DOORBELL_VALUE_WORD, GpuVa,
    QueueId, RingPacket, SLOT_BYTES, global_base,
};
use tidegate::platform::Bulk;
use tidegate::trace::LaneId;
use tidegate_testbed::{UserQueue, at};

/// Number of slots of its ring.
pub(crate) const SLOTS: u64 = 16;
/// Size of its memory for commands and their operands in bytes.
pub(crate) const MEMORY_BYTES: u64 = 16 << 10;
/// Maximum duration of one piece of modelled work. Longer work would occupy the engine until a
/// timeout, which no target covers.
const LONGEST_WORK_NS: u64 = 1_000_000;

/// The hostile process. Dereferences to its calls.
pub(crate) struct Client {
    own: tidegate_testbed::Client,
    /// The engine of its queues.
    pub(crate) node: u32,
    pub(crate) queue: UserQueue,
    pub(crate) fences: Vec<FenceInstance>,
    /// Addresses that its engines can access.
    pub(crate) addresses: Vec<u64>,
    memory: (Bulk, u64),
    hint: Option<Arc<dyn RingHint>>,
    /// Added to a write pointer to form the value of its doorbell.
    value_base: u64,
    written: u64,
}

impl Deref for Client {
    type Target = tidegate_testbed::Client;

    fn deref(&self) -> &tidegate_testbed::Client {
        &self.own
    }
}

impl Client {
    /// Creates the device and the queue of process `kernel` on engine `node`.
    pub(crate) fn new(
        platform: &Platform,
        kernel: Arc<dyn Kernel>,
        node: u32,
        lane: Option<LaneId>,
        second_doorbell: bool,
    ) -> Client {
        let device = kernel.create_device().expect("a device");
        let own = tidegate_testbed::Client::of(platform, kernel, device);
        let queue = own.try_hw_queue(node, true).expect("a queue");
        if let Some(lane) = lane {
            let number = own.kernel.queue_number(queue.handle).expect("a number");
            own.platform.assign_lane(number, lane);
        }
        let flags = match second_doorbell {
            true => CreateDoorbellFlags::REQUIRE_SECONDARY_CPU_VA,
            false => CreateDoorbellFlags::empty(),
        };
        let queue = own.with_ring_of(SLOTS, flags, queue);
        let memory = own.bytes(MEMORY_BYTES);
        let logs = own.kernel.native_fence_log_detail(queue.queue.handle);
        let logs = logs.expect("a user-mode queue has logs");
        let addresses = vec![
            memory.1,
            queue.ring.gpu_va,
            queue.control.gpu_va,
            queue.queue.progress_gpu_va,
            logs.wait_log_gpu_va,
            logs.signal_log_gpu_va,
        ];
        let (fences, hint) = (Vec::new(), None);
        let mut client =
            Client { own, node, queue, fences, addresses, memory, hint, value_base: 0, written: 0 };
        (0..3).for_each(|_| client.make_fence());
        client.connect();
        client
    }

    pub(crate) fn make_fence(&mut self) {
        if let Ok(fence) = self.own.try_native(0, SyncObjectFlags::empty()) {
            self.addresses.extend([fence.current_value_gpu_va, fence.monitored_value_gpu_va]);
            self.fences.push(fence);
        }
    }

    pub(crate) fn connect(&mut self) {
        if let Ok(connection) = self.kernel.connect_doorbell(self.queue.doorbell.handle) {
            (self.hint, self.value_base) = (Some(connection.hint), connection.value_base);
        }
    }

    /// Lets all other threads and engines run for `ns`.
    pub(crate) fn pass(&self, ns: u64) {
        self.platform.sleep_until(self.platform.now().after(ns));
    }

    /// Waits for a fence, either with an event or blocking.
    pub(crate) fn wait(&self, fence: usize, value: u64, blocking: bool) {
        let Some(fence) = self.fences.get(fence) else { return };
        let event = (!blocking).then(|| self.platform.event(true));
        let _refused_or_lost = self.kernel.wait_from_cpu(&at(fence, value), WaitMode::All, event);
    }

    /// Returns an address: a meaningful one, one close to it, or any.
    pub(crate) fn address(&self, input: &mut Input<'_>) -> GpuVa {
        match input.byte() % 4 {
            0 | 1 => GpuVa(input.one_of(&self.addresses)),
            2 => GpuVa(input.one_of(&self.addresses).wrapping_add(input.number())),
            _ => GpuVa(input.number()),
        }
    }

    pub(crate) fn slot(&mut self, number: u64, bytes: &[u8]) {
        let at = number % SLOTS * SLOT_BYTES;
        let len = bytes.len().min(SLOT_BYTES as usize);
        self.queue.slots.write(at, &bytes[..len]).expect("the slot is in the ring");
    }

    /// Writes the next slot, publishes it and rings.
    pub(crate) fn push(&mut self, packet: &RingPacket) {
        self.slot(self.written, &packet.encode());
        self.written = self.written.wrapping_add(1);
        self.queue.pointers.store(CONTROL_WRITE_WORD, self.written);
        self.ring_with(self.value_base.wrapping_add(self.written));
    }

    /// Stores to any word of the control area, including the hardware's.
    pub(crate) fn control(&mut self, word: usize, value: u64) {
        self.queue.pointers.store(word % self.queue.pointers.len(), value);
    }

    /// Stores to the doorbell, then sends the engine the ring hint.
    pub(crate) fn ring_with(&mut self, value: u64) {
        self.queue.doorbell.mapping.store(DOORBELL_VALUE_WORD, value);
        self.send_ring_hint();
    }

    /// Stores to the secondary doorbell, if there is one, then sends the hint.
    pub(crate) fn ring_second_with(&mut self, value: u64) {
        if let Some(second) = &self.queue.doorbell.secondary {
            second.store(DOORBELL_VALUE_WORD, value);
        }
        self.send_ring_hint();
    }

    /// Returns a doorbell value that names its own or any other queue, as for a global doorbell.
    pub(crate) fn value_that_names(&self, input: &mut Input<'_>) -> u64 {
        let base = match input.flag() {
            true => self.value_base,
            false => global_base(QueueId(input.byte().into())),
        };
        base.wrapping_add(input.number())
    }

    fn send_ring_hint(&self) {
        if let Some(hint) = &self.hint {
            hint.rung();
        }
    }

    pub(crate) fn write_memory(&mut self, offset: u64, bytes: &[u8]) {
        let room = (MEMORY_BYTES - offset % MEMORY_BYTES) as usize;
        let bytes = &bytes[..bytes.len().min(room)];
        self.memory.0.write(offset % MEMORY_BYTES, bytes).expect("it fits");
    }

    pub(crate) fn memory_at(&self, offset: u64) -> GpuVa {
        GpuVa(self.memory.1 + offset % MEMORY_BYTES)
    }

    /// Returns a packet with fields chosen by the input.
    pub(crate) fn packet(&self, input: &mut Input<'_>) -> RingPacket {
        let fence = self.fences.get(input.below(self.fences.len()));
        let fence_handle = fence.map_or(0, |fence| fence.handle.0);
        match input.byte() % 8 {
            0 => RingPacket::Nop,
            1 | 2 => {
                RingPacket::execute(self.address(input), input.number() as u32, input.number())
            }
            3 => RingPacket::Execute {
                commands: self.address(input),
                bytes: input.number() as u32,
                progress: input.number(),
                log_entry: Some(input.number() as u32),
            },
            4 => RingPacket::ExecuteDma {
                commands: self.address(input),
                bytes: input.number() as u32,
                address_space: AddressSpaceId(input.number() as u32),
                submission_fence_id: input.number() as u32,
                os_handle: input.number(),
                save_area: GpuVa(0),
                flags: tidegate::gpu_abi::ring::DmaFlags::empty(),
            },
            5 => RingPacket::Wait {
                current_value: self.address(input),
                value: input.number(),
                epoch: input.number(),
                fence_handle,
                log_entry: input.number() as u32,
            },
            _ => RingPacket::Signal {
                current_value: self.address(input),
                monitored_value: if input.flag() { self.address(input) } else { GpuVa(0) },
                value: input.number(),
                fence_handle: if input.flag() { fence_handle } else { input.number() as u32 },
                log_entry: input.number() as u32,
            },
        }
    }

    /// Returns a command with operands chosen by the input.
    pub(crate) fn command(&self, input: &mut Input<'_>) -> Command {
        let groups = |input: &mut Input<'_>| [0; 3].map(|_| input.number().clamp(1, 40) as u32);
        match input.byte() % 8 {
            0 | 1 => Command::Copy {
                source: self.address(input),
                destination: self.address(input),
                bytes: input.number().max(1),
            },
            2 => Command::Fill {
                destination: self.address(input),
                bytes: (input.number() & !3).max(4),
                value: input.number() as u32,
            },
            3 => {
                let (program, groups) = (u32::from(input.byte() % 14), groups(input));
                let args = (0..input.below(25)).map(|_| self.argument(input)).collect();
                Command::Dispatch { program, groups, args }
            }
            4 => {
                let (program, groups) = (u32::from(input.byte() % 14), groups(input));
                let args = (0..input.below(25)).map(|_| self.argument(input)).collect();
                Command::Draw { program, groups, args }
            }
            5 => Command::Timed { ns: input.number().min(LONGEST_WORK_NS) },
            6 => Command::WriteValue { destination: self.address(input), value: input.number() },
            _ => Command::Label { name: input.number() as u32 },
        }
    }

    fn argument(&self, input: &mut Input<'_>) -> u64 {
        if input.flag() { self.address(input).0 } else { input.number() }
    }

    /// Returns a command buffer: complete commands, and raw bytes if the input chooses.
    pub(crate) fn command_buffer(&self, input: &mut Input<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..1 + input.below(6) {
            if input.below(8) == 0 {
                let len = 8 * (1 + input.below(8));
                bytes.extend_from_slice(input.take(len));
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                continue;
            }
            let mut writer = CommandWriter::new();
            writer.push(&self.command(input));
            bytes.extend(writer.to_bytes());
        }
        bytes
    }
}
