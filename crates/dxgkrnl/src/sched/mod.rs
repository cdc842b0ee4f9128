//! Owns VidSch's protocol for the packet model: contexts with software queues, DMA packets handed
//! to engines.
//!
//! Decisions come from `vidsch` (pure); here they are carried out with no lock held. One agent at a
//! time drains the decisions of an adapter, so packets reach an engine in the order in which they
//! were decided; others leave their news and go.
//!
//! A preemption, in order: 1. VidSch decides (`preempt`); 2. DxgkDdiPreemptCommand; 3. the GPU
//! stops and the driver reports; 4. VidSch takes the packets back; 5. it goes on deciding. Where
//! its decisions depend on time alone, the supervisor asks for them.
//!
//! Rooms: `vidsch` (contexts and decisions) · `pending` (what is queued) · `priority` (who is next)
//! · `preempt` (engines, and requests) · `line` (numbers) · `broadcast` · `idle` (contexts that
//! engines are turned to).

pub(crate) mod broadcast;
pub(crate) mod idle;
mod line;
mod patch_list;
mod pending;
mod preempt;
mod priority;
pub(crate) mod render;
mod reset;
mod vidsch;

pub use pending::FenceOperations;
pub(crate) use pending::{CommandKind, Effect, Signal};
pub(crate) use preempt::Limits;
pub(crate) use reset::{
    aftermath, end_all_packets, end_kernel_s_packets, next_timeout, preempt_dependents,
    resume_all_engines, resume_engine, running_on, snapshot, stop_all_engines, stop_engine,
    take_timed_out,
};
pub(crate) use vidsch::VidSch;

use crate::adapter::Adapter;
use crate::context::{Context, ContextWaiter};
use crate::display;
use crate::error::BugCheck;
pub(crate) use crate::fence::FenceTarget;
use crate::fence::{Fence, WaitOwner, monitor, signal, signaled};
use crate::interrupt;
use crate::recovery::device_loss;
use crate::stats::Count;
use crate::supervisor::Watch;
use pending::{Command, Finished, GivenUp, Now, Work};
use std::sync::Arc;
use tidegate_calls::{SignalFlags, Status};
use tidegate_ddi::patch::SubmitCommandPhysical;
use tidegate_ddi::queue::SubmitCommandVirtual;
use tidegate_ddi::{
    CancelCommand, Dispatch, EngineId, MonitoredNotification, OsHandle, PreemptCommand,
    SubmitCommandFlags, VidSchCaps,
};
use tidegate_platform::{CpuTime, Event, PhysicalAddress, PlatformKind, Step};
use tidegate_trace::{Kind, LaneId, NameId, Record};
use vidsch::{Decision, Preempted};

/// The scheduler's deadlines.
pub(crate) const WATCH: Watch = Watch { name: "packets", next: next_deadline, look };

/// The moment for decisions. Where nobody looks at deadlines the clock is not looked at either.
fn now(adapter: &Adapter) -> Now {
    let (platform, stamp_ns) = (&adapter.platform, adapter.platform.stamp_ns());
    let at = match platform.kind() {
        _ if !adapter.config.supervised => CpuTime(0),
        PlatformKind::Explored => platform.now(),
        PlatformKind::Host | PlatformKind::Virtual => CpuTime(stamp_ns),
    };
    Now { stamp_ns, at }
}

/// Queues a command buffer on a context.
pub(crate) fn submit_command(
    context: &Arc<Context>,
    kind: CommandKind,
    (gpu_va, bytes): (u64, u32),
    queued_ns: u64,
) -> Result<(), Status> {
    let adapter = &context.device.adapter;
    let work = Work::Command(Command { gpu_va, bytes, queued_ns, kind });
    adapter.sched.lock().push(context.os_handle, work, now(adapter));
    run(adapter);
    Ok(())
}

/// Queues a wait for all of `fences` on a context. Each latches from now on, also while earlier
/// work holds the queue.
// spec: MF-030, MF-033
pub(crate) fn wait_from_gpu(context: &Arc<Context>, fences: Vec<FenceTarget>) {
    let adapter = &context.device.adapter;
    adapter.count(Count::queued_waits);
    let work = Work::Wait { fences: fences.clone(), remaining: fences.len() };
    let ticket = adapter.sched.lock().push(context.os_handle, work, now(adapter));
    for (fence, value) in &fences {
        let waiter = Arc::new(ContextWaiter(Arc::downgrade(context)));
        if monitor::wait(fence, *value, waiter, ticket, WaitOwner::Queue(context.os_handle))
            .is_none()
        {
            wait_satisfied(adapter, context.os_handle, ticket);
        }
    }
    // The context's work may have been given up, by the loss of its device or by the context's end,
    // before these were entered.
    if context.device.check().is_err() || !adapter.contexts.lock().is_live(context.os_handle) {
        fences.iter().for_each(|(fence, _)| monitor::forget(fence, context.os_handle));
    }
    run(adapter);
}

/// An event that is set when everything that is queued on `contexts` now, and what of them is with
/// the driver, is complete.
pub(crate) fn drained(adapter: &Adapter, contexts: &[Arc<Context>]) -> Event {
    let event = adapter.platform.event(true);
    match contexts {
        [] => event.set(Step::ThreadWake),
        _ => {
            let effect = Effect::CpuEvent(event.clone());
            signal_from_gpu(contexts, Signal { effect, flags: SignalFlags::empty() });
        }
    }
    event
}

/// Queues one signal packet on contexts of one device, of which there is at least one: made when
/// all have reached it.
pub(crate) fn signal_from_gpu(contexts: &[Arc<Context>], signal: Signal<FenceTarget>) {
    let Some(first) = contexts.first() else { return };
    let adapter = &first.device.adapter;
    let handles: Vec<OsHandle> = contexts.iter().map(|c| c.os_handle).collect();
    adapter.sched.lock().push_signal(&handles, signal, now(adapter));
    run(adapter);
}

/// Gives up everything that the contexts of a lost device have queued; returns the signals that are
/// not made for it.
pub(crate) fn give_up(adapter: &Arc<Adapter>, contexts: &[OsHandle]) -> Vec<FenceTarget> {
    let given_up = adapter.sched.lock().clear_contexts(contexts);
    cancel(adapter, &given_up.commands);
    go_on(adapter, given_up)
}

/// Tells a driver that keeps something for a packet from its making on that it will not be given
/// these.
// spec: PRE-071
fn cancel(adapter: &Arc<Adapter>, commands: &[(OsHandle, Command)]) {
    if !adapter.caps.scheduling.contains(VidSchCaps::CANCEL_COMMAND_AWARE) {
        return;
    }
    for (context, command) in commands {
        let context = adapter.contexts.lock().get(*context);
        let Some(context) = context else { continue };
        let (dma_buffer_gpu_va, dma_buffer_bytes) = (command.gpu_va, command.bytes);
        let (engine, context) = (context.engine, context.driver);
        let args = CancelCommand { context, engine, dma_buffer_gpu_va, dma_buffer_bytes };
        if let Err(status) = adapter.driver().cancel_command(&Dispatch::enter(), args) {
            adapter.bug_check(BugCheck::CancelCommandFailed(status));
        }
    }
}

/// Forgets a context that is being destroyed.
pub(crate) fn remove_context(adapter: &Arc<Adapter>, context: OsHandle) {
    let given_up = adapter.sched.lock().remove_context(context);
    go_on(adapter, given_up);
}

/// Takes waits back that were given up, and carries out what others need not wait for any more.
fn go_on(adapter: &Arc<Adapter>, given_up: GivenUp<FenceTarget>) -> Vec<FenceTarget> {
    for (context, (fence, _)) in &given_up.waits {
        monitor::forget(fence, *context);
    }
    if given_up.news {
        run(adapter);
    }
    let fences_of = |signal: Signal<FenceTarget>| match signal.effect {
        Effect::Fences(fences) => fences,
        Effect::CpuEvent(_) | Effect::LastUse(_) | Effect::Flip(_) => Vec::new(),
    };
    given_up.abandoned.into_iter().flat_map(fences_of).collect()
}

/// A save area of the context can take a state now.
pub(crate) fn area_has_content(adapter: &Arc<Adapter>, context: OsHandle) {
    adapter.sched.lock().area_has_content(context, now(adapter));
    run(adapter);
}

/// The same while nobody is to be given anything: whoever goes on later runs.
pub(crate) fn forget_area_moves(adapter: &Adapter, contexts: &[OsHandle]) {
    let mut sched = adapter.sched.lock();
    contexts.iter().for_each(|context| sched.area_moved(*context, now(adapter)));
}

/// Save areas of these contexts have moved, or stay.
pub(crate) fn areas_moved(adapter: &Arc<Adapter>, contexts: &[OsHandle]) {
    {
        let mut sched = adapter.sched.lock();
        contexts.iter().for_each(|context| sched.area_moved(*context, now(adapter)));
    }
    run(adapter);
}

/// One condition of a context's wait came true.
pub(crate) fn wait_satisfied(adapter: &Arc<Adapter>, context: OsHandle, ticket: u64) {
    adapter.sched.lock().wait_satisfied(context, ticket, now(adapter));
    run(adapter);
}

/// DXGK_INTERRUPT_DMA_COMPLETED: packets up to this id are complete. Then the basic scan, where the
/// engine does not interrupt for its writes: the packets may have written monitored fences of their
/// processes.
pub(crate) fn dma_completed(adapter: &Arc<Adapter>, engine: EngineId, fence_id: u32) {
    let number = adapter.caps.engine_number(engine);
    let completed = number.and_then(|n| adapter.sched.lock().completed(n, fence_id, now(adapter)));
    let Some(contexts) = completed else {
        return adapter.bug_check(BugCheck::unknown_packet(engine, fence_id));
    };
    scan_after(adapter, engine, &contexts);
    run(adapter);
}

/// DXGK_INTERRUPT_DMA_PREEMPTED: a request is answered. Packets up to the last completed one are
/// complete, whether that was reported before or not; the others are back.
pub(crate) fn dma_preempted(
    adapter: &Arc<Adapter>,
    engine: EngineId,
    (preemption_fence_id, last_completed_fence_id): (u32, u32),
) {
    let Some(number) = adapter.caps.engine_number(engine) else {
        return adapter.bug_check(BugCheck::unknown_packet(engine, preemption_fence_id));
    };
    let report = (preemption_fence_id, last_completed_fence_id);
    let preempted = adapter.sched.lock().preempted(number, report, now(adapter));
    match preempted {
        Preempted::Answered { completed, returned } => {
            adapter.stats.add(Count::packets_preempted, returned as u64);
            scan_after(adapter, engine, &completed);
        }
        Preempted::Stale => adapter.count(Count::stale_preemptions),
        Preempted::Unknown(id) => return adapter.bug_check(BugCheck::unknown_packet(engine, id)),
    }
    run(adapter);
}

/// Packets of these contexts are complete: the basic scan, where their engine does not interrupt
/// for its writes.
fn scan_after(adapter: &Arc<Adapter>, engine: EngineId, contexts: &[OsHandle]) {
    // spec: MF-053
    if adapter.caps.nodes[engine.node_ordinal as usize].monitored_notification
        == MonitoredNotification::Basic
    {
        basic_scan(adapter, contexts);
    }
}

/// Packets of these contexts are complete, and may have written monitored fences that are open in
/// their processes.
// spec: MF-025
fn basic_scan(adapter: &Arc<Adapter>, contexts: &[OsHandle]) {
    let mut lists = Vec::with_capacity(contexts.len());
    for context in contexts {
        let live = adapter.contexts.lock().get(*context);
        // A context may end while its packet runs; nobody knows any more whose it was.
        let Some(live) = live else {
            signaled::scan_monitored(&adapter.fences);
            return;
        };
        lists.push(live.device.monitored_fences_of_process());
    }
    if let [one] = &lists[..] {
        signaled::scan(one);
        return;
    }
    // A fence may be open in several processes.
    let mut fences: Vec<Arc<Fence>> = lists.iter().flat_map(|list| list.iter().cloned()).collect();
    fences.sort_unstable_by_key(|fence| fence.os_handle);
    fences.dedup_by_key(|fence| fence.os_handle);
    signaled::scan(&fences);
}

/// Carries out decisions until there are none.
pub(crate) fn run(adapter: &Arc<Adapter>) {
    if adapter.sched.lock().begin_run() {
        carry_out_all(adapter);
    }
}

/// The same for who has the right to.
fn carry_out_all(adapter: &Arc<Adapter>) {
    loop {
        let (decision, finished, heir, quiet, let_go) = {
            let mut sched = adapter.sched.lock();
            let decision = sched.next_decision(now(adapter));
            let (finished, heir) = (sched.take_finished(), sched.take_heir());
            (decision, finished, heir, sched.take_quiet(), sched.take_let_go())
        };
        record(adapter, finished);
        drop(let_go);
        if quiet {
            adapter.memory.look_again();
        }
        match decision {
            Some(decision) => carry_out(adapter, decision),
            None => {
                if let Some(heir) = heir {
                    heir.set(Step::ThreadWake);
                }
                break;
            }
        }
    }
    if let Some(deadline) = next_deadline(adapter) {
        adapter.timer.arm(deadline);
    }
}

/// When decisions are due although nothing has happened; `None` while an agent carries decisions
/// out, which arms the timer itself when it is done.
fn next_deadline(adapter: &Adapter) -> Option<CpuTime> {
    if adapter.config.supervised { adapter.sched.lock().next_deadline() } else { None }
}

/// Checks for a quantum that is over and for a packet that has run for too long.
/// DxgkDdiQueryCurrentFence comes first, so that a completion counts even if its interrupt was
/// lost.
fn look(adapter: &Arc<Adapter>) -> bool {
    let (due, overdue) = {
        let sched = adapter.sched.lock();
        (sched.next_deadline(), sched.overdue(now(adapter).at))
    };
    if !overdue.is_empty() {
        interrupt::take_overdue(adapter);
    }
    for number in overdue {
        let engine = adapter.caps.engine(number);
        let Ok(fence_id) = adapter.driver().query_current_fence(&Dispatch::enter(), engine) else {
            continue;
        };
        let in_flight = adapter.sched.lock().context_of_packet(number, fence_id).is_some();
        if in_flight {
            adapter.count(Count::lost_completions);
            let what = format!(
                "no interrupt reported packet {fence_id} of {engine}, which DxgkDdiQueryCurrentFence says is complete"
            );
            adapter.note_driver_fault("DxgkDdiInterruptRoutine", what);
            dma_completed(adapter, engine, fence_id);
        }
    }
    run(adapter);
    adapter.sched.lock().next_deadline() != due
}

fn carry_out(adapter: &Arc<Adapter>, decision: Decision<FenceTarget>) {
    adapter.platform.spend(Step::VidSchDispatch);
    match decision {
        Decision::Submit { context, engine, command, fence_id, flags } => {
            submit(adapter, context, (engine, fence_id), command, flags)
        }
        Decision::Preempt { engine, fence_id } => {
            preempt(adapter, adapter.caps.engine(engine), fence_id)
        }
        Decision::Signal { contexts, signal } => {
            make(adapter, signal);
            adapter.sched.lock().signalled(&contexts, now(adapter));
        }
    }
}

fn make(adapter: &Adapter, signal: Signal<FenceTarget>) {
    match signal.effect {
        Effect::Fences(fences) => {
            adapter.stats.add(Count::queued_signals, fences.len() as u64);
            signal::signal(&fences, signal.flags);
        }
        // spec: MF-028
        Effect::CpuEvent(event) => {
            adapter.count(Count::queued_events);
            event.set(Step::ThreadWake);
        }
        Effect::LastUse(over) => drop(over),
        Effect::Flip(flip) => display::rendered(&flip),
    }
}

/// Asks for the packets of an engine. The driver may answer before it returns, when nothing is left
/// of them.
fn preempt(adapter: &Arc<Adapter>, engine: EngineId, preemption_fence_id: u32) {
    adapter.count(Count::preemptions);
    let in_use = adapter.engine_in_use(engine);
    let args = PreemptCommand { engine, preemption_fence_id };
    let result = adapter.driver().preempt_command(&Dispatch::enter(), args);
    drop(in_use);
    if let Some(deadline) = next_timeout(adapter) {
        adapter.timer.arm(deadline);
    }
    // spec: PRE-019
    match result {
        Ok(()) => interrupt::serve_reports(adapter),
        Err(status) => adapter.bug_check(BugCheck::PreemptCommandFailed(status)),
    }
}

fn submit(
    adapter: &Arc<Adapter>,
    context: OsHandle,
    (engine, fence_id): (u32, u32),
    command: Command,
    flags: SubmitCommandFlags,
) {
    let driver_context = adapter.contexts.lock().get(context);
    // A context that is gone has no packets in VidSch, but it may go between the decision and here.
    let Some(driver_context) = driver_context else {
        adapter.sched.lock().not_taken(engine, fence_id, now(adapter));
        return;
    };
    adapter.count(Count::packets);
    let EngineId { node_ordinal, engine_ordinal } = adapter.caps.engine(engine);
    let args = SubmitCommandVirtual {
        context: driver_context.driver,
        node_ordinal,
        engine_ordinal,
        dma_buffer_gpu_va: command.gpu_va,
        dma_buffer_bytes: command.bytes,
        submission_fence_id: fence_id,
        flags,
        queued_ns: command.queued_ns,
    };
    let in_use = adapter.engine_in_use(adapter.caps.engine(engine));
    let result = match command.kind {
        CommandKind::Patched { .. } => {
            render::submit(adapter, &driver_context, command.gpu_va, physical(&args))
        }
        _ => adapter.driver().submit_command_virtual(&Dispatch::enter(), args),
    };
    drop(in_use);
    if result == Err(Status::INVALID_PARAMETER) {
        let refused = (driver_context.tag, u64::from(fence_id), command.gpu_va);
        device_loss::commands_refused(
            adapter,
            &driver_context.device,
            driver_context.engine,
            refused,
        );
        adapter.sched.lock().not_taken(engine, fence_id, now(adapter));
    } else if let Err(status) = result {
        adapter.bug_check(BugCheck::DdiFailed { ddi: "DxgkDdiSubmitCommandVirtual", status });
    }
}

/// The same packet with physical addresses; `render` knows which.
fn physical(args: &SubmitCommandVirtual) -> SubmitCommandPhysical {
    SubmitCommandPhysical {
        context: args.context,
        node_ordinal: args.node_ordinal,
        engine_ordinal: args.engine_ordinal,
        dma_buffer: PhysicalAddress(0),
        start_offset: 0,
        end_offset: 0,
        submission_fence_id: args.submission_fence_id,
        flags: args.flags,
        queued_ns: args.queued_ns,
    }
}

/// Puts finished waits and signals on the timeline of their queue.
pub(crate) fn record(adapter: &Adapter, finished: Vec<Finished<FenceTarget>>) {
    if !adapter.platform.tracing() {
        return;
    }
    for item in finished.into_iter().filter(|f| f.lane > 0) {
        // A signal is a mark at the moment at which it was made.
        let (kind, start_ns) =
            if item.wait { (Kind::Wait, item.start_ns) } else { (Kind::Signal, item.end_ns) };
        for (fence, value) in item.fences {
            let lane = LaneId(item.lane - 1);
            let span = Record::span(lane, kind, NameId::NONE, start_ns, item.end_ns);
            adapter.platform.record(span.queued(item.queued_ns).on_fence(fence.trace, value));
        }
    }
}
