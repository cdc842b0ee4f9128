//! Owns the look at engines with user-mode queues at the timeout cadence: nothing interrupts when
//! such a queue has no more to do, so the kernel looks whether it has made progress.
//!
//! An engine is looked at from the connect of a doorbell on it until it has lost its power: 1. one
//! whose queues moved since the last look is left alone; 2. one that stood still goes down as if
//! its driver had offered it, which takes its doorbells and leaves it its power if work is
//! announced; 3. if it stands still one look later, what processes announced counts no more. What
//! was rung while the doorbell was there is with the driver since the disconnect, who rings later
//! connects first, and a driver refuses the power of an engine that has work: all that is left out
//! is a process that announced what it never submitted.
//!
//! The supervisor looks at leisure: looks help nobody on, and so keep no machine going.
//! [`ProgressCheck`] decides and looks at nothing; `doorbell` says who was connected. Whether an
//! engine without progress hangs is not asked here.

use super::engine::{Announced, power_down};
use crate::adapter::Adapter;
use crate::timer::Watch;
use std::sync::{Arc, Weak};
use tidegate_ddi::{EngineId, Passive};
use tidegate_platform::CpuTime;

/// The checks of progress.
pub(crate) struct ProgressWatch(pub(crate) Weak<Adapter>);

impl Watch for ProgressWatch {
    fn name(&self) -> &'static str {
        "power"
    }

    fn next_deadline(&self) -> Option<CpuTime> {
        self.0.upgrade()?.power.state.lock().check.next
    }

    fn run(&self, level: &Passive) -> bool {
        self.0.upgrade().is_some_and(|adapter| check_progress(&adapter, level))
    }
}

/// When to look at which engine, and what a look says.
pub(super) struct ProgressCheck {
    period_ns: u64,
    next: Option<CpuTime>,
    engines: Vec<Watched>,
}

#[derive(Clone, Default)]
struct Watched {
    /// From a connect until the engine loses its power.
    on: bool,
    connects: u64,
    seen: Option<Standing>,
    /// How many looks in a row found the same.
    same: u32,
}

/// What does not change while an engine does nothing for its user-mode queues.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Standing {
    progress: UserModeProgress,
    connects: u64,
}

/// Sums over the user-mode queues of an engine, modulo 2^64: only whether they change is of
/// interest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UserModeProgress {
    completed: u64,
    announced: u64,
}

impl ProgressCheck {
    pub(super) fn new(period_ns: u64, engines: usize) -> ProgressCheck {
        ProgressCheck { period_ns, next: None, engines: vec![Watched::default(); engines] }
    }

    /// A doorbell of the engine was connected. Returns whether the looks begin with it.
    pub(super) fn connected(&mut self, engine: usize, now: CpuTime) -> bool {
        let watched = &mut self.engines[engine];
        watched.on = true;
        watched.connects += 1;
        let begins = self.next.is_none();
        self.next.get_or_insert(now.after(self.period_ns));
        begins
    }

    /// The engine has lost its power.
    pub(super) fn unpowered(&mut self, engine: usize) {
        let watched = &mut self.engines[engine];
        *watched = Watched { connects: watched.connects, ..Watched::default() };
    }

    /// A look begins: the engines to look at, by number. There is another one as long as there are
    /// any.
    fn begin_look(&mut self, now: CpuTime) -> Vec<usize> {
        let watched = self.engines.iter().enumerate().filter(|(_, engine)| engine.on);
        let watched: Vec<usize> = watched.map(|(number, _)| number).collect();
        self.next = (!watched.is_empty()).then(|| now.after(self.period_ns));
        watched
    }

    /// Whether the engine may lose its power, and what then counts of what was announced; `None`
    /// when it moved.
    fn judge(&mut self, engine: usize, progress: UserModeProgress) -> Option<Announced> {
        let watched = &mut self.engines[engine];
        let standing = Standing { progress, connects: watched.connects };
        watched.same = if watched.seen == Some(standing) { watched.same + 1 } else { 0 };
        watched.seen = Some(standing);
        match watched.same {
            0 => None,
            1 => Some(Announced::Counts),
            _ => Some(Announced::IsStale),
        }
    }
}

impl Adapter {
    fn user_mode_progress(&self, engine: EngineId) -> UserModeProgress {
        let doorbells = self.doorbells_of(|d| d.queue.engine() == engine);
        doorbells.fold(UserModeProgress::default(), |sum, doorbell| UserModeProgress {
            completed: sum.completed.wrapping_add(doorbell.queue.progress.fence.value()),
            announced: sum.announced.wrapping_add(doorbell.announced()),
        })
    }
}

// spec: UMS-049
fn check_progress(adapter: &Arc<Adapter>, level: &Passive) -> bool {
    let watched = adapter.power.state.lock().check.begin_look(adapter.platform.now());
    let changed = !watched.is_empty();
    for number in watched {
        let engine = adapter.caps.engine(number as u32);
        let progress = adapter.user_mode_progress(engine);
        let judged = adapter.power.state.lock().check.judge(number, progress);
        if let Some(announced) = judged {
            power_down(adapter, level, engine, announced);
        }
    }
    changed
}
