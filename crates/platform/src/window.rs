//! A window onto bulk bytes that move: the CPU address of an allocation, which stays the same while
//! its bytes change place.
//!
//! A move: 1. [`BulkWindow::close`]: when it returns, no access is in progress and none begins; 2.
//! the caller copies the bytes; 3. [`BulkWindow::open`] shows the new place and releases the
//! accesses that waited. The caller serialises moves.
//!
//! An access to a closed window waits, as a thread does that faults on a page which is being paged.
//! When the machine stops during a move, the access reaches the old place: neither place is read
//! any more.

use crate::memory::{Bulk, OutOfBounds, Word};
use crate::sync::Mutex;
use crate::{Platform, Step, WaitEnd};
use std::fmt;
use std::sync::Arc;

struct Shown {
    bulk: Bulk,
    closed: bool,
    /// An agent wrote through the window.
    written: bool,
}

struct Inner {
    bytes: u64,
    shown: Mutex<Shown>,
    /// Counts openings; an access that finds the window closed sleeps on it.
    openings: Word,
}

/// A window onto bulk bytes that may move.
#[derive(Clone)]
pub struct BulkWindow {
    inner: Arc<Inner>,
}

impl BulkWindow {
    /// A window onto `bulk`, open.
    pub fn new(platform: &Platform, bulk: Bulk) -> BulkWindow {
        let bytes = bulk.len();
        let shown = platform
            .mutex("a window onto an allocation", Shown { bulk, closed: false, written: false });
        let openings = platform.page(1).word(0).named("the openings of a window");
        BulkWindow { inner: Arc::new(Inner { bytes, shown, openings }) }
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.inner.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.inner.bytes == 0
    }

    /// What is shown, or, while it is closed, was shown last.
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

    /// Whether an agent wrote through the window since it was made.
    pub fn is_written(&self) -> bool {
        self.inner.shown.lock().written
    }

    // spec: RES-010
    /// One access, with no move in between. The lock is held over it: that is what `close` waits
    /// for.
    fn access<T>(&self, once: impl FnOnce(&mut Shown) -> T) -> T {
        loop {
            // Loaded before the window is checked: an opening between the check and the sleep ends
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

    /// Holds accesses off; none is under way when this returns.
    pub fn close(&self) {
        self.inner.shown.lock().closed = true;
    }

    /// Shows `bulk` from now on, which must be as long.
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
