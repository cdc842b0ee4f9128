//! Owns the policy of flips: pure, no lock, no clock, no memory; refreshes are numbers, steps are
//! returned. `F` is a flip; here it is only carried.
//!
//! A flip is behind rendering, then ready, then issued (the display was told, and has not latched
//! it yet), then shown, then over. One is issued at a time, so the surface that a vertical sync
//! reports says which one it latched.
//!
//! The vertical sync interrupt is on while somebody wants to hear of one, and off otherwise: an
//! idle machine takes none.

use std::collections::VecDeque;
use tidegate_ddi::OsHandle;

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<F> {
    /// Turn the vertical sync interrupt on or off.
    Vsync(bool),
    /// Tell the display; the screen is dark until now where `first` says so.
    Flip { flip: F, first: bool },
    /// Make the screen dark, and let go of these then.
    Dark(Vec<F>),
}

/// A flip that the display was told of.
struct Issued<F> {
    flip: F,
    address: u64,
}

/// A flip that a vertical sync latched.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Latched<F> {
    pub(super) flip: F,
    /// What was shown before: it is free.
    pub(super) replaced: Option<F>,
    /// The vertical sync before which it could not be, by its interval.
    pub(super) due: u64,
}

/// What a display is to be told when its power is back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Powered<F> {
    /// What it showed.
    pub(super) shown: Option<F>,
    /// What comes next: it is issued now.
    pub(super) next: Option<F>,
    /// Whether vertical syncs are to interrupt.
    pub(super) vsync: bool,
}

pub(super) struct Flips<F> {
    /// The device whose pictures are shown.
    owner: Option<OsHandle>,
    behind_rendering: usize,
    /// Ready ones with their sync intervals, the oldest first.
    ready: VecDeque<(F, u32)>,
    issued: Option<Issued<F>>,
    shown: Option<F>,
    /// The refresh from which on it is shown.
    shown_from: Option<u64>,
    /// Its last owner's, still with the display.
    leaving: Option<Vec<F>>,
    visible: bool,
    vsync: bool,
    /// Whether somebody waits for a vertical sync.
    watched: bool,
    /// An agent carries steps out.
    running: bool,
}

impl<F: Clone> Flips<F> {
    pub(super) fn new() -> Flips<F> {
        Flips {
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
        }
    }

    /// A flip is queued behind rendering. `false` when another device shows its pictures.
    pub(super) fn begin(&mut self, device: OsHandle) -> bool {
        if *self.owner.get_or_insert(device) != device {
            return false;
        }
        self.behind_rendering += 1;
        true
    }

    /// The device whose pictures are shown.
    pub(super) fn owner(&self) -> Option<OsHandle> {
        self.owner
    }

    /// How many flips are queued and not shown yet.
    pub(super) fn queued(&self) -> usize {
        self.behind_rendering + self.ready.len() + usize::from(self.issued.is_some())
    }

    /// What was rendered before a flip is complete. Returns flips that give way to it, and itself
    /// when its device is not the owner any more.
    // spec: PRE-084
    pub(super) fn rendered(&mut self, device: OsHandle, flip: F, interval: u32) -> Vec<F> {
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

    /// A flip will never be ready: its queue or its device went.
    pub(super) fn given_up(&mut self, device: OsHandle) {
        if self.owner != Some(device) {
            return;
        }
        self.behind_rendering = self.behind_rendering.saturating_sub(1);
    }

    /// A vertical sync of refresh `refresh` has latched the surface at `address`.
    pub(super) fn latched(
        &mut self,
        address: u64,
        refresh: u64,
        interval_of: impl Fn(&F) -> u32,
    ) -> Option<Latched<F>> {
        let issued = self.issued.take_if(|issued| issued.address == address)?;
        let flip = issued.flip;
        let due = self
            .shown_from
            .map_or(0, |from| from.saturating_add(u64::from(interval_of(&flip).max(1))));
        self.shown_from = Some(refresh);
        let replaced = self.shown.replace(flip.clone());
        Some(Latched { flip, replaced, due })
    }

    /// Somebody waits for a vertical sync, or nobody does any more.
    pub(super) fn watch(&mut self, watched: bool) {
        self.watched = watched;
    }

    /// The device is lost: what it has queued is not shown. What is issued or shown stays. Returns
    /// the others.
    pub(super) fn lose(&mut self, device: OsHandle) -> Vec<F> {
        if self.owner != Some(device) {
            return Vec::new();
        }
        self.ready.drain(..).map(|(flip, _)| flip).collect()
    }

    /// The device lets go of the screen, which will be dark. Returns what the display has not been
    /// told of.
    pub(super) fn leave(&mut self, device: OsHandle) -> Vec<F> {
        if self.owner != Some(device) {
            return Vec::new();
        }
        (self.owner, self.behind_rendering) = (None, 0);
        let queued = self.lose_all();
        let with_display =
            self.issued.take().map(|issued| issued.flip).into_iter().chain(self.shown.take());
        self.leaving.get_or_insert_default().extend(with_display);
        self.shown_from = None;
        queued
    }

    fn lose_all(&mut self) -> Vec<F> {
        self.ready.drain(..).map(|(flip, _)| flip).collect()
    }

    /// Everything that is held: the adapter stops.
    pub(super) fn forget(&mut self) -> Vec<F> {
        let mut all = self.lose_all();
        all.extend(self.issued.take().map(|issued| issued.flip));
        all.extend(self.shown.take());
        all.extend(self.leaving.take().into_iter().flatten());
        (self.owner, self.behind_rendering) = (None, 0);
        all
    }

    /// Whether the screen shows anything, or is about to.
    pub(super) fn is_on(&self) -> bool {
        self.visible || self.issued.is_some() || !self.ready.is_empty()
    }

    /// The power goes, and the screen with it. What was issued is to be issued again.
    pub(super) fn unpowered(&mut self, interval_of: impl Fn(&F) -> u32) {
        if let Some(issued) = self.issued.take() {
            let interval = interval_of(&issued.flip);
            self.ready.push_front((issued.flip, interval));
        }
        (self.visible, self.vsync) = (false, false);
    }

    /// The power is back: what is to be on the screen again, at once, and what was to be next.
    pub(super) fn powered(&mut self, address_of: impl Fn(&F) -> u64) -> Powered<F> {
        let next = self.ready.pop_front().map(|(flip, _)| flip);
        self.issued = next.clone().map(|flip| Issued { address: address_of(&flip), flip });
        self.visible = self.shown.is_some() || next.is_some();
        self.vsync = self.watched || next.is_some();
        Powered { shown: self.shown.clone(), next, vsync: self.vsync }
    }

    /// Takes the right to carry out steps; `false` when somebody has it, who will see what was just
    /// entered.
    pub(super) fn begin_run(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }

    /// The next step, in refresh `refresh`, of which each is carried out before the next is asked
    /// for; `None` gives the right back.
    pub(super) fn next_step(
        &mut self,
        refresh: u64,
        address_of: impl Fn(&F) -> u64,
    ) -> Option<Step<F>> {
        let step = self.decide(refresh, address_of);
        self.running = step.is_some();
        step
    }

    fn decide(&mut self, refresh: u64, address_of: impl Fn(&F) -> u64) -> Option<Step<F>> {
        if let Some(leaving) = self.leaving.take() {
            self.visible = false;
            return Some(Step::Dark(leaving));
        }
        let wanted = self.watched || self.issued.is_some() || !self.ready.is_empty();
        // On before a flip, whose vertical sync must be heard of.
        if wanted != self.vsync {
            self.vsync = wanted;
            return Some(Step::Vsync(wanted));
        }
        if self.issued.is_some() {
            return None;
        }
        let (_, interval) = self.ready.front()?;
        let due = self.shown_from.map_or(0, |from| from.saturating_add(u64::from(*interval)));
        // What is issued in this refresh is latched by the next one at the earliest.
        if refresh.saturating_add(1) < due {
            return None;
        }
        let (flip, _) = self.ready.pop_front()?;
        self.issued = Some(Issued { flip: flip.clone(), address: address_of(&flip) });
        let first = !std::mem::replace(&mut self.visible, true);
        Some(Step::Flip { flip, first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: OsHandle = OsHandle(1);
    const B: OsHandle = OsHandle(2);

    /// A flip: its address, and its interval.
    type Flip = (u64, u32);

    fn steps(flips: &mut Flips<Flip>, refresh: u64) -> Vec<Step<Flip>> {
        let mut steps = Vec::new();
        if flips.begin_run() {
            while let Some(step) = flips.next_step(refresh, |flip| flip.0) {
                steps.push(step);
            }
        }
        steps
    }

    fn present(flips: &mut Flips<Flip>, flip: Flip) -> Vec<Flip> {
        assert!(flips.begin(A));
        flips.rendered(A, flip, flip.1)
    }

    fn latch(
        flips: &mut Flips<Flip>,
        address: u64,
        refresh: u64,
    ) -> Option<(u64, Option<u64>, u64)> {
        let latched = flips.latched(address, refresh, |flip| flip.1)?;
        Some((latched.flip.0, latched.replaced.map(|flip| flip.0), latched.due))
    }

    /// The picture at 10 is on the screen since refresh 1.
    fn with_one_shown() -> Flips<Flip> {
        let mut flips = Flips::new();
        present(&mut flips, (10, 1));
        steps(&mut flips, 0);
        latch(&mut flips, 10, 1);
        flips
    }

    // spec: PRE-081, PRE-084
    #[test]
    fn flips_are_shown_in_order_one_at_a_time_and_the_interrupt_is_off_when_all_are() {
        let mut f = Flips::new();
        assert!(f.begin(A) && !f.begin(B), "one device owns the screen");
        assert_eq!((steps(&mut f, 5), f.queued()), (vec![], 1), "rendering is not complete");
        assert!(f.rendered(A, (10, 1), 1).is_empty());
        assert!(present(&mut f, (20, 1)).is_empty());
        let first = Step::Flip { flip: (10, 1), first: true };
        assert_eq!(steps(&mut f, 5), [Step::Vsync(true), first]);
        assert_eq!(latch(&mut f, 99, 6), None, "a vertical sync before the display was told");
        assert_eq!((steps(&mut f, 6), latch(&mut f, 10, 7)), (vec![], Some((10, None, 0))));
        assert_eq!(steps(&mut f, 7), [Step::Flip { flip: (20, 1), first: false }]);
        assert_eq!(latch(&mut f, 20, 8), Some((20, Some(10), 8)));
        assert_eq!((steps(&mut f, 8), f.queued()), (vec![Step::Vsync(false)], 0));
        f.watch(true);
        assert_eq!(steps(&mut f, 8), [Step::Vsync(true)]);
    }

    // spec: PRE-084
    #[test]
    fn an_interval_holds_a_flip_and_nothing_holds_one_without() {
        let mut f = with_one_shown();
        present(&mut f, (20, 3));
        assert_eq!((steps(&mut f, 1), steps(&mut f, 2)), (vec![], vec![]));
        assert_eq!(steps(&mut f, 3), [Step::Flip { flip: (20, 3), first: false }]);
        // Two that wait behind it: the older one gives way, since nobody asked for it to be seen.
        assert!(present(&mut f, (30, 0)).is_empty());
        assert_eq!(present(&mut f, (40, 2)), [(30, 0)]);
        assert!(present(&mut f, (50, 0)).is_empty(), "one with an interval is seen");
        assert_eq!(latch(&mut f, 20, 4), Some((20, Some(10), 4)));
        assert_eq!((steps(&mut f, 4), steps(&mut f, 5).len()), (vec![], 1));
    }

    // spec: PRE-082
    #[test]
    fn a_device_that_leaves_gets_its_surfaces_back_behind_the_dark() {
        let mut f = with_one_shown();
        present(&mut f, (20, 1));
        steps(&mut f, 1);
        present(&mut f, (30, 1));
        assert_eq!(f.lose(B), []);
        assert_eq!((f.lose(A), f.is_on()), (vec![(30, 1)], true));
        present(&mut f, (40, 1));
        assert!(f.leave(B).is_empty());
        assert_eq!(f.leave(A), [(40, 1)]);
        assert_eq!(steps(&mut f, 2), [Step::Dark(vec![(20, 1), (10, 1)]), Step::Vsync(false)]);
        assert_eq!(latch(&mut f, 20, 3), None);
        assert_eq!(f.rendered(A, (50, 1), 1), [(50, 1)], "too late");
        assert!(f.begin(B) && !f.is_on());
    }

    #[test]
    fn power_brings_back_what_was_shown_and_issues_again_what_was_not_latched() {
        let mut f = with_one_shown();
        present(&mut f, (20, 1));
        steps(&mut f, 1);
        f.unpowered(|flip| flip.1);
        let powered = f.powered(|flip| flip.0 + 100);
        assert_eq!(powered, Powered { shown: Some((10, 1)), next: Some((20, 1)), vsync: true });
        // It may stand somewhere else by now.
        assert_eq!((steps(&mut f, 9), latch(&mut f, 20, 9)), (vec![], None));
        assert_eq!(latch(&mut f, 120, 9), Some((20, Some(10), 2)));
        assert_eq!(f.forget(), [(20, 1)]);
    }
}
