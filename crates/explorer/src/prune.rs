//! The states seen so far. A state is a 64-bit hash of memory, store buffers, locks and each
//! agent's history of observations. Equal states have equal futures, so the second need not be
//! continued.
//!
//! A collision of two hashes would hide a schedule: at 10 million states the chance is about 3 in a
//! million.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// The key is a hash already.
#[derive(Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// States seen.
pub(crate) type Seen = HashSet<u64, BuildHasherDefault<AsIs>>;
/// States seen, each with what was left of a budget when it was.
pub(crate) type SeenWithBudget = HashMap<u64, u32, BuildHasherDefault<AsIs>>;
