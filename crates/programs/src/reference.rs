//! References of all programs, written from their definitions over plain slices.
//!
//! They share only the buffer layouts with the programs. They use no groups and no tiles, and
//! double precision where the definition permits it. The rasteriser solves for the point on the
//! triangle instead of walking its edges in fixed point.

mod atomic;
mod comparison;
mod interpreter;
mod light;
mod raster;

pub use comparison::{Compare, Expected, Mismatch};
use comparison::{float_bytes, floats, word_bytes, words};

use super::lanes::BLOCK;
use super::layout::{decode_rgb, encode_rgb};
use super::{Dispatch, ProgramFault, ProgramId, buffers, n_body, signature};

/// The relative error of one rounding in single precision.
const ROUNDING: f64 = 1.0 / 16_777_216.0;

/// Returns the expected content of each buffer that a dispatch over its whole grid writes, with its
/// tolerance. *Exact* means that the definition fixes the order of operations.
///
/// | program | tolerance |
/// |---|---|
/// | saxpy, convolution_2d | exact (a NaN equals a NaN) |
/// | scan_blocks, add_offsets, fill_pattern, checkerboard, interpret | exact |
/// | count, histogram, atomic_steps | exact, in the order of the threads and beside no other work |
/// | reduction | 16 roundings of the largest sum of absolute values in a block |
/// | n_body | n + 16 roundings of the largest sum of absolute pulls, times `dt` |
/// | image_gradient, downsample | one step of 255 |
/// | shade | 1 %, except for 1.5 % of the pixels (edges of shadows, samples between two texels) |
/// | draw | 3 steps of 255, depth to 0.1 %, except for 1.5 % of the pixels (silhouettes) |
///
/// `inputs` has one entry per argument: the content of a buffer before the dispatch, or an empty
/// slice for a number or an omitted buffer.
///
/// # Errors
/// [`ProgramFault::BadArguments`] if the arguments are invalid or an input is too short.
pub fn expected(
    program: ProgramId,
    args: &[u64],
    inputs: &[&[u8]],
) -> Result<Vec<Expected>, ProgramFault> {
    let known = signature(program).ok_or(ProgramFault::bad("no program has this number"))?;
    let groups = known.groups_for(args);
    let spans = buffers(&Dispatch { program, groups, args })?;
    if inputs.len() != args.len() {
        return Err(ProgramFault::bad("a reference needs one input per argument"));
    }
    if spans.iter().any(|span| (inputs[span.argument].len() as u64) < span.len) {
        return Err(ProgramFault::bad("an input of the reference is shorter than its buffer"));
    }
    Ok(match program {
        ProgramId::SAXPY => saxpy(args, inputs),
        ProgramId::REDUCTION => reduction(args, inputs),
        ProgramId::SCAN_BLOCKS => scan_blocks(args, inputs),
        ProgramId::ADD_OFFSETS => add_offsets(args, inputs),
        ProgramId::CONVOLUTION_2D => convolution_2d(args, inputs),
        ProgramId::N_BODY => bodies(args, inputs),
        ProgramId::SHADE => light::shade(args, inputs),
        ProgramId::DRAW => raster::draw(args, inputs)?,
        ProgramId::FILL_PATTERN => fill_pattern(args),
        ProgramId::CHECKERBOARD => checkerboard(args),
        ProgramId::IMAGE_GRADIENT => image_gradient(args),
        ProgramId::DOWNSAMPLE => downsample(args, inputs),
        ProgramId::INTERPRET => interpreter::interpret(args, inputs),
        ProgramId::COUNT => atomic::count(args, inputs),
        ProgramId::HISTOGRAM => atomic::histogram(args, inputs),
        ProgramId::ATOMIC_STEPS => atomic::atomic_steps(args, inputs)?,
        _ => return Err(ProgramFault::bad("the program has no reference")),
    })
}

/// Returns the sum of `values` in double precision, and the permitted error of a reduction.
#[must_use]
pub fn sum(values: &[f32]) -> (f64, f64) {
    let total = values.iter().map(|value| f64::from(*value)).sum();
    let sizes: f64 = values.iter().map(|value| f64::from(value.abs())).sum();
    let passes = super::reduction::passes(values.len() as u64).len();
    (total, 16.0 * passes as f64 * ROUNDING * sizes)
}

/// Returns the inclusive wrapping prefix sums of `values`, the joint result of the two programs.
#[must_use]
pub fn prefix_sums(values: &[u32]) -> Vec<u32> {
    let mut sum = 0u32;
    let add = |value: &u32| {
        sum = sum.wrapping_add(*value);
        sum
    };
    values.iter().map(add).collect()
}

const SAME_NUMBERS: Compare = Compare::Float { absolute: 0.0, relative: 0.0, outliers: 0 };

fn saxpy(args: &[u64], inputs: &[&[u8]]) -> Vec<Expected> {
    let (n, a) = (args[2] as usize, f32::from_bits(args[3] as u32));
    let (x, mut y) = (floats(inputs[0]), floats(inputs[1]));
    y.truncate(n);
    for i in 0..n {
        y[i] += a * x[i];
    }
    vec![Expected::new(1, float_bytes(&y), SAME_NUMBERS)]
}

fn reduction(args: &[u64], inputs: &[&[u8]]) -> Vec<Expected> {
    let src = floats(inputs[0]);
    let src = &src[..args[2] as usize];
    let mut sums: Vec<f32> = src.chunks(BLOCK).map(|block| sum(block).0 as f32).collect();
    if sums.is_empty() {
        sums.push(0.0);
    }
    let absolute = src.chunks(BLOCK).map(|block| sum(block).1).fold(0.0, f64::max);
    vec![Expected::new(
        1,
        float_bytes(&sums),
        Compare::Float { absolute, relative: 0.0, outliers: 0 },
    )]
}

fn scan_blocks(args: &[u64], inputs: &[&[u8]]) -> Vec<Expected> {
    let src = words(inputs[0]);
    let src = &src[..args[3] as usize];
    let scanned: Vec<u32> = src.chunks(BLOCK).flat_map(prefix_sums).collect();
    let mut out = vec![Expected::new(1, word_bytes(&scanned), Compare::Exact)];
    if args[2] != 0 {
        let sums: Vec<u32> = src
            .chunks(BLOCK)
            .map(|block| block.iter().fold(0u32, |sum, value| sum.wrapping_add(*value)))
            .collect();
        out.push(Expected::new(2, word_bytes(&sums), Compare::Exact));
    }
    out
}

fn add_offsets(args: &[u64], inputs: &[&[u8]]) -> Vec<Expected> {
    let (mut dst, sums) = (words(inputs[0]), words(inputs[1]));
    dst.truncate(args[2] as usize);
    for (i, value) in dst.iter_mut().enumerate().skip(BLOCK) {
        *value = value.wrapping_add(sums[i / BLOCK - 1]);
    }
    vec![Expected::new(0, word_bytes(&dst), Compare::Exact)]
}

fn convolution_2d(args: &[u64], inputs: &[&[u8]]) -> Vec<Expected> {
    let (src, kernel) = (floats(inputs[0]), floats(inputs[2]));
    let (width, height, radius) = (args[3] as i64, args[4] as i64, args[5] as i64);
    let mut dst = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let mut value = 0.0f32;
            for j in -radius..=radius {
                for i in -radius..=radius {
                    let (from_x, from_y) =
                        ((x + i).clamp(0, width - 1), (y + j).clamp(0, height - 1));
                    let weight = kernel[((j + radius) * (2 * radius + 1) + i + radius) as usize];
                    value += weight * src[(from_y * width + from_x) as usize];
                }
            }
            dst.push(value);
        }
    }
    vec![Expected::new(1, float_bytes(&dst), SAME_NUMBERS)]
}

fn bodies(args: &[u64], inputs: &[&[u8]]) -> Vec<Expected> {
    let (n, dt) = (args[3] as usize, f64::from(f32::from_bits(args[4] as u32)));
    let wide = |bytes: &[u8]| floats(bytes).into_iter().map(f64::from).collect::<Vec<_>>();
    let (start, mut velocity) = (wide(inputs[0]), wide(inputs[2]));
    let mut position = start.clone();
    let softening = f64::from(n_body::SOFTENING) * f64::from(n_body::SOFTENING);
    let (mut largest, mut farthest, mut fastest) = (0.0f64, 0.0f64, 0.0f64);
    for i in 0..n {
        let mut pull = [0.0f64; 3];
        let mut sizes = 0.0;
        for j in 0..n {
            let d: Vec<f64> =
                (0..3).map(|axis| start[4 * j + axis] - start[4 * i + axis]).collect();
            let squared = d.iter().map(|axis| axis * axis).sum::<f64>() + softening;
            for axis in 0..3 {
                let part = start[4 * j + 3] * d[axis] / squared.powf(1.5);
                pull[axis] += part;
                sizes += part.abs();
            }
        }
        largest = largest.max(sizes);
        for axis in 0..3 {
            velocity[4 * i + axis] += pull[axis] * dt;
            position[4 * i + axis] += velocity[4 * i + axis] * dt;
            fastest = fastest.max(velocity[4 * i + axis].abs());
            farthest = farthest.max(position[4 * i + axis].abs());
        }
    }
    let narrow = |values: &[f64]| {
        float_bytes(&values[..4 * n].iter().map(|v| *v as f32).collect::<Vec<_>>())
    };
    let pulls = (n + 16) as f64 * ROUNDING * largest * dt.abs();
    let velocity_error = pulls + 2.0 * ROUNDING * fastest;
    let position_error =
        velocity_error * dt.abs() + 4.0 * ROUNDING * (farthest + fastest * dt.abs());
    let within = |absolute: f64| Compare::Float { absolute, relative: 0.0, outliers: 0 };
    vec![
        Expected::new(1, narrow(&position), within(position_error)),
        Expected::new(2, narrow(&velocity), within(velocity_error)),
    ]
}

fn fill_pattern(args: &[u64]) -> Vec<Expected> {
    let values: Vec<u32> =
        (0..args[1]).map(|i| (args[2].wrapping_add(i * args[3])) as u32).collect();
    vec![Expected::new(0, word_bytes(&values), Compare::Exact)]
}

fn checkerboard(args: &[u64]) -> Vec<Expected> {
    let (width, height, cell) = (args[1], args[2], args[3]);
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let even = (x / cell).is_multiple_of(2) == (y / cell).is_multiple_of(2);
            pixels.push(if even { args[4] as u32 } else { args[5] as u32 });
        }
    }
    vec![Expected::new(0, word_bytes(&pixels), Compare::Exact)]
}

fn image_gradient(args: &[u64]) -> Vec<Expected> {
    let (width, height, horizon_row) = (args[1], args[2], args[6]);
    let [top, horizon, bottom] =
        [3, 4, 5].map(|index| decode_rgb(args[index] as u32).map(f64::from));
    let mut pixels = Vec::new();
    for y in 0..height {
        let (to, share) = if y < horizon_row {
            let down = y as f64 / horizon_row as f64;
            (top, 1.0 - down * down)
        } else {
            (bottom, (y - horizon_row) as f64 / (height - horizon_row) as f64)
        };
        let light = std::array::from_fn(|i| (horizon[i] * (1.0 - share) + to[i] * share) as f32);
        pixels.extend((0..width).map(|_| encode_rgb(light)));
    }
    vec![Expected::new(0, word_bytes(&pixels), Compare::Colour { step: 1, outliers: 0 })]
}

fn downsample(args: &[u64], inputs: &[&[u8]]) -> Vec<Expected> {
    let (width, height) = (args[2] as usize, args[3] as usize);
    let byte = |x: usize, y: usize, channel: usize| {
        f64::from(inputs[0][4 * (y * 2 * width + x) + channel])
    };
    let mut bytes = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let four = [(0, 0), (1, 0), (0, 1), (1, 1)];
            for channel in 0..3 {
                let squares = four.map(|(i, j)| byte(2 * x + i, 2 * y + j, channel).powi(2));
                bytes.push((squares.iter().sum::<f64>() / 4.0).sqrt().round() as u8);
            }
            let alphas = four.map(|(i, j)| byte(2 * x + i, 2 * y + j, 3));
            bytes.push((alphas.iter().sum::<f64>() / 4.0).round() as u8);
        }
    }
    vec![Expected::new(1, bytes, Compare::Colour { step: 1, outliers: 0 })]
}
