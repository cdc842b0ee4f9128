//! Injected failures of memory: an allocation of pool or of contiguous memory returns NULL.
//!
//! An entry that may fail for memory is tried once: it is called with each of its allocations
//! failing in turn, twice each, until it goes on without one. What a call leaks shows in the
//! second, because the first may fill what a driver keeps. Another entry is called as usual, and
//! its first allocation fails.

use crate::CDriver;
use crate::host::Host;
use crate::rule::Rule;
use tidegate_ddi::{Injection, Status};

/// The entries that create an object.
const OBJECTS: &[&str] = &[
    "DxgkDdiCreateProcess",
    "DxgkDdiCreateDevice",
    "DxgkDdiCreateContext",
    "DxgkDdiCreateAllocation",
    "DxgkDdiCreateHwContext",
    "DxgkDdiCreateHwQueue",
    "DxgkDdiCreateNativeFence",
    "DxgkDdiOpenNativeFence",
    "DxgkDdiCreateDoorbell",
];

/// The entries that get work and must not fail for memory.
const WORK: &[&str] = &[
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiPatch",
    "DxgkDdiSubmitCommand",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiSubmitCommandToHwQueue",
    "DxgkDdiPreemptCommand",
    "DxgkDdiQueryCurrentFence",
    "DxgkDdiSetVidPnSourceAddress",
];

/// Allocations of one call that fail in turn.
const MOST_ALLOCATIONS: u32 = 64;

/// The statuses of an entry that fails for memory.
const OUT_OF_MEMORY: [Status; 2] = [Status::NO_MEMORY, Status::INSUFFICIENT_RESOURCES];

impl Host {
    fn is_tried(&self, entries: &[&str], entry: &str) -> bool {
        entries.contains(&entry) && !self.trial.lock_device().has_tried(entry)
    }

    fn note_tried(&self, entry: &'static str) {
        self.trial.lock_device().note_tried(entry);
    }

    /// Calls with this allocation failing. Returns whether the call came to it.
    fn with_failure<R>(&self, number: u32, call: impl FnOnce() -> R) -> (R, bool) {
        self.trial.lock_device().begin(number);
        let result = call();
        let failed = self.trial.lock_device().end();
        (result, failed)
    }
}

impl CDriver {
    /// Calls an entry, with failures if they are injected there.
    pub(crate) fn call_without_memory(
        &self,
        entry: &'static str,
        mut call: impl FnMut() -> Result<Status, Status>,
    ) -> Result<Status, Status> {
        let host = self.host();
        let entries: &[&str] = match host.injection {
            Some(Injection::MemoryOfStart) => &["DxgkDdiStartDevice"],
            Some(Injection::MemoryOfObjects) => OBJECTS,
            Some(Injection::MemoryOfWork) => WORK,
            Some(Injection::Synchronize) | None => return call(),
        };
        if !host.is_tried(entries, entry) {
            return call();
        }
        if host.injection == Some(Injection::MemoryOfWork) {
            return self.call_with_work(entry, call);
        }
        host.note_tried(entry);
        let failed = self.fail_each_allocation(entry, &mut call);
        let result = failed.unwrap_or_else(&mut call);
        if let Err(status) = result {
            let what = format!("{entry} failed again when there was memory: {status}");
            host.violation(Rule::MemoryAgain, what);
        }
        result
    }

    /// Calls with each allocation failing in turn. Returns the result of a call that was not for
    /// memory.
    fn fail_each_allocation(
        &self,
        entry: &'static str,
        call: &mut impl FnMut() -> Result<Status, Status>,
    ) -> Option<Result<Status, Status>> {
        let host = self.host();
        for number in 0..MOST_ALLOCATIONS {
            let mut held = [0; 2];
            for held in &mut held {
                let (result, failed) = host.with_failure(number, &mut *call);
                let status = match result {
                    Err(status) if failed => status,
                    result => return Some(result),
                };
                *held = host.memory_held();
                if !OUT_OF_MEMORY.contains(&status) {
                    let what = format!("{entry} without memory returned {status}");
                    host.violation(Rule::MemoryStatus, what);
                }
            }
            let [before, now] = held;
            if now > before {
                let what = format!(
                    "{entry} without memory for its allocation {number} left {} blocks or mappings",
                    now - before
                );
                host.violation(Rule::MemoryLeft, what);
            }
        }
        None
    }

    /// Calls an entry that must go on. Its first allocation fails.
    fn call_with_work(
        &self,
        entry: &'static str,
        call: impl FnOnce() -> Result<Status, Status>,
    ) -> Result<Status, Status> {
        let host = self.host();
        let (result, failed) = host.with_failure(0, call);
        if failed {
            host.note_tried(entry);
            if let Err(status) = result {
                let what = format!("{entry} without memory returned {status}");
                host.violation(Rule::MemoryOfWork, what);
            }
        }
        result
    }
}
