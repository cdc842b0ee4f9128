//! Commands that take more than one step: what is left of each, when it is done, its slice on a
//! timeline, and its saved form when its packet is preempted (see `save_area`).
//!
//! `engine::commands` runs the parts. Entry points: [`Running`], [`save`], [`restore`].

use tidegate_gpu_abi::GpuVa;
use tidegate_gpu_abi::command::MAX_ARGS;
use tidegate_platform::CpuTime;
use tidegate_programs::{Cursor, Dispatch, DispatchCache, ProgramId, validate};
use tidegate_trace::Kind;

/// What is left of a command.
pub(crate) enum Running {
    Copy {
        source: GpuVa,
        destination: GpuVa,
        left: u64,
        bytes: u64,
    },
    Fill {
        destination: GpuVa,
        left: u64,
        value: u32,
        bytes: u64,
    },
    Grid(Grid),
    /// Timed work, or a gap without work. `until` is set while an engine is in it.
    Timed {
        left_ns: u64,
        until: Option<CpuTime>,
        gap: bool,
    },
    /// Never completes.
    Hang,
}

/// The thread groups of a dispatch, or the tiles of a draw.
pub(crate) struct Grid {
    pub(crate) draw: bool,
    pub(crate) program: ProgramId,
    pub(crate) groups: [u32; 3],
    pub(crate) args: Vec<u64>,
    /// The number of completed groups.
    pub(crate) done: u64,
    /// The position of the next group.
    pub(crate) cursor: Cursor,
    /// Is not saved.
    pub(crate) cache: DispatchCache,
}

impl Grid {
    pub(crate) fn dispatch(&self) -> Dispatch<'_> {
        Dispatch { program: self.program, groups: self.groups, args: &self.args }
    }

    /// Returns the number of groups of the whole grid.
    pub(crate) fn len(&self) -> u64 {
        self.groups.iter().map(|count| u64::from(*count)).product()
    }
}

impl Running {
    pub(crate) fn is_draw(&self) -> bool {
        matches!(self, Running::Grid(grid) if grid.draw)
    }

    /// Returns whether nothing is left. Timed work is done when its time is over.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Running::Copy { left, .. } | Running::Fill { left, .. } => *left == 0,
            Running::Grid(grid) => grid.done == grid.len(),
            Running::Timed { .. } => true,
            Running::Hang => false,
        }
    }

    /// Returns kind and extra number of its timeline slices. A hang does no work, so its slice is
    /// a mark.
    pub(crate) fn slice(&self) -> (Kind, u64) {
        match self {
            Running::Copy { bytes, .. } => (Kind::Copy, *bytes),
            Running::Fill { bytes, .. } => (Kind::Fill, *bytes),
            Running::Grid(grid) if grid.draw => (Kind::Draw, grid.len()),
            Running::Grid(grid) => (Kind::Dispatch, grid.len()),
            Running::Timed { gap: true, .. } => (Kind::Gap, 0),
            Running::Timed { .. } => (Kind::Timed, 0),
            Running::Hang => (Kind::Mark, 0),
        }
    }
}

// The kinds in a save area.
const NOTHING: u64 = 0;
const COPY: u64 = 1;
const FILL: u64 = 2;
const DISPATCH: u64 = 3;
const DRAW: u64 = 4;
const TIMED: u64 = 5;
const GAP: u64 = 6;

/// Appends the state of the current command to the words of a save area. Returns its kind.
pub(crate) fn save(running: Option<&Running>, words: &mut Vec<u64>) -> u64 {
    match running {
        // A hang has no state: only a reset ends it, and saves nothing.
        None | Some(Running::Hang) => NOTHING,
        Some(Running::Copy { source, destination, left, bytes }) => {
            words.extend([source.0, destination.0, *left, *bytes]);
            COPY
        }
        Some(Running::Fill { destination, left, value, bytes }) => {
            words.extend([destination.0, *left, *bytes, u64::from(*value)]);
            FILL
        }
        Some(Running::Grid(Grid { draw, program, groups, args, done, cursor, .. })) => {
            let [x, y, z] = groups.map(u64::from);
            words.extend([u64::from(program.0) | z << 32, x | y << 32, *done, args.len() as u64]);
            words.extend(args);
            words.extend(cursor.words());
            if *draw { DRAW } else { DISPATCH }
        }
        Some(Running::Timed { left_ns, gap, .. }) => {
            words.push(*left_ns);
            if *gap { GAP } else { TIMED }
        }
    }
}

/// Returns the command saved in the words of a save area; `None` for an invalid state.
pub(crate) fn restore(kind: u64, words: &[u64]) -> Option<Option<Running>> {
    Some(Some(match kind {
        NOTHING => return Some(None),
        COPY => {
            let (left, bytes) = (words[2], words[3]);
            if left == 0 || left > bytes {
                return None;
            }
            Running::Copy { source: GpuVa(words[0]), destination: GpuVa(words[1]), left, bytes }
        }
        FILL => {
            let (left, bytes, value) = (words[1], words[2], u32::try_from(words[3]).ok()?);
            if left == 0 || left > bytes || !bytes.is_multiple_of(4) {
                return None;
            }
            Running::Fill { destination: GpuVa(words[0]), left, value, bytes }
        }
        DISPATCH | DRAW => Running::Grid(restore_grid(kind == DRAW, words)?),
        TIMED | GAP => Running::Timed { left_ns: words[0], until: None, gap: kind == GAP },
        _ => return None,
    }))
}

fn restore_grid(draw: bool, words: &[u64]) -> Option<Grid> {
    let program = ProgramId(words[0] as u32);
    let groups = [words[1] as u32, (words[1] >> 32) as u32, (words[0] >> 32) as u32];
    let count = usize::try_from(words[3]).ok().filter(|count| *count <= MAX_ARGS)?;
    let args = words.get(4..4 + count)?.to_vec();
    if draw != (program == ProgramId::DRAW) {
        return None;
    }
    let dispatch = Dispatch { program, groups, args: &args };
    validate(&dispatch).ok()?;
    let cursor = Cursor::from_words(&dispatch, words.get(4 + count..)?)?;
    let done = words[2];
    let all = groups.iter().try_fold(1, |all: u64, g| all.checked_mul(u64::from(*g)))?;
    let cache = DispatchCache::default();
    (done < all).then_some(Grid { draw, program, groups, args, done, cursor, cache })
}
