//! Owns what a running agent knows about itself: its name, the locks it holds, its recorder.
//!
//! On the host it is thread-local; in a cooperative machine the world switches it together with the fiber. Nothing
//! here is shared between agents.

use std::cell::{Cell, RefCell};
use tidegate_trace::Recorder;

thread_local! {
    static NAME: RefCell<String> = const { RefCell::new(String::new()) };
    static GUARDS: Cell<u32> = const { Cell::new(0) };
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// The parts of an agent that travel with it when another fiber takes the thread.
#[derive(Default)]
pub(crate) struct Belongings {
    pub(crate) name: String,
    guards: u32,
    recorder: Option<Recorder>,
}

impl Belongings {
    pub(crate) fn named(name: String) -> Belongings {
        Belongings { name, ..Belongings::default() }
    }
}

/// Puts `mine` in place and returns what was there.
pub(crate) fn exchange(mine: Belongings) -> Belongings {
    Belongings {
        name: NAME.with(|n| n.replace(mine.name)),
        guards: GUARDS.with(|g| g.replace(mine.guards)),
        recorder: RECORDER.with(|r| r.replace(mine.recorder)),
    }
}

/// The calling agent's name.
pub fn name() -> String {
    NAME.with(|n| n.borrow().clone())
}

/// How many platform locks the calling agent holds.
pub fn guards_held() -> u32 {
    GUARDS.with(Cell::get)
}

pub(crate) fn guard_taken() {
    GUARDS.with(|g| g.set(g.get() + 1));
}

pub(crate) fn guard_dropped() {
    GUARDS.with(|g| g.set(g.get() - 1));
}

/// Panics, with the agent's name, if the calling agent holds a platform lock: no guard of policy state is held over
/// `what` (a DDI call, a callback).
#[inline]
pub fn assert_no_guards(what: &str) {
    let held = guards_held();
    assert!(
        held == 0,
        "agent '{}' holds {held} lock(s) over {what}: decide, drop, call, take, apply",
        name()
    );
}

pub(crate) fn with_recorder<R>(f: impl FnOnce(&mut Recorder) -> R) -> R {
    RECORDER.with(|r| f(r.borrow_mut().get_or_insert_with(Recorder::new)))
}

pub(crate) fn take_recorder() -> Option<Recorder> {
    RECORDER.with(|r| r.borrow_mut().take())
}
