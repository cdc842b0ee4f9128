//! One client: a process of an adapter, behind a socket.
//!
//! Order of a session: 1. the client's first message; 2. the kernel opens a process; 3. calls and
//! answers, one at a time; 4. the client says goodbye, the socket closes, or a message is none of
//! the protocol; 5. the process's waits are cancelled; 6. after a goodbye the process ends when its
//! queued work is complete, else it is terminated; its waiting calls are over by then
//! (`waiting_calls`). A client that stops to read its answers has ended its session.

use super::calls::Answerer;
use super::ledger::Ledger;
use super::notices::Notices;
use super::record;
use super::shared::{Served, Shared};
use super::special::MOST_NAME_BYTES;
use super::usage::Usage;
use super::users::may_raise_priority;
use super::views::Files;
use super::watch;
use crate::transport::{Link, Received};
use crate::wire::{self, Message, Purpose, Refusal, Welcome};
use std::io;
use std::sync::Arc;
use tidegate_calls::snapshot::shortened;
use tidegate_calls::{Grant, Status};
use tidegate_platform::planted;
use tidegate_trace::{Kind, LaneId, LaneKind, Record};

/// A client between its first message and its end.
pub(super) struct Session {
    shared: Arc<Shared>,
    number: u64,
    usage: Arc<Usage>,
    answerer: Answerer,
    /// The lane of its calls, made by the first recording.
    lane: Option<LaneId>,
    /// The client has said goodbye.
    is_orderly: bool,
}

impl Session {
    /// Records a call on the lane of the process.
    fn end_traced(&mut self, (start_ns, name): (u64, &str)) {
        let (shared, platform) = (&self.shared, &self.shared.platform);
        let made = || shared.lane(LaneKind::CpuThread, self.usage.name(), "calls");
        let Some(lane) = self.lane.or_else(made) else { return };
        let name = platform.trace_name(name);
        let end_ns = platform.stamp_ns();
        platform.record(Record::span(lane, Kind::KernelCall, name, start_ns, end_ns));
        self.lane = Some(lane);
    }
}

/// Serves a client until it ends. `number` names the session.
pub(super) fn serve(shared: &Arc<Shared>, link: &Arc<Link>, number: u64) {
    let mut buffer = Vec::new();
    let mut session = match begin(shared, link, number, &mut buffer) {
        Err(refusal) => {
            tracing::info!(session = number, %refusal, "turned away");
            let answer: Result<Welcome, Refusal> = Err(refusal);
            // The client may be gone already.
            let _ = link.send(&wire::encode(&answer), []);
            return;
        }
        Ok(None) => return,
        Ok(Some(session)) => session,
    };
    loop {
        let received = match link.receive(&mut buffer) {
            Ok(Some(received)) => received,
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(session = number, %error, "not readable");
                break;
            }
        };
        let Some(message) = wire::decode::<Message>(received.body) else {
            tracing::warn!(session = number, bytes = received.body.len(), "not a call");
            break;
        };
        if message.is_goodbye() {
            session.is_orderly = true;
            break;
        }
        shared.counts.of(&message).fetch_add(1);
        let mut files = Files::of_message(link, received.attached);
        let traced =
            shared.platform.tracing().then(|| (shared.platform.stamp_ns(), message.name()));
        let answer = session.answerer.answer(message, &mut files);
        traced.into_iter().for_each(|traced| session.end_traced(traced));
        session.usage.answered(session.answerer.ledger());
        // The fault is the mistake that the scenario served-handle-against-death must find.
        let apart = files.nt_handle && !planted!(shared.platform, OwnCopySeen);
        let send = || {
            let sent = link.send(&answer, &files.all);
            drop(files);
            sent
        };
        let sent = if apart { shared.nt_handles.hand_over(send) } else { send() };
        if let Err(error) = sent {
            tracing::info!(session = number, %error, "left without its answer");
            // One thread of the client may be in a call while another ends the process.
            session.is_orderly =
                error.kind() == io::ErrorKind::BrokenPipe && says_goodbye(link, &mut buffer);
            break;
        }
    }
}

/// Returns whether a goodbye is among the messages that a client has sent before it closed its end.
fn says_goodbye(link: &Link, buffer: &mut Vec<u8>) -> bool {
    while let Ok(Some(received)) = link.receive(buffer) {
        if wire::decode::<Message>(received.body).is_some_and(|message| message.is_goodbye()) {
            return true;
        }
    }
    false
}

/// 1. and 2. `None`: the client was no process, and has been served.
fn begin(
    shared: &Arc<Shared>,
    link: &Link,
    number: u64,
    buffer: &mut Vec<u8>,
) -> Result<Option<Session>, Refusal> {
    let received = link.receive(buffer).ok().flatten();
    let Received { body, .. } = received.ok_or(Refusal::NotAClient)?;
    let (adapter, name, kind) = match wire::read_hello(body)? {
        Purpose::Process { adapter, name, kind } => {
            (adapter, shortened(&name, MOST_NAME_BYTES), kind)
        }
        Purpose::Counts => {
            let counts: Result<String, Refusal> = Ok(shared.counts().to_string());
            let _ = link.send(&wire::encode(&counts), []);
            return Ok(None);
        }
        Purpose::Watch => {
            watch::serve(shared, link, buffer);
            return Ok(None);
        }
        Purpose::Record => return record::serve(shared, link, buffer).map(|()| None),
    };
    let adapters = shared.adapters.count();
    if adapter >= adapters {
        return Err(Refusal::NoAdapter(adapters));
    }
    let no_memory = |_| Refusal::Open(Status::NO_MEMORY);
    let limits = shared.config.limits;
    let bell = link.bell().map_err(no_memory)?;
    let notices = Notices::new(&shared.platform, bell, &limits);
    let mut files = Files::of_message(link, Vec::new());
    let page = files.page(&notices.page).map_err(Refusal::Open)?;
    files.all.push(notices.bell.attachment().map_err(no_memory)?);
    let grant = Grant {
        queued: limits.queued,
        may_raise_priority: may_raise_priority(link, &shared.config),
    };
    let opened = shared.adapters.open(adapter, &name, kind, grant);
    let opened = opened.map_err(Refusal::Open)?;
    shared.counts.processes.fetch_add(1);
    let answerer = Answerer::new(
        shared.clone(),
        number,
        opened,
        notices,
        Ledger::new(limits),
        !link.carries_attachments(),
    );
    let usage = Usage::new(&shared.platform, adapter, &name, answerer.process());
    let usage = Arc::new(usage);
    let served = Served { usage: usage.clone(), process: answerer.opened.process.clone() };
    let (of_session, lane, is_orderly) = (shared.clone(), None, false);
    let session = Session { shared: of_session, number, usage, answerer, lane, is_orderly };
    shared.processes.lock().enter(number, served);
    let welcome = Welcome {
        info: session.answerer.kernel().query_adapter_info(),
        adapters,
        clock_origin_ns: shared.platform.clock_origin_ns(),
        notices: page,
    };
    tracing::info!(session = number, process = session.usage.name(), "opened");
    // A client that is gone already ends the session with its first call.
    let _ = link.send(&wire::encode(&Ok::<_, Refusal>(welcome)), &files.all);
    Ok(Some(session))
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_orderly {
            self.answerer.end_waits().process.close();
            self.answerer.waiting.join();
        }
        // Until here a stop of the service finds the process, and ends its waits for work.
        let _served = self.shared.processes.lock().remove(self.number);
        self.answerer.end_waits().process.terminate();
        // Its objects have ended although a call may still wait for the display.
        self.answerer.waiting.join();
        self.shared.nt_handles.sweep();
        self.shared.counts.processes.fetch_add(1u64.wrapping_neg());
    }
}
