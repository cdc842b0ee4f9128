//! Priority bands as a process, the kernel and the driver see them, and the bounds of what is on a
//! hardware queue at once.

use tidegate_testbed::prelude::*;

fn reported_places(w: &World) -> Vec<String> {
    let text = |call| match call {
        DdiCall::SetContextSchedulingProperties { args } => {
            let of = args.properties;
            let level = of.realtime_band_priority_level;
            Some(format!("{:?} {level} {}", of.priority_band, of.in_process_priority))
        }
        _ => None,
    };
    w.driver.take().into_iter().filter_map(text).collect()
}

// spec: HS-001
#[test]
fn bands_are_set_up_once_when_the_adapter_starts() {
    let w = world().run(|_| ());
    let percentage = |call: &DdiCall| match call {
        DdiCall::SetupPriorityBands { args } => Some(args.target_normal_band_percentage),
        _ => None,
    };
    assert!(w.start_calls.iter().filter_map(percentage).eq([10]));
    drop(w);
    let off = world_with(|config| config.kernel.hardware_scheduling = FeatureSetting::OFF);
    assert!(off.start_calls.iter().all(|c| c.name() != "SetupPriorityBands"));
}

// spec: HS-002
#[test]
fn the_driver_gets_each_change_of_a_context_s_place() {
    world().run(|w| {
        let shell = Client::privileged(&w.machine, "a shell");
        let (kernel, context) = (&shell.kernel, shell.hw_context(0));
        w.driver.take();
        for priority in [0, 1, -3, 8, 39, 39] {
            kernel.set_context_scheduling_priority(context, priority).unwrap();
        }
        kernel.set_context_in_process_scheduling_priority(context, 1).unwrap();
        kernel.set_context_scheduling_priority(context, 0).unwrap();
        let places = [
            "Focus 0 0",
            "Idle 0 0",
            "Realtime 0 0",
            "Realtime 31 0",
            "Realtime 31 1",
            "Normal 0 1",
        ];
        assert_eq!(reported_places(w), places);
        for bad in [-8, 40, i32::MIN, i32::MAX] {
            let refused = kernel.set_context_scheduling_priority(context, bad);
            assert_eq!(refused, Err(Status::INVALID_PARAMETER), "{bad}");
        }
        for bad in [-8, 8] {
            let refused = kernel.set_context_in_process_scheduling_priority(context, bad);
            assert_eq!(refused, Err(Status::INVALID_PARAMETER));
        }
        assert_eq!(reported_places(w), [""; 0]);
    });
}

// spec: HS-009
#[test]
fn focus_and_realtime_are_for_the_privileged() {
    world().run(|w| {
        let context = w.hw_context(0);
        w.driver.take();
        for priority in [1, 7, 8, 39] {
            let refused = w.kernel.set_context_scheduling_priority(context, priority);
            assert_eq!(refused, Err(Status::ACCESS_DENIED));
        }
        assert_eq!(reported_places(w), [""; 0], "nothing changed");
        w.kernel.set_context_scheduling_priority(context, -1).unwrap();
        w.kernel.set_context_in_process_scheduling_priority(context, 7).unwrap();
        assert_eq!(reported_places(w), ["Idle 0 0", "Idle 0 7"]);
    });
}

/// Returns how many calls of this entry there were since it was last called.
fn count(w: &World, ddi: &str) -> usize {
    w.driver.take().iter().filter(|c| c.name() == ddi).count()
}

fn bounded(buffers: u16, packets: u32) -> World {
    let change = move |caps: &mut AdapterCaps| {
        caps.hw_queue_packet_cap = packets;
        caps.nodes.iter_mut().for_each(|node| node.max_in_flight_hw_queue_buffers = buffers);
    };
    setup(|_| ()).caps(change).start()
}

const WORK: Command = Command::Timed { ns: 1_000 };

// spec: HS-012
#[test]
fn no_more_buffers_are_with_the_driver_than_its_node_takes() {
    for (most, at_once) in [(1, 1), (3, 3), (0, 8)] {
        bounded(most, 0).run(move |w| {
            let queue = w.hw_queue();
            w.driver.take();
            (1..=8).for_each(|id| w.submit(&queue, id, &[WORK]));
            assert_eq!(count(w, "SubmitCommandToHwQueue"), at_once);
            w.wait(queue.progress_fence, 8).unwrap();
            assert_eq!(count(w, "SubmitCommandToHwQueue"), 8 - at_once);
        });
    }
}

// spec: HS-012
#[test]
fn no_more_packets_of_an_engine_are_with_the_driver_than_its_cap() {
    for (cap, at_once) in [(1, 1), (4, 4), (0, 2)] {
        bounded(0, cap).run(move |w| {
            let (context, done) = (w.context(0), w.native(0));
            w.driver.take();
            (0..8).for_each(|_| w.submit_packet(context, &[WORK]));
            assert_eq!(count(w, "SubmitCommandVirtual"), at_once);
            w.on(context).signal_and_wait(&done, 1);
            assert_eq!(count(w, "SubmitCommandVirtual"), 8 - at_once);
        });
    }
}

// spec: HS-011
#[test]
fn a_progress_value_that_does_not_rise_is_refused_and_nothing_is_lost() {
    world().run(|w| {
        let queue = w.hw_queue();
        assert!(queue.native_progress_fence);
        w.submit(&queue, 5, &[WORK]);
        for progress_fence_id in [5, 4, 1, 0] {
            let args = w.command_buffer(&queue, progress_fence_id, &[WORK]);
            let refused = w.kernel.submit_command_to_hw_queue(args);
            assert_eq!(refused, Err(Status::INVALID_PARAMETER), "{progress_fence_id}");
        }
        w.on_queue(&queue).run(6, &[WORK]).complete();
        assert_eq!(queue.progress_value.load(), 6);
    });
}

// spec: HS-009
#[test]
fn a_realtime_queue_is_for_a_device_that_was_opened_with_the_privilege() {
    world().run(|w| {
        let options =
            |may_raise_priority| DeviceOptions { may_raise_priority, ..DeviceOptions::default() };
        let desc = |submission| QueueDesc {
            name: "urgent".to_owned(),
            priority: Priority::Realtime,
            ..QueueDesc::new(CommandListType::Compute).submission(submission)
        };
        let [ordinary, privileged] =
            [false, true].map(|may_raise| w.machine.device(options(may_raise)).unwrap());
        for submission in Submission::ALL {
            let refused = ordinary.create_queue(desc(submission)).unwrap_err();
            assert!(
                matches!(&refused, Error::PrivilegeNotHeld { queue, .. } if queue == "urgent"),
                "{refused}"
            );
            let queue = privileged.create_queue(desc(submission)).unwrap();
            let fence = privileged.fence(0);
            queue.signal_and_wait(&fence, 1);
            let high = QueueDesc { priority: Priority::High, ..desc(submission) };
            assert!(ordinary.create_queue(high).is_ok(), "high needs no privilege");
        }
    });
}

/// One broadcast over a queue of the FOCUS band and one of the IDLE band. While one waits for the
/// other, the engine serves the queues in between. Work behind the broadcast runs after it.
#[test]
fn a_broadcast_over_bands_does_not_hold_queues_between_them() {
    world().run(|w| {
        let shell = Client::privileged(&w.machine, "a shell");
        let fence = shell.monitored(0);
        let queue = |priority| {
            let hw_context = shell.hw_context(0);
            shell.kernel.set_context_scheduling_priority(hw_context, priority).unwrap();
            shell.hw_queue_in(hw_context, false).unwrap()
        };
        let millisecond = [Command::Timed { ns: 1_000_000 }];
        let [idle, normal, focus] = [-1, 0, 1].map(queue);
        (1..=20).for_each(|id| shell.submit(&normal, id, &millisecond));
        shell.submit(&idle, 1, &[WORK]);
        let args = SubmitSignalToHwQueues {
            hw_queues: &[focus.handle, idle.handle],
            fences: &at(&fence, 1),
            flags: SignalFlags::empty(),
        };
        shell.kernel.submit_signal_to_hw_queues(args).unwrap();
        shell.submit(&focus, 1, &millisecond);
        shell.wait(fence.handle, 1).unwrap();
        // IDLE runs when NORMAL has nothing, and FOCUS runs behind the broadcast.
        let seen = [&normal, &idle, &focus].map(|queue| queue.progress_value.load());
        assert_eq!(seen, [20, 1, 0], "NORMAL, IDLE, FOCUS");
        shell.wait_progress(&focus, 1).unwrap();
    });
}

/// The model of costs charges each effect to the agent that carries it out.
#[test]
fn each_submission_and_signal_of_a_kernel_mode_queue_costs_one_dispatch() {
    const DISPATCH_NS: u64 = 100;
    let costs = StepCosts::free().with(Step::VidSchDispatch, DISPATCH_NS);
    setup(|_| ()).costs(costs).start().run(|w| {
        let (context, queue, fence) = (w.context(0), w.hw_queue(), w.monitored(0));
        let took = |call: &dyn Fn()| {
            let before = w.platform.now().0;
            call();
            w.platform.now().0 - before
        };
        let command = [Command::Timed { ns: 1 }];
        assert_eq!(took(&|| w.submit(&queue, 1, &command)), DISPATCH_NS);
        w.finish(&queue, 1);
        assert_eq!(took(&|| _ = w.on_queue(&queue).signal(&fence, 1)), DISPATCH_NS);
        w.pass(1_000);
        assert_eq!(took(&|| w.submit_packet(context, &command)), DISPATCH_NS);
        w.pass(1_000);
        assert_eq!(took(&|| _ = w.on(context).signal(&fence, 2)), DISPATCH_NS);
        assert_eq!(fence.value.load(), 2);
    });
}

/// Without bands in the hardware all contexts are equal: a priority of a new queue is a wish, and a
/// call that sets one says that it has no effect.
// spec: HS-009
#[test]
fn without_bands_a_priority_is_a_wish_at_creation_and_refused_by_a_call() {
    let without = Overrides::default().hides(EntryGroup::PriorityBands);
    setup(|_| ()).overriding(without).start().run(|w| {
        let shell = Client::privileged(&w.machine, "a shell");
        let app = w.machine.device_in(&w.process, DeviceOptions::default()).unwrap();
        let urgent = QueueDesc {
            priority: Priority::High,
            ..QueueDesc::new(CommandListType::Copy).submission(Submission::Hardware)
        };
        let (queue, done) = (app.create_queue(urgent).unwrap(), app.fence(0));
        queue.signal_and_wait(&done, 1);
        let (kernel, context) = (&shell.kernel, shell.hw_context(0));
        let refused = Err(Status::NOT_SUPPORTED);
        assert_eq!(kernel.set_context_scheduling_priority(context, 1), refused);
        assert_eq!(kernel.set_context_in_process_scheduling_priority(context, 1), refused);
        assert_eq!(reported_places(w), [""; 0]);
    });
}
