//! Threads that the platform does not know. On the host they call in, signal and wait as agents do.
//! A wait of an agent that only such a thread can end does not end early. A machine in virtual time
//! belongs to its thread and refuses others.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests are about threads that the platform did not start"
)]

use std::sync::mpsc;
use std::thread;
use tidegate::check::sync;
use tidegate_testbed::prelude::*;

/// How often a thread polls the agents before it acts: far longer than they need to fall asleep.
const POLLS: u32 = 100_000;

fn app(platform: &Platform) -> App {
    App::on(platform, DeviceOptions::default(), |_| ())
}

#[test]
fn a_thread_of_the_application_ends_a_wait_of_the_run() {
    app(&Platform::host()).run(|app| {
        let requested = app.fence(0);
        let (signalled, platform) = (requested.clone(), app.platform().clone());
        let application = thread::spawn(move || {
            for _ in 0..POLLS {
                assert_eq!(platform.blocked_agents(), [], "a thread that may signal is at work");
                thread::yield_now();
            }
            signalled.signal(1)
        });
        assert_eq!(requested.wait(1), Ok(()));
        assert_eq!(application.join().expect("no panic"), Ok(()));
    });
}

#[test]
fn a_thread_of_the_application_waits_for_a_queue_of_the_run() {
    for submission in Submission::ALL {
        app(&Platform::host()).case(submission).run(move |app| {
            let (requested, answered) = (app.fence(0), app.fence(0));
            let queue = app.queue(CommandListType::Direct, submission);
            let (awaited, signalled) = (requested.clone(), answered.clone());
            let application = thread::spawn(move || {
                awaited.wait(1)?;
                signalled.signal(1)
            });
            queue.signal(&requested, 1).unwrap();
            queue.wait(&answered, 1).unwrap();
            queue.signal(&answered, 2).unwrap();
            assert_eq!(answered.wait(2), Ok(()), "{submission}");
            assert_eq!(application.join().expect("no panic"), Ok(()), "{submission}");
        });
    }
}

#[test]
fn a_machine_on_the_host_needs_no_run() {
    // Often, because a machine may end while a thread of its kernel still fills the save areas of
    // the last queue.
    for _ in 0..40 {
        let app = app(&Platform::host());
        for submission in Submission::ALL {
            let (fence, queue) = (app.fence(0), app.queue(CommandListType::Direct, submission));
            queue.signal(&fence, 1).unwrap();
            assert_eq!(fence.wait(1), Ok(()), "{submission}");
        }
    }
}

#[test]
fn a_machine_in_virtual_time_refuses_other_threads_and_goes_on() {
    app(&Platform::virtual_time(StepCosts::free())).run(|app| {
        let requested = app.fence(0);
        let calls: [fn(&Fence); 3] = [
            |fence| fence.signal(1).unwrap(),
            |fence| fence.wait(1).unwrap(),
            |fence| drop(fence.signal(1)),
        ];
        for call in calls {
            let fence = requested.clone();
            let refused = thread::spawn(move || call(&fence)).join().expect_err("the machine is on another thread");
            let text = refused.downcast_ref::<String>().map_or("", String::as_str);
            let says = "runs on another thread: start agents with Platform::spawn, or make the machine on Platform::host";
            assert!(text.contains(says), "{text}");
        }
        assert_eq!(requested.completed_value(), 0);
        requested.signal(1).unwrap();
        assert_eq!(requested.wait(1), Ok(()));
    });
}

#[test]
fn threads_of_the_standard_library_use_a_machine_on_the_host() {
    let platform = Platform::host();
    let machine = Machine::new(&platform, MachineConfig::standard(&platform)).unwrap();
    let device = machine.device(DeviceOptions::default()).unwrap();
    let relay = |rounds: std::ops::Range<u64>| {
        let (ping, pong) = (device.fence(rounds.start), device.fence(rounds.start));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let queue = device.create_queue(QueueDesc::copy("pong")).unwrap();
                for value in rounds.clone() {
                    queue.wait(&ping, value + 1).unwrap();
                    queue.signal(&pong, value + 1).unwrap();
                }
                queue.wait_idle().unwrap();
            });
            for value in rounds.clone() {
                ping.signal(value + 1).unwrap();
                pong.wait(value + 1).unwrap();
            }
        });
        pong.completed_value()
    };
    // Before, inside, between and after runs.
    assert_eq!(relay(0..50), 50);
    assert_eq!(machine.run(|| relay(50..100)).unwrap(), 100);
    assert_eq!(relay(100..150), 150);
    assert_eq!(machine.run(|| relay(150..200)).unwrap(), 200);
    assert_eq!(relay(200..250), 250);
}

#[test]
fn the_hazard_check_names_a_thread_as_the_application_does_or_by_its_number() {
    for name in [Some("reader"), None] {
        let platform = Platform::closed_host();
        let machine = Machine::new(&platform, MachineConfig::standard(&platform)).unwrap();
        let mut builder = thread::Builder::new();
        if let Some(name) = name {
            builder = builder.name(name.to_owned());
        }
        let device =
            machine.device(DeviceOptions::new("app").validation(Validation::HAZARDS)).unwrap();
        let buffer = device.create_buffer(BufferDesc::readback("data", 64)).unwrap();
        let from = device.create_buffer(BufferDesc::new("from", 64)).unwrap();
        let queue = device.create_queue(QueueDesc::copy("copies")).unwrap();
        device.execute(&queue, |list| list.copy(&buffer, 0, &from, 0, 64));
        let reading = &buffer;
        thread::scope(|scope| {
            let reader = builder.spawn_scoped(scope, || reading.read(0, &mut [0; 64]));
            reader.unwrap().join().unwrap().unwrap();
        });
        queue.wait_idle().unwrap();
        let report = device.hazards().unwrap();
        let second = &report.hazards[0].second.timeline;
        match name {
            Some(name) => assert_eq!(second, name),
            None => assert!(second.starts_with("number "), "{second}"),
        }
    }
}

// The check sees no channel: it takes the calls of such threads to be ordered as they were made.
// The GPU's work is ordered only by fences, whatever the threads do.
// spec: ME-072
#[test]
fn threads_that_hand_memory_over_by_a_channel_have_no_hazard_and_the_gpu_has() {
    let platform = Platform::host();
    let machine = Machine::new(&platform, MachineConfig::standard(&platform)).unwrap();
    let options = DeviceOptions::new("app").validation(Validation::HAZARDS);
    let device = machine.device(options).unwrap();
    let data = device.create_buffer(BufferDesc::readback("data", 64)).unwrap();
    machine
        .run(|| {
            let ((written, to_read), (read, to_write)) = (mpsc::channel(), mpsc::channel());
            let data = &data;
            thread::scope(|scope| {
                scope.spawn(move || {
                    data.write(0, &[7; 64]).unwrap();
                    written.send(()).unwrap();
                });
                scope.spawn(move || {
                    to_read.recv().unwrap();
                    let mut bytes = [0; 64];
                    data.read(0, &mut bytes).unwrap();
                    assert_eq!(bytes, [7; 64]);
                    read.send(()).unwrap();
                });
                to_write.recv().unwrap();
                data.write(0, &[8; 64]).unwrap();
            });
        })
        .unwrap();
    let report = device.hazards().unwrap();
    assert!(report.is_clean(), "{report}");
    let queue = device.create_queue(QueueDesc::copy("copies")).unwrap();
    let from = device.create_buffer(BufferDesc::new("from", 64)).unwrap();
    device.execute(&queue, |list| list.copy(&data, 0, &from, 0, 64));
    data.read(0, &mut [0; 64]).unwrap();
    queue.wait_idle().unwrap();
    let report = device.hazards().unwrap();
    assert_eq!(report.hazards.len(), 1, "{report}");
}

// The same for the types of `check::sync` on a machine in virtual time.
#[test]
fn agents_that_hand_memory_over_by_a_type_of_check_have_no_hazard() {
    for hands_over in [true, false] {
        let platform = Platform::virtual_time(StepCosts::free());
        let options = DeviceOptions::default();
        let app = App::on(&platform, options, |_| ()).racing().run(move |app| {
            let data = app.create_buffer(BufferDesc::readback("data", 64)).unwrap();
            let mutex = Arc::new(sync::Mutex::new(()));
            let start = |name: &'static str, work: fn(&Buffer)| {
                let (data, mutex) = (data.clone(), Arc::clone(&mutex));
                app.platform().spawn(name, move || {
                    let held = hands_over.then(|| mutex.lock().unwrap());
                    work(&data);
                    drop(held);
                })
            };
            start("writer", |data| data.write(0, &[7; 64]).unwrap());
            start("reader", |data| data.read(0, &mut [0; 64]).unwrap());
        });
        let report = app.device.hazards().unwrap();
        assert_eq!(report.is_clean(), hands_over, "{report}");
    }
}
