//! Waits that no signal ends, as `Device::hazards` reports them: at submission and at a standstill,
//! in each submission model; and programs that come near and are right.

use tidegate::d3d12::HardwareFences;
use tidegate::platform::hazard::Report;
use tidegate::platform::hazard::deadlock::{Deadlock, DeadlockKind, Place, Release};
use tidegate_testbed::prelude::*;

/// Calls `test` with a machine in virtual time and a checked device, for each submission model.
fn in_each_model(test: impl Fn(&Machine, &Device, Submission)) {
    for submission in Submission::ALL {
        let platform = Platform::virtual_time(StepCosts::free());
        let machine = Machine::new(&platform, MachineConfig::standard(&platform)).unwrap();
        let options = DeviceOptions::default().validation(Validation::HAZARDS);
        let device = machine.device(options).unwrap();
        test(&machine, &device, submission);
    }
}

fn fence(device: &Device, name: &str) -> Fence {
    device.create_fence(name, 0).unwrap()
}

fn work(device: &Device, queue: &Queue) {
    let list = device.list(queue.list_type(), |list| list.timed(1_000));
    queue.execute(&[&list]).unwrap();
}

fn report(device: &Device) -> Report {
    device.hazards().expect("the check is on")
}

fn waiters(of: &Deadlock) -> Vec<&str> {
    of.chain.iter().map(|link| &*link.waiter).collect()
}

// spec: ME-051
#[test]
fn a_circle_of_two_queues_is_reported_at_submission_and_at_the_standstill() {
    in_each_model(|machine, device, submission| {
        let left = device.queue(CommandListType::Copy, submission);
        let right = device.queue(CommandListType::Compute, submission);
        let (one, other) = (fence(device, "one"), fence(device, "other"));
        let at_submission = machine.run(|| {
            left.wait(&other, 1)?;
            work(device, &left);
            left.signal(&one, 1)?;
            right.wait(&one, 1)?;
            assert_eq!(report(device).deadlocks, [], "it is open");
            right.signal(&other, 1)?;
            Ok::<_, Error>(report(device))
        });
        let found = at_submission.unwrap().unwrap().deadlocks;
        assert_eq!((found.len(), found[0].kind), (1, DeadlockKind::Circle), "{submission}");
        assert_eq!(waiters(&found[0]), [left.name(), right.name()], "{submission}");
        let Release::Signal { place, .. } = &found[0].chain[1].release else { panic!() };
        assert_eq!(*place, Place::Submission(1), "{submission}: behind the left queue's work");

        let text = machine.run(|| one.wait(1)).unwrap_err().to_string();
        assert!(text.contains("the circle is closed"), "{submission}: {text}");
        let found = report(device).deadlocks;
        assert_eq!(found[0].others[0].waiter, "main", "{submission}: it waits for the circle");

        // A second signal of the value breaks it.
        machine.run(|| one.signal(1).and_then(|()| other.wait(1))).unwrap().unwrap();
        assert_eq!(report(device).deadlocks.len(), 1, "{submission}: the standstill is kept");
    });
}

#[test]
fn a_queue_that_waits_for_itself_is_reported() {
    in_each_model(|machine, device, submission| {
        let queue = device.queue(CommandListType::Compute, submission);
        let done = fence(device, "done");
        let stopped = machine.run(|| {
            queue.wait(&done, 1)?;
            queue.signal(&done, 1)?;
            assert_eq!(report(device).deadlocks.len(), 1, "{submission}: at submission");
            queue.wait_idle()
        });
        assert!(stopped.is_err(), "{submission}");
        let found = report(device).deadlocks;
        assert_eq!((found.len(), waiters(&found[0])), (1, vec![queue.name()]), "{submission}");
        assert_eq!(found[0].others[0].waiter, "main", "{submission}");
    });
}

#[test]
fn three_queues_through_a_thread_are_named_to_the_signal_that_the_thread_does_not_make() {
    in_each_model(|machine, device, submission| {
        let types = [CommandListType::Copy, CommandListType::Compute, CommandListType::Direct];
        let queues = types.map(|list_type| device.queue(list_type, submission));
        let fences = ["go", "first", "second", "third"].map(|name| fence(device, name));
        let stopped = machine.run(|| {
            for (queue, pair) in queues.iter().zip(fences.windows(2)) {
                queue.wait(&pair[0], 1)?;
                work(device, queue);
                queue.signal(&pair[1], 1)?;
            }
            fences[3].wait(1)?;
            // Too late: the last queue waits for this.
            fences[0].signal(1)
        });
        assert!(stopped.is_err(), "{submission}");
        let report = report(device);
        assert_eq!(report.deadlocks, [], "{submission}: the thread could have gone first");
        let [found] = &report.unsignalled[..] else { panic!("{submission}: {report}") };
        let names = queues.each_ref().map(|queue| queue.name());
        assert_eq!(waiters(found), ["main", names[2], names[1], names[0]], "{submission}");
        assert_eq!(found.chain[3].release, Release::Missing(None), "{submission}");
    });
}

#[test]
fn a_value_that_is_never_signalled_is_reported_with_the_highest_one() {
    in_each_model(|machine, device, submission| {
        let queue = device.queue(CommandListType::Compute, submission);
        let (done, other) = (fence(device, "done"), fence(device, "other"));
        let stopped = machine.run(|| {
            work(device, &queue);
            queue.signal(&done, 4)?;
            device.wait_multiple(&[(&done, 4), (&other, 1), (&done, 5)], WaitMode::Any)?;
            device.wait_multiple(&[(&done, 4), (&done, 5)], WaitMode::All)
        });
        assert!(stopped.is_err(), "{submission}");
        let found = report(device).unsignalled;
        assert_eq!(found.len(), 1, "{submission}: {found:?}");
        let text = found[0].to_string();
        let expected = "no signal takes 'done' to 5; the largest signal is 4";
        assert!(text.contains(expected), "{submission}: {text}");
    });
}

#[test]
fn a_blocked_event_wait_is_part_of_the_chain() {
    in_each_model(|machine, device, submission| {
        let queue = device.queue(CommandListType::Copy, submission);
        let (go, done) = (fence(device, "go"), fence(device, "done"));
        let event = device.create_event(EventDesc::auto_reset());
        let stopped = machine.run(|| {
            queue.wait(&go, 1)?;
            queue.signal(&done, 1)?;
            done.set_event_on_completion(1, &event)?;
            event.wait()
        });
        assert!(stopped.is_err(), "{submission}");
        let found = report(device).unsignalled;
        assert_eq!(waiters(&found[0]), ["main", queue.name()], "{submission}");
    });
}

#[test]
fn waits_before_their_signals_and_rewound_fences_are_right() {
    in_each_model(|machine, device, submission| {
        let ping = device.queue(CommandListType::Copy, submission);
        let pong = device.queue(CommandListType::Compute, submission);
        let (turn, phase) = (fence(device, "turn"), fence(device, "phase"));
        let run = machine.run(|| {
            for round in 0..20 {
                pong.wait(&turn, 2 * round + 1)?;
                work(device, &pong);
                pong.signal(&turn, 2 * round + 2)?;
                assert_eq!(report(device).deadlocks, [], "{submission}");
            }
            assert_eq!(
                report(device).unsignalled.len(),
                1,
                "{submission}: it waits for its signal"
            );
            for round in 0..20 {
                work(device, &ping);
                ping.signal(&turn, 2 * round + 1)?;
                ping.wait(&turn, 2 * round + 2)?;
            }
            turn.wait(40)?;
            // The fence goes through its values again.
            for _ in 0..3 {
                ping.signal(&phase, 1)?;
                phase.wait(1)?;
                phase.signal(0)?;
            }
            pong.wait(&phase, 1)?;
            ping.signal(&phase, 1)?;
            pong.wait_idle()
        });
        run.unwrap().unwrap();
        let report = report(device);
        assert_eq!((report.deadlocks, report.unsignalled), (vec![], vec![]), "{submission}");
    });
}

#[test]
fn many_queues_on_few_engines_are_no_deadlock() {
    in_each_model(|machine, device, submission| {
        let queues: Vec<Queue> =
            (0..12).map(|_| device.queue(CommandListType::Compute, submission)).collect();
        let chain = fence(device, "chain");
        let run = machine.run(|| {
            // Each waits for the next one, which is submitted after it to the same engine.
            for (number, queue) in (0u64..).zip(&queues) {
                queue.wait(&chain, 12 - number)?;
                work(device, queue);
                queue.signal(&chain, 13 - number)?;
            }
            assert_eq!(report(device).deadlocks, [], "{submission}");
            chain.signal(1)?;
            chain.wait(13)
        });
        run.unwrap().unwrap();
        let report = report(device);
        assert_eq!((report.deadlocks, report.unsignalled), (vec![], vec![]), "{submission}");
    });
}

#[test]
fn a_wait_with_a_limit_is_no_deadlock() {
    in_each_model(|machine, device, _| {
        let never = fence(device, "never");
        let waited = machine
            .run(|| never.wait_timeout(1, std::time::Duration::from_millis(1)))
            .unwrap()
            .unwrap();
        assert!(waited.is_timed_out());
        let report = report(device);
        assert_eq!((report.deadlocks, report.unsignalled), (vec![], vec![]));
    });
}

/// Runs `workloads/bad/deadlock.toml` with a timeline.
fn deadlock_on_the_timeline(
    submission: Submission,
    hardware_fences: HardwareFences,
) -> (tidegate::RunResult, tidegate::trace::Trace) {
    let workload = "workloads/bad/deadlock.toml";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(workload);
    let (workload, _) = tidegate::workload::load(&path, &Default::default()).unwrap();
    let clock = tidegate::workload::expect::Clock::Virtual;
    let request = tidegate::RunRequest {
        submission: Some(submission),
        hardware_fences,
        validation: Validation::HAZARDS,
        tracing: true,
        ..tidegate::RunRequest::new(std::sync::Arc::new(workload), clock)
    };
    let mut run = tidegate::run_workload(&request).unwrap();
    let trace = run.trace.take().unwrap();
    (run, trace)
}

#[test]
fn a_circle_is_on_the_timeline() {
    for submission in Submission::ALL {
        let (run, trace) = deadlock_on_the_timeline(submission, HardwareFences::default());
        let report = run.hazards.unwrap();
        assert_eq!((report.deadlocks.len(), report.unsignalled.len()), (1, 0), "{submission}");
        assert_eq!(waiters(&report.deadlocks[0]), ["left", "right"], "{submission}");
        let [finding] = &trace.findings[..] else { panic!("{submission}: {:?}", trace.findings) };
        assert_eq!(finding.title, "a circle of 2 waits");
        assert_eq!(run.outcome.report.problems.len(), 1, "{submission}: it is said once");
        assert_eq!(run.outcome.report.workload, "deadlock");
        // Open waits and signals that engines carry out have records. The wait of the thread always
        // has one.
        let (records, edges) = match submission {
            Submission::Packet => (1, 0),
            Submission::Hardware | Submission::User => (5, 3),
        };
        assert_eq!((finding.records.len(), finding.edges.len()), (records, edges), "{submission}");
    }
}

#[test]
fn a_run_has_no_records_of_the_run_before_on_the_same_thread() {
    let timeline = |submission| {
        let (_, trace) = deadlock_on_the_timeline(submission, HardwareFences::Scheduler);
        trace.records.iter().map(|r| (r.kind, r.start_ns, r.end_ns)).collect::<Vec<_>>()
    };
    // The thread of a test has no earlier run.
    let alone = timeline(Submission::Hardware);
    timeline(Submission::Packet);
    assert_eq!(timeline(Submission::Hardware), alone);
}
