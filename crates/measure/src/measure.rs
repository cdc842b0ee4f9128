//! Samples in nanoseconds for one operation, counts, and the measuring threads.
//!
//! Rates are stored as time per operation, so lower is better in every row. A measurement runs on a
//! thread of its own, because it binds itself to a processor.

use crate::others::process_ns;
use std::error::Error;
use std::hint::spin_loop;
use std::sync::{Arc, OnceLock};
use tidegate::Platform;
use tidegate::platform::os::{pin_to_cpu, process_cpu_ns};

/// The processor of the measuring thread, which is the client.
pub const CLIENT_CPU: usize = 0;
/// The processor of the engines' thread, or of the other side of a floor.
pub const SERVICE_CPU: usize = 1;

/// Why a row has no figure.
pub type Trouble = Box<dyn Error + Send + Sync>;

/// A result, or why there is none.
pub type Found<T> = Result<T, Trouble>;

/// Times for one operation, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a sample.
    pub fn push(&mut self, ns: f64) {
        self.0.push(ns);
    }

    /// Adds a batch of `operations` that took `ns` together.
    pub fn push_batch(&mut self, ns: u64, operations: u64) {
        self.0.push(ns as f64 / operations.max(1) as f64);
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// The largest sample; 0 without samples.
    pub fn most(&self) -> f64 {
        self.at(1.0)
    }

    /// The sample below which `part` (0 to 1) of all lie; 0 without samples.
    fn at(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * part).round() as usize).copied().unwrap_or(0.0)
    }

    /// The median; 0 without samples.
    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// The 99th percentile; 0 without samples.
    pub fn p99(&self) -> f64 {
        self.at(0.99)
    }
}

/// Nanoseconds with a unit.
pub fn time(ns: f64) -> String {
    match ns {
        ..1_000.0 if ns < 100.0 => format!("{ns:.1} ns"),
        _ => tidegate::trace::duration(ns.round() as u64),
    }
}

/// Something that was counted while a row was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Its name in reports.
    pub name: &'static str,
    /// What was counted.
    pub value: u64,
    /// The only right value, if there is one.
    pub must_be: Option<u64>,
}

impl Count {
    /// A count that may have any value.
    pub fn of(name: &'static str, value: u64) -> Count {
        Count { name, value, must_be: None }
    }

    /// A count with one right value.
    pub fn exactly(name: &'static str, value: u64, must_be: u64) -> Count {
        Count { name, value, must_be: Some(must_be) }
    }

    /// Whether the value is the right one.
    pub fn is_right(&self) -> bool {
        self.must_be.is_none_or(|right| right == self.value)
    }
}

/// What one pass of a row gave.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Times for one operation.
    pub samples: Samples,
    /// CPU time of the whole process for one operation, in nanoseconds.
    pub cpu_ns: f64,
    /// What was counted meanwhile.
    pub counts: Vec<Count>,
    /// Further figures, by name; nanoseconds where the name says nothing else.
    pub figures: Vec<(&'static str, f64)>,
    /// A sentence on the figure, with the numbers that belong to it.
    pub note: Option<String>,
}

impl Measured {
    /// A measurement without counts.
    pub fn of(samples: Samples, cpu_ns: f64) -> Measured {
        Measured { samples, cpu_ns, ..Measured::default() }
    }
}

/// Adds up the process's CPU time from here to [`CpuMeter::per`].
pub struct CpuMeter {
    /// Another process whose time is added.
    other: Option<u32>,
    start_ns: u64,
}

impl CpuMeter {
    /// Starts.
    pub fn start() -> CpuMeter {
        CpuMeter::of(None)
    }

    /// Adds up the time of another process, too, which the system counts in ticks of 10 ms.
    pub fn with_process(number: u32) -> CpuMeter {
        CpuMeter::of(Some(number))
    }

    fn of(other: Option<u32>) -> CpuMeter {
        CpuMeter { other, start_ns: CpuMeter::used_ns(other) }
    }

    /// The same meter from now on.
    pub fn again(&self) -> CpuMeter {
        CpuMeter::of(self.other)
    }

    fn used_ns(other: Option<u32>) -> u64 {
        process_cpu_ns() + other.map_or(0, process_ns)
    }

    /// Returns the time for one of `operations` since the start, in nanoseconds.
    pub fn per(&self, operations: u64) -> f64 {
        let used_ns = CpuMeter::used_ns(self.other).saturating_sub(self.start_ns);
        used_ns as f64 / operations.max(1) as f64
    }
}

/// Runs `measure` on a thread of its own.
///
/// # Errors
/// Those of `measure`, and its panics.
pub fn own<T: Clone + Send + Sync + 'static>(
    measure: impl FnOnce() -> Found<T> + Send + 'static,
) -> Found<T> {
    let platform = Platform::closed_host();
    let found: Arc<OnceLock<Result<T, String>>> = Arc::default();
    let (spawner, filled) = (platform.clone(), Arc::clone(&found));
    let report = platform.run(move || {
        let body = move || {
            // The cell was created above; only this closure fills it.
            let _ = filled.set(measure().map_err(|error| error.to_string()));
        };
        spawner.spawn("bench", body).join();
    });
    match found.get() {
        Some(found) => Ok(found.clone()?),
        None => Err(report.panics.join("; ").into()),
    }
}

/// Binds the calling thread, and the threads that it makes from now on, to one processor.
///
/// # Errors
/// The machine lacks the processor, or the process may not run there.
pub fn pin(cpu: usize) -> Found<()> {
    if pin_to_cpu(cpu) { Ok(()) } else { Err(format!("cannot run on processor {cpu}").into()) }
}

/// Fails where the client and the engines cannot have a processor each. On one processor, polling
/// only waits for the scheduler.
///
/// # Errors
/// The processor that is missing.
pub fn needs_two_processors() -> Found<()> {
    own(|| pin(SERVICE_CPU).and_then(|()| pin(CLIENT_CPU))).map_err(|trouble| {
        format!("{trouble}; the bench needs processors {CLIENT_CPU} and {SERVICE_CPU}").into()
    })
}

/// Polls until `done`, rarely enough not to slow down the storing thread.
pub fn spin_rarely(mut done: impl FnMut() -> bool) {
    const PAUSES_BETWEEN_POLLS: u32 = 100;
    while !done() {
        (0..PAUSES_BETWEEN_POLLS).for_each(|_| spin_loop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_p99_of_a_hundred() {
        let mut samples = Samples::default();
        assert_eq!(samples.median(), 0.0);
        (0..=100).rev().for_each(|n| samples.push(f64::from(n)));
        assert_eq!((samples.median(), samples.p99()), (50.0, 99.0));
        samples.push_batch(1000, 0);
        assert_eq!(samples.at(1.0), 1000.0);
    }

    #[test]
    fn counts_know_what_is_right() {
        assert!(Count::of("interrupts", 7).is_right());
        assert!(Count::exactly("interrupts", 0, 0).is_right());
        assert!(!Count::exactly("interrupts", 1, 0).is_right());
    }

    #[test]
    fn a_measurement_that_panics_is_trouble() {
        assert_eq!(own(|| Ok(7)).unwrap(), 7);
        let trouble = own::<u32>(|| panic!("no figure")).unwrap_err().to_string();
        assert!(trouble.contains("no figure"), "{trouble}");
    }
}
