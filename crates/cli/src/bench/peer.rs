//! The peer of the group `api`: a process of its own, `tidegate-peers`, which makes the calls of a
//! row on lavapipe through Vulkan. It is built apart and lies beside `tidegate`.
//!
//! A request and its answer are a line of JSON each. The peer measures on the processors of the
//! rows, one row at a time, directly behind the row.

use super::measure::{CLIENT_CPU, SERVICE_CPU, Samples, Trouble};
use super::sizes::Calls;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PROGRAM: &str = "tidegate-peers";

/// The running peer. It ends with this.
pub(super) struct Peer {
    name: String,
    child: Child,
    /// `None` in the drop: the end of the requests ends the peer.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

#[derive(Serialize)]
struct Request<'a> {
    row: &'a str,
    batch: u64,
    batches: u64,
    client_cpu: usize,
    service_cpu: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Peer(String),
    Missing(Trouble),
    Measured { samples_ns: Vec<f64>, bytes_each: Option<u64> },
    NoCounterpart,
    Trouble(Trouble),
}

/// What the peer measured.
#[derive(Clone, Debug)]
pub(super) struct PeerMeasured {
    pub(super) samples: Samples,
    /// Resident memory of an object, where the row has objects.
    pub(super) bytes_each: Option<u64>,
}

fn program() -> Result<PathBuf, Trouble> {
    let own = std::env::current_exe().map_err(|e| format!("where this program lies: {e}"))?;
    Ok(own.with_file_name(PROGRAM))
}

impl Peer {
    /// Starts the peer. The error says what is missing.
    pub(super) fn start() -> Result<Peer, Trouble> {
        let program = program()?;
        let started = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|e| {
            format!(
                "{}: {e}; cargo build --release -p {PROGRAM} --features vulkan",
                program.display()
            )
        })?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{PROGRAM}: no pipes"));
        };
        let (requests, answers) = (Some(requests), BufReader::new(answers));
        let mut peer = Peer { name: String::new(), child, requests, answers };
        match peer.answer()? {
            Answer::Peer(name) => {
                peer.name = name;
                Ok(peer)
            }
            Answer::Missing(what) => {
                Err(format!("{what}; Debian: mesa-vulkan-drivers and libvulkan1"))
            }
            _ => Err(format!("{PROGRAM}: its first line names no peer")),
        }
    }

    /// The name of its device.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Measures the peer's calls of a row.
    pub(super) fn measure(&mut self, row: &str, calls: Calls) -> Result<PeerMeasured, Trouble> {
        let Calls { batch, batches } = calls;
        let (client_cpu, service_cpu) = (CLIENT_CPU, SERVICE_CPU);
        let request = Request { row, batch, batches, client_cpu, service_cpu };
        let text = serde_json::to_string(&request).map_err(|e| format!("a request: {e}"))?;
        let requests = self.requests.as_mut().ok_or("the peer has ended")?;
        writeln!(requests, "{text}")
            .and_then(|()| requests.flush())
            .map_err(|e| format!("{PROGRAM}: {e}"))?;
        match self.answer()? {
            Answer::Measured { samples_ns, bytes_each } => {
                let mut samples = Samples::default();
                samples_ns.into_iter().for_each(|ns| samples.push(ns));
                Ok(PeerMeasured { samples, bytes_each })
            }
            Answer::Trouble(trouble) => Err(format!("{PROGRAM}: {trouble}")),
            _ => Err(format!("{PROGRAM}: it does not know the row; build both anew")),
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

impl Drop for Peer {
    fn drop(&mut self) {
        self.requests = None;
        // Its status says nothing that an answer has not said.
        let _status = self.child.wait();
    }
}
