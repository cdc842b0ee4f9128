//! What an agent may wait for while it holds a lock, or while it owes another agent the end of a
//! wait.
//!
//! Invariant: host and virtual time record edges in debug builds, explored machines in every build.
//!
//! Entry points: [`Platform::may_wait_for`], [`Platform::owe`]; locks, events and services call
//! `lock_taken`, `begin_wait`, `begin_service`.

use crate::platform::{Platform, PlatformKind};
use crate::wait_order::{
    ClassId, DPC, INTERRUPT_ROUTINE, Kind, Reason, WaitClass, class_named, class_of_text,
};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tidegate_machines::thread::{HeldItem, Level};
use tidegate_machines::{os, thread};

/// The calling agent owes the end of a wait until this is dropped.
#[must_use = "the wait counts as ended when this is dropped"]
pub struct Owed(Option<usize>);

impl Drop for Owed {
    fn drop(&mut self) {
        if let Some(address) = self.0 {
            thread::lock_dropped(address);
        }
    }
}

impl Platform {
    /// Returns whether the order of waits is recorded.
    #[inline]
    fn orders_waits(&self) -> bool {
        cfg!(debug_assertions) || self.kind() == PlatformKind::Explored
    }

    /// Declares that the calling agent may wait here for `class`. A wait for an
    /// [`Event`](crate::Event) or a [`Word`](crate::Word) that has the class as its reason declares
    /// it by itself, when it is called; this call is for code that mostly need not wait.
    #[inline]
    pub fn may_wait_for(&self, class: &'static WaitClass) {
        if self.orders_waits() {
            wait_declared(self, class, None);
        }
    }

    /// Declares that the calling agent ends waits of `class` once it has dropped the result. Until
    /// then, such a wait depends on everything that the agent waits for.
    #[inline]
    pub fn owe(&self, class: &'static WaitClass) -> Owed {
        if self.orders_waits() { owe(self, class.id(), class.name) } else { Owed(None) }
    }

    /// As [`Platform::owe`], in debug builds only. For a path on which a release build has no
    /// branch to spare.
    #[inline]
    pub fn owe_in_debug(&self, class: &'static WaitClass) -> Owed {
        if cfg!(debug_assertions) { owe(self, class.id(), class.name) } else { Owed(None) }
    }

    /// Takes the circles of waits that were found so far, each as a text. A circle that is never
    /// taken fails the process when it ends.
    pub fn take_wait_circles(&self) -> Vec<String> {
        let circles = self.inner.waits.take_circles();
        if self.kind() != PlatformKind::Explored {
            UNTAKEN.fetch_sub(circles.len(), Ordering::Relaxed);
        }
        circles
    }

    /// Returns copies of the circles that were found so far.
    pub(crate) fn wait_circles(&self) -> Vec<String> {
        self.inner.waits.circles()
    }
}

/// Returns the class of locks of this name on `platform`.
pub(crate) fn class_of_locks(platform: &Platform, name: &'static str) -> ClassId {
    if platform.orders_waits() { class_named(name) } else { ClassId::NONE }
}

/// Records that the calling agent is about to take a lock.
///
/// # Panics
///
/// The agent holds a lock that comes later in the platform's lock order.
pub(crate) fn lock_taken(
    platform: &Platform,
    address: usize,
    (name, class): (&'static str, ClassId),
    rank: Option<u32>,
) {
    lock_taken_at_once(platform, address, (name, class), rank);
    if class != ClassId::NONE {
        order_before(platform, class, Kind::Lock, Some(address));
    }
}

/// Records that the calling agent takes a lock without a wait for it.
///
/// # Panics
///
/// As [`lock_taken`].
pub(crate) fn lock_taken_at_once(
    platform: &Platform,
    address: usize,
    (name, class): (&'static str, ClassId),
    rank: Option<u32>,
) {
    let machine = platform.address();
    thread::lock_taken(HeldItem { address, name, rank, class: class.0, machine });
}

/// Records that the calling agent begins a wait.
#[inline]
pub(crate) fn begin_wait(platform: &Platform, reason: Reason<'_>) {
    if let Some(class) = reason.class {
        wait_declared(platform, class, None);
    }
}

/// Records that the calling agent may wait for `class`, and drops the lock at `dropped` meanwhile.
pub(crate) fn wait_without(platform: &Platform, class: &'static WaitClass, dropped: usize) {
    if platform.orders_waits() {
        wait_declared(platform, class, Some(dropped));
    }
}

fn wait_declared(platform: &Platform, class: &'static WaitClass, dropped: Option<usize>) {
    order_before(platform, class.id(), Kind::Wait, dropped);
    add_ends(platform, class);
}

fn add_ends(platform: &Platform, class: &'static WaitClass) {
    for end in class.ended_by {
        let edge = (class.id(), end.id());
        if !platform.inner.waits.has(edge.0, edge.1) {
            add_edge(platform, edge, Kind::End);
            add_ends(platform, end);
        }
    }
}

/// Records an edge to `class` from all that the calling agent holds or owes, but for a lock that it
/// drops.
fn order_before(platform: &Platform, class: ClassId, kind: Kind, dropped: Option<usize>) {
    let (graph, machine) = (&platform.inner.waits, platform.address());
    let mut new: SmallVec<[ClassId; 4]> = SmallVec::new();
    let is_new = |from: ClassId| {
        // Two locks of one name are two locks; the platform's list of locks decides about them.
        from != ClassId::NONE && (from != class || kind == Kind::Wait) && !graph.has(from, class)
    };
    thread::each_held(|held| {
        let from = ClassId(held.class);
        if held.machine == machine && Some(held.address) != dropped && is_new(from) {
            new.push(from);
        }
    });
    let routine = match thread::level() {
        Level::Passive => None,
        Level::Dispatch => Some(&DPC),
        Level::Dirql => Some(&INTERRUPT_ROUTINE),
    };
    new.extend(routine.map(WaitClass::id).filter(|from| is_new(*from)));
    for from in new {
        add_edge(platform, (from, class), kind);
    }
}

fn add_edge(platform: &Platform, edge: (ClassId, ClassId), kind: Kind) {
    if let Some(circle) = platform.inner.waits.add(edge, kind) {
        report_circle(platform, &circle);
    }
}

fn owe(platform: &Platform, class: ClassId, name: &'static str) -> Owed {
    // Locks have even addresses.
    let address = usize::from(class.0) << 1 | 1;
    let machine = platform.address();
    thread::lock_taken(HeldItem { address, name, rank: None, class: class.0, machine });
    Owed(Some(address))
}

/// Returns the class of waits for the end of a service.
pub(crate) fn class_of_service(platform: &Platform, name: &str) -> ClassId {
    match platform.orders_waits() {
        true => class_of_text(format!("the end of the service '{name}'")),
        false => ClassId::NONE,
    }
}

/// Declares what the calling service owes while it runs: its end, and what its agents end.
pub(crate) fn begin_service(
    platform: &Platform,
    end: ClassId,
    ends: impl Iterator<Item = &'static WaitClass>,
) -> SmallVec<[Owed; 2]> {
    if end == ClassId::NONE {
        return SmallVec::new();
    }
    let mut owed: SmallVec<[Owed; 2]> = SmallVec::new();
    owed.push(owe(platform, end, "the end of a service"));
    let mut classes: SmallVec<[ClassId; 2]> = SmallVec::new();
    for class in ends {
        if !classes.contains(&class.id()) {
            classes.push(class.id());
            owed.push(owe(platform, class.id(), class.name));
        }
    }
    owed
}

/// Records that the calling agent may wait for the end of a service.
pub(crate) fn wait_for_service(platform: &Platform, end: ClassId) {
    if end != ClassId::NONE {
        order_before(platform, end, Kind::Wait, None);
    }
}

/// The number of circles outside of explorations that no caller has taken.
static UNTAKEN: AtomicUsize = AtomicUsize::new(0);

/// Reports a circle at once, and makes the process fail at its end: the agent that closes a circle
/// may be a service, and its test may read no report.
fn report_circle(platform: &Platform, text: &str) {
    if platform.kind() == PlatformKind::Explored {
        return;
    }
    static WATCHES_EXIT: AtomicBool = AtomicBool::new(false);
    os::write_error(&format!("{text}\n"));
    UNTAKEN.fetch_add(1, Ordering::Relaxed);
    if !WATCHES_EXIT.swap(true, Ordering::Relaxed) {
        os::fail_at_exit_if(|| UNTAKEN.load(Ordering::Relaxed) > 0);
    }
}
