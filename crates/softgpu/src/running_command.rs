//! Commands that take more than one step: what is left of each, when it is done, how a timeline
//! shows it. The parts are run by `engine`, the saved form is that of `save_area`.

use tidegate_gpu_abi::GpuVa;
use tidegate_platform::CpuTime;
use tidegate_programs::{Cursor, Dispatch, ProgramId};
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
    /// Timed work, or a gap without work; `until` stands while an engine is in it.
    Timed {
        left_ns: u64,
        until: Option<CpuTime>,
        gap: bool,
    },
    /// Never done.
    Hang,
}

/// The thread groups of a dispatch, or the tiles of a draw.
pub(crate) struct Grid {
    pub(crate) draw: bool,
    pub(crate) program: ProgramId,
    pub(crate) groups: [u32; 3],
    pub(crate) args: Vec<u64>,
    /// How many groups are done.
    pub(crate) done: u64,
    /// Where the next one stands.
    pub(crate) cursor: Cursor,
}

impl Grid {
    pub(crate) fn dispatch(&self) -> Dispatch<'_> {
        Dispatch { program: self.program, groups: self.groups, args: &self.args }
    }

    /// Groups of the whole grid.
    pub(crate) fn len(&self) -> u64 {
        self.groups.iter().map(|count| u64::from(*count)).product()
    }
}

impl Running {
    pub(crate) fn is_draw(&self) -> bool {
        matches!(self, Running::Grid(grid) if grid.draw)
    }

    /// Whether nothing is left, given that timed work is over when its time is.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Running::Copy { left, .. } | Running::Fill { left, .. } => *left == 0,
            Running::Grid(grid) => grid.done == grid.len(),
            Running::Timed { .. } => true,
            Running::Hang => false,
        }
    }

    /// Kind and extra number of its slices on a timeline. A hang is no work: its slice is a mark.
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
