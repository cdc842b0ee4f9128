//! Implements the registers. Some reads take what they return.

use crate::cmp::peers::Peers;
use crate::cmp::reports::FaultRecord;
use crate::config::{Config, NodeConfig};
use crate::gpu::SoftGpu;
use crate::hardware::Hardware;
use crate::mailbox::{self, STATUS_OFFSET};
use std::sync::Arc;
use tidegate_gpu_abi::peer::CommonDoorbell;
use tidegate_gpu_abi::program::Argument;
use tidegate_gpu_abi::regs::{DeviceTraits, MAILBOX_WORDS, NodeTraits};
use tidegate_gpu_abi::{Device, InterruptSink, QueueId, Register, Summary};
use tidegate_platform::{Page, PhysicalAddress, PhysicalMemory, QueueNumber, Word, once};
use tidegate_programs::ProgramId;

/// Undefined registers read as 0 and ignore writes.
impl Device for SoftGpu {
    fn read_register(&self, register: Register) -> u64 {
        let gpu = self.hardware();
        let fault = |field: fn(&FaultRecord) -> u64| gpu.cmp.lock().faults.first().map_or(0, field);
        let port = |first: Register| gpu.nodes.get((register.0 - first.0) as usize);
        let node = |first: Register| gpu.config.nodes.get((register.0 - first.0) as usize);
        match register {
            Register::MAILBOX_STATUS => gpu.mailbox.read_u64(STATUS_OFFSET).unwrap_or(0),
            Register::MAILBOX_RESULT => gpu.mailbox.read_u64(STATUS_OFFSET + 8).unwrap_or(0),
            Register::MAILBOX_RESULT_HIGH => gpu.mailbox.read_u64(STATUS_OFFSET + 16).unwrap_or(0),
            Register::INTERRUPT_CAUSE => gpu.line.take(),
            Register::SIGNALED_QUEUE => gpu.cmp.lock().signaled.take(),
            Register::SIGNALED_VA => gpu.cmp.lock().signaled.address(),
            Register::CLOCK => gpu.clock.now().0,
            Register::FAULT_QUEUE => fault(|f| u64::from(f.queue.0) + 1),
            Register::FAULT_VA => fault(|f| f.va.0),
            Register::FAULT_POSITION => fault(|f| f.position),
            Register::FAULT_FENCE => fault(|f| f.progress),
            Register::FAULT_COMMAND => fault(|f| u64::from(f.command)),
            Register::FAULT_INFO => gpu.cmp.lock().faults.take().map_or(0, |f| f.info.encode()),
            Register::LOG_FLUSH => {
                gpu.posted.flush();
                0
            }
            Register::MONITORED_ENGINES => gpu.line.monitored.take(),
            Register::IDLE_ENGINES => gpu.line.idle.take(),
            Register::PREEMPTED_ENGINES => gpu.line.preempted.take(),
            Register::SUSPENDED_QUEUE => {
                gpu.cmp.lock().suspended_late.pop_front().map_or(0, |q| u64::from(q.0) + 1)
            }
            Register::NODE_COUNT => gpu.config.nodes.len() as u64,
            Register::LOCAL_MEMORY_BYTES => gpu.config.local_memory_bytes,
            Register::LOCAL_MEMORY_BASE => gpu.config.local_memory_base.0,
            Register::DEVICE_TRAITS => device_traits(&gpu.config).0,
            Register(n) if is_display(n) => {
                gpu.display.as_ref().map_or(0, |display| display.read(register))
            }
            Register(n) if n >= Register::LAST_RING.0 => {
                gpu.cmp.lock().last_ring_at(n - Register::LAST_RING.0)
            }
            Register(n) if n >= Register::NODE_CLASS.0 => {
                node(Register::NODE_CLASS).map_or(0, |n| n.class as u64)
            }
            Register(n) if n >= Register::NODE_PREEMPTION.0 => {
                node(Register::NODE_PREEMPTION).map_or(0, |n| n.preemption.encode())
            }
            Register(n) if n >= Register::PREEMPTED_COMPLETED.0 => {
                port(Register::PREEMPTED_COMPLETED).map_or(0, |n| n.preempted_completed.load())
            }
            Register(n) if n >= Register::PREEMPTED_FENCE.0 => {
                port(Register::PREEMPTED_FENCE).map_or(0, |n| n.preempted_fence.load())
            }
            Register(n) if n >= Register::NODE_TRAITS.0 => {
                node(Register::NODE_TRAITS).map_or(0, |n| node_traits(n).0)
            }
            Register(n) if n >= Register::COMPLETED_FENCE.0 => {
                port(Register::COMPLETED_FENCE).map_or(0, |n| n.completed.load())
            }
            _ => 0,
        }
    }

    fn write_register(&self, register: Register, value: u64) {
        let gpu = self.hardware();
        match register {
            Register(n) if n < MAILBOX_WORDS => {
                // The mailbox was created with these bytes.
                let _ = gpu.mailbox.write_u64(u64::from(n) * 8, value);
            }
            Register(n) if is_display(n) => {
                if let Some(display) = &gpu.display {
                    display.write(register, value);
                }
            }
            Register::MAILBOX_RUN => mailbox::run(gpu),
            Register::FENCE_STORED => gpu.unblock(Some(PhysicalAddress(value)), None),
            Register(n) if is_completed(gpu, n) => {
                gpu.nodes[(n - Register::COMPLETED_FENCE.0) as usize].completed.store(value);
            }
            Register::CONTEXT_ENDED => gpu.cmp.lock().stats.note_end(QueueNumber(value)),
            Register::SHADOW_FENCE => gpu.shadow.chosen.store(value),
            Register::SHADOW_VALUE => mailbox::shadow::update(gpu, gpu.shadow.chosen.load(), value),
            _ => {}
        }
    }

    fn doorbell_page(&self, queue: QueueId) -> Option<(Page, Summary, u32)> {
        let mut cmp = self.hardware().cmp.lock();
        let seat = cmp.queue(queue)?.seat.clone()?;
        cmp.doorbells.ringer(&seat)
    }

    fn poll_doorbell(&self, queue: QueueId) {
        self.hardware().poll_doorbell(queue);
    }

    fn secondary_doorbell_page(&self, queue: QueueId) -> Option<Page> {
        self.hardware().cmp.lock().queue(queue)?.seat.as_ref()?.secondary.clone()
    }

    fn common_doorbell(&self) -> Option<CommonDoorbell> {
        Some(self.hardware().common_doorbell())
    }

    fn waiting_word(&self, current_value: PhysicalAddress) -> Option<Word> {
        Some(self.hardware().armed.word(current_value))
    }

    fn connect_common_doorbell(&self, peer: u32, doorbell: CommonDoorbell) {
        let gpu = self.hardware();
        once::make_alone(&gpu.peers, || Peers::new(&gpu.platform)).connect(peer, doorbell);
    }

    fn turn_ends(&self) -> Word {
        self.hardware().turn_ends.clone()
    }

    fn connect_interrupt(&self, sink: Arc<dyn InterruptSink>) {
        self.hardware().line.connect(sink);
    }

    fn local_memory(&self, physical_gpu: u32) -> Option<&PhysicalMemory> {
        self.hardware().bus.local(physical_gpu)
    }

    fn local_memory_bytes(&self) -> u64 {
        self.hardware().config.local_memory_bytes
    }

    fn program_arguments(&self, program: u32) -> Option<&'static [Argument]> {
        tidegate_programs::signature(ProgramId(program)).map(|signature| signature.arguments)
    }

    fn hidden_memory(&self) -> Option<&PhysicalMemory> {
        Some(self.hardware().bus.hidden())
    }

    fn node_count(&self) -> u32 {
        self.hardware().config.nodes.len() as u32
    }

    fn physical_gpu_count(&self) -> u32 {
        self.hardware().config.physical_gpus
    }
}

/// Returns whether it holds the last completed packet of an engine.
fn is_completed(gpu: &Hardware, number: u32) -> bool {
    let first = Register::COMPLETED_FENCE.0;
    (first..first + gpu.nodes.len() as u32).contains(&number)
}

/// Returns whether it is a register of the display.
fn is_display(number: u32) -> bool {
    let first = Register::DISPLAY_PERIOD.0;
    (first..first + Register::DISPLAY_REGISTERS).contains(&number)
}

/// Returns `of` if `set`, else 0.
fn bit(set: bool, of: u64) -> u64 {
    if set { of } else { 0 }
}

fn node_traits(node: &NodeConfig) -> NodeTraits {
    NodeTraits(
        bit(!node.writes_fences, NodeTraits::NO_FENCE_WRITES.0)
            | bit(node.notifies_fence_writes, NodeTraits::NOTIFIES_FENCE_WRITES.0),
    )
}

fn device_traits(config: &Config) -> DeviceTraits {
    let bit = |set: bool, of: DeviceTraits| if set { of.0 } else { 0 };
    DeviceTraits(
        bit(!config.tells_fence_kinds, DeviceTraits::FENCE_KINDS_ALIKE)
            | bit(config.shadow_entries > 0, DeviceTraits::MONITORED_SHADOW)
            | bit(!config.atomics_64bit, DeviceTraits::NO_64BIT_ATOMICS)
            | bit(!config.io_coherent, DeviceTraits::NOT_IO_COHERENT)
            | bit(config.io_mmu, DeviceTraits::IO_MMU),
    )
}
