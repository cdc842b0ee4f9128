//! How devices end that their program destroys: after their queued work, or by force when the work
//! is not complete within the TDR delay. The process works on.

use tidegate_testbed::prelude::*;

const SETTLED_NS: u64 = 100_000;
const TDR_DELAY_NS: u64 = 2_000_000_000;

/// The calls of the two lists.
const LIST: [&str; 5] =
    ["DisconnectDoorbell", "SuspendContext", "DestroyDoorbell", "DestroyHwQueue", "ResumeContext"];

fn in_list(calls: Vec<&'static str>) -> Vec<&'static str> {
    calls.into_iter().filter(|name| LIST.contains(name)).collect()
}

/// Announces progress value `progress`, and rings for work that takes `ns`.
fn submit_timed(w: &World, queue: &UserQueue, ns: u64, progress: u64) {
    queue.doorbell.last_queued.store(progress);
    queue.push(&w.execute_packet(&[Command::Timed { ns }], progress));
}

/// A fence of the world's device, and another process that has opened it.
fn share(w: &World) -> (FenceInstance, Client, FenceInstance) {
    let (shared, other) = (w.try_native(0, SHARED).unwrap(), w.client("other"));
    let opened = other.open_fence(&w.share_all(&shared));
    (shared, other, opened)
}

// spec: UMS-036, UMS-087, UMS-088, UMS-089
#[test]
fn a_device_that_is_destroyed_has_its_work_done_before_anything_is_destroyed() {
    let w = world().run(|w| {
        let (queue, (shared, _other, opened)) = (w.connected_queue(0), share(w));
        queue.signal(&shared, 7);
        submit_timed(w, &queue, 50_000, 1);
        w.driver.take();
        let (progress, value) = (queue.queue.progress_value.clone(), opened.value.clone());
        w.hooked.on(Entry::DestroyDoorbell, move || {
            assert_eq!((progress.load(), value.load()), (1, 7));
        });
        let progress = queue.queue.progress_value.clone();
        w.hooked.on(Entry::DisconnectDoorbell, move || {
            assert_eq!(progress.load(), 0, "the doorbell goes before the work is done");
        });
        w.kernel.destroy_device(w.device).unwrap();
        assert_eq!(opened.value.load(), 7);
        let expected = ["DisconnectDoorbell", "DestroyDoorbell", "DestroyHwQueue"];
        assert_eq!(in_list(w.driver.take_names()), expected);
        assert_eq!(w.adapter().lost_signals(), []);
        w.kernel.create_device().unwrap();
    });
    assert_eq!(w.stats().devices_lost, 0);
}

#[test]
fn the_work_of_kernel_mode_queues_and_contexts_is_done_before_their_device_ends() {
    world().run(|w| {
        let (shared, _other, opened) = share(w);
        let (queue, context) = (w.hw_queue(), w.context(1));
        w.on_queue(&queue).run(1, &[Command::Timed { ns: 10_000 }]).signal(&shared, 1);
        w.on(context).wait(&shared, 1).run(&[Command::Timed { ns: 10_000 }]).signal(&shared, 2);
        w.kernel.destroy_device(w.device).unwrap();
        assert_eq!(opened.value.load(), 2);
    });
}

#[test]
fn queues_of_one_device_that_wait_for_each_other_are_done_together() {
    world().run(|w| {
        let (shared, _other, opened) = share(w);
        let (first, second) = (w.connected_queue(0), w.user_queue(0));
        first.put(&wait_packet(&shared, 1, u32::MAX));
        submit_timed(w, &first, 10, 1);
        // Its ring is lost: the doorbell was never connected.
        second.put(&signal_packet(&shared, 1, u32::MAX));
        submit_timed(w, &second, 10, 1);
        w.kernel.destroy_device(w.device).unwrap();
        assert_eq!(opened.value.load(), 1);
        assert!(w.platform.now().0 < TDR_DELAY_NS);
    });
}

// spec: UMS-090, UMS-092, UMS-093
#[test]
fn a_device_that_announced_more_than_it_submitted_ends_by_force_after_the_tdr_delay() {
    let w = world().run(|w| {
        let neighbour = w.kernel.create_device().unwrap();
        let queue = w.connected_queue(0);
        submit_timed(w, &queue, 10, 1);
        queue.doorbell.last_queued.store(u64::MAX);
        w.driver.take();
        let from = w.platform.now();
        w.kernel.destroy_device(w.device).unwrap();
        assert_eq!(w.platform.now().since(from), TDR_DELAY_NS);
        assert_eq!(in_list(w.driver.take_names()), LIST[..4]);
        assert_eq!(w.kernel.destroy_device(w.device), Err(Status::INVALID_PARAMETER));
        assert_eq!(w.kernel.device_state(neighbour), Ok(DeviceState::Active));
        assert_eq!(w.adapter().census().hw_contexts, 0);
    });
    assert_eq!(w.stats().processes_terminated, 0);
}

#[test]
fn a_device_whose_contexts_stay_suspended_ends_after_the_tdr_delay() {
    world().run(|w| {
        let queue = w.connected_queue(0);
        let held = w.adapter().suspend_contexts().unwrap();
        submit_timed(w, &queue, 10, 1);
        let from = w.platform.now();
        w.kernel.destroy_device(w.device).unwrap();
        assert_eq!(w.platform.now().since(from), TDR_DELAY_NS);
        held.resume();
        w.client("another").connected_queue(0);
    });
}

#[test]
fn a_device_whose_engine_hangs_ends_after_the_tdr_delay() {
    world().run(|w| {
        let queue = w.hw_queue();
        w.submit(&queue, 1, &[Command::Hang]);
        w.pass(SETTLED_NS);
        let from = w.platform.now();
        w.kernel.destroy_device(w.device).unwrap();
        // The hang may be found first, or the device be suspended by a reset of its engine.
        assert!(w.platform.now().since(from) <= 2 * TDR_DELAY_NS);
        let other = w.client("another");
        let queue = other.hw_queue();
        other.on_queue(&queue).run(1, &[Command::Timed { ns: 10 }]).finish();
    });
}

#[test]
fn a_device_in_d3_has_its_work_done_before_it_ends() {
    world_with(|config| config.kernel.power = PowerManagement::Managed).run(|w| {
        let (shared, _other, opened) = share(w);
        let queue = w.connected_queue(0);
        w.adapter().set_power_state(DevicePowerState::D3).unwrap();
        queue.put(&signal_packet(&shared, 1, u32::MAX));
        submit_timed(w, &queue, 10, 1);
        w.kernel.destroy_device(w.device).unwrap();
        assert_eq!(opened.value.load(), 1);
        assert!(w.platform.now().0 < TDR_DELAY_NS);
    });
}

#[test]
fn a_lost_device_ends_without_a_wait() {
    world().run(|w| {
        let queue = w.connected_queue(0);
        queue.doorbell.last_queued.store(u64::MAX);
        w.kernel.mark_device_as_error(w.device, DeviceErrorReason::Generic).unwrap();
        let from = w.platform.now();
        w.kernel.destroy_device(w.device).unwrap();
        assert_eq!(w.platform.now(), from);
    });
}

/// Starts a thread that destroys a device whose work never completes, and runs `end` beside it.
/// Returns how long both took.
fn ended_beside(end: impl FnOnce(&World) + Send + 'static) -> u64 {
    let took = Platform::host().page(1).word(0);
    took.store(u64::MAX);
    let kept = took.clone();
    world().run(move |w| {
        let queue = w.connected_queue(0);
        queue.doorbell.last_queued.store(1);
        let (kernel, device) = (w.kernel.clone(), w.device);
        let destroyer = w.platform.spawn("destroyer", move || {
            let _ended = kernel.destroy_device(device);
        });
        w.pass(SETTLED_NS);
        let from = w.platform.now();
        end(w);
        destroyer.join();
        kept.store(w.platform.now().since(from));
        assert_eq!(w.adapter().census().hw_queues, 0);
    });
    took.load()
}

#[test]
fn a_terminated_process_waits_for_no_work_of_a_device_that_is_being_destroyed() {
    assert_eq!(ended_beside(|w| w.process.terminate()), 0);
    assert_eq!(ended_beside(|w| w.process.end_waits_for_work()), 0);
}

#[test]
fn a_removed_adapter_waits_for_no_work_of_a_device_that_is_being_destroyed() {
    assert_eq!(ended_beside(|w| w.adapter().remove()), 0);
}

#[test]
fn a_process_that_is_terminated_while_it_closes_waits_no_longer() {
    let w = world().run(|w| {
        let queue = w.connected_queue(0);
        queue.doorbell.last_queued.store(1);
        let closing = w.process.clone();
        let closer = w.platform.spawn("closer", move || closing.close());
        w.pass(SETTLED_NS);
        let from = w.platform.now();
        w.process.terminate();
        closer.join();
        assert_eq!(w.platform.now(), from);
        assert_eq!(w.adapter().census().hw_queues, 0);
    });
    assert_eq!(w.stats().processes_terminated, 1);
}
