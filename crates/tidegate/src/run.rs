//! Runs a workload on a machine of its own.
pub struct RunError; pub struct RunRequest; pub struct RunResult;
pub fn run_workload() {}
