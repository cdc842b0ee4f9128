//! The watch of engines that stand still; see `progress`. It runs in the background: a check helps no
//! other agent on, and so keeps no machine going.

use super::engine::power_down;
use super::progress::UserModeProgress;
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

impl Adapter {
    fn user_mode_progress(&self, engine: EngineId) -> UserModeProgress {
        let doorbells = self.objects.doorbells_of(|d| d.queue.engine() == engine);
        doorbells.fold(UserModeProgress::default(), |sum, doorbell| UserModeProgress {
            completed: sum.completed.wrapping_add(doorbell.queue.progress.fence.value()),
            announced: sum.announced.wrapping_add(doorbell.announced()),
        })
    }
}

// spec: UMS-049
fn check_progress(adapter: &Arc<Adapter>, level: &Passive) -> bool {
    let watched = adapter.power.state.lock().check.begin_check(adapter.platform.now());
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
