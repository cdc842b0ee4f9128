//! A ring against a disconnect, in the code of the user-mode driver and of the kernel. The process
//! stores to the doorbell through the mapping, executes a full fence and loads the status. The
//! kernel stores the status and executes a full fence before the hardware reads the page for the
//! last time and the dummy page is mapped. So a process that reads CONNECTED rang the hardware.
//!
//! `doorbell-order` is a model of the same race. The hint after the ring is disabled here, because
//! its locked operations would hide a missing fence. The engine may then stay asleep, so the
//! scenario asserts nothing about the work. The doorbell is disconnected by the kernel when it
//! powers down an idle engine, or victimised by the driver.

use crate::prelude::*;

const RANG: &str = "the ring reached the hardware";
const REPEATED: &str = "the process read RETRY and rang again";

const fn race(name: &'static str, about: &'static str, prepare: fn(&Run<'_>) -> Prepared) -> Race {
    let marks = &[RANG, REPEATED];
    let plans = Plans::samples(40_000, 3_000_000, 1);
    let shape = Shape::Machine(&[setting::MANAGED_POWER]);
    Race { name, about, marks, planted: &[], shape, plans, prepare }
}

pub(crate) const BY_KERNEL: Race = race(
    "ring-against-disconnect",
    "the kernel disconnects a doorbell while it is rung: a process that reads CONNECTED has rung the hardware",
    |run| {
        prepare(run, |world| {
            let adapter = world.machine.adapter().clone();
            Box::new(move || Adapter::power_down_idle_engines(&adapter))
        })
    },
);

pub(crate) const BY_DRIVER: Race = race(
    "ring-against-callback",
    "the driver victimises a doorbell while it is rung: a process that reads CONNECTED has rung the hardware",
    |run| {
        prepare(run, |world| {
            let first = world.first.clone();
            Box::new(move || {
                let taken = first.disconnect(&Passive::enter(), DisconnectReason::Retry);
                assert_eq!(taken, Some(Ok(())), "the doorbell exists");
            })
        })
    },
);

/// The agent that disconnects the doorbell.
type Other = Box<dyn FnOnce() + Send>;

fn prepare(run: &Run<'_>, other: impl FnOnce(&World) -> Other) -> Prepared {
    let world = run.world();
    world.leave_out(LeftOut::RingHint);
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("done"));
    queue.signal(&fence, 1).expect("a submission");
    world.first.load_before_disconnect();
    let (rings, other) = (queue.clone(), other(&world));
    let before = queue.stats().retries;
    let main = move |platform: &Platform| {
        platform.spawn("other", other);
        assert_ok(rings.signal(&fence, 2));
    };
    world.race(main, move |world, end| {
        let repeated = queue.stats().retries > before;
        // After a disconnect, a ring counts only if the hardware's last read found it.
        let rung = world.first.last_value().or_else(|| world.first.rung()) == Some(2);
        end.always("a process that reads CONNECTED has rung the hardware", rung || repeated);
        end.sometimes(RANG, rung && !repeated);
        end.sometimes(REPEATED, repeated);
    })
}
