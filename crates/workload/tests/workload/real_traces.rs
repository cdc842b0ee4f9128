//! The recorded traces of real programs, when they are at hand: `TIDEGATE_TRACES` names their
//! folder.

use std::collections::BTreeSet;
use std::path::PathBuf;

use tidegate_workload::model::{CommandKind, EngineKind, Op, OpKind, Ready, Workload};
use tidegate_workload::recording::{Gaps, ImportOptions, ImportReport};
use tidegate_workload::{LoadOptions, load};

/// Reads a trace, or says that it is skipped.
fn trace(name: &str, options: ImportOptions) -> Option<Workload> {
    let Some(folder) = std::env::var_os("TIDEGATE_TRACES") else {
        println!("skipped: set TIDEGATE_TRACES to the folder with {name}");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    let (workload, _) = load(&path, &LoadOptions { import: options, ..LoadOptions::default() })
        .expect("a readable trace");
    check_shape(&workload);
    Some(workload)
}

fn report(workload: &Workload) -> &ImportReport {
    &workload.recorded.as_ref().unwrap().report
}

fn each_op(workload: &Workload) -> impl Iterator<Item = &Op> {
    workload.threads.iter().flat_map(|thread| thread.body.iter())
}

/// What holds for every import: all work is there once, values rise, every wait has its signal,
/// every mark is set before it is awaited by another thread.
fn check_shape(workload: &Workload) {
    let recorded = workload.recorded.as_ref().unwrap();
    let mut seen = BTreeSet::new();
    let mut signalled = BTreeSet::new();
    let mut waited = BTreeSet::new();
    let (mut set, mut awaited) = (BTreeSet::new(), BTreeSet::new());
    let constant = |expr: &tidegate_workload::expression::Expr| expr.constant().unwrap();
    for op in each_op(workload) {
        match &op.kind {
            OpKind::Submit { commands, .. } => {
                for command in commands {
                    if let CommandKind::Work { recorded: Some(item), ns, .. } = &command.kind {
                        assert!(seen.insert(*item), "work item {item} is submitted twice");
                        let item = &recorded.items[*item as usize];
                        assert_eq!(constant(ns), i128::from(item.end_ns - item.start_ns));
                    }
                }
            }
            OpKind::Signal { fence, value, .. } => {
                assert!(
                    signalled.insert((fence.first, constant(value))),
                    "a value is signalled twice"
                );
            }
            OpKind::Wait { fence, value, .. } => {
                waited.insert((fence.first, constant(value)));
            }
            OpKind::CpuWait { of, .. } => {
                waited.extend(of.iter().map(|wait| (wait.fence.first, constant(&wait.value))));
            }
            OpKind::Mark { mark } => assert!(set.insert(*mark)),
            OpKind::AwaitMark { mark, .. } => assert!(awaited.insert(*mark)),
            _ => {}
        }
    }
    assert_eq!(seen.len(), recorded.items.len());
    assert!(waited.is_subset(&signalled), "a wait without a signal");
    assert_eq!(set, awaited);
    assert_eq!(set.len(), workload.marks as usize);
}

#[test]
fn one_stream_with_every_kind_of_host_wait() {
    let Some(workload) = trace("pytorch-event-sync.json.gz", ImportOptions::default()) else {
        return;
    };
    let report = report(&workload);
    assert_eq!((report.events, report.streams, report.kernels, report.copies), (92, 1, 4, 1));
    assert_eq!((report.event_records, report.event_records_awaited), (2, 1));
    assert_eq!((report.event_syncs, report.stream_syncs, report.device_syncs), (1, 1, 1));
    assert_eq!((report.queries, report.event_syncs_unpaired), (1, 0));
    assert_eq!(report.blocking_copies, 1, "device to pageable memory");
}

#[test]
fn three_streams_and_a_wait_between_two_of_them() {
    let Some(workload) = trace("pytorch-event-sync-multi-stream.json.gz", ImportOptions::default())
    else {
        return;
    };
    let report = report(&workload);
    assert_eq!((report.events, report.streams, report.kernels, report.fills), (149, 3, 3, 3));
    assert_eq!((report.stream_waits, report.stream_waits_unpaired), (1, 0));
    assert_eq!((report.event_records, report.event_records_awaited, report.queries), (4, 1, 3));
    // The three event synchronisations of this file are looks, not waits: they belong to event
    // queries.
    assert_eq!((report.event_syncs, report.event_syncs_unpaired), (0, 0));
    let nodes: BTreeSet<u32> = workload.queues.iter().map(|queue| queue.node).collect();
    assert_eq!(nodes.len(), 3, "streams of a device run side by side");
}

#[test]
fn a_small_network() {
    let Some(workload) = trace("pytorch-alexnet.json.gz", ImportOptions::default()) else { return };
    let report = report(&workload);
    assert_eq!((report.events, report.streams), (1408, 2));
    assert_eq!((report.kernels, report.copies, report.fills), (79, 16, 3));
    assert_eq!(report.stream_waits + report.stream_waits_unpaired, 34);
    assert_eq!(report.stream_waits, 20);
    assert_eq!((report.stream_syncs, report.stream_syncs_unpaired), (16, 0));
    assert_eq!(report.device_syncs, 5);
    assert_eq!(report.work_without_launch, 0);
}

#[test]
fn a_training_run_whose_waits_are_not_recorded() {
    let Some(workload) = trace("pytorch-training-rank0.json.gz", ImportOptions::default()) else {
        return;
    };
    let report = report(&workload);
    assert_eq!((report.events, report.streams), (108_936, 6));
    assert_eq!((report.kernels, report.copies, report.fills), (6080, 1390, 277));
    assert_eq!((report.stream_waits, report.stream_waits_unpaired), (0, 425));
    assert_eq!((report.stream_syncs, report.stream_syncs_unpaired), (0, 75));
    assert_eq!(report.queries, 25_773);
    assert_eq!((report.graph_launches, report.graph_work), (70, 345));
    assert_eq!(report.work_without_launch, 872);
    assert_eq!(report.device_syncs, 1);
    assert!(report.gaps > 0 && report.gaps_ns > 0);
    for line in report.lines() {
        println!("{line}");
    }
    assert_eq!(workload.queues.iter().filter(|queue| queue.engine == EngineKind::Copy).count(), 1);
}

#[test]
fn dropping_gaps_drops_all_delays_and_nothing_else() {
    let dropped = ImportOptions { gaps: Gaps::Drop, ..ImportOptions::default() };
    let Some(workload) = trace("pytorch-training-rank0.json.gz", dropped) else { return };
    let delays = each_op(&workload)
        .filter_map(|op| match &op.kind {
            OpKind::Submit { commands, .. } => Some(commands),
            _ => None,
        })
        .flatten()
        .filter(|command| matches!(command.kind, CommandKind::Delay { .. }));
    assert_eq!(delays.count(), 0);
    assert!(report(&workload).gaps_dropped);
    assert!(report(&workload).lines().iter().any(|line| line.contains("--gaps drop")));
}

/// Walks the workload as an ideal machine would: no cost for anything but work, delays and recorded
/// host time. With gaps kept it must come out at the recorded times, for they are all that such a
/// machine adds up.
#[test]
fn on_an_ideal_machine_kept_gaps_give_the_recorded_times_back() {
    for name in [
        "pytorch-event-sync.json.gz",
        "pytorch-event-sync-multi-stream.json.gz",
        "pytorch-alexnet.json.gz",
        "pytorch-training-rank0.json.gz",
    ] {
        let Some(workload) = trace(name, ImportOptions::default()) else { return };
        let mut errors = ideal::starts(&workload);
        let recorded = workload.recorded.as_ref().unwrap();
        assert_eq!(errors.len(), recorded.items.len());
        errors.sort_unstable();
        let worst = errors.last().copied().unwrap_or(0);
        let median = errors[errors.len() / 2];
        println!("{name}: start error median {median} ns, worst {worst} ns");
        // Work that overlaps its predecessor by a microsecond or two is all that cannot be
        // repeated.
        assert!(median == 0 && worst <= 2_000, "{name}: {median}, {worst}");
        let unknown = recorded.items.iter().filter(|item| item.ready == Ready::Unknown).count();
        println!("{name}: {unknown} items without any reason");
    }
}

/// An ideal machine in a few lines, only for the test above.
mod ideal {
    use std::collections::HashMap;

    use tidegate_workload::expression::Expr;
    use tidegate_workload::model::{CommandKind, OpKind, Workload};

    struct Thread {
        now: u64,
        lag: i128,
        next: usize,
    }

    fn ns(expr: &Expr) -> u64 {
        u64::try_from(expr.constant().unwrap()).unwrap()
    }

    enum Queued<'a> {
        At(u64, &'a CommandKind),
        Signal(u64, u32, u64),
        Wait(u64, u32, u64),
    }

    /// Distance of every start from its recorded start.
    pub fn starts(workload: &Workload) -> Vec<u64> {
        let mut threads: Vec<Thread> =
            workload.threads.iter().map(|_| Thread { now: 0, lag: 0, next: 0 }).collect();
        let mut queues: Vec<(u64, Vec<Queued<'_>>, usize)> =
            workload.queues.iter().map(|_| (0, Vec::new(), 0)).collect();
        let mut reached: HashMap<(u32, u64), u64> = HashMap::new();
        let mut marks: HashMap<u32, u64> = HashMap::new();
        let items = &workload.recorded.as_ref().unwrap().items;
        let mut errors = Vec::new();
        loop {
            let mut moved = false;
            for (thread, program) in threads.iter_mut().zip(&workload.threads) {
                while let Some(op) = program.body.get(thread.next) {
                    match &op.kind {
                        OpKind::Host { until_ns, work_ns } => {
                            let paced = i128::from(*until_ns) + thread.lag;
                            thread.now =
                                u64::try_from(paced.max(i128::from(thread.now + work_ns))).unwrap();
                        }
                        OpKind::Blocked { until_ns } => {
                            let until = i128::from(*until_ns) + thread.lag;
                            thread.now = u64::try_from(until.max(i128::from(thread.now))).unwrap();
                        }
                        OpKind::Resume { at_ns } => {
                            thread.lag = i128::from(thread.now) - i128::from(*at_ns)
                        }
                        OpKind::Mark { mark } => drop(marks.insert(*mark, thread.now)),
                        OpKind::AwaitMark { mark, at_ns } => {
                            let Some(at) = marks.get(mark) else { break };
                            thread.now = thread.now.max(*at);
                            thread.lag =
                                thread.lag.max(i128::from(thread.now) - i128::from(*at_ns));
                        }
                        OpKind::Submit { queue, commands } => {
                            let queued = commands.iter().map(|c| Queued::At(thread.now, &c.kind));
                            queues[queue.first.0 as usize].1.extend(queued);
                        }
                        OpKind::Signal { queue, fence, value } => {
                            let signal = Queued::Signal(thread.now, fence.first.0, ns(value));
                            queues[queue.first.0 as usize].1.push(signal);
                        }
                        OpKind::Wait { queue, fence, value } => {
                            let wait = Queued::Wait(thread.now, fence.first.0, ns(value));
                            queues[queue.first.0 as usize].1.push(wait);
                        }
                        OpKind::CpuWait { of, .. } => {
                            let times: Option<Vec<u64>> = of
                                .iter()
                                .map(|wait| {
                                    reached.get(&(wait.fence.first.0, ns(&wait.value))).copied()
                                })
                                .collect();
                            let Some(times) = times else { break };
                            thread.now = times.into_iter().max().unwrap_or(0).max(thread.now);
                        }
                        other => panic!("an import has no {other:?}"),
                    }
                    thread.next += 1;
                    moved = true;
                }
            }
            for (now, commands, next) in &mut queues {
                while let Some(command) = commands.get(*next) {
                    match command {
                        Queued::At(from, kind) => {
                            *now = (*now).max(*from);
                            match kind {
                                CommandKind::Work { ns: length, recorded: Some(item), .. } => {
                                    errors.push(now.abs_diff(items[*item as usize].start_ns));
                                    *now += ns(length);
                                }
                                CommandKind::Delay { ns: length } => *now += ns(length),
                                other => panic!("an import has no {other:?}"),
                            }
                        }
                        Queued::Signal(from, fence, value) => {
                            *now = (*now).max(*from);
                            reached.insert((*fence, *value), *now);
                        }
                        Queued::Wait(from, fence, value) => {
                            let Some(at) = reached.get(&(*fence, *value)) else { break };
                            *now = (*now).max(*from).max(*at);
                        }
                    }
                    *next += 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        let left =
            threads.iter().zip(&workload.threads).all(|(t, program)| t.next == program.body.len());
        assert!(left, "the replay cannot go on: a wait in a circle");
        errors
    }
}
