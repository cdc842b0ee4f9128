//! Viewers of a service: pages of rows, adapters that there are not, and other versions.

use super::hostile::raw;
use rustix::net::{RecvFlags, SendFlags};
use tidegate::calls::snapshot::PageRequest;
use tidegate::calls::{CreateMonitoredFence, Handle, Kernel, SyncObjectFlags};
use tidegate::service::client::{ConnectError, RemoteKernel, Watch};
use tidegate::service::server::ServerConfig;
use tidegate_testbed::Service;

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
