//! Save areas. A context is held while one of its areas has no content or is being moved. Objects
//! of a destroyed context are kept until its packets have left the engine.
//!
//! A preempted packet is queued at the head of its context, so its saved state may move.

use crate::config::Now;
use crate::hold::Hold;
use crate::queue::{Payload, SoftwareQueue};
use crate::scheduler::VidSch;
use tidegate_ddi::OsHandle;

impl<P: Payload> VidSch<P> {
    /// Holds a context because one of its save areas has no content, until
    /// [`VidSch::area_has_content`].
    pub fn area_lacks_content(&mut self, context: OsHandle) {
        if let Some(hold) = self.hold_of(context) {
            hold.areas_without_content += 1;
        }
        self.unlist(context);
    }

    /// Records that a save area of the context has its first content.
    pub fn area_has_content(&mut self, context: OsHandle, now: Now) {
        if let Some(hold) = self.hold_of(context) {
            hold.areas_without_content = hold.areas_without_content.saturating_sub(1);
        }
        self.advance(context, now);
    }

    /// Holds a context because one of its save areas is to be moved. Returns whether the move may
    /// start, because none of its packets is in flight. Otherwise the caller retries when
    /// [`VidSch::take_area_became_movable`] returns true.
    pub fn begin_area_move(&mut self, context: OsHandle) -> bool {
        self.unlist(context);
        match self.hold_of(context) {
            Some(hold) => {
                hold.area_is_moving = true;
                self.queues.get(&context).is_none_or(SoftwareQueue::is_complete)
            }
            None => !self.is_on_engine(context),
        }
    }

    /// Releases a context after its area was moved or the move was cancelled.
    pub fn end_area_move(&mut self, context: OsHandle, now: Now) {
        if let Some(hold) = self.hold_of(context) {
            hold.area_is_moving = false;
        }
        self.advance(context, now);
    }

    /// Whether a context whose area is to be moved has left its engine since the last call.
    pub fn take_area_became_movable(&mut self) -> bool {
        std::mem::take(&mut self.holds.area_became_movable)
    }

    /// Keeps an object of a destroyed context while its packets are in flight. Otherwise returns
    /// the object, to be dropped outside of the lock.
    pub fn release_or_keep(&mut self, context: OsHandle, object: P::Kept) -> Option<P::Kept> {
        if !self.is_on_engine(context) {
            return Some(object);
        }
        self.holds.kept.push((context, object));
        None
    }

    /// Removes and returns the kept objects that no engine uses any more.
    pub fn take_released(&mut self) -> Vec<P::Kept> {
        let kept = std::mem::take(&mut self.holds.kept);
        let (kept, released): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|(context, _)| self.is_on_engine(*context));
        self.holds.kept = kept;
        released.into_iter().map(|(_, object)| object).collect()
    }

    /// Removes and returns every kept object, because the adapter stops.
    pub fn take_kept(&mut self) -> Vec<P::Kept> {
        std::mem::take(&mut self.holds.kept).into_iter().map(|(_, object)| object).collect()
    }

    fn hold_of(&mut self, context: OsHandle) -> Option<&mut Hold> {
        Some(&mut self.queues.get_mut(&context)?.context_mut()?.hold)
    }

    fn is_on_engine(&self, context: OsHandle) -> bool {
        let mut packets = self.engines.values().flat_map(|engine| &engine.in_flight);
        packets.any(|packet| packet.context == context)
    }

    fn unlist(&mut self, context: OsHandle) {
        let state = self.queues.get_mut(&context).and_then(SoftwareQueue::context_mut);
        if let Some(state) = state
            && std::mem::take(&mut state.listed)
        {
            self.engines[state.engine].ready.remove(context, state.priority);
        }
    }
}
