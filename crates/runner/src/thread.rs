//! One thread of a workload, as an agent.
//!
//! - Order of a submission: evaluate, log, call. The log therefore has it before the GPU can fault
//!   in it.
//! - A thread that fails ends, and no other. Other threads continue until the end of the run.
//! - Recorded threads keep their pace ([`OpKind::Host`]). Times count from the start of the run.

use std::sync::Arc;

use tidegate_d3d12::{Error, Fence, Queue, WaitMode};
use tidegate_platform::{CpuTime, Platform, Step, WaitEnd};
use tidegate_trace::{Kind, LaneId, NameId, Record};

use crate::lists::{self, Contents, Evaluated, RecordedList, Refused, Why};
use crate::prepare::{Lists, Prepared};
use crate::queue_log::Entry;
use crate::run_state::{Halt, Largest, Obstacle, StuckThread, note_signal};
use tidegate_workload::expression::{ArithmeticError, Expr, Scope, Slot};
use tidegate_workload::model::{
    BufferRef, Command, CommandKind, Data, FenceId, FenceRef, FenceWait, Op, OpKind, QueueId, Span,
};

/// Limit on the rounds of a loop.
const MOST_ROUNDS: i128 = 10_000_000;
/// Lists that a thread keeps for reuse. Further lists are recorded each time, because kept lists
/// take GPU memory.
const MOST_LISTS: usize = 4_096;
/// Operations between two reports of progress.
const PROGRESS_EVERY: u64 = 64;

/// Polling of a fence by a recorded thread: the interval, the start before the recorded time, and
/// the longest duration. A real thread polls all the time; polling earlier or more often would only
/// lengthen the run.
const POLL_EVERY_NS: u64 = 250;
const POLL_BEFORE_NS: u64 = 100_000;
const POLL_AT_MOST_NS: u64 = 5_000_000;

/// Runs thread `number` to its end.
pub(crate) fn run(run: &Arc<Prepared>, platform: &Platform, number: usize) {
    let program = &run.workload.threads[number];
    let mut thread = ThreadRun {
        run,
        platform,
        lane: run.lanes[number],
        variables: program.variables.clone(),
        lag: 0,
        start_ns: run.state.lock().started_ns,
        lists: Lists::default(),
        done: 0,
        largest: Largest::new(),
    };
    let end = thread.body(&program.body);
    thread.report_progress();
    thread.leave(number, end);
}

struct ThreadRun<'p> {
    run: &'p Prepared,
    platform: &'p Platform,
    lane: LaneId,
    variables: Vec<i128>,
    /// Its lateness against the recording.
    lag: i128,
    start_ns: u64,
    lists: Lists,
    /// Operations done since the last progress report.
    done: u64,
    largest: Largest,
}

impl Scope for ThreadRun<'_> {
    fn variable(&self, slot: Slot) -> Result<i128, ArithmeticError> {
        Ok(self.variables[usize::from(slot.0)])
    }
    fn completed(&self, fence: FenceId) -> Result<u64, ArithmeticError> {
        Ok(self.run.fences[fence.0 as usize].completed_value())
    }
}

impl ThreadRun<'_> {
    fn body(&mut self, ops: &[Op]) -> Result<(), Halt> {
        for op in ops {
            self.op(op)?;
            self.done += 1;
            if self.done == PROGRESS_EVERY {
                self.report_progress();
            }
        }
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Result<(), Halt> {
        let span = op.span;
        match &op.kind {
            OpKind::Submit { queue, commands } => {
                let queue = queue.resolve(self).map_err(|e| self.arithmetic(span, &e))?;
                self.submit(queue, commands, span)
            }
            OpKind::Signal { queue, fence, value } => {
                let queue = queue.resolve(self).map_err(|e| self.arithmetic(span, &e))?;
                let (fence, value) = self.fence_value(fence, value, span)?;
                self.run.logs[queue.0 as usize].lock().push(Entry::Signal { fence, value, span });
                let result = self.queue(queue).signal(&self.run.fences[fence.0 as usize], value);
                result.map_err(|error| self.halt(span, error, Obstacle::Room(queue)))
            }
            OpKind::Wait { queue, fence, value } => {
                let queue = queue.resolve(self).map_err(|e| self.arithmetic(span, &e))?;
                let (fence, value) = self.fence_value(fence, value, span)?;
                self.run.logs[queue.0 as usize].lock().push(Entry::Wait { fence, value, span });
                let result = self.queue(queue).wait(&self.run.fences[fence.0 as usize], value);
                result.map_err(|error| self.halt(span, error, Obstacle::Room(queue)))
            }
            OpKind::Present { interval, returned_ns } => {
                let interval =
                    interval.evaluate_u32(self).map_err(|e| self.arithmetic(span, &e))?;
                self.present(interval, *returned_ns, span)
            }
            OpKind::CpuSignal { fence, value } => {
                let (fence, value) = self.fence_value(fence, value, span)?;
                note_signal(&mut self.largest, fence, value, span);
                let result = self.fence(fence).signal(value);
                result.map_err(|error| self.halt(span, error, Obstacle::Sleep))
            }
            OpKind::CpuWait { any, of, chosen } => self.cpu_wait(*any, of, *chosen, span),
            OpKind::MapWrite { buffer, offset, data } => self.map_write(buffer, offset, data, span),
            OpKind::Sleep { ns } => {
                let ns = ns.evaluate_u64(self).map_err(|e| self.arithmetic(span, &e))?;
                self.pause_until(self.platform.now().after(ns), span)
            }
            OpKind::Set { variable, value } => {
                let value = value.evaluate(self).map_err(|e| self.arithmetic(span, &e))?;
                self.set(*variable, value);
                Ok(())
            }
            OpKind::Loop { variable, from, to, body } => {
                self.repeat(*variable, from, to, body, span)
            }
            OpKind::When { condition, body, otherwise } => {
                let holds = condition.holds(self).map_err(|e| self.arithmetic(span, &e))?;
                self.body(if holds { body } else { otherwise })
            }
            recorded => self.recorded(recorded, span),
        }
    }

    /// Operations of imported workloads.
    fn recorded(&mut self, kind: &OpKind, span: Span) -> Result<(), Halt> {
        match kind {
            OpKind::Host { until_ns, work_ns } => {
                let paced = i128::from(*until_ns) + self.lag;
                let at = paced.max(i128::from(self.now_ns()) + i128::from(*work_ns));
                let at = u64::try_from(at).unwrap_or(0);
                self.pause_until(CpuTime(self.start_ns).after(at), span)
            }
            OpKind::Blocked { until_ns } => {
                let until = i128::from(*until_ns) + self.lag;
                let until = CpuTime(self.start_ns).after(u64::try_from(until).unwrap_or(0));
                let begun_ns = self.platform.stamp_ns();
                if until > self.platform.now() {
                    self.pause_until(until, span)?;
                }
                let ended_ns = self.platform.stamp_ns();
                if ended_ns > begun_ns && self.platform.tracing() {
                    let kind = Kind::CpuWait;
                    let record = Record::span(self.lane, kind, NameId::NONE, begun_ns, ended_ns);
                    self.platform.record(record);
                }
                Ok(())
            }
            OpKind::PollWait { of, done_ns } => {
                self.poll(of, *done_ns, span)?;
                // What is met needs no kernel call: this counts the wait, and sleeps where looking
                // was given up.
                self.cpu_wait(false, of, None, span)
            }
            OpKind::Resume { at_ns } => {
                self.lag = i128::from(self.now_ns()) - i128::from(*at_ns);
                Ok(())
            }
            OpKind::Mark { mark } => {
                // The hand-over is in the recorded times already; what a step must cost, let it be
                // the least.
                self.run.marks[*mark as usize].set(Step::DoorbellStore);
                Ok(())
            }
            OpKind::AwaitMark { mark, at_ns } => {
                let what = "another thread of the recording";
                match self.run.marks[*mark as usize].wait_for(None, what) {
                    WaitEnd::Stopped => Err(Halt::Stopped { span, at: Obstacle::Mark(*mark) }),
                    WaitEnd::Woken | WaitEnd::TimedOut => {
                        self.lag = self.lag.max(i128::from(self.now_ns()) - i128::from(*at_ns));
                        Ok(())
                    }
                }
            }
            _ => Ok(()),
        }
    }

    /// Presents. A call that blocks because too many presents are in flight is a wait for the
    /// display on the timeline. It names no fence, because flips record no signal.
    /// A call that waited in a recording returns no earlier than there.
    fn present(&mut self, interval: u32, returned_ns: Option<u64>, span: Span) -> Result<(), Halt> {
        let (Some(screen), Some(display)) = (&self.run.screen, &self.run.workload.display) else {
            let place = self.run.workload.place(span);
            return Err(self.failed(format!("{place}: there is no display")));
        };
        let awaited = (screen.presented() + 1).saturating_sub(u64::from(display.latency));
        let blocks = screen.fence().completed_value() < awaited;
        let begun_ns = self.platform.stamp_ns();
        let shown = screen.present(interval);
        let returned = returned_ns.map(|at_ns| CpuTime(self.start_ns).after(at_ns));
        let is_early = returned.is_some_and(|at| self.platform.now() < at);
        if let (Some(at), true, Ok(_)) = (returned, is_early, &shown) {
            self.pause_until(at, span)?;
        }
        if let Some(at_ns) = returned_ns {
            self.lag = i128::from(self.now_ns()) - i128::from(at_ns);
        }
        let ended_ns = self.platform.stamp_ns();
        if (blocks || is_early) && ended_ns > begun_ns && self.platform.tracing() {
            let record = Record::span(self.lane, Kind::CpuWait, NameId::NONE, begun_ns, ended_ns);
            self.platform.record(record);
        }
        shown.map(drop).map_err(|error| self.halt(span, error, Obstacle::Room(display.queue)))
    }

    fn submit(&mut self, queue: QueueId, commands: &[Command], span: Span) -> Result<(), Halt> {
        let hangs = self.run.logs[queue.0 as usize].lock().begin_submission();
        let list =
            self.list(queue, commands, span, hangs).map_err(|refused| match refused.why {
                Why::Device(error) => self.halt(refused.span, error, Obstacle::Room(queue)),
                _ => self.failed(lists::refusal(&self.run.workload, &refused)),
            })?;
        let first_item = commands.iter().find_map(|command| match command.kind {
            CommandKind::Work { recorded, .. } => recorded,
            _ => None,
        });
        self.run.logs[queue.0 as usize].lock().submit(&list, span, first_item);
        let result = self.queue(queue).execute(&[&list.closed]);
        result.map_err(|error| self.halt(span, error, Obstacle::Room(queue)))
    }

    fn list(
        &mut self,
        queue: QueueId,
        commands: &[Command],
        span: Span,
        hangs: bool,
    ) -> Result<Arc<RecordedList>, Refused> {
        let run = self.run;
        let mut evaluated = lists::evaluate(commands, &run.buffers, self)?;
        if hangs {
            evaluated.insert(0, Evaluated::Hang);
        }
        let contents = Contents {
            list_type: run.queues[queue.0 as usize].list_type(),
            place: (span.line, span.column),
            commands: evaluated,
        };
        if let Some(list) = run.lists.get(&contents).or_else(|| self.lists.get(&contents)) {
            return Ok(Arc::clone(list));
        }
        let hang = hangs.then_some(span);
        let spans = hang.into_iter().chain(commands.iter().map(|command| command.span)).collect();
        let list =
            Arc::new(lists::record(&run.device, &run.workload, &run.buffers, &contents, spans)?);
        if self.lists.len() < MOST_LISTS {
            self.lists.insert(contents, Arc::clone(&list));
        }
        Ok(list)
    }

    fn cpu_wait(
        &mut self,
        any: bool,
        of: &[FenceWait],
        chosen: Option<Slot>,
        span: Span,
    ) -> Result<(), Halt> {
        let one = |wait: &FenceWait| self.fence_value(&wait.fence, &wait.value, span);
        let waits = of.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let result = match waits[..] {
            [(fence, value)] => self.fence(fence).wait(value),
            _ => {
                let fences = &self.run.fences;
                let all: Vec<(&Fence, u64)> = waits
                    .iter()
                    .map(|(fence, value)| (&fences[fence.0 as usize], *value))
                    .collect();
                let mode = if any { WaitMode::Any } else { WaitMode::All };
                self.run.device.with_lane(self.lane).wait_multiple(&all, mode)
            }
        };
        result
            .map_err(|error| self.halt(span, error, Obstacle::Fences { any, of: waits.clone() }))?;
        if let Some(slot) = chosen {
            let met = |(fence, value): &(FenceId, u64)| {
                self.run.fences[fence.0 as usize].completed_value() >= *value
            };
            // A fence that was rewound since is no longer met; the wait was for one of them all the
            // same.
            let first = waits.iter().position(met).unwrap_or(0);
            self.set(slot, first as i128);
        }
        Ok(())
    }

    /// Polls, from shortly before the recorded end of the wait. The timeline shows it as a wait.
    fn poll(&mut self, of: &[FenceWait], done_ns: u64, span: Span) -> Result<(), Halt> {
        let one = |wait: &FenceWait| self.fence_value(&wait.fence, &wait.value, span);
        let waits = of.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let met = || {
            waits.iter().all(|(f, value)| self.run.fences[f.0 as usize].completed_value() >= *value)
        };
        let expected = u64::try_from(i128::from(done_ns) + self.lag).unwrap_or(0);
        let begun_ns = self.platform.stamp_ns();
        let from = CpuTime(self.start_ns).after(expected.saturating_sub(POLL_BEFORE_NS));
        if !met() {
            self.pause_until(from, span)?;
        }
        let until = self.platform.now().after(POLL_AT_MOST_NS);
        while !met() && self.platform.now() < until {
            self.pause_until(self.platform.now().after(POLL_EVERY_NS), span)?;
        }
        let ended_ns = self.platform.stamp_ns();
        if ended_ns > begun_ns && self.platform.tracing() {
            for (fence, value) in waits {
                let record =
                    Record::span(self.lane, Kind::CpuWait, NameId::NONE, begun_ns, ended_ns);
                let fence = self.run.fences[fence.0 as usize].on_timeline(value);
                self.platform.record(record.on(fence));
            }
        }
        Ok(())
    }

    fn map_write(
        &mut self,
        buffer: &BufferRef,
        offset: &Expr,
        data: &Data,
        span: Span,
    ) -> Result<(), Halt> {
        let id = buffer.resolve(self).map_err(|e| self.arithmetic(span, &e))?;
        let offset = offset.evaluate_u64(self).map_err(|e| self.arithmetic(span, &e))?;
        let buffer = self.run.buffers[id.0 as usize].on_lane(self.lane);
        let bytes = match data {
            Data::U32(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            Data::F32(floats) => floats.iter().flat_map(|float| float.to_le_bytes()).collect(),
            Data::Each { value, words, word } => {
                let words = words.evaluate_u64(self).map_err(|e| self.arithmetic(span, &e))?;
                if words > buffer.bytes() / 4 {
                    let (name, most) = (buffer.name(), buffer.bytes() / 4);
                    let text = format!("a map_write of {words} words; buffer '{name}' has {most}");
                    return Err(self.failed(format!("{}: {text}", self.run.workload.place(span))));
                }
                self.each_word(value, words, *word).map_err(|e| self.arithmetic(span, &e))?
            }
        };
        let result: Result<(), Error> = buffer.write_traced(offset, &bytes);
        result.map_err(|error| self.halt(span, error, Obstacle::Sleep))
    }

    fn each_word(
        &mut self,
        value: &Expr,
        words: u64,
        word: Slot,
    ) -> Result<Vec<u8>, ArithmeticError> {
        let mut bytes = Vec::new();
        for k in 0..words {
            self.set(word, i128::from(k));
            bytes.extend(value.evaluate_u32(self)?.to_le_bytes());
        }
        Ok(bytes)
    }

    fn repeat(
        &mut self,
        variable: Slot,
        from: &Expr,
        to: &Expr,
        body: &[Op],
        span: Span,
    ) -> Result<(), Halt> {
        let from = from.evaluate(self).map_err(|e| self.arithmetic(span, &e))?;
        let to = to.evaluate(self).map_err(|e| self.arithmetic(span, &e))?;
        let rounds = to.saturating_sub(from).saturating_add(1);
        if rounds > MOST_ROUNDS {
            let text = format!("a loop of {rounds} rounds; the most are {MOST_ROUNDS}");
            return Err(self.failed(format!("{}: {text}", self.run.workload.place(span))));
        }
        for value in from..=to {
            self.set(variable, value);
            self.body(body)?;
        }
        Ok(())
    }

    fn set(&mut self, slot: Slot, value: i128) {
        self.variables[usize::from(slot.0)] = value;
    }

    fn fence_value(
        &self,
        fence: &FenceRef,
        value: &Expr,
        span: Span,
    ) -> Result<(FenceId, u64), Halt> {
        let fence = fence.resolve(self).map_err(|e| self.arithmetic(span, &e))?;
        let value = value.evaluate_u64(self).map_err(|e| self.arithmetic(span, &e))?;
        Ok((fence, value))
    }

    fn queue(&self, queue: QueueId) -> Queue {
        self.run.queues[queue.0 as usize].on_lane(self.lane)
    }

    fn fence(&self, fence: FenceId) -> Fence {
        self.run.fences[fence.0 as usize].on_lane(self.lane)
    }

    /// Time since the start of the run.
    fn now_ns(&self) -> u64 {
        self.platform.now().0.saturating_sub(self.start_ns)
    }

    fn pause_until(&self, at: CpuTime, span: Span) -> Result<(), Halt> {
        match self.platform.sleep_precisely_until(at) {
            WaitEnd::Stopped => Err(Halt::Stopped { span, at: Obstacle::Sleep }),
            _ => Ok(()),
        }
    }

    fn arithmetic(&self, span: Span, error: &ArithmeticError) -> Halt {
        self.failed(format!("{}: {error}", self.run.workload.place(span)))
    }

    /// A failure; of a lost device whose fences all read as their maximum it says so, and not what
    /// followed from it.
    fn failed(&self, text: String) -> Halt {
        match self.run.device.removed_reason() {
            Some(reason) => Halt::Removed { reason, span: Span::default(), at: Obstacle::Sleep },
            None => Halt::Failed(text),
        }
    }

    fn halt(&self, span: Span, error: Error, at: Obstacle) -> Halt {
        match error {
            Error::Stopped => Halt::Stopped { span, at },
            Error::DeviceRemoved(reason) => Halt::Removed { reason, span, at },
            error => self.failed(format!("{}: {error}", self.run.workload.place(span))),
        }
    }

    fn report_progress(&mut self) {
        let by = std::mem::take(&mut self.done);
        if let Some(progress) = &self.run.options.progress {
            let done = self.run.done.fetch_add(by) + by;
            progress(done, self.run.total.max(done));
        }
    }

    fn leave(&mut self, number: usize, end: Result<(), Halt>) {
        let mut state = self.run.state.lock();
        for (fence, (value, span)) in std::mem::take(&mut self.largest) {
            note_signal(&mut state.largest, fence, value, span);
        }
        match end {
            Ok(()) => state.finished_threads += 1,
            Err(Halt::Stopped { span, at }) => {
                state.stuck.push(StuckThread { thread: number, span, at })
            }
            Err(Halt::Removed { reason, span, at }) => {
                state.removed_threads.push(StuckThread { thread: number, span, at });
                state.removed.get_or_insert(reason);
            }
            Err(Halt::Failed(text)) => {
                state.failures.push(text);
                if self.run.options.stops_at_failure {
                    drop(state);
                    self.platform.stop();
                }
            }
        }
    }
}
