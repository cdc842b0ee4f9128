//! Built-in programs that dispatches and draws run on the engines. A program accesses GPU memory
//! through [`ProgramMemory`], one thread group at a time.
//!
//! 1. [`validate`] runs once, when the command is decoded. A bad dispatch runs no group.
//! 2. [`run_group`] runs the groups in any order, on any thread. Groups share no memory that they
//!    write, so an engine may stop between them; [`run_part`] stops inside of a group.
//! 3. A group finishes its reads before its last write, so a faulted group can be run again.
//! 4. Inputs of a draw that its groups share may be loaded by the first group only
//!    ([`DispatchCache`]).
//! 5. The programs of [`atomics`] share words with other groups and other dispatches, by atomic
//!    operations alone. Rule 3 is not for them.
//!
//! Arithmetic is IEEE single precision in a fixed order without library functions, so results are
//! the same on every machine.

mod lanes;
mod part;
mod signature;
mod thread_state;
mod tile;
mod typed;

mod checkerboard;
mod convolution_2d;
mod downsample;
mod fill_pattern;
mod image_gradient;
mod saxpy;

pub mod atomics;
pub mod camera;
pub mod draw;
pub mod frame;
pub mod interpret;
pub mod layout;
pub mod mesh;
pub mod n_body;
pub mod prefix_sum;
pub mod reduction;
pub mod reference;
pub mod shade;
pub mod texture;

pub use part::{Cursor, DispatchCache, Grain};
pub use signature::{Access, Argument, ArgumentKind, BufferSpan, Signature};
pub use tidegate_gpu_abi::program::{ComputeProgram, DrawProgram, Program, Shader};
pub use typed::{
    AddOffsets, AtomicSteps, Checkerboard, Convolution2d, Count, Downsample, Draw, FillPattern,
    Histogram, ImageGradient, Interpret, NBody, Reduction, Saxpy, ScanBlocks, Shade,
};

use atomics::{Atomic, Width};
use part::Part;
use signature::Arguments;
use tidegate_platform::Lines;

/// Maximum number of 64-bit argument words of a dispatch.
pub const MAX_ARGUMENTS: usize = 24;

/// Maximum number of thread groups per dimension of a dispatch, as in Direct3D 12.
pub const MAX_GROUPS_PER_DIMENSION: u32 = 65_535;

/// Maximum number of thread groups of a dispatch. Groups beyond a program's grid do nothing but
/// cost a call, so this bounds the time for which a hostile dispatch can occupy an engine.
pub const MAX_GROUPS: u64 = 1 << 22;

/// Number of a built-in program. Part of the ABI: a number never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramId(pub u32);

impl ProgramId {
    /// `y = a * x + y`.
    pub const SAXPY: Self = Self(1);
    /// Sums of blocks of 1,024 elements.
    pub const REDUCTION: Self = Self(2);
    /// Inclusive prefix sums within blocks of 1,024 elements.
    pub const SCAN_BLOCKS: Self = Self(3);
    /// Adds the scanned block sums to the blocks.
    pub const ADD_OFFSETS: Self = Self(4);
    /// Square filter over an image, edges clamped.
    pub const CONVOLUTION_2D: Self = Self(5);
    /// One step of gravity among all bodies.
    pub const N_BODY: Self = Self(6);
    /// Light of every pixel from the pre-pass buffer.
    pub const SHADE: Self = Self(7);
    /// Triangles into a render target.
    pub const DRAW: Self = Self(8);
    /// Arithmetic series, for test data.
    pub const FILL_PATTERN: Self = Self(9);
    /// Chequered image.
    pub const CHECKERBOARD: Self = Self(10);
    /// Vertical gradient with a horizon.
    pub const IMAGE_GRADIENT: Self = Self(11);
    /// Halves an image: mip levels, and the resolve of a supersampled target.
    pub const DOWNSAMPLE: Self = Self(12);
    /// A program in a buffer.
    pub const INTERPRET: Self = Self(13);
    /// Additions to one counter, beside other work.
    pub const COUNT: Self = Self(14);
    /// Counts of values, beside other work.
    pub const HISTOGRAM: Self = Self(15);
    /// Atomic operations from a buffer.
    pub const ATOMIC_STEPS: Self = Self(16);

    /// Returns its name, such as `saxpy`, or an empty string for a number without a program.
    #[must_use]
    pub fn name(self) -> &'static str {
        signature(self).map_or("", |known| known.name)
    }
}

static PROGRAMS: [&Signature; 16] = [
    &saxpy::SIGNATURE,
    &reduction::SIGNATURE,
    &prefix_sum::SCAN_BLOCKS,
    &prefix_sum::ADD_OFFSETS,
    &convolution_2d::SIGNATURE,
    &n_body::SIGNATURE,
    &shade::SIGNATURE,
    &draw::SIGNATURE,
    &fill_pattern::SIGNATURE,
    &checkerboard::SIGNATURE,
    &image_gradient::SIGNATURE,
    &downsample::SIGNATURE,
    &interpret::SIGNATURE,
    &atomics::COUNT,
    &atomics::HISTOGRAM,
    &atomics::ATOMIC_STEPS,
];

/// The reason why a dispatch could not run or continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProgramFault {
    /// A GPU page fault: the accessed memory is not mapped, or does not permit the access.
    #[error(
        "gpu page fault: {} of {len} bytes at {va:#x}; map the range or correct the buffer argument",
        if *write { "write" } else { "read" }
    )]
    Memory {
        /// GPU virtual address of the access.
        va: u64,
        /// Length of the access in bytes.
        len: u64,
        /// True for a store, false for a load.
        write: bool,
    },
    /// The command stream names a program that does not exist or passes invalid arguments.
    #[error("bad dispatch: {what}; compare with the signature of the program")]
    BadArguments {
        /// The violated rule.
        what: &'static str,
    },
}

impl ProgramFault {
    pub(crate) const fn bad(what: &'static str) -> Self {
        Self::BadArguments { what }
    }
}

/// GPU memory as seen by a program: the GPU virtual addresses of one process.
pub trait ProgramMemory {
    /// Fills `out` with the bytes from `va`.
    ///
    /// # Errors
    /// [`ProgramFault::Memory`] when any byte of the range cannot be read.
    fn read(&mut self, va: u64, out: &mut [u8]) -> Result<(), ProgramFault>;

    /// Stores `data` from `va`, or nothing: the whole range is translated before the first byte is
    /// written, so that a group whose last store faults can be run again.
    ///
    /// # Errors
    /// [`ProgramFault::Memory`] when any byte of the range cannot be written.
    fn write(&mut self, va: u64, data: &[u8]) -> Result<(), ProgramFault>;

    /// Does `atomic` on the word at `va`, as one step for all engines and the CPU. Returns the
    /// value before it.
    ///
    /// # Errors
    /// [`ProgramFault::Memory`] when the word cannot be read and written, or is not aligned.
    fn atomic(&mut self, va: u64, width: Width, atomic: Atomic) -> Result<u64, ProgramFault>;

    /// Returns the lines of two ranges of `len` bytes for a computation in place: `from` is loaded,
    /// and `to` is loaded and stored. `None` if they have no lines or cannot be accessed; the
    /// program then uses [`read`](ProgramMemory::read) and [`write`](ProgramMemory::write).
    fn lines(&mut self, _from: u64, _to: u64, _len: usize) -> Option<(Lines<'_>, Lines<'_>)> {
        None
    }
}

/// One dispatch as the command stream describes it.
#[derive(Debug, Clone, Copy)]
pub struct Dispatch<'a> {
    /// The program to run.
    pub program: ProgramId,
    /// Thread groups in x, y and z. Groups beyond the program's grid do nothing.
    pub groups: [u32; 3],
    /// Buffer addresses, sizes and numbers in signature order. An `f32` is in the low half.
    pub args: &'a [u64],
}

/// The signature of a program, or `None` when there is no such program.
#[must_use]
pub fn signature(id: ProgramId) -> Option<&'static Signature> {
    let index = usize::try_from(id.0).ok()?.checked_sub(1)?;
    PROGRAMS.get(index).copied()
}

/// All programs, in the order of their numbers.
pub fn all() -> impl Iterator<Item = &'static Signature> {
    PROGRAMS.iter().copied()
}

/// Returns the number of the program `name`, such as `"saxpy"`.
#[must_use]
pub fn by_name(name: &str) -> Option<ProgramId> {
    all().find(|signature| signature.name == name).map(|signature| signature.id)
}

/// Checks everything about a dispatch that does not require memory accesses: the program, the
/// number and kinds of arguments, size limits, the number of groups, and whether buffer ranges
/// overlap or exceed the address space.
///
/// Two addresses that are mapped to the same memory count as different buffers.
///
/// # Errors
/// [`ProgramFault::BadArguments`] with the violated rule.
pub fn validate(dispatch: &Dispatch<'_>) -> Result<(), ProgramFault> {
    checked(dispatch).map(|_| ())
}

/// Returns the buffer ranges that a dispatch may access, in argument order.
///
/// # Errors
/// As [`validate`].
pub fn buffers(dispatch: &Dispatch<'_>) -> Result<Vec<BufferSpan>, ProgramFault> {
    let args = checked(dispatch)?;
    Ok((args.signature().spans)(&args)?.as_slice().to_vec())
}

/// Runs one thread group to completion.
///
/// # Errors
/// [`ProgramFault::BadArguments`] as [`validate`], or if `group` is outside of the dispatch;
/// [`ProgramFault::Memory`] if an access faults. The group may then be run again.
pub fn run_group(
    dispatch: &Dispatch<'_>,
    group: [u32; 3],
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    run_part(dispatch, group, &mut Cursor::default(), Grain::Group, &mut || true, mem).map(|_| ())
}

/// Checks a dispatch and runs a part of one group, as [`CheckedDispatch::run_part`] does.
///
/// # Errors
/// As [`run_group`]. A group that faults in a later part continues at its cursor.
pub fn run_part(
    dispatch: &Dispatch<'_>,
    group: [u32; 3],
    cursor: &mut Cursor,
    grain: Grain,
    go_on: &mut dyn FnMut() -> bool,
    mem: &mut dyn ProgramMemory,
) -> Result<bool, ProgramFault> {
    let cache = &mut DispatchCache::default();
    CheckedDispatch::new(dispatch)?.run_part(group, cursor, grain, go_on, cache, mem)
}

/// A dispatch that passed [`validate`]. An engine checks it once for all groups of a turn.
pub struct CheckedDispatch<'a> {
    args: Arguments<'a>,
    groups: [u32; 3],
    /// The groups that have work.
    grid: [u32; 3],
}

impl<'a> CheckedDispatch<'a> {
    /// Checks the dispatch.
    ///
    /// # Errors
    /// As [`validate`].
    pub fn new(dispatch: &Dispatch<'a>) -> Result<CheckedDispatch<'a>, ProgramFault> {
        let args = checked(dispatch)?;
        let grid = (args.signature().grid)(&args);
        Ok(CheckedDispatch { args, groups: dispatch.groups, grid })
    }

    /// Returns whether a group takes a small part of a microsecond, so that an engine may run
    /// several in the time of another program's group.
    pub fn has_short_groups(&self) -> bool {
        const SHORT: [ProgramId; 5] = [
            ProgramId::SAXPY,
            ProgramId::REDUCTION,
            ProgramId::SCAN_BLOCKS,
            ProgramId::ADD_OFFSETS,
            ProgramId::FILL_PATTERN,
        ];
        SHORT.contains(&self.args.signature().id)
    }

    /// Runs one thread group from `cursor`. Before each grain but the first, `go_on` decides
    /// whether to continue. Returns whether the group is finished. `cursor` is then the start of
    /// the next group, and otherwise the place at which to continue. `cache` belongs to this
    /// dispatch.
    ///
    /// # Errors
    /// [`ProgramFault::BadArguments`] if `group` is outside of the dispatch;
    /// [`ProgramFault::Memory`] if an access faults. A group that faults in a later part continues
    /// at its cursor.
    pub fn run_part(
        &self,
        group: [u32; 3],
        cursor: &mut Cursor,
        grain: Grain,
        go_on: &mut dyn FnMut() -> bool,
        cache: &mut DispatchCache,
        mem: &mut dyn ProgramMemory,
    ) -> Result<bool, ProgramFault> {
        if outside(group, self.groups) {
            return Err(ProgramFault::bad("the group is outside of the dispatch"));
        }
        if outside(group, self.grid) {
            *cursor = Cursor::default();
            return Ok(true);
        }
        let mut part = Part::new(cursor.clone(), grain, go_on, cache);
        (self.args.signature().run)(&self.args, group, &mut part, mem)?;
        let Part { cursor: reached, stopped, .. } = part;
        *cursor = if stopped { reached } else { Cursor::default() };
        Ok(!stopped)
    }
}

fn outside(group: [u32; 3], grid: [u32; 3]) -> bool {
    group.iter().zip(grid).any(|(&at, end)| at >= end)
}

fn checked<'a>(dispatch: &Dispatch<'a>) -> Result<Arguments<'a>, ProgramFault> {
    let signature =
        signature(dispatch.program).ok_or(ProgramFault::bad("no program has this number"))?;
    let args = Arguments::new(signature, dispatch.args)?;
    if dispatch.groups.iter().any(|&count| count > MAX_GROUPS_PER_DIMENSION) {
        return Err(ProgramFault::bad("more than 65,535 groups in one dimension"));
    }
    // Three factors below 2^16 cannot overflow 64 bits.
    if dispatch.groups.iter().map(|&count| u64::from(count)).product::<u64>() > MAX_GROUPS {
        return Err(ProgramFault::bad("more than 2^22 groups"));
    }
    (signature.spans)(&args)?.check()?;
    Ok(args)
}

/// Maximum number of triangles of a draw. No cursor is beyond.
const MAX_AT: u32 = 1 << 20;

impl Cursor {
    /// Decodes a cursor for a group of `dispatch` from untrusted words. Returns `None` if no group
    /// can be at that place.
    #[must_use]
    pub fn from_words(dispatch: &Dispatch<'_>, words: &[u64]) -> Option<Cursor> {
        let [first, second, rest @ ..] = words else { return None };
        let (at, piece, pixel) = (*first as u32, (*first >> 32) as u32, *second as u32);
        let machine = match second >> 32 {
            0 => None,
            1 if dispatch.program == ProgramId::INTERPRET => {
                Some(thread_state::ThreadState::from_words(rest)?)
            }
            _ => return None,
        };
        let is_draw = dispatch.program == ProgramId::DRAW;
        let threads = signature(dispatch.program)?.threads_per_group.iter().product();
        let in_range = if is_draw { at < MAX_AT } else { at < threads && piece == 0 && pixel == 0 };
        in_range.then_some(Cursor { at, piece, pixel, machine })
    }
}
