//! `tidegate-peers`: the calls of the bench's group `api` on lavapipe through Vulkan, for
//! `tidegate bench --peers`.
//!
//! A request is one line of JSON on standard input, its answer one line on standard output. The
//! first line names the peer, or says what is missing. The calling thread and the threads of the
//! peer run on the processors that the bench gives to its client and its engines.
//!
//! Rooms: `vulkan` (the calls) · `rows` (what is timed).

mod rows;
mod vulkan;

use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use tidegate_platform::os::pin_to_cpu;
use vulkan::Vulkan;

/// Why there is no answer, in words.
type Trouble = String;

/// One measurement of a row.
#[derive(Deserialize)]
struct Request {
    row: String,
    /// Operations that are timed together.
    batch: u64,
    batches: u64,
    client_cpu: usize,
    service_cpu: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Peer(String),
    Missing(Trouble),
    /// Nanoseconds of one operation, by batch, and bytes of an object where the row has objects.
    Measured {
        samples_ns: Vec<f64>,
        bytes_each: Option<u64>,
    },
    /// The peer has no such call.
    NoCounterpart,
    Trouble(Trouble),
}

/// Binds the calling thread, and the threads that it makes from now on.
fn pin(cpu: usize) -> Result<(), Trouble> {
    if pin_to_cpu(cpu) { Ok(()) } else { Err(format!("cannot run on processor {cpu}")) }
}

fn answer(request: &Request) -> Result<Answer, Trouble> {
    // The threads of the driver start where the thread that makes the device is bound.
    pin(request.service_cpu)?;
    let vulkan = Vulkan::open()?;
    pin(request.client_cpu)?;
    rows::measure(&vulkan, &request.row, request.batch, request.batches)
}

fn write(answer: &Answer) -> Result<(), Trouble> {
    let text = serde_json::to_string(answer).map_err(|e| format!("an answer: {e}"))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| format!("standard output: {e}"))
}

fn run() -> Result<(), Trouble> {
    match Vulkan::open() {
        Ok(vulkan) => write(&Answer::Peer(vulkan.name().to_owned()))?,
        Err(trouble) => return write(&Answer::Missing(trouble)),
    }
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| format!("standard input: {e}"))?;
        let request = serde_json::from_str(&line).map_err(|e| format!("a request: {e}"));
        write(&request.and_then(|request| answer(&request)).unwrap_or_else(Answer::Trouble))?;
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("tidegate-peers: {trouble}");
            std::process::ExitCode::FAILURE
        }
    }
}
