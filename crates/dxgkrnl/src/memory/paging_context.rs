//! Copies bytes between local and system memory, by an engine or by the CPU.
//!
//! The paging context belongs to the kernel and runs on the first copy engine if there is one. Its
//! address space has a source and a destination window. A move, in order:
//! 1. the windows are mapped to source and destination;
//! 2. the driver writes the commands of its operations (DxgkDdiBuildPagingBuffer), and those that
//!    do not fit into the next buffer; each buffer is submitted ahead of packets of other contexts;
//! 3. one signal follows the last buffer, so all may be in flight together; they complete;
//! 4. steps 2 and 3 are repeated for the commands that are left, with the same buffers;
//! 5. the windows are unmapped.
//!
//! Invariant: one move at a time, ensured by the pager's lock of the context.

use super::address_space::{AddressSpace, Region};
use super::ports::{EngineWork, PagingPackets};
use crate::driver::DriverPort;
use crate::error::BugCheck;
use crate::wait_classes::PAGING_OPERATION;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::memory::{PagingBuffer, PagingOperation};
use tidegate_ddi::{OsHandle, Passive};
use tidegate_platform::{Bulk, PhysicalAddress, WaitEnd};
use tidegate_vidmm::{Access, Affinity};
use tidegate_vidsch::CommandRange;

/// Bytes of the memory of a DMA buffer.
const BUFFER_BYTES: u64 = 0x1000;

/// The most buffers: their pages are below the first address that an address space gives out.
const MOST_BUFFERS: u32 = 16;

/// Bytes that the CPU copies at a time.
const CPU_PART_BYTES: u64 = 1 << 16;

/// The source of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// The bytes at this address.
    From(PhysicalAddress),
    /// Zeros: the source was never written.
    Zero,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// The machine stopped first.
    Stopped,
    /// The adapter was reset. The operation's progress is unknown.
    CutOff,
}

/// The agent that copies.
pub(crate) enum Carrier<'a> {
    /// An engine, ordered with other work by packets.
    Engine(&'a mut PagingContext),
    /// The CPU, while no engine uses the bytes.
    Cpu,
}

impl Carrier<'_> {
    /// Fills `to`, which is new and zeroed, with the bytes of `from`. Returns `false` if the
    /// machine stopped first.
    pub(crate) fn fill(
        self,
        level: &Passive,
        contents: Contents,
        from: &Bulk,
        at: PhysicalAddress,
        to: &Bulk,
    ) -> Result<bool, Status> {
        match (self, contents) {
            (Carrier::Engine(context), _) => match context.fill(level, contents, at, to.len())? {
                Ended::Done => Ok(true),
                Ended::Stopped => Ok(false),
                Ended::CutOff => Carrier::Cpu.fill(level, contents, from, at, to),
            },
            (Carrier::Cpu, Contents::Zero) => Ok(true),
            (Carrier::Cpu, Contents::From(_)) => {
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

/// GPU addresses of an operation's source and destination windows.
#[derive(Clone, Copy, Default)]
struct Windows {
    source: u64,
    destination: u64,
    bytes: u64,
}

/// The memory manager's context.
pub(crate) struct PagingContext {
    driver: Arc<DriverPort>,
    packets: Arc<dyn PagingPackets>,
    space: Arc<AddressSpace>,
    buffers: Vec<DmaBuffer>,
    windows: Windows,
}

/// A DMA buffer.
struct DmaBuffer {
    memory: Bulk,
    at: PhysicalAddress,
    va: u64,
}

/// A part of a move: its offset and its bytes.
#[derive(Clone, Copy)]
struct Part {
    offset: u64,
    bytes: u64,
}

/// The progress of a move.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// Bytes whose operations are in buffers.
    offset: u64,
    /// MultipassOffset of an operation that goes on in the next buffer.
    multipass_offset: u32,
    /// Whether the last operation is in a buffer.
    ended: bool,
}

impl PagingContext {
    pub(crate) fn new(
        level: &Passive,
        driver: &Arc<DriverPort>,
        work: Arc<dyn EngineWork>,
    ) -> Result<PagingContext, Status> {
        let space = Arc::new(AddressSpace::new(level, driver)?);
        let packets = work.open_paging_context(level, &space)?;
        let config = driver.config.paging_buffers;
        let count = config.count.clamp(1, MOST_BUFFERS);
        let pages: Vec<_> =
            (0..count).map(|_| driver.system_memory.bulk(BUFFER_BYTES as usize)).collect();
        let regions: Vec<Region> =
            pages.iter().map(|(at, _)| (*at, BUFFER_BYTES, Access::Read)).collect();
        let va = match config.at_zero {
            true => space.map_at_zero(level, &regions)?,
            false => space.map_regions(level, &regions)?,
        };
        let vas = (0..).map(|number: u64| va + number * BUFFER_BYTES);
        let buffer = |((at, memory), va)| DmaBuffer { memory, at, va };
        let buffers = pages.into_iter().zip(vas).map(buffer).collect();
        let (driver, windows) = (driver.clone(), Windows::default());
        Ok(PagingContext { driver, packets, space, buffers, windows })
    }

    /// Releases the DMA buffers.
    pub(super) fn end(self, level: &Passive) {
        for buffer in self.buffers {
            self.space.unmap(level, buffer.va, BUFFER_BYTES);
            self.driver.system_memory.remove(buffer.at);
        }
    }

    /// Returns the context's kernel handle.
    pub(crate) fn os_handle(&self) -> OsHandle {
        self.packets.os_handle()
    }

    /// Makes the driver write the initial content of a context allocation at `at`.
    // spec: PRE-015
    pub(crate) fn initialise(
        &mut self,
        level: &Passive,
        allocation: OsHandle,
        at: PhysicalAddress,
        bytes: u64,
    ) -> Result<Ended, Status> {
        // Commands of an initialisation have a GPU virtual address.
        if !self.driver.declared.virtual_addresses {
            return Err(Status::NOT_SUPPORTED);
        }
        self.run(level, Contents::Zero, at, bytes, u64::MAX, |windows, _, buffer| {
            PagingOperation::InitContextResource {
                allocation,
                destination_gpu_va: windows.destination,
                bytes,
                buffer,
            }
        })
    }

    /// Fills `bytes` at `to`.
    fn fill(
        &mut self,
        level: &Passive,
        contents: Contents,
        to: PhysicalAddress,
        bytes: u64,
    ) -> Result<Ended, Status> {
        let has_windows = self.driver.declared.virtual_addresses;
        let most = self.driver.config.paging_buffers.operation_bytes.max(1);
        self.run(level, contents, to, bytes, most, |windows, Part { offset, bytes }, buffer| {
            let destination = PhysicalAddress(to.0 + offset);
            match contents {
                Contents::From(source) if !has_windows => {
                    let source = PhysicalAddress(source.0 + offset);
                    PagingOperation::Transfer { source, destination, bytes, buffer }
                }
                Contents::Zero if !has_windows => {
                    PagingOperation::Fill { destination, bytes, value: 0, buffer }
                }
                Contents::From(_) => PagingOperation::VirtualTransfer {
                    source_gpu_va: windows.source + offset,
                    destination_gpu_va: windows.destination + offset,
                    bytes,
                    buffer,
                },
                Contents::Zero => PagingOperation::VirtualFill {
                    destination_gpu_va: windows.destination + offset,
                    bytes,
                    value: 0,
                    buffer,
                },
            }
        })
    }

    /// Carries out a move in operations of at most `most` bytes.
    fn run(
        &mut self,
        level: &Passive,
        contents: Contents,
        to: PhysicalAddress,
        bytes: u64,
        most: u64,
        operation: impl for<'a> Fn(Windows, Part, &'a PagingBuffer) -> PagingOperation<'a>,
    ) -> Result<Ended, Status> {
        let resets = self.driver.condition.resets();
        if !resets.is_multiple_of(2) {
            return Ok(Ended::CutOff);
        }
        // 1.
        let has_windows = self.driver.declared.virtual_addresses;
        let windows = match has_windows {
            true => self.open_windows(level, contents, to, bytes)?,
            false => Windows::default(),
        };
        let mut progress = Progress::default();
        let (built, is_stopped) = loop {
            // 2.
            let built =
                self.build_turn(level, bytes, most, resets, &mut progress, |part, buffer| {
                    operation(windows, part, buffer)
                });
            // 3. Also after a failure: the buffers that were submitted run.
            let is_stopped = self.await_turn(level, resets);
            // 4.
            if is_stopped || built.is_err() || progress.ended || self.is_cut_off(resets) {
                break (built, is_stopped);
            }
        };
        // 5.
        if has_windows {
            self.space.unmap(level, windows.source, bytes);
            self.space.unmap(level, windows.destination, bytes);
        }
        built?;
        if self.packets.is_lost() {
            self.driver.bug_check(level, BugCheck::PagingAborted);
            return Err(Status::DEVICE_REMOVED);
        }
        Ok(match is_stopped {
            true => Ended::Stopped,
            false if self.is_cut_off(resets) => Ended::CutOff,
            false => Ended::Done,
        })
    }

    /// Returns whether a reset has begun since this number of resets was read.
    fn is_cut_off(&self, resets: u64) -> bool {
        self.driver.condition.resets() != resets
    }

    /// Has the driver write operations into buffers, and submits each that is full or the last.
    fn build_turn(
        &self,
        level: &Passive,
        bytes: u64,
        most: u64,
        resets: u64,
        progress: &mut Progress,
        operation: impl for<'a> Fn(Part, &'a PagingBuffer) -> PagingOperation<'a>,
    ) -> Result<(), Status> {
        let room = u64::from(self.driver.config.paging_buffers.bytes).min(BUFFER_BYTES) as u32;
        for of in &self.buffers {
            let buffer = PagingBuffer::at(of.memory.clone(), room, of.va);
            buffer.set_multipass_offset(progress.multipass_offset);
            while !progress.ended {
                let offset = progress.offset;
                let part = Part { offset, bytes: most.min(bytes - offset) };
                let before = (buffer.used(), buffer.multipass_offset());
                let driver = self.driver.driver(level);
                match driver.build_paging_buffer(level, operation(part, &buffer)) {
                    Ok(()) => {
                        buffer.set_multipass_offset(0);
                        progress.offset += part.bytes;
                        progress.ended = progress.offset == bytes;
                    }
                    // spec: PRE-185
                    Err(Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER)
                        if before.0 > 0 || buffer.multipass_offset() > before.1 =>
                    {
                        progress.multipass_offset = buffer.multipass_offset();
                        break;
                    }
                    Err(status) => return Err(status),
                }
            }
            self.submit(level, of, buffer.used());
            if progress.ended || self.is_cut_off(resets) {
                break;
            }
        }
        Ok(())
    }

    /// Submits the commands of a buffer.
    fn submit(&self, level: &Passive, buffer: &DmaBuffer, bytes: u32) {
        let has_windows = self.driver.declared.virtual_addresses;
        let gpu_va = if has_windows { buffer.va } else { buffer.at.0 };
        self.packets.submit(level, CommandRange { gpu_va, bytes });
    }

    /// Waits for the end of the buffers that were submitted. Returns whether the machine stopped
    /// first.
    fn await_turn(&self, level: &Passive, resets: u64) -> bool {
        let done = self.driver.platform.event(true);
        self.packets.signal(level, &done);
        // A reset begun after step 1 waits for this operation, and may have scanned the queues
        // before these packets were queued. So may a removal or a stop.
        if self.is_cut_off(resets) || self.driver.check().is_err() {
            self.packets.give_up(level.into());
        }
        done.wait_for(None, &PAGING_OPERATION) == WaitEnd::Stopped
    }

    fn open_windows(
        &mut self,
        level: &Passive,
        contents: Contents,
        to: PhysicalAddress,
        bytes: u64,
    ) -> Result<Windows, Status> {
        // A zero fill has no source, but the window exists.
        let from = match contents {
            Contents::From(at) => at,
            Contents::Zero => to,
        };
        if self.windows.bytes < bytes {
            let source = self.space.map(level, from, bytes, Access::Read)?;
            let destination = self.space.map(level, to, bytes, Access::ReadWrite)?;
            self.windows = Windows { source, destination, bytes };
        } else {
            let Windows { source, destination, .. } = self.windows;
            self.space.remap_on(level, Affinity::ALL, source, from, bytes, Access::Read);
            self.space.remap_on(level, Affinity::ALL, destination, to, bytes, Access::ReadWrite);
        }
        Ok(self.windows)
    }
}
