//! Allocations at the call surface: where a process reaches their memory.

use tidegate::calls::CreateAllocation;
use tidegate::calls::TILE_BYTES;
use tidegate_testbed::prelude::*;

const NO_LOG: u32 = tidegate::gpu_abi::ring::NO_LOG_ENTRY;

// spec: UMS-190
#[test]
fn a_lock_gives_the_ring_and_the_write_pointer_to_store_to() {
    world().run(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        let lock = |allocation| w.kernel.lock2(w.device, allocation);
        let (Ok(AllocationMemory::Bulk(ring)), Ok(AllocationMemory::Protocol(control))) =
            (lock(queue.ring.handle), lock(queue.control.handle))
        else {
            panic!("a ring of bytes and a control area of words")
        };
        ring.write(0, &signal_packet(&fence, 7, NO_LOG).encode()).unwrap();
        control.store(CONTROL_WRITE_WORD, 1);
        w.kernel.notify_work_submission(queue.doorbell.handle).unwrap();
        w.wait(fence.handle, 7).unwrap();
        assert_eq!(fence.value.load(), 7);
        // A second lock is the same memory, and so it is after the doorbell is gone.
        w.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
        let Ok(AllocationMemory::Protocol(again)) = lock(queue.control.handle) else { panic!() };
        control.store(CONTROL_WRITE_WORD, 5);
        assert_eq!(again.word(CONTROL_WRITE_WORD).load(), 5);
    });
}

/// As over a service, where the limit of the client refuses first. Nothing is reserved.
#[test]
fn an_allocation_beyond_the_largest_finds_no_memory() {
    world().run(|w| {
        let (device, kind) = (w.device, AllocationKind::Bulk);
        for (bytes, refused) in [
            (0, Status::INVALID_PARAMETER),
            (1 << 37, Status::NO_MEMORY),
            (u64::MAX, Status::NO_MEMORY),
        ] {
            for placement in [Placement::System, Placement::Local, Placement::LocalOnDemand] {
                let args = CreateAllocation { device, bytes, kind, placement };
                assert_eq!(w.kernel.create_allocation(args).err(), Some(refused), "{bytes}");
            }
        }
    });
}

// spec: UMS-190
#[test]
fn a_lock_needs_an_allocation_of_its_device_that_is_there() {
    world().run(|w| {
        let mine = w.allocate(64, AllocationKind::Bulk);
        let other = w.kernel.create_device().unwrap();
        let lock = |device, allocation| w.kernel.lock2(device, allocation).err();
        assert_eq!(lock(w.device, mine.handle), None);
        for (device, allocation) in [
            (other, mine.handle),
            (w.device, w.native(0).handle),
            (w.device, Handle(0)),
            (mine.handle, mine.handle),
        ] {
            assert_eq!(lock(device, allocation), Some(Status::INVALID_PARAMETER));
        }
        w.kernel.destroy_allocation(mine.handle).unwrap();
        assert_eq!(lock(w.device, mine.handle), Some(Status::INVALID_PARAMETER));
    });
}

/// Tiles keep their memory after its handle, and give it back with the last tile.
#[test]
fn memory_of_tiles_ends_with_its_last_tile() {
    world().run(|w| {
        let wanted = ReserveGpuVirtualAddress { device: w.device, bytes: 4 * TILE_BYTES };
        let reserved = w.kernel.reserve_gpu_virtual_address(wanted).unwrap().handle;
        let fence = w.native(0);
        let mut value = 0;
        let mut change = |operations: &[TileOperation]| {
            let args = UpdateGpuVirtualAddress { reserved, operations, fence: fence.handle, value };
            w.kernel.update_gpu_virtual_address(args).unwrap();
            value += 1;
            w.wait(fence.handle, value).unwrap();
        };
        let none = TileOperation { first: 0, count: 1, memory: None };
        change(&[none]);
        let regions = || w.adapter().census().memory_regions;
        // Page tables of the addresses are there.
        let warm = w.allocate_in(TILE_BYTES, Placement::System).handle;
        change(&[TileOperation { memory: Some((warm, 0)), ..none }]);
        change(&[none]);
        w.kernel.destroy_allocation(warm).unwrap();
        let before = regions();
        let memory = w.allocate_in(2 * TILE_BYTES, Placement::System).handle;
        change(&[TileOperation { count: 2, memory: Some((memory, 0)), ..none }]);
        w.kernel.destroy_allocation(memory).unwrap();
        assert_eq!(regions(), before + 1);
        change(&[none]);
        assert_eq!(regions(), before + 1, "one tile is left");
        change(&[TileOperation { first: 1, ..none }]);
        assert_eq!(regions(), before);
    });
}

/// The calls about objects of the driver since this was last called.
fn object_calls(w: &World) -> Vec<&'static str> {
    let mut names = w.driver.take_names();
    names.retain(|name| name.ends_with("Allocation"));
    names
}

fn with_objects() -> World {
    world_with(|config| config.driver.opens_allocations = true)
}

// spec: RES-019, RES-020
#[test]
fn an_allocation_is_an_object_of_the_driver_from_before_its_mapping_until_its_end() {
    with_objects().run(|w| {
        for (placement, kind) in [
            (Placement::System, AllocationKind::Bulk),
            (Placement::System, AllocationKind::Protocol),
            (Placement::Local, AllocationKind::Bulk),
        ] {
            w.driver.take();
            let mapped = Arc::new(w.platform.mutex("calls before a mapping", Vec::new()));
            let note_calls = |into: &Arc<Mutex<Vec<&'static str>>>| {
                let (driver, into) = (w.driver.clone(), into.clone());
                w.hooked.once(Entry::UpdatePageTable, move || *into.lock() = driver.take_names());
            };
            note_calls(&mapped);
            let args = CreateAllocation { device: w.device, bytes: 4096, kind, placement };
            let made = w.kernel.create_allocation(args).unwrap();
            assert_eq!(*mapped.lock(), ["CreateAllocation", "OpenAllocation"], "{placement:?}");
            w.driver.take();
            note_calls(&mapped);
            w.kernel.destroy_allocation(made.handle).unwrap();
            assert_eq!(*mapped.lock(), [""; 0], "{placement:?}: it is unmapped first");
            assert_eq!(object_calls(w), ["CloseAllocation", "DestroyAllocation"], "{placement:?}");
        }
        // The driver gets no object for memory of the kernel, such as a context's save area.
        w.submit_packet(w.context(0), &[Command::Timed { ns: 10 }]);
        let packets = w.allocate(64, AllocationKind::Bulk);
        w.driver.take();
        w.kernel.destroy_device(w.device).unwrap();
        let ended = object_calls(w);
        let closed = ended.iter().filter(|name| **name == "CloseAllocation").count();
        let destroyed = ended.iter().filter(|name| **name == "DestroyAllocation").count();
        assert_eq!((closed > 0, closed), (true, destroyed), "{ended:?}");
        drop(packets);
    });
}

// spec: RES-019
#[test]
fn a_refused_object_is_no_allocation_and_leaves_nothing() {
    with_objects().run(|w| {
        let _tables = w.allocate(64, AllocationKind::Bulk);
        for entry in [Entry::CreateAllocation, Entry::OpenAllocation] {
            let before = w.adapter().census().memory_regions;
            w.driver.take();
            w.hooked.fail_next(entry, Status::NO_MEMORY);
            let (device, kind, placement) = (w.device, AllocationKind::Bulk, Placement::System);
            let args = CreateAllocation { device, bytes: 64, kind, placement };
            assert_eq!(w.kernel.create_allocation(args).err(), Some(Status::NO_MEMORY));
            let calls = object_calls(w);
            let destroyed = calls.contains(&"DestroyAllocation");
            assert_eq!(destroyed, entry == Entry::OpenAllocation, "{calls:?}");
            assert_eq!(w.adapter().census().memory_regions, before);
        }
        // Such memory has no object, and needs none.
        for (entry, calls) in [
            (Entry::CreateAllocation, &["CreateAllocation"][..]),
            (Entry::OpenAllocation, &["CreateAllocation", "OpenAllocation", "DestroyAllocation"]),
        ] {
            w.driver.take();
            w.hooked.fail_next(entry, Status::GRAPHICS_DRIVER_MISMATCH);
            let made = w.allocate(64, AllocationKind::Bulk);
            assert_eq!(object_calls(w), calls);
            w.kernel.destroy_allocation(made.handle).unwrap();
            assert_eq!(object_calls(w), [""; 0]);
        }
    });
}
