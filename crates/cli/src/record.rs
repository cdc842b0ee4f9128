//! `tidegate record --attach`: the timeline of a running service.

use crate::arguments;
use crate::output::Outputs;
use crate::streams::{errln, outln};
use crate::{BadInput, End};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::Path;
use tidegate::Platform;
use tidegate::platform::{CpuTime, Part};
use tidegate::service::client::{ConnectError, Recording};
use tidegate::trace::{self, ClockName, Trace, TraceBuilder};

/// Time between two requests that found nothing more.
const PAUSE_NS: u64 = 50_000_000;

/// Records that are kept. Those beyond are counted as lost.
const MOST_RECORDS: usize = 4_000_000;

/// How a timeline is written, by the name of its file.
#[derive(Clone, Copy)]
enum Format {
    Html,
    Chrome,
    Perfetto,
}

impl Format {
    fn of(path: &Path) -> Result<Format, BadInput> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("html") => Ok(Format::Html),
            Some("json") => Ok(Format::Chrome),
            Some("pftrace") => Ok(Format::Perfetto),
            _ => Err(BadInput(format!(
                "--output {}: end the name in .html (page), .json (Chrome) or .pftrace (Perfetto)",
                path.display()
            ))),
        }
    }

    fn write(self, trace: &Trace, path: &Path, outputs: &Outputs) -> Result<(), BadInput> {
        outputs.write(path, |out| match self {
            Format::Html => trace::html::write(trace, out),
            Format::Chrome => trace::chrome::write(trace, out),
            Format::Perfetto => trace::perfetto::write(trace, out),
        })
    }
}

/// The records so far.
struct Kept {
    builder: TraceBuilder,
    records: usize,
}

impl Kept {
    fn add(&mut self, mut part: Part) {
        let room = MOST_RECORDS - self.records;
        part.lost += part.records.len().saturating_sub(room) as u64;
        part.records.truncate(room);
        self.records += part.records.len();
        self.builder.add_part(part);
    }
}

/// `tidegate record`.
pub(crate) fn command(arguments: &arguments::Record, outputs: &Outputs) -> Result<End, BadInput> {
    let bad = |error: &dyn std::fmt::Display| BadInput(error.to_string());
    if !arguments.attach {
        let next = "say --attach; `tidegate run --timeline` writes that of a run";
        return Err(BadInput(format!("record writes the timeline of a running service: {next}")));
    }
    let (socket, path) = (arguments.socket.path()?, &arguments.output);
    let format = Format::of(path)?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| bad(&error))?;
    let mut recording = Recording::attach(&socket).map_err(|error| bad(&error))?;
    // Scripts wait for this line.
    errln!("recording {}", socket.display());
    let title = format!("service at {}", socket.display());
    let mut kept = Kept { builder: TraceBuilder::new(title, ClockName::Wall), records: 0 };
    let platform = Platform::host();
    let until = arguments.seconds.map(|s| CpuTime(platform.now().0 + s * 1_000_000_000));
    let service_ended = loop {
        let over = signals.pending().next().is_some()
            || until.is_some_and(|until| platform.now() >= until);
        match read(&mut recording, &mut kept, over) {
            Ok(()) if over => break false,
            Ok(()) => {
                let pause = CpuTime(platform.now().0 + PAUSE_NS);
                platform.sleep_until(until.map_or(pause, |until| until.min(pause)));
            }
            Err(ConnectError::Ended) => break true,
            Err(error) => return Err(bad(&error)),
        }
    };
    // The service goes on without a recording while the file is written.
    drop(recording);
    let trace = kept.builder.finish();
    format.write(&trace, path, outputs)?;
    let why = if service_ended { "; the service has ended" } else { "" };
    outln!("{} records, {} lost{why}", trace.records.len(), trace.lost_records);
    Ok(End::Right)
}

/// Reads all that is there.
fn read(recording: &mut Recording, kept: &mut Kept, end: bool) -> Result<(), ConnectError> {
    loop {
        let (part, left) = recording.take(end)?;
        kept.add(part);
        if !left {
            return Ok(());
        }
    }
}
