//! The race of a preemption with a wait: a context's packet is asked for while the wait behind it
//! is satisfied, and another packet stands behind that. What came back goes before what the wait
//! held; neither is lost, and none of it waits any more.
//!
//! A packet is on the engine before the run begins, and the wait and the second packet are queued.
//! In the run one agent signals the fence while the other context gets its packet. The second
//! packet copies what the first one has written.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, queue_of, until_quiet};
use tidegate::calls::Priority;
use tidegate::d3d12::{BufferDesc, ClosedList, CommandListType, FenceChoice, Heap};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const BACK_FIRST: &str = "the packet came back before the wait was satisfied";
const BACK_AFTER: &str = "the packet came back when the wait was satisfied already";
const NOTHING_BACK: &str = "everything was complete before it could come back";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "lost-resubmission",
    about: "the driver says that packets which came back are on their way again, and they are not",
}];

pub(crate) const RACE: Race = Race {
    name: "preemption-against-wait",
    about: "a packet is asked for while the wait behind it is satisfied: what the wait held runs after it, and all of it runs",
    marks: &[BACK_FIRST, BACK_AFTER, NOTHING_BACK],
    agents: &["engine", "timer", "paging", "main", "signaller"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(20_000),
        full: Plan::bounded(1, 50_000_000),
        bugs: Plan::sampled(20_000),
    },
    prepare,
    bug: None,
};

const VALUE: u32 = 7;

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug.is_some() { LeftOut::Resubmission } else { LeftOut::Nothing };
    let world = World::new(
        platform,
        Setting { fences: FenceChoice::Monitored, left_out, ..Setting::default() },
    );
    let low = world.queue("low", Submission::Packet, 0);
    let high = queue_of(&world.device, "high", Priority::High, Submission::Packet, 0);
    let (gate, low_done, high_done) =
        (world.fence("gate"), world.fence("low"), world.fence("high"));
    let buffer = |name: &str| {
        let desc = BufferDesc { name: name.to_owned(), bytes: 8, heap: Heap::Default };
        world.device.create_buffer(desc).expect("a buffer")
    };
    let (written, copied) = (buffer("written"), buffer("copied"));
    let list = |record: &dyn Fn(&mut tidegate::d3d12::CommandList)| -> ClosedList {
        let mut list = world.device.create_command_list(CommandListType::Copy);
        record(&mut list);
        list.close().expect("a list")
    };
    let writes = list(&|list| list.fill(&written, 0, 8, VALUE).expect("a fill"));
    let copies = list(&|list| list.copy(&copied, 0, &written, 0, 8).expect("a copy"));
    let nothing = world.empty_list();
    low.execute(&[&writes]).expect("a submission");
    low.wait(&gate, 1).expect("a wait");
    low.execute(&[&copies]).expect("a submission");
    low.signal(&low_done, 1).expect("a signal");
    let (urgent, work, done, clock) =
        (high.clone(), nothing.clone(), high_done.clone(), platform.clone());
    let (opened, probe) = (gate.clone(), world.probe.clone());
    let main = move || {
        let signaller = clock.spawn("signaller", move || {
            // A step of its own, so that the note is taken when its turn has come.
            let _not_yet = opened.completed_value();
            if probe.seen(notes::RESUBMITTED).is_some() {
                probe.note(notes::OWN, 1);
            }
            ends_well(opened.signal(1));
        });
        ends_well(urgent.execute(&[&work]));
        ends_well(urgent.signal(&done, 1));
        signaller.join();
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let back_first = world.probe.seen(notes::OWN).is_some();
        let back = world.probe.seen(notes::RESUBMITTED).is_some();
        let packets = world.packets_of(&[&low, &high]);
        let mut bytes = [0; 4];
        let read = copied.read(0, &mut bytes).is_ok();
        end.eventually(
            "everything runs",
            low_done.completed_value() == 1 && high_done.completed_value() == 1,
        );
        end.eventually("in the order of its queue", read && u32::from_le_bytes(bytes) == VALUE);
        end.always("each packet runs once", packets <= 3);
        end.sometimes(BACK_FIRST, back_first);
        end.sometimes(BACK_AFTER, back && !back_first);
        end.sometimes(NOTHING_BACK, !back);
        world.must_be_sound(end);
        drop((low, high, writes, copies, nothing));
    })
}
