//! The timer of an adapter: watches with deadlines, and work items. One agent runs both, at PASSIVE
//! level (`supervisor`).
//!
//! Invariants: a deadline is armed after the lock of the policy that has it is dropped. `until` is
//! the deadline that the agent sleeps for; an earlier one wakes the agent. Work items run in the
//! order in which they were queued, on an adapter that has stopped as well, until [`Timer::stop`].
//!
//! Entry points: [`Timer::arm`], [`Timer::arm_background`], [`Timer::queue_work`].

use std::collections::VecDeque;
use std::sync::OnceLock;
use tidegate_ddi::Passive;
use tidegate_platform::{CpuTime, Mutex, Platform, ServiceHandle, Step, WakeWord, Word};

/// A policy with deadlines, and the protocol that acts on them.
pub(crate) trait Watch: Send + Sync {
    /// What its deadlines are for.
    fn name(&self) -> &'static str;

    /// The next deadline; `None` while there is nothing to wait for. A time that has passed is due.
    fn next_deadline(&self) -> Option<CpuTime>;

    /// Acts on what is due. Returns whether anything changed: the deadline that was due must be
    /// gone then.
    fn run(&self, level: &Passive) -> bool;
}

/// Work of an agent that must not block (IoQueueWorkItem).
pub(crate) type WorkItem = Box<dyn FnOnce(&Passive) + Send>;

/// The way to the agent that runs watches and work items.
pub(crate) struct Timer {
    /// The deadline that the agent sleeps for, in ns, whether or not another agent can run;
    /// `u64::MAX`: every deadline wakes the agent.
    until: Word,
    wake: WakeWord,
    is_on: bool,
    work: Mutex<VecDeque<WorkItem>>,
    agent: Mutex<AgentState>,
    /// Starts the agent.
    start: OnceLock<Box<dyn Fn() -> ServiceHandle + Send + Sync>>,
}

/// The agent of an adapter without deadlines starts with its first work item.
enum AgentState {
    NotStarted,
    Running(ServiceHandle),
    Stopped,
}

impl Timer {
    pub(crate) fn new(platform: &Platform, is_on: bool) -> Timer {
        let until = platform.page(1).word(0).named("the timer's deadline");
        until.store(u64::MAX);
        Timer {
            until,
            wake: WakeWord::new(platform),
            is_on,
            work: platform.mutex("work items", VecDeque::new()),
            agent: platform.mutex("timer", AgentState::NotStarted),
            start: OnceLock::new(),
        }
    }

    /// Whether deadlines are kept.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Names what starts the agent, and starts it where deadlines are kept. Once.
    pub(crate) fn attach(&self, start: Box<dyn Fn() -> ServiceHandle + Send + Sync>) {
        let _first = self.start.set(start);
        if self.is_on {
            self.start_agent();
        }
    }

    fn start_agent(&self) {
        let Some(start) = self.start.get() else { return };
        let mut agent = self.agent.lock();
        if let AgentState::NotStarted = *agent {
            *agent = AgentState::Running(start());
        }
    }

    /// A watch has this deadline now. Called with no lock of policy state held.
    pub(crate) fn arm(&self, deadline: CpuTime) {
        if self.is_on && deadline.0 < self.until.load() {
            self.wake.ring(Step::ThreadWake);
        }
    }

    /// A background watch that had no deadline has one now.
    pub(crate) fn arm_background(&self) {
        if self.is_on {
            self.wake.ring(Step::ThreadWake);
        }
    }

    /// Has `item` run at PASSIVE level. Any level; locks may be held. After [`Timer::stop`] the
    /// item is dropped.
    pub(crate) fn queue_work(&self, item: WorkItem) {
        self.work.lock().push_back(item);
        if !self.is_on {
            self.start_agent();
        }
        self.wake.ring(Step::ThreadWake);
    }

    /// The next work item, for the agent.
    pub(crate) fn take_work(&self) -> Option<WorkItem> {
        self.work.lock().pop_front()
    }

    /// The agent sleeps for this deadline from now on.
    pub(crate) fn sleep_until(&self, deadline_ns: u64) {
        self.until.store(deadline_ns);
    }

    /// What wakes the agent.
    pub(crate) fn wake_word(&self) -> WakeWord {
        self.wake.clone()
    }

    /// Ends the agent after its present turn, and drops the work items that are left.
    pub(crate) fn stop(&self) {
        let agent = std::mem::replace(&mut *self.agent.lock(), AgentState::Stopped);
        if let AgentState::Running(service) = agent {
            service.stop();
        }
        let left = std::mem::take(&mut *self.work.lock());
        drop(left);
    }
}
