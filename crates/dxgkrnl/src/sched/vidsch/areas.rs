//! Owns what save areas ask of VidSch: a context is held while one of its areas has no content yet,
//! or moves; and an area whose context is gone stays until the engine is done with that context's
//! packets. Pure, as all of VidSch.
//!
//! A packet that was preempted stands at the head of its context: while the context is held its
//! state may move.

use super::{ContextQueue, VidSch};
use crate::sched::pending::Now;
use std::any::Any;
use std::sync::Arc;
use tidegate_ddi::OsHandle;

/// What an engine may still use: a save area, or a buffer with physical addresses.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

/// What is known of save areas.
#[derive(Default)]
pub(super) struct Areas {
    /// A context whose area is about to move has come off its engine.
    has_quiet_context: bool,
    /// Areas, and buffers, of contexts that are gone and still have packets on an engine, which may
    /// store their state there.
    kept: Vec<(OsHandle, Kept)>,
}

impl Areas {
    /// Something about a context has changed.
    pub(super) fn note_quiet<F>(&mut self, queue: &ContextQueue<F>) {
        self.has_quiet_context |= queue.hold.area_moves && queue.in_flight == 0;
    }
}

impl<F: Clone> VidSch<F> {
    /// An area of the context has no content yet: no packet of it is submitted before
    /// [`VidSch::area_has_content`].
    pub(crate) fn area_lacks_content(&mut self, context: OsHandle) {
        if let Some(queue) = self.contexts.get_mut(&context) {
            queue.hold.areas_without_content += 1;
        }
        self.unlist(context);
    }

    /// The opposite.
    pub(crate) fn area_has_content(&mut self, context: OsHandle, now: Now) {
        if let Some(queue) = self.contexts.get_mut(&context) {
            queue.hold.areas_without_content = queue.hold.areas_without_content.saturating_sub(1);
        }
        self.touch(context, now);
    }

    /// An area of the context is about to move: no packet of it is submitted from now on. Returns
    /// whether none is on an engine either; else [`VidSch::take_quiet`] says when to ask again.
    pub(crate) fn area_moves(&mut self, context: OsHandle) -> bool {
        self.unlist(context);
        match self.contexts.get_mut(&context) {
            Some(queue) => {
                queue.hold.area_moves = true;
                queue.in_flight == 0
            }
            None => !self.is_on_engine(context),
        }
    }

    /// It has moved, or does not move after all.
    pub(crate) fn area_moved(&mut self, context: OsHandle, now: Now) {
        if let Some(queue) = self.contexts.get_mut(&context) {
            queue.hold.area_moves = false;
        }
        self.touch(context, now);
    }

    /// Whether a context whose area is about to move has come off its engine since the last call.
    pub(crate) fn take_quiet(&mut self) -> bool {
        std::mem::take(&mut self.areas.has_quiet_context)
    }

    /// The area of a context goes. While packets of the context are on an engine it is kept; else
    /// it is returned, to be dropped outside of the lock.
    pub(crate) fn let_go(&mut self, context: OsHandle, area: Kept) -> Option<Kept> {
        if !self.is_on_engine(context) {
            return Some(area);
        }
        self.areas.kept.push((context, area));
        None
    }

    /// Kept areas that nobody can store to any more.
    pub(crate) fn take_let_go(&mut self) -> Vec<Kept> {
        let all = std::mem::take(&mut self.areas.kept);
        let (kept, gone): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(of, _)| self.is_on_engine(*of));
        self.areas.kept = kept;
        gone.into_iter().map(|(_, area)| area).collect()
    }

    /// The adapter stops: nothing runs any more.
    pub(crate) fn forget_kept_areas(&mut self) -> Vec<Kept> {
        std::mem::take(&mut self.areas.kept).into_iter().map(|(_, area)| area).collect()
    }

    fn is_on_engine(&self, context: OsHandle) -> bool {
        self.engines
            .iter()
            .any(|engine| engine.in_flight.iter().any(|packet| packet.context == context))
    }

    fn unlist(&mut self, context: OsHandle) {
        let Some(queue) = self.contexts.get_mut(&context) else { return };
        if std::mem::take(&mut queue.listed) {
            self.engines[queue.engine as usize].ready.remove(context, queue.priority);
        }
    }
}
