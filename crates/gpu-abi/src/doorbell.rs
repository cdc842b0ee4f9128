//! Owns the doorbell page and how a ring finds an engine that looks elsewhere, or sleeps.
//!
//! A doorbell is one word of a page that is fresh for each connect: the write pointer, absolute, so
//! that ringing twice is harmless. So that an engine need not look at thousands of idle doorbells,
//! each process has, per engine, a [`Summary`]: a bitmap in two levels that the ringer sets after
//! its doorbell's store, and a wake word. Order of a ring: 1. doorbell; 2. leaf bit; 3. root bit
//! (both locked operations, hence barriers); 4. wake word. Order of a look: 1. take the root's
//! bits;
//! 2. take the leaves' bits; 3. load the doorbells. A bit that is set after its word was taken is
//!    found by the next look.
//!
//! A global doorbell is one location of a process that all its queues share: the value names the
//! queue, too. A word of memory keeps the last ring only, where a bus would deliver each; the
//! summary tells whose ring was written over.

use crate::QueueId;
use tidegate_platform::{Page, Platform, Step, WakeWord, Word};

/// The word of a doorbell page that holds the write pointer.
pub const DOORBELL_VALUE_WORD: usize = 0;
/// Bits of a global doorbell's value that hold the write pointer; the queue's number stands above
/// them.
pub const GLOBAL_POINTER_BITS: u32 = 44;

/// What is added to the write pointer of `queue` to make the value for a global doorbell; `None`
/// when its number does not fit.
// spec: UMS-005
pub fn global_base(queue: QueueId) -> Option<u64> {
    (queue.0 >> (64 - GLOBAL_POINTER_BITS) == 0).then(|| u64::from(queue.0) << GLOBAL_POINTER_BITS)
}

/// Queue and write pointer that the value of a global doorbell names.
pub fn global_parts(value: u64) -> (QueueId, u64) {
    (QueueId((value >> GLOBAL_POINTER_BITS) as u32), value & ((1 << GLOBAL_POINTER_BITS) - 1))
}

/// Doorbells that one summary can tell apart.
pub const SUMMARY_BITS: u32 = 64 * 64;

/// Which doorbells of one process and one engine may have been rung, and whether that engine must
/// be woken for it.
#[derive(Clone, Debug)]
pub struct Summary {
    root: Word,
    /// From [`FIRST_LEAF`] on, behind the root: a ring of one of the first doorbells moves one
    /// cache line for both.
    leaves: Page,
    wake: WakeWord,
}

const FIRST_LEAF: usize = 1;

impl Summary {
    /// An empty summary for an engine that sleeps on `wake`.
    pub fn new(platform: &Platform, wake: WakeWord) -> Summary {
        let leaves = platform.page(FIRST_LEAF + 64).named("the doorbell summary");
        Summary { root: leaves.word(0), leaves, wake }
    }

    /// The ringer's steps 2 to 4 for doorbell number `bit`.
    #[inline]
    pub fn ring(&self, bit: u32) {
        let leaf = bit / 64 % 64;
        self.leaves.fetch_or(FIRST_LEAF + leaf as usize, 1 << (bit % 64));
        self.root.fetch_or(1 << leaf);
        self.wake.ring(Step::DoorbellToFetch);
    }

    /// Whether a doorbell may have been rung since the last look.
    #[inline]
    pub fn is_rung(&self) -> bool {
        self.root.load() != 0
    }

    /// Takes the numbers of all doorbells that were rung since the last look.
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
