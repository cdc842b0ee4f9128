//! Queues that drive several engines when something goes wrong or is scarce: faults, hangs,
//! doorbells that are lost for good, full rings, missing privileges, many queues on few engines.

use tidegate_testbed::prelude::*;

const DIRECT: CommandListType = CommandListType::Direct;

fn app(options: DeviceOptions, change: impl FnOnce(&mut MachineConfig)) -> App {
    App::new(options, change)
}

fn desc(submission: Submission) -> QueueDesc {
    QueueDesc::direct("spread").submission(submission).engines(EnginePolicy::ByCommands)
}

/// A list of modelled work, which stays on the queue's node, and then adds no change.
fn own(device: &Device) -> ClosedList {
    device.list(DIRECT, |list| list.timed(1_000))
}

fn fill(device: &Device, buffer: &Buffer, value: u32) -> ClosedList {
    device.list(DIRECT, |list| {
        list.set_name(&format!("fill {value}"));
        list.fill(buffer, 0, buffer.bytes(), value)
    })
}

#[test]
fn a_fault_on_another_engine_names_the_queue_and_its_list() {
    for submission in Submission::ALL {
        app(DeviceOptions::default(), |_| ()).case(submission).run(move |app| {
            let queue = app.create_queue(desc(submission)).unwrap();
            let stray = app.list(DIRECT, |list| {
                list.set_name("stray");
                list.copy_unchecked(0xdead_0000, 0x1000, 64)
            });
            queue.execute(&[&own(app), &stray, &own(app)]).unwrap();
            assert!(matches!(queue.wait_idle(), Err(Error::DeviceRemoved(_))));
            let Some(RemovedReason::Faulted(fault)) = app.removed_reason() else {
                panic!("a fault was expected: {:?}", app.removed_reason())
            };
            assert_eq!(fault.queue.as_deref(), Some("spread"));
            assert_eq!(fault.report.node_ordinal, 2, "the copy engine");
            assert_eq!(fault.list.as_deref(), Some("stray"));
            assert!(matches!(queue.execute(&[&own(app)]), Err(Error::DeviceRemoved(_))));
        });
    }
}

#[test]
fn a_hang_on_another_engine_names_the_queue_and_costs_its_process_alone() {
    for submission in Submission::ALL {
        let app = app(DeviceOptions::default(), |_| ()).case(submission);
        let app = app.run(move |app| {
            let neighbour = app.machine.device(DeviceOptions::default()).unwrap();
            let queue = app.create_queue(desc(submission)).unwrap();
            let target = app.readback(8);
            let hangs = app.list(DIRECT, |list| {
                list.fill(&target, 0, 8, 1)?;
                list.hang()
            });
            let done = app.fence(0);
            queue.execute(&[&own(app), &hangs, &own(app)]).unwrap();
            queue.signal(&done, 1).unwrap();
            assert!(done.wait(1).is_err());
            assert!(matches!(app.removed_reason(), Some(RemovedReason::Hung(_))));
            let [report] = &app.machine.adapter().recoveries()[..] else { panic!("one recovery") };
            let guilty: Vec<_> = report.work.iter().filter(|work| work.guilty).collect();
            assert_eq!(guilty.len(), 1);
            assert!(queue.numbers().contains(&guilty[0].queue), "{report}");
            assert_eq!(app.platform().lane_of(guilty[0].queue), Some(queue.timeline_lane()));
            assert!(matches!(queue.wait_idle(), Err(Error::DeviceRemoved(_))));

            let beside = neighbour.create_queue(desc(submission)).unwrap();
            let other = neighbour.readback(8);
            beside.execute(&[&own(&neighbour), &fill(&neighbour, &other, 3)]).unwrap();
            beside.wait_idle().unwrap();
            assert_eq!(first_word(&other), 3);
        });
        assert_eq!(app.machine.driver().violations(), []);
    }
}

/// A queue's part on the copy engine loses its doorbell while the tail of the queue, on the other
/// engine, waits for it.
#[test]
fn a_part_that_lost_its_doorbell_is_recreated_by_a_call_that_submits_elsewhere() {
    for on_abort in [OnAbort::RecreateUser, OnAbort::RecreateHardware] {
        let w = world().run(move |w| {
            let device = w.machine.device(DeviceOptions::new("app").ring_slots(16)).unwrap();
            let options = QueueOptions { on_abort };
            let queue = device.create_queue_with(desc(Submission::User), options).unwrap();
            let [one, two] = [device.readback(8), device.readback(8)];
            let [gate, done] = [device.fence(0), device.fence(0)];
            queue.wait(&gate, 1).unwrap();
            queue.execute(&[&fill(&device, &one, 1), &own(&device)]).unwrap();
            // The copy part was created last.
            w.pass(100_000);
            w.disconnect_last_doorbell(&Passive::enter(), DisconnectReason::Abort).unwrap();
            queue.signal(&done, 1).unwrap();
            assert_eq!(queue.stats().recreations, 1);
            gate.signal(1).unwrap();
            done.wait(1).unwrap();
            assert_eq!(first_word(&one), 1);
            queue.execute(&[&fill(&device, &two, 2), &own(&device)]).unwrap();
            queue.wait_idle().unwrap();
            assert_eq!(first_word(&two), 2);
        });
        assert_eq!(w.adapter().bug_checks(), []);
    }
}

#[test]
fn a_part_that_lost_its_doorbell_for_good_is_reported_by_a_call_that_submits_elsewhere() {
    world().run(|w| {
        let device = w.machine.device(DeviceOptions::default()).unwrap();
        let options = QueueOptions { on_abort: OnAbort::Report };
        let queue = device.create_queue_with(desc(Submission::User), options).unwrap();
        let (target, gate) = (device.readback(8), device.fence(0));
        queue.wait(&gate, 1).unwrap();
        queue.execute(&[&fill(&device, &target, 1), &own(&device)]).unwrap();
        w.pass(100_000);
        w.disconnect_last_doorbell(&Passive::enter(), DisconnectReason::Abort).unwrap();
        let refused = queue.signal(&device.fence(0), 1);
        assert_eq!(refused, Err(Error::QueueAborted { queue: "spread".to_owned() }));
    });
}

#[test]
fn what_the_rings_of_several_engines_have_no_room_for_is_submitted_in_order() {
    const LISTS: u32 = 60;
    let options = DeviceOptions::new("app").ring_slots(8);
    let app = app(options, |_| ()).racing().run(|app| {
        let queue = app.create_queue(desc(Submission::User)).unwrap();
        let [gate, done] = [app.fence(0), app.fence(0)];
        let target = app.readback(8);
        queue.wait(&gate, 1).unwrap();
        for value in 1..=LISTS {
            queue.execute(&[&fill(app, &target, value), &own(app)]).unwrap();
            queue.signal(&done, u64::from(value)).unwrap();
        }
        let stats = queue.stats();
        assert!(stats.ring_waits > 0, "{stats:?}");
        assert_eq!((stats.executes, stats.waits, stats.signals), (60, 1, 60));
        gate.signal(1).unwrap();
        for value in 1..=LISTS {
            done.wait(u64::from(value)).unwrap();
            assert!(first_word(&target) >= value);
        }
        queue.wait_idle().unwrap();
        assert_eq!((first_word(&target), queue.stats().hand_overs), (LISTS, 2 * 60));
    });
    assert_eq!(app.machine.refused_destroys(), []);
}

/// The fills of two queues meet on the copy engine. Each takes 100 us there, so the first fill of
/// the urgent queue waits for one of the other queue's at most.
#[test]
fn every_engine_of_a_queue_has_its_priority() {
    const FILLS: u64 = 20;
    const BYTES: u64 = 100_000;
    const FILL_NS: u64 = 100_000;
    let app = app(DeviceOptions::default(), |config| config.gpu.rates.byte_ps = 1_000);
    app.run(|app| {
        for submission in Submission::ALL {
            let urgent = desc(submission).priority(Priority::Realtime);
            let refused = app.create_queue(urgent.clone()).unwrap_err();
            assert!(matches!(refused, Error::PrivilegeNotHeld { .. }), "{refused}");
            let options = DeviceOptions::new("urgent").may_raise_priority(true);
            let privileged = app.machine.device(options).unwrap();
            let urgent = privileged.create_queue(urgent).unwrap();
            let low = app.create_queue(desc(submission).priority(Priority::Normal)).unwrap();
            let [urgent_done, low_done] = [privileged.fence(0), app.fence(0)];
            let [target, other] = [app.readback(BYTES), privileged.readback(BYTES)];
            for _ in 0..FILLS {
                low.execute(&[&fill(app, &target, 1)]).unwrap();
            }
            low.signal(&low_done, 1).unwrap();
            app.pass(FILL_NS * 3 / 2);
            let start = app.now();
            urgent.execute(&[&own(&privileged), &fill(&privileged, &other, 2)]).unwrap();
            urgent.signal_and_wait(&urgent_done, 1);
            let took = app.now() - start;
            assert!(took < 3 * FILL_NS, "{submission}: {took} ns");
            assert_eq!(low_done.completed_value(), 0, "{submission}");
            low_done.wait(1).unwrap();
            assert_eq!((first_word(&other), first_word(&target)), (2, 1));
        }
    });
}

/// Queues in a chain, each of which waits for the next one. They are submitted from the head on, so
/// that every wait is on its engine before its signal is queued.
#[test]
fn many_queues_on_few_engines_that_wait_for_each_other_all_come_through() {
    const QUEUES: usize = 120;
    for submission in Submission::ALL {
        for policy in [EnginePolicy::Own, EnginePolicy::ByCommands] {
            let app = app(DeviceOptions::new("app").ring_slots(8), |_| ());
            app.case(format!("{submission} {policy:?}")).run(move |app| {
                let types = [DIRECT, CommandListType::Compute, CommandListType::Copy];
                let queues: Vec<Queue> = (0..QUEUES)
                    .map(|n| QueueDesc::new(types[n % 3]).name(format!("queue {n}")))
                    .map(|desc| app.create_queue(desc.submission(submission).engines(policy)))
                    .collect::<Result<_, _>>()
                    .unwrap();
                let links: Vec<_> = (0..=QUEUES).map(|_| app.fence(0)).collect();
                let target = app.readback(8);
                for round in 1..=2 {
                    for (n, queue) in queues.iter().enumerate() {
                        queue.wait(&links[n + 1], round).unwrap();
                        app.execute(queue, |list| list.fill(&target, 0, 8, n as u32 + 1));
                        app.execute(queue, |list| list.timed(10));
                        queue.signal(&links[n], round).unwrap();
                    }
                    links[QUEUES].signal(round).unwrap();
                    links[0].wait(round).unwrap();
                    assert_eq!(first_word(&target), 1, "the head of the chain is last");
                }
                assert_eq!(app.machine.adapter().recoveries(), []);
            });
        }
    }
}
