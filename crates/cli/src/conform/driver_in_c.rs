//! A driver in C as `conform` examines it, in the order of virtual time or in another order of its
//! steps.

use super::order::{Order, checksum};
use crate::BadInput;
use crate::driver::DriverFile;
use std::path::Path;
use std::sync::Arc;
use tidegate::ddi::EngineId;
use tidegate_conform::{
    Clause, DEVICE, ExaminedDevice, Family, Report, Schedule, Selection, Subject, Words, clauses,
    examine,
};
use tidegate_ddi_c::{DeviceModel, Rule, StepSeen, Steps};

/// A driver in C. Rules that it breaks inside of functions of the kernel are findings, too.
pub(super) struct Driver {
    file: Arc<DriverFile>,
    pub(super) subject: Subject,
    families: Vec<Family>,
}

impl Driver {
    pub(super) fn new(path: &Path, device: Option<&Path>, families: &[Family]) -> Driver {
        let file = Arc::new(DriverFile::new(path, device));
        let subject = Subject::new(path.display().to_string(), file.make());
        let of_file = Arc::clone(&file);
        let subject = subject.with_findings(of_code(device.is_some()).collect(), move || {
            let broken = of_file.take_broken().into_iter();
            let broken = broken.map(|found| (found.rule.id(), found.text));
            let of_devices = of_file.take_problems_of_devices().into_iter();
            broken.chain(of_devices.map(|line| (DEVICE, line))).collect()
        });
        let subject = match device {
            None => subject,
            Some(_) => {
                let of_file = Arc::clone(&file);
                subject.on_device(move || {
                    of_file.last_model().map(|model| Arc::new(Model(model)) as Arc<_>)
                })
            }
        };
        let of_file = Arc::clone(&file);
        let subject = subject.with_injections(move |injection| of_file.inject(injection));
        Driver { file, subject, families: families.to_vec() }
    }

    pub(super) fn name(&self) -> String {
        self.subject.name().to_owned()
    }

    /// Runs one order of the driver's steps in this process. Returns the report, the steps, and a
    /// text for each switch.
    pub(super) fn run(
        &self,
        order: &Order,
    ) -> Result<(Report, Vec<StepSeen>, Vec<String>), BadInput> {
        let steps = Steps::new(order.switches.clone());
        self.file.explore(steps.clone());
        let situations = vec![order.situation.clone()];
        let families = self.families.clone();
        let selection = Selection {
            families,
            situations,
            inline_interrupts: order.is_inline,
            ..Selection::default()
        };
        let report = examine(&self.subject, &selection);
        let report = report.map_err(|error| BadInput(error.to_string()))?;
        let (seen, made) = steps.take();
        Ok((report, seen, made))
    }

    /// Repeats the order of a printed line.
    pub(super) fn repeat(&self, line: &str) -> Result<Report, BadInput> {
        let (order, expected) = Order::parse(line)?;
        let (mut report, seen, made) = self.run(&order)?;
        if expected.is_some_and(|expected| expected != checksum(&seen)) {
            return Err(BadInput(format!(
                "the order '{line}' does not fit: the driver makes other steps than when it was \
                 printed; run --explore again"
            )));
        }
        let schedule = Schedule { line: order.line(Some(&seen)), switches: made };
        let findings = report.rows.iter_mut().flat_map(|row| &mut row.findings);
        findings.for_each(|finding| finding.schedule = Some(schedule.clone()));
        Ok(report)
    }
}

/// A device model as the device of an examined driver.
struct Model(Arc<DeviceModel>);

impl ExaminedDevice for Model {
    fn engines(&self) -> u32 {
        self.0.nodes()
    }

    fn nodes_of_each(&self) -> u32 {
        self.0.nodes()
    }

    fn completed(&self, engine: EngineId) -> Option<u32> {
        self.0.completed(engine.node_ordinal)
    }

    fn stop(&self) {
        self.0.stop();
    }
}

/// All clauses, of the interface and of the code. Some are only of drivers of a device model.
pub(super) fn all_clauses(has_model: bool) -> impl Iterator<Item = Words> {
    clauses().map(Clause::words).chain(of_code(has_model))
}

/// The clauses of the code of a driver in C.
fn of_code(has_model: bool) -> impl Iterator<Item = Words> {
    let words = |rule: &Rule| Words {
        id: rule.id(),
        family: Family::Code,
        rule: rule.text(),
        source: rule.source(),
    };
    Rule::ALL.iter().filter(move |rule| has_model || !rule.needs_model()).map(words)
}
