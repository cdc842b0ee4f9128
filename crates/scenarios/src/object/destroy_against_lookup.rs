//! Destroy calls against callers that iterate over all objects of the adapter. Two processes create
//! and destroy user-mode queues and doorbells. Meanwhile idle engines are powered down, which
//! disconnects every doorbell of the engine.
//!
//! A destroyed doorbell is removed from all lists and from the driver, even if another caller still
//! holds a reference. Otherwise later calls of the process would fail: creating another doorbell of
//! the queue, or destroying the queue.

use crate::prelude::*;
use tidegate::calls::CreateDoorbell;
use tidegate::platform::once;

const TAKEN: &str = "the iteration found a doorbell";
const FREE: &str = "a doorbell stayed connected until it was destroyed";

pub(crate) const RACE: Race = Race {
    name: "destroy-against-lookup",
    about: "two processes create and destroy user-mode queues while all doorbells are iterated: no call is refused",
    marks: &[TAKEN, FREE],
    planted: bugs! {
        "late-end" => Driver(LeftOut::DoorbellEnd),
            "a doorbell lives until its last reference is dropped: the destroy call returns before the driver released it";
    },
    shape: Shape::Machine(&[setting::MANAGED_POWER]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

/// A process with the memory for one ring.
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

    /// Creates a queue, two doorbells in sequence, and destroys all of them.
    fn create_and_destroy_queue(&self) -> Result<(), Status> {
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
    let world = run.world();
    let [own, other] = ["one", "two"].map(|name| Process::new(&world, name));
    let done: [Arc<OnceLock<Result<(), Status>>>; 2] = Default::default();
    let ([of_own, of_other], adapter) = (done.clone(), world.machine.adapter().clone());
    let main = move |platform: &Platform| {
        platform.spawn("other", move || {
            once::make_first(&of_other, || other.create_and_destroy_queue());
        });
        platform.spawn("power", move || adapter.power_down_idle_engines());
        once::make_first(&of_own, || own.create_and_destroy_queue());
    };
    world.race(main, move |world, end| {
        let results = done.each_ref().map(|done| done.get().copied());
        end.eventually("both processes finish", results.iter().all(Option::is_some));
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
