//! Groups that are left in their middle: how finely, when, and where they stand then.
//!
//! Owns the cursor of a group and what each granularity means for a program:
//!
//! | programs | THREAD | PIXEL, TRIANGLE | SHADER |
//! |---|---|---|---|
//! | whose threads know nothing of each other | between threads | | between threads |
//! | `draw` | | between pixels, triangles | between pixels |
//! | `interpret` | between threads | | between instructions |
//! | `reduction`, `scan_blocks`, whose threads work together | between groups | | between groups |
//!
//! A group that goes on loads again what it needs and stores what it has: memory holds all that is
//! finished, the cursor says what that is. Going on after any number of stops ends in the same
//! bytes, as nothing else writes what a dispatch writes.
//!
//! Programs ask; the engines decide. Nothing is called.

use super::interpret::Machine;
use super::{Dispatch, ProgramFault, ProgramId, signature};
use std::ops::Range;

/// The finest piece of a group that ends before the group is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grain {
    /// The group.
    Group,
    /// A triangle of a draw; for dispatches the group.
    Triangle,
    /// A pixel of a draw; for dispatches the group.
    Pixel,
    /// A thread.
    Thread,
    /// An instruction, where a program has some.
    Instruction,
}

/// Where a group stands that was left in its middle; the default is its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Threads that are finished, or triangles.
    pub(super) at: u32,
    /// Parts of the next triangle that are finished.
    pub(super) piece: u32,
    /// Pixels of the next part that are finished.
    pub(super) pixel: u32,
    /// The next thread, in the middle of its instructions.
    pub(super) machine: Option<Machine>,
}

/// The most triangles of a draw, so that no cursor is beyond.
const MAX_AT: u32 = 1 << 20;

impl Cursor {
    /// Whether nothing of the group is done.
    #[must_use]
    pub fn is_start(&self) -> bool {
        *self == Cursor::default()
    }

    /// The cursor as words, for a save area.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        let mut words =
            vec![u64::from(self.at) | u64::from(self.piece) << 32, u64::from(self.pixel)];
        if let Some(machine) = &self.machine {
            words[1] |= 1 << 32;
            words.extend(machine.words());
        }
        words
    }

    /// Reads the words of a cursor in a group of `dispatch`; `None` for what no group can come to.
    /// They may be anything.
    #[must_use]
    pub fn from_words(dispatch: &Dispatch<'_>, words: &[u64]) -> Option<Cursor> {
        let [first, second, rest @ ..] = words else { return None };
        let (at, piece, pixel) = (*first as u32, (*first >> 32) as u32, *second as u32);
        let machine = match second >> 32 {
            0 => None,
            1 if dispatch.program == ProgramId::INTERPRET => Some(Machine::from_words(rest)?),
            _ => return None,
        };
        let is_draw = dispatch.program == ProgramId::DRAW;
        let threads = signature(dispatch.program)?.threads_per_group.iter().product();
        let in_range = if is_draw { at < MAX_AT } else { at < threads && piece == 0 && pixel == 0 };
        in_range.then_some(Cursor { at, piece, pixel, machine })
    }
}

/// One stay of an engine in a group.
pub struct Part<'a> {
    pub(super) cursor: Cursor,
    pub(super) grain: Grain,
    go_on: &'a mut dyn FnMut() -> bool,
    /// Something was done: from then on it is asked whether to go on.
    begun: bool,
    /// The group is left in its middle, where the cursor says.
    pub(super) stopped: bool,
}

impl<'a> Part<'a> {
    pub(super) fn new(
        cursor: Cursor,
        grain: Grain,
        go_on: &'a mut dyn FnMut() -> bool,
    ) -> Part<'a> {
        Part { cursor, grain, go_on, begun: false, stopped: false }
    }

    /// Before a piece of work: whether it is to be done. The first one always is.
    pub(super) fn next(&mut self) -> bool {
        let goes_on = self.may_go_on();
        self.begun = true;
        goes_on
    }

    /// The same where nothing may come of it.
    pub(super) fn may_go_on(&mut self) -> bool {
        !self.begun || (self.go_on)()
    }

    /// The group is left here.
    pub(super) fn stop(&mut self, cursor: Cursor) {
        (self.cursor, self.stopped) = (cursor, true);
    }

    /// Threads that are finished, of `count`.
    pub(super) fn first(&self, count: usize) -> usize {
        (self.cursor.at as usize).min(count)
    }

    /// Runs `body` for the threads of `count` that are left, all at once or one by one, as finely
    /// as the group may be left; returns which ones were run. Their results are stored before the
    /// part ends.
    pub(super) fn threads(
        &mut self,
        count: usize,
        mut body: impl FnMut(Range<usize>) -> Result<(), ProgramFault>,
    ) -> Result<Range<usize>, ProgramFault> {
        let first = self.first(count);
        if self.grain < Grain::Thread {
            body(first..count)?;
            return Ok(first..count);
        }
        for thread in first..count {
            if !self.next() {
                self.stop(Cursor { at: thread as u32, ..Cursor::default() });
                return Ok(first..thread);
            }
            body(thread..thread + 1)?;
        }
        Ok(first..count)
    }
}
