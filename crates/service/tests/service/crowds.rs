//! A thousand clients that connect at once.

use super::hostile::raw;
use super::kills::{Neighbour, until_empty, warm};
use super::peers::{CROWD, Peer, Role};
use super::process::{self, FEW_CLIENTS, Setting};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tidegate::Platform;
use tidegate::calls::{
    BroadcastExclusions, CreateHwContext, CreateHwQueue, CreateMonitoredFence, CreatePagingQueue,
    Kernel, PagingPriority, Priority, Status, SyncObjectFlags,
};
use tidegate::service::Refusal;
use tidegate::service::client::{self, ConnectError};
use tidegate_testbed::ServiceProcess;

const CROWDS: u64 = 8;

/// Starts all crowds, and lets a neighbour work beside them. Returns them with the numbers of those
/// that were taken and refused.
fn crowds(service: &ServiceProcess, neighbour: &mut Neighbour) -> (Vec<Peer>, [u64; 2]) {
    let mut crowds: Vec<Peer> =
        (0..CROWDS).map(|_| Peer::start(&service.socket(), Role::Crowd)).collect();
    neighbour.work();
    let mut counts = [0, 0];
    for crowd in &mut crowds {
        let numbers = crowd.reached("connected");
        counts = [counts[0] + numbers[0], counts[1] + numbers[1]];
        neighbour.work();
    }
    (crowds, counts)
}

#[test]
fn a_thousand_clients_connect_at_once_and_are_killed_at_once() {
    let (service, before) = warm();
    let mut neighbour = Neighbour::new(&service);
    let (mut crowds, counts) = crowds(&service, &mut neighbour);
    assert_eq!(counts, [CROWDS * CROWD, 0]);
    assert_eq!(service.counter("processes"), 1 + CROWDS * CROWD);
    crowds.iter_mut().for_each(Peer::go);
    for crowd in &mut crowds {
        assert_eq!(crowd.reached("working"), [CROWD]);
    }
    crowds.into_iter().for_each(Peer::kill);
    neighbour.work();
    drop(neighbour);
    until_empty(&service, before);
    assert_eq!(service.counter("sessions_failed_total"), 0);
}

#[test]
fn clients_beyond_the_limit_are_told_so_while_a_thousand_connect() {
    let service = process::start(Setting::FewClients);
    let mut neighbour = Neighbour::new(&service);
    let (crowds, [taken, refused]) = crowds(&service, &mut neighbour);
    assert_eq!((taken, taken + refused), (u64::from(FEW_CLIENTS) - 1, CROWDS * CROWD));
    crowds.into_iter().for_each(Peer::kill);
    neighbour.work();
    // The service is full until it has noticed that they have gone.
    while !client::counts(&service.socket())
        .is_ok_and(|text| text.contains("tidegate_processes 1\n"))
    {
        std::thread::yield_now();
    }
}

/// Else a client would wait for an answer, and the service would try to accept it without end.
#[test]
fn a_client_without_a_descriptor_for_it_is_told_so() {
    let service = process::start(Setting::FewDescriptors);
    let connect = || client::connect(&Platform::host(), &service.socket(), 0, "one more");
    // Each has a descriptor of the service, and says nothing.
    let silent: Vec<_> = (0..150).map(|_| raw(&service.socket())).collect();
    for _ in 0..20 {
        let refused = connect().unwrap_err();
        assert!(matches!(refused, ConnectError::Refused(Refusal::NoDescriptor)), "{refused}");
    }
    drop(silent);
    // One is taken as soon as the others have left.
    while connect().is_err() {}
}

/// Else its connection would end without a word.
#[test]
fn a_client_without_a_thread_for_it_is_told_so() {
    let service = process::start(Setting::Standard);
    let mut neighbour = Neighbour::new(&service);
    neighbour.work();
    let process = Pid::from_raw(service.id().cast_signed());
    let limit = |most: Option<u64>| {
        let limit = Rlimit { current: most, maximum: None };
        prlimit(process, Resource::As, limit).unwrap();
    };
    // Room for what clients need, but for no stack of a thread. Stacks of ended threads are used
    // again.
    limit(Some(service.address_bytes() as u64 + (1 << 20)));
    let connect = || client::connect(&Platform::host(), &service.socket(), 0, "one more");
    let mut kept = Vec::new();
    let refused = loop {
        match connect() {
            Ok(client) => kept.push(client),
            Err(refused) => break refused,
        }
    };
    let expected = Refusal::Open(Status::NO_MEMORY);
    assert!(matches!(&refused, ConnectError::Refused(why) if *why == expected), "{refused}");
    limit(None);
    assert!(connect().unwrap().create_device().is_ok());
    neighbour.work();
    drop((neighbour, kept));
    service.until_left(usize::MAX);
    assert!(service.counter("connections_refused_total") >= 1);
    assert_eq!(service.counter("sessions_failed_total"), 0);
}

/// What is made and cannot be handed over ends at once: the client has no handle to end it by.
#[test]
fn a_queue_whose_memory_finds_no_descriptor_is_not_kept() {
    let service = process::start(Setting::FewDescriptors);
    let mut watch = service.watch();
    let kernel = service.client("queues");
    let device = kernel.create_device().unwrap();
    let context = CreateHwContext { device, node_ordinal: 0, engine_affinity: 0 };
    let hw_context = kernel.create_hw_context(context).unwrap();
    let queue = CreateHwQueue {
        hw_context,
        user_mode_submission: false,
        native_fence_commands: false,
        exclusions: BroadcastExclusions::default(),
        priority: Priority::Normal,
    };
    let paging = CreatePagingQueue { device, priority: PagingPriority::Normal };
    let mut held = || {
        let machine = watch.machine().unwrap().0;
        (machine.queues, machine.fences)
    };
    let before = held();
    let silent: Vec<_> = (0..150).map(|_| raw(&service.socket())).collect();
    let connect = || client::connect(&Platform::host(), &service.socket(), 0, "one more");
    assert!(matches!(connect(), Err(ConnectError::Refused(Refusal::NoDescriptor))));
    assert_eq!(kernel.create_hw_queue(queue).unwrap_err(), Status::NO_MEMORY);
    assert_eq!(kernel.create_paging_queue(paging).unwrap_err(), Status::NO_MEMORY);
    assert_eq!(held(), before);
    drop(silent);
    // Until the service has noticed that enough of them have left.
    while service.open_files() > 60 {
        std::thread::yield_now();
    }
    let next = service.client("the next one");
    let device = next.create_device().unwrap();
    next.create_paging_queue(CreatePagingQueue { device, ..paging }).unwrap();
}

/// The kernel keeps names for its reports. They are no memory of allocations.
#[test]
fn long_names_take_no_memory_of_the_service() {
    const FENCES: usize = 400;
    const NAME_BYTES: usize = 100_000;
    let service = process::start(Setting::Standard);
    let client = service.client(&"p".repeat(NAME_BYTES));
    let device = client.create_device().unwrap();
    let fence = |name: &str| {
        let flags = SyncObjectFlags::empty();
        let args =
            CreateMonitoredFence { device, initial_value: 0, flags, engine_affinity: 0, name };
        client.create_monitored_fence(args).unwrap();
    };
    fence("first");
    let before = service.resident_bytes();
    (0..FENCES).for_each(|_| fence(&"n".repeat(NAME_BYTES)));
    let grown = service.resident_bytes().saturating_sub(before);
    assert!(grown < FENCES * NAME_BYTES / 4, "{grown} bytes for {FENCES} fences");
}
