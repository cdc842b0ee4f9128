//! Hang detection at rest against a signal that calls no kernel. A queue waits until detection
//! rests. While the engines are sampled at rest, another engine signals its fence, and the work
//! behind the wait hangs. That sample or the next one finds it, and its waiter is released.

use crate::prelude::*;

const S: u64 = 1_000_000_000;
/// Detection rests after the samples at 2 s and at 4 s.
const RESTS: CpuTime = CpuTime(5 * S);
/// A deadline that lets time pass, far beyond the time within which the hang has to be found.
const END: CpuTime = CpuTime(20 * S);

const BY_THIS: &str = "the sample during which the signal came finds the hang";
const BY_NEXT: &str = "the next sample finds it";

const FOUND_AT: usize = notes::OWN;

pub(crate) const RACE: Race = Race {
    name: "rest-against-unblock",
    about: "an engine signals the fence of a queue while hang detection rests: the work that hangs behind the wait is found",
    marks: &[BY_THIS, BY_NEXT],
    planted: bugs! {
        "no-sample-at-rest" => Product(PlantedFault::HangDetectionRests),
            "the kernel samples no engine after two equal samples, until a call announces work";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(3_000, 300_000, 1_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (guilty, signaller) = (world.queue_at(0, "guilty"), world.queue_at(1, "signaller"));
    let (gate, never, warm) = (world.fence("gate"), world.fence("never"), world.fence("warm"));
    // Its doorbell is connected, so its next signal is a store.
    signaller.signal(&warm, 1).expect("a signal");
    guilty.wait(&gate, 1).expect("a wait");
    let hang = world.keep(list_of(&world.device, |list| list.hang()));
    guilty.execute(&[&hang]).expect("a submission");
    guilty.signal(&never, 1).expect("a signal");
    let at_rest = world.sampled_after(RESTS);
    let probe = world.probe.clone();
    let main = move |platform: &Platform| {
        let clock = platform.clone();
        platform.spawn("clock", move || {
            clock.sleep_until(END);
        });
        let (clock, found) = (platform.clone(), probe);
        let waiter = platform.spawn("waiter", move || match never.wait(1) {
            Err(Error::DeviceRemoved(_)) => found.note(FOUND_AT, clock.now().0 / S),
            call => assert_ok(call),
        });
        let _sampled = at_rest.wait();
        assert_ok(signaller.signal(&gate, 1));
        waiter.join();
    };
    world.race(main, move |world, end| {
        let found_at = world.probe.seen(FOUND_AT);
        end.eventually("the hang is found and its waiter released", found_at.is_some());
        end.always("within two samples", found_at.is_none_or(|at| at <= 10));
        end.sometimes(BY_THIS, found_at == Some(8));
        end.sometimes(BY_NEXT, found_at == Some(10));
    })
}
