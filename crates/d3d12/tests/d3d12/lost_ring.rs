//! The race of a ring with the loss of its doorbell, explored: in the order of the documents the
//! loss is found, in the safe order there is none. And the order of the submission's stores, as
//! another processor sees it.

use crate::double::{Double, Order, UserEnd};
use crate::user_mode::desc;
use std::ops::ControlFlow;
use std::sync::Arc;
use tidegate_d3d12::*;
use tidegate_explorer::search;
use tidegate_explorer::strategy::exhaustive::Exhaustive;
use tidegate_gpu_abi::{CONTROL_WRITE_WORD, RingPacket, SLOT_BYTES};
use tidegate_platform::{MemoryModel, Platform};

/// Runs `world` under every schedule; returns the sum of its results, and the number of states.
fn explore(world: impl Fn(&Platform) -> u64) -> (u64, u64) {
    let mut found = 0;
    let searched = search(Exhaustive::new(), MemoryModel::TotalStoreOrder, |platform| {
        found += world(platform);
        ControlFlow::Continue(())
    });
    (found, searched.states)
}

fn open(platform: &Platform) -> (Arc<Double>, Device, Queue, ClosedList) {
    let kernel = Arc::new(Double::new(platform));
    let options = DeviceOptions { ring_slots: 8, ..DeviceOptions::default() };
    let device = Device::new(platform, kernel.clone(), options).unwrap();
    let queue = device.create_queue(desc(CommandListType::Copy, Submission::User)).unwrap();
    let mut list = device.create_command_list(CommandListType::Copy);
    list.timed(1).unwrap();
    (kernel, device, queue, list.close().unwrap())
}

/// Two submissions race with the loss of the doorbell. Returns 1 when work stands in the ring of
/// which no hardware heard.
fn race(platform: &Platform, order: Order) -> u64 {
    let outcome = platform.page(1).word(0);
    let (p, lost) = (platform.clone(), outcome.clone());
    let report = platform.run(move || {
        let (kernel, _device, queue, list) = open(&p);
        queue.execute(&[&list]).unwrap();
        let drained = p.page(1).word(0);
        let (kernel2, drained2) = (kernel.clone(), drained.clone());
        let os = p.spawn("os", move || {
            let seen = kernel2.disconnect(order);
            drained2.store(seen);
        });
        queue.execute(&[&list]).unwrap();
        queue.execute(&[&list]).unwrap();
        os.join();
        let now = kernel.user_end();
        let last_page = now.pages.last().unwrap().word(0).load();
        let heard =
            if now.pages.len() == 1 { drained.load() } else { drained.load().max(last_page) };
        assert_eq!(now.control.word(CONTROL_WRITE_WORD).load(), 3);
        lost.store(u64::from(heard < 3));
        drop(queue);
    });
    assert!(report.completed(), "{report:?}");
    outcome.load()
}

#[test]
// spec: UMS-081, UMS-083
fn no_ring_is_lost_when_the_status_goes_first() {
    let (lost, states) = explore(|platform| race(platform, Order::Safe));
    println!("safe order: {states} states");
    assert_eq!(lost, 0);
}

#[test]
fn the_published_order_loses_a_ring() {
    let (lost, states) = explore(|platform| race(platform, Order::Published));
    println!("published order: {states} states, {lost} schedules lose a ring");
    assert!(lost > 0);
}

/// An engine that looks at the doorbell, then at what it stands for.
fn check_ring(end: &UserEnd) {
    let rung = end.pages[0].word(0).load();
    let write = end.control.word(CONTROL_WRITE_WORD).load();
    assert!(write >= rung, "a ring of {rung} before the write pointer, {write}");
    for slot in 0..write {
        let mut bytes = [0; SLOT_BYTES as usize];
        end.ring.read(slot * SLOT_BYTES, &mut bytes).unwrap();
        let Ok(RingPacket::Execute { progress, .. }) = RingPacket::decode(&bytes) else {
            panic!("slot {slot} was published before it was written");
        };
        let queued = end.last_queued.load();
        assert!(queued >= progress, "progress {progress} is visible before last queued, {queued}");
    }
}

#[test]
// spec: UMS-073
fn the_stores_of_a_submission_become_visible_in_the_published_order() {
    let (_, states) = explore(|platform| {
        let p = platform.clone();
        let report = platform.run(move || {
            let (kernel, _device, queue, list) = open(&p);
            queue.execute(&[&list]).unwrap();
            let end = kernel.user_end();
            p.spawn("engine", move || check_ring(&end));
            queue.execute(&[&list, &list]).unwrap();
        });
        assert!(report.completed(), "{report:?}");
        0
    });
    println!("order of stores: {states} states");
    assert!(states > 10);
}
