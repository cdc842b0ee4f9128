//! The composition root: builds the layers of an adapter and hands each its ports.
//!
//! A broken driver contract after the start is a [`BugCheck`](crate::BugCheck): it is kept, devices
//! are lost, and calls return DEVICE_REMOVED. `report` has the reports.

mod ports;
mod report;

use crate::config::AdapterConfig;
use crate::display::Display;
use crate::driver::{self, DriverPort};
use crate::error::StartError;
use crate::fence::Fences;
use crate::fence::log::LogReader;
use crate::interrupt::{self, DpcQueue};
use crate::lock_order::LOCK_ORDER;
use crate::memory::Memory;
use crate::object::idle_contexts;
use crate::object::process::Process;
use crate::object::{Layers, Objects};
use crate::power::{Power, ProgressWatch};
use crate::recovery::{Recovery, TimeoutWatch};
use crate::scheduling::{SchedulerWatch, Scheduling};
use crate::supervisor::{self, Watches};
use std::ops::Deref;
use std::sync::Arc;
use tidegate_ddi::{Driver, Status};
use tidegate_platform::{Mutex, PhysicalMemory, Platform, ServiceHandle};

/// One adapter: a driver and the kernel's state for it.
pub struct Adapter {
    pub(crate) port: Arc<DriverPort>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) fences: Arc<Fences>,
    pub(crate) sched: Arc<Scheduling>,
    pub(crate) objects: Arc<Objects>,
    pub(crate) dpc: DpcQueue,
    /// `None` for an adapter that only renders.
    pub(crate) display: Option<Display>,
    pub(crate) power: Arc<Power>,
    pub(crate) recovery: Recovery,
    /// One removal at a time; held over all of it.
    pub(crate) removing: Mutex<()>,
    pub(crate) interrupt_worker: Mutex<Option<ServiceHandle>>,
}

impl Adapter {
    /// Starts an adapter on `driver`.
    #[doc(alias = "DxgkDdiStartDevice")]
    pub fn start(
        platform: &Platform,
        driver: Arc<dyn Driver>,
        system_memory: &PhysicalMemory,
        config: AdapterConfig,
    ) -> Result<Arc<Adapter>, StartError> {
        config.tdr.check()?;
        platform.set_lock_order(LOCK_ORDER);
        // The kernel's side of the callbacks exists before the adapter does: the driver may keep it
        // from its first call on.
        let callbacks = Arc::new(interrupt::KernelCallbacks::new());
        let started = driver::start(platform, &driver, system_memory, config, callbacks.clone())?;
        let engines = started.declared.caps.engine_count() as usize;
        let power = Arc::new(Power::new(platform, &config, engines));
        let port = DriverPort::new(started, power.clone());
        let caps = &port.caps;
        let memory = Memory::new(&port);
        let fences = Fences::new(&memory);
        let sched = Scheduling::new(&port, &memory, &fences);
        let objects = Objects::new(Layers {
            log_reader: LogReader::new(&memory),
            port: port.clone(),
            memory: memory.clone(),
            fences: fences.clone(),
            sched: sched.clone(),
        });
        let adapter = Arc::new(Adapter {
            objects,
            sched,
            power,
            display: caps.display.map(|display| Display::new(platform, display)),
            fences,
            memory,
            dpc: DpcQueue::new(platform),
            recovery: Recovery::new(platform, &config.tdr),
            removing: platform.mutex("removal of an adapter", ()),
            interrupt_worker: platform.mutex("interrupt worker", None),
            port,
        });
        adapter.attach_ports();
        supervisor::start(&adapter.port, adapter.watches());
        // The driver may interrupt from here on.
        callbacks.attach(&adapter);
        let worker = interrupt::connect(&adapter);
        *adapter.interrupt_worker.lock() = worker;
        if adapter.native_fence_caps.map_to_gpu_system_process {
            let space = adapter.memory.system_space();
            space.inspect_err(|_| adapter.stop()).map_err(StartError::Driver)?;
        }
        if adapter.caps.lazy_context_switch {
            let opened = idle_contexts::open(&adapter.objects);
            opened.inspect_err(|_| adapter.stop()).map_err(StartError::Driver)?;
        }
        Ok(adapter)
    }

    /// Leads the ports of the lower rooms to the rooms above them.
    fn attach_ports(self: &Arc<Adapter>) {
        let (objects, above) = (Arc::downgrade(&self.objects), Arc::downgrade(self));
        let (sched, fences) = (Arc::downgrade(&self.sched), Arc::downgrade(&self.fences));
        self.port.failures.attach(above.clone());
        self.power.set_wake_port(above.clone());
        self.memory.work.attach(objects.clone());
        self.memory.holds.attach(sched);
        self.memory.fences.attach(fences);
        self.fences.relays.attach(above.clone());
        self.fences.hardware_waits.attach(objects.clone());
        self.sched.objects.attach(objects);
        self.sched.reports.attach(above.clone());
        self.objects.recovery.attach(above.clone());
        if self.display.is_some() {
            self.objects.display.attach(above);
        }
    }

    fn watches(self: &Arc<Adapter>) -> Watches {
        let adapter = Arc::downgrade(self);
        let (scheduler, timeouts) =
            (SchedulerWatch(Arc::downgrade(&self.sched)), TimeoutWatch(adapter.clone()));
        Watches {
            strict: vec![Arc::new(scheduler), Arc::new(timeouts)],
            background: vec![Arc::new(ProgressWatch(adapter))],
        }
    }

    /// A process opens the adapter.
    pub fn open(self: &Arc<Adapter>, process_name: &str) -> Result<Arc<Process>, Status> {
        Process::new(&self.objects, self.clone(), process_name, false)
    }

    /// The same for a process with the privilege to raise priorities (SE_INC_BASE_PRIORITY): its
    /// contexts may be in the bands FOCUS and REALTIME.
    pub fn open_privileged(
        self: &Arc<Adapter>,
        process_name: &str,
    ) -> Result<Arc<Process>, Status> {
        Process::new(&self.objects, self.clone(), process_name, true)
    }
}

/// For the time being: rooms that still take the whole adapter reach the facts of its driver.
impl Deref for Adapter {
    type Target = DriverPort;

    fn deref(&self) -> &DriverPort {
        &self.port
    }
}
