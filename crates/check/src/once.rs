//! A value that is written once, with the methods of std's `OnceLock` and `Once`.
//!
//! In a machine a word has the state. A thread that reads it as `READY` by an acquire is ordered
//! after the write.

use crate::belonging::{assert_outside, end_agent, machine, name_of, opaque, sync_step};
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use tidegate_platform::{Site, Step, WaitEnd, Word};

const EMPTY: u64 = 0;
const WRITING: u64 = 1;
const READY: u64 = 2;

/// A value that is written once, as [`std::sync::OnceLock`].
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    machine: Option<(Word, &'static str)>,
}

impl<T> OnceLock<T> {
    /// Creates an empty lock of the machine on which the caller is an agent, else one of std.
    #[track_caller]
    pub fn new() -> OnceLock<T> {
        let site = Site::caller();
        let machine = machine().map(|platform| {
            let name = name_of("OnceLock", site);
            (platform.page(1).word(0).named(name), name)
        });
        OnceLock { value: std::sync::OnceLock::new(), machine }
    }

    /// Returns the value if it is written.
    #[track_caller]
    pub fn get(&self) -> Option<&T> {
        let site = Site::caller();
        let Some((word, _)) = &self.machine else {
            assert_outside("a OnceLock", site);
            return self.value.get();
        };
        let state = sync_step(word.platform(), "a OnceLock", site, || word.load_as(Acquire));
        if state == READY { self.value.get() } else { None }
    }

    /// Writes `value`, unless there is one.
    ///
    /// # Errors
    /// There is a value. The error has the one that was not written.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("it is written once"));
        value.map_or(Ok(()), Err)
    }

    /// Returns the value, which `write` makes if there is none. Other threads wait meanwhile.
    #[track_caller]
    pub fn get_or_init(&self, write: impl FnOnce() -> T) -> &T {
        let site = Site::caller();
        let Some((word, name)) = &self.machine else {
            assert_outside("a OnceLock", site);
            return self.value.get_or_init(write);
        };
        let is_mine = sync_step(word.platform(), "a OnceLock", site, || claim(word, name));
        if is_mine {
            let writing = Writing { word, site, is_written: false };
            let value = write();
            writing.end(|| _ = self.value.set(value));
        }
        self.value.get().expect("the state says that there is a value")
    }

    /// Returns the value if it is written.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Returns the value if it is written.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }
}

/// Waits until there is a value, or until the caller is the one to write it. Returns whether it is.
fn claim(word: &Word, name: &str) -> bool {
    loop {
        let claimed = |old| (old == EMPTY).then_some(WRITING);
        match word.update_as((AcqRel, Acquire), claimed) {
            EMPTY => return true,
            READY => return false,
            _ => {}
        }
        if word.wait_while(WRITING as u32, None, name) == WaitEnd::Stopped {
            end_agent();
        }
    }
}

/// The right to write the value. Dropped before, it leaves the lock empty.
struct Writing<'a> {
    word: &'a Word,
    site: Site,
    is_written: bool,
}

impl Writing<'_> {
    fn end(mut self, write: impl FnOnce()) {
        write();
        self.is_written = true;
        sync_step(self.word.platform(), "a OnceLock", self.site, || {
            self.word.update_as((AcqRel, Acquire), |_| Some(READY));
            self.word.wake(u32::MAX, Step::ThreadWake);
        });
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            self.word.update_at_once(|_| EMPTY);
        }
    }
}

impl<T> Default for OnceLock<T> {
    #[track_caller]
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

/// A call that is made once, as [`std::sync::Once`]. A panic of the call leaves it to the next
/// thread; std's is poisoned then.
#[derive(Debug)]
pub struct Once(OnceLock<()>);

impl Once {
    /// Creates one whose call is not yet made.
    #[track_caller]
    pub fn new() -> Once {
        Once(OnceLock::new())
    }

    /// Makes the call, unless it was made. Returns when it has ended.
    #[track_caller]
    pub fn call_once(&self, call: impl FnOnce()) {
        self.0.get_or_init(call);
    }

    /// Returns whether the call has ended.
    #[track_caller]
    pub fn is_completed(&self) -> bool {
        self.0.get().is_some()
    }
}

impl Default for Once {
    #[track_caller]
    fn default() -> Once {
        Once::new()
    }
}

opaque!("OnceLock", OnceLock<T>, T);
