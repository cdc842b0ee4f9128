//! Measures the engines' access to memory: a copy against memcpy, and programs against the same
//! arithmetic in plain Rust on slices that no other thread can touch.
//!
//! Floors run on the engines' processor, on buffers of the same sizes.

use super::setup::{Setup, Shape};
use crate::bench::measure::{
    CpuMeter, Measured, SERVICE_CPU, Samples, Trouble, on_own_thread, pin,
};
use std::hint::black_box;
use tidegate::Platform;
use tidegate::d3d12::{Buffer, BufferDesc, CommandList, CommandListType};
use tidegate::programs::{Convolution2d, Saxpy};

type Built<T> = Result<T, Box<dyn std::error::Error>>;

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

/// Row `copy_engine_1mib`.
pub(super) fn copies() -> Built<Measured> {
    engine(CommandListType::Copy, COPIES, |setup, list| {
        let [from, to] = [buffer(setup, COPY_BYTES)?, buffer(setup, COPY_BYTES)?];
        list.copy(&to, 0, &from, 0, COPY_BYTES)?;
        Ok(vec![from, to])
    })
}

/// Row `program_saxpy_1mi`.
pub(super) fn saxpy() -> Built<Measured> {
    engine(CommandListType::Compute, DISPATCHES, |setup, list| {
        let bytes = 4 * u64::from(NUMBERS);
        let [x, y] = [buffer(setup, bytes)?, buffer(setup, bytes)?];
        let program = Saxpy { x: &x, y: &y, n: NUMBERS, a: FACTOR };
        list.dispatch(&program, program.groups())?;
        Ok(vec![x, y])
    })
}

/// Row `program_convolution_512`.
pub(super) fn convolution() -> Built<Measured> {
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

fn buffer(setup: &Setup, bytes: u64) -> Built<Buffer> {
    Ok(setup.device.create_buffer(BufferDesc::new("numbers", bytes))?)
}

/// Measures the list that `record` fills, `rounds` times in a row, by the time until its fence.
fn engine(
    list_type: CommandListType,
    rounds: u64,
    record: impl FnOnce(&Setup, &mut CommandList) -> Built<Vec<Buffer>>,
) -> Built<Measured> {
    let setup = Setup::new(Shape::default())?;
    let queue = setup.queue(list_type)?;
    let mut list = setup.device.create_command_list(list_type);
    let _buffers = record(&setup, &mut list)?;
    let list = list.close()?;
    let done = setup.device.create_fence("done", 0)?;
    let mut measured = Measured::default();
    let mut cpu = CpuMeter::start();
    for batch in 0..=BATCHES {
        let start = setup.now_ns();
        for _ in 0..rounds {
            queue.execute(&[&list])?;
        }
        queue.signal(&done, batch + 1)?;
        done.wait(batch + 1)?;
        // The first batch touches the pages.
        match batch {
            0 => cpu = CpuMeter::start(),
            _ => measured.samples.push_batch(setup.now_ns() - start, rounds),
        }
    }
    measured.cpu_ns = cpu.per(rounds * BATCHES);
    Ok(measured)
}

/// Times `operation` on the engines' processor.
fn plain(rounds: u64, mut operation: impl FnMut()) -> Result<Samples, Trouble> {
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

/// Floor `memcpy_1mib`.
pub(super) fn memcpy() -> Result<Samples, Trouble> {
    on_own_thread(|| {
        let from = vec![1u8; COPY_BYTES as usize];
        let mut to = vec![0u8; COPY_BYTES as usize];
        plain(COPIES, || black_box(&mut to).copy_from_slice(black_box(&from)))
    })
}

/// Floor `saxpy_of_slices`.
pub(super) fn saxpy_of_slices() -> Result<Samples, Trouble> {
    on_own_thread(|| {
        let x = vec![1.0f32; NUMBERS as usize];
        let mut y = vec![0.0f32; NUMBERS as usize];
        plain(DISPATCHES, || {
            let (x, y) = (black_box(&x), black_box(&mut y));
            for (y, x) in y.iter_mut().zip(x) {
                *y += FACTOR * x;
            }
        })
    })
}

/// Floor `convolution_of_slices`.
pub(super) fn convolution_of_slices() -> Result<Samples, Trouble> {
    const SIZE: usize = SIDE as usize;
    const REACH: usize = RADIUS as usize;
    on_own_thread(|| {
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
