//! Viewers of a service: pages of rows, adapters that there are not, and other versions.

use super::hostile::raw;
use rustix::net::{RecvFlags, SendFlags};
use std::sync::Arc;
use tidegate::Platform;
use tidegate::calls::snapshot::{DoorbellState, PageRequest, QueueKind, WaiterKind};
use tidegate::calls::{CreateMonitoredFence, Handle, Kernel, SyncObjectFlags};
use tidegate::gpu_abi::Command;
use tidegate::service::Refusal;
use tidegate::service::client::{ConnectError, Recording, RemoteKernel, Watch};
use tidegate::service::server::ServerConfig;
use tidegate_testbed::{Client, Service};

fn named_fence(client: &RemoteKernel, device: Handle, name: &str) {
    let flags = SyncObjectFlags::empty();
    let args = CreateMonitoredFence { device, initial_value: 5, flags, engine_affinity: 0, name };
    client.create_monitored_fence(args).unwrap();
}

#[test]
fn many_rows_come_in_pages() {
    const FENCES: usize = 1_100;
    let service = Service::start(ServerConfig::default());
    let (client, other) = (service.client("many"), service.client("few"));
    let device = client.create_device().unwrap();
    for number in 0..FENCES {
        named_fence(&client, device, &number.to_string());
    }
    named_fence(&other, other.create_device().unwrap(), "of another process");
    let mut watch = Watch::connect(&service.socket(), 0).unwrap();
    let processes = watch.processes(PageRequest::default()).unwrap().rows;
    let (mut after, mut rows, mut pages) = (0, Vec::new(), 0);
    loop {
        let page = watch.fences(PageRequest { after, process: processes[0].process }).unwrap();
        assert!(page.rows.len() <= 512);
        pages += 1;
        rows.extend(page.rows.into_iter().map(|row| row.name));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    let names: Vec<String> = (0..FENCES).map(|number| number.to_string()).collect();
    assert_eq!((rows, pages), (names, 3));
    let few = watch.fences(PageRequest { after, process: processes[1].process }).unwrap().rows;
    assert_eq!(few.len(), 1, "{few:?}");
    assert_eq!(watch.machine().unwrap().0.fences, FENCES as u64 + 1);
}

#[test]
fn an_adapter_that_there_is_not_ends_no_connection() {
    let service = Service::start(ServerConfig::default());
    let mut watch = Watch::connect(&service.socket(), 7).unwrap();
    for _ in 0..2 {
        assert!(matches!(watch.machine(), Err(ConnectError::NotViewed(_))));
    }
    drop(service);
    assert!(matches!(watch.machine(), Err(ConnectError::Ended)));
}

#[test]
fn a_client_of_another_version_is_told_so_whatever_it_sends_behind_it() {
    let service = Service::start(ServerConfig::default());
    let socket = raw(&service.socket());
    // Version 77, and a purpose that no version knows.
    let hello = [&b"tidegate"[..], &[77, 200, 1, 2, 3]].concat();
    rustix::net::send(&socket, &hello, SendFlags::empty()).unwrap();
    let mut answer = [0; 64];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty()).unwrap();
    // A refusal, for the versions there and here.
    let there = u8::try_from(tidegate::service::PROTOCOL_VERSION).unwrap();
    assert_eq!(answer[..length], [1, 0, there, 77]);
}

/// A process of the service with a device.
fn client(service: &Service, name: &str) -> Client {
    let kernel: Arc<dyn Kernel> = service.client(name);
    let device = kernel.create_device().unwrap();
    Client::of(&Platform::host(), kernel, device)
}

/// A viewer sees what a client has made and waits for, without a call of the client.
#[test]
fn queues_doorbells_and_waiters_of_a_client_are_rows() {
    let service = Service::start(ServerConfig::default());
    let app = client(&service, "app");
    let (user, context, gate) = (app.connected_queue(0), app.context(1), app.native(2));
    let _event = app.wait_event(&gate, 5);
    user.doorbell.last_queued.store(1);
    user.wait(&gate, 7);
    let mut watch = Watch::connect(&service.socket(), 0).unwrap();
    let process = watch.processes(PageRequest::default()).unwrap().rows[0].process;
    let queues = watch.queues(PageRequest::default()).unwrap().rows;
    let shown: Vec<_> =
        queues.iter().map(|row| (row.process, row.queue, row.kind, row.doorbell)).collect();
    let [packets, rings] = [context, user.queue.handle].map(|queue| app.number(queue).0);
    let of_app = [
        (process, rings, QueueKind::User, Some(DoorbellState::Connected)),
        (process, packets, QueueKind::Packet, None),
    ];
    // The memory manager has a context of the kernel.
    assert!(of_app.iter().all(|row| shown.contains(row)), "{shown:?}");
    assert_eq!(shown.iter().filter(|row| row.0 == process).count(), 2);
    let doorbells = watch.doorbells(PageRequest::default()).unwrap().rows;
    let shown: Vec<_> = doorbells.iter().map(|row| (row.queue, row.announced)).collect();
    assert_eq!(shown, [(rings, 1)]);
    // The engine may still be on its way to the wait.
    let waiters = loop {
        let rows = watch.waiters(PageRequest::default()).unwrap().rows;
        let rows: Vec<_> = rows.into_iter().filter(|row| row.process == process).collect();
        if rows.iter().any(|row| row.kind == WaiterKind::Engine) {
            break rows;
        }
        std::thread::yield_now();
    };
    let shown: Vec<_> =
        waiters.iter().map(|row| (row.kind, row.queue, row.awaited, row.value)).collect();
    assert_eq!(
        shown,
        [(WaiterKind::Cpu, None, 5, Some(2)), (WaiterKind::Engine, Some(rings), 7, Some(2))]
    );
    app.signal(&gate, 7);
}

/// A recording has the calls and the queues of clients while it lasts, and excludes another one.
#[test]
fn a_recording_has_the_work_of_clients_and_excludes_another_one() {
    let service = Service::start(ServerConfig::default());
    let app = client(&service, "app");
    let before = app.hw_queue_on(1);
    let mut recording = Recording::attach(&service.socket()).unwrap();
    let second = Recording::attach(&service.socket()).err();
    assert!(matches!(second, Some(ConnectError::Refused(Refusal::Recorded))), "{second:?}");
    let during = app.hw_queue_on(0);
    for queue in [&before, &during] {
        app.on_queue(queue).run(1, &[Command::Timed { ns: 1 }]).finish();
    }
    let (mut lanes, mut records, mut names) = (Vec::new(), 0, Vec::new());
    loop {
        let (part, more) = recording.take(true).unwrap();
        records += part.records.len();
        lanes.extend(part.lanes);
        names.extend(part.names);
        if !more {
            break;
        }
    }
    let of_app = lanes.iter().filter(|(_, group, _)| group.contains("app")).count();
    assert!(of_app >= 2, "a lane of each queue: {lanes:?}");
    assert!(
        records > 0 && names.iter().any(|name| name == "submit_command_to_hw_queue"),
        "{names:?}"
    );
    drop(recording);
    // The service notices the end of the recording with the end of its connection.
    let again = loop {
        match Recording::attach(&service.socket()) {
            Err(ConnectError::Refused(Refusal::Recorded)) => std::thread::yield_now(),
            other => break other,
        }
    };
    assert!(again.is_ok(), "{:?}", again.err());
    drop(service);
    assert!(matches!(again.unwrap().take(false), Err(ConnectError::Ended)));
}
