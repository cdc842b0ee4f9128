//! What the tests of all importers do with a recording.

use crate::model::Workload;
use crate::recording::{ImportReport, Source};
use crate::{LoadOptions, Loaded, load_bytes};

/// Reads a recording, which must be one of `source`.
pub fn read(bytes: &[u8], file: &str, source: Source) -> Workload {
    let (workload, kind) =
        load_bytes(bytes, file, &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(kind, Loaded::Recording(source));
    workload
}

/// Returns the report of the import.
pub fn report(workload: &Workload) -> &ImportReport {
    &workload.recorded.as_ref().unwrap().report
}
