//! What is examined: a driver that is made anew for each situation.

use crate::clause::Clause;
use std::sync::Arc;
use tidegate::ddi::Driver;
use tidegate::kmd::ReferenceDriver;
use tidegate::variants::Variant;
use tidegate::{MachineConfig, MakeDriver};

/// Takes the rules that the driver of the last run broke inside of the kernel's functions, as a
/// host of drivers in C finds them.
pub(crate) type TakeFindings = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// A driver to examine.
#[derive(Clone)]
pub struct Subject {
    /// Its name in reports.
    pub(crate) name: String,
    pub(crate) make: MakeDriver,
    /// The named machine whose hardware it drives.
    pub(crate) adapter: Option<&'static Variant>,
    pub(crate) findings: Option<TakeFindings>,
    pub(crate) mistake: Option<&'static Clause>,
}

impl Subject {
    /// A driver of the software GPU.
    pub fn new(name: impl Into<String>, make: MakeDriver) -> Subject {
        Subject { name: name.into(), make, adapter: None, findings: None, mistake: None }
    }

    /// The reference driver, on a named machine or on the standard one.
    pub fn reference(adapter: Option<&'static Variant>) -> Subject {
        let make: MakeDriver = Arc::new(move |platform, gpu| {
            let config = match adapter {
                Some(variant) => variant.config(platform),
                None => MachineConfig::standard(platform),
            };
            Ok(ReferenceDriver::new(platform, gpu, config.driver) as Arc<dyn Driver>)
        });
        Subject { adapter, ..Subject::new("reference", make) }
    }

    /// The same driver, with what takes its findings after each run.
    pub fn with_findings(self, take: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Subject {
        Subject { findings: Some(Arc::new(take)), ..self }
    }

    /// The same driver behind the twin of a clause, which breaks it.
    pub fn with_mistake(self, clause: &'static Clause) -> Subject {
        Subject {
            name: format!("{}, faulty:{}", self.name, clause.id),
            mistake: Some(clause),
            ..self
        }
    }
}
