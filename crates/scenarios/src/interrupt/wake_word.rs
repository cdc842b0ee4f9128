//! A model of the wake word's protocol whose barriers can be omitted. The platform's own wake word,
//! which all engines sleep on, includes them. `ring-against-park` runs the race on the real code.
//!
//! The ringer: 1. stores the doorbell; 2. full barrier; 3. loads the wake word, and wakes the
//! engine if it is asleep. The engine: 1. sets the wake word (a locked operation, hence a barrier);
//! 2. loads the doorbell again; 3. sleeps.

use crate::prelude::*;

const AWAKE: u64 = 0;
const ASLEEP: u64 = 1;

const WOKEN: &str = "the ringer woke the engine";
const FOUND: &str = "the engine found the ring before sleeping";

const PLANTED: &[Bug] = bugs! {
    "no-barrier" => Scenario,
        "the ringer loads the wake word while its ring is still in its store buffer";
    "no-second-load" => Scenario, "the engine sleeps without loading its doorbell again";
    "plain-announce" => Scenario,
        "the engine stores the wake word without a barrier and loads the doorbell while the store is still in its buffer";
};

pub(crate) const RACE: Race = Race {
    name: "wake-word",
    about: "a ringer loads the wake word while the engine goes to sleep: the ring is served (a model of the protocol)",
    marks: &[WOKEN, FOUND],
    planted: PLANTED,
    shape: Shape::Model,
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

#[derive(Clone)]
struct Pair {
    platform: Platform,
    doorbell: Word,
    wake: Word,
    bug: &'static str,
    probe: Probe,
}

impl Pair {
    fn ring(&self) {
        self.doorbell.store(1);
        if self.bug != "no-barrier" {
            self.platform.fence();
        }
        if self.wake.load() == ASLEEP {
            self.probe.note(0, 1);
            self.wake.exchange(AWAKE);
            self.wake.wake(1, Step::DoorbellToFetch);
        }
    }

    /// Runs until the ring is served.
    fn serve(&self) {
        while self.doorbell.load() == 0 {
            if self.bug == "plain-announce" {
                self.wake.store(ASLEEP);
            } else {
                self.wake.exchange(ASLEEP);
            }
            if self.bug != "no-second-load" && self.doorbell.load() != 0 {
                self.probe.note(1, 1);
                return;
            }
            if self.wake.wait_while(ASLEEP as u32, None, "a ring") == WaitEnd::Stopped {
                return;
            }
        }
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    let platform = run.platform;
    let doorbell = platform.page(1).word(0).named("the doorbell");
    let wake = platform.page(1).word(0).named("the wake word");
    let (platform, bug) = (platform.clone(), run.bug.map_or("", |bug| bug.name));
    let pair = Pair { platform, doorbell, wake, bug, probe: Probe::new() };
    let (ringer, engine, probe) = (pair.clone(), pair.clone(), pair.probe.clone());
    let main = move || {
        let spawner = ringer.platform.clone();
        spawner.spawn("engine", move || engine.serve());
        ringer.ring();
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        end.sometimes(WOKEN, probe.seen(0).is_some());
        end.sometimes(FOUND, probe.seen(1).is_some());
    })
}
