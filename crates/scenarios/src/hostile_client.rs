//! The race of a hostile process with everybody who reads what it writes. Its ring, its control
//! area, its doorbells, its last-queued cell and its commands are in hostile hands: each look at
//! them finds any value, whatever the look before found. With it on the engine, and in want of the
//! same physical doorbell, is a neighbour that does as it should.
//!
//! The neighbour's work completes and its fence has its value; nobody hangs or panics; the hostile
//! device lives, or is lost with a reason.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, plant, until_quiet};
use std::sync::Arc;
use tidegate::calls::{
    Allocation, AllocationKind, AllocationMemory, CreateAllocation, CreateDoorbell,
    CreateDoorbellFlags, CreateHwContext, CreateHwQueue, DeviceState, Doorbell, Handle, Kernel,
    Placement, Priority,
};
use tidegate::d3d12::{Buffer, BufferDesc, Heap};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::gpu_abi::{
    AddressSpaceId, CONTROL_WORDS, CONTROL_WRITE_WORD, Command, CommandWriter, DOORBELL_VALUE_WORD,
    GpuVa, RingPacket, SLOT_BYTES,
};
use tidegate::platform::{Bulk, Page};
use tidegate::{Platform, Submission};

const LOST: &str = "the hostile device was lost";
const SPARED: &str = "the hostile process wrote nothing that cost it its device";
const VICTIMISED: &str = "a doorbell went from one process to the other";

const DOUBLE_FETCH: &str = "double-fetch";
const FAULT_NOT_TOLD: &str = "fault-not-told";

const PLANTED: &[PlantedBug] = &[
    PlantedBug {
        name: DOUBLE_FETCH,
        about: "the engine copies a ring slot out twice: one copy is checked, the other is executed",
    },
    PlantedBug {
        name: FAULT_NOT_TOLD,
        about: "the driver keeps a fault to itself: the queue has stopped, and its device says that it works",
    },
];

pub(crate) const RACE: Race = Race {
    name: "hostile-client-against-neighbour",
    about: "a process whose ring, pointers and doorbells hold anything at any moment: its neighbour notices nothing",
    marks: &[LOST, SPARED, VICTIMISED],
    agents: &["engine", "timer", "main", "neighbour"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::sampled(3_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

const SLOTS: u64 = 4;
/// The neighbour's address space: the processes of a machine are counted from 1.
const NEIGHBOUR: AddressSpaceId = AddressSpaceId(1);

/// A process that goes by the interface's letter and by nothing else.
struct Client {
    kernel: Arc<dyn Kernel>,
    device: Handle,
    doorbell: Doorbell,
    slots: Bulk,
    pointers: Page,
    commands: (Bulk, u64),
    /// A slot that aims at the neighbour.
    crafted: [u8; SLOT_BYTES as usize],
}

impl Client {
    fn new(world: &World, crafted: [u8; SLOT_BYTES as usize]) -> Client {
        let kernel = world.machine.open("hostile").expect("a process");
        let device = kernel.create_device().expect("a device");
        let context = CreateHwContext { device, node_ordinal: 0, engine_affinity: 0 };
        let context = kernel.create_hw_context(context).expect("a context");
        let args = CreateHwQueue {
            hw_context: context,
            user_mode_submission: true,
            priority: Priority::Normal,
            tag: 9,
        };
        let queue = kernel.create_hw_queue(args).expect("a queue");
        let allocate = |bytes, kind| {
            let args = CreateAllocation { device, bytes, kind, placement: Placement::System };
            kernel.create_allocation(args).expect("memory")
        };
        let ring = allocate(SLOTS * SLOT_BYTES, AllocationKind::Bulk);
        let control = allocate(CONTROL_WORDS as u64 * 8, AllocationKind::Protocol);
        let commands = allocate(4096, AllocationKind::Bulk);
        let args = CreateDoorbell {
            hw_queue: queue.handle,
            ring: ring.handle,
            control: control.handle,
            flags: CreateDoorbellFlags::empty(),
            private_data: Vec::new(),
        };
        let doorbell = kernel.create_doorbell(args).expect("a doorbell");
        let AllocationMemory::Protocol(pointers) = control.memory else {
            panic!("words were asked for")
        };
        let commands = (bytes(&commands), commands.gpu_va);
        Client { kernel, device, doorbell, slots: bytes(&ring), pointers, commands, crafted }
    }

    /// From here on its memory holds anything.
    fn turns_hostile(&self) {
        self.slots.hand_to_hostile();
        self.commands.0.hand_to_hostile();
        self.pointers.hand_to_hostile();
        self.doorbell.last_queued.hand_to_hostile();
        self.doorbell.mapping.page().hand_to_hostile();
    }

    /// What a good process would do for one submission of two packets.
    fn submits(&self) {
        let list = commands(&Command::Timed { ns: 1 });
        self.commands.0.write(0, &list).expect("room for a command");
        let (commands, bytes) = (GpuVa(self.commands.1), list.len() as u32);
        let honest = RingPacket::Execute { commands, bytes, progress: 1 };
        self.slots.write(0, &honest.encode()).expect("room for a slot");
        self.slots.write(SLOT_BYTES, &self.crafted).expect("room for a slot");
        self.pointers.store(CONTROL_WRITE_WORD, 2);
        self.doorbell.last_queued.store(2);
        // A connect that is refused, because the device is lost by now, is as good.
        let hint =
            self.kernel.connect_doorbell(self.doorbell.handle).map(|connection| connection.hint);
        self.doorbell.mapping.page().hand_to_hostile();
        self.doorbell.mapping.store(DOORBELL_VALUE_WORD, 2);
        if let Ok(hint) = hint {
            hint.rung();
        }
        let _refused_once_lost = self.kernel.notify_work_submission(self.doorbell.handle);
    }

    fn state(&self) -> DeviceState {
        self.kernel.device_state(self.device).expect("its own device")
    }
}

fn bytes(allocation: &Allocation) -> Bulk {
    match &allocation.memory {
        AllocationMemory::Bulk(bytes) => bytes.clone(),
        AllocationMemory::Window(_) | AllocationMemory::Protocol(_) => {
            panic!("bytes in system memory were asked for")
        }
    }
}

/// A buffer of one command.
fn commands(command: &Command) -> Vec<u8> {
    let mut writer = CommandWriter::new();
    writer.push(command);
    writer.to_bytes()
}

/// Where the neighbour keeps a word in its buffer; commands that would overwrite it stand at the
/// beginning.
const KEPT_AT: u64 = 1024;

/// The neighbour's buffer, and a slot that executes what stands there; with the next opcode in the
/// same bytes, the slot would execute it in the neighbour's address space, where it is.
fn target(world: &World) -> (Buffer, [u8; SLOT_BYTES as usize]) {
    let desc = BufferDesc { name: "kept".to_owned(), bytes: 2 * KEPT_AT, heap: Heap::Upload };
    let buffer = world.device.create_buffer(desc).expect("a buffer");
    let harm = commands(&Command::Fill {
        destination: GpuVa(buffer.gpu_va() + KEPT_AT),
        bytes: 8,
        value: 7,
    });
    buffer.write(0, &harm).expect("room for a command");
    let slot = crafted_slot(GpuVa(buffer.gpu_va()), harm.len() as u32);
    (buffer, slot)
}

fn crafted_slot(commands: GpuVa, bytes: u32) -> [u8; SLOT_BYTES as usize] {
    let mine = RingPacket::Execute { commands, bytes, progress: 1 }.encode();
    let kernels = RingPacket::ExecuteDma {
        commands,
        bytes,
        address_space: NEIGHBOUR,
        submission_fence_id: 1,
        tag: 0,
        os_handle: 0,
        save_area: GpuVa(0),
        flags: tidegate::gpu_abi::ring::DmaFlags::empty(),
    };
    let mut slot = kernels.encode();
    slot[0] = mine[0];
    slot
}

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out =
        if bug == Some(FAULT_NOT_TOLD) { LeftOut::FaultReport } else { LeftOut::Nothing };
    plant(platform, bug, &[(DOUBLE_FETCH, "double fetch")]);
    let setting = Setting { doorbells: 1, left_out, ..Setting::default() };
    let world = World::new(platform, setting);
    let queue = world.queue("neighbour", Submission::User, 0);
    let fence = world.fence("neighbour");
    let (buffer, crafted) = target(&world);
    let client = Arc::new(Client::new(&world, crafted));
    client.turns_hostile();
    let (spawner, hostile) = (platform.clone(), client.clone());
    let (good, done) = (queue.clone(), fence.clone());
    let main = move || {
        spawner.spawn("neighbour", move || {
            ends_well(good.signal(&done, 1));
            ends_well(done.wait(1));
        });
        hostile.submits();
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let (stats, state) = (world.machine.gpu().stats(), client.state());
        end.eventually("the neighbour's fence has its value", fence.completed_value() == 1);
        end.always("the neighbour keeps its device", world.device.removed_reason().is_none());
        let mut kept = [1; 8];
        buffer.read(KEPT_AT, &mut kept).expect("it is in the buffer");
        end.always("the neighbour's memory is as it was", kept == [0; 8]);
        end.always("a device that is lost says why", !matches!(state, DeviceState::Stopped));
        end.always("who faults is lost", (stats.faults > 0) == (state != DeviceState::Active));
        end.sometimes(LOST, state != DeviceState::Active);
        end.sometimes(SPARED, state == DeviceState::Active);
        end.sometimes(VICTIMISED, world.probe.seen(notes::VICTIMISED).is_some());
        world.must_be_sound(end);
        drop(queue);
    })
}
