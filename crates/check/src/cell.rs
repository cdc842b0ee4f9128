//! Plain data that threads share by a promise of the program: each pair of accesses, one of them a
//! write, is ordered by other means.
//!
//! In an explored program a pair without happens-before is a panic that names both places. The
//! accesses themselves are no steps, since the order of two racing accesses does not matter.
//!
//! [`UnsafeCell`] is for code with raw pointers, in the manner of loom. [`RaceCell`] needs no
//! `unsafe`: outside of an explored program it panics when two accesses overlap.

use crate::belonging::{assert_outside, machine, name_of, opaque, step};
use std::sync::{PoisonError, TryLockError};
use tidegate_machines::world;
use tidegate_platform::{Platform, PlatformKind, Site};

/// The race detector's part of a cell.
struct Watch {
    /// The machine, the cell's number there, and its name.
    machine: Option<(Platform, u32, &'static str)>,
}

impl Watch {
    fn new(what: &str, site: Site) -> Watch {
        let machine = machine().filter(|platform| platform.kind() == PlatformKind::Explored);
        let of_machine = |platform| (platform, world::next_object_id(), name_of(what, site));
        Watch { machine: machine.map(of_machine) }
    }

    /// Records an access.
    ///
    /// # Panics
    /// It races with an earlier one.
    #[track_caller]
    fn access(&self, what: &str, is_write: bool, site: Site) {
        let Some((platform, number, name)) = &self.machine else {
            return if cfg!(debug_assertions) {
                assert_unwatched(what, site)
            };
        };
        let race = step(platform, what, site, || world::access_cell(*number, is_write, site));
        if let Some(race) = race {
            panic!("data race on the {name}: {race}");
        }
    }
}

/// Checks that no explored machine runs the caller, which uses a cell that is not watched.
fn assert_unwatched(what: &str, site: Site) {
    if machine().is_some_and(|platform| platform.kind() == PlatformKind::Explored) {
        assert_outside(what, site);
    }
}

/// A cell for raw pointers, as [`std::cell::UnsafeCell`].
pub struct UnsafeCell<T> {
    inner: std::cell::UnsafeCell<T>,
    watch: Watch,
}

impl<T> UnsafeCell<T> {
    /// Creates a cell, which the race detector watches in an explored program.
    #[track_caller]
    pub fn new(value: T) -> UnsafeCell<T> {
        let watch = Watch::new("UnsafeCell", Site::caller());
        UnsafeCell { inner: std::cell::UnsafeCell::new(value), watch }
    }

    /// Calls `read` with a pointer that it only reads.
    ///
    /// # Panics
    /// In an explored program: the read races with a write.
    #[track_caller]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        self.watch.access("an UnsafeCell", false, Site::caller());
        read(self.inner.get())
    }

    /// Calls `write` with a pointer that it may write.
    ///
    /// # Panics
    /// In an explored program: the write races with another access.
    #[track_caller]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        self.watch.access("an UnsafeCell", true, Site::caller());
        write(self.inner.get())
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

/// A cell without `unsafe`: threads share it, and no two accesses may overlap if one is a write.
pub struct RaceCell<T> {
    inner: std::sync::RwLock<T>,
    watch: Watch,
}

impl<T> RaceCell<T> {
    /// Creates a cell, which the race detector watches in an explored program.
    #[track_caller]
    pub fn new(value: T) -> RaceCell<T> {
        let watch = Watch::new("RaceCell", Site::caller());
        RaceCell { inner: std::sync::RwLock::new(value), watch }
    }

    /// Calls `read` with the value.
    ///
    /// # Panics
    /// In an explored program: the read races with a write. Elsewhere: another access is under way.
    #[track_caller]
    pub fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        let site = Site::caller();
        self.watch.access("a RaceCell", false, site);
        match self.inner.try_read() {
            Ok(value) => read(&value),
            Err(TryLockError::Poisoned(poisoned)) => read(&poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => overlaps(site),
        }
    }

    /// Calls `write` with the value.
    ///
    /// # Panics
    /// In an explored program: the write races with another access. Elsewhere: another access is
    /// under way.
    #[track_caller]
    pub fn with_mut<R>(&self, write: impl FnOnce(&mut T) -> R) -> R {
        let site = Site::caller();
        self.watch.access("a RaceCell", true, site);
        match self.inner.try_write() {
            Ok(mut value) => write(&mut value),
            Err(TryLockError::Poisoned(poisoned)) => write(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => overlaps(site),
        }
    }

    /// Returns a copy of the value.
    ///
    /// # Panics
    /// As [`RaceCell::with`].
    #[track_caller]
    pub fn get(&self) -> T
    where
        T: Copy,
    {
        self.with(|value| *value)
    }

    /// Replaces the value.
    ///
    /// # Panics
    /// As [`RaceCell::with_mut`].
    #[track_caller]
    pub fn set(&self, value: T) {
        self.with_mut(|old| *old = value);
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[track_caller]
fn overlaps(site: Site) -> ! {
    panic!("data race on a RaceCell: another access is under way at {}", site.place())
}

opaque!("UnsafeCell", UnsafeCell<T>, T);
opaque!("RaceCell", RaceCell<T>, T);
