//! Compares programs that compute in place, on lines of cells, with themselves on copies.

use tidegate_platform::{Bulk, Lines, Platform};
use tidegate_programs::atomics::{Atomic, Width};
use tidegate_programs::{Dispatch, ProgramFault, ProgramId, ProgramMemory, run_group, signature};

const BYTES: usize = 64 << 10;

/// Bulk bytes from address 0, with or without lines.
struct Memory {
    bulk: Bulk,
    has_lines: bool,
    lines_taken: u32,
}

impl Memory {
    fn new(has_lines: bool) -> Memory {
        let bulk = Platform::closed_host().bulk(BYTES);
        for at in (0..BYTES as u64).step_by(4) {
            let number = (at / 4 % 997) as f32 * 0.37 - 100.0;
            bulk.write(at, &number.to_le_bytes()).unwrap();
        }
        Memory { bulk, has_lines, lines_taken: 0 }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        self.bulk.read(0, &mut bytes).unwrap();
        bytes
    }
}

impl ProgramMemory for Memory {
    fn read(&mut self, va: u64, out: &mut [u8]) -> Result<(), ProgramFault> {
        self.bulk.read(va, out).unwrap();
        Ok(())
    }

    fn write(&mut self, va: u64, data: &[u8]) -> Result<(), ProgramFault> {
        self.bulk.write(va, data).unwrap();
        Ok(())
    }

    fn atomic(&mut self, _: u64, _: Width, _: Atomic) -> Result<u64, ProgramFault> {
        unreachable!("no program with atomic operations")
    }

    fn lines(&mut self, from: u64, to: u64, len: usize) -> Option<(Lines<'_>, Lines<'_>)> {
        if !self.has_lines {
            return None;
        }
        let lines = (self.bulk.lines(from, len)?, self.bulk.lines(to, len)?);
        self.lines_taken += 1;
        Some(lines)
    }
}

/// Runs a dispatch with and without lines, and returns how many groups used them.
fn groups_in_place(program: ProgramId, args: &[u64]) -> u32 {
    let groups = signature(program).unwrap().groups_for(args);
    let dispatch = Dispatch { program, groups, args };
    let run = |has_lines| {
        let mut memory = Memory::new(has_lines);
        for x in 0..groups[0] {
            run_group(&dispatch, [x, 0, 0], &mut memory).unwrap();
        }
        memory
    };
    let (in_place, copied) = (run(true), run(false));
    assert!(in_place.bytes() == copied.bytes(), "{} of {args:?}", program.name());
    assert!(in_place.bytes() != Memory::new(true).bytes(), "{} of {args:?}", program.name());
    in_place.lines_taken
}

#[test]
fn saxpy_in_place_equals_saxpy_on_copies() {
    let factor = u64::from(1.7f32.to_bits());
    for (x, y, n, in_place) in [
        (4_096, 32_768, 3_000, 2),
        (4_096, 32_768, 4_096, 4),
        (4_104, 32_776, 2_048, 2),
        (4_096, 4_096, 2_048, 2),
        // Not at a cell, and not a whole line.
        (4_100, 32_768, 2_048, 0),
        (4_096, 32_768, 1_023, 0),
    ] {
        assert_eq!(groups_in_place(ProgramId::SAXPY, &[x, y, n, factor]), in_place, "{x} {y} {n}");
    }
}

#[test]
fn add_offsets_in_place_equals_add_offsets_on_copies() {
    for (to, n, in_place) in [(4_096, 4_096, 3), (4_096, 2_001, 0), (4_100, 4_096, 0)] {
        assert_eq!(groups_in_place(ProgramId::ADD_OFFSETS, &[to, 60_000, n]), in_place, "{to} {n}");
    }
}
