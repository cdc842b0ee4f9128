//! The driver in C of a test's machine, and its findings after the run.

use std::path::Path;
use std::sync::Arc;
use tidegate::MakeDriver;
use tidegate_ddi::Driver;
use tidegate_ddi_c::{CDriver, Findings};
use tidegate_platform::{Mutex, Platform};

/// What makes the driver of a run, and where its findings are afterwards.
pub fn make(library: &Path) -> (MakeDriver, Arc<Mutex<Option<Findings>>>) {
    let seen: Arc<Mutex<Option<Findings>>> =
        Arc::new(Platform::host().mutex("findings of the test", None));
    let (library, kept) = (library.to_owned(), Arc::clone(&seen));
    let make: MakeDriver = Arc::new(move |platform, gpu| {
        let driver = CDriver::load(platform, &library, gpu).map_err(|error| error.to_string())?;
        *kept.lock() = Some(driver.findings());
        Ok(Arc::new(driver) as Arc<dyn Driver>)
    });
    (make, seen)
}
