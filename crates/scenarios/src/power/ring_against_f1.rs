//! A ring against powering down an engine: the driver has found the engine idle, and work is rung
//! before the kernel has disconnected the doorbell. The process reads CONNECTED and returns, so no
//! later ring would help.
//!
//! A first submission connects the doorbell before the run begins. In the run a second one is made
//! while another agent powers down idle engines.

use crate::prelude::*;

const STAYED: &str = "the ring kept the engine powered";
const BROUGHT_BACK: &str = "the ring missed the hardware, and its connect powered up the engine";
const AFTER: &str = "the work completed before the power-down";

pub(crate) const RACE: Race = Race {
    name: "ring-against-f1",
    about: "a doorbell is rung while its idle engine is powered down: the work runs",
    marks: &[STAYED, BROUGHT_BACK, AFTER],
    planted: bugs! {
        "no-recheck" => Product(PlantedFault::AnnouncedWorkUnseen),
            "the kernel powers down the engine without a check for work that was rung before the disconnect";
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
        platform.spawn("power", move || adapter.power_down_idle_engines());
        assert_ok(queue.execute(&[&list]));
    };
    world.race(main, move |world, end| {
        let packets = world.machine.gpu().stats().nodes[0].packets;
        end.eventually("both submissions run", packets == 2);
        end.always("each submission runs once", packets <= 2);
        let (powered_down, powered_up) =
            (world.noted(notes::UNPOWERED), world.noted(notes::POWERED));
        end.sometimes(STAYED, world.noted(notes::DISCONNECTED) && !powered_down);
        end.sometimes(BROUGHT_BACK, powered_up);
        end.sometimes(AFTER, powered_down && !powered_up);
    })
}
