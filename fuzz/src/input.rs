//! Converts bytes into choices. Any bytes are a valid input; after their end every choice is 0 and
//! the program ends.

/// The rest of an input.
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes up to `len` raw bytes.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns a number below `bound`, which is at most 256; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let byte = usize::from(self.byte());
        if bound == 0 { 0 } else { byte % bound }
    }

    /// Returns one of the choices.
    pub(crate) fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// Returns eight bytes.
    pub(crate) fn raw(&mut self) -> u64 {
        let taken = self.take(8);
        let mut bytes = [0; 8];
        bytes[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(bytes)
    }

    /// Returns a number, mostly small or a boundary value.
    pub(crate) fn number(&mut self) -> u64 {
        let kind = self.byte();
        match kind >> 5 {
            0..=3 => u64::from(kind & 0x7F),
            4 => u64::from(self.byte()) << (kind & 0x1F) | 1,
            5 => (1u64 << (kind & 0x1F) << (kind & 0x1F)).wrapping_sub(u64::from(self.byte() & 1)),
            6 => u64::MAX - u64::from(kind & 0x1F),
            _ => self.raw(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Input;

    #[test]
    fn an_exhausted_input_is_zeros() {
        let mut input = Input::new(&[0xFF, 1, 2]);
        assert_eq!(input.number(), 0x0201);
        assert!(input.is_over());
        assert_eq!((input.byte(), input.raw(), input.number(), input.below(0)), (0, 0, 0, 0));
        assert_eq!(Input::new(&[0xC0]).number(), u64::MAX);
    }
}
