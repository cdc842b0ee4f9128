//! A process is terminated while its context waits for a mutex, has it or signals it. The mutex
//! belongs to a neighbour, whose context has it first, signals it, waits for it again, and then
//! signals a fence.
//!
//! Whenever the process ends, the neighbour gets the mutex: what has ended acquires nothing, and
//! what it had is signalled for it.

use crate::prelude::*;

const CALLED: &str = "the process signalled the mutex before its end";
const REFUSED: &str = "the process was refused the signal, because it had ended";

const CALLS: usize = notes::OWN;
const GONE: usize = notes::OWN + 1;
const ENDED: usize = notes::OWN + 2;

pub(crate) const RACE: Race = Race {
    name: "mutex-against-death",
    about: "a process that waits for a mutex, has it or signals it is terminated: its neighbour gets the mutex",
    marks: &[CALLED, REFUSED],
    planted: bugs! {
        "owned-by-the-dead" => Product(PlantedFault::OwnedByTheDead),
            "a context that ends keeps its mutex";
        "granted-to-the-dead" => Product(PlantedFault::GrantedToTheDead),
            "a context that has ended is granted a mutex";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let neighbour = world.client("neighbour");
    let (done, own) = (neighbour.monitored(0), neighbour.context(0));
    let created = neighbour.kernel.create_synchronization_object(CreateSynchronizationObject {
        device: neighbour.device,
        object: OlderObject::Mutex { owned: false },
        flags: SyncObjectFlags::SHARED,
    });
    let created = created.expect("a mutex");
    let process = world.machine.process("victim").expect("a process");
    let device = process.create_device().expect("a device");
    let victim = Client::of(run.platform, process.clone(), device);
    let context = victim.context(0);
    let opened = OpenSynchronizationObject::Shared(created.shared_handle);
    let opened = victim.kernel.open_synchronization_object(opened).expect("a mutex");
    // The neighbour has the mutex, and the victim waits for it.
    let calls = &neighbour.kernel;
    calls.wait_for_synchronization_objects(own, &[created.handle], 0).expect("a wait");
    victim.kernel.wait_for_synchronization_objects(context, &[opened], 0).expect("a wait");
    let (probe, value) = (world.probe.clone(), done.value.clone());
    let main = move |platform: &Platform| {
        let noted = probe.clone();
        let signal = |client: &Client, context: Handle, mutex: Handle| {
            let flags = SignalFlags::empty();
            client.kernel.signal_synchronization_objects(&[context], &[mutex], flags, 0)
        };
        let thread = platform.spawn("victim", move || match signal(&victim, context, opened) {
            Ok(()) => noted.note(CALLS, 1),
            Err(_) => noted.note(GONE, 1),
        });
        let other = platform.spawn("neighbour", move || {
            let (calls, mutex) = (&neighbour.kernel, created.handle);
            signal(&neighbour, own, mutex).expect("a signal");
            calls.wait_for_synchronization_objects(own, &[mutex], 0).expect("a wait");
            calls.signal_from_gpu(own, &at(&done, 1)).expect("a signal");
        });
        process.terminate();
        probe.note(ENDED, 1);
        assert_eq!((thread.join(), other.join()), (WaitEnd::Woken, WaitEnd::Woken));
    };
    world.race(main, move |world, end| {
        let [ended, called, gone] = [ENDED, CALLS, GONE].map(|note| world.noted(note));
        end.eventually("the process is terminated", ended);
        end.eventually("the neighbour gets the mutex", value.get() == Some(1));
        end.sometimes(CALLED, called);
        end.sometimes(REFUSED, gone);
    })
}
