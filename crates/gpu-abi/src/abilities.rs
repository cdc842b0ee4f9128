//! Which commands the engines of each kind run.

use crate::command::Command;
use tidegate_d3dukmdt::EngineKind;
use tidegate_d3dukmdt::EngineKind::{Compute, Copy, ThreeD};

/// Returns whether the engines have a rasteriser.
pub fn draws(kind: EngineKind) -> bool {
    kind == ThreeD
}

/// Returns the kinds of engines that run the command, those with the fewest abilities first. `None`
/// for a command that accompanies work of any kind.
fn runs_on(command: &Command) -> Option<&'static [EngineKind]> {
    match command {
        Command::Copy { .. } | Command::Fill { .. } | Command::Resolve { .. } => {
            Some(&[Copy, Compute, ThreeD])
        }
        Command::Dispatch { .. } | Command::DispatchIndirect { .. } => Some(&[Compute, ThreeD]),
        Command::Draw { .. } => Some(&[ThreeD]),
        Command::Timed { .. }
        | Command::Gap { .. }
        | Command::Hang
        | Command::WriteValue { .. }
        | Command::Timestamp { .. }
        | Command::Predicate { .. }
        | Command::Barrier
        | Command::WaitFence { .. }
        | Command::SignalFence(_)
        | Command::Label { .. } => None,
    }
}

/// Returns whether engines of this kind run the command. Other engines fault.
pub fn runs(kind: EngineKind, command: &Command) -> bool {
    runs_on(command).is_none_or(|kinds| kinds.contains(&kind))
}

/// Returns the kind with the fewest abilities that runs `command`. `None` for a command that
/// accompanies work of any kind. Modelled work represents work of the engine on which it is queued,
/// so it needs all abilities.
pub fn made_for(command: &Command) -> Option<EngineKind> {
    match command {
        Command::Timed { .. } | Command::Gap { .. } => Some(ThreeD),
        _ => runs_on(command).map(|kinds| kinds[0]),
    }
}

/// Returns the kind with the fewest abilities that runs `command` and the work of `so_far`.
pub fn made_for_both(so_far: Option<EngineKind>, command: &Command) -> Option<EngineKind> {
    // Each kind that work is made for can do what those behind it can.
    match (so_far, made_for(command)) {
        (Some(so_far), Some(kind)) => Some(so_far.min(kind)),
        (so_far, kind) => kind.or(so_far),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuVa;

    #[test]
    fn the_kind_that_a_command_is_made_for_is_the_least_that_runs_it() {
        let va = GpuVa(64);
        let (program, groups, args) = (1, [1, 1, 1], vec![]);
        for (command, least) in [
            (Command::Copy { source: va, destination: va, bytes: 4 }, Copy),
            (Command::Fill { destination: va, bytes: 4, value: 0 }, Copy),
            (Command::Dispatch { program, groups, args: args.clone() }, Compute),
            (Command::Draw { program, groups, args }, ThreeD),
        ] {
            assert_eq!(made_for(&command), Some(least));
            for kind in EngineKind::STANDARD {
                assert_eq!(runs(kind, &command), kind <= least, "{kind} {command:?}");
                assert_eq!(made_for_both(Some(kind), &command), Some(kind.min(least)));
                let label = Command::Label { name: 1 };
                assert_eq!(made_for_both(Some(kind), &label), Some(kind));
            }
        }
    }
}
