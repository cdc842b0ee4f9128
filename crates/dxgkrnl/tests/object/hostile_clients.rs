//! What a hostile process once could do to others, found by fuzzing and by thinking, through the
//! kernel's calls: each of these must cost the process its own device at most.

use tidegate_testbed::prelude::*;

/// A process beside the one of the world, whose work completes.
fn neighbour(w: &World) -> Arc<dyn Fn() + Send + Sync> {
    let device: Device = w.machine.device(DeviceOptions::default()).unwrap();
    let queues = [Submission::User, Submission::Packet].map(|submission| {
        let list_type = CommandListType::Copy;
        let queue = device
            .create_queue(QueueDesc {
                node: Some(0),
                ..QueueDesc::new(list_type).submission(submission)
            })
            .unwrap();
        (queue, device.create_fence("neighbour", 0).unwrap())
    });
    Arc::new(move || {
        for (queue, fence) in &queues {
            let value = fence.completed_value() + 1;
            queue.signal(fence, value).unwrap();
            fence.wait(value).unwrap();
        }
        assert_eq!(device.removed_reason(), None);
    })
}

/// Runs a hostile process, then its neighbour.
fn harms_only_itself(hostile: impl FnOnce(&World) + Send + 'static) {
    let w = world();
    let works = neighbour(&w);
    w.run(move |w| {
        works();
        hostile(w);
        w.pass(1_000_000);
        works();
    });
}

fn is_lost(w: &World) -> bool {
    matches!(w.state(), Ok(DeviceState::Faulted(report)) if !report.what.is_empty())
}

// spec: UMS-171
#[test]
fn commands_of_a_length_that_no_buffer_has_cost_the_device_and_not_the_adapter() {
    for command_bytes in [1, 12, u32::MAX - 7] {
        harms_only_itself(move |w| {
            let context = w.context(0);
            let submit = SubmitCommand { context, commands_gpu_va: 0x1_0000, command_bytes };
            let _done_or_lost = w.kernel.submit_command(submit);
            assert!(is_lost(w));
            assert_eq!(w.kernel.submit_command(submit), Err(Status::DEVICE_REMOVED));
        });
        harms_only_itself(move |w| {
            let queue = w.hw_queue();
            let args = SubmitCommandToHwQueue {
                hw_queue: queue.handle,
                progress_fence_id: 1,
                commands_gpu_va: 0x1_0000,
                command_bytes,
            };
            let _done_or_lost = w.kernel.submit_command_to_hw_queue(args);
            assert!(is_lost(w));
        });
    }
}

#[test]
fn a_store_between_two_fences_holds_no_engine() {
    harms_only_itself(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        // Peaks upon peaks: their labels fill what would be the history of the words behind the
        // fence's value.
        for round in 0..10 {
            queue.signal(&fence, 100 - round);
            w.pass(1_000);
            queue.signal(&fence, 0);
            w.pass(1_000);
        }
        for word in 1..8 {
            for value in [9, 3] {
                queue.push(&RingPacket::Signal {
                    current_value: GpuVa(fence.current_value_gpu_va + word * 8),
                    monitored_value: GpuVa(0),
                    value,
                    fence_handle: 0,
                    log_entry: u32::MAX,
                });
                w.pass(1_000);
            }
        }
        assert_eq!(w.state(), Ok(DeviceState::Active), "they are its own fences");
    });
}

#[test]
fn a_queue_that_ends_with_unread_logs_is_not_named_to_the_driver_any_more() {
    let w = world();
    w.platform.enable_tracing();
    let w = w.run(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        queue.push(&signal_packet(&fence, 1, 0));
        w.pass(100_000);
        queue.push(&signal_packet(&fence, 2, 1));
        w.pass(100_000);
        w.kernel.destroy_device(w.device).unwrap();
    });
    assert_eq!(w.machine.driver().violations(), []);
}
