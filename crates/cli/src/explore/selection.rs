//! Selects the scenarios of an exploration by name, part of a name, or pattern.

use crate::BadInput;
use crate::streams::outln;
use glob::Pattern;
use tidegate::explorer::Scenario;
use tidegate_scenarios::{Setting, all, find, plan, settings};

/// The searches of an exploration: scenarios, each followed by its selected planted bugs.
pub(super) struct Selection {
    pub(super) searches: Vec<Box<dyn Scenario>>,
    /// A note on the selection by a part of a name or a pattern.
    pub(super) note: Option<String>,
}

/// `NAME`, or `NAME+BUG` with a planted bug.
pub(super) fn full_name(scenario: &dyn Scenario) -> String {
    match scenario.bug() {
        Some(bug) => format!("{}+{bug}", scenario.name()),
        None => scenario.name().to_owned(),
    }
}

/// Selects by a whole name, else by a pattern, else by a part of names; without a filter,
/// everything.
///
/// # Errors
///
/// A filter that selects nothing, with the nearest name.
pub(super) fn select(filter: Option<&str>) -> Result<Selection, BadInput> {
    let everything: Vec<Box<dyn Scenario>> = all().into_iter().flat_map(with_bugs).collect();
    let Some(filter) = filter else { return Ok(Selection { searches: everything, note: None }) };
    if let Some(searches) = by_whole_name(filter)? {
        return Ok(Selection { searches, note: None });
    }
    let pattern = match filter.contains(['*', '?', '[']) {
        true => Some(Pattern::new(filter).map_err(|e| {
            BadInput(format!("pattern '{filter}': {e}; use *, ? and [a-z], or a part of a name"))
        })?),
        false => None,
    };
    let is_match =
        |name: &str| pattern.as_ref().map_or_else(|| name.contains(filter), |p| p.matches(name));
    let of_all = everything.len();
    let mut searches = everything;
    searches
        .retain(|scenario| is_match(scenario.name()) || is_match(&full_name(scenario.as_ref())));
    if searches.is_empty() {
        return Err(unknown_scenario(filter));
    }
    let bugs = searches.iter().filter(|scenario| scenario.bug().is_some()).count();
    let note = format!(
        "'{filter}' selects {} of {of_all} searches: {} scenarios, {bugs} planted bugs",
        searches.len(),
        searches.len() - bugs
    );
    Ok(Selection { searches, note: Some(note) })
}

/// A scenario with all its planted bugs, or with the bug after `+`; `None` if no scenario has the
/// name.
fn by_whole_name(filter: &str) -> Result<Option<Vec<Box<dyn Scenario>>>, BadInput> {
    let (name, bug) = match filter.split_once('+') {
        Some((name, bug)) => (name, Some(bug)),
        None => (filter, None),
    };
    let Some(scenario) = find(name) else { return Ok(None) };
    let Some(bug) = bug else { return Ok(Some(with_bugs(scenario))) };
    if let Some(broken) = scenario.with_bug(bug) {
        return Ok(Some(vec![broken]));
    }
    let names: Vec<&str> = scenario.planted().iter().map(|planted| planted.name).collect();
    if bug.contains(['*', '?', '[']) || names.iter().any(|name| name.contains(bug)) {
        return Ok(None);
    }
    let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let hint = did_you_mean(bug, &names);
    Err(BadInput(format!("scenario '{name}' has no planted bug '{bug}'; it has: {has}{hint}")))
}

/// A scenario, then the same with each of its bugs.
fn with_bugs(scenario: Box<dyn Scenario>) -> Vec<Box<dyn Scenario>> {
    let mut all: Vec<_> =
        scenario.planted().iter().filter_map(|b| scenario.with_bug(b.name)).collect();
    all.insert(0, scenario);
    all
}

/// The scenario `name`, with its planted bug `bug`.
///
/// # Errors
///
/// A scenario or a bug that no longer exists.
pub(super) fn named(name: &str, bug: Option<&str>) -> Result<Box<dyn Scenario>, BadInput> {
    let plain = find(name);
    let found = match bug {
        Some(bug) => plain.and_then(|scenario| scenario.with_bug(bug)),
        None => plain,
    };
    found.ok_or_else(|| BadInput(format!("scenario '{name}' is not what it was")))
}

/// The error for a name that no scenario has.
pub(super) fn unknown_scenario(name: &str) -> BadInput {
    let scenarios = all();
    let names: Vec<&str> = scenarios.iter().map(|scenario| scenario.name()).collect();
    let hint = did_you_mean(name, &names);
    BadInput(format!(
        "no scenario matches '{name}'{hint}; `tidegate explore --list` shows all of them"
    ))
}

/// `; did you mean 'x'?` if one of `names` is near.
fn did_you_mean(wanted: &str, names: &[&str]) -> String {
    let nearest = tidegate::workload::nearest_name(wanted, names);
    nearest.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

impl Selection {
    /// Prints the selection: scenarios with descriptions, and planted bugs below them.
    pub(super) fn list(&self) {
        if let Some(note) = &self.note {
            outln!("{note}");
        }
        let mut shown = "";
        for scenario in &self.searches {
            if shown != scenario.name() {
                shown = scenario.name();
                let plans = (plan(shown, false), plan(shown, true));
                outln!("{shown}: {}; with --full {}\n    {}", plans.0, plans.1, scenario.about());
                match settings(shown) {
                    Some(own) => own.iter().for_each(list_setting),
                    None => outln!("    a model of one protocol, without a machine"),
                }
            }
            if let Some(bug) = scenario.bug() {
                let about =
                    scenario.planted().iter().find(|p| p.name == bug).map_or("", |p| p.about);
                outln!("    +{bug}: {about}");
            }
        }
    }
}

/// Prints a setting in which a machine differs from the one that ships.
fn list_setting(setting: &Setting) {
    outln!("    differs: {} ({})", setting.what, setting.why);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filter: &str) -> Vec<String> {
        let selected =
            select(Some(filter)).map_or_else(|_| Vec::new(), |selection| selection.searches);
        selected.iter().map(|scenario| full_name(scenario.as_ref())).collect()
    }

    #[test]
    fn a_name_that_is_nearly_right_is_suggested() {
        let text = |wanted: &str| match select(Some(wanted)) {
            Ok(_) => String::new(),
            Err(BadInput(text)) => text,
        };
        assert!(text("seven-statoins").contains("did you mean 'seven-stations'?"));
        assert!(!text("nothing at all").contains("did you mean"));
        assert!(text("litmus+no-gpu-barier").contains("did you mean 'no-gpu-barrier'?"));
        assert!(text("two-signallers+any").contains("it has: none"));
        assert!(text("litmus[").contains("pattern 'litmus['"));
        assert_eq!(
            (text("seven-stations"), text("litmus-2x2+no-resample")),
            (String::new(), String::new())
        );
    }

    #[test]
    fn every_planted_bug_of_a_scenario_follows_it() {
        let with_bugs =
            ["litmus", "litmus+no-resample", "litmus+no-gpu-barrier", "litmus+no-cpu-barrier"];
        assert_eq!(names("litmus"), with_bugs, "a whole name selects that scenario alone");
    }

    #[test]
    fn parts_and_patterns_select_scenarios_and_planted_bugs() {
        let doorbell = names("doorbell");
        assert!(doorbell.contains(&"adapter-reset-against-doorbell".to_owned()), "{doorbell:?}");
        assert!(doorbell.iter().all(|name| name.contains("doorbell")), "{doorbell:?}");
        assert!(names("ring-against-*").contains(&"ring-against-victimise".to_owned()));
        assert_eq!(names("victimise")[0], "ring-against-victimise");
        assert_eq!(
            names("litmus+no-?pu-barrier"),
            ["litmus+no-gpu-barrier", "litmus+no-cpu-barrier"]
        );
        let note =
            select(Some("litmus+*")).ok().and_then(|selection| selection.note).unwrap_or_default();
        assert!(
            note.contains("'litmus+*' selects 3 of ") && note.contains("0 scenarios, 3 planted"),
            "{note}"
        );
    }
}
