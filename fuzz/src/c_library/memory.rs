//! Memory for the arguments of C calls. One of the rooms that may use `unsafe`.
//!
//! Invariant: what is placed ends at a page that no code may touch, but for up to seven bytes that
//! align it. An access behind it ends the program by SIGSEGV.

#![allow(unsafe_code)]

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
use std::ptr::null_mut;

const PAGE_BYTES: usize = 4096;
/// Most bytes of one block. More than the largest answer of the library.
pub(crate) const BLOCK_BYTES: usize = 8 * PAGE_BYTES;
/// A block and the page behind it.
const STRIDE: usize = BLOCK_BYTES + PAGE_BYTES;
/// Blocks of one call.
const BLOCKS: usize = 24;

/// Guarded memory for one call at a time. It stays mapped until the process ends.
pub(crate) struct Memory {
    base: *mut u8,
    /// Blocks of the present call.
    placed: usize,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        let (len, none) = (BLOCKS * STRIDE, ProtFlags::empty());
        // SAFETY: the mapping is new and at no wanted address.
        let base = unsafe { mmap_anonymous(null_mut(), len, none, MapFlags::PRIVATE) };
        let base = base.expect("address space").cast::<u8>();
        for block in 0..BLOCKS {
            let access = MprotectFlags::READ | MprotectFlags::WRITE;
            // SAFETY: the pages are inside of the mapping, which only this value uses.
            let opened = unsafe { mprotect(base.add(block * STRIDE).cast(), BLOCK_BYTES, access) };
            opened.expect("memory");
        }
        Memory { base, placed: 0 }
    }

    /// Frees all blocks.
    pub(crate) fn clear(&mut self) {
        self.placed = 0;
    }

    /// Places bytes in a block of their own. Returns their address, which is a multiple of 8; NULL
    /// when no block is left.
    pub(crate) fn place(&mut self, bytes: &[u8]) -> u64 {
        assert!(bytes.len() <= BLOCK_BYTES, "a block has room for {} bytes", bytes.len());
        if self.placed == BLOCKS {
            return 0;
        }
        let start = BLOCK_BYTES - bytes.len().next_multiple_of(8);
        // SAFETY: the block is inside of the mapping, and its end behind `start` has room for the
        // bytes.
        let address = unsafe {
            let at = self.base.add(self.placed * STRIDE + start);
            at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            at
        };
        self.placed += 1;
        address.expose_provenance() as u64
    }

    /// Returns bytes of the present call.
    pub(crate) fn read<const N: usize>(&self, address: u64) -> [u8; N] {
        let offset = (address as usize).wrapping_sub(self.base.addr());
        assert!(offset / STRIDE < self.placed && offset % STRIDE + N <= BLOCK_BYTES);
        // SAFETY: the range is inside of a block. An array of bytes has no alignment and any value.
        unsafe { self.base.add(offset).cast::<[u8; N]>().read() }
    }
}
