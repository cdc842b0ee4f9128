//! What is examined: a driver that is made anew for each situation.

use crate::clause::{Clause, Words};
use crate::watch::ExaminedDevice;
use std::sync::Arc;
use tidegate::ddi::{Driver, Injection};
use tidegate::kmd::ReferenceDriver;
use tidegate::variants::Variant;
use tidegate::{MachineConfig, MakeDriver};

/// Takes what the host of a driver's code found in the last run: ids of clauses, and what was seen.
type TakeFindings = Arc<dyn Fn() -> Vec<(&'static str, String)> + Send + Sync>;

/// Returns the device of the driver that was made last; `None` if none was made.
type LastDevice = Arc<dyn Fn() -> Option<Arc<dyn ExaminedDevice>> + Send + Sync>;

/// The id of a finding that is about the device and not about the driver.
pub const DEVICE: &str = "device";

/// What the host of a driver's code checks.
#[derive(Clone)]
pub(crate) struct Code {
    pub(crate) clauses: Vec<Words>,
    pub(crate) take: TakeFindings,
    pub(crate) inject: Option<Inject>,
}

/// Has calls of the code of the next driver fail.
type Inject = Arc<dyn Fn(Option<Injection>) + Send + Sync>;

/// A driver to examine.
#[derive(Clone)]
pub struct Subject {
    /// Its name in reports.
    pub(crate) name: String,
    pub(crate) make: MakeDriver,
    /// The named machine whose hardware it drives.
    pub(crate) adapter: Option<&'static Variant>,
    pub(crate) code: Option<Code>,
    /// `None` for a driver of the software GPU.
    pub(crate) device: Option<LastDevice>,
    pub(crate) mistake: Option<&'static Clause>,
}

impl Subject {
    /// A driver of the software GPU.
    pub fn new(name: impl Into<String>, make: MakeDriver) -> Subject {
        Subject { name: name.into(), make, adapter: None, code: None, device: None, mistake: None }
    }

    /// Returns its name in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The reference driver, on a named machine or on the standard one.
    pub fn reference(adapter: Option<&'static Variant>) -> Subject {
        let make: MakeDriver = Arc::new(move |bus, gpu| {
            let config = match adapter {
                Some(variant) => variant.config(bus.platform),
                None => MachineConfig::standard(bus.platform),
            };
            Ok(ReferenceDriver::new(bus.platform, gpu, config.driver) as Arc<dyn Driver>)
        });
        Subject { adapter, ..Subject::new("reference", make) }
    }

    /// The same driver, with the clauses that the host of its code checks, and what takes the
    /// host's findings after each run: the id of a clause or [`DEVICE`], and what was seen.
    pub fn with_findings(
        self,
        clauses: Vec<Words>,
        take: impl Fn() -> Vec<(&'static str, String)> + Send + Sync + 'static,
    ) -> Subject {
        Subject { code: Some(Code { clauses, take: Arc::new(take), inject: None }), ..self }
    }

    /// The same driver, with what has calls of the code of the next driver fail. Situations with
    /// such a failure are left out without it.
    pub fn with_injections(
        mut self,
        inject: impl Fn(Option<Injection>) + Send + Sync + 'static,
    ) -> Subject {
        if let Some(code) = &mut self.code {
            code.inject = Some(Arc::new(inject));
        }
        self
    }

    /// The same driver, of another device than the software GPU. `last` returns the device of the
    /// driver that was made last.
    pub fn on_device(
        self,
        last: impl Fn() -> Option<Arc<dyn ExaminedDevice>> + Send + Sync + 'static,
    ) -> Subject {
        Subject { device: Some(Arc::new(last)), ..self }
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
