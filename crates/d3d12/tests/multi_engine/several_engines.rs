//! Queues that drive several engines: each list runs on the engine that its commands are made for,
//! and the queue keeps its order over all of them, in every submission model.

use tidegate::trace::{Record, Trace};
use tidegate_testbed::prelude::*;

const WORDS: u32 = 4096;
const BYTES: u64 = 4 * WORDS as u64;
/// One group of `fill_pattern` has 1,024 words.
const GROUPS: [u32; 3] = [WORDS / 1024, 1, 1];
const FILL_PATTERN: u32 = 9;

/// The list types whose queues drive other engines than their own.
const DRIVING: [CommandListType; 2] = [CommandListType::Direct, CommandListType::Compute];

/// A machine whose work takes time: 16 us for a copy, 160 us for a dispatch. A copy that does not
/// wait for a dispatch reads what was there before.
fn app(change: impl FnOnce(&mut MachineConfig)) -> App {
    app_on(&Platform::virtual_time(StepCosts::free()), change)
}

fn app_on(platform: &Platform, change: impl FnOnce(&mut MachineConfig)) -> App {
    App::on(platform, DeviceOptions::default(), |config| {
        config.gpu.rates.byte_ps = 1_000;
        config.gpu.rates.group_ns = 40_000;
        change(config);
    })
}

/// A queue that gives its lists to the engines which their commands are made for.
fn spread(device: &Device, list_type: CommandListType, submission: Submission) -> Queue {
    spread_by(device, list_type, submission, EnginePolicy::ByCommands)
}

fn spread_by(
    device: &Device,
    list_type: CommandListType,
    submission: Submission,
    policy: EnginePolicy,
) -> Queue {
    let desc = QueueDesc::new(list_type).submission(submission).engines(policy);
    device.create_queue(desc).unwrap()
}

/// A list that writes `value` to each word.
fn dispatch(device: &Device, of: CommandListType, target: &Buffer, value: u32) -> ClosedList {
    device.list(of, |list| {
        list.set_name(&format!("dispatch {value}"));
        let args = [Arg::Buffer(target, 0), Arg::U32(WORDS), Arg::U32(value), Arg::U32(0)];
        list.dispatch_by_number(FILL_PATTERN, GROUPS, &args)
    })
}

fn copy(device: &Device, of: CommandListType, target: &Buffer, source: &Buffer) -> ClosedList {
    device.list(of, |list| {
        list.set_name("copy");
        list.copy(target, 0, source, 0, BYTES)
    })
}

fn last_word(buffer: &Buffer) -> u32 {
    let mut bytes = [0; 4];
    buffer.read(BYTES - 4, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

/// The names of the nodes that ran command buffers of the queue, with how many they were.
fn ran_on(queue: &Queue) -> Vec<(String, u64)> {
    queue.engines().into_iter().map(|engine| (engine.name, engine.submissions)).collect()
}

/// The names of the engines whose lanes have work of the queue, one for each list in the order of
/// their execution, and the same by what the queue's boxes say.
fn engines_on_timeline(trace: &Trace) -> (Vec<&str>, Vec<&str>) {
    let name_of = |lane: tidegate::trace::LaneId| trace.lanes[lane.0 as usize].name.as_str();
    let works = |r: &&Record| r.queue().is_some() && r.kind.is_work();
    let slices = trace.records.iter().filter(works).map(|r| name_of(r.lane)).collect();
    let boxes = trace.records.iter().filter_map(Record::engine).map(name_of).collect();
    (slices, boxes)
}

// spec: ME-002
#[test]
fn each_list_runs_on_the_engine_that_its_commands_are_made_for() {
    for submission in Submission::ALL {
        for of in DRIVING {
            let platform = Platform::virtual_time(StepCosts::free());
            platform.enable_tracing();
            let app = app_on(&platform, |_| ()).case(format!("{submission} {of}"));
            app.run(move |app| {
                // A record's time of 0 says that nothing was queued.
                app.pass(1);
                let queue = spread(app, of, submission);
                let [source, target] = [app.readback(BYTES), app.readback(BYTES)];
                let both = app.list(of, |list| {
                    list.copy(&target, 0, &source, 0, 4)?;
                    let args = [Arg::Buffer(&source, 0), Arg::U32(1), Arg::U32(7), Arg::U32(0)];
                    list.dispatch_by_number(FILL_PATTERN, [1; 3], &args)
                });
                let modelled = app.list(of, |list| list.timed(1_000));
                let lists = [
                    dispatch(app, of, &source, 5),
                    copy(app, of, &target, &source),
                    both,
                    modelled,
                ];
                queue.execute(&lists.each_ref()).unwrap();
                queue.wait_idle().unwrap();
                assert_eq!((first_word(&target), last_word(&target)), (5, 5));
                assert_eq!(first_word(&source), 7);

                let own = queue.desc().node.unwrap();
                let expected = match of {
                    // A packet of a software queue has as many lists as follow each other on one
                    // engine.
                    CommandListType::Direct => vec![("3D", 1), ("compute", 2), ("copy", 1)],
                    _ if submission == Submission::Packet => vec![("compute", 2), ("copy", 1)],
                    _ => vec![("compute", 3), ("copy", 1)],
                };
                let stats = queue.stats();
                let elsewhere: u64 = expected[1..].iter().map(|(_, lists)| lists).sum();
                assert_eq!((stats.executes, stats.waits, stats.signals), (1, 0, 0));
                assert_eq!(stats.submissions_elsewhere, elsewhere);
                let hand_overs = if of == CommandListType::Direct { 4 } else { 2 };
                assert_eq!(stats.hand_overs, hand_overs);
                let expected: Vec<_> =
                    expected.into_iter().map(|(name, lists)| (name.to_owned(), lists)).collect();
                assert_eq!(ran_on(&queue), expected);
                assert_eq!(queue.engines()[0].node, own);
                assert_eq!(queue.numbers().len(), expected.len());
            });
            let trace = platform.take_trace("several engines");
            let (slices, boxes) = engines_on_timeline(&trace);
            let own = if of == CommandListType::Direct { "3D" } else { "compute" };
            // The third list has two commands.
            assert_eq!(slices, ["compute", "copy", "compute", "compute", own], "{submission} {of}");
            let mut executed = vec!["compute", "copy", "compute", own];
            if submission == Submission::Packet && of == CommandListType::Compute {
                executed.pop();
            }
            assert_eq!(boxes, executed, "{submission} {of}");
        }
    }
}

// spec: ME-002
#[test]
fn lists_that_depend_on_each_other_run_in_order_over_all_engines() {
    const ROUNDS: u32 = 20;
    for submission in Submission::ALL {
        for of in DRIVING {
            app(|_| ()).case(format!("{submission} {of}")).run(move |app| {
                let queue = spread(app, of, submission);
                let source = app.readback(BYTES);
                let targets: Vec<Buffer> = (0..ROUNDS).map(|_| app.readback(BYTES)).collect();
                let done = app.fence(0);
                // Each dispatch writes what the copy before it reads.
                for (round, target) in (1..).zip(&targets) {
                    let filled = dispatch(app, of, &source, round);
                    let copied = copy(app, of, target, &source);
                    match round % 3 {
                        0 => queue.execute(&[&filled, &copied]).unwrap(),
                        _ => {
                            queue.execute(&[&filled]).unwrap();
                            queue.execute(&[&copied]).unwrap();
                        }
                    }
                }
                queue.signal_and_wait(&done, 1);
                let seen: Vec<u32> = targets.iter().map(last_word).collect();
                assert_eq!(seen, (1..=ROUNDS).collect::<Vec<_>>());
                assert_eq!(queue.stats().signals, 1);
            });
        }
    }
}

#[test]
fn waits_hold_the_list_behind_them_and_signals_follow_the_lists_before_them() {
    for submission in Submission::ALL {
        app(|_| ()).case(submission).racing().run(move |app| {
            let of = CommandListType::Direct;
            let queue = spread(app, of, submission);
            let [source, target] = [app.readback(BYTES), app.readback(BYTES)];
            let [gate, copied, filled] = [(); 3].map(|()| app.fence(0));
            queue.execute(&[&dispatch(app, of, &source, 3)]).unwrap();
            // The wait is behind a dispatch, and the copy behind the wait.
            queue.wait(&gate, 1).unwrap();
            queue.execute(&[&copy(app, of, &target, &source)]).unwrap();
            queue.signal(&copied, 1).unwrap();
            queue.execute(&[&dispatch(app, of, &source, 4)]).unwrap();
            queue.signal(&filled, 1).unwrap();
            app.pass(1_000_000);
            assert_eq!((last_word(&source), last_word(&target)), (3, 0));
            assert_eq!((copied.completed_value(), filled.completed_value()), (0, 0));
            gate.signal(1).unwrap();
            copied.wait(1).unwrap();
            assert_eq!(last_word(&target), 3);
            assert_eq!((filled.completed_value(), last_word(&source)), (0, 3));
            filled.wait(1).unwrap();
            assert_eq!(last_word(&source), 4);
            let stats = queue.stats();
            assert_eq!((stats.waits, stats.signals, stats.hand_overs), (1, 2, 3));
        });
    }
}

#[test]
fn an_idle_queue_is_idle_on_every_engine() {
    for submission in Submission::ALL {
        app(|_| ()).case(submission).run(move |app| {
            let of = CommandListType::Direct;
            let queue = spread(app, of, submission);
            let [source, target] = [app.readback(BYTES), app.readback(BYTES)];
            for round in 1..=5 {
                let lists = [dispatch(app, of, &source, round), copy(app, of, &target, &source)];
                queue.execute(&lists.each_ref()).unwrap();
                if round % 2 == 0 { queue.wait_idle() } else { app.wait_idle() }.unwrap();
                assert_eq!(last_word(&target), round);
            }
            // What is behind a wait is not idle, wherever the tail is.
            let gate = app.fence(0);
            queue.wait(&gate, 1).unwrap();
            let lists = [dispatch(app, of, &source, 6), copy(app, of, &target, &source)];
            queue.execute(&lists.each_ref()).unwrap();
            let opener = gate.clone();
            app.platform().spawn("opener", move || opener.signal(1).unwrap());
            queue.wait_idle().unwrap();
            assert_eq!(last_word(&target), 6);
        });
    }
}

/// Runs the lists of each queue, `rounds` times, and returns the virtual time of the whole.
fn time_of(
    platform: &Platform,
    submission: Submission,
    policy: EnginePolicy,
    queues: &'static [&'static [Work]],
) -> u64 {
    let app = app_on(platform, |_| ()).case(format!("{submission} {policy:?} {queues:?}"));
    let (app, report) = app.run_to_report(move |app| {
        let of = CommandListType::Direct;
        let [source, target] = [app.readback(BYTES), app.readback(BYTES)];
        let list = |work: &Work| match work {
            Work::Draw => app.list(of, |list| list.timed(16_000)),
            Work::Dispatch => app.list(of, |list| {
                let args = [Arg::Buffer(&source, 0), Arg::U32(1), Arg::U32(7), Arg::U32(0)];
                list.dispatch_by_number(FILL_PATTERN, [1; 3], &args)
            }),
            Work::Copy => copy(app, of, &target, &source),
        };
        let queues: Vec<(Queue, Vec<ClosedList>)> = queues
            .iter()
            .map(|works| (spread_by(app, of, submission, policy), works.iter().map(list).collect()))
            .collect();
        for _ in 0..ROUNDS {
            for (queue, lists) in &queues {
                lists.iter().for_each(|list| queue.execute(&[list]).unwrap());
            }
        }
        app.wait_idle().unwrap();
    });
    assert!(report.completed(), "{report:?}");
    app.now()
}

/// What a list of a measured program does: 16 us on its engine, the dispatch 40 us.
#[derive(Clone, Copy, Debug)]
enum Work {
    Draw,
    Dispatch,
    Copy,
}

const ROUNDS: u64 = 10;
const WORK_NS: u64 = 16_000;

#[test]
fn copies_of_one_queue_run_beside_the_dispatches_of_another() {
    use Work::{Copy, Draw};
    let platform = || Platform::virtual_time(StepCosts::free());
    for submission in Submission::ALL {
        let [own, by_commands] = [EnginePolicy::Own, EnginePolicy::ByCommands]
            .map(|policy| time_of(&platform(), submission, policy, &[&[Draw], &[Copy]]));
        assert!(own >= 2 * ROUNDS * WORK_NS, "{submission}: {own} ns");
        assert!(by_commands < 13 * WORK_NS, "{submission}: {by_commands} ns");
    }
}

/// The measurement behind the default of [`EnginePolicy`] (`decisions/0082`), with the modelled
/// cost of every step.
#[test]
fn several_engines_cost_a_lone_queue_time_and_gain_it_for_queues_beside_each_other() {
    use Work::{Copy, Dispatch, Draw};
    type Program = &'static [&'static [Work]];
    // The lists of one queue never overlap, and each change of the engine is an edge.
    const LONE: [Program; 2] = [&[&[Draw, Copy]], &[&[Draw, Dispatch, Copy]]];
    const BESIDE: [Program; 3] =
        [&[&[Draw], &[Copy]], &[&[Draw], &[Dispatch]], &[&[Draw], &[Dispatch], &[Copy]]];
    const MIXED: Program = &[&[Draw, Copy], &[Draw, Copy]];
    for submission in Submission::ALL {
        let measure = |queues: Program| {
            let times = [EnginePolicy::Own, EnginePolicy::ByCommands].map(|policy| {
                let platform = Platform::virtual_time(CostModel::nominal().steps);
                time_of(&platform, submission, policy, queues)
            });
            println!("{submission} {queues:?}: {times:?} ns");
            times
        };
        for queues in LONE {
            let [own, by_commands] = measure(queues);
            assert!(own < by_commands, "{submission} {queues:?}");
        }
        for queues in BESIDE {
            let [own, by_commands] = measure(queues);
            assert!(by_commands < own, "{submission} {queues:?}");
        }
        // A wait for the other engine is executed in its queue's context. User-mode queues that
        // take turns on both engines pay for more switches than they gain.
        let [own, by_commands] = measure(MIXED);
        assert_eq!(by_commands < own, submission != Submission::User, "{submission}");
    }
}

#[test]
fn lists_stay_on_the_queues_node_where_the_adapter_has_no_other_engine() {
    let nodes: [&[EngineKind]; 3] = [
        &[EngineKind::ThreeD],
        &[EngineKind::ThreeD, EngineKind::Compute],
        &[EngineKind::ThreeD, EngineKind::Copy],
    ];
    for (nodes, driven) in nodes.into_iter().zip([0, 1, 1]) {
        for submission in Submission::ALL {
            let app = app(|config| config.gpu.nodes = NodeConfig::of_classes(nodes));
            app.case(format!("{nodes:?} {submission}")).run(move |app| {
                let of = CommandListType::Direct;
                let queue = spread(app, of, submission);
                let [source, target] = [app.readback(BYTES), app.readback(BYTES)];
                let lists = [dispatch(app, of, &source, 9), copy(app, of, &target, &source)];
                queue.execute(&lists.each_ref()).unwrap();
                queue.wait_idle().unwrap();
                assert_eq!(last_word(&target), 9);
                assert_eq!(queue.engines().len(), 1 + driven);
                let policy = if driven == 0 { EnginePolicy::Own } else { EnginePolicy::ByCommands };
                assert_eq!(queue.desc().engines, policy);
                // A copy queue has one engine whatever it is asked for.
                if let Ok(copies) = app.create_queue(
                    QueueDesc::copy("copies")
                        .submission(submission)
                        .engines(EnginePolicy::ByCommands),
                ) {
                    assert_eq!(copies.engines().len(), 1);
                }
            });
        }
    }
}

#[test]
fn every_engine_of_a_queue_is_of_its_physical_gpu() {
    for submission in Submission::ALL {
        let app = app(|config| config.gpu.physical_gpus = 2).case(submission);
        let app = app.run(move |app| {
            let of = CommandListType::Direct;
            let desc = QueueDesc::direct("second").submission(submission).node_mask(0b10);
            let queue = app.create_queue(desc.engines(EnginePolicy::ByCommands)).unwrap();
            let [source, target] = [app.readback(BYTES), app.readback(BYTES)];
            let lists = [dispatch(app, of, &source, 2), copy(app, of, &target, &source)];
            queue.execute(&lists.each_ref()).unwrap();
            queue.wait_idle().unwrap();
            assert_eq!(last_word(&target), 2);
        });
        // Nodes are numbered through: 3D, compute and copy of GPU 0, then of GPU 1. Copies of
        // memory management run on GPU 0 too.
        let nodes = app.machine.gpu().stats().nodes;
        assert_eq!((nodes[1].packets, nodes[4].packets), (0, 1), "{submission}");
        assert!(nodes[5].packets > 0, "{submission}");
    }
}

#[test]
fn without_the_edge_between_the_engines_a_list_reads_too_early() {
    for submission in Submission::ALL {
        let platform = Platform::virtual_time(StepCosts::free());
        platform.plant(PlantedFault::NoHandoverBetweenEngines);
        app_on(&platform, |_| ()).case(submission).racing().run(move |app| {
            let of = CommandListType::Direct;
            let queue = spread(app, of, submission);
            let [source, target] = [app.readback(BYTES), app.readback(BYTES)];
            for value in [5, 6] {
                let lists = [dispatch(app, of, &source, value), copy(app, of, &target, &source)];
                queue.execute(&lists.each_ref()).unwrap();
                app.pass(1_000_000);
            }
            assert_eq!(last_word(&source), 6);
            assert_ne!(last_word(&target), 6, "the order of the queue is that of its hand-overs");
        });
    }
}
