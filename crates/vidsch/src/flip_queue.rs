//! The flips of one display, in order.
//!
//! States of a flip: behind rendering, ready, issued (programmed but not latched), shown, released.
//! One flip is issued at a time, so the address that a vertical sync reports identifies the latched
//! flip. The vertical sync interrupt is enabled only while a flip or a waiter needs it.
//!
//! The caller numbers refreshes and carries out the returned steps. `F` is its flip, stored only.

use std::collections::VecDeque;
use tidegate_ddi::OsHandle;

/// A step for the caller to carry out.
#[derive(Debug, PartialEq, Eq)]
pub enum FlipStep<F> {
    /// Enable or disable the vertical sync interrupt.
    Vsync(bool),
    /// Program the display.
    Flip {
        /// The flip to show.
        flip: F,
        /// Whether the screen is dark before this flip.
        first: bool,
    },
    /// Turn the screen dark, then release these flips.
    Dark(Vec<F>),
    /// Program the display anew, because it lost its state while a step was carried out.
    Restore(PoweredDisplay<F>),
}

/// The flip that the display is programmed with.
struct Issued<F> {
    flip: F,
    address: u64,
}

/// A flip that a vertical sync latched.
#[derive(Debug, PartialEq, Eq)]
pub struct LatchedFlip<F> {
    /// The flip.
    pub flip: F,
    /// The flip shown before, which is released.
    pub replaced: Option<F>,
    /// The first refresh at which the flip's interval allowed it.
    pub due: u64,
}

/// The state to program when a display powers up.
#[derive(Debug, PartialEq, Eq)]
pub struct PoweredDisplay<F> {
    /// The flip shown before power-down.
    pub shown: Option<F>,
    /// The next flip, which counts as issued.
    pub next: Option<F>,
    /// Whether the vertical sync interrupt is enabled.
    pub vsync: bool,
}

/// The flips of one display.
pub struct FlipQueue<F> {
    /// The device that owns the screen.
    owner: Option<OsHandle>,
    behind_rendering: usize,
    /// Ready flips with their sync intervals, oldest first.
    ready: VecDeque<(F, u32)>,
    issued: Option<Issued<F>>,
    shown: Option<F>,
    /// The refresh at which the shown flip was latched.
    shown_from: Option<u64>,
    /// Flips of the previous owner that the display still holds.
    leaving: Option<Vec<F>>,
    visible: bool,
    vsync: bool,
    /// Whether a waiter needs the next vertical sync.
    watched: bool,
    /// Whether an agent is carrying out steps.
    running: bool,
    /// Whether the display has lost its state beside a step, which may have come too early or too
    /// late for the new one.
    stale: bool,
}

impl<F> Default for FlipQueue<F> {
    /// Creates the queue of a dark screen without an owner.
    fn default() -> FlipQueue<F> {
        FlipQueue {
            owner: None,
            behind_rendering: 0,
            ready: VecDeque::new(),
            issued: None,
            shown: None,
            shown_from: None,
            leaving: None,
            visible: false,
            vsync: false,
            watched: false,
            running: false,
            stale: false,
        }
    }
}

impl<F: Clone> FlipQueue<F> {
    /// Counts a flip that is queued behind rendering. Returns `false` if the device is not the
    /// owner.
    pub fn begin(&mut self, device: OsHandle) -> bool {
        if *self.owner.get_or_insert(device) != device {
            return false;
        }
        self.behind_rendering += 1;
        true
    }

    /// Returns the device that owns the screen.
    pub fn owner(&self) -> Option<OsHandle> {
        self.owner
    }

    /// Returns the number of flips that are queued and not yet shown.
    pub fn queued(&self) -> usize {
        self.behind_rendering + self.ready.len() + usize::from(self.issued.is_some())
    }

    /// Makes a flip ready, because its rendering is complete. Returns the flips that it replaces,
    /// or the flip itself if its device no longer owns the screen.
    // spec: PRE-084
    pub fn rendered(&mut self, device: OsHandle, flip: F, interval: u32) -> Vec<F> {
        if self.owner != Some(device) {
            return vec![flip];
        }
        self.behind_rendering = self.behind_rendering.saturating_sub(1);
        let mut gone = Vec::new();
        while let Some((_, 0)) = self.ready.back() {
            gone.extend(self.ready.pop_back().map(|(flip, _)| flip));
        }
        self.ready.push_back((flip, interval));
        gone
    }

    /// Removes a flip that will never be ready, because its queue was destroyed or its device lost.
    pub fn cancel(&mut self, device: OsHandle) {
        if self.owner != Some(device) {
            return;
        }
        self.behind_rendering = self.behind_rendering.saturating_sub(1);
    }

    /// Handles a vertical sync at `refresh` that latched the surface at `address`.
    pub fn latched(
        &mut self,
        address: u64,
        refresh: u64,
        interval_of: impl Fn(&F) -> u32,
    ) -> Option<LatchedFlip<F>> {
        let issued = self.issued.take_if(|issued| issued.address == address)?;
        let flip = issued.flip;
        let due = self
            .shown_from
            .map_or(0, |from| from.saturating_add(u64::from(interval_of(&flip).max(1))));
        self.shown_from = Some(refresh);
        let replaced = self.shown.replace(flip.clone());
        Some(LatchedFlip { flip, replaced, due })
    }

    /// Sets whether a waiter needs the next vertical sync.
    pub fn watch(&mut self, watched: bool) {
        self.watched = watched;
    }

    /// Removes the ready flips of a lost device and returns them. Issued and shown flips stay.
    pub fn lose(&mut self, device: OsHandle) -> Vec<F> {
        if self.owner != Some(device) {
            return Vec::new();
        }
        self.drain_ready()
    }

    /// Releases the device's ownership of the screen, which turns dark. Returns unissued flips.
    pub fn leave(&mut self, device: OsHandle) -> Vec<F> {
        if self.owner != Some(device) {
            return Vec::new();
        }
        (self.owner, self.behind_rendering) = (None, 0);
        let queued = self.drain_ready();
        let with_display =
            self.issued.take().map(|issued| issued.flip).into_iter().chain(self.shown.take());
        self.leaving.get_or_insert_default().extend(with_display);
        self.shown_from = None;
        queued
    }

    fn drain_ready(&mut self) -> Vec<F> {
        self.ready.drain(..).map(|(flip, _)| flip).collect()
    }

    /// Removes and returns every flip, because the adapter stops.
    pub fn forget(&mut self) -> Vec<F> {
        let mut all = self.drain_ready();
        all.extend(self.issued.take().map(|issued| issued.flip));
        all.extend(self.shown.take());
        all.extend(self.leaving.take().into_iter().flatten());
        (self.owner, self.behind_rendering) = (None, 0);
        all
    }

    /// Whether the screen shows a flip or will show one.
    pub fn is_on(&self) -> bool {
        self.visible || self.issued.is_some() || !self.ready.is_empty()
    }

    /// Handles power-down of the display. An issued flip becomes ready again.
    pub fn unpowered(&mut self, interval_of: impl Fn(&F) -> u32) {
        if let Some(issued) = self.issued.take() {
            let interval = interval_of(&issued.flip);
            self.ready.push_front((issued.flip, interval));
        }
        (self.visible, self.vsync) = (false, false);
    }

    /// Handles power-up of the display. Returns the state to program, with the right to carry out
    /// steps, until [`FlipQueue::programmed`]. `None` if an agent has the right: its next step
    /// programs the display.
    pub fn powered(&mut self, address_of: impl Fn(&F) -> u64) -> Option<PoweredDisplay<F>> {
        if !self.try_take_right() {
            self.stale = true;
            return None;
        }
        Some(self.restored(address_of))
    }

    /// Releases the right after [`FlipQueue::powered`]. Returns whether a step may be due.
    pub fn programmed(&mut self) -> bool {
        self.running = false;
        let flips = self.issued.is_none() && !self.ready.is_empty();
        self.leaving.is_some() || self.wants_vsync() != self.vsync || flips
    }

    /// Returns the state to program. A flip may have been issued since the display lost its state.
    fn restored(&mut self, address_of: impl Fn(&F) -> u64) -> PoweredDisplay<F> {
        let issued = self.issued.take().map(|issued| issued.flip);
        let next = issued.or_else(|| self.ready.pop_front().map(|(flip, _)| flip));
        self.issued = next.clone().map(|flip| Issued { address: address_of(&flip), flip });
        self.visible = self.shown.is_some() || next.is_some();
        self.vsync = self.watched || next.is_some();
        PoweredDisplay { shown: self.shown.clone(), next, vsync: self.vsync }
    }

    /// Takes the right to carry out steps. Returns `false` while an agent holds it; that agent also
    /// handles all flips entered before this call.
    pub fn try_take_right(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }

    /// Whether the next step needs an agent that may block, because it switches an interrupt or the
    /// screen on or off. If so, releases the right.
    pub fn needs_blocking_step(&mut self, refresh: u64) -> bool {
        let flips = self.issued.is_none() && self.is_due(refresh) && !self.visible;
        let vsync = self.wants_vsync() != self.vsync;
        let needs = self.leaving.is_some() || self.stale || vsync || flips;
        self.running &= !needs;
        needs
    }

    fn wants_vsync(&self) -> bool {
        self.watched || self.issued.is_some() || !self.ready.is_empty()
    }

    /// Whether the first ready flip can be issued. A flip issued in this refresh is latched by the
    /// next one at the earliest.
    fn is_due(&self, refresh: u64) -> bool {
        let due = |interval: u32| {
            self.shown_from.map_or(0, |from| from.saturating_add(u64::from(interval)))
        };
        self.ready.front().is_some_and(|(_, interval)| refresh.saturating_add(1) >= due(*interval))
    }

    /// Returns the next step in refresh `refresh`. The caller carries it out before the next call.
    /// `None` releases the right.
    pub fn next_step(
        &mut self,
        refresh: u64,
        address_of: impl Fn(&F) -> u64,
    ) -> Option<FlipStep<F>> {
        let step = self.decide(refresh, address_of);
        self.running = step.is_some();
        step
    }

    fn decide(&mut self, refresh: u64, address_of: impl Fn(&F) -> u64) -> Option<FlipStep<F>> {
        if let Some(leaving) = self.leaving.take() {
            self.visible = false;
            return Some(FlipStep::Dark(leaving));
        }
        if std::mem::take(&mut self.stale) {
            return Some(FlipStep::Restore(self.restored(address_of)));
        }
        let wanted = self.wants_vsync();
        // The interrupt is enabled before a flip is issued, so that its vertical sync is reported.
        if wanted != self.vsync {
            self.vsync = wanted;
            return Some(FlipStep::Vsync(wanted));
        }
        if self.issued.is_some() || !self.is_due(refresh) {
            return None;
        }
        let (flip, _) = self.ready.pop_front()?;
        self.issued = Some(Issued { flip: flip.clone(), address: address_of(&flip) });
        let first = !std::mem::replace(&mut self.visible, true);
        Some(FlipStep::Flip { flip, first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: OsHandle = OsHandle(1);
    const B: OsHandle = OsHandle(2);

    /// A flip: its address and its sync interval.
    type Flip = (u64, u32);

    fn steps(flips: &mut FlipQueue<Flip>, refresh: u64) -> Vec<FlipStep<Flip>> {
        let mut steps = Vec::new();
        if flips.try_take_right() {
            while let Some(step) = flips.next_step(refresh, |flip| flip.0) {
                steps.push(step);
            }
        }
        steps
    }

    fn present(flips: &mut FlipQueue<Flip>, flip: Flip) -> Vec<Flip> {
        assert!(flips.begin(A));
        flips.rendered(A, flip, flip.1)
    }

    fn latch(
        flips: &mut FlipQueue<Flip>,
        address: u64,
        refresh: u64,
    ) -> Option<(u64, Option<u64>, u64)> {
        let latched = flips.latched(address, refresh, |flip| flip.1)?;
        Some((latched.flip.0, latched.replaced.map(|flip| flip.0), latched.due))
    }

    /// Creates a queue that has shown the flip at 10 since refresh 1.
    fn with_one_shown() -> FlipQueue<Flip> {
        let mut flips = FlipQueue::default();
        present(&mut flips, (10, 1));
        steps(&mut flips, 0);
        latch(&mut flips, 10, 1);
        flips
    }

    #[test]
    fn a_cancelled_flip_of_another_device_leaves_the_owners_flips() {
        let mut f: FlipQueue<Flip> = FlipQueue::default();
        assert!(f.begin(A) && f.begin(A));
        f.cancel(B);
        assert_eq!(f.queued(), 2);
        f.cancel(A);
        assert_eq!((f.queued(), f.owner()), (1, Some(A)));
    }

    // spec: PRE-081, PRE-084
    #[test]
    fn flips_are_shown_in_order_and_the_interrupt_is_off_when_idle() {
        let mut f = FlipQueue::default();
        assert!(f.begin(A) && !f.begin(B), "one device owns the screen");
        assert_eq!((steps(&mut f, 5), f.queued()), (vec![], 1), "rendering is not complete");
        assert!(f.rendered(A, (10, 1), 1).is_empty());
        assert!(present(&mut f, (20, 1)).is_empty());
        let first = FlipStep::Flip { flip: (10, 1), first: true };
        assert_eq!(steps(&mut f, 5), [FlipStep::Vsync(true), first]);
        assert_eq!(latch(&mut f, 99, 6), None, "a vertical sync before the flip was issued");
        assert_eq!((steps(&mut f, 6), latch(&mut f, 10, 7)), (vec![], Some((10, None, 0))));
        assert_eq!(steps(&mut f, 7), [FlipStep::Flip { flip: (20, 1), first: false }]);
        assert_eq!(latch(&mut f, 20, 8), Some((20, Some(10), 8)));
        assert_eq!((steps(&mut f, 8), f.queued()), (vec![FlipStep::Vsync(false)], 0));
        f.watch(true);
        assert_eq!(steps(&mut f, 8), [FlipStep::Vsync(true)]);
    }

    // spec: PRE-084
    #[test]
    fn an_interval_delays_a_flip_and_a_flip_without_one_is_replaced() {
        let mut f = with_one_shown();
        present(&mut f, (20, 3));
        assert_eq!((steps(&mut f, 1), steps(&mut f, 2)), (vec![], vec![]));
        assert_eq!(steps(&mut f, 3), [FlipStep::Flip { flip: (20, 3), first: false }]);
        // Two flips wait behind it. The older one has interval 0, so the newer one replaces it.
        assert!(present(&mut f, (30, 0)).is_empty());
        assert_eq!(present(&mut f, (40, 2)), [(30, 0)]);
        assert!(present(&mut f, (50, 0)).is_empty(), "a flip with an interval is shown");
        assert_eq!(latch(&mut f, 20, 4), Some((20, Some(10), 4)));
        assert_eq!((steps(&mut f, 4), steps(&mut f, 5).len()), (vec![], 1));
    }

    #[test]
    fn the_screen_and_the_interrupt_are_turned_on_and_off_by_an_agent_that_may_block() {
        let mut f = FlipQueue::default();
        present(&mut f, (10, 1));
        assert!(f.try_take_right() && f.needs_blocking_step(0), "the interrupt is off");
        assert_eq!(steps(&mut f, 0).len(), 2, "the right was released");
        latch(&mut f, 10, 1);
        present(&mut f, (20, 1));
        assert!(f.try_take_right() && !f.needs_blocking_step(1));
        assert_eq!(
            f.next_step(1, |flip| flip.0),
            Some(FlipStep::Flip { flip: (20, 1), first: false })
        );
        assert_eq!(f.next_step(1, |flip| flip.0), None);
        f.leave(A);
        assert!(f.try_take_right() && f.needs_blocking_step(1), "the screen goes dark");
    }

    /// A reset takes the display's state in three steps: off, lost, and on again. Flips go on
    /// beside it.
    // spec: PRE-084
    #[test]
    fn a_flip_that_is_issued_while_the_display_is_off_is_programmed_again() {
        let mut f = with_one_shown();
        f.unpowered(|flip| flip.1);
        present(&mut f, (20, 1));
        let issued = [FlipStep::Vsync(true), FlipStep::Flip { flip: (20, 1), first: true }];
        assert_eq!(steps(&mut f, 1), issued);
        let powered = f.powered(|flip| flip.0).expect("no step is carried out");
        assert_eq!(
            (powered.shown, powered.next, powered.vsync),
            (Some((10, 1)), Some((20, 1)), true)
        );
        assert!(!f.programmed());
        assert_eq!(latch(&mut f, 20, 2), Some((20, Some(10), 2)));
        assert_eq!(steps(&mut f, 2), [FlipStep::Vsync(false)]);
    }

    // spec: PRE-084
    #[test]
    fn a_step_beside_the_loss_of_the_displays_state_is_followed_by_all_of_it() {
        let mut f = with_one_shown();
        assert!(f.try_take_right());
        let step = f.next_step(1, |flip| flip.0);
        assert_eq!(step, Some(FlipStep::Vsync(false)), "the caller is slow");
        f.unpowered(|flip| flip.1);
        present(&mut f, (20, 1));
        assert_eq!(f.powered(|flip| flip.0), None, "the agent with the right programs it");
        assert!(f.needs_blocking_step(1) && f.try_take_right());
        let restored = PoweredDisplay { shown: Some((10, 1)), next: Some((20, 1)), vsync: true };
        assert_eq!(f.next_step(1, |flip| flip.0), Some(FlipStep::Restore(restored)));
        assert_eq!(f.next_step(1, |flip| flip.0), None);
        // What comes while the caller of `powered` programs the display is due afterwards.
        f.unpowered(|flip| flip.1);
        assert!(f.powered(|flip| flip.0).is_some());
        assert_eq!(latch(&mut f, 20, 2), Some((20, Some(10), 2)));
        assert!(!f.try_take_right() && f.programmed());
        assert_eq!(steps(&mut f, 2), [FlipStep::Vsync(false)]);
    }

    // spec: PRE-082
    #[test]
    fn surfaces_are_released_after_the_screen_is_dark() {
        let mut f = with_one_shown();
        present(&mut f, (20, 1));
        steps(&mut f, 1);
        present(&mut f, (30, 1));
        assert_eq!(f.lose(B), []);
        assert_eq!((f.lose(A), f.is_on()), (vec![(30, 1)], true));
        present(&mut f, (40, 1));
        assert!(f.leave(B).is_empty());
        assert_eq!(f.leave(A), [(40, 1)]);
        assert_eq!(
            steps(&mut f, 2),
            [FlipStep::Dark(vec![(20, 1), (10, 1)]), FlipStep::Vsync(false)]
        );
        assert_eq!(latch(&mut f, 20, 3), None);
        assert_eq!(f.rendered(A, (50, 1), 1), [(50, 1)], "too late");
        assert!(f.begin(B) && !f.is_on());
    }

    #[test]
    fn after_a_power_loss_the_shown_flip_returns_and_the_issued_one_is_issued_again() {
        let mut f = with_one_shown();
        present(&mut f, (20, 1));
        steps(&mut f, 1);
        f.unpowered(|flip| flip.1);
        let powered = f.powered(|flip| flip.0 + 100).expect("no step is carried out");
        assert!(!f.programmed());
        assert_eq!(
            powered,
            PoweredDisplay { shown: Some((10, 1)), next: Some((20, 1)), vsync: true }
        );
        // Its surface may have moved.
        assert_eq!((steps(&mut f, 9), latch(&mut f, 20, 9)), (vec![], None));
        assert_eq!(latch(&mut f, 120, 9), Some((20, Some(10), 2)));
        assert_eq!(f.forget(), [(20, 1)]);
    }

    #[test]
    fn the_next_owner_waits_for_no_interval_and_an_issued_flip_is_queued() {
        let mut f = with_one_shown();
        present(&mut f, (20, 1));
        assert_eq!((steps(&mut f, 1).len(), f.queued()), (1, 1), "issued, and not yet latched");
        f.leave(A);
        assert_eq!(f.queued(), 0);
        assert!(f.begin(B));
        assert!(f.rendered(B, (30, 9), 9).is_empty());
        let taken = steps(&mut f, 1);
        assert_eq!(taken.last(), Some(&FlipStep::Flip { flip: (30, 9), first: true }), "{taken:?}");
    }

    #[test]
    fn a_flip_that_was_issued_before_a_power_loss_comes_before_those_behind_it() {
        let mut f = with_one_shown();
        present(&mut f, (20, 1));
        steps(&mut f, 1);
        present(&mut f, (30, 1));
        present(&mut f, (40, 1));
        f.unpowered(|flip| flip.1);
        let powered = f.powered(|flip| flip.0).expect("no step is carried out");
        assert_eq!(powered.next, Some((20, 1)));
        assert!(f.programmed() || f.try_take_right(), "the right is free");
        assert_eq!(latch(&mut f, 20, 2), Some((20, Some(10), 2)));
        f.running = false;
        assert_eq!(steps(&mut f, 2), [FlipStep::Flip { flip: (30, 1), first: false }]);
    }

    #[test]
    fn a_device_that_leaves_while_the_display_is_programmed_makes_it_dark_afterwards() {
        let mut f = with_one_shown();
        f.unpowered(|flip| flip.1);
        f.watch(true);
        let powered = f.powered(|flip| flip.0).expect("no step is carried out");
        assert_eq!((powered.shown, powered.vsync), (Some((10, 1)), true));
        f.leave(A);
        assert!(!f.try_take_right(), "its agent has the right");
        assert!(f.programmed());
        assert_eq!(steps(&mut f, 1), [FlipStep::Dark(vec![(10, 1)])]);
    }
}
