//! Destroy calls against callers that walk over all objects of the adapter: two processes make and
//! destroy user-mode queues and their doorbells while the power of idle engines is taken, for which
//! every doorbell of the engine is disconnected.
//!
//! A destroyed doorbell is in no list and has ended with the driver, although another caller still
//! holds a reference. Otherwise the next calls of the process are refused: another doorbell of the
//! same queue, and the end of the queue.

use crate::prelude::*;
use std::sync::{Arc, OnceLock};
use tidegate::calls::{AllocationKind, CreateDoorbell, CreateDoorbellFlags, Handle, Status};
use tidegate::gpu_abi::{CONTROL_WORDS, SLOT_BYTES};
use tidegate_testbed::Client;

const TAKEN: &str = "the doorbells were walked while there was one";
const FREE: &str = "a doorbell kept its hardware to its end";

pub(crate) const RACE: Race = Race {
    name: "destroy-against-lookup",
    about: "two processes make and destroy user-mode queues while all doorbells are walked: no call is refused",
    marks: &[TAKEN, FREE],
    planted: &[Bug {
        name: "late-end",
        about: "a doorbell ends with its last reference: its destroy call returns before the driver has let go of it",
        fault: Fault::Driver(LeftOut::DoorbellEnd),
    }],
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

/// A process with the memory of one ring.
struct Process {
    client: Client,
    context: Handle,
    ring: Handle,
    control: Handle,
}

impl Process {
    fn new(world: &World, name: &str) -> Process {
        let client = world.client(name);
        let ring = client.allocate(4 * SLOT_BYTES, AllocationKind::Bulk).handle;
        let control = client.allocate(CONTROL_WORDS as u64 * 8, AllocationKind::Protocol).handle;
        Process { context: client.hw_context(0), client, ring, control }
    }

    /// A queue with one doorbell after the other, and the end of all of them.
    fn makes_and_destroys(&self) -> Result<(), Status> {
        let kernel = &self.client.kernel;
        let hw_queue = self.client.hw_queue_in(self.context, true)?.handle;
        for _ in 0..2 {
            let doorbell = kernel.create_doorbell(CreateDoorbell {
                hw_queue,
                ring: self.ring,
                control: self.control,
                flags: CreateDoorbellFlags::empty(),
                private_data: Vec::new(),
            })?;
            kernel.connect_doorbell(doorbell.handle)?;
            kernel.destroy_doorbell(doorbell.handle)?;
        }
        kernel.destroy_hw_queue(hw_queue)
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(managed_power);
    let [own, other] = ["one", "two"].map(|name| Process::new(&world, name));
    let done: [Arc<OnceLock<Result<(), Status>>>; 2] = Default::default();
    let ([of_own, of_other], adapter) = (done.clone(), world.machine.adapter().clone());
    let main = move |platform: &Platform| {
        platform.spawn("other", move || {
            of_other.get_or_init(|| other.makes_and_destroys());
        });
        platform.spawn("power", move || adapter.power_down_idle_engines());
        of_own.get_or_init(|| own.makes_and_destroys());
    };
    world.race(main, move |world, end| {
        let results = done.each_ref().map(|done| done.get().copied());
        end.eventually("both processes come to their end", results.iter().all(Option::is_some));
        end.always("no call is refused", results.iter().flatten().all(Result::is_ok));
        let left = world.machine.adapter().census();
        end.eventually(
            "no queue and no doorbell is left",
            (left.hw_queues, left.doorbells) == (0, 0),
        );
        let taken = world.noted(notes::DISCONNECTED);
        end.sometimes(TAKEN, taken);
        end.sometimes(FREE, !taken);
    })
}
