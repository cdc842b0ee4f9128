//! Arguments that the kernel refuses: the status of each call, and that nothing of a refused call
//! is left: the same call with good arguments works.

use tidegate::calls::TILE_BYTES;
use tidegate_testbed::prelude::*;

const INVALID: Status = Status::INVALID_PARAMETER;

/// What the rows name.
struct Objects {
    client: Client,
    context: Handle,
    queue: HwQueue,
    user: UserQueue,
    fence: FenceInstance,
    reserved: Handle,
    memory: Allocation,
    commands: (u64, u32),
}

impl Objects {
    fn new(client: &Client) -> Objects {
        let client = client.clone();
        let wanted = ReserveGpuVirtualAddress { device: client.device, bytes: 4 * TILE_BYTES };
        Objects {
            context: client.context(0),
            queue: client.hw_queue(),
            user: client.connected_queue(1),
            fence: client.native(0),
            reserved: client.kernel.reserve_gpu_virtual_address(wanted).unwrap().handle,
            memory: client.allocate_in(2 * TILE_BYTES, Placement::System),
            commands: client.commands(&[Command::Timed { ns: 1 }]),
            client,
        }
    }

    fn packet(&self, commands_gpu_va: u64, command_bytes: u32) -> Result<(), Status> {
        let context = self.context;
        self.client.kernel.submit_command(SubmitCommand { context, commands_gpu_va, command_bytes })
    }

    fn tiles(&self, operations: &[TileOperation]) -> Result<(), Status> {
        let (reserved, fence) = (self.reserved, self.fence.handle);
        let args = UpdateGpuVirtualAddress { reserved, operations, fence, value: 1 };
        self.client.kernel.update_gpu_virtual_address(args)
    }

    fn tile(&self, first: u64, count: u64, memory: Option<u64>) -> Result<(), Status> {
        let memory = memory.map(|offset| (self.memory.handle, offset));
        self.tiles(&[TileOperation { first, count, memory }])
    }

    fn present(&self, queue: PresentQueue) -> Result<(), Status> {
        self.client.kernel.present(Present {
            queue,
            allocation: self.memory.handle,
            surface: Surface::packed(16, 16, PixelFormat::A8B8G8R8),
            vid_pn_source_id: 0,
            sync_interval: 1,
            shown: None,
        })
    }

    fn older(&self, objects: &[Handle]) -> Result<(), Status> {
        self.client.kernel.wait_for_synchronization_objects(self.context, objects, 0)
    }

    fn share(&self, objects: &[Handle]) -> Result<(), Status> {
        self.client.kernel.share_objects(objects, SyncObjectAccess::all(), None).map(drop)
    }
}

type Row = (&'static str, Status, fn(&Objects) -> Result<(), Status>);

const ROWS: &[Row] = &[
    ("commands at address 0", INVALID, |of| of.packet(0, 64)),
    ("commands of no bytes", INVALID, |of| of.packet(of.commands.0, 0)),
    ("commands beyond the last address", INVALID, |of| of.packet(u64::MAX - 8, 64)),
    ("no tiles", INVALID, |of| of.tiles(&[])),
    ("too many operations on tiles", INVALID, |of| {
        of.tiles(&[TileOperation { first: 0, count: 1, memory: None }; 4097])
    }),
    ("a tile beyond the reserved ones", INVALID, |of| of.tile(4, 1, None)),
    ("more tiles than are reserved", INVALID, |of| of.tile(0, 5, None)),
    ("a count of tiles whose end does not exist", INVALID, |of| of.tile(1, u64::MAX, None)),
    ("memory within a tile", INVALID, |of| of.tile(0, 1, Some(8))),
    ("memory beyond its allocation", INVALID, |of| of.tile(0, 2, Some(TILE_BYTES))),
    ("memory whose end does not exist", INVALID, |of| {
        of.tile(0, 1, Some(u64::MAX - TILE_BYTES + 1))
    }),
    ("memory of the other kind", INVALID, |of| {
        let memory = Some((of.user.control.handle, 0));
        of.tiles(&[TileOperation { first: 0, count: 1, memory }])
    }),
    ("a present on a user-mode queue", Status::GRAPHICS_PRESENT_DENIED, |of| {
        of.present(PresentQueue::HwQueue(of.user.queue.handle))
    }),
    ("a wait for no older object", INVALID, |of| of.older(&[])),
    ("a wait for 33 older objects", INVALID, |of| of.older(&[of.fence.handle; 33])),
    ("no objects to share", INVALID, |of| of.share(&[])),
    ("two objects to share", INVALID, |of| of.share(&[of.fence.handle; 2])),
];

#[test]
fn each_argument_that_makes_no_sense_is_refused_and_leaves_nothing() {
    world_with(|config| *config = config.clone().with_display(1_000_000)).run(|w| {
        let of = Objects::new(w);
        w.pass(1_000);
        w.driver.take();
        for (what, status, call) in ROWS {
            assert_eq!(call(&of), Err(*status), "{what}");
        }
        assert_eq!(w.driver.take_names(), Vec::<&str>::new(), "no driver has heard of them");
        of.packet(of.commands.0, of.commands.1).unwrap();
        of.present(PresentQueue::HwQueue(of.queue.handle)).unwrap();
        of.tile(0, 2, Some(0)).unwrap();
        of.tile(3, 1, None).unwrap();
        w.signal(&of.fence, 1);
        w.wait(of.fence.handle, 2).unwrap();
        w.on(of.context).complete();
        assert_eq!(w.state(), Ok(DeviceState::Active));
    });
}

/// A GPU that updates 32 bits cannot store a progress value above that.
#[test]
fn a_progress_value_that_the_gpu_cannot_store_is_refused() {
    let narrow = tidegate::variants::find("32-bit").unwrap();
    world_with(|config| narrow.apply(config)).run(|w| {
        let Ok(queue) = w.try_hw_queue(0, false) else { return };
        let args = w.command_buffer(&queue, 1 << 33, &[Command::Timed { ns: 1 }]);
        assert_eq!(w.kernel.submit_command_to_hw_queue(args), Err(INVALID));
        w.on_queue(&queue).run(1, &[Command::Timed { ns: 1 }]).finish();
    });
}

/// An engine that cannot write a fence has no progress to report.
#[test]
fn an_engine_that_writes_no_fence_has_no_hardware_queue() {
    let without = tidegate::variants::find("copy-writes-no-fence").unwrap();
    world_with(|config| without.apply(config)).run(|w| {
        assert_eq!(w.try_hw_queue(2, false).err(), Some(Status::NOT_SUPPORTED));
        let queue = w.try_hw_queue(0, false).unwrap();
        w.on_queue(&queue).run(1, &[Command::Timed { ns: 1 }]).finish();
    });
}
