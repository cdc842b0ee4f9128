//! Owns the engine classes and the names of nodes.
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
            Command::Dispatch { .. } => self != EngineClass::Copy,
            _ => true,
        }
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

    #[test]
    fn nodes_of_a_class_that_has_several_are_numbered() {
        let names = EngineClass::node_names(&[ThreeD, Compute, Copy, Compute]);
        assert_eq!(names, ["3D", "compute 0", "copy", "compute 1"]);
    }

    #[test]
    fn a_class_is_found_by_its_number() {
        for class in EngineClass::ALL {
            assert_eq!(EngineClass::from_number(class as u64), Some(class));
        }
        assert_eq!(EngineClass::from_number(EngineClass::ALL.len() as u64), None);
    }
}
