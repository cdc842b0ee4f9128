//! SimPy, a simulator of discrete events in Python: processes that set themselves a timer again and
//! again, as the components of `simulation` do.

use crate::outside::run;
use crate::timing::{Measured, pin};
use crate::{Request, Trouble};
use std::path::Path;

/// Takes the number of processes and of batches, and prints nanoseconds of an event for each batch.
const PROGRAM: &str = r"
import random, simpy, sys, time
EVENTS = 200000
processes, batches = int(sys.argv[1]), int(sys.argv[2])
def timers(env, draws):
    while True:
        yield env.timeout(draws.randrange(1, 1001))
for _ in range(batches):
    env, draws = simpy.Environment(), random.Random(1)
    for _ in range(processes):
        env.process(timers(env, draws))
    for _ in range(processes):
        env.step()
    start = time.perf_counter()
    for _ in range(EVENTS):
        env.step()
    print((time.perf_counter() - start) * 1e9 / EVENTS)
";

fn python(arguments: &[&str]) -> Result<String, Trouble> {
    run(Path::new("/"), "python3", &[&["-c"], arguments].concat())
}

/// The versions of SimPy and Python.
pub(crate) fn about() -> Result<String, Trouble> {
    let versions = "import platform, simpy; simpy.Environment; print(simpy.__version__ + ', Python ' + platform.python_version())";
    let said = python(&[versions]).map_err(|why| {
        let last = why.trim().lines().last().unwrap_or_default();
        format!("{last}; version 4: pip install simpy")
    })?;
    Ok(said.trim().to_owned())
}

/// Measures what this room has for a request: `batch` processes.
pub(crate) fn measure(request: &Request) -> Result<Option<Measured>, Trouble> {
    if request.row != "simpy_timers" {
        return Ok(None);
    }
    pin(request.client_cpu)?;
    let said = python(&[PROGRAM, &request.batch.to_string(), &request.batches.to_string()])?;
    let samples: Result<Vec<f64>, _> = said.lines().map(str::parse).collect();
    Ok(Some(Measured::of(samples.map_err(|e| format!("python3 said:\n{said}{e}"))?)))
}
