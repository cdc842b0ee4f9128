//! Measurements: samples in nanoseconds for one operation, counts, and the measuring threads.
//!
//! Rates are kept as time for one operation, too, so that less is better in every row. A
//! measurement runs on a thread of its own, because it binds itself to a processor.

use super::others::process_ns;
use std::hint::spin_loop;
use std::sync::{Arc, OnceLock};
use tidegate::Platform;
use tidegate::platform::os::{pin_to_cpu, process_cpu_ns};

/// The processor of the measuring thread, which is the client.
pub(crate) const CLIENT_CPU: usize = 0;
/// The processor of the engines' thread, or of the other side of a floor.
pub(crate) const SERVICE_CPU: usize = 1;

/// Why a row has no figure, in words.
pub(crate) type Trouble = String;

/// Times for one operation, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, ns: f64) {
        self.0.push(ns);
    }

    /// A batch of `operations` that took `ns` together.
    pub(crate) fn push_batch(&mut self, ns: u64, operations: u64) {
        self.0.push(ns as f64 / operations.max(1) as f64);
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The largest sample; 0 without samples.
    pub(crate) fn most(&self) -> f64 {
        self.at(1.0)
    }

    /// The sample below which `part` (0 to 1) of all lie; 0 without samples.
    fn at(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * part).round() as usize).copied().unwrap_or(0.0)
    }

    pub(crate) fn median(&self) -> f64 {
        self.at(0.5)
    }

    pub(crate) fn p99(&self) -> f64 {
        self.at(0.99)
    }
}

/// Nanoseconds with a unit.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ..1_000.0 if ns < 100.0 => format!("{ns:.1} ns"),
        _ => tidegate::trace::duration(ns.round() as u64),
    }
}

/// Something that was counted while a row was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) name: &'static str,
    pub(crate) value: u64,
    /// The only right value, if there is one.
    pub(crate) must_be: Option<u64>,
}

impl Count {
    pub(crate) fn of(name: &'static str, value: u64) -> Count {
        Count { name, value, must_be: None }
    }

    pub(crate) fn exactly(name: &'static str, value: u64, must_be: u64) -> Count {
        Count { name, value, must_be: Some(must_be) }
    }

    pub(crate) fn is_right(&self) -> bool {
        self.must_be.is_none_or(|right| right == self.value)
    }
}

/// What one pass of a row gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) samples: Samples,
    /// CPU time of the whole process for one operation, in nanoseconds.
    pub(crate) cpu_ns: f64,
    pub(crate) counts: Vec<Count>,
    /// Further figures, by name; nanoseconds where the name says nothing else.
    pub(crate) figures: Vec<(&'static str, f64)>,
    /// A sentence on the figure, with the numbers that belong to it.
    pub(crate) note: Option<String>,
}

/// Adds up the process's CPU time from here to [`CpuMeter::per`].
pub(crate) struct CpuMeter {
    /// Another process whose time is added.
    other: Option<u32>,
    start_ns: u64,
}

impl CpuMeter {
    pub(crate) fn start() -> CpuMeter {
        CpuMeter::of(None)
    }

    /// Adds up the time of another process, too, which the system counts in ticks of 10 ms.
    pub(crate) fn with_process(number: u32) -> CpuMeter {
        CpuMeter::of(Some(number))
    }

    fn of(other: Option<u32>) -> CpuMeter {
        CpuMeter { other, start_ns: CpuMeter::used_ns(other) }
    }

    /// The same meter from now on.
    pub(crate) fn again(&self) -> CpuMeter {
        CpuMeter::of(self.other)
    }

    fn used_ns(other: Option<u32>) -> u64 {
        process_cpu_ns() + other.map_or(0, process_ns)
    }

    pub(crate) fn per(&self, operations: u64) -> f64 {
        let used_ns = CpuMeter::used_ns(self.other).saturating_sub(self.start_ns);
        used_ns as f64 / operations.max(1) as f64
    }
}

/// Runs `measure` on a thread of its own and gives back what it found.
pub(crate) fn on_own_thread<T: Clone + Send + Sync + 'static>(
    measure: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, Trouble> {
    let platform = Platform::closed_host();
    let found: Arc<OnceLock<Result<T, Trouble>>> = Arc::default();
    let (spawner, filled) = (platform.clone(), Arc::clone(&found));
    let report = platform.run(move || {
        let body = move || {
            // The cell was created above; only this closure fills it.
            let _ = filled.set(measure());
        };
        spawner.spawn("bench", body).join();
    });
    match found.get() {
        Some(found) => found.clone(),
        None => Err(report.panics.join("; ")),
    }
}

/// Binds the calling thread, and the threads that it makes from now on, to one processor.
pub(crate) fn pin(cpu: usize) -> Result<(), Trouble> {
    if pin_to_cpu(cpu) { Ok(()) } else { Err(format!("cannot run on processor {cpu}")) }
}

/// Polls until `done`, rarely enough not to slow down the storing thread.
pub(crate) fn spin_rarely(mut done: impl FnMut() -> bool) {
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
        assert_eq!(on_own_thread(|| Ok(7)), Ok(7));
        let trouble = on_own_thread::<u32>(|| panic!("no figure")).unwrap_err();
        assert!(trouble.contains("no figure"), "{trouble}");
    }
}
