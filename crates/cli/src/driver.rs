//! A kernel-mode driver in C as the driver of a run, of a service (`--driver`) or of `conform`, and
//! the device model that it drives (`--device`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::ddi::{Driver, Injection};
use tidegate::platform::Mutex;
use tidegate::{MakeDriver, Platform};
use tidegate_ddi_c::{CDriver, CodeTest, DeviceModel, Finding, Findings, Steps};

/// A driver's library, and what runs find in it.
pub(crate) struct DriverFile {
    path: PathBuf,
    /// The library of its device; `None` for the software GPU.
    device: Option<PathBuf>,
    models: Arc<Mutex<Vec<Arc<DeviceModel>>>>,
    findings: Arc<Mutex<Vec<Findings>>>,
    /// The steps of the next machine's driver.
    steps: Arc<Mutex<Option<Steps>>>,
    /// What fails in it.
    injection: Arc<Mutex<Option<Injection>>>,
}

impl DriverFile {
    pub(crate) fn new(path: &Path, device: Option<&Path>) -> DriverFile {
        let models = Arc::new(Platform::host().mutex("device models", Vec::new()));
        let findings = Arc::new(Platform::host().mutex("findings in drivers", Vec::new()));
        let steps = Arc::new(Platform::host().mutex("steps of drivers", None));
        let device = device.map(Path::to_owned);
        let injection = Arc::new(Platform::host().mutex("a failure of drivers", None));
        DriverFile { path: path.to_owned(), device, models, findings, steps, injection }
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
        let (device, models) = (self.device.clone(), Arc::clone(&self.models));
        let (steps, injection) = (Arc::clone(&self.steps), Arc::clone(&self.injection));
        Arc::new(move |bus, gpu| {
            let test = CodeTest { steps: steps.lock().take(), injection: injection.lock().take() };
            let loaded = match &device {
                Some(device) => {
                    let model = DeviceModel::open(bus.platform, device, gpu);
                    let model = model.map_err(|error| error.to_string())?;
                    models.lock().push(Arc::clone(&model));
                    CDriver::load_on_model(bus.platform, bus.system_memory, &path, model, test)
                }
                None => CDriver::load_tested(bus.platform, bus.system_memory, &path, gpu, test),
            };
            let driver = loaded.map_err(|error| error.to_string())?;
            findings.lock().push(driver.findings());
            Ok(Arc::new(driver) as Arc<dyn Driver>)
        })
    }

    /// Returns the device model that was made last.
    pub(crate) fn last_model(&self) -> Option<Arc<DeviceModel>> {
        self.models.lock().last().cloned()
    }

    /// Takes what the device models of ended machines did wrong, as lines for people.
    pub(crate) fn take_problems_of_devices(&self) -> Vec<String> {
        let models = std::mem::take(&mut *self.models.lock());
        let path = self.device.as_deref().unwrap_or(Path::new(""));
        let lines = models.iter().flat_map(|model| model.problems());
        lines.map(|line| format!("device model {}: {line}", path.display())).collect()
    }

    /// Takes the rules that the drivers of ended machines broke, and what was seen.
    pub(crate) fn take_broken(&self) -> Vec<Finding> {
        let findings = std::mem::take(&mut *self.findings.lock());
        findings.iter().flat_map(Findings::broken).collect()
    }

    /// As [`DriverFile::take_broken`], as lines for people, with what the device models did wrong.
    pub(crate) fn take_problems(&self) -> Vec<String> {
        let findings = std::mem::take(&mut *self.findings.lock());
        let lines = findings.iter().flat_map(Findings::lines);
        let lines = lines.map(|line| format!("driver {}: {line}", self.path.display()));
        lines.chain(self.take_problems_of_devices()).collect()
    }
}
