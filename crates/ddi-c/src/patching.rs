//! Packets with physical addresses: DxgkDdiRender, DxgkDdiPatch, DxgkDdiSubmitCommand.
//!
//! - A process names memory by address. The published commands have a list of the places that need
//!   an address, which the user-mode driver makes. The list is made here: the words of the
//!   addresses are 0 in pCommand, and each has an entry of pPatchLocationListIn.
//! - Entry 0 of an allocation list is no allocation, which unbinds a slot. The others are the
//!   allocations that the list names, in the kernel's order. hDeviceSpecificAllocation is 0 from a
//!   driver without DxgkDdiOpenAllocation.
//! - The passes of a command buffer that does not fit (MultipassOffset) are joined to one DMA
//!   buffer. They share one private data, and the last pass writes it last.

use crate::CDriver;
use crate::address::{address_of_first, address_of_shared};
use crate::objects::{BufferSizes, SegmentAddresses};
use crate::rule::Rule;
use tidegate_ddi::memory::PagingBuffer;
use tidegate_ddi::patch::{Patch, PatchLocation, Render, RenderAllocation, SubmitCommandPhysical};
use tidegate_ddi::{Dispatch, DriverHandle, EngineId, Passive, PatchDdi, Status};
use tidegate_gpu_abi::program::ArgumentKind;
use tidegate_gpu_abi::{Command, CommandReader};
use tidegate_platform::level::Level;
use tidegate_platform::{Bulk, PhysicalAddress};
use tidegate_wddm_abi::miniport::{self, PatchLocation as Entry};

/// The first entry of an allocation list.
const NO_ALLOCATION: u32 = 0;
/// SlotId of D3DDDI_PATCHLOCATIONLIST has 24 bits.
const SLOT_BITS: u32 = 24;
/// Bytes of an entry of a patch list.
const ENTRY_BYTES: u64 = size_of::<Entry>() as u64;
/// Bytes of a DMA buffer for a context that states none.
const DEFAULT_BUFFER_BYTES: u32 = 4096;
/// Least bytes of an argument whose length only the program knows.
const ARGUMENT_BYTES: u64 = 4;

/// DXGK_ALLOCATIONLIST: hDeviceSpecificAllocation; WriteOperation and SegmentId; the address.
type AllocationEntry = [u64; 3];

/// The place of a command's address: its word in the command, the bytes that the command accesses
/// there, and whether it may store to them.
type Operand = (usize, u64, bool);

/// Commands of a process with their published lists.
struct Commands {
    /// The commands, with 0 in the place of each address.
    words: Vec<u64>,
    /// The allocations that they use, by their numbers in the kernel's list, in order.
    used: Vec<u32>,
    allocations: Vec<AllocationEntry>,
    locations: Vec<Entry>,
}

/// The part of an allocation list for an allocation.
fn allocation_entry(
    opened: Option<DriverHandle>,
    write: bool,
    (segment, at): (u32, u64),
) -> AllocationEntry {
    let opened = opened.map_or(0, |handle| handle.0);
    [opened, u64::from(write) | u64::from(segment) << 1, at]
}

/// Returns the allocation that has the whole operand, and the operand's offset in it.
fn find(
    allocations: &[RenderAllocation],
    gpu_va: u64,
    (_, bytes, write): Operand,
) -> Option<(u32, u64)> {
    (0..).zip(allocations).find_map(|(index, allocation)| {
        let offset = gpu_va.checked_sub(allocation.gpu_va)?;
        let end = offset.checked_add(bytes)?;
        let fits = end <= allocation.bytes && (allocation.write || !write);
        fits.then_some((index, offset))
    })
}

/// The numbers of the allocations in a list, in order, each once.
fn used(indices: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut used: Vec<u32> = indices.collect();
    used.sort_unstable();
    used.dedup();
    used
}

/// The entry of an allocation list that has an allocation of the kernel's list.
fn entry_of(used: &[u32], index: u32) -> u32 {
    used.binary_search(&index).map_or(NO_ALLOCATION, |place| place as u32 + 1)
}

impl CDriver {
    /// Returns where a command has addresses.
    fn operands(&self, command: &Command) -> Result<Vec<Operand>, Status> {
        let of_program = |program: u32, args: &[u64], first: usize| {
            let arguments =
                self.host().hardware.device.program_arguments(program).unwrap_or_default();
            let places = arguments.iter().zip(args).zip(first..);
            let operands = places.filter_map(|((argument, word), at)| match argument.kind {
                ArgumentKind::Buffer { access } if *word != 0 => {
                    Some((at, ARGUMENT_BYTES, access.writes()))
                }
                _ => None,
            });
            operands.collect::<Vec<Operand>>()
        };
        Ok(match command {
            Command::Copy { bytes, .. } | Command::Resolve { bytes, .. } => {
                vec![(1, *bytes, false), (2, *bytes, true)]
            }
            Command::Fill { bytes, .. } => vec![(1, *bytes, true)],
            Command::WriteValue { .. } | Command::Timestamp { .. } => vec![(1, 8, true)],
            Command::Dispatch { program, args, .. } | Command::Draw { program, args, .. } => {
                of_program(*program, args, 3)
            }
            Command::DispatchIndirect { program, count_at, args, .. } => {
                let mut operands = vec![(2, 12, false)];
                operands.extend((count_at.0 != 0).then_some((3, 4, false)));
                operands.extend(of_program(*program, args, 4));
                operands
            }
            // A predicate ends with a part of a buffer. A packet carries out no fence operation.
            Command::Predicate { value_at, .. } if value_at.0 != 0 => {
                return Err(Status::INVALID_PARAMETER);
            }
            Command::WaitFence { .. } | Command::SignalFence(_) => {
                return Err(Status::INVALID_PARAMETER);
            }
            _ => Vec::new(),
        })
    }

    /// Makes the lists of commands, as the user-mode driver does.
    fn list(&self, args: &Render<'_>) -> Result<Commands, Status> {
        let bad = |_| Status::INVALID_PARAMETER;
        let (words, rest) = args.commands.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(Status::INVALID_PARAMETER);
        }
        let mut words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (mut at, mut found) = (0, Vec::new());
        while let Some(head) = words.get(at).copied() {
            let length = CommandReader::words(head, (words.len() - at) as u64).map_err(bad)?;
            let command = CommandReader::decode(&words[at..at + length]).map_err(bad)?;
            for operand in self.operands(&command)? {
                let word = std::mem::take(&mut words[at + operand.0]);
                let (index, offset) =
                    find(args.allocations, word, operand).ok_or(Status::INVALID_PARAMETER)?;
                let offset = u32::try_from(offset).map_err(|_| Status::INVALID_PARAMETER)?;
                found.push((index, offset, 8 * (at + operand.0) as u32, 8 * at as u32));
            }
            at += length;
        }
        let used = used(found.iter().map(|(index, ..)| *index));
        let locations =
            found.into_iter().map(|(index, offset, patch_offset, split_offset)| Entry {
                allocation_index: entry_of(&used, index),
                allocation_offset: offset,
                patch_offset,
                split_offset,
                ..Entry::ZERO
            });
        let locations = locations.collect();
        let listed = used.iter().map(|index| args.allocations[*index as usize]);
        let entries = listed.map(|of| allocation_entry(of.opened, of.write, (0, 0)));
        let allocations = std::iter::once([0; 3]).chain(entries).collect();
        Ok(Commands { words, used, allocations, locations })
    }

    fn render_buffer(&self, args: &Render<'_>) -> Result<Vec<PatchLocation>, Status> {
        let context = self.objects.lock().contexts.get(&args.context.0).copied();
        let sizes = context.ok_or(Status::INVALID_PARAMETER)?.sizes;
        let mut commands = self.list(args)?;
        if commands.allocations.len() > sizes.allocations as usize {
            return Err(Status::INVALID_PARAMETER);
        }
        let private_data = (sizes.private_data_bytes > 0)
            .then(|| self.host().platform.bulk(sizes.private_data_bytes as usize));
        let mut c = miniport::Render {
            command: address_of_shared(&commands.words),
            command_length: 8 * commands.words.len() as u32,
            dma_buffer_private_data_size: sizes.private_data_bytes,
            allocation_list: address_of_first(&mut commands.allocations),
            allocation_list_size: commands.allocations.len() as u32,
            patch_location_list_in: address_of_first(&mut commands.locations),
            patch_location_list_in_size: commands.locations.len() as u32,
            patch_location_list_out_size: sizes.patch_locations,
            ..miniport::Render::ZERO
        };
        let mut list = Vec::new();
        loop {
            let pass = c.multipass_offset;
            c.dma_buffer_private_data =
                private_data.as_ref().and_then(Bulk::cpu_address).unwrap_or_default();
            let base = args.dma_buffer.used();
            let status =
                self.render_pass(args.context.0, &mut c, sizes, args.dma_buffer, |entry| {
                    list.push(commands.location(entry, base));
                });
            match status {
                Ok(()) => break,
                Err(Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER)
                    if pass < c.multipass_offset && c.multipass_offset < c.command_length => {}
                Err(status) => return Err(status),
            }
        }
        args.private_data.replace(private_data);
        Ok(list)
    }

    /// Runs one pass, appends its commands, and hands on the entries of its patch list.
    fn render_pass(
        &self,
        context: u64,
        c: &mut miniport::Render,
        sizes: BufferSizes,
        to: &PagingBuffer,
        mut location: impl FnMut(&Entry),
    ) -> Result<(), Status> {
        let bytes = match sizes.dma_buffer_bytes {
            0 => DEFAULT_BUFFER_BYTES,
            bytes => bytes,
        };
        let mut buffer = vec![0_u64; bytes.div_ceil(8) as usize];
        let mut entries = vec![Entry::ZERO; sizes.patch_locations as usize];
        let (buffer_at, entries_at) =
            (address_of_first(&mut buffer), address_of_first(&mut entries));
        (c.dma_buffer, c.dma_size, c.patch_location_list_out) = (buffer_at, bytes, entries_at);
        let status = self.call("DxgkDdiRender", |e| e.render(context, c));
        let (written, listed) = (
            c.dma_buffer.wrapping_sub(buffer_at),
            c.patch_location_list_out.wrapping_sub(entries_at),
        );
        let ends = written <= u64::from(bytes)
            && written.is_multiple_of(8)
            && listed <= ENTRY_BYTES * entries.len() as u64
            && listed.is_multiple_of(ENTRY_BYTES);
        let is_pass = matches!(status, Ok(()) | Err(Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER));
        if !is_pass {
            return status;
        }
        if !ends || (status.is_ok() && written == 0) {
            self.host().violation(
                Rule::RenderBuffer,
                format!(
                    "DxgkDdiRender moved pDmaBuffer by {written} of {bytes} bytes and \
                     pPatchLocationListOut by {listed} bytes: each must point past what was written"
                ),
            );
            return Err(Status::INVALID_PARAMETER);
        }
        let commands: Vec<u8> = buffer.iter().flat_map(|word| word.to_le_bytes()).collect();
        entries[..(listed / ENTRY_BYTES) as usize].iter().for_each(&mut location);
        to.append(&commands[..written as usize])?;
        status
    }

    fn patch_buffer(&self, args: &Patch<'_>) -> Result<(), Status> {
        let addresses = self.objects.lock().declared.addresses;
        let used = used(args.locations.iter().filter_map(|location| location.allocation));
        let mut entries: Vec<Entry> =
            args.locations.iter().map(|location| published(location, &used)).collect();
        let place = |index: &u32| {
            let at = args.allocations.get(*index as usize).copied().flatten();
            let opened = args.opened.get(*index as usize).copied().flatten();
            allocation_entry(opened, false, at.map_or((0, 0), |at| addresses.of(at)))
        };
        let mut allocations: Vec<AllocationEntry> =
            std::iter::once([0; 3]).chain(used.iter().map(place)).collect();
        // A slot that is bound before the part may have its operand in the part.
        let part = args.start_offset..args.end_offset;
        let is_in_part = |location: &PatchLocation| {
            part.contains(&location.split_offset)
                || location.allocation.is_some() && part.contains(&location.patch_offset)
        };
        let first = args.locations.iter().position(is_in_part).unwrap_or(entries.len());
        let end = args.locations.iter().rposition(is_in_part).map_or(first, |last| last + 1);
        let bytes = args.private_data.map_or(0, |data| data.len() as u32);
        let (segment, at) = addresses.of(args.dma_buffer_at);
        let mut c = miniport::Patch {
            context: args.context.0,
            dma_buffer_segment_id: segment,
            dma_buffer_physical_address: at,
            dma_buffer: args.dma_buffer.cpu_address().ok_or(Status::INVALID_PARAMETER)?,
            dma_buffer_size: args.dma_buffer.len() as u32,
            submission_start_offset: args.start_offset,
            submission_end_offset: args.end_offset,
            dma_buffer_private_data: args
                .private_data
                .and_then(Bulk::cpu_address)
                .unwrap_or_default(),
            dma_buffer_private_data_size: bytes,
            private_data_end_offset: bytes,
            allocation_list: address_of_first(&mut allocations),
            allocation_list_size: allocations.len() as u32,
            patch_location_list: address_of_first(&mut entries),
            patch_location_list_size: entries.len() as u32,
            patch_location_list_start: first as u32,
            patch_location_list_length: (end - first) as u32,
            submission_fence_id: args.submission_fence_id,
            ..miniport::Patch::ZERO
        };
        self.call("DxgkDdiPatch", |e| e.patch(self.adapter, &mut c))
    }

    fn submit_part(&self, args: &SubmitCommandPhysical) -> Result<(), Status> {
        let (context, addresses): (_, SegmentAddresses) = {
            let objects = self.objects.lock();
            (objects.contexts.get(&args.context.0).copied(), objects.declared.addresses)
        };
        let private_data_bytes = context.ok_or(Status::INVALID_PARAMETER)?.sizes.private_data_bytes;
        let bytes = if args.private_data_at == 0 { 0 } else { private_data_bytes };
        let (segment, at) = match args.dma_buffer {
            PhysicalAddress(0) => (0, 0),
            at => addresses.of(at),
        };
        let EngineId { node_ordinal, engine_ordinal } = args.engine;
        let mut c = miniport::SubmitCommand {
            context: args.context.0,
            dma_buffer_segment_id: segment,
            dma_buffer_physical_address: at,
            dma_buffer_size: args.end_offset,
            submission_start_offset: args.start_offset,
            submission_end_offset: args.end_offset,
            dma_buffer_private_data: args.private_data_at,
            dma_buffer_private_data_size: bytes,
            private_data_end_offset: bytes,
            submission_fence_id: args.submission_fence_id,
            flags: args.flags.bits(),
            engine_ordinal,
            node_ordinal,
            ..miniport::SubmitCommand::ZERO
        };
        self.call_at("DxgkDdiSubmitCommand", Level::Dispatch, |e| {
            e.submit_command(self.adapter, &mut c)
        })
    }
}

impl Commands {
    /// Translates an entry of the driver's list, of a pass whose commands begin at `base`. An entry
    /// that is not in the allocation list names no allocation of the kernel's.
    fn location(&self, entry: &Entry, base: u32) -> PatchLocation {
        let allocation = match entry.allocation_index {
            NO_ALLOCATION => None,
            index => Some(self.used.get(index as usize - 1).copied().unwrap_or(u32::MAX)),
        };
        PatchLocation {
            allocation,
            slot_id: entry.slot_id & ((1 << SLOT_BITS) - 1),
            driver_id: entry.driver_id,
            patch_offset: entry.patch_offset.saturating_add(base),
            allocation_offset: entry.allocation_offset.into(),
            split_offset: entry.split_offset.saturating_add(base),
        }
    }
}

fn published(location: &PatchLocation, used: &[u32]) -> Entry {
    Entry {
        allocation_index: location.allocation.map_or(NO_ALLOCATION, |index| entry_of(used, index)),
        slot_id: location.slot_id,
        driver_id: location.driver_id,
        allocation_offset: location.allocation_offset as u32,
        patch_offset: location.patch_offset,
        split_offset: location.split_offset,
    }
}

impl PatchDdi for CDriver {
    fn render(&self, _level: &Passive, args: Render<'_>) -> Result<Vec<PatchLocation>, Status> {
        self.render_buffer(&args)
    }

    fn patch(&self, _level: &Passive, args: Patch<'_>) -> Result<(), Status> {
        self.patch_buffer(&args)
    }

    fn submit_command(&self, _level: &Dispatch, args: SubmitCommandPhysical) -> Result<(), Status> {
        self.submit_part(&args)
    }
}
