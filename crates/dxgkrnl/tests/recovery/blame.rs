//! Blame: a hang is reported with the queue, the command buffer and the command that the engine
//! ran, whatever else the device had queued. A driver whose engine status is wrong is named, and
//! hides no hang.

use crate::timeouts::hung;
use tidegate::calls::HangReport;
use tidegate::ddi::DebugInfo;
use tidegate_testbed::prelude::*;

const S: u64 = 1_000_000_000;

fn hang_of(client: &Client) -> HangReport {
    match client.state() {
        Ok(DeviceState::Hung(report)) => report,
        state => panic!("{state:?}"),
    }
}

/// The queues of the only recovery's report that are named as guilty, and of its lost devices.
fn named(w: &World) -> (Vec<u64>, Vec<(u64, bool)>) {
    let reports = w.adapter().recoveries();
    let [report] = &reports[..] else { panic!("{reports:?}") };
    let guilty = report.work.iter().filter(|work| work.guilty).map(|work| work.queue.0);
    (guilty.collect(), report.lost.iter().map(|(queue, guilty)| (queue.0, *guilty)).collect())
}

/// A way of submission: creates a queue of engine 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    User,
    Hardware,
    Packet,
}

const MODELS: [Model; 3] = [Model::User, Model::Hardware, Model::Packet];

/// Submits command buffers to a new queue of engine 0. The user-mode queue has a buffer that is
/// complete before. Returns the queue's handle, and keeps the queue.
fn submit(n: &Client, model: Model, buffers: &[&[Command]]) -> Handle {
    match model {
        Model::User => {
            let queue = n.connected_queue(0);
            queue.doorbell.last_queued.store(buffers.len() as u64);
            for (commands, progress) in buffers.iter().zip(1..) {
                queue.put(&n.execute_packet(commands, progress));
            }
            queue.ring();
            queue.queue.handle
        }
        Model::Hardware => {
            let queue = n.hw_queue();
            buffers.iter().zip(1..).for_each(|(of, progress)| n.submit(&queue, progress, of));
            queue.handle
        }
        Model::Packet => {
            let context = n.context(0);
            buffers.iter().for_each(|commands| n.submit_packet(context, commands));
            context
        }
    }
}

const SHORT: &[Command] = &[Command::Timed { ns: 1000 }];
const HANG: &[Command] = &[Command::Timed { ns: 1000 }, Command::Hang];
const LONG: &[Command] = &[Command::Timed { ns: 40 * S }];

/// Three queues of the guilty device and a queue of another device have work: before the one that
/// hangs, after it, and waiting.
// spec: PRE-104
#[test]
fn a_hang_is_reported_with_the_work_that_the_engine_ran() {
    for model in [Model::User, Model::Hardware] {
        for beside in [Model::User, Model::Hardware] {
            world().run(move |w| {
                let (n, innocent) = (w.client("guilty"), w.client("innocent"));
                let first = submit(&n, beside, &[LONG]);
                let culprit = submit(&n, model, &[SHORT, HANG, SHORT]);
                submit(&n, beside, &[LONG]);
                let other = submit(&innocent, beside, &[SHORT]);
                w.pass(20 * S);
                let report = hang_of(&n);
                assert_eq!(report.queue, n.number(culprit), "{report:?}");
                assert_ne!(report.queue, n.number(first));
                assert_eq!((report.fence_id, report.command_number), (2, 2), "{report:?}");
                let culprit = n.number(culprit).0;
                assert_eq!(named(w), (vec![culprit], vec![(culprit, true)]));
                assert_eq!(innocent.state(), Ok(DeviceState::Active));
                let _number = innocent.number(other);
            });
        }
    }
}

// spec: PRE-104
#[test]
fn a_packet_that_hangs_is_reported_and_not_one_that_waits() {
    world_with(|config| config.driver.save_areas = true).run(|w| {
        let (n, innocent) = (w.client("guilty"), w.client("innocent"));
        // In the middle of its work when the packet that hangs has its turn.
        let long = vec![Command::Timed { ns: 10_000_000 }; 400];
        let first = submit(&n, Model::Packet, &[&long]);
        let culprit = submit(&n, Model::Packet, &[HANG]);
        submit(&innocent, Model::Packet, &[SHORT]);
        w.pass(20 * S);
        let report = hang_of(&n);
        assert_eq!(report.queue, n.number(culprit), "{report:?}");
        assert_ne!(report.queue, n.number(first));
        assert_eq!(report.command_number, 2, "{report:?}");
        assert_ne!(report.commands_gpu_va, 0);
        let culprit = n.number(culprit).0;
        assert_eq!(named(w), (vec![culprit], vec![(culprit, true)]));
        assert_eq!(innocent.state(), Ok(DeviceState::Active));
    });
}

/// An engine that hangs in a hardware queue answers no preemption request of its packets. The
/// device of the packets is innocent, and so is a hardware queue that waits while a packet hangs.
// spec: PRE-104
#[test]
fn the_work_of_one_model_is_not_blamed_for_that_of_another() {
    for (culprit, waits) in [(Model::User, Model::Packet), (Model::Hardware, Model::Packet)]
        .into_iter()
        .chain([(Model::Packet, Model::User), (Model::Packet, Model::Hardware)])
    {
        world().run(move |w| {
            let (n, innocent) = (w.client("guilty"), w.client("innocent"));
            let culprit = submit(&n, culprit, &[HANG]);
            w.pass(S);
            submit(&innocent, waits, &[SHORT]);
            w.pass(20 * S);
            assert_eq!(hang_of(&n).queue, n.number(culprit));
            assert_eq!(innocent.state(), Ok(DeviceState::Active), "{waits:?}");
        });
    }
}

/// A forced reset of an engine whose queues all wait interrupts nothing, so no device is lost.
// spec: PRE-104
#[test]
fn a_reset_of_an_engine_that_runs_nothing_costs_no_device() {
    world().run(|w| {
        let (n, gate) = (w.connected_queue(0), w.native(0));
        n.doorbell.last_queued.store(1);
        n.wait(&gate, 1);
        n.push(&w.execute_packet(SHORT, 1));
        w.pass(S);
        let forced = TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 };
        w.kernel.debug_timeouts(forced).unwrap();
        assert_eq!(w.state(), Ok(DeviceState::Active));
        w.signal(&gate, 1);
        w.wait(n.queue.progress_fence, 1).unwrap();
    });
}

/// The context that a wrong DxgkDdiQueryEngineStatus names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// One of the same engine whose queue waits.
    Innocent,
    /// One of another engine.
    OtherEngine,
    /// None that exists.
    Unknown,
    /// None, although the engine does not respond.
    None,
}

fn faults(w: &World) -> Vec<String> {
    w.adapter().driver_faults().iter().map(DriverFault::to_string).collect()
}

// spec: PRE-103
#[test]
fn a_driver_that_names_a_wrong_context_is_named_and_the_hang_is_found() {
    for lie in [Lie::Innocent, Lie::OtherEngine, Lie::Unknown, Lie::None] {
        for (model, responsive) in MODELS[..2].iter().flat_map(|m| [(*m, true), (*m, false)]) {
            if lie == Lie::None && responsive {
                // The same as an engine whose queues all wait.
                continue;
            }
            let platform = Platform::virtual_time(StepCosts::free());
            let named = platform.page(1).word(0);
            named.store(u64::MAX);
            let lies = named.clone();
            let overrides =
                Overrides::default().query_engine_status(move |inner, level, engine| {
                    let status = inner.query_engine_status(level, engine)?;
                    let here = engine.node_ordinal == 0;
                    let hw_context = match lies.load() {
                        u64::MAX => return Ok(status),
                        _ if !here => return Ok(status),
                        0 => None,
                        handle => Some(OsHandle(handle)),
                    };
                    Ok(EngineStatus { responsive, hw_context, ..status })
                });
            let w = setup(|_| ()).on(platform).overriding(overrides).start();
            w.run(move |w| {
                let (n, innocent) = (w.client("guilty"), w.client("innocent"));
                let gate = innocent.native(0);
                let mut wrong = Vec::new();
                // Three that wait on the engine, and one on another engine.
                for node in [0, 0, 0, 1] {
                    let queue = innocent.connected_queue(node);
                    queue.doorbell.last_queued.store(1);
                    queue.wait(&gate, 1);
                    queue.push(&innocent.execute_packet(SHORT, 1));
                    wrong.push((w.calls().contexts.last().unwrap().0.os_handle.0, queue));
                }
                let culprit = submit(&n, model, &[HANG]);
                w.pass(S);
                named.store(match lie {
                    Lie::Innocent => wrong[1].0,
                    Lie::OtherEngine => wrong[3].0,
                    Lie::Unknown => 0x7777_7777,
                    Lie::None => 0,
                });
                w.pass(20 * S);
                assert_eq!(hang_of(&n).queue, n.number(culprit), "{lie:?} {responsive}");
                assert_eq!(innocent.state(), Ok(DeviceState::Active), "{lie:?} {responsive}");
                let reports = w.adapter().recoveries();
                // An engine that does not answer after a reset may hang in later work of a queue
                // that has ended, so it is reset once more.
                let resets = if lie == Lie::None { 2 } else { 1 };
                assert_eq!(reports.len(), resets, "{lie:?} {responsive}: {reports:?}");
                for report in &reports {
                    assert_eq!(report.outcome, RecoveryOutcome::EngineReset);
                }
                let faults = faults(w);
                if lie != Lie::None {
                    assert_eq!(faults.len(), 1, "{lie:?} {responsive}: {faults:?}");
                    assert!(faults[0].contains("DxgkDdiQueryEngineStatus"), "{faults:?}");
                }
                // The innocent queues run on.
                named.store(u64::MAX);
                innocent.signal(&gate, 1);
                for (_, queue) in &wrong {
                    innocent.wait(queue.queue.progress_fence, 1).unwrap();
                }
            });
        }
    }
}

/// A driver without engine status names no context at all.
// spec: PRE-103
#[test]
fn a_driver_without_engine_status_hides_no_hang_behind_a_queue_that_waits() {
    let overrides = Overrides::default().query_engine_status(|_, _, _| Err(Status::NOT_SUPPORTED));
    let w = setup(|_| ()).overriding(overrides).start();
    w.run(|w| {
        let (n, innocent) = (w.client("guilty"), w.client("innocent"));
        let (queue, gate) = (innocent.connected_queue(0), innocent.native(0));
        queue.doorbell.last_queued.store(1);
        queue.wait(&gate, 1);
        let culprit = submit(&n, Model::Hardware, &[HANG]);
        w.pass(20 * S);
        assert_eq!(hang_of(&n).queue, n.number(culprit));
        assert_eq!(innocent.state(), Ok(DeviceState::Active));
    });
}

/// A driver whose debug information names no command is asked what its engine runs.
// spec: PRE-103
#[test]
fn a_forced_reset_costs_only_the_context_that_the_driver_names() {
    let overrides = Overrides::default().collect_debug_info(|inner, level, engine, reason| {
        let info = inner.collect_debug_info(level, engine, reason)?;
        Ok(DebugInfo { commands: Vec::new(), ..info })
    });
    let w = setup(|_| ()).overriding(overrides).start();
    w.run(|w| {
        let (n, innocent) = (w.client("guilty"), w.client("innocent"));
        let (queue, gate) = (innocent.connected_queue(0), innocent.native(0));
        queue.doorbell.last_queued.store(1);
        queue.wait(&gate, 1);
        queue.push(&innocent.execute_packet(SHORT, 1));
        let culprit = submit(&n, Model::User, &[HANG]);
        w.pass(S / 100);
        let forced = TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 };
        w.kernel.debug_timeouts(forced).unwrap();
        assert_eq!(hang_of(&n).queue, n.number(culprit));
        assert_eq!(innocent.state(), Ok(DeviceState::Active));
        innocent.signal(&gate, 1);
        innocent.wait(queue.queue.progress_fence, 1).unwrap();
    });
}

/// An honest driver is not accused, whatever a context does while others are preempted.
#[test]
fn long_work_beside_waiting_queues_is_no_fault_of_the_driver() {
    world().run(|w| {
        let (n, other) = (w.client("long"), w.client("waits"));
        submit(&n, Model::User, &[LONG]);
        let gate = other.native(0);
        let queue = other.connected_queue(0);
        queue.doorbell.last_queued.store(1);
        queue.wait(&gate, 1);
        w.pass(60 * S);
        assert_eq!((faults(w), w.adapter().recoveries()), (vec![], vec![]));
        assert!(!hung(n.state()) && !hung(other.state()));
    });
}
