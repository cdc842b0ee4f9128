//! The cooperative machine that runs on this thread.
//!
//! Entry points: [`platform`], [`is`], [`is_any`]; the run loop calls [`enter`].

use crate::Platform;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

thread_local! {
    static PLATFORM: RefCell<Option<Platform>> = const { RefCell::new(None) };
    /// The address of that platform; 0 for none. It needs no check at an access.
    static ADDRESS: Cell<usize> = const { Cell::new(0) };
}

/// Marks a machine as running until dropped.
pub(crate) struct Running(());

/// Marks `platform` as the one that runs on this thread.
pub(crate) fn enter(platform: &Platform) -> Running {
    PLATFORM.set(Some(platform.clone()));
    ADDRESS.set(address(platform));
    Running(())
}

impl Drop for Running {
    fn drop(&mut self) {
        ADDRESS.set(0);
        // Dropped after the borrow has ended, because the last handle closes the world.
        let _platform = PLATFORM.take();
    }
}

fn address(platform: &Platform) -> usize {
    Arc::as_ptr(&platform.inner).addr()
}

/// Returns the running machine.
pub(crate) fn platform() -> Option<Platform> {
    PLATFORM.with_borrow(Clone::clone)
}

/// Returns whether `platform` is the running machine.
#[inline]
pub(crate) fn is(platform: &Platform) -> bool {
    ADDRESS.get() == address(platform)
}

/// Returns whether a cooperative machine runs the caller.
#[inline]
pub(crate) fn is_any() -> bool {
    ADDRESS.get() != 0
}
