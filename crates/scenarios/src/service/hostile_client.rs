//! A hostile process against every reader of its memory. Its ring, control area, doorbells,
//! last-queued cell and commands change arbitrarily: each load returns any value, independent of
//! earlier loads. A well-behaved neighbour shares the engine and the physical doorbell.
//!
//! The neighbour's work completes and its fence reaches its value. No agent hangs or panics. The
//! hostile device survives, or is lost with a reason.

use crate::prelude::*;

const LOST: &str = "the hostile device was lost";
const SPARED: &str = "the hostile device survived";
const VICTIMISED: &str = "one process took the doorbell of the other";

pub(crate) const RACE: Race = Race {
    name: "hostile-client-against-neighbour",
    about: "the ring, pointers and doorbells of a process change arbitrarily: its neighbour is not affected",
    marks: &[LOST, SPARED, VICTIMISED],
    planted: bugs! {
        "double-fetch" => Product(PlantedFault::DoubleFetch),
            "the engine copies a ring slot twice: one copy is checked, the other is executed";
        "fault-not-reported" => Driver(LeftOut::FaultReport),
            "the driver does not report a fault: the queue is stopped but its device stays active";
    },
    shape: Shape::Machine(&[setting::ONE_DOORBELL]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

/// The neighbour's address space. Processes of a machine are numbered from 1.
const NEIGHBOUR: AddressSpaceId = AddressSpaceId(1);

/// A process that uses valid calls but breaks the rest of the contract.
struct Hostile {
    client: Client,
    queue: UserQueue,
    commands: (Bulk, u64),
    /// A slot that targets the neighbour.
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

    /// Makes the process's memory return arbitrary values from here on.
    fn turn_hostile(&self) {
        self.queue.slots.hand_to_hostile();
        self.commands.0.hand_to_hostile();
        self.queue.pointers.hand_to_hostile();
        self.queue.doorbell.last_queued.hand_to_hostile();
        self.queue.doorbell.mapping.page().hand_to_hostile();
    }

    /// Submits two packets as a well-behaved process does.
    fn submit(&self) {
        let list = commands(&Command::Timed { ns: 1 });
        self.commands.0.write(0, &list).expect("room for a command");
        let (commands, bytes) = (GpuVa(self.commands.1), list.len() as u32);
        let honest = RingPacket::execute(commands, bytes, 1);
        let UserQueue { slots, pointers, doorbell, .. } = &self.queue;
        slots.write(0, &honest.encode()).expect("room for a slot");
        slots.write(SLOT_BYTES, &self.crafted).expect("room for a slot");
        pointers.store(CONTROL_WRITE_WORD, 2);
        doorbell.last_queued.store(2);
        // The connect may be refused, because the device may be lost by now.
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

/// Returns a buffer with one command.
fn commands(command: &Command) -> Vec<u8> {
    let mut writer = CommandWriter::new();
    writer.push(command);
    writer.to_bytes()
}

/// Offset of a word that the neighbour keeps in its buffer. The harmful commands are at offset 0.
const KEPT_AT: u64 = 1024;

/// Returns the neighbour's buffer and a slot that executes its content. With the next opcode in the
/// same bytes, the slot would execute it in the neighbour's address space.
fn target(world: &World) -> (Buffer, [u8; SLOT_BYTES as usize]) {
    let desc = BufferDesc::upload("kept", 2 * KEPT_AT);
    let buffer = world.device.create_buffer(desc).expect("a buffer");
    let destination = GpuVa(buffer.gpu_va() + KEPT_AT);
    let harm = commands(&Command::Fill { destination, bytes: 8, value: 7 });
    buffer.write(0, &harm).expect("room for a command");
    let slot = crafted_slot(GpuVa(buffer.gpu_va()), harm.len() as u32);
    (buffer, slot)
}

fn crafted_slot(commands: GpuVa, bytes: u32) -> [u8; SLOT_BYTES as usize] {
    let mine = RingPacket::execute(commands, bytes, 1).encode();
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
    let world = run.world();
    let (queue, fence) = (world.queue("neighbour", Submission::User), world.fence("neighbour"));
    let (buffer, crafted) = target(&world);
    let hostile = Arc::new(Hostile::new(&world, crafted));
    hostile.turn_hostile();
    let (client, done, process) = (hostile.client.clone(), fence.clone(), hostile.clone());
    let main = move |platform: &Platform| {
        platform.spawn("neighbour", move || {
            assert_ok(queue.signal(&done, 1));
            assert_ok(done.wait(1));
        });
        process.submit();
    };
    world.race(main, move |world, end| {
        let stats = world.machine.gpu().stats();
        let state = client.state().expect("its own device");
        end.eventually("the neighbour's fence has its value", fence.completed_value() == 1);
        end.always("the neighbour's device survives", world.device.removed_reason().is_none());
        let mut kept = [1; 8];
        buffer.read(KEPT_AT, &mut kept).expect("it is in the buffer");
        end.always("the neighbour's memory is unchanged", kept == [0; 8]);
        end.always("a lost device has a reason", !matches!(state, DeviceState::Stopped));
        let lost = state != DeviceState::Active;
        end.always("a process that faults is lost", (stats.faults > 0) == lost);
        end.sometimes(LOST, lost);
        end.sometimes(SPARED, !lost);
        end.sometimes(VICTIMISED, world.noted(notes::VICTIMISED));
        drop(hostile);
    })
}
