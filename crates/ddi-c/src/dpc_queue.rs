//! What the agents of a driver share: its events, and the queue of its DPCs, timers and threads.

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
    pub(crate) is_running: bool,
    pub(crate) ends: bool,
    pub(crate) threads_started: u64,
    /// Names of threads that have not ended.
    pub(crate) threads: Vec<String>,
}

/// The state of a driver's agents.
pub(crate) struct Agents {
    pub(crate) routines: Routines,
    pub(crate) events: Mutex<BTreeMap<u64, Event>>,
    pub(crate) queue: Mutex<Queue>,
    /// Set when the agent of DPCs has something to do.
    pub(crate) wake: Event,
    /// Set when a DPC has ended and no other is queued.
    pub(crate) flushed: Event,
    /// Set when that agent has ended.
    pub(crate) ended: Event,
}

impl Agents {
    pub(crate) fn new(platform: &Platform, routines: Routines) -> Agents {
        Agents {
            routines,
            events: platform.mutex("driver's events", BTreeMap::new()),
            queue: platform.mutex("driver's DPC queue", Queue::default()),
            wake: platform.event(false),
            flushed: platform.event(true),
            ended: platform.event(true),
        }
    }
}
