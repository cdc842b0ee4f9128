//! Kinds of engines that a queue can run on.

use std::fmt;

/// The kind of engine that a queue's commands need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// Draws, dispatches and copies.
    ThreeD,
    /// Dispatches and copies.
    Compute,
    /// Copies and fills.
    Copy,
}

impl Engine {
    /// The word used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::ThreeD => "3d",
            Self::Compute => "compute",
            Self::Copy => "copy",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
