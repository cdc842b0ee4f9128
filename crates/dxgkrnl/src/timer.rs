//! The timer of an adapter: watches with deadlines, and work items. One agent runs both, at PASSIVE
//! level (`supervisor`).
//!
//! Invariants: a deadline is armed after the lock of the policy that has it is dropped. `until` is
//! the deadline that the agent sleeps for; an earlier one wakes the agent. Work items run in the
//! order in which they were queued, on an adapter that has stopped as well, until [`Timer::stop`].
//! No item waits for work of an engine, because the same agent finds an engine that hangs.
//!
//! Entry points: [`Timer::arm`], [`Timer::arm_background`], [`Timer::queue_work`], [`AtPassive`].

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use tidegate_ddi::Passive;
use tidegate_platform::{CpuTime, Mutex, Platform, ServiceHandle, Step, WakeWord, Word};

/// A policy with deadlines, and the protocol that acts on them.
pub(crate) trait Watch: Send + Sync {
    /// Returns the watch's name, for reports.
    fn name(&self) -> &'static str;

    /// Returns the next deadline, if any. A time in the past is due.
    fn next_deadline(&self) -> Option<CpuTime>;

    /// Handles what is due `now`. Returns whether anything changed. If so, the due deadline must be
    /// gone.
    fn run(&self, level: &Passive, now: CpuTime) -> bool;

    /// Counts no time before `from` for work of the engines: no deadline was armed then.
    fn count_from(&self, _from: CpuTime) {}

    /// Leaves out the last `ns` for work of the engines: nothing had a processor then.
    fn leave_out(&self, _ns: u64, _now: CpuTime) {}
}

/// Work of an agent that must not block (IoQueueWorkItem).
pub(crate) type WorkItem = Box<dyn FnOnce(&Passive) + Send>;

/// Connection to the agent that runs watches and work items.
pub(crate) struct Timer {
    /// The deadline that the agent sleeps for, in ns, whether or not another agent can run;
    /// `u64::MAX`: every deadline wakes the agent.
    until: Word,
    wake: WakeWord,
    work: Mutex<VecDeque<WorkItem>>,
    /// `None` before the start and after the stop.
    agent: Mutex<Option<ServiceHandle>>,
}

impl Timer {
    pub(crate) fn new(platform: &Platform) -> Arc<Timer> {
        let until = platform.page(1).word(0).named("the timer's deadline");
        until.store(u64::MAX);
        Arc::new(Timer {
            until,
            wake: WakeWord::new(platform),
            work: platform.mutex("work items", VecDeque::new()),
            agent: platform.mutex("timer", None),
        })
    }

    /// Stores the started agent. Called once.
    pub(crate) fn attach(&self, agent: ServiceHandle) {
        *self.agent.lock() = Some(agent);
    }

    /// Arms a deadline. Called with no lock of policy state held.
    pub(crate) fn arm(&self, deadline: CpuTime) {
        if deadline.0 < self.until.load() {
            self.wake.ring(Step::ThreadWake);
        }
    }

    /// Wakes the agent because a background watch without a deadline now has one.
    pub(crate) fn arm_background(&self) {
        self.wake.ring(Step::ThreadWake);
    }

    /// Queues `item` to run at PASSIVE level. Callable at any level and with locks held. After
    /// [`Timer::stop`] no item runs; [`Timer::drop_work`] drops it.
    pub(crate) fn queue_work(&self, item: WorkItem) {
        self.work.lock().push_back(item);
        self.wake.ring(Step::ThreadWake);
    }

    /// Takes the next work item.
    pub(crate) fn take_work(&self) -> Option<WorkItem> {
        self.work.lock().pop_front()
    }

    /// Publishes the deadline that the agent sleeps for.
    pub(crate) fn sleep_until(&self, deadline_ns: u64) {
        self.until.store(deadline_ns);
    }

    /// Returns the word that wakes the agent.
    pub(crate) fn wake_word(&self) -> WakeWord {
        self.wake.clone()
    }

    /// Ends the agent after its present turn, and drops the remaining work items.
    pub(crate) fn stop(&self) {
        let agent = self.agent.lock().take();
        if let Some(service) = agent {
            service.stop();
        }
        self.drop_work();
    }

    /// Drops the work items that are left.
    pub(crate) fn drop_work(&self) {
        let left = std::mem::take(&mut *self.work.lock());
        drop(left);
    }
}

/// Ends an object after its last reference is dropped, before its parts are.
pub(crate) trait EndAtPassive: Send + 'static {
    /// The end may wait for work of an engine. In place of the timer's agent, a task ends an object
    /// whose last reference a DPC drops.
    const WAITS_FOR_ENGINES: bool = false;

    /// Called once.
    fn end(&mut self, level: &Passive);
}

/// An object that ends at PASSIVE level. Where a DPC drops the last reference, a work item ends the
/// object, or has a task end it. A drop has no argument, so it reads the level of its agent.
pub(crate) struct AtPassive<T: EndAtPassive> {
    /// `None` only inside the drop.
    object: Option<T>,
    timer: Arc<Timer>,
}

impl<T: EndAtPassive> AtPassive<T> {
    pub(crate) fn wrap(timer: &Arc<Timer>, object: T) -> AtPassive<T> {
        AtPassive { object: Some(object), timer: timer.clone() }
    }

    /// Drops the object without calling `end`.
    pub(crate) fn forget(mut self) {
        self.object = None;
    }
}

impl<T: EndAtPassive> Deref for AtPassive<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.object.as_ref().expect("it is there until the drop")
    }
}

impl<T: EndAtPassive> Drop for AtPassive<T> {
    fn drop(&mut self) {
        let Some(mut object) = self.object.take() else { return };
        match Passive::enter_if_current() {
            Some(level) => object.end(&level),
            None => {
                // An item that never runs is dropped at PASSIVE level.
                let object = AtPassive::wrap(&self.timer, object);
                let platform = self.timer.until.platform().clone();
                self.timer.queue_work(match T::WAITS_FOR_ENGINES {
                    // spec: PRE-162
                    true => Box::new(move |_| platform.spawn_task("an end", move || drop(object))),
                    false => Box::new(move |_| drop(object)),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::level::{Level, raise};
    use tidegate_platform::{Event, WaitEnd};

    impl EndAtPassive for Arc<()> {
        fn end(&mut self, _: &Passive) {}
    }

    /// An object whose end waits for an engine.
    struct Waits(Event, Event);

    impl EndAtPassive for Waits {
        const WAITS_FOR_ENGINES: bool = true;

        fn end(&mut self, _: &Passive) {
            assert_eq!(self.0.wait(), WaitEnd::Woken);
            self.1.set(Step::ThreadWake);
        }
    }

    // spec: PRE-162
    #[test]
    fn the_timer_does_not_wait_for_an_engine_to_end_an_object() {
        let platform = Platform::host();
        let timer = Timer::new(&platform);
        let (work, ended) = (platform.event(false), platform.event(false));
        {
            let _dpc = raise(Level::Dispatch);
            drop(AtPassive::wrap(&timer, Waits(work.clone(), ended.clone())));
        }
        timer.take_work().expect("a work item")(&Passive::enter());
        // The engine goes on after the item has returned.
        work.set(Step::ThreadWake);
        assert_eq!(ended.wait(), WaitEnd::Woken);
    }

    #[test]
    fn an_object_whose_last_reference_a_dpc_drops_ends_in_a_work_item() {
        let timer = Timer::new(&Platform::closed_host());
        let (dropped_here, in_dpc) = (Arc::new(()), Arc::new(()));
        drop(AtPassive::wrap(&timer, dropped_here.clone()));
        assert!(Arc::strong_count(&dropped_here) == 1 && timer.take_work().is_none());
        {
            let _dpc = raise(Level::Dispatch);
            drop(AtPassive::wrap(&timer, in_dpc.clone()));
        }
        assert_eq!(Arc::strong_count(&in_dpc), 2);
        timer.take_work().expect("a work item")(&Passive::enter());
        assert_eq!(Arc::strong_count(&in_dpc), 1);
    }
}
