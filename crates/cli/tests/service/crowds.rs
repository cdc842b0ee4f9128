//! A thousand clients that connect at once.

use super::Service;
use super::hostile::raw;
use super::kills::Neighbour;
use super::peers::{CROWD, Peer, Role};
use std::process::Command;
use tidegate::Platform;
use tidegate::service::Refusal;
use tidegate::service::client::{self, ConnectError};

const CROWDS: u64 = 8;

/// Starts all crowds, and lets a neighbour work beside them. Returns them with the numbers of those that
/// were taken and refused.
fn crowds(service: &Service, neighbour: &mut Neighbour) -> (Vec<Peer>, [u64; 2]) {
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
    let (service, before) = Service::warm();
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
    service.until_empty(before);
    assert_eq!(service.counter("sessions_failed_total"), 0);
}

#[test]
fn clients_beyond_the_limit_are_told_so_while_a_thousand_connect() {
    let service = Service::with_config("clients = 300\n");
    let mut neighbour = Neighbour::new(&service);
    let (crowds, [taken, refused]) = crowds(&service, &mut neighbour);
    assert_eq!((taken, taken + refused), (299, CROWDS * CROWD));
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
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 120 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tidegate")]);
    let service = Service::of(limited, "");
    let connect = || client::connect(&Platform::host(), &service.socket(), 0, "one more");
    // Each has a descriptor of the service, and says nothing.
    let silent: Vec<_> = (0..150).map(|_| raw(&service)).collect();
    for _ in 0..20 {
        let refused = connect().unwrap_err();
        assert!(matches!(refused, ConnectError::Refused(Refusal::NoDescriptor)), "{refused}");
    }
    drop(silent);
    // One is taken as soon as the others have left.
    while connect().is_err() {}
}
