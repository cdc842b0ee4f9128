//! Reserved buffers: tiles that queues map, copies of tiles by lists of every type, and what
//! happens at a tile without memory.

use tidegate::d3d12::{ResourceHeap, TILE_BYTES};
use tidegate_testbed::prelude::*;

const TYPES: [CommandListType; 3] =
    [CommandListType::Direct, CommandListType::Compute, CommandListType::Copy];

fn app() -> App {
    App::new(DeviceOptions::default().validation(Validation::STATES), |_| ())
}

fn tile(of: u8) -> Vec<u8> {
    vec![of; TILE_BYTES as usize]
}

struct Tiles {
    upload: Buffer,
    readback: Buffer,
    heap: ResourceHeap,
    /// Four tiles.
    tiled: Buffer,
}

impl Tiles {
    fn new(app: &App) -> Tiles {
        let upload = app.create_buffer(BufferDesc::upload("upload", 2 * TILE_BYTES)).unwrap();
        upload.write(0, &[tile(1), tile(2)].concat()).unwrap();
        let readback = BufferDesc::readback("readback", 2 * TILE_BYTES);
        let tiled = BufferDesc::new("tiled", 3 * TILE_BYTES + 1);
        Tiles {
            upload,
            readback: app.create_buffer(readback).unwrap(),
            heap: app.create_heap(HeapDesc::new("pool", 4 * TILE_BYTES)).unwrap(),
            tiled: app.create_reserved_buffer(tiled).unwrap(),
        }
    }

    /// Copies two tiles from `first` on back, behind everything on the queue.
    fn read(&self, app: &App, queue: &Queue, first: u64) -> [u8; 2] {
        app.execute(queue, |list| {
            list.copy_tiles(&self.tiled, first..first + 2, &self.readback, 0, TileCopy::ToBuffer)
        });
        queue.wait_idle().unwrap();
        let mut bytes = [tile(0), tile(0)].concat();
        self.readback.read(0, &mut bytes).unwrap();
        let (one, two) = bytes.split_at(TILE_BYTES as usize);
        for half in [one, two] {
            assert!(half.iter().all(|byte| *byte == half[0]));
        }
        [one[0], two[0]]
    }
}

// spec: ME-053
#[test]
fn lists_of_every_type_copy_tiles_through_mappings_in_the_order_of_their_queue() {
    for submission in Submission::ALL {
        app().case(submission).run(move |app| {
            for list_type in TYPES {
                let queue = app.queue(list_type, submission);
                let t = Tiles::new(app);
                assert_eq!((t.tiled.tiles(), t.tiled.bytes()), (Some(4), 4 * TILE_BYTES));
                let map = |mappings: &[TileMapping<'_>]| {
                    queue.update_tile_mappings(&t.tiled, mappings).unwrap();
                };
                // No wait between the calls: the queue keeps them in order.
                map(&[TileMapping::map(1, 2, &t.heap, 2)]);
                app.execute(&queue, |list| {
                    list.copy_tiles(&t.tiled, 1..3, &t.upload, 0, TileCopy::FromBuffer)
                });
                // The tiles change their places: the same bytes at other addresses.
                map(&[TileMapping::map(0, 1, &t.heap, 3), TileMapping::map(1, 1, &t.heap, 2)]);
                assert_eq!(t.read(app, &queue, 0), [2, 1], "{list_type}");
                // One tile of memory behind two tiles of the buffer.
                map(&[
                    TileMapping::unmap(0, 4),
                    TileMapping::map(2, 1, &t.heap, 2),
                    TileMapping::map(3, 1, &t.heap, 2),
                ]);
                assert_eq!(t.read(app, &queue, 2), [1, 1], "{list_type}");
                let stats = queue.stats();
                assert_eq!((stats.signals, stats.waits), (0, 0), "not the application's");
            }
            assert_eq!(app.state_violations(), []);
        });
    }
}

#[test]
fn a_mapping_waits_for_earlier_work_and_holds_later_work_back() {
    for submission in Submission::ALL {
        app().case(submission).run(move |app| {
            let queue = app.queue(CommandListType::Copy, submission);
            let (t, gate) = (Tiles::new(app), app.create_fence("gate", 0).unwrap());
            queue.update_tile_mappings(&t.tiled, &[TileMapping::map(0, 2, &t.heap, 0)]).unwrap();
            // Behind the gate: a copy into the first mapping, then another mapping.
            queue.wait(&gate, 1).unwrap();
            app.execute(&queue, |list| {
                list.copy_tiles(&t.tiled, 0..2, &t.upload, 0, TileCopy::FromBuffer)
            });
            let swapped = [TileMapping::map(0, 1, &t.heap, 1), TileMapping::map(1, 1, &t.heap, 0)];
            queue.update_tile_mappings(&t.tiled, &swapped).unwrap();
            gate.signal(1).unwrap();
            assert_eq!(t.read(app, &queue, 0), [2, 1]);
        });
    }
}

#[test]
fn a_tile_without_memory_is_a_page_fault_at_its_address() {
    for submission in Submission::ALL {
        app().case(submission).run(move |app| {
            let queue = app.queue(CommandListType::Copy, submission);
            let t = Tiles::new(app);
            queue.update_tile_mappings(&t.tiled, &[TileMapping::map(0, 1, &t.heap, 0)]).unwrap();
            app.execute(&queue, |list| {
                list.copy_tiles(&t.tiled, 0..2, &t.upload, 0, TileCopy::FromBuffer)
            });
            assert!(queue.wait_idle().is_err());
            let Some(RemovedReason::Faulted(fault)) = app.removed_reason() else {
                panic!("{:?}", app.removed_reason());
            };
            assert_eq!(fault.report.gpu_va, t.tiled.gpu_va() + TILE_BYTES);
            // A mapping on a lost device changes nothing and ends.
            _ = queue.update_tile_mappings(&t.tiled, &[TileMapping::unmap(0, 1)]);
        });
    }
}

#[test]
fn mapped_memory_outlives_its_heap_and_tiles_follow_it_when_it_moves() {
    let options = DeviceOptions::default();
    App::new(options, |config| config.gpu.local_memory_bytes = 16 * TILE_BYTES).run(|app| {
        let queue = app.queue(CommandListType::Copy, Submission::Hardware);
        let mut t = Tiles::new(app);
        queue.update_tile_mappings(&t.tiled, &[TileMapping::map(0, 2, &t.heap, 1)]).unwrap();
        app.execute(&queue, |list| {
            list.copy_tiles(&t.tiled, 0..2, &t.upload, 0, TileCopy::FromBuffer)
        });
        queue.wait_idle().unwrap();
        // A placed resource stands for its heap.
        let placed = BufferDesc::new("whole heap", 4 * TILE_BYTES);
        let placed = app.create_placed_buffer(&t.heap, 0, placed).unwrap();
        app.evict(&[&placed]).unwrap();
        // The room is needed, so the heap leaves local memory.
        let info = app.video_memory().unwrap();
        let large = info.budget - info.current_usage + TILE_BYTES;
        let large = app.create_buffer(BufferDesc::new("large", large)).unwrap();
        assert_eq!(app.video_memory().unwrap().current_usage, large.bytes(), "the heap has left");
        drop(large);
        app.make_resident(&[&placed]).unwrap();
        drop(placed);
        t.heap = app.create_heap(HeapDesc::new("other", TILE_BYTES)).unwrap();
        assert_eq!(t.read(app, &queue, 0), [1, 2]);
    });
}

#[test]
fn mappings_and_copies_that_cannot_be_are_refused() {
    app().run(|app| {
        let queue = app.queue(CommandListType::Copy, Submission::Packet);
        let t = Tiles::new(app);
        let map = |mapping| queue.update_tile_mappings(&t.tiled, &[mapping]);
        let error = map(TileMapping::map(3, 2, &t.heap, 0)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a mapping of 2 tiles from 3 of 'tiled': the buffer has other tiles; name tiles of 64 \
             KiB from 0 on"
        );
        let upload = app.create_heap(HeapDesc::new("up", TILE_BYTES).heap(Heap::Upload)).unwrap();
        for refused in [
            TileMapping::map(0, 0, &t.heap, 0),
            TileMapping::map(0, 2, &t.heap, 3),
            TileMapping::unmap(u64::MAX, 2),
            TileMapping::map(0, 1, &upload, 0),
        ] {
            assert!(matches!(map(refused), Err(Error::BadValue { .. })), "{refused:?}");
        }
        let plain = queue.update_tile_mappings(&t.upload, &[TileMapping::unmap(0, 1)]);
        assert!(matches!(plain, Err(Error::BadValue { .. })));
        assert!(app.create_reserved_buffer(BufferDesc::upload("up", 1)).is_err());
        assert!(t.tiled.write(0, &[1]).is_err() && t.tiled.read(0, &mut [0]).is_err());
        let mut list = app.create_command_list(CommandListType::Copy);
        for (tiled, range, offset) in [
            (&t.upload, 0..1, 0),
            (&t.tiled, 0..0, 0),
            (&t.tiled, 4..5, 0),
            (&t.tiled, u64::MAX - 1..u64::MAX, 0),
            (&t.tiled, 0..2, 1),
        ] {
            let copy =
                list.copy_tiles(tiled, range.clone(), &t.upload, offset, TileCopy::FromBuffer);
            assert!(copy.is_err(), "{range:?}");
        }
    });
    let automatic = DeviceOptions::default().residency(ResidencyChoice::Automatic);
    App::new(automatic, |_| ()).run(|app| {
        let queue = app.queue(CommandListType::Copy, Submission::Packet);
        let t = Tiles::new(app);
        let mapped = queue.update_tile_mappings(&t.tiled, &[TileMapping::map(0, 1, &t.heap, 0)]);
        assert!(matches!(mapped, Err(Error::NotSupported { .. })));
    });
}
