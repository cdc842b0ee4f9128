//! Preemption of packets. Judged with the packets, in `work`.

use crate::clause::{Clause, Family};
use crate::twin::{Twin, Wrong};
use tidegate::ddi::InterruptData;

pub(super) const ANSWERS: &str = "preemption-answers";
pub(super) const LAST_COMPLETED: &str = "preemption-last-completed";
pub(super) const FINISHED: &str = "preemption-finished";
pub(super) const ANSWERED: &str = "preemption-answered";
pub(super) const ZERO: &str = "preemption-zero";
pub(super) const STOPPED: &str = "preemption-stopped";
pub(super) const GOES_ON: &str = "preemption-goes-on";
pub(super) const SLOWLY: &str = "preemption-slowly";
pub(super) const RETURNED: &str = "preemption-returned";

const fn clause(
    id: &'static str,
    rule: &'static str,
    source: &'static str,
    change: fn(&mut Vec<InterruptData>, u64),
) -> Clause {
    let situations = &["preemption"];
    let twin = Twin::Reports(change);
    Clause::new(Family::Preemption, id, rule, source, situations, twin)
}

pub(super) static CLAUSES: [Clause; 9] = [
    Clause::new(
        Family::Preemption,
        GOES_ON,
        "a preempted packet goes on where it was when it is submitted again",
        "page DXGK_SUBMITCOMMANDFLAGS",
        &["preemption-resumed"],
        Twin::Callbacks(Wrong::RunsFromTheStart),
    ),
    Clause::new(
        Family::Preemption,
        SLOWLY,
        "a preemption request is answered however long the device takes",
        "PRE-019, PRE-023",
        &["preemption-slow"],
        Twin::Callbacks(Wrong::AnswersInTimeOnly),
    ),
    Clause {
        // The device's completion is reported, too.
        also: &[RETURNED],
        ..Clause::new(
            Family::Preemption,
            STOPPED,
            "the device completes no packet that DMA_PREEMPTED has returned",
            "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
            &["preemption-slow"],
            Twin::Callbacks(Wrong::AnswersAtOnce),
        )
    },
    clause(
        FINISHED,
        "LastCompletedFenceId of DMA_PREEMPTED is a packet that the device has completed",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        |reports, _| {
            if let [InterruptData::DmaPreempted { last_completed_fence_id, .. }] = &mut reports[..]
            {
                *last_completed_fence_id += 1;
            }
        },
    ),
    clause(ANSWERS, "DMA_PREEMPTED carries the id of an open request", "PRE-019", |reports, _| {
        if let [InterruptData::DmaPreempted { preemption_fence_id, .. }] = &mut reports[..] {
            *preemption_fence_id += 1000;
        }
    }),
    clause(
        LAST_COMPLETED,
        "LastCompletedFenceId of DMA_PREEMPTED is the last complete packet",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        |reports, _| {
            if let [InterruptData::DmaPreempted { last_completed_fence_id, .. }] = &mut reports[..]
            {
                *last_completed_fence_id += 1000;
            }
        },
    ),
    clause(
        ANSWERED,
        "each preemption request is answered by DMA_PREEMPTED",
        "PRE-019, PRE-023",
        |reports, _| reports.retain(|report| !matches!(report, InterruptData::DmaPreempted { .. })),
    ),
    Clause::new(
        Family::Preemption,
        ZERO,
        "a preemption request with the id 0 is answered as any other",
        "PRE-021",
        &["preemption-wrap"],
        Twin::Reports(|reports, _| {
            reports.retain(|report| {
                !matches!(report, InterruptData::DmaPreempted { preemption_fence_id: 0, .. })
            });
        }),
    ),
    clause(
        RETURNED,
        "a packet that a preemption returned is not reported as complete before it is submitted again",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        |reports, _| {
            if let [InterruptData::DmaPreempted { engine, last_completed_fence_id, .. }] =
                reports[..]
            {
                let submission_fence_id = last_completed_fence_id + 1;
                reports.push(InterruptData::DmaCompleted { engine, submission_fence_id });
            }
        },
    ),
];
