//! What the agents of a driver share: the queue of its DPCs, timers, threads and work items.

use std::collections::{BTreeMap, VecDeque};
use tidegate_platform::{CpuTime, Event, Mutex, Platform};

/// Calls of the driver's routines.
#[derive(Clone, Copy)]
pub(crate) struct Routines {
    /// KDEFERRED_ROUTINE, with the DPC, its context and two arguments.
    pub(crate) deferred: fn(u64, [u64; 4]),
    /// KSTART_ROUTINE, with its context.
    pub(crate) start: fn(u64, u64),
}

/// A queued DPC.
#[derive(Clone, Copy)]
pub(crate) struct Dpc {
    /// Address of the KDPC.
    pub(crate) at: u64,
    pub(crate) routine: u64,
    pub(crate) context: u64,
    pub(crate) arguments: [u64; 2],
}

/// A queued work item.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// Address of the item.
    pub(crate) at: u64,
    pub(crate) routine: u64,
    pub(crate) context: u64,
}

pub(crate) struct Timer {
    pub(crate) due: CpuTime,
    /// 0 for a timer that expires once.
    pub(crate) period_ns: u64,
    pub(crate) dpc: Option<Dpc>,
    /// What the expiry sets.
    pub(crate) event: Event,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) dpcs: VecDeque<Dpc>,
    /// By the address of the KTIMER.
    pub(crate) timers: BTreeMap<u64, Timer>,
    pub(crate) has_agent: bool,
    /// Address of the KDPC that runs.
    pub(crate) running: Option<u64>,
    pub(crate) ends: bool,
    pub(crate) work: VecDeque<Work>,
    pub(crate) has_worker: bool,
    pub(crate) is_working: bool,
    pub(crate) threads_started: u64,
    /// Names of threads that have not ended.
    pub(crate) threads: Vec<String>,
}

/// The state of a driver's agents.
pub(crate) struct Agents {
    pub(crate) routines: Routines,
    pub(crate) queue: Mutex<Queue>,
    /// Set when the agent of DPCs has something to do.
    pub(crate) wake: Event,
    /// Set when a DPC has ended and no other is queued.
    pub(crate) flushed: Event,
    /// Set when that agent has ended.
    pub(crate) ended: Event,
    /// Set when the agent of work items has something to do.
    pub(crate) work_wake: Event,
    /// Set when that agent has ended.
    pub(crate) worker_ended: Event,
}

impl Agents {
    pub(crate) fn new(platform: &Platform, routines: Routines) -> Agents {
        Agents {
            routines,
            queue: platform.mutex("driver's DPC queue", Queue::default()),
            wake: platform.event(false),
            flushed: platform.event(true),
            ended: platform.event(true),
            work_wake: platform.event(false),
            worker_ended: platform.event(true),
        }
    }
}
