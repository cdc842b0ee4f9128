//! The creation of an object against the destruction of what it belongs to: a doorbell against its
//! hardware queue, and a fence against its device.
//!
//! The destruction either finds the new object or the creation is refused. No object is left without
//! its owner.

use crate::prelude::*;
use std::sync::{Arc, OnceLock};
use tidegate::calls::{
    AllocationKind, CreateDoorbell, CreateDoorbellFlags, Handle, Status, SyncObjectFlags,
};
use tidegate::gpu_abi::{CONTROL_WORDS, SLOT_BYTES};

const FIRST: &str = "the object was created first";
const REFUSED: &str = "the creation was refused";

pub(crate) const OF_DOORBELL: Race = Race {
    name: "create-doorbell-against-destroy",
    about: "a hardware queue is destroyed while a doorbell is created for it: one of the two is refused",
    marks: &[FIRST, REFUSED],
    planted: &[Bug {
        name: "listed-late",
        about: "the doorbell enters the adapter's table after the lock of transitions was dropped",
        fault: Fault::Product("a doorbell is listed late"),
    }],
    plans: Plans::samples(20_000, 1_000_000, 100_000),
    prepare: prepare_doorbell,
};

pub(crate) const OF_FENCE: Race = Race {
    name: "create-fence-against-destroy",
    about: "a device is destroyed while a fence is created on it: the fence ends with it, or is refused",
    marks: &[FIRST, REFUSED],
    planted: &[Bug {
        name: "retired-late",
        about: "the device is retired after its objects were destroyed",
        fault: Fault::Product("a device is retired late"),
    }],
    plans: Plans::samples(20_000, 1_000_000, 100_000),
    prepare: prepare_fence,
};

/// The outcomes of the creation and of the destruction.
#[derive(Clone, Default)]
struct Outcomes {
    created: Arc<OnceLock<Result<Handle, Status>>>,
    destroyed: Arc<OnceLock<Result<(), Status>>>,
}

fn prepare_doorbell(run: &Run<'_>) -> Prepared {
    let world = run.world(|_| ());
    let client = world.client("one");
    let ring = client.allocate(4 * SLOT_BYTES, AllocationKind::Bulk).handle;
    let control = client.allocate(CONTROL_WORDS as u64 * 8, AllocationKind::Protocol).handle;
    let hw_queue = client.try_hw_queue(0, true).expect("a queue").handle;
    let (outcomes, kernel) = (Outcomes::default(), client.kernel);
    let (Outcomes { created, destroyed }, other) = (outcomes.clone(), kernel.clone());
    let main = move |platform: &Platform| {
        platform.spawn("destroyer", move || {
            destroyed.get_or_init(|| other.destroy_hw_queue(hw_queue));
        });
        let flags = CreateDoorbellFlags::empty();
        let args = CreateDoorbell { hw_queue, ring, control, flags, private_data: Vec::new() };
        created.get_or_init(|| kernel.create_doorbell(args).map(|made| made.handle));
    };
    world.race(main, move |world, end| {
        let both = (outcomes.created.get().copied(), outcomes.destroyed.get().copied());
        let invalid = Some(Err(Status::INVALID_PARAMETER));
        let one = matches!(both, (Some(Ok(_)), second) if second == invalid)
            || both == (invalid_handle(), Some(Ok(())));
        end.always("one of the two is refused", one);
        let left = world.machine.adapter().census();
        end.always("no doorbell is left without its queue", left.doorbells <= left.hw_queues);
        end.sometimes(FIRST, matches!(both.0, Some(Ok(_))));
        end.sometimes(REFUSED, matches!(both.0, Some(Err(_))));
    })
}

fn invalid_handle() -> Option<Result<Handle, Status>> {
    Some(Err(Status::INVALID_PARAMETER))
}

fn prepare_fence(run: &Run<'_>) -> Prepared {
    let world = run.world(|_| ());
    let client = world.client("one");
    let before = world.machine.adapter().census().fences;
    let outcomes = Outcomes::default();
    let (Outcomes { created, destroyed }, other) = (outcomes.clone(), client.clone());
    let main = move |platform: &Platform| {
        platform.spawn("destroyer", move || {
            destroyed.get_or_init(|| other.kernel.destroy_device(other.device));
        });
        let made = client.try_monitored(0, SyncObjectFlags::empty());
        created.get_or_init(|| made.map(|fence| fence.handle));
    };
    world.race(main, move |world, end| {
        let created = outcomes.created.get().copied();
        end.always("the device is destroyed", outcomes.destroyed.get() == Some(&Ok(())));
        let fences = world.machine.adapter().census().fences;
        end.always("no fence is left without its device", fences == before);
        end.sometimes(FIRST, matches!(created, Some(Ok(_))));
        end.sometimes(REFUSED, matches!(created, Some(Err(_))));
    })
}
