//! A ring against the connect of its doorbell, by two threads of one process. One thread connects
//! the doorbell and does not ring. Meanwhile the other thread publishes work, loads the status, and
//! stores to the doorbell through the mapping.
//!
//! The kernel shows the hardware's page before it stores CONNECTED. So a ring that begins after its
//! thread has read CONNECTED reaches the hardware.

use crate::prelude::*;

const RANG: &str = "the process read CONNECTED and the ring reached the hardware";
const TOO_EARLY: &str = "the process read RETRY and the ring reached the dummy page";
const BETWEEN: &str = "the process read RETRY and the ring reached the hardware";

const CONNECTED: usize = notes::OWN;

pub(crate) const RACE: Race = Race {
    name: "ring-against-connect",
    about: "a thread connects a doorbell while another one rings it: a ring after CONNECTED reaches the hardware",
    marks: &[RANG, TOO_EARLY, BETWEEN],
    planted: bugs! {
        "status-before-mapping" => Product(PlantedFault::ConnectedBeforeTheMapping),
            "the kernel stores CONNECTED before it shows the hardware's page: a ring after CONNECTED hits the dummy page";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("two threads");
    let (queue, fence) = (std::sync::Arc::new(client.user_queue(0)), client.native(0));
    world.keep(queue.clone());
    let probe = world.probe.clone();
    let main = move |platform: &Platform| {
        let connects = queue.clone();
        platform.spawn("connects", move || connects.connect().expect("a connect"));
        queue.put(&signal_packet(&fence, 1, u32::MAX));
        probe.note(CONNECTED, u64::from(queue.status() == DoorbellStatus::Connected));
        queue.ring();
    };
    world.race_without_pause(main, move |world, end| {
        let rung = world.first.rung() == Some(1);
        let connected = world.probe.seen(CONNECTED) == Some(1);
        end.always("a ring after CONNECTED reaches the hardware", rung || !connected);
        end.sometimes(RANG, rung && connected);
        end.sometimes(TOO_EARLY, !rung && !connected);
        end.sometimes(BETWEEN, rung && !connected);
    })
}
