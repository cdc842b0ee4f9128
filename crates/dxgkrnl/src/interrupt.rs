//! Owns the two halves of an interrupt, and the driver's way back into the kernel.
//!
//! 1. The line goes up: the interrupt routine runs under the interrupt lock; the driver reports
//!    data, which is queued here, and asks for the deferred routine.
//! 2. The deferred routine: the driver says NotifyDpc, and the kernel takes the queued data in
//!    order: completed packets, signalled fences, faults.
//!
//! Inline delivery runs 1 on the raising agent at once and 2 at the end of its turn; a worker does
//! both on an agent of its own.

mod signal_report;

use crate::adapter::Adapter;
use crate::config::InterruptDelivery;
use crate::context::Context;
use crate::error::BugCheck;
use crate::fence::{Fence, RelayPort, signaled};
use crate::page_fault::HwQueueFault;
use crate::recovery::detect::report_finding;
use crate::recovery::{TimeoutCause, device_loss};
use crate::stats::Count;
use crate::{display, doorbell, page_fault, power, suspend};
use signal_report::{ReportedHandles, SignalReport};
use std::sync::{Arc, OnceLock, Weak};
use tidegate_ddi::EngineState;
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{
    Callbacks, ContextAllocation, CreateContextAllocation, Dirql, Dispatch, EngineId,
    HwContextLoss, InterruptData, InterruptService, OsHandle, PageFault, Passive, Status,
};
use tidegate_platform::level::{self, Level};
use tidegate_platform::{
    Agent, CpuTime, Mutex, PhysicalAddress, Platform, ServiceHandle, Step, Turn, WakeWord, Word,
};
use tidegate_trace::{Kind, NameId, Record};

/// Reported data that waits for the deferred routine. Handles are resolved when they are reported:
/// from then on the object may be destroyed, and the report is still about it.
enum Reported {
    DmaCompleted {
        engine: EngineId,
        fence_id: u32,
    },
    DmaPreempted {
        engine: EngineId,
        preemption_fence_id: u32,
        last_completed_fence_id: u32,
    },
    DmaFaulted {
        engine: EngineId,
        fence_id: u32,
        fault: PageFault,
    },
    Vsync {
        target: u32,
        address: PhysicalAddress,
    },
    Monitored,
    Native {
        report: SignalReport,
        legacy: bool,
    },
    QueueFaulted {
        named: page_fault::Named,
        reported: HwQueueFault,
    },
    Suspended {
        context: Weak<Context>,
        suspend_fence: u64,
    },
    EngineState {
        engine: EngineId,
        new_state: EngineState,
    },
    /// A cross-adapter fence was signalled on another adapter.
    Relayed(Arc<Fence>),
    Broken(BugCheck),
    /// A caller that holds locks has found and noted a broken contract.
    Stopped,
}

impl Reported {
    /// The engine, when it is about packets.
    fn engine_of_packets(&self) -> Option<EngineId> {
        match self {
            Reported::DmaCompleted { engine, .. }
            | Reported::DmaPreempted { engine, .. }
            | Reported::DmaFaulted { engine, .. } => Some(*engine),
            _ => None,
        }
    }
}

/// What was reported, and what is not listened to.
#[derive(Default)]
struct Reports {
    list: Vec<Reported>,
    /// Engines, bit by bit, whose packets are being recovered: what is said of them means nothing.
    ignored: u64,
    /// The adapter has stopped: nothing takes what is reported.
    closed: bool,
    /// When the oldest one was reported, and how many deferred routines had run by then; kept where
    /// the supervisor is there.
    since: Option<(CpuTime, u64)>,
}

pub(crate) struct DpcQueue {
    reported: Mutex<Reports>,
    wanted: Word,
    /// Somebody runs the deferred routine for a relay, and will look once more before he goes.
    relaying: Word,
    /// Where interrupts run on an agent of their own: what wakes it.
    worker: OnceLock<WakeWord>,
}

impl DpcQueue {
    pub(crate) fn new(platform: &Platform) -> DpcQueue {
        DpcQueue {
            reported: platform.mutex("reported interrupts", Reports::default()),
            wanted: platform.page(1).word(0).named("the DPC's request"),
            relaying: platform.page(1).word(0).named("the DPC's relay"),
            worker: OnceLock::new(),
        }
    }

    /// Drops what was reported, and takes nothing more: the adapter has stopped. Reports hold
    /// fences, which hold the adapter.
    pub(crate) fn forget(&self) {
        let left = {
            let mut reports = self.reported.lock();
            reports.closed = true;
            std::mem::take(&mut reports.list)
        };
        drop(left);
    }
}

/// The kernel as the driver calls it. Made before the adapter, attached to it right after.
pub(crate) struct KernelCallbacks {
    adapter: OnceLock<Weak<Adapter>>,
}

impl KernelCallbacks {
    pub(crate) fn new() -> KernelCallbacks {
        KernelCallbacks { adapter: OnceLock::new() }
    }

    pub(crate) fn attach(&self, adapter: &Arc<Adapter>) {
        let first = self.adapter.set(Arc::downgrade(adapter)).is_ok();
        debug_assert!(first, "callbacks serve one adapter");
    }

    /// `None` before the adapter is there: a driver has nothing to report then.
    fn adapter(&self) -> Option<Arc<Adapter>> {
        self.adapter.get().and_then(Weak::upgrade)
    }
}

impl Callbacks for KernelCallbacks {
    fn notify_interrupt(&self, _level: &Dirql<'_>, data: InterruptData) {
        if let Some(adapter) = self.adapter()
            && let Some(reported) = resolve(&adapter, data)
        {
            let number =
                reported.engine_of_packets().and_then(|engine| adapter.caps.engine_number(engine));
            let mut reports = adapter.dpc.reported.lock();
            if number.is_none_or(|n| reports.ignored >> n & 1 == 0) {
                if reports.list.is_empty() && adapter.timer.is_on() {
                    reports.since = Some((adapter.platform.now(), adapter.stats().dpcs));
                }
                reports.list.push(reported);
            }
        }
    }

    fn queue_dpc(&self, _level: &Dirql<'_>) {
        if let Some(adapter) = self.adapter() {
            adapter.dpc.wanted.exchange(1);
        }
    }

    fn notify_dpc(&self, level: &Dispatch) {
        if let Some(adapter) = self.adapter() {
            take_reported(&adapter, level);
        }
    }

    fn disconnect_doorbell(
        &self,
        level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        let adapter = self.adapter().ok_or(Status::DEVICE_REMOVED)?;
        doorbell::disconnected_by_driver(&adapter, level, hw_queue, doorbell, reason)
    }

    fn create_context_allocation(
        &self,
        _level: &Passive,
        args: CreateContextAllocation,
    ) -> Result<ContextAllocation, Status> {
        let adapter = self.adapter().ok_or(Status::DEVICE_REMOVED)?;
        adapter.memory.create_context_allocation(args)
    }

    fn destroy_context_allocation(
        &self,
        _level: &Passive,
        allocation: OsHandle,
    ) -> Result<(), Status> {
        let adapter = self.adapter().ok_or(Status::DEVICE_REMOVED)?;
        adapter.memory.destroy_context_allocation(allocation)
    }

    fn invalidate_hw_context(
        &self,
        _level: &Passive,
        context: OsHandle,
        loss: HwContextLoss,
    ) -> Result<(), Status> {
        let adapter = self.adapter().ok_or(Status::DEVICE_REMOVED)?;
        adapter.recovery.invalidated(&adapter, context, loss)
    }
}

/// What a report is about; `None` when its object is being destroyed and nobody waits for it any
/// more.
// spec: NF-131
fn resolve(adapter: &Adapter, data: InterruptData) -> Option<Reported> {
    Some(match data {
        InterruptData::DmaCompleted { node_ordinal, engine_ordinal, submission_fence_id } => {
            let engine = EngineId { node_ordinal, engine_ordinal };
            Reported::DmaCompleted { engine, fence_id: submission_fence_id }
        }
        InterruptData::DmaPreempted {
            node_ordinal,
            engine_ordinal,
            preemption_fence_id,
            last_completed_fence_id,
        } => {
            let engine = EngineId { node_ordinal, engine_ordinal };
            Reported::DmaPreempted { engine, preemption_fence_id, last_completed_fence_id }
        }
        InterruptData::DmaPageFaulted { node_ordinal, engine_ordinal, faulted_fence_id, fault } => {
            let engine = EngineId { node_ordinal, engine_ordinal };
            Reported::DmaFaulted { engine, fence_id: faulted_fence_id, fault }
        }
        InterruptData::CrtcVsync { vid_pn_target_id, physical_address } => {
            Reported::Vsync { target: vid_pn_target_id, address: physical_address }
        }
        InterruptData::MonitoredFenceSignaled { .. } => Reported::Monitored,
        InterruptData::NativeFenceSignaled {
            node_ordinal,
            engine_ordinal,
            fences,
            hw_queue,
            evaluate_legacy_monitored_fences,
        } => {
            let named = ReportedHandles::Published { fences: fences.as_deref(), hw_queue };
            let engine = EngineId { node_ordinal, engine_ordinal };
            native(adapter, engine, named, evaluate_legacy_monitored_fences)
        }
        InterruptData::HwQueuesSignaled {
            node_ordinal,
            engine_ordinal,
            hw_queues,
            evaluate_legacy_monitored_fences,
        } => {
            let engine = EngineId { node_ordinal, engine_ordinal };
            let handles = ReportedHandles::HwQueues(&hw_queues);
            native(adapter, engine, handles, evaluate_legacy_monitored_fences)
        }
        InterruptData::HwQueuePageFaulted {
            node_ordinal,
            engine_ordinal,
            faulted,
            faulted_fence_id: fence_id,
            slot,
            fault,
        } => {
            let engine = EngineId { node_ordinal, engine_ordinal };
            let reported = HwQueueFault { engine, faulted, fence_id, slot, fault };
            match page_fault::resolve(adapter, &reported) {
                Ok(named) => Reported::QueueFaulted { named: named?, reported },
                Err(broken) => Reported::Broken(broken),
            }
        }
        InterruptData::EngineStateChange { node_ordinal, engine_ordinal, new_state } => {
            let engine = EngineId { node_ordinal, engine_ordinal };
            match adapter.check_engine(engine) {
                Ok(()) => Reported::EngineState { engine, new_state },
                Err(bug) => Reported::Broken(bug),
            }
        }
        InterruptData::SuspendContextCompleted { context, suspend_fence } => {
            match adapter.objects.hw_contexts.lock().named(context) {
                Some(context) => Reported::Suspended { context, suspend_fence },
                None => Reported::Broken(BugCheck::UnknownContext(context.0)),
            }
        }
    })
}

fn native(
    adapter: &Adapter,
    engine: EngineId,
    handles: ReportedHandles<'_>,
    legacy: bool,
) -> Reported {
    match signal_report::resolve(adapter, engine, handles) {
        Ok(report) => Reported::Native { report, legacy },
        Err(broken) => Reported::Broken(broken),
    }
}

// spec: NF-130
fn take_reported(adapter: &Arc<Adapter>, level: &Dispatch) {
    let reported = std::mem::take(&mut adapter.dpc.reported.lock().list);
    for data in reported {
        match data {
            Reported::DmaCompleted { engine, fence_id } => {
                adapter.sched.dma_completed(engine, fence_id)
            }
            Reported::DmaPreempted { engine, preemption_fence_id, last_completed_fence_id } => {
                adapter.sched.dma_preempted(engine, (preemption_fence_id, last_completed_fence_id));
            }
            Reported::DmaFaulted { engine, fence_id, fault } => {
                device_loss::dma_faulted(adapter, engine, fence_id, fault)
            }
            Reported::Vsync { target, address } => display::vsync(adapter, target, address),
            // spec: MF-026
            Reported::Monitored => served(adapter, signaled::scan_monitored(&adapter.fences)),
            Reported::Native { report, legacy } => {
                let native = signal_report::serve(adapter, level, &report);
                // spec: NF-128
                let monitored = legacy && signaled::scan_monitored(&adapter.fences);
                served(adapter, native || monitored);
            }
            Reported::QueueFaulted { named, reported } => {
                page_fault::hw_queue_faulted(adapter, named, &reported);
            }
            Reported::Suspended { context, suspend_fence } => {
                if let Some(context) = context.upgrade() {
                    suspend::acknowledge(&context, suspend_fence);
                }
            }
            Reported::EngineState { engine, new_state } => match new_state {
                // spec: UMS-053
                EngineState::Hung => {
                    report_finding(adapter, TimeoutCause::EngineReportedHung { engine });
                }
                EngineState::TransitionToF1 => power::engine_is_idle(adapter, engine),
                EngineState::Active => {}
            },
            Reported::Relayed(fence) => signaled::relayed(&fence),
            Reported::Broken(bug) => adapter.bug_check(bug),
            Reported::Stopped => adapter.lose_all_devices(),
        }
    }
}

/// Takes reports that stand untaken for half of the timeout delay. The driver did not call
/// DxgkCbQueueDpc, or its deferred routine did not call DxgkCbNotifyDpc. Returns whether there was
/// any report.
// spec: PRE-098
pub(crate) fn take_overdue(adapter: &Arc<Adapter>) -> bool {
    let late_ns = adapter.config.tdr.delay_ns / 2;
    let overdue = {
        let reports = adapter.dpc.reported.lock();
        let since = reports.since.filter(|_| !reports.list.is_empty());
        since.filter(|(at, _)| adapter.platform.now() >= at.after(late_ns))
    };
    let Some((at, dpcs)) = overdue else { return false };
    let (entry, why) = match adapter.stats().dpcs > dpcs {
        true => ("DxgkDdiDpcRoutine", "the deferred routine ran and did not call DxgkCbNotifyDpc"),
        false => ("DxgkDdiInterruptRoutine", "the interrupt routine did not call DxgkCbQueueDpc"),
    };
    let what =
        format!("an interrupt that was reported at {} ms was not taken: {why}", at.0 / 1_000_000);
    adapter.count(Count::missed_dpcs);
    adapter.note_driver_fault(entry, what);
    take_reported(adapter, &Dispatch::enter());
    true
}

/// From now on nothing counts that is said of this engine's packets; the interrupt lock is held.
/// Returns what was reported before as completed last and is not taken yet.
pub(crate) fn ignore(adapter: &Adapter, engine: EngineId) -> Option<u32> {
    let number = adapter.caps.engine_number(engine)?;
    let mut reports = adapter.dpc.reported.lock();
    reports.ignored |= 1 << number;
    reports.list.iter().rev().find_map(|reported| match reported {
        Reported::DmaCompleted { engine: of, fence_id } if *of == engine => Some(*fence_id),
        _ => None,
    })
}

/// What is said of this engine's packets counts again.
pub(crate) fn heed(adapter: &Adapter, engine: EngineId) {
    if let Some(number) = adapter.caps.engine_number(engine) {
        adapter.dpc.reported.lock().ignored &= !(1 << number);
    }
}

/// Takes what was reported until now.
pub(crate) fn flush(adapter: &Adapter) {
    while deferred_routine(adapter) {}
}

/// Counts a signalled interrupt.
fn served(adapter: &Adapter, released: bool) {
    adapter.count(Count::fence_interrupts);
    adapter.watch_for_hangs();
    if !released {
        adapter.count(Count::spurious_fence_interrupts);
    }
}

/// Runs the interrupt routine under the interrupt lock.
fn interrupt_routine(adapter: &Adapter) {
    adapter.count(Count::interrupts);
    let start_ns = adapter.platform.stamp_ns();
    {
        let held = adapter.interrupt_lock.lock_device();
        // A device that interrupts has power, and its interrupt may come while that is about to
        // change.
        let _level = level::raise(Level::Dirql);
        adapter.driver_as_it_is().interrupt_routine(&Dirql::enter(&held));
    }
    record(adapter, Kind::Interrupt, start_ns);
}

/// Runs the deferred routine if somebody asked for it.
fn deferred_routine(adapter: &Adapter) -> bool {
    let wanted = adapter.dpc.wanted.load() != 0 && adapter.dpc.wanted.exchange(0) != 0;
    if wanted {
        adapter.count(Count::dpcs);
        let start_ns = adapter.platform.stamp_ns();
        adapter.driver_as_it_is().dpc_routine(&Dispatch::enter());
        record(adapter, Kind::Dpc, start_ns);
    }
    wanted
}

/// Tells the fence's adapter that the fence was signalled on another one: an item for its deferred
/// routine, which runs on its interrupt agent, or, where interrupts run inline, here. Called with
/// no lock of any adapter held.
///
/// Adapters may answer each other without end; one that is in its routine already goes on there, so
/// that nothing nests deeper than there are adapters.
impl RelayPort for Adapter {
    fn relay(self: Arc<Adapter>, fence: Arc<Fence>) {
        {
            let mut reports = self.dpc.reported.lock();
            if reports.closed {
                return;
            }
            reports.list.push(Reported::Relayed(fence));
        }
        self.dpc.wanted.exchange(1);
        serve_reports(&self);
    }
}

/// Makes the next deferred routine lose all devices. Wakes the interrupt agent where there is one.
/// Any lock of the adapter may be held.
pub(crate) fn report_stop(adapter: &Adapter) {
    adapter.dpc.reported.lock().list.push(Reported::Stopped);
    adapter.dpc.wanted.exchange(1);
    if let Some(worker) = adapter.dpc.worker.get() {
        worker.ring(Step::InterruptDelivery);
    }
}

/// Has the deferred routine run for what was reported by no interrupt of the line: on the interrupt
/// agent, or, where interrupts run inline, here. Called with no lock of any adapter held.
pub(crate) fn serve_reports(adapter: &Arc<Adapter>) {
    if let Some(worker) = adapter.dpc.worker.get() {
        return worker.ring(Step::InterruptDelivery);
    }
    // Whoever finds the mark set has asked before its owner clears it, and so before the owner's
    // last look.
    while adapter.dpc.wanted.load() != 0 && adapter.dpc.relaying.exchange(1) == 0 {
        while deferred_routine(adapter) {}
        adapter.dpc.relaying.exchange(0);
    }
}

/// Puts a routine that ran until now on the timeline.
fn record(adapter: &Adapter, kind: Kind, start_ns: u64) {
    let platform = &adapter.platform;
    if platform.tracing() {
        let lane = adapter.interrupt_lane;
        platform.record(Record::span(lane, kind, NameId::NONE, start_ns, platform.stamp_ns()));
    }
}

struct Inline(Weak<Adapter>);

impl InterruptService for Inline {
    fn raise(&self) {
        if let Some(adapter) = self.0.upgrade() {
            interrupt_routine(&adapter);
        }
    }

    fn turn_ended(&self) {
        if let Some(adapter) = self.0.upgrade() {
            while deferred_routine(&adapter) {}
        }
    }
}

struct Worker {
    line: Word,
    wake: WakeWord,
}

impl InterruptService for Worker {
    fn raise(&self) {
        self.line.store(1);
        self.wake.ring(Step::InterruptDelivery);
    }

    fn turn_ended(&self) {}
}

struct WorkerAgent {
    line: Word,
    adapter: Weak<Adapter>,
}

impl Agent for WorkerAgent {
    fn turn(&mut self) -> Turn {
        let Some(adapter) = self.adapter.upgrade() else { return Turn::Park };
        if self.line.load() != 0 {
            self.line.exchange(0);
            interrupt_routine(&adapter);
        } else if adapter.dpc.wanted.load() == 0 {
            return Turn::Park;
        }
        adapter.platform.spend(Step::Dpc);
        while deferred_routine(&adapter) {}
        Turn::Again
    }
}

/// Connects the adapter's line; returns the worker, if there is one.
pub(crate) fn connect(adapter: &Arc<Adapter>) -> Option<ServiceHandle> {
    let level = Passive::enter();
    match adapter.config.interrupts {
        InterruptDelivery::Inline => {
            adapter.driver().connect_interrupt(&level, Arc::new(Inline(Arc::downgrade(adapter))));
            None
        }
        InterruptDelivery::Worker => {
            let platform = &adapter.platform;
            let line = platform.page(1).word(0).named("the interrupt line");
            let wake = WakeWord::new(platform);
            let service = Worker { line: line.clone(), wake: wake.clone() };
            // Set once: an adapter is connected once.
            let _ = adapter.dpc.worker.set(wake.clone());
            let agent = WorkerAgent { line, adapter: Arc::downgrade(adapter) };
            adapter.driver().connect_interrupt(&level, Arc::new(service));
            Some(platform.spawn_service("interrupts", wake, vec![Box::new(agent)]))
        }
    }
}
