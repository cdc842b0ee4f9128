//! A client that is not a process and views the machine: pages of rows, one for each request.

use super::shared::Shared;
use crate::rows::ProcessRow;
use crate::transport::Link;
use crate::wire::{self, Refusal, Table, WatchCall};
use serde::Serialize;
use tidegate_calls::Status;
use tidegate_calls::snapshot::{PAGE_OBJECTS, Page, PageRequest};

/// Serves a viewer until it ends, or sends what is not a request.
pub(super) fn serve(shared: &Shared, link: &Link, buffer: &mut Vec<u8>) {
    // A viewer that is gone already ends with its first request.
    let _ = link.send(&wire::encode(&Ok::<(), Refusal>(())), []);
    while let Ok(Some(received)) = link.receive(buffer) {
        let Some(call) = wire::decode::<WatchCall>(received.body) else { return };
        if link.send(&answer(shared, call), []).is_err() {
            return;
        }
    }
}

fn answer(shared: &Shared, WatchCall { adapter, table }: WatchCall) -> Vec<u8> {
    if adapter >= shared.adapters.count() {
        return encode::<()>(Err(Status::INVALID_PARAMETER));
    }
    let adapters = &shared.adapters;
    match table {
        Table::Machine => encode(Ok((adapters.machine(adapter), shared.counts()))),
        Table::Processes(request) => encode(Ok(processes(shared, adapter, &request))),
        Table::Queues(request) => encode(Ok(adapters.queues(adapter, &request))),
        Table::Fences(request) => encode(Ok(adapters.fences(adapter, &request))),
        Table::Waiters(request) => encode(Ok(adapters.waiters(adapter, &request))),
        Table::Doorbells(request) => encode(Ok(adapters.doorbells(adapter, &request))),
    }
}

fn encode<T: Serialize>(result: Result<T, Status>) -> Vec<u8> {
    wire::encode(&result)
}

/// Returns the processes on one adapter, in order of connection.
fn processes(shared: &Shared, adapter: u32, request: &PageRequest) -> Page<ProcessRow> {
    let processes = shared.processes.lock();
    let later = processes.usages_from(request.after.saturating_add(1));
    let of_page: Vec<_> =
        later.take(PAGE_OBJECTS).map(|(session, usage)| (session, usage.clone())).collect();
    drop(processes);
    let nt_handles = shared.nt_handles.by_owner();
    let found: Vec<_> = {
        let links = shared.links.lock();
        let with_link =
            |(session, usage)| (session, (session, usage, links.get(&session).cloned()));
        of_page.into_iter().map(with_link).collect()
    };
    Page::of(&found, |(session, usage, link), rows| {
        let peer = link.as_ref().and_then(|link| link.peer().ok());
        // A session that is just ending has no link.
        let Some(peer) = peer.filter(|_| usage.adapter == adapter) else { return };
        if request.wants(usage.process) {
            let nt_handles = nt_handles.get(session).copied().unwrap_or(0);
            rows.push(usage.row(*session, peer, nt_handles));
        }
    })
}
