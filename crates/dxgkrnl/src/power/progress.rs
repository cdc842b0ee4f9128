//! Which engines with user-mode queues stand still: pure policy, with the time as an argument.
//!
//! No interrupt says that a user-mode queue has run out of work, so engines are checked once per
//! timeout delay, from the connect of a doorbell until they lose their power. 1. An engine whose
//! queues moved since the last check is left alone. 2. One that stood still goes down as if its driver
//! had offered it; it keeps its power if work is announced. 3. If it stands still one check later,
//! announced work counts no more: work that was rung before the disconnect is known to the driver,
//! and a later ring connects first. A driver refuses the power of an engine that has work.
//!
//! Whether an engine without progress hangs is not decided here.

use tidegate_ddi::{EngineId, EngineMap};
use tidegate_platform::CpuTime;

/// How much the announcements of processes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// An engine with announced work keeps its power.
    Counts,
    /// It did not change while every ring was seen: the driver knows of all that was submitted.
    IsStale,
}

/// When engines are checked, and what a check says.
pub(super) struct ProgressCheck {
    period_ns: u64,
    pub(super) next: Option<CpuTime>,
    engines: EngineMap<Watched>,
}

/// What the checks of an engine have seen.
#[derive(Default)]
pub(super) struct Watched {
    /// From a connect until the engine loses its power.
    on: bool,
    connects: u64,
    seen: Option<Standing>,
    /// How many checks in a row found the same.
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
    pub(super) completed: u64,
    pub(super) announced: u64,
}

impl ProgressCheck {
    pub(super) fn new(period_ns: u64, engines: EngineMap<Watched>) -> ProgressCheck {
        ProgressCheck { period_ns, next: None, engines }
    }

    /// A doorbell of the engine was connected. Returns whether the checks begin with it.
    pub(super) fn connected(&mut self, engine: EngineId, now: CpuTime) -> bool {
        let watched = &mut self.engines[engine];
        watched.on = true;
        watched.connects += 1;
        let begins = self.next.is_none();
        self.next.get_or_insert(now.after(self.period_ns));
        begins
    }

    /// The engine has lost its power.
    pub(super) fn unpowered(&mut self, engine: EngineId) {
        let watched = &mut self.engines[engine];
        *watched = Watched { connects: watched.connects, ..Watched::default() };
    }

    /// A check begins. Returns the engines to check. There is a next check as long as there
    /// are any.
    pub(super) fn begin_check(&mut self, now: CpuTime) -> Vec<EngineId> {
        let watched = self.engines.iter().filter(|(_, watched)| watched.on);
        let watched: Vec<EngineId> = watched.map(|(engine, _)| engine).collect();
        self.next = (!watched.is_empty()).then(|| now.after(self.period_ns));
        watched
    }

    /// Whether the engine may lose its power, and what then counts of what was announced; `None`
    /// when it moved.
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
