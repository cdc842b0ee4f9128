//! A client of a service is killed, as by SIGKILL, at any step of its calls: it signals a fence that a
//! neighbour has opened, and waits for it. The neighbour waits for the same fence.
//!
//! The fence keeps its value and works on: the neighbour signals what the dead client did not, and its
//! wait ends. The process of the dead client ends with its session.

use crate::prelude::*;
use crate::served::{Served, passes};
use tidegate::calls::{DeviceErrorReason, SignalFlags, Status, WaitMode};
use tidegate_testbed::at;

const SIGNALLED: &str = "the client signalled before its death";
const UNSENT: &str = "the client died before its signal";
const UNANSWERED: &str = "the signal was carried out, and its answer lost";
const WAITED: &str = "the client died in its wait";

const ANSWERED: usize = notes::OWN;
const VALUE: usize = notes::OWN + 1;
const WAIT_BEGAN: usize = notes::OWN + 2;

pub(crate) const RACE: Race = Race {
    name: "served-kill-against-call",
    about: "a client of a service is killed between its calls and their answers: its neighbour's wait ends, and nothing is left of it",
    marks: &[SIGNALLED, UNSENT, UNANSWERED, WAITED],
    planted: &[Bug {
        name: "death-as-fault",
        about: "the device of the client is lost before its death: the fence rises to its maximum, as after a timeout",
        fault: Fault::Scenario,
    }],
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(|_| ());
    let census = |world: &World| (world.machine.adapter().census(), world.machine.gpu().census());
    let before = census(&world);
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let dies_of_fault = run.bug.is_some();
    let main = move |platform: &Platform| {
        let [(victim, tothers), (neighbour, own)] =
            platform.unexplored(|| service.connect_two(["victim", "neighbour"]));
        let (calls, device, life) = (victim.client.kernel, victim.client.device, victim.life);
        let noted = probe.clone();
        let dying = platform.spawn("victim", move || {
            if dies_of_fault {
                let _ = calls.mark_device_as_error(device, DeviceErrorReason::Generic);
            }
            if calls.signal_from_cpu(&at(&tothers, 1), SignalFlags::empty()).is_ok() {
                noted.note(ANSWERED, 1);
                let waited = calls.wait_from_cpu(&at(&tothers, 2), WaitMode::All, None);
                noted.note(WAIT_BEGAN, 1);
                assert!(matches!(waited, Err(Status::DEVICE_REMOVED | Status::CANCELLED)));
            }
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
        end.sometimes(WAITED, world.noted(WAIT_BEGAN));
    })
}
