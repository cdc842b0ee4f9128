//! Which clients are taken, and what their ends leave. Each client is one end of a pair of sockets.

use super::*;
use crate::server::Sessions;
use crate::server::shared::Served as OfSession;
use crate::server::usage::Usage;
use crate::transport::Link;
use crate::wire::{self, Hello, Message, OwnMessage, Purpose, Refusal, Welcome};
use tidegate_calls::SlotKey;

/// Sessions, with the machine that they open processes on.
struct Fixture {
    served: Served,
    sessions: Sessions,
}

impl Fixture {
    fn new(config: ServerConfig) -> Fixture {
        let served = Served::new(|_| {});
        let sessions = Sessions::new(served.platform(), Box::new(served.clone()), config);
        Fixture { served, sessions }
    }

    /// Connects a client that has said nothing.
    fn connect(&self) -> Link {
        let (client, session) = Link::socket_pair();
        self.sessions.take(session);
        client
    }

    /// Connects a client. Returns the answer to its first message.
    fn process(&self) -> (Link, Result<Welcome, Refusal>) {
        let client = self.connect();
        say(&client, purpose(0));
        let welcome = answer(&client);
        (client, welcome)
    }

    /// Waits until the sessions have ended, and returns opened and ended processes.
    fn ends(&self) -> (u64, u64) {
        self.sessions.wait_until_empty();
        (self.served.opened.load(), self.served.ended.load())
    }
}

fn purpose(adapter: u32) -> Purpose {
    Purpose::Process { adapter, name: "client".to_owned(), kind: ClientKind::default() }
}

fn say(client: &Link, purpose: Purpose) {
    let hello = Hello { magic: wire::MAGIC, version: wire::VERSION, purpose };
    // A client that is turned away at once may find its connection closed.
    let _ = client.send(&wire::encode(&hello), []);
}

fn answer<T: serde::de::DeserializeOwned>(client: &Link) -> T {
    wire::decode(client.receive(&mut Vec::new()).unwrap().unwrap().body).unwrap()
}

fn is_closed(client: &Link) -> bool {
    client.receive(&mut Vec::new()).unwrap().is_none()
}

#[test]
fn a_client_too_many_is_turned_away_until_another_one_has_left() {
    let service = Fixture::new(ServerConfig { clients: 2, ..ServerConfig::default() });
    let (first, welcome) = service.process();
    assert_eq!(welcome.unwrap().adapters, 2);
    // A connection counts before it has said anything.
    let silent = service.connect();
    for _ in 0..2 {
        let (refused, welcome) = service.process();
        assert_eq!(welcome.err(), Some(Refusal::TooManyClients(2)));
        assert!(is_closed(&refused));
    }
    assert_eq!(service.sessions.live(), 2);
    drop((first, silent));
    assert_eq!(service.ends(), (1, 1));
    assert!(service.process().1.is_ok());
    let counts = service.sessions.counts();
    assert_eq!((counts.accepted, counts.refused, counts.sessions_failed), (3, 2, 0));
}

#[test]
fn a_client_is_told_why_it_is_no_process() {
    let service = Fixture::new(ServerConfig::default());
    let refused = |message: Vec<u8>| {
        let client = service.connect();
        client.send(&message, []).unwrap();
        let answer: Result<Welcome, Refusal> = answer(&client);
        assert!(is_closed(&client));
        answer.unwrap_err()
    };
    let hello = |version, purpose| wire::encode(&Hello { magic: wire::MAGIC, version, purpose });
    assert_eq!(refused(b"not a client".to_vec()), Refusal::NotAClient);
    let (service_version, client) = (wire::VERSION, wire::VERSION + 1);
    let version = Refusal::Version { service: service_version, client };
    assert_eq!(refused(hello(client, purpose(0))), version);
    for adapter in [2, u32::MAX] {
        assert_eq!(refused(hello(wire::VERSION, purpose(adapter))), Refusal::NoAdapter(2));
    }
    service.served.refusal.store(u64::from(Status::NO_MEMORY.0.cast_unsigned()));
    assert_eq!(refused(hello(wire::VERSION, purpose(1))), Refusal::Open(Status::NO_MEMORY));
    assert_eq!(service.ends(), (0, 0));
    assert_eq!(service.sessions.counts().processes, 0);
}

#[test]
fn a_session_that_panics_is_counted_and_no_other_one_ends() {
    let service = Fixture::new(ServerConfig::default());
    let (other, _welcome) = service.process();
    service.served.refusal.store(1);
    let client = service.connect();
    say(&client, purpose(0));
    assert!(is_closed(&client));
    service.served.refusal.store(0);
    assert!(service.process().1.is_ok());
    let call = OwnMessage::CancelWait { key: SlotKey { slot: 0, generation: 0 } };
    other.send(&wire::encode(&Message::from(call)), []).unwrap();
    assert_eq!(answer::<Result<(), Status>>(&other), Ok(()));
    drop(other);
    assert_eq!(service.ends(), (2, 2));
    let counts = service.sessions.counts();
    assert_eq!((counts.sessions_failed, counts.processes, counts.connections), (1, 0, 0));
}

#[test]
fn the_end_of_a_service_ends_each_process_once() {
    let service = Fixture::new(ServerConfig::default());
    let clients = [(); 3].map(|()| service.process());
    let silent = service.connect();
    assert_eq!(service.sessions.counts().processes, 3);
    service.sessions.end();
    assert_eq!(service.ends(), (3, 3));
    assert!(clients.iter().all(|(client, _)| is_closed(client)) && is_closed(&silent));
    assert_eq!(service.sessions.live(), 0);
    // There is nothing left to wait for.
    service.sessions.end();
    assert_eq!(service.ends(), (3, 3));
}

fn send(client: &Link, message: OwnMessage) {
    client.send(&wire::encode(&Message::from(message)), []).unwrap();
}

#[test]
fn a_process_ends_in_order_if_its_client_has_said_goodbye() {
    for says_goodbye in [false, true] {
        let service = Fixture::new(ServerConfig::default());
        let (client, _welcome) = service.process();
        if says_goodbye {
            send(&client, OwnMessage::Goodbye);
        }
        drop(client);
        assert_eq!(service.ends(), (1, 1));
        assert_eq!(service.served.closing.load(), u64::from(says_goodbye));
        assert_eq!(service.sessions.counts().calls, 0, "a goodbye is no call");
    }
}

#[test]
fn a_goodbye_is_heard_behind_a_call_whose_answer_is_not_read() {
    let service = Fixture::new(ServerConfig::default());
    let (client, _welcome) = service.process();
    let key = SlotKey { slot: 0, generation: 0 };
    for _ in 0..2 {
        send(&client, OwnMessage::CancelWait { key });
    }
    send(&client, OwnMessage::Goodbye);
    client.shut_down();
    assert_eq!(service.ends(), (1, 1));
    assert_eq!(service.served.closing.load(), 1);
}

#[test]
fn a_service_that_stops_waits_for_no_work_of_a_client_that_has_said_goodbye() {
    let mut service = Fixture::new(ServerConfig::default());
    service.served.work = service.served.platform().event(true);
    service.sessions = Sessions::new(
        service.served.platform(),
        Box::new(service.served.clone()),
        ServerConfig::default(),
    );
    let (client, _welcome) = service.process();
    send(&client, OwnMessage::Goodbye);
    service.served.begun.wait();
    service.sessions.end();
    assert_eq!(service.ends(), (1, 1));
    drop(client);
}

#[test]
fn a_process_that_is_opened_while_its_service_stops_waits_for_no_work() {
    let mut served = Served::new(|_| {});
    served.work = served.platform().event(true);
    let shared = served.shared(ServerConfig::default());
    assert!(shared.processes.lock().stop().is_empty());
    let grant = Grant { queued: 1, may_raise_priority: false };
    let process = served.open(0, "late", ClientKind::default(), grant).unwrap().process;
    let usage = Usage::new(&shared.platform, 0, "late", None);
    shared.processes.lock().enter(1, OfSession { usage: Arc::new(usage), process });
    assert!(served.work.is_set());
}

#[test]
fn a_message_that_is_none_ends_its_session() {
    let service = Fixture::new(ServerConfig::default());
    let call = OwnMessage::CheckWait { fences: Vec::new() };
    let body = wire::encode(&Message::from(call));
    for broken in [&body[..body.len() - 1], &[&body[..], &[0]].concat()] {
        let (client, _welcome) = service.process();
        client.send(broken, []).unwrap();
        assert!(is_closed(&client));
    }
    assert_eq!(service.ends(), (2, 2));
    assert_eq!(service.sessions.counts().calls, 0, "only calls are counted");
}

#[test]
fn counts_are_answered_once_and_open_no_process() {
    let service = Fixture::new(ServerConfig::default());
    let client = service.connect();
    say(&client, Purpose::Counts);
    let text: Result<String, Refusal> = answer(&client);
    let text = text.unwrap();
    assert!(text.contains("\ntidegate_connections 1\n"), "{text}");
    assert!(text.contains("\ntidegate_processes 0\n"), "{text}");
    assert!(is_closed(&client));
    assert_eq!(service.ends(), (0, 0));
}
