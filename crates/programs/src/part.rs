//! Parts of groups: where a group may stop and continue ([`Cursor`]).
//!
//! A group that continues loads its inputs and finished results from memory; the cursor states
//! which results are finished. Any number of stops produces the same bytes, because only the
//! dispatch writes its outputs. [`Grain`] describes the granularities per program.

use super::ProgramFault;
use super::thread_state::ThreadState;
use std::any::Any;
use std::ops::Range;

/// The smallest unit of a group that completes before the group stops.
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
    /// An instruction, if the program has some.
    Instruction,
}

/// The position of a group that was stopped; the default is its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Number of finished threads or triangles.
    pub(super) at: u32,
    /// Number of finished clipped parts of the next triangle.
    pub(super) piece: u32,
    /// Number of finished pixels of the next part.
    pub(super) pixel: u32,
    /// The next thread, if it was stopped between instructions.
    pub(super) machine: Option<ThreadState>,
}

impl Cursor {
    /// Whether no work of the group is finished.
    #[must_use]
    pub fn is_start(&self) -> bool {
        *self == Cursor::default()
    }

    /// Returns the cursor as words for a save area.
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

/// Inputs that the groups of one dispatch share, from the first group that loads them. A dispatch
/// whose cache is dropped loads them again.
#[derive(Default)]
pub struct DispatchCache {
    inputs: Option<Box<dyn Any + Send + Sync>>,
}

impl DispatchCache {
    /// Takes the inputs, if there are any of this type.
    pub(super) fn take<T: Any + Send + Sync>(&mut self) -> Option<Box<T>> {
        self.inputs.take()?.downcast().ok()
    }

    /// Keeps inputs for the next group.
    pub(super) fn put(&mut self, inputs: Box<dyn Any + Send + Sync>) {
        self.inputs = Some(inputs);
    }
}

/// One execution of a group on an engine, from a cursor to the next stop.
pub struct Part<'a> {
    pub(super) cursor: Cursor,
    pub(super) grain: Grain,
    go_on: &'a mut dyn FnMut() -> bool,
    pub(super) cache: &'a mut DispatchCache,
    /// Whether a grain was finished. The engine decides before each later grain.
    begun: bool,
    /// Whether the group was stopped at the cursor.
    pub(super) stopped: bool,
}

impl<'a> Part<'a> {
    pub(super) fn new(
        cursor: Cursor,
        grain: Grain,
        go_on: &'a mut dyn FnMut() -> bool,
        cache: &'a mut DispatchCache,
    ) -> Part<'a> {
        Part { cursor, grain, go_on, cache, begun: false, stopped: false }
    }

    /// Whether to run the next grain. The first one always runs.
    pub(super) fn next(&mut self) -> bool {
        let goes_on = self.may_go_on();
        self.begun = true;
        goes_on
    }

    /// As [`Part::next`], for work that may be empty.
    pub(super) fn may_go_on(&mut self) -> bool {
        !self.begun || (self.go_on)()
    }

    /// Stops the group here.
    pub(super) fn stop(&mut self, cursor: Cursor) {
        (self.cursor, self.stopped) = (cursor, true);
    }

    /// Returns whether the group runs from its start to its end without a stop.
    pub(super) fn is_whole(&self) -> bool {
        self.grain < Grain::Thread && self.cursor.at == 0
    }

    /// Returns the number of finished threads of `count`.
    pub(super) fn first(&self, count: usize) -> usize {
        (self.cursor.at as usize).min(count)
    }

    /// Runs `body` for the remaining threads of `count`, all together or one by one, depending on
    /// the granularity. Returns the threads that were run. Their results are then stored.
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
