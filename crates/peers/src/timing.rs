//! What all measurements share: samples, batches, processors, and CPU time.

use crate::{Request, Trouble};
use serde::Serialize;
use std::time::Instant;
use tidegate_platform::os::{pin_to_cpu, process_cpu_ns};

/// Batches that are not counted.
pub(crate) const WARM_UP: u64 = 20;

/// What a measurement gave.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Measured {
    pub(crate) samples_ns: Vec<f64>,
    pub(crate) bytes_each: Option<u64>,
    /// CPU time of this process for one operation.
    pub(crate) cpu_ns: Option<f64>,
    pub(crate) note: Option<String>,
}

impl Measured {
    pub(crate) fn of(samples_ns: Vec<f64>) -> Measured {
        Measured { samples_ns, ..Measured::default() }
    }
}

/// Binds the calling thread, and the threads that it makes from now on.
pub(crate) fn pin(cpu: usize) -> Result<(), Trouble> {
    if pin_to_cpu(cpu) { Ok(()) } else { Err(format!("cannot run on processor {cpu}")) }
}

/// Nanoseconds since `start`.
pub(crate) fn ns(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64
}

/// Times batches of `call`, with the number of the call.
#[allow(dead_code, reason = "used by some of the features")]
pub(crate) fn batches(request: &Request, mut call: impl FnMut(u64)) -> Measured {
    let mut samples = Vec::new();
    let mut cpu_before = process_cpu_ns();
    for number in 0..WARM_UP + request.batches {
        if number == WARM_UP {
            cpu_before = process_cpu_ns();
        }
        let start = Instant::now();
        (number * request.batch + 1..=(number + 1) * request.batch).for_each(&mut call);
        if number >= WARM_UP {
            samples.push(ns(start) / request.batch as f64);
        }
    }
    let operations = (request.batch * request.batches).max(1);
    let cpu_ns = process_cpu_ns().saturating_sub(cpu_before) as f64 / operations as f64;
    Measured { cpu_ns: Some(cpu_ns), ..Measured::of(samples) }
}

/// A permutation of `0..count`, so that waiters come in another order than they leave.
#[allow(dead_code, reason = "used by some of the features")]
pub(crate) fn shuffled(n: u64, count: u64) -> u64 {
    // Coprime to every count that is made of twos, threes and fives.
    const STRIDE: u64 = 7_919;
    n * STRIDE % count
}
