//! Detects user-mode engines without progress. Pure policy, with the time as an argument.
//!
//! No interrupt reports that a user-mode queue has run dry, so engines are checked once per timeout
//! delay, from a doorbell connect until they lose power. 1. An engine whose queues moved since the
//! last check keeps its power. 2. An engine without progress is powered down as if its driver had
//! offered it, unless work is announced. 3. If the next check sees no progress either, announced
//! work is ignored: the driver knows of work rung before the disconnect, and a later ring connects
//! first. A driver refuses the power of an engine that has work.
//!
//! Hang detection is separate (`recovery`).

use tidegate_ddi::{EngineId, EngineMap};
use tidegate_platform::CpuTime;

/// Whether announced work keeps an engine powered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// An engine with announced work keeps its power.
    Counts,
    /// Announced work is unchanged since all rings were seen, so the driver knows of all
    /// submitted work.
    IsStale,
}

/// Schedules and evaluates the checks.
pub(super) struct ProgressCheck {
    period_ns: u64,
    pub(super) next: Option<CpuTime>,
    engines: EngineMap<Watched>,
}

/// Check state of one engine.
#[derive(Default)]
pub(super) struct Watched {
    /// Checks are active: from a connect until the engine loses power.
    on: bool,
    connects: u64,
    seen: Option<Standing>,
    /// Number of consecutive checks without progress.
    same: u32,
}

/// A sample that is constant while an engine makes no progress for its user-mode queues.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Standing {
    progress: UserModeProgress,
    connects: u64,
}

/// Sums over the user-mode queues of an engine, modulo 2^64: only changes matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UserModeProgress {
    pub(super) completed: u64,
    pub(super) announced: u64,
}

impl ProgressCheck {
    pub(super) fn new(period_ns: u64, engines: EngineMap<Watched>) -> ProgressCheck {
        ProgressCheck { period_ns, next: None, engines }
    }

    /// Records a doorbell connect. Returns whether it starts the checks.
    pub(super) fn connected(&mut self, engine: EngineId, now: CpuTime) -> bool {
        let watched = &mut self.engines[engine];
        watched.on = true;
        watched.connects += 1;
        let begins = self.next.is_none();
        self.next.get_or_insert(now.after(self.period_ns));
        begins
    }

    /// Records that the engine has lost power.
    pub(super) fn unpowered(&mut self, engine: EngineId) {
        let watched = &mut self.engines[engine];
        *watched = Watched { connects: watched.connects, ..Watched::default() };
    }

    /// Begins a check. Returns the engines to check, and schedules the next check if there are any.
    pub(super) fn begin_check(&mut self, now: CpuTime) -> Vec<EngineId> {
        let watched = self.engines.iter().filter(|(_, watched)| watched.on);
        let watched: Vec<EngineId> = watched.map(|(engine, _)| engine).collect();
        self.next = (!watched.is_empty()).then(|| now.after(self.period_ns));
        watched
    }

    /// Returns whether announced work counts if the engine is powered down; `None` if it made
    /// progress and stays powered.
    pub(super) fn judge(
        &mut self,
        engine: EngineId,
        progress: UserModeProgress,
    ) -> Option<Announced> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: EngineId = EngineId { engine_ordinal: 0, node_ordinal: 0 };

    fn new_check() -> ProgressCheck {
        ProgressCheck::new(10, EngineMap::new(2, 1, |_| Watched::default()))
    }

    fn progress(completed: u64) -> UserModeProgress {
        UserModeProgress { completed, announced: 9 }
    }

    #[test]
    fn an_engine_that_stands_still_twice_has_stale_announcements() {
        let mut check = new_check();
        assert!(check.connected(FIRST, CpuTime(5)) && !check.connected(FIRST, CpuTime(6)));
        assert_eq!((check.next, check.begin_check(CpuTime(15))), (Some(CpuTime(15)), vec![FIRST]));
        assert_eq!(check.judge(FIRST, progress(1)), None);
        assert_eq!(check.judge(FIRST, progress(1)), Some(Announced::Counts));
        assert_eq!(check.judge(FIRST, progress(1)), Some(Announced::IsStale));
        assert_eq!(check.judge(FIRST, progress(2)), None, "it moved");
    }

    #[test]
    fn a_connect_is_progress_and_an_engine_without_power_is_not_checked() {
        let second = EngineId { node_ordinal: 1, ..FIRST };
        let mut check = new_check();
        check.connected(second, CpuTime(0));
        check.judge(second, progress(1));
        check.connected(second, CpuTime(1));
        assert_eq!(check.judge(second, progress(1)), None);
        check.unpowered(second);
        assert_eq!((check.begin_check(CpuTime(10)), check.next), (vec![], None));
    }
}
