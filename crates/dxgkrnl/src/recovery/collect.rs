//! Collects the report at the start of a recovery.

use super::report::{
    HeldBack, RecoveryOutcome, RecoveryReason, RecoveryReport, TimeoutCause, WorkAtReset,
};
use super::state::Recovery;
use crate::fence::FenceTarget;
use crate::object::hw_queue::HwQueue;
use tidegate_calls::PendingWait;
use tidegate_ddi::{DebugInfo, DebugReason, EngineId, OsHandle, Passive, RunningCommand};
use tidegate_vidsch::{Command, CommandKind};

/// Maximum number of work items, and of waiters, in one report.
const NAMED: usize = 16;
/// Bytes of driver debug text to keep.
const DRIVER_BYTES: usize = 4096;

/// Creates the report of a starting recovery, with the work of `engine` or of the whole adapter.
pub(super) fn collect(
    recovery: &Recovery,
    level: &Passive,
    engine: Option<EngineId>,
    cause: TimeoutCause,
) -> RecoveryReport {
    let reason = match engine {
        Some(_) => DebugReason::EngineTimeoutDetected,
        None => DebugReason::TimeoutDetected,
    };
    let at = recovery.port.platform.now();
    let DebugInfo { text: driver, commands } = driver_info(recovery, level, engine, reason);
    let mut work = work_of(recovery, engine, &commands);
    let held_back = held_back(recovery, &work);
    // Work that runs stays in a shortened list.
    work.sort_by_key(|work| !work.running);
    work.truncate(NAMED);
    RecoveryReport {
        number: 0,
        at,
        code: reason as u32,
        engine,
        reason: RecoveryReason { cause, promotion: None },
        work,
        held_back,
        driver,
        outcome: RecoveryOutcome::Begun,
        lost: Vec::new(),
        blocked: false,
    }
}

/// Returns the work of `engine` or of the whole adapter. `commands` are what the engines ran.
pub(super) fn work_of(
    recovery: &Recovery,
    engine: Option<EngineId>,
    commands: &[RunningCommand],
) -> Vec<WorkAtReset> {
    let ran = |of: EngineId, hw_queue: Option<OsHandle>| {
        commands.iter().find(|c| c.engine == of && c.hw_queue == hw_queue)
    };
    let here = |of: EngineId| engine.is_none_or(|e| e == of);
    let mut work = Vec::new();
    let on_engine = |queue: &HwQueue| {
        let runs = ran(queue.engine(), Some(queue.os_handle)).is_some();
        here(queue.engine()) && (runs || queue.has_work(&recovery.objects))
    };
    for queue in recovery.objects.hw_queues_of(on_engine) {
        let (command, fence_id, progress) = queue.describe_work(&recovery.objects);
        let running = ran(queue.engine(), Some(queue.os_handle));
        let mut signals = vec![progress];
        signals.extend(named(&recovery.objects.sched.queued_signals(queue.os_handle)));
        work.push(WorkAtReset {
            queue: queue.os_handle.into(),
            context: queue.context.os_handle,
            device: queue.device.os_handle,
            running: running.is_some(),
            command,
            fence_id,
            commands_gpu_va: 0,
            command_number: running.map_or(0, |c| c.number),
            signals,
            guilty: false,
        });
    }
    for engine in recovery.port.declared.caps.engines().filter(|engine| here(*engine)) {
        let in_flight = recovery.objects.sched.lock().packets_in_flight(engine);
        let packets = in_flight.into_iter().flat_map(|in_flight| in_flight.packets);
        for (at, packet) in packets.enumerate() {
            // The engine runs the first of them.
            let running = ran(engine, None).filter(|_| at == 0);
            let context = recovery.objects.contexts_of(|c| c.os_handle == packet.context).pop();
            work.push(WorkAtReset {
                queue: packet.context.into(),
                context: packet.context,
                device: context.map_or(OsHandle(0), |context| context.device.os_handle),
                running: running.is_some(),
                command: packet_text(packet.id, packet.command),
                fence_id: packet.id.into(),
                commands_gpu_va: packet.command.address(),
                command_number: running.map_or(0, |c| c.number),
                signals: named(&packet.signals),
                guilty: false,
            });
        }
    }
    work
}

fn packet_text(id: u32, Command { bytes, gpu_va, kind, .. }: Command) -> String {
    match kind {
        CommandKind::Render => format!("packet {id}, {bytes} bytes of commands at {gpu_va:#x}"),
        CommandKind::Patched { .. } => {
            format!("packet {id}, {bytes} bytes of commands with physical addresses")
        }
        CommandKind::Paging => format!("packet {id}, a paging operation"),
        CommandKind::ContextSwitch => format!("packet {id}, a context switch"),
        CommandKind::HwQueue { .. } => format!("command {id} of a hardware queue"),
    }
}

fn named(signals: &[FenceTarget]) -> Vec<(String, u64)> {
    let name = |signal: &FenceTarget| (signal.fence.name.clone(), signal.value);
    signals.iter().take(NAMED).map(name).collect()
}

/// Returns the waits of the adapter's queues on fences that the work would have signalled.
fn held_back(recovery: &Recovery, work: &[WorkAtReset]) -> Vec<HeldBack> {
    let signaller = |wait: &PendingWait| {
        let reaches = |(fence, value): &(String, u64)| *fence == wait.fence && *value >= wait.value;
        work.iter().find(|w| w.signals.iter().any(reaches)).map(|w| w.queue)
    };
    let waits = recovery.objects.pending_waits().into_iter();
    let held = waits.filter_map(|wait| Some(HeldBack { signaller: signaller(&wait)?, wait }));
    held.take(NAMED).collect()
}

#[doc(alias = "DxgkDdiCollectDbgInfo")]
fn driver_info(
    recovery: &Recovery,
    level: &Passive,
    engine: Option<EngineId>,
    reason: DebugReason,
) -> DebugInfo {
    let driver = recovery.port.driver(level);
    let mut info = driver.collect_debug_info(level, engine, reason).unwrap_or_default();
    info.text.truncate(info.text.floor_char_boundary(DRIVER_BYTES));
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_each_kind_of_command_by_what_it_is() {
        for (kind, text) in [
            (CommandKind::Render, "packet 7, 64 bytes of commands at 0x1000"),
            (
                CommandKind::Patched { last: true },
                "packet 7, 64 bytes of commands with physical addresses",
            ),
            (CommandKind::Paging, "packet 7, a paging operation"),
            (CommandKind::ContextSwitch, "packet 7, a context switch"),
            (CommandKind::HwQueue { progress_fence_id: 3 }, "command 7 of a hardware queue"),
        ] {
            let command = Command { gpu_va: 0x1000, bytes: 64, queued_ns: 0, link: 0, kind };
            assert_eq!(packet_text(7, command), text);
        }
    }
}
