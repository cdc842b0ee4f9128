//! Owns the doorbell page, and the summary by which a busy or sleeping engine finds a ring.
//!
//! A doorbell is one word of a page that is fresh for each connect. It holds the absolute write
//! pointer, so ringing twice is harmless. Each process has one [`Summary`] per engine, so that the
//! engine need not scan idle doorbells: a two-level bitmap and a wake word.
//!
//! Order of a ring: 1. doorbell; 2. full barrier; 3. leaf bit; 4. root bit; 5. wake word. A bit that
//! is set already is only loaded: the scan that takes it comes later and loads the doorbell.
//! Order of a scan: 1. take the root's bits; 2. take the leaves' bits; 3. load the doorbells. The
//! next scan finds a bit that is set after its word was taken.
//!
//! A global doorbell is one location that all queues of a process share. Its value also names the
//! queue. Memory keeps only the last ring, where a bus delivers each. The summary names the queues
//! whose rings were overwritten.

use crate::QueueId;
use tidegate_d3dukmdt::RingBits;
use tidegate_platform::{ClientAccess, Page, Platform, Step, WakeWord, Word};

/// The word of a doorbell page that holds the write pointer.
pub const DOORBELL_VALUE_WORD: usize = 0;
/// Bits of a global doorbell's value that hold the write pointer. The queue's number is above them.
pub const GLOBAL_POINTER_BITS: u32 = 44;

/// Returns the amount to add to the write pointer of `queue` for a global doorbell; `None` if the
/// queue's number does not fit.
// spec: UMS-005
pub fn global_base(queue: QueueId) -> Option<u64> {
    (queue.0 >> (64 - GLOBAL_POINTER_BITS) == 0).then(|| u64::from(queue.0) << GLOBAL_POINTER_BITS)
}

/// Returns the queue and write pointer in the value of a global doorbell.
pub fn global_parts(value: u64) -> (QueueId, u64) {
    (QueueId((value >> GLOBAL_POINTER_BITS) as u32), value & ((1 << GLOBAL_POINTER_BITS) - 1))
}

/// The number of doorbells in one summary.
pub const SUMMARY_BITS: u32 = 64 * 64;

/// The doorbells of one process and one engine that may have been rung, and the engine's wake word.
#[derive(Clone, Debug)]
pub struct Summary {
    root: Word,
    /// Starts at [`FIRST_LEAF`], after the root, so that a ring of one of the first doorbells moves
    /// one cache line for both.
    leaves: Page,
    wake: WakeWord,
}

const FIRST_LEAF: usize = 1;

/// Returns the word of the leaf of doorbell number `bit`, its bit there, and its bit in the root.
#[inline]
fn place(bit: u32) -> (usize, u64, u64) {
    let leaf = bit / 64 % 64;
    (FIRST_LEAF + leaf as usize, 1 << (bit % 64), 1 << leaf)
}

impl Summary {
    /// Returns an empty summary for an engine that sleeps on `wake`.
    pub fn new(platform: &Platform, wake: WakeWord) -> Summary {
        let leaves = platform.client_page(FIRST_LEAF + 64, ClientAccess::ReadWrite);
        let leaves = leaves.named("the doorbell summary");
        Summary { root: leaves.word(0), leaves, wake }
    }

    /// Returns the place of doorbell number `bit`, for its ringer.
    pub fn ringer(&self, bit: u32) -> Ringer {
        let (leaf, in_leaf, in_root) = place(bit);
        let (root, leaf) = (self.root.clone(), self.leaves.word(leaf));
        Ringer { leaf, in_leaf, root, in_root, wake: self.wake.clone() }
    }

    /// Returns whether a doorbell other than number `bit` may have been rung since the last scan.
    #[inline]
    pub fn is_rung_besides(&self, bit: u32) -> bool {
        let (leaf, in_leaf, in_root) = place(bit);
        match self.root.load() {
            0 => false,
            root => root != in_root || self.leaves.load(leaf) & !in_leaf != 0,
        }
    }

    /// Returns whether a doorbell may have been rung since the last scan.
    #[inline]
    pub fn is_rung(&self) -> bool {
        self.root.load() != 0
    }

    /// Takes the numbers of all doorbells rung since the last scan.
    #[inline]
    pub fn take(&self, mut rung: impl FnMut(u32)) {
        if self.root.load() == 0 {
            return;
        }
        let mut root = self.root.exchange(0);
        while root != 0 {
            let leaf = root.trailing_zeros();
            root &= root - 1;
            let mut bits = self.leaves.exchange(FIRST_LEAF + leaf as usize, 0);
            while bits != 0 {
                rung(leaf * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

/// The place of one doorbell in a summary.
#[derive(Clone, Debug)]
pub struct Ringer {
    leaf: Word,
    in_leaf: u64,
    root: Word,
    in_root: u64,
    wake: WakeWord,
}

impl Ringer {
    /// Carries out the ringer's steps 2 to 5.
    #[inline]
    pub fn ring(&self) {
        let platform = self.wake.platform();
        if !platform.fault("no summary barrier") {
            platform.fence();
        }
        if self.leaf.load() & self.in_leaf == 0 {
            self.leaf.fetch_or(self.in_leaf);
        }
        if self.root.load() & self.in_root == 0 {
            self.root.fetch_or(self.in_root);
        }
        self.wake.ring_after_barrier(Step::DoorbellToFetch);
    }

    /// Returns the same steps as data, for a ringer in another process.
    pub fn bits(&self) -> RingBits {
        let (leaf, root) = ((self.leaf.clone(), self.in_leaf), (self.root.clone(), self.in_root));
        RingBits { bits: [leaf, root], sleeper: self.wake.word() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: UMS-005, UMS-008
    #[test]
    fn a_global_value_names_queue_and_pointer() {
        for (queue, pointer) in [(0, 0), (1, 1), (0xF_FFFF, (1 << 44) - 1), (7, 1 << 40)] {
            let base = global_base(QueueId(queue)).unwrap();
            assert_eq!(global_parts(base + pointer), (QueueId(queue), pointer));
        }
        assert_eq!(global_base(QueueId(1 << 20)), None);
    }
}
