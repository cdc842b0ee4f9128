//! The reference driver keeps every clause, and each planted mistake breaks its clause and no
//! other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::variants;
use tidegate::workload::model::Workload;
use tidegate::workload::{self, LoadOptions};
use tidegate_conform::{
    Clause, Family, Report, Selection, Subject, Verdict, clause, clauses, examine,
};

fn broken(report: &Report) -> BTreeSet<&'static str> {
    report.broken().map(|row| row.clause.id).collect()
}

/// Each clause is reached on the machine on which its twin is tried.
#[test]
fn the_reference_driver_keeps_every_clause_on_every_adapter() {
    let mut not_reached: BTreeSet<&str> = clauses().map(|clause| clause.id).collect();
    for variant in variants::ALL {
        let report = examine(&Subject::reference(Some(variant)), &Selection::default()).unwrap();
        assert!(report.conforms(), "{}: {}", variant.name, report.text());
        for row in report.rows.iter().filter(|row| row.verdict == Verdict::Kept) {
            let adapter = clause(row.clause.id).unwrap().adapter().unwrap_or("standard");
            if adapter == variant.name {
                not_reached.remove(row.clause.id);
            }
        }
    }
    assert_eq!(not_reached, BTreeSet::new());
}

/// Returns the clauses that the twin of a clause breaks, and the text of its report.
fn twin(clause: &'static Clause) -> (BTreeSet<&'static str>, String) {
    let adapter = clause.adapter().map(|name| variants::find(name).unwrap());
    let subject = Subject::reference(adapter).with_mistake(clause);
    let selection = Selection {
        situations: clause.situations().iter().map(ToString::to_string).collect(),
        ..Selection::default()
    };
    let report = examine(&subject, &selection).unwrap();
    (broken(&report), report.text())
}

#[test]
fn each_planted_mistake_breaks_its_clause_and_no_other() {
    let mut wrong = Vec::new();
    for clause in clauses() {
        let expected: BTreeSet<&str> =
            std::iter::once(clause.id).chain(clause.also().iter().copied()).collect();
        let (broken, text) = twin(clause);
        if broken != expected {
            wrong.push(format!("{}: {broken:?}, expected {expected:?}\n{text}", clause.id));
        }
    }
    assert!(wrong.is_empty(), "{} of the twins:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn clauses_have_different_ids_that_begin_with_their_family() {
    let ids: Vec<&str> = clauses().map(|clause| clause.id).collect();
    let different: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), different.len());
    for clause in clauses() {
        assert!(clause.id.starts_with(clause.family.name()), "{}", clause.id);
    }
}

/// A source is a requirement of `spec/`, or a published page.
#[test]
fn sources_are_requirements_or_pages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let spec: String = files.map(|path| fs::read_to_string(path).unwrap()).collect();
    for clause in clauses() {
        for source in clause.source.split(", ").filter(|source| !source.starts_with("page ")) {
            let known =
                source.starts_with("reference: ") || spec.contains(&format!("id = \"{source}\""));
            assert!(known, "{}: {source}", clause.id);
        }
    }
}

/// Workloads that were not made for the clauses find nothing in the reference driver.
#[test]
fn no_clause_is_broken_by_other_workloads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|of| of == "toml"));
    let load = |path: PathBuf| Arc::new(workload::load(&path, &LoadOptions::default()).unwrap().0);
    // The long ones are tried by the command.
    let long = ["stress-many-queues", "frame-graph"];
    let short = |workload: &Arc<Workload>| !long.contains(&workload.name.as_str());
    let workloads: Vec<Arc<Workload>> = files.map(load).filter(short).collect();
    assert!(workloads.len() >= 10);
    for adapter in ["standard", "one-doorbell", "managed-power"] {
        let subject = Subject::reference(Some(variants::find(adapter).unwrap()));
        let selection = Selection { workloads: workloads.clone(), ..Selection::default() };
        let report = examine(&subject, &selection).unwrap();
        assert!(report.conforms(), "{adapter}: {}", report.text());
        let ran = |of: &Arc<Workload>| report.ran.contains(&format!("{} (packet)", of.name));
        assert!(workloads.iter().all(ran), "{adapter}: {}", report.text());
    }
}

/// A refused start and a stopped adapter are reported, also where no selected clause names them.
#[test]
fn what_no_selected_clause_names_is_reported() {
    for (mistake, situation, expected) in [
        ("statuses-StartDevice", "packets", "the driver refused to start"),
        ("statuses-PreemptCommand", "hang", "DxgkDdiPreemptCommand failed"),
    ] {
        let subject = Subject::reference(None).with_mistake(clause(mistake).unwrap());
        let selection = Selection {
            families: vec![Family::Power],
            situations: vec![situation.to_owned()],
            ..Selection::default()
        };
        let report = examine(&subject, &selection).unwrap();
        assert!(!report.conforms());
        assert!(report.text().contains(expected), "{}", report.text());
    }
}
