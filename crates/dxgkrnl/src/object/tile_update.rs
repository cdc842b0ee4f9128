//! Updates of reserved addresses in the order of a queue.
//!
//! An update, in order: 1. the fence reaches the value of the update; 2. the tiles are mapped and
//! unmapped; 3. the fence is signalled with the next value. A separate task carries out 2 and 3,
//! because they wait for the paging operation that is under way, and its engine may hang. The
//! timer's agent, which recovers engines, only starts the task: the end of a wait may be at
//! DISPATCH_LEVEL.
//!
//! The update holds no instance of the fence: where the fence ends first, step 3 has no effect.

use crate::driver::DriverPort;
use crate::fence::FenceTarget;
use crate::fence::signal::signal;
use crate::memory::{Reserved, TileChange};
use crate::object::fence::FenceObject;
use std::sync::{Arc, Weak};
use tidegate_calls::{SignalFlags, WaitCallback};
use tidegate_ddi::Passive;
use tidegate_platform::Mutex;

/// What an update does when its turn has come.
pub(super) struct Changes {
    pub(super) reserved: Arc<Reserved>,
    pub(super) changes: Vec<TileChange>,
    pub(super) fence: Weak<FenceObject>,
    /// The value that the fence then gets.
    pub(super) value: u64,
}

/// An update that waits for its turn.
pub(super) struct TileUpdate {
    port: Arc<DriverPort>,
    /// `None` once its turn has come.
    changes: Mutex<Option<Changes>>,
}

impl TileUpdate {
    pub(super) fn new(port: &Arc<DriverPort>, changes: Changes) -> Arc<TileUpdate> {
        let changes = port.platform.mutex("a tile update", Some(changes));
        Arc::new(TileUpdate { port: port.clone(), changes })
    }
}

impl WaitCallback for TileUpdate {
    fn wait_is_over(&self) {
        let Some(changes) = self.changes.lock().take() else { return };
        let platform = self.port.platform.clone();
        self.port.timer.queue_work(Box::new(move |_| {
            platform.spawn_task("tile update", move || changes.carry_out(&Passive::enter()));
        }));
    }
}

impl Changes {
    fn carry_out(self, level: &Passive) {
        self.reserved.update(level, &self.changes);
        let Some(fence) = self.fence.upgrade() else { return };
        let target = FenceTarget { fence: fence.fence.clone(), value: self.value };
        let is_lost = fence.device.check().is_err();
        drop(fence);
        // The fences of a lost device keep their maximum.
        if !is_lost {
            signal(level.into(), &[target], SignalFlags::empty());
        }
    }
}
