//! Compares every built-in program with its reference on flat memory: sizes at block and tile
//! boundaries, groups in any order, stops and resumptions, faults, and invalid arguments.

use std::f32::consts::FRAC_PI_6;
use tidegate_programs::atomics::{Atomic, Step, Width};
use tidegate_programs::camera::{Camera, Matrix};
use tidegate_programs::frame::Frame;
use tidegate_programs::interpret::{Instruction, Operation};
use tidegate_programs::layout::{DrawConstants, Vertex};
use tidegate_programs::mesh::{self, Mesh};
use tidegate_programs::reference::{self, Expected};
use tidegate_programs::texture::Texture;
use tidegate_programs::{
    Access, ArgumentKind, CheckedDispatch, Cursor, Dispatch, Grain, ProgramFault, ProgramId,
    ProgramMemory, all, buffers, by_name, draw, prefix_sum, reduction, run_group, run_part,
    signature, validate,
};

const BASE: u64 = 0x7000_0000;

/// Memory of one process: bytes from `BASE`, with ranges that fault.
#[derive(Clone, Default)]
struct Memory {
    bytes: Vec<u8>,
    holes: Vec<(u64, u64)>,
    write_holes: Vec<(u64, u64)>,
}

impl Memory {
    fn put(&mut self, bytes: &[u8]) -> u64 {
        // A gap, so that a store beyond a buffer does not silently hit the next one.
        self.bytes.resize(self.bytes.len().next_multiple_of(16) + 64, 0xcd);
        let va = BASE + self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        va
    }

    fn floats(&mut self, values: &[f32]) -> u64 {
        self.put(&bytes_of(values))
    }

    fn words(&mut self, values: &[u32]) -> u64 {
        self.put(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    }

    fn zeros(&mut self, len: usize) -> u64 {
        self.put(&vec![0; len])
    }

    fn place(&self, va: u64, len: usize, write: bool) -> Result<usize, ProgramFault> {
        let fault = ProgramFault::Memory { va, len: len as u64, write };
        let start = usize::try_from(va.checked_sub(BASE).ok_or(fault)?).map_err(|_| fault)?;
        let meets = |hole: &(u64, u64)| va < hole.1 && hole.0 < va + len as u64;
        let beyond = start.checked_add(len).is_none_or(|end| end > self.bytes.len());
        if beyond || self.holes.iter().any(meets) || (write && self.write_holes.iter().any(meets)) {
            return Err(fault);
        }
        Ok(start)
    }

    fn view(&self, va: u64, len: u64) -> &[u8] {
        let start = (va - BASE) as usize;
        &self.bytes[start..start + len as usize]
    }

    fn word_view(&self, va: u64, count: usize) -> Vec<u32> {
        let chunks = self.view(va, 4 * count as u64).as_chunks::<4>().0;
        chunks.iter().map(|b| u32::from_le_bytes(*b)).collect()
    }

    fn float_view(&self, va: u64, count: usize) -> Vec<f32> {
        self.word_view(va, count).into_iter().map(f32::from_bits).collect()
    }
}

impl ProgramMemory for Memory {
    fn read(&mut self, va: u64, out: &mut [u8]) -> Result<(), ProgramFault> {
        let start = self.place(va, out.len(), false)?;
        out.copy_from_slice(&self.bytes[start..start + out.len()]);
        Ok(())
    }

    fn write(&mut self, va: u64, data: &[u8]) -> Result<(), ProgramFault> {
        let start = self.place(va, data.len(), true)?;
        self.bytes[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn atomic(&mut self, va: u64, width: Width, atomic: Atomic) -> Result<u64, ProgramFault> {
        let start = self.place(va, width.bytes(), true)?;
        let mut word = [0; 8];
        word[..width.bytes()].copy_from_slice(&self.bytes[start..start + width.bytes()]);
        let old = u64::from_le_bytes(word);
        let new = atomic.apply(old).to_le_bytes();
        self.bytes[start..start + width.bytes()].copy_from_slice(&new[..width.bytes()]);
        Ok(old)
    }
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Returns reproducible pseudo-random numbers.
struct Noise(u64);

impl Noise {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn unit(&mut self) -> f32 {
        (self.word() >> 40) as f32 / 16_777_216.0
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| 4.0 * self.unit() - 2.0).collect()
    }

    fn words(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.word() as u32).collect()
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.word() as usize % (last + 1));
        }
    }
}

fn bits(value: f32) -> u64 {
    u64::from(value.to_bits())
}

fn grid_of(dispatch: &Dispatch<'_>) -> Vec<[u32; 3]> {
    let [x_end, y_end, z_end] = dispatch.groups;
    let mut grid = Vec::new();
    for z in 0..z_end {
        for y in 0..y_end {
            grid.extend((0..x_end).map(|x| [x, y, z]));
        }
    }
    grid
}

fn dispatch<'a>(program: ProgramId, args: &'a [u64]) -> Dispatch<'a> {
    let groups = signature(program).unwrap().groups_for(args);
    Dispatch { program, groups, args }
}

fn run(memory: &mut Memory, program: ProgramId, args: &[u64]) {
    let dispatch = dispatch(program, args);
    validate(&dispatch).unwrap();
    run_groups(memory, &dispatch, &grid_of(&dispatch));
}

fn run_groups(memory: &mut Memory, dispatch: &Dispatch<'_>, groups: &[[u32; 3]]) {
    groups.iter().for_each(|group| run_group(dispatch, *group, memory).unwrap());
}

fn expectations(memory: &Memory, program: ProgramId, args: &[u64]) -> Vec<Expected> {
    let spans = buffers(&dispatch(program, args)).unwrap();
    let mut inputs: Vec<&[u8]> = vec![&[]; args.len()];
    for span in &spans {
        inputs[span.argument] = memory.view(span.va, span.len);
    }
    reference::expected(program, args, &inputs).unwrap()
}

/// Runs a dispatch and compares it with the reference. Checks that the result does not depend on
/// the order of groups or on a stop between two of them, and that nothing else is written. Returns
/// the memory after the dispatch.
fn check(before: &Memory, program: ProgramId, args: &[u64]) -> Memory {
    let name = signature(program).unwrap().name;
    let dispatch = dispatch(program, args);
    let mut after = before.clone();
    run(&mut after, program, args);
    let all = expectations(before, program, args);
    assert!(!all.is_empty(), "{name} has no reference");
    for expected in all {
        let found = after.view(args[expected.argument], expected.bytes.len() as u64);
        expected.check(found).unwrap_or_else(|mismatch| panic!("{name} {args:x?}: {mismatch}"));
    }
    let mut allowed = before.clone();
    for span in buffers(&dispatch).unwrap().iter().filter(|span| span.access.writes()) {
        let start = (span.va - BASE) as usize;
        let range = start..start + span.len as usize;
        allowed.bytes[range.clone()].copy_from_slice(&after.bytes[range]);
    }
    assert!(allowed.bytes == after.bytes, "{name}: stores outside of its written buffers");
    let mut noise = Noise(program.0.into());
    let mut groups = grid_of(&dispatch);
    noise.shuffle(&mut groups);
    let mut shuffled = before.clone();
    run_groups(&mut shuffled, &dispatch, &groups);
    assert!(shuffled.bytes == after.bytes, "{name}: the result depends on the order of groups");
    // Stopped half-way. The context is the memory and the number of finished groups.
    let mut resumed = before.clone();
    let (first, rest) = groups.split_at(groups.len() / 2);
    run_groups(&mut resumed, &dispatch, first);
    let mut resumed = resumed.clone();
    run_groups(&mut resumed, &dispatch, rest);
    assert!(resumed.bytes == after.bytes, "{name}: the result depends on a stop between groups");
    let grains = match program {
        ProgramId::DRAW => [Grain::Triangle, Grain::Pixel],
        _ => [Grain::Thread, Grain::Instruction],
    };
    for grain in grains {
        let parts = run_in_parts(before, &dispatch, grain, || 1 << (noise.word() % 12));
        assert!(
            parts.bytes == after.bytes,
            "{name}: the result depends on stops inside of groups, {grain:?}"
        );
    }
    after
}

/// Runs a dispatch whose groups stop after `grains` grains each time, with cursors saved as words.
fn run_in_parts(
    before: &Memory,
    dispatch: &Dispatch<'_>,
    grain: Grain,
    mut grains: impl FnMut() -> u64,
) -> Memory {
    let mut memory = before.clone();
    let mut left = grains();
    for group in grid_of(dispatch) {
        let mut cursor = Cursor::default();
        loop {
            let mut go_on = || {
                left -= 1;
                left > 0
            };
            if run_part(dispatch, group, &mut cursor, grain, &mut go_on, &mut memory).unwrap() {
                break;
            }
            assert!(!cursor.is_start(), "a part makes progress");
            left = grains();
            cursor =
                Cursor::from_words(dispatch, &cursor.words()).expect("a cursor that was reached");
        }
        assert!(cursor.is_start());
    }
    memory
}

/// Runs a dispatch with a single stop, once for each possible place. Returns the number of places.
fn left_everywhere(before: &Memory, program: ProgramId, args: &[u64], grain: Grain) -> u64 {
    let dispatch = dispatch(program, args);
    let mut whole = before.clone();
    run(&mut whole, program, args);
    let mut places = 0;
    loop {
        let mut stays = 0;
        let parts = run_in_parts(before, &dispatch, grain, || {
            stays += 1;
            if stays == 1 { places + 1 } else { u64::MAX }
        });
        assert!(parts.bytes == whole.bytes, "{program:?} stopped at {places}, {grain:?}");
        if stays == 1 {
            return places;
        }
        places += 1;
    }
}

const EDGES: [usize; 11] = [0, 1, 3, 255, 256, 257, 1023, 1024, 1025, 2048, 5000];

#[test]
fn numbers_and_names_are_stable() {
    let names: Vec<_> = all().map(|program| (program.id.0, program.name)).collect();
    let expected = [
        (1, "saxpy"),
        (2, "reduction"),
        (3, "scan_blocks"),
        (4, "add_offsets"),
        (5, "convolution_2d"),
        (6, "n_body"),
        (7, "shade"),
        (8, "draw"),
        (9, "fill_pattern"),
        (10, "checkerboard"),
        (11, "image_gradient"),
        (12, "downsample"),
        (13, "interpret"),
        (14, "count"),
        (15, "histogram"),
        (16, "atomic_steps"),
    ];
    assert_eq!(names, expected);
    for program in all() {
        assert_eq!(by_name(program.name), Some(program.id));
        assert_eq!(signature(program.id).unwrap().name, program.name);
    }
    assert!(signature(ProgramId(0)).is_none() && signature(ProgramId(17)).is_none());
    assert!(signature(ProgramId(u32::MAX)).is_none() && by_name("").is_none());
    assert_eq!(signature(ProgramId::DRAW).unwrap().argument("mode"), Some(15));
}

#[test]
fn saxpy_is_exact_at_every_edge() {
    for n in EDGES {
        let (mut memory, mut noise) = (Memory::default(), Noise(n as u64));
        let (x, y) = (memory.floats(&noise.floats(n)), memory.floats(&noise.floats(n)));
        check(&memory, ProgramId::SAXPY, &[x, y, n as u64, bits(2.5)]);
        check(&memory, ProgramId::SAXPY, &[y, y, n as u64, bits(-0.5)]);
        check(&memory, ProgramId::SAXPY, &[x, y, n as u64, bits(f32::NAN)]);
    }
}

#[test]
fn reduction_sums_blocks_and_passes_sum_everything() {
    for n in EDGES.into_iter().chain([1024 * 1024 + 1]) {
        let (mut memory, mut noise) = (Memory::default(), Noise(n as u64));
        let values = noise.floats(n);
        let mut source = memory.floats(&values);
        for length in reduction::passes(n as u64) {
            let partials = memory.zeros(4 * length.max(1).div_ceil(1024) as usize);
            memory = check(&memory, ProgramId::REDUCTION, &[source, partials, length]);
            source = partials;
        }
        let (sum, error) = reference::sum(&values);
        let found = f64::from(memory.float_view(source, 1)[0]);
        assert!((found - sum).abs() <= error, "n = {n}: {found} instead of {sum}");
    }
    assert_eq!(reduction::passes(1_000_000), [1_000_000, 977]);
}

#[test]
fn prefix_sum_by_levels_is_exact() {
    for n in EDGES.into_iter().chain([1024 * 1024 + 1]) {
        let (mut memory, mut noise) = (Memory::default(), Noise(n as u64));
        let values = noise.words(n);
        let levels = prefix_sum::levels(n as u64);
        let mut arrays = vec![memory.words(&values)];
        for level in &levels[1..] {
            arrays.push(memory.zeros(4 * *level as usize));
        }
        // In place, with the sums of each level in the array of the next level.
        for (index, &length) in levels.iter().enumerate() {
            let sums = arrays.get(index + 1).copied().unwrap_or(0);
            memory = check(
                &memory,
                ProgramId::SCAN_BLOCKS,
                &[arrays[index], arrays[index], sums, length],
            );
        }
        for (index, &length) in levels.iter().enumerate().rev().skip(1) {
            memory =
                check(&memory, ProgramId::ADD_OFFSETS, &[arrays[index], arrays[index + 1], length]);
        }
        assert_eq!(memory.word_view(arrays[0], n), reference::prefix_sums(&values), "n = {n}");
    }
}

#[test]
fn scan_may_keep_its_source() {
    let (mut memory, mut noise) = (Memory::default(), Noise(1));
    let values = noise.words(3000);
    let (src, dst, sums) = (memory.words(&values), memory.zeros(12_000), memory.zeros(12));
    let after = check(&memory, ProgramId::SCAN_BLOCKS, &[src, dst, sums, 3000]);
    assert_eq!(after.word_view(src, 3000), values);
}

#[test]
fn convolution_is_exact_with_clamped_edges() {
    for (width, height) in [(0, 5), (1, 1), (7, 3), (31, 33), (32, 32), (33, 65), (100, 40)] {
        for radius in [0usize, 1, 2, 7, 16] {
            let (mut memory, mut noise) =
                (Memory::default(), Noise((width * 1000 + height) as u64));
            let side = 2 * radius + 1;
            let src = memory.floats(&noise.floats(width * height));
            let dst = memory.zeros(4 * width * height);
            let kernel = memory.floats(&noise.floats(side * side));
            let args = [src, dst, kernel, width as u64, height as u64, radius as u64];
            check(&memory, ProgramId::CONVOLUTION_2D, &args);
        }
    }
}

#[test]
fn convolution_is_not_mirrored() {
    let mut memory = Memory::default();
    let src = memory.floats(&[1.0, 2.0, 3.0]);
    let dst = memory.zeros(12);
    // Copies the pixel to the right.
    let kernel = memory.floats(&[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    run(&mut memory, ProgramId::CONVOLUTION_2D, &[src, dst, kernel, 3, 1, 1]);
    assert_eq!(memory.float_view(dst, 3), [2.0, 3.0, 3.0]);
}

#[test]
fn n_body_keeps_to_double_precision() {
    for n in [0usize, 1, 2, 255, 256, 257, 600] {
        let (mut memory, mut noise) = (Memory::default(), Noise(n as u64));
        let bodies: Vec<f32> = (0..n)
            .flat_map(|_| {
                [noise.unit() * 8.0, noise.unit() * 8.0, noise.unit() * 8.0, noise.unit()]
            })
            .collect();
        let (positions, next) = (memory.floats(&bodies), memory.zeros(16 * n));
        let velocities = memory.floats(&noise.floats(4 * n));
        let n = n as u64;
        let memory =
            check(&memory, ProgramId::N_BODY, &[positions, next, velocities, n, bits(0.01)]);
        check(&memory, ProgramId::N_BODY, &[next, positions, velocities, n, bits(0.01)]);
    }
}

#[test]
fn n_body_keeps_momentum_and_mass() {
    let (mut memory, mut noise) = (Memory::default(), Noise(9));
    let bodies: Vec<f32> = (0..300)
        .flat_map(|_| [noise.unit(), noise.unit(), noise.unit(), 0.5 + noise.unit()])
        .collect();
    let at = [memory.floats(&bodies), memory.zeros(16 * 300)];
    let velocities = memory.zeros(16 * 300);
    for step in 0..4 {
        let args = [at[step % 2], at[(step + 1) % 2], velocities, 300, bits(0.001)];
        run(&mut memory, ProgramId::N_BODY, &args);
    }
    let (after, velocity) = (memory.float_view(at[0], 1200), memory.float_view(velocities, 1200));
    for axis in 0..3 {
        let momentum: f32 =
            (0..300).map(|body| bodies[4 * body + 3] * velocity[4 * body + axis]).sum();
        assert!(momentum.abs() < 0.01, "momentum {momentum} along axis {axis}");
    }
    assert!((0..300).all(|body| after[4 * body + 3] == bodies[4 * body + 3]));
}

#[test]
fn patterns_and_pictures_match() {
    for n in EDGES {
        let mut memory = Memory::default();
        let dst = memory.zeros(4 * n);
        check(&memory, ProgramId::FILL_PATTERN, &[dst, n as u64, 0xffff_fff0, 0x1234_5677]);
    }
    for (width, height) in [(0u64, 3u64), (1, 1), (31, 33), (64, 64), (100, 37)] {
        let (mut memory, mut noise) = (Memory::default(), Noise(width));
        let dst = memory.zeros((4 * width * height) as usize);
        let source = memory.words(&noise.words((4 * width * height) as usize));
        check(&memory, ProgramId::CHECKERBOARD, &[dst, width, height, 5, 0xff00_00ff, 0x00ff_ff00]);
        for horizon_row in [0, 1, height / 2, height, u64::from(u32::MAX)] {
            let args = [dst, width, height, 0xff80_4020, 0xffe0_f0ff, 0xff10_2030, horizon_row];
            check(&memory, ProgramId::IMAGE_GRADIENT, &args);
        }
        check(&memory, ProgramId::DOWNSAMPLE, &[source, dst, width, height]);
    }
}

fn code(instructions: &[Instruction]) -> Vec<u32> {
    instructions.iter().flat_map(|instruction| instruction.words()).collect()
}

/// Adds `input[i..i + 4]` in thread `i`, mixes the sum into the thread's words and counts in
/// floats.
fn sample_code() -> Vec<u32> {
    use Operation::{
        Add, And, End, FAdd, FMul, Float, Input, Jump, Load, Mul, Or, Set, Shl, Shr, Store, Sub,
        Xor,
    };
    let op = Instruction::new;
    code(&[
        op(Set, 4, 0, 0, 4),
        op(Add, 5, 0, 15, 0),
        op(Input, 6, 5, 0, 0),
        op(Add, 7, 7, 6, 0),
        op(Add, 5, 5, 15, 1),
        op(Float, 9, 7, 0, 0),
        op(FMul, 9, 9, 9, 0),
        op(FAdd, 8, 8, 9, 0),
        op(Sub, 4, 4, 15, u32::MAX),
        op(Jump, 0, 4, 0, 2),
        op(Load, 10, 15, 0, 1),
        op(Xor, 10, 10, 7, 0),
        op(Store, 0, 15, 10, 0),
        op(Mul, 11, 7, 2, 3),
        op(Shl, 11, 11, 15, 3),
        op(Shr, 12, 11, 3, 0),
        op(Or, 12, 12, 0, 0),
        op(And, 12, 12, 1, 0),
        op(Store, 0, 15, 12, 1),
        op(Store, 0, 15, 8, 2),
        op(End, 0, 0, 0, 0),
        op(Store, 0, 15, 15, 0),
    ])
}

#[test]
fn small_programs_do_what_their_table_says() {
    for n in [0usize, 1, 5, 63, 64, 65, 200] {
        let (mut memory, mut noise) = (Memory::default(), Noise(n as u64));
        let words = sample_code();
        let program = memory.words(&words);
        let input = memory.words(&noise.words(n + 4));
        let data = memory.words(&noise.words(3 * n));
        let args = [program, words.len() as u64 / 2, input, n as u64 + 4, data, 3, n as u64, 77, 5];
        check(&memory, ProgramId::INTERPRET, &args);
    }
    // An endless loop ends after the maximum number of steps.
    let mut memory = Memory::default();
    let op = Instruction::new;
    let words = code(&[
        op(Operation::Add, 4, 4, 15, 1),
        op(Operation::Store, 0, 15, 4, 0),
        op(Operation::Jump, 0, 4, 0, 0),
    ]);
    let (program, data) = (memory.words(&words), memory.zeros(12));
    let after = check(&memory, ProgramId::INTERPRET, &[program, 3, 0, 0, data, 1, 3, 0, 0]);
    assert_eq!(after.word_view(data, 3), [1365; 3]);
}

#[test]
fn invalid_code_is_refused() {
    let op = Instruction::new;
    let head = |bytes: [u8; 4]| vec![u32::from_le_bytes(bytes), 0];
    let hostile = [
        head([17, 0, 0, 0]),
        head([255, 0, 0, 0]),
        head([2, 16, 0, 0]),
        head([2, 0, 16, 0]),
        head([2, 0, 0, 200]),
        code(&[op(Operation::Jump, 0, 0, 0, 2)]),
        code(&[op(Operation::Load, 4, 15, 0, 1)]),
        code(&[op(Operation::Store, 0, 15, 4, u32::MAX)]),
        code(&[op(Operation::Input, 4, 15, 0, 8)]),
    ];
    for words in hostile {
        let mut memory = Memory::default();
        let (program, input, data) = (memory.words(&words), memory.zeros(32), memory.zeros(4));
        let args = [program, 1, input, 8, data, 1, 1, 0, 0];
        let dispatch = dispatch(ProgramId::INTERPRET, &args);
        let fault = run_group(&dispatch, [0; 3], &mut memory).unwrap_err();
        assert!(matches!(fault, ProgramFault::BadArguments { .. }), "{words:x?}: {fault}");
        assert_eq!(memory.word_view(data, 1), [0]);
    }
    for (place, value) in [(1, 257), (5, 0), (5, 17), (6, 1 << 31)] {
        let mut args = [BASE, 1, 0, 0, BASE + 4096, 1, 1, 0, 0];
        args[place] = value;
        let dispatch = Dispatch { program: ProgramId::INTERPRET, groups: [1; 3], args: &args };
        assert!(validate(&dispatch).is_err(), "argument {place} is {value}");
    }
}

// spec: PRE-033
#[test]
fn groups_can_stop_at_every_place() {
    let (mut memory, mut noise) = (Memory::default(), Noise(3));
    let (x, y) = (memory.floats(&noise.floats(21)), memory.floats(&noise.floats(21)));
    let (src, dst) = (memory.floats(&noise.floats(40 * 3)), memory.zeros(4 * 40 * 3));
    let (kernel, sums) = (memory.floats(&noise.floats(25)), memory.zeros(4));
    let (bodies, next) = (memory.floats(&noise.floats(20)), memory.zeros(80));
    let velocities = memory.floats(&noise.floats(20));
    let words = sample_code();
    let (code, input) = (memory.words(&words), memory.words(&noise.words(9)));
    let data = memory.words(&noise.words(15));
    let saxpy: &[u64] = &[x, y, 21, bits(0.5)];
    let interpret: &[u64] = &[code, words.len() as u64 / 2, input, 9, data, 3, 5, 7, 9];
    let n_body = [bodies, next, velocities, 5, bits(0.1)];
    for (program, args, grain, places) in [
        (ProgramId::SAXPY, saxpy, Grain::Thread, 255),
        (ProgramId::SAXPY, saxpy, Grain::Group, 0),
        (ProgramId::CONVOLUTION_2D, &[src, dst, kernel, 40, 3, 2], Grain::Thread, 95 + 23),
        // Cooperating threads are not stopped.
        (ProgramId::REDUCTION, &[x, sums, 21], Grain::Instruction, 0),
        (ProgramId::N_BODY, &n_body, Grain::Thread, 4),
        (ProgramId::INTERPRET, interpret, Grain::Thread, 4),
        (ProgramId::INTERPRET, interpret, Grain::Instruction, 5 * (2 + 4 * 8 + 10 + 1) - 1),
    ] {
        let found = left_everywhere(&memory, program, args, grain);
        assert_eq!(found, places, "{program:?}, {grain:?}");
    }
}

#[test]
fn programs_with_atomic_operations_are_their_references() {
    let (mut memory, mut noise) = (Memory::default(), Noise(7));
    let counter = memory.put(&(u64::MAX - 5_000).to_le_bytes());
    let tickets = memory.zeros(4 * 2_500);
    let src = memory.words(&noise.words(2_500));
    let bins = memory.words(&noise.words(37));
    check(&memory, ProgramId::COUNT, &[counter, 0, 2_500, 7]);
    check(&memory, ProgramId::HISTOGRAM, &[src, bins, 2_500, 37]);
    // The values that threads find depend on the order of the groups, so there is one group.
    check(&memory, ProgramId::COUNT, &[counter, tickets, 1_024, 7]);
    let steps: Vec<u8> = (0..1_000)
        .flat_map(|_| {
            let number = noise.word() >> (noise.word() % 64);
            let atomic = match noise.word() % 5 {
                0 => Atomic::Add(number),
                1 => Atomic::Min(number),
                2 => Atomic::Max(number),
                3 => Atomic::Exchange(number),
                _ => Atomic::CompareExchange { expected: number % 2, new: number },
            };
            let width = if noise.word().is_multiple_of(2) { Width::W32 } else { Width::W64 };
            Step { word: noise.word() as u32 % 5, width, atomic }.to_bytes()
        })
        .collect();
    let (words, steps) = (memory.zeros(8 * 5), memory.put(&steps));
    let results = memory.zeros(8 * 1_000);
    check(&memory, ProgramId::ATOMIC_STEPS, &[words, steps, results, 1_000, 5]);
    let few = [words, steps, results, 1_000, 3];
    let few = dispatch(ProgramId::ATOMIC_STEPS, &few);
    assert!(matches!(
        run_group(&few, [0; 3], &mut memory.clone()),
        Err(ProgramFault::BadArguments { .. })
    ));
    for (program, args) in [
        (ProgramId::COUNT, vec![counter + 4, 0, 1, 1]),
        (ProgramId::ATOMIC_STEPS, vec![words + 4, steps, 0, 1, 1]),
        (ProgramId::HISTOGRAM, vec![src, bins, 1, 0]),
    ] {
        assert!(validate(&Dispatch { program, groups: [1; 3], args: &args }).is_err());
    }
}

#[test]
fn draws_can_stop_between_triangles_and_between_pixels() {
    let front = square(0.25, [200, 10, 20, 255]);
    let back = square(0.75, [10, 200, 20, 255]);
    let vertices: Vec<_> = back.into_iter().chain(front).collect();
    for mode in [draw::COLOUR, draw::PRE_PASS, draw::DEPTH_ONLY] {
        let scene = Scene::new(6, 5).vertices(&vertices).mode(mode);
        let left = |grain| left_everywhere(&scene.memory, ProgramId::DRAW, &scene.args, grain);
        assert_eq!(left(Grain::Triangle), 3);
        assert!(left(Grain::Pixel) >= 2 * 30 - 1);
    }
}

/// A draw under construction: buffers in memory, arguments by name.
struct Scene {
    memory: Memory,
    args: [u64; 16],
    width: u64,
    height: u64,
}

impl Scene {
    fn new(width: u64, height: u64) -> Self {
        let (mut memory, pixels) = (Memory::default(), (width * height) as usize);
        let target = memory.zeros(4 * pixels);
        let depth = memory.floats(&vec![1.0; pixels]);
        let mut args = [0; 16];
        (args[6], args[7], args[8], args[9]) = (target, depth, width, height);
        Self { memory, args, width, height }
    }

    fn vertices(mut self, vertices: &[Vertex]) -> Self {
        self.args[0] = self.memory.put(&mesh::vertex_bytes(vertices));
        self.args[1] = vertices.len() as u64;
        self.args[2] = 0;
        self.args[4] = vertices.len() as u64 / 3;
        self
    }

    /// A mesh before the camera of most tests.
    fn of(mesh: &Mesh, width: u64, height: u64) -> Self {
        Scene::new(width, height).mesh(mesh).constants(&constants(width, height))
    }

    fn mesh(mut self, mesh: &Mesh) -> Self {
        self.args[0] = self.memory.put(&mesh.vertex_bytes());
        self.args[1] = mesh.vertices.len() as u64;
        self.args[2] = self.memory.put(&mesh.index_bytes());
        self.args[4] = mesh.primitives() as u64;
        self
    }

    fn constants(mut self, constants: &DrawConstants) -> Self {
        self.args[5] = self.memory.put(&constants.to_bytes());
        self
    }

    fn texture(mut self, texture: &Texture, levels: u32) -> Self {
        self.args[10] = self.memory.put(&texture.bytes());
        (self.args[11], self.args[12]) = (texture.size.into(), texture.size.into());
        self.args[13] = levels.into();
        self
    }

    fn light(mut self, light: &[f32]) -> Self {
        self.args[14] = self.memory.floats(light);
        self
    }

    fn mode(mut self, mode: u32) -> Self {
        self.args[15] = mode.into();
        if mode & 0xff == draw::PRE_PASS {
            self.args[6] = self.memory.zeros(16 * (self.width * self.height) as usize);
        }
        self
    }

    fn checked(mut self) -> Self {
        self.memory = check(&self.memory, ProgramId::DRAW, &self.args);
        self
    }

    fn run(mut self) -> Self {
        run(&mut self.memory, ProgramId::DRAW, &self.args);
        self
    }

    fn pixels(&self) -> Vec<u32> {
        self.memory.word_view(self.args[6], (self.width * self.height) as usize)
    }

    fn depths(&self) -> Vec<f32> {
        self.memory.float_view(self.args[7], (self.width * self.height) as usize)
    }

    fn covered(&self) -> usize {
        self.depths().iter().filter(|depth| **depth < 1.0).count()
    }
}

fn at(x: f32, y: f32, z: f32, colour: [u8; 4]) -> Vertex {
    let uv = [0.5 + 0.5 * x, 0.5 - 0.5 * y];
    Vertex { position: [x, y, z, 1.0], normal: [0.0, 0.0, -1.0], uv, colour }
}

const RED: [u8; 4] = [255, 0, 0, 255];
const GREEN: [u8; 4] = [0, 255, 0, 255];

fn square(z: f32, colour: [u8; 4]) -> [Vertex; 6] {
    let corner = |x, y| at(x, y, z, colour);
    let (a, b, c, d) = (corner(-1.0, -1.0), corner(-1.0, 1.0), corner(1.0, 1.0), corner(1.0, -1.0));
    [a, b, c, a, c, d]
}

fn constants(width: u64, height: u64) -> DrawConstants {
    seen_from([1.0, 2.0, 4.5], [0.0; 3], width as f32 / height as f32, 50.0)
}

fn seen_from(eye: [f32; 3], target: [f32; 3], aspect: f32, far: f32) -> DrawConstants {
    let camera = Camera { eye, target, half_height: 0.5, aspect, near: 0.1, far };
    DrawConstants { clip_from_object: camera.clip_from_world(), ..DrawConstants::default() }
}

#[test]
fn a_full_square_fills_the_target_in_its_colour() {
    for (width, height) in [(1, 1), (31, 17), (64, 64), (70, 33)] {
        let colour = [200, 100, 3, 255];
        let scene = Scene::new(width, height).vertices(&square(0.5, colour)).checked();
        let expected = u32::from_le_bytes(colour);
        assert!(scene.pixels().iter().all(|pixel| *pixel == expected));
        assert!(scene.depths().iter().all(|depth| (depth - 0.5).abs() < 1e-6));
    }
}

#[test]
fn common_edges_are_drawn_once() {
    // A fan around a corner on and between pixel centres. Each triangle is drawn alone and counted.
    for centre in [[0.0f32, 0.0], [0.03125, -0.03125], [0.017, 0.031]] {
        let rim: Vec<[f32; 2]> = (0..12)
            .map(|i| [30.0f32, 60.0].map(|phase| (phase + i as f32 * FRAC_PI_6).sin() * 0.9))
            .collect();
        let mut counts = vec![0; 64 * 64];
        for i in 0..12 {
            let (b, c) = (rim[i], rim[(i + 1) % 12]);
            let fan = [
                at(centre[0], centre[1], 0.5, RED),
                at(b[0], b[1], 0.5, RED),
                at(c[0], c[1], 0.5, RED),
            ];
            let scene = Scene::new(64, 64).vertices(&fan).run();
            for (count, depth) in counts.iter_mut().zip(scene.depths()) {
                *count += usize::from(depth < 1.0);
            }
        }
        assert!(counts.iter().all(|count| *count <= 1), "a pixel is covered twice");
        // No pixel inside the rim is uncovered.
        for y in 24..40 {
            assert!((24..40).all(|x| counts[y * 64 + x] == 1), "a pixel in row {y} is not covered");
        }
    }
}

#[test]
fn top_and_left_edges_belong_to_the_triangle() {
    // Four pixels wide, edges through the centres of pixels 1 and 3.
    let side = |pixel: f32| (pixel + 0.5) / 2.0 - 1.0;
    let corner = |x: f32, y: f32| at(side(x), -side(y), 0.5, RED);
    let (a, b, c, d) = (corner(1.0, 1.0), corner(3.0, 1.0), corner(3.0, 3.0), corner(1.0, 3.0));
    let scene = Scene::new(4, 4).vertices(&[a, b, c, a, c, d]).run();
    let covered: Vec<usize> = (0..16).filter(|pixel| scene.depths()[*pixel] < 1.0).collect();
    assert_eq!(covered, [5, 6, 9, 10]);
}

#[test]
fn nearer_triangles_win_in_any_order() {
    let (near, far) = (square(0.25, RED), square(0.75, GREEN));
    for (first, second) in [(near, far), (far, near)] {
        let both: Vec<Vertex> = first.into_iter().chain(second).collect();
        let scene = Scene::new(40, 40).vertices(&both).checked();
        assert!(scene.pixels().iter().all(|pixel| *pixel == u32::from_le_bytes(RED)));
    }
}

#[test]
fn back_faces_are_culled_when_asked() {
    let mut turned = square(0.5, RED);
    turned.swap(1, 2);
    turned.swap(4, 5);
    for (vertices, mode, covered) in [
        (turned, draw::CULL_BACK, 0),
        (turned, draw::COLOUR, 33 * 33),
        (square(0.5, RED), draw::CULL_BACK, 33 * 33),
    ] {
        let scene = Scene::new(33, 33).vertices(&vertices).mode(mode).checked();
        assert_eq!(scene.covered(), covered, "mode {mode:#x}");
    }
}

#[test]
fn closed_meshes_look_the_same_with_and_without_their_backs() {
    let meshes = [
        mesh::torus_knot(96, 12),
        mesh::sphere(1.2, 24),
        mesh::torus(1.2, 0.4, 48, 16),
        mesh::cuboid([1.0, 0.7, 0.5]),
    ];
    for mesh in &meshes {
        let scene = |mode| Scene::of(mesh, 90, 60).mode(mode).checked();
        let (all, front) = (scene(draw::COLOUR), scene(draw::COLOUR | draw::CULL_BACK));
        assert!(front.covered() > 400, "{} pixels", front.covered());
        assert!(all.covered().abs_diff(front.covered()) <= 2);
        let differing =
            all.depths().iter().zip(front.depths()).filter(|(a, b)| (**a - b).abs() > 1e-4).count();
        assert!(differing <= 8, "{differing} pixels differ");
    }
}

#[test]
fn a_sphere_covers_its_projected_area() {
    let constants = seen_from([0.0, 0.0, 5.0], [0.0; 3], 1.0, 20.0);
    let scene = Scene::new(200, 200).mesh(&mesh::sphere(1.0, 96)).constants(&constants).checked();
    // The silhouette of a unit sphere at distance 5 has the tangent 1 / sqrt(24); half of the image
    // has the tangent 0.5.
    let radius = 100.0 * (1.0 / 24f64.sqrt()) / 0.5;
    let area = std::f64::consts::PI * radius * radius;
    let covered = scene.covered() as f64;
    assert!((covered - area).abs() < 0.01 * area, "{covered} pixels instead of {area}");
}

#[test]
fn indexed_and_unindexed_draws_are_the_same() {
    let mesh = mesh::torus(1.2, 0.4, 30, 12);
    let indexed = Scene::of(&mesh, 80, 50).run();
    let plain = Scene::new(80, 50).vertices(&mesh.unindexed()).constants(&constants(80, 50)).run();
    assert!(indexed.pixels() == plain.pixels() && indexed.depths() == plain.depths());
    assert!(indexed.covered() > 300);
}

#[test]
fn a_draw_in_parts_equals_the_whole_draw() {
    let mesh = mesh::torus(1.2, 0.4, 30, 12);
    let whole = Scene::of(&mesh, 80, 50).run();
    let mut parts = Scene::of(&mesh, 80, 50);
    for first in (0..mesh.primitives() as u64).step_by(100) {
        (parts.args[3], parts.args[4]) = (first, (mesh.primitives() as u64 - first).min(100));
        parts = parts.checked();
    }
    assert!(whole.pixels() == parts.pixels() && whole.depths() == parts.depths());
}

#[test]
fn triangles_through_the_eye_are_clipped() {
    // A ground plane of two triangles that extends behind the camera.
    let ground = mesh::ground(1000.0, 1);
    let constants = seen_from([0.0, 1.0, 0.0], [0.0, 1.0, -1.0], 1.0, 5000.0);
    let scene = Scene::new(64, 64).mesh(&ground).constants(&constants).checked();
    let covered: Vec<usize> = scene
        .depths()
        .chunks(64)
        .map(|row| row.iter().filter(|depth| **depth < 1.0).count())
        .collect();
    assert!(covered[..31].iter().all(|row| *row == 0), "{covered:?}");
    assert!(covered[33..].iter().all(|row| *row == 64), "{covered:?}");
}

#[test]
fn textures_are_filtered_in_perspective() {
    let texture = Texture::chequer(64, 8, [0.9, 0.9, 0.8], [0.1, 0.1, 0.2]);
    for levels in [1, 3, texture.levels] {
        for mesh in [mesh::ground(6.0, 1), mesh::sphere(1.5, 24)] {
            let mut constants = constants(90, 60);
            constants.uv_scale = 0.7;
            let scene = Scene::new(90, 60)
                .mesh(&mesh)
                .constants(&constants)
                .texture(&texture, levels)
                .checked();
            assert!(scene.covered() > 1000);
        }
    }
}

#[test]
fn light_fog_and_tone_are_applied() {
    let mut noise = Noise(3);
    let light: Vec<f32> = (0..90 * 60 * 4).map(|_| noise.unit() * 2.0).collect();
    let constants = DrawConstants {
        tint: [0.8, 0.5, 0.9],
        specular: 0.4,
        fog: [0.6, 0.7, 0.9],
        fog_distance: 6.0,
        exposure: 0.7,
        world_from_object: Matrix::rotation_y(0.3),
        ..constants(90, 60)
    };
    let scene = Scene::new(90, 60)
        .mesh(&mesh::torus_knot(60, 10))
        .constants(&constants)
        .light(&light)
        .checked();
    assert!(scene.covered() > 500);
}

#[test]
fn a_pre_pass_leaves_normals_and_distances_and_colour_follows_it() {
    let mesh = mesh::torus_knot(96, 12);
    let pre = Scene::of(&mesh, 90, 60).mode(draw::PRE_PASS).checked();
    let rt1 = pre.memory.float_view(pre.args[6], 90 * 60 * 4);
    for (pixel, depth) in rt1.as_chunks::<4>().0.iter().zip(pre.depths()) {
        let length = pixel[..3].iter().map(|axis| axis * axis).sum::<f32>();
        if depth < 1.0 {
            assert!((length - 1.0).abs() < 1e-5 && pixel[3] > 1.0 && pixel[3] < 9.0, "{pixel:?}");
        } else {
            assert_eq!(*pixel, [0.0; 4]);
        }
    }
    let alone = Scene::of(&mesh, 90, 60).run();
    let (depths, mut after) = (pre.depths(), pre);
    after.args[6] = after.memory.zeros(90 * 60 * 4);
    after.args[15] = draw::COLOUR.into();
    let after = after.run();
    assert!(after.depths() == depths, "colour changes the depth of its pre-pass");
    assert!(after.pixels() == alone.pixels(), "colour after a pre-pass differs from colour alone");
}

#[test]
fn depth_alone_needs_no_target() {
    let mesh = mesh::sphere(1.3, 20);
    let mut scene = Scene::of(&mesh, 50, 50).mode(draw::DEPTH_ONLY);
    scene.args[6] = 0;
    let depth_only = scene.checked();
    let colour = Scene::of(&mesh, 50, 50).run();
    assert!(depth_only.depths() == colour.depths() && depth_only.covered() > 100);
}

#[test]
fn redrawing_a_tile_changes_nothing() {
    let mesh = mesh::torus_knot(96, 12);
    for mode in [draw::COLOUR, draw::PRE_PASS, draw::DEPTH_ONLY] {
        let scene = Scene::of(&mesh, 90, 60).mode(mode).run();
        let again = scene.memory.clone();
        let scene = scene.run();
        assert!(scene.memory.bytes == again.bytes);
    }
}

#[test]
fn hostile_geometry_is_skipped() {
    let odd = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        -f32::MAX,
        f32::MIN_POSITIVE,
        0.0,
        -1.0,
        1e20,
    ];
    let mut noise = Noise(77);
    let vertices: Vec<Vertex> = (0..3000)
        .map(|_| {
            let mut any = || {
                let word = noise.word();
                if word.is_multiple_of(3) {
                    odd[word as usize / 3 % odd.len()]
                } else {
                    4.0 * noise.unit() - 2.0
                }
            };
            let position = [any(), any(), any(), any()];
            Vertex { position, normal: [any(), any(), any()], uv: [any(), any()], colour: RED }
        })
        .collect();
    for mode in [draw::COLOUR, draw::PRE_PASS, draw::DEPTH_ONLY] {
        let texture = Texture::chequer(16, 4, [0.9; 3], [0.1; 3]);
        Scene::new(70, 70).vertices(&vertices).texture(&texture, 5).mode(mode).run();
        Scene::new(70, 70).vertices(&vertices).constants(&constants(70, 70)).mode(mode).run();
    }
}

#[test]
fn an_index_beyond_the_vertices_is_reported() {
    let mut mesh = mesh::cuboid([1.0; 3]);
    mesh.indices[7] = mesh.vertices.len() as u32;
    let mut scene = Scene::of(&mesh, 32, 32);
    let dispatch = dispatch(ProgramId::DRAW, &scene.args);
    let fault = run_group(&dispatch, [0; 3], &mut scene.memory).unwrap_err();
    assert!(
        matches!(fault, ProgramFault::BadArguments { what } if what.contains("vertex_count")),
        "{fault}"
    );
}

/// The frame of the frame graph in memory, and its dispatches in order.
struct FrameRun {
    memory: Memory,
    dispatches: Vec<(ProgramId, Vec<u64>)>,
    target: u64,
}

fn frame_run(width: u32, height: u32) -> FrameRun {
    let mut frame = Frame::new(width, height, 0.0);
    frame.shadow_size = 256;
    let (mut memory, pixels) = (Memory::default(), (width * height) as usize);
    let depth = memory.floats(&vec![1.0; pixels]);
    let shadow = memory.floats(&vec![1.0; 256 * 256]);
    let (rt1, light) = (memory.zeros(16 * pixels), memory.zeros(16 * pixels));
    let target = memory.zeros(4 * pixels);
    let shade = memory.put(&frame.shade.to_bytes());
    let (size, width, height) = (u64::from(frame.shadow_size), u64::from(width), u64::from(height));
    let (mut shadows, mut pre, mut colour) = (Vec::new(), Vec::new(), Vec::new());
    for object in &frame.objects {
        let mesh = &object.mesh;
        let (vertices, indices) =
            (memory.put(&mesh.vertex_bytes()), memory.put(&mesh.index_bytes()));
        let texture = memory.put(&object.texture.bytes());
        let constants = memory.put(&object.constants.to_bytes());
        let shadow_constants = memory.put(&object.shadow_constants.to_bytes());
        let (count, primitives) = (mesh.vertices.len() as u64, mesh.primitives() as u64);
        let (side, levels) = (u64::from(object.texture.size), u64::from(object.texture.levels));
        let head = [vertices, count, indices, 0, primitives];
        let args = |targets: [u64; 5], texture_and_light: [u64; 5], mode: u32| {
            let mode = [mode.into()];
            (ProgramId::DRAW, [&head[..], &targets, &texture_and_light, &mode].concat())
        };
        let shadow_pass = [shadow_constants, 0, shadow, size, size];
        shadows.push(args(shadow_pass, [0; 5], draw::DEPTH_ONLY));
        let pre_pass = [constants, rt1, depth, width, height];
        pre.push(args(pre_pass, [0; 5], draw::PRE_PASS | draw::CULL_BACK));
        let lit = [texture, side, side, levels, light];
        let colour_pass = [constants, target, depth, width, height];
        colour.push(args(colour_pass, lit, draw::COLOUR | draw::CULL_BACK));
    }
    let sky = frame.sky;
    let colours = [sky.top, sky.horizon, sky.bottom, sky.horizon_row].map(u64::from);
    let rows = [&[target, width, height][..], &colours].concat();
    let mut dispatches = [shadows, pre].concat();
    dispatches.push((ProgramId::SHADE, vec![rt1, light, shade, shadow, size, width, height]));
    dispatches.push((ProgramId::IMAGE_GRADIENT, rows));
    dispatches.extend(colour);
    FrameRun { memory, dispatches, target }
}

#[test]
fn every_dispatch_of_the_frame_matches_its_reference() {
    let FrameRun { mut memory, dispatches, target } = frame_run(160, 90);
    for (program, args) in &dispatches {
        memory = check(&memory, *program, args);
    }
    let pixels = memory.word_view(target, 160 * 90);
    let channel = |pixel: u32, channel: u32| (pixel >> (8 * channel)) & 0xff;
    let share = |what: &dyn Fn(u32) -> bool| {
        pixels.iter().filter(|pixel| what(**pixel)).count() * 100 / pixels.len()
    };
    let red = share(&|pixel| channel(pixel, 0) > 100 && channel(pixel, 0) > 2 * channel(pixel, 2));
    assert!((8..35).contains(&red), "the knot covers {red} % of the frame");
    let sky = share(&|pixel| channel(pixel, 2) > channel(pixel, 0) + 40);
    assert!((8..40).contains(&sky), "blue is {sky} % of the frame");
    let mut distinct = pixels.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() > 2500, "only {} colours", distinct.len());
    assert!(pixels.iter().all(|pixel| pixel >> 24 == 255));
}

#[test]
fn shade_without_shadow_or_pre_pass_is_well_behaved() {
    let mut frame = Frame::new(40, 40, 0.0);
    let mut memory = Memory::default();
    let mut noise = Noise(4);
    let odd = [0.0, -1.0, f32::NAN, f32::INFINITY];
    let rt1: Vec<f32> = (0..40 * 40)
        .flat_map(|pixel| {
            [0.0, 1.0, 0.0, if pixel % 7 < 4 { odd[pixel % 7] } else { 3.0 + noise.unit() }]
        })
        .collect();
    let (rt1, light) = (memory.floats(&rt1), memory.zeros(40 * 40 * 16));
    let constants = memory.put(&frame.shade.to_bytes());
    let hostile = memory
        .floats(&noise.floats(176).iter().map(|value| 1.0 / (value * 1e-30)).collect::<Vec<_>>());
    let after = check(&memory, ProgramId::SHADE, &[rt1, light, constants, 0, 0, 40, 40]);
    let shaded = after.float_view(light, 40 * 40 * 4);
    assert!(shaded.iter().all(|part| part.is_finite()));
    assert_eq!(shaded[..16], [0.0; 16]);
    run(&mut memory, ProgramId::SHADE, &[rt1, light, hostile, 0, 0, 40, 40]);
    // Occlusion is off without a positive radius and strength.
    let whole = (frame.shade.occlusion_radius, frame.shade.occlusion_strength);
    assert!(whole.0 > 0.0 && whole.1 > 0.0);
    for (radius, strength) in [(-whole.0, whole.1), (whole.0, 0.0), (whole.0, -whole.1)] {
        (frame.shade.occlusion_radius, frame.shade.occlusion_strength) = (radius, strength);
        let constants = memory.put(&frame.shade.to_bytes());
        check(&memory, ProgramId::SHADE, &[rt1, light, constants, 0, 0, 40, 40]);
    }
}

#[test]
fn occlusion_on_rough_ground_matches() {
    let mut frame = Frame::new(70, 50, 0.0);
    frame.shade.occlusion_strength = 4.0;
    let (mut memory, mut noise) = (Memory::default(), Noise(6));
    let rt1: Vec<f32> = (0..70 * 50)
        .flat_map(|_| [0.6 * noise.unit() - 0.3, 0.1, 0.9, 3.0 + 0.4 * noise.unit()])
        .collect();
    let (rt1, light) = (memory.floats(&rt1), memory.zeros(70 * 50 * 16));
    let constants = memory.put(&frame.shade.to_bytes());
    let after = check(&memory, ProgramId::SHADE, &[rt1, light, constants, 0, 0, 70, 50]);
    let occluded = after.float_view(light, 70 * 50 * 4);
    frame.shade.occlusion_strength = 0.0;
    let constants = memory.put(&frame.shade.to_bytes());
    let after = check(&memory, ProgramId::SHADE, &[rt1, light, constants, 0, 0, 70, 50]);
    let open = after.float_view(light, 70 * 50 * 4);
    let darker =
        occluded.iter().zip(&open).filter(|(occluded, open)| **occluded < 0.9 * **open).count();
    // Many times the permitted outliers, so that a wrong sample cannot pass as one.
    assert!(darker > 2000, "the occlusion term changes only {darker} numbers");
}

#[test]
fn a_fault_names_its_address_and_the_group_can_be_run_again() {
    let (mut memory, mut noise) = (Memory::default(), Noise(5));
    let (x, y) = (memory.floats(&noise.floats(4096)), memory.floats(&noise.floats(4096)));
    let args = [x, y, 4096, bits(3.0)];
    let dispatch = dispatch(ProgramId::SAXPY, &args);
    let mut expected = memory.clone();
    run(&mut expected, ProgramId::SAXPY, &args);
    let mut faulty = memory.clone();
    faulty.holes.push((x + 8192, x + 8196));
    let fault = run_group(&dispatch, [2, 0, 0], &mut faulty).unwrap_err();
    assert_eq!(fault, ProgramFault::Memory { va: x + 8192, len: 4096, write: false });
    assert_eq!(
        fault.to_string(),
        format!(
            "gpu page fault: read of 4096 bytes at {:#x}; map the range or correct the buffer argument",
            x + 8192
        )
    );
    faulty.holes.clear();
    faulty.write_holes.push((y, y + 4096));
    let fault = run_group(&dispatch, [0; 3], &mut faulty).unwrap_err();
    assert_eq!(fault, ProgramFault::Memory { va: y, len: 4096, write: true });
    assert!(faulty.bytes == memory.bytes, "a group that faulted has stored something");
    faulty.write_holes.clear();
    run(&mut faulty, ProgramId::SAXPY, &args);
    assert!(faulty.bytes == expected.bytes);
}

/// Returns every dispatch of a small frame and of the other programs, for tests that cover all of
/// them.
fn one_of_each() -> (Memory, Vec<(ProgramId, Vec<u64>)>) {
    let FrameRun { mut memory, mut dispatches, target } = frame_run(64, 36);
    let mut noise = Noise(11);
    let n = 3000;
    let (a, b) = (memory.floats(&noise.floats(4 * n)), memory.floats(&noise.floats(4 * n)));
    let (c, kernel) = (memory.floats(&noise.floats(4 * n)), memory.floats(&noise.floats(25)));
    let n = n as u64;
    dispatches.extend([
        (ProgramId::SAXPY, vec![a, b, n, bits(0.5)]),
        (ProgramId::REDUCTION, vec![a, b, n]),
        (ProgramId::SCAN_BLOCKS, vec![a, a, b, n]),
        (ProgramId::ADD_OFFSETS, vec![a, b, n]),
        (ProgramId::CONVOLUTION_2D, vec![a, b, kernel, 60, 50, 2]),
        (ProgramId::N_BODY, vec![a, b, c, 700, bits(0.01)]),
        (ProgramId::FILL_PATTERN, vec![a, n, 1, 2]),
        (ProgramId::CHECKERBOARD, vec![a, 60, 50, 8, 1, 2]),
        (ProgramId::DOWNSAMPLE, vec![target, a, 32, 18]),
    ]);
    (memory, dispatches)
}

#[test]
fn a_dispatch_can_be_finished_after_any_fault() {
    let (mut memory, dispatches) = one_of_each();
    for (program, args) in &dispatches {
        let dispatch = dispatch(*program, args);
        let mut expected = memory.clone();
        run(&mut expected, *program, args);
        for span in buffers(&dispatch).unwrap() {
            let mut faulty = memory.clone();
            // A hole in the middle of the buffer, like a page that is not resident.
            let middle = span.va + span.len / 2;
            faulty.holes.push((middle, middle + 4));
            let mut again = Vec::new();
            for group in grid_of(&dispatch) {
                match run_group(&dispatch, group, &mut faulty) {
                    Ok(()) => {}
                    Err(ProgramFault::Memory { va, len, .. }) => {
                        assert!(
                            va < middle + 4 && middle < va + len,
                            "the fault is at another address"
                        );
                        assert!(
                            va >= span.va && va + len <= span.va + span.len,
                            "an access beyond the buffer"
                        );
                        again.push(group);
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            faulty.holes.clear();
            run_groups(&mut faulty, &dispatch, &again);
            assert!(faulty.bytes == expected.bytes, "{program:?}, argument {}", span.argument);
        }
        memory = expected;
    }
}

#[test]
fn groups_beyond_the_grid_do_nothing() {
    let (memory, dispatches) = one_of_each();
    for (program, args) in &dispatches {
        let [x, y, z] = dispatch(*program, args).groups;
        let wide = Dispatch { program: *program, groups: [x + 2, y + 2, z + 1], args };
        validate(&wide).unwrap();
        let mut after = memory.clone();
        for group in [[x, 0, 0], [0, y, 0], [0, 0, z], [x + 1, y + 1, z]] {
            run_group(&wide, group, &mut after).unwrap();
        }
        assert!(after.bytes == memory.bytes);
        let outside = run_group(&wide, [x + 2, 0, 0], &mut after).unwrap_err();
        assert!(matches!(outside, ProgramFault::BadArguments { .. }));
    }
}

fn check_refused(program: ProgramId, groups: [u32; 3], args: &[u64], reason: &str) {
    let dispatch = Dispatch { program, groups, args };
    let mut memory = Memory::default();
    let fault = validate(&dispatch).unwrap_err();
    assert_eq!(run_group(&dispatch, [0; 3], &mut memory), Err(fault));
    assert!(buffers(&dispatch).is_err());
    let named = matches!(fault, ProgramFault::BadArguments { what } if what.contains(reason));
    assert!(named, "{program:?} {groups:?} {args:x?}: {fault} instead of {reason}");
}

#[test]
fn hostile_arguments_are_refused() {
    const ONE: [u32; 3] = [1, 1, 1];
    let huge = u64::from(u32::MAX);
    let end = u64::MAX - 3;
    let filter = |width, height, radius| [BASE, 2 * BASE, 3 * BASE, width, height, radius];
    let shade = |size, width| [BASE, 4 * BASE, 8 * BASE, 16 * BASE, size, width, 8];
    let cases: [(ProgramId, [u32; 3], &[u64], &str); 26] = [
        (ProgramId(0), ONE, &[], "number"),
        (ProgramId(999), ONE, &[], "number"),
        (ProgramId::SAXPY, ONE, &[], "number of arguments"),
        (ProgramId::SAXPY, ONE, &[BASE; 5], "number of arguments"),
        (ProgramId::SAXPY, ONE, &[BASE; 10_000], "number of arguments"),
        (ProgramId::SAXPY, ONE, &[0, BASE, 1, 0], "address 0"),
        (ProgramId::SAXPY, ONE, &[BASE + 1, BASE, 1, 0], "multiple of 4"),
        (ProgramId::SAXPY, ONE, &[BASE, 2 * BASE, 1 << 63, 0], "high half"),
        (ProgramId::SAXPY, ONE, &[BASE, 2 * BASE, 1, u64::MAX], "high half"),
        (ProgramId::SAXPY, ONE, &[BASE, 2 * BASE, huge, 0], "blocks"),
        (ProgramId::SAXPY, ONE, &[BASE, end, 2, 0], "end of the address space"),
        (ProgramId::SAXPY, ONE, &[BASE, BASE + 4, 2, 0], "overlap"),
        (ProgramId::SAXPY, ONE, &[BASE + 4, BASE, 2, 0], "overlap"),
        (ProgramId::SAXPY, [65_536, 1, 1], &[BASE, BASE, 2, 0], "65,535"),
        (ProgramId::SAXPY, [65_535; 3], &[BASE, BASE, 2, 0], "2^22"),
        (ProgramId::REDUCTION, ONE, &[BASE, BASE, 2], "overlap"),
        (ProgramId::SCAN_BLOCKS, ONE, &[BASE, BASE, BASE + 4, 2], "overlap"),
        (ProgramId::N_BODY, ONE, &[BASE, BASE, 2 * BASE, 2, 0], "overlap"),
        (ProgramId::N_BODY, ONE, &[BASE, 2 * BASE, 3 * BASE, huge, 0], "bodies"),
        (ProgramId::CONVOLUTION_2D, ONE, &filter(huge, 1, 1), "16,384"),
        (ProgramId::CONVOLUTION_2D, ONE, &filter(8, 8, huge), "radius"),
        (ProgramId::CHECKERBOARD, ONE, &[BASE, 8, 8, 0, 0, 0], "is 0"),
        (ProgramId::DOWNSAMPLE, ONE, &[BASE, 2 * BASE, 8193, 1], "source"),
        (ProgramId::SHADE, ONE, &shade(0, 8), "shadow"),
        (ProgramId::SHADE, ONE, &shade(4097, 8), "shadow"),
        (ProgramId::SHADE, ONE, &shade(8, huge), "16,384"),
    ];
    for (program, groups, args, reason) in cases {
        check_refused(program, groups, args, reason);
    }
}

#[test]
fn hostile_draws_are_refused() {
    let huge = u64::from(u32::MAX);
    let good = Scene::new(32, 32).vertices(&square(0.5, RED)).args;
    let cases: [(&[(usize, u64)], &str); 13] = [
        (&[(1, huge)], "2^20"),
        (&[(3, huge)], "2^20"),
        (&[(4, huge)], "2^20"),
        (&[(4, 3)], "fewer vertices"),
        (&[(3, 1)], "fewer vertices"),
        (&[(6, 0)], "no target"),
        (&[(7, good[6])], "overlap"),
        (&[(8, huge)], "16,384"),
        (&[(10, 4 * BASE)], "texture"),
        (&[(10, 4 * BASE), (11, 4), (12, 4), (13, huge)], "texture"),
        (&[(10, 4 * BASE), (11, huge), (12, 4), (13, 1)], "16,384"),
        (&[(15, 3)], "mode"),
        (&[(15, huge)], "mode"),
    ];
    for (changes, reason) in cases {
        let mut args = good;
        changes.iter().for_each(|(argument, value)| args[*argument] = *value);
        check_refused(ProgramId::DRAW, [1, 1, 1], &args, reason);
    }
}

#[test]
fn no_arguments_make_a_program_panic_or_hang() {
    let mut noise = Noise(2026);
    let memory = Memory { bytes: vec![0x3f; 1 << 16], ..Memory::default() };
    let programs: Vec<_> = all().collect();
    let mut ran = 0;
    for round in 0..60_000u64 {
        let signature = programs[(round % programs.len() as u64) as usize];
        let args: Vec<u64> = signature
            .arguments
            .iter()
            .map(|argument| any_word(&mut noise, argument.kind))
            .collect();
        let mut groups = signature.groups_for(&args).map(|count| count.max(1));
        if noise.word().is_multiple_of(8) {
            groups[(noise.word() % 3) as usize] = noise.word() as u32 >> (noise.word() % 32);
        }
        let dispatch = Dispatch { program: signature.id, groups, args: &args };
        let group = groups.map(|count| (noise.word() % u64::from(count.max(1))) as u32);
        let valid = validate(&dispatch).is_ok();
        // Copying the memory dominates the time. A refused group does not touch the memory.
        let outcome = if valid {
            run_group(&dispatch, group, &mut memory.clone())
        } else {
            run_group(&dispatch, group, &mut Memory::default())
        };
        assert!(valid || matches!(outcome, Err(ProgramFault::BadArguments { .. })));
        ran += usize::from(valid && outcome.is_ok());
    }
    assert!(ran > 300, "only {ran} dispatches ran");
}

fn any_word(noise: &mut Noise, kind: ArgumentKind) -> u64 {
    let word = noise.word();
    match (kind, word % 16) {
        (_, 0) => noise.word() >> (word >> 58),
        (ArgumentKind::Buffer { .. }, 1) => 0,
        (ArgumentKind::Buffer { access }, _) => {
            let room = if access == Access::Read { 1 << 16 } else { 1 << 15 };
            BASE + (((word >> 8) % room) & !3)
        }
        (ArgumentKind::F32, _) => word >> 32,
        (_, 1) => u64::from(u32::MAX) >> (word >> 59),
        (_, _) => (word >> 8) % 70,
    }
}

#[test]
fn meshes_have_outward_normals_and_run_clockwise() {
    let meshes = [
        mesh::torus_knot(40, 8),
        mesh::torus(2.0, 0.5, 20, 8),
        mesh::sphere(1.0, 16),
        mesh::ground(3.0, 2),
        mesh::terrain(3.0, 1.0, 12),
        mesh::cuboid([1.0, 2.0, 3.0]),
    ];
    for mesh in &meshes {
        assert!(mesh.primitives() > 0 && mesh.vertex_bytes().len() == 40 * mesh.vertices.len());
        for corners in mesh.indices.as_chunks::<3>().0 {
            let [a, b, c] = corners.map(|index| mesh.vertices[index as usize]);
            let side = |to: Vertex| [0, 1, 2].map(|axis| to.position[axis] - a.position[axis]);
            let (u, v) = (side(b), side(c));
            let face =
                [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
            let facing: f32 = (0..3).map(|axis| face[axis] * a.normal[axis]).sum();
            assert!(facing < 0.0, "a triangle runs anticlockwise as seen from outside");
            let length: f32 = a.normal.iter().map(|axis| axis * axis).sum();
            assert!((length - 1.0).abs() < 1e-5);
        }
    }
    assert_eq!(mesh::sphere(1.0, 0).vertices.len(), 4);
}

#[test]
fn textures_carry_all_their_levels() {
    let texture = Texture::veins(60, [0.5; 3], [0.1; 3]);
    assert_eq!((texture.size, texture.levels, texture.texels.len()), (64, 7, 5461));
    let bands = Texture::bands(32, 2, [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]);
    let light =
        |texel: u32, channel: u32| (f64::from((texel >> (8 * channel)) & 0xff) / 255.0).powi(2);
    for channel in [0, 2] {
        let mean =
            bands.texels[..1024].iter().map(|texel| light(*texel, channel)).sum::<f64>() / 1024.0;
        let last = light(*bands.texels.last().unwrap(), channel);
        assert!(
            (last - mean).abs() < 0.02,
            "the last level has {last}, the first a mean of {mean}"
        );
    }
}

#[test]
fn references_notice_wrong_bytes() {
    let (memory, dispatches) = one_of_each();
    for (program, args) in &dispatches {
        for expected in expectations(&memory, *program, args) {
            expected.check(&expected.bytes).unwrap();
            let turned: Vec<u8> = expected.bytes.iter().map(|byte| byte ^ 0x55).collect();
            assert!(expected.check(&turned).is_err(), "{program:?} accepts wrong content");
            assert!(expected.check(&[]).is_err(), "{program:?} accepts missing content");
        }
    }
}

/// An engine takes several groups in a turn where each does one thing for each of its elements.
#[test]
fn groups_that_make_one_pass_over_their_elements_are_short() {
    let (_, all) = one_of_each();
    let is_short = |(program, args): &(ProgramId, Vec<u64>)| {
        let checked = CheckedDispatch::new(&dispatch(*program, args)).unwrap();
        checked.has_short_groups().then_some(*program)
    };
    let short: Vec<ProgramId> = all.iter().filter_map(is_short).collect();
    assert!(short.contains(&ProgramId::SAXPY) && short.contains(&ProgramId::ADD_OFFSETS));
    // Filters, sums over all bodies, light, programs in a buffer.
    let long = [
        ProgramId::CONVOLUTION_2D,
        ProgramId::N_BODY,
        ProgramId::SHADE,
        ProgramId::DOWNSAMPLE,
        ProgramId::INTERPRET,
    ];
    assert!(!long.iter().any(|program| short.contains(program)), "{short:?}");
}
