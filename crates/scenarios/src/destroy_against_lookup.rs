//! The race of destroy calls with callers that look through all objects of the adapter: two
//! processes make and destroy user-mode queues and their doorbells while the power of idle engines
//! is taken, for which every doorbell of the engine is disconnected.
//!
//! A destroyed doorbell is in no list and has ended with the driver, although another caller still
//! holds a reference. Otherwise the next calls of the process are refused: another doorbell of the
//! same queue, and the end of the queue.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, until_quiet};
use std::sync::{Arc, OnceLock};
use tidegate::Platform;
use tidegate::calls::{
    AllocationKind, CreateAllocation, CreateDoorbell, CreateDoorbellFlags, CreateHwContext,
    CreateHwQueue, Handle, Kernel, Placement, Priority, Status,
};
use tidegate::dxgkrnl::PowerManagement;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::gpu_abi::{CONTROL_WORDS, SLOT_BYTES};

const TAKEN: &str = "the doorbells were looked through while there was one";
const FREE: &str = "a doorbell kept its hardware to its end";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "late-end",
    about: "a doorbell ends when its last holder lets go: its destroy call returns before the driver has let go of it",
}];

pub(crate) const RACE: Race = Race {
    name: "destroy-against-lookup",
    about: "two processes make and destroy user-mode queues while all doorbells are looked through: no call is refused",
    marks: &[TAKEN, FREE],
    agents: &["engine", "timer", "main", "other", "power"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::sampled(3_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

/// A process by the typed calls, with the memory of one ring.
struct Client {
    kernel: Arc<dyn Kernel>,
    context: Handle,
    ring: Handle,
    control: Handle,
}

impl Client {
    fn new(world: &World, name: &str) -> Client {
        let kernel = world.machine.open(name).expect("a process");
        let device = kernel.create_device().expect("a device");
        let context = CreateHwContext { device, node_ordinal: 0, engine_affinity: 0 };
        let context = kernel.create_hw_context(context).expect("a context");
        let allocate = |bytes, kind| {
            let args = CreateAllocation { device, bytes, kind, placement: Placement::System };
            kernel.create_allocation(args).expect("memory").handle
        };
        let ring = allocate(4 * SLOT_BYTES, AllocationKind::Bulk);
        let control = allocate(CONTROL_WORDS as u64 * 8, AllocationKind::Protocol);
        Client { kernel, context, ring, control }
    }

    /// A queue with one doorbell after the other, and the end of all of them.
    fn makes_and_destroys(&self) -> Result<(), Status> {
        let args = CreateHwQueue {
            hw_context: self.context,
            user_mode_submission: true,
            priority: Priority::Normal,
            tag: 1,
        };
        let hw_queue = self.kernel.create_hw_queue(args)?.handle;
        let doorbell = CreateDoorbell {
            hw_queue,
            ring: self.ring,
            control: self.control,
            flags: CreateDoorbellFlags::empty(),
            private_data: Vec::new(),
        };
        for _ in 0..2 {
            let doorbell = self.kernel.create_doorbell(doorbell.clone())?.handle;
            self.kernel.connect_doorbell(doorbell)?;
            self.kernel.destroy_doorbell(doorbell)?;
        }
        self.kernel.destroy_hw_queue(hw_queue)
    }
}

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug.is_some() { LeftOut::DoorbellEnd } else { LeftOut::Nothing };
    let power = PowerManagement::Managed;
    let world = World::new(platform, Setting { power, left_out, ..Setting::default() });
    let [own, other] = ["one", "two"].map(|name| Arc::new(Client::new(&world, name)));
    let done: [Arc<OnceLock<Result<(), Status>>>; 2] = Default::default();
    let (spawner, adapter) = (platform.clone(), world.machine.adapter().clone());
    let ([of_own, of_other], client, second) = (done.clone(), own.clone(), other.clone());
    let main = move || {
        spawner.spawn("other", move || {
            of_other.get_or_init(|| second.makes_and_destroys());
        });
        spawner.spawn("power", move || adapter.power_down_idle_engines());
        of_own.get_or_init(|| client.makes_and_destroys());
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let results = done.each_ref().map(|done| done.get().copied());
        end.eventually("both processes come to their end", results.iter().all(Option::is_some));
        end.always("no call is refused", results.iter().flatten().all(Result::is_ok));
        let left = world.machine.adapter().census();
        end.eventually(
            "no queue and no doorbell is left",
            (left.hw_queues, left.doorbells) == (0, 0),
        );
        let taken = world.probe.seen(notes::DISCONNECTED).is_some();
        end.sometimes(TAKEN, taken);
        end.sometimes(FREE, !taken);
        world.must_be_sound(end);
        drop((own, other));
    })
}
