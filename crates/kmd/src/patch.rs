//! Buffers with physical addresses. Render turns a process's commands into a DMA buffer without
//! addresses, and a list of the places that need them. The kernel supplies the addresses before
//! each submission.
//!
//! Every operand must lie inside a listed allocation, and stores inside one listed for writing.
//! Only listed allocations are patched, so a buffer reaches no other memory.
//!
//! The binding table has two rows: reads and writes. A command binds its rows, each at a split
//! point, and unbinds them afterwards, so no part of a buffer inherits a binding. The label is the
//! only state that outlives a command. Each part is a packet, which begins without a label, so
//! every split point sets the label again.

use crate::caps::LAST_SLOT;
use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::patch::{Patch, PatchLocation, Render, RenderAllocation};
use tidegate_gpu_abi::{Command, CommandReader, CommandWriter, GpuVa};

/// The row of what a command reads.
const READ_SLOT: u32 = 0;
/// The row of what a command writes.
const WRITE_SLOT: u32 = LAST_SLOT;

/// A DMA buffer under construction.
struct Translation<'a> {
    allocations: &'a [RenderAllocation],
    writer: CommandWriter,
    list: Vec<PatchLocation>,
    /// The label of the next commands.
    label: u32,
}

/// The start and the length in bytes of an operand.
type Operand = (GpuVa, u64);

impl Translation<'_> {
    fn here(&self) -> u32 {
        self.writer.bytes() as u32
    }

    /// Adds a split point and returns its offset.
    fn place(&mut self) -> u32 {
        let here = self.here();
        // spec: PRE-038
        self.writer.push(&Command::Label { name: self.label });
        here
    }

    /// Returns the allocation that contains the whole operand, and the operand's offset in it.
    fn find(&self, (va, bytes): Operand, write: bool) -> Result<(u32, u64), KmdError> {
        let inside = |a: &RenderAllocation| {
            let offset = va.0.checked_sub(a.gpu_va)?;
            let end = offset.checked_add(bytes)?;
            (end <= a.bytes && (a.write || !write)).then_some(offset)
        };
        let found = (0..).zip(self.allocations).find_map(|(index, a)| Some((index, inside(a)?)));
        found.ok_or(KmdError::Argument(
            "a command accesses memory outside the allocations listed for it",
        ))
    }

    fn bind(&mut self, slot_id: u32, found: (u32, u64), patch_offset: u32, split_offset: u32) {
        let (allocation, allocation_offset) = (Some(found.0), found.1);
        self.list.push(PatchLocation {
            allocation,
            slot_id,
            driver_id: 0,
            patch_offset,
            allocation_offset,
            split_offset,
        });
    }

    fn unbind(&mut self, slot_id: u32) {
        let split_offset = self.place();
        let none = PatchLocation {
            allocation: None,
            slot_id,
            driver_id: 0,
            patch_offset: 0,
            allocation_offset: 0,
            split_offset,
        };
        self.list.push(none);
    }

    /// Adds a command that writes and does not read. Its first operand is the address.
    fn store(&mut self, command: &Command, destination: Operand) -> Result<(), KmdError> {
        let found = self.find(destination, true)?;
        let writes = self.place();
        let at = self.here();
        self.writer.push(command);
        self.bind(WRITE_SLOT, found, at + 8, writes);
        self.unbind(WRITE_SLOT);
        Ok(())
    }

    fn translate(&mut self, command: Command) -> Result<(), KmdError> {
        match command {
            Command::Copy { source, destination, bytes } => {
                let (from, to) =
                    (self.find((source, bytes), false)?, self.find((destination, bytes), true)?);
                let (reads, writes) = (self.place(), self.place());
                let at = self.here();
                self.writer.push(&Command::Copy { source: GpuVa(0), destination: GpuVa(0), bytes });
                self.bind(READ_SLOT, from, at + 8, reads);
                self.bind(WRITE_SLOT, to, at + 16, writes);
                self.unbind(READ_SLOT);
                self.unbind(WRITE_SLOT);
            }
            Command::Fill { destination, bytes, value } => {
                self.store(
                    &Command::Fill { destination: GpuVa(0), bytes, value },
                    (destination, bytes),
                )?;
            }
            Command::WriteValue { destination, value } => {
                self.store(
                    &Command::WriteValue { destination: GpuVa(0), value },
                    (destination, 8),
                )?;
            }
            Command::Timestamp { destination } => {
                self.store(&Command::Timestamp { destination: GpuVa(0) }, (destination, 8))?;
            }
            Command::Dispatch { .. }
            | Command::DispatchIndirect { .. }
            | Command::Draw { .. }
            | Command::Resolve { .. }
            | Command::Predicate { .. } => {
                return Err(KmdError::Argument(
                    "arguments of programs are not patched: a buffer with physical addresses copies, fills and stores",
                ));
            }
            Command::WaitFence { .. } | Command::SignalFence(_) => {
                return Err(KmdError::Argument(
                    "packets carry out no fence operation: the scheduler does it for their context",
                ));
            }
            Command::Label { name } => {
                self.label = name;
                self.writer.push(&Command::Label { name });
            }
            other @ (Command::Timed { .. }
            | Command::Gap { .. }
            | Command::Barrier
            | Command::Hang) => self.writer.push(&other),
        }
        Ok(())
    }
}

impl ReferenceDriver {
    /// Carries out DxgkDdiRender.
    pub(crate) fn translate(&self, args: &Render<'_>) -> Result<Vec<PatchLocation>, KmdError> {
        if !self.config.dma_patching {
            return Err(KmdError::NotSupported("packets with physical addresses"));
        }
        self.objects.lock().contexts.get(args.context)?;
        self.check_opened(args.allocations)?;
        let (words, rest) = args.commands.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(KmdError::Argument("the length of commands is a multiple of 8 bytes"));
        }
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (allocations, writer) = (args.allocations, CommandWriter::new());
        let mut buffer = Translation { allocations, writer, list: Vec::new(), label: 0 };
        let mut left = &words[..];
        let bad = |_| KmdError::Argument("invalid commands");
        while let [head, ..] = left {
            let length = CommandReader::words(*head, left.len() as u64).map_err(bad)?;
            let (command, behind) = left.split_at(length);
            buffer.translate(CommandReader::decode(command).map_err(bad)?)?;
            left = behind;
        }
        args.dma_buffer.append(buffer.writer.as_bytes()).map_err(KmdError::Kernel)?;
        Ok(buffer.list)
    }

    /// Carries out DxgkDdiPatch: patches the operands in the part, wherever their rows were bound.
    // spec: PRE-039
    pub(crate) fn patch_part(&self, args: &Patch<'_>) -> Result<(), KmdError> {
        let part = args.start_offset..args.end_offset;
        for place in args.locations.iter().filter(|l| part.contains(&l.patch_offset)) {
            let Some(index) = place.allocation else { continue };
            let at = args.allocations.get(index as usize).copied().flatten();
            let at =
                at.ok_or(KmdError::Argument("a part uses an allocation that is not paged in"))?;
            let address = at.0 + place.allocation_offset;
            args.dma_buffer.write(u64::from(place.patch_offset), &address.to_le_bytes())?;
        }
        Ok(())
    }
}
