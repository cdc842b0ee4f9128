//! Hardware queues, native fences, doorbells.

use super::recent::Recent;
use crate::clause::{Clause, Family};
use crate::journal::{Event, RunEnd};
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
const VICTIM_QUEUE: &str = "queues-victim-queue";
const VICTIM_EXISTS: &str = "queues-victim-exists";
const DOORBELL_DATA: &str = "queues-doorbell-data";
const FAULT_NODE: &str = "queues-fault-node";
const DECLARED: &str = "queues-array-declared";
const SIGNALS: &str = "queues-signals";
const FAULTS: &str = "queues-faulted";

/// A report with a wrong fence leaves the request open.
const fn with_suspended(clause: Clause) -> Clause {
    Clause { also: &[SUSPENDED], ..clause }
}

pub(super) static CLAUSES: [Clause; 14] = [
    Clause::new(
        Family::Queues,
        VICTIM_QUEUE,
        "DxgkCbDisconnectDoorbell names the hardware queue of the doorbell",
        "UMS-069",
        &["user-queues"],
        Twin::Callbacks(Wrong::DisconnectsOfOther),
    )
    .on("one-doorbell"),
    Clause::new(
        Family::Queues,
        VICTIM_EXISTS,
        "DxgkCbDisconnectDoorbell names a doorbell that DxgkDdiDestroyDoorbell has not ended",
        "UMS-069",
        &["user-queues"],
        Twin::Callbacks(Wrong::DisconnectsDestroyed),
    )
    .on("one-doorbell"),
    Clause::new(
        Family::Queues,
        DOORBELL_DATA,
        "DxgkDdiCreateDoorbell returns as many bytes of private data as it was given",
        "UMS-180",
        &["user-queues"],
        Twin::Layer(|overrides| {
            overrides.create_doorbell(|inner, level, args| {
                let made = inner.create_doorbell(level, args)?;
                args.private_data.push(0);
                Ok(made)
            })
        }),
    ),
    Clause::new(
        Family::Queues,
        FAULT_NODE,
        "HWQUEUE_PAGE_FAULTED names the node of the hardware queue",
        "HS-014",
        &["hw-fault"],
        Twin::Reports(|reports, _| {
            if let [InterruptData::HwQueuePageFaulted { engine, .. }] = &mut reports[..] {
                engine.node_ordinal = engine.node_ordinal.saturating_sub(1);
            }
        }),
    ),
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

/// The objects of the adapter, and suspensions.
#[derive(Default)]
pub(super) struct Walk {
    fences: Recent<OsHandle>,
    /// Hardware queues and contexts.
    objects: Recent<OsHandle>,
    queues: Recent<DriverHandle>,
    doorbells: Recent<OsHandle>,
    /// The kernel's handles of objects that exist, by the entry that made them.
    os_handles: BTreeMap<(Made, DriverHandle), OsHandle>,
    /// The hardware queue of each doorbell that exists.
    queue_of: BTreeMap<OsHandle, OsHandle>,
    /// The node of each context and hardware queue that exists.
    nodes: BTreeMap<OsHandle, u32>,
    /// Suspensions by the kernel's handle of the context and the fence.
    requests: BTreeSet<(OsHandle, u64)>,
    pending: BTreeSet<(OsHandle, u64)>,
    /// Whether an array of signalled queues is declared.
    array: bool,
}

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Made {
    Context,
    Queue,
    Fence,
    Doorbell,
}

impl crate::walk::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        match event {
            Event::Called(call) => self.called(call),
            Event::Caps(caps) => self.array = caps.signaled_hw_queue_array,
            Event::Made { entry, handle, os_handle } => self.made(*entry, *handle, *os_handle),
            Event::Suspended { context, suspend_fence, complete } => {
                let request = (self.context(*context), *suspend_fence);
                if *complete {
                    self.requests.remove(&request);
                } else if self.requests.contains(&request) {
                    // The report has not come before the call returned.
                    self.pending.insert(request);
                }
            }
            Event::Report(data, _) => self.report(tally, data),
            Event::Disconnects { hw_queue, doorbell } => {
                self.disconnects(tally, *hw_queue, *doorbell);
            }
            Event::DoorbellData(given, returned) => {
                tally.check(DOORBELL_DATA, given == returned, || {
                    format!("it was given {given} bytes and returned {returned}")
                });
            }
            Event::Connected(status) => {
                let connected =
                    matches!(status, DoorbellStatus::Connected | DoorbellStatus::ConnectedNotify);
                tally.check(CONNECTED, connected, || format!("the status is {status:?}"));
            }
            _ => {}
        }
    }

    fn end(&mut self, tally: &mut Tally, end: &RunEnd) {
        let pending = &self.pending;
        if !self.requests.is_empty() || !pending.is_empty() || tally.was_checked(SUSPENSION) {
            tally.check_at_end(SUSPENDED, pending.is_empty(), || {
                format!("suspensions {pending:?} (context, fence) were not completed")
            });
        }
        // The kernel releases a waiter that no report released, and notes it.
        if !self.fences.is_empty() && tally.facts.has_results() {
            let of_interrupts = |fault: &&DriverFault| fault.entry == "DxgkDdiInterruptRoutine";
            let fault = end.driver_faults.iter().find(of_interrupts);
            tally.check_at_end(SIGNALS, fault.is_none(), || {
                fault.map_or_else(String::new, ToString::to_string)
            });
        }
    }
}

impl Walk {
    fn disconnects(&mut self, tally: &mut Tally, hw_queue: OsHandle, doorbell: OsHandle) {
        let was_made = self.doorbells.contains(doorbell);
        tally.check(VICTIM, was_made, || format!("doorbell {:#x} was never created", doorbell.0));
        let queue = self.queue_of.get(&doorbell);
        tally.check(VICTIM_EXISTS, !was_made || queue.is_some(), || {
            format!("doorbell {:#x} is destroyed", doorbell.0)
        });
        if let Some(queue) = queue {
            tally.check(VICTIM_QUEUE, *queue == hw_queue, || {
                format!(
                    "doorbell {:#x} is of queue {:#x}, and {:#x} is named",
                    doorbell.0, queue.0, hw_queue.0
                )
            });
        }
    }

    /// Returns the kernel's handle of a context.
    fn context(&self, context: DriverHandle) -> OsHandle {
        self.os_handles.get(&(Made::Context, context)).copied().unwrap_or_default()
    }

    fn called(&mut self, call: &DdiCall) {
        match call {
            DdiCall::CreateNativeFence { args } => {
                self.fences.insert(args.os_handle);
            }
            DdiCall::CreateHwQueue { args } => {
                self.objects.insert(args.os_handle);
                let node = self.nodes.get(&self.context(args.context));
                if let Some(node) = node.copied() {
                    self.nodes.insert(args.os_handle, node);
                }
            }
            DdiCall::CreateContext { args } => {
                self.nodes.insert(args.os_handle, args.node_ordinal);
                self.objects.insert(args.os_handle);
            }
            DdiCall::CreateDoorbell { args } => {
                self.doorbells.insert(args.os_handle);
                let queue = self.os_handles.get(&(Made::Queue, args.hw_queue));
                self.queue_of.insert(args.os_handle, queue.copied().unwrap_or_default());
            }
            // The device may name an object until it has seen its destruction.
            DdiCall::DestroyNativeFence { global } => {
                if let Some(of) = self.os_handles.remove(&(Made::Fence, *global)) {
                    self.fences.end(of);
                }
            }
            DdiCall::DestroyHwQueue { hw_queue } => {
                self.queues.end(*hw_queue);
                if let Some(of) = self.os_handles.remove(&(Made::Queue, *hw_queue)) {
                    self.nodes.remove(&of);
                    self.objects.end(of);
                }
            }
            DdiCall::DestroyContext { context } => {
                if let Some(of) = self.os_handles.remove(&(Made::Context, *context)) {
                    self.nodes.remove(&of);
                    self.objects.end(of);
                }
            }
            DdiCall::DestroyDoorbell { doorbell } => {
                if let Some(of) = self.os_handles.remove(&(Made::Doorbell, *doorbell)) {
                    self.doorbells.end(of);
                    self.queue_of.remove(&of);
                }
            }
            DdiCall::SuspendContext { context, suspend_fence } => {
                self.requests.insert((self.context(*context), *suspend_fence));
            }
            _ => {}
        }
    }

    fn made(&mut self, entry: Entry, handle: DriverHandle, os_handle: OsHandle) {
        let kind = match entry {
            Entry::CreateContext => Made::Context,
            Entry::CreateHwQueue => Made::Queue,
            Entry::CreateNativeFence => Made::Fence,
            Entry::CreateDoorbell => Made::Doorbell,
            _ => return,
        };
        if kind == Made::Queue {
            self.queues.insert(handle);
        }
        self.os_handles.insert((kind, handle), os_handle);
    }

    fn report(&mut self, tally: &mut Tally, data: &InterruptData) {
        match data {
            InterruptData::SuspendContextCompleted { context, suspend_fence } => {
                let open = self.requests.remove(&(*context, *suspend_fence));
                self.pending.remove(&(*context, *suspend_fence));
                tally.check(SUSPENSION, open, || {
                    format!(
                        "fence {suspend_fence} of context {:#x} is of no open request",
                        context.0
                    )
                });
            }
            InterruptData::NativeFenceSignaled { fences, hw_queue, .. } => {
                if let Some(named) = fences {
                    let unknown = named.iter().find(|fence| !self.fences.contains(**fence));
                    tally.check(FENCES, unknown.is_none(), || {
                        format!("fence {:#x} was never created", unknown.map_or(0, |fence| fence.0))
                    });
                } else if let Some(queue) = hw_queue {
                    tally.check(OPTIMIZED, self.queues.contains(*queue), || {
                        format!("hardware queue {:#x} was never created", queue.0)
                    });
                }
            }
            InterruptData::HwQueuePageFaulted { engine, faulted, fault, .. } => {
                if let Some(of) = self.nodes.get(faulted) {
                    tally.check(FAULT_NODE, *of == engine.node_ordinal, || {
                        format!("it names {engine}, and object {:#x} is on node {of}", faulted.0)
                    });
                }
                // No call tells the driver's handle of a process.
                let of_process = fault.flags.contains(PageFaultFlags::PROCESS_HANDLE_VALID);
                let known = faulted.0 == 0 || of_process || self.objects.contains(*faulted);
                tally.check(FAULTS, known, || format!("object {:#x} was never created", faulted.0));
            }
            InterruptData::HwQueuesSignaled { hw_queues, .. } => {
                tally.check(DECLARED, self.array, || "it is not declared".to_owned());
                let unknown = hw_queues.iter().find(|queue| !self.queues.contains(**queue));
                tally.check(ARRAY, unknown.is_none(), || {
                    format!("hardware queue {:#x} was never created", unknown.map_or(0, |q| q.0))
                });
            }
            _ => {}
        }
    }
}
