//! Windows onto bulk bytes that move: the CPU address of an allocation, which stays the same when
//! its bytes are moved.
//!
//! Order of a move: 1. [`BulkWindow::close`] returns when no access is in progress, and none
//! starts; 2. the caller copies the bytes; 3. [`BulkWindow::open`] shows the new bytes and releases
//! waiting accesses. The caller serialises moves.
//!
//! An access to a closed window waits, like a thread that faults on a page being paged in. If the
//! machine stops during a move, the access reaches the old bytes, since neither is read any more.

use crate::memory::{Bulk, OutOfBounds, Word};
use crate::platform::Platform;
use crate::sync::Mutex;
use std::fmt;
use std::sync::Arc;
use tidegate_machines::{Step, WaitEnd};

struct Shown {
    bulk: Bulk,
    closed: bool,
    /// Whether an agent wrote through the window.
    written: bool,
}

struct Inner {
    bytes: u64,
    shown: Mutex<Shown>,
    /// Counts openings. An access to a closed window sleeps on it.
    openings: Word,
}

/// A window onto bulk bytes that may move.
#[derive(Clone)]
pub struct BulkWindow {
    inner: Arc<Inner>,
}

impl BulkWindow {
    /// Returns an open window onto `bulk`.
    pub fn new(platform: &Platform, bulk: Bulk) -> BulkWindow {
        let bytes = bulk.len();
        let shown = platform
            .mutex("a window onto an allocation", Shown { bulk, closed: false, written: false });
        let openings = platform.page(1).word(0).named("the openings of a window");
        BulkWindow { inner: Arc::new(Inner { bytes, shown, openings }) }
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> u64 {
        self.inner.bytes
    }

    /// Returns whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.inner.bytes == 0
    }

    /// Returns the current bytes. Of a closed window, returns the last ones.
    pub fn bulk(&self) -> Bulk {
        self.inner.shown.lock().bulk.clone()
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.access(|shown| shown.bulk.read(offset, out))
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), OutOfBounds> {
        self.access(|shown| {
            shown.written = true;
            shown.bulk.write(offset, data)
        })
    }

    /// Returns whether an agent has written through the window.
    pub fn is_written(&self) -> bool {
        self.inner.shown.lock().written
    }

    // spec: RES-010
    /// Performs one access with no move in between. The lock is held over it, and `close` waits for
    /// the lock.
    fn access<T>(&self, once: impl FnOnce(&mut Shown) -> T) -> T {
        loop {
            // Loaded before the window is checked, so that an opening between check and sleep ends
            // the sleep.
            let openings = self.inner.openings.load();
            let mut shown = self.inner.shown.lock_device();
            if !shown.closed {
                return once(&mut shown);
            }
            drop(shown);
            let what = "an allocation that is being moved";
            if self.inner.openings.wait_while(openings as u32, None, what) == WaitEnd::Stopped {
                return once(&mut self.inner.shown.lock_device());
            }
        }
    }

    /// Closes the window. No access is in progress when this returns.
    pub fn close(&self) {
        self.inner.shown.lock().closed = true;
    }

    /// Opens the window onto `bulk`, which must have the same size.
    pub fn open(&self, bulk: Bulk) {
        debug_assert_eq!(bulk.len(), self.len(), "a move keeps the length");
        {
            let mut shown = self.inner.shown.lock();
            (shown.bulk, shown.closed) = (bulk, false);
        }
        self.inner.openings.fetch_add(1);
        self.inner.openings.wake(u32::MAX, Step::ThreadWake);
    }
}

impl fmt::Debug for BulkWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BulkWindow({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_before_a_move_is_behind_the_window_after_it() {
        let platform = Platform::host();
        let (old, new) = (platform.bulk(8), platform.bulk(8));
        let window = BulkWindow::new(&platform, old.clone());
        window.write(0, &[1, 2, 3]).unwrap();
        window.close();
        let mut bytes = [0; 8];
        old.read(0, &mut bytes).unwrap();
        new.write(0, &bytes).unwrap();
        window.open(new.clone());
        window.write(3, &[4]).unwrap();
        let mut seen = [0; 4];
        window.read(0, &mut seen).unwrap();
        assert_eq!(seen, [1, 2, 3, 4]);
        new.read(0, &mut seen).unwrap();
        assert_eq!(seen, [1, 2, 3, 4]);
        assert!(window.write(8, &[1]).is_err());
        assert_eq!((window.len(), window.is_empty(), window.bulk().len()), (8, false, 8));
    }

    // spec: RES-010
    #[test]
    fn an_access_during_a_move_waits_for_its_end() {
        let platform = Platform::virtual_time(crate::StepCosts::free());
        let (old, new) = (platform.bulk(8), platform.bulk(8));
        let window = BulkWindow::new(&platform, old.clone());
        window.close();
        let (for_main, seen) = (platform.clone(), new.clone());
        let report = platform.run(move || {
            let late = window.clone();
            let writer = for_main.spawn("writer", move || late.write(0, &[7]).unwrap());
            for_main.sleep_until(for_main.now().after(1_000));
            window.open(new);
            writer.join();
        });
        assert!(report.completed(), "{:?}", report.blocked);
        let mut bytes = [0; 1];
        seen.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [7]);
        old.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0], "nothing went to the old place");
    }
}
