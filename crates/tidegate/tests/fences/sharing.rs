//! Fences that several devices and processes have open: NT handles, instances, rights, addresses,
//! pages.

use std::collections::BTreeSet;
use std::ops::Deref;
use tidegate::calls::{
    FenceInstance, NtHandle, OpenSyncObject, SignalFlags, Status, SyncObjectAccess,
    SyncObjectFlags, WaitMode,
};
use tidegate::platform::{Event, PhysicalAddress};
use tidegate_testbed::{Client, World, at, signal_packet, wait_packet, world};

const SHARED: SyncObjectFlags = SyncObjectFlags::SHARED.union(SyncObjectFlags::NT_SECURITY_SHARING);

/// A process with one device.
struct Process(Client);

impl Deref for Process {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

impl Process {
    fn of(w: &World) -> Process {
        Process(w.deref().clone())
    }

    fn new(w: &World) -> Process {
        Process(w.client("another"))
    }

    /// Another device of the same process.
    fn second_device(&self) -> Process {
        Process(self.another_device())
    }

    fn native(&self, flags: SyncObjectFlags) -> Result<FenceInstance, Status> {
        self.try_native(0, flags)
    }

    fn monitored(&self, flags: SyncObjectFlags) -> Result<FenceInstance, Status> {
        self.try_monitored(0, flags)
    }

    fn share(&self, fence: &FenceInstance) -> NtHandle {
        self.kernel.share_objects(&[fence.handle], SyncObjectAccess::all()).unwrap()
    }

    fn open_with(
        &self,
        nt_handle: &NtHandle,
        flags: SyncObjectFlags,
    ) -> Result<FenceInstance, Status> {
        self.open_shared(nt_handle, flags)
    }

    fn open(&self, nt_handle: &NtHandle) -> FenceInstance {
        self.open_with(nt_handle, SyncObjectFlags::empty()).unwrap()
    }

    fn open_native(&self, nt_handle: &NtHandle) -> Result<FenceInstance, Status> {
        let flags = SyncObjectFlags::empty();
        let args = OpenSyncObject { device: self.device, nt_handle, flags, engine_affinity: 0 };
        self.kernel.open_native_fence_from_nt_handle(args)
    }

    fn close(&self, fence: &FenceInstance) {
        self.kernel.destroy_synchronization_object(fence.handle).unwrap();
    }

    fn signal(&self, fence: &FenceInstance, value: u64) -> Result<(), Status> {
        self.kernel.signal_from_cpu(&at(fence, value), SignalFlags::empty())
    }

    fn event(&self, w: &World, fence: &FenceInstance, value: u64) -> Result<Event, Status> {
        let event = w.platform.event(true);
        self.kernel.wait_from_cpu(&at(fence, value), WaitMode::All, Some(event.clone()))?;
        Ok(event)
    }
}

// spec: NF-087, NF-088, NF-092
#[test]
fn another_process_opens_and_closes_and_the_global_fence_stays() {
    world().run(|w| {
        let (creator, other) = (Process::of(w), Process::new(w));
        let made = creator.native(SHARED).unwrap();
        assert!(w.driver.take_names().ends_with(&["CreateNativeFence", "OpenNativeFence"]));
        let handle = creator.share(&made);
        let opened = other.open_native(&handle).unwrap();
        assert_eq!(w.driver.take_names(), ["OpenNativeFence"]);
        assert!(
            opened.native && opened.current_value_gpu_va != 0 && opened.monitored_value_gpu_va != 0
        );
        let instances = w.calls().instances;
        let (first, second) =
            (&instances[instances.len() - 2].0, &instances[instances.len() - 1].0);
        assert!(first.global == second.global && first.device != second.device);
        // Each process uses its own handle for the same fence.
        let event = creator.event(w, &made, 5).unwrap();
        other.signal(&opened, 5).unwrap();
        assert!(event.is_set() && made.value.load() == 5 && opened.value.load() == 5);
        w.driver.take();
        creator.close(&made);
        assert_eq!(w.driver.take_names(), ["CloseNativeFence"]);
        other.signal(&opened, 6).unwrap();
        drop(handle);
        assert_eq!(opened.value.load(), 6);
        w.driver.take();
        other.close(&opened);
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
                let (creator, other) = (Process::of(w), Process::new(w));
                let made = if native { creator.native(SHARED) } else { creator.monitored(SHARED) }
                    .unwrap();
                let mut handle = Some(creator.share(&made));
                let opened = other.open(handle.as_ref().unwrap());
                assert_eq!(opened.native, native);
                w.driver.take();
                for (left, holder) in (0..3).rev().zip(order) {
                    match holder {
                        Creator => creator.close(&made),
                        Foreign => other.close(&opened),
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
        let (creator, other) = (Process::of(w), Process::new(w));
        let made = creator.native(SHARED).unwrap();
        let handle = creator.share(&made);
        let clone = handle.clone();
        creator.signal(&made, 9).unwrap();
        creator.close(&made);
        drop(handle);
        let opened = other.open(&clone);
        assert_eq!(opened.value.load(), 9);
        drop(clone);
        assert!(other.event(w, &opened, 9).unwrap().is_set());
    });
}

// spec: NF-101, NF-102
#[test]
fn what_may_be_shared_and_what_may_be_done_with_it() {
    world().run(|w| {
        let (creator, other) = (Process::of(w), Process::new(w));
        let secured = SyncObjectFlags::NT_SECURITY_SHARING;
        for flags in [
            secured,
            SyncObjectFlags::SHARED,
            SHARED | SyncObjectFlags::NO_SIGNAL | SyncObjectFlags::NO_WAIT,
        ] {
            assert_eq!(creator.native(flags).unwrap_err(), Status::INVALID_PARAMETER, "{flags:?}");
            assert_eq!(
                creator.monitored(flags).unwrap_err(),
                Status::INVALID_PARAMETER,
                "{flags:?}"
            );
        }
        let private = creator.native(SyncObjectFlags::empty()).unwrap();
        let shared = creator.kernel.share_objects(&[private.handle], SyncObjectAccess::all());
        assert_eq!(shared.unwrap_err(), Status::INVALID_PARAMETER);
        let made = creator.native(SHARED).unwrap();
        let handle = creator.share(&made);
        let open = |flags| other.open_with(&handle, flags);
        let (no_signal, no_wait) = (SyncObjectFlags::NO_SIGNAL, SyncObjectFlags::NO_WAIT);
        assert_eq!(open(no_signal | no_wait).unwrap_err(), Status::INVALID_PARAMETER);
        assert_eq!(open(SyncObjectFlags::NO_GPU_ACCESS).unwrap_err(), Status::INVALID_PARAMETER);
        let (listener, speaker) = (open(no_signal).unwrap(), open(no_wait).unwrap());
        assert_eq!(other.signal(&listener, 1), Err(Status::ACCESS_DENIED));
        assert!(other.event(w, &listener, 1).is_ok());
        assert_eq!(other.event(w, &speaker, 1).map(|_| ()), Err(Status::ACCESS_DENIED));
        other.signal(&speaker, 1).unwrap();
        // The creator's instance may do both. A duplicated handle never has more rights than its
        // source.
        creator.signal(&made, 2).unwrap();
        let given = other.kernel.share_objects(&[listener.handle], SyncObjectAccess::all());
        assert_eq!(given.unwrap_err(), Status::ACCESS_DENIED);
        let waits_only =
            other.kernel.share_objects(&[listener.handle], SyncObjectAccess::WAIT).unwrap();
        let third = Process::new(w);
        let heard = third.open(&waits_only);
        assert_eq!(
            third.signal(&heard, 3),
            Err(Status::ACCESS_DENIED),
            "a handle gives no more than it was made with"
        );
        assert_eq!(
            third.open_native(&NtHandle::new(7u32)).unwrap_err(),
            Status::OBJECT_TYPE_MISMATCH
        );
    });
}

// spec: NF-340
#[test]
fn an_open_may_repeat_the_flags_that_every_shareable_fence_has() {
    world().run(|w| {
        let (creator, other) = (Process::of(w), Process::new(w));
        for made in [creator.native(SHARED).unwrap(), creator.monitored(SHARED).unwrap()] {
            let handle = creator.share(&made);
            let open = |flags| {
                let args = OpenSyncObject {
                    device: other.device,
                    nt_handle: &handle,
                    flags,
                    engine_affinity: 0,
                };
                match made.native {
                    true => other.kernel.open_native_fence_from_nt_handle(args),
                    false => other.kernel.open_sync_object_from_nt_handle(args),
                }
            };
            other.signal(&open(SHARED).unwrap(), 1).unwrap();
            // What the instance may not do stays with it.
            let listener = open(SHARED | SyncObjectFlags::NO_SIGNAL).unwrap();
            assert_eq!(other.signal(&listener, 2), Err(Status::ACCESS_DENIED));
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
        let process = Process::of(w);
        let made = process.native(SHARED).unwrap();
        let handle = process.share(&made);
        let at = |f: &FenceInstance| (f.current_value_gpu_va, f.monitored_value_gpu_va);
        let before = w.calls().pages.len();
        let (again, second) = (process.open(&handle), process.second_device().open(&handle));
        assert_eq!((at(&again), at(&second)), (at(&made), at(&made)));
        assert!(again.handle != made.handle && again.handle != second.handle);
        assert_eq!(w.calls().pages.len(), before, "nothing was mapped again");
        let other = Process::new(w);
        let before = w.calls().pages.len();
        other.open(&handle);
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
        let (one, two) = (Process::of(w), Process::new(w));
        let start = w.calls().pages.len();
        let mut kept = Vec::new();
        for process in [&one, &two] {
            for _ in 0..3 {
                kept.push(process.native(SyncObjectFlags::empty()).unwrap());
            }
        }
        let packed = mapped_since(w, start);
        assert_eq!(packed.len(), 4, "two pages for each process");
        let start = w.calls().pages.len();
        for _ in 0..3 {
            kept.push(one.native(SHARED).unwrap());
        }
        let own = mapped_since(w, start);
        assert_eq!(own.len(), 6);
        let all: BTreeSet<_> = packed.iter().chain(&own).collect();
        assert_eq!(all.len(), 10, "no page twice");
    });
}

// spec: MF-047
#[test]
fn an_instance_takes_its_cpu_waiters_with_it_and_leaves_those_of_others() {
    for stays in [SyncObjectFlags::empty(), SyncObjectFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY] {
        world().run(move |w| {
            let (creator, other) = (Process::of(w), Process::new(w));
            let made = creator.monitored(SHARED | stays).unwrap();
            let opened = other.open(&creator.share(&made));
            let (own, foreign) =
                (creator.event(w, &made, 5).unwrap(), other.event(w, &opened, 6).unwrap());
            creator.close(&made);
            assert_eq!((own.is_set(), foreign.is_set()), (stays.is_empty(), false));
            other.close(&opened);
            assert!(own.is_set() && foreign.is_set());
        });
    }
}

#[test]
fn engines_store_where_an_instance_may_signal_and_nowhere_else() {
    let world = world();
    let (w, report) = world.run_to_report(|w| {
        let (creator, reader) = (Process::new(w), Process::of(w));
        let made = creator.native(SHARED).unwrap();
        let handle = creator.share(&made);
        let no_signal = SyncObjectFlags::NO_SIGNAL;
        let listener = reader.open_with(&handle, no_signal).unwrap();
        // Engines of this process may wait ...
        let queue = w.connected_queue(0);
        let done = w.native(0);
        queue.push(&wait_packet(&listener, 1, u32::MAX));
        queue.push(&signal_packet(&done, 1, u32::MAX));
        creator.signal(&made, 1).unwrap();
        w.wait(done.handle, 1).unwrap();
        // ... and signal once an instance may, at the same address.
        let speaker = reader.open(&handle);
        assert_eq!(speaker.current_value_gpu_va, listener.current_value_gpu_va);
        queue.push(&signal_packet(&speaker, 2, u32::MAX));
        queue.push(&signal_packet(&done, 2, u32::MAX));
        w.wait(done.handle, 2).unwrap();
        assert_eq!(made.value.load(), 2);
        // Another fence that they may not signal: the store faults and is never visible.
        let made = creator.native(SHARED).unwrap();
        let listener = reader.open_with(&creator.share(&made), no_signal).unwrap();
        queue.push(&signal_packet(&listener, 3, u32::MAX));
        w.pass(1);
        assert_eq!(made.value.load(), 0);
        assert!(matches!(
            w.state().unwrap(),
            tidegate::calls::DeviceState::Faulted(fault) if fault.gpu_va == listener.current_value_gpu_va && fault.write
        ));
    });
    assert!(report.completed(), "{report:?}");
    drop(w);
}
