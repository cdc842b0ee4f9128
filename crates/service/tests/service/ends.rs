//! How clients end: what they have queued is done before their objects end, and a service that
//! stops waits for none of it.
//!
//! The service has a TDR delay of an hour, so that no test depends on the speed of its host.

use tidegate::service::server::ServerConfig;
use tidegate_testbed::Service;
use tidegate_testbed::prelude::*;

const TDR_DELAY_NS: u64 = 3_600_000_000_000;

fn patient_service() -> Service {
    Service::with_machine(ServerConfig::default(), |config| {
        config.kernel.tdr.delay_ns = TDR_DELAY_NS;
    })
}

fn connect(service: &Service, name: &str) -> Client {
    let kernel = service.client(name);
    let device = kernel.create_device().unwrap();
    Client::of(&Platform::host(), kernel, device)
}

/// A client with work on a user-mode queue that waits for a gate, and a partner that has the gate
/// and the fence that the work signals.
struct Pair {
    leaver: Client,
    queue: UserQueue,
    partner: Client,
    gate: FenceInstance,
    done: FenceInstance,
}

impl Pair {
    fn new(service: &Service) -> Pair {
        Pair::of(connect(service, "leaver"), connect(service, "partner"))
    }

    fn of(leaver: Client, partner: Client) -> Pair {
        let shared = |name: &FenceInstance| leaver.open_fence(&partner.share_all(name));
        let [gate, done] = [(); 2].map(|()| partner.try_native(0, SHARED).unwrap());
        let (own_gate, own_done) = (shared(&gate), shared(&done));
        let queue = leaver.connected_queue(0);
        queue.put(&wait_packet(&own_gate, 1, u32::MAX));
        queue.put(&signal_packet(&own_done, 7, u32::MAX));
        queue.doorbell.last_queued.store(1);
        queue.push(&leaver.execute_packet(&[Command::Timed { ns: 1 }], 1));
        Pair { leaver, queue, partner, gate, done }
    }
}

/// Waits until the kernel has disconnected the doorbell, which is the first step of an end.
fn until_the_end_begins(status: impl Fn() -> u64) {
    while status() != DoorbellStatus::DisconnectedAbort as u64 {
        std::thread::yield_now();
    }
}

#[test]
fn the_work_of_a_client_that_leaves_is_done() {
    let service = patient_service();
    let Pair { leaver, queue, partner, gate, done } = Pair::new(&service);
    let status = queue.doorbell.status.clone();
    drop((leaver, queue));
    until_the_end_begins(|| status.load());
    partner.signal(&gate, 1);
    partner.wait(done.handle, 7).unwrap();
    assert_eq!(done.value.load(), 7);
}

#[test]
fn the_work_of_a_device_that_a_client_destroys_is_done() {
    let service = patient_service();
    let Pair { leaver, queue, partner, gate, done } = Pair::new(&service);
    let status = queue.doorbell.status.clone();
    std::thread::scope(|scope| {
        let destroyer = scope.spawn(|| leaver.kernel.destroy_device(leaver.device));
        until_the_end_begins(|| status.load());
        partner.signal(&gate, 1);
        partner.wait(done.handle, 7).unwrap();
        assert_eq!(destroyer.join().unwrap(), Ok(()));
    });
    assert_eq!(done.value.load(), 7);
}

// spec: UMS-206
/// The device that ends and the fence that its work waits for belong to one client.
#[test]
fn calls_are_answered_while_a_device_of_their_client_waits_for_its_work() {
    let service = patient_service();
    let kernel = service.client("client");
    let [leaver, partner] = [(); 2].map(|()| {
        let device = kernel.create_device().unwrap();
        Client::of(&Platform::host(), kernel.clone(), device)
    });
    let Pair { leaver, queue, partner, gate, done } = Pair::of(leaver, partner);
    let status = queue.doorbell.status.clone();
    std::thread::scope(|scope| {
        let destroyer = scope.spawn(|| leaver.kernel.destroy_device(leaver.device));
        until_the_end_begins(|| status.load());
        partner.signal(&gate, 1);
        assert_eq!(destroyer.join().unwrap(), Ok(()));
    });
    assert_eq!(done.value.load(), 7);
}

#[test]
fn a_service_that_stops_waits_for_no_work_of_its_clients() {
    for destroys in [false, true] {
        let service = patient_service();
        let Pair { leaver, queue, .. } = Pair::new(&service);
        let status = queue.doorbell.status.clone();
        std::thread::scope(|scope| {
            let ends = scope.spawn(move || match destroys {
                true => assert!(leaver.kernel.destroy_device(leaver.device).is_err()),
                false => drop((leaver, queue)),
            });
            until_the_end_begins(|| status.load());
            service.stop();
            ends.join().unwrap();
        });
    }
}
