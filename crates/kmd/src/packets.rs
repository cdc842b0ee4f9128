//! The packet path: one ring per engine, which takes DMA packets of all contexts in submission
//! order.
//!
//! Called at DISPATCH level, so nothing here blocks. The kernel bounds the number of packets on a
//! node, so a full ring is an error, which the kernel treats as a driver bug.

use crate::kernel_ring::{KernelRing, NodeRing, check_command_bytes};
use crate::{KmdError, ReferenceDriver};
use std::sync::Arc;
use tidegate_ddi::patch::SubmitCommandPhysical;
use tidegate_ddi::queue::SubmitCommandVirtual;
use tidegate_ddi::scheduling::PriorityBand;
use tidegate_ddi::{EngineId, SubmitCommandFlags};
use tidegate_gpu_abi::ring::DmaFlags;
use tidegate_gpu_abi::{AddressSpaceId, AdminCommand, GpuVa, QueueKind, QueueShape, RingPacket};
use tidegate_platform::PhysicalMemory;

impl ReferenceDriver {
    /// Creates the ring and the hardware queue of one engine.
    pub(crate) fn create_node_ring(
        &self,
        memory: &PhysicalMemory,
        engine: EngineId,
    ) -> Result<NodeRing, KmdError> {
        let engine = self.engine_number(engine)?;
        let ring = KernelRing::new(&self.platform, memory, self.config.kernel_ring_slots);
        let shape = QueueShape {
            engine,
            kind: QueueKind::Node,
            address_space: AddressSpaceId(0),
            ring: ring.bytes_at(),
            slots: ring.slots(),
            control: ring.control_at(),
            progress_current: GpuVa(0),
            progress_monitored: GpuVa(0),
        };
        let made = self.mailbox.create_queue(AdminCommand::CreateQueue {
            shape,
            band: PriorityBand::Normal as u32,
            os_handle: 0,
            context: 0,
        });
        match made {
            Ok(queue) => Ok(NodeRing { queue, ring }),
            Err(error) => {
                ring.release(memory);
                Err(error)
            }
        }
    }

    /// Submits one DMA packet to its engine.
    pub(crate) fn submit_packet(&self, args: &SubmitCommandVirtual) -> Result<(), KmdError> {
        let switches = args.flags.contains(SubmitCommandFlags::CONTEXT_SWITCH);
        let bytes = if switches { 0 } else { check_command_bytes(args.dma_buffer_bytes)? };
        let mut flags = DmaFlags::empty();
        flags.set(DmaFlags::CONTEXT_SWITCH, switches);
        self.put_packet(args, GpuVa(args.dma_buffer_gpu_va), bytes, flags)
    }

    /// Submits a part of a buffer with physical addresses, which are already patched in.
    pub(crate) fn submit_part(&self, args: &SubmitCommandPhysical) -> Result<(), KmdError> {
        let bytes = args.end_offset.checked_sub(args.start_offset);
        let bytes =
            bytes.ok_or(KmdError::Argument("a part of a buffer must end after its start"))?;
        let at = GpuVa(args.dma_buffer.0).plus(u64::from(args.start_offset));
        let packet = SubmitCommandVirtual {
            context: args.context,
            engine: args.engine,
            dma_buffer_gpu_va: at.0,
            dma_buffer_bytes: bytes,
            submission_fence_id: args.submission_fence_id,
            flags: args.flags,
        };
        self.put_packet(&packet, at, check_command_bytes(bytes)?, DmaFlags::PHYSICAL)
    }

    fn put_packet(
        &self,
        args: &SubmitCommandVirtual,
        commands: GpuVa,
        bytes: u32,
        mut flags: DmaFlags,
    ) -> Result<(), KmdError> {
        // The save area records whether the packet had been started.
        flags.set(DmaFlags::RESUME, args.flags.contains(SubmitCommandFlags::RESUBMISSION));
        let (node_ring, packet) = {
            let mut guard = self.objects.lock();
            let objects = &mut *guard;
            let context = objects.contexts.get(args.context)?;
            if context.hardware_scheduled || context.engine != args.engine {
                return Err(KmdError::Argument(
                    "a DMA packet goes to the engine of its context, which has no queues",
                ));
            }
            let packet = RingPacket::ExecuteDma {
                commands,
                bytes,
                address_space: context.address_space,
                submission_fence_id: args.submission_fence_id,
                os_handle: context.os_handle.0,
                save_area: context.save_area.system_va,
                flags,
            };
            let started = objects.started.as_mut().ok_or(KmdError::NotStarted)?;
            let packets = &mut started.packets[args.engine];
            packets.submitted = args.submission_fence_id;
            (Arc::clone(&packets.ring), packet)
        };
        node_ring.ring.publish(&packet)?;
        self.mailbox.run(AdminCommand::KickQueue { queue: node_ring.queue })
    }
}
