//! Situations in drawn orders: the reference driver keeps every clause, and a finding names the
//! seed that repeats it.

use std::collections::BTreeSet;
use tidegate::variants;
use tidegate_conform::{Report, Selection, Subject, clause, examine};

fn in_orders(subject: &Subject, situations: &[&str], seeds: Vec<u64>) -> Report {
    let situations = situations.iter().map(ToString::to_string).collect();
    examine(subject, &Selection { situations, seeds, ..Selection::default() }).unwrap()
}

fn keeps_every_clause(adapter: &str, seeds: std::ops::Range<u64>) {
    let subject = Subject::reference(Some(variants::find(adapter).unwrap()));
    for seed in seeds {
        let report = in_orders(&subject, &[], vec![seed]);
        assert!(report.conforms(), "{adapter}: {}", report.text());
    }
}

#[test]
fn the_reference_driver_keeps_every_clause_in_other_orders() {
    keeps_every_clause("standard", 1..9);
}

#[test]
fn the_reference_driver_keeps_every_clause_with_managed_power() {
    keeps_every_clause("managed-power", 9..13);
}

/// In these orders the first DPC of the hang comes while the adapter stops.
#[test]
fn the_reference_driver_keeps_every_clause_with_one_doorbell() {
    keeps_every_clause("one-doorbell", 16..17);
    let subject = Subject::reference(None);
    let report = in_orders(&subject, &["hw-hang", "user-hang", "packets"], vec![11, 16, 49]);
    assert!(report.conforms(), "{}", report.text());
}

#[test]
fn a_finding_names_its_seed_and_is_the_same_again() {
    let subject = Subject::reference(None).with_mistake(clause("packets-known").unwrap());
    let report = in_orders(&subject, &["packets"], vec![0, 3, 4]);
    let row = report.broken().next().unwrap();
    let seeds: Vec<u64> = row.findings.iter().map(|finding| finding.seed).collect();
    assert_eq!(seeds, [0, 3, 4]);
    let times: BTreeSet<u64> = row.findings.iter().map(|finding| finding.at_ns).collect();
    assert_eq!(times.len(), 3, "each seed is another order");
    assert!(row.text().contains("in 'packets' (seed 3) at"), "{}", row.text());
    let again = in_orders(&subject, &["packets"], vec![3]);
    let again = again.broken().next().unwrap();
    assert_eq!(again.findings[0].what, row.findings[1].what);
    assert_eq!(again.findings[0].at_ns, row.findings[1].at_ns);
    assert!(again.text().contains("again: --family packets --situation packets --seed 3"));
}
