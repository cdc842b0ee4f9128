//! The composition root: builds the layers of an adapter and attaches their ports.
//!
//! A driver contract violation after the start is a [`BugCheck`](crate::BugCheck): it is recorded,
//! devices are lost, and calls return DEVICE_REMOVED. `report` has the reports, `snapshot` the rows
//! of a view of the machine, `protocols` the system's calls on the whole adapter.

mod protocols;
mod report;
mod snapshot;

use crate::config::AdapterConfig;
use crate::display::Display;
use crate::driver::{self, DriverPort};
use crate::error::StartError;
use crate::fence::Fences;
use crate::fence::log::LogReader;
use crate::fence::names::ObjectNames;
use crate::interrupt::{self, Interrupts};
use crate::lock_order::LOCK_ORDER;
use crate::memory::Memory;
use crate::object::idle_contexts;
use crate::object::process::{Process, ProcessKind};
use crate::object::{Layers, Objects};
use crate::power::{Power, PowerTransitions, ProgressWatch};
use crate::recovery::{Recovery, TimeoutWatch, TimeoutWatchAtRest};
use crate::removal::Removal;
use crate::scheduling::{SchedulerWatch, Scheduling};
use crate::supervisor::{self, Watches};
pub use snapshot::EngineWait;
use std::sync::Arc;
use tidegate_ddi::{Driver, Passive, Status};
use tidegate_platform::{PhysicalMemory, Platform, current};

/// One adapter: a driver and the kernel's state for it.
pub struct Adapter {
    objects: Arc<Objects>,
    /// `None` for a render-only adapter.
    display: Option<Arc<Display>>,
    power: Arc<PowerTransitions>,
    recovery: Arc<Recovery>,
    /// Keeps alive the target of lower layers' ports.
    _interrupts: Arc<Interrupts>,
    removal: Removal,
}

impl Adapter {
    /// Starts an adapter on `driver`. The adapters of a machine have one system memory and one
    /// namespace of shared objects.
    #[doc(alias = "DxgkDdiStartDevice")]
    pub fn start(
        platform: &Platform,
        driver: Arc<dyn Driver>,
        system_memory: &PhysicalMemory,
        names: &ObjectNames,
        config: AdapterConfig,
    ) -> Result<Arc<Adapter>, StartError> {
        let level = &entered();
        config.tdr.check()?;
        platform.set_lock_order(LOCK_ORDER);
        // 1. The callbacks exist before the adapter, because the driver may keep them from its
        //    first call.
        let callbacks = Arc::new(interrupt::KernelCallbacks::new());
        let started =
            driver::start(level, platform, &driver, system_memory, config, callbacks.clone())?;
        // 2. The layers, from the bottom up.
        let counted = Arc::new(Power::new(platform, &config, &started.declared.caps));
        let port = DriverPort::new(started, counted.clone());
        let memory = Memory::new(&port);
        let fences = Fences::new(&memory);
        let sched = Scheduling::new(&port, &memory, &fences);
        let log_reader = LogReader::new(&memory);
        let layers = Layers { log_reader, port: port.clone(), memory, fences, sched };
        let objects = Objects::new(layers, names);
        let display = Display::new(&objects);
        let power = PowerTransitions::new(&objects, &counted, display.as_ref());
        let recovery = Recovery::new(&objects, &power, display.as_ref());
        let interrupts = Interrupts::new(&objects, display.as_ref(), &power, &recovery);
        let removal = Removal::new(&objects, display.as_ref(), &recovery, &interrupts);
        // 3. The ports of lower layers to upper ones.
        attach_layers(&objects, &interrupts);
        let (to_power, to_recovery) = (Arc::downgrade(&power), Arc::downgrade(&recovery));
        counted.wake.attach(to_power);
        port.failures.attach(to_recovery.clone());
        objects.recovery.attach(to_recovery);
        match display.as_ref().map(Arc::downgrade) {
            Some(to_display) => objects.display.attach(to_display),
            None => objects.display.leave_out(),
        }
        let watches = Watches {
            strict: vec![
                Arc::new(SchedulerWatch(Arc::downgrade(&objects.sched))),
                Arc::new(TimeoutWatch(Arc::downgrade(&recovery))),
            ],
            background: vec![
                Arc::new(ProgressWatch(Arc::downgrade(&power))),
                Arc::new(TimeoutWatchAtRest(Arc::downgrade(&recovery))),
            ],
        };
        supervisor::start(&port, watches);
        // 4. The driver may interrupt after this.
        callbacks.attach(&interrupts);
        interrupt::connect(&interrupts, level);
        let _interrupts = interrupts;
        let adapter = Adapter { objects, display, power, recovery, _interrupts, removal };
        // 5. Kernel objects.
        if adapter.objects.port.declared.native_fence.map_to_gpu_system_process {
            let space = adapter.objects.memory.system_space(level);
            space.inspect_err(|_| adapter.stop()).map_err(StartError::Driver)?;
        }
        if adapter.objects.port.declared.caps.lazy_context_switch {
            let opened = idle_contexts::open(level, &adapter.objects);
            opened.inspect_err(|_| adapter.stop()).map_err(StartError::Driver)?;
        }
        Ok(Arc::new(adapter))
    }

    /// Opens the adapter for a process.
    pub fn open(self: &Arc<Adapter>, process_name: &str) -> Result<Arc<Process>, Status> {
        Process::new(&entered(), &self.objects, self.clone(), process_name, ProcessKind::default())
    }

    /// Opens the adapter for a process of this kind.
    ///
    /// # Errors
    /// As [`Adapter::open`].
    pub fn open_as(
        self: &Arc<Adapter>,
        process_name: &str,
        kind: ProcessKind,
    ) -> Result<Arc<Process>, Status> {
        Process::new(&entered(), &self.objects, self.clone(), process_name, kind)
    }

    /// Opens the adapter for a process that may raise priorities (SE_INC_BASE_PRIORITY). Its
    /// contexts may use the FOCUS and REALTIME bands.
    pub fn open_privileged(
        self: &Arc<Adapter>,
        process_name: &str,
    ) -> Result<Arc<Process>, Status> {
        let kind = ProcessKind { may_raise_priority: true, ..ProcessKind::default() };
        self.open_as(process_name, kind)
    }
}

impl Drop for Adapter {
    /// A DPC that ended after the removal may have queued the end of an object. Such a work item
    /// holds the timer that has it, and the driver.
    fn drop(&mut self) {
        let port = &self.objects.port;
        if port.condition.is_stopped() && !current::is_panicking() {
            port.timer.drop_work();
        }
    }
}

/// Enters PASSIVE level, at which system calls run.
fn entered() -> Passive {
    Passive::enter()
}

/// Attaches the ports of the layers below the objects to the rooms above.
fn attach_layers(objects: &Arc<Objects>, interrupts: &Arc<Interrupts>) {
    let Layers { memory, fences, sched, .. } = &***objects;
    let (to_objects, to_interrupts) = (Arc::downgrade(objects), Arc::downgrade(interrupts));
    let (to_sched, to_fences) = (Arc::downgrade(sched), Arc::downgrade(fences));
    memory.work.attach(to_objects.clone());
    memory.holds.attach(to_sched);
    memory.fences.attach(to_fences);
    fences.relays.attach(to_interrupts.clone());
    fences.hardware_waits.attach(to_objects.clone());
    sched.objects.attach(to_objects);
    sched.reports.attach(to_interrupts);
}
