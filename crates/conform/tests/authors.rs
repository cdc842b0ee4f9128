//! Mistakes that authors of drivers have made: the table of `docs/conformance.md` names clauses
//! that exist, and mistakes that no twin makes are found by the clause that the table names.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tidegate::ddi::{
    CallbackLayer, Callbacks, Dirql, Driver, InterruptData, Overrides, StartInfo, Status,
};
use tidegate::kmd::ReferenceDriver;
use tidegate::platform::Mutex;
use tidegate::{MachineConfig, MakeDriver, Platform};
use tidegate_conform::{Selection, Subject, clauses, examine};

fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Returns the clauses that the table of the page names, by row.
fn table() -> Vec<(String, Vec<String>)> {
    let page = file("docs/conformance.md");
    let rows = page.split("| seen by an author | clause |\n|---|---|\n").nth(1).unwrap();
    let rows = rows.split("\n\n").next().unwrap().lines();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        let [mistake, ids] = cells[..] else { panic!("{line}") };
        let ids = ids.split(", ").map(|id| id.trim().trim_matches('`').to_owned());
        (mistake.trim().to_owned(), ids.collect())
    };
    rows.map(row).collect()
}

#[test]
fn the_table_of_mistakes_names_clauses_that_exist() {
    let rules = file("crates/ddi-c/src/rule.rs");
    let mut known: BTreeSet<&str> = clauses().map(|clause| clause.id).collect();
    known.extend(rules.split('"').filter(|word| word.starts_with("code-")));
    let table = table();
    assert!(table.len() >= 50, "{} mistakes", table.len());
    let different: BTreeSet<&String> = table.iter().map(|(mistake, _)| mistake).collect();
    assert_eq!(different.len(), table.len());
    for (mistake, ids) in &table {
        assert!(!ids.is_empty());
        let unknown = ids.iter().find(|id| !known.contains(id.as_str()));
        assert_eq!(unknown, None, "{mistake}");
    }
}

/// Makes the reference driver behind a layer.
fn behind(layer: impl Fn(Overrides) -> Overrides + Send + Sync + 'static) -> MakeDriver {
    Arc::new(move |bus, gpu| {
        let config = MachineConfig::standard(bus.platform).driver;
        let driver = ReferenceDriver::new(bus.platform, gpu, config) as Arc<dyn Driver>;
        Ok(layer(Overrides::default()).before(driver))
    })
}

/// Finds a mistake of the reference driver in a situation.
#[track_caller]
fn finds(
    clause: &'static str,
    situation: &str,
    layer: impl Fn(Overrides) -> Overrides + Send + Sync + 'static,
) {
    assert!(table().iter().any(|(_, ids)| ids.iter().any(|id| id == clause)), "{clause}");
    let selection = Selection { situations: vec![situation.to_owned()], ..Selection::default() };
    let report = examine(&Subject::new("of an author", behind(layer)), &selection).unwrap();
    let broken: Vec<_> = report.broken().map(|row| row.clause.id).collect();
    assert!(broken.contains(&clause), "{broken:?}: {}", report.text());
}

/// Reports of a driver that are changed.
struct Changed {
    inner: Arc<dyn Callbacks>,
    change: fn(InterruptData) -> InterruptData,
}

impl CallbackLayer for Changed {
    fn inner(&self) -> &dyn Callbacks {
        &*self.inner
    }

    fn notify_interrupt(&self, level: &Dirql<'_>, data: InterruptData) {
        self.inner.notify_interrupt(level, (self.change)(data));
    }
}

fn reporting(overrides: Overrides, change: fn(InterruptData) -> InterruptData) -> Overrides {
    overrides.start_device(move |inner, level, start| {
        let callbacks = Arc::new(Changed { inner: Arc::clone(&start.callbacks), change });
        inner.start_device(level, StartInfo { callbacks, ..start })
    })
}

fn counter() -> Arc<Mutex<u32>> {
    Arc::new(Platform::host().mutex("calls of a mistake", 0))
}

fn count(calls: &Mutex<u32>) -> u32 {
    let mut calls = calls.lock_device();
    *calls += 1;
    *calls
}

#[test]
fn a_full_ring_is_no_reason_to_refuse_a_packet() {
    finds("statuses-SubmitCommandVirtual", "packets", |overrides| {
        let calls = counter();
        overrides.submit_command_virtual(move |inner, level, args| match count(&calls) {
            4 => Err(Status::INSUFFICIENT_RESOURCES),
            _ => inner.submit_command_virtual(level, args),
        })
    });
}

#[test]
fn half_of_hardware_queues_is_found() {
    finds("statuses-SubmitCommandToHwQueue", "hw-queues", |overrides| {
        overrides.submit_command_to_hw_queue(|_, _, _| Err(Status::NOT_SUPPORTED))
    });
}

#[test]
fn contexts_that_are_not_implemented_are_found() {
    finds("statuses-CreateContext", "packets", |overrides| {
        overrides.create_context(|_, _, _| Err(Status::NOT_IMPLEMENTED))
    });
}

#[test]
fn preemption_that_is_declared_only_is_found() {
    finds("statuses-PreemptCommand", "preemption", |overrides| {
        overrides.preempt_command(|_, _, _| Err(Status::NOT_SUPPORTED))
    });
    finds("preemption-answered", "preemption", |overrides| {
        overrides.preempt_command(|_, _, _| Ok(()))
    });
    finds("statuses-QueryCurrentFence", "packets-lost", |overrides| {
        overrides.query_current_fence(|_, _, _| Err(Status::NOT_SUPPORTED))
    });
}

#[test]
fn recovery_that_is_not_supported_is_found() {
    finds("statuses-ResetFromTimeout", "hang-adapter", |overrides| {
        overrides.reset_from_timeout(|_, _| Err(Status::NOT_SUPPORTED))
    });
    finds("statuses-CollectDbgInfo", "hang", |overrides| {
        overrides.collect_debug_info(|_, _, _, _| Err(Status::NOT_IMPLEMENTED))
    });
}

/// The fault of a job is reported as its end.
#[test]
fn a_fault_that_ends_as_a_completion_is_found() {
    finds("packets-finished", "packets-fault", |overrides| {
        reporting(overrides, |data| match data {
            InterruptData::DmaPageFaulted { engine, faulted_fence_id, .. } => {
                InterruptData::DmaCompleted { engine, submission_fence_id: faulted_fence_id }
            }
            data => data,
        })
    });
}
