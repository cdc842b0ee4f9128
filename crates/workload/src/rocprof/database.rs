//! Reads rocpd databases.
//!
//! Invariants: base tables such as `rocpd_kernel_dispatch_<uuid>` are read, and no views over them.
//! Texts, agents and events belong to a uuid. The internal correlation id is
//! `rocpd_event.stack_id`; the column named `correlation_id` holds the external one. Entry points:
//! [`is_rocpd`], [`read`].

use std::collections::HashMap;
use std::sync::Arc;

use super::run::{Args, Direction, Place, Run, Span};
use crate::database::Database;
use crate::recording::{Recording, Source};

const DISPATCH: &str = "rocpd_kernel_dispatch";

/// Whether a database has the tables of rocpd.
pub fn is_rocpd(database: &Database) -> bool {
    database.tables().iter().any(|table| table.starts_with(DISPATCH))
}

/// Reads a database.
///
/// # Errors
/// A damaged file, or a table without a column that every release has.
pub fn read(database: &Database) -> Result<Recording, String> {
    let mut run = Run::new(Source::Rocpd);
    let suffixes: Vec<&str> =
        database.tables().into_iter().filter_map(|t| t.strip_prefix(DISPATCH)).collect();
    for suffix in suffixes {
        Part { database, suffix, run: &mut run }.read()?;
    }
    Ok(run.finish())
}

/// The tables with one suffix.
struct Part<'a> {
    database: &'a Database,
    suffix: &'a str,
    run: &'a mut Run,
}

/// Tables that rows refer to by number.
struct Texts {
    strings: HashMap<i64, Arc<str>>,
    kernels: HashMap<i64, Arc<str>>,
    devices: HashMap<i64, i64>,
    processes: HashMap<i64, i64>,
    threads: HashMap<i64, i64>,
    /// Internal correlation id and category of an event.
    events: HashMap<i64, (Option<i64>, i64)>,
    args: HashMap<i64, Args>,
}

impl Part<'_> {
    fn table(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    /// A table of numbered texts; the first of several columns that is not empty counts.
    fn texts(&self, table: &str, columns: &[&str]) -> Result<HashMap<i64, Arc<str>>, String> {
        let mut texts = HashMap::new();
        self.database.scan(&self.table(table), &["id"], &[&["id"], columns].concat(), |row| {
            let text = (1..=columns.len()).map(|k| row.text(k)).find(|text| !text.is_empty());
            if let (Some(id), Some(text)) = (row.int(0), text) {
                texts.insert(id, Arc::from(text));
            }
            Ok(())
        })?;
        Ok(texts)
    }

    fn numbers(&self, table: &str, column: &str) -> Result<HashMap<i64, i64>, String> {
        let mut numbers = HashMap::new();
        self.database.scan(&self.table(table), &["id"], &["id", column], |row| {
            numbers.extend(row.int(0).zip(row.int(1)));
            Ok(())
        })?;
        Ok(numbers)
    }

    fn read(&mut self) -> Result<(), String> {
        let texts = Texts {
            strings: self.texts("rocpd_string", &["string"])?,
            kernels: self.texts("rocpd_info_kernel_symbol", &["display_name", "kernel_name"])?,
            devices: self.numbers("rocpd_info_agent", "type_index")?,
            processes: self.numbers("rocpd_info_process", "pid")?,
            threads: self.numbers("rocpd_info_thread", "tid")?,
            events: self.events()?,
            args: self.args()?,
        };
        self.dispatches(&texts)?;
        self.copies(&texts)?;
        self.calls(&texts)
    }

    fn events(&self) -> Result<HashMap<i64, (Option<i64>, i64)>, String> {
        let mut events = HashMap::new();
        let columns = ["id", "stack_id", "category_id"];
        self.database.scan(&self.table("rocpd_event"), &["id", "stack_id"], &columns, |row| {
            if let Some(id) = row.int(0) {
                events.insert(id, (row.int(1), row.int(2).unwrap_or(-1)));
            }
            Ok(())
        })?;
        Ok(events)
    }

    fn args(&self) -> Result<HashMap<i64, Args>, String> {
        let mut args: HashMap<i64, Args> = HashMap::new();
        self.database.scan(
            &self.table("rocpd_arg"),
            &["event_id"],
            &["event_id", "name", "value"],
            |row| {
                let mut one = Args::default();
                let (name, value) = (row.text(1), row.text(2));
                one.take(&name, &value);
                if let Some(event) = row.int(0).filter(|_| one != Args::default()) {
                    args.entry(event).or_default().take(&name, &value);
                }
                Ok(())
            },
        )?;
        Ok(args)
    }

    fn dispatches(&mut self, texts: &Texts) -> Result<(), String> {
        let columns =
            ["start", "end", "event_id", "pid", "agent_id", "stream_id", "queue_id", "kernel_id"];
        let (database, table) = (self.database, self.table(DISPATCH));
        database.scan(&table, &columns[..3], &columns, |row| {
            let span = texts.span(row.int(0), row.int(1), row.int(2));
            self.run.process(texts.process(row.int(3)));
            let place =
                Place { device: texts.device(row.int(4)), stream: row.int(5), queue: row.int(6) };
            let name = row.int(7).and_then(|id| texts.kernels.get(&id));
            self.run.kernel(name.map_or("kernel", |name| name), place, span);
            Ok(())
        })?;
        Ok(())
    }

    fn copies(&mut self, texts: &Texts) -> Result<(), String> {
        let columns = [
            "start",
            "end",
            "event_id",
            "pid",
            "name_id",
            "src_agent_id",
            "dst_agent_id",
            "stream_id",
            "queue_id",
        ];
        let (database, table) = (self.database, self.table("rocpd_memory_copy"));
        database.scan(&table, &columns[..3], &columns, |row| {
            let span = texts.span(row.int(0), row.int(1), row.int(2));
            self.run.process(texts.process(row.int(3)));
            let direction = Direction::of(texts.string(row.int(4)));
            let device = direction.device(texts.device(row.int(5)), texts.device(row.int(6)));
            self.run.copy(direction, Place { device, stream: row.int(7), queue: row.int(8) }, span);
            Ok(())
        })?;
        Ok(())
    }

    fn calls(&mut self, texts: &Texts) -> Result<(), String> {
        let columns = ["start", "end", "event_id", "pid", "tid", "name_id"];
        let (database, table) = (self.database, self.table("rocpd_region"));
        database.scan(&table, &columns[..3], &columns, |row| {
            let event = row.int(2);
            let category =
                event.and_then(|id| texts.events.get(&id)).map_or(-1, |(_, category)| *category);
            if !texts.string(Some(category)).starts_with("HIP_") {
                return Ok(());
            }
            self.run.process(texts.process(row.int(3)));
            let thread = row.int(4).map_or(0, |id| texts.threads.get(&id).copied().unwrap_or(id));
            let args = event.and_then(|id| texts.args.get(&id)).copied().unwrap_or_default();
            let span = texts.span(row.int(0), row.int(1), event);
            self.run.call(texts.string(row.int(5)), thread, span, None, args);
            Ok(())
        })?;
        Ok(())
    }
}

impl Texts {
    fn string(&self, id: Option<i64>) -> &str {
        id.and_then(|id| self.strings.get(&id)).map_or("", |text| text)
    }

    fn process(&self, id: Option<i64>) -> i64 {
        id.map_or(0, |id| self.processes.get(&id).copied().unwrap_or(id))
    }

    fn device(&self, id: Option<i64>) -> i64 {
        id.map_or(0, |id| self.devices.get(&id).copied().unwrap_or(id))
    }

    fn span(&self, start: Option<i64>, end: Option<i64>, event: Option<i64>) -> Span {
        let correlation = event.and_then(|id| self.events.get(&id)).and_then(|(stack, _)| *stack);
        Span { start, end, correlation }
    }
}
