//! Owns a driver around the driver: it tells a scenario's check what passed through the DDI, and
//! leaves out one step when it is told to. It changes nothing else, takes no lock and touches no
//! shared word of its own, so it adds no choice.

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
    CallbackLayer, Callbacks, ComponentState, DevicePowerState, Dirql, DisconnectReason, Dispatch,
    Driver, DriverHandle, DriverLayer, EngineId, HwContextLoss, InterruptData, InterruptService,
    OsHandle, Passive, PowerAction, PreemptCommand, RingHint, StartInfo, Status,
    SubmitCommandFlags,
};
use tidegate::explorer::Probe;
use tidegate::gpu_abi::DOORBELL_VALUE_WORD;
use tidegate::platform::{Page, Word};

/// The step that the wrapper leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// Nothing.
    Nothing,
    /// The barrier of UpdateMonitoredValues.
    CpuBarrier,
    /// The word to the CMP in UpdateMonitoredValues: MonitoredValue stands in memory behind a
    /// barrier, and the shadow is old.
    ShadowUpdate,
    /// The hint after a doorbell's store: nobody looks whether the engine sleeps.
    RingHint,
    /// UpdateMonitoredValues to the maximum, when nobody waits any more.
    Disarm,
    /// The look at waiting queues in UpdateCurrentValuesFromCpu: the value is stored, and that is
    /// all.
    Notification,
    /// The hold of engines while fence storage moves, and its end.
    EngineHold,
    /// The call by which the kernel learns that a doorbell is taken away.
    VictimNotice,
    /// All of UpdateNativeFenceLogs.
    LogFlush,
    /// Taking a context's queues off the run list: the driver says that it is done.
    Suspension,
    /// Putting them back.
    Resume,
    /// A context's new place among others: the driver says that it is done.
    Priority,
    /// The hardware's part in a preemption: the driver answers every request itself, by what is
    /// complete at that moment.
    Preemption,
    /// Packets that come back: the driver says that they are on their way.
    Resubmission,
    /// What a fence signalled interrupt reports to the kernel.
    SignalReport,
    /// The reports of signalled fences of one interrupt, except the first: right for a bug of
    /// fences at one address, where a scenario has all its fences at one address.
    SecondAtAddress,
    /// An interrupt that is raised while the interrupt routine runs.
    InterruptInRoutine,
    /// What an interrupt reports of a hardware queue that faulted.
    FaultReport,
    /// What an engine's reset says of whose work it cut off.
    Blame,
    /// The truth about the packet that an engine's reset cut off: the driver names the next one.
    AbortedId,
    /// The hardware's going on after a reset: the driver says that it does.
    Restart,
    /// Taking hardware from a doorbell whose device is lost: the driver says nothing, and keeps it.
    Disconnection,
    /// The driver's part in the end of a doorbell, until the next doorbell is connected: the
    /// destroy call of the first doorbell returns before the doorbell has ended.
    DoorbellEnd,
    /// The wait for the end of the first device: its destroy call returns, and another agent makes
    /// the driver's call.
    DeviceEnd,
    /// That the callback of a victimised doorbell runs on the agent that connects: a worker makes
    /// it, and the driver waits.
    CallbackOwner,
}

/// Notes that the wrapper takes, by number.
pub(crate) mod notes {
    /// UpdateMonitoredValues was called for a waiter (any value but the maximum).
    pub(crate) const ARMED: usize = 0;
    /// The interrupt routine ran.
    pub(crate) const INTERRUPTED: usize = 1;
    /// A doorbell was given hardware.
    pub(crate) const CONNECTED: usize = 2;
    /// NotifyWorkSubmission was called.
    pub(crate) const NOTIFIED: usize = 3;
    /// A doorbell was taken away from a queue.
    pub(crate) const VICTIMISED: usize = 4;
    /// UpdateNativeFenceLogs was called, for so many queues.
    pub(crate) const FLUSHED: usize = 5;
    /// A doorbell was disconnected by the kernel.
    pub(crate) const DISCONNECTED: usize = 6;
    /// Power was taken, of an engine or of the adapter.
    pub(crate) const UNPOWERED: usize = 7;
    /// Power was given back.
    pub(crate) const POWERED: usize = 8;
    /// A context was suspended when the watched value was this.
    pub(crate) const SUSPENDED: usize = 9;
    /// DxgkDdiPreemptCommand was called.
    pub(crate) const ASKED: usize = 10;
    /// A packet has come back and was submitted again.
    pub(crate) const RESUBMITTED: usize = 11;
    /// The same for a second one.
    pub(crate) const RESUBMITTED_TOO: usize = 12;
    /// The hardware is being reset, an engine or all of it.
    pub(crate) const RESET: usize = 13;
    /// It goes on.
    pub(crate) const WENT_ON: usize = 14;
    /// Where CurrentValue of the native fence stands that was opened first, in its process.
    pub(crate) const FIRST_FENCE_AT: usize = 15;
    /// The same for the native fence that was opened second.
    pub(crate) const SECOND_FENCE_AT: usize = 16;
    /// The interrupt routine ran a second time.
    pub(crate) const INTERRUPTED_AGAIN: usize = 17;
    /// The driver reported signalled native fences.
    pub(crate) const REPORTED: usize = 18;
    /// It did so a second time.
    pub(crate) const REPORTED_AGAIN: usize = 19;
    /// First number that a scenario may use for itself.
    pub(crate) const OWN: usize = 20;
}

/// Most fences whose MonitoredValue is watched.
const WATCHED: usize = 4;

/// The MonitoredValue cells that the kernel had updated.
#[derive(Clone, Default)]
pub(crate) struct Monitored {
    cells: Arc<[OnceLock<(DriverHandle, Word)>; WATCHED]>,
}

impl Monitored {
    fn note(&self, update: &UpdateMonitoredValue<'_>) {
        for cell in self.cells.iter() {
            let (fence, _) = cell.get_or_init(|| (update.fence, update.monitored_value.clone()));
            if *fence == update.fence {
                return;
            }
        }
    }

    /// Whether every MonitoredValue that was ever updated says that nobody waits. To be asked
    /// outside the run.
    pub(crate) fn nobody_waits(&self) -> bool {
        self.cells.iter().filter_map(OnceLock::get).all(|(_, word)| word.load() == u64::MAX)
    }
}

/// A fence's value to look at when a context has been suspended.
pub(crate) type Watched = Arc<OnceLock<CurrentValueView>>;

/// The first doorbell of a world: its names in the kernel, and the page that it first had on the
/// hardware.
#[derive(Clone, Default)]
pub(crate) struct FirstDoorbell(Arc<FirstDoorbellParts>);

#[derive(Default)]
struct FirstDoorbellParts {
    callbacks: OnceLock<Arc<dyn Callbacks>>,
    queue: OnceLock<OsHandle>,
    doorbell: OnceLock<OsHandle>,
    page: OnceLock<Page>,
    /// Set by a scenario that reads `last_look`, since the reading is a step of its own.
    looks: OnceLock<()>,
    last_look: OnceLock<u64>,
}

impl FirstDoorbell {
    /// Makes the driver disconnect the doorbell. `None` while there is no doorbell.
    pub(crate) fn take_away(
        &self,
        level: &Passive,
        reason: DisconnectReason,
    ) -> Option<Result<(), Status>> {
        let FirstDoorbellParts { callbacks, queue, doorbell, .. } = &*self.0;
        Some(callbacks.get()?.disconnect_doorbell(level, *queue.get()?, *doorbell.get()?, reason))
    }

    /// From here on the scenario reads the page before the hardware reads it for the last time.
    pub(crate) fn look_at_the_end(&self) {
        self.0.looks.get_or_init(|| ());
    }

    fn ends(&self) {
        if self.0.looks.get().is_some()
            && let Some(page) = self.0.page.get()
        {
            self.0.last_look.get_or_init(|| page.word(DOORBELL_VALUE_WORD).load());
        }
    }

    /// What stood in the page when its first connect ended; `None` while it lasts.
    pub(crate) fn last_look(&self) -> Option<u64> {
        self.0.last_look.get().copied()
    }

    /// What was stored last to the page of its first connect.
    pub(crate) fn rung(&self) -> Option<u64> {
        self.0.page.get().map(|page| page.word(DOORBELL_VALUE_WORD).load())
    }
}

/// A driver with a look at its calls.
pub(crate) struct Seam {
    pub(crate) platform: Platform,
    pub(crate) inner: Arc<dyn Driver>,
    pub(crate) probe: Probe,
    pub(crate) monitored: Monitored,
    pub(crate) watched: Watched,
    pub(crate) left_out: Omission,
    /// Interrupts that name hardware queues name these all: the first ones that were made. `None`
    /// leaves interrupts alone.
    pub(crate) names_queues: Option<QueuesMade>,
    /// The first doorbell.
    pub(crate) first: FirstDoorbell,
    /// Every connect victimises the first doorbell, as a driver may that keeps no record of what it
    /// has victimised.
    pub(crate) told_again: bool,
    pub(crate) routine: Routine,
    /// The first doorbell or device whose end was left out, and that it ended later.
    pub(crate) late_end: (OnceLock<DriverHandle>, OnceLock<()>),
}

/// Where the interrupt routine is. Its words are touched only while a bug needs them.
#[derive(Clone)]
pub(crate) struct Routine {
    /// 1 while it runs.
    running: Word,
    /// 1 when it has reported a signalled fence.
    reported: Word,
}

impl Routine {
    pub(crate) fn new(platform: &Platform) -> Routine {
        let words = platform.page(2);
        Routine { running: words.word(0), reported: words.word(1) }
    }
}

/// An interrupt line that loses interrupts while the interrupt routine runs.
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

/// What is left out: nothing before a scenario has made its world.
#[derive(Clone)]
pub(crate) struct Omission(Arc<OnceLock<LeftOut>>);

impl Omission {
    /// `Nothing` can be said otherwise later, once.
    pub(crate) fn new(left_out: LeftOut) -> Omission {
        let omission = Omission(Arc::default());
        if left_out != LeftOut::Nothing {
            omission.begin(left_out);
        }
        omission
    }

    /// From here on.
    pub(crate) fn begin(&self, left_out: LeftOut) {
        self.0.get_or_init(|| left_out);
    }

    fn now(&self) -> LeftOut {
        self.0.get().copied().unwrap_or(LeftOut::Nothing)
    }
}

/// Most hardware queues that are named.
const NAMED: usize = 2;

/// The hardware queues that were made first.
pub(crate) type QueuesMade = Arc<[OnceLock<DriverHandle>; NAMED]>;

/// The kernel's callbacks, as the driver behind a [`Seam`] sees them.
struct Callback {
    inner: Arc<dyn Callbacks>,
    platform: Platform,
    probe: Probe,
    left_out: Omission,
    /// A worker makes the callback, or has made it.
    handed_over: OnceLock<()>,
    names_queues: Option<QueuesMade>,
    routine: Routine,
}

impl CallbackLayer for Callback {
    fn inner(&self) -> &dyn Callbacks {
        &*self.inner
    }

    fn notify_interrupt(&self, level: &Dirql<'_>, mut data: InterruptData) {
        if self.left_out.now() == LeftOut::SignalReport
            && matches!(data, InterruptData::NativeFenceSignaled { .. })
        {
            return;
        }
        if matches!(data, InterruptData::NativeFenceSignaled { .. }) {
            self.probe.note_either(notes::REPORTED, notes::REPORTED_AGAIN, 1);
        }
        if self.left_out.now() == LeftOut::SecondAtAddress
            && matches!(data, InterruptData::NativeFenceSignaled { .. })
            && self.routine.reported.exchange(1) != 0
        {
            return;
        }
        if self.left_out.now() == LeftOut::FaultReport
            && matches!(data, InterruptData::HwQueuePageFaulted { .. })
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
        self.probe.note(notes::VICTIMISED, 1);
        match self.left_out.now() {
            LeftOut::VictimNotice => return Ok(()),
            // Once: a machine that is stopped for it winds down without more agents.
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
        if self.left_out.now() == LeftOut::Blame {
            return Ok(());
        }
        self.inner.invalidate_hw_context(level, context, loss)
    }
}

struct NoHint;

impl RingHint for NoHint {
    fn rung(&self) {}
}

impl DriverLayer for Seam {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status> {
        self.first.0.callbacks.get_or_init(|| start.callbacks.clone());
        let callbacks = Callback {
            inner: start.callbacks,
            platform: self.platform.clone(),
            probe: self.probe.clone(),
            left_out: self.left_out.clone(),
            handed_over: OnceLock::new(),
            names_queues: self.names_queues.clone(),
            routine: self.routine.clone(),
        };
        self.inner.start_device(level, StartInfo { callbacks: Arc::new(callbacks), ..start })
    }

    fn create_hw_queue(
        &self,
        level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        self.first.0.queue.get_or_init(|| args.os_handle);
        let queue = self.inner.create_hw_queue(level, args)?;
        if let Some(made) = &self.names_queues
            && let Some(free) = made.iter().find(|place| place.get().is_none())
        {
            free.get_or_init(|| queue);
        }
        Ok(queue)
    }

    fn submit_command_virtual(
        &self,
        level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        if args.flags.contains(SubmitCommandFlags::RESUBMISSION) {
            self.probe.note_either(notes::RESUBMITTED, notes::RESUBMITTED_TOO, 1);
            if self.left_out.now() == LeftOut::Resubmission {
                return Ok(());
            }
        }
        self.inner.submit_command_virtual(level, args)
    }

    fn preempt_command(&self, level: &Dispatch, args: PreemptCommand) -> Result<(), Status> {
        self.probe.note(notes::ASKED, u64::from(args.preemption_fence_id));
        if self.left_out.now() == LeftOut::Preemption
            && let Some(kernel) = self.first.0.callbacks.get()
        {
            let EngineId { node_ordinal, engine_ordinal } = args.engine;
            let last_completed_fence_id = self.inner.query_current_fence(level, args.engine)?;
            let preemption_fence_id = args.preemption_fence_id;
            let at_once = Dirql::enter(&());
            kernel.notify_interrupt(
                &at_once,
                InterruptData::DmaPreempted {
                    node_ordinal,
                    engine_ordinal,
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
        let done = match self.left_out.now() {
            LeftOut::Suspension => true,
            _ => self.inner.suspend_context(level, context, suspend_fence)?,
        };
        if let Some(value) = self.watched.get() {
            self.probe.note(notes::SUSPENDED, value.load());
        }
        Ok(done)
    }

    fn update_monitored_values(&self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]) {
        if let Some(armed) = fences.iter().find(|f| f.value != u64::MAX) {
            self.probe.note(notes::ARMED, armed.value);
        }
        fences.iter().for_each(|f| self.monitored.note(f));
        match self.left_out.now() {
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
        if self.left_out.now() == LeftOut::Notification {
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
        if is_hold && self.left_out.now() == LeftOut::EngineHold {
            return Ok(());
        }
        self.inner.build_paging_buffer(level, operation)
    }

    fn update_native_fence_logs(&self, level: &Dispatch, hw_queues: &[DriverHandle]) {
        self.probe.note(notes::FLUSHED, hw_queues.len() as u64);
        if self.left_out.now() != LeftOut::LogFlush {
            self.inner.update_native_fence_logs(level, hw_queues);
        }
    }

    fn create_doorbell(
        &self,
        level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        self.first.0.doorbell.get_or_init(|| args.os_handle);
        self.inner.create_doorbell(level, args)
    }

    fn connect_doorbell(
        &self,
        level: &Passive,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        self.probe.note(notes::CONNECTED, 1);
        if let Some(late) = self.late_end.0.get()
            && self.late_end.1.set(()).is_ok()
        {
            self.inner.destroy_doorbell(level, *late);
        }
        if self.told_again {
            // The kernel refuses a doorbell that has ended, which is right.
            let _refused_when_gone = self.first.take_away(level, DisconnectReason::Abort);
        }
        let mut connected = self.inner.connect_doorbell(level, doorbell, flags)?;
        self.first.0.page.get_or_init(|| connected.page.clone());
        if self.left_out.now() == LeftOut::RingHint {
            connected.hint = Arc::new(NoHint);
        }
        Ok(connected)
    }

    fn disconnect_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        self.probe.note(notes::DISCONNECTED, 1);
        self.first.ends();
        if self.left_out.now() != LeftOut::Disconnection {
            self.inner.disconnect_doorbell(level, doorbell);
        }
    }

    fn destroy_device(&self, level: &Passive, device: DriverHandle) {
        if self.left_out.now() == LeftOut::DeviceEnd && self.late_end.0.set(device).is_ok() {
            let driver = self.inner.clone();
            self.platform.spawn("driver", move || driver.destroy_device(&Passive::enter(), device));
            return;
        }
        self.inner.destroy_device(level, device);
    }

    fn destroy_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        if self.left_out.now() == LeftOut::DoorbellEnd && self.late_end.0.set(doorbell).is_ok() {
            return;
        }
        self.inner.destroy_doorbell(level, doorbell);
    }

    fn reset_engine(&self, level: &Passive, engine: EngineId) -> Result<u32, Status> {
        self.probe.note(notes::RESET, 1);
        let aborted = self.inner.reset_engine(level, engine)?;
        self.probe.note(notes::WENT_ON, 1);
        Ok(if self.left_out.now() == LeftOut::AbortedId {
            aborted.wrapping_add(1)
        } else {
            aborted
        })
    }

    fn reset_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.probe.note(notes::RESET, 1);
        self.inner.reset_hw_engine(level, engine)
    }

    fn resume_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        if self.left_out.now() != LeftOut::Restart {
            self.inner.resume_hw_engine(level, engine)?;
        }
        self.probe.note(notes::WENT_ON, 1);
        Ok(())
    }

    fn reset_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        self.probe.note(notes::RESET, 1);
        self.inner.reset_from_timeout(level)
    }

    fn restart_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        if self.left_out.now() != LeftOut::Restart {
            self.inner.restart_from_timeout(level)?;
        }
        self.probe.note(notes::WENT_ON, 1);
        Ok(())
    }

    fn resume_context(&self, level: &Passive, context: DriverHandle) -> Result<(), Status> {
        match self.left_out.now() {
            LeftOut::Resume => Ok(()),
            _ => self.inner.resume_context(level, context),
        }
    }

    fn set_context_scheduling_properties(
        &self,
        level: &Passive,
        args: SetContextSchedulingProperties,
    ) -> Result<(), Status> {
        match self.left_out.now() {
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
        self.probe
            .note(if state == DevicePowerState::D0 { notes::POWERED } else { notes::UNPOWERED }, 1);
        self.inner.set_power_state(level, state, action)
    }

    fn set_power_component_f_state(
        &self,
        level: &Dispatch,
        node_ordinal: u32,
        state: ComponentState,
    ) -> Result<(), Status> {
        self.probe
            .note(if state == ComponentState::F0 { notes::POWERED } else { notes::UNPOWERED }, 1);
        self.inner.set_power_component_f_state(level, node_ordinal, state)
    }

    fn notify_work_submission(&self, level: &Passive, hw_queue: DriverHandle) {
        self.probe.note(notes::NOTIFIED, 1);
        self.inner.notify_work_submission(level, hw_queue);
    }

    fn open_native_fence(
        &self,
        level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        self.probe.note_either(
            notes::FIRST_FENCE_AT,
            notes::SECOND_FENCE_AT,
            args.current_value_gpu_va,
        );
        self.inner.open_native_fence(level, args)
    }

    fn connect_interrupt(&self, level: &Passive, service: Arc<dyn InterruptService>) {
        match self.left_out.now() {
            LeftOut::InterruptInRoutine => {
                let deaf = DeafLine { inner: service, routine: self.routine.clone() };
                self.inner.connect_interrupt(level, Arc::new(deaf));
            }
            _ => self.inner.connect_interrupt(level, service),
        }
    }

    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool {
        self.probe.note_either(notes::INTERRUPTED, notes::INTERRUPTED_AGAIN, 1);
        match self.left_out.now() {
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
