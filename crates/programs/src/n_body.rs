//! `n_body(pos_in, pos_out, vel, n, dt)`: one step of gravity among `n` bodies.
//!
//! Positions are four `f32`: x, y, z and mass (the gravitational constant is 1). Velocities are
//! four `f32`; the last one is preserved. The acceleration of a body is the sum over all bodies, in
//! order, of `mass * d / (|d|^2 + SOFTENING^2)^(3/2)`; then `vel += acceleration * dt` and `pos_out
//! = pos_in + vel * dt`.
//!
//! `pos_in` and `pos_out` must be different ranges, because every group reads all positions; the
//! caller swaps them between steps. A group moves 256 bodies and stores their velocities last, so
//! it can be run again after a fault.

use super::lanes::{THREADS, read_f32, write_f32};
use super::part::Part;
use super::signature::{Argument, Arguments, Signature, Spans};
use super::{ProgramFault, ProgramId, ProgramMemory};

/// Softening length, which keeps the force between close bodies finite.
pub const SOFTENING: f32 = 0.1;

/// Maximum number of bodies. It bounds the cost of a group: 256 * 65,536 interactions.
const MAX_BODIES: u64 = 65_536;

pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::N_BODY,
    name: "n_body",
    summary: "one step of gravity among n bodies",
    arguments: &[
        Argument::read("pos_in"),
        Argument::write("pos_out"),
        Argument::read_write("vel"),
        Argument::u32("n"),
        Argument::f32("dt"),
    ],
    threads_per_group: [THREADS as u32, 1, 1],
    grid: |args| [args.u64(3).div_ceil(THREADS as u64) as u32, 1, 1],
    spans,
    run,
};

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    let n = args.u64(3);
    if n > MAX_BODIES {
        return Err(ProgramFault::bad("n is larger than 65,536 bodies"));
    }
    Ok(args.span(0, 16 * n).with(args, 1, 16 * n).with(args, 2, 16 * n))
}

/// One coordinate of each thread's body. The structure of arrays lets the compiler vectorise.
type Lane = [f32; THREADS];

fn run(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let (n, dt) = (args.u64(3), args.f32(4));
    let first = u64::from(group[0]) * THREADS as u64;
    let count = (n - first).min(THREADS as u64) as usize;
    let mut own = [0.0f32; 4 * THREADS];
    let own = &mut own[..4 * count];
    read_f32(mem, args.va(0) + 16 * first, own)?;
    let mut velocities = [0.0f32; 4 * THREADS];
    let velocities = &mut velocities[..4 * count];
    read_f32(mem, args.va(2) + 16 * first, velocities)?;
    let bodies = part.threads(count, |bodies| {
        let words = 4 * bodies.start..4 * bodies.end;
        let (own, velocities) = (&mut own[words.clone()], &mut velocities[words]);
        let acceleration = accelerations(args.va(0), n, own, mem)?;
        for (body, velocity) in velocities.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            for axis in 0..3 {
                velocity[axis] += acceleration[axis][body] * dt;
                own[4 * body + axis] += velocity[axis] * dt;
            }
        }
        Ok(())
    })?;
    let (at, words) = (16 * (first + bodies.start as u64), 4 * bodies.start..4 * bodies.end);
    write_f32(mem, args.va(1) + at, &own[words.clone()])?;
    write_f32(mem, args.va(2) + at, &velocities[words])
}

fn accelerations(
    positions: u64,
    n: u64,
    own: &[f32],
    mem: &mut dyn ProgramMemory,
) -> Result<[Lane; 3], ProgramFault> {
    let mut at = [[0.0f32; THREADS]; 3];
    for (body, position) in own.as_chunks::<4>().0.iter().enumerate() {
        for axis in 0..3 {
            at[axis][body] = position[axis];
        }
    }
    let mut sum = [[0.0f32; THREADS]; 3];
    let mut others = [0.0f32; 4 * THREADS];
    let mut first = 0u64;
    while first < n {
        let count = (n - first).min(THREADS as u64) as usize;
        let others = &mut others[..4 * count];
        read_f32(mem, positions + 16 * first, others)?;
        // A single body does not need 256 lanes. The lanes are independent of each other.
        match own.len() / 4 {
            1 => others
                .as_chunks::<4>()
                .0
                .iter()
                .for_each(|other| attract::<1>(other, &at, &mut sum)),
            _ => others
                .as_chunks::<4>()
                .0
                .iter()
                .for_each(|other| attract::<THREADS>(other, &at, &mut sum)),
        }
        first += count as u64;
    }
    Ok(sum)
}

/// Adds the attraction of one body on the first bodies of the group.
fn attract<const LANES: usize>(other: &[f32; 4], at: &[Lane; 3], sum: &mut [Lane; 3]) {
    let [sum_x, sum_y, sum_z] = sum;
    for thread in 0..LANES {
        let dx = other[0] - at[0][thread];
        let dy = other[1] - at[1][thread];
        let dz = other[2] - at[2][thread];
        let distance = (dx * dx + dy * dy + dz * dz + SOFTENING * SOFTENING).sqrt();
        let pull = other[3] / (distance * distance * distance);
        sum_x[thread] += dx * pull;
        sum_y[thread] += dy * pull;
        sum_z[thread] += dz * pull;
    }
}
