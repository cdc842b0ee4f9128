//! The set of states seen. A state is a 64-bit hash of memory, store buffers, locks and each
//! agent's history of observations. Equal states have equal futures, so only one is continued.
//!
//! A hash collision would hide a schedule. At 10 million states its risk is 3 in a million.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// The identity, because the key is already a hash.
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

/// The states seen.
pub(crate) type Seen = HashSet<u64, BuildHasherDefault<AsIs>>;
/// The states seen, each with the remaining budget at the time.
pub(crate) type SeenWithBudget = HashMap<u64, u32, BuildHasherDefault<AsIs>>;
