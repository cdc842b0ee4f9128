//! The layer in front of a driver whose events are judged. It changes no call.

use crate::breach::{Report, report_all};
use crate::journal::{Event, Paged};
use crate::judge::Judge;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::ddi::doorbell::CreateDoorbell;
use tidegate::ddi::fence::{CreateNativeFence, OpenNativeFence};
use tidegate::ddi::memory::{PagingOperation, Segment};
use tidegate::ddi::preemption::{ContextAllocation, CreateContextAllocation};
use tidegate::ddi::queue::{CreateContext, CreateDevice, CreateHwQueue, SubmitCommandVirtual};
use tidegate::ddi::timeout::{DebugInfo, DebugReason, EngineStatus, HwContextLoss};
use tidegate::ddi::{
    AdapterCaps, CallbackLayer, Callbacks, ComponentState, ConnectDoorbellFlags, ConnectedDoorbell,
    DdiCall, DdiVersion, DevicePowerState, Dirql, DisconnectReason, Dispatch, Driver, DriverHandle,
    DriverLayer, EngineId, Entry, InterruptData, Irql, OsHandle, Passive, PowerAction, StartInfo,
    Status, SubmitCommandPhysical, UserModeSubmissionCaps,
};
use tidegate::gpu_abi::{Device, Register};
use tidegate::platform::{Mutex, WaitEnd};
use tidegate::softgpu::SoftGpu;

/// What judges the events of a run, shared between the two sides of the interface.
#[derive(Clone)]
pub(crate) struct Log {
    platform: Platform,
    /// `None` when it was taken: what comes then is not judged.
    judge: Arc<Mutex<Option<Judge>>>,
    report: Option<Arc<Report>>,
}

impl Log {
    pub(crate) fn new(platform: &Platform, judge: Judge, report: Option<Arc<Report>>) -> Log {
        let judge = Arc::new(platform.mutex("judge of a driver", Some(judge)));
        Log { platform: platform.clone(), judge, report }
    }

    pub(crate) fn take(&self) -> Option<Judge> {
        self.judge.lock().take()
    }

    fn note(&self, event: Event) {
        let at = self.platform.now();
        let newly_broken = {
            let mut judge = self.judge.lock_device();
            let Some(judge) = judge.as_mut() else { return };
            judge.event(at, &event);
            self.report.as_ref().map(|report| (report, judge.take_newly_broken()))
        };
        if let Some((report, broken)) = newly_broken {
            report_all(&**report, broken);
        }
    }
}

/// The device of an examined driver.
pub trait ExaminedDevice: Send + Sync {
    /// Returns the number of engines, of all GPUs.
    fn engines(&self) -> u32;

    /// Returns the number of nodes of each GPU.
    fn nodes_of_each(&self) -> u32;

    /// Returns the last packet that an engine has completed, if the device says so.
    fn completed(&self, engine: EngineId) -> Option<u32>;

    /// Stops the device: pending work stays pending.
    fn stop(&self);
}

impl ExaminedDevice for SoftGpu {
    fn engines(&self) -> u32 {
        self.preemption().len() as u32
    }

    fn nodes_of_each(&self) -> u32 {
        SoftGpu::nodes_of_each(self)
    }

    fn completed(&self, engine: EngineId) -> Option<u32> {
        let nodes = SoftGpu::nodes_of_each(self);
        let number = engine.engine_ordinal * nodes + engine.node_ordinal;
        if engine.node_ordinal >= nodes {
            return None;
        }
        let value = self.read_register(Register::COMPLETED_FENCE.offset(number));
        u32::try_from(value).ok()
    }

    fn stop(&self) {
        SoftGpu::stop(self);
    }
}

/// Stops the device of a run that has not ended in time, so that it ends as a standstill.
#[derive(Clone)]
pub(crate) struct Limit {
    platform: Platform,
    limit_ns: u64,
    device: Arc<dyn ExaminedDevice>,
    begun: Arc<Mutex<bool>>,
    overdue: Arc<Mutex<bool>>,
}

impl Limit {
    pub(crate) fn new(
        platform: &Platform,
        limit_ns: u64,
        device: Arc<dyn ExaminedDevice>,
    ) -> Limit {
        let begun = Arc::new(platform.mutex("whether a run has a limit", false));
        let overdue = Arc::new(platform.mutex("whether a run was ended", false));
        Limit { platform: platform.clone(), limit_ns, device, begun, overdue }
    }

    fn begin(&self) {
        // The first DPC may come while the adapter stops, when no agent runs any more.
        if !self.platform.is_current() || std::mem::replace(&mut *self.begun.lock_device(), true) {
            return;
        }
        let limit = self.clone();
        let end = self.platform.now().after(self.limit_ns);
        self.platform.spawn_worker("end of a situation", move || {
            if limit.platform.sleep_until(end) != WaitEnd::Stopped {
                *limit.overdue.lock() = true;
                limit.device.stop();
            }
        });
    }

    /// Returns whether the run was ended.
    pub(crate) fn is_overdue(&self) -> bool {
        *self.overdue.lock()
    }
}

/// Returns whether a call has arguments that clauses are about. Copies of page tables and of
/// commands are not made.
fn is_judged(entry: Entry) -> bool {
    !matches!(entry, Entry::UpdatePageTable | Entry::Render | Entry::Patch)
}

/// A driver whose calls and reports are judged.
pub(crate) struct Watch {
    pub(crate) inner: Arc<dyn Driver>,
    pub(crate) log: Log,
    pub(crate) limit: Option<Limit>,
    pub(crate) truth: Truth,
}

/// What the device has done, where it is known.
#[derive(Clone)]
pub(crate) struct Truth {
    pub(crate) device: Option<Arc<dyn ExaminedDevice>>,
}

impl Truth {
    fn note(&self, log: &Log, engine: EngineId) {
        let id = self.device.as_ref().and_then(|device| device.completed(engine));
        if let Some(id) = id {
            log.note(Event::OnDevice(engine, id));
        }
    }

    /// Notes every engine.
    fn note_all(&self, log: &Log) {
        let Some(device) = &self.device else { return };
        let nodes = device.nodes_of_each().max(1);
        for number in 0..device.engines() {
            let (engine_ordinal, node_ordinal) = (number / nodes, number % nodes);
            self.note(log, EngineId { engine_ordinal, node_ordinal });
        }
    }
}

impl Watch {
    fn made(
        &self,
        entry: Entry,
        os_handle: OsHandle,
        result: Result<DriverHandle, Status>,
    ) -> Result<DriverHandle, Status> {
        if let Ok(handle) = result {
            self.log.note(Event::Made { entry, handle, os_handle });
        }
        result
    }
}

impl DriverLayer for Watch {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn ddi_version(&self) -> DdiVersion {
        self.inner.ddi_version()
    }

    fn before(&self, entry: Entry, call: &dyn Fn() -> DdiCall) -> Result<(), Status> {
        if is_judged(entry) {
            self.log.note(Event::Called(call()));
        }
        Ok(())
    }

    fn after(&self, entry: Entry, status: Option<Status>) {
        self.log.note(Event::Returned(entry, status));
    }

    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status> {
        let (log, truth) = (self.log.clone(), self.truth.clone());
        let callbacks = Arc::new(Reports { inner: start.callbacks, log, truth });
        self.inner.start_device(level, StartInfo { callbacks, ..start })
    }

    fn query_adapter_caps(&self, level: &Passive) -> AdapterCaps {
        let caps = self.inner.query_adapter_caps(level);
        self.log.note(Event::Caps(Box::new(caps.clone())));
        caps
    }

    fn create_device(&self, level: &Passive, args: CreateDevice) -> Result<DriverHandle, Status> {
        self.made(Entry::CreateDevice, OsHandle(0), self.inner.create_device(level, args))
    }

    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        self.made(Entry::CreateContext, args.os_handle, self.inner.create_context(level, args))
    }

    fn create_hw_queue(
        &self,
        level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        self.made(Entry::CreateHwQueue, args.os_handle, self.inner.create_hw_queue(level, args))
    }

    fn create_native_fence(
        &self,
        level: &Passive,
        args: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status> {
        let os_handle = args.os_handle;
        let result = self.inner.create_native_fence(level, args);
        if let Ok((handle, _)) = result {
            let entry = Entry::CreateNativeFence;
            self.log.note(Event::Made { entry, handle, os_handle });
        }
        result
    }

    fn open_native_fence(
        &self,
        level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        self.made(Entry::OpenNativeFence, OsHandle(0), self.inner.open_native_fence(level, args))
    }

    fn create_doorbell(
        &self,
        level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        let (os_handle, given) = (args.os_handle, args.private_data.len());
        let result = self.inner.create_doorbell(level, args);
        if result.is_ok() {
            self.log.note(Event::DoorbellData(given, args.private_data.len()));
        }
        self.made(Entry::CreateDoorbell, os_handle, result)
    }

    fn submit_command_virtual(
        &self,
        level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        let result = self.inner.submit_command_virtual(level, args);
        if result.is_err() {
            self.log.note(Event::Refused(args.engine, args.submission_fence_id));
        }
        result
    }

    fn submit_command(&self, level: &Dispatch, args: SubmitCommandPhysical) -> Result<(), Status> {
        let (engine, id) = (args.engine, args.submission_fence_id);
        let result = self.inner.submit_command(level, args);
        if result.is_err() {
            self.log.note(Event::Refused(engine, id));
        }
        result
    }

    fn build_paging_buffer(
        &self,
        level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status> {
        let Some((bytes, buffer)) = operation.commands() else {
            return self.inner.build_paging_buffer(level, operation);
        };
        let state = || (buffer.used(), buffer.multipass_offset());
        let before = state();
        let result = self.inner.build_paging_buffer(level, operation);
        let now = state();
        self.log.note(Event::Paged(Paged {
            bytes,
            used: (before.0, now.0),
            multipass_offset: (before.1, now.1),
            status: status_of(result),
        }));
        result
    }

    fn connect_doorbell(
        &self,
        level: &Passive,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        let result = self.inner.connect_doorbell(level, doorbell, flags);
        if let Ok(connected) = &result {
            self.log.note(Event::Connected(connected.status));
        }
        result
    }

    fn suspend_context(
        &self,
        level: &Passive,
        context: DriverHandle,
        suspend_fence: u64,
    ) -> Result<bool, Status> {
        let result = self.inner.suspend_context(level, context, suspend_fence);
        if let Ok(complete) = result {
            self.log.note(Event::Suspended { context, suspend_fence, complete });
        }
        result
    }

    fn query_segments(&self, level: &Passive) -> Vec<Segment> {
        let segments = self.inner.query_segments(level);
        for (number, segment) in segments.iter().enumerate() {
            self.log.note(Event::Segment(number, segment.bytes));
        }
        segments
    }

    fn query_user_mode_submission_caps(&self, level: &Passive) -> UserModeSubmissionCaps {
        let caps = self.inner.query_user_mode_submission_caps(level);
        self.log.note(Event::DoorbellBytes(caps.doorbell_size_bytes));
        caps
    }

    fn set_power_state(
        &self,
        level: &Passive,
        state: DevicePowerState,
        action: PowerAction,
    ) -> Result<(), Status> {
        let result = self.inner.set_power_state(level, state, action);
        self.log.note(Event::Power(state, action, status_of(result)));
        result
    }

    fn set_power_component_f_state(
        &self,
        level: Irql<'_>,
        engine: EngineId,
        state: ComponentState,
    ) -> Result<(), Status> {
        let result = self.inner.set_power_component_f_state(level, engine, state);
        self.log.note(Event::ComponentPower(engine, state, status_of(result)));
        result
    }

    fn dpc_routine(&self, level: &Dispatch) {
        // Begun in a run: an agent that is started earlier would keep a machine that never runs.
        self.limit.iter().for_each(Limit::begin);
        self.inner.dpc_routine(level);
    }

    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool {
        self.truth.note_all(&self.log);
        let ours = self.inner.interrupt_routine(level);
        self.log.note(Event::Interrupted(ours));
        ours
    }

    fn query_current_fence(&self, level: &Dispatch, engine: EngineId) -> Result<u32, Status> {
        self.truth.note(&self.log, engine);
        let result = self.inner.query_current_fence(level, engine);
        if let Ok(id) = result {
            self.truth.note(&self.log, engine);
            self.log.note(Event::CurrentFence(engine, id));
        }
        result
    }

    fn query_dependent_engine_group(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<u64, Status> {
        let result = self.inner.query_dependent_engine_group(level, engine);
        if let Ok(group) = result {
            self.log.note(Event::DependentEngines(engine, group));
        }
        result
    }

    fn query_engine_status(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<EngineStatus, Status> {
        let result = self.inner.query_engine_status(level, engine);
        if let Ok(status) = &result {
            self.log.note(Event::EngineStatus(status.clone()));
        }
        result
    }

    fn collect_debug_info(
        &self,
        level: &Passive,
        engine: Option<EngineId>,
        reason: DebugReason,
    ) -> Result<DebugInfo, Status> {
        let info = self.inner.collect_debug_info(level, engine, reason)?;
        self.log.note(Event::DebugText(info.text.len()));
        Ok(info)
    }

    fn reset_engine(&self, level: &Passive, engine: EngineId) -> Result<u32, Status> {
        let result = self.inner.reset_engine(level, engine);
        if let Ok(id) = result {
            self.log.note(Event::EngineReset(engine, id));
        }
        result
    }
}

fn status_of(result: Result<(), Status>) -> Status {
    result.err().unwrap_or(Status::SUCCESS)
}

/// The kernel as the driver sees it, with what the driver reports.
struct Reports {
    inner: Arc<dyn Callbacks>,
    log: Log,
    truth: Truth,
}

impl CallbackLayer for Reports {
    fn inner(&self) -> &dyn Callbacks {
        &*self.inner
    }

    fn notify_interrupt(&self, level: &Dirql<'_>, data: InterruptData) {
        if let InterruptData::DmaCompleted { engine, .. }
        | InterruptData::DmaPreempted { engine, .. } = data
        {
            self.truth.note(&self.log, engine);
        }
        self.log.note(Event::Report(data.clone(), level.is_interrupt()));
        self.inner.notify_interrupt(level, data);
    }

    fn queue_dpc(&self, level: &Dirql<'_>) {
        self.log.note(Event::QueuedDpc);
        self.inner.queue_dpc(level);
    }

    fn notify_dpc(&self, level: &Dispatch) {
        self.log.note(Event::NotifiedDpc);
        self.inner.notify_dpc(level);
    }

    fn disconnect_doorbell(
        &self,
        level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        self.log.note(Event::Disconnects { hw_queue, doorbell });
        self.inner.disconnect_doorbell(level, hw_queue, doorbell, reason)
    }

    fn create_context_allocation(
        &self,
        level: &Passive,
        args: CreateContextAllocation,
    ) -> Result<ContextAllocation, Status> {
        let made = self.inner.create_context_allocation(level, args)?;
        self.log.note(Event::SaveArea(made.os_handle));
        Ok(made)
    }

    fn destroy_context_allocation(
        &self,
        level: &Passive,
        allocation: OsHandle,
    ) -> Result<(), Status> {
        self.log.note(Event::SaveAreaEnds(allocation));
        self.inner.destroy_context_allocation(level, allocation)
    }

    fn invalidate_hw_context(
        &self,
        level: &Passive,
        context: OsHandle,
        loss: HwContextLoss,
    ) -> Result<(), Status> {
        self.log.note(Event::Invalidated(context, loss));
        self.inner.invalidate_hw_context(level, context, loss)
    }
}
