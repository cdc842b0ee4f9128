//! One client of a service has two devices. The work of the first waits for a fence of the second.
//! A thread destroys the first device, which waits for its work, while another thread signals.
//!
//! The signal's call is answered while the device ends, so the work is done and no end waits for
//! the TDR delay.

use crate::prelude::*;
use crate::service::served::{SHARED, Served, WAITS};
use tidegate::calls::CpuWaitRegistration;

const BEGUN: &str = "the end of the device had begun before the signal";
const NOT_BEGUN: &str = "the signal came before the end of the device";

/// What the work stores.
const DONE: u64 = 7;

const STATUS: usize = notes::OWN;
const WAITED: usize = notes::OWN + 1;
const VALUE: usize = notes::OWN + 2;

const MILLISECOND: u64 = 1_000_000;

pub(crate) const RACE: Race = Race {
    name: "served-device-end-against-signal",
    about: "a client of a service signals what the work of its ending device waits for: the call is answered meanwhile, and the work is done",
    marks: &[BEGUN, NOT_BEGUN],
    planted: bugs! {
        "in-turn" => Scenario,
            "no slot is free, so the session makes the call before it answers: the signal waits for the end, which waits for the signal";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

/// Registers waits that do not end.
fn take_all_slots(
    platform: &Platform,
    client: &Client,
    fence: &FenceInstance,
) -> Vec<CpuWaitRegistration> {
    let wait = |_| {
        let notice = WaitNotice::Event(platform.event(false));
        client.kernel.register_cpu_wait(&at(fence, DONE + 1), WaitMode::All, notice)
    };
    (0..WAITS).map(|slot| wait(slot).expect("a free slot")).collect()
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let in_turn = run.has("in-turn");
    let main = move |platform: &Platform| {
        let (process, other, queue, [gate, done]) = platform.unexplored(|| {
            let process = service.connect("two devices");
            let (ending, kernel) = (&process.client, process.client.kernel.clone());
            let device = kernel.create_device().expect("a device");
            let other = Client::of(platform, kernel, device);
            let fences = [(); 2].map(|()| other.try_native(0, SHARED).expect("a fence"));
            let [gate, done] = fences.each_ref().map(|f| ending.open_fence(&other.share_all(f)));
            let queue = ending.connected_queue(0);
            queue.put(&wait_packet(&gate, 1, u32::MAX));
            queue.put(&signal_packet(&done, DONE, u32::MAX));
            queue.doorbell.last_queued.store(1);
            queue.push(&ending.execute_packet(&[Command::Timed { ns: 1 }], 1));
            (process, other, queue, fences)
        });
        let waits = match in_turn {
            true => platform.unexplored(|| take_all_slots(platform, &other, &done)),
            false => Vec::new(),
        };
        let from = platform.now();
        let (device, kernel) = (process.client.device, process.client.kernel.clone());
        let destroys = platform.spawn("destroyer", move || {
            kernel.destroy_device(device).expect("the end of the device");
        });
        probe.note(STATUS, queue.doorbell.status.load());
        other.signal(&gate, 1);
        destroys.join();
        probe.note(WAITED, platform.now().since(from));
        probe.note(VALUE, done.value.load());
        drop((waits, process, other, queue));
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        let (waited, value) = (world.probe.seen(WAITED), world.probe.seen(VALUE));
        end.always("no end waits for the TDR delay", waited.is_none_or(|ns| ns < MILLISECOND));
        end.always("the work is done", value.is_none_or(|value| value == DONE));
        let had_begun = DoorbellStatus::DisconnectedAbort as u64;
        end.sometimes(BEGUN, world.probe.seen(STATUS) == Some(had_begun));
        end.sometimes(NOT_BEGUN, world.probe.seen(STATUS).is_some_and(|seen| seen != had_begun));
    })
}
