//! Programs on threads of the host, beside a watchdog. A hunt runs each program in a process of its
//! own (`children`).
//!
//! Entry point: [`run_watched`].

use crate::program::Program;
use crate::run::{self, Outcome};
use crate::watchdog::watch;
use std::sync::Arc;
use tidegate::Platform;

/// Returns the platform of a run on threads.
pub fn platform(program: &Program) -> Platform {
    if program.served { Platform::sharing_host() } else { Platform::host() }
}

/// Runs a program on threads under the watchdog.
pub fn run_watched(platform: &Platform, program: &Arc<Program>) -> Outcome {
    run::run_beside(platform, program, watch)
}
