//! Threads that the platform does not know. On the host they call in, signal and wait as agents do.
//! A wait of an agent that only such a thread can end does not end early. A machine in virtual time
//! belongs to its thread and refuses others.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests are about threads that the platform did not start"
)]

use std::thread;
use tidegate::d3d12::{CommandListType, Device, DeviceOptions, Fence, Queue, QueueDesc};
use tidegate::platform::StepCosts;
use tidegate::{Machine, MachineConfig, Platform, Submission};

/// How often a thread looks at the agents before it acts: far longer than they need to fall asleep.
const LOOKS: u32 = 100_000;

fn machine(platform: &Platform) -> (Machine, Device) {
    let machine = Machine::new(platform, MachineConfig::standard(platform)).unwrap();
    let device = machine.device(DeviceOptions::default()).unwrap();
    (machine, device)
}

fn queue(device: &Device, submission: Submission) -> Queue {
    let desc = QueueDesc {
        name: submission.to_string(),
        ..QueueDesc::new(CommandListType::Direct, submission)
    };
    device.create_queue(desc).unwrap()
}

fn fences(device: &Device) -> [Fence; 2] {
    ["asked", "answered"].map(|name| device.create_fence(name, 0).unwrap())
}

#[test]
fn a_thread_of_the_application_ends_a_wait_of_the_run() {
    let platform = Platform::host();
    let (machine, device) = machine(&platform);
    let [asked, _] = fences(&device);
    let report = machine.run(move || {
        let (signalled, looked_at) = (asked.clone(), platform.clone());
        let application = thread::spawn(move || {
            for _ in 0..LOOKS {
                assert_eq!(looked_at.blocked_agents(), [], "a thread that may signal is at work");
                thread::yield_now();
            }
            signalled.signal(1)
        });
        assert_eq!(asked.wait(1), Ok(()));
        assert_eq!(application.join().expect("no panic"), Ok(()));
    });
    assert!(report.completed(), "{report:?}");
}

#[test]
fn a_thread_of_the_application_waits_for_a_queue_of_the_run() {
    for submission in Submission::ALL {
        let platform = Platform::host();
        let (machine, device) = machine(&platform);
        let [asked, answered] = fences(&device);
        let report = machine.run(move || {
            let queue = queue(&device, submission);
            let (awaited, signalled) = (asked.clone(), answered.clone());
            let application = thread::spawn(move || {
                awaited.wait(1)?;
                signalled.signal(1)
            });
            queue.signal(&asked, 1).unwrap();
            queue.wait(&answered, 1).unwrap();
            queue.signal(&answered, 2).unwrap();
            assert_eq!(answered.wait(2), Ok(()), "{submission}");
            assert_eq!(application.join().expect("no panic"), Ok(()), "{submission}");
        });
        assert!(report.completed(), "{submission}: {report:?}");
    }
}

#[test]
fn a_machine_on_the_host_needs_no_run() {
    // Often, because a machine may end while a thread of its kernel still fills the save areas of
    // the last queue.
    for _ in 0..40 {
        let platform = Platform::host();
        let (_machine, device) = machine(&platform);
        for submission in Submission::ALL {
            let ([fence, _], queue) = (fences(&device), queue(&device, submission));
            queue.signal(&fence, 1).unwrap();
            assert_eq!(fence.wait(1), Ok(()), "{submission}");
        }
    }
}

#[test]
fn a_machine_in_virtual_time_refuses_other_threads_and_goes_on() {
    let platform = Platform::virtual_time(StepCosts::free());
    let (machine, device) = machine(&platform);
    let [asked, _] = fences(&device);
    let report = machine.run(move || {
        let calls: [fn(&Fence); 3] = [
            |fence| fence.signal(1).unwrap(),
            |fence| fence.wait(1).unwrap(),
            |fence| drop(fence.signal(1)),
        ];
        for call in calls {
            let fence = asked.clone();
            let refused = thread::spawn(move || call(&fence)).join().expect_err("the machine is on another thread");
            let text = refused.downcast_ref::<String>().map_or("", String::as_str);
            let says = "runs on another thread: start agents with Platform::spawn, or make the machine on Platform::host";
            assert!(text.contains(says), "{text}");
        }
        assert_eq!(asked.completed_value(), 0);
        asked.signal(1).unwrap();
        assert_eq!(asked.wait(1), Ok(()));
    });
    assert!(report.completed(), "{report:?}");
}
