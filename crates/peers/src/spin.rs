//! SPIN on the protocol of `models`: a model in Promela, its checker built by a C compiler, and the
//! time of a depth-first search with partial-order reduction.

use crate::outside::run;
use crate::timing::{Measured, ns, pin};
use crate::{Request, Trouble};
use std::process::Command;
use std::time::Instant;

/// The model: for each of two fences an engine, a waiter, and the store buffer of each.
const MODEL: &str = r"
byte current[2], monitored[2] = 255, engine_buffer[2], waiter_buffer[2], value[2] = 1;
bit interrupt[2];
active [2] proctype engine_stores() {
  byte i = _pid % 2;
  end: do :: atomic { engine_buffer[i] -> current[i] = engine_buffer[i] - 1; engine_buffer[i] = 0 } od
}
active [2] proctype waiter_stores() {
  byte i = _pid % 2;
  end: do :: atomic { waiter_buffer[i] -> monitored[i] = waiter_buffer[i] - 1; waiter_buffer[i] = 0 } od
}
active [2] proctype engine() {
  byte i = _pid % 2;
  do
  :: value[i] > VALUES -> break
  :: else ->
     atomic { engine_buffer[i] == 0 -> engine_buffer[i] = value[i] + 1 };
     engine_buffer[i] == 0;
     atomic { if :: value[i] > monitored[i] -> interrupt[i] = 1 :: else fi; value[i]++ }
  od
}
active [2] proctype waiter() {
  byte i = _pid % 2, wanted = 1;
  do
  :: wanted > VALUES -> break
  :: else ->
     atomic { waiter_buffer[i] == 0 -> waiter_buffer[i] = wanted };
     waiter_buffer[i] == 0;
     do
     :: atomic { current[i] >= wanted -> wanted++; break }
     :: atomic { current[i] < wanted; skip }; atomic { interrupt[i] == 1 -> interrupt[i] = 0 }
     od
  od
}
";

/// The version of SPIN.
pub(crate) fn about() -> Result<String, Trouble> {
    let missing = |e| format!("{e}; Debian: spin and gcc");
    Command::new("gcc").arg("--version").output().map_err(|e| missing(format!("gcc: {e}")))?;
    let output = Command::new("spin").arg("-V").output();
    let output = output.map_err(|e| missing(format!("spin: {e}")))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Measures what this room has for a request: `batch` values of each fence.
pub(crate) fn measure(request: &Request) -> Result<Option<Measured>, Trouble> {
    if request.row != "spin_verdict" {
        return Ok(None);
    }
    pin(request.client_cpu)?;
    let folder = tempfile::tempdir().map_err(|e| format!("a folder: {e}"))?;
    let folder = folder.path();
    let model = format!("#define VALUES {}\n{MODEL}", request.batch);
    std::fs::write(folder.join("protocol.pml"), model).map_err(|e| format!("the model: {e}"))?;
    run(folder, "spin", &["-a", "protocol.pml"])?;
    run(folder, "gcc", &["-O2", "-w", "-o", "pan", "pan.c"])?;
    let (mut samples, mut note) = (Vec::new(), None);
    for _ in 0..request.batches {
        let start = Instant::now();
        let said = run(folder, "./pan", &["-m1000000", "-w22"])?;
        samples.push(ns(start));
        if !said.contains("errors: 0") {
            return Err(format!("SPIN finds an error in the protocol:\n{said}"));
        }
        note = said.lines().find(|l| l.contains("states, stored")).map(|l| l.trim().to_owned());
    }
    Ok(Some(Measured { note, ..Measured::of(samples) }))
}
