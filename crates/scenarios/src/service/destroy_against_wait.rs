//! One client of a service has two devices. A wait for a fence of the first is over, and its
//! registration lives on. A thread drops it and destroys the device, while another thread registers
//! a wait for a fence of the second device, in the same slot, and signals.
//!
//! The notice of the second wait is given once: a registration ends its own wait and no later one.

use crate::prelude::*;
use crate::service::served::Served;

const BEFORE: &str = "the first registration ended before the second wait was registered";
const AFTER: &str = "the first registration ended after the second wait was registered";

const GIVEN: usize = notes::OWN;
const ENDED_AFTER: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "served-destroy-against-wait",
    about: "a client of a service destroys a device while another of its devices waits in the slot of an ended wait: its notice is given once",
    marks: &[BEFORE, AFTER],
    planted: bugs! {
        "known-by-slot" => Product(PlantedFault::RegistrationIsKnownByItsSlot),
            "a registration is known by its slot: the end of one that is over cancels the next wait of the slot";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

/// Counts its calls.
struct Callback(Word);

impl WaitCallback for Callback {
    fn wait_is_over(&self) {
        self.0.fetch_add(1);
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let page = run.platform.page(3);
    let word = |index, name| page.word(index).named(name);
    let first = Arc::new(Callback(word(0, "notices of the first wait")));
    let second = Arc::new(Callback(word(1, "notices of the second wait")));
    let is_registered = word(2, "whether the second wait is registered");
    let main = move |platform: &Platform| {
        let (process, other, [own, theirs], ended) = platform.unexplored(|| {
            let process = service.connect("two devices");
            let kernel = process.client.kernel.clone();
            let device = kernel.create_device().expect("a device");
            let other = Client::of(platform, kernel.clone(), device);
            let fence = |client: &Client| {
                client.try_monitored(0, SyncObjectFlags::empty()).expect("a fence")
            };
            let fences = [fence(&process.client), fence(&other)];
            let notice = WaitNotice::Callback(first.clone());
            let wait = kernel.register_cpu_wait(&at(&fences[0], 1), WaitMode::All, notice);
            kernel.signal_from_cpu(&at(&fences[0], 1), SignalFlags::empty()).expect("a signal");
            (process, other, fences, wait.expect("a wait"))
        });
        let (device, kernel) = (process.client.device, process.client.kernel.clone());
        let (registered, noted) = (is_registered.clone(), probe.clone());
        let destroys = platform.spawn("destroyer", move || {
            noted.note(ENDED_AFTER, registered.load());
            drop(ended);
            kernel.destroy_device(device).expect("the end of the device");
        });
        let notice = WaitNotice::Callback(second.clone());
        let wait = other.kernel.register_cpu_wait(&at(&theirs, 1), WaitMode::All, notice);
        is_registered.exchange(1);
        other.kernel.signal_from_cpu(&at(&theirs, 1), SignalFlags::empty()).expect("a signal");
        destroys.join();
        drop((wait.expect("a wait"), own));
        probe.note(GIVEN, first.0.load() << 8 | second.0.load());
        drop((process, other));
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        let given = world.probe.seen(GIVEN);
        end.always("each notice is given once", given.is_none_or(|given| given == 0x101));
        end.sometimes(BEFORE, world.probe.seen(ENDED_AFTER) == Some(0));
        end.sometimes(AFTER, world.probe.seen(ENDED_AFTER) == Some(1));
    })
}
