//! Owns the way of paging operations to an engine: a device of the kernel's own with one context,
//! on the copy engine where there is one, and an address space with two windows, through which an
//! operation sees what it copies from and to. Besides, the copy that needs no engine.
//!
//! An operation, in order: 1. the windows lead to source and destination; 2. the driver writes the
//! commands (DxgkDdiBuildPagingBuffer); 3. VidSch submits them, before the packets of others; 4.
//! they are complete; 5. the windows lead nowhere. One operation at a time: `segment` sees to it.

use super::{Access, AddressSpace, Affinity};
use crate::adapter::Adapter;
use crate::context::{Context, ContextDesc};
use crate::device::Device;
use crate::error::BugCheck;
use crate::fence::storage::FencePool;
use crate::process::HandleLookup;
use crate::scheduling::{CommandKind, Signal};
use std::sync::Arc;
use tidegate_calls::{Priority, Status};
use tidegate_ddi::memory::{PagingBuffer, PagingOperation};
use tidegate_ddi::{EngineType, OsHandle, Passive};
use tidegate_platform::{Bulk, PhysicalAddress, WaitEnd};

/// Bytes of the DMA buffer that the driver writes an operation into.
const BUFFER_BYTES: u64 = 0x1000;

/// Bytes that the CPU copies at a time.
const CPU_PART_BYTES: u64 = 1 << 16;

/// What an operation does with the bytes of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Copied from this place.
    From(PhysicalAddress),
    /// All zero: nobody has ever written them.
    Zero,
}

/// Both windows, if they are made: from where, to where, and how large they are.
#[derive(Clone, Copy, Default)]
struct Windows {
    source: u64,
    destination: u64,
    bytes: u64,
}

/// Who moves the bytes of an allocation.
pub(crate) enum Mover<'a> {
    /// An engine, ordered with other work by the packets of a context.
    Engine(&'a mut PagingContext),
    /// The CPU, over the bus, while no engine uses anything.
    Cpu,
}

impl Mover<'_> {
    /// Fills `to`, which is new and all zero, with what stands in `from`; `false` when the machine
    /// stopped before it was done.
    pub(crate) fn run(
        self,
        contents: Contents,
        from: &Bulk,
        (at, to): (PhysicalAddress, &Bulk),
    ) -> Result<bool, Status> {
        match (self, contents) {
            (Mover::Engine(context), _) => match context.run(contents, at, to.len())? {
                Ran::Done => Ok(true),
                Ran::Stopped => Ok(false),
                Ran::CutOff => Mover::Cpu.run(contents, from, (at, to)),
            },
            (Mover::Cpu, Contents::Zero) => Ok(true),
            (Mover::Cpu, Contents::From(_)) => {
                let mut part = vec![0; from.len().min(CPU_PART_BYTES) as usize];
                for offset in (0..from.len()).step_by(CPU_PART_BYTES as usize) {
                    let part = &mut part[..(from.len() - offset).min(CPU_PART_BYTES) as usize];
                    let copied = from.read(offset, part).and_then(|()| to.write(offset, part));
                    copied.map_err(|_| Status::INVALID_PARAMETER)?;
                }
                Ok(true)
            }
        }
    }
}

/// What became of an operation on an engine.
pub(crate) enum Ran {
    Done,
    /// The machine stopped before.
    Stopped,
    /// The adapter was reset before, or meanwhile: nobody knows what the engine did of it.
    CutOff,
}

pub(crate) struct PagingContext {
    context: Arc<Context>,
    space: Arc<AddressSpace>,
    buffer: Bulk,
    buffer_at: PhysicalAddress,
    buffer_va: u64,
    windows: Windows,
}

/// The node that pages: the first copy engine, or the first of all.
fn paging_node(adapter: &Adapter) -> u32 {
    let nodes = &adapter.caps.nodes;
    nodes.iter().position(|n| n.engine_type == EngineType::Copy).unwrap_or(0) as u32
}

impl PagingContext {
    pub(crate) fn new(adapter: &Arc<Adapter>) -> Result<PagingContext, Status> {
        let space = Arc::new(AddressSpace::new(adapter)?);
        let pool = FencePool::new(adapter, &space);
        let device = Device::new(adapter, &space, &pool, HandleLookup::none(), false)?;
        let node_ordinal = paging_node(adapter);
        let desc = ContextDesc {
            node_ordinal,
            engine_affinity: 1,
            hardware_scheduled: false,
            priority: Priority::Realtime,
            tag: 0,
            lane: 0,
            paging: true,
        };
        let context = Context::new(&device, &desc)?;
        let (buffer_at, buffer) = adapter.system_memory.bulk(BUFFER_BYTES as usize);
        let buffer_va = space.map(buffer_at, BUFFER_BYTES, Access::Read)?;
        let mut made = PagingContext {
            context,
            space,
            buffer,
            buffer_at,
            buffer_va,
            windows: Windows::default(),
        };
        // Nobody else could do it: its own areas get their content by its first packets.
        for (allocation, area) in adapter.context_allocations.of(made.context.os_handle) {
            // One that a reset cuts off has no state in it either.
            made.initialise(allocation, area.at(), area.bytes)?;
        }
        Ok(made)
    }

    /// Has the driver write the first content of a context allocation, which stands at `at`.
    pub(crate) fn initialise(
        &mut self,
        allocation: OsHandle,
        at: PhysicalAddress,
        bytes: u64,
    ) -> Result<Ran, Status> {
        let resets = self.context.device.adapter.recovery.resets();
        if !resets.is_multiple_of(2) {
            return Ok(Ran::CutOff);
        }
        let windows = self.show(Contents::Zero, at, bytes)?;
        let buffer = PagingBuffer::new(self.buffer.clone());
        let destination_gpu_va = windows.destination;
        let operation = PagingOperation::InitContextResource {
            allocation,
            destination_gpu_va,
            bytes,
            buffer: &buffer,
        };
        // spec: PRE-015
        self.context.device.adapter.driver().build_paging_buffer(&Passive::enter(), operation)?;
        self.execute(&buffer, (windows, bytes), resets)
    }

    /// Fills `bytes` at `to`.
    pub(crate) fn run(
        &mut self,
        contents: Contents,
        to: PhysicalAddress,
        bytes: u64,
    ) -> Result<Ran, Status> {
        let adapter = self.context.device.adapter.clone();
        let resets = adapter.recovery.resets();
        if !resets.is_multiple_of(2) {
            return Ok(Ran::CutOff);
        }
        // 1.
        let windows = self.show(contents, to, bytes)?;
        // 2.
        let buffer = PagingBuffer::new(self.buffer.clone());
        let destination_gpu_va = windows.destination;
        let operation = match contents {
            Contents::From(_) => PagingOperation::VirtualTransfer {
                source_gpu_va: windows.source,
                destination_gpu_va,
                bytes,
                buffer: &buffer,
            },
            Contents::Zero => PagingOperation::VirtualFill {
                destination_gpu_va,
                bytes,
                value: 0,
                buffer: &buffer,
            },
        };
        adapter.driver().build_paging_buffer(&Passive::enter(), operation)?;
        self.execute(&buffer, (windows, bytes), resets)
    }

    /// Runs what the driver wrote; `resets` as it was before.
    fn execute(
        &mut self,
        buffer: &PagingBuffer,
        (windows, bytes): (Windows, u64),
        resets: u64,
    ) -> Result<Ran, Status> {
        let adapter = self.context.device.adapter.clone();
        // 3.
        let done = adapter.platform.event(true);
        let queued_ns = adapter.platform.stamp_ns();
        let commands = (self.buffer_va, buffer.used());
        let queue = self.context.scheduled();
        adapter.sched.submit_command(queue.0, CommandKind::Paging, commands, queued_ns);
        adapter.sched.signal(&[queue], Signal::event(done.clone()));
        // A reset that has begun meanwhile waits for us, and may have looked before this was
        // queued.
        if adapter.recovery.resets() != resets {
            let _not_made = adapter.sched.give_up(&[queue.0]);
        }
        // 4.
        let end = done.wait_for(None, "a paging operation");
        // 5.
        self.space.unmap(windows.source, bytes);
        self.space.unmap(windows.destination, bytes);
        if self.context.device.check().is_err() {
            adapter.bug_check(BugCheck::PagingAborted);
            return Err(Status::DEVICE_REMOVED);
        }
        Ok(match end {
            WaitEnd::Stopped => Ran::Stopped,
            _ if adapter.recovery.resets() != resets => Ran::CutOff,
            _ => Ran::Done,
        })
    }

    fn show(
        &mut self,
        contents: Contents,
        to: PhysicalAddress,
        bytes: u64,
    ) -> Result<Windows, Status> {
        // Zeros come from nowhere; the window is there all the same.
        let from = match contents {
            Contents::From(at) => at,
            Contents::Zero => to,
        };
        if self.windows.bytes < bytes {
            let source = self.space.map(from, bytes, Access::Read)?;
            let destination = self.space.map(to, bytes, Access::ReadWrite)?;
            self.windows = Windows { source, destination, bytes };
        } else {
            self.space.remap_on(Affinity::ALL, self.windows.source, from, bytes, Access::Read);
            self.space.remap_on(
                Affinity::ALL,
                self.windows.destination,
                to,
                bytes,
                Access::ReadWrite,
            );
        }
        Ok(self.windows)
    }
}

impl Drop for PagingContext {
    fn drop(&mut self) {
        self.space.unmap(self.buffer_va, BUFFER_BYTES);
        self.context.device.adapter.system_memory.remove(self.buffer_at);
    }
}
