//! The peers of the rows: a process of its own, `tidegate-peers`, which does what a row does on
//! other implementations. It is built apart and lies beside `tidegate`.
//!
//! A request and its answer are a line of JSON each. The peers measure on the processors of the
//! rows, one measurement at a time, directly behind the row.

use super::measure::{CLIENT_CPU, SERVICE_CPU, Samples, Trouble};
use super::sizes::Calls;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PROGRAM: &str = "tidegate-peers";

/// The running program of the peers. It ends with this.
pub(super) struct Peers {
    present: Vec<Present>,
    missing: Vec<Missing>,
    child: Child,
    /// `None` in the drop: the end of the requests ends the program.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// A peer that can be measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Present {
    pub(super) name: String,
    /// Its version or device.
    pub(super) about: String,
}

/// A peer that cannot be measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Missing {
    name: String,
    why: Trouble,
}

#[derive(Serialize)]
struct Request<'a> {
    peer: &'a str,
    row: &'a str,
    batch: u64,
    batches: u64,
    client_cpu: usize,
    service_cpu: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Peers {
        present: Vec<Present>,
        missing: Vec<Missing>,
    },
    Measured {
        samples_ns: Vec<f64>,
        bytes_each: Option<u64>,
        cpu_ns: Option<f64>,
        note: Option<String>,
    },
    NoCounterpart,
    Trouble(Trouble),
}

/// What a peer measured.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerMeasured {
    pub(super) samples: Samples,
    /// Resident memory of an object, where the row has objects.
    pub(super) bytes_each: Option<u64>,
    /// CPU time of the peers' process for one operation, where it was measured.
    pub(super) cpu_ns: Option<f64>,
    pub(super) note: Option<String>,
}

fn program() -> Result<PathBuf, Trouble> {
    let own = std::env::current_exe().map_err(|e| format!("where this program lies: {e}"))?;
    Ok(own.with_file_name(PROGRAM))
}

impl Peers {
    /// Starts the program. The error says what is missing.
    pub(super) fn start() -> Result<Peers, Trouble> {
        let program = program()?;
        let started = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|e| {
            format!("{}: {e}; cargo build --release -p {PROGRAM} --features all", program.display())
        })?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{PROGRAM}: no pipes"));
        };
        let (requests, answers) = (Some(requests), BufReader::new(answers));
        let (present, missing) = (Vec::new(), Vec::new());
        let mut peers = Peers { present, missing, child, requests, answers };
        match peers.answer()? {
            Answer::Peers { present, missing } => {
                (peers.present, peers.missing) = (present, missing);
                Ok(peers)
            }
            _ => Err(format!("{PROGRAM}: its first line names no peers; build both anew")),
        }
    }

    pub(super) fn present(&self) -> &[Present] {
        &self.present
    }

    pub(super) fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// The number of the program's process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Takes a measurement of a peer; `None` if the peer is not present.
    pub(super) fn measure(
        &mut self,
        peer: &str,
        row: &str,
        size: Calls,
    ) -> Result<Option<PeerMeasured>, Trouble> {
        if !self.present.iter().any(|present| present.name == peer) {
            return Ok(None);
        }
        let Calls { batch, batches } = size;
        let (client_cpu, service_cpu) = (CLIENT_CPU, SERVICE_CPU);
        let request = Request { peer, row, batch, batches, client_cpu, service_cpu };
        let text = serde_json::to_string(&request).map_err(|e| format!("a request: {e}"))?;
        let requests = self.requests.as_mut().ok_or("the peers have ended")?;
        writeln!(requests, "{text}")
            .and_then(|()| requests.flush())
            .map_err(|e| format!("{PROGRAM}: {e}"))?;
        match self.answer()? {
            Answer::Measured { samples_ns, bytes_each, cpu_ns, note } => {
                let mut samples = Samples::default();
                samples_ns.into_iter().for_each(|ns| samples.push(ns));
                Ok(Some(PeerMeasured { samples, bytes_each, cpu_ns, note }))
            }
            Answer::Trouble(trouble) => Err(format!("{PROGRAM}: {peer}: {trouble}")),
            _ => Err(format!("{PROGRAM}: {peer} does not know '{row}'; build both anew")),
        }
    }

    fn answer(&mut self) -> Result<Answer, Trouble> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).map_err(|e| format!("{PROGRAM}: {e}"))?;
        if read == 0 {
            return Err(format!("{PROGRAM} ended without an answer"));
        }
        serde_json::from_str(&line).map_err(|e| format!("{PROGRAM}: its answer: {e}"))
    }
}

impl Missing {
    /// One line.
    pub(super) fn line(&self) -> String {
        format!("{}: {}", self.name, self.why)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.requests = None;
        // Its status says nothing that an answer has not said.
        let _status = self.child.wait();
    }
}
