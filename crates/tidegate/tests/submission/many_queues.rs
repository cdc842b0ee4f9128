//! What the kernel does for one of many queues does not grow with their number: what it walks is
//! counted, not timed.

use tidegate::d3d12::testing::TestCommands;
use tidegate::d3d12::{CommandListType, DeviceOptions, FenceChoice};
use tidegate::dxgkrnl::KernelStats;
use tidegate::runner::cost::CostModel;
use tidegate::{Platform, Submission};
use tidegate_testbed::{App, QueueApi};

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
