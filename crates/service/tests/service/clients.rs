//! Connections: what they run, their limits, and their ends.

use std::sync::Arc;
use tidegate::Platform;
use tidegate::calls::{
    AllocationKind, BroadcastExclusions, CreateAllocation, CreateHwContext, CreateHwQueue,
    CreateResource, DeviceState, FenceValue, Handle, Kernel, Placement, Priority, ResourceData,
    ResourceName, Status, SyncObjectFlags, WaitMode, WaitNotice,
};
use tidegate::d3d12::{
    BufferDesc, CommandListType, Device, DeviceOptions, QueueDesc, Submission, Validation,
};
use tidegate::service::Refusal;
use tidegate::service::client::{self, ClientKind, ConnectError, RemoteKernel};
use tidegate::service::server::{Limits, ServerConfig};
use tidegate_testbed::{Client, Service, at};

/// A device over the service, on a platform of its own.
pub(crate) fn device(service: &Service, name: &str) -> Device {
    let platform = Platform::host();
    let kernel = client::connect(&platform, &service.socket(), 0, name).unwrap();
    let options = DeviceOptions { process_name: name.to_owned(), ..DeviceOptions::default() };
    Device::new(&platform, kernel, options).unwrap()
}

/// Uploads, fills on a compute engine, and reads back.
fn copies_on(submission: Submission) {
    let service = Service::start(ServerConfig::default());
    let device = device(&service, "copies");
    let queue = QueueDesc::new(CommandListType::Copy).submission(submission);
    let queue = device.create_queue(queue).unwrap();
    let upload = device.create_buffer(BufferDesc::upload("upload", 4096)).unwrap();
    let there = device.create_buffer(BufferDesc::new("there", 4096)).unwrap();
    let back = device.create_buffer(BufferDesc::readback("back", 4096)).unwrap();
    upload.write(0, &[7; 4096]).unwrap();
    let done = device.create_fence("done", 0).unwrap();
    for round in 1..=100 {
        let mut list = device.create_command_list(CommandListType::Copy);
        list.copy(&there, 0, &upload, 0, 4096).unwrap();
        list.copy(&back, 0, &there, 0, 4096).unwrap();
        queue.execute(&[&list.close().unwrap()]).unwrap();
        queue.signal(&done, round).unwrap();
        done.wait(round).unwrap();
    }
    let mut seen = vec![0; 4096];
    back.read(0, &mut seen).unwrap();
    assert_eq!(seen, vec![7; 4096]);
}

#[test]
fn user_mode_queues_work_over_the_service() {
    copies_on(Submission::User);
}

#[test]
fn hardware_queues_and_packets_work_over_the_service() {
    copies_on(Submission::Hardware);
    copies_on(Submission::Packet);
}

// spec: UMS-192
#[test]
fn a_client_that_knows_kernel_queues_only_is_offered_no_other() {
    let service = Service::start(ServerConfig::default());
    let (platform, newer) = (Platform::host(), service.client("newer"));
    let kind = ClientKind { kernel_queues_only: true, ..ClientKind::default() };
    let older = client::connect_as(&platform, &service.socket(), (0, kind), "older").unwrap();
    let offers = |kernel: &RemoteKernel| {
        kernel.query_adapter_info().nodes.iter().any(|node| node.user_mode_submission)
    };
    assert_eq!((offers(&older), offers(&newer)), (false, true));
    // What it is not offered it does not get either.
    let queue_of = |kernel: &RemoteKernel, user_mode_submission| {
        let device = kernel.create_device().unwrap();
        let context = CreateHwContext { device, node_ordinal: 0, engine_affinity: 1 };
        let hw_context = kernel.create_hw_context(context).unwrap();
        let (priority, native_fence_commands) = (Priority::Normal, false);
        let exclusions = BroadcastExclusions::default();
        let args = CreateHwQueue {
            hw_context,
            user_mode_submission,
            priority,
            native_fence_commands,
            exclusions,
        };
        kernel.create_hw_queue(args).map(drop)
    };
    assert_eq!(queue_of(&older, true), Err(Status::NOT_SUPPORTED));
    assert_eq!([queue_of(&older, false), queue_of(&newer, true)], [Ok(()), Ok(())]);
}

#[test]
fn a_client_too_many_is_told_so() {
    let service = Service::start(ServerConfig { clients: 1, ..ServerConfig::default() });
    let first = service.client("first");
    let refused = service.try_client("second").unwrap_err();
    assert!(matches!(refused, ConnectError::Refused(Refusal::TooManyClients(1))), "{refused}");
    assert!(first.create_device().is_ok(), "the first is not disturbed");
}

#[test]
fn no_service_is_an_error_that_names_the_socket() {
    let refused = client::connect(&Platform::host(), "/nowhere/socket".as_ref(), 0, "lost");
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("/nowhere/socket") && text.contains("tidegate serve"), "{text}");
}

#[test]
fn an_adapter_that_is_not_there_is_refused() {
    let service = Service::start(ServerConfig::default());
    let refused = client::connect(&Platform::host(), &service.socket(), 3, "lost").unwrap_err();
    assert!(matches!(refused, ConnectError::Refused(Refusal::NoAdapter(1))), "{refused}");
}

#[test]
fn limits_are_errors_and_disturb_no_other_client() {
    let limits = Limits { memory_bytes: 3 * 4096, objects: 4, ..Limits::default() };
    let service = Service::start(ServerConfig { limits, ..ServerConfig::default() });
    let (greedy, other) = (service.client("greedy"), service.client("other"));
    let device = greedy.create_device().unwrap();
    let allocate = |kernel: &RemoteKernel, device: Handle, bytes| {
        let (kind, placement) = (AllocationKind::Bulk, Placement::System);
        kernel.create_allocation(CreateAllocation { device, bytes, kind, placement })
    };
    let first = allocate(&greedy, device, 8192).unwrap();
    assert_eq!(allocate(&greedy, device, 4097).unwrap_err(), Status::NO_MEMORY);
    for bytes in [1 << 37, u64::MAX] {
        assert_eq!(allocate(&greedy, device, bytes).unwrap_err(), Status::NO_MEMORY);
    }
    allocate(&greedy, device, 4096).unwrap();
    greedy.destroy_allocation(first.handle).unwrap();
    for _ in 0..2 {
        allocate(&greedy, device, 1).unwrap();
    }
    assert_eq!(allocate(&greedy, device, 1).unwrap_err(), Status::INSUFFICIENT_RESOURCES);
    let device = other.create_device().unwrap();
    allocate(&other, device, 3 * 4096).unwrap();
}

#[test]
fn queued_work_has_a_limit_for_each_client() {
    let limits = Limits { queued: 8, ..Limits::default() };
    let service = Service::start(ServerConfig { limits, ..ServerConfig::default() });
    let clients = ["greedy", "other"].map(|name| {
        let kernel: Arc<dyn Kernel> = service.client(name);
        let device = kernel.create_device().unwrap();
        let client = Client::of(&Platform::host(), kernel, device);
        let (context, gate) = (client.context(0), client.monitored(0));
        client.kernel.wait_from_gpu(context, &at(&gate, 1)).unwrap();
        (client, context, gate)
    });
    for (client, context, gate) in &clients {
        let done = client.monitored(0);
        let signal = |value| client.kernel.signal_from_gpu(*context, &at(&done, value));
        assert!((1..=7).all(|value| signal(value).is_ok()));
        assert_eq!(signal(8), Err(Status::INSUFFICIENT_RESOURCES));
        client.signal(gate, 1);
        client.wait(done.handle, 7).unwrap();
        signal(8).unwrap();
    }
}

#[test]
fn fences_of_cpu_waits_have_a_limit_for_each_client() {
    let limits = Limits { wait_fences: 4, ..Limits::default() };
    let service = Service::start(ServerConfig { limits, ..ServerConfig::default() });
    let platform = Platform::host();
    let clients = ["greedy", "other"].map(|name| {
        let kernel: Arc<dyn Kernel> = service.client(name);
        let device = kernel.create_device().unwrap();
        Client::of(&platform, kernel, device)
    });
    for client in &clients {
        let fence = client.monitored(0);
        let register = |count: usize, value| {
            let fences = vec![FenceValue { fence: fence.handle, value }; count];
            let notice = WaitNotice::Event(platform.event(false));
            client.kernel.register_cpu_wait(&fences, WaitMode::All, notice)
        };
        assert_eq!(register(5, 1).unwrap_err(), Status::INSUFFICIENT_RESOURCES);
        let cancelled = register(3, 1).unwrap();
        assert_eq!(register(2, 1).unwrap_err(), Status::INSUFFICIENT_RESOURCES);
        let kept = register(1, 1).unwrap();
        assert_eq!(register(1, 1).unwrap_err(), Status::INSUFFICIENT_RESOURCES);
        assert_eq!(client.wait(fence.handle, 1), Err(Status::INSUFFICIENT_RESOURCES));
        drop(cancelled);
        let ended = register(3, 1).unwrap();
        assert_eq!(register(1, 1).unwrap_err(), Status::INSUFFICIENT_RESOURCES);
        client.signal(&fence, 1);
        // The waits are over, and their registrations are still held.
        let next = register(4, 2).unwrap();
        assert_eq!(register(1, 2).unwrap_err(), Status::INSUFFICIENT_RESOURCES);
        drop((kept, ended));
        client.signal(&fence, 2);
        client.wait(fence.handle, 2).unwrap();
        drop(next);
    }
}

/// How many more fences a client may create. They are destroyed again.
fn room(client: &Client) -> usize {
    let mut made = Vec::new();
    let refusal = loop {
        match client.try_monitored(0, SyncObjectFlags::empty()) {
            Ok(fence) => made.push(fence.handle),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refusal, Status::INSUFFICIENT_RESOURCES);
    for fence in &made {
        client.kernel.destroy_synchronization_object(*fence).unwrap();
    }
    made.len()
}

#[test]
fn an_opened_resource_counts_with_its_allocations_until_it_is_destroyed() {
    let limits = Limits { objects: 12, ..Limits::default() };
    let service = Service::start(ServerConfig { limits, ..ServerConfig::default() });
    let kernel = service.client("resources");
    let device = kernel.create_device().unwrap();
    let client = Client::of(&Platform::host(), kernel, device);
    assert_eq!(room(&client), 11, "the device is an object");
    let allocations = [0; 2].map(|_| client.allocate(4096, AllocationKind::Bulk).handle);
    let (runtime, driver) = (Vec::new(), Vec::new());
    let data = ResourceData { runtime, driver, allocations: vec![Vec::new(); 2] };
    let args = CreateResource {
        device,
        allocations: &allocations,
        data: &data,
        nt_security_sharing: false,
    };
    let made = client.kernel.create_resource(args).unwrap();
    assert_eq!(room(&client), 8, "two allocations and their resource");
    let open = || client.kernel.open_resource(device, ResourceName::Shared(made.shared_handle));
    let first = open().unwrap();
    assert_eq!(room(&client), 5);
    let _second = open().unwrap();
    assert_eq!(room(&client), 2);
    // The third one has room for two of its three objects, and counts with none of them.
    assert_eq!(open().err(), Some(Status::INSUFFICIENT_RESOURCES));
    assert_eq!(room(&client), 2);
    client.kernel.destroy_resource(first.handle).unwrap();
    assert_eq!(room(&client), 5);
}

#[test]
fn the_hazard_check_of_a_client_tells_its_fences_apart() {
    let service = Service::start(ServerConfig::default());
    let options = DeviceOptions::new("checked").validation(Validation::HAZARDS);
    let device = Device::new(&Platform::host(), service.client("checked"), options).unwrap();
    let (one, other) =
        (device.create_fence("one", 0).unwrap(), device.create_fence("other", 0).unwrap());
    let [waits, signals] =
        ["waits", "signals"].map(|name| device.create_queue(QueueDesc::copy(name)).unwrap());
    waits.wait(&one, 1).unwrap();
    signals.signal(&other, 1).unwrap();
    let open = device.hazards().unwrap().unsignalled;
    assert_eq!(open.len(), 1, "the signal is of the other fence");
    assert!(open[0].to_string().contains("'one'"), "{}", open[0]);
    one.signal(1).unwrap();
    assert_eq!(device.hazards().unwrap().unsignalled, []);
}

#[test]
fn a_service_that_ends_takes_its_devices_with_it() {
    let service = Service::start(ServerConfig::default());
    let client = service.client("left");
    let device = client.create_device().unwrap();
    assert_eq!(client.device_state(device), Ok(DeviceState::Active));
    service.stop();
    assert_eq!(client.device_state(device), Ok(DeviceState::Removed));
    assert_eq!(client.create_device().unwrap_err(), Status::DEVICE_REMOVED);
    assert!(!client.is_connected());
    assert!(service.try_client("late").is_err());
}
