//! Owns the shape that the scenarios of this crate share: a name, a sentence, what some run must
//! reach, the bugs that can be put in, and a function that builds one run. A scenario's own file
//! holds nothing but these.

use crate::plan::Plans;
use tidegate::Platform;
use tidegate::explorer::{PlantedBug, Prepared, Scenario};

/// Builds one run on the platform, with the named bug in it.
pub(crate) type Prepare = fn(&Platform, Option<&'static str>) -> Prepared;

/// A race between parts of the machine.
#[derive(Clone, Copy)]
pub(crate) struct Race {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) marks: &'static [&'static str],
    /// What its agents are called, in the order of their spawning: services first, then `main` and
    /// what it starts.
    pub(crate) agents: &'static [&'static str],
    pub(crate) planted: &'static [PlantedBug],
    pub(crate) plans: Plans,
    pub(crate) prepare: Prepare,
    /// The bug that is in it.
    pub(crate) bug: Option<&'static str>,
}

impl Scenario for Race {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        self.about
    }

    fn marks(&self) -> &[&'static str] {
        self.marks
    }

    fn prepare(&self, platform: &Platform) -> Prepared {
        (self.prepare)(platform, self.bug)
    }

    fn planted(&self) -> &[PlantedBug] {
        self.planted
    }

    fn with_bug(&self, bug: &str) -> Option<Box<dyn Scenario>> {
        let planted = self.planted.iter().find(|p| p.name == bug)?;
        Some(Box::new(Race { bug: Some(planted.name), ..*self }))
    }

    fn bug(&self) -> Option<&str> {
        self.bug
    }
}
