//! Rows of processes: their order, their pages, and which adapter they are of.

use super::*;
use crate::server::shared::Served as OfSession;
use crate::server::usage::Usage;
use crate::server::watch;
use crate::transport::Link;
use crate::wire::{self, Refusal, Table, WatchCall};
use serde::de::DeserializeOwned;
use tidegate_calls::snapshot::PAGE_OBJECTS;

/// A process without an end.
struct NoProcess;

impl OpenedProcess for NoProcess {
    fn close(&self) {}

    fn terminate(&self) {}

    fn end_waits_for_work(&self) {}
}

/// Sessions by number, as (adapter, process, name).
fn with_sessions(sessions: &[(u64, u32, Option<u32>, &str)]) -> Arc<Shared> {
    let shared = Served::new(|_| {}).shared(ServerConfig::default());
    for (number, adapter, process, name) in sessions {
        let usage = Arc::new(Usage::new(&shared.platform, *adapter, name, *process));
        let served = OfSession { usage, process: Arc::new(NoProcess) };
        shared.processes.lock().enter(*number, served);
        // A session whose client has left has a socket until it ends.
        shared.links.lock().insert(*number, Arc::new(Link::socket_pair().0));
    }
    shared
}

/// Sends the request of a viewer. Returns the answer.
fn request<T: DeserializeOwned>(shared: &Shared, adapter: u32, table: Table) -> Result<T, Status> {
    let (viewer, session) = Link::socket_pair();
    viewer.send(&wire::encode(&WatchCall { adapter, table }), []).unwrap();
    // No second request comes.
    viewer.finish();
    watch::serve(shared, &session, &mut Vec::new());
    let mut buffer = Vec::new();
    let begun = viewer.receive(&mut buffer).unwrap().unwrap();
    assert_eq!(wire::decode(begun.body), Some(Ok::<(), Refusal>(())));
    let answer = viewer.receive(&mut buffer).unwrap().unwrap();
    wire::decode(answer.body).unwrap()
}

/// The sessions of a page, and the request of the next one.
fn processes(shared: &Shared, adapter: u32, wanted: PageRequest) -> (Vec<u64>, Option<u64>) {
    let page: Page<crate::ProcessRow> = request(shared, adapter, Table::Processes(wanted)).unwrap();
    (page.rows.iter().map(|row| row.session).collect(), page.next)
}

#[test]
fn processes_are_those_of_their_adapter_in_the_order_of_connection() {
    let shared = with_sessions(&[
        (9, 0, Some(90), "late"),
        (3, 1, Some(30), "other"),
        (4, 0, Some(40), "first"),
        (6, 0, None, "ending"),
    ]);
    let of =
        |adapter, after, process| processes(&shared, adapter, PageRequest { after, process }).0;
    assert_eq!(of(0, 0, None), [4, 6, 9]);
    assert_eq!(of(1, 0, None), [3]);
    assert_eq!(of(0, 4, None), [6, 9]);
    assert_eq!(of(0, 0, Some(90)), [9]);
    assert_eq!(of(0, 0, Some(30)), [0; 0], "of another adapter");
    assert_eq!(of(0, u64::MAX, None), [0; 0]);
    // A session that has just ended has no socket any more.
    shared.links.lock().remove(&4);
    assert_eq!(of(0, 0, None), [6, 9]);
}

#[test]
fn a_page_visits_so_many_sessions_and_names_the_last() {
    let objects = PAGE_OBJECTS as u64;
    let rows: Vec<_> = (1..=objects + 2).map(|n| (n, u32::from(n % 2 == 0), None, "x")).collect();
    let shared = with_sessions(&rows);
    let first = PageRequest { after: 0, process: None };
    let (odd, next) = processes(&shared, 0, first);
    assert_eq!((odd.len(), odd[0], next), (256, 1, Some(512)));
    let (odd, next) = processes(&shared, 0, PageRequest { after: 512, ..first });
    assert_eq!((odd, next), (vec![513], None));
}

#[test]
fn an_adapter_that_there_is_not_is_refused() {
    let shared = with_sessions(&[]);
    let machine = |adapter| {
        request::<(MachineRow, crate::server::Counts)>(&shared, adapter, Table::Machine)
            .map(|(machine, _)| machine.at_ns)
    };
    assert_eq!((machine(0), machine(1)), (Ok(0), Ok(1)));
    assert_eq!(machine(2), Err(Status::INVALID_PARAMETER));
    assert_eq!(machine(u32::MAX), Err(Status::INVALID_PARAMETER));
}
