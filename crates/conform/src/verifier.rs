//! Watches a driver while any workload runs, as Driver Verifier does on Windows.

use crate::breach::{Breach, Report};
use crate::families::clauses;
use crate::journal::{Facts, RunEnd};
use crate::judge::Judge;
use crate::watch::{Log, Truth, Watch};
use std::sync::Arc;
use tidegate::ddi::Driver;
use tidegate::platform::Mutex;
use tidegate::{MakeLayer, Platform};

/// Judges one driver by the clauses while a workload runs, in virtual time or on threads. It keeps
/// no events, so the workload may be of any length. Work may hang and fault; clauses about what
/// must then be true of the results are not judged.
///
/// ```
/// use tidegate::{Machine, MachineConfig, Platform};
/// use tidegate_conform::{RunEnd, Verifier};
///
/// let (platform, verifier) = (Platform::host(), Verifier::new());
/// let config = MachineConfig::standard(&platform);
/// let machine = Machine::builder(&platform)
///     .reference_behind(config, |driver| verifier.before(&platform, driver))
///     .start()
///     .unwrap();
/// machine.run(|| machine.wait_idle()).unwrap();
/// let end = RunEnd::of(machine.adapter());
/// drop(machine);
/// let broken = verifier.finish(&end);
/// assert!(broken.is_empty(), "{}", broken[0]);
/// ```
pub struct Verifier {
    logs: Mutex<Vec<Log>>,
    report: Option<Arc<Report>>,
}

impl Default for Verifier {
    fn default() -> Self {
        Verifier::new()
    }
}

impl Verifier {
    /// Returns a verifier that says what is broken at the end.
    pub fn new() -> Verifier {
        Verifier { logs: Platform::host().mutex("verified drivers", Vec::new()), report: None }
    }

    /// Returns a verifier that also calls `report` as soon as a clause is broken for the first
    /// time. `report` must not call the machine: the driver may be in an interrupt.
    pub fn reporting(report: impl Fn(&Breach) + Send + Sync + 'static) -> Verifier {
        Verifier { report: Some(Arc::new(report)), ..Verifier::new() }
    }

    /// Returns the driver with the watch in front of it.
    pub fn before(&self, platform: &Platform, inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
        let log = Log::new(platform, Judge::new(Facts::UNKNOWN), self.report.clone());
        self.logs.lock().push(log.clone());
        Arc::new(Watch { inner, log, limit: None, truth: Truth { device: None } })
    }

    /// Returns what puts the watch in front of the driver of a run ([`RunRequest::layer`]).
    ///
    /// [`RunRequest::layer`]: tidegate::RunRequest::layer
    pub fn layer(self: &Arc<Verifier>) -> MakeLayer {
        let verifier = Arc::clone(self);
        Arc::new(move |platform, driver| verifier.before(platform, driver))
    }

    /// Judges what is due at the end, and returns the broken clauses by family. The machine must
    /// have been idle ([`Machine::wait_idle`]), for a packet in flight seems to have no end, and
    /// be dropped: DxgkDdiStopDevice is judged, too. A second call returns nothing.
    ///
    /// [`Machine::wait_idle`]: tidegate::Machine::wait_idle
    pub fn finish(&self, end: &RunEnd) -> Vec<Breach> {
        let logs = std::mem::take(&mut *self.logs.lock());
        let judged = logs.iter().filter_map(Log::take).map(|judge| judge.end(end).judged);
        let mut broken = Vec::new();
        for mut judged in judged {
            // By family.
            let ids = clauses().map(|clause| clause.id);
            let of = |id| Breach::of(id, judged.remove(id)?.broken?);
            broken.extend(ids.filter_map(of));
        }
        broken
    }
}
