//! Page tables of a process: made when something is mapped, freed when the last mapping in them
//! goes, in an order that is safe for engines that still walk them.

use tidegate_testbed::prelude::*;

const MIB: u64 = 1 << 20;

fn regions(w: &World) -> usize {
    w.adapter().census().memory_regions
}

fn destroy(w: &World, made: &Allocation) {
    w.kernel.destroy_allocation(made.handle).unwrap();
}

// spec: MF-097
#[test]
fn allocations_that_end_leave_no_page_table_behind() {
    for gpus in [1, 2] {
        let w = world_with(|config| config.gpu.physical_gpus = gpus);
        let before = regions(&w);
        for _ in 0..100 {
            destroy(&w, &w.allocate(MIB, AllocationKind::Bulk));
        }
        assert_eq!(regions(&w), before);
        // The same for many at once, and for one that spans several tables.
        let many: Vec<Allocation> =
            (0..100).map(|_| w.allocate(MIB, AllocationKind::Bulk)).collect();
        let big = w.allocate(9 * MIB, AllocationKind::Bulk);
        assert!(regions(&w) > before + 101 + 50, "100 MiB take at least 50 tables");
        many.iter().rev().for_each(|made| destroy(&w, made));
        destroy(&w, &big);
        assert_eq!(regions(&w), before);
    }
}

// spec: MF-097
#[test]
fn a_table_stays_while_one_mapping_is_in_it() {
    world().run(|w| {
        let queue = w.hw_queue();
        let made: Vec<Allocation> = (0..6).map(|_| w.allocate(MIB, AllocationKind::Bulk)).collect();
        // In each table of 2 MiB at most one of them is left.
        let kept: Vec<&Allocation> = made.iter().step_by(2).collect();
        made.iter().skip(1).step_by(2).for_each(|gone| destroy(w, gone));
        let bytes = |of: &Allocation| match &of.memory {
            AllocationMemory::Bulk(bulk) => bulk.clone(),
            _ => panic!("an allocation of bytes"),
        };
        bytes(kept[0]).write(0, &7u64.to_le_bytes()).unwrap();
        for (progress, pair) in (1..).zip(kept.windows(2)) {
            w.submit(&queue, progress, &[copy_word(pair[1].gpu_va, pair[0].gpu_va)]);
            w.wait(queue.progress_fence, progress).unwrap();
        }
        let mut came = [0; 8];
        bytes(kept[2]).read(0, &mut came).unwrap();
        assert_eq!(u64::from_le_bytes(came), 7);
    });
}

/// A world, and the count of memory regions right after each update that unlinked a table. With
/// `refuses`, the driver fails each update that only unmaps.
fn unlinking(refuses: bool) -> (World, Arc<Mutex<Vec<usize>>>) {
    let platform = Platform::host();
    let seen = Arc::new(platform.mutex("unlinks", Vec::new()));
    let memory = Arc::new(platform.mutex("memory", None));
    let (started, list) = (memory.clone(), seen.clone());
    let overrides = Overrides::default()
        .start_device(move |inner, level, start| {
            *started.lock() = Some(start.system_memory.clone());
            inner.start_device(level, start)
        })
        .update_page_table(move |inner, level, args| {
            let invalid = args.entries.iter().all(|entry| *entry == PageTableEntry::Invalid);
            if invalid && refuses {
                return Err(Status::NO_MEMORY);
            }
            let unlinks = invalid && args.level < 3;
            inner.update_page_table(level, args)?;
            if unlinks {
                list.lock().extend(memory.lock().as_ref().map(PhysicalMemory::regions));
            }
            Ok(())
        });
    (setup(|_| ()).overriding(overrides).start(), seen)
}

// spec: MF-097
#[test]
fn a_table_is_freed_after_the_update_that_unlinks_it() {
    let (w, seen) = unlinking(false);
    let made = w.allocate(3 * MIB, AllocationKind::Bulk);
    let with_it = regions(&w);
    destroy(&w, &made);
    let after = regions(&w);
    let seen = seen.lock().clone();
    // The engines have let go of the table when the driver returns, and its memory is there until
    // then.
    assert!(!seen.is_empty() && after < with_it);
    assert_eq!(seen[0], with_it, "a table was freed before its link went");
}

#[test]
fn a_driver_that_refuses_to_unmap_has_broken_its_contract() {
    let (w, _) = unlinking(true);
    let made = w.allocate(MIB, AllocationKind::Bulk);
    let settles = move |w: &World| {
        destroy(w, &made);
        // The devices are lost by the deferred routine.
        w.pass(100_000);
    };
    let w = w.run_to_report(settles).0;
    let [bug] = &w.adapter().bug_checks()[..] else { panic!("one contract was broken") };
    assert!(bug.to_string().starts_with("UpdatePageTable failed with"), "{bug}");
    assert_eq!(w.kernel.create_device(), Err(Status::DEVICE_REMOVED));
    assert_eq!(w.state(), Ok(tidegate::calls::DeviceState::Stopped));
}
