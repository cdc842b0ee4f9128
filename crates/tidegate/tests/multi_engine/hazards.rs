//! The hazard check on the ready workloads: silent as they stand, and naming the edge when one of
//! their waits is left out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::platform::hazard::Report;
use tidegate::workload::expect::Clock;
use tidegate::workload::model::Workload;
use tidegate::workload::{LoadOptions, load_bytes};
use tidegate::{RunRequest, Submission, d3d12::Validation, run_workload};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads")
}

fn load(file: &Path) -> Workload {
    let bytes = std::fs::read(file).unwrap();
    let name = file.file_name().unwrap().to_string_lossy();
    let loaded = load_bytes(&bytes, &name, &LoadOptions::default());
    loaded.unwrap_or_else(|error| panic!("{}: {error}", file.display())).0
}

fn check(workload: Workload, submission: Option<Submission>) -> Report {
    let request = RunRequest {
        submission,
        validation: Validation::HAZARDS,
        ..RunRequest::new(Arc::new(workload), Clock::Virtual)
    };
    run_workload(&request).unwrap().hazards.expect("the check was on")
}

#[test]
fn the_ready_workloads_have_no_hazard() {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert!(files.len() > 10);
    for file in files {
        let report = check(load(&file), None);
        eprintln!("{}: {} hints: {:#?}", file.display(), report.hazards.len(), report.hints);
        assert!(report.is_clean(), "{}:\n{report}", file.display());
    }
}
