//! A driver layer for tests. It records the kernel's calls, runs a hook or fails at an entry,
//! returns planted answers, and raises interrupts.
//!
//! Entry points: [`Hooked::calls`], [`Hooked::on`], [`Hooked::fail_next`], [`Hooked::plant`],
//! [`Hooked::raise`]. Hooks run with no lock of this layer held.

use std::sync::Arc;
use tidegate::d3dukmdt::FenceCell;
use tidegate::ddi::caps::AdapterCaps;
use tidegate::ddi::doorbell::CreateDoorbell;
use tidegate::ddi::fence::{
    CreateNativeFence, OpenNativeFence, SetNativeFenceLogBuffer, UpdateCurrentMode,
    UpdateCurrentValue, UpdateMonitoredValue,
};
use tidegate::ddi::memory::{AllocationSegments, PageTableEntry, StandardAllocation};
use tidegate::ddi::queue::{CreateContext, CreateHwQueue, SubmitCommandVirtual};
use tidegate::ddi::record::Paging;
use tidegate::ddi::{
    CancelCommand, DdiCall, Dirql, Dispatch, Driver, DriverHandle, DriverLayer, EngineId, Entry,
    EntryGroup, InterruptData, InterruptService, OsHandle, Passive, PreemptCommand, StartInfo,
    Status,
};
use tidegate::platform::{Mutex, PhysicalAddress, Platform, Word};

/// A hook that runs at the start of a call.
type Hook = Arc<dyn Fn() + Send + Sync>;

/// A test's change of the adapter caps.
pub type ChangeCaps = Box<dyn Fn(&mut AdapterCaps) + Send + Sync>;

/// An element of UpdateCurrentValuesFromCpu with a copy of the address, which no driver may keep.
#[derive(Clone)]
pub struct KeptCurrent {
    /// The fence.
    pub fence: DriverHandle,
    /// The new value.
    pub value: u64,
    /// The address of CurrentValue.
    pub current_value: Option<FenceCell>,
}

/// An element of UpdateMonitoredValues with a copy of the address.
#[derive(Clone)]
pub struct KeptMonitored {
    /// The fence.
    pub fence: DriverHandle,
    /// The new value.
    pub value: u64,
    /// The address of MonitoredValue.
    pub monitored_value: Word,
}

/// The arguments of the kernel's calls so far, in order.
#[derive(Clone, Default)]
pub struct DriverCalls {
    /// Native fences: the kernel's handle and the driver's handle.
    pub fences: Vec<(OsHandle, DriverHandle)>,
    /// The private data of native fences.
    pub fence_data: Vec<[u8; 64]>,
    /// System-process addresses of each native fence.
    pub system_process: Vec<Option<(u64, u64)>>,
    /// Fences whose physical addresses were set: CurrentValue, MonitoredValue.
    pub residency: Vec<(DriverHandle, PhysicalAddress, PhysicalAddress)>,
    /// Root page tables by address space.
    pub roots: Vec<(u32, PhysicalAddress)>,
    /// Instances: the request, and the driver's handle.
    pub instances: Vec<(OpenNativeFence, DriverHandle)>,
    /// Contexts, with the driver's handle.
    pub contexts: Vec<(CreateContext, DriverHandle)>,
    /// Hardware queues, with the driver's handle.
    pub queues: Vec<(CreateHwQueue, DriverHandle)>,
    /// Suspensions: the driver's handle and the suspend fence.
    pub suspensions: Vec<(DriverHandle, u64)>,
    /// Doorbells, with the driver's handle.
    pub doorbells: Vec<(CreateDoorbell, DriverHandle)>,
    /// Log buffers.
    pub logs: Vec<SetNativeFenceLogBuffer>,
    /// CurrentValue updates by the CPU, one element per fence.
    pub current: Vec<(KeptCurrent, UpdateCurrentMode)>,
    /// MonitoredValues that the kernel published.
    pub monitored: Vec<KeptMonitored>,
    /// Mapped pages: bus address, and whether engines may write.
    pub pages: Vec<(PhysicalAddress, bool)>,
    /// Queues whose logs were flushed, per call.
    pub flushed: Vec<Vec<DriverHandle>>,
    /// Packets.
    pub packets: Vec<SubmitCommandVirtual>,
    /// Preemption requests.
    pub requests: Vec<PreemptCommand>,
    /// Cancelled packets.
    pub cancelled: Vec<CancelCommand>,
}

/// Answers that replace the reference driver's. The default replaces none.
#[derive(Clone, Copy, Default)]
pub struct Planted {
    /// The private data of native fences.
    pub fence_data: Option<[u8; 64]>,
    /// Suspensions return PENDING. The test raises the interrupt that completes them.
    pub suspends_later: bool,
    /// The segments for every kind of fence storage.
    pub segments: Option<AllocationSegments>,
    /// Packets and preemption requests do not reach the reference driver. The test reports results.
    pub keeps_packets: bool,
    /// Preemption requests do not reach the reference driver, so none completes.
    pub ignores_preemptions: bool,
    /// The ID of the last completed packet.
    pub current_fence: Option<u32>,
    /// The mask of dependent engines.
    pub group: Option<u64>,
    /// The ID of the packet that an engine reset aborted.
    pub aborted: Option<u32>,
}

/// The driver layer.
pub struct Hooked {
    platform: Platform,
    inner: Arc<dyn Driver>,
    caps: Option<ChangeCaps>,
    start: Mutex<Option<StartInfo>>,
    service: Mutex<Option<Arc<dyn InterruptService>>>,
    calls: Mutex<DriverCalls>,
    hooks: Mutex<Vec<(Entry, Hook)>>,
    failing: Mutex<Option<(Entry, Status)>>,
    reports: Mutex<Vec<InterruptData>>,
    planted: Mutex<Planted>,
}

impl Hooked {
    /// Creates a layer that forwards every call. `caps` changes the adapter's declaration.
    pub fn new(
        platform: &Platform,
        inner: Arc<dyn Driver>,
        caps: Option<ChangeCaps>,
    ) -> Arc<Hooked> {
        Arc::new(Hooked {
            platform: platform.clone(),
            inner,
            caps,
            start: platform.mutex("start info", None),
            service: platform.mutex("interrupt service", None),
            calls: platform.mutex("calls to the driver", DriverCalls::default()),
            hooks: platform.mutex("hooks", Vec::new()),
            failing: platform.mutex("failing call", None),
            reports: platform.mutex("planted reports", Vec::new()),
            planted: platform.mutex("planted answers", Planted::default()),
        })
    }

    /// Returns the kernel's calls so far.
    pub fn calls(&self) -> DriverCalls {
        self.calls.lock().clone()
    }

    /// Returns the start info from the kernel.
    pub fn start_info(&self) -> StartInfo {
        self.start.lock().clone().expect("the driver has been started")
    }

    /// Runs `hook` at the start of every call of `entry`.
    pub fn on(&self, entry: Entry, hook: impl Fn() + Send + Sync + 'static) {
        self.hooks.lock().push((entry, Arc::new(hook)));
    }

    /// Runs `hook` only at the beginning of the next call of `entry`.
    pub fn once(&self, entry: Entry, hook: impl FnOnce() + Send + Sync + 'static) {
        let next = self.platform.mutex("a hook of one call", Some(hook));
        self.on(entry, move || {
            let hook = next.lock().take();
            if let Some(hook) = hook {
                hook();
            }
        });
    }

    /// Fails the next call of `entry`.
    pub fn fail_next(&self, entry: Entry, status: Status) {
        *self.failing.lock() = Some((entry, status));
    }

    /// Changes the planted answers for later calls.
    pub fn plant(&self, change: impl FnOnce(&mut Planted)) {
        change(&mut self.planted.lock());
    }

    fn planted(&self) -> Planted {
        *self.planted.lock()
    }

    /// Raises the interrupt line: the next interrupt routine reports `data` and requests a DPC.
    pub fn raise(&self, data: &[InterruptData]) {
        self.reports.lock().extend_from_slice(data);
        self.service().raise();
    }

    /// Runs both halves of an interrupt that reports `data`, if interrupts run inline.
    pub fn interrupt(&self, data: InterruptData) {
        self.raise(&[data]);
        self.turn_ended();
    }

    /// Ends the turn of the raising agent, which runs the DPC if interrupts run inline.
    pub fn turn_ended(&self) {
        self.service().turn_ended();
    }

    fn service(&self) -> Arc<dyn InterruptService> {
        self.service.lock().clone().expect("the interrupt has been connected")
    }

    /// Records the arguments of a call. Entries with results record them separately below.
    fn keep(&self, call: DdiCall) {
        let mut calls = self.calls.lock();
        match call {
            DdiCall::SubmitCommandVirtual { args } => calls.packets.push(args),
            DdiCall::PreemptCommand { args } => calls.requests.push(args),
            DdiCall::CancelCommand { args } => calls.cancelled.push(args),
            DdiCall::SuspendContext { context, suspend_fence } => {
                calls.suspensions.push((context, suspend_fence));
            }
            DdiCall::UpdateNativeFenceLogs { hw_queues } => calls.flushed.push(hw_queues),
            DdiCall::SetRootPageTable { args } => {
                calls.roots.extend(args.root.map(|root| (args.address_space, root)));
            }
            DdiCall::BuildPagingBuffer { operation: Paging::NotifyFenceResidency(fences) } => {
                calls.residency.extend(fences);
            }
            DdiCall::UpdatePageTable { args } => {
                let pages = args.entries.into_iter().filter_map(|entry| match entry {
                    PageTableEntry::Page { at, writable, .. } => Some((at, writable)),
                    _ => None,
                });
                calls.pages.extend(pages);
            }
            _ => {}
        }
    }
}

impl DriverLayer for Hooked {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    /// Without the words of `FenceWaitDdi` each CPU signal of a native fence is a call.
    fn hides(&self, group: EntryGroup) -> bool {
        group == EntryGroup::FenceWaits
    }

    fn before(&self, entry: Entry, call: &dyn Fn() -> DdiCall) -> Result<(), Status> {
        self.keep(call());
        let hooks = self.hooks.lock().clone();
        hooks.iter().filter(|(of, _)| *of == entry).for_each(|(_, hook)| hook());
        match self.failing.lock().take_if(|(of, _)| *of == entry) {
            Some((_, status)) => Err(status),
            None => Ok(()),
        }
    }

    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status> {
        *self.start.lock() = Some(start.clone());
        self.inner.start_device(level, start)
    }

    fn query_adapter_caps(&self, level: &Passive) -> AdapterCaps {
        let mut caps = self.inner.query_adapter_caps(level);
        if let Some(change) = &self.caps {
            change(&mut caps);
        }
        caps
    }

    fn get_standard_allocation_driver_data(
        &self,
        level: &Passive,
        args: StandardAllocation<'_>,
    ) -> Result<AllocationSegments, Status> {
        match self.planted().segments {
            Some(answer) => Ok(answer),
            None => self.inner.get_standard_allocation_driver_data(level, args),
        }
    }

    fn submit_command_virtual(
        &self,
        level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        if self.planted().keeps_packets {
            Ok(())
        } else {
            self.inner.submit_command_virtual(level, args)
        }
    }

    fn preempt_command(&self, level: &Dispatch, args: PreemptCommand) -> Result<(), Status> {
        let planted = self.planted();
        if planted.keeps_packets || planted.ignores_preemptions {
            Ok(())
        } else {
            self.inner.preempt_command(level, args)
        }
    }

    fn query_current_fence(&self, level: &Dispatch, engine: EngineId) -> Result<u32, Status> {
        let planted = self.planted().current_fence;
        planted.map_or_else(|| self.inner.query_current_fence(level, engine), Ok)
    }

    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        let made = self.inner.create_context(level, args)?;
        self.calls.lock().contexts.push((args, made));
        Ok(made)
    }

    fn query_dependent_engine_group(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<u64, Status> {
        let planted = self.planted().group;
        planted.map_or_else(|| self.inner.query_dependent_engine_group(level, engine), Ok)
    }

    fn reset_engine(&self, level: &Passive, engine: EngineId) -> Result<u32, Status> {
        let real = self.inner.reset_engine(level, engine)?;
        Ok(self.planted().aborted.unwrap_or(real))
    }

    fn suspend_context(
        &self,
        level: &Passive,
        context: DriverHandle,
        suspend_fence: u64,
    ) -> Result<bool, Status> {
        let done = self.inner.suspend_context(level, context, suspend_fence)?;
        Ok(done && !self.planted().suspends_later)
    }

    fn create_hw_queue(
        &self,
        level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        let made = self.inner.create_hw_queue(level, args)?;
        self.calls.lock().queues.push((args, made));
        Ok(made)
    }

    fn create_native_fence(
        &self,
        level: &Passive,
        args: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status> {
        let (os_handle, data, system_process) =
            (args.os_handle, args.private_data, args.system_process_va);
        let (driver, answer) = self.inner.create_native_fence(level, args)?;
        let mut calls = self.calls.lock();
        calls.fences.push((os_handle, driver));
        calls.fence_data.push(data);
        calls.system_process.push(system_process);
        drop(calls);
        Ok((driver, self.planted().fence_data.unwrap_or(answer)))
    }

    fn open_native_fence(
        &self,
        level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        let made = self.inner.open_native_fence(level, args)?;
        self.calls.lock().instances.push((args, made));
        Ok(made)
    }

    fn update_monitored_values(&self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]) {
        let kept = |f: &UpdateMonitoredValue<'_>| KeptMonitored {
            fence: f.fence,
            value: f.value,
            monitored_value: f.monitored_value.clone(),
        };
        self.calls.lock().monitored.extend(fences.iter().map(kept));
        self.inner.update_monitored_values(level, fences);
    }

    fn update_current_values_from_cpu(
        &self,
        level: &Dispatch,
        fences: &[UpdateCurrentValue<'_>],
        mode: UpdateCurrentMode,
    ) {
        let kept = |f: &UpdateCurrentValue<'_>| KeptCurrent {
            fence: f.fence,
            value: f.value,
            current_value: f.current_value.cloned(),
        };
        self.calls.lock().current.extend(fences.iter().map(|f| (kept(f), mode)));
        self.inner.update_current_values_from_cpu(level, fences, mode);
    }

    fn set_native_fence_log_buffer(&self, level: &Dispatch, args: SetNativeFenceLogBuffer) {
        self.calls.lock().logs.push(args.clone());
        self.inner.set_native_fence_log_buffer(level, args);
    }

    fn create_doorbell(
        &self,
        level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        let kept = args.clone();
        let made = self.inner.create_doorbell(level, args)?;
        // Models a driver that modifies the data and returns more than it received.
        args.private_data.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        args.private_data.push(0xEE);
        self.calls.lock().doorbells.push((kept, made));
        Ok(made)
    }

    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool {
        let reports = std::mem::take(&mut *self.reports.lock());
        let planted = !reports.is_empty();
        if planted {
            let callbacks = self.start_info().callbacks;
            reports.into_iter().for_each(|data| callbacks.notify_interrupt(level, data));
            callbacks.queue_dpc(level);
        }
        self.inner.interrupt_routine(level) || planted
    }

    fn connect_interrupt(&self, level: &Passive, service: Arc<dyn InterruptService>) {
        *self.service.lock() = Some(service.clone());
        self.inner.connect_interrupt(level, service);
    }
}
