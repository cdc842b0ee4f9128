//! A hostile process against every reader of what it writes. Its ring, its control area, its
//! doorbells, its last-queued cell and its commands are in hostile hands: each load of them finds
//! any value, whatever the load before found. With it on the engine, and competing for the same
//! physical doorbell, is a neighbour that keeps the contract.
//!
//! The neighbour's work completes and its fence has its value; no agent hangs or panics; the hostile
//! device lives, or is lost with a reason.

use crate::prelude::*;
use std::sync::Arc;
use tidegate::calls::{AllocationKind, AllocationMemory, CreateDoorbellFlags, DeviceState};
use tidegate::d3d12::{Buffer, BufferDesc, Heap};
use tidegate::gpu_abi::{
    AddressSpaceId, CONTROL_WRITE_WORD, Command, CommandWriter, DOORBELL_VALUE_WORD, GpuVa,
    RingPacket, SLOT_BYTES,
};
use tidegate::platform::Bulk;
use tidegate_testbed::{Client, UserQueue};

const LOST: &str = "the hostile device was lost";
const SPARED: &str = "the hostile process wrote nothing that cost it its device";
const VICTIMISED: &str = "a doorbell went from one process to the other";

pub(crate) const RACE: Race = Race {
    name: "hostile-client-against-neighbour",
    about: "a process whose ring, pointers and doorbells hold anything at any moment: its neighbour notices nothing",
    marks: &[LOST, SPARED, VICTIMISED],
    planted: &[
        Bug {
            name: "double-fetch",
            about: "the engine copies a ring slot out twice: one copy is checked, the other is executed",
            fault: Fault::Product("double fetch"),
        },
        Bug {
            name: "fault-not-told",
            about: "the driver does not report a fault: the queue has stopped, and its device is active",
            fault: Fault::Driver(LeftOut::FaultReport),
        },
    ],
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

/// The neighbour's address space: the processes of a machine are counted from 1.
const NEIGHBOUR: AddressSpaceId = AddressSpaceId(1);

/// A process that keeps the form of the interface and nothing else of its contract.
struct Hostile {
    client: Client,
    queue: UserQueue,
    commands: (Bulk, u64),
    /// A slot that aims at the neighbour.
    crafted: [u8; SLOT_BYTES as usize],
}

impl Hostile {
    fn new(world: &World, crafted: [u8; SLOT_BYTES as usize]) -> Hostile {
        let client = world.client("hostile");
        let queue = client.with_ring_of(
            4,
            CreateDoorbellFlags::empty(),
            client.try_hw_queue(0, true).expect("a queue"),
        );
        let commands = client.allocate(4096, AllocationKind::Bulk);
        let AllocationMemory::Bulk(bytes) = commands.memory else { panic!("bytes were requested") };
        Hostile { client, queue, commands: (bytes, commands.gpu_va), crafted }
    }

    /// From here on its memory holds anything.
    fn turns_hostile(&self) {
        self.queue.slots.hand_to_hostile();
        self.commands.0.hand_to_hostile();
        self.queue.pointers.hand_to_hostile();
        self.queue.doorbell.last_queued.hand_to_hostile();
        self.queue.doorbell.mapping.page().hand_to_hostile();
    }

    /// What a good process would do for one submission of two packets.
    fn submits(&self) {
        let list = commands(&Command::Timed { ns: 1 });
        self.commands.0.write(0, &list).expect("room for a command");
        let (commands, bytes) = (GpuVa(self.commands.1), list.len() as u32);
        let honest = RingPacket::Execute { commands, bytes, progress: 1 };
        let UserQueue { slots, pointers, doorbell, .. } = &self.queue;
        slots.write(0, &honest.encode()).expect("room for a slot");
        slots.write(SLOT_BYTES, &self.crafted).expect("room for a slot");
        pointers.store(CONTROL_WRITE_WORD, 2);
        doorbell.last_queued.store(2);
        // A connect that is refused, because the device is lost by now, is as good.
        let kernel = &self.client.kernel;
        let hint = kernel.connect_doorbell(doorbell.handle).map(|connection| connection.hint);
        doorbell.mapping.page().hand_to_hostile();
        doorbell.mapping.store(DOORBELL_VALUE_WORD, 2);
        if let Ok(hint) = hint {
            hint.rung();
        }
        let _refused_once_lost = kernel.notify_work_submission(doorbell.handle);
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

/// The neighbour's buffer, and a slot that executes what stands there. With the next opcode in the
/// same bytes, the slot would execute it in the neighbour's address space, where it is.
fn target(world: &World) -> (Buffer, [u8; SLOT_BYTES as usize]) {
    let desc = BufferDesc { name: "kept".to_owned(), bytes: 2 * KEPT_AT, heap: Heap::Upload };
    let buffer = world.device.create_buffer(desc).expect("a buffer");
    let destination = GpuVa(buffer.gpu_va() + KEPT_AT);
    let harm = commands(&Command::Fill { destination, bytes: 8, value: 7 });
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
        save_area: GpuVa(0),
        flags: tidegate::gpu_abi::ring::DmaFlags::empty(),
        os_handle: 0,
    };
    let mut slot = kernels.encode();
    slot[0] = mine[0];
    slot
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(one_doorbell);
    let (queue, fence) = (world.queue("neighbour", Submission::User), world.fence("neighbour"));
    let (buffer, crafted) = target(&world);
    let hostile = Arc::new(Hostile::new(&world, crafted));
    hostile.turns_hostile();
    let (client, done, process) = (hostile.client.clone(), fence.clone(), hostile.clone());
    let main = move |platform: &Platform| {
        platform.spawn("neighbour", move || {
            ends_well(queue.signal(&done, 1));
            ends_well(done.wait(1));
        });
        process.submits();
    };
    world.race(main, move |world, end| {
        let stats = world.machine.gpu().stats();
        let state = client.state().expect("its own device");
        end.eventually("the neighbour's fence has its value", fence.completed_value() == 1);
        end.always("the neighbour keeps its device", world.device.removed_reason().is_none());
        let mut kept = [1; 8];
        buffer.read(KEPT_AT, &mut kept).expect("it is in the buffer");
        end.always("the neighbour's memory is as it was", kept == [0; 8]);
        end.always("a lost device has a reason", !matches!(state, DeviceState::Stopped));
        let lost = state != DeviceState::Active;
        end.always("a process that faults is lost", (stats.faults > 0) == lost);
        end.sometimes(LOST, lost);
        end.sometimes(SPARED, !lost);
        end.sometimes(VICTIMISED, world.noted(notes::VICTIMISED));
        drop(hostile);
    })
}
