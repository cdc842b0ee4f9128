//! Owns a driver that stands before the reference driver and can be told to misbehave, or to do
//! something in the middle of a call: it declares other caps, fails a call, reports interrupts of
//! its own, and keeps what the kernel handed in.

use std::sync::Arc;
use tidegate::d3dukmdt::FenceCell;
use tidegate::ddi::caps::AdapterCaps;
use tidegate::ddi::doorbell::{ConnectDoorbellFlags, ConnectedDoorbell, CreateDoorbell};
use tidegate::ddi::fence::{
    CreateNativeFence, OpenNativeFence, SetNativeFenceLogBuffer, UpdateCurrentMode,
    UpdateCurrentValue, UpdateMonitoredValue,
};
use tidegate::ddi::memory::{
    AllocationSegments, PageTableEntry, PagingOperation, StandardAllocation, UpdatePageTable,
};
use tidegate::ddi::queue::{
    CreateContext, CreateHwQueue, SetRootPageTable, SubmitCommandToHwQueue, SubmitCommandVirtual,
};
use tidegate::ddi::{
    CancelCommand, ComponentState, DevicePowerState, Dirql, Dispatch, Driver, DriverHandle,
    DriverLayer, EngineId, EngineStatus, InterruptData, InterruptService, OsHandle, Passive,
    PowerAction, PreemptCommand, StartInfo, Status,
};
use tidegate::platform::{Mutex, PhysicalAddress, Platform, Word};

/// What a test has done on the way into a call.
type Hook = Arc<dyn Fn() + Send + Sync>;

/// What a test changes in the declaration.
pub type ChangeCaps = Box<dyn Fn(&mut AdapterCaps) + Send + Sync>;

/// An element of UpdateCurrentValuesFromCpu with a copy of the address, which a driver would have
/// no right to.
#[derive(Clone)]
pub struct KeptCurrent {
    /// The fence.
    pub fence: DriverHandle,
    /// The new value.
    pub value: u64,
    /// The address.
    pub current_value: Option<FenceCell>,
}

/// The same of UpdateMonitoredValues.
#[derive(Clone)]
pub struct KeptMonitored {
    /// The fence.
    pub fence: DriverHandle,
    /// The new value.
    pub value: u64,
    /// The address.
    pub monitored_value: Word,
}

/// What the kernel handed in so far, in order.
#[derive(Clone, Default)]
pub struct Told {
    /// Native fences: the kernel's handle and the driver's.
    pub fences: Vec<(OsHandle, DriverHandle)>,
    /// The private data of native fences.
    pub fence_data: Vec<[u8; 64]>,
    /// Where each of them is in the system process.
    pub system_process: Vec<Option<(u64, u64)>>,
    /// Fences that were told to stand somewhere: CurrentValue, MonitoredValue.
    pub residency: Vec<(DriverHandle, PhysicalAddress, PhysicalAddress)>,
    /// Root page tables by address space.
    pub roots: Vec<(u32, PhysicalAddress)>,
    /// Instances: what was asked for, and the driver's handle.
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
    /// CurrentValues that the CPU updated, call by call.
    pub current: Vec<(KeptCurrent, UpdateCurrentMode)>,
    /// MonitoredValues that the kernel published.
    pub monitored: Vec<KeptMonitored>,
    /// Pages that were mapped: where on the bus, and whether engines may store there.
    pub pages: Vec<(PhysicalAddress, bool)>,
    /// Queues whose logs were flushed, call by call.
    pub flushed: Vec<Vec<DriverHandle>>,
    /// Packets.
    pub packets: Vec<SubmitCommandVirtual>,
    /// Requests for packets.
    pub requests: Vec<PreemptCommand>,
    /// Packets that will not come.
    pub cancelled: Vec<CancelCommand>,
}

/// The driver in the middle.
pub struct Hooked {
    inner: Arc<dyn Driver>,
    caps: Option<ChangeCaps>,
    start: Mutex<Option<StartInfo>>,
    service: Mutex<Option<Arc<dyn InterruptService>>>,
    told: Mutex<Told>,
    hooks: Mutex<Vec<(&'static str, Hook)>>,
    failing: Mutex<Option<(&'static str, Status)>>,
    fence_data: Mutex<Option<[u8; 64]>>,
    reports: Mutex<Vec<InterruptData>>,
    suspends_later: Mutex<bool>,
    segments: Mutex<Option<AllocationSegments>>,
    keeps_packets: Mutex<bool>,
    current_fence: Mutex<Option<u32>>,
    group: Mutex<Option<u64>>,
    aborted: Mutex<Option<u32>>,
    deaf: Mutex<bool>,
}

impl Hooked {
    /// A layer that passes every call on; `caps` changes what the adapter declares.
    pub fn new(
        platform: &Platform,
        inner: Arc<dyn Driver>,
        caps: Option<ChangeCaps>,
    ) -> Arc<Hooked> {
        Arc::new(Hooked {
            inner,
            caps,
            start: platform.mutex("start info", None),
            service: platform.mutex("interrupt service", None),
            told: platform.mutex("what the driver was told", Told::default()),
            hooks: platform.mutex("hooks", Vec::new()),
            failing: platform.mutex("failing call", None),
            fence_data: platform.mutex("private data of fences", None),
            reports: platform.mutex("planted reports", Vec::new()),
            suspends_later: platform.mutex("whether suspensions are pending", false),
            segments: platform.mutex("planted segments", None),
            keeps_packets: platform.mutex("whether packets are kept", false),
            current_fence: platform.mutex("planted fence id", None),
            group: platform.mutex("planted dependents", None),
            aborted: platform.mutex("planted aborted packet", None),
            deaf: platform.mutex("whether preemptions go unanswered", false),
        })
    }

    /// What the kernel handed in so far.
    pub fn told(&self) -> Told {
        self.told.lock().clone()
    }

    /// What the kernel gave at start.
    pub fn start_info(&self) -> StartInfo {
        self.start.lock().clone().expect("the driver was started")
    }

    /// Has `hook` called on the way into every call of `ddi`, with no lock of this driver held.
    pub fn on(&self, ddi: &'static str, hook: impl Fn() + Send + Sync + 'static) {
        self.hooks.lock().push((ddi, Arc::new(hook)));
    }

    /// Has the next call of `ddi` fail.
    pub fn fail_next(&self, ddi: &'static str, status: Status) {
        *self.failing.lock() = Some((ddi, status));
    }

    /// Has native fences come back with this private data, from the next one on.
    pub fn answer_fence_data(&self, data: [u8; 64]) {
        *self.fence_data.lock() = Some(data);
    }

    /// Has suspensions answered with PENDING from now on, or at once again; the test raises the
    /// interrupt that completes them.
    pub fn suspend_later(&self, later: bool) {
        *self.suspends_later.lock() = later;
    }

    /// Has this mask answered for the engines that depend on another.
    pub fn answer_group(&self, group: u64) {
        *self.group.lock() = Some(group);
    }

    /// Has resets of engines say from now on that this packet was cut off.
    pub fn answer_aborted(&self, aborted: u32) {
        *self.aborted.lock() = Some(aborted);
    }

    /// Has preemptions go unanswered from now on: the reference driver never hears of them.
    pub fn ignore_preemptions(&self, deaf: bool) {
        *self.deaf.lock() = deaf;
    }

    /// Has this answered for every kind of fence storage.
    pub fn answer_segments(&self, answer: AllocationSegments) {
        *self.segments.lock() = Some(answer);
    }

    /// Has packets and requests for them go no further than here: the test reports what became of
    /// them.
    pub fn keep_packets(&self) {
        *self.keeps_packets.lock() = true;
    }

    /// Has this answered for the last complete packet.
    pub fn answer_current_fence(&self, fence_id: u32) {
        *self.current_fence.lock() = Some(fence_id);
    }

    /// Raises the line: the next interrupt routine reports `data`, and asks for the deferred
    /// routine.
    pub fn raise(&self, data: &[InterruptData]) {
        self.reports.lock().extend_from_slice(data);
        self.service().raise();
    }

    /// Both halves of an interrupt that reports `data`, where they run inline.
    pub fn interrupt(&self, data: InterruptData) {
        self.raise(&[data]);
        self.turn_ended();
    }

    /// The raising agent's turn is over: the deferred routine runs, where interrupts run inline.
    pub fn turn_ended(&self) {
        self.service().turn_ended();
    }

    fn service(&self) -> Arc<dyn InterruptService> {
        self.service.lock().clone().expect("the interrupt is connected")
    }

    fn enter(&self, ddi: &'static str) -> Result<(), Status> {
        let hooks: Vec<Hook> = self
            .hooks
            .lock()
            .iter()
            .filter(|(of, _)| *of == ddi)
            .map(|(_, hook)| hook.clone())
            .collect();
        hooks.iter().for_each(|hook| hook());
        match self.failing.lock().take_if(|(of, _)| *of == ddi) {
            Some((_, status)) => Err(status),
            None => Ok(()),
        }
    }

    /// For calls that cannot fail.
    fn pass(&self, ddi: &'static str) {
        self.enter(ddi).expect("this call has no way to fail");
    }
}

impl DriverLayer for Hooked {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status> {
        *self.start.lock() = Some(start.clone());
        self.enter("StartDevice")?;
        self.inner.start_device(level, start)
    }

    fn query_adapter_caps(&self, level: &Passive) -> AdapterCaps {
        let mut caps = self.inner.query_adapter_caps(level);
        if let Some(change) = &self.caps {
            change(&mut caps);
        }
        caps
    }

    fn update_page_table(&self, level: &Passive, args: UpdatePageTable<'_>) -> Result<(), Status> {
        let pages = args.entries.iter().filter_map(|entry| match entry {
            PageTableEntry::Page { at, writable, .. } => Some((*at, *writable)),
            _ => None,
        });
        self.told.lock().pages.extend(pages);
        self.inner.update_page_table(level, args)
    }

    fn get_standard_allocation_driver_data(
        &self,
        level: &Passive,
        args: StandardAllocation<'_>,
    ) -> Result<AllocationSegments, Status> {
        self.enter("GetStandardAllocationDriverData")?;
        let planted = *self.segments.lock();
        match planted {
            Some(answer) => Ok(answer),
            None => self.inner.get_standard_allocation_driver_data(level, args),
        }
    }

    fn build_paging_buffer(
        &self,
        level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status> {
        self.enter("BuildPagingBuffer")?;
        if let PagingOperation::NotifyFenceResidency(fences) = operation {
            let stand = fences.iter().map(|f| (f.fence, f.current_value, f.monitored_value));
            self.told.lock().residency.extend(stand);
        }
        self.inner.build_paging_buffer(level, operation)
    }

    fn set_root_page_table(&self, level: &Passive, args: SetRootPageTable) -> Result<(), Status> {
        if let Some(root) = args.root {
            self.told.lock().roots.push((args.address_space, root));
        }
        self.inner.set_root_page_table(level, args)
    }

    fn submit_command_virtual(
        &self,
        level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        self.told.lock().packets.push(args);
        self.enter("SubmitCommandVirtual")?;
        if *self.keeps_packets.lock() {
            Ok(())
        } else {
            self.inner.submit_command_virtual(level, args)
        }
    }

    fn preempt_command(&self, level: &Dispatch, args: PreemptCommand) -> Result<(), Status> {
        self.told.lock().requests.push(args);
        self.enter("PreemptCommand")?;
        let deaf = *self.keeps_packets.lock() || *self.deaf.lock();
        if deaf { Ok(()) } else { self.inner.preempt_command(level, args) }
    }

    fn cancel_command(&self, level: &Dispatch, args: CancelCommand) -> Result<(), Status> {
        self.told.lock().cancelled.push(args);
        self.enter("CancelCommand")?;
        self.inner.cancel_command(level, args)
    }

    fn query_current_fence(&self, level: &Dispatch, engine: EngineId) -> Result<u32, Status> {
        let planted = *self.current_fence.lock();
        planted.map_or_else(|| self.inner.query_current_fence(level, engine), Ok)
    }

    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        let made = self.inner.create_context(level, args)?;
        self.told.lock().contexts.push((args, made));
        Ok(made)
    }

    fn query_dependent_engine_group(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<u64, Status> {
        self.enter("QueryDependentEngineGroup")?;
        let planted = *self.group.lock();
        planted.map_or_else(|| self.inner.query_dependent_engine_group(level, engine), Ok)
    }

    fn query_engine_status(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<EngineStatus, Status> {
        self.enter("QueryEngineStatus")?;
        self.inner.query_engine_status(level, engine)
    }

    fn reset_engine(&self, level: &Passive, engine: EngineId) -> Result<u32, Status> {
        self.enter("ResetEngine")?;
        let real = self.inner.reset_engine(level, engine)?;
        let planted = *self.aborted.lock();
        Ok(planted.unwrap_or(real))
    }

    fn reset_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        self.enter("ResetFromTimeout")?;
        self.inner.reset_from_timeout(level)
    }

    fn restart_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        self.enter("RestartFromTimeout")?;
        self.inner.restart_from_timeout(level)
    }

    fn reset_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.enter("ResetHwEngine")?;
        self.inner.reset_hw_engine(level, engine)
    }

    fn resume_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.enter("ResumeHwEngine")?;
        self.inner.resume_hw_engine(level, engine)
    }

    fn suspend_context(
        &self,
        level: &Passive,
        context: DriverHandle,
        suspend_fence: u64,
    ) -> Result<bool, Status> {
        self.told.lock().suspensions.push((context, suspend_fence));
        self.enter("SuspendContext")?;
        let done = self.inner.suspend_context(level, context, suspend_fence)?;
        Ok(done && !*self.suspends_later.lock())
    }

    fn resume_context(&self, level: &Passive, context: DriverHandle) -> Result<(), Status> {
        self.enter("ResumeContext")?;
        self.inner.resume_context(level, context)
    }

    fn create_hw_queue(
        &self,
        level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        self.enter("CreateHwQueue")?;
        let made = self.inner.create_hw_queue(level, args)?;
        self.told.lock().queues.push((args, made));
        Ok(made)
    }

    fn destroy_hw_queue(&self, level: &Passive, hw_queue: DriverHandle) {
        self.pass("DestroyHwQueue");
        self.inner.destroy_hw_queue(level, hw_queue);
    }

    fn submit_command_to_hw_queue(
        &self,
        level: &Dispatch,
        args: SubmitCommandToHwQueue,
    ) -> Result<(), Status> {
        self.enter("SubmitCommandToHwQueue")?;
        self.inner.submit_command_to_hw_queue(level, args)
    }

    fn create_native_fence(
        &self,
        level: &Passive,
        args: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status> {
        self.enter("CreateNativeFence")?;
        let (os_handle, data, system_process) =
            (args.os_handle, args.private_data, args.system_process_va);
        let (driver, answer) = self.inner.create_native_fence(level, args)?;
        let mut told = self.told.lock();
        told.fences.push((os_handle, driver));
        told.fence_data.push(data);
        told.system_process.push(system_process);
        drop(told);
        Ok((driver, self.fence_data.lock().unwrap_or(answer)))
    }

    fn open_native_fence(
        &self,
        level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        self.enter("OpenNativeFence")?;
        let made = self.inner.open_native_fence(level, args)?;
        self.told.lock().instances.push((args, made));
        Ok(made)
    }

    fn close_native_fence(&self, level: &Passive, local: DriverHandle) {
        self.pass("CloseNativeFence");
        self.inner.close_native_fence(level, local);
    }

    fn destroy_native_fence(&self, level: &Passive, global: DriverHandle) {
        self.pass("DestroyNativeFence");
        self.inner.destroy_native_fence(level, global);
    }

    fn update_monitored_values(&self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]) {
        let kept = |f: &UpdateMonitoredValue<'_>| KeptMonitored {
            fence: f.fence,
            value: f.value,
            monitored_value: f.monitored_value.clone(),
        };
        self.told.lock().monitored.extend(fences.iter().map(kept));
        self.pass("UpdateMonitoredValues");
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
        self.told.lock().current.extend(fences.iter().map(|f| (kept(f), mode)));
        self.pass("UpdateCurrentValuesFromCpu");
        self.inner.update_current_values_from_cpu(level, fences, mode);
    }

    fn set_native_fence_log_buffer(&self, level: &Dispatch, args: SetNativeFenceLogBuffer) {
        self.told.lock().logs.push(args.clone());
        self.inner.set_native_fence_log_buffer(level, args);
    }

    fn update_native_fence_logs(&self, level: &Dispatch, hw_queues: &[DriverHandle]) {
        self.told.lock().flushed.push(hw_queues.to_vec());
        self.pass("UpdateNativeFenceLogs");
        self.inner.update_native_fence_logs(level, hw_queues);
    }

    fn create_doorbell(
        &self,
        level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        self.enter("CreateDoorbell")?;
        let told = args.clone();
        let made = self.inner.create_doorbell(level, args)?;
        // A driver that says something back, and more than it has room for.
        args.private_data.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        args.private_data.push(0xEE);
        self.told.lock().doorbells.push((told, made));
        Ok(made)
    }

    fn connect_doorbell(
        &self,
        level: &Passive,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        self.enter("ConnectDoorbell")?;
        self.inner.connect_doorbell(level, doorbell, flags)
    }

    fn disconnect_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        self.pass("DisconnectDoorbell");
        self.inner.disconnect_doorbell(level, doorbell);
    }

    fn destroy_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        self.pass("DestroyDoorbell");
        self.inner.destroy_doorbell(level, doorbell);
    }

    fn notify_work_submission(&self, level: &Passive, hw_queue: DriverHandle) {
        self.pass("NotifyWorkSubmission");
        self.inner.notify_work_submission(level, hw_queue);
    }

    fn set_power_state(
        &self,
        level: &Passive,
        state: DevicePowerState,
        action: PowerAction,
    ) -> Result<(), Status> {
        self.enter("SetPowerState")?;
        self.inner.set_power_state(level, state, action)
    }

    fn set_power_component_f_state(
        &self,
        level: &Dispatch,
        node_ordinal: u32,
        state: ComponentState,
    ) -> Result<(), Status> {
        self.enter("SetPowerComponentFState")?;
        self.inner.set_power_component_f_state(level, node_ordinal, state)
    }

    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool {
        self.pass("InterruptRoutine");
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
