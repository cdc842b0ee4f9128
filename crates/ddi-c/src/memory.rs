//! The memory manager's calls as operations of DxgkDdiBuildPagingBuffer.
//!
//! - The kernel counts levels of page tables from the root, the published interface from the
//!   tables that map pages.
//! - Page tables are written by the CPU (DXGK_PAGETABLEUPDATE_CPU_VIRTUAL). Afterwards
//!   DXGK_OPERATION_FLUSH_TLB invalidates translations, if an entry was in use.
//! - A driver before WDDM 2.0 gets segments and addresses in them, and no page tables.
//! - Operations on fence storage are not published, and a driver in C has none of them.

use crate::CDriver;
use crate::address::address_of_first;
use crate::rule::Rule;
use tidegate_ddi::Status;
use tidegate_ddi::memory::{PageTableEntry, PagingBuffer, PagingOperation, UpdatePageTable};
use tidegate_ddi::queue::SetRootPageTable;
use tidegate_platform::PhysicalAddress;
use tidegate_wddm_abi::Published;
use tidegate_wddm_abi::miniport::{
    self, BuildPagingBuffer, FillVirtual, FlushTlb, PageTableEntryFlags, PagingOperation as Number,
    TransferVirtual,
};

/// Bytes of a buffer for an operation without commands.
const BUFFER_BYTES: u32 = 4096;
/// Words after a buffer in which a driver's stores are seen, and their value.
const GUARD_WORDS: usize = 512;
const GUARD: u64 = 0x6775_6172_6475_6172;
/// Bytes of a page of page tables.
const PAGE_SHIFT: u32 = 12;

/// An operation's number and arguments.
fn operation(number: Number, arm: [u64; 32]) -> BuildPagingBuffer {
    BuildPagingBuffer { operation: number as u32, arm, ..BuildPagingBuffer::ZERO }
}

/// Returns the arguments of an operation as words: these fields, and 0 in all others. The union
/// has bytes that belong to no field of the structure, so it is not written as the structure.
fn arm<T: Published>(fields: &[(&str, u64)]) -> [u64; 32] {
    let mut words = [0; 32];
    for (name, value) in fields {
        let (_, at) = T::LAYOUT
            .fields
            .iter()
            .find(|(field, _)| field == name)
            .unwrap_or_else(|| unreachable!("{} has no field {name}", T::LAYOUT.name));
        // Fields of 4 bytes may be in the upper half of a word.
        words[at / 8] |= value << (8 * (at % 8));
    }
    words
}

/// Translates an entry of a page table.
fn encode(entry: &PageTableEntry) -> Result<miniport::PageTableEntry, Status> {
    let of = |flags: PageTableEntryFlags, at: PhysicalAddress| miniport::PageTableEntry {
        flags: (flags | PageTableEntryFlags::VALID).bits(),
        page_address: at.0 >> PAGE_SHIFT,
    };
    Ok(match *entry {
        PageTableEntry::Invalid => miniport::PageTableEntry { flags: 0, page_address: 0 },
        PageTableEntry::Table(at) => of(PageTableEntryFlags::empty(), at),
        // DXGK_PTE has no bit for pages of native fences.
        PageTableEntry::Page { fence_values: true, .. } => return Err(Status::NOT_SUPPORTED),
        PageTableEntry::Page { at, writable, cache_coherent, .. } => {
            let mut flags = PageTableEntryFlags::empty();
            flags.set(PageTableEntryFlags::READ_ONLY, !writable);
            flags.set(PageTableEntryFlags::CACHE_COHERENT, cache_coherent);
            of(flags, at)
        }
    })
}

impl CDriver {
    /// Carries out an operation that has no commands.
    fn build(&self, mut args: BuildPagingBuffer) -> Result<(), Status> {
        let mut buffer = vec![0_u64; BUFFER_BYTES as usize / 8];
        let at = address_of_first(&mut buffer);
        (args.dma_buffer, args.dma_size) = (at, BUFFER_BYTES);
        self.call("DxgkDdiBuildPagingBuffer", |e| e.build_paging_buffer(self.adapter, &mut args))?;
        if args.dma_buffer != at {
            self.host().violation(
                Rule::PagingBuffer,
                format!(
                    "DxgkDdiBuildPagingBuffer wrote commands for the operation {}, which has none here",
                    args.operation
                ),
            );
            return Err(Status::NOT_SUPPORTED);
        }
        Ok(())
    }

    /// Appends the commands of an operation to the kernel's buffer, or those that fit.
    fn append(&self, mut args: BuildPagingBuffer, to: &PagingBuffer) -> Result<(), Status> {
        let room = to.room();
        let words = room.div_ceil(8) as usize;
        let mut buffer = vec![0_u64; words];
        buffer.resize(words + GUARD_WORDS, GUARD);
        let at = address_of_first(&mut buffer);
        (args.dma_buffer, args.dma_size) = (at, room);
        args.multipass_offset = to.multipass_offset();
        (args.dma_buffer_gpu_virtual_address, args.dma_buffer_write_offset) =
            (to.gpu_va(), to.used());
        let status = self
            .call("DxgkDdiBuildPagingBuffer", |e| e.build_paging_buffer(self.adapter, &mut args));
        let is_full = match status {
            Ok(()) => false,
            Err(Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER) => true,
            Err(_) => return status,
        };
        let written = args.dma_buffer.wrapping_sub(at);
        let is_moved = written <= u64::from(room) && (is_full || written > 0);
        let what = match (is_moved, buffer[words..].iter().all(|word| *word == GUARD)) {
            (true, true) => None,
            (true, false) => Some("wrote past the end of pDmaBuffer".to_owned()),
            (false, _) => Some(format!(
                "moved pDmaBuffer by {written} bytes, and it must point past the commands"
            )),
        };
        if let Some(what) = what {
            self.host().violation(
                Rule::PagingBuffer,
                format!(
                    "DxgkDdiBuildPagingBuffer {what}, for the operation {} with DmaSize {room}",
                    args.operation
                ),
            );
            return Err(Status::INVALID_PARAMETER);
        }
        let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_le_bytes()).collect();
        to.append(&bytes[..written as usize])?;
        to.set_multipass_offset(args.multipass_offset);
        status
    }

    /// As [`CDriver::append`]. The content of a transfer of 0 bytes was lost in a reset, so the
    /// driver writes no commands.
    fn transfer(
        &self,
        args: BuildPagingBuffer,
        bytes: u64,
        to: &PagingBuffer,
    ) -> Result<(), Status> {
        match bytes {
            0 => self.build(args),
            _ => self.append(args, to),
        }
    }

    pub(crate) fn page(&self, paging: PagingOperation<'_>) -> Result<(), Status> {
        match paging {
            PagingOperation::NotifyFenceResidency(_) => Ok(()),
            PagingOperation::VirtualTransfer {
                source_gpu_va,
                destination_gpu_va,
                bytes,
                buffer,
            } => {
                let arm = arm::<TransferVirtual>(&[
                    ("TransferSizeInBytes", bytes),
                    ("SourceVirtualAddress", source_gpu_va),
                    ("DestinationVirtualAddress", destination_gpu_va),
                ]);
                self.transfer(operation(Number::VirtualTransfer, arm), bytes, buffer)
            }
            PagingOperation::VirtualFill { destination_gpu_va, bytes, value, buffer } => {
                let arm = arm::<FillVirtual>(&[
                    ("FillSizeInBytes", bytes),
                    ("FillPattern", value.into()),
                    ("DestinationVirtualAddress", destination_gpu_va),
                ]);
                self.append(operation(Number::VirtualFill, arm), buffer)
            }
            PagingOperation::Transfer { source, destination, bytes, buffer } => {
                let addresses = self.objects.lock().declared.addresses;
                let ((from, from_at), (to, to_at)) =
                    (addresses.of(source), addresses.of(destination));
                let mut arm = [0; 32];
                // hAllocation, TransferOffset, TransferSize, Source, Destination.
                arm[2..7].copy_from_slice(&[bytes, from.into(), from_at, to.into(), to_at]);
                self.transfer(operation(Number::Transfer, arm), bytes, buffer)
            }
            PagingOperation::Fill { destination, bytes, value, buffer } => {
                let (to, to_at) = self.objects.lock().declared.addresses.of(destination);
                let mut arm = [0; 32];
                // hAllocation, FillSize, FillPattern, Destination.
                arm[1..5].copy_from_slice(&[bytes, value.into(), to.into(), to_at]);
                self.append(operation(Number::Fill, arm), buffer)
            }
            // A context allocation is one that the driver created, and it has no callback for that
            // yet. The operations on fence storage are not published.
            PagingOperation::InitContextResource { .. }
            | PagingOperation::HoldEngines
            | PagingOperation::ReleaseEngines
            | PagingOperation::TransferFenceValues { .. } => Err(Status::NOT_SUPPORTED),
        }
    }

    pub(crate) fn write_page_table(&self, args: &UpdatePageTable<'_>) -> Result<(), Status> {
        let (levels, entry_bytes) = {
            let shape = self.objects.lock().declared.shape;
            (shape.levels, shape.table_bytes >> shape.index_bits)
        };
        if args.level >= levels {
            return Err(Status::INVALID_PARAMETER);
        }
        let mut entries = args.entries.iter().map(encode).collect::<Result<Vec<_>, Status>>()?;
        let (start, count) = (args.start_index, entries.len() as u64);
        let mut before = vec![0; (count * entry_bytes) as usize];
        let table = args.table.cpu_address().ok_or(Status::INVALID_PARAMETER)?;
        args.table.read(start * entry_bytes, &mut before).map_err(|_| Status::INVALID_PARAMETER)?;
        let (process, is_rooted) = self.process_of(args.address_space);
        let arm = arm::<miniport::UpdatePageTable>(&[
            ("PageTableLevel", (levels - 1 - args.level).into()),
            ("PageTableAddress", table),
            ("pPageTableEntries", address_of_first(&mut entries)),
            ("StartIndex", start),
            ("NumPageTableEntries", count),
            ("hProcess", process),
        ]);
        self.build(operation(Number::UpdatePageTable, arm))?;
        self.host().platform.fence();
        // Entries that were zero are cached by no device.
        if is_rooted && before.iter().any(|byte| *byte != 0) {
            self.flush(args.address_space, process)?;
        }
        Ok(())
    }

    fn flush(&self, address_space: u32, process: u64) -> Result<(), Status> {
        let root = self.objects.lock().root_of(address_space);
        let arm = arm::<FlushTlb>(&[("hProcess", process), ("EndVirtualAddress", u64::MAX)]);
        let mut args = operation(Number::FlushTlb, arm);
        // SegmentOffset of RootPageTableAddress; its SegmentId is 0.
        args.arm[1] = root;
        self.build(args)
    }

    /// Creates or destroys the process, and gives its root page table to its contexts.
    pub(crate) fn set_root(&self, args: SetRootPageTable) -> Result<(), Status> {
        let Some(root) = args.root else { return self.end_process(args.address_space) };
        self.begin_process(args.address_space)?;
        let contexts = self.objects.lock().set_root(args.address_space, root.0);
        contexts.into_iter().for_each(|context| self.set_root_of(context, root.0));
        Ok(())
    }

    /// DxgkDdiSetRootPageTable, which returns nothing.
    pub(crate) fn set_root_of(&self, context: u64, root: u64) {
        let entries = 1_u32 << self.objects.lock().declared.shape.index_bits;
        let mut args = miniport::SetRootPageTable {
            context,
            segment_offset: root,
            entries,
            ..miniport::SetRootPageTable::ZERO
        };
        let _done = self.call("DxgkDdiSetRootPageTable", |e| {
            e.set_root_page_table(self.adapter, &mut args).map(|()| Status::SUCCESS.0)
        });
    }
}
