//! Paging operations and page tables.

use crate::clause::{Clause, Family};
use crate::journal::{Event, RunEnd};
use crate::tally::{Place, Tally};
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

/// Whether memory was moved, and the first access that faulted.
#[derive(Default)]
pub(super) struct Walk {
    moved: bool,
    faulted: Option<(Place, u64)>,
}

impl crate::walk::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        match event {
            Event::Called(DdiCall::BuildPagingBuffer { .. }) => self.moved = true,
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
            tally.check_at_end(MOVES, problem.is_none(), || problem.cloned().unwrap_or_default());
        }
    }
}
