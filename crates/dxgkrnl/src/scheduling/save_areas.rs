//! Holds the packets of contexts whose save areas have no content yet or are being moved.

use super::scheduler::Scheduling;
use crate::memory::ContextHolds;
use std::any::Any;
use std::sync::Arc;
use tidegate_ddi::{OsHandle, Passive};
use tidegate_vidmm::AllocationId;
use tidegate_vidsch::Submitter;

impl ContextHolds for Scheduling {
    fn hold_uninitialised(&self, context: OsHandle) {
        self.lock().area_lacks_content(context);
    }

    fn release_initialised(&self, level: &Passive, context: OsHandle) {
        self.lock().area_has_content(context, self.now());
        self.run(level.into(), Submitter::Packets);
    }

    fn hold_for_move(&self, areas: Vec<(AllocationId, OsHandle)>) -> Vec<AllocationId> {
        let mut state = self.lock();
        areas
            .into_iter()
            .filter(|(_, of)| state.begin_area_move(*of))
            .map(|(area, _)| area)
            .collect()
    }

    fn release_moved(&self, level: &Passive, contexts: &[OsHandle]) {
        self.release_moved_in_reset(contexts);
        self.run(level.into(), Submitter::Packets);
    }

    fn release_moved_in_reset(&self, contexts: &[OsHandle]) {
        let (mut state, now) = (self.lock(), self.now());
        contexts.iter().for_each(|context| state.end_area_move(*context, now));
    }

    fn drop_when_idle(&self, context: OsHandle, area: Arc<dyn Any + Send + Sync>) {
        let idle = self.lock().release_or_keep(context, area);
        drop(idle);
    }
}
