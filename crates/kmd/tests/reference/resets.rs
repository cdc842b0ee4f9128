//! The state of engines that a recovery asks for, and the order of resets.

use tidegate_ddi::RunningCommand;
use tidegate_testbed::prelude::driver::*;

const ENGINE: EngineId = EngineId::of_node(1);
const QUERY_ENGINE: AdminCommand = AdminCommand::QueryEngine { engine: 1 };
const QUERY_QUEUE: AdminCommand = AdminCommand::QueryQueue { queue: QueueId(3) };
/// The ring of node 1.
const RING: QueueId = QueueId(1);
/// The hardware of the queues of `scene`.
const KERNEL: QueueId = QueueId(3);
const USER: QueueId = QueueId(4);
const CONTEXT: OsHandle = OsHandle(0xC0);

/// A machine with a kernel-mode queue 0x50 and a user-mode queue 0x51 in one context on node 1, and
/// the context.
fn scene() -> (Machine, DriverHandle) {
    let (machine, owned) = Machine::with_owned(5, 1);
    machine.queue(owned.context, 0x50, false, 0x8000);
    let user = machine.queue(owned.context, 0x51, true, 0x8008);
    machine.doorbell(user, 0xD0);
    machine.journal.take();
    (machine, owned.context)
}

/// Has the engine answer.
fn engine_runs(machine: &Machine, queue: Option<QueueId>) {
    let answer = EngineAnswer { responsive: true, queue, progress: 9, command: 4 };
    machine.answer(&QUERY_ENGINE, answer.encode());
}

fn power(engine: u32, on: bool) -> AdminCommand {
    AdminCommand::PowerEngine { engine, on, if_idle: false }
}

fn suspend(queue: QueueId) -> AdminCommand {
    AdminCommand::SuspendQueue { queue }
}

fn reset(engine: u32) -> AdminCommand {
    AdminCommand::ResetEngine { engine }
}

/// States of queues, by their number, and whether work in them may not run.
const STATES: [(u64, &str, bool); 6] = [
    (QueueState::Idle as u64, "is idle", false),
    (QueueState::Ready as u64, "is running or ready", false),
    (QueueState::Waiting as u64, "waits for a fence", true),
    (QueueState::Suspended as u64, "is suspended", true),
    (QueueState::Faulted as u64, "is stopped by a fault", true),
    (9, "is in a state that the driver does not know", true),
];

#[test]
fn the_status_of_an_engine_names_its_context_or_the_queues_whose_work_may_not_run() {
    let (machine, _) = scene();
    let status = || machine.driver.query_engine_status(&machine.passive(), ENGINE).unwrap();
    let working =
        EngineStatus { responsive: true, hw_context: Some(CONTEXT), progress: 9, held_back: None };
    for queue in [KERNEL, USER] {
        engine_runs(&machine, Some(queue));
        assert_eq!(status(), working);
    }
    assert!(!machine.commands().iter().any(|c| matches!(c, AdminCommand::QueryQueue { .. })));
    // The ring of packets belongs to no context, and neither does a queue that has ended.
    for queue in [None, Some(RING), Some(QueueId(77))] {
        engine_runs(&machine, queue);
        for (state, _, holds_back) in STATES {
            machine.answer(&QUERY_QUEUE, (state, 0));
            let held_back = if holds_back { vec![OsHandle(0x50), OsHandle(0x51)] } else { vec![] };
            let idle =
                EngineStatus { hw_context: None, held_back: Some(held_back), ..working.clone() };
            assert_eq!(status(), idle, "{queue:?} in state {state}");
        }
    }
    machine.answer(&QUERY_ENGINE, EngineAnswer::default().encode());
    assert!(!status().responsive);
    // Queues on other engines are not asked.
    let elsewhere = machine.driver.query_engine_status(&machine.passive(), EngineId::of_node(2));
    assert_eq!(elsewhere.unwrap().held_back, Some(vec![]));
}

/// The queue is not held back until a reset names its context.
#[test]
fn a_queue_whose_fault_was_reported_without_it_is_not_held_back_until_a_reset_names_it() {
    for (faults_name, is_known) in [(FaultNaming::Engine, false), (FaultNaming::HwQueue, true)] {
        let machine = Machine::with(Config { faults_name, ..Config::standard() });
        let context = machine.owned(5, 1).context;
        machine.queue(context, 0x50, false, 0x8000);
        machine.queue(context, 0x51, false, 0x8008);
        machine.journal.take();
        engine_runs(&machine, None);
        machine.answer(&QUERY_QUEUE, (QueueState::Faulted as u64, 0));
        let held_back = || {
            let status = machine.driver.query_engine_status(&machine.passive(), ENGINE);
            status.unwrap().held_back.unwrap()
        };
        machine.device.script.lock_device().faults.push_back((KERNEL, 0xDEAD_0000, 12, 1));
        machine.interrupt_with(Cause::FAULT.0, &[]);
        let both = [OsHandle(0x50), OsHandle(0x51)];
        assert_eq!(held_back(), if is_known { &both[..] } else { &both[1..] });
        // The engine ran the other queue.
        machine.answer(&reset(1), (0, u64::from(USER.0) + 1));
        machine.journal.take();
        machine.driver.reset_hw_engine(&machine.passive(), ENGINE).unwrap();
        let events = machine.journal.take().into_iter();
        let named: Vec<_> = events.filter(|e| matches!(e, Event::ContextLoss(..))).collect();
        let culprit = Event::ContextLoss(CONTEXT, HwContextLoss::Culprit);
        let cut_off = Event::ContextLoss(CONTEXT, HwContextLoss::Bystander);
        assert_eq!(named, if is_known { vec![culprit] } else { vec![culprit, cut_off] });
        assert_eq!(held_back(), both, "the kernel knows the culprit now");
    }
}

#[test]
fn debug_information_describes_the_queues_of_an_engine_and_its_running_command() {
    let (machine, _) = scene();
    let info = |engine| {
        let (level, reason) = (machine.passive(), DebugReason::EngineTimeoutDetected);
        machine.driver.collect_debug_info(&level, engine, reason).unwrap()
    };
    let running = |hw_queue| vec![RunningCommand { engine: ENGINE, hw_queue, number: 4 }];
    for (state, words, _) in STATES {
        engine_runs(&machine, Some(USER));
        machine.answer(&QUERY_QUEUE, (state, 17));
        let one = info(Some(ENGINE));
        let expected = format!(
            "node 1 works, progress 9; queue 0x50 {words} at packet 17; \
             queue 0x51 {words} at packet 17, the engine runs it\n"
        );
        assert_eq!((one.text, one.commands), (expected, running(Some(OsHandle(0x51)))));
    }
    engine_runs(&machine, Some(RING));
    assert_eq!(info(Some(ENGINE)).commands, running(None), "packets");
    engine_runs(&machine, None);
    let idle = info(Some(ENGINE));
    assert!(
        idle.text.starts_with("node 1 works for no context, progress 9; queue 0x50"),
        "{idle:?}"
    );
    assert_eq!(idle.commands, []);
    machine.answer(&QUERY_ENGINE, EngineAnswer::default().encode());
    let all = info(None).text;
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines.len(), 3, "{all}");
    for (node, line) in lines.iter().enumerate() {
        let expected = format!("node {node} does not respond, progress 0");
        assert_eq!(line.starts_with(&format!("{expected}; queue 0x50")), node == 1, "{line}");
        assert_eq!(*line == expected, node != 1, "{line}");
    }
    // A queue that ends meanwhile is left out.
    machine.refuse(&QUERY_QUEUE, AdminError::NoSuchQueue as u64);
    assert_eq!(info(Some(ENGINE)).text, "node 1 does not respond, progress 0\n");
}

#[test]
fn debug_information_names_24_queues_and_counts_the_rest() {
    let (machine, context) = scene();
    let named = |number: u64| {
        machine.queue(context, 0x100 + number, false, 0x9000 + 8 * number);
        let (level, reason) = (machine.passive(), DebugReason::EngineTimeoutDetected);
        let info = machine.driver.collect_debug_info(&level, Some(ENGINE), reason).unwrap();
        (info.text.matches("; queue ").count(), info.text)
    };
    for number in 3..=24 {
        let (count, text) = named(number);
        assert_eq!((count as u64, text.contains("more")), (number, false), "{text}");
    }
    let (count, text) = named(25);
    assert!(count == 24 && text.ends_with("; 1 more queues\n"), "{text}");
}

/// Takes the calls of the driver, each as a command or the loss of a context.
fn taken(machine: &Machine) -> Vec<Event> {
    machine.journal.take()
}

fn commands(commands: &[AdminCommand]) -> Vec<Event> {
    commands.iter().copied().map(Event::Admin).collect()
}

fn and_loss(mut events: Vec<Event>, loss: HwContextLoss) -> Vec<Event> {
    events.push(Event::ContextLoss(CONTEXT, loss));
    events
}

fn submit_packet(machine: &Machine, id: u32) {
    let context = machine.context(machine.device_for(6), 1, false);
    let packet = SubmitCommandVirtual {
        context,
        engine: ENGINE,
        dma_buffer_gpu_va: 0x1_0000,
        dma_buffer_bytes: 64,
        submission_fence_id: id,
        flags: SubmitCommandFlags::empty(),
    };
    machine.driver.submit_command_virtual(&machine.dispatch(), packet).unwrap();
    machine.journal.take();
}

fn current(machine: &Machine) -> u32 {
    machine.driver.query_current_fence(&machine.dispatch(), ENGINE).unwrap()
}

/// The second word of a reset's result is the number of the process's queue plus one.
#[test]
fn a_reset_names_the_context_that_it_cut_off() {
    for (cut_off, is_reported) in [
        (0, false),
        (u64::from(KERNEL.0) + 1, true),
        (u64::from(USER.0) + 1, true),
        (u64::from(RING.0) + 1, false),
        (78, false),
    ] {
        let report = |events, loss| if is_reported { and_loss(events, loss) } else { events };
        let (machine, _) = scene();
        let level = machine.passive();
        machine.answer(&reset(1), (7, cut_off));
        assert_eq!(machine.driver.reset_engine(&level, ENGINE), Ok(7));
        let of_packets = report(commands(&[reset(1)]), HwContextLoss::Culprit);
        assert_eq!(taken(&machine), of_packets, "{cut_off}");
        assert_eq!(current(&machine), 7, "packets up to 7 never complete");

        machine.driver.reset_hw_engine(&level, ENGINE).unwrap();
        let of_queues = commands(&[power(1, false), reset(1)]);
        assert_eq!(taken(&machine), report(of_queues, HwContextLoss::Culprit), "{cut_off}");
        machine.driver.resume_hw_engine(&level, ENGINE).unwrap();
        assert_eq!(taken(&machine), commands(&[power(1, true)]));
    }
}

/// Contexts that were suspended when an engine was reset leave it with the reset.
#[test]
fn a_reset_completes_the_suspensions_on_its_engine() {
    let (machine, context) = scene();
    let level = machine.passive();
    machine.driver.suspend_context(&level, context, 1).unwrap();
    machine.journal.take();
    let both = [suspend(KERNEL), suspend(USER)];
    machine.driver.reset_engine(&level, ENGINE).unwrap();
    assert_eq!(machine.commands(), [&[reset(1)][..], &both].concat());
    machine.driver.reset_hw_engine(&level, ENGINE).unwrap();
    assert_eq!(machine.commands(), [&[power(1, false), reset(1)][..], &both].concat());
    machine.driver.reset_engine(&level, EngineId::of_node(2)).unwrap();
    assert_eq!(machine.commands(), [reset(2)], "another engine");
    machine.driver.resume_context(&level, context).unwrap();
    machine.journal.take();
    machine.driver.reset_engine(&level, ENGINE).unwrap();
    assert_eq!(machine.commands(), [reset(1)], "the context is on the run list");
}

#[test]
fn a_reset_of_the_adapter_ends_all_work_and_the_restart_powers_what_was_left_without_power() {
    let (machine, context) = scene();
    let level = machine.passive();
    submit_packet(&machine, 5);
    assert_eq!(current(&machine), 0);
    machine.driver.suspend_context(&level, context, 1).unwrap();
    machine.driver.reset_hw_engine(&level, ENGINE).unwrap();
    machine.journal.take();
    machine.answer(&reset(0), (3, u64::from(KERNEL.0) + 1));
    machine.driver.reset_from_timeout(&level).unwrap();
    let loss = [Event::ContextLoss(CONTEXT, HwContextLoss::Bystander)];
    let of_node = |node, more: &[AdminCommand]| {
        [commands(&[reset(node)]), commands(more), loss.to_vec()].concat()
    };
    let expected = [
        commands(&[AdminCommand::HoldEngines]),
        of_node(0, &[]),
        of_node(1, &[suspend(KERNEL), suspend(USER)]),
        of_node(2, &[]),
    ];
    assert_eq!(taken(&machine), expected.concat());
    assert_eq!(current(&machine), 5, "every submitted packet counts as over");
    let restart = || {
        machine.driver.restart_from_timeout(&level).unwrap();
        machine.commands()
    };
    assert_eq!(restart(), [power(1, true), AdminCommand::ReleaseEngines]);
    assert_eq!(restart(), [AdminCommand::ReleaseEngines], "it has power again");
}
