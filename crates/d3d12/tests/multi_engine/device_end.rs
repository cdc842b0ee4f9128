//! How devices end whose program drops everything while work is queued (decision 57).

use tidegate_testbed::prelude::*;

const TDR_DELAY_NS: u64 = 2_000_000_000;

/// A device of another process, and its end of a fence of the application.
fn leaver(app: &App) -> (Fence, Device, Fence) {
    let shared = app.create_fence_with(FenceDesc::new("shared").shared()).unwrap();
    let handle = app.create_shared_handle(&shared).unwrap();
    let device = app.machine.device(DeviceOptions::new("leaver").ring_slots(8)).unwrap();
    let opened = device.open_shared_handle("shared", &handle).unwrap();
    (shared, device, opened)
}

#[test]
fn the_work_of_dropped_queues_is_done_before_their_device_ends() {
    for submission in [Submission::Packet, Submission::Hardware, Submission::User] {
        App::new(DeviceOptions::default(), |_| ()).case(submission).run(move |app| {
            let (shared, device, opened) = leaver(app);
            let queue = device.queue(CommandListType::Compute, submission);
            // More than the ring of a user-mode queue takes.
            for value in 1..=40 {
                device.execute(&queue, |list| list.timed(1_000));
                queue.signal(&opened, value).unwrap();
            }
            drop((queue, opened, device));
            assert_eq!(shared.completed_value(), 40);
            assert!(app.now() < TDR_DELAY_NS);
        });
    }
}

#[test]
fn queues_that_never_complete_hold_the_end_of_their_device_for_one_tdr_delay() {
    for submission in [Submission::Packet, Submission::Hardware, Submission::User] {
        App::new(DeviceOptions::default(), |_| ()).case(submission).run(move |app| {
            let (shared, device, opened) = leaver(app);
            for _ in 0..3 {
                let queue = device.queue(CommandListType::Compute, submission);
                queue.wait(&opened, 100).unwrap();
                queue.signal(&opened, 101).unwrap();
            }
            drop((opened, device));
            assert_eq!(shared.completed_value(), 0);
            assert_eq!(app.now(), TDR_DELAY_NS);
        });
    }
}
