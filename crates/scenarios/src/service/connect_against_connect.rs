//! Two threads of one client of a service connect the same doorbell, and a third agent takes it
//! away by connecting another one. The answers of the two calls reach the client's threads in any
//! order, so the page of the older connection may come after the page of the later one.
//!
//! Invariant: when both threads have ended and the status reads CONNECTED, a ring reaches the
//! hardware.

use crate::prelude::*;
use crate::service::served::Served;

const KEPT: &str = "the doorbell was connected once, and both threads have that connection";
const TWICE: &str = "the doorbell was taken away between the two connects";
const TAKEN: &str = "the doorbell was taken away in the end";

const CONNECTED: usize = notes::OWN;
const VALUE: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "served-connect-against-connect",
    about: "two threads of a client connect a doorbell that is taken away in between: a ring after CONNECTED reaches the hardware",
    marks: &[KEPT, TWICE, TAKEN],
    planted: bugs! {
        "older-page" => Product(PlantedFault::OlderPageIsMapped),
            "a late answer maps the page of an older connection over that of the present one";
    },
    shape: Shape::Machine(&[setting::ONE_DOORBELL]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let other = Arc::new(world.client("other").user_queue(0));
    world.keep(other.clone());
    let (service, probe) = (served.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let (process, queue, fence) =
            service.connect_with_queue("two threads", |client| client.user_queue(0));
        let queue = Arc::new(queue);
        let connects = queue.clone();
        let thread = platform.spawn("connects", move || connects.connect().expect("a connect"));
        let takes = platform.spawn("takes", move || other.connect().expect("a connect"));
        queue.connect().expect("a connect");
        thread.join();
        takes.join();
        let is_connected = queue.status() == DoorbellStatus::Connected;
        probe.note(CONNECTED, u64::from(is_connected));
        if is_connected {
            queue.signal(&fence, 1);
            sleep_until_idle(platform);
        }
        probe.note(VALUE, fence.value.get().expect("a value"));
        drop((queue, process));
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        let connected = world.probe.seen(CONNECTED) == Some(1);
        let runs = world.probe.seen(VALUE) == Some(1);
        end.always("a ring after CONNECTED reaches the hardware", runs || !connected);
        let connects = world.machine.adapter().stats().doorbell_connects;
        end.sometimes(KEPT, connected && connects == 2);
        end.sometimes(TWICE, connected && connects == 3);
        end.sometimes(TAKEN, !connected);
    })
}
