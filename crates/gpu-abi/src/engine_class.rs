//! The engine classes and the names of nodes.
//!
//! A new kind of engine needs a variant here, its commands in [`EngineClass::runs`], and its
//! published engine type in the driver's caps.

use crate::command::Command;

/// The kind of work that the engines of a node run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum EngineClass {
    /// Draws, dispatches and copies.
    ThreeD = 0,
    /// Dispatches and copies.
    Compute = 1,
    /// Copies and fills.
    Copy = 2,
}

impl EngineClass {
    /// Every class, by its number.
    pub const ALL: [EngineClass; 3] =
        [EngineClass::ThreeD, EngineClass::Compute, EngineClass::Copy];

    /// Returns the class with this number in [`crate::Register::NODE_CLASS`].
    pub fn from_number(number: u64) -> Option<EngineClass> {
        EngineClass::ALL.into_iter().find(|class| *class as u64 == number)
    }

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            EngineClass::ThreeD => "3D",
            EngineClass::Compute => "compute",
            EngineClass::Copy => "copy",
        }
    }

    /// Returns whether the engines have a rasteriser.
    pub fn draws(self) -> bool {
        self == EngineClass::ThreeD
    }

    /// Returns whether the engines run the command. Other engines fault.
    pub fn runs(self, command: &Command) -> bool {
        match command {
            Command::Draw { .. } => self.draws(),
            Command::Dispatch { .. } | Command::DispatchIndirect { .. } => {
                self != EngineClass::Copy
            }
            _ => true,
        }
    }

    /// Returns the class with the fewest abilities that runs `command`. `None` for a command that
    /// accompanies work of any class. Modelled work represents work of the engine on which it is
    /// queued, so it needs all abilities.
    pub fn made_for(command: &Command) -> Option<EngineClass> {
        match command {
            Command::Copy { .. } | Command::Fill { .. } | Command::Resolve { .. } => {
                Some(EngineClass::Copy)
            }
            Command::Dispatch { .. } | Command::DispatchIndirect { .. } => {
                Some(EngineClass::Compute)
            }
            Command::Draw { .. } | Command::Timed { .. } | Command::Gap { .. } => {
                Some(EngineClass::ThreeD)
            }
            Command::Hang
            | Command::WriteValue { .. }
            | Command::Timestamp { .. }
            | Command::Predicate { .. }
            | Command::Barrier
            | Command::WaitFence { .. }
            | Command::SignalFence(_)
            | Command::Label { .. } => None,
        }
    }

    /// Returns the class with the fewest abilities that runs `command` and the work of `so_far`.
    pub fn made_for_both(so_far: Option<EngineClass>, command: &Command) -> Option<EngineClass> {
        match (so_far, EngineClass::made_for(command)) {
            (Some(so_far), Some(class)) if so_far.exceeds(class) => Some(so_far),
            (so_far, class) => class.or(so_far),
        }
    }

    /// Returns whether this class can do more than `other`.
    pub fn exceeds(self, other: EngineClass) -> bool {
        (self as u64) < other as u64
    }

    /// Returns the names of nodes of these classes. If a class has several nodes, they are numbered
    /// from 0.
    pub fn node_names(classes: &[EngineClass]) -> Vec<String> {
        let name = |(at, class): (usize, &EngineClass)| {
            let of_class = |nodes: &[EngineClass]| nodes.iter().filter(|c| *c == class).count();
            match of_class(classes) {
                1 => class.name().to_owned(),
                _ => format!("{} {}", class.name(), of_class(&classes[..at])),
            }
        };
        classes.iter().enumerate().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::EngineClass::{Compute, Copy, ThreeD};
    use super::*;
    use crate::GpuVa;

    #[test]
    fn nodes_of_a_class_that_has_several_are_numbered() {
        let names = EngineClass::node_names(&[ThreeD, Compute, Copy, Compute]);
        assert_eq!(names, ["3D", "compute 0", "copy", "compute 1"]);
    }

    #[test]
    fn the_class_that_a_command_is_made_for_is_the_least_that_runs_it() {
        let va = GpuVa(64);
        let (program, groups, args) = (1, [1, 1, 1], vec![]);
        for command in [
            Command::Copy { source: va, destination: va, bytes: 4 },
            Command::Fill { destination: va, bytes: 4, value: 0 },
            Command::Dispatch { program, groups, args: args.clone() },
            Command::Draw { program, groups, args },
        ] {
            let least = EngineClass::made_for(&command).unwrap();
            for class in EngineClass::ALL {
                assert_eq!(class.runs(&command), !least.exceeds(class), "{class:?} {command:?}");
                let both = if class.exceeds(least) { class } else { least };
                assert_eq!(EngineClass::made_for_both(Some(class), &command), Some(both));
                let label = Command::Label { name: 1 };
                assert_eq!(EngineClass::made_for_both(Some(class), &label), Some(class));
            }
        }
    }

    #[test]
    fn a_class_is_found_by_its_number() {
        for class in EngineClass::ALL {
            assert_eq!(EngineClass::from_number(class as u64), Some(class));
        }
        assert_eq!(EngineClass::from_number(EngineClass::ALL.len() as u64), None);
    }
}
