//! Waits and signals in the middle of command buffers of hardware queues.

use crate::packets::{Log, dma};
use tidegate_gpu_abi::SignalPacket;
use tidegate_testbed::prelude::gpu::*;

fn wait(fence: &Fence, value: u64, log_entry: u32) -> Command {
    Command::WaitFence {
        current_value: fence.current_va,
        value,
        epoch: fence.current.wait_for(value).epoch,
        fence_handle: 7,
        log_entry,
    }
}

fn signal(fence: &Fence, value: u64, log_entry: u32) -> Command {
    Command::SignalFence(SignalPacket {
        current_value: fence.current_va,
        monitored_value: fence.monitored_va,
        value,
        fence_handle: 7,
        log_entry,
    })
}

fn fill(buffer: &Buffer, value: u32) -> Command {
    Command::Fill { destination: buffer.va, bytes: 64, value }
}

/// A fence for which no CPU waits.
fn link(process: &Process) -> Fence {
    process.fence(0, u64::MAX)
}

// spec: HS-023
#[test]
fn a_wait_in_a_command_buffer_leaves_the_engine_to_other_queues_until_its_signal() {
    with_process(Config::default(), |machine, process| {
        let (go, handed, progress) = (link(&process), link(&process), process.fence(0, 0));
        let (before, after) = (process.buffer(64), process.buffer(64));
        let options = || QueueOptions { progress: Some(progress.clone()), ..Default::default() };
        let (mut waiter, mut signaller) =
            (process.queue_with(COMPUTE, options()), process.queue(COPY));
        let (waits, signals) = (
            Log::set(machine, waiter.id, LogType::Waits, 8, 0),
            Log::set(machine, waiter.id, LogType::Signals, 8, 0),
        );
        let commands = [
            fill(&before, 1),
            wait(&go, 3, 0),
            fill(&after, 2),
            signal(&handed, 9, 0),
            Command::Label { name: 0 },
        ];
        waiter.submit(&[process.execute(&commands, 1)]);
        // The engine runs another queue meanwhile.
        let (mut other, ran) = (process.queue(COMPUTE), process.fence(0, 0));
        other.run_until(
            &[process.execute(&[Command::Timed { ns: 100 }], 0), ran.signal(1)],
            &ran,
            1,
        );
        machine.poll_until(|| machine.state(waiter.id) == QueueState::Waiting);
        assert_eq!((before.bytes()[0], after.bytes()[0]), (1, 0));
        assert_eq!((handed.current.load(), progress.current.load()), (0, 0));
        signaller.run_until(&[process.execute(&[signal(&go, 3, NO_LOG_ENTRY)], 0)], &progress, 1);
        assert_eq!((after.bytes()[0], handed.current.load()), (2, 9));
        let stats = machine.gpu.stats();
        assert_eq!((stats.gpu_waits, stats.gpu_waits_stalled), (1, 1));
        // No CPU waits for `go` or `handed`.
        assert_eq!((stats.interrupts_raised, stats.interrupts_suppressed), (2, 2));
        let (waited, signalled) = (waits.entry(0), signals.entry(0));
        assert_eq!((waits.index(), signals.index()), ((1, 0), (1, 0)));
        assert_eq!((waited.fence_value, waited.operation), (3, LogOperation::WaitUnblocked as u32));
        assert_eq!(
            (signalled.fence_value, signalled.operation),
            (9, LogOperation::SignalExecuted as u32)
        );
        assert!(waited.observed_ns <= waited.end_ns && waited.end_ns <= signalled.end_ns);
    });
}

// spec: HS-023
#[test]
fn a_satisfied_wait_does_not_stall_and_a_command_buffer_may_end_with_a_wait() {
    with_process(Config::default(), |machine, process| {
        let (reached, go, progress) =
            (process.fence(7, u64::MAX), link(&process), process.fence(0, 0));
        let options = QueueOptions { progress: Some(progress.clone()), ..Default::default() };
        let (mut queue, mut signaller) =
            (process.queue_with(COPY, options), process.queue(COMPUTE));
        let last = [wait(&reached, 7, NO_LOG_ENTRY), wait(&go, 1, NO_LOG_ENTRY)];
        queue.run_until(&[process.execute(&last[..1], 1), process.execute(&last, 2)], &progress, 1);
        machine.poll_until(|| machine.state(queue.id) == QueueState::Waiting);
        assert_eq!(progress.current.load(), 1);
        signaller.submit(&[go.signal(1)]);
        machine.poll_until(|| progress.current.load() == 2);
        let stats = machine.gpu.stats();
        assert_eq!((stats.gpu_waits, stats.gpu_waits_stalled), (3, 1));
    });
}

/// Engines that leave no command buffer in its middle.
fn coarse() -> Config {
    let preemption =
        NodePreemption { graphics: GraphicsPreemption::None, compute: ComputePreemption::None };
    let node = |name, class| NodeConfig { preemption, ..NodeConfig::new(name, class) };
    Config {
        nodes: vec![node("compute", EngineKind::Compute), node("copy", EngineKind::Copy)],
        ..Config::default()
    }
}

// spec: HS-024
#[test]
fn a_queue_in_such_a_wait_is_suspended_at_once_and_neither_runs_nor_hangs() {
    everywhere(coarse(), |machine| {
        const FIRST: u32 = 0;
        let process = machine.process();
        let (go, done, ran) = (link(&process), process.fence(0, 0), process.fence(0, 0));
        let mut queue = process.queue(FIRST);
        let commands =
            [Command::Timed { ns: 10 }, wait(&go, 1, NO_LOG_ENTRY), signal(&done, 1, NO_LOG_ENTRY)];
        queue.submit(&[process.execute(&commands, 0)]);
        machine.poll_until(|| machine.state(queue.id) == QueueState::Waiting);
        let status = || {
            let answer = machine.admin(AdminCommand::QueryEngine { engine: FIRST });
            EngineAnswer::decode(answer.expect("an engine"))
        };
        assert_eq!((status().responsive, status().queue), (true, None));
        // A reset of the engine for another queue's work does not stop it.
        let mut hangs = process.queue(FIRST);
        hangs.submit(&[process.execute(&[Command::Hang], 0)]);
        machine.poll_until(|| !status().responsive);
        assert_eq!(status().queue, Some(hangs.id));
        machine.admin(AdminCommand::ResetEngine { engine: FIRST }).expect("an engine");
        // Suspended without a turn of its engine.
        machine.admin(AdminCommand::SuspendQueue { queue: queue.id }).expect("a queue");
        let (mut signaller, mut other) = (process.queue(1), process.queue(FIRST));
        signaller.submit(&[go.signal(1), go.signal(0)]);
        other.run_until(&[ran.signal(1)], &ran, 1);
        machine.poll_until(|| signaller.read_pointer() == 2);
        assert_eq!(done.current.load(), 0);
        machine.admin(AdminCommand::ResumeQueue { queue: queue.id }).expect("a queue");
        // The wait has latched, although the fence has fallen since.
        machine.await_signals(&done, 1);
    });
}

// spec: HS-025
#[test]
fn a_packet_with_a_fence_command_faults_and_the_next_one_runs() {
    everywhere(Config::default(), |machine| {
        let (process, system) = (machine.process(), machine.system_process());
        let (go, buffer) = (link(&process), process.buffer(64));
        let mut ring = machine.kernel_queue(COPY, QueueKind::Node, &system);
        let packet = |commands: &[Command], id| {
            dma(&process, process.commands(commands), id, GpuVa(0), DmaFlags::empty())
        };
        ring.submit(&[
            packet(&[wait(&go, 1, NO_LOG_ENTRY)], 1),
            packet(&[signal(&go, 1, NO_LOG_ENTRY)], 2),
            packet(&[fill(&buffer, 5)], 3),
        ]);
        machine.await_completed(COPY, 3);
        let seen = machine.seen();
        let faults = seen.iter().filter_map(|seen| match seen {
            Seen::Fault { position, kind, .. } => Some((*position, *kind)),
            _ => None,
        });
        assert_eq!(
            faults.collect::<Vec<_>>(),
            [(1, FaultKind::BadPacket), (2, FaultKind::BadPacket)]
        );
        assert_eq!((go.current.load(), buffer.bytes()[0]), (0, 5));
    });
}
