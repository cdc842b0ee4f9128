//! Fences that several devices and processes have open: NT handles, instances, rights, addresses,
//! pages.

use tidegate_testbed::prelude::*;

// spec: NF-087, NF-088, NF-092
#[test]
fn another_process_opens_and_closes_and_the_global_fence_stays() {
    world().run(|w| {
        let (creator, other) = (w, w.client("another"));
        let made = creator.try_native(0, SHARED).unwrap();
        assert!(w.driver.take_names().ends_with(&["CreateNativeFence", "OpenNativeFence"]));
        let handle = creator.share_all(&made);
        let opened = other.open_native(&handle, SyncObjectFlags::empty()).unwrap();
        assert_eq!(w.driver.take_names(), ["OpenNativeFence"]);
        assert!(
            opened.native && opened.current_value_gpu_va != 0 && opened.monitored_value_gpu_va != 0
        );
        let instances = w.calls().instances;
        let (first, second) =
            (&instances[instances.len() - 2].0, &instances[instances.len() - 1].0);
        assert!(first.global == second.global && first.device != second.device);
        assert_ne!(first.os_handle, second.os_handle, "each instance has its own");
        // Each process uses its own handle for the same fence.
        let event = creator.wait_event(&made, 5);
        other.signal(&opened, 5);
        assert!(event.is_set() && made.value.load() == 5 && opened.value.load() == 5);
        w.driver.take();
        creator.destroy(&made);
        assert_eq!(w.driver.take_names(), ["CloseNativeFence"]);
        other.signal(&opened, 6);
        drop(handle);
        assert_eq!(opened.value.load(), 6);
        w.driver.take();
        other.destroy(&opened);
        assert_eq!(w.driver.take_names(), ["CloseNativeFence", "DestroyNativeFence"]);
    });
}

/// What keeps a fence alive.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Holder {
    Creator,
    Handle,
    Foreign,
}

// spec: MF-045, MF-046, NF-088
#[test]
fn a_fence_lives_until_its_last_instance_and_its_last_handle_whichever_goes_last() {
    use Holder::{Creator, Foreign, Handle};
    let orders = [
        [Creator, Handle, Foreign],
        [Creator, Foreign, Handle],
        [Handle, Creator, Foreign],
        [Handle, Foreign, Creator],
        [Foreign, Creator, Handle],
        [Foreign, Handle, Creator],
    ];
    for order in orders {
        for native in [true, false] {
            world().run(move |w| {
                let (creator, other) = (w, w.client("another"));
                let made = if native {
                    creator.try_native(0, SHARED)
                } else {
                    creator.try_monitored(0, SHARED)
                }
                .unwrap();
                let mut handle = Some(creator.share_all(&made));
                let opened = other.open_fence(handle.as_ref().unwrap());
                assert_eq!(opened.native, native);
                w.driver.take();
                for (left, holder) in (0..3).rev().zip(order) {
                    match holder {
                        Creator => creator.destroy(&made),
                        Foreign => other.destroy(&opened),
                        Handle => drop(handle.take()),
                    }
                    let ended = w.driver.take_names().contains(&"DestroyNativeFence");
                    assert_eq!(ended, native && left == 0, "{order:?} after {holder:?}");
                    assert_eq!(
                        made.value.load() == u64::MAX,
                        left == 0,
                        "{order:?} after {holder:?}"
                    );
                }
            });
        }
    }
}

#[test]
fn a_handle_alone_keeps_a_fence_and_its_value() {
    world().run(|w| {
        let (creator, other) = (w, w.client("another"));
        let made = creator.try_native(0, SHARED).unwrap();
        let handle = creator.share_all(&made);
        let clone = handle.clone();
        creator.signal(&made, 9);
        creator.destroy(&made);
        drop(handle);
        let opened = other.open_fence(&clone);
        assert_eq!(opened.value.load(), 9);
        drop(clone);
        assert!(other.wait_event(&opened, 9).is_set());
    });
}

// spec: NF-101, NF-102
#[test]
fn which_fences_are_shared_and_what_an_instance_may_do() {
    world().run(|w| {
        let (creator, other) = (w, w.client("another"));
        let secured = SyncObjectFlags::NT_SECURITY_SHARING;
        for flags in [
            secured,
            SyncObjectFlags::SHARED,
            SHARED | SyncObjectFlags::NO_SIGNAL | SyncObjectFlags::NO_WAIT,
        ] {
            for refused in [creator.try_native(0, flags), creator.try_monitored(0, flags)] {
                assert_eq!(refused.unwrap_err(), Status::INVALID_PARAMETER, "{flags:?}");
            }
        }
        let private = creator.try_native(0, SyncObjectFlags::empty()).unwrap();
        let shared = creator.kernel.share_objects(&[private.handle], SyncObjectAccess::all(), None);
        assert_eq!(shared.unwrap_err(), Status::INVALID_PARAMETER);
        let made = creator.try_native(0, SHARED).unwrap();
        let handles = [made.handle; 2];
        for (objects, access) in [
            (&handles[..1], SyncObjectAccess::empty()),
            (&handles[..0], SyncObjectAccess::all()),
            (&handles[..], SyncObjectAccess::all()),
        ] {
            let shared = creator.kernel.share_objects(objects, access, None);
            assert_eq!(shared.unwrap_err(), Status::INVALID_PARAMETER, "{objects:?} {access:?}");
        }
        let handle = creator.share_all(&made);
        let open = |flags| other.open_shared(&handle, flags);
        let (no_signal, no_wait) = (SyncObjectFlags::NO_SIGNAL, SyncObjectFlags::NO_WAIT);
        assert_eq!(open(no_signal | no_wait).unwrap_err(), Status::INVALID_PARAMETER);
        assert_eq!(open(SyncObjectFlags::NO_GPU_ACCESS).unwrap_err(), Status::INVALID_PARAMETER);
        let (listener, speaker) = (open(no_signal).unwrap(), open(no_wait).unwrap());
        assert_eq!(other.try_signal(&listener, 1), Err(Status::ACCESS_DENIED));
        assert!(other.try_wait_event(&listener, 1).is_ok());
        assert_eq!(other.try_wait_event(&speaker, 1).map(|_| ()), Err(Status::ACCESS_DENIED));
        other.signal(&speaker, 1);
        // The creator's instance may do both. A duplicated handle never has more rights than its
        // source.
        creator.signal(&made, 2);
        let given = other.kernel.share_objects(&[listener.handle], SyncObjectAccess::all(), None);
        assert_eq!(given.unwrap_err(), Status::ACCESS_DENIED);
        let waits_only =
            other.kernel.share_objects(&[listener.handle], SyncObjectAccess::WAIT, None).unwrap();
        let third = w.client("another");
        let heard = third.open_fence(&waits_only);
        assert_eq!(
            third.try_signal(&heard, 3),
            Err(Status::ACCESS_DENIED),
            "a handle gives no more than it was made with"
        );
        let stranger = third.open_native(&NtHandle::new(7u32), SyncObjectFlags::empty());
        assert_eq!(stranger.unwrap_err(), Status::OBJECT_TYPE_MISMATCH);
    });
}

// spec: NF-340
#[test]
fn an_open_may_repeat_the_flags_that_every_shareable_fence_has() {
    world().run(|w| {
        let (creator, other) = (w, w.client("another"));
        for made in
            [creator.try_native(0, SHARED).unwrap(), creator.try_monitored(0, SHARED).unwrap()]
        {
            let handle = creator.share_all(&made);
            let open = |flags| match made.native {
                true => other.open_native(&handle, flags),
                false => other.open_shared(&handle, flags),
            };
            other.signal(&open(SHARED).unwrap(), 1);
            // What the instance may not do stays with it.
            let listener = open(SHARED | SyncObjectFlags::NO_SIGNAL).unwrap();
            assert_eq!(other.try_signal(&listener, 2), Err(Status::ACCESS_DENIED));
            // The two go together, as in the call that made the fence, and no other flag is known
            // here.
            for flags in [
                SyncObjectFlags::SHARED,
                SyncObjectFlags::NT_SECURITY_SHARING,
                SHARED | SyncObjectFlags::CROSS_ADAPTER,
            ] {
                assert_eq!(open(flags).unwrap_err(), Status::INVALID_PARAMETER, "{flags:?}");
            }
        }
    });
}

// spec: NF-103
#[test]
fn one_process_has_a_fence_at_one_address_and_another_maps_it_anew() {
    world().run(|w| {
        let process = w;
        let made = process.try_native(0, SHARED).unwrap();
        let handle = process.share_all(&made);
        let at = |f: &FenceInstance| (f.current_value_gpu_va, f.monitored_value_gpu_va);
        let before = w.calls().pages.len();
        let (again, second) =
            (process.open_fence(&handle), process.another_device().open_fence(&handle));
        assert_eq!((at(&again), at(&second)), (at(&made), at(&made)));
        assert!(again.handle != made.handle && again.handle != second.handle);
        assert_eq!(w.calls().pages.len(), before, "nothing was mapped again");
        let other = w.client("another");
        let before = w.calls().pages.len();
        other.open_fence(&handle);
        assert_eq!(w.calls().pages.len(), before + 2, "CurrentValue and MonitoredValue");
    });
}

/// The pages of fence values that were mapped since `from`.
fn mapped_since(w: &World, from: usize) -> Vec<PhysicalAddress> {
    w.calls().pages[from..].iter().map(|(at, _)| *at).collect()
}

// spec: NF-029
#[test]
fn shareable_fences_have_pages_of_their_own_and_processes_share_no_other() {
    world().run(|w| {
        let (one, two) = (w, w.client("another"));
        let start = w.calls().pages.len();
        let mut kept = Vec::new();
        for process in [one as &Client, &two] {
            for _ in 0..3 {
                kept.push(process.try_native(0, SyncObjectFlags::empty()).unwrap());
            }
        }
        let packed = mapped_since(w, start);
        assert_eq!(packed.len(), 4, "two pages for each process");
        let start = w.calls().pages.len();
        for _ in 0..3 {
            kept.push(one.try_native(0, SHARED).unwrap());
        }
        let own = mapped_since(w, start);
        assert_eq!(own.len(), 6);
        let all: BTreeSet<_> = packed.iter().chain(&own).collect();
        assert_eq!(all.len(), 10, "no page twice");
    });
}

/// The fence lives on in the other process, so a signal would reach its waiters.
#[test]
fn an_instance_of_a_process_that_closes_signals_nothing() {
    world().run(|w| {
        let made = w.try_native(0, SHARED).unwrap();
        let kind = ProcessKind::default();
        let process = w.machine.process_of_kind(0, "closing", kind).unwrap();
        let closing = Client::of(&w.platform, process.clone(), process.create_device().unwrap());
        let opened = closing.open_fence(&w.share_all(&made));
        let waiter = w.wait_event(&made, 5);
        // It closes when its announced work is done, and that never is.
        closing.connected_queue(0).doorbell.last_queued.store(1);
        let closer = w.platform.spawn("closer", move || process.close());
        w.pass(100_000);
        assert_eq!(closing.try_signal(&opened, 5), Err(Status::DEVICE_REMOVED));
        assert_eq!((made.value.load(), waiter.is_set()), (0, false));
        w.signal(&made, 5);
        assert!(waiter.is_set());
        closer.join();
    });
}

// spec: MF-047
#[test]
fn an_instance_takes_its_cpu_waiters_with_it_and_leaves_those_of_others() {
    for stays in [SyncObjectFlags::empty(), SyncObjectFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY] {
        world().run(move |w| {
            let (creator, other) = (w, w.client("another"));
            let made = creator.try_monitored(0, SHARED | stays).unwrap();
            let opened = other.open_fence(&creator.share_all(&made));
            let (own, foreign) = (creator.wait_event(&made, 5), other.wait_event(&opened, 6));
            creator.destroy(&made);
            assert_eq!((own.is_set(), foreign.is_set()), (stays.is_empty(), false));
            other.destroy(&opened);
            assert!(own.is_set() && foreign.is_set());
        });
    }
}

#[test]
fn engines_store_where_an_instance_may_signal_and_nowhere_else() {
    world().run(|w| {
        let (creator, reader) = (w.client("another"), w);
        let made = creator.try_native(0, SHARED).unwrap();
        let handle = creator.share_all(&made);
        let no_signal = SyncObjectFlags::NO_SIGNAL;
        let listener = reader.open_shared(&handle, no_signal).unwrap();
        // Engines of this process may wait ...
        let queue = w.connected_queue(0);
        let done = w.native(0);
        queue.wait(&listener, 1).signal(&done, 1);
        creator.signal(&made, 1);
        w.wait(done.handle, 1).unwrap();
        // ... and signal once an instance may, at the same address.
        let speaker = reader.open_fence(&handle);
        assert_eq!(speaker.current_value_gpu_va, listener.current_value_gpu_va);
        queue.signal(&speaker, 2).signal(&done, 2);
        w.wait(done.handle, 2).unwrap();
        assert_eq!(made.value.load(), 2);
        // Another fence that they may not signal: the store faults and is never visible.
        let made = creator.try_native(0, SHARED).unwrap();
        let listener = reader.open_shared(&creator.share_all(&made), no_signal).unwrap();
        queue.signal(&listener, 3);
        w.pass(1);
        assert_eq!(made.value.load(), 0);
        let Ok(DeviceState::Faulted(fault)) = w.state() else { panic!("a fault was expected") };
        assert_eq!((fault.gpu_va, fault.write), (listener.current_value_gpu_va, true));
    });
}

#[test]
fn a_fence_is_opened_by_its_name_while_a_handle_has_it() {
    world().run(|w| {
        let [one, two] = [(); 2].map(|()| w.machine.device(DeviceOptions::default()).unwrap());
        let fence = |device: &Device| device.create_fence_with(FenceDesc::new("f").shared());
        let [first, other] = [fence(&one).unwrap(), fence(&two).unwrap()];
        let name = || "frame".to_owned();
        let unknown = Some(Error::NameNotFound { name: name() });
        assert_eq!(two.open_shared_handle_by_name("frame").err(), unknown);
        let created = one.create_named_shared_handle(&first, "frame").unwrap();
        for (device, fence) in [(&one, &first), (&two, &other)] {
            let taken = device.create_named_shared_handle(fence, "frame").err();
            assert_eq!(taken, Some(Error::NameTaken { name: name() }));
        }
        // As on Windows: wine-mirror/wine, dlls/win32u/tests/d3dkmt.c, test_D3DKMTShareObjects.
        let found = two.open_shared_handle_by_name("Global\\FRAME").unwrap();
        let opened = two.open_shared_handle("opened", &found).unwrap();
        opened.signal(5).unwrap();
        assert_eq!((first.completed_value(), other.completed_value()), (5, 0));
        drop(created);
        drop(one.open_shared_handle_by_name("frame").unwrap());
        drop(found);
        assert_eq!(two.open_shared_handle_by_name("frame").err(), unknown, "no handle is left");
        let again = two.create_named_shared_handle(&other, "frame").unwrap();
        let found = one.open_shared_handle_by_name("Local\\frame").unwrap();
        one.open_shared_handle("again", &found).unwrap().signal(7).unwrap();
        assert_eq!((opened.completed_value(), other.completed_value()), (5, 7));
        drop((again, found));
        for bad in ["", "a\\b", "Global\\"] {
            let refused = one.create_named_shared_handle(&first, bad).unwrap_err();
            assert!(matches!(refused, Error::BadValue { .. }), "{bad}: {refused}");
        }
    });
}

#[test]
fn a_handle_that_a_name_opens_has_no_more_rights_than_the_first_one() {
    world().run(|w| {
        let made = w.try_native(0, SHARED).unwrap();
        let only_wait = w.kernel.share_objects(&[made.handle], SyncObjectAccess::WAIT, Some("f"));
        let other = w.client("another");
        let open = |access| other.kernel.open_sync_object_nt_handle_from_name("f", access);
        assert_eq!(open(SyncObjectAccess::all()).err(), Some(Status::ACCESS_DENIED));
        // Source: wine-mirror/wine, dlls/win32u/tests/d3dkmt.c, test_D3DKMTShareObjects.
        assert_eq!(open(SyncObjectAccess::empty()).err(), Some(Status::ACCESS_DENIED));
        let as_resource = other.kernel.open_nt_handle_from_name("f", SyncObjectAccess::WAIT);
        assert_eq!(as_resource.err(), Some(Status::OBJECT_TYPE_MISMATCH));
        let opened = other.open_fence(&open(SyncObjectAccess::WAIT).unwrap());
        assert_eq!(other.try_signal(&opened, 5), Err(Status::ACCESS_DENIED));
        // The process that gave the name has ended; the handle keeps it.
        w.process.terminate();
        assert!(open(SyncObjectAccess::WAIT).is_ok());
        let ended = w.kernel.open_sync_object_nt_handle_from_name("f", SyncObjectAccess::WAIT);
        assert_eq!(ended.err(), Some(Status::DEVICE_REMOVED));
        drop(only_wait);
        assert_eq!(open(SyncObjectAccess::WAIT).err(), Some(Status::OBJECT_NAME_NOT_FOUND));
    });
}
