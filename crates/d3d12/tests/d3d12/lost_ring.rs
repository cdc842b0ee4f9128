//! The race of a ring with the loss of its doorbell, explored: in the order of the documents the
//! loss is found, in the safe order there is none. And the order of the submission's stores, as
//! another processor sees it.

use crate::bench::desc;
use std::ops::ControlFlow;
use tidegate_d3d12::*;
use tidegate_explorer::search;
use tidegate_explorer::strategy::exhaustive::Exhaustive;
use tidegate_testbed::prelude::*;

/// Runs `race` under every schedule; returns the sum of its results, and the number of states. The
/// program and its doorbell are explored. The machine is not: it runs beside them on threads.
fn explore(race: impl Fn(&Platform, Scene) -> u64) -> (u64, u64) {
    let world = setup(|_| ()).on(Platform::host()).start();
    let mut found = 0;
    let searched = search(Exhaustive::new(), MemoryModel::TotalStoreOrder, |platform| {
        let process = world.machine.open("program").unwrap();
        found += race(platform, Scene::new(platform, process));
        ControlFlow::Continue(())
    });
    (found, searched.states)
}

/// A queue on which one list was executed.
struct Scene {
    kernel: Arc<RecordedKernel>,
    doorbell: Arc<ScriptedDoorbell>,
    queue: Queue,
    list: ClosedList,
}

impl Scene {
    fn new(platform: &Platform, process: Arc<dyn Kernel>) -> Scene {
        let kernel = RecordedKernel::new(platform, process);
        let doorbell = kernel.script_doorbells();
        let options = DeviceOptions { ring_slots: 8, ..DeviceOptions::default() };
        let device = Device::new(platform, kernel.clone(), options).unwrap();
        let queue = device.create_queue(desc(CommandListType::Copy, Submission::User)).unwrap();
        let list = device.list(CommandListType::Copy, |list| list.timed(1));
        queue.execute(&[&list]).unwrap();
        Scene { kernel, doorbell, queue, list }
    }
}

/// Two submissions race with the loss of the doorbell. Returns 1 when work is in the ring of
/// which no hardware heard.
fn race(platform: &Platform, scene: Scene, order: DisconnectOrder) -> u64 {
    let Scene { kernel, doorbell, queue, list } = scene;
    let outcome = platform.page(1).word(0);
    let (p, lost) = (platform.clone(), outcome.clone());
    let report = platform.run(move || {
        let drained = p.page(1).word(0);
        let (taken, drained_by_os) = (doorbell.clone(), drained.clone());
        let os = p.spawn("os", move || drained_by_os.store(taken.disconnect(order)));
        queue.execute(&[&list]).unwrap();
        queue.execute(&[&list]).unwrap();
        os.join();
        let rung = doorbell.rung();
        let heard = match rung[..] {
            [_] => drained.load(),
            _ => drained.load().max(rung[rung.len() - 1]),
        };
        assert_eq!(kernel.ring().1.word(CONTROL_WRITE_WORD).load(), 3);
        lost.store(u64::from(heard < 3));
        drop(queue);
    });
    assert!(report.completed(), "{report:?}");
    outcome.load()
}

#[test]
// spec: UMS-081, UMS-083
fn no_ring_is_lost_when_the_status_goes_first() {
    let (lost, states) =
        explore(|platform, scene| race(platform, scene, DisconnectOrder::StatusFirst));
    println!("safe order: {states} states");
    assert_eq!(lost, 0);
}

#[test]
fn the_published_order_loses_a_ring() {
    let (lost, states) =
        explore(|platform, scene| race(platform, scene, DisconnectOrder::MappingFirst));
    println!("published order: {states} states, {lost} schedules lose a ring");
    assert!(lost > 0);
}

#[test]
// spec: UMS-073
fn the_stores_of_a_submission_become_visible_in_the_published_order() {
    let (_, states) = explore(|platform, Scene { kernel, doorbell, queue, list }| {
        let p = platform.clone();
        let report = platform.run(move || {
            let ((ring, control), last) = (kernel.ring(), kernel.doorbells().remove(0).last_queued);
            // An engine that loads the doorbell, then what the doorbell stands for.
            p.spawn("engine", move || {
                let rung = doorbell.rung()[0];
                let write = control.word(CONTROL_WRITE_WORD).load();
                assert!(write >= rung, "a ring of {rung} before the write pointer, {write}");
                for slot in 0..write {
                    let mut bytes = [0; SLOT_BYTES as usize];
                    ring.read(slot * SLOT_BYTES, &mut bytes).unwrap();
                    let Ok(RingPacket::Execute { progress, .. }) = RingPacket::decode(&bytes)
                    else {
                        panic!("slot {slot} was published before it was written");
                    };
                    let queued = last.load();
                    assert!(queued >= progress, "progress {progress} before last queued, {queued}");
                }
            });
            queue.execute(&[&list, &list]).unwrap();
        });
        assert!(report.completed(), "{report:?}");
        0
    });
    println!("order of stores: {states} states");
    assert!(states > 10);
}
