//! Hardware queues, native fences, doorbells.

use crate::clause::{Clause, Family};
use crate::journal::Event;
use crate::tally::Tally;
use crate::twin::{Twin, Wrong};
use std::collections::{BTreeMap, BTreeSet};
use tidegate::d3dukmdt::DoorbellStatus;
use tidegate::ddi::{DdiCall, DriverHandle, Entry, InterruptData, OsHandle, PageFaultFlags};
use tidegate::dxgkrnl::DriverFault;

const FENCES: &str = "queues-signaled-fences";
const SUSPENSION: &str = "queues-suspension";
const SUSPENDED: &str = "queues-suspended";
const CONNECTED: &str = "queues-connected";
const VICTIM: &str = "queues-victim";
const OPTIMIZED: &str = "queues-signaled-queue";
const ARRAY: &str = "queues-signaled-queues";
const DECLARED: &str = "queues-array-declared";
const SIGNALS: &str = "queues-signals";
const FAULTS: &str = "queues-faulted";

/// A report with a wrong fence leaves the request open.
const fn with_suspended(clause: Clause) -> Clause {
    Clause { also: &[SUSPENDED], ..clause }
}

pub(super) static CLAUSES: [Clause; 10] = [
    Clause::new(
        Family::Queues,
        VICTIM,
        "DxgkCbDisconnectDoorbell names a doorbell that was created",
        "UMS-069",
        &["user-queues"],
        Twin::Callbacks(Wrong::DisconnectsUnknown),
    )
    .on("one-doorbell"),
    Clause::new(
        Family::Queues,
        OPTIMIZED,
        "the optimised NATIVE_FENCE_SIGNALED names a hardware queue that was created, or none",
        "NF-232",
        &["hw-queues"],
        Twin::Reports(|reports, _| {
            if let [InterruptData::NativeFenceSignaled { hw_queue, .. }] = &mut reports[..] {
                *hw_queue = Some(DriverHandle(0xDEAD));
            }
        }),
    )
    .on("queue-interrupt"),
    Clause::new(
        Family::Queues,
        ARRAY,
        "an array of signalled hardware queues names queues that were created",
        "NF-232",
        &["hw-queues"],
        Twin::Reports(|reports, _| {
            if let [InterruptData::HwQueuesSignaled { hw_queues, .. }] = &mut reports[..] {
                *hw_queues = vec![DriverHandle(0xDEAD)];
            }
        }),
    )
    .on("queue-array-interrupt"),
    Clause::new(
        Family::Queues,
        DECLARED,
        "an array of signalled hardware queues comes from a driver that declares it",
        "NF-233",
        &["hw-queues"],
        Twin::Layer(|overrides| {
            overrides.query_adapter_caps(|inner, level| {
                let mut caps = inner.query_adapter_caps(level);
                caps.signaled_hw_queue_array = false;
                caps
            })
        }),
    )
    .on("queue-array-interrupt"),
    Clause::new(
        Family::Queues,
        SIGNALS,
        "a signal that passes MonitoredValue is reported",
        "NF-054",
        &["hw-queues"],
        Twin::Reports(|reports, _| {
            reports.retain(|report| !matches!(report, InterruptData::NativeFenceSignaled { .. }));
        }),
    ),
    Clause::new(
        Family::Queues,
        FENCES,
        "NATIVE_FENCE_SIGNALED names fences of the adapter",
        "NF-120",
        &["hw-queues"],
        Twin::Reports(|reports, _| {
            if let [InterruptData::NativeFenceSignaled { fences, .. }] = &mut reports[..] {
                *fences = Some(vec![OsHandle(0xDEAD)]);
            }
        }),
    ),
    with_suspended(Clause::new(
        Family::Queues,
        SUSPENSION,
        "SUSPEND_CONTEXT_COMPLETED carries the fence of an open request",
        "UMS-048",
        &["hw-hang"],
        Twin::Reports(|reports, _| {
            let [InterruptData::SuspendContextCompleted { suspend_fence, .. }] = &mut reports[..]
            else {
                return;
            };
            *suspend_fence += 1000;
        }),
    )),
    Clause::new(
        Family::Queues,
        SUSPENDED,
        "each suspension that is pending is completed by SUSPEND_CONTEXT_COMPLETED",
        "UMS-048",
        &["hw-hang"],
        Twin::Reports(|reports, _| {
            reports.retain(|of| !matches!(of, InterruptData::SuspendContextCompleted { .. }));
        }),
    ),
    Clause::new(
        Family::Queues,
        CONNECTED,
        "DxgkDdiConnectDoorbell returns the status CONNECTED or CONNECTED_NOTIFY_KMD",
        "UMS-065",
        &["user-queues"],
        Twin::Layer(|overrides| {
            overrides.connect_doorbell(|inner, level, doorbell, flags| {
                let mut connected = inner.connect_doorbell(level, doorbell, flags)?;
                connected.status = DoorbellStatus::DisconnectedRetry;
                Ok(connected)
            })
        }),
    ),
    Clause::new(
        Family::Queues,
        FAULTS,
        "HWQUEUE_PAGE_FAULTED names a hardware queue or context of the adapter",
        "HS-014",
        &["hw-fault"],
        Twin::Reports(|reports, _| {
            if let [InterruptData::HwQueuePageFaulted { faulted, .. }] = &mut reports[..] {
                *faulted = OsHandle(0xDEAD);
            }
        }),
    ),
];

pub(super) fn judge(tally: &mut Tally<'_>) {
    let journal = tally.journal;
    let mut fences: BTreeSet<OsHandle> = BTreeSet::new();
    let mut objects: BTreeSet<OsHandle> = BTreeSet::new();
    // Suspensions by the kernel's handle of the context and the fence.
    let mut requests: BTreeSet<(OsHandle, u64)> = BTreeSet::new();
    let mut pending: BTreeSet<(OsHandle, u64)> = BTreeSet::new();
    let mut contexts: BTreeMap<DriverHandle, OsHandle> = BTreeMap::new();
    let (mut queues, mut doorbells) = (BTreeSet::new(), BTreeSet::new());
    let mut array = false;
    for (place, event) in journal.events() {
        match event {
            // The device may name a fence until it has seen its destruction, so handles stay known.
            Event::Called(DdiCall::CreateNativeFence { args }) => {
                fences.insert(args.os_handle);
            }
            Event::Called(DdiCall::CreateHwQueue { args }) => {
                objects.insert(args.os_handle);
            }
            Event::Called(DdiCall::CreateContext { args }) => {
                objects.insert(args.os_handle);
            }
            Event::Context(os_handle, handle) => {
                contexts.insert(*handle, *os_handle);
            }
            Event::Called(DdiCall::SuspendContext { context, suspend_fence }) => {
                let context = contexts.get(context).copied().unwrap_or_default();
                requests.insert((context, *suspend_fence));
            }
            Event::Suspended { context, suspend_fence, complete } => {
                let context = contexts.get(context).copied().unwrap_or_default();
                let request = (context, *suspend_fence);
                if *complete {
                    requests.remove(&request);
                } else if requests.contains(&request) {
                    // The report has not come before the call returned.
                    pending.insert(request);
                }
            }
            Event::Report(InterruptData::SuspendContextCompleted { context, suspend_fence }) => {
                let open = requests.remove(&(*context, *suspend_fence));
                pending.remove(&(*context, *suspend_fence));
                tally.check(SUSPENSION, place, open, || {
                    format!(
                        "fence {suspend_fence} of context {:#x} is of no open request",
                        context.0
                    )
                });
            }
            Event::Report(InterruptData::NativeFenceSignaled { fences: Some(named), .. }) => {
                let unknown = named.iter().find(|fence| !fences.contains(fence));
                tally.check(FENCES, place, unknown.is_none(), || {
                    format!("fence {:#x} was never created", unknown.map_or(0, |fence| fence.0))
                });
            }
            Event::Report(InterruptData::HwQueuePageFaulted { faulted, fault, .. }) => {
                // No call tells the driver's handle of a process.
                let of_process = fault.flags.contains(PageFaultFlags::PROCESS_HANDLE_VALID);
                let known = faulted.0 == 0 || of_process || objects.contains(faulted);
                tally.check(FAULTS, place, known, || {
                    format!("object {:#x} was never created", faulted.0)
                });
            }
            Event::Caps(caps) => array = caps.signaled_hw_queue_array,
            Event::Made(Entry::CreateHwQueue, handle) => {
                queues.insert(*handle);
            }
            Event::Called(DdiCall::CreateDoorbell { args }) => {
                doorbells.insert(args.os_handle);
            }
            Event::Disconnects(doorbell) => {
                tally.check(VICTIM, place, doorbells.contains(doorbell), || {
                    format!("doorbell {:#x} was never created", doorbell.0)
                });
            }
            Event::Report(InterruptData::NativeFenceSignaled { hw_queue: Some(queue), .. }) => {
                tally.check(OPTIMIZED, place, queues.contains(queue), || {
                    format!("hardware queue {:#x} was never created", queue.0)
                });
            }
            Event::Report(InterruptData::HwQueuesSignaled { hw_queues, .. }) => {
                tally.check(DECLARED, place, array, || "it is not declared".to_owned());
                let unknown = hw_queues.iter().find(|queue| !queues.contains(queue));
                tally.check(ARRAY, place, unknown.is_none(), || {
                    format!("hardware queue {:#x} was never created", unknown.map_or(0, |q| q.0))
                });
            }
            Event::Connected(status) => {
                let connected =
                    matches!(status, DoorbellStatus::Connected | DoorbellStatus::ConnectedNotify);
                tally.check(CONNECTED, place, connected, || format!("the status is {status:?}"));
            }
            _ => {}
        }
    }
    if !requests.is_empty() || !pending.is_empty() || tally.judged.contains_key(SUSPENSION) {
        tally.check_at_end(SUSPENDED, pending.is_empty(), || {
            format!("suspensions {pending:?} (context, fence) were not completed")
        });
    }
    // The kernel releases a waiter that no report released, and notes it.
    if !fences.is_empty() && journal.results {
        let of_interrupts = |fault: &&DriverFault| fault.entry == "DxgkDdiInterruptRoutine";
        let fault = journal.faults_of_driver.iter().find(of_interrupts);
        tally.check_at_end(SIGNALS, fault.is_none(), || {
            fault.map_or_else(String::new, ToString::to_string)
        });
    }
}
