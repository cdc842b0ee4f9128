//! Connections: what they run, their limits, and their ends.

use std::path::PathBuf;
use std::sync::Arc;
use tidegate::calls::{
    AllocationKind, CreateAllocation, DeviceState, FenceValue, Handle, Kernel, Placement, Status,
    WaitMode, WaitNotice,
};
use tidegate::d3d12::{BufferDesc, CommandListType, Device, DeviceOptions, QueueDesc, Submission};
use tidegate::service::Refusal;
use tidegate::service::client::{self, ConnectError, RemoteKernel};
use tidegate::service::server::{self, Limits, ServerConfig, Stopper};
use tidegate::{Machine, MachineConfig, Platform};
use tidegate_testbed::{Client, at};

/// A service on a socket in a folder of its own.
pub(crate) struct Service {
    stopper: Stopper,
    thread: Option<std::thread::JoinHandle<()>>,
    folder: PathBuf,
}

impl Service {
    pub(crate) fn start(config: ServerConfig) -> Service {
        Service::with_machine(config, |_| {})
    }

    pub(crate) fn with_machine(
        config: ServerConfig,
        change: impl FnOnce(&mut MachineConfig),
    ) -> Service {
        let platform = Platform::sharing_host();
        let mut machine_config = MachineConfig::standard(&platform);
        change(&mut machine_config);
        let machine = Arc::new(Machine::new(&platform, machine_config).unwrap());
        let folder = std::env::temp_dir().join(format!(
            "tidegate-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        let listener = server::listen(&folder.join("socket")).unwrap();
        let server = machine.service(listener, config).unwrap();
        let stopper = server.stopper();
        let thread = Some(std::thread::spawn(move || server.serve().unwrap()));
        Service { stopper, thread, folder }
    }

    pub(crate) fn try_client(&self, name: &str) -> Result<Arc<RemoteKernel>, ConnectError> {
        client::connect(&Platform::host(), &self.folder.join("socket"), 0, name)
    }

    pub(crate) fn client(&self, name: &str) -> Arc<RemoteKernel> {
        self.try_client(name).unwrap()
    }

    fn stop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A device over the service, on a platform of its own.
pub(crate) fn device(service: &Service, name: &str) -> Device {
    let platform = Platform::host();
    let socket = service.folder.join("socket");
    let kernel = client::connect(&platform, &socket, 0, name).unwrap();
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

// spec: UMS-192
#[test]
fn hardware_queues_and_packets_work_over_the_service() {
    copies_on(Submission::Hardware);
    copies_on(Submission::Packet);
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
    let socket = service.folder.join("socket");
    let refused = client::connect(&Platform::host(), &socket, 3, "lost").unwrap_err();
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

#[test]
fn a_service_that_ends_takes_its_devices_with_it() {
    let mut service = Service::start(ServerConfig::default());
    let client = service.client("left");
    let device = client.create_device().unwrap();
    assert_eq!(client.device_state(device), Ok(DeviceState::Active));
    service.stop();
    assert_eq!(client.device_state(device), Ok(DeviceState::Removed));
    assert_eq!(client.create_device().unwrap_err(), Status::DEVICE_REMOVED);
    assert!(!client.is_connected());
    assert!(service.try_client("late").is_err());
}
