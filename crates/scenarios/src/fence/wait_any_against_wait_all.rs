//! A wait for any of two events against a wait for all of two others, with one event in common. The
//! wait for all holds the common event for a moment. Another thread takes its second event
//! meanwhile, so it gives the common one back.
//!
//! Each of the two waits sets both events when it has ended. So both end: a wait for any that met
//! the held event is woken when it is given back, and only then is the second event set again.

use crate::prelude::*;

const ALL_FIRST: &str = "the wait for all ended before the wait for any";
const ANY_FIRST: &str = "the wait for any ended before the wait for all";

/// The number of waits that had ended before.
const ALL: usize = notes::OWN;
const ANY: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "wait-any-against-wait-all",
    about: "a thread waits for any of several events while another holds one of them for a wait for all: both waits end",
    marks: &[ALL_FIRST, ANY_FIRST],
    planted: bugs! {
        "given-back-silently" => Product(PlantedFault::GivenBackWithoutAWake),
            "an event that a wait for all gives back wakes no wait for several events: the wait for any sleeps for ever";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let new = || world.device.create_event(EventDesc::auto_reset());
    let [common, second, never] = [new(), new(), new()];
    let page = run.platform.page(2);
    let ended = page.word(0).named("waits that have ended");
    let any_is_over = page.word(1).named("whether the wait for any has ended");
    common.set();
    second.set();
    let probe = world.probe.clone();
    let events = [common.clone(), second.clone()];
    let main = move |platform: &Platform| {
        let (own, also, order) = (common.clone(), second.clone(), ended.clone());
        let (noted, over) = (probe.clone(), any_is_over.clone());
        platform.spawn("any", move || {
            match tidegate::d3d12::Event::wait_any(&[&own, &never]) {
                Ok(0) => {}
                Ok(_) => panic!("an event that is never set"),
                Err(stopped) => return assert_ok(Err(stopped)),
            }
            noted.note(ANY, order.fetch_add(1));
            over.exchange(1);
            own.set();
            also.set();
        });
        let taken = second.clone();
        platform.spawn("one", move || {
            // The end of the wait for any sets the event later if it is still to come.
            if taken.try_take() && any_is_over.load() == 1 {
                taken.set();
            }
        });
        assert_ok(tidegate::d3d12::Event::wait_all(&[&common, &second]));
        probe.note(ALL, ended.fetch_add(1));
        common.set();
        second.set();
    };
    world.race_without_pause(main, move |world, end| {
        let set = events.each_ref().map(|event| event.is_set());
        end.eventually("each wait gives back what it has taken", set[0]);
        end.sometimes(ALL_FIRST, world.probe.seen(ALL) == Some(0));
        end.sometimes(ANY_FIRST, world.probe.seen(ANY) == Some(0));
    })
}
