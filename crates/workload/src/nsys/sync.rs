//! Synchronisations and event records of an export.
//!
//! The sentinels of a row determine its kind:
//!
//! - stream and event valid: a stream wait;
//! - event only: an event synchronisation;
//! - stream only: a stream synchronisation;
//! - neither: a context synchronisation.
//!
//! A row whose host call has the name of another kind is counted and dropped. `syncType` is not
//! read: its numbers changed meaning between versions. Entry point: [`Reader::synchronisations`].

use std::collections::HashMap;

use super::tables::{CUDA_EVENT, SYNCHRONIZATION};
use super::{Reader, applicable};
use crate::recording::{
    Awaited, Call, CallId, CallRef, EventId, EventKey, EventRecord, ProcessId, Remark, SyncKind,
    SyncRecord,
};

/// How a synchronisation row is read.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Keep,
    /// An event query: it orders nothing.
    Query,
    Contradicted,
    InsideOtherCall,
}

/// The kind of a row by its numbers.
fn kind(stream: Option<i64>, event: Option<i64>) -> SyncKind {
    match (stream, event) {
        (Some(_), Some(_)) => SyncKind::StreamWaitEvent,
        (None, Some(_)) => SyncKind::Event,
        (Some(_), None) => SyncKind::Stream,
        (None, None) => SyncKind::Context,
    }
}

/// Compares the kind of a row with the name of its call.
fn verdict(kind: SyncKind, call: Call) -> Verdict {
    match (call, kind) {
        (Call::StreamWaitEvent, SyncKind::StreamWaitEvent)
        | (Call::EventSynchronize, SyncKind::Event)
        | (Call::StreamSynchronize, SyncKind::Stream)
        | (Call::DeviceSynchronize, SyncKind::Context) => Verdict::Keep,
        (Call::Query, _) => Verdict::Query,
        (
            Call::StreamWaitEvent
            | Call::EventSynchronize
            | Call::StreamSynchronize
            | Call::DeviceSynchronize,
            _,
        ) => Verdict::Contradicted,
        (
            Call::EventRecord
            | Call::GraphLaunch
            | Call::BlockingCopy
            | Call::Free
            | Call::Present
            | Call::Other,
            _,
        ) => Verdict::InsideOtherCall,
    }
}

/// The columns of both tables.
const COLUMNS: [&str; 7] =
    ["deviceId", "contextId", "streamId", "correlationId", "globalPid", "eventId", "eventSyncId"];

impl Reader<'_> {
    /// Reads the rows of both tables. Host calls are already read.
    pub(super) fn synchronisations(&mut self) -> Result<(), String> {
        let by_correlation: HashMap<(ProcessId, i64), CallId> = (self
            .recording
            .calls
            .iter()
            .enumerate())
        .filter_map(|(k, call)| {
            Some(((self.recording.process_of_call(call), call.correlation?), CallId::new(k)))
        })
        .collect();
        let recorded = self.event_records(&by_correlation)?;
        let is_record = |call: &&crate::recording::CallRecord| call.call == Call::EventRecord;
        let records = self.recording.calls.iter().filter(is_record).count() as u64;
        let open = records.saturating_sub(recorded);
        self.recording.remark(open, |calls| Remark::RecordsWithoutStream { calls });
        self.rows(&by_correlation)
    }

    /// Reads which event each record call records, and on which stream. Returns how many rows name
    /// their call.
    fn event_records(&mut self, calls: &HashMap<(ProcessId, i64), CallId>) -> Result<u64, String> {
        let (database, mut named) = (self.database, 0);
        let rows = database.scan(CUDA_EVENT, &["streamId", "eventId"], &COLUMNS, |row| {
            let process = self.process(row.int(4));
            let call = row.int(3).and_then(|id| calls.get(&(process, id)));
            let (Some(call), Some(stream), Some(event)) =
                (call, applicable(row.int(2)), applicable(row.int(5)))
            else {
                return Ok(());
            };
            named += 1;
            let stream = self.stream(row.int(4), row.int(1), stream, row.int(0).unwrap_or(0));
            let event = self.event(process, row.int(1), event);
            let (call, sequence) = (CallRef::Call(*call), sequence(row.int(6)));
            self.recording.record_event(EventRecord { call, event, sequence, stream });
            Ok(())
        })?;
        self.recording.events += rows;
        Ok(named)
    }

    fn event(&mut self, process: ProcessId, context: Option<i64>, event: i64) -> EventId {
        self.recording.event(EventKey { process, context: context.unwrap_or(0), event })
    }

    fn rows(&mut self, calls: &HashMap<(ProcessId, i64), CallId>) -> Result<(), String> {
        let database = self.database;
        let (mut without, mut contradicted, mut inside) = (0, 0, 0);
        let rows = database.scan(SYNCHRONIZATION, &["streamId"], &COLUMNS, |row| {
            let process = self.process(row.int(4));
            let Some(call) = row.int(3).and_then(|id| calls.get(&(process, id))).copied() else {
                without += 1;
                return Ok(());
            };
            let (stream, event) = (applicable(row.int(2)), applicable(row.int(5)));
            let kind = kind(stream, event);
            match verdict(kind, self.recording.calls[call.index()].call) {
                Verdict::Keep => {}
                Verdict::Query => return Ok(()),
                Verdict::Contradicted => {
                    contradicted += 1;
                    return Ok(());
                }
                Verdict::InsideOtherCall => {
                    inside += 1;
                    return Ok(());
                }
            }
            let device = row.int(0);
            let stream =
                stream.map(|id| self.stream(row.int(4), row.int(1), id, device.unwrap_or(0)));
            let event = event.map(|id| self.event(process, row.int(1), id));
            let awaited = event.map(|event| Awaited::Event(event, sequence(row.int(6))));
            let call = CallRef::Call(call);
            self.recording.sync(SyncRecord {
                call,
                kind,
                device,
                stream,
                awaited,
                awaited_stream: None,
            });
            Ok(())
        })?;
        self.recording.events += rows;
        self.recording.remark(without, |rows| Remark::SyncsWithoutCall { rows });
        self.recording.remark(contradicted, |rows| Remark::SyncsContradicted { rows });
        self.recording.remark(inside, |rows| Remark::SyncsInsideOtherCalls { rows });
        Ok(())
    }
}

/// The number that links a wait to a record; `None` for 0 and the sentinel.
fn sequence(id: Option<i64>) -> Option<i64> {
    applicable(id).filter(|id| *id != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_name_must_agree() {
        let (some, none) = (Some(7), None);
        assert_eq!(verdict(kind(some, some), Call::StreamWaitEvent), Verdict::Keep);
        assert_eq!(verdict(kind(none, some), Call::EventSynchronize), Verdict::Keep);
        assert_eq!(verdict(kind(some, none), Call::StreamSynchronize), Verdict::Keep);
        assert_eq!(verdict(kind(none, none), Call::DeviceSynchronize), Verdict::Keep);
        assert_eq!(verdict(kind(none, some), Call::Query), Verdict::Query);
        assert_eq!(verdict(kind(none, some), Call::StreamSynchronize), Verdict::Contradicted);
        assert_eq!(verdict(kind(none, none), Call::Other), Verdict::InsideOtherCall);
    }

    #[test]
    fn sentinels_are_no_ids() {
        assert_eq!(applicable(Some(4_294_967_295)), None);
        assert_eq!(applicable(Some(-1)), None);
        assert_eq!(applicable(Some(0)), Some(0));
        assert_eq!(sequence(Some(0)), None);
        assert_eq!(sequence(Some(3)), Some(3));
    }
}
