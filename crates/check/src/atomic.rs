//! Atomics with the methods and the orders of std's.
//!
//! In an explored program a relaxed or releasing store waits in the thread's store buffer, a
//! sequentially consistent one and every read-modify-write drain it (total store order, as on x86).
//! An acquiring load that reads a releasing store orders the two threads for the race detector. A
//! weak compare-exchange does not fail spuriously.

use crate::belonging::{assert_outside, machine, name_of, sync_step};
use std::fmt;
pub use std::sync::atomic::Ordering;
use tidegate_machines::world;
use tidegate_platform::{Page, Site, Word};

/// A fence, as [`std::sync::atomic::fence`]. Only a sequentially consistent one drains the store
/// buffer.
#[track_caller]
pub fn fence(order: Ordering) {
    let Some(platform) = machine() else { return std::sync::atomic::fence(order) };
    sync_step(&platform, "a fence", Site::caller(), || match order {
        Ordering::SeqCst => platform.fence(),
        order if platform.models_time() => std::sync::atomic::fence(order),
        order => world::light_fence(order),
    });
}

/// The order of the load of a failed update.
fn of_failure(order: Ordering) -> Ordering {
    match order {
        Ordering::Release => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Acquire,
        other => other,
    }
}

enum Inner<S> {
    Std(S),
    Word(Word),
}

/// Makes a word of the running machine that holds `value`.
fn word(what: &str, site: Site, value: u64) -> Option<Word> {
    let platform = machine()?;
    let page: Page = platform.page(1);
    let word = page.word(0).named_by(|| name_of(what, site).to_owned());
    // No other agent knows the word yet, so its first value is no step.
    word.put(value);
    Some(word)
}

macro_rules! atomic {
    ($(#[$doc:meta])* $name:ident, $std:ident, $ty:ty, $into:expr, $from:expr) => {
        $(#[$doc])*
        pub struct $name(Inner<std::sync::atomic::$std>);

        impl $name {
            /// Creates an atomic of the machine on which the caller is an agent, else one of std.
            #[track_caller]
            pub fn new(value: $ty) -> $name {
                $name(match word(stringify!($name), Site::caller(), $into(value)) {
                    Some(word) => Inner::Word(word),
                    None => Inner::Std(std::sync::atomic::$std::new(value)),
                })
            }

            /// Returns the value.
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $ty {
                let site = Site::caller();
                match &self.0 {
                    Inner::Std(inner) => {
                        assert_outside(stringify!($name), site);
                        inner.load(order)
                    }
                    Inner::Word(word) => {
                        let load = || word.load_as(order);
                        $from(sync_step(word.platform(), stringify!($name), site, load))
                    }
                }
            }

            /// Replaces the value.
            #[track_caller]
            pub fn store(&self, value: $ty, order: Ordering) {
                let site = Site::caller();
                match &self.0 {
                    Inner::Std(inner) => {
                        assert_outside(stringify!($name), site);
                        inner.store(value, order);
                    }
                    Inner::Word(word) => {
                        let store = || word.store_as($into(value), order);
                        sync_step(word.platform(), stringify!($name), site, store);
                    }
                }
            }

            #[track_caller]
            fn update(
                &self,
                orders: (Ordering, Ordering),
                mut new: impl FnMut($ty) -> Option<$ty>,
            ) -> Result<$ty, $ty> {
                let site = Site::caller();
                match &self.0 {
                    Inner::Std(inner) => {
                        assert_outside(stringify!($name), site);
                        inner.fetch_update(orders.0, orders.1, new)
                    }
                    Inner::Word(word) => {
                        let mut done = false;
                        let old = sync_step(word.platform(), stringify!($name), site, || {
                            word.update_as(orders, |old| {
                                let new = new($from(old));
                                done = new.is_some();
                                new.map($into)
                            })
                        });
                        if done { Ok($from(old)) } else { Err($from(old)) }
                    }
                }
            }

            /// Replaces the value and returns the previous one.
            #[track_caller]
            pub fn swap(&self, value: $ty, order: Ordering) -> $ty {
                let (Ok(old) | Err(old)) = self.update((order, of_failure(order)), |_| Some(value));
                old
            }

            /// Replaces the value if it is `current`. Returns the previous one.
            ///
            /// # Errors
            /// The value is not `current`.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $ty,
                new: $ty,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$ty, $ty> {
                self.update((success, failure), |old| (old == current).then_some(new))
            }

            /// As [`Self::compare_exchange`].
            ///
            /// # Errors
            /// The value is not `current`.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $ty,
                new: $ty,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$ty, $ty> {
                self.compare_exchange(current, new, success, failure)
            }

            /// Replaces the value by what `new` makes of it. Returns the previous one.
            ///
            /// # Errors
            /// `new` returned `None`.
            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                new: impl FnMut($ty) -> Option<$ty>,
            ) -> Result<$ty, $ty> {
                self.update((set, fetch), new)
            }

            /// Returns the value, which no other thread can reach any more.
            pub fn into_inner(self) -> $ty {
                match self.0 {
                    Inner::Std(inner) => inner.into_inner(),
                    Inner::Word(word) => $from(word.final_value()),
                }
            }
        }

        impl Default for $name {
            #[track_caller]
            fn default() -> $name {
                $name::new(<$ty>::default())
            }
        }

        impl From<$ty> for $name {
            #[track_caller]
            fn from(value: $ty) -> $name {
                $name::new(value)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match &self.0 {
                    Inner::Std(inner) => inner.fmt(f),
                    Inner::Word(word) => {
                        fmt::Debug::fmt(&$from(word.seen_value()), f)
                    }
                }
            }
        }
    };
}

/// A method that replaces the value by a function of it and an operand.
macro_rules! fetch {
    ($name:ident, $ty:ty, $($(#[$doc:meta])* $method:ident: $new:expr;)*) => {
        impl $name {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $method(&self, value: $ty, order: Ordering) -> $ty {
                    let new: fn($ty, $ty) -> $ty = $new;
                    let update = |old| Some(new(old, value));
                    let (Ok(old) | Err(old)) = self.update((order, of_failure(order)), update);
                    old
                }
            )*
        }
    };
}

macro_rules! integer {
    ($($(#[$doc:meta])* $name:ident, $ty:ident;)*) => {
        $(
            atomic!($(#[$doc])* $name, $name, $ty, |value: $ty| value as u64, |word: u64| word as $ty);
            fetch!($name, $ty,
                /// Adds, wrapping, and returns the previous value.
                fetch_add: |old, value| old.wrapping_add(value);
                /// Subtracts, wrapping, and returns the previous value.
                fetch_sub: |old, value| old.wrapping_sub(value);
                /// Keeps common bits and returns the previous value.
                fetch_and: |old, value| old & value;
                /// Sets bits and returns the previous value.
                fetch_or: |old, value| old | value;
                /// Flips bits and returns the previous value.
                fetch_xor: |old, value| old ^ value;
                /// Keeps the larger value and returns the previous one.
                fetch_max: |old, value| old.max(value);
                /// Keeps the smaller value and returns the previous one.
                fetch_min: |old, value| old.min(value);
            );
        )*
    };
}

integer! {
    /// An atomic `u32`.
    AtomicU32, u32;
    /// An atomic `u64`.
    AtomicU64, u64;
    /// An atomic `usize`.
    AtomicUsize, usize;
    /// An atomic `u8`.
    AtomicU8, u8;
    /// An atomic `u16`.
    AtomicU16, u16;
    /// An atomic `i8`.
    AtomicI8, i8;
    /// An atomic `i16`.
    AtomicI16, i16;
    /// An atomic `i32`.
    AtomicI32, i32;
    /// An atomic `i64`.
    AtomicI64, i64;
    /// An atomic `isize`.
    AtomicIsize, isize;
}

atomic!(
    /// An atomic `bool`.
    AtomicBool, AtomicBool, bool, u64::from, |word: u64| word != 0
);
fetch!(AtomicBool, bool,
    /// Keeps `true` if both are and returns the previous value.
    fetch_and: |old, value| old & value;
    /// Sets `true` if one is and returns the previous value.
    fetch_or: |old, value| old | value;
    /// Sets `true` if exactly one is and returns the previous value.
    fetch_xor: |old, value| old ^ value;
    /// Sets `true` unless both are and returns the previous value.
    fetch_nand: |old, value| !(old & value);
);
