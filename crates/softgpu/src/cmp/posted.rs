//! Mailbox commands that wait for the end of a turn, and what each waits for.
//!
//! Invariant: an engine that hangs, has no power or has stopped is in no turn, so no command waits
//! for it.

use super::Cmp;
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

    /// Waits for the turns that `engines` are in.
    pub(crate) fn turns_of(cmp: &Cmp, engines: Range<usize>) -> Until {
        let in_turn = engines.filter(|engine| cmp.nodes[*engine].is_in_turn());
        Until::TurnEnds(in_turn.map(|engine| (engine, cmp.nodes[engine].turns)).collect())
    }

    pub(crate) fn is_met(&self, cmp: &Cmp) -> bool {
        match self {
            Until::TurnEnds(turns) => {
                turns.iter().all(|(engine, turn)| cmp.nodes[*engine].has_ended(*turn))
            }
            Until::Between(engines) => {
                !cmp.nodes[engines.clone()].iter().any(|node| node.is_in_turn())
            }
            Until::Returned(queue) => cmp.entry(*queue).is_none_or(|entry| entry.run.is_some()),
        }
    }

    /// Returns the engines that the command concerns.
    pub(crate) fn engines(&self, cmp: &Cmp) -> Vec<u32> {
        match self {
            Until::TurnEnds(turns) => turns.iter().map(|(engine, _)| *engine as u32).collect(),
            Until::Between(engines) => engines.clone().map(|engine| engine as u32).collect(),
            Until::Returned(queue) => {
                cmp.entry(*queue).map(|entry| entry.shape.engine).into_iter().collect()
            }
        }
    }

    /// Holds the engines or the queue, or ends that hold.
    pub(crate) fn hold(&self, cmp: &mut Cmp, holds: bool) {
        let count = |of: &mut u32| *of = if holds { *of + 1 } else { *of - 1 };
        match self {
            Until::TurnEnds(_) => {}
            Until::Between(engines) => {
                cmp.nodes[engines.clone()].iter_mut().for_each(|node| count(&mut node.holds));
            }
            Until::Returned(queue) => {
                if let Some(entry) = cmp.queue(*queue) {
                    count(&mut entry.holds);
                }
            }
        }
    }
}
