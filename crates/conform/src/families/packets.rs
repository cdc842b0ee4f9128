//! Clauses of packets: which ids complete, in which order, and what interrupt routine and DPC do.

use crate::clause::{Clause, Family};
use crate::journal::{self, Event, RunEnd};
use crate::tally::Tally;
use crate::twin::{Twin, Wrong};
use tidegate::ddi::{DdiCall, EngineId, Entry, InterruptData};

pub(super) const KNOWN: &str = "packets-known";
pub(super) const ORDER: &str = "packets-order";
pub(super) const ENDS: &str = "packets-end";
pub(super) const FAULTED: &str = "packets-faulted";
pub(super) const FINISHED: &str = "packets-finished";
pub(super) const REPORTED: &str = "packets-reported";
pub(super) const COALESCED: &str = "packets-coalesced";
pub(super) const WRAPPED: &str = "packets-wrapped";
pub(super) const ZERO: &str = "packets-zero";
pub(super) const OTHER_ENGINE: &str = "packets-other-engine";
pub(super) const PATIENCE: &str = "packets-patience";
pub(super) const SLOW: &str = "packets-slow";
pub(super) const CURRENT: &str = "packets-current-fence";
const DPC: &str = "packets-dpc";
const NOTIFY_DPC: &str = "packets-notify-dpc";
const CLAIMED: &str = "packets-claimed";
const ENGINE: &str = "packets-engine";
const VSYNC: &str = "packets-vsync-last";
const FOREIGN: &str = "packets-foreign";

/// Changes the id of completed packets from the third report on.
fn completed(reports: &mut Vec<InterruptData>, number: u64, change: impl Fn(u32) -> Vec<u32>) {
    let [InterruptData::DmaCompleted { engine, submission_fence_id }] = reports[..] else { return };
    if number >= 3 {
        let ids = change(submission_fence_id).into_iter();
        let report =
            |submission_fence_id| InterruptData::DmaCompleted { engine, submission_fence_id };
        *reports = ids.map(report).collect();
    }
}

pub(super) static CLAUSES: [Clause; 19] = [
    Clause::new(
        Family::Packets,
        OTHER_ENGINE,
        "an interrupt reports a complete packet while another engine runs an earlier one",
        "page DXGKDDI_INTERRUPT_ROUTINE",
        &["packets-uneven"],
        Twin::Callbacks(Wrong::OrdersEngines),
    ),
    Clause::new(
        Family::Packets,
        PATIENCE,
        "a packet that runs for milliseconds is not reported before the device has completed it",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        &["packets-uneven"],
        Twin::Callbacks(Wrong::LosesPatience),
    ),
    Clause::new(
        Family::Packets,
        SLOW,
        "an interrupt of a slow device reports every packet that is complete by then",
        "page DXGKDDI_INTERRUPT_ROUTINE",
        &["packets-slow"],
        Twin::Callbacks(Wrong::ReportsInTimeOnly),
    ),
    Clause::new(
        Family::Packets,
        FINISHED,
        "DMA_COMPLETED names a packet that the device has completed",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        &["packets"],
        Twin::Callbacks(Wrong::CompletesEarly),
    ),
    Clause::new(
        Family::Packets,
        REPORTED,
        "an interrupt of the device reports every packet that the device has completed",
        "page DXGKDDI_INTERRUPT_ROUTINE",
        &["packets"],
        Twin::Reports(|reports, number| {
            if number == 4 {
                reports.retain(|report| !matches!(report, InterruptData::DmaCompleted { .. }));
            }
        }),
    ),
    Clause::new(
        Family::Packets,
        COALESCED,
        "an interrupt that comes late reports all packets that are complete by then",
        "page DXGKDDI_INTERRUPT_ROUTINE",
        &["packets-late"],
        Twin::Callbacks(Wrong::OneAtATime),
    ),
    Clause::new(
        Family::Packets,
        WRAPPED,
        "packets are reported after their ids have wrapped from 0xFFFFFFFF to 0 as before",
        "PRE-021",
        &["packets-wrap"],
        Twin::Callbacks(Wrong::ComparesIds),
    ),
    Clause::new(
        Family::Packets,
        ZERO,
        "a packet with the id 0 is reported as any other",
        "PRE-021",
        &["packets-wrap"],
        Twin::Reports(|reports, _| {
            reports.retain(|report| {
                !matches!(report, InterruptData::DmaCompleted { submission_fence_id: 0, .. })
            });
        }),
    ),
    Clause::new(
        Family::Packets,
        ENGINE,
        "each report names an engine of the adapter",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        &["packets"],
        Twin::Reports(|reports, _| {
            if let [InterruptData::MonitoredFenceSignaled { engine }] = &mut reports[..] {
                engine.node_ordinal += 64;
            }
        }),
    )
    .on("advanced-notification"),
    Clause::new(
        Family::Packets,
        VSYNC,
        "an interrupt reports a vertical sync after the packets that are complete",
        "PRE-080",
        &["flips"],
        Twin::Callbacks(Wrong::VsyncFirst),
    ),
    Clause::new(
        Family::Packets,
        KNOWN,
        "DMA_COMPLETED names a packet that was submitted to the engine",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        &["packets"],
        Twin::Reports(|reports, number| completed(reports, number, |id| vec![id + 1000])),
    ),
    Clause::new(
        Family::Packets,
        ORDER,
        "packets of an engine are reported as complete in the order of their submission",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        &["packets"],
        Twin::Callbacks(Wrong::Disorder),
    ),
    Clause {
        // The lost report is missed at its interrupt already.
        also: &[REPORTED],
        ..Clause::new(
            Family::Packets,
            ENDS,
            "each submitted packet is completed, faulted or returned",
            "page DXGKDDI_SUBMITCOMMANDVIRTUAL",
            &["packets"],
            Twin::Reports(|reports, number| completed(reports, number, |_| Vec::new())),
        )
    },
    Clause::new(
        Family::Packets,
        FAULTED,
        "a page fault of packets names a packet that is in flight",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        &["packets-fault"],
        Twin::Reports(|reports, _| {
            if let [InterruptData::DmaPageFaulted { faulted_fence_id, .. }] = &mut reports[..] {
                *faulted_fence_id += 1000;
            }
        }),
    ),
    Clause::new(
        Family::Packets,
        CURRENT,
        "DxgkDdiQueryCurrentFence returns the last complete packet, reported or not",
        "page DXGKDDI_QUERYCURRENTFENCE",
        &["packets-lost"],
        Twin::Callbacks(Wrong::CurrentIsReported),
    ),
    Clause::new(
        Family::Packets,
        DPC,
        "an interrupt that reports requests a DPC",
        "page DXGKCB_QUEUE_DPC",
        &["packets"],
        Twin::Callbacks(Wrong::NoDpc),
    ),
    Clause::new(
        Family::Packets,
        NOTIFY_DPC,
        "the DPC after a report calls DxgkCbNotifyDpc",
        "page DXGKCB_NOTIFY_DPC",
        &["packets"],
        Twin::Callbacks(Wrong::NoNotifyDpc),
    ),
    Clause::new(
        Family::Packets,
        CLAIMED,
        "DxgkDdiInterruptRoutine returns TRUE when it has reported",
        "page DXGKDDI_INTERRUPT_ROUTINE",
        &["packets"],
        Twin::Layer(|overrides| {
            overrides.interrupt_routine(|inner, level| {
                inner.interrupt_routine(level);
                false
            })
        }),
    ),
    Clause::new(
        Family::Packets,
        FOREIGN,
        "DxgkDdiInterruptRoutine returns FALSE when the device has no cause",
        "page DXGKDDI_INTERRUPT_ROUTINE",
        &["packets-doubled"],
        Twin::Layer(|overrides| {
            overrides.interrupt_routine(|inner, level| {
                inner.interrupt_routine(level);
                true
            })
        }),
    ),
];

/// Returns the engine that a report names.
fn engine_of(data: &InterruptData) -> Option<EngineId> {
    match data {
        InterruptData::DmaCompleted { engine, .. }
        | InterruptData::DmaPreempted { engine, .. }
        | InterruptData::MonitoredFenceSignaled { engine }
        | InterruptData::NativeFenceSignaled { engine, .. }
        | InterruptData::HwQueuesSignaled { engine, .. }
        | InterruptData::DmaPageFaulted { engine, .. }
        | InterruptData::HwQueuePageFaulted { engine, .. }
        | InterruptData::EngineStateChange { engine, .. } => Some(*engine),
        InterruptData::CrtcVsync { .. } | InterruptData::SuspendContextCompleted { .. } => None,
    }
}

/// Interrupt routine and DPC.
#[derive(Default)]
pub(super) struct Interrupts {
    /// Reports since the interrupt routine was called, and requests of a DPC.
    reported: u64,
    queued: u64,
    /// The first report that no DxgkCbNotifyDpc has followed.
    unnotified: Option<usize>,
    /// DPCs that run.
    dpcs: u64,
    dpc_began: Option<usize>,
    /// Interrupts that the routine did not claim.
    unclaimed: u64,
    /// Whether a vertical sync was reported since the interrupt routine was called.
    synced: bool,
    engines: Option<Vec<EngineId>>,
}

impl crate::walk::Walk for Interrupts {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        let place = tally.place().number;
        match event {
            Event::Caps(caps) => self.engines = Some(caps.engines().collect()),
            Event::Called(DdiCall::InterruptRoutine { .. }) => {
                (self.reported, self.queued, self.synced) = (0, 0, false);
            }
            Event::Called(DdiCall::DpcRoutine { .. }) => {
                self.dpcs += 1;
                self.dpc_began = Some(place);
            }
            Event::Report(data, in_routine) => self.report(tally, place, data, *in_routine),
            Event::QueuedDpc => self.queued += 1,
            Event::NotifiedDpc => self.unnotified = None,
            Event::Interrupted(ours) => {
                let reported = self.reported;
                if reported > 0 {
                    tally.check(CLAIMED, *ours, || {
                        format!("it returned FALSE after {reported} reports")
                    });
                    tally.check(DPC, self.queued > 0, || {
                        "a report was made and no DPC requested".to_owned()
                    });
                }
                self.unclaimed += u64::from(!ours);
                // What is reported outside of the routine is no part of an interrupt.
                (self.reported, self.synced) = (0, false);
            }
            Event::Returned(Entry::DpcRoutine, _) => {
                self.dpcs = self.dpcs.saturating_sub(1);
                // A DPC that is queued while it runs may run on two processors: the last judges.
                if self.dpcs > 0 {
                    return;
                }
                let Some(began) = self.dpc_began.take() else { return };
                let late = self.unnotified.filter(|report| *report < began);
                tally.check(NOTIFY_DPC, late.is_none(), || {
                    let report = late.unwrap_or_default();
                    format!("the report of event {report} was not followed by it")
                });
            }
            _ => {}
        }
    }

    fn end(&mut self, tally: &mut Tally, _end: &RunEnd) {
        if tally.facts.interrupts == journal::Interrupts::Twice {
            tally.check_at_end(FOREIGN, self.unclaimed > 0, || {
                "each interrupt came twice, and it returned TRUE for all".to_owned()
            });
        }
    }
}

impl Interrupts {
    fn report(&mut self, tally: &mut Tally, place: usize, data: &InterruptData, in_routine: bool) {
        if let (Some(engines), Some(engine)) = (&self.engines, engine_of(data)) {
            tally.check(ENGINE, engines.contains(&engine), || {
                format!("the adapter has no {engine}")
            });
        }
        self.unnotified = self.unnotified.or(Some(place));
        // A call may report while the routine runs.
        if !in_routine {
            return;
        }
        let of_packets =
            matches!(data, InterruptData::DmaCompleted { .. } | InterruptData::DmaPreempted { .. });
        tally.check(VSYNC, !(of_packets && self.synced), || {
            format!("{data:?} is reported after a vertical sync")
        });
        self.synced |= matches!(data, InterruptData::CrtcVsync { .. });
        self.reported += 1;
    }
}
