//! A ring against powering down an adapter: contexts are suspended, doorbells disconnected and the
//! power removed while a process rings. The ring may reach the hardware before the disconnect, so
//! that the process reads CONNECTED.
//!
//! A first submission connects the doorbell before the run begins. In the run a second one is made
//! while another agent powers down the idle adapter.

use crate::prelude::*;

const STAYED: &str = "the ring kept the adapter powered";
const WOKEN: &str = "the ring missed the hardware, and its connect woke the adapter";

pub(crate) const RACE: Race = Race {
    name: "ring-against-d3",
    about: "a doorbell is rung while an idle adapter is powered down: the work runs",
    marks: &[STAYED, WOKEN],
    planted: bugs! {
        "no-recheck" => Product(PlantedFault::AnnouncedWorkUnseen),
            "the kernel powers down without a check for work that was rung before the disconnect";
        "not-resumed" => Driver(LeftOut::Resume), "contexts stay suspended after power-up";
    },
    shape: Shape::Machine(&[setting::MANAGED_POWER, setting::QUEUES_ARE_NOT_READ]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (queue, list) = (world.queue("copy", Submission::User), world.empty_list());
    queue.execute(&[&list]).expect("a submission");
    let adapter = world.machine.adapter().clone();
    let main = move |platform: &Platform| {
        platform.spawn("power", move || {
            adapter.power_down_if_idle().expect("power is managed");
        });
        assert_ok(queue.execute(&[&list]));
    };
    world.race(main, move |world, end| {
        let packets = world.machine.gpu().stats().nodes[0].packets;
        end.eventually("both submissions run", packets == 2);
        end.always("each submission runs once", packets <= 2);
        let powered_down = world.noted(notes::UNPOWERED);
        end.sometimes(STAYED, world.noted(notes::DISCONNECTED) && !powered_down);
        end.sometimes(WOKEN, world.noted(notes::POWERED));
    })
}
