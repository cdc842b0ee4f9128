//! Programs of threads, queues, fences and events on a machine of the check.

use crate::{failure, line_of};
use std::time::Duration;
use tidegate::calls::WaitMode;
use tidegate::check::cell::RaceCell;
use tidegate::check::sync::Arc;
use tidegate::check::{Builder, Coverage, StrategyKind, check, machine, thread};
use tidegate::d3d12::{
    BufferDesc, CommandListType, Device, DeviceOptions, Event, EventDesc, Fence, Queue, QueueDesc,
    Waited,
};

/// A device whose rings are small, so that it is made quickly for each schedule.
fn options() -> DeviceOptions {
    DeviceOptions::default().ring_slots(16)
}

/// Executes a copy of `value` into a buffer for reading.
fn upload(device: &Device, queue: &Queue, value: u32) -> tidegate::d3d12::Buffer {
    let staging = device.create_buffer(BufferDesc::upload("staging", 4)).unwrap();
    let result = device.create_buffer(BufferDesc::readback("result", 4)).unwrap();
    staging.write(0, &value.to_le_bytes()).unwrap();
    let mut list = device.create_command_list(CommandListType::Copy);
    list.copy(&result, 0, &staging, 0, 4).unwrap();
    queue.execute(&[&list.close().unwrap()]).unwrap();
    result
}

fn word(buffer: &tidegate::d3d12::Buffer) -> u32 {
    let mut bytes = [0; 4];
    buffer.read(0, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

/// The CPU reads what a queue copied.
fn read_back(waits: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let machine = machine();
        let device = machine.device(options()).unwrap();
        let queue = device.create_queue(QueueDesc::copy("copy")).unwrap();
        let done = device.create_fence("done", 0).unwrap();
        let result = upload(&device, &queue, 7);
        queue.signal(&done, 1).unwrap();
        if waits {
            done.wait(1).unwrap();
        }
        assert_eq!(word(&result), 7, "the copy is read before it is made");
        done.wait(1).unwrap();
    }
}

#[test]
fn a_missing_wait_before_a_read_is_found() {
    let checked = check(read_back(true));
    assert!(checked.schedules > 100, "{checked:?}");
    for strategy in [StrategyKind::Bounded(1), StrategyKind::Random, StrategyKind::Pct(3)] {
        let found = failure(Builder::new().strategy(strategy), read_back(false));
        assert!(found.contains("the copy is read before it is made"), "{found}");
        assert!(found.contains("queues.rs:"), "{found}");
        let again = failure(Builder::new().replay(line_of(&found)), read_back(false));
        assert!(again.contains("the copy is read before it is made"), "{again}");
    }
}

/// The program of the guide's chapter on exploration: one queue uploads, and another one reads.
fn uploaded(waits: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let machine = machine();
        let device = machine.device(DeviceOptions::default()).unwrap();
        let copy = device.create_queue(QueueDesc::copy("copy")).unwrap();
        let compute = device.create_queue(QueueDesc::compute("compute")).unwrap();
        let uploaded = device.create_fence("uploaded", 0).unwrap();
        let finished = device.create_fence("finished", 0).unwrap();
        let input = device.create_buffer(BufferDesc::upload("input", 64)).unwrap();
        let data = device.create_buffer(BufferDesc::new("data", 64)).unwrap();
        let output = device.create_buffer(BufferDesc::readback("output", 64)).unwrap();
        input.write(0, &[7; 64]).unwrap();

        let mut upload = device.create_command_list(CommandListType::Copy);
        upload.copy(&data, 0, &input, 0, 64).unwrap();
        copy.execute(&[&upload.close().unwrap()]).unwrap();
        copy.signal(&uploaded, 1).unwrap();

        if waits {
            compute.wait(&uploaded, 1).unwrap();
        }
        let mut result = device.create_command_list(CommandListType::Compute);
        result.copy(&output, 0, &data, 0, 64).unwrap();
        compute.execute(&[&result.close().unwrap()]).unwrap();
        compute.signal(&finished, 1).unwrap();

        finished.wait(1).unwrap();
        let mut seen = [0; 64];
        output.read(0, &mut seen).unwrap();
        assert_eq!(seen, [7; 64], "the result is read before the upload");
    }
}

/// The block of the guide with this program.
const GUIDE: &str = include_str!("../../../../docs/guide/src/exploring.md");

#[test]
fn the_missing_edge_of_the_guide_is_found_with_the_strategy_that_it_shows() {
    let shown = "Builder::new().strategy(StrategyKind::Pct(3)).schedules(200).check(";
    assert!(GUIDE.contains(shown) && GUIDE.contains("// compute.wait(&uploaded, 1).unwrap();"));
    let builder = || Builder::new().strategy(StrategyKind::Pct(3)).schedules(200);
    assert_eq!(builder().check(uploaded(true)).schedules, 200);
    let found = failure(builder(), uploaded(false));
    assert!(found.contains("the result is read before the upload"), "{found}");
    let again = failure(Builder::new().replay(line_of(&found)), uploaded(false));
    assert!(again.contains("the result is read before the upload"), "{again}");
}

/// A limit that has passed before the first run: no run is made, and no failure is claimed.
#[test]
fn a_check_ends_with_its_time() {
    let none = Builder::new().seconds(0).check(uploaded(false));
    assert_eq!((none.schedules, none.coverage), (0, Coverage::Sampled));
    let all = Builder::new().seconds(u64::MAX).check(|| thread::spawn(|| {}).join().unwrap());
    assert_eq!(all.coverage, Coverage::Everything);
}

/// A thread polls a fence that another one signals twice.
fn poll(is_over: fn(u64) -> bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let machine = machine();
        let device = machine.device(options()).unwrap();
        let fence = device.create_fence("frame", 0).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                fence.signal(1).unwrap();
                fence.signal(2).unwrap();
            });
            while !is_over(fence.completed_value()) {
                thread::yield_now();
            }
        });
    }
}

#[test]
fn equality_in_a_loop_that_polls_a_fence_is_found() {
    check(poll(|value| value >= 1));
    let found = failure(Builder::new(), poll(|value| value == 1));
    assert!(found.contains("which it polls, at ") && found.contains("queues.rs:"), "{found}");
}

/// Two threads that each signal the next value of a fence.
fn next_value(of_fence: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let machine = machine();
        let device = machine.device(options()).unwrap();
        let fence = device.create_fence("ticket", 0).unwrap();
        let tickets = tidegate::check::sync::Mutex::new(0);
        let step = || {
            if of_fence {
                // The value is read a second time by the time that it is used.
                fence.signal(fence.completed_value() + 1).unwrap();
            } else {
                let mut ticket = tickets.lock().unwrap();
                *ticket += 1;
                fence.signal(*ticket).unwrap();
            }
        };
        thread::scope(|scope| {
            scope.spawn(step);
            step();
        });
        assert_eq!(fence.completed_value(), 2, "both threads signalled the same value");
    }
}

#[test]
fn a_next_value_that_is_taken_from_the_fence_is_found() {
    check(next_value(false));
    let found = failure(Builder::new(), next_value(true));
    assert!(found.contains("both threads signalled the same value"), "{found}");
}

/// Data of the program, which a queue's fence hands from one thread to another.
fn behind_a_fence(waits: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let machine = machine();
        let device = machine.device(options()).unwrap();
        let queue = device.create_queue(QueueDesc::copy("copy")).unwrap();
        let done = device.create_fence("done", 0).unwrap();
        let frame = Arc::new(RaceCell::new(0));
        // The queue is kept: a queue that is dropped takes its queued signals along.
        let (written, signalled, signalling) = (Arc::clone(&frame), done.clone(), queue.clone());
        let producer = thread::spawn(move || {
            written.set(1);
            signalling.signal(&signalled, 1).unwrap();
        });
        if waits {
            done.wait(1).unwrap();
        }
        assert!(frame.get() <= 1);
        producer.join().unwrap();
    }
}

#[test]
fn a_fence_of_a_queue_orders_the_data_of_threads() {
    check(behind_a_fence(true));
    let found = failure(Builder::new(), behind_a_fence(false));
    assert!(found.contains("data race on the RaceCell made at "), "{found}");
}

#[test]
fn a_wait_that_no_queue_signals_is_a_standstill_with_its_names() {
    let found = failure(Builder::new(), || {
        let machine = machine();
        let device = machine.device(options()).unwrap();
        let [producer, consumer] = ["producer", "consumer"]
            .map(|name| device.create_queue(QueueDesc::copy(name)).unwrap());
        let [ready, free] = ["ready", "free"].map(|name| device.create_fence(name, 0).unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                producer.wait(&free, 1).unwrap();
                producer.signal(&ready, 1).unwrap();
            });
            consumer.wait(&ready, 1).unwrap();
            consumer.signal(&free, 1).unwrap();
            let event = device.create_event(EventDesc::auto_reset().named("frame"));
            ready.set_event_on_completion(1, &event).unwrap();
            event.wait().unwrap();
        });
    });
    let wait =
        "'main' waits for event 'frame', in Event::wait at crates/tidegate/tests/check/queues.rs:";
    assert!(found.contains(wait), "{found}");
    for call in ["Queue::wait (", "Queue::signal (", "Fence::set_event_on_completion ("] {
        let has_call = |line: &str| line.contains(call) && line.contains("queues.rs:");
        assert!(found.lines().any(has_call), "{call}: {found}");
    }
}

/// Blocks a thread for ever in a call.
type Block = fn(&Device, &Event, &Fence);

/// Each call that can block is the place where a thread stands still. One that ends after a while
/// is a step of the run.
#[test]
fn a_thread_that_stands_still_is_in_the_call_that_blocks_it() {
    let blocking: [(&str, Block); 5] = [
        ("Event::wait_any", |_, event, _| drop(Event::wait_any(&[event]))),
        ("Event::wait_all", |_, event, _| drop(Event::wait_all(&[event]))),
        ("Fence::wait", |_, _, fence| fence.wait(1).unwrap()),
        ("Device::wait_multiple", |device, _, fence| {
            device.wait_multiple(&[(fence, 1)], WaitMode::All).unwrap();
        }),
        ("Event::wait", |_, event, _| event.wait().unwrap()),
    ];
    for (call, block) in blocking {
        let found = failure(Builder::new(), move || {
            let machine = machine();
            let device = machine.device(options()).unwrap();
            let event = device.create_event(EventDesc::auto_reset().named("frame"));
            let fence = device.create_fence("done", 0).unwrap();
            let limit = Duration::from_nanos(1);
            device.create_queue(QueueDesc::copy("copy")).unwrap().connect_doorbells().unwrap();
            let any = Event::wait_any_timeout(&[&event], limit).unwrap();
            let all = Event::wait_all_timeout(&[&event], limit).unwrap();
            assert_eq!((any, all), (Waited::TimedOut, Waited::TimedOut));
            block(&device, &event, &fence);
        });
        let place = format!("in {call} at crates/tidegate/tests/check/queues.rs:");
        assert!(found.contains("'main' waits for ") && found.contains(&place), "{call}: {found}");
        for step in
            ["Event::wait_any_timeout (", "Event::wait_all_timeout (", "Queue::connect_doorbells ("]
        {
            let is_here = |line: &str| line.contains(step) && line.contains("check/queues.rs:");
            assert!(found.lines().any(is_here), "{step}: {found}");
        }
    }
}

/// A thread that signals a queue's fence for another one.
fn signalled_by_a_thread() {
    let machine = machine();
    let device = machine.device(options()).unwrap();
    let queue = device.create_queue(QueueDesc::copy("copy")).unwrap();
    let done = device.create_fence("done", 0).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| queue.signal(&done, 1).unwrap());
        done.wait(1).unwrap();
    });
}

/// Each machine is dropped at the end of its closure. A driver that outlives it is a panic.
#[test]
fn a_machine_ends_with_its_driver_and_gpu_in_every_schedule() {
    let builder = || Builder::new().strategy(StrategyKind::Bounded(1)).schedules(400);
    builder().check(read_back(true));
    builder().check(signalled_by_a_thread);
    let found = failure(Builder::new(), || {
        let machine = machine();
        std::mem::forget(machine.gpu().clone());
    });
    assert!(found.contains("the GPU of a machine outlives its adapter"), "{found}");
}
