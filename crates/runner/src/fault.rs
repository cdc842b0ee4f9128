//! The report of a GPU page fault: place in the file, queue, submission, command, address, and the
//! nearest buffer.
//!
//! The device reports queue and address. The command that faulted is the first one of the queue
//! that touches the address, because an earlier one would have faulted before. Entry point:
//! [`explain`], called by the runner after a run.

use tidegate_d3d12::{Fault, FaultReport};
use tidegate_programs::{Dispatch, buffers};

use crate::lists::{Evaluated, RecordedList};
use crate::queue_log::{Entry, QueueLog};
use tidegate_workload::model::{BufferId, Span, Workload};

/// A buffer at its GPU address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) name: String,
    pub(crate) gpu_va: u64,
    pub(crate) bytes: u64,
}

/// The report. `log` belongs to the queue that faulted.
pub(crate) fn explain(
    workload: &Workload,
    fault: &Fault,
    log: Option<&QueueLog>,
    placed: &[Placed],
) -> String {
    let FaultReport { gpu_va: address, write, what, .. } = &fault.report;
    let (address, access) = (*address, if *write { "store to" } else { "load from" });
    let near = nearest(placed, address).map_or_else(String::new, |near| format!(", {near}"));
    let queue =
        fault.queue.as_ref().map_or_else(|| "a queue".to_owned(), |name| format!("queue '{name}'"));
    match log.and_then(|log| culprit(log, placed, address)) {
        Some(culprit) => format!(
            "{}: GPU page fault in {queue}, submission {}, command {} ({}): {access} {address:#x}{near} ({what}); \
             the device is lost: correct the offset or the length",
            workload.place(culprit.span),
            culprit.submission,
            culprit.command,
            culprit.label(workload)
        ),
        None => format!(
            "{}: GPU page fault in {queue}: {access} {address:#x}{near} ({what}); the device is lost",
            workload.file
        ),
    }
}

struct Culprit<'a> {
    span: Span,
    submission: u64,
    /// Number of the command in its list, from 1.
    command: usize,
    evaluated: &'a Evaluated,
}

impl Culprit<'_> {
    fn label(&self, workload: &Workload) -> String {
        self.evaluated.label(workload)
    }
}

fn culprit<'a>(log: &'a QueueLog, placed: &[Placed], address: u64) -> Option<Culprit<'a>> {
    log.entries.iter().find_map(|entry| {
        let Entry::Submit { list, span, number, .. } = entry else { return None };
        let list: &RecordedList = list;
        let touches = |command: &Evaluated| {
            ranges(command, placed).iter().any(|(va, len)| address >= *va && address - va < *len)
        };
        let command = list.commands.iter().position(touches)?;
        let own = list.spans.get(command).copied().filter(|span| span.line > 0);
        let (span, evaluated) = (own.unwrap_or(*span), &list.commands[command]);
        Some(Culprit { span, submission: *number, command: command + 1, evaluated })
    })
}

/// The ranges that a command may touch: (first address, length).
fn ranges(command: &Evaluated, placed: &[Placed]) -> Vec<(u64, u64)> {
    let at =
        |buffer: &BufferId, offset: &u64| placed[buffer.0 as usize].gpu_va.saturating_add(*offset);
    match command {
        Evaluated::Copy { src, src_offset, dst, dst_offset, bytes } => {
            vec![(at(src, src_offset), *bytes), (at(dst, dst_offset), *bytes)]
        }
        Evaluated::Fill { dst, offset, bytes, .. } => vec![(at(dst, offset), *bytes)],
        Evaluated::Grid { program, groups, words, .. } => {
            let dispatch = Dispatch { program: *program, groups: *groups, args: words };
            let spans = buffers(&dispatch).unwrap_or_default();
            spans.into_iter().map(|span| (span.va, span.len)).collect()
        }
        Evaluated::Work { .. } | Evaluated::Delay { .. } | Evaluated::Hang => Vec::new(),
    }
}

/// Describes the address relative to the nearest buffer.
fn nearest(placed: &[Placed], address: u64) -> Option<String> {
    let distance = |buffer: &Placed| match address.checked_sub(buffer.gpu_va) {
        None => (buffer.gpu_va - address, false),
        Some(from_start) => (from_start.saturating_sub(buffer.bytes), true),
    };
    let buffer = placed.iter().min_by_key(|buffer| distance(buffer).0)?;
    let (name, bytes) = (&buffer.name, buffer.bytes);
    Some(match distance(buffer) {
        (before, false) => format!("{before} bytes before the start of buffer '{name}'"),
        (0, true) if address < buffer.gpu_va + bytes => {
            format!("byte {} of buffer '{name}' of {bytes} bytes", address - buffer.gpu_va)
        }
        (0, true) => format!("the first byte beyond the end of buffer '{name}' of {bytes} bytes"),
        (beyond, true) => {
            format!("{beyond} bytes beyond the end of buffer '{name}' of {bytes} bytes")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_workload::{LoadOptions, load_bytes};

    fn placed() -> Vec<Placed> {
        let at = |name: &str, gpu_va, bytes| Placed { name: name.into(), gpu_va, bytes };
        vec![at("source", 0x1_0000, 0x1000), at("destination", 0x2_0000, 0x2000)]
    }

    #[test]
    fn an_address_is_shown_beside_the_nearest_buffer() {
        let near = |address| nearest(&placed(), address).unwrap();
        assert_eq!(
            near(0x2_2000),
            "the first byte beyond the end of buffer 'destination' of 8192 bytes"
        );
        assert_eq!(near(0x1_1010), "16 bytes beyond the end of buffer 'source' of 4096 bytes");
        assert_eq!(near(0x2_0004), "byte 4 of buffer 'destination' of 8192 bytes");
        assert_eq!(near(0xfff0), "16 bytes before the start of buffer 'source'");
    }

    #[test]
    fn commands_touch_what_they_name() {
        let copy = Evaluated::Copy {
            src: BufferId(0),
            src_offset: 16,
            dst: BufferId(1),
            dst_offset: u64::MAX,
            bytes: 8,
        };
        assert_eq!(ranges(&copy, &placed()), [(0x1_0010, 8), (u64::MAX, 8)]);
        assert!(ranges(&Evaluated::Delay { ns: 5 }, &placed()).is_empty());
    }

    #[test]
    fn without_a_culprit_the_report_has_queue_and_address() {
        let text = "[[queue]]\nname = \"copy\"\nengine = \"copy\"\nprogram = [{ work_ns = 1 }]\n";
        let workload = load_bytes(text.as_bytes(), "w.toml", &LoadOptions::default()).unwrap().0;
        let report =
            FaultReport { gpu_va: 0x2_2010, what: "not mapped".into(), ..FaultReport::default() };
        let fault = Fault {
            report,
            queue: Some("copy".into()),
            list: None,
            command: None,
            of_linked_adapter: false,
        };
        let text = explain(&workload, &fault, Some(&QueueLog::default()), &placed());
        assert_eq!(
            text,
            "w.toml: GPU page fault in queue 'copy': load from 0x22010, 16 bytes beyond the end of buffer \
             'destination' of 8192 bytes (not mapped); the device is lost"
        );
    }
}
