//! The hashes of a world: the hasher of its maps, and the mixing of an explored machine's state.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Keys are addresses and numbers made by this process, so the hash need not resist attacks.
pub(super) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Scramble>>;

#[derive(Default)]
pub(super) struct Scramble(u64);

impl Hasher for Scramble {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

#[inline]
pub(super) fn mix(hash: u64, value: u64) -> u64 {
    let x = (hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9).rotate_left(27)
}

pub(super) fn word_hash(page: u32, index: u32, value: u64) -> u64 {
    if value == 0 { 0 } else { mix(mix(u64::from(page) << 32 | u64::from(index), 0x57), value) }
}

pub(super) fn bytes_hash(data: &[u8]) -> u64 {
    let mut hash = data.len() as u64;
    for chunk in data.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash, u64::from_le_bytes(bytes));
    }
    hash
}
