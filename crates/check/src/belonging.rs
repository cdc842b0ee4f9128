//! The side of a value: a cooperative machine, or std.
//!
//! Invariant: a value is used on its side only, because the explorer cannot see other uses.

use std::collections::BTreeMap;
use std::sync::{Mutex as StdMutex, PoisonError};
use tidegate_machines::{Stopped, world};
use tidegate_platform::{Platform, PlatformKind, Site};

/// Returns the machine on which the caller is an agent, if it is a cooperative one.
pub(crate) fn machine() -> Option<Platform> {
    Platform::current()
}

/// Runs `act` with `site` as the place of its steps, if `platform` is explored.
///
/// # Panics
/// The caller is no agent of `platform`.
#[inline]
pub(crate) fn step<R>(platform: &Platform, what: &str, site: Site, act: impl FnOnce() -> R) -> R {
    if !platform.is_current() {
        belongs_elsewhere(what, site);
    }
    match platform.kind() {
        PlatformKind::Explored => world::at(site, act),
        _ => act(),
    }
}

/// Runs `act` as [`step`] does, for a value by which threads may hand memory over.
#[inline]
pub(crate) fn sync_step<R>(
    platform: &Platform,
    what: &str,
    site: Site,
    act: impl FnOnce() -> R,
) -> R {
    let result = step(platform, what, site, act);
    platform.note_hand_over();
    result
}

/// Checks that no cooperative machine runs the caller, which uses a value of std.
#[inline]
pub(crate) fn assert_outside(what: &str, site: Site) {
    if Platform::is_any_current() {
        belongs_elsewhere(what, site);
    }
}

#[cold]
pub(crate) fn belongs_elsewhere(what: &str, site: Site) -> ! {
    panic!(
        "{what}, which was made outside of this run, is used at {}: make it in the closure",
        site.place()
    )
}

/// Ends the calling agent, whose wait cannot end any more.
pub(crate) fn end_agent() -> ! {
    std::panic::resume_unwind(Box::new(Stopped))
}

static NAMES: StdMutex<BTreeMap<String, &'static str>> = StdMutex::new(BTreeMap::new());

/// Returns `what` with the place where it was made. Each place is kept for the whole process.
pub(crate) fn name_of(what: &str, site: Site) -> &'static str {
    let name = format!("{what} made at {}", site.place());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(&name) {
        return known;
    }
    let kept: &'static str = Box::leak(name.clone().into_boxed_str());
    names.insert(name, kept);
    kept
}

/// Implements `Debug` for a type that shows nothing of its state.
macro_rules! opaque {
    ($name:literal, $Type:ty $(, $T:ident)?) => {
        impl$(<$T>)? std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!($name, "(..)"))
            }
        }
    };
}
pub(crate) use opaque;
