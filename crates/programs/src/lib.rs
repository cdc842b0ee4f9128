//! Built-in programs: what a dispatch or a draw runs on the engines. A program reads and writes GPU
//! memory through [`ProgramMemory`], one thread group at a time.
//!
//! 1. [`validate`] runs once, when the command is decoded: a bad dispatch runs nothing.
//! 2. [`run_group`] runs each group, in any order, on any thread. Groups share nothing that they write,
//!    so an engine may stop between two; [`run_part`] stops inside of a group.
//! 3. Within a group all reads come before the last write, so a faulted group can be run again.
//!
//! Arithmetic is IEEE single precision in a fixed order without library functions: results are the same
//! on every machine.

mod lanes;
mod part;
mod signature;
mod thread_state;
mod tile;

mod checkerboard;
mod convolution_2d;
mod downsample;
mod fill_pattern;
mod image_gradient;
mod saxpy;

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

pub use part::{Cursor, Grain};
pub use signature::{Access, Argument, ArgumentKind, BufferSpan, Signature};

use part::Part;
use signature::Arguments;

/// The most 64-bit argument words that a dispatch carries.
pub const MAX_ARGUMENTS: usize = 24;

/// The most thread groups in one dimension of a dispatch, as in Direct3D 12.
pub const MAX_GROUPS_PER_DIMENSION: u32 = 65_535;

/// The most thread groups in one dispatch, all dimensions together. Groups beyond a program's grid
/// do nothing, but each costs a call; this bounds how long a hostile dispatch can hold an engine
/// with them.
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

    /// Its name, such as `saxpy`; empty for a number without a program.
    #[must_use]
    pub fn name(self) -> &'static str {
        signature(self).map_or("", |known| known.name)
    }
}

static PROGRAMS: [&Signature; 13] = [
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
];

/// Why a dispatch could not run, or could not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProgramFault {
    /// An access to GPU memory that is not mapped, or not mapped for this access: a GPU page fault.
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
    /// The command stream names a program that does not exist, or gives it words that it cannot
    /// take.
    #[error("bad dispatch: {what}; compare with the signature of the program")]
    BadArguments {
        /// What is wrong.
        what: &'static str,
    },
}

impl ProgramFault {
    pub(crate) const fn bad(what: &'static str) -> Self {
        Self::BadArguments { what }
    }
}

/// GPU memory as a program sees it: bytes behind GPU virtual addresses of one process.
pub trait ProgramMemory {
    /// Fills all of `out` from `va` on.
    ///
    /// # Errors
    /// [`ProgramFault::Memory`] when any byte of the range cannot be read.
    fn read(&mut self, va: u64, out: &mut [u8]) -> Result<(), ProgramFault>;

    /// Stores all of `data` from `va` on, or nothing: a range is translated before its first byte
    /// is written, so that a group which faults in its last store can be run again.
    ///
    /// # Errors
    /// [`ProgramFault::Memory`] when any byte of the range cannot be written.
    fn write(&mut self, va: u64, data: &[u8]) -> Result<(), ProgramFault>;
}

/// One dispatch as the command stream describes it.
#[derive(Debug, Clone, Copy)]
pub struct Dispatch<'a> {
    /// The program to run.
    pub program: ProgramId,
    /// Thread groups in x, y and z. Groups beyond the program's grid do nothing.
    pub groups: [u32; 3],
    /// Buffer addresses, sizes and numbers in the order of the signature; an `f32` is its bits in
    /// the low half.
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

/// The number of the program called `name`, such as `"saxpy"`.
#[must_use]
pub fn by_name(name: &str) -> Option<ProgramId> {
    all().find(|signature| signature.name == name).map(|signature| signature.id)
}

/// Checks everything about a dispatch that can be known without touching memory: the program, the
/// number and kinds of its arguments, sizes against their limits, buffer ranges against the end of
/// the address space and against each other, and the number of groups.
///
/// Two addresses that are mapped to the same memory are not recognised as one buffer.
///
/// # Errors
/// [`ProgramFault::BadArguments`] that says what is wrong.
pub fn validate(dispatch: &Dispatch<'_>) -> Result<(), ProgramFault> {
    checked(dispatch).map(|_| ())
}

/// The buffer ranges that a dispatch may touch, in the order of its arguments.
///
/// # Errors
/// As [`validate`].
pub fn buffers(dispatch: &Dispatch<'_>) -> Result<Vec<BufferSpan>, ProgramFault> {
    let args = checked(dispatch)?;
    Ok((args.signature().spans)(&args)?.as_slice().to_vec())
}

/// Runs one thread group to its end.
///
/// The dispatch is checked again, which costs some tens of nanoseconds: the words come from a
/// buffer that an untrusted process writes, and nothing tells this room that they have been looked
/// at.
///
/// # Errors
/// [`ProgramFault::BadArguments`] as [`validate`], or when `group` lies outside the dispatch;
/// [`ProgramFault::Memory`] when an access faults. The group may then be run again.
pub fn run_group(
    dispatch: &Dispatch<'_>,
    group: [u32; 3],
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    run_part(dispatch, group, &mut Cursor::default(), Grain::Group, &mut || true, mem).map(|_| ())
}

/// Runs one thread group from where `cursor` says on. Before each of its grains but the first,
/// `go_on` says whether to; if not, the group is left and `cursor` says where it goes on. Returns
/// whether the group is finished; `cursor` is then at the start of the next.
///
/// # Errors
/// As [`run_group`]. A group that faults after it was left goes on at the cursor that was given.
pub fn run_part(
    dispatch: &Dispatch<'_>,
    group: [u32; 3],
    cursor: &mut Cursor,
    grain: Grain,
    go_on: &mut dyn FnMut() -> bool,
    mem: &mut dyn ProgramMemory,
) -> Result<bool, ProgramFault> {
    let args = checked(dispatch)?;
    if outside(group, dispatch.groups) {
        return Err(ProgramFault::bad("the group lies outside the dispatch"));
    }
    let signature = args.signature();
    if outside(group, (signature.grid)(&args)) {
        *cursor = Cursor::default();
        return Ok(true);
    }
    let mut part = Part::new(cursor.clone(), grain, go_on);
    (signature.run)(&args, group, &mut part, mem)?;
    let Part { cursor: reached, stopped, .. } = part;
    *cursor = if stopped { reached } else { Cursor::default() };
    Ok(!stopped)
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

/// The most triangles of a draw, so that no cursor is beyond.
const MAX_AT: u32 = 1 << 20;

impl Cursor {
    /// Reads the words of a cursor in a group of `dispatch`; `None` for what no group can come to.
    /// They may be anything.
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
