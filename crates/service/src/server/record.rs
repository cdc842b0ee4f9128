//! A client that records the machine's timeline: the platform's records, part by part.
//!
//! Invariants: one recording at a time; without one, a record costs the test of a flag. Records for
//! which there is no room are counted as lost, so a client that does not read costs no more memory.
//! The recording ends with the client.

use super::shared::Shared;
use crate::transport::Link;
use crate::wire::{self, RecordCall, Recorded, Refusal};
use std::collections::BTreeMap;
use tidegate_calls::snapshot::{PageRequest, QueueRow};
use tidegate_platform::{Part, QueueNumber, Recording};

/// Records that wait for the client at most.
const ROOM: usize = 1 << 18;
/// Most texts of each kind, and most records, of one message.
const TEXTS: usize = 128;
const RECORDS: usize = 1_000;
/// A recording. Dropping it ends it.
struct Attached<'a> {
    shared: &'a Shared,
    recording: Recording,
}

impl<'a> Attached<'a> {
    fn begin(shared: &'a Shared) -> Result<Attached<'a>, Refusal> {
        if std::mem::replace(&mut shared.recorder.lock().attached, true) {
            return Err(Refusal::Recorded);
        }
        let attached = Attached { shared, recording: shared.platform.begin_recording(ROOM) };
        for adapter in 0..shared.adapters.count() {
            shared.adapters.enlarge_logs(adapter, true);
            attached.draw_queues(adapter);
        }
        Ok(attached)
    }

    /// Gives the present queues of an adapter their lanes.
    fn draw_queues(&self, adapter: u32) {
        let shared = self.shared;
        let processes = shared.processes.lock();
        let usages = processes.usages_from(0);
        let names: BTreeMap<u32, String> =
            usages.filter_map(|(_, usage)| usage.named(adapter)).collect();
        drop(processes);
        let mut request = PageRequest::default();
        loop {
            let page = shared.adapters.queues(adapter, &request);
            for QueueRow { queue, kind, process, .. } in page.rows {
                let name = process.and_then(|process| names.get(&process));
                let name = name.map_or("kernel", String::as_str);
                shared.draw_queue(QueueNumber(queue), kind, name);
            }
            match page.next {
                Some(next) => request.after = next,
                None => return,
            }
        }
    }

    /// Reads the logs of the queues, whose entries become records.
    fn read_logs(&self) {
        (0..self.shared.adapters.count()).for_each(|a| self.shared.adapters.read_logs(a));
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        self.shared.platform.end_recording();
        for adapter in 0..self.shared.adapters.count() {
            self.shared.adapters.enlarge_logs(adapter, false);
        }
        self.shared.recorder.lock().attached = false;
    }
}

/// Serves a recording client until it has what it wants, or ends.
///
/// # Errors
/// [`Refusal::Recorded`] beside another recording.
pub(super) fn serve(shared: &Shared, link: &Link, buffer: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut attached = Attached::begin(shared)?;
    // A client that is gone already ends with its first request.
    let _ = link.send(&wire::encode(&Ok::<(), Refusal>(())), []);
    let mut waiting = Part::default();
    let mut over = false;
    while let Ok(Some(received)) = link.receive(buffer) {
        let Some(RecordCall { end }) = wire::decode(received.body) else { break };
        if waiting.is_empty() && !over {
            attached.read_logs();
            waiting = shared.platform.take_recorded(&mut attached.recording);
            // What comes later is of after the end.
            over = end;
        }
        let part = waiting.split_off_first(TEXTS, RECORDS);
        let left = !waiting.is_empty() || (end && !over);
        if link.send(&wire::encode(&Recorded { part, left }), []).is_err() {
            break;
        }
    }
    Ok(())
}
