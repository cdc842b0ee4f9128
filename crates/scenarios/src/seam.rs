//! A driver layer that records calls for a scenario's check and can omit one step. It changes
//! nothing else, takes no lock and accesses no shared word, so it adds no choice to the run.

use crate::left_out::LeftOut;
use crate::race::Run;
use std::sync::{Arc, OnceLock};
use tidegate::Platform;
use tidegate::calls::CurrentValueView;
use tidegate::ddi::doorbell::{ConnectDoorbellFlags, ConnectedDoorbell, CreateDoorbell};
use tidegate::ddi::fence::{
    OpenNativeFence, UpdateCurrentMode, UpdateCurrentValue, UpdateMonitoredValue,
};
use tidegate::ddi::memory::PagingOperation;
use tidegate::ddi::queue::{CreateHwQueue, SubmitCommandVirtual};
use tidegate::ddi::scheduling::SetContextSchedulingProperties;
use tidegate::ddi::{
    CallbackLayer, Callbacks, ComponentState, DebugInfo, DebugReason, DevicePowerState, Dirql,
    DisconnectReason, Dispatch, Driver, DriverHandle, DriverLayer, EngineId, EngineStatus,
    HwContextLoss, InterruptData, InterruptService, Irql, NoHint, OsHandle, Passive, PowerAction,
    PreemptCommand, StartInfo, Status, SubmitCommandFlags,
};
use tidegate::explorer::Probe;
use tidegate::gpu_abi::DOORBELL_VALUE_WORD;
use tidegate::platform::{CpuTime, Event, Page, Step, Word, once};

/// Numbers of the notes that the layer takes.
pub(crate) mod notes {
    /// UpdateMonitoredValues was called for a waiter, with any value but the maximum.
    pub(crate) const ARMED: usize = 0;
    /// The interrupt routine ran.
    pub(crate) const INTERRUPTED: usize = 1;
    /// The kernel disconnected a doorbell.
    pub(crate) const DISCONNECTED: usize = 2;
    /// Engine 0 or the adapter was powered down.
    pub(crate) const UNPOWERED: usize = 3;
    /// The driver victimised a doorbell.
    pub(crate) const VICTIMISED: usize = 4;
    /// UpdateNativeFenceLogs was called. The value is the number of queues.
    pub(crate) const FLUSHED: usize = 5;
    /// Engine 0 or the adapter was powered up.
    pub(crate) const POWERED: usize = 6;
    /// Value of the watched fence when a context was suspended.
    pub(crate) const SUSPENDED: usize = 7;
    /// DxgkDdiPreemptCommand was called.
    pub(crate) const REQUESTED: usize = 8;
    /// A preempted packet was resubmitted.
    pub(crate) const RESUBMITTED: usize = 9;
    /// A second preempted packet was resubmitted.
    pub(crate) const RESUBMITTED_AGAIN: usize = 10;
    /// A reset of an engine or the adapter began.
    pub(crate) const RESET: usize = 11;
    /// The hardware was resumed after a reset.
    pub(crate) const RESUMED: usize = 12;
    /// CurrentValue address of the native fence opened first, in its process.
    pub(crate) const FIRST_FENCE_AT: usize = 13;
    /// CurrentValue address of the native fence opened second.
    pub(crate) const SECOND_FENCE_AT: usize = 14;
    /// The interrupt routine ran for the second time.
    pub(crate) const INTERRUPTED_AGAIN: usize = 15;
    /// The driver reported signalled native fences.
    pub(crate) const REPORTED: usize = 16;
    /// The driver reported signalled native fences for the second time.
    pub(crate) const REPORTED_AGAIN: usize = 17;
    /// First number available to scenarios.
    pub(crate) const OWN: usize = 18;
}

/// Maximum number of fences whose MonitoredValue is watched.
const WATCHED: usize = 4;

/// The MonitoredValue cells that the kernel has updated.
#[derive(Clone, Default)]
pub(crate) struct Monitored {
    cells: Arc<[OnceLock<(DriverHandle, Word)>; WATCHED]>,
}

impl Monitored {
    fn note(&self, update: &UpdateMonitoredValue<'_>) {
        for cell in self.cells.iter() {
            let (fence, _) =
                once::make_alone(cell, || (update.fence, update.monitored_value.clone()));
            if *fence == update.fence {
                return;
            }
        }
    }

    /// Returns whether every updated MonitoredValue is disarmed. Must be called outside of the run,
    /// because its loads would be steps of the run.
    pub(crate) fn all_disarmed(&self) -> bool {
        self.cells.iter().filter_map(OnceLock::get).all(|(_, word)| word.load() == u64::MAX)
    }
}

/// The first doorbell of a world: its kernel handles and its first physical page.
#[derive(Clone, Default)]
pub(crate) struct FirstDoorbell(Arc<FirstDoorbellParts>);

#[derive(Default)]
struct FirstDoorbellParts {
    callbacks: OnceLock<Arc<dyn Callbacks>>,
    queue: OnceLock<OsHandle>,
    doorbell: OnceLock<OsHandle>,
    page: OnceLock<Page>,
    /// Set by scenarios that use `last_value`, because the load is an additional step.
    loads: OnceLock<()>,
    last_value: OnceLock<u64>,
}

impl FirstDoorbell {
    /// Makes the driver disconnect the doorbell. Returns `None` if there is no doorbell.
    pub(crate) fn disconnect(
        &self,
        level: &Passive,
        reason: DisconnectReason,
    ) -> Option<Result<(), Status>> {
        let FirstDoorbellParts { callbacks, queue, doorbell, .. } = &*self.0;
        Some(callbacks.get()?.disconnect_doorbell(level, *queue.get()?, *doorbell.get()?, reason))
    }

    /// Enables loading the page before the hardware loads it for the last time.
    pub(crate) fn load_before_disconnect(&self) {
        once::make_alone(&self.0.loads, || ());
    }

    fn note_last_value(&self) {
        if self.0.loads.get().is_some()
            && let Some(page) = self.0.page.get()
        {
            once::make_first(&self.0.last_value, || page.word(DOORBELL_VALUE_WORD).load());
        }
    }

    /// Returns the page's value at the end of its first connect; `None` while it is connected.
    pub(crate) fn last_value(&self) -> Option<u64> {
        self.0.last_value.get().copied()
    }

    /// Returns the value last stored to the page of the first connect.
    pub(crate) fn rung(&self) -> Option<u64> {
        self.0.page.get().map(|page| page.word(DOORBELL_VALUE_WORD).load())
    }
}

/// The layer's records for the check of a run, and the step that it omits.
#[derive(Clone)]
pub(crate) struct Seen {
    /// The notes of the layer and of the scenario.
    pub(crate) probe: Probe,
    /// The MonitoredValue cells that the kernel has updated.
    pub(crate) monitored: Monitored,
    /// The fence to load when a context has been suspended.
    pub(crate) watched: Arc<OnceLock<CurrentValueView>>,
    /// The first doorbell that was created.
    pub(crate) first: FirstDoorbell,
    /// An event for the first query of an engine's status after a time.
    sampled: Arc<OnceLock<(Event, CpuTime)>>,
    left_out: Arc<OnceLock<LeftOut>>,
}

impl Seen {
    /// Creates an empty record. `LeftOut::Nothing` may be changed once later.
    pub(crate) fn new(left_out: LeftOut) -> Seen {
        let seen = Seen {
            probe: Probe::new(),
            monitored: Monitored::default(),
            watched: Arc::default(),
            first: FirstDoorbell::default(),
            sampled: Arc::default(),
            left_out: Arc::default(),
        };
        if left_out != LeftOut::Nothing {
            seen.leave_out(left_out);
        }
        seen
    }

    /// Makes the driver omit a step from now on.
    pub(crate) fn leave_out(&self, left_out: LeftOut) {
        once::make_alone(&self.left_out, || left_out);
    }

    /// Calls `set` for the event of a sampled engine, if one is wanted and its time has come.
    fn note_sample(&self, now: impl Fn() -> CpuTime) {
        if let Some((event, after)) = self.sampled.get()
            && now() > *after
        {
            event.set(Step::ThreadWake);
        }
    }

    /// Sets `event` when the kernel queries an engine's status after this time.
    pub(crate) fn note_samples(&self, event: Event, after: CpuTime) {
        once::make_alone(&self.sampled, || (event, after));
    }

    /// Returns whether a note was taken.
    pub(crate) fn noted(&self, note: usize) -> bool {
        self.probe.seen(note).is_some()
    }

    fn leaves_out(&self, step: LeftOut) -> bool {
        self.left_out.get() == Some(&step)
    }

    fn now(&self) -> LeftOut {
        self.left_out.get().copied().unwrap_or(LeftOut::Nothing)
    }
}

/// The driver layer.
pub(crate) struct Seam {
    platform: Platform,
    inner: Arc<dyn Driver>,
    seen: Seen,
    /// The hardware queues that interrupts name instead of their own: the first ones created.
    /// `None` leaves interrupts unchanged.
    names_queues: Option<QueuesMade>,
    /// Whether every connect victimises the first doorbell, like a driver without a record of them.
    victimises_again: bool,
    routine: Routine,
    /// The first doorbell or device whose destruction was omitted, and whether it happened later.
    late_end: (OnceLock<DriverHandle>, OnceLock<()>),
}

impl Seam {
    pub(crate) fn new(run: &Run<'_>, inner: Arc<dyn Driver>, seen: &Seen) -> Seam {
        Seam {
            platform: run.platform.clone(),
            inner,
            seen: seen.clone(),
            names_queues: run.names_all_queues.then(QueuesMade::default),
            victimises_again: run.first_doorbell_lost,
            routine: Routine::new(run.platform),
            late_end: Default::default(),
        }
    }
}

/// State of the interrupt routine. Its words are accessed only if a bug needs them.
#[derive(Clone)]
struct Routine {
    /// 1 while the routine runs.
    running: Word,
    /// 1 if the routine has reported a signalled fence.
    reported: Word,
}

impl Routine {
    fn new(platform: &Platform) -> Routine {
        let words = platform.page(2);
        Routine { running: words.word(0), reported: words.word(1) }
    }
}

/// An interrupt line that drops interrupts raised while the interrupt routine runs.
struct DeafLine {
    inner: Arc<dyn InterruptService>,
    routine: Routine,
}

impl InterruptService for DeafLine {
    fn raise(&self) {
        if self.routine.running.load() == 0 {
            self.inner.raise();
        }
    }

    fn turn_ended(&self) {
        self.inner.turn_ended();
    }
}

/// Maximum number of queues that interrupts name.
const NAMED: usize = 2;

/// The hardware queues that were created first.
type QueuesMade = Arc<[OnceLock<DriverHandle>; NAMED]>;

/// The kernel's callbacks for the driver behind a [`Seam`].
struct Callback {
    inner: Arc<dyn Callbacks>,
    platform: Platform,
    seen: Seen,
    /// Set when a worker was given the callback.
    handed_over: OnceLock<()>,
    names_queues: Option<QueuesMade>,
    routine: Routine,
}

impl CallbackLayer for Callback {
    fn inner(&self) -> &dyn Callbacks {
        &*self.inner
    }

    fn notify_interrupt(&self, level: &Dirql<'_>, mut data: InterruptData) {
        if matches!(data, InterruptData::NativeFenceSignaled { .. }) {
            if self.seen.leaves_out(LeftOut::SignalReport) {
                return;
            }
            self.seen.probe.note_either(notes::REPORTED, notes::REPORTED_AGAIN, 1);
            if self.seen.leaves_out(LeftOut::SecondAtAddress)
                && self.routine.reported.exchange(1) != 0
            {
                return;
            }
        }
        if matches!(data, InterruptData::HwQueuePageFaulted { .. })
            && self.seen.leaves_out(LeftOut::FaultReport)
        {
            return;
        }
        if let InterruptData::HwQueuesSignaled { hw_queues, .. } = &mut data
            && let Some(made) = &self.names_queues
        {
            *hw_queues = made.iter().filter_map(OnceLock::get).copied().collect();
        }
        self.inner.notify_interrupt(level, data);
    }

    fn disconnect_doorbell(
        &self,
        level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        self.seen.probe.note(notes::VICTIMISED, 1);
        match self.seen.now() {
            LeftOut::VictimNotice => return Ok(()),
            // Only once, because a stopped machine must wind down without new agents.
            LeftOut::CallbackOwner if self.handed_over.set(()).is_ok() => {
                let kernel = self.inner.clone();
                let worker = self.platform.spawn("callback", move || {
                    let _gone_already =
                        kernel.disconnect_doorbell(&Passive::enter(), hw_queue, doorbell, reason);
                });
                worker.join();
                return Ok(());
            }
            _ => {}
        }
        self.inner.disconnect_doorbell(level, hw_queue, doorbell, reason)
    }

    fn invalidate_hw_context(
        &self,
        level: &Passive,
        context: OsHandle,
        loss: HwContextLoss,
    ) -> Result<(), Status> {
        if self.seen.leaves_out(LeftOut::Blame) {
            return Ok(());
        }
        self.inner.invalidate_hw_context(level, context, loss)
    }
}

impl DriverLayer for Seam {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status> {
        once::make_alone(&self.seen.first.0.callbacks, || start.callbacks.clone());
        let callbacks = Callback {
            inner: start.callbacks,
            platform: self.platform.clone(),
            seen: self.seen.clone(),
            handed_over: OnceLock::new(),
            names_queues: self.names_queues.clone(),
            routine: self.routine.clone(),
        };
        self.inner.start_device(level, StartInfo { callbacks: Arc::new(callbacks), ..start })
    }

    /// Without blame, the driver has no fact about the work of an engine.
    fn query_engine_status(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<EngineStatus, Status> {
        self.seen.note_sample(|| self.platform.now());
        match self.seen.leaves_out(LeftOut::Blame) {
            true => Err(Status::NOT_SUPPORTED),
            false => self.inner.query_engine_status(level, engine),
        }
    }

    fn collect_debug_info(
        &self,
        level: &Passive,
        engine: Option<EngineId>,
        reason: DebugReason,
    ) -> Result<DebugInfo, Status> {
        match self.seen.leaves_out(LeftOut::Blame) {
            true => Ok(DebugInfo::default()),
            false => self.inner.collect_debug_info(level, engine, reason),
        }
    }

    fn create_hw_queue(
        &self,
        level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        once::make_alone(&self.seen.first.0.queue, || args.os_handle);
        let queue = self.inner.create_hw_queue(level, args)?;
        if let Some(made) = &self.names_queues
            && let Some(free) = made.iter().find(|place| place.get().is_none())
        {
            once::make_alone(free, || queue);
        }
        Ok(queue)
    }

    fn submit_command_virtual(
        &self,
        level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        if args.flags.contains(SubmitCommandFlags::RESUBMISSION) {
            self.seen.probe.note_either(notes::RESUBMITTED, notes::RESUBMITTED_AGAIN, 1);
            if self.seen.leaves_out(LeftOut::Resubmission) {
                return Ok(());
            }
        }
        self.inner.submit_command_virtual(level, args)
    }

    fn preempt_command(&self, level: &Dispatch, args: PreemptCommand) -> Result<(), Status> {
        self.seen.probe.note(notes::REQUESTED, u64::from(args.preemption_fence_id));
        if self.seen.leaves_out(LeftOut::Preemption)
            && let Some(kernel) = self.seen.first.0.callbacks.get()
        {
            let last_completed_fence_id = self.inner.query_current_fence(level, args.engine)?;
            let preemption_fence_id = args.preemption_fence_id;
            let at_once = level.raise_to_dirql(&());
            kernel.notify_interrupt(
                &at_once,
                InterruptData::DmaPreempted {
                    engine: args.engine,
                    preemption_fence_id,
                    last_completed_fence_id,
                },
            );
            kernel.queue_dpc(&at_once);
            return Ok(());
        }
        self.inner.preempt_command(level, args)
    }

    fn suspend_context(
        &self,
        level: &Passive,
        context: DriverHandle,
        suspend_fence: u64,
    ) -> Result<bool, Status> {
        let done = match self.seen.now() {
            LeftOut::Suspension => true,
            _ => self.inner.suspend_context(level, context, suspend_fence)?,
        };
        if let Some(value) = self.seen.watched.get() {
            self.seen.probe.note(notes::SUSPENDED, value.load());
        }
        Ok(done)
    }

    fn update_monitored_values(&self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]) {
        if let Some(armed) = fences.iter().find(|f| f.value != u64::MAX) {
            self.seen.probe.note(notes::ARMED, armed.value);
        }
        fences.iter().for_each(|f| self.seen.monitored.note(f));
        match self.seen.now() {
            LeftOut::CpuBarrier => {
                return fences.iter().for_each(|f| f.monitored_value.store(f.value));
            }
            LeftOut::ShadowUpdate => {
                fences.iter().for_each(|f| f.monitored_value.store(f.value));
                return self.platform.fence();
            }
            LeftOut::Disarm if fences.iter().all(|f| f.value == u64::MAX) => return,
            _ => {}
        }
        self.inner.update_monitored_values(level, fences);
    }

    fn update_current_values_from_cpu(
        &self,
        level: &Dispatch,
        fences: &[UpdateCurrentValue<'_>],
        mode: UpdateCurrentMode,
    ) {
        if self.seen.leaves_out(LeftOut::Notification) {
            for fence in fences {
                fence.current_value.map(|cell| cell.store(fence.value));
            }
            return;
        }
        self.inner.update_current_values_from_cpu(level, fences, mode);
    }

    fn build_paging_buffer(
        &self,
        level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status> {
        let is_hold =
            matches!(operation, PagingOperation::HoldEngines | PagingOperation::ReleaseEngines);
        if is_hold && self.seen.leaves_out(LeftOut::EngineHold) {
            return Ok(());
        }
        self.inner.build_paging_buffer(level, operation)
    }

    fn update_native_fence_logs(&self, level: &Dispatch, hw_queues: &[DriverHandle]) {
        self.seen.probe.note(notes::FLUSHED, hw_queues.len() as u64);
        if !self.seen.leaves_out(LeftOut::LogFlush) {
            self.inner.update_native_fence_logs(level, hw_queues);
        }
    }

    fn create_doorbell(
        &self,
        level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        once::make_alone(&self.seen.first.0.doorbell, || args.os_handle);
        self.inner.create_doorbell(level, args)
    }

    fn connect_doorbell(
        &self,
        level: &Passive,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        if let Some(late) = self.late_end.0.get()
            && self.late_end.1.set(()).is_ok()
        {
            self.inner.destroy_doorbell(level, *late);
        }
        if self.victimises_again {
            // The kernel refuses a destroyed doorbell.
            let _refused_when_gone = self.seen.first.disconnect(level, DisconnectReason::Abort);
        }
        let mut connected = self.inner.connect_doorbell(level, doorbell, flags)?;
        once::make_alone(&self.seen.first.0.page, || connected.page.clone());
        if self.seen.leaves_out(LeftOut::RingHint) {
            connected.hint = Arc::new(NoHint);
        }
        Ok(connected)
    }

    fn disconnect_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        self.seen.probe.note(notes::DISCONNECTED, 1);
        self.seen.first.note_last_value();
        if !self.seen.leaves_out(LeftOut::Disconnection) {
            self.inner.disconnect_doorbell(level, doorbell);
        }
    }

    fn destroy_device(&self, level: &Passive, device: DriverHandle) {
        if self.seen.leaves_out(LeftOut::DeviceEnd) && self.late_end.0.set(device).is_ok() {
            let driver = self.inner.clone();
            self.platform.spawn("driver", move || driver.destroy_device(&Passive::enter(), device));
            return;
        }
        self.inner.destroy_device(level, device);
    }

    fn destroy_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        if self.seen.leaves_out(LeftOut::DoorbellEnd) && self.late_end.0.set(doorbell).is_ok() {
            return;
        }
        self.inner.destroy_doorbell(level, doorbell);
    }

    fn reset_engine(&self, level: &Passive, engine: EngineId) -> Result<u32, Status> {
        self.seen.probe.note(notes::RESET, 1);
        let aborted = self.inner.reset_engine(level, engine)?;
        self.seen.probe.note(notes::RESUMED, 1);
        Ok(if self.seen.leaves_out(LeftOut::AbortedId) { aborted.wrapping_add(1) } else { aborted })
    }

    fn reset_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.seen.probe.note(notes::RESET, 1);
        self.inner.reset_hw_engine(level, engine)
    }

    fn resume_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        if !self.seen.leaves_out(LeftOut::Restart) {
            self.inner.resume_hw_engine(level, engine)?;
        }
        self.seen.probe.note(notes::RESUMED, 1);
        Ok(())
    }

    fn reset_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        self.seen.probe.note(notes::RESET, 1);
        self.inner.reset_from_timeout(level)
    }

    fn restart_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        if !self.seen.leaves_out(LeftOut::Restart) {
            self.inner.restart_from_timeout(level)?;
        }
        self.seen.probe.note(notes::RESUMED, 1);
        Ok(())
    }

    fn resume_context(&self, level: &Passive, context: DriverHandle) -> Result<(), Status> {
        match self.seen.now() {
            LeftOut::Resume => Ok(()),
            _ => self.inner.resume_context(level, context),
        }
    }

    fn set_context_scheduling_properties(
        &self,
        level: &Passive,
        args: SetContextSchedulingProperties,
    ) -> Result<(), Status> {
        match self.seen.now() {
            LeftOut::Priority => Ok(()),
            _ => self.inner.set_context_scheduling_properties(level, args),
        }
    }

    fn set_power_state(
        &self,
        level: &Passive,
        state: DevicePowerState,
        action: PowerAction,
    ) -> Result<(), Status> {
        self.seen
            .probe
            .note(if state == DevicePowerState::D0 { notes::POWERED } else { notes::UNPOWERED }, 1);
        self.inner.set_power_state(level, state, action)
    }

    fn set_power_component_f_state(
        &self,
        level: Irql<'_>,
        engine: EngineId,
        state: ComponentState,
    ) -> Result<(), Status> {
        if engine == EngineId::of_node(0) {
            let is_up = state == ComponentState::F0;
            self.seen.probe.note(if is_up { notes::POWERED } else { notes::UNPOWERED }, 1);
        }
        self.inner.set_power_component_f_state(level, engine, state)
    }

    fn open_native_fence(
        &self,
        level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        self.seen.probe.note_either(
            notes::FIRST_FENCE_AT,
            notes::SECOND_FENCE_AT,
            args.current_value_gpu_va,
        );
        self.inner.open_native_fence(level, args)
    }

    fn connect_interrupt(&self, level: &Passive, service: Arc<dyn InterruptService>) {
        match self.seen.now() {
            LeftOut::InterruptInRoutine => {
                let deaf = DeafLine { inner: service, routine: self.routine.clone() };
                self.inner.connect_interrupt(level, Arc::new(deaf));
            }
            _ => self.inner.connect_interrupt(level, service),
        }
    }

    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool {
        self.seen.probe.note_either(notes::INTERRUPTED, notes::INTERRUPTED_AGAIN, 1);
        match self.seen.now() {
            LeftOut::InterruptInRoutine => {
                self.routine.running.exchange(1);
                let ours = self.inner.interrupt_routine(level);
                self.routine.running.exchange(0);
                ours
            }
            LeftOut::SecondAtAddress => {
                self.routine.reported.exchange(0);
                self.inner.interrupt_routine(level)
            }
            _ => self.inner.interrupt_routine(level),
        }
    }
}
