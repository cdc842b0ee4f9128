//! The argument words of one dispatch, checked against a signature once and then read by place.
//!
//! Owns the meaning of a word: which bits hold a number, which must be zero. Called by the dispatch
//! checks and by every program; calls nothing. Limits of sizes are the programs' own.

use super::signature::{Access, ArgumentKind, Signature, Spans};
use super::{MAX_ARGUMENTS, ProgramFault};

/// Words that agree with their signature in number and kind.
pub(super) struct Arguments<'a> {
    signature: &'static Signature,
    words: &'a [u64],
}

impl<'a> Arguments<'a> {
    pub(super) fn new(
        signature: &'static Signature,
        words: &'a [u64],
    ) -> Result<Self, ProgramFault> {
        if words.len() > MAX_ARGUMENTS || words.len() != signature.arguments.len() {
            return Err(ProgramFault::bad("the number of arguments is not that of the program"));
        }
        for (&word, argument) in words.iter().zip(signature.arguments) {
            match argument.kind {
                ArgumentKind::Buffer { .. } => check_address(word, argument.optional)?,
                ArgumentKind::U32 | ArgumentKind::F32 if word >> 32 != 0 => {
                    return Err(ProgramFault::bad("a 32-bit argument has bits in its high half"));
                }
                ArgumentKind::U32 | ArgumentKind::F32 | ArgumentKind::U64 => {}
            }
        }
        Ok(Self { signature, words })
    }

    pub(super) fn signature(&self) -> &'static Signature {
        self.signature
    }

    pub(super) fn va(&self, index: usize) -> u64 {
        self.words[index]
    }

    /// The low half; `new` has seen that the high half is zero.
    pub(super) fn u32(&self, index: usize) -> u32 {
        self.words[index] as u32
    }

    pub(super) fn u64(&self, index: usize) -> u64 {
        self.words[index]
    }

    pub(super) fn f32(&self, index: usize) -> f32 {
        f32::from_bits(self.u32(index))
    }

    pub(super) fn access(&self, index: usize) -> Access {
        match self.signature.arguments[index].kind {
            ArgumentKind::Buffer { access } => access,
            _ => Access::Read,
        }
    }

    /// Starts the list of buffer ranges.
    pub(super) fn span(&self, index: usize, len: u64) -> Spans {
        Spans::new().with(self, index, len)
    }
}

fn check_address(va: u64, optional: bool) -> Result<(), ProgramFault> {
    if va == 0 && !optional {
        return Err(ProgramFault::bad("a buffer that is not optional has address 0"));
    }
    if !va.is_multiple_of(4) {
        return Err(ProgramFault::bad("a buffer address is not a multiple of 4"));
    }
    Ok(())
}
