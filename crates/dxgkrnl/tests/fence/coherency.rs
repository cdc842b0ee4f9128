//! Hardware that is not coherent with the CPU's caches, and hardware behind an IoMmu: the kernel
//! maps fences as it needs them, and a kernel that does not is stopped by name.

use tidegate::calls::OpenSyncObject;
use tidegate::platform::CacheType;
use tidegate_testbed::prelude::*;

fn not_coherent(config: &mut MachineConfig) {
    config.gpu.io_coherent = false;
}

fn io_mmu(config: &mut MachineConfig) {
    config.gpu.io_mmu = true;
}

/// Fences of both kinds, packed and on pages of their own.
fn fences(w: &World) -> [FenceInstance; 4] {
    [
        w.native(0),
        w.monitored(0),
        w.try_native(0, SHARED).unwrap(),
        w.try_monitored(0, SHARED).unwrap(),
    ]
}

/// Engines store to a fence from each kind of queue, and a ring signals and waits for it if it is
/// native.
fn engines_reach(w: &World, fence: &FenceInstance) {
    let va = fence.engine_va(&w.kernel.query_adapter_info());
    let event = w.wait_event(fence, 1);
    w.submit_packet(w.context(0), &[store(va, 1)]);
    w.pass(10_000);
    // A plain store to a native fence releases no waiter.
    assert_eq!((fence.value.load(), event.is_set()), (1, !fence.native));
    let queue = w.hw_queue();
    let (bytes, copied) = w.bytes(8);
    w.on_queue(&queue).run(1, &[store(va, 2), copy_word(copied, va)]).complete();
    assert_eq!((fence.value.load(), bytes.read_u64(0)), (2, Ok(2)));
    if fence.native {
        let reached = FenceInstance { current_value_gpu_va: va, ..fence.clone() };
        let ring = w.connected_queue(1);
        ring.put(&wait_packet(&reached, 3, 0));
        ring.push(&signal_packet(&reached, 4, 0));
        w.signal(fence, 3);
        w.wait(fence.handle, 4).unwrap();
    }
    assert_eq!(w.state(), Ok(DeviceState::Active));
}

/// What the device is lost to when an engine stores to `va`.
fn fault_at(w: World, va: impl FnOnce(&World) -> u64 + Send + 'static) -> String {
    let at = va(&w);
    let (w, report) = w.run_to_report(move |w| {
        let queue = w.hw_queue();
        w.submit(&queue, 1, &[store(at, 1)]);
        assert_eq!(w.wait(queue.progress_fence, 1), Err(Status::DEVICE_REMOVED));
    });
    assert!(report.completed(), "{report:?}");
    match w.state() {
        Ok(DeviceState::Faulted(fault)) => fault.what,
        other => panic!("{other:?}"),
    }
}

// spec: MF-008, MF-068
#[test]
fn what_engines_reach_is_cached_where_they_are_coherent_and_nowhere_else() {
    for (coherent, expected) in [(true, CacheType::WriteBack), (false, CacheType::Uncached)] {
        world_with(|config| config.gpu.io_coherent = coherent).run(move |w| {
            for fence in fences(w) {
                assert_eq!(fence.cache_type, expected);
                engines_reach(w, &fence);
            }
        });
    }
}

// spec: MF-068
#[test]
fn a_driver_that_declares_less_than_its_hardware_can_is_served_uncached() {
    let less = |caps: &mut AdapterCaps| caps.cache_coherent_memory = false;
    setup(|_| ()).caps(less).start().run(|w| {
        for fence in fences(w) {
            assert_eq!(fence.cache_type, CacheType::Uncached);
            engines_reach(w, &fence);
        }
    });
}

// spec: MF-069
#[test]
fn coherency_that_the_hardware_lacks_stops_the_queue_that_asks_for_it() {
    let more = |caps: &mut AdapterCaps| caps.cache_coherent_memory = true;
    let w = setup(not_coherent).caps(more).start();
    assert_eq!(
        fault_at(w, |w| w.monitored(0).current_value_gpu_va),
        "an access that bypasses the CPUs' caches"
    );
}

// spec: MF-070
#[test]
fn an_entry_that_forgets_coherency_stops_the_queue_that_uses_it() {
    let forgetful = Overrides::default().update_page_table(|inner, level, args| {
        let forget = |entry: &PageTableEntry| match *entry {
            PageTableEntry::Page { at, writable, fence_values: true, .. } => {
                PageTableEntry::Page { at, writable, fence_values: true, cache_coherent: false }
            }
            other => other,
        };
        let entries: Vec<PageTableEntry> = args.entries.iter().map(forget).collect();
        inner.update_page_table(level, UpdatePageTable { entries: &entries, ..args })
    });
    let w = setup(|_| ()).overriding(forgetful).start();
    assert_eq!(
        fault_at(w, |w| w.monitored(0).current_value_gpu_va),
        "an access that bypasses the CPUs' caches"
    );
}

// spec: MF-068
#[test]
fn a_fence_over_two_adapters_is_uncached_as_soon_as_one_of_them_is_not_coherent() {
    for creator in [0, 1] {
        let platform = Platform::virtual_time(StepCosts::free());
        let kinds = [Kind::CAPABLE; 2];
        let adapters =
            Adapters::with(&platform, &kinds, |index, config| config.gpu.io_coherent = index == 0);
        adapters.run(move |w| {
            let (fences, _handle) = w.fence_from(creator, 0);
            let queues = [0, 1].map(|adapter| w.queue(adapter, Submission::User));
            for value in 1..=20 {
                let (from, to) = (value as usize % 2, (value as usize + 1) % 2);
                queues[from].signal(&fences[from], value).unwrap();
                queues[to].wait(&fences[to], value).unwrap();
                fences[to].wait(value).unwrap();
            }
        });
    }
}

// spec: MF-071
#[test]
fn behind_an_io_mmu_engines_reach_fences_by_cpu_addresses() {
    world_with(io_mmu).run(|w| {
        assert!(w.kernel.query_adapter_info().io_mmu);
        for fence in fences(w) {
            assert_ne!(fence.value_cpu_va, fence.current_value_gpu_va);
            assert_ne!(fence.current_value_gpu_va, 0, "0 is no access by a GPU");
            assert_eq!(fence.value_cpu_va % 8, 0);
            engines_reach(w, &fence);
        }
    });
    // And not coherent at that.
    let both = |config: &mut MachineConfig| (not_coherent(config), io_mmu(config)).1;
    world_with(both).run(|w| {
        for fence in fences(w) {
            assert_eq!(fence.cache_type, CacheType::Uncached);
            engines_reach(w, &fence);
        }
    });
}

// spec: MF-071
#[test]
fn the_separate_gpu_address_faults_behind_an_io_mmu_and_the_cpu_address_elsewhere() {
    let unmapped = "a store to an address that is not mapped or not writable";
    for make in [Client::native as fn(&Client, u64) -> FenceInstance, Client::monitored] {
        assert_eq!(
            fault_at(world_with(io_mmu), move |w| make(w, 0).current_value_gpu_va),
            unmapped
        );
        assert_eq!(fault_at(world(), move |w| make(w, 0).value_cpu_va), unmapped);
    }
    // MonitoredValue stays out of reach.
    assert_eq!(fault_at(world_with(io_mmu), |w| w.native(0).monitored_value_gpu_va), unmapped);
}

// spec: MF-071
#[test]
fn a_shared_fence_has_one_cpu_address_in_its_process_until_it_ends() {
    world_with(io_mmu).run(|w| {
        let made = w.try_native(0, SHARED).unwrap();
        let nt_handle =
            w.kernel.share_objects(&[made.handle], SyncObjectAccess::all(), None).unwrap();
        let open = |flags| {
            let args = OpenSyncObject {
                device: w.device,
                nt_handle: &nt_handle,
                flags,
                engine_affinity: 0,
            };
            w.kernel.open_sync_object_from_nt_handle(args).unwrap()
        };
        let (second, third) = (open(SyncObjectFlags::NO_SIGNAL), open(SyncObjectFlags::empty()));
        assert_eq!([second.value_cpu_va, third.value_cpu_va], [made.value_cpu_va; 2]);
        for closed in [made, second] {
            w.kernel.destroy_synchronization_object(closed.handle).unwrap();
        }
        engines_reach(w, &third);
        w.kernel.destroy_synchronization_object(third.handle).unwrap();
        drop(nt_handle);
        // What comes late finds a fence that is over.
        let (queue, other) = (w.hw_queue(), w.try_native(0, SHARED).unwrap());
        assert_ne!(other.value_cpu_va, third.value_cpu_va);
        w.on_queue(&queue).run(1, &[store(third.value_cpu_va, 5)]).complete();
        assert_eq!(other.value.load(), 0);
    });
}
