//! A loaded driver: its parts, loading, and the end.
//!
//! Order of a load: 1. the library is copied and linked; 2. it gets the host's functions; 3.
//! DriverEntry, which calls DxgkInitialize; 4. DxgkDdiAddDevice; 5. the driver's interface of
//! features. The drop goes the other way: DxgkDdiRemoveDevice, DxgkDdiUnload, and the check that
//! the driver has freed its memory.

use crate::code_test::CodeTest;
use crate::foreign::{
    DriverFeatures, Entries, HostContext, HostTable, Library, ROUTINES, open_model, resources,
};
use crate::hardware::Hardware;
use crate::host::Host;
use crate::model::{DeviceModel, ModelBus};
use crate::objects::Objects;
use crate::rule::{Finding, Rule};
use crate::{LoadError, Registry};
use std::path::Path;
use std::sync::Arc;
use tidegate_ddi::Status;
use tidegate_gpu_abi::Device;
use tidegate_platform::level::Level;
use tidegate_platform::{Mutex, PhysicalMemory, Platform};

/// A driver in C, for one adapter.
pub struct CDriver {
    code: Code,
    pub(crate) entries: Entries,
    /// MiniportDeviceContext, which is the hAdapter of the entries.
    pub(crate) adapter: u64,
    /// The driver's functions of features, of WDDM 3.2 and later.
    pub(crate) features: Option<DriverFeatures>,
    pub(crate) objects: Mutex<Objects>,
}

/// The code of a driver and what it reaches. The drop ends its agents, then unloads it.
struct Code {
    // Dropped in this order.
    library: Library,
    table: Arc<HostTable>,
    context: Arc<HostContext>,
}

impl Drop for Code {
    fn drop(&mut self) {
        let host = &self.context.host;
        // Unloads no code that a thread runs.
        if tidegate_platform::current::is_panicking() || !host.end_agents() {
            self.library.keep();
            std::mem::forget((Arc::clone(&self.table), Arc::clone(&self.context)));
        }
    }
}

/// What was found in a driver. Complete when the driver was unloaded.
#[derive(Clone)]
pub struct Findings(Arc<Host>);

impl Findings {
    /// Returns each broken rule, in order. At most 64 have their text; a last line counts others.
    pub fn lines(&self) -> Vec<String> {
        let (count, kept) = self.0.violations();
        let more = count - kept.len() as u64;
        let mut lines: Vec<String> = kept.into_iter().map(|finding| finding.text).collect();
        if more > 0 {
            lines.push(format!("{more} more"));
        }
        lines
    }

    /// Returns the broken rules, in order: the first 64.
    pub fn broken(&self) -> Vec<Finding> {
        self.0.violations().1
    }
}

impl DeviceModel {
    /// Loads a device model for a machine and opens its device. `gpu` is the machine's GPU: its
    /// local memory is the model's, and its engines stay idle.
    ///
    /// # Errors
    /// - `Read`, `Link`, `Symbol`: as [`CDriver::load`], of the model's library;
    /// - `Model`: the device is not opened, or describes itself as no device can be.
    pub fn open(
        platform: &Platform,
        path: &Path,
        gpu: Arc<dyn Device>,
    ) -> Result<Arc<DeviceModel>, LoadError> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let bus = Arc::new(ModelBus::new(platform, name, &*gpu));
        let (description, code) = open_model(path, &bus)?;
        // spec: PRE-182
        description.check().map_err(|reason| LoadError::Model { path: path.to_owned(), reason })?;
        Ok(Arc::new(DeviceModel::new(bus, gpu, description, code)))
    }
}

impl CDriver {
    /// Loads a driver as [`CDriver::load_with`] does, with the registry of the file that the
    /// variable TIDEGATE_REGISTRY names.
    ///
    /// # Errors
    /// As [`CDriver::load_with`]; `Registry`: the file cannot be a registry.
    pub fn load(
        platform: &Platform,
        system_memory: &PhysicalMemory,
        path: &Path,
        device: Arc<dyn Device>,
    ) -> Result<CDriver, LoadError> {
        let registry = Registry::from_environment()?;
        CDriver::load_with(platform, system_memory, path, device, registry)
    }

    /// Loads a driver for `device` and adds the device to it. The driver finds the keys of
    /// `registry`. `system_memory` is what the devices of the machine reach.
    ///
    /// # Errors
    /// - `Explored`: the machine is explored;
    /// - `LinkedGpus`: the device has several linked GPUs;
    /// - `Read`, `Link`: the file cannot be read, or the dynamic linker refuses it;
    /// - `Symbol`, `Release`: `tidegate_nt.c` was not compiled into it, or one of another release;
    /// - `Entry`: DriverEntry or DxgkDdiAddDevice fails; `Waits`: it waits for ever;
    /// - `NoTable`: DriverEntry does not call DxgkInitialize;
    /// - `MissingEntries`: the driver lacks entries without which no packet runs.
    pub fn load_with(
        platform: &Platform,
        system_memory: &PhysicalMemory,
        path: &Path,
        device: Arc<dyn Device>,
        registry: Registry,
    ) -> Result<CDriver, LoadError> {
        let setting = (registry, CodeTest::default());
        let hardware = Hardware::of_gpu(device, system_memory);
        CDriver::load_inner(platform, path, hardware, setting)
    }

    /// Loads a driver as [`CDriver::load`] does, for a test of its code.
    ///
    /// # Errors
    /// As [`CDriver::load`].
    pub fn load_tested(
        platform: &Platform,
        system_memory: &PhysicalMemory,
        path: &Path,
        device: Arc<dyn Device>,
        test: CodeTest,
    ) -> Result<CDriver, LoadError> {
        let setting = (Registry::from_environment()?, test);
        let hardware = Hardware::of_gpu(device, system_memory);
        CDriver::load_inner(platform, path, hardware, setting)
    }

    /// Loads a driver as [`CDriver::load_tested`] does, for a device model.
    ///
    /// # Errors
    /// As [`CDriver::load`].
    pub fn load_on_model(
        platform: &Platform,
        system_memory: &PhysicalMemory,
        path: &Path,
        model: Arc<DeviceModel>,
        test: CodeTest,
    ) -> Result<CDriver, LoadError> {
        let setting = (Registry::from_environment()?, test);
        let hardware = Hardware::of_model(model, system_memory);
        CDriver::load_inner(platform, path, hardware, setting)
    }

    fn load_inner(
        platform: &Platform,
        path: &Path,
        hardware: Hardware,
        setting: (Registry, CodeTest),
    ) -> Result<CDriver, LoadError> {
        if !has_plain_memory(platform) {
            return Err(LoadError::Explored);
        }
        let gpus = hardware.device.physical_gpu_count();
        if gpus != 1 {
            return Err(LoadError::LinkedGpus(gpus));
        }
        // 1.
        let library = Library::load(path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let resources = resources(&hardware.function);
        let host = Arc::new(Host::new(platform, hardware, name, resources, ROUTINES, setting));
        let entries = platform.mutex("driver's entries", None);
        let callbacks = library.callbacks;
        let context = Arc::new(HostContext { host: Arc::clone(&host), entries, callbacks });
        let table = Arc::new(HostTable::new(&context));
        let code = Code { library, table, context };
        // 2.
        let path = path.to_owned();
        if code.library.bind(&code.table) != Status::SUCCESS {
            return Err(LoadError::Release { path });
        }
        // The driver may wait for its threads.
        let entered = before_run(platform, || CDriver::enter(&code, &path));
        let entered = entered.ok().flatten().unwrap_or(Err(LoadError::Waits { path }));
        // Threads that a driver leaves behind end: no run may follow.
        let (entries, adapter, features) = entered.inspect_err(|_| platform.rest_unless_run())?;
        let objects = platform.mutex("objects of a driver in C", Objects::default());
        Ok(CDriver { code, entries, adapter, features, objects })
    }

    /// Steps 3 to 5. Returns the entries, the driver's adapter, and its interface of features.
    fn enter(
        code: &Code,
        path: &Path,
    ) -> Result<(Entries, u64, Option<DriverFeatures>), LoadError> {
        let (host, path) = (&code.context.host, path.to_owned());
        // 3.
        let driver_object = host.driver_object_at();
        let status = host.at_level("DriverEntry", Level::Passive, || {
            code.library.enter(driver_object, &host.name)
        });
        let failed = |entry, status| {
            let (_, found) = host.violations();
            let reason = found.iter().map(|finding| format!("; {}", finding.text)).collect();
            LoadError::Entry { path: path.clone(), entry, status, reason }
        };
        if status.0 < 0 {
            return Err(failed("DriverEntry", status));
        }
        let entries = code.context.entries.lock().take();
        let Some(entries) = entries else { return Err(LoadError::NoTable { path }) };
        let missing = entries.missing();
        if !missing.is_empty() {
            return Err(LoadError::MissingEntries { path, entries: missing });
        }
        // 4.
        let mut adapter = 0;
        let added = host.at_level("DxgkDdiAddDevice", Level::Passive, || {
            entries.add_device(host.device_object_at(), &mut adapter)
        });
        let status = added.map_or(Status::NOT_SUPPORTED, Status);
        if status.0 < 0 {
            entries.unload();
            return Err(failed("DxgkDdiAddDevice", status));
        }
        // 5.
        let features = host.at_level("DxgkDdiQueryInterface", Level::Passive, || {
            DriverFeatures::query(&entries, adapter)
        });
        Ok((entries, adapter, features))
    }

    /// Returns what is found in the driver, also after its end.
    pub fn findings(&self) -> Findings {
        Findings(Arc::clone(&self.code.context.host))
    }

    pub(crate) fn context(&self) -> &HostContext {
        &self.code.context
    }

    pub(crate) fn host(&self) -> &Host {
        &self.code.context.host
    }

    /// Calls an entry of the driver at PASSIVE level, or at the present one if it is higher.
    pub(crate) fn call(
        &self,
        entry: &'static str,
        call: impl FnMut(&Entries) -> Option<i32>,
    ) -> Result<(), Status> {
        self.call_at(entry, Level::Passive, call)
    }

    /// Calls an entry of the driver.
    ///
    /// # Errors
    /// Its status, if that is a failure; NOT_SUPPORTED if the driver lacks the entry.
    pub(crate) fn call_at(
        &self,
        entry: &'static str,
        level: Level,
        call: impl FnMut(&Entries) -> Option<i32>,
    ) -> Result<(), Status> {
        self.call_for_status(entry, level, call).map(|_| ())
    }

    /// As [`CDriver::call_at`]. Returns the status, which is a success.
    pub(crate) fn call_for_status(
        &self,
        entry: &'static str,
        level: Level,
        mut call: impl FnMut(&Entries) -> Option<i32>,
    ) -> Result<Status, Status> {
        self.call_without_memory(entry, || {
            let status = self.host().at_level(entry, level, || call(&self.entries));
            match status.map_or(Status::NOT_SUPPORTED, Status) {
                status if status.0 < 0 => Err(status),
                status => Ok(status),
            }
        })
    }

    /// As [`CDriver::call`], for an entry that must not fail. A failure is recorded.
    pub(crate) fn must(&self, entry: &'static str, call: impl FnMut(&Entries) -> Option<i32>) {
        self.must_at(entry, Level::Passive, call);
    }

    /// As [`CDriver::must`], at a level.
    pub(crate) fn must_at(
        &self,
        entry: &'static str,
        level: Level,
        call: impl FnMut(&Entries) -> Option<i32>,
    ) {
        if let Err(status) = self.call_at(entry, level, call) {
            self.host().violation(Rule::MustNotFail, format!("{entry} must not fail: {status}"));
        }
    }

    /// Returns whether the driver has the entries at these places.
    pub(crate) fn has_all(&self, places: &[usize]) -> bool {
        self.entries.has_all(places)
    }
}

/// Nothing moves while the driver waits.
pub(crate) struct WaitsForNothing;

/// Calls entries of the driver as [`Platform::before_run`] does.
pub(crate) fn before_run<R>(
    platform: &Platform,
    call: impl FnOnce() -> R,
) -> Result<Option<R>, WaitsForNothing> {
    let was_stopped = platform.is_stopped();
    let returned = platform.before_run(call);
    if platform.is_stopped() && !was_stopped { Err(WaitsForNothing) } else { Ok(returned) }
}

/// Returns whether an address of the machine's memory is one at which a driver can load and store.
/// Memory of an explored machine is not computed on in place.
fn has_plain_memory(platform: &Platform) -> bool {
    platform.bulk(64).lines(0, 64).is_some()
}

impl Drop for CDriver {
    fn drop(&mut self) {
        if tidegate_platform::current::is_panicking() {
            return;
        }
        if let Some(features) = &self.features {
            self.host().at_level("InterfaceDereference", Level::Passive, || features.release());
        }
        self.must("DxgkDdiRemoveDevice", |entries| entries.remove_device(self.adapter));
        self.host().at_level("DxgkDdiUnload", Level::Passive, || self.entries.unload());
        self.host().check_leaks();
    }
}
