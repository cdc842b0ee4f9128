//! What each call of `calls::Kernel` answers on a removed adapter and on a lost device, as a table.
//! A call without a row fails the test.

use Answer::{NoStatus, Refused, Removed, Succeeds};
use std::ops::Deref;
use tidegate::calls::{
    CreateKeyedMutex, CreatePagingQueue, PagingPriority, ReleaseKeyedMutex, ReservedAddresses,
    ResidencyPriority, TILE_BYTES,
};
use tidegate_testbed::prelude::*;

const PLAIN: SyncObjectFlags = SyncObjectFlags::empty();

/// An object of each kind, of one device.
struct Objects {
    client: Client,
    context: Handle,
    hw_context: Handle,
    hw_queue: HwQueue,
    user: UserQueue,
    user_without_doorbell: HwQueue,
    fence: FenceInstance,
    shared: FenceInstance,
    fence_handle: NtHandle,
    semaphore: Handle,
    shared_semaphore: u32,
    memory: Allocation,
    resource: Handle,
    resource_name: u32,
    keyed_mutex: Handle,
    shared_keyed_mutex: u32,
    reserved: ReservedAddresses,
    paging: PagingQueue,
    commands: (u64, u32),
}

impl Deref for Objects {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Objects {
    fn new(client: Client) -> Objects {
        let kernel = client.kernel.clone();
        let hw_context = client.hw_context(0);
        let semaphore = kernel
            .create_synchronization_object(CreateSynchronizationObject {
                device: client.device,
                object: OlderObject::Semaphore { max_count: 9, initial_count: 9 },
                flags: SyncObjectFlags::SHARED,
            })
            .unwrap();
        let of_resource = client.allocate(4096, AllocationKind::Protocol).handle;
        let resource = kernel
            .create_resource(CreateResource {
                device: client.device,
                allocations: &[of_resource],
                data: &data(),
                nt_security_sharing: false,
            })
            .unwrap();
        let keyed_mutex = kernel
            .create_keyed_mutex(CreateKeyedMutex {
                device: client.device,
                initial_key: 0,
                data: vec![4],
                nt_security_sharing: false,
            })
            .unwrap();
        let shared = client.try_native(0, SHARED).unwrap();
        let paging = client.paging_queue();
        let memory = client.allocate_in(4096, Placement::Local);
        // `evict` needs a reference.
        client.make_resident(&paging, &[&memory]);
        Objects {
            context: client.context(0),
            hw_queue: client.hw_queue_in(hw_context, false).unwrap(),
            hw_context,
            user: client.connected_queue(0),
            user_without_doorbell: client.try_hw_queue(0, true).unwrap(),
            fence: client.native(0),
            fence_handle: client.share_all(&shared),
            shared,
            semaphore: semaphore.handle,
            shared_semaphore: semaphore.shared_handle,
            memory,
            resource: resource.handle,
            resource_name: resource.shared_handle,
            keyed_mutex: keyed_mutex.handle,
            shared_keyed_mutex: keyed_mutex.shared_handle,
            reserved: kernel
                .reserve_gpu_virtual_address(ReserveGpuVirtualAddress {
                    device: client.device,
                    bytes: 4 * TILE_BYTES,
                })
                .unwrap(),
            paging,
            commands: client.commands(&[Command::Timed { ns: 1 }]),
            client,
        }
    }

    /// The same with one handle in the place of all.
    fn with_handles(self, handle: Handle) -> Objects {
        let mut of = self;
        of.client.device = handle;
        (of.context, of.hw_context, of.semaphore, of.resource) = (handle, handle, handle, handle);
        for queue in [&mut of.hw_queue, &mut of.user.queue, &mut of.user_without_doorbell] {
            queue.handle = handle;
        }
        of.user.doorbell.handle = handle;
        (of.fence.handle, of.shared.handle) = (handle, handle);
        for memory in [&mut of.memory, &mut of.user.ring, &mut of.user.control] {
            memory.handle = handle;
        }
        (of.reserved.handle, of.paging.handle, of.keyed_mutex) = (handle, handle, handle);
        of
    }

    fn one(&self) -> [FenceValue; 1] {
        at(&self.fence, 1)
    }
}

fn data() -> ResourceData {
    ResourceData { runtime: vec![1], driver: vec![2], allocations: vec![vec![3]] }
}

/// What a call answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Removed,
    /// It succeeds: it reads what stays known, or ends an object.
    Succeeds,
    Refused(Status),
    /// The surface has no status for it.
    NoStatus,
}

type Call = fn(&Objects) -> Result<(), Status>;

/// A call, its answer on a removed adapter, and its answer on a lost device. Calls that end an
/// object of the table come after those that use it.
const CALLS: &[(&str, Answer, Answer, Call)] = &[
    ("query_adapter_info", NoStatus, NoStatus, |of| {
        of.kernel.query_adapter_info();
        Ok(())
    }),
    ("queue_number", NoStatus, NoStatus, |of| {
        of.kernel.queue_number(of.context);
        Ok(())
    }),
    ("display", NoStatus, NoStatus, |of| {
        of.kernel.display();
        Ok(())
    }),
    // The reason of the loss.
    ("device_state", Succeeds, Succeeds, |of| of.state().map(drop)),
    // Calls on the adapter or the process, and on no device.
    ("query_clock_calibration", Removed, Succeeds, |of| {
        of.kernel.query_clock_calibration(0, 0).map(drop)
    }),
    ("create_device", Removed, Succeeds, |of| of.kernel.create_device().map(drop)),
    ("debug_timeouts", Removed, Succeeds, |of| of.kernel.debug_timeouts(TdrTest::DisableBreak)),
    ("query_video_memory_info", Removed, Succeeds, |of| {
        of.kernel.query_video_memory_info(SegmentGroup::Local).map(drop)
    }),
    ("wait_for_vertical_blank_event", Removed, Succeeds, |of| {
        of.kernel.wait_for_vertical_blank_event()
    }),
    (
        "open_sync_object_nt_handle_from_name",
        Removed,
        Refused(Status::OBJECT_NAME_NOT_FOUND),
        |of| {
            let access = SyncObjectAccess::all();
            of.kernel.open_sync_object_nt_handle_from_name("none", access).map(drop)
        },
    ),
    ("open_nt_handle_from_name", Removed, Refused(Status::OBJECT_NAME_NOT_FOUND), |of| {
        of.kernel.open_nt_handle_from_name("none", SyncObjectAccess::all()).map(drop)
    }),
    // A device keeps its first reason.
    ("mark_device_as_error", Removed, Succeeds, |of| {
        let reason = DeviceErrorReason::Generic;
        of.kernel.mark_device_as_error(of.device, reason)
    }),
    ("disable_gpu_timeout", Removed, Succeeds, |of| of.kernel.disable_gpu_timeout(of.context)),
    // Objects of the device.
    ("create_allocation", Removed, Removed, |of| {
        of.try_allocate(4096, AllocationKind::Bulk, Placement::System).map(drop)
    }),
    ("lock2", Removed, Removed, |of| of.kernel.lock2(of.device, of.memory.handle).map(drop)),
    ("create_resource", Removed, Removed, |of| {
        let args = CreateResource {
            device: of.device,
            allocations: &[of.memory.handle],
            data: &data(),
            nt_security_sharing: false,
        };
        of.kernel.create_resource(args).map(drop)
    }),
    ("query_resource_info", Removed, Removed, |of| {
        let name = ResourceName::Shared(of.resource_name);
        of.kernel.query_resource_info(of.device, name).map(drop)
    }),
    ("open_resource", Removed, Removed, |of| {
        let name = ResourceName::Shared(of.resource_name);
        of.kernel.open_resource(of.device, name).map(drop)
    }),
    ("create_keyed_mutex", Removed, Removed, |of| {
        let args = CreateKeyedMutex {
            device: of.device,
            initial_key: 0,
            data: Vec::new(),
            nt_security_sharing: true,
        };
        of.kernel.create_keyed_mutex(args).map(drop)
    }),
    ("open_keyed_mutex_changes", Removed, Removed, |of| {
        of.kernel.open_keyed_mutex_changes(of.device, of.keyed_mutex).map(drop)
    }),
    // An instance of a keyed mutex is of its process, and of no device.
    ("open_keyed_mutex", Removed, Succeeds, |of| {
        of.kernel.open_keyed_mutex(ResourceName::Shared(of.shared_keyed_mutex)).map(drop)
    }),
    ("acquire_keyed_mutex", Removed, Succeeds, |of| {
        of.kernel.acquire_keyed_mutex(of.keyed_mutex, 0).map(drop)
    }),
    ("release_keyed_mutex", Removed, Succeeds, |of| {
        let (mutex, data) = (of.keyed_mutex, &[][..]);
        let args = ReleaseKeyedMutex { mutex, key: 0, fence_value: 0, replaces_data: false, data };
        of.kernel.release_keyed_mutex(args)
    }),
    ("reserve_gpu_virtual_address", Removed, Removed, |of| {
        let args = ReserveGpuVirtualAddress { device: of.device, bytes: TILE_BYTES };
        of.kernel.reserve_gpu_virtual_address(args).map(drop)
    }),
    ("update_gpu_virtual_address", Removed, Removed, |of| {
        let operations = &[TileOperation { first: 0, count: 1, memory: None }];
        let (reserved, fence) = (of.reserved.handle, of.fence.handle);
        let args = UpdateGpuVirtualAddress { reserved, operations, fence, value: 1 };
        of.kernel.update_gpu_virtual_address(args)
    }),
    ("create_paging_queue", Removed, Removed, |of| {
        let args = CreatePagingQueue { device: of.device, priority: PagingPriority::Normal };
        of.kernel.create_paging_queue(args).map(drop)
    }),
    ("make_resident", Removed, Removed, |of| {
        let (paging_queue, allocations) = (of.paging.handle, &[of.memory.handle][..]);
        of.kernel.make_resident(MakeResident { paging_queue, allocations }).map(drop)
    }),
    // It gives memory back.
    ("evict", Removed, Succeeds, |of| of.kernel.evict(of.device, &[of.memory.handle])),
    ("set_allocation_priority", Removed, Removed, |of| {
        let (device, priority) = (of.device, ResidencyPriority::LOW);
        of.kernel.set_allocation_priority(device, &[of.memory.handle], priority)
    }),
    ("query_allocation_residency", Removed, Removed, |of| {
        let device = of.device;
        of.kernel.query_allocation_residency(device, &[of.memory.handle]).map(drop)
    }),
    ("create_context_virtual", Removed, Removed, |of| {
        of.try_context(0, Priority::Normal).map(drop)
    }),
    ("submit_command", Removed, Removed, |of| {
        let (commands_gpu_va, command_bytes) = of.commands;
        let args = SubmitCommand { context: of.context, commands_gpu_va, command_bytes };
        of.kernel.submit_command(args)
    }),
    ("render", Removed, Removed, |of| {
        let contexts = &[of.context];
        of.kernel.render(Render { contexts, commands: &[0; 8], allocations: &[] })
    }),
    ("create_hw_context", Removed, Removed, |of| of.try_hw_context(0).map(drop)),
    ("set_context_scheduling_priority", Removed, Removed, |of| {
        of.kernel.set_context_scheduling_priority(of.hw_context, -1)
    }),
    ("set_context_in_process_scheduling_priority", Removed, Removed, |of| {
        of.kernel.set_context_in_process_scheduling_priority(of.hw_context, 1)
    }),
    ("create_hw_queue", Removed, Removed, |of| of.hw_queue_in(of.hw_context, false).map(drop)),
    ("submit_command_to_hw_queue", Removed, Removed, |of| {
        let (commands_gpu_va, command_bytes) = of.commands;
        of.kernel.submit_command_to_hw_queue(SubmitCommandToHwQueue {
            hw_queue: of.hw_queue.handle,
            progress_fence_id: 1,
            commands_gpu_va,
            command_bytes,
        })
    }),
    ("submit_wait_to_hw_queue", Removed, Removed, |of| {
        of.kernel.submit_wait_to_hw_queue(of.hw_queue.handle, &of.one())
    }),
    ("submit_signal_to_hw_queues", Removed, Removed, |of| {
        of.kernel.submit_signal_to_hw_queues(SubmitSignalToHwQueues {
            hw_queues: &[of.hw_queue.handle],
            fences: &of.one(),
            flags: SignalFlags::empty(),
        })
    }),
    ("create_monitored_fence", Removed, Removed, |of| of.try_monitored(0, PLAIN).map(drop)),
    ("create_native_fence", Removed, Removed, |of| of.try_native(0, PLAIN).map(drop)),
    // A shared fence tells other processes of the loss: it reads its maximum.
    ("share_objects", Removed, Succeeds, |of| {
        of.share(&of.shared, SyncObjectAccess::all()).map(drop)
    }),
    ("open_sync_object_from_nt_handle", Removed, Removed, |of| {
        of.open_shared(&of.fence_handle, PLAIN).map(drop)
    }),
    ("open_native_fence_from_nt_handle", Removed, Removed, |of| {
        of.open_native(&of.fence_handle, PLAIN).map(drop)
    }),
    ("wait_from_cpu", Removed, Removed, |of| {
        of.kernel.wait_from_cpu(&of.one(), WaitMode::All, None)
    }),
    ("register_cpu_wait", Removed, Removed, |of| {
        let notice = WaitNotice::Event(of.platform.event(true));
        of.kernel.register_cpu_wait(&of.one(), WaitMode::All, notice).map(drop)
    }),
    ("signal_from_cpu", Removed, Removed, |of| {
        of.kernel.signal_from_cpu(&of.one(), SignalFlags::empty())
    }),
    ("wait_from_gpu", Removed, Removed, |of| of.kernel.wait_from_gpu(of.context, &of.one())),
    ("signal_from_gpu2", Removed, Removed, |of| {
        of.kernel.signal_from_gpu2(SignalFromGpu2 {
            contexts: &[of.context],
            fences: &of.one(),
            flags: SignalFlags::empty(),
            cpu_event: None,
        })
    }),
    ("create_synchronization_object", Removed, Removed, |of| {
        let args = CreateSynchronizationObject {
            device: of.device,
            object: OlderObject::Mutex { owned: false },
            flags: PLAIN,
        };
        of.kernel.create_synchronization_object(args).map(drop)
    }),
    // By a global handle it is of the process, and of no device.
    ("open_synchronization_object", Removed, Succeeds, |of| {
        let name = OpenSynchronizationObject::Shared(of.shared_semaphore);
        of.kernel.open_synchronization_object(name).map(drop)
    }),
    ("wait_for_synchronization_objects", Removed, Removed, |of| {
        of.kernel.wait_for_synchronization_objects(of.context, &[of.semaphore], 0)
    }),
    ("signal_synchronization_objects", Removed, Removed, |of| {
        let flags = SignalFlags::empty();
        let (contexts, objects) = (&[of.context], &[of.semaphore]);
        of.kernel.signal_synchronization_objects(contexts, objects, flags, 0)
    }),
    ("create_doorbell", Removed, Removed, |of| {
        let args = doorbell_args(of.user_without_doorbell.handle, &of.user.ring, &of.user.control);
        of.kernel.create_doorbell(args).map(drop)
    }),
    ("connect_doorbell", Removed, Removed, |of| {
        of.kernel.connect_doorbell(of.user.doorbell.handle).map(drop)
    }),
    ("notify_work_submission", Removed, Removed, |of| {
        of.kernel.notify_work_submission(of.user.doorbell.handle)
    }),
    // The logs stay readable, to find the cause.
    ("native_fence_log_detail", Removed, Succeeds, |of| {
        of.kernel.native_fence_log_detail(of.user.queue.handle).map(drop)
    }),
    ("present", Removed, Removed, |of| {
        of.kernel.present(Present {
            queue: PresentQueue::Context(of.context),
            allocation: of.memory.handle,
            surface: Surface {
                width: 8,
                height: 8,
                pitch_bytes: 32,
                format: PixelFormat::A8R8G8B8,
            },
            vid_pn_source_id: 0,
            sync_interval: 1,
            shown: None,
        })
    }),
    // A process ends the objects of a device that it has lost.
    ("free_gpu_virtual_address", Removed, Succeeds, |of| {
        of.kernel.free_gpu_virtual_address(of.reserved.handle)
    }),
    ("destroy_doorbell", Removed, Succeeds, |of| {
        of.kernel.destroy_doorbell(of.user.doorbell.handle)
    }),
    ("destroy_hw_queue", Removed, Succeeds, |of| of.kernel.destroy_hw_queue(of.user.queue.handle)),
    ("destroy_hw_context", Removed, Succeeds, |of| of.kernel.destroy_hw_context(of.hw_context)),
    ("destroy_context", Removed, Succeeds, |of| of.kernel.destroy_context(of.context)),
    ("destroy_paging_queue", Removed, Succeeds, |of| {
        of.kernel.destroy_paging_queue(of.paging.handle)
    }),
    ("destroy_synchronization_object", Removed, Succeeds, |of| {
        of.kernel.destroy_synchronization_object(of.fence.handle)
    }),
    ("destroy_keyed_mutex", Removed, Succeeds, |of| of.kernel.destroy_keyed_mutex(of.keyed_mutex)),
    ("destroy_resource", Removed, Succeeds, |of| of.kernel.destroy_resource(of.resource)),
    ("destroy_allocation", Removed, Succeeds, |of| of.kernel.destroy_allocation(of.memory.handle)),
    ("destroy_device", Removed, Succeeds, |of| of.kernel.destroy_device(of.device)),
];

fn with_display() -> World {
    world_with(|config| config.gpu.display = Some(DisplayConfig::default()))
}

fn answer((name, call): (&str, Call), of: &Objects, expected: Answer) -> Option<String> {
    let given = match call(of) {
        Ok(()) if expected == NoStatus => NoStatus,
        Ok(()) => Succeeds,
        Err(Status::DEVICE_REMOVED) => Removed,
        Err(status) => Refused(status),
    };
    (given != expected).then(|| format!("{name}: {given:?}, expected {expected:?}"))
}

// spec: PRE-095
#[test]
fn every_call_on_a_removed_adapter_says_so() {
    with_display().run(|w| {
        let of = Objects::new(Client::privileged(&w.machine, "app"));
        w.machine.remove_adapter(0);
        let answers = CALLS
            .iter()
            .filter_map(|(name, removed, _, call)| answer((name, *call), &of, *removed));
        assert_eq!(answers.collect::<Vec<_>>(), [""; 0]);
        assert_eq!(of.client.state(), Ok(DeviceState::Removed));
    });
}

// spec: MF-049, PRE-161
#[test]
fn every_call_on_a_lost_device_says_so_or_ends_an_object() {
    with_display().run(|w| {
        let of = Objects::new(Client::privileged(&w.machine, "app"));
        let reason = DeviceErrorReason::DriverError;
        of.client.kernel.mark_device_as_error(of.client.device, reason).unwrap();
        let answers =
            CALLS.iter().filter_map(|(name, _, lost, call)| answer((name, *call), &of, *lost));
        assert_eq!(answers.collect::<Vec<_>>(), [""; 0]);
    });
}

/// Calls that take no handle of an object.
const WITHOUT_HANDLE: [&str; 11] = [
    "query_adapter_info",
    "display",
    "query_clock_calibration",
    "create_device",
    "debug_timeouts",
    "query_video_memory_info",
    "wait_for_vertical_blank_event",
    "open_sync_object_nt_handle_from_name",
    "open_nt_handle_from_name",
    "open_keyed_mutex",
    "open_synchronization_object",
];

/// A handle, and the calls for which it names an object of the right kind.
type WrongHandle = (fn(&Objects) -> Handle, &'static [&'static str]);

#[test]
fn every_call_refuses_a_handle_that_names_nothing_or_an_object_of_another_kind() {
    let wrong: [WrongHandle; 4] = [
        (|_| Handle(0), &[]),
        (|_| Handle(0xFFFF_FFC0), &[]),
        (|of| of.reserved.handle, &["free_gpu_virtual_address"]),
        (|of| of.semaphore, &["destroy_synchronization_object"]),
    ];
    for (choose, is_right_for) in wrong {
        with_display().run(move |w| {
            let of = Objects::new(Client::privileged(&w.machine, "app"));
            let before = w.adapter().census();
            let handle = choose(&of);
            let of = of.with_handles(handle);
            assert_eq!(of.client.kernel.queue_number(handle), None);
            let is_asked = |name: &str| {
                let skips = WITHOUT_HANDLE.contains(&name) || is_right_for.contains(&name);
                !skips && name != "queue_number"
            };
            let calls = CALLS.iter().filter(|(name, ..)| is_asked(name));
            let refused = Refused(Status::INVALID_PARAMETER);
            let answers =
                calls.filter_map(|(name, _, _, call)| answer((name, *call), &of, refused));
            assert_eq!(answers.collect::<Vec<_>>(), [""; 0], "{handle:?}");
            assert_eq!(w.adapter().census(), before, "{handle:?}");
        });
    }
}

#[test]
fn every_call_of_the_surface_has_a_row() {
    let rows: BTreeSet<&str> = CALLS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(rows, tidegate::calls::CALLS.iter().copied().collect());
    assert_eq!(rows.len(), CALLS.len(), "a call has one row");
}
