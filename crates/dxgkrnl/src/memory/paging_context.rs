//! Copies bytes between local and system memory, by an engine or by the CPU.
//!
//! The paging context belongs to the kernel and runs on the first copy engine if there is one. Its
//! address space has a source and a destination window. An operation, in order:
//! 1. the windows are mapped to source and destination;
//! 2. the driver writes the commands (DxgkDdiBuildPagingBuffer);
//! 3. they are submitted ahead of packets of other contexts;
//! 4. they complete;
//! 5. the windows are unmapped.
//!
//! A driver before WDDM 2.0 gets physical addresses, so steps 1 and 5 do nothing.
//!
//! Invariant: one operation at a time, ensured by the pager's lock of the context.

use super::address_space::AddressSpace;
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

/// Bytes of the DMA buffer for an operation's commands.
const BUFFER_BYTES: u64 = 0x1000;

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
    buffer: Bulk,
    buffer_at: PhysicalAddress,
    buffer_va: u64,
    windows: Windows,
}

impl PagingContext {
    pub(crate) fn new(
        level: &Passive,
        driver: &Arc<DriverPort>,
        work: Arc<dyn EngineWork>,
    ) -> Result<PagingContext, Status> {
        let space = Arc::new(AddressSpace::new(level, driver)?);
        let packets = work.open_paging_context(level, &space)?;
        let (buffer_at, buffer) = driver.system_memory.bulk(BUFFER_BYTES as usize);
        let buffer_va = space.map(level, buffer_at, BUFFER_BYTES, Access::Read)?;
        let (driver, windows) = (driver.clone(), Windows::default());
        Ok(PagingContext { driver, packets, space, buffer, buffer_at, buffer_va, windows })
    }

    /// Releases the DMA buffer.
    pub(super) fn end(self, level: &Passive) {
        self.space.unmap(level, self.buffer_va, BUFFER_BYTES);
        self.driver.system_memory.remove(self.buffer_at);
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
        self.run(level, Contents::Zero, at, bytes, |windows, buffer| {
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
        self.run(level, contents, to, bytes, |windows, buffer| match contents {
            Contents::From(source) if !has_windows => {
                PagingOperation::Transfer { source, destination: to, bytes, buffer }
            }
            Contents::Zero if !has_windows => {
                PagingOperation::Fill { destination: to, bytes, value: 0, buffer }
            }
            Contents::From(_) => PagingOperation::VirtualTransfer {
                source_gpu_va: windows.source,
                destination_gpu_va: windows.destination,
                bytes,
                buffer,
            },
            Contents::Zero => PagingOperation::VirtualFill {
                destination_gpu_va: windows.destination,
                bytes,
                value: 0,
                buffer,
            },
        })
    }

    fn run(
        &mut self,
        level: &Passive,
        contents: Contents,
        to: PhysicalAddress,
        bytes: u64,
        operation: impl for<'a> Fn(Windows, &'a PagingBuffer) -> PagingOperation<'a>,
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
        // 2.
        let buffer = PagingBuffer::new(self.buffer.clone());
        let operation = operation(windows, &buffer);
        self.driver.driver(level).build_paging_buffer(level, operation)?;
        // 3.
        let done = self.driver.platform.event(true);
        let gpu_va = if has_windows { self.buffer_va } else { self.buffer_at.0 };
        let commands = CommandRange { gpu_va, bytes: buffer.used() };
        self.packets.submit(level, commands, &done);
        // A reset begun after step 1 waits for this operation, and may have scanned the queues
        // before this packet was queued. So may a removal or a stop.
        if self.driver.condition.resets() != resets || self.driver.check().is_err() {
            self.packets.give_up(level.into());
        }
        // 4.
        let end = done.wait_for(None, &PAGING_OPERATION);
        // 5.
        if has_windows {
            self.space.unmap(level, windows.source, bytes);
            self.space.unmap(level, windows.destination, bytes);
        }
        if self.packets.is_lost() {
            self.driver.bug_check(level, BugCheck::PagingAborted);
            return Err(Status::DEVICE_REMOVED);
        }
        Ok(match end {
            WaitEnd::Stopped => Ended::Stopped,
            _ if self.driver.condition.resets() != resets => Ended::CutOff,
            _ => Ended::Done,
        })
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
