//! Measures the engines' access to memory: a copy against memcpy, and programs against the same
//! arithmetic in plain Rust on slices that no other thread can touch.
//!
//! Floors run on the engines' processor, on buffers of the same sizes.

use crate::aim::{Aimed, row};
use std::hint::black_box;
use tidegate::Platform;
use tidegate::d3d12::{Buffer, BufferDesc, CommandList, CommandListType};
use tidegate::programs::{Convolution2d, Saxpy};
use tidegate_measure::{Found, Measured, Meter, SERVICE_CPU, Samples, Setup, Shape, floor, pin};

/// Rows of copies and programs.
pub(super) const ROWS: &[Aimed] = &[
    row(
        "copy_engine_1mib",
        "a copy of 1 MiB by the copy engine, submitted and waited for",
        floor("memcpy_1mib", memcpy),
        |_| copies(),
    )
    .within(2.0),
    row(
        "program_saxpy_1mi",
        "a dispatch of saxpy over 1,048,576 numbers, which memory bounds",
        floor("saxpy_of_slices", saxpy_of_slices),
        |_| saxpy(),
    )
    .within(2.0),
    row(
        "program_convolution_512",
        "a dispatch of a 5x5 filter over 512x512 pixels, which arithmetic bounds",
        floor("convolution_of_slices", convolution_of_slices),
        |_| convolution(),
    )
    .within(2.0),
];

const COPY_BYTES: u64 = 1 << 20;
/// 4 MiB in each of two buffers.
const NUMBERS: u32 = 1 << 20;
const FACTOR: f32 = 0.5;
const SIDE: u32 = 512;
const RADIUS: u32 = 2;

const BATCHES: u64 = 12;
/// Operations between two looks at the clock.
const COPIES: u64 = 64;
const DISPATCHES: u64 = 4;

fn copies() -> Found<Measured> {
    engine(CommandListType::Copy, COPIES, |setup, list| {
        let [from, to] = [buffer(setup, COPY_BYTES)?, buffer(setup, COPY_BYTES)?];
        list.copy(&to, 0, &from, 0, COPY_BYTES)?;
        Ok(vec![from, to])
    })
}

fn saxpy() -> Found<Measured> {
    engine(CommandListType::Compute, DISPATCHES, |setup, list| {
        let bytes = 4 * u64::from(NUMBERS);
        let [x, y] = [buffer(setup, bytes)?, buffer(setup, bytes)?];
        let program = Saxpy { x: &x, y: &y, n: NUMBERS, a: FACTOR };
        list.dispatch(&program, program.groups())?;
        Ok(vec![x, y])
    })
}

fn convolution() -> Found<Measured> {
    engine(CommandListType::Compute, DISPATCHES, |setup, list| {
        let image = 4 * u64::from(SIDE) * u64::from(SIDE);
        let weights = 4 * u64::from((2 * RADIUS + 1) * (2 * RADIUS + 1));
        let [src, dst] = [buffer(setup, image)?, buffer(setup, image)?];
        let kernel = buffer(setup, weights)?;
        let program = Convolution2d {
            src: &src,
            dst: &dst,
            kernel: &kernel,
            width: SIDE,
            height: SIDE,
            radius: RADIUS,
        };
        list.dispatch(&program, program.groups())?;
        Ok(vec![src, dst, kernel])
    })
}

fn buffer(setup: &Setup, bytes: u64) -> Found<Buffer> {
    Ok(setup.device.create_buffer(BufferDesc::new("numbers", bytes))?)
}

/// Measures the list that `record` fills, `rounds` times in a row, by the time until its fence.
fn engine(
    list_type: CommandListType,
    rounds: u64,
    record: impl FnOnce(&Setup, &mut CommandList) -> Found<Vec<Buffer>>,
) -> Found<Measured> {
    let setup = Setup::new(Shape::default())?;
    let queue = setup.queue(list_type)?;
    let mut list = setup.device.create_command_list(list_type);
    let _buffers = record(&setup, &mut list)?;
    let list = list.close()?;
    let done = setup.device.create_fence("done", 0)?;
    let mut meter = Meter::start(&setup);
    // The first batch touches the pages.
    meter.times(1, BATCHES, rounds, |batch| -> Found<()> {
        for _ in 0..rounds {
            queue.execute(&[&list])?;
        }
        queue.signal(&done, batch)?;
        Ok(done.wait(batch)?)
    })?;
    Ok(meter.end(|_| Vec::new()))
}

/// Times `operation` on the engines' processor.
fn plain(rounds: u64, mut operation: impl FnMut()) -> Found<Samples> {
    pin(SERVICE_CPU)?;
    let platform = Platform::host();
    let mut samples = Samples::default();
    for batch in 0..=BATCHES {
        let start = platform.now();
        (0..rounds).for_each(|_| operation());
        if batch > 0 {
            samples.push_batch(platform.now().since(start), rounds);
        }
    }
    Ok(samples)
}

fn memcpy() -> Found<Samples> {
    let from = vec![1u8; COPY_BYTES as usize];
    let mut to = vec![0u8; COPY_BYTES as usize];
    plain(COPIES, || black_box(&mut to).copy_from_slice(black_box(&from)))
}

fn saxpy_of_slices() -> Found<Samples> {
    let x = vec![1.0f32; NUMBERS as usize];
    let mut y = vec![0.0f32; NUMBERS as usize];
    plain(DISPATCHES, || {
        let (x, y) = (black_box(&x), black_box(&mut y));
        for (y, x) in y.iter_mut().zip(x) {
            *y += FACTOR * x;
        }
    })
}

fn convolution_of_slices() -> Found<Samples> {
    const SIZE: usize = SIDE as usize;
    const REACH: usize = RADIUS as usize;
    let src = vec![1.0f32; SIZE * SIZE];
    let mut dst = vec![0.0f32; SIZE * SIZE];
    let kernel = [[0.04f32; 2 * REACH + 1]; 2 * REACH + 1];
    plain(DISPATCHES, || {
        let (src, dst) = (black_box(&src), black_box(&mut dst));
        let kernel = black_box(&kernel);
        for (y, out) in dst.chunks_exact_mut(SIZE).enumerate() {
            out.fill(0.0);
            for (j, weights) in kernel.iter().enumerate() {
                let from = (y + j).saturating_sub(REACH).min(SIZE - 1);
                let row = extended::<REACH>(&src[from * SIZE..][..SIZE]);
                for (i, weight) in weights.iter().enumerate() {
                    for (sum, pixel) in out.iter_mut().zip(&row[i..]) {
                        *sum += weight * pixel;
                    }
                }
            }
        }
    })
}

/// The row with `REACH` pixels of each edge repeated.
fn extended<const REACH: usize>(row: &[f32]) -> [f32; SIDE as usize + 2 * RADIUS as usize] {
    let mut all = [0.0; SIDE as usize + 2 * RADIUS as usize];
    all[..REACH].fill(row[0]);
    all[REACH..][..row.len()].copy_from_slice(row);
    all[REACH + row.len()..].fill(row[row.len() - 1]);
    all
}
