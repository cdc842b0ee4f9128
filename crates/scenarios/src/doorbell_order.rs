//! The order of a disconnect, as a model on the platform's own mapping: why the kernel writes the
//! status before the hardware stops reading the doorbell's page. The documents' order (turn the
//! mapping, then write the status) loses a ring, and the kernel offers no seam at which its order
//! could be reversed, so the two orders stand here side by side.
//!
//! The process: 1. stores to the doorbell through the mapping; 2. full barrier; 3. loads the
//! status; on RETRY it connects (a fresh page, status CONNECTED) and rings again. The system: 1.
//! stores the status, full barrier; 2. turns the mapping; 3. the hardware reads the old page a last
//! time. In either order the ring is found by that last read, or the process reads RETRY. The same
//! race through the real code is `ring-against-victimise`.

use crate::prelude::*;
use std::sync::Arc;
use tidegate::platform::{Mapping, Mutex, Page, Word};

const LAST_LOOK: &str = "the hardware's last read found the ring";
const REPEATED: &str = "the process read RETRY and rang again";
const BEFORE: &str = "the ring came when the doorbell was gone already";

const PLANTED: &[Bug] = &[
    Bug {
        name: "rotate-before-status",
        about: "the published order: a ring meets the dummy page while the status still says CONNECTED",
        fault: Fault::Scenario,
    },
    Bug {
        name: "no-ring-barrier",
        about: "the process loads the status while its ring is still in its store buffer",
        fault: Fault::Scenario,
    },
    Bug {
        name: "no-last-look",
        about: "the hardware leaves the old page without a last read",
        fault: Fault::Scenario,
    },
];

pub(crate) const RACE: Race = Race {
    name: "doorbell-order",
    about: "a process rings while its doorbell is taken away: the hardware finds the ring (a model of the two orders)",
    marks: &[LAST_LOOK, REPEATED, BEFORE],
    planted: PLANTED,
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

const CONNECTED: u64 = 0;
const RETRY: u64 = 2;

/// What process and system share.
#[derive(Clone)]
struct Bell {
    platform: Platform,
    mapping: Mapping,
    status: Word,
    /// One connect or disconnect at a time, as in the kernel.
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

    /// The process rings until a connected doorbell took it.
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

    /// The system takes the doorbell away from the page that it has had so far.
    fn disconnect(&self, page: &Page) {
        let _transition = self.transition.lock();
        if self.bug == "rotate-before-status" {
            self.turn_away(page);
            self.status.store(RETRY);
        } else {
            self.status.store(RETRY);
            self.platform.fence();
            self.turn_away(page);
        }
    }

    /// Shows a dummy page, then the hardware reads the old one a last time.
    fn turn_away(&self, page: &Page) {
        self.mapping.rotate(self.platform.page(1));
        if self.bug != "no-last-look" {
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
        let last_look = bell.probe.seen(1) == Some(1);
        let repeated = bell.probe.seen(0).is_some();
        // The hardware reads a doorbell that was connected anew.
        let found = last_look || (repeated && bell.mapping.page().word(0).load() == 1);
        end.eventually("the hardware finds the ring", found);
        end.sometimes(LAST_LOOK, last_look && !repeated);
        end.sometimes(REPEATED, repeated);
        end.sometimes(BEFORE, repeated && !last_look);
    })
}
