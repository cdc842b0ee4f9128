//! The per-kernel table: a row for each piece of GPU work, as recorded and as replayed, and sums of
//! rows by name.
//!
//! - Recorded times count from the start of the recording, replayed ones from the start of the run.
//! - The queue delay is the time from the submission to the start. The launch latency is the part
//!   of it in which no earlier work of the same queue ran.
//!
//! Entry points: [`KernelRow`], [`Table`], [`summary`]; `diff` compares two tables, `columns`
//! writes Parquet.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use crate::report::Report;
use tidegate_workload::model::{RecordedItem, Workload};

/// A piece of GPU work. Times in nanoseconds; a time that is not known is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRow {
    /// The kernel, the direction of a copy, or the label of work in a workload file.
    pub name: Arc<str>,
    /// The queue; for recorded work its stream.
    pub queue: Arc<str>,
    /// The submission model of the run.
    pub model: &'static str,
    /// The grade of the recording's replay, as in `compare`; empty without a grade.
    pub grade: &'static str,
    /// Recorded start.
    pub recorded_start_ns: Option<u64>,
    /// Start in the run; `None` for work that did not run.
    pub replayed_start_ns: Option<u64>,
    /// From the submission to the start in the run.
    pub queue_delay_ns: Option<u64>,
    /// The part of it in which the queue was idle.
    pub launch_latency_ns: Option<u64>,
    /// Time for which an engine worked on it in the run, without preempted time.
    pub busy_ns: Option<u64>,
    /// Recorded time from the submission to the start.
    pub recorded_queue_delay_ns: Option<u64>,
    /// The part of it in which the stream was idle.
    pub recorded_launch_latency_ns: Option<u64>,
    /// Recorded length.
    pub recorded_busy_ns: Option<u64>,
}

/// A piece of work in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Index into [`tidegate_workload::model::Recorded::items`].
    pub(crate) item: Option<usize>,
    pub(crate) queued_ns: u64,
    pub(crate) start_ns: u64,
    pub(crate) busy_ns: u64,
    /// End of the last work before it on its queue.
    pub(crate) previous_end_ns: u64,
}

impl Replayed {
    fn queue_delay_ns(&self) -> u64 {
        self.start_ns.saturating_sub(self.queued_ns)
    }

    fn launch_latency_ns(&self) -> u64 {
        self.start_ns.saturating_sub(self.queued_ns.max(self.previous_end_ns))
    }
}

/// Columns of the table, in order.
pub const COLUMNS: [&str; 12] = [
    "name",
    "queue",
    "model",
    "grade",
    "recorded_start_ns",
    "replayed_start_ns",
    "queue_delay_ns",
    "launch_latency_ns",
    "busy_ns",
    "recorded_queue_delay_ns",
    "recorded_launch_latency_ns",
    "recorded_busy_ns",
];

impl KernelRow {
    /// The columns of times, in the order of [`COLUMNS`].
    pub(crate) fn times(&self) -> [Option<u64>; 8] {
        [
            self.recorded_start_ns,
            self.replayed_start_ns,
            self.queue_delay_ns,
            self.launch_latency_ns,
            self.busy_ns,
            self.recorded_queue_delay_ns,
            self.recorded_launch_latency_ns,
            self.recorded_busy_ns,
        ]
    }

    pub(crate) fn with_run(mut self, run: &Replayed) -> KernelRow {
        self.replayed_start_ns = Some(run.start_ns);
        self.queue_delay_ns = Some(run.queue_delay_ns());
        self.launch_latency_ns = Some(run.launch_latency_ns());
        self.busy_ns = Some(run.busy_ns);
        self
    }

    /// A row without times.
    pub(crate) fn new(name: Arc<str>, queue: Arc<str>, model: &'static str) -> KernelRow {
        KernelRow {
            name,
            queue,
            model,
            grade: "",
            recorded_start_ns: None,
            replayed_start_ns: None,
            queue_delay_ns: None,
            launch_latency_ns: None,
            busy_ns: None,
            recorded_queue_delay_ns: None,
            recorded_launch_latency_ns: None,
            recorded_busy_ns: None,
        }
    }
}

/// Returns a row for each recorded piece of work, in the order of the host calls; none for a
/// workload that is not a recording.
pub fn recorded_rows(workload: &Workload) -> Vec<KernelRow> {
    let Some(recorded) = &workload.recorded else { return Vec::new() };
    let queues: Vec<Arc<str>> =
        workload.queues.iter().map(|queue| queue.name.as_str().into()).collect();
    let mut ends: Vec<u64> = vec![0; queues.len()];
    let row = |item: &RecordedItem| {
        let end = &mut ends[item.queue.0 as usize];
        let name = Arc::clone(&recorded.names[item.name as usize]);
        let mut row = KernelRow::new(name, Arc::clone(&queues[item.queue.0 as usize]), "");
        let delay = item.launched_ns.map(|launched| item.start_ns.saturating_sub(launched));
        let latency =
            item.launched_ns.map(|launched| item.start_ns.saturating_sub(launched.max(*end)));
        (row.recorded_queue_delay_ns, row.recorded_launch_latency_ns) = (delay, latency);
        row.recorded_start_ns = Some(item.start_ns);
        row.recorded_busy_ns = Some(item.end_ns - item.start_ns);
        *end = (*end).max(item.end_ns);
        row
    };
    recorded.items.iter().map(row).collect()
}

/// The rows of one workload with its makespan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The rows.
    pub rows: Vec<KernelRow>,
    /// From the start to the end of the last work, in nanoseconds.
    pub makespan_ns: u64,
    /// Whether sums are made of recorded times. Otherwise they are made of times of a run.
    pub recorded: bool,
}

impl Table {
    /// The recorded times of a workload; `None` for one that is not a recording.
    pub fn recorded(workload: &Workload) -> Option<Table> {
        let makespan_ns = workload.recorded.as_ref()?.makespan_ns;
        Some(Table { rows: recorded_rows(workload), makespan_ns, recorded: true })
    }

    /// The times of a run.
    pub fn of_run(rows: Vec<KernelRow>, report: &Report) -> Table {
        Table { rows, makespan_ns: report.makespan_ns, recorded: false }
    }

    /// Queue delay, launch latency and busy time of a row.
    fn sums(&self, row: &KernelRow) -> [Option<u64>; 3] {
        match self.recorded {
            true => {
                [row.recorded_queue_delay_ns, row.recorded_launch_latency_ns, row.recorded_busy_ns]
            }
            false => [row.queue_delay_ns, row.launch_latency_ns, row.busy_ns],
        }
    }
}

/// All work of one name. Times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NameRow {
    /// The name.
    pub name: String,
    /// Pieces of work whose busy time is known.
    pub count: u64,
    /// Busy time of all of them.
    pub total_ns: u64,
    /// Shortest.
    pub min_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Part of the busy time of all work, from 0 to 1.
    pub share: f64,
    /// Sum of the queue delays that are known.
    pub queue_delay_ns: u64,
    /// Sum of the launch latencies that are known.
    pub launch_latency_ns: u64,
    /// Pieces of work whose queue delay is known.
    pub launched: u64,
}

impl NameRow {
    /// Mean busy time.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns / self.count.max(1)
    }

    /// Mean queue delay; `None` where none is known.
    pub fn mean_queue_delay_ns(&self) -> Option<u64> {
        self.queue_delay_ns.checked_div(self.launched)
    }

    /// Mean launch latency; `None` where none is known.
    pub fn mean_launch_latency_ns(&self) -> Option<u64> {
        self.launch_latency_ns.checked_div(self.launched)
    }
}

/// Sums a table by name; most busy time first, then by name.
pub fn summary(table: &Table) -> Vec<NameRow> {
    let mut at: HashMap<&str, usize> = HashMap::new();
    let mut names: Vec<NameRow> = Vec::new();
    for row in &table.rows {
        let [delay, latency, Some(busy)] = table.sums(row) else { continue };
        let index = *at.entry(&row.name).or_insert_with(|| {
            names.push(NameRow {
                name: row.name.to_string(),
                min_ns: u64::MAX,
                ..NameRow::default()
            });
            names.len() - 1
        });
        let name = &mut names[index];
        name.count += 1;
        name.total_ns += busy;
        (name.min_ns, name.max_ns) = (name.min_ns.min(busy), name.max_ns.max(busy));
        if let (Some(delay), Some(latency)) = (delay, latency) {
            name.launched += 1;
            name.queue_delay_ns += delay;
            name.launch_latency_ns += latency;
        }
    }
    let all: u64 = names.iter().map(|name| name.total_ns).sum();
    names.iter_mut().for_each(|name| name.share = name.total_ns as f64 / all.max(1) as f64);
    names.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    names
}

/// Writes the rows as CSV with a head; a time that is not known is empty.
///
/// # Errors
/// Errors of the writer.
pub fn write_csv(rows: &[KernelRow], out: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for row in rows {
        let times = row.times().map(|time| time.map_or_else(String::new, |time| time.to_string()));
        let words = [&*row.name, &*row.queue, row.model, row.grade];
        csv.write_record(words.into_iter().chain(times.iter().map(String::as_str)))?;
    }
    csv.flush()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tidegate_workload::model::{EngineKind, Priority, Queue, QueueId, Ready, Recorded, Span};
    use tidegate_workload::recording::ImportReport;

    /// A row of a run.
    pub(crate) fn row(name: &str, start: u64, delay: u64, latency: u64, busy: u64) -> KernelRow {
        let run = Replayed {
            item: None,
            queued_ns: start - delay,
            start_ns: start,
            busy_ns: busy,
            previous_end_ns: start - latency,
        };
        KernelRow::new(name.into(), "q".into(), "user").with_run(&run)
    }

    #[test]
    fn rows_are_summed_by_name() {
        let rows =
            vec![row("a", 10, 10, 4, 30), row("b, \"c\"", 50, 0, 0, 50), row("a", 110, 2, 2, 20)];
        let table = Table { rows, makespan_ns: 130, recorded: false };
        let names = summary(&table);
        let facts =
            |n: &NameRow| (n.name.clone(), n.count, n.total_ns, n.min_ns, n.max_ns, n.mean_ns());
        assert_eq!(
            facts(&names[0]),
            ("a".to_owned(), 2, 50, 20, 30, 25),
            "equal totals go by name"
        );
        assert_eq!(facts(&names[1]), ("b, \"c\"".to_owned(), 1, 50, 50, 50, 50));
        assert_eq!(
            (names[0].share, names[0].mean_queue_delay_ns(), names[0].mean_launch_latency_ns()),
            (0.5, Some(6), Some(3))
        );
        let mut csv = Vec::new();
        write_csv(&table.rows, &mut csv).unwrap();
        let text = String::from_utf8(csv).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], COLUMNS.join(","));
        assert_eq!(lines[1], "a,q,user,,,10,10,4,30,,,");
        assert_eq!(lines[2], "\"b, \"\"c\"\"\",q,user,,,50,0,0,50,,,");
    }

    #[test]
    fn a_mean_is_over_all_pieces_and_a_mean_delay_over_those_that_a_call_launched() {
        let row = NameRow {
            count: 4,
            total_ns: 40,
            launched: 2,
            queue_delay_ns: 30,
            launch_latency_ns: 8,
            ..NameRow::default()
        };
        assert_eq!(row.mean_ns(), 10);
        assert_eq!((row.mean_queue_delay_ns(), row.mean_launch_latency_ns()), (Some(15), Some(4)));
        assert_eq!(NameRow { launched: 0, ..row }.mean_queue_delay_ns(), None);
    }

    /// A kernel that ends inside of a longer one of its queue does not end the queue's work.
    #[test]
    fn a_recorded_latency_counts_from_the_end_of_all_work_before() {
        let item = |launched_ns, start_ns, end_ns| RecordedItem {
            queue: QueueId(0),
            name: 0,
            launched_ns,
            start_ns,
            end_ns,
            ready: Ready::Launch,
            gap_ns: 0,
            unexplained: false,
        };
        let items = vec![
            item(Some(0), 10, 100),
            item(Some(20), 30, 50),
            item(Some(40), 110, 120),
            item(None, 130, 131),
        ];
        let queue = Queue {
            name: "stream 7".into(),
            engine: EngineKind::Compute,
            node: 0,
            gpu: 0,
            priority: Priority::Normal,
            submission: None,
            span: Span::default(),
        };
        let (names, report) = (vec!["k".into()], ImportReport::default());
        let workload = Workload {
            name: "t".into(),
            description: String::new(),
            file: "t".into(),
            local_memory_bytes: None,
            buffers: Vec::new(),
            queues: vec![queue],
            fences: Vec::new(),
            display: None,
            threads: Vec::new(),
            expects: Vec::new(),
            frames: Vec::new(),
            marks: 0,
            recorded: Some(Recorded { makespan_ns: 131, items, names, kinds: Vec::new(), report }),
            scale: None,
            warnings: Vec::new(),
        };
        let rows = recorded_rows(&workload);
        let times: Vec<_> = rows
            .iter()
            .map(|r| (r.recorded_queue_delay_ns, r.recorded_launch_latency_ns, r.recorded_busy_ns))
            .collect();
        let of = |delay, latency, busy| (Some(delay), Some(latency), Some(busy));
        assert_eq!(times, [of(10, 10, 90), of(10, 0, 20), of(70, 10, 10), (None, None, Some(1))]);
    }
}
