//! The programs with atomic operations, one thread after another and beside no other work.

use super::super::ProgramFault;
use super::super::atomics::{Atomic, STEP_BYTES, Step, Width};
use super::comparison::{Compare, Expected, word_bytes, words};

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn number_bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub(super) fn count(args: &[u64], inputs: &[&[u8]]) -> Vec<Expected> {
    let (start, n, amount) = (numbers(inputs[0])[0], args[2], args[3]);
    let end = start.wrapping_add(n.wrapping_mul(amount));
    let mut expected = vec![Expected::new(0, number_bytes(&[end]), Compare::Exact)];
    if args[1] != 0 {
        let ticket = |thread: u64| start.wrapping_add(thread.wrapping_mul(amount)) as u32;
        let tickets: Vec<u32> = (0..n).map(ticket).collect();
        expected.push(Expected::new(1, word_bytes(&tickets), Compare::Exact));
    }
    expected
}

pub(super) fn histogram(args: &[u64], inputs: &[&[u8]]) -> Vec<Expected> {
    let (src, mut bins) = (words(inputs[0]), words(inputs[1]));
    bins.truncate(args[3] as usize);
    for value in &src[..args[2] as usize] {
        let bin = &mut bins[*value as usize % args[3] as usize];
        *bin = bin.wrapping_add(1);
    }
    vec![Expected::new(1, word_bytes(&bins), Compare::Exact)]
}

pub(super) fn atomic_steps(args: &[u64], inputs: &[&[u8]]) -> Result<Vec<Expected>, ProgramFault> {
    let (mut words, mut results) = (numbers(inputs[0]), Vec::new());
    words.truncate(args[4] as usize);
    for bytes in &inputs[1].as_chunks::<STEP_BYTES>().0[..args[3] as usize] {
        let Step { word, width, atomic } = Step::from_bytes(bytes)?;
        let beyond = ProgramFault::bad("a step is on a word beyond the last");
        let word = words.get_mut(word as usize).ok_or(beyond)?;
        let mask = if width == Width::W32 { u64::from(u32::MAX) } else { u64::MAX };
        let old = *word & mask;
        let new = match atomic {
            Atomic::Add(number) => old.wrapping_add(number),
            Atomic::Min(number) => old.min(number),
            Atomic::Max(number) => old.max(number),
            Atomic::CompareExchange { expected, .. } if old != expected => old,
            Atomic::Exchange(new) | Atomic::CompareExchange { new, .. } => new,
        };
        *word = *word & !mask | new & mask;
        results.push(old);
    }
    let mut expected = vec![Expected::new(0, number_bytes(&words), Compare::Exact)];
    if args[2] != 0 {
        expected.push(Expected::new(2, number_bytes(&results), Compare::Exact));
    }
    Ok(expected)
}
