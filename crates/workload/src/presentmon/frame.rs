//! A frame of a swap chain.

use crate::recording::Position;

/// The GPU's work on a frame, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gpu {
    pub end: i64,
    pub busy: i64,
}

/// A frame, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The number of its swap chain in the file.
    pub chain: usize,
    pub line: u64,
    /// The column of its time, from 1.
    pub column: u64,
    /// When the CPU began to work on it.
    pub cpu_start: i64,
    /// When its present call began, and when that returned.
    pub present: i64,
    pub returned: i64,
    pub gpu: Option<Gpu>,
    /// When it was on the screen.
    pub shown: Option<i64>,
    pub interval: u32,
}

impl Frame {
    pub fn position(&self) -> Position {
        Position::Cell { line: self.line, column: self.column }
    }
}
