//! Atomic operations on words of buffers, and the programs that use them beside other work:
//!
//! - `count(counter, tickets, n, amount)`: each of `n` threads adds `amount` to a 64-bit counter.
//!   `tickets[i]`, unless omitted, is the low half of the value that thread `i` found.
//! - `histogram(src, bins, n, bin_count)`: each of `n` elements adds 1 to the 32-bit word
//!   `bins[src[i] % bin_count]`.
//! - `atomic_steps(words, steps, results, n, word_count)`: thread `i` does [`Step`] `i` on one of
//!   the 64-bit `words`. `results[i]`, unless omitted, is the value that it found, with 64 bits.
//!
//! A finished thread is never repeated: a group that stops continues behind it. A group that faults
//! keeps the operations of its finished threads, so it must not be run again.

use super::lanes::{
    BLOCK, THREADS, block, check_elements, elements_of, linear_grid, read_u32, write_u32,
};
use super::part::Part;
use super::signature::{Argument, Arguments, Signature, Spans};
use super::{ProgramFault, ProgramId, ProgramMemory};

/// The width of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
}

impl Width {
    /// Returns the number of bytes. A word is aligned to it.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Width::W32 => 4,
            Width::W64 => 8,
        }
    }
}

/// An atomic operation on a word. Numbers are unsigned and have the word's width; addition wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Atomic {
    /// Adds a number.
    Add(u64),
    /// Replaces the word by a smaller number.
    Min(u64),
    /// Replaces the word by a larger number.
    Max(u64),
    /// Replaces the word.
    Exchange(u64),
    /// Replaces the word by `new` if it is `expected`.
    CompareExchange {
        /// The number to compare with.
        expected: u64,
        /// The new number.
        new: u64,
    },
}

impl Atomic {
    /// Returns the new value of a word that is `old`, before it is cut to the word's width.
    #[must_use]
    pub fn apply(self, old: u64) -> u64 {
        match self {
            Atomic::Add(number) => old.wrapping_add(number),
            Atomic::Min(number) => old.min(number),
            Atomic::Max(number) => old.max(number),
            Atomic::Exchange(new) => new,
            Atomic::CompareExchange { expected, new } => {
                if old == expected {
                    new
                } else {
                    old
                }
            }
        }
    }
}

/// One step of `atomic_steps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Which of the 64-bit words. An operation of 32 bits is on its low half.
    pub word: u32,
    /// The width of the operation.
    pub width: Width,
    /// The operation.
    pub atomic: Atomic,
}

/// Bytes of an encoded step.
pub const STEP_BYTES: usize = 24;

impl Step {
    /// Encodes the step for a buffer: kind and width (one byte each), word (from byte 4), operand
    /// (from byte 8), compared number (from byte 16).
    #[must_use]
    pub fn to_bytes(&self) -> [u8; STEP_BYTES] {
        let (kind, operand, expected) = match self.atomic {
            Atomic::Add(number) => (0, number, 0),
            Atomic::Min(number) => (1, number, 0),
            Atomic::Max(number) => (2, number, 0),
            Atomic::Exchange(new) => (3, new, 0),
            Atomic::CompareExchange { expected, new } => (4, new, expected),
        };
        let mut bytes = [0; STEP_BYTES];
        (bytes[0], bytes[1]) = (kind, self.width.bytes() as u8);
        bytes[4..8].copy_from_slice(&self.word.to_le_bytes());
        bytes[8..16].copy_from_slice(&operand.to_le_bytes());
        bytes[16..].copy_from_slice(&expected.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; STEP_BYTES]) -> Result<Step, ProgramFault> {
        let numbers = bytes.as_chunks::<8>().0;
        let [head, operand, expected] = [0, 1, 2].map(|at| u64::from_le_bytes(numbers[at]));
        let atomic = match bytes[0] {
            0 => Atomic::Add(operand),
            1 => Atomic::Min(operand),
            2 => Atomic::Max(operand),
            3 => Atomic::Exchange(operand),
            4 => Atomic::CompareExchange { expected, new: operand },
            _ => return Err(ProgramFault::bad("a step has an unknown operation")),
        };
        let width = match bytes[1] {
            4 => Width::W32,
            8 => Width::W64,
            _ => return Err(ProgramFault::bad("the width of a step is not 4 or 8 bytes")),
        };
        Ok(Step { word: (head >> 32) as u32, width, atomic })
    }
}

pub(super) static COUNT: Signature = Signature {
    id: ProgramId::COUNT,
    name: "count",
    summary: "counter += amount, atomically, by each of n threads",
    arguments: &[
        Argument::atomic("counter"),
        Argument::write("tickets").optional(),
        Argument::u32("n"),
        Argument::u32("amount"),
    ],
    threads_per_group: [THREADS as u32, 1, 1],
    grid: |args| linear_grid(args.u64(2)),
    spans: |args| {
        check_words(args.va(0))?;
        let n = check_elements(args.u64(2))?;
        Ok(args.span(0, 8).with(args, 1, 4 * n))
    },
    run: count,
};

pub(super) static HISTOGRAM: Signature = Signature {
    id: ProgramId::HISTOGRAM,
    name: "histogram",
    summary: "bins[src[i] % bin_count] += 1, atomically",
    arguments: &[
        Argument::read("src"),
        Argument::atomic("bins"),
        Argument::u32("n"),
        Argument::u32("bin_count"),
    ],
    threads_per_group: [THREADS as u32, 1, 1],
    grid: |args| linear_grid(args.u64(2)),
    spans: |args| {
        if args.u32(3) == 0 {
            return Err(ProgramFault::bad("a histogram has no bins"));
        }
        Ok(args.span(0, 4 * check_elements(args.u64(2))?).with(args, 1, 4 * args.u64(3)))
    },
    run: histogram,
};

pub(super) static ATOMIC_STEPS: Signature = Signature {
    id: ProgramId::ATOMIC_STEPS,
    name: "atomic_steps",
    summary: "atomic operations from a buffer, one for each thread",
    arguments: &[
        Argument::atomic("words"),
        Argument::read("steps"),
        Argument::write("results").optional(),
        Argument::u32("n"),
        Argument::u32("word_count"),
    ],
    threads_per_group: [THREADS as u32, 1, 1],
    grid: |args| linear_grid(args.u64(3)),
    spans: step_spans,
    run: atomic_steps,
};

fn check_words(va: u64) -> Result<(), ProgramFault> {
    match va.is_multiple_of(8) {
        true => Ok(()),
        false => Err(ProgramFault::bad("the address of 64-bit words is not a multiple of 8")),
    }
}

fn step_spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    check_words(args.va(0))?;
    let n = check_elements(args.u64(3))?;
    let words = args.span(0, 8 * args.u64(4));
    Ok(words.with(args, 1, STEP_BYTES as u64 * n).with(args, 2, 8 * n))
}

fn count(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let (first, count) = block(args.u64(2), group[0]);
    let mut found = [0u32; BLOCK];
    let threads = part.threads(THREADS, |threads| {
        for ticket in &mut found[elements_of(threads, count)] {
            *ticket = mem.atomic(args.va(0), Width::W64, Atomic::Add(args.u64(3)))? as u32;
        }
        Ok(())
    })?;
    let own = elements_of(threads, count);
    if args.va(1) == 0 {
        return Ok(());
    }
    write_u32(mem, args.va(1) + 4 * (first + own.start as u64), &found[own])
}

fn histogram(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let (first, count) = block(args.u64(2), group[0]);
    let from = elements_of(part.first(THREADS)..THREADS, count).start;
    let mut elements = [0u32; BLOCK];
    read_u32(mem, args.va(0) + 4 * (first + from as u64), &mut elements[from..count])?;
    let add = |threads| {
        for element in &elements[elements_of(threads, count)] {
            let bin = u64::from(element % args.u32(3));
            mem.atomic(args.va(1) + 4 * bin, Width::W32, Atomic::Add(1))?;
        }
        Ok(())
    };
    part.threads(THREADS, add).map(|_| ())
}

fn atomic_steps(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let (first, count) = block(args.u64(3), group[0]);
    let from = elements_of(part.first(THREADS)..THREADS, count).start;
    let mut steps = vec![[0u8; STEP_BYTES]; count - from];
    mem.read(args.va(1) + STEP_BYTES as u64 * (first + from as u64), steps.as_flattened_mut())?;
    let mut found = vec![[0u8; 8]; count - from];
    let threads = part.threads(THREADS, |threads| {
        for at in elements_of(threads, count) {
            let step = Step::from_bytes(&steps[at - from])?;
            if u64::from(step.word) >= args.u64(4) {
                return Err(ProgramFault::bad("a step is on a word beyond the last"));
            }
            let va = args.va(0) + 8 * u64::from(step.word);
            found[at - from] = mem.atomic(va, step.width, step.atomic)?.to_le_bytes();
        }
        Ok(())
    })?;
    let own = elements_of(threads, count);
    if args.va(2) == 0 || own.is_empty() {
        return Ok(());
    }
    let results = &found[own.start - from..own.end - from];
    mem.write(args.va(2) + 8 * (first + own.start as u64), results.as_flattened())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_their_names() {
        let found = [
            Atomic::Add(3),
            Atomic::Min(3),
            Atomic::Min(9),
            Atomic::Max(9),
            Atomic::Exchange(1),
            Atomic::CompareExchange { expected: 5, new: 8 },
            Atomic::CompareExchange { expected: 4, new: 8 },
        ];
        assert_eq!(found.map(|atomic| atomic.apply(5)), [8, 3, 5, 9, 1, 8, 5]);
        for (atomic, width) in found.into_iter().flat_map(|a| [(a, Width::W32), (a, Width::W64)]) {
            let step = Step { word: 7, width, atomic };
            assert_eq!(Step::from_bytes(&step.to_bytes()), Ok(step));
        }
        assert!(Step::from_bytes(&[5; STEP_BYTES]).is_err());
    }
}
