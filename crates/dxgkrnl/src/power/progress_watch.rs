//! The watch of engines without progress; see `progress`. It runs in the background: no other agent
//! depends on a check, so pending checks do not keep a machine running.

use super::progress::UserModeProgress;
use super::transitions::PowerTransitions;
use crate::timer::Watch;
use std::sync::Weak;
use tidegate_ddi::{EngineId, Passive};
use tidegate_platform::CpuTime;

/// The checks of progress.
pub(crate) struct ProgressWatch(pub(crate) Weak<PowerTransitions>);

impl Watch for ProgressWatch {
    fn name(&self) -> &'static str {
        "power"
    }

    fn next_deadline(&self) -> Option<CpuTime> {
        self.0.upgrade()?.power.state.lock().check.next
    }

    fn run(&self, level: &Passive, _now: CpuTime) -> bool {
        self.0.upgrade().is_some_and(|power| power.check_progress(level))
    }
}

impl PowerTransitions {
    fn user_mode_progress(&self, engine: EngineId) -> UserModeProgress {
        let doorbells = self.objects.doorbells_of(|d| d.queue.engine() == engine);
        doorbells.fold(UserModeProgress::default(), |sum, doorbell| UserModeProgress {
            completed: sum.completed.wrapping_add(doorbell.queue.progress.fence.value()),
            announced: sum.announced.wrapping_add(doorbell.announced()),
        })
    }

    // spec: UMS-049
    fn check_progress(&self, level: &Passive) -> bool {
        let watched = self.power.state.lock().check.begin_check(self.objects.port.platform.now());
        let changed = !watched.is_empty();
        for engine in watched {
            let progress = self.user_mode_progress(engine);
            let judged = self.power.state.lock().check.judge(engine, progress);
            if let Some(announced) = judged {
                self.power_down_engine(level, engine, announced);
            }
        }
        changed
    }
}
