//! A preemption against a wait: a context's packet is preempted while the wait behind it is
//! satisfied, and another packet stands behind that. What came back goes before what the wait held;
//! neither is lost, and none of it waits any more.
//!
//! A packet is on the engine before the run begins, and the wait and the second packet are queued.
//! In the run one agent signals the fence while the other context gets its packet. The second packet
//! copies what the first one has written.

use crate::prelude::*;
use tidegate::d3d12::{BufferDesc, Heap};

const BACK_FIRST: &str = "the packet came back before the wait was satisfied";
const BACK_AFTER: &str = "the packet came back when the wait was satisfied already";
const NOTHING_BACK: &str = "everything was complete before it could come back";

pub(crate) const RACE: Race = Race {
    name: "preemption-against-wait",
    about: "a packet is preempted while the wait behind it is satisfied: what the wait held runs after it, and all of it runs",
    marks: &[BACK_FIRST, BACK_AFTER, NOTHING_BACK],
    planted: &[Bug {
        name: "lost-resubmission",
        about: "the driver reports that packets which came back were submitted again, and they are not",
        fault: Fault::Driver(LeftOut::Resubmission),
    }],
    plans: Plans::of(sampled(20_000), bounded(1, 50_000_000), sampled(20_000)),
    prepare,
};

const VALUE: u32 = 7;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Run { fences: FenceChoice::Monitored, ..*run }.world(|_| ());
    let (low, high) = (world.queue("low", Submission::Packet), world.urgent_queue("high"));
    let [gate, low_done, high_done] = ["gate", "low", "high"].map(|name| world.fence(name));
    let buffer = |name: &str| {
        let desc = BufferDesc { name: name.to_owned(), bytes: 8, heap: Heap::Default };
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
            // A step of its own, so that the note is taken when its turn has come.
            let _not_yet = gate.completed_value();
            if probe.seen(notes::RESUBMITTED).is_some() {
                probe.note(notes::OWN, 1);
            }
            ends_well(gate.signal(1));
        });
        ends_well(urgent.execute(&[&nothing]));
        ends_well(urgent.signal(&done, 1));
        signaller.join();
    };
    world.race(main, move |world, end| {
        let (back_first, back) = (world.noted(notes::OWN), world.noted(notes::RESUBMITTED));
        let packets = world.packets_of(&[&low, &high]);
        let mut bytes = [0; 4];
        let read = copied.read(0, &mut bytes).is_ok();
        let done = (low_done.completed_value(), high_done.completed_value());
        end.eventually("everything runs", done == (1, 1));
        end.eventually("in the order of its queue", read && u32::from_le_bytes(bytes) == VALUE);
        end.always("each packet runs once", packets <= 3);
        end.sometimes(BACK_FIRST, back_first);
        end.sometimes(BACK_AFTER, back && !back_first);
        end.sometimes(NOTHING_BACK, !back);
    })
}
