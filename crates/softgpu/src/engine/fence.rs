//! Waits and signals on an engine.
//!
//! Stations 1 and 2 of a fence signal are one function, [`Executor::signal`]. An unsatisfied wait
//! leaves the engine to other queues. The CMP makes the queue ready (`cmp::waits`), and the wait
//! completes when the engine runs the queue again.

use super::executor::{Executor, Outcome, Pace};
use crate::log::LogBuffer;
use crate::mmu::{Fault, Space};
use crate::queue::{Completion, Execution, Packet, PendingWait, Run, RunState};
use tidegate_d3dukmdt::FenceWait;
use tidegate_d3dukmdt::fence_cell::Verdict;
use tidegate_gpu_abi::log::{LogEntry, LogOperation};
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::ring::NO_LOG_ENTRY;
use tidegate_gpu_abi::{Cause, Command, GpuTime, GpuVa, QueueId, SignalPacket};
use tidegate_platform::{Instruments, Queued, Step, SubmissionKey};
use tidegate_platform::{PlantedFault, planted};
use tidegate_trace::{FenceId, Kind, LaneId, NameId, Record};

/// Returns the log that an operation writes, if there is one and the operation has an entry.
fn log_for(log: Option<&mut LogBuffer>, entry: u32) -> Option<&mut LogBuffer> {
    log.filter(|_| entry != NO_LOG_ENTRY)
}

impl Executor {
    /// Signals a fence. All addresses are translated before anything is stored. Order:
    /// 1. store CurrentValue, which is a full barrier unless the store is posted;
    /// 2. write the log entry, with the time at which the operation completed;
    /// 3. store the log header's index word;
    /// 4. full barrier after the log and posted stores;
    /// 5. unblock the queues that wait for the fence, and notify other GPUs that watch it;
    /// 6. load MonitoredValue, or its shadow. If the value is above it, or the log requests an
    ///    interrupt, interrupt for the fence: at once, or as soon as `moderation` allows. Otherwise
    ///    count the suppressed interrupt. A signal without a MonitoredValue is a plain store, which
    ///    some nodes report.
    #[doc(alias = "DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED")]
    // spec: NF-004, NF-006, NF-020, NF-196
    // spec: NF-197, NF-198, NF-199, NF-211, NF-213
    #[inline(always)]
    pub(super) fn signal(
        &mut self,
        space: Space,
        queue: QueueId,
        signal: &SignalPacket,
        log: Option<&mut LogBuffer>,
        on: Instruments,
    ) -> Result<(), Fault> {
        if !self.writes_fences {
            return Err(wrong_engine(signal));
        }
        let current = self.port.mmu.store_slot(space, signal.current_value)?;
        let monitored = match signal.monitored_value {
            GpuVa(0) => None,
            at => Some(self.port.mmu.load_slot(space, at)?),
        };
        if on.any() {
            self.gpu.platform.spend(Step::FenceStore);
            self.signal_ns = self.gpu.timeline_ns();
        }
        self.tally.signals += 1;

        let entry = self.port.mmu.to_store(current);
        self.gpu.store(&entry.cell, signal.value);
        let at = entry.physical;
        let (mut asked, mut unlogged) = (false, None);
        match log {
            Some(log) if signal.log_entry != NO_LOG_ENTRY => asked = self.log_signal(signal, log),
            log => unlogged = log,
        }
        self.port.stored(at, signal.value);
        let awaited = match monitored {
            Some(monitored) => {
                let entry = self.port.mmu.to_load(monitored);
                let shadow = self.gpu.shadow.load(entry.physical);
                signal.value > shadow.unwrap_or_else(|| entry.cell.load())
            }
            None => {
                self.port.note_fence_write();
                false
            }
        };
        if !awaited && !asked {
            self.tally.interrupts_suppressed += u64::from(monitored.is_some());
            return Ok(());
        }
        if let Some(log) = unlogged {
            log.overrun();
        }
        self.interrupt_for(queue, signal.current_value, asked);
        Ok(())
    }

    /// Carries out steps 2 to 4 of a signal. Returns whether the log requests an interrupt.
    #[inline(never)]
    fn log_signal(&mut self, signal: &SignalPacket, log: &mut LogBuffer) -> bool {
        let gpu = &self.gpu;
        let end = self.slots.stamp(|| gpu.clock.now());
        let entry = entry_of(signal, self.log_time(end));
        let asked = log.write(&gpu.posted, signal.log_entry, &entry);
        gpu.platform.barrier(PlantedFault::NoSignalBarrier);
        asked
    }

    /// Interrupts for a signal, or holds it (see `moderation`). A log that is half full is read
    /// `at_once`, because the engine goes on to write it.
    #[inline(never)]
    fn interrupt_for(&mut self, queue: QueueId, current_value: GpuVa, at_once: bool) {
        self.held.hold(queue, current_value);
        if at_once || !self.may_hold() {
            self.raise_held();
        }
    }

    fn may_hold(&mut self) -> bool {
        let (gpu, held) = (&self.gpu, &mut self.held);
        held.may_wait(gpu.config.signaled_list_entries, || gpu.platform.now())
    }

    /// Interrupts for the signals that are held, at the end of a turn. An engine that `goes_on`
    /// with small packets of its queue holds them on while it may.
    pub(super) fn end_turn_with_held(&mut self, goes_on: bool) {
        if self.held.is_empty() || goes_on && self.may_hold() {
            return;
        }
        if !goes_on && planted!(self.gpu.platform, HeldSignalsForgotten) {
            return self.held.forget();
        }
        self.raise_held();
    }

    /// Interrupts for the signals that are held, if there are any. No lock is held.
    pub(super) fn raise_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let mut cause = Cause(0);
        {
            let mut cmp = self.gpu.cmp.lock();
            for (queue, current_value) in self.held.take() {
                if self.gpu.config.tells_fence_kinds {
                    let added = cmp.signaled.add(queue, current_value);
                    cmp.stats.signals_collapsed += u64::from(added.has(Cause::FENCE_COLLAPSED));
                    cause.0 |= added.0;
                } else {
                    cause.0 |= Cause::FENCE_COLLAPSED.0;
                }
            }
            self.tally.hand_over(self.node, &mut cmp.stats);
        }
        let window_ns = self.gpu.config.interrupt_moderation_ns;
        if window_ns > 0 {
            self.held.begin(self.gpu.platform.now(), window_ns);
        }
        self.raise(cause);
    }

    /// Records a write to a possible monitored fence, and returns the cause to raise.
    #[doc(alias = "DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED")]
    pub(super) fn monitored_write(&self) -> Cause {
        if !self.gpu.config.tells_fence_kinds {
            return Cause::FENCE_COLLAPSED;
        }
        self.gpu.line.monitored.note(self.node);
        Cause::MONITORED_SIGNALED
    }

    /// Executes a signal packet and goes to the next slot.
    #[inline(never)]
    pub(super) fn signal_packet(
        &mut self,
        state: &mut RunState,
        signal: &SignalPacket,
        on: Instruments,
    ) -> Result<(), Fault> {
        let queued = self.take_queued(state, on);
        self.signal(self.space, state.shape.id, signal, state.signal_log.as_mut(), on)?;
        self.tally.of(state.shape.number).signals += 1;
        if on.has_timeline() {
            self.record_signal(state, signal, queued);
        }
        self.finish_slot(state)
    }

    /// Records a signal, unless the log's reader draws it on the timeline.
    #[cold]
    fn record_signal(&self, state: &mut RunState, signal: &SignalPacket, queued: Queued) {
        if log_for(state.signal_log.as_mut(), signal.log_entry).is_none() {
            let at_ns = self.signal_ns;
            self.record_fence(state, Kind::Signal, queued, signal.value, at_ns, Some(at_ns));
        }
    }

    /// Executes a wait packet. If the wait is not satisfied, the queue stays at it.
    // spec: NF-189
    pub(super) fn first_wait(
        &mut self,
        run: &mut Run,
        mut wait: PendingWait,
    ) -> Result<Pace, Fault> {
        if !self.blocks(&mut wait)? {
            self.end_wait(&mut run.state, &wait, None)?;
            return Ok(Pace::Light);
        }
        run.packet = Some(Packet::Wait(wait));
        Ok(self.end_with(Outcome::Blocked))
    }

    /// Evaluates a wait for the first time. Returns whether the queue stays at it.
    fn blocks(&mut self, wait: &mut PendingWait) -> Result<bool, Fault> {
        self.tally.gpu_waits += 1;
        wait.head_ns = self.gpu.timeline_ns();
        if !self.is_blocked_at(wait)? {
            return Ok(false);
        }
        self.tally.gpu_waits_stalled += 1;
        wait.observed = self.slots.stamp(|| self.gpu.clock.now());
        Ok(true)
    }

    /// Executes a wait or a signal in a command buffer, after every earlier command. A queue whose
    /// wait is not satisfied stays at it. A packet has no fence command: its wait would hold back
    /// every context of the node.
    // spec: HS-023
    pub(super) fn fence_command(
        &mut self,
        state: &mut RunState,
        work: &mut Execution,
        command: &Command,
        at: GpuVa,
    ) -> Result<Pace, Fault> {
        // spec: HS-025
        let Completion::Progress(progress) = work.completion else {
            return Err(Fault::new(FaultKind::BadPacket, at));
        };
        work.latest = (work.number, work.label);
        work.fence_commands += 1;
        let on = self.gpu.platform.instruments();
        let key = SubmissionKey::Command(progress, work.fence_commands);
        let queued = self.gpu.platform.take_queued(on, state.shape.number, key);
        // Earlier commands took time.
        self.slots.set_stamp(None);
        match *command {
            Command::SignalFence(signal) => {
                self.signal(self.space, state.shape.id, &signal, state.signal_log.as_mut(), on)?;
                self.tally.of(state.shape.number).signals += 1;
                if on.has_timeline() {
                    self.record_signal(state, &signal, queued);
                }
            }
            Command::WaitFence { current_value, value, epoch, fence_handle, log_entry } => {
                let mut wait = PendingWait {
                    current_value,
                    wait: FenceWait { value, epoch },
                    fence_handle,
                    log_entry,
                    queued,
                    observed: GpuTime(0),
                    head_ns: 0,
                    satisfied: false,
                };
                if self.blocks(&mut wait)? {
                    work.wait = Some(Box::new(wait));
                    return Ok(self.end_with(Outcome::Blocked));
                }
                self.finish_wait(state, &wait, None);
                self.begin_behind_wait(work);
            }
            _ => {}
        }
        Ok(Pace::Light)
    }

    /// Goes on behind a wait command that was not satisfied at first.
    pub(super) fn resume_wait_command(&mut self, run: &mut Run) -> Result<Pace, Fault> {
        let Some(Packet::Execute(work)) = &mut run.packet else { return Ok(Pace::Light) };
        let Some(wait) = work.wait.as_deref().copied() else { return Ok(Pace::Light) };
        if !wait.satisfied && self.is_blocked_at(&wait)? {
            return Ok(self.end_with(Outcome::Blocked));
        }
        work.wait = None;
        // The fault is the mistake that the scenario fence-commands must find.
        if wait.satisfied && planted!(self.gpu.platform, LatchedWaitEndsItsCommandBuffer) {
            work.at = work.bytes;
        }
        self.begin_behind_wait(work);
        let is_done = work.is_done();
        let now = self.gpu.clock.now();
        self.tally.of(run.state.shape.number).blocked_ns += now.0.saturating_sub(wait.observed.0);
        self.finish_wait(&mut run.state, &wait, Some(now));
        if is_done {
            self.complete(run)?;
        }
        Ok(Pace::Light)
    }

    /// Executes a wait that was not satisfied at first: it was latched, or the queue was kept at
    /// it, or was suspended or kicked.
    pub(super) fn resume_wait(&mut self, run: &mut Run) -> Result<Pace, Fault> {
        let Some(Packet::Wait(wait)) = &run.packet else { return Ok(Pace::Light) };
        if !wait.satisfied && self.is_blocked_at(wait)? {
            return Ok(self.end_with(Outcome::Blocked));
        }
        let wait = *wait;
        run.packet = None;
        let now = self.gpu.clock.now();
        self.tally.of(run.state.shape.number).blocked_ns += now.0.saturating_sub(wait.observed.0);
        self.end_wait(&mut run.state, &wait, Some(now))?;
        Ok(Pace::Light)
    }

    /// Returns whether the queue stays at the wait. A wait that can never be judged is a fault of
    /// its queue.
    // spec: NF-343
    fn is_blocked_at(&mut self, wait: &PendingWait) -> Result<bool, Fault> {
        let slot = self.port.mmu.load_slot(self.space, wait.current_value)?;
        match self.port.mmu.to_load(slot).cell.judge(wait.wait) {
            Verdict::Satisfied => Ok(false),
            Verdict::Lost if !planted!(self.gpu.platform, LostWaitsAreParked) => {
                Err(Fault::new(FaultKind::LostHistory, wait.current_value))
            }
            Verdict::Unsatisfied | Verdict::Lost => Ok(true),
        }
    }

    /// A command buffer that has only waited begins, for the timeline, behind its wait.
    fn begin_behind_wait(&self, work: &mut Execution) {
        if work.start_ns != 0 && work.has_fence_commands_only() {
            work.start_ns = self.gpu.platform.stamp_ns();
        }
    }

    /// Completes a satisfied wait of a ring, and goes to the next slot.
    fn end_wait(
        &mut self,
        state: &mut RunState,
        wait: &PendingWait,
        at: Option<GpuTime>,
    ) -> Result<(), Fault> {
        let asked = self.log_wait(state, wait, at);
        self.finish_slot(state)?;
        self.count_wait(state, wait, asked);
        Ok(())
    }

    /// Completes a satisfied wait of a command buffer.
    fn finish_wait(&mut self, state: &mut RunState, wait: &PendingWait, at: Option<GpuTime>) {
        let asked = self.log_wait(state, wait, at);
        self.count_wait(state, wait, asked);
    }

    fn count_wait(&mut self, state: &RunState, wait: &PendingWait, asked: bool) {
        self.tally.of(state.shape.number).waits += 1;
        if asked {
            self.interrupt_for(state.shape.id, wait.current_value, true);
        }
    }

    // spec: NF-170
    /// Writes the log entry of a satisfied wait (at `at`, if the clock was read), and records it.
    /// Returns whether the log requests an interrupt. No time that was read before the wait was
    /// satisfied may follow it in a log.
    fn log_wait(&mut self, state: &mut RunState, wait: &PendingWait, at: Option<GpuTime>) -> bool {
        let mut asked = false;
        self.slots.set_stamp(at);
        if let Some(log) = log_for(state.wait_log.as_mut(), wait.log_entry) {
            let end = self.slots.stamp(|| self.gpu.clock.now());
            let entry = LogEntry {
                fence_value: wait.wait.value,
                fence_handle: wait.fence_handle,
                operation: LogOperation::WaitUnblocked as u32,
                observed_ns: self.log_time(wait.observed).0,
                end_ns: self.log_time(end).0,
                ..LogEntry::default()
            };
            asked = log.write(&self.gpu.posted, wait.log_entry, &entry);
        } else {
            let value = wait.wait.value;
            self.record_fence(state, Kind::Wait, wait.queued, value, wait.head_ns, None);
        }
        asked
    }

    /// Writes the verbose log entry of a completed command buffer, if it has one.
    pub(super) fn log_commands(
        &mut self,
        state: &mut RunState,
        progress: u64,
        logged: Option<(u32, GpuTime)>,
    ) {
        let Some((number, begun)) = logged else { return };
        if let Some(log) = log_for(state.command_log.as_mut(), number) {
            let entry = LogEntry {
                fence_value: progress,
                fence_handle: 0,
                operation: LogOperation::CommandsExecuted as u32,
                observed_ns: self.log_time(begun).0,
                end_ns: self.log_time(self.gpu.clock.now()).0,
                ..LogEntry::default()
            };
            // Verbose entries request no interrupt, because the queue's fence entries do so
            // often enough.
            log.write(&self.gpu.posted, number, &entry);
        }
    }

    /// Returns the time for a log entry: 0 on a physical GPU that writes none.
    fn log_time(&self, at: GpuTime) -> GpuTime {
        if self.gpu.config.skips_log_times_on == Some(self.physical_gpu) { GpuTime(0) } else { at }
    }

    /// Takes the timeline's data of the wait or signal in the current slot.
    #[inline]
    pub(super) fn take_queued(&self, state: &RunState, on: Instruments) -> Queued {
        let key = SubmissionKey::Slot(state.taken);
        self.gpu.platform.take_queued(on, state.shape.number, key)
    }

    /// Records a wait or a signal on the timeline. Without an end it ends now.
    #[inline]
    fn record_fence(
        &self,
        state: &RunState,
        kind: Kind,
        queued: Queued,
        value: u64,
        start_ns: u64,
        end_ns: Option<u64>,
    ) {
        if let Some(lane) = self.gpu.platform.traced_lane_of(state.shape.number) {
            self.record_traced(lane, kind, queued, value, start_ns, end_ns);
        }
    }

    #[cold]
    fn record_traced(
        &self,
        lane: LaneId,
        kind: Kind,
        queued: Queued,
        value: u64,
        start_ns: u64,
        end_ns: Option<u64>,
    ) {
        let platform = &self.gpu.platform;
        let end_ns = end_ns.unwrap_or_else(|| platform.stamp_ns());
        let span = Record::span(lane, kind, NameId::NONE, start_ns, end_ns);
        let span = span.queued(queued.at_or(start_ns));
        platform.record(match queued.name {
            0 => span,
            name => span.on_fence(FenceId(name - 1), value),
        });
    }
}

#[cold]
fn wrong_engine(signal: &SignalPacket) -> Fault {
    Fault::new(FaultKind::WrongEngine, signal.current_value)
}

// spec: NF-169, NF-188
fn entry_of(signal: &SignalPacket, end: GpuTime) -> LogEntry {
    LogEntry {
        fence_value: signal.value,
        fence_handle: signal.fence_handle,
        operation: LogOperation::SignalExecuted as u32,
        observed_ns: 0,
        end_ns: end.0,
        ..LogEntry::default()
    }
}
