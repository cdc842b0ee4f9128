//! Paging operations and page tables.

use crate::clause::{Clause, Family};
use crate::journal::{Event, Paged, RunEnd};
use crate::tally::{Place, Tally};
use crate::twin::{Twin, WithPaging, Wrong};
use tidegate::ddi::memory::{PagingOperation, UpdatePageTable};
use tidegate::ddi::queue::SubmitCommandVirtual;
use tidegate::ddi::{DdiCall, Driver, InterruptData, Passive, Status, SubmitCommandFlags};

const MOVES: &str = "paging-moves";
const MAPS: &str = "paging-maps";
const COMMANDS: &str = "paging-commands";
const PROGRESS: &str = "paging-progress";
const NOTHING: &str = "paging-nothing";
const ADDRESS_ZERO: &str = "paging-address-zero";
const SECOND_RUNS: &str = "paging-second-runs";
pub(super) const SECOND_ACCEPTED: &str = "paging-second-accepted";
pub(super) const SECOND_REPORTED: &str = "paging-second-reported";
pub(super) const SECOND_ORDER: &str = "paging-second-order";

const fn second(
    id: &'static str,
    rule: &'static str,
    source: &'static str,
    wrong: WithPaging,
) -> Clause {
    let twin = Twin::Callbacks(Wrong::PagingTogether(wrong));
    Clause::new(Family::Paging, id, rule, source, &["memory-together"], twin)
}

pub(super) static CLAUSES: [Clause; 10] = [
    second(
        SECOND_ACCEPTED,
        "a paging buffer is accepted while another one is in flight",
        "page DXGKDDI_SUBMITCOMMANDVIRTUAL",
        WithPaging::Refuses,
    ),
    second(
        SECOND_RUNS,
        "the commands of each paging buffer run when several are in flight",
        "page DXGKARG_SUBMITCOMMANDVIRTUAL",
        WithPaging::Skips,
    ),
    second(
        SECOND_REPORTED,
        "an interrupt reports a complete paging buffer that was submitted while another one was in flight",
        "page DXGKDDI_INTERRUPT_ROUTINE",
        WithPaging::Loses,
    ),
    second(
        SECOND_ORDER,
        "paging buffers that are in flight together are reported in the order of their submission",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        WithPaging::Disorders,
    ),
    Clause::new(
        Family::Paging,
        COMMANDS,
        "an operation that DxgkDdiBuildPagingBuffer accepts has its commands in the buffer",
        "page DXGKDDI_BUILDPAGINGBUFFER",
        &["memory-parts"],
        Twin::Layer(|overrides| {
            overrides.build_paging_buffer(|inner, level, operation| {
                match inner.build_paging_buffer(level, operation) {
                    Err(Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER) => Ok(()),
                    result => result,
                }
            })
        }),
    ),
    Clause::new(
        Family::Paging,
        PROGRESS,
        "an operation that does not fit an empty buffer puts a part there, and advances MultipassOffset",
        "page DXGKARG_BUILDPAGINGBUFFER",
        &["memory-parts"],
        Twin::Layer(|overrides| overrides.build_paging_buffer(larger_than_any_buffer)),
    ),
    Clause::new(
        Family::Paging,
        NOTHING,
        "an eviction of 0 bytes, after a reset has lost the content, succeeds and has no commands",
        "page Thread synchronization and TDR",
        &["hang-memory"],
        Twin::Layer(|overrides| {
            overrides.build_paging_buffer(|inner, level, operation| match operation.commands() {
                Some((0, _)) => Err(Status::GRAPHICS_ALLOCATION_BUSY),
                _ => inner.build_paging_buffer(level, operation),
            })
        }),
    ),
    Clause::new(
        Family::Paging,
        ADDRESS_ZERO,
        "the commands of a paging buffer run that has the GPU virtual address 0",
        "page DXGKARG_SUBMITCOMMANDVIRTUAL",
        &["memory-zero"],
        Twin::Layer(|overrides| {
            overrides.submit_command_virtual(|inner, level, args| match args.dma_buffer_gpu_va {
                0 => {
                    let flags = args.flags | SubmitCommandFlags::CONTEXT_SWITCH;
                    inner.submit_command_virtual(level, SubmitCommandVirtual { flags, ..args })
                }
                _ => inner.submit_command_virtual(level, args),
            })
        }),
    ),
    Clause::new(
        Family::Paging,
        MOVES,
        "the operations of DxgkDdiBuildPagingBuffer move all bytes before their fence",
        "page DXGKARG_BUILDPAGINGBUFFER",
        &["memory"],
        Twin::Layer(|overrides| overrides.build_paging_buffer(half)),
    ),
    Clause::new(
        Family::Paging,
        MAPS,
        "an address that a page table update has mapped does not fault",
        "page DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE",
        &["packets"],
        Twin::Layer(|overrides| overrides.update_page_table(of_first_space)),
    ),
];

/// Moves half of the bytes of a transfer.
fn half(
    inner: &dyn Driver,
    level: &Passive,
    mut operation: PagingOperation<'_>,
) -> Result<(), Status> {
    if let PagingOperation::VirtualTransfer { bytes, .. } = &mut operation {
        *bytes /= 2;
    }
    inner.build_paging_buffer(level, operation)
}

/// Has no room for an operation of more than a page, however large the buffer is.
fn larger_than_any_buffer(
    inner: &dyn Driver,
    level: &Passive,
    operation: PagingOperation<'_>,
) -> Result<(), Status> {
    match operation.commands() {
        Some((bytes, _)) if bytes > 0x1000 => Err(Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER),
        _ => inner.build_paging_buffer(level, operation),
    }
}

/// Writes the page tables of the kernel's own address space, and no others.
fn of_first_space(
    inner: &dyn Driver,
    level: &Passive,
    args: UpdatePageTable<'_>,
) -> Result<(), Status> {
    match args.address_space {
        0 => inner.update_page_table(level, args),
        _ => Ok(()),
    }
}

/// Whether memory was moved, and the first access that faulted.
#[derive(Default)]
pub(super) struct Walk {
    moved: bool,
    /// Whether commands at the GPU virtual address 0 were submitted.
    at_zero: bool,
    faulted: Option<(Place, u64)>,
}

/// Judges what an operation has put into its buffer.
fn check_operation(tally: &mut Tally, paged: &Paged) {
    let Paged { bytes, used: (before, now), multipass_offset, status } = *paged;
    let put = now - before;
    let (from, to) = multipass_offset;
    if bytes == 0 {
        let holds = status.is_success() && put == 0;
        tally.check(NOTHING, holds, || {
            format!("it returned {status:?} with {put} bytes of commands")
        });
    } else if status.is_success() {
        tally.check(COMMANDS, put != 0, || {
            format!("an operation of {bytes} bytes has no commands in the buffer")
        });
    } else if status == Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER {
        tally.check(PROGRESS, before != 0 || to > from, || {
            format!("{put} bytes of commands, and MultipassOffset was {from} and is {to}")
        });
    }
}

impl crate::walk::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        match event {
            Event::Called(DdiCall::BuildPagingBuffer { .. }) => self.moved = true,
            Event::Called(DdiCall::SubmitCommandVirtual { args }) => {
                self.at_zero |= args.dma_buffer_gpu_va == 0 && args.dma_buffer_bytes > 0;
            }
            Event::Paged(paged) => check_operation(tally, paged),
            Event::Report(
                InterruptData::DmaPageFaulted { fault, .. }
                | InterruptData::HwQueuePageFaulted { fault, .. },
                _,
            ) if fault.gpu_va != 0 => {
                self.faulted = self.faulted.or(Some((tally.place(), fault.gpu_va)));
            }
            _ => {}
        }
    }

    fn end(&mut self, tally: &mut Tally, end: &RunEnd) {
        // The programs of our situations use mapped addresses only, and have right results.
        if !tally.facts.is_ours {
            return;
        }
        if !tally.facts.may_fault() && end.refused.is_none() {
            let (place, at) = self.faulted.unwrap_or((tally.place(), 0));
            let holds = self.faulted.is_none();
            tally.check_of(MAPS, place, holds, || format!("an access to {at:#x} faulted"));
        }
        // Wrong results that a broken clause explains do not come from the memory.
        let explained = tally.judged.values().any(|judged| judged.broken.is_some());
        if self.moved && tally.facts.has_results() && !end.was_ended && !explained {
            let problem = end.problems.first();
            let clause = match self.at_zero {
                true => ADDRESS_ZERO,
                false if tally.was_checked(SECOND_ACCEPTED) => SECOND_RUNS,
                false => MOVES,
            };
            tally.check_at_end(clause, problem.is_none(), || problem.cloned().unwrap_or_default());
        }
    }
}
