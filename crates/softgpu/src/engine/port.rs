//! An engine's memory access: translated loads and stores of bytes.
//!
//! A store to a protocol page is split into words. Each word's store is followed by the barrier and
//! the check for waiting queues, because a copy onto a CurrentValue is a signal. An unaligned store
//! to a protocol page is a fault. A store to bulk memory is one copy.
//!
//! Plain stores have no MonitoredValue: they only unblock queues. A node that notifies of
//! fence writes records stores to protocol pages, which hold fences, and interrupts at the end
//! of its turn.

use super::accesses::AccessRecorder;
use crate::cmp::peers::Links;
use crate::hardware::Hardware;
use crate::mmu::{Fault, Mmu, Space, piece, unmapped};
use std::sync::Arc;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::{GpuVa, PAGE_BYTES};
use tidegate_platform::hazard::AccessKind;
use tidegate_platform::{Lines, PhysicalAddress, Target};
use tidegate_programs::atomics::{Atomic, Width};
use tidegate_programs::{ProgramFault, ProgramMemory};

pub(super) struct Port {
    gpu: Arc<Hardware>,
    node: usize,
    pub(super) mmu: Mmu,
    /// Whether the node notifies of fence writes.
    notifies: bool,
    /// Whether, since [`Port::take_fence_write`], a notifying node stored to a page of words, or a
    /// command with a monitored progress fence completed.
    fence_write: bool,
    links: Links,
    pub(super) accesses: AccessRecorder,
}

impl Port {
    pub(super) fn new(gpu: Arc<Hardware>, node: usize) -> Port {
        let mmu = Mmu::new(Arc::clone(&gpu.bus), &gpu.config);
        Port {
            notifies: gpu.config.node_of(node).notifies_fence_writes,
            gpu,
            node,
            mmu,
            fence_write: false,
            links: Links::default(),
            accesses: AccessRecorder::default(),
        }
    }

    /// Records a store to a word that may hold a monitored fence.
    pub(super) fn note_fence_write(&mut self) {
        self.fence_write |= self.notifies;
    }

    /// Records that a queue with a monitored progress fence completed a command. Every node
    /// notifies of this.
    pub(super) fn note_progress(&mut self) {
        self.fence_write = true;
    }

    /// Returns whether such a store was recorded since the last call.
    pub(super) fn take_fence_write(&mut self) -> bool {
        std::mem::take(&mut self.fence_write)
    }

    /// Stores bytes, page by page in ascending order.
    pub(super) fn write(&mut self, space: Space, va: GpuVa, data: &[u8]) -> Result<(), Fault> {
        let mut done = 0;
        while done < data.len() {
            let at = va.plus(done as u64);
            let len = piece(at, (data.len() - done) as u64) as usize;
            self.write_piece(space, at, &data[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// Copies bytes from one page to one page. They are read completely before they are written.
    pub(super) fn copy_piece(
        &mut self,
        space: Space,
        source: GpuVa,
        destination: GpuVa,
        len: u64,
    ) -> Result<(), Fault> {
        if let Some((from, to)) = self.mmu.pages_of_copy(space, source, destination)
            && let (Target::Bulk(from, from_start), Target::Bulk(to, to_start)) =
                (&from.target, &to.target)
        {
            let from_at = from_start + source.0 % PAGE_BYTES;
            let to_at = to_start + destination.0 % PAGE_BYTES;
            if from.copy_to(from_at, to, to_at, len as usize).is_ok() {
                return Ok(());
            }
        }
        // Protocol pages, and faults in the order of the accesses.
        let mut bytes = [0; PAGE_BYTES as usize];
        let bytes = &mut bytes[..len as usize];
        self.mmu.read_piece(space, source, bytes)?;
        self.write_piece(space, destination, bytes)
    }

    /// Stores bytes within one page.
    // spec: NF-013
    pub(super) fn write_piece(
        &mut self,
        space: Space,
        va: GpuVa,
        data: &[u8],
    ) -> Result<(), Fault> {
        let within = va.0 % PAGE_BYTES;
        let entry = self.mmu.page(space, va, true)?;
        match &entry.target {
            Target::Bulk(bytes, start) => {
                bytes.write(start + within, data).map_err(|_| unmapped(va, true))
            }
            Target::Protocol(page, start) => {
                let (words, rest) = data.as_chunks::<8>();
                let first = (start + within) / 8;
                if !(start + within).is_multiple_of(8) || !rest.is_empty() {
                    return Err(Fault::new(FaultKind::BadPacket, va));
                }
                if first + words.len() as u64 > page.len() as u64 {
                    return Err(unmapped(va, true));
                }
                for (number, bytes) in words.iter().enumerate() {
                    let value = u64::from_le_bytes(*bytes);
                    let cell = entry.cell(page, *start, first as usize + number);
                    let at = PhysicalAddress(entry.physical.0 + within + number as u64 * 8);
                    self.gpu.store(&cell, value);
                    self.gpu.stored(at, self.node);
                    notify_peers(&mut self.links, &self.gpu, at, value);
                }
                self.note_fence_write();
                Ok(())
            }
        }
    }

    /// Replaces the number of 4 or 8 bytes at `va` by `new` of it in one step. Returns the old
    /// number. Fences change only by stores, so a page of words is a fault.
    // spec: ME-008
    fn update(
        &mut self,
        space: Space,
        va: GpuVa,
        bytes: usize,
        new: impl Fn(u64) -> u64,
    ) -> Result<u64, Fault> {
        let within = va.0 % PAGE_BYTES;
        match &self.mmu.page(space, va, true)?.target {
            Target::Bulk(memory, start) if va.0.is_multiple_of(bytes as u64) => {
                memory.update(start + within, bytes, new).map_err(|_| unmapped(va, true))
            }
            _ => Err(Fault::new(FaultKind::BadPacket, va)),
        }
    }

    /// Unblocks the queues, on this GPU and others, that wait for the `value` just stored at `at`.
    #[inline]
    pub(super) fn stored(&mut self, at: PhysicalAddress, value: u64) {
        self.gpu.stored(at, self.node);
        notify_peers(&mut self.links, &self.gpu, at, value);
    }

    /// Refreshes the copy of the GPUs that watch fences, so that a signal of the turn takes no lock
    /// between its store and its check.
    pub(super) fn refresh_links(&mut self) {
        if let Some(peers) = self.gpu.peers.get() {
            self.links.refresh(peers);
        }
    }

    /// Checks that a range is writable without writing to it.
    fn check_writable(&mut self, space: Space, va: GpuVa, len: u64) -> Result<(), Fault> {
        let mut done = 0;
        while done < len {
            let at = va.plus(done);
            let within = at.0 % PAGE_BYTES;
            let part = piece(at, len - done);
            let (start, end) = match &self.mmu.page(space, at, true)?.target {
                Target::Bulk(bytes, start) => (*start, bytes.len()),
                Target::Protocol(page, start)
                    if at.0.is_multiple_of(8) && part.is_multiple_of(8) =>
                {
                    (*start, page.len() as u64 * 8)
                }
                Target::Protocol(..) => return Err(Fault::new(FaultKind::BadPacket, at)),
            };
            if start + within + part > end {
                return Err(unmapped(at, true));
            }
            done += part;
        }
        Ok(())
    }
}

#[inline]
fn notify_peers(links: &mut Links, gpu: &Hardware, at: PhysicalAddress, value: u64) {
    if let Some(peers) = gpu.peers.get() {
        links.notify(peers, at, value);
    }
}

/// Memory access for a program in one address space.
pub(super) struct ProgramPort<'a> {
    pub(super) port: &'a mut Port,
    pub(super) space: Space,
    /// The fault that stopped the program.
    pub(super) fault: Option<Fault>,
}

impl ProgramPort<'_> {
    fn note(&mut self, fault: Fault, va: u64, len: usize, write: bool) -> ProgramFault {
        self.fault = Some(fault);
        ProgramFault::Memory { va, len: len as u64, write }
    }
}

impl ProgramMemory for ProgramPort<'_> {
    fn read(&mut self, va: u64, out: &mut [u8]) -> Result<(), ProgramFault> {
        let len = out.len();
        self.port.accesses.note(AccessKind::Read, GpuVa(va), len as u64);
        let read = self.port.mmu.read(self.space, GpuVa(va), out);
        read.map_err(|fault| self.note(fault, va, len, false))
    }

    fn write(&mut self, va: u64, data: &[u8]) -> Result<(), ProgramFault> {
        let (space, at) = (self.space, GpuVa(va));
        self.port.accesses.note(AccessKind::Write, at, data.len() as u64);
        // A store within one page is checked as a whole before its first byte.
        let written = match piece(at, data.len() as u64) == data.len() as u64 {
            true => self.port.write_piece(space, at, data),
            false => self
                .port
                .check_writable(space, at, data.len() as u64)
                .and_then(|()| self.port.write(space, at, data)),
        };
        written.map_err(|fault| self.note(fault, va, data.len(), true))
    }

    fn atomic(&mut self, va: u64, width: Width, atomic: Atomic) -> Result<u64, ProgramFault> {
        let (space, at) = (self.space, GpuVa(va));
        self.port.accesses.note(AccessKind::Atomic, at, width.bytes() as u64);
        let old = self.port.update(space, at, width.bytes(), |old| atomic.apply(old));
        old.map_err(|fault| self.note(fault, va, width.bytes(), true))
    }

    fn lines(&mut self, from: u64, to: u64, len: usize) -> Option<(Lines<'_>, Lines<'_>)> {
        let (source, destination) = (GpuVa(from), GpuVa(to));
        let in_one_page = |va| piece(va, len as u64) == len as u64;
        if !in_one_page(source) || !in_one_page(destination) {
            return None;
        }
        let Port { mmu, accesses, .. } = &mut *self.port;
        let (from, to) = mmu.pages_of_copy(self.space, source, destination)?;
        let lines = (from.lines(source, len)?, to.lines(destination, len)?);
        accesses.note(AccessKind::Read, source, len as u64);
        accesses.note(AccessKind::Read, destination, len as u64);
        accesses.note(AccessKind::Write, destination, len as u64);
        Some(lines)
    }
}
