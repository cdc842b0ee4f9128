//! `tidegate-peers`: what the rows of the bench do on other implementations, for
//! `tidegate-bench --peers`.
//!
//! A request is one line of JSON on standard input, its answer one line on standard output. The
//! first line names the peers that are present and those that are missing. The calling thread and
//! the threads of a peer run on the processors that the bench gives to its client and its engines,
//! except where a measurement has more threads than processors.
//!
//! Rooms, each a feature: `vulkan` and its `rows` · `opencl` and its `kernels` · `threads` ·
//! `tasks` · `models` (explorers) · `simulation` · `simpy` · `spin`. `timing` is theirs
//! all, `outside` runs the programs of the last two.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "nothing here is explored")]

/// That of `tidegate`, so that neither side gains by its allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod timing;

#[cfg(feature = "opencl")]
mod kernels;
#[cfg(feature = "models")]
mod models;
#[cfg(feature = "opencl")]
mod opencl;
#[cfg(any(feature = "simpy", feature = "spin"))]
mod outside;
#[cfg(feature = "vulkan")]
mod rows;
#[cfg(feature = "simpy")]
mod simpy;
#[cfg(feature = "simulation")]
mod simulation;
#[cfg(feature = "spin")]
mod spin;
#[cfg(feature = "tasks")]
mod tasks;
#[cfg(feature = "threads")]
mod threads;
#[cfg(feature = "vulkan")]
mod vulkan;

use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use timing::Measured;

/// Why there is no answer, in words.
type Trouble = String;

/// One measurement.
#[derive(Deserialize)]
struct Request {
    peer: String,
    /// What is measured.
    row: String,
    /// Operations that are timed together, or another size of the measurement.
    batch: u64,
    batches: u64,
    client_cpu: usize,
    service_cpu: usize,
}

#[derive(Serialize)]
struct Present {
    name: &'static str,
    about: String,
}

#[derive(Serialize)]
struct Missing {
    name: &'static str,
    why: Trouble,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Peers {
        present: Vec<Present>,
        missing: Vec<Missing>,
    },
    /// Nanoseconds of one operation, by batch; bytes of an object where the row has objects.
    Measured(Measured),
    /// The peer has no such measurement.
    NoCounterpart,
    Trouble(Trouble),
}

/// What a peer measures for a request; `None` for another's.
type Measure = fn(&Request) -> Result<Option<Measured>, Trouble>;

/// A peer: its name, whether it is there and what it is, and what it measures.
struct Peer {
    name: &'static str,
    about: fn() -> Result<String, Trouble>,
    measure: Measure,
}

/// Peers of the features that this program was built with.
const PEERS: &[Peer] = &[
    #[cfg(feature = "vulkan")]
    Peer { name: "lavapipe", about: rows::about, measure: rows::measure },
    #[cfg(feature = "opencl")]
    Peer { name: "pocl", about: kernels::about, measure: kernels::measure },
    #[cfg(feature = "tasks")]
    Peer { name: "tokio", about: || Ok("1, one thread".to_owned()), measure: tasks::measure },
    #[cfg(feature = "threads")]
    Peer { name: "std", about: || Ok("Mutex and Condvar".to_owned()), measure: threads::measure },
    #[cfg(feature = "threads")]
    Peer { name: "parking_lot", about: || Ok("0.12".to_owned()), measure: threads::measure },
    #[cfg(all(feature = "threads", feature = "tasks"))]
    Peer {
        name: "event-listener",
        about: || Ok("5".to_owned()),
        measure: |request| match tasks::measure(request)? {
            Some(measured) => Ok(Some(measured)),
            None => threads::measure(request),
        },
    },
    #[cfg(feature = "threads")]
    Peer { name: "rtrb", about: || Ok("0.3".to_owned()), measure: threads::measure },
    #[cfg(feature = "threads")]
    Peer { name: "crossbeam", about: || Ok("channel 0.5".to_owned()), measure: threads::measure },
    #[cfg(feature = "models")]
    Peer { name: "stateright", about: || Ok("0.31".to_owned()), measure: models::measure },
    #[cfg(feature = "models")]
    Peer { name: "loom", about: || Ok("0.7".to_owned()), measure: models::measure },
    #[cfg(feature = "models")]
    Peer { name: "shuttle", about: || Ok("0.8".to_owned()), measure: models::measure },
    #[cfg(feature = "simulation")]
    Peer { name: "simcore", about: || Ok("0.1".to_owned()), measure: simulation::measure },
    #[cfg(feature = "simulation")]
    Peer {
        name: "nexosim",
        about: || Ok("1, one thread".to_owned()),
        measure: simulation::measure,
    },
    #[cfg(feature = "simpy")]
    Peer { name: "simpy", about: simpy::about, measure: simpy::measure },
    #[cfg(feature = "spin")]
    Peer { name: "spin", about: spin::about, measure: spin::measure },
];

fn answer(request: &Request) -> Answer {
    let Some(peer) = PEERS.iter().find(|peer| peer.name == request.peer) else {
        return Answer::NoCounterpart;
    };
    match (peer.measure)(request) {
        Ok(Some(measured)) => Answer::Measured(measured),
        Ok(None) => Answer::NoCounterpart,
        Err(trouble) => Answer::Trouble(trouble),
    }
}

fn write(answer: &Answer) -> Result<(), Trouble> {
    let text = serde_json::to_string(answer).map_err(|e| format!("an answer: {e}"))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| format!("standard output: {e}"))
}

fn peers() -> Answer {
    let (mut present, mut missing) = (Vec::new(), Vec::new());
    for Peer { name, about, .. } in PEERS {
        match about() {
            Ok(about) => present.push(Present { name, about }),
            Err(why) => missing.push(Missing { name, why }),
        }
    }
    Answer::Peers { present, missing }
}

fn run() -> Result<(), Trouble> {
    write(&peers())?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| format!("standard input: {e}"))?;
        let request = serde_json::from_str(&line).map_err(|e| format!("a request: {e}"));
        // A thread of its own for each: it binds itself to a processor.
        let answered = request.and_then(|request: Request| {
            std::thread::spawn(move || answer(&request))
                .join()
                .map_err(|_| "the measurement panicked".to_owned())
        });
        write(&answered.unwrap_or_else(Answer::Trouble))?;
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
