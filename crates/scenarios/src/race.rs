//! The shape that the scenarios of this crate share. A scenario's own file has a header, its
//! [`Race`], and the function that builds one run. The race is the head of the file: what it is
//! called, what some run must reach, the bugs that can be planted, and how far it is searched.

use crate::left_out::LeftOut;
use crate::plan::Plans;
use tidegate::Platform;
use tidegate::d3d12::FenceChoice;
use tidegate::explorer::{PlantedBug, Prepared, Scenario};

/// A race between parts of the machine.
pub(crate) struct Race {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) marks: &'static [&'static str],
    pub(crate) planted: &'static [Bug],
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

/// Where a planted bug is.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// The driver leaves out a step.
    Driver(LeftOut),
    /// The product makes the mistake of this name (`Platform::fault`).
    Product(&'static str),
    /// The scenario's own function that builds the run.
    Scenario,
}

/// What one run is built from.
#[derive(Clone, Copy)]
pub(crate) struct Run<'p> {
    pub(crate) platform: &'p Platform,
    pub(crate) bug: Option<&'static Bug>,
    /// Which fences the devices make.
    pub(crate) fences: FenceChoice,
    /// Interrupts that name hardware queues name all of them.
    pub(crate) names_all_queues: bool,
    /// The driver reports inside every connect that the doorbell which was created first is lost.
    pub(crate) first_doorbell_lost: bool,
}

impl Run<'_> {
    /// Whether the bug of this name is planted.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.bug.is_some_and(|bug| bug.name == name)
    }

    /// The step that the driver leaves out.
    pub(crate) fn left_out(&self) -> LeftOut {
        match self.bug.map(|bug| bug.fault) {
            Some(Fault::Driver(left_out)) => left_out,
            _ => LeftOut::Nothing,
        }
    }
}

/// A race, and the bug that is planted in it.
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
            platform.plant(name);
        }
        (self.0.prepare)(&Run {
            platform,
            bug: self.1,
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
