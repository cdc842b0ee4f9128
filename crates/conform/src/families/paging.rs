//! Paging operations and page tables.

use crate::clause::{Clause, Family};
use crate::journal::Event;
use crate::tally::Tally;
use crate::twin::Twin;
use tidegate::ddi::memory::{PagingOperation, UpdatePageTable};
use tidegate::ddi::{DdiCall, Driver, InterruptData, Passive, Status};

const MOVES: &str = "paging-moves";
const MAPS: &str = "paging-maps";

pub(super) static CLAUSES: [Clause; 2] = [
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

pub(super) fn judge(tally: &mut Tally<'_>) {
    let journal = tally.journal;
    let (mut moved, mut faulted) = (false, None);
    for (place, event) in journal.events() {
        match event {
            Event::Called(DdiCall::BuildPagingBuffer { .. }) => moved = true,
            Event::Report(
                InterruptData::DmaPageFaulted { fault, .. }
                | InterruptData::HwQueuePageFaulted { fault, .. },
            ) if fault.gpu_va != 0 => {
                faulted = faulted.or(Some((place, fault.gpu_va)));
            }
            _ => {}
        }
    }
    // The programs of our situations use mapped addresses only, and have right results.
    if !journal.is_ours {
        return;
    }
    if !journal.faults && journal.refused.is_none() {
        let place = faulted.map_or(journal.seen.len(), |(place, _)| place);
        tally.check(MAPS, place, faulted.is_none(), || {
            format!("an access to {:#x} faulted", faulted.map_or(0, |(_, at)| at))
        });
    }
    // Wrong results that a broken clause explains do not come from the memory.
    let explained = tally.judged.values().any(|judged| judged.broken.is_some());
    if moved && journal.results && !journal.was_ended && !explained {
        let problem = journal.problems.first();
        tally.check_at_end(MOVES, problem.is_none(), || problem.cloned().unwrap_or_default());
    }
}
