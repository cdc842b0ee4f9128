//! Mistakes for the clauses: layers in front of a driver.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tidegate::Platform;
use tidegate::ddi::doorbell::CreateDoorbell;
use tidegate::ddi::fence::{CreateNativeFence, OpenNativeFence};
use tidegate::ddi::preemption::PreemptCommand;
use tidegate::ddi::queue::{CreateContext, CreateDevice, CreateHwQueue, SubmitCommandVirtual};
use tidegate::ddi::timeout::HwContextLoss;
use tidegate::ddi::{
    AdapterCaps, CallbackLayer, Callbacks, ComponentState, DdiCall, Dirql, DisconnectReason,
    Dispatch, Driver, DriverHandle, DriverLayer, EngineId, Entry, InterruptData, Irql,
    NativeFenceCaps, OsHandle, Overrides, Passive, StartInfo, Status, SubmitCommandFlags,
};
use tidegate::platform::{CpuTime, Mutex, PhysicalAddress, Word};

/// How a twin breaks its clause.
#[derive(Clone, Copy)]
pub(crate) enum Twin {
    /// The entry returns this status from the second call on, or from the first.
    Fails(Entry, Status, Calls),
    /// The caps are changed.
    Caps(fn(&mut AdapterCaps)),
    /// The caps of native fences are changed.
    FenceCaps(fn(&mut NativeFenceCaps)),
    /// Entries are replaced.
    Layer(fn(Overrides) -> Overrides),
    /// Reports are changed: the function gets the number of the report, from 0.
    Reports(fn(&mut Vec<InterruptData>, u64)),
    /// The kernel's functions are called otherwise.
    Callbacks(Wrong),
    /// The entry returns the handle of the first object again.
    SameHandle(Entry),
}

/// Which calls fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    /// All.
    All,
    /// All but the first.
    AfterFirst,
}

/// Mistakes with callbacks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// DxgkCbQueueDpc is not called.
    NoDpc,
    /// DxgkCbNotifyDpc is not called.
    NoNotifyDpc,
    /// The completion before is reported once more after the present one.
    Disorder,
    /// DxgkCbDisconnectDoorbell names a doorbell that does not exist.
    DisconnectsUnknown,
    /// DxgkCbDestroyContextAllocation is not called.
    KeepsSaveAreas,
    /// DxgkCbDestroyContextAllocation is called twice.
    EndsSaveAreasTwice,
    /// The last complete packet is reported after a vertical sync.
    VsyncFirst,
    /// A packet is reported while the adapter is reset.
    ReportsWhileReset,
    /// DxgkCbInvalidateHwContext is not called.
    NoInvalidation,
    /// DxgkCbInvalidateHwContext is called again after the reset.
    LateInvalidation,
    /// DxgkCbInvalidateHwContext is called for a context that does not exist, too.
    InvalidatesUnknown,
    /// A packet is reported as complete when it is submitted.
    CompletesEarly,
    /// A packet is not reported, because its id is smaller than the last one, and not 0.
    ComparesIds,
    /// A report of several packets is of the oldest only.
    OneAtATime,
    /// DxgkDdiQueryCurrentFence returns the last packet that was reported as complete.
    CurrentIsReported,
    /// DxgkDdiResetEngine returns the last packet that was reported as complete.
    AbortedIsCompleted,
    /// DxgkDdiResetEngine returns the larger id of the packet that hangs and the last complete one.
    AbortedIsLargest,
    /// A vertical sync carries the address of three vertical syncs ago.
    VsyncLate,
    /// A vertical sync carries the address of two vertical syncs ago.
    VsyncGoesBack,
    /// The last complete packet is reported again before the engine is back in F0.
    ReportsInF1,
    /// DxgkCbDisconnectDoorbell is called with another queue first.
    DisconnectsOfOther,
    /// DxgkCbDisconnectDoorbell is called for a doorbell that was destroyed.
    DisconnectsDestroyed,
    /// A packet is reported when all earlier ones of other engines are complete.
    OrdersEngines,
    /// A packet that runs for milliseconds is reported as complete, once.
    LosesPatience,
    /// A packet that completes milliseconds after its submission is not reported, once.
    ReportsInTimeOnly,
    /// A request for preemption is answered when it comes, once.
    AnswersAtOnce,
    /// A packet that is submitted again runs from its start.
    RunsFromTheStart,
    /// A request that the device answers late is not answered.
    AnswersInTimeOnly,
    /// A mistake with paging buffers that are in flight together.
    PagingTogether(WithPaging),
}

/// Mistakes with the second of two paging buffers that are in flight together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithPaging {
    /// It is refused.
    Refuses,
    /// Its commands do not run.
    Skips,
    /// It is not reported.
    Loses,
    /// The first is reported again after it.
    Disorders,
}

impl Twin {
    /// Returns the driver with the mistake.
    pub(crate) fn before(self, platform: &Platform, inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
        let overrides = Overrides::default();
        match self {
            Twin::Fails(entry, status, calls) => {
                Arc::new(Failing { inner, entry, status, calls, count: counter(platform) })
            }
            Twin::Caps(change) => overrides
                .query_adapter_caps(move |inner, level| {
                    let mut caps = inner.query_adapter_caps(level);
                    change(&mut caps);
                    caps
                })
                .before(inner),
            Twin::FenceCaps(change) => overrides
                .query_native_fence_caps(move |inner, level| {
                    let mut caps = inner.query_native_fence_caps(level);
                    change(&mut caps);
                    caps
                })
                .before(inner),
            Twin::Layer(layer) => layer(overrides).before(inner),
            Twin::Reports(change) => FaultyDriver::before(platform, inner, Change::Reports(change)),
            Twin::Callbacks(wrong) => {
                FaultyDriver::before(platform, inner, Change::Callbacks(wrong))
            }
            Twin::SameHandle(entry) => {
                FaultyDriver::before(platform, inner, Change::SameHandle(entry))
            }
        }
    }
}

/// A counter that agents of the platform share.
fn counter(platform: &Platform) -> Word {
    platform.page(1).word(0).named("a count of calls")
}

struct Failing {
    inner: Arc<dyn Driver>,
    entry: Entry,
    status: Status,
    calls: Calls,
    count: Word,
}

impl DriverLayer for Failing {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn before(&self, entry: Entry, _call: &dyn Fn() -> DdiCall) -> Result<(), Status> {
        if entry != self.entry {
            return Ok(());
        }
        let earlier = self.count.fetch_add(1);
        let fails = self.calls == Calls::All || earlier > 0;
        if fails { Err(self.status) } else { Ok(()) }
    }
}

#[derive(Clone, Copy)]
enum Change {
    Reports(fn(&mut Vec<InterruptData>, u64)),
    Callbacks(Wrong),
    SameHandle(Entry),
}

/// What a faulty driver remembers.
#[derive(Default)]
struct Memory {
    callbacks: Option<Arc<dyn Callbacks>>,
    /// Reports so far.
    reports: u64,
    /// The handle of the first object.
    handle: Option<DriverHandle>,
    /// The last report of a complete packet.
    last_completed: Option<InterruptData>,
    invalidated: Vec<(OsHandle, HwContextLoss)>,
    /// Packets that were submitted to an idle engine, and the last packet of each engine.
    submissions: u64,
    submitted: BTreeMap<EngineId, u32>,
    /// The packets of each engine that were not reported as complete, in order.
    in_flight: BTreeMap<EngineId, VecDeque<u32>>,
    /// Packets that were not reported as complete, with their times, in the order of submission.
    unreported: Vec<(EngineId, u32, CpuTime)>,
    /// When the last request for preemption came.
    requested: CpuTime,
    /// Reports that wait for packets of other engines.
    held: Vec<(EngineId, u32, CpuTime)>,
    /// Paging packets in flight.
    paging: BTreeSet<(EngineId, u32)>,
    /// Paging packets that were submitted while another one was in flight.
    seconds: BTreeSet<(EngineId, u32)>,
    /// Whether a mistake that is made once was made.
    has_erred: bool,
    /// The last packet of each engine that was reported as complete.
    completed: BTreeMap<EngineId, u32>,
    /// Addresses of vertical syncs.
    syncs: Vec<PhysicalAddress>,
    /// The kernel's handles of a doorbell and of its hardware queue.
    doorbells: BTreeMap<DriverHandle, OsHandle>,
    hw_queues: BTreeMap<DriverHandle, OsHandle>,
    queue_of: BTreeMap<DriverHandle, OsHandle>,
}

impl Memory {
    /// Takes the held reports before which no packet of another engine was submitted that is not
    /// reported.
    fn take_ordered(&mut self) -> Vec<InterruptData> {
        let unreported = &self.unreported;
        let waits = |(engine, _, submitted): &(EngineId, u32, CpuTime)| {
            unreported.iter().any(|(of, _, earlier)| of != engine && earlier < submitted)
        };
        let (held, ended): (Vec<_>, Vec<_>) = self.held.drain(..).partition(waits);
        self.held = held;
        let report = |(engine, submission_fence_id, _)| InterruptData::DmaCompleted {
            engine,
            submission_fence_id,
        };
        ended.into_iter().map(report).collect()
    }
}

/// A driver that calls back and returns otherwise than the driver behind it.
struct FaultyDriver {
    inner: Arc<dyn Driver>,
    platform: Platform,
    change: Change,
    memory: Arc<Mutex<Memory>>,
}

impl FaultyDriver {
    fn before(platform: &Platform, inner: Arc<dyn Driver>, change: Change) -> Arc<dyn Driver> {
        let memory = Arc::new(platform.mutex("memory of a planted mistake", Memory::default()));
        Arc::new(FaultyDriver { inner, platform: platform.clone(), change, memory })
    }

    fn does(&self, wrong: Wrong) -> bool {
        matches!(self.change, Change::Callbacks(of) if of == wrong)
    }

    /// Notes a packet. Returns whether it is a paging packet beside another one.
    fn is_second_paging(&self, engine: EngineId, id: u32, flags: SubmitCommandFlags) -> bool {
        if !flags.contains(SubmitCommandFlags::PAGING) {
            return false;
        }
        let mut memory = self.memory.lock_device();
        let is_second = memory.paging.iter().any(|(of, _)| *of == engine);
        memory.paging.insert((engine, id));
        if is_second {
            memory.seconds.insert((engine, id));
        }
        is_second
    }

    fn callbacks(&self) -> Option<Arc<dyn Callbacks>> {
        self.memory.lock().callbacks.clone()
    }

    /// Returns the handle, or the first one where that is the mistake.
    fn handle(
        &self,
        entry: Entry,
        made: Result<DriverHandle, Status>,
    ) -> Result<DriverHandle, Status> {
        match self.change {
            Change::SameHandle(of) if of == entry => {
                let made = made?;
                Ok(*self.memory.lock().handle.get_or_insert(made))
            }
            _ => made,
        }
    }
}

impl DriverLayer for FaultyDriver {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status> {
        let callbacks: Arc<dyn Callbacks> = Arc::new(FaultyCallbacks {
            inner: Arc::clone(&start.callbacks),
            platform: self.platform.clone(),
            change: self.change,
            memory: Arc::clone(&self.memory),
        });
        self.memory.lock().callbacks = Some(Arc::clone(&start.callbacks));
        self.inner.start_device(level, StartInfo { callbacks, ..start })
    }

    fn stop_device(&self, level: &Passive) {
        self.memory.lock().callbacks = None;
        self.inner.stop_device(level);
    }

    fn create_device(&self, level: &Passive, args: CreateDevice) -> Result<DriverHandle, Status> {
        self.handle(Entry::CreateDevice, self.inner.create_device(level, args))
    }

    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        self.handle(Entry::CreateContext, self.inner.create_context(level, args))
    }

    fn create_hw_queue(
        &self,
        level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        let made = self.inner.create_hw_queue(level, args);
        if let Ok(handle) = made {
            self.memory.lock().hw_queues.insert(handle, args.os_handle);
        }
        self.handle(Entry::CreateHwQueue, made)
    }

    fn create_native_fence(
        &self,
        level: &Passive,
        args: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status> {
        let (handle, data) = self.inner.create_native_fence(level, args)?;
        self.handle(Entry::CreateNativeFence, Ok(handle)).map(|handle| (handle, data))
    }

    fn open_native_fence(
        &self,
        level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        self.handle(Entry::OpenNativeFence, self.inner.open_native_fence(level, args))
    }

    fn create_doorbell(
        &self,
        level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        let made = self.inner.create_doorbell(level, args);
        if let Ok(handle) = made {
            let mut memory = self.memory.lock();
            let queue = memory.hw_queues.get(&args.hw_queue).copied().unwrap_or_default();
            memory.doorbells.insert(handle, args.os_handle);
            memory.queue_of.insert(handle, queue);
        }
        self.handle(Entry::CreateDoorbell, made)
    }

    fn destroy_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        self.inner.destroy_doorbell(level, doorbell);
        let (of, queue) = {
            let memory = self.memory.lock();
            (memory.doorbells.get(&doorbell).copied(), memory.queue_of.get(&doorbell).copied())
        };
        if self.does(Wrong::DisconnectsDestroyed)
            && let (Some(of), Some(queue), Some(callbacks)) = (of, queue, self.callbacks())
        {
            let _refused = callbacks.disconnect_doorbell(level, queue, of, DisconnectReason::Retry);
        }
    }

    fn submit_command_virtual(
        &self,
        level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        let (engine, submission_fence_id) = (args.engine, args.submission_fence_id);
        let mut args = args;
        if self.does(Wrong::RunsFromTheStart) {
            args.flags.remove(SubmitCommandFlags::RESUBMISSION);
        }
        if self.is_second_paging(engine, submission_fence_id, args.flags) {
            if self.does(Wrong::PagingTogether(WithPaging::Refuses)) {
                return Err(Status::INTERNAL_ERROR);
            }
            if self.does(Wrong::PagingTogether(WithPaging::Skips)) {
                args.flags |= SubmitCommandFlags::CONTEXT_SWITCH;
            }
        }
        self.inner.submit_command_virtual(level, args)?;
        let now = self.platform.now();
        let (is_early, overdue) = {
            let mut memory = self.memory.lock_device();
            let old = |of: &&(EngineId, u32, CpuTime)| now.since(of.2) > PATIENCE_NS;
            let overdue = memory.unreported.iter().find(old).copied();
            let errs = self.does(Wrong::LosesPatience) && !memory.has_erred;
            let overdue = overdue.filter(|_| errs);
            memory.has_erred |= overdue.is_some();
            memory.unreported.push((engine, submission_fence_id, now));
            let is_idle = memory.submitted.get(&engine) == memory.completed.get(&engine);
            memory.submitted.insert(engine, submission_fence_id);
            memory.in_flight.entry(engine).or_default().push_back(submission_fence_id);
            let is_early = is_idle && memory.submissions == 0;
            memory.submissions += u64::from(is_idle);
            (is_early, overdue)
        };
        if let (Some((engine, submission_fence_id, _)), Some(callbacks)) =
            (overdue, self.callbacks())
        {
            let report = InterruptData::DmaCompleted { engine, submission_fence_id };
            callbacks.notify_interrupt(&level.raise_to_dirql(&()), report);
        }
        if is_early
            && self.does(Wrong::CompletesEarly)
            && let Some(callbacks) = self.callbacks()
        {
            let report = InterruptData::DmaCompleted { engine, submission_fence_id };
            callbacks.notify_interrupt(&level.raise_to_dirql(&()), report);
        }
        Ok(())
    }

    fn preempt_command(&self, level: &Dispatch, args: PreemptCommand) -> Result<(), Status> {
        let PreemptCommand { engine, preemption_fence_id, .. } = args;
        let (errs, completed) = {
            let mut memory = self.memory.lock_device();
            memory.requested = self.platform.now();
            let errs = self.does(Wrong::AnswersAtOnce) && !memory.has_erred;
            memory.has_erred |= errs;
            (errs, memory.completed.get(&engine).copied())
        };
        let Some(callbacks) = self.callbacks().filter(|_| errs) else {
            return self.inner.preempt_command(level, args);
        };
        let last_completed_fence_id = completed.unwrap_or_default();
        let report =
            InterruptData::DmaPreempted { engine, preemption_fence_id, last_completed_fence_id };
        let level = level.raise_to_dirql(&());
        callbacks.notify_interrupt(&level, report);
        callbacks.queue_dpc(&level);
        Ok(())
    }

    fn query_current_fence(&self, level: &Dispatch, engine: EngineId) -> Result<u32, Status> {
        let right = self.inner.query_current_fence(level, engine)?;
        let reported = self.memory.lock_device().completed.get(&engine).copied();
        match self.does(Wrong::CurrentIsReported) {
            true => Ok(reported.unwrap_or_default()),
            false => Ok(right),
        }
    }

    fn reset_engine(&self, level: &Passive, engine: EngineId) -> Result<u32, Status> {
        let right = self.inner.reset_engine(level, engine)?;
        let completed = self.memory.lock().completed.get(&engine).copied().unwrap_or(right);
        Ok(match self.change {
            Change::Callbacks(Wrong::AbortedIsCompleted) => completed,
            Change::Callbacks(Wrong::AbortedIsLargest) => right.max(completed),
            _ => right,
        })
    }

    fn set_power_component_f_state(
        &self,
        level: Irql<'_>,
        engine: EngineId,
        state: ComponentState,
    ) -> Result<(), Status> {
        let completed = self.memory.lock_device().completed.get(&engine).copied();
        if state == ComponentState::F0
            && self.does(Wrong::ReportsInF1)
            && let (Some(submission_fence_id), Some(callbacks)) = (completed, self.callbacks())
        {
            let report = InterruptData::DmaCompleted { engine, submission_fence_id };
            callbacks.notify_interrupt(&level.raise_to_dirql(&()), report);
        }
        self.inner.set_power_component_f_state(level, engine, state)
    }

    fn restart_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        let last = self.memory.lock().last_completed.clone();
        if self.does(Wrong::ReportsWhileReset)
            && let (Some(report), Some(callbacks)) = (last, self.callbacks())
        {
            callbacks.notify_interrupt(&level.raise_to_dirql(&()), report);
        }
        self.inner.restart_from_timeout(level)
    }

    fn resume_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        let invalidated = std::mem::take(&mut self.memory.lock().invalidated);
        if let Some(callbacks) = self.callbacks() {
            for (context, loss) in invalidated {
                let _refused = callbacks.invalidate_hw_context(level, context, loss);
            }
        }
        self.inner.resume_hw_engine(level, engine)
    }
}

/// A handle that the kernel never gives.
pub(crate) const UNKNOWN: OsHandle = OsHandle(0xDEAD);

/// Returns whether the second report is of a later packet of the same engine.
fn is_later(earlier: Option<&InterruptData>, later: &InterruptData) -> bool {
    matches!(
        (earlier, later),
        (
            Some(InterruptData::DmaCompleted { engine, submission_fence_id: first }),
            InterruptData::DmaCompleted { engine: of, submission_fence_id: second },
        ) if engine == of && *first != 0 && first != second
    )
}

/// How long an impatient driver waits for a packet.
const PATIENCE_NS: u64 = 1_000_000;

/// How long it waits for the answer to a request for preemption.
const ANSWER_NS: u64 = 50_000;

/// The callbacks of a faulty driver.
struct FaultyCallbacks {
    inner: Arc<dyn Callbacks>,
    platform: Platform,
    change: Change,
    memory: Arc<Mutex<Memory>>,
}

impl FaultyCallbacks {
    fn does(&self, wrong: Wrong) -> bool {
        matches!(self.change, Change::Callbacks(of) if of == wrong)
    }
}

impl CallbackLayer for FaultyCallbacks {
    fn inner(&self) -> &dyn Callbacks {
        &*self.inner
    }

    fn notify_interrupt(&self, level: &Dirql<'_>, data: InterruptData) {
        let mut reports = vec![data];
        let number = {
            let mut memory = self.memory.lock_device();
            let earlier = memory.last_completed.clone();
            if let [InterruptData::DmaCompleted { .. }] = reports[..] {
                memory.last_completed = Some(reports[0].clone());
            }
            if let InterruptData::DmaPreempted { engine, .. } = reports[0] {
                memory.in_flight.remove(&engine);
                memory.paging.retain(|(of, _)| *of != engine);
                let is_late = self.platform.now().since(memory.requested) > ANSWER_NS;
                if is_late && self.does(Wrong::AnswersInTimeOnly) {
                    return;
                }
            }
            let mut is_lost = false;
            if let InterruptData::DmaCompleted { engine, submission_fence_id: id } = reports[0] {
                let in_flight = memory.in_flight.entry(engine).or_default();
                let place = in_flight.iter().position(|of| *of == id).map_or(0, |place| place + 1);
                let ended: Vec<u32> = in_flight.drain(..place).collect();
                let has_later = !in_flight.is_empty();
                let last = memory.completed.insert(engine, id).unwrap_or(id);
                memory.paging.retain(|(of, paging)| *of != engine || !ended.contains(paging));
                let now = self.platform.now();
                let mut unreported = memory.unreported.iter();
                let of_packet = unreported.find(|(of, packet, _)| (*of, *packet) == (engine, id));
                let submitted = of_packet.map_or(now, |(_, _, submitted)| *submitted);
                let is_late = now.since(submitted) > PATIENCE_NS;
                memory
                    .unreported
                    .retain(|(of, packet, _)| *of != engine || !ended.contains(packet));
                if self.does(Wrong::OrdersEngines) {
                    memory.held.push((engine, id, submitted));
                }
                let is_second = memory.seconds.contains(&(engine, id));
                if is_second && self.does(Wrong::PagingTogether(WithPaging::Disorders)) {
                    reports.extend(earlier.clone());
                }
                let errs = match self.change {
                    Change::Callbacks(Wrong::ReportsInTimeOnly) => is_late && has_later,
                    // Another report follows, so the kernel does not wait for this one.
                    Change::Callbacks(Wrong::PagingTogether(WithPaging::Loses)) => {
                        is_second && has_later
                    }
                    Change::Callbacks(Wrong::OneAtATime) => ended.len() > 1,
                    Change::Callbacks(Wrong::ComparesIds) => {
                        memory.completed.insert(engine, last.max(id));
                        id != 0 && id < last
                    }
                    _ => false,
                };
                is_lost = errs && !std::mem::replace(&mut memory.has_erred, true);
                if is_lost && self.does(Wrong::OneAtATime) {
                    let submission_fence_id = ended[0];
                    reports.push(InterruptData::DmaCompleted { engine, submission_fence_id });
                }
            }
            if let InterruptData::CrtcVsync { physical_address, .. } = &mut reports[0] {
                memory.syncs.push(*physical_address);
                let number = memory.syncs.len();
                if self.does(Wrong::VsyncLate) {
                    *physical_address = memory.syncs[number.saturating_sub(4)];
                }
                if self.does(Wrong::VsyncGoesBack) && number == 5 {
                    *physical_address = memory.syncs[2];
                }
            }
            if self.does(Wrong::Disorder) && is_later(earlier.as_ref(), &reports[0]) {
                reports.extend(earlier.clone());
            }
            let vsync = matches!(reports[0], InterruptData::CrtcVsync { .. });
            if self.does(Wrong::VsyncFirst) && vsync {
                reports.extend(earlier.clone());
            }
            if is_lost {
                reports.remove(0);
            }
            if self.does(Wrong::OrdersEngines)
                && matches!(reports[..], [InterruptData::DmaCompleted { .. }])
            {
                reports = memory.take_ordered();
            }
            memory.reports += 1;
            memory.reports - 1
        };
        if let Change::Reports(change) = self.change {
            change(&mut reports, number);
        }
        for report in reports {
            self.inner.notify_interrupt(level, report);
        }
    }

    fn queue_dpc(&self, level: &Dirql<'_>) {
        if !self.does(Wrong::NoDpc) {
            self.inner.queue_dpc(level);
        }
    }

    fn notify_dpc(&self, level: &Dispatch) {
        if !self.does(Wrong::NoNotifyDpc) {
            self.inner.notify_dpc(level);
        }
    }

    fn disconnect_doorbell(
        &self,
        level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        if self.does(Wrong::DisconnectsUnknown) {
            let _refused = self.inner.disconnect_doorbell(level, hw_queue, UNKNOWN, reason);
        }
        if self.does(Wrong::DisconnectsOfOther) {
            let _refused = self.inner.disconnect_doorbell(level, UNKNOWN, doorbell, reason);
        }
        self.inner.disconnect_doorbell(level, hw_queue, doorbell, reason)
    }

    fn destroy_context_allocation(
        &self,
        level: &Passive,
        allocation: OsHandle,
    ) -> Result<(), Status> {
        if self.does(Wrong::KeepsSaveAreas) {
            return Ok(());
        }
        let ended = self.inner.destroy_context_allocation(level, allocation);
        if self.does(Wrong::EndsSaveAreasTwice) {
            let _refused = self.inner.destroy_context_allocation(level, allocation);
        }
        ended
    }

    fn invalidate_hw_context(
        &self,
        level: &Passive,
        context: OsHandle,
        loss: HwContextLoss,
    ) -> Result<(), Status> {
        if self.does(Wrong::LateInvalidation) {
            self.memory.lock().invalidated.push((context, loss));
        }
        if self.does(Wrong::InvalidatesUnknown) {
            let _refused = self.inner.invalidate_hw_context(level, UNKNOWN, loss);
        }
        match self.does(Wrong::NoInvalidation) {
            true => Ok(()),
            false => self.inner.invalidate_hw_context(level, context, loss),
        }
    }
}
