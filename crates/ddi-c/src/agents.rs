//! DPCs, timers, threads and work items of a driver. Each thread is an agent of the platform. One
//! more agent runs the DPCs and the timers, another the work items. Each starts with the first of
//! them.
//!
//! Invariants: a DPC is in the queue once. The lock of the queue is innermost and is not held while
//! a routine runs. At the end of a run every wait ends; a thread of the driver then ends in that
//! wait, because it would wait again for ever.

use crate::dpc_queue::{Dpc, Queue, Timer, Work};
use crate::host::Host;
use crate::rule::Rule;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use tidegate_platform::level::Level;
use tidegate_platform::{CpuTime, Step, WaitEnd, current};

/// What the agent of DPCs does next.
enum Next {
    Run(Dpc),
    /// Waits, until the next timer expires if there is one.
    Wait(Option<CpuTime>),
    /// The driver was unloaded.
    End,
}

/// The payload of the unwinding that ends a thread of the driver.
struct ThreadEnd;

/// Addresses of thread objects. No CPU accepts them.
const THREADS_AT: u64 = 0x7D6F_0000_0000_0000;

impl Host {
    /// Ends the calling agent if it is a thread of the driver.
    pub(crate) fn end_stopped_thread(&self) {
        let name = current::name();
        if self.agents.queue.lock().threads.contains(&name) {
            resume_unwind(Box::new(ThreadEnd));
        }
    }

    /// PsTerminateSystemThread. Returns on an agent that is not a thread of the driver.
    pub(crate) fn end_thread(&self) {
        self.end_stopped_thread();
        self.violation(Rule::Thread, "PsTerminateSystemThread outside of a thread of the driver");
    }

    // DPCs and timers.

    /// Queues a DPC. Returns `false` if it is queued already.
    pub(crate) fn insert_dpc(self: &Arc<Host>, dpc: Dpc) -> bool {
        {
            let mut queue = self.agents.queue.lock();
            if queue.dpcs.iter().any(|queued| queued.at == dpc.at) {
                return false;
            }
            queue.dpcs.push_back(dpc);
        }
        self.wake_agent();
        true
    }

    /// Removes a DPC that has not begun.
    pub(crate) fn remove_dpc(&self, at: u64) -> bool {
        let mut queue = self.agents.queue.lock();
        let before = queue.dpcs.len();
        queue.dpcs.retain(|dpc| dpc.at != at);
        queue.dpcs.len() < before
    }

    pub(crate) fn is_dpc_running(&self, at: u64) -> bool {
        self.agents.queue.lock().running == Some(at)
    }

    /// Waits until every queued DPC has run.
    pub(crate) fn flush_dpcs(&self) {
        loop {
            {
                let queue = self.agents.queue.lock();
                if queue.running.is_none() && queue.dpcs.is_empty() {
                    return;
                }
                self.agents.flushed.reset();
            }
            if self.agents.flushed.wait_for(None, "DPCs of the driver") == WaitEnd::Stopped {
                return;
            }
        }
    }

    /// Sets a timer. Returns whether it was set already.
    pub(crate) fn set_timer(
        self: &Arc<Host>,
        at: u64,
        units: u64,
        period_ms: u32,
        dpc: Option<Dpc>,
    ) -> bool {
        let Some(event) = self.event(at, "KeSetTimer") else { return false };
        let timer = Timer {
            due: self.platform.now().after(units.saturating_mul(100)),
            period_ns: u64::from(period_ms) * 1_000_000,
            dpc,
            event: event.clone(),
        };
        let replaced = {
            let mut queue = self.agents.queue.lock();
            event.reset();
            queue.timers.insert(at, timer)
        };
        self.wake_agent();
        replaced.is_some()
    }

    pub(crate) fn cancel_timer(&self, at: u64) -> bool {
        self.agents.queue.lock().timers.remove(&at).is_some()
    }

    fn wake_agent(self: &Arc<Host>) {
        let starts = {
            let mut queue = self.agents.queue.lock();
            !std::mem::replace(&mut queue.has_agent, true)
        };
        self.agents.wake.set(Step::ThreadWake);
        if starts {
            self.agents.ended.reset();
            let host = Arc::clone(self);
            let name = format!("DPCs of the driver {}", self.name);
            self.platform.spawn_worker(name, move || host.run_dpcs());
        }
    }

    /// Takes the next DPC, after those of expired timers were queued. The events of these timers
    /// are set under the lock, so that a timer which is set again is not signalled by its old
    /// expiry.
    fn next_dpc(&self) -> Next {
        let now = self.platform.now();
        let mut queue = self.agents.queue.lock();
        if queue.ends {
            return Next::End;
        }
        let Queue { dpcs, timers, .. } = &mut *queue;
        timers.retain(|_, timer| {
            if timer.due > now {
                return true;
            }
            timer.event.set(Step::ThreadWake);
            timer.due = now.after(timer.period_ns);
            dpcs.extend(timer.dpc.filter(|dpc| dpcs.iter().all(|of| of.at != dpc.at)));
            timer.period_ns != 0
        });
        let next = dpcs.pop_front();
        queue.running = next.map(|dpc| dpc.at);
        match next {
            Some(dpc) => Next::Run(dpc),
            None => Next::Wait(queue.timers.values().map(|timer| timer.due).min()),
        }
    }

    fn run_dpcs(&self) {
        loop {
            match self.next_dpc() {
                Next::Run(Dpc { at, routine, context, arguments: [one, two] }) => {
                    self.at_level("a DPC of the driver", Level::Dispatch, || {
                        (self.agents.routines.deferred)(routine, [at, context, one, two]);
                    });
                    let is_last = {
                        let mut queue = self.agents.queue.lock();
                        queue.running = None;
                        queue.dpcs.is_empty()
                    };
                    if is_last {
                        self.agents.flushed.set(Step::ThreadWake);
                    }
                }
                Next::Wait(due) => {
                    let end = self.agents.wake.wait_for(due, "DPCs and timers of the driver");
                    if end == WaitEnd::Stopped {
                        break;
                    }
                }
                Next::End => break,
            }
        }
        self.agents.queue.lock().has_agent = false;
        self.agents.flushed.set(Step::ThreadWake);
        self.agents.ended.set(Step::ThreadWake);
    }

    // Threads.

    /// Starts a thread. Returns the address of its object.
    pub(crate) fn start_thread(self: &Arc<Host>, routine: u64, context: u64) -> u64 {
        let (number, name) = {
            let mut queue = self.agents.queue.lock();
            queue.threads_started += 1;
            let name = format!("thread {} of the driver {}", queue.threads_started, self.name);
            queue.threads.push(name.clone());
            (queue.threads_started, name)
        };
        let at = THREADS_AT + 16 * number;
        self.initialize_event(at, true, false);
        self.open_thread(at);
        let (host, of) = (Arc::clone(self), name.clone());
        self.platform.spawn_worker(name, move || {
            host.name_thread(at);
            let start = || (host.agents.routines.start)(routine, context);
            let ended = catch_unwind(AssertUnwindSafe(|| host.on_stack("a thread", start)));
            host.end_caller();
            host.agents.queue.lock().threads.retain(|thread| *thread != of);
            host.set_event(at);
            match ended {
                Err(payload) if !payload.is::<ThreadEnd>() => resume_unwind(payload),
                _ => {}
            }
        });
        at
    }

    // Work items.

    /// Queues a work item. Returns `false` if it is queued already.
    pub(crate) fn queue_work(self: &Arc<Host>, work: Work) -> bool {
        let starts = {
            let mut queue = self.agents.queue.lock();
            if queue.work.iter().any(|queued| queued.at == work.at) {
                return false;
            }
            queue.work.push_back(work);
            !std::mem::replace(&mut queue.has_worker, true)
        };
        self.agents.work_wake.set(Step::ThreadWake);
        if starts {
            self.agents.worker_ended.reset();
            let host = Arc::clone(self);
            let name = format!("work items of the driver {}", self.name);
            self.platform.spawn_worker(name, move || host.run_work());
        }
        true
    }

    pub(crate) fn is_work_queued(&self, at: u64) -> bool {
        self.agents.queue.lock().work.iter().any(|queued| queued.at == at)
    }

    fn run_work(&self) {
        loop {
            let next = {
                let mut queue = self.agents.queue.lock();
                if queue.ends {
                    break;
                }
                let next = queue.work.pop_front();
                queue.is_working = next.is_some();
                next
            };
            if let Some(Work { routine, context, .. }) = next {
                self.at_level("a work item of the driver", Level::Passive, || {
                    (self.agents.routines.start)(routine, context);
                });
                continue;
            }
            let end = self.agents.work_wake.wait_for(None, "work items of the driver");
            if end == WaitEnd::Stopped {
                break;
            }
        }
        {
            let mut queue = self.agents.queue.lock();
            (queue.has_worker, queue.is_working) = (false, false);
            queue.work.clear();
        }
        self.agents.worker_ended.set(Step::ThreadWake);
    }

    /// Drops timers and queued DPCs, ends the agent of DPCs, and checks that the driver has left
    /// nothing that runs. Returns whether its code can be unloaded.
    pub(crate) fn end_agents(&self) -> bool {
        let (timers, work, threads, has_agent, has_worker) = {
            let mut queue = self.agents.queue.lock();
            queue.ends = true;
            queue.dpcs.clear();
            let timers = std::mem::take(&mut queue.timers).len();
            let work = std::mem::take(&mut queue.work).len();
            (timers, work, queue.threads.len(), queue.has_agent, queue.has_worker)
        };
        if work > 0 {
            self.violation(
                Rule::Thread,
                format!("{work} work items of the driver have not ended at its end"),
            );
        }
        if timers > 0 {
            self.violation(
                Rule::Thread,
                format!("{timers} timers of the driver are set after its end"),
            );
        }
        if threads > 0 {
            self.violation(
                Rule::Thread,
                format!("{threads} threads of the driver run after its end"),
            );
        }
        if has_agent && !self.platform.is_cooperative() {
            self.agents.wake.set(Step::ThreadWake);
            let end = self.agents.ended.wait_for(None, "the end of the driver's DPCs");
            if end == WaitEnd::Stopped {
                return false;
            }
        }
        if has_worker && !self.platform.is_cooperative() {
            self.agents.work_wake.set(Step::ThreadWake);
            let end = self.agents.worker_ended.wait_for(None, "the end of the driver's work");
            if end == WaitEnd::Stopped {
                return false;
            }
        }
        let queue = self.agents.queue.lock();
        threads == 0 && queue.running.is_none() && !queue.is_working
    }
}
