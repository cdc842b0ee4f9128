//! A ring of a program that only stores, against the thread that watches its doorbell. The engine
//! sleeps, and the store wakes it only if the thread gives the hint. The thread looks, arms a trap
//! on the doorbell's address, looks again and sleeps.
//!
//! The doorbell is connected before the run begins. In the run the program stores twice: at first,
//! and when the thread arms the trap.

use crate::prelude::*;
use tidegate::d3dukmdt::ring_watch::{LookTimes, RingWatch, Traps};
use tidegate::dxgkrnl::ProcessKind;
use tidegate::platform::mapping::traps::StoreTraps;
use tidegate::platform::{CpuTime, Mapping, Mutex};

const TRAPPED: &str = "a store was trapped";
const BESIDE_THE_TRAP: &str = "the look after the trap was armed found a store";
const BY_A_LOOK: &str = "looks before the trap found both stores";

pub(crate) const RACE: Race = Race {
    name: "stored-ring-against-trap",
    about: "a program stores to its doorbell while the thread that watches it arms a trap and goes to sleep: the work runs",
    marks: &[TRAPPED, BESIDE_THE_TRAP, BY_A_LOOK],
    planted: bugs! {
        "trap-after-the-last-look" => Scenario,
            "the trap is armed after the last look at the doorbell: a store between the two is unseen";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

const TRAPS: usize = notes::OWN;
const RELEASES: usize = notes::OWN + 1;

/// The platform's traps, with notes. A planted bug arms them when the thread goes to sleep.
struct Noted {
    traps: StoreTraps,
    probe: Probe,
    arms_late: bool,
    late: Mutex<Vec<Mapping>>,
}

impl Noted {
    fn count(&self, note: usize) {
        self.probe.note(note, self.probe.seen(note).unwrap_or(0) + 1);
    }
}

impl Traps for Noted {
    fn arm(&self, window: &Mapping) -> bool {
        if self.arms_late {
            self.late.lock().push(window.clone());
            return true;
        }
        self.traps.arm(window).is_ok()
    }

    fn release(&self, window: &Mapping) {
        self.count(RELEASES);
        self.traps.release(window);
    }

    fn wait(&self, deadline: Option<CpuTime>, stopped: &mut dyn FnMut(u64)) {
        let late = std::mem::take(&mut *self.late.lock());
        late.iter().for_each(|window| self.traps.arm(window).expect("a trap"));
        self.traps.wait(deadline, |address| {
            self.count(TRAPS);
            stopped(address);
        });
    }

    fn poke(&self) {
        self.traps.poke();
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let kind = ProcessKind { only_stores: true, ..ProcessKind::default() };
    let client = world.client_of_kind("a program that stores", kind);
    let (queue, fence) = (Arc::new(client.connected_queue(0)), client.native(0));
    world.keep(queue.clone());
    let platform = run.platform;
    let times = LookTimes { looks: 1, ..LookTimes::default() };
    let traps = Noted {
        traps: StoreTraps::new(platform).expect("traps"),
        probe: world.probe.clone(),
        arms_late: run.bug.is_some(),
        late: platform.mutex("traps that are armed late", Vec::new()),
    };
    let watch = RingWatch::new(platform, times, Box::new(traps));
    let window = queue.doorbell.mapping.clone();
    let connection = client.kernel.connect_doorbell(queue.doorbell.handle).expect("a connection");
    let address = window.place().expect("an address");
    world.keep(Arc::new(watch.watch(vec![(window.clone(), address)], connection.hint)));
    let signalled = fence.clone();
    let main = move |platform: &Platform| {
        platform.spawn_worker("watches", move || watch.run());
        let second = platform.now().after(times.busy_ns);
        for value in 1..=2 {
            queue.put(&signal_packet(&signalled, value, u32::MAX));
            window.store(0, value);
            // The engine sleeps by then, and the thread looks for the second time.
            platform.sleep_until(second);
        }
        let _stopped = client.wait(signalled.handle, 2);
    };
    world.race_without_pause(main, move |world, end| {
        let seen = |note| world.probe.seen(note).unwrap_or(0);
        end.always("every stored ring runs", fence.value.get() == Some(2));
        end.always("each runs once", world.machine.gpu().stats().signals == 2);
        end.sometimes(TRAPPED, seen(TRAPS) > 0);
        end.sometimes(BESIDE_THE_TRAP, seen(RELEASES) > 0);
        end.sometimes(BY_A_LOOK, seen(TRAPS) + seen(RELEASES) == 0);
    })
}
