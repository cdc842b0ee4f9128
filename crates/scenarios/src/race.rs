//! The common shape of the scenarios. A scenario's file has a header, a [`Race`] and the function
//! that builds one run. The [`Race`] states its name, the marks that some run must reach, the
//! planted bugs and the search plans.

use crate::left_out::LeftOut;
use crate::plan::Plans;
use crate::setting::{Setting, Shape};
use tidegate::Platform;
use tidegate::d3d12::FenceChoice;
use tidegate::explorer::{PlantedBug, Prepared, Scenario};
use tidegate::platform::PlantedFault;

/// A race between parts of the machine.
pub(crate) struct Race {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) marks: &'static [&'static str],
    pub(crate) planted: &'static [Bug],
    /// The settings in which its machine differs from what ships.
    pub(crate) shape: Shape,
    pub(crate) plans: Plans,
    pub(crate) prepare: fn(&Run<'_>) -> Prepared,
}

/// A bug that a search must find.
#[derive(Clone, Copy)]
pub(crate) struct Bug {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) fault: Fault,
}

/// Planted bugs as a table. A row is the bug's name, its fault, and what is wrong because of it.
macro_rules! bugs {
    ($($name:expr => $place:ident $(($fault:expr))?, $about:literal;)+) => {
        &[$($crate::race::Bug {
            name: $name,
            about: $about,
            fault: $crate::race::Fault::$place $(($fault))?,
        }),+]
    };
}

pub(crate) use bugs;

/// The location of a planted bug.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// The driver omits a step.
    Driver(LeftOut),
    /// The product has this bug.
    Product(PlantedFault),
    /// The scenario's own function implements the bug.
    Scenario,
}

/// Parameters of one run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'p> {
    pub(crate) platform: &'p Platform,
    pub(crate) bug: Option<&'static Bug>,
    /// The scenario's own settings.
    pub(crate) settings: &'static [Setting],
    /// The kind of fences that the devices create.
    pub(crate) fences: FenceChoice,
    /// Whether interrupts that name a hardware queue name all of them.
    pub(crate) names_all_queues: bool,
    /// Whether the driver reports, inside every connect, that the first doorbell is lost.
    pub(crate) first_doorbell_lost: bool,
}

impl Run<'_> {
    /// Returns whether the bug of this name is planted.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.bug.is_some_and(|bug| bug.name == name)
    }

    /// Returns the step that the driver omits.
    pub(crate) fn left_out(&self) -> LeftOut {
        match self.bug.map(|bug| bug.fault) {
            Some(Fault::Driver(left_out)) => left_out,
            _ => LeftOut::Nothing,
        }
    }
}

/// A race and the bug planted in it.
pub(crate) struct Planted(pub(crate) &'static Race, pub(crate) Option<&'static Bug>);

impl Scenario for Planted {
    fn name(&self) -> &str {
        self.0.name
    }

    fn about(&self) -> &str {
        self.0.about
    }

    fn marks(&self) -> &[&'static str] {
        self.0.marks
    }

    fn prepare(&self, platform: &Platform) -> Prepared {
        if let Some(Bug { fault: Fault::Product(name), .. }) = self.1 {
            platform.plant(*name);
        }
        (self.0.prepare)(&Run {
            platform,
            bug: self.1,
            settings: self.0.shape.own(),
            fences: FenceChoice::Native,
            names_all_queues: false,
            first_doorbell_lost: false,
        })
    }

    fn planted(&self) -> Vec<PlantedBug> {
        let bug = |bug: &Bug| PlantedBug { name: bug.name, about: bug.about };
        self.0.planted.iter().map(bug).collect()
    }

    fn with_bug(&self, bug: &str) -> Option<Box<dyn Scenario>> {
        let planted = self.0.planted.iter().find(|p| p.name == bug)?;
        Some(Box::new(Planted(self.0, Some(planted))))
    }

    fn bug(&self) -> Option<&str> {
        self.1.map(|bug| bug.name)
    }
}
