//! Reads RPD databases of rocmProfileData, the predecessor of rocpd.
//!
//! Invariants: `rocpd_op` has the work and `rocpd_api` the host calls, of all processes of the
//! file. A row of `rocpd_api_ops` joins the two. An operation has no process: it is that of its
//! call. Work has the number of its queue, calls have stream pointers in `rocpd_kernelapi`,
//! `rocpd_copyapi` and in their arguments. Entry points: [`is_rpd`], [`read`].

use std::sync::Arc;

use foldhash::HashMap;

use super::run::{Args, Direction, Place, Run, Span};
use crate::database::Database;
use crate::recording::{Recording, Source};

/// Whether a database has the tables of RPD.
pub fn is_rpd(database: &Database) -> bool {
    database.has("rocpd_op") && database.has("rocpd_api")
}

/// Reads a database.
///
/// # Errors
/// A damaged file, or a table without a column that every release has.
pub fn read(database: &Database) -> Result<Recording, String> {
    let mut run = Run::new(Source::Rpd);
    let mut strings: HashMap<i64, Arc<str>> = HashMap::default();
    database.scan("rocpd_string", &["id", "string"], &["id", "string"], |row| {
        if let Some(id) = row.int(0) {
            strings.insert(id, Arc::from(row.text(1)));
        }
        Ok(())
    })?;
    let string = |id: Option<i64>| id.and_then(|id| strings.get(&id)).map_or("", |text| text);
    let mut launched_by: HashMap<i64, i64> = HashMap::default();
    let columns = ["op_id", "api_id"];
    database.scan("rocpd_api_ops", &columns, &columns, |row| {
        launched_by.extend(row.int(0).zip(row.int(1)));
        Ok(())
    })?;
    let mut args: HashMap<i64, Args> = HashMap::default();
    for table in ["rocpd_kernelapi", "rocpd_copyapi"] {
        let columns = ["api_ptr_id", "stream"];
        database.scan(table, &columns[..1], &columns, |row| {
            if let Some(call) = row.int(0) {
                args.entry(call).or_default().take("stream", &row.text(1));
            }
            Ok(())
        })?;
    }
    let mut processes: HashMap<i64, i64> = HashMap::default();
    let columns = ["id", "start", "end", "pid", "tid", "apiName_id", "args_id"];
    database.scan("rocpd_api", &columns[..3], &columns, |row| {
        let (Some(id), name) = (row.int(0), string(row.int(5))) else { return Ok(()) };
        let process = row.int(3).unwrap_or(0);
        processes.insert(id, process);
        // Markers, and calls of the recorder, are in the table too.
        if !name.starts_with("hip") {
            return Ok(());
        }
        let mut of_call = args.get(&id).copied().unwrap_or_default();
        for (name, value) in string(row.int(6)).split('|').filter_map(|arg| arg.split_once('=')) {
            of_call.take(name.trim(), value.trim());
        }
        run.process(process);
        let span = Span { start: row.int(1), end: row.int(2), correlation: Some(id) };
        run.call(name, row.int(4).unwrap_or(0), span, None, of_call);
        Ok(())
    })?;
    let columns = ["id", "start", "end", "gpuId", "queueId", "description_id", "opType_id"];
    database.scan("rocpd_op", &columns[..3], &columns, |row| {
        let correlation = row.int(0).and_then(|id| launched_by.get(&id)).copied();
        let process = correlation.and_then(|call| processes.get(&call)).copied();
        run.process(process.unwrap_or(0));
        let span = Span { start: row.int(1), end: row.int(2), correlation };
        let place = Place { device: row.int(3).unwrap_or(0), stream: None, queue: row.int(4) };
        let (kind, description) = (string(row.int(6)), string(row.int(5)));
        let name = if description.is_empty() { kind } else { description };
        match kind {
            _ if kind.starts_with("Copy") => run.copy(direction(kind), place, span),
            "FillBuffer" => run.fill(name, place, span),
            // It only orders others.
            _ if kind.starts_with("Barrier") || kind.starts_with("Marker") => {}
            _ => run.kernel(name, place, span),
        }
        Ok(())
    })?;
    Ok(run.finish())
}

fn direction(kind: &str) -> Direction {
    match kind {
        "CopyHostToDevice" => Direction::HostToDevice,
        "CopyDeviceToHost" => Direction::DeviceToHost,
        "CopyDeviceToDevice" => Direction::DeviceToDevice,
        _ => Direction::Unknown,
    }
}
