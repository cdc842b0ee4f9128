//! What the kernel does for one of many queues does not grow with their number: what it walks is
//! counted, not timed.

use tidegate::d3d12::MIN_RING_SLOTS;
use tidegate_testbed::prelude::*;

/// A token goes once through `count` queues: each waits for the one before it, works, and signals
/// the next. Then all of them end.
fn pass_token(submission: Submission, count: u64) -> KernelStats {
    let platform = Platform::virtual_time(CostModel::nominal().steps);
    let fences =
        if submission == Submission::Packet { FenceChoice::Monitored } else { FenceChoice::Auto };
    let options = DeviceOptions { fences, ring_slots: 8, ..DeviceOptions::default() };
    let app = App::on(&platform, options, |_| ()).run(move |app| {
        let queues: Vec<_> =
            (0..count).map(|_| app.queue(CommandListType::Compute, submission)).collect();
        let links: Vec<_> = (0..=count).map(|_| app.fence(0)).collect();
        let list = app.list(CommandListType::Compute, |list| list.timed(100));
        for (n, queue) in queues.iter().enumerate() {
            queue.wait(&links[n], 1).unwrap();
            queue.execute(&[&list]).unwrap();
            queue.signal(&links[n + 1], 1).unwrap();
        }
        links[0].signal(1).unwrap();
        links[count as usize].wait(1).unwrap();
    });
    app.machine.adapter().stats()
}

#[test]
fn packets_do_not_walk_the_objects_of_their_process() {
    let (few, many) =
        [40, 160].map(|count| pass_token(Submission::Packet, count).objects_walked).into();
    assert!(few > 0 && many <= 5 * few, "{few} for 40 queues and {many} for 160");
}

#[test]
fn a_doorbell_is_found_without_the_others() {
    let (few, many) =
        [40, 160].map(|count| pass_token(Submission::User, count).doorbells_walked).into();
    assert!(many <= 5 * few.max(40), "{few} for 40 queues and {many} for 160");
}

/// Two lives of `queues` queues that wait for one of `fences` fences. Nothing of the first is left
/// beside the second. Returns how many queues were walked while the fences of the last life ended.
fn two_lives(queues: u64, fences: u64) -> u64 {
    let options = DeviceOptions { ring_slots: MIN_RING_SLOTS, ..DeviceOptions::default() };
    let app = App::new(options, |_| ());
    let walked = Arc::new(app.platform().mutex("queues walked", 0));
    let last_walked = walked.clone();
    app.run(move |app| {
        let census = || {
            let machine = &app.machine;
            (machine.adapter().census(), machine.driver().census(), machine.gpu().census())
        };
        let live = || {
            let made: Vec<Queue> = (0..queues)
                .map(|_| app.queue(CommandListType::Compute, Submission::User))
                .collect();
            let named: Vec<Fence> = (0..fences).map(|_| app.fence(0)).collect();
            let (first, last) = (named.first().unwrap(), named.last().unwrap());
            made.iter().for_each(|queue| queue.wait(last, 1).unwrap());
            made.last().unwrap().signal(first, 1).unwrap();
            last.signal(1).unwrap();
            first.wait(1).unwrap();
            let alive = census();
            made.iter().for_each(|queue| queue.wait_idle().unwrap());
            let before = app.machine.adapter().stats().queues_walked;
            drop(named);
            *walked.lock() = app.machine.adapter().stats().queues_walked - before;
            drop(made);
            (alive, census(), app.counters().kernel_calls)
        };
        let (_, first, calls) = live();
        let (alive, second, all_calls) = live();
        // A queue has a progress fence. Pages of fences stay for the next ones.
        assert_eq!(second, first, "what the second life leaves");
        assert_eq!((alive.0.fences - second.0.fences) as u64, queues + fences);
        assert_eq!([second.0.hw_queues, second.0.doorbells, second.0.fence_waits], [0; 3]);
        assert!(all_calls <= 2 * calls, "{all_calls} after {calls}");
        assert_eq!(app.teardown_report().refused(), [], "no destroy call was refused");
    });
    *last_walked.lock()
}

#[test]
fn the_end_of_a_fence_walks_no_queue_and_nothing_is_left() {
    assert_eq!(two_lives(150, 1_000), 0);
}

#[test]
#[ignore = "a minute: 65,536 queues and 1,000,000 fences, twice"]
fn a_million_fences_and_65536_queues_leave_nothing() {
    assert_eq!(two_lives(65_536, 1_000_000), 0);
}
