//! The race of a ring with the loss of its doorbell, by the code of the user-mode driver and of the
//! kernel: the process stores to the doorbell through the mapping, has a full fence, and loads the
//! status. The kernel stores the status and has a full fence before the hardware looks at the page
//! for the last time and the mapping shows the dummy page. So a process that reads CONNECTED has
//! rung the hardware.
//!
//! `doorbell-order` is a model of the same race. Here there is no hint after the ring: its locked
//! operations would hide a missing fence. Without the hint the engine may stay asleep, so the
//! scenario asserts nothing about the work.
//!
//! The kernel disconnects the doorbell when it takes the power of an idle engine, or because the
//! driver victimises it.

use crate::plan::{Plan, Plans};
use crate::race::{Prepare, Race};
use crate::seam::LeftOut;
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::ddi::{DisconnectReason, Passive};
use tidegate::dxgkrnl::{Adapter, PowerManagement};
use tidegate::explorer::{Prepared, Verdict};
use tidegate::{Platform, Submission};

const RANG: &str = "the ring met the hardware";
const REPEATED: &str = "the process read RETRY and rang again";

const PLANS: Plans =
    Plans { short: Plan::sampled(40_000), full: Plan::sampled(3_000_000), bugs: Plan::sampled(1) };

const fn race(name: &'static str, about: &'static str, prepare: Prepare) -> Race {
    let marks = &[RANG, REPEATED];
    let agents = &["engine", "timer", "main", "other"];
    Race { name, about, marks, agents, planted: &[], plans: PLANS, prepare, bug: None }
}

pub(crate) const BY_KERNEL: Race = race(
    "ring-against-disconnect",
    "the kernel takes a doorbell away while it is rung: a process that reads CONNECTED has rung the hardware",
    |platform, _| {
        prepare(platform, |world| {
            let adapter = world.machine.adapter().clone();
            Box::new(move || Adapter::power_down_idle_engines(&adapter))
        })
    },
);

pub(crate) const BY_DRIVER: Race = race(
    "ring-against-callback",
    "the driver takes a doorbell away while it is rung: a process that reads CONNECTED has rung the hardware",
    |platform, _| {
        prepare(platform, |world| {
            let first = world.first.clone();
            Box::new(move || {
                let told = first.take_away(&Passive::enter(), DisconnectReason::Retry);
                assert_eq!(told, Some(Ok(())), "the kernel knows the doorbell");
            })
        })
    },
);

/// What takes the doorbell away.
type Other = Box<dyn FnOnce() + Send>;

fn prepare(platform: &Platform, other: impl FnOnce(&World) -> Other) -> Prepared {
    let setting = Setting {
        left_out: LeftOut::RingHint,
        power: PowerManagement::Managed,
        ..Setting::default()
    };
    let world = World::new(platform, setting);
    let (queue, fence) = (world.queue("copy", Submission::User, 0), world.fence("done"));
    queue.signal(&fence, 1).expect("a submission");
    world.first.look_at_the_end();
    let (spawner, rings, other) = (platform.clone(), queue.clone(), other(&world));
    let (before, signalled) = (queue.stats().retries, fence.clone());
    let main = move || {
        spawner.spawn("other", other);
        ends_well(rings.signal(&signalled, 2));
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let repeated = queue.stats().retries > before;
        // A ring of a disconnected doorbell counts only if the hardware's last reading found it.
        let rung = world.first.last_look().or_else(|| world.first.rung()) == Some(2);
        end.always("a process that reads CONNECTED has rung the hardware", rung || repeated);
        end.sometimes(RANG, rung && !repeated);
        end.sometimes(REPEATED, repeated);
        world.must_be_sound(end);
        drop(fence);
    })
}
