//! The driver in C of a test's machine, and its findings after the run.

use std::path::Path;
use std::sync::Arc;
use tidegate::MakeDriver;
use tidegate_conform::{Family, Subject, Words};
use tidegate_ddi::{Driver, Injection};
use tidegate_ddi_c::{CDriver, CodeTest, Findings, Rule};
use tidegate_platform::{Mutex, Platform};

type Shared<T> = Arc<Mutex<Option<T>>>;

fn shared<T: Send>(name: &'static str) -> Shared<T> {
    Arc::new(Platform::host().mutex(name, None))
}

/// What makes the driver of a run, and where its findings are afterwards.
pub fn make(library: &Path) -> (MakeDriver, Shared<Findings>) {
    let (make, seen, _) = make_tested(library);
    (make, seen)
}

/// As [`make`], with the failure that is injected in the next driver.
fn make_tested(library: &Path) -> (MakeDriver, Shared<Findings>, Shared<Injection>) {
    let (seen, next) = (shared("findings of the test"), shared("failure of the test"));
    let (library, kept) = (library.to_owned(), Arc::clone(&seen));
    let injection: Shared<Injection> = Arc::clone(&next);
    let make: MakeDriver = Arc::new(move |bus, gpu| {
        let test = CodeTest { injection: injection.lock().take(), ..CodeTest::default() };
        let driver = CDriver::load_tested(bus.platform, bus.system_memory, &library, gpu, test);
        let driver = driver.map_err(|error| error.to_string())?;
        *kept.lock() = Some(driver.findings());
        Ok(Arc::new(driver) as Arc<dyn Driver>)
    });
    (make, seen, next)
}

/// The driver with the clauses for its code, to be examined.
pub fn subject(name: &str, library: &Path) -> Subject {
    let (make, seen, next) = make_tested(library);
    let of_code = |rule: &Rule| Words {
        id: rule.id(),
        family: Family::Code,
        rule: rule.text(),
        source: rule.source(),
    };
    let findings = move || {
        let found = seen.lock().take().map_or(Vec::new(), |findings| findings.broken());
        found.into_iter().map(|found| (found.rule.id(), found.text)).collect()
    };
    let subject = Subject::new(name, make);
    let subject = subject.with_findings(Rule::ALL.iter().map(of_code).collect(), findings);
    subject.with_injections(move |injection| *next.lock() = injection)
}
