//! A ring against the connect of its doorbell, by two threads of one client of a service. One
//! thread connects the doorbell and does not ring. Meanwhile the other thread publishes work, loads
//! the status, and stores to the doorbell through the mapping.
//!
//! The status is a word of the service, and the mapping is the client's. So the client maps the
//! page and then says so, and the kernel stores CONNECTED after that.

use crate::prelude::*;
use crate::service::served::Served;

const RANG: &str = "the client read CONNECTED and the ring reached the hardware";
const TOO_EARLY: &str = "the client read RETRY and the ring reached the page mapped before";
const BETWEEN: &str = "the client read RETRY and the ring reached the hardware";

const CONNECTED: usize = notes::OWN;

pub(crate) const RACE: Race = Race {
    name: "served-ring-against-connect",
    about: "a thread of a client connects a doorbell while another one rings it: a ring after CONNECTED reaches the hardware",
    marks: &[RANG, TOO_EARLY, BETWEEN],
    planted: bugs! {
        "status-before-mapping" => Product(PlantedFault::ConnectedBeforeTheProcessHasMappedThePage),
            "the kernel stores CONNECTED before the client has mapped the hardware's page: a ring after CONNECTED hits the page mapped before";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let (process, queue, fence) =
            service.connect_with_queue("two threads", |client| client.user_queue(0));
        let queue = Arc::new(queue);
        let connects = queue.clone();
        let thread = platform.spawn("connects", move || connects.connect().expect("a connect"));
        queue.put(&signal_packet(&fence, 1, u32::MAX));
        probe.note(CONNECTED, u64::from(queue.status() == DoorbellStatus::Connected));
        queue.ring();
        thread.join();
        drop((queue, process));
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        let rung = world.first.rung() == Some(1);
        let connected = world.probe.seen(CONNECTED) == Some(1);
        end.always("a ring after CONNECTED reaches the hardware", rung || !connected);
        end.sometimes(RANG, rung && connected);
        end.sometimes(TOO_EARLY, !rung && !connected);
        end.sometimes(BETWEEN, rung && !connected);
    })
}
