//! A client of a service shares a fence under a name and dies. Another client has a copy of the
//! handle: it opens the fence, closes its copy, and shares another fence under the same name.
//!
//! The handle lives while a copy is open, also after its maker's death, and the name is free once
//! the last copy is closed, also before the dead client's session has ended.

use crate::prelude::*;
use crate::service::served::{SHARED, Served};
use tidegate::service::client::copy_nt_handle;

const OUTLIVED: &str = "the session of the dead client ended before the fence was opened";
const LEFT: &str = "the session of the dead client had not ended when the name was used again";

const LIVE_AT_OPEN: usize = notes::OWN;
const LIVE_AT_NAME: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "served-handle-against-death",
    about: "a client of a service dies while another opens the fence that it shared: the handle lives, and then its name is free",
    marks: &[OUTLIVED, LEFT],
    planted: bugs! {
        "name-kept" => Product(PlantedFault::NameIsKept),
            "closed handles are looked for at the end of a session alone: the name of a closed handle is taken";
        "sweeps-overlap" => Product(PlantedFault::SweepsOverlap),
            "a session looks for closed handles while another ends what it has found: the name is still taken";
        "own-copy-seen" => Product(PlantedFault::OwnCopySeen),
            "a session hands a handle over and closes its own copy later: to another session the handle seems open";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let (maker, mine, other, copy) = platform.unexplored(|| {
            let (maker, other) = (service.connect("maker"), service.connect("other"));
            let fence = maker.client.try_monitored(0, SHARED).expect("a fence");
            let (objects, access) = ([fence.handle], SyncObjectAccess::all());
            let kernel = &maker.client.kernel;
            let mine = kernel.share_objects(&objects, access, Some("n")).expect("a handle");
            let copy = copy_nt_handle(&mine).expect("a copy");
            (maker, mine, other, copy)
        });
        let life = maker.life;
        let dying = platform.spawn("death", move || {
            drop(mine);
            life.end();
        });
        probe.note(LIVE_AT_OPEN, service.sessions.live());
        let opened = other.client.open_fence(&copy);
        drop(copy);
        dying.join();
        probe.note(LIVE_AT_NAME, service.sessions.live());
        let (objects, access) = ([opened.handle], SyncObjectAccess::all());
        let again = other.client.kernel.share_objects(&objects, access, Some("n"));
        drop(again.expect("a free name"));
        drop((maker.client, other));
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        end.sometimes(OUTLIVED, world.probe.seen(LIVE_AT_OPEN) == Some(1));
        end.sometimes(LEFT, world.probe.seen(LIVE_AT_NAME) == Some(2));
    })
}
