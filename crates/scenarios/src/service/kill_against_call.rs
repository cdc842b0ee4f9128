//! A client of a service is killed, as by SIGKILL, at any step of its calls: it signals a fence
//! that a neighbour has opened, creates and shares one, and waits. The neighbour waits for the same
//! fence.
//!
//! The fence keeps its value and works on: the neighbour signals what the dead client did not, and
//! its wait ends. The process of the dead client ends with its session, and with it the handle that
//! it shared.

use crate::prelude::*;
use crate::service::served::{SHARED, Served, passes};

const SIGNALLED: &str = "the client signalled before its death";
const UNSENT: &str = "the client died before its signal";
const UNANSWERED: &str = "the signal was carried out, and its answer lost";
const HELD: &str = "the client died with an NT handle";
const WAITED: &str = "the client died in its wait";

const ANSWERED: usize = notes::OWN;
const VALUE: usize = notes::OWN + 1;
const WAIT_BEGAN: usize = notes::OWN + 2;
const HAS_HANDLE: usize = notes::OWN + 3;

pub(crate) const RACE: Race = Race {
    name: "served-kill-against-call",
    about: "a client of a service is killed between its calls and their answers: its neighbour's wait ends, and nothing is left of it",
    marks: &[SIGNALLED, UNSENT, UNANSWERED, HELD, WAITED],
    planted: bugs! {
        "death-as-fault" => Scenario,
            "the device of the client is lost before its death: the fence rises to its maximum, as after a timeout";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

/// Makes the client's calls until one fails.
fn make_calls(client: &Client, shared: &FenceInstance, probe: &Probe) -> Status {
    let calls = || {
        client.kernel.signal_from_cpu(&at(shared, 1), SignalFlags::empty())?;
        probe.note(ANSWERED, 1);
        let own = client.try_monitored(0, SHARED)?;
        let _handle = client.share(&own, SyncObjectAccess::all())?;
        probe.note(HAS_HANDLE, 1);
        let waited = client.kernel.wait_from_cpu(&at(shared, 2), WaitMode::All, None);
        probe.note(WAIT_BEGAN, 1);
        waited
    };
    calls().expect_err("the client is killed at the latest in its wait")
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let census = |world: &World| (world.machine.adapter().census(), world.machine.gpu().census());
    let before = census(&world);
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let dies_of_fault = run.bug.is_some();
    let main = move |platform: &Platform| {
        let [(victim, theirs), (neighbour, own)] =
            platform.unexplored(|| service.connect_two(["victim", "neighbour"]));
        let (victim, life) = (victim.client, victim.life);
        let noted = probe.clone();
        let dying = platform.spawn("victim", move || {
            if dies_of_fault {
                let reason = DeviceErrorReason::Generic;
                let _ = victim.kernel.mark_device_as_error(victim.device, reason);
            }
            let end = make_calls(&victim, &theirs, &noted);
            assert!(matches!(end, Status::DEVICE_REMOVED | Status::CANCELLED), "{end:?}");
        });
        let calls = neighbour.client.kernel.clone();
        let (fence, others) = (own.clone(), calls.clone());
        let waiting = platform.spawn("neighbour", move || {
            passes(calls.wait_from_cpu(&at(&fence, 1), WaitMode::All, None));
        });
        life.end();
        dying.join();
        let value = own.value.get().expect("a value");
        probe.note(VALUE, value);
        others.signal_from_cpu(&at(&own, 1), SignalFlags::empty()).expect("a signal");
        waiting.join();
        drop((neighbour, others));
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        // Regions that the kernel makes once and keeps are no object of a process.
        let mut left = census(world);
        left.0.memory_regions = before.0.memory_regions;
        end.always("no object of a process is left", left == before);
        let (value, answered) = (world.probe.seen(VALUE), world.noted(ANSWERED));
        end.always("the fence keeps its value", value.is_none_or(|value| value <= 1));
        end.always("an answered signal is carried out", !answered || value == Some(1));
        end.sometimes(SIGNALLED, answered);
        end.sometimes(UNSENT, value == Some(0));
        end.sometimes(UNANSWERED, !answered && value == Some(1));
        end.sometimes(HELD, world.noted(HAS_HANDLE));
        end.sometimes(WAITED, world.noted(WAIT_BEGAN));
    })
}
