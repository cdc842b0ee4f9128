//! The queue rules of the multi-engine document, through the queue API, in every submission model
//! and with both kinds of fence.

use std::ops::Deref;
use tidegate::d3d12::{Event, UnknownPriority, queue_priority};
use tidegate::variants;
use tidegate_testbed::prelude::*;

/// Work that keeps an engine for this long, in nanoseconds.
const LONG_NS: u64 = 1_000_000;

/// A program of these tests: an application, and the model of its queues.
struct Api<'a> {
    app: &'a App,
    submission: Submission,
}

impl Deref for Api<'_> {
    type Target = App;

    fn deref(&self) -> &App {
        self.app
    }
}

/// An application whose fences are of one kind.
fn app(fences: FenceChoice) -> App {
    App::new(DeviceOptions { fences, ..DeviceOptions::default() }, |_| ())
}

/// Runs `program` in every model that there is, with each kind of fence that the model takes.
fn in_every_model(program: impl Fn(&Api<'_>) + Clone + Send + 'static) {
    run_in_every_model(|app| app, program);
}

/// The same for a program that looks at its buffers while queues write them, or lets two queues
/// write one.
fn racing_in_every_model(program: impl Fn(&Api<'_>) + Clone + Send + 'static) {
    run_in_every_model(App::racing, program);
}

fn run_in_every_model(change: fn(App) -> App, program: impl Fn(&Api<'_>) + Clone + Send + 'static) {
    for (submission, fences) in [
        (Submission::Packet, FenceChoice::Monitored),
        (Submission::Packet, FenceChoice::Native),
        (Submission::Hardware, FenceChoice::Monitored),
        (Submission::Hardware, FenceChoice::Native),
        (Submission::User, FenceChoice::Native),
    ] {
        let program = program.clone();
        let app = app(fences).case(format!("{submission} {fences:?}"));
        change(app).run(move |app| program(&Api { app, submission }));
    }
}

const TYPES: [CommandListType; 3] =
    [CommandListType::Direct, CommandListType::Compute, CommandListType::Copy];

impl Api<'_> {
    fn queue(&self, list_type: CommandListType) -> Queue {
        self.app.queue(list_type, self.submission)
    }

    fn queues(&self) -> [Queue; 3] {
        TYPES.map(|list_type| self.queue(list_type))
    }

    /// A list that keeps the engine for a while and then fills the first word.
    fn work(&self, queue: &Queue, buffer: &Buffer, ns: u64, value: u32) -> ClosedList {
        self.list(queue.list_type(), |list| {
            list.timed(ns)?;
            list.fill(buffer, 0, 4, value)
        })
    }
}

// spec: ME-003
#[test]
fn queues_have_no_order_among_each_other_but_by_fences() {
    in_every_model(|api| {
        let [direct, compute, copy] = api.queues();
        let (never, slow, fast, ordered) = (api.fence(0), api.fence(0), api.fence(0), api.fence(0));
        let buffer = api.readback(4);
        direct.execute(&[&api.work(&direct, &buffer, LONG_NS, 1)]).unwrap();
        direct.signal(&slow, 1).unwrap();
        compute.wait(&never, 1).unwrap();
        copy.signal(&fast, 1).unwrap();
        copy.wait(&slow, 1).unwrap();
        copy.signal(&ordered, 1).unwrap();
        api.pass(LONG_NS / 2);
        let values = [&slow, &fast, &ordered].map(Fence::completed_value);
        assert_eq!(values, [0, 1, 0], "what came later went first, and what waits, waits");
        api.pass(LONG_NS);
        assert_eq!(ordered.completed_value(), 1);
        never.signal(1).unwrap();
    });
}

// spec: ME-014, ME-022
#[test]
fn a_queue_is_one_line_of_work() {
    racing_in_every_model(|api| {
        for queue in api.queues() {
            let buffer = api.readback(4);
            let start = api.now();
            for value in 1..=4 {
                queue.execute(&[&api.work(&queue, &buffer, LONG_NS, value)]).unwrap();
            }
            // Each list is alone on the queue: its end is the next one's beginning.
            for value in 0..4 {
                api.pass(start + u64::from(value) * LONG_NS + LONG_NS / 2 - api.now());
                assert_eq!(first_word(&buffer), value);
            }
            queue.wait_idle().unwrap();
            assert_eq!((first_word(&buffer), api.now() - start), (4, 4 * LONG_NS));
        }
    });
}

// spec: ME-024, ME-025, ME-026, ME-027
#[test]
fn executes_waits_and_signals_of_a_queue_take_effect_in_call_order() {
    racing_in_every_model(|api| {
        for queue in api.queues() {
            let (gate, buffer) = (api.fence(0), api.readback(4));
            let steps = [api.fence(0), api.fence(0), api.fence(0)];
            let start = api.now();
            queue.execute(&[&api.work(&queue, &buffer, LONG_NS, 1)]).unwrap();
            queue.signal(&steps[0], 7).unwrap();
            queue.wait(&gate, 5).unwrap();
            queue.signal(&steps[1], 8).unwrap();
            queue.execute(&[&api.work(&queue, &buffer, LONG_NS, 2)]).unwrap();
            queue.signal(&steps[2], 9).unwrap();
            assert_eq!(api.now(), start, "every call returned at once");
            let values = || (steps.each_ref().map(Fence::completed_value), first_word(&buffer));
            api.pass(LONG_NS / 2);
            assert_eq!(values(), ([0, 0, 0], 0));
            api.pass(10 * LONG_NS);
            assert_eq!(values(), ([7, 0, 0], 1));
            gate.signal(4).unwrap();
            api.pass(LONG_NS);
            assert_eq!(values(), ([7, 0, 0], 1));
            gate.signal(5).unwrap();
            api.pass(LONG_NS / 2);
            assert_eq!(values(), ([7, 8, 0], 1));
            api.pass(LONG_NS);
            assert_eq!(values(), ([7, 8, 9], 2));
        }
    });
}

// spec: ME-021
#[test]
fn lists_of_one_call_run_as_one_unit_in_order() {
    in_every_model(|api| {
        let [direct, ..] = api.queues();
        let (source, target) = (api.readback(64), api.readback(64));
        let lists: Vec<ClosedList> = (0..20u32)
            .map(|n| {
                let (from, to) = if n % 2 == 0 { (&source, &target) } else { (&target, &source) };
                // Each takes what the list before it left, and puts a word of its own behind.
                api.list(CommandListType::Direct, |list| {
                    list.copy(to, 0, from, 0, 60)?;
                    list.fill(to, 60, 4, n)?;
                    list.copy(to, 0, to, 4, 60)
                })
            })
            .collect();
        direct.execute(&lists.iter().collect::<Vec<_>>()).unwrap();
        direct.execute(&[]).unwrap();
        direct.wait_idle().unwrap();
        let mut bytes = [0; 60];
        source.read(0, &mut bytes).unwrap();
        let words: Vec<u32> =
            bytes.chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
        assert_eq!(words, (5..20).collect::<Vec<u32>>());
    });
}

// spec: ME-031, ME-032, ME-033, ME-034
#[test]
fn a_fence_is_64_bits_that_signals_set_and_waits_compare() {
    in_every_model(|api| {
        let fence = api.fence(1 << 63);
        assert_eq!(fence.completed_value(), 1 << 63);
        let [_, compute, copy] = api.queues();
        let (far, near) = (api.fence(0), api.fence(0));
        let value = (1 << 63) + (1 << 40);
        compute.wait(&fence, value).unwrap();
        compute.signal(&far, 1).unwrap();
        copy.wait(&fence, 5).unwrap();
        copy.signal(&near, 1).unwrap();
        let events = [value - 1, value, value + 1].map(|v| {
            let event = api.create_event(EventDesc::manual_reset());
            fence.set_event_on_completion(v, &event).unwrap();
            event
        });
        near.wait(1).unwrap();
        assert_eq!((far.completed_value(), events[0].is_set()), (0, false));
        copy.signal(&fence, value).unwrap();
        far.wait(1).unwrap();
        api.pass(LONG_NS);
        assert_eq!(fence.completed_value(), value);
        assert_eq!(events.each_ref().map(Event::is_set), [true, true, false]);
    });
}

// spec: ME-037
#[test]
fn every_node_can_wait_for_every_other() {
    in_every_model(|api| {
        let queues = api.queues();
        let fence = api.fence(0);
        let mut value = 0;
        for waiter in &queues {
            for signaller in &queues {
                let done = api.fence(0);
                value += 1;
                if waiter.list_type() != signaller.list_type() {
                    waiter.wait(&fence, value).unwrap();
                }
                signaller.signal(&fence, value).unwrap();
                waiter.signal_and_wait(&done, 1);
            }
        }
        assert_eq!(fence.completed_value(), 9);
    });
}

// spec: ME-035, ME-038, ME-039, ME-040
#[test]
fn a_fence_that_was_rewound_is_waited_for_anew() {
    in_every_model(|api| {
        let [direct, ..] = api.queues();
        for by_queue in [false, true] {
            let (fence, done) = (api.fence(0), api.fence(0));
            let set = |value| match by_queue {
                true => {
                    direct.signal(&fence, value).unwrap();
                    direct.wait_idle().unwrap();
                    assert_eq!(fence.completed_value(), value);
                }
                false => {
                    fence.signal(value).unwrap();
                    assert_eq!(fence.completed_value(), value, "at once");
                }
            };
            set(10);
            set(3);
            let event = api.create_event(EventDesc::manual_reset());
            fence.set_event_on_completion(8, &event).unwrap();
            let other = api.queue(CommandListType::Compute);
            other.wait(&fence, 8).unwrap();
            other.signal(&done, 1).unwrap();
            api.pass(LONG_NS);
            let reached = (event.is_set(), done.completed_value());
            assert_eq!(reached, (false, 0), "it is at 3, although it was at 10");
            set(8);
            done.wait(1).unwrap();
            api.pass(LONG_NS);
            assert!(event.is_set());
        }
    });
}

// spec: ME-041
#[test]
fn of_two_signals_that_race_the_last_one_stays_and_either_satisfies() {
    racing_in_every_model(|api| {
        let [direct, compute, copy] = api.queues();
        let (fence, done, buffer) = (api.fence(0), api.fence(0), api.readback(4));
        copy.wait(&fence, 5).unwrap();
        copy.signal(&done, 1).unwrap();
        direct.execute(&[&api.work(&direct, &buffer, LONG_NS, 1)]).unwrap();
        direct.signal(&fence, 6).unwrap();
        compute.execute(&[&api.work(&compute, &buffer, 2 * LONG_NS, 2)]).unwrap();
        compute.signal(&fence, 4).unwrap();
        done.wait(1).unwrap();
        compute.wait_idle().unwrap();
        assert_eq!(fence.completed_value(), 4);
        // And from the CPU, where both come before the waiter has moved.
        let event = api.create_event(EventDesc::manual_reset());
        fence.set_event_on_completion(9, &event).unwrap();
        fence.signal(9).unwrap();
        fence.signal(2).unwrap();
        assert!(event.is_set() && fence.completed_value() == 2);
    });
}

// spec: ME-036, ME-044, ME-045
#[test]
fn the_cpu_waits_for_one_for_all_and_for_any() {
    racing_in_every_model(|api| {
        let [direct, compute, _] = api.queues();
        let (slow, fast, buffer) = (api.fence(0), api.fence(0), api.readback(4));
        let both = [(&slow, 1), (&fast, 1)];
        direct.execute(&[&api.work(&direct, &buffer, 2 * LONG_NS, 1)]).unwrap();
        direct.signal(&slow, 1).unwrap();
        compute.execute(&[&api.work(&compute, &buffer, LONG_NS, 2)]).unwrap();
        compute.signal(&fast, 1).unwrap();
        let [all, any] = [WaitMode::All, WaitMode::Any].map(|mode| {
            let event = api.create_event(EventDesc::manual_reset());
            api.set_event_on_multiple_fence_completion(&both, mode, &event).unwrap();
            event
        });
        let start = api.now();
        api.wait_multiple(&both, WaitMode::Any).unwrap();
        assert_eq!((api.now() - start, slow.completed_value(), all.is_set()), (LONG_NS, 0, false));
        api.wait_multiple(&both, WaitMode::All).unwrap();
        assert_eq!(api.now() - start, 2 * LONG_NS);
        slow.wait(1).unwrap();
        api.pass(LONG_NS);
        assert!(all.is_set() && any.is_set());
    });
}

// spec: ME-079
#[test]
fn events_reset_themselves_or_not_and_can_be_set_from_the_start() {
    in_every_model(|api| {
        let copy = api.queue(CommandListType::Copy);
        for (manual_reset, initially_set) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let desc = EventDesc { manual_reset, initially_set, ..EventDesc::default() };
            let (fence, event) = (api.fence(0), api.create_event(desc));
            assert_eq!(event.is_set(), initially_set);
            if initially_set {
                assert_eq!((event.wait(), event.is_set()), (Ok(()), manual_reset));
                event.reset();
            }
            for value in 1..=2 {
                fence.set_event_on_completion(value, &event).unwrap();
                assert!(!event.is_set());
                copy.signal(&fence, value).unwrap();
                assert_eq!((event.wait(), event.is_set()), (Ok(()), manual_reset));
                event.reset();
            }
        }
    });
}

// spec: ME-058, ME-064, ME-079
#[test]
fn a_wait_for_two_events_goes_on_with_whichever_stage_can() {
    const CPU_LATENCY: u64 = 3;
    const COMPUTE_GRAPHICS_LATENCY: u64 = 2;
    racing_in_every_model(|api| {
        let (compute, graphics) =
            (api.queue(CommandListType::Compute), api.queue(CommandListType::Direct));
        let (fences, graphics_compute) = ([api.fence(0), api.fence(0)], api.fence(0));
        let handles = [0, 1].map(|_| api.create_event(EventDesc::auto_reset().initially_set()));
        let buffer = api.readback(4);
        let (computing, drawing) =
            (api.work(&compute, &buffer, LONG_NS, 1), api.work(&graphics, &buffer, 3 * LONG_NS, 2));
        let mut frames = [0, 0];
        graphics.wait(&fences[0], 1).unwrap();
        let mut stages = Vec::new();
        for _ in 0..40 {
            for (stage, handle) in handles.iter().enumerate() {
                match u64::checked_sub(frames[stage], CPU_LATENCY).filter(|value| *value > 0) {
                    Some(value) => fences[stage].set_event_on_completion(value, handle).unwrap(),
                    None => handle.set(),
                }
            }
            let stage = Event::wait_any(&handles.each_ref()).unwrap();
            let complete = fences.each_ref().map(Fence::completed_value);
            let could = [0, 1].map(|stage| complete[stage] + CPU_LATENCY >= frames[stage]);
            assert!(could[stage], "{frames:?} {complete:?}: stage {stage} was not free");
            stages.push(stage);
            frames[stage] += 1;
            let frame = frames[stage];
            if stage == 0 {
                if frame > COMPUTE_GRAPHICS_LATENCY {
                    compute.wait(&graphics_compute, frame - COMPUTE_GRAPHICS_LATENCY).unwrap();
                }
                compute.execute(&[&computing]).unwrap();
                compute.signal(&fences[0], frame).unwrap();
            } else {
                graphics.signal(&graphics_compute, complete[0].max(1) - 1).unwrap();
                graphics.execute(&[&drawing]).unwrap();
                graphics.signal(&fences[1], frame).unwrap();
            }
        }
        graphics.signal(&graphics_compute, frames[0]).unwrap();
        fences.iter().zip(frames).for_each(|(fence, frame)| fence.wait(frame).unwrap());
        // Both stages are begun as far as the latency allows; after that each goes on when it can,
        // in turns of their own.
        assert_eq!(stages[..8], [0, 0, 0, 0, 1, 1, 1, 1]);
        let later = &stages[8..];
        assert!(later.contains(&0) && later.contains(&1), "{stages:?}");
        assert!(later.windows(2).any(|pair| pair[0] != pair[1]), "{stages:?}");
    });
}

// spec: ME-080
#[test]
fn the_default_queue_of_a_type_is_one_queue_for_all_callers() {
    in_every_model(|api| {
        let default = |list_type| api.default_queue(list_type, api.submission).unwrap();
        let held = TYPES.map(default);
        for (queue, list_type) in held.iter().zip(TYPES) {
            assert_eq!((queue.list_type(), queue.submission()), (list_type, api.submission));
            assert_eq!(default(list_type).numbers(), queue.numbers());
            let own = api.queue(list_type);
            assert_ne!(own.numbers(), queue.numbers(), "a created queue is another one");
        }
        // Two components that are independent of each other share its one order of work.
        let (gate, done) = (api.fence(0), api.fence(0));
        held[0].wait(&gate, 1).unwrap();
        default(CommandListType::Direct).signal(&done, 1).unwrap();
        api.pass(LONG_NS);
        assert_eq!(done.completed_value(), 0);
        gate.signal(1).unwrap();
        done.wait(1).unwrap();
        // Concurrent calls return the same queue, also when the first of them creates it.
        drop(held);
        let device = api.device.clone();
        let (numbers, submission) = (api.platform().page(4), api.submission);
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let (device, returned) = (device.clone(), numbers.word(number));
                let work = api.fence(0);
                api.platform().spawn(format!("component {number}"), move || {
                    let queue = device.default_queue(CommandListType::Copy, submission).unwrap();
                    returned.store(queue.numbers()[0].0);
                    queue.signal_and_wait(&work, 1);
                    queue.wait_idle().unwrap();
                })
            })
            .collect();
        let queue = default(CommandListType::Copy);
        threads.iter().for_each(|thread| _ = thread.join());
        let returned: Vec<u64> = (0..4).map(|number| numbers.word(number).load()).collect();
        assert_eq!(returned, [queue.numbers()[0].0; 4]);
    });
}

// spec: ME-018
#[test]
fn an_application_has_as_many_queues_of_a_type_as_it_creates() {
    in_every_model(|api| {
        for list_type in TYPES {
            let queues: Vec<Queue> = (0..30).map(|_| api.queue(list_type)).collect();
            let fences: Vec<Fence> = queues.iter().map(|_| api.fence(0)).collect();
            // Each waits for the queue after it, so all of them have work at the same time.
            for (number, queue) in queues.iter().enumerate() {
                if let Some(next) = fences.get(number + 1) {
                    queue.wait(next, 1).unwrap();
                }
                queue.signal(&fences[number], 1).unwrap();
            }
            fences[0].wait(1).unwrap();
            let mut numbers: Vec<_> = queues.iter().flat_map(Queue::numbers).collect();
            numbers.dedup();
            assert_eq!(numbers.len(), 30);
        }
    });
}

// spec: ME-050
#[test]
fn fences_are_native_where_the_adapter_has_them_and_monitored_elsewhere() {
    for (adapter, native) in [("standard", true), ("monitored", false)] {
        let variant = variants::find(adapter).unwrap();
        let app = App::new(DeviceOptions::default(), |config| variant.apply(config)).case(adapter);
        app.run(move |app| {
            let fence = app.fence(0);
            assert_eq!([fence.is_native(), app.makes_native_fences()], [native; 2], "{adapter}");
            app.queue(CommandListType::Copy, Submission::Packet).signal(&fence, 1).unwrap();
            fence.wait(1).unwrap();
        });
    }
}

// spec: UMS-001, NF-001
#[test]
fn a_user_mode_queue_submits_and_its_fence_is_followed_without_the_kernel() {
    in_every_model(|api| {
        let (queue, fence, buffer) =
            (api.queue(CommandListType::Compute), api.fence(0), api.readback(4));
        let round = |value: u64| {
            let list = api.work(&queue, &buffer, 1_000, value as u32);
            queue.wait(&fence, value - 1).unwrap();
            queue.execute(&[&list]).unwrap();
            queue.signal(&fence, value).unwrap();
            while fence.completed_value() < value {
                api.pass(1_000);
            }
        };
        // The first round connects the doorbell.
        round(1);
        let before = api.counters().kernel_calls;
        (2..=20).for_each(round);
        let calls = api.counters().kernel_calls - before;
        match api.submission {
            Submission::User => assert_eq!(calls, 0),
            // The wait goes with the list.
            // spec: HS-023
            Submission::Hardware if fence.is_native() => assert_eq!(calls, 19 * 2),
            Submission::Packet | Submission::Hardware => assert!(calls >= 19 * 3, "{calls}"),
        }
        assert_eq!(first_word(&buffer), 20);
    });
}

// spec: ME-015
#[test]
fn queues_of_each_type_run_on_their_engine_by_priority() {
    for submission in Submission::ALL {
        let app = app(FenceChoice::Auto).case(submission).run(move |app| {
            for list_type in TYPES {
                let list = app.list(list_type, |list| list.timed(LONG_NS));
                let work = |priority| {
                    let desc =
                        QueueDesc { priority, ..QueueDesc::new(list_type).submission(submission) };
                    let (queue, done) = (app.create_queue(desc).unwrap(), app.fence(0));
                    (0..4).for_each(|_| queue.execute(&[&list]).unwrap());
                    queue.signal(&done, 1).unwrap();
                    (queue, done)
                };
                let start = app.now();
                let (normal, high) = (work(Priority::Normal), work(Priority::High));
                high.1.wait(1).unwrap();
                let behind = normal.1.completed_value() == 0;
                normal.1.wait(1).unwrap();
                assert!(behind, "{submission} {list_type}: normal work was done first");
                let took = app.now() - start;
                assert_eq!(took, 8 * LONG_NS, "{submission} {list_type}: one engine");
            }
        });
        let nodes = app.machine.gpu().stats().nodes;
        let busy: Vec<u64> = nodes.iter().map(|node| node.busy_ns).collect();
        let its_own = busy.iter().all(|ns| (8 * LONG_NS..9 * LONG_NS).contains(ns));
        assert!(busy.len() == 3 && its_own, "{submission}: a node for each type: {busy:?}");
    }
}

// spec: ME-017
#[test]
fn priorities_are_had_by_number_and_realtime_is_had_or_refused() {
    assert_eq!(queue_priority(1), Err(UnknownPriority(1)));
    for submission in Submission::ALL {
        for may_raise_priority in [false, true] {
            let options = DeviceOptions { may_raise_priority, ..DeviceOptions::default() };
            App::new(options, |_| ()).case(submission).run(move |app| {
                let made = [0, 100, 10_000].map(|number| {
                    app.create_queue(QueueDesc {
                        priority: queue_priority(number).unwrap(),
                        ..QueueDesc::new(CommandListType::Compute).submission(submission)
                    })
                });
                let held = |queue: &Result<Queue, _>| match queue {
                    Ok(queue) => queue.wait_idle().is_ok(),
                    Err(Error::PrivilegeNotHeld { .. }) => false,
                    Err(other) => panic!("{submission}: {other}"),
                };
                let held = made.each_ref().map(held);
                assert_eq!(held, [true, true, may_raise_priority], "{submission}");
            });
        }
    }
}

// spec: ME-004, ME-023
#[test]
fn several_threads_submit_to_one_queue_and_to_many() {
    in_every_model(|api| {
        let [direct, compute, copy] = api.queues();
        let (count, threads) = (25, 4);
        let buffer = api.readback(4 * threads);
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                let (device, queues) =
                    (api.device.clone(), [direct.clone(), compute.clone(), copy.clone()]);
                let (buffer, fence) = (buffer.clone(), api.fence(0));
                api.platform().spawn(format!("thread {number}"), move || {
                    for round in 1..=count {
                        // Each thread uses the queues in turn, ordered by a fence of its own.
                        let queue = &queues[round as usize % 3];
                        queue.wait(&fence, u64::from(round) - 1).unwrap();
                        device.execute(queue, |list| list.fill(&buffer, 4 * number, 4, round));
                        queue.signal(&fence, u64::from(round)).unwrap();
                    }
                    fence.wait(u64::from(count)).unwrap();
                })
            })
            .collect();
        workers.iter().for_each(|w| _ = w.join());
        let mut bytes = vec![0; 4 * threads as usize];
        buffer.read(0, &mut bytes).unwrap();
        assert!(bytes.chunks(4).all(|c| c == count.to_le_bytes()), "{bytes:?}");
    });
}

// spec: ME-048
#[test]
fn waiting_for_the_maximum_is_legal_and_ends_with_the_removal() {
    for (submission, fences) in
        [(Submission::Hardware, FenceChoice::Monitored), (Submission::User, FenceChoice::Native)]
    {
        let (_, report) = app(fences).run_to_report(move |app| {
            let (fence, removed) = (app.fence(0), app.create_event(EventDesc::manual_reset()));
            fence.set_event_on_completion(u64::MAX, &removed).unwrap();
            let queue = app.queue(CommandListType::Copy, submission);
            queue.signal(&fence, u64::MAX - 1).unwrap();
            app.pass(LONG_NS);
            assert!(!removed.is_set() && app.removed_reason().is_none());
            app.execute(&queue, |list| list.fill_unchecked(0x10, 4, 0));
            app.pass(LONG_NS);
            assert!(removed.is_set());
            assert_eq!(fence.completed_value(), u64::MAX);
            assert!(app.removed_reason().unwrap().to_string().contains("queue 'copy'"));
        });
        assert!(report.completed(), "{report:?}");
    }
}

// spec: ME-001
#[test]
fn engines_of_different_kinds_work_at_the_same_time() {
    racing_in_every_model(|api| {
        let queues = api.queues();
        let (start, buffer) = (api.now(), api.readback(4));
        for queue in &queues {
            queue.execute(&[&api.work(queue, &buffer, LONG_NS, 1)]).unwrap();
        }
        api.wait_idle().unwrap();
        assert_eq!(api.now() - start, LONG_NS);
        // A list is refused where its queue has no such engine.
        let mut list = api.create_command_list(CommandListType::Copy);
        assert!(list.dispatch_by_number(0, [1; 3], &[Arg::U32(0)]).is_err());
    });
}
