//! The process `tidegate-peers`, which does what a row does on other implementations. Its program
//! is built apart and lies beside this one.
//!
//! A request and its answer are a line of JSON each. The peers measure on the processors of the
//! rows, one measurement at a time, directly after the row.

use crate::sizes::Calls;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tidegate_measure::{CLIENT_CPU, Found, SERVICE_CPU, Samples};

const PROGRAM: &str = "tidegate-peers";

/// The running program of the peers. It ends with this.
pub(crate) struct Peers {
    present: Vec<Present>,
    missing: Vec<Missing>,
    child: Child,
    /// `None` in the drop: the end of the requests ends the program.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// A peer that can be measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Present {
    pub(crate) name: String,
    /// Its version or device.
    pub(crate) about: String,
}

/// A peer that cannot be measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Missing {
    pub(crate) name: String,
    pub(crate) why: String,
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
    Trouble(String),
}

/// What a peer measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerMeasured {
    pub(crate) samples: Samples,
    /// Resident memory of an object, where the row has objects.
    pub(crate) bytes_each: Option<u64>,
    /// CPU time of the peers' process for one operation, where it was measured.
    pub(crate) cpu_ns: Option<f64>,
    pub(crate) note: Option<String>,
}

fn program() -> Found<PathBuf> {
    let own = std::env::current_exe().map_err(|e| format!("where this program lies: {e}"))?;
    Ok(own.with_file_name(PROGRAM))
}

impl Peers {
    /// Starts the program. The error says what is missing.
    pub(crate) fn start() -> Found<Peers> {
        let program = program()?;
        let started = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|e| {
            format!("{}: {e}; cargo build --release -p {PROGRAM} --features all", program.display())
        })?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{PROGRAM}: no pipes").into());
        };
        let (requests, answers) = (Some(requests), BufReader::new(answers));
        let (present, missing) = (Vec::new(), Vec::new());
        let mut peers = Peers { present, missing, child, requests, answers };
        match peers.answer()? {
            Answer::Peers { present, missing } => {
                (peers.present, peers.missing) = (present, missing);
                Ok(peers)
            }
            _ => Err(format!("{PROGRAM}: its first line names no peers; build both anew").into()),
        }
    }

    pub(crate) fn present(&self) -> &[Present] {
        &self.present
    }

    pub(crate) fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Takes a measurement of a peer; `None` if the peer is not present.
    pub(crate) fn measure(
        &mut self,
        peer: &str,
        row: &str,
        size: Calls,
    ) -> Found<Option<PeerMeasured>> {
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
            Answer::Trouble(trouble) => Err(format!("{PROGRAM}: {peer}: {trouble}").into()),
            _ => Err(format!("{PROGRAM}: {peer} does not know '{row}'; build both anew").into()),
        }
    }

    fn answer(&mut self) -> Found<Answer> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).map_err(|e| format!("{PROGRAM}: {e}"))?;
        if read == 0 {
            return Err(format!("{PROGRAM} ended without an answer").into());
        }
        Ok(serde_json::from_str(&line).map_err(|e| format!("{PROGRAM}: its answer: {e}"))?)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.requests = None;
        // Its status says nothing that an answer has not said.
        let _status = self.child.wait();
    }
}
