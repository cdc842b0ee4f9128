//! Every call of a process, in an order in which each finds what it takes.
//!
//! An adapter whose driver patches packets carries out all of them but five: its machine has no
//! display, and timeouts are no matter of a client.

use super::process::{self, Setting};
use std::path::Path;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::calls::{
    AllocationKind, CALLS, CreateDoorbell, CreateDoorbellFlags, CreateKeyedMutex,
    CreateNativeFence, CreateResource, CreateSynchronizationObject, DeviceErrorReason, FenceValue,
    Handle, Kernel, KeyedMutexAcquire, MakeResident, NativeFenceType, OlderObject, OpenSyncObject,
    OpenSynchronizationObject, Placement, Present, PresentQueue, ReleaseKeyedMutex, Render,
    ReserveGpuVirtualAddress, ResidencyPriority, ResourceData, ResourceName, SegmentGroup,
    SignalFlags, SignalFromGpu2, Status, SubmitCommand, SubmitCommandToHwQueue, SyncObjectAccess,
    SyncObjectFlags, TILE_BYTES, TdrTest, TileOperation, UpdateGpuVirtualAddress, WaitMode,
    WaitNotice,
};
use tidegate::d3dukmdt::{PixelFormat, Surface};
use tidegate::gpu_abi::{Command, CommandWriter, GpuVa};
use tidegate::service::client;
use tidegate_testbed::Client;

const NODE: u32 = 2;
const ALL: SyncObjectAccess = SyncObjectAccess::all();

fn at(fence: Handle, value: u64) -> [FenceValue; 1] {
    [FenceValue { fence, value }]
}

/// Makes every call. Before each, `next` is told its name. At the end the process has objects of
/// every kind, queued work that nothing ends, and a thread that sleeps.
pub(crate) fn calls(socket: &Path, mut next: impl FnMut(&'static str)) {
    next("connect");
    let platform = Platform::host();
    let kernel = client::connect(&platform, socket, 0, "calls").unwrap();
    next("create_device");
    let device = kernel.create_device().unwrap();
    let client = Client::of(&platform, kernel, device);
    of_devices(&client, &mut next);
    of_memory(&client, &mut next);
    of_resources(&client, &mut next);
    of_fences(&client, &mut next);
    of_older_objects(&client, &mut next);
    of_keyed_mutexes(&client, &mut next);
    of_contexts(&client, &mut next);
    of_hw_queues(&client, &mut next);
    of_user_mode_queues(&client, &mut next);
    next("wait_from_cpu");
    let never = client.monitored(0).handle;
    let sleeper = client.kernel.clone();
    // Until the process is killed, or the service.
    std::thread::spawn(move || sleeper.wait_from_cpu(&at(never, 1), WaitMode::All, None));
    // The process ends as a killed one does: nothing of it is destroyed by its own calls.
    std::mem::forget(client);
}

type Next<'a> = &'a mut dyn FnMut(&'static str);

fn of_devices(client: &Client, next: Next<'_>) {
    let kernel = &client.kernel;
    next("query_adapter_info");
    assert!(!kernel.query_adapter_info().nodes.is_empty());
    next("query_clock_calibration");
    kernel.query_clock_calibration(NODE, 0).unwrap();
    next("query_video_memory_info");
    kernel.query_video_memory_info(SegmentGroup::Local).unwrap();
    next("device_state");
    kernel.device_state(client.device).unwrap();
    let marked = kernel.create_device().unwrap();
    next("mark_device_as_error");
    kernel.mark_device_as_error(marked, DeviceErrorReason::Generic).unwrap();
    next("destroy_device");
    kernel.destroy_device(marked).unwrap();
    next("debug_timeouts");
    let refused = kernel.debug_timeouts(TdrTest::DisableBreak);
    assert_eq!(refused, Err(Status::NOT_SUPPORTED));
    next("display");
    assert!(kernel.display().is_none());
    next("wait_for_vertical_blank_event");
    assert!(kernel.wait_for_vertical_blank_event().is_err());
}

fn of_memory(client: &Client, next: Next<'_>) {
    let (kernel, device) = (&client.kernel, client.device);
    next("create_allocation");
    let fixed = client.allocate(2 * TILE_BYTES, AllocationKind::Bulk);
    let moved = client.allocate_in(4096, Placement::LocalOnDemand);
    next("lock2");
    kernel.lock2(device, fixed.handle).unwrap();
    next("create_paging_queue");
    let queue = client.paging_queue();
    next("make_resident");
    let allocations = &[moved.handle];
    kernel.make_resident(MakeResident { paging_queue: queue.handle, allocations }).unwrap();
    next("set_allocation_priority");
    kernel.set_allocation_priority(device, allocations, ResidencyPriority::HIGH).unwrap();
    next("evict");
    kernel.evict(device, allocations).unwrap();
    next("reserve_gpu_virtual_address");
    let args = ReserveGpuVirtualAddress { device, bytes: 2 * TILE_BYTES };
    let reserved = kernel.reserve_gpu_virtual_address(args).unwrap().handle;
    let fence = client.monitored(0).handle;
    next("update_gpu_virtual_address");
    let operations = &[TileOperation { first: 0, count: 2, memory: Some((fixed.handle, 0)) }];
    let args = UpdateGpuVirtualAddress { reserved, operations, fence, value: 0 };
    kernel.update_gpu_virtual_address(args).unwrap();
    next("free_gpu_virtual_address");
    let another = ReserveGpuVirtualAddress { device, bytes: TILE_BYTES };
    let another = kernel.reserve_gpu_virtual_address(another).unwrap().handle;
    kernel.free_gpu_virtual_address(another).unwrap();
    next("query_allocation_residency");
    kernel.query_allocation_residency(device, allocations).unwrap();
    next("destroy_allocation");
    kernel.destroy_allocation(client.allocate(4096, AllocationKind::Bulk).handle).unwrap();
    next("destroy_paging_queue");
    kernel.destroy_paging_queue(client.paging_queue().handle).unwrap();
}

fn of_resources(client: &Client, next: Next<'_>) {
    let (kernel, device) = (&client.kernel, client.device);
    let data = ResourceData {
        runtime: vec![1; 100],
        driver: vec![2; 100],
        allocations: vec![vec![3; 16]],
    };
    let create_for = |nt_security_sharing| {
        let allocations = &[client.allocate(4096, AllocationKind::Bulk).handle];
        let data = &data;
        kernel.create_resource(CreateResource { device, allocations, data, nt_security_sharing })
    };
    let create = || create_for(false);
    next("open_nt_handle_from_name");
    let shared = create_for(true).unwrap().handle;
    let name = format!("resource of {}", std::process::id());
    let handle = kernel.share_objects(&[shared], SyncObjectAccess::STANDARD, Some(&name)).unwrap();
    let named = kernel.open_nt_handle_from_name(&name.to_uppercase(), ALL).unwrap();
    for handle in [&handle, &named] {
        kernel.query_resource_info(device, ResourceName::NtHandle(handle)).unwrap();
    }
    next("create_resource");
    let made = create().unwrap();
    let name = ResourceName::Shared(made.shared_handle);
    next("query_resource_info");
    kernel.query_resource_info(device, name).unwrap();
    next("open_resource");
    kernel.open_resource(device, name).unwrap();
    next("destroy_resource");
    kernel.destroy_resource(create().unwrap().handle).unwrap();
}

fn of_fences(client: &Client, next: Next<'_>) {
    let (kernel, device) = (&client.kernel, client.device);
    let shared = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
    next("create_monitored_fence");
    let fence = client.try_monitored(0, shared).unwrap();
    next("create_native_fence");
    let args = CreateNativeFence {
        device,
        initial_value: 0,
        fence_type: NativeFenceType::Default,
        flags: shared,
        engine_affinity: 0,
        private_data: [0; 64],
        name: "native",
    };
    let native = kernel.create_native_fence(args).unwrap();
    next("share_objects");
    let name = format!("of {}", std::process::id());
    let handle = kernel.share_objects(&[fence.handle], ALL, Some(&name)).unwrap();
    next("open_sync_object_nt_handle_from_name");
    let named = kernel.open_sync_object_nt_handle_from_name(&name, ALL).unwrap();
    let open = |nt_handle| {
        let flags = SyncObjectFlags::empty();
        OpenSyncObject { device, nt_handle, flags, engine_affinity: 0 }
    };
    next("open_sync_object_from_nt_handle");
    let opened = kernel.open_sync_object_from_nt_handle(open(&named)).unwrap();
    next("open_native_fence_from_nt_handle");
    let handle_of_native = kernel.share_objects(&[native.handle], ALL, None).unwrap();
    kernel.open_native_fence_from_nt_handle(open(&handle_of_native)).unwrap();
    next("register_cpu_wait");
    let notice = || WaitNotice::Event(client.platform.event(false));
    let fences = at(opened.handle, 100);
    let wait = kernel.register_cpu_wait(&fences, WaitMode::All, notice()).unwrap();
    next("a cancelled wait");
    drop(wait);
    next("signal_from_cpu");
    kernel.signal_from_cpu(&at(fence.handle, 1), SignalFlags::empty()).unwrap();
    next("destroy_synchronization_object");
    kernel.destroy_synchronization_object(opened.handle).unwrap();
    std::mem::forget((
        kernel.register_cpu_wait(&at(fence.handle, 100), WaitMode::Any, notice()),
        handle,
    ));
}

fn of_older_objects(client: &Client, next: Next<'_>) {
    let (kernel, device) = (&client.kernel, client.device);
    let context = client.context(NODE);
    let create = |object, flags| {
        let args = CreateSynchronizationObject { device, object, flags };
        kernel.create_synchronization_object(args).unwrap()
    };
    next("create_synchronization_object");
    let mutex = create(OlderObject::Mutex { owned: false }, SyncObjectFlags::SHARED);
    let semaphore = OlderObject::Semaphore { max_count: 1, initial_count: 0 };
    let semaphore = create(semaphore, SyncObjectFlags::empty());
    next("open_synchronization_object");
    let shared = OpenSynchronizationObject::Shared(mutex.shared_handle);
    let opened = kernel.open_synchronization_object(shared).unwrap();
    next("wait_for_synchronization_objects");
    // The mutex is taken. Nothing signals the semaphore but what is queued behind it.
    kernel.wait_for_synchronization_objects(context, &[opened], 0).unwrap();
    kernel.wait_for_synchronization_objects(context, &[semaphore.handle], 0).unwrap();
    next("signal_synchronization_objects");
    let objects = [opened, semaphore.handle];
    let flags = SignalFlags::empty();
    kernel.signal_synchronization_objects(&[context], &objects, flags, 0).unwrap();
}

fn of_keyed_mutexes(client: &Client, next: Next<'_>) {
    let (kernel, device) = (&client.kernel, client.device);
    next("create_keyed_mutex");
    let create = || {
        let (initial_key, data, nt_security_sharing) = (3, vec![1; 10], false);
        let args = CreateKeyedMutex { device, initial_key, data, nt_security_sharing };
        kernel.create_keyed_mutex(args).unwrap()
    };
    let (made, other) = (create(), create());
    next("open_keyed_mutex");
    let opened = kernel.open_keyed_mutex(ResourceName::Shared(made.shared_handle)).unwrap();
    assert_eq!(opened.data_bytes, 10);
    next("open_keyed_mutex_changes");
    let changes = kernel.open_keyed_mutex_changes(device, opened.handle).unwrap();
    next("acquire_keyed_mutex");
    let acquired = kernel.acquire_keyed_mutex(made.handle, 3).unwrap();
    let first = KeyedMutexAcquire::Acquired { fence_value: 0, data: vec![1; 10] };
    assert_eq!(acquired, first);
    let refused = kernel.acquire_keyed_mutex(opened.handle, 3).unwrap();
    assert_eq!(refused, KeyedMutexAcquire::Held { change: 1 });
    next("release_keyed_mutex");
    let (mutex, data) = (made.handle, &[2; 4][..]);
    let args = ReleaseKeyedMutex { mutex, key: 4, fence_value: 9, replaces_data: true, data };
    kernel.release_keyed_mutex(args).unwrap();
    kernel.wait_from_cpu(&at(changes.handle, 1), WaitMode::All, None).unwrap();
    let acquired = kernel.acquire_keyed_mutex(opened.handle, 4).unwrap();
    assert_eq!(acquired, KeyedMutexAcquire::Acquired { fence_value: 9, data: vec![2; 4] });
    next("destroy_keyed_mutex");
    kernel.destroy_keyed_mutex(other.handle).unwrap();
}

fn of_contexts(client: &Client, next: Next<'_>) {
    let kernel = &client.kernel;
    let fence = client.monitored(0).handle;
    next("create_context_virtual");
    let context = client.context(NODE);
    next("disable_gpu_timeout");
    // A right of the system's processes.
    assert!(kernel.disable_gpu_timeout(context).is_err());
    next("queue_number");
    kernel.queue_number(context).unwrap();
    let target = client.allocate(4096, AllocationKind::Bulk);
    let fill = || Command::Fill { destination: GpuVa(target.gpu_va), bytes: 8, value: 1 };
    let (commands_gpu_va, command_bytes) = client.commands(&[fill()]);
    next("submit_command");
    kernel.submit_command(SubmitCommand { context, commands_gpu_va, command_bytes }).unwrap();
    next("signal_from_gpu");
    kernel.signal_from_gpu(context, &at(fence, 1)).unwrap();
    next("wait_from_gpu");
    kernel.wait_from_gpu(context, &at(fence, 2)).unwrap();
    next("render");
    let mut commands = CommandWriter::new();
    commands.push(&fill());
    let (contexts, allocations) = (&[context], &[(target.handle, true)]);
    let commands = &commands.to_bytes()[..];
    kernel.render(Render { contexts, commands, allocations }).unwrap();
    next("a render call with a file");
    let commands = &commands.repeat(100 << 10 >> 3)[..];
    kernel.render(Render { contexts, commands, allocations }).unwrap();
    next("signal_from_gpu2");
    let signal = |fences, flags, cpu_event| {
        kernel.signal_from_gpu2(SignalFromGpu2 { contexts, fences, flags, cpu_event }).unwrap();
    };
    let third = at(fence, 3);
    signal(&third, SignalFlags::empty(), None);
    next("a queued event");
    let event = WaitNotice::Event(client.platform.event(false));
    signal(&[], SignalFlags::ENQUEUE_CPU_EVENT, Some(event));
    next("present");
    let surface = Surface::packed(8, 8, PixelFormat::A8R8G8B8);
    let present = Present {
        queue: PresentQueue::Context(context),
        allocation: target.handle,
        surface,
        vid_pn_source_id: 0,
        sync_interval: 1,
        shown: None,
    };
    assert!(kernel.present(present).is_err());
    next("destroy_context");
    kernel.destroy_context(client.context(NODE)).unwrap();
}

fn of_hw_queues(client: &Client, next: Next<'_>) {
    let kernel = &client.kernel;
    let fence = client.monitored(0).handle;
    next("create_hw_context");
    let hw_context = client.hw_context(NODE);
    next("set_context_scheduling_priority");
    // Above the normal band is a right of the system's processes.
    let refused = kernel.set_context_scheduling_priority(hw_context, 1);
    assert_eq!(refused, Err(Status::ACCESS_DENIED));
    next("set_context_in_process_scheduling_priority");
    kernel.set_context_in_process_scheduling_priority(hw_context, 1).unwrap();
    next("create_hw_queue");
    let queue = client.hw_queue_in(hw_context, false).unwrap();
    let target = client.allocate(4096, AllocationKind::Bulk);
    let fill = Command::Fill { destination: GpuVa(target.gpu_va), bytes: 8, value: 1 };
    let (commands_gpu_va, command_bytes) = client.commands(&[fill]);
    let submit = |progress_fence_id| {
        let hw_queue = queue.handle;
        let args =
            SubmitCommandToHwQueue { hw_queue, progress_fence_id, commands_gpu_va, command_bytes };
        kernel.submit_command_to_hw_queue(args).unwrap();
    };
    next("submit_command_to_hw_queue");
    submit(1);
    next("submit_signal_to_hw_queue");
    kernel.submit_signal_to_hw_queue(queue.handle, &at(fence, 1)).unwrap();
    next("submit_wait_to_hw_queue");
    kernel.submit_wait_to_hw_queue(queue.handle, &at(fence, 2)).unwrap();
    next("a command behind a wait");
    submit(2);
    next("submit_signal_to_hw_queues");
    let another = client.hw_queue_on(NODE);
    let (hw_queues, fences) = (&[queue.handle, another.handle], &at(fence, 3));
    let flags = SignalFlags::empty();
    let signal = tidegate::calls::SubmitSignalToHwQueues { hw_queues, fences, flags };
    kernel.submit_signal_to_hw_queues(signal).unwrap();
    next("native_fence_log_detail");
    kernel.native_fence_log_detail(queue.handle).unwrap();
    let context = client.hw_context(NODE);
    let logged = client.hw_queue_in(context, true).unwrap();
    let logs = kernel.native_fence_log_detail(logged.handle).unwrap();
    assert!(logs.numbers > 0 && logs.numbers.is_multiple_of(logs.wait_entries), "{logs:?}");
    assert_eq!(logs.wait_entries, logs.signal_entries);
    assert!(logs.wait_log_gpu_va != 0 && logs.signal_log_gpu_va != logs.wait_log_gpu_va);
    assert_eq!(logs.verbose.map(|verbose| verbose.load()), Some(0));
    next("destroy_hw_queue");
    let ended = client.hw_context(NODE);
    let queue = client.hw_queue_in(ended, false).unwrap();
    kernel.destroy_hw_queue(queue.handle).unwrap();
    next("destroy_hw_context");
    kernel.destroy_hw_context(ended).unwrap();
}

fn of_user_mode_queues(client: &Client, next: Next<'_>) {
    let kernel: &Arc<dyn Kernel> = &client.kernel;
    let doorbell = || {
        let queue = client.try_hw_queue(NODE, true).unwrap();
        let ring = client.allocate(4096, AllocationKind::Bulk).handle;
        let control = client.allocate(128, AllocationKind::Protocol).handle;
        let (flags, private_data) = (CreateDoorbellFlags::empty(), Vec::new());
        let args = CreateDoorbell { hw_queue: queue.handle, ring, control, flags, private_data };
        kernel.create_doorbell(args).unwrap()
    };
    next("create_doorbell");
    let made = doorbell();
    next("connect_doorbell");
    let connection = kernel.connect_doorbell(made.handle).unwrap();
    next("a ring");
    made.mapping.store(0, connection.value_base);
    client.platform.fence();
    connection.hint.rung();
    next("notify_work_submission");
    kernel.notify_work_submission(made.handle).unwrap();
    next("destroy_doorbell");
    kernel.destroy_doorbell(doorbell().handle).unwrap();
    std::mem::forget((made, connection));
}

#[test]
fn a_process_makes_every_call() {
    let service = process::start(Setting::Patching);
    let mut made = Vec::new();
    calls(&service.socket(), |name| made.push(name));
    let missing: Vec<_> = CALLS.iter().filter(|name| !made.contains(name)).collect();
    assert_eq!(missing, [&""; 0], "calls that no step of a killed client makes");
}
