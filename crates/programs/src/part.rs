//! Parts of groups: where a group may be left, and where it continues ([`Cursor`]).
//!
//! A group that continues loads what it needs and stores what it has: memory holds all finished results,
//! the cursor says which. Any number of stops ends in the same bytes, because nothing else writes what a
//! dispatch writes. [`Grain`] has what each granularity means for a program.

use super::ProgramFault;
use super::thread_state::ThreadState;
use std::ops::Range;

/// The finest piece of a group that ends before the group is left.
///
/// | programs | THREAD | PIXEL, TRIANGLE | SHADER |
/// |---|---|---|---|
/// | with independent threads | between threads | | between threads |
/// | `draw` | | between pixels, triangles | between pixels |
/// | `interpret` | between threads | | between instructions |
/// | `reduction`, `scan_blocks`, with cooperating threads | between groups | | between groups |
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
    pub(super) machine: Option<ThreadState>,
}

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
}

/// One stay of an engine in a group.
pub struct Part<'a> {
    pub(super) cursor: Cursor,
    pub(super) grain: Grain,
    go_on: &'a mut dyn FnMut() -> bool,
    /// A piece of work was done: before the next one the engine decides whether to go on.
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
