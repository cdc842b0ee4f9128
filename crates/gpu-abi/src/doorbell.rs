//! Owns the doorbell page and how a ring finds an engine that looks elsewhere, or sleeps.
//!
//! A doorbell is one word of a page that is fresh for each connect: the write pointer, absolute, so that ringing twice is
//! harmless. So that an engine need not look at thousands of idle doorbells, each process has, per engine, a [`Summary`]: a
//! bitmap in two levels that the ringer sets after its doorbell's store, and a wake word. Order of a ring: 1. doorbell; 2.
//! leaf bit; 3. root bit (both locked operations, hence barriers); 4. wake word. Order of a look: 1. take the root's bits;
//! 2. take the leaves' bits; 3. load the doorbells. A bit that is set after its word was taken is found by the next look.

use tidegate_platform::{Page, Platform, Step, WakeWord, Word};

/// The word of a doorbell page that holds the write pointer.
pub const DOORBELL_VALUE_WORD: usize = 0;
/// Doorbells that one summary can tell apart.
pub const SUMMARY_BITS: u32 = 64 * 64;

/// Which doorbells of one process and one engine may have been rung, and whether that engine must be woken for it.
#[derive(Clone, Debug)]
pub struct Summary {
    root: Word,
    leaves: Page,
    wake: WakeWord,
}

impl Summary {
    /// An empty summary for an engine that sleeps on `wake`.
    pub fn new(platform: &Platform, wake: WakeWord) -> Summary {
        Summary { root: platform.page(1).word(0), leaves: platform.page(64), wake }
    }

    /// The ringer's steps 2 to 4 for doorbell number `bit`.
    #[inline]
    pub fn ring(&self, bit: u32) {
        self.leaves.fetch_or((bit / 64 % 64) as usize, 1 << (bit % 64));
        self.root.fetch_or(1 << (bit / 64 % 64));
        self.wake.ring(Step::DoorbellToFetch);
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
            let mut bits = self.leaves.exchange(leaf as usize, 0);
            while bits != 0 {
                rung(leaf * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}
