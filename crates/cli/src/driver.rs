//! A kernel-mode driver in C as the driver of a run, of a service (`--driver`) or of `conform`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::ddi::{Driver, Injection};
use tidegate::platform::Mutex;
use tidegate::{MakeDriver, Platform};
use tidegate_ddi_c::{CDriver, CodeTest, Finding, Findings, Steps};

/// A driver's library, and what runs find in it.
pub(crate) struct DriverFile {
    path: PathBuf,
    findings: Arc<Mutex<Vec<Findings>>>,
    /// The steps of the next machine's driver.
    steps: Arc<Mutex<Option<Steps>>>,
    /// What fails in it.
    injection: Arc<Mutex<Option<Injection>>>,
}

impl DriverFile {
    pub(crate) fn new(path: &Path) -> DriverFile {
        let findings = Arc::new(Platform::host().mutex("findings in drivers", Vec::new()));
        let steps = Arc::new(Platform::host().mutex("steps of drivers", None));
        let injection = Arc::new(Platform::host().mutex("a failure of drivers", None));
        DriverFile { path: path.to_owned(), findings, steps, injection }
    }

    /// Has calls of the driver of the next machine fail.
    pub(crate) fn inject(&self, injection: Option<Injection>) {
        *self.injection.lock() = injection;
    }

    /// Has the driver of the next machine make these steps.
    pub(crate) fn explore(&self, steps: Steps) {
        *self.steps.lock() = Some(steps);
    }

    /// Returns what makes the driver of a machine.
    pub(crate) fn make(&self) -> MakeDriver {
        let (path, findings) = (self.path.clone(), Arc::clone(&self.findings));
        let (steps, injection) = (Arc::clone(&self.steps), Arc::clone(&self.injection));
        Arc::new(move |platform, gpu| {
            let test = CodeTest { steps: steps.lock().take(), injection: injection.lock().take() };
            let loaded = CDriver::load_tested(platform, &path, gpu, test);
            let driver = loaded.map_err(|error| error.to_string())?;
            findings.lock().push(driver.findings());
            Ok(Arc::new(driver) as Arc<dyn Driver>)
        })
    }

    /// Takes the rules that the drivers of ended machines broke, and what was seen.
    pub(crate) fn take_broken(&self) -> Vec<Finding> {
        let findings = std::mem::take(&mut *self.findings.lock());
        findings.iter().flat_map(Findings::broken).collect()
    }

    /// As [`DriverFile::take_broken`], as lines for people.
    pub(crate) fn take_problems(&self) -> Vec<String> {
        let findings = std::mem::take(&mut *self.findings.lock());
        let lines = findings.iter().flat_map(Findings::lines);
        lines.map(|line| format!("driver {}: {line}", self.path.display())).collect()
    }
}
