//! Mailbox commands that wait for the end of a turn, and what each waits for.
//!
//! Invariant: an engine that hangs, has no power or has stopped is in no turn, so no command waits
//! for it.

use std::ops::Range;
use tidegate_gpu_abi::{AdminCommand, QueueId};

/// A pending command.
pub(crate) struct Posted {
    pub(crate) until: Until,
    pub(crate) command: AdminCommand,
}

/// What a command waits for.
pub(crate) enum Until {
    /// The ends of these turns: engine and number of the turn.
    TurnEnds(Vec<(usize, u64)>),
    /// These engines are between two turns. They begin none until the command is finished.
    Between(Range<usize>),
    /// No engine runs the queue. None takes it until the command is finished.
    Returned(QueueId),
}

impl Until {
    /// Waits for nothing.
    pub(crate) const NOW: Until = Until::TurnEnds(Vec::new());
}
