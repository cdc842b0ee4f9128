//! Read-only views of kernel memory.

use tidegate_platform::{Page, Word};

// spec: NF-010, MF-009
/// A word that the process may read but not write.
#[derive(Clone, Debug)]
pub struct ReadOnly(Word);

impl ReadOnly {
    /// For the kernel: shows `word` to a process.
    pub fn new(word: Word) -> ReadOnly {
        ReadOnly(word)
    }

    /// For the kernel's side: returns the page of the word, and its index there.
    pub fn place(&self) -> (Page, usize) {
        (self.0.page(), self.0.index())
    }

    /// Returns the present value.
    #[inline]
    pub fn load(&self) -> u64 {
        self.0.load()
    }

    /// Returns the address at which the CPU reaches the word, for programs in other languages.
    pub fn cpu_address(&self) -> u64 {
        self.0.cpu_address()
    }
}
