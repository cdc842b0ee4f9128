//! A model, on the platform's own mapping, of the order of steps in a disconnect. The kernel writes
//! the status before the hardware stops reading the doorbell's page. The documented order (remap,
//! then write the status) loses a ring. The kernel has no seam for reversing its order, so the
//! model implements both.
//!
//! The process: 1. stores to the doorbell through the mapping; 2. full barrier; 3. loads the
//! status; on RETRY it connects (a fresh page, status CONNECTED) and rings again. The system: 1.
//! stores the status, full barrier; 2. remaps; 3. the hardware reads the old page for the last
//! time. In either order that read finds the ring, or the process reads RETRY.
//! `ring-against-victimise` runs the same race on the real code.

use crate::prelude::*;
use tidegate::platform::Mapping;

const LAST_READ: &str = "the last read of the hardware found the ring";
const REPEATED: &str = "the process read RETRY and rang again";
const BEFORE: &str = "the ring came after the disconnect";

const PLANTED: &[Bug] = bugs! {
    "rotate-before-status" => Scenario,
        "the published order: a ring hits the dummy page while the status is still CONNECTED";
    "no-ring-barrier" => Scenario,
        "the process loads the status while its ring is still in its store buffer";
    "no-last-read" => Scenario, "the hardware drops the old page without a last read";
};

pub(crate) const RACE: Race = Race {
    name: "doorbell-order",
    about: "a process rings while its doorbell is disconnected: the hardware finds the ring (a model of the two orders)",
    marks: &[LAST_READ, REPEATED, BEFORE],
    planted: PLANTED,
    shape: Shape::Model,
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

const CONNECTED: u64 = 0;
const RETRY: u64 = 2;

/// State shared by process and system.
#[derive(Clone)]
struct Bell {
    platform: Platform,
    mapping: Mapping,
    status: Word,
    /// Serialises connects and disconnects, as in the kernel.
    transition: Arc<Mutex<()>>,
    bug: &'static str,
    probe: Probe,
}

impl Bell {
    fn new(run: &Run<'_>) -> Bell {
        let platform = run.platform;
        let mapping = Mapping::new(platform, platform.page(1).named("the doorbell"));
        let transition = Arc::new(platform.mutex("transition", ()));
        let status = platform.page(1).word(0).named("the doorbell's status");
        let (bug, platform) = (run.bug.map_or("", |bug| bug.name), platform.clone());
        Bell { platform, mapping, status, transition, bug, probe: Probe::new() }
    }

    /// Rings until a connected doorbell has received the value.
    fn ring(&self, write_pointer: u64) {
        self.mapping.store(0, write_pointer);
        if self.bug != "no-ring-barrier" {
            self.platform.fence();
        }
        if self.status.load() == RETRY {
            self.probe.note(0, 1);
            let transition = self.transition.lock();
            self.mapping.rotate(self.platform.page(1));
            self.status.store(CONNECTED);
            drop(transition);
            self.mapping.store(0, write_pointer);
        }
    }

    /// Disconnects the doorbell from its current page.
    fn disconnect(&self, page: &Page) {
        let _transition = self.transition.lock();
        if self.bug == "rotate-before-status" {
            self.remap(page);
            self.status.store(RETRY);
        } else {
            self.status.store(RETRY);
            self.platform.fence();
            self.remap(page);
        }
    }

    /// Maps a dummy page, then reads the old page for the last time.
    fn remap(&self, page: &Page) {
        self.mapping.rotate(self.platform.page(1));
        if self.bug != "no-last-read" {
            self.probe.note(1, page.word(0).load());
        }
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    let bell = Bell::new(run);
    let (process, system, first) = (bell.clone(), bell.clone(), bell.mapping.page());
    let main = move || {
        let spawner = process.platform.clone();
        spawner.spawn("system", move || system.disconnect(&first));
        process.ring(1);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let last_read = bell.probe.seen(1) == Some(1);
        let repeated = bell.probe.seen(0).is_some();
        // The hardware also reads the page of a repeated connect.
        let found = last_read || (repeated && bell.mapping.page().word(0).load() == 1);
        end.eventually("the hardware finds the ring", found);
        end.sometimes(LAST_READ, last_read && !repeated);
        end.sometimes(REPEATED, repeated);
        end.sometimes(BEFORE, repeated && !last_read);
    })
}
