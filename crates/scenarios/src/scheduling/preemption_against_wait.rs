//! A preemption against a wait. A context's packet is preempted while the wait behind it is
//! satisfied, and another packet is queued behind the wait. The preempted packet must be
//! resubmitted before that packet, and both must run.
//!
//! A packet is in flight before the run begins, and the wait and the second packet are queued. In
//! the run one agent signals the fence while the other context submits a packet. The second packet
//! copies the value written by the first.

use crate::prelude::*;

const BACK_FIRST: &str = "the packet was preempted before the wait was satisfied";
const BACK_AFTER: &str = "the packet was preempted after the wait was satisfied";
const NOTHING_BACK: &str = "the packet completed before it could be preempted";

pub(crate) const RACE: Race = Race {
    name: "preemption-against-wait",
    about: "a packet is preempted while the wait behind it is satisfied: it runs before the work behind the wait, and all work runs",
    marks: &[BACK_FIRST, BACK_AFTER, NOTHING_BACK],
    planted: bugs! {
        "lost-resubmission" => Driver(LeftOut::Resubmission),
            "the driver reports preempted packets as resubmitted, but they are not";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(sampled(20_000), bounded(1, 50_000_000), sampled(20_000)),
    prepare,
};

const VALUE: u32 = 7;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Run { fences: FenceChoice::Monitored, ..*run }.world();
    let (low, high) = (world.queue("low", Submission::Packet), world.urgent_queue("high"));
    let [gate, low_done, high_done] = ["gate", "low", "high"].map(|name| world.fence(name));
    let buffer = |name: &str| {
        let desc = BufferDesc::gpu_upload(name, 8);
        world.keep(world.device.create_buffer(desc).expect("a buffer"))
    };
    let (written, copied) = (buffer("written"), buffer("copied"));
    let writes = world.keep(list_of(&world.device, |list| list.fill(&written, 0, 8, VALUE)));
    let copies = world.keep(list_of(&world.device, |list| list.copy(&copied, 0, &written, 0, 8)));
    let nothing = world.empty_list();
    low.execute(&[&writes]).expect("a submission");
    low.wait(&gate, 1).expect("a wait");
    low.execute(&[&copies]).expect("a submission");
    low.signal(&low_done, 1).expect("a signal");
    let (urgent, done, probe) = (high.clone(), high_done.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let signaller = platform.spawn("signaller", move || {
            // A separate step, so that the note is taken when this agent is scheduled.
            let _not_yet = gate.completed_value();
            if probe.seen(notes::RESUBMITTED).is_some() {
                probe.note(notes::OWN, 1);
            }
            assert_ok(gate.signal(1));
        });
        assert_ok(urgent.execute(&[&nothing]));
        assert_ok(urgent.signal(&done, 1));
        signaller.join();
    };
    world.race(main, move |world, end| {
        let (back_first, back) = (world.noted(notes::OWN), world.noted(notes::RESUBMITTED));
        let packets = world.packets_of(&[&low, &high]);
        let mut bytes = [0; 4];
        let read = copied.read(0, &mut bytes).is_ok();
        let done = (low_done.completed_value(), high_done.completed_value());
        end.eventually("all packets run", done == (1, 1));
        end.eventually(
            "the packets run in queue order",
            read && u32::from_le_bytes(bytes) == VALUE,
        );
        end.always("each packet runs once", packets <= 3);
        end.sometimes(BACK_FIRST, back_first);
        end.sometimes(BACK_AFTER, back && !back_first);
        end.sometimes(NOTHING_BACK, !back);
    })
}
