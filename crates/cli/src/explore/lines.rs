//! Output of an exploration: a line for each search, a summary, and on a terminal a bar with an
//! estimate.

use super::outcome::{Outcome, time_ns, what_is_wrong};
use super::selection::Selection;
use crate::streams::outln;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use tidegate::explorer::{Coverage, Report};
use tidegate::trace::duration;
use tidegate_scenarios::Plan;

/// Runs between two updates of the bar, because a run can be shorter than an update.
const RUNS_PER_DRAW: u64 = 256;

/// The lines and the bar of one exploration.
pub(super) struct Progress {
    /// On standard error; hidden if that is not a terminal.
    bar: ProgressBar,
    prints: bool,
}

/// A search that is running.
pub(super) struct Running<'p> {
    bar: &'p ProgressBar,
    name: String,
    runs: Cell<u64>,
    most_runs: u64,
}

impl Running<'_> {
    /// Counts a run of the search.
    pub(super) fn count_run(&self) {
        let runs = self.runs.get() + 1;
        self.runs.set(runs);
        if runs.is_multiple_of(RUNS_PER_DRAW) && !self.bar.is_hidden() {
            let (name, most) = (&self.name, self.most_runs);
            self.bar.set_message(format!("{name}: {runs} of at most {most} runs"));
        }
    }
}

impl Progress {
    /// Lines and a bar for so many searches; lines only if `prints`.
    pub(super) fn new(searches: usize, prints: bool) -> Progress {
        let bar = ProgressBar::new(searches as u64);
        let template = "{bar:20} {pos}/{len}, {elapsed} so far, about {eta} to go; {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar, prints }
    }

    fn line(&self, text: &str) {
        if self.prints {
            self.bar.suspend(|| outln!("{text}"));
        }
    }

    /// Prints the selection, and the head of the lines.
    pub(super) fn head(&self, selection: &Selection) {
        if let Some(note) = &selection.note {
            self.line(note);
        }
        self.line(&columns(["verdict", "runs", "states", "coverage", "time", "scenario"]));
    }

    /// Begins a search.
    pub(super) fn begin(&self, name: String, plan: &Plan) -> Running<'_> {
        self.bar.set_message(name.clone());
        Running { bar: &self.bar, name, runs: Cell::new(0), most_runs: plan.max_runs }
    }

    /// Prints the line of a search that has ended.
    pub(super) fn end(&self, outcome: &Outcome) {
        self.line(&line(outcome));
        self.bar.inc(1);
    }

    /// Prints the number of right searches, and the failures of the others.
    pub(super) fn summary(&self, outcomes: &[Outcome]) {
        self.bar.finish_and_clear();
        let count = |bug: bool, right: bool| {
            outcomes.iter().filter(|o| o.bug.is_some() == bug && (o.is_right() || !right)).count()
        };
        let elapsed_ns = u64::try_from(self.bar.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.line(&format!(
            "{} of {} scenarios without a failure, {} of {} planted bugs found, in {}",
            count(false, true),
            count(false, false),
            count(true, true),
            count(true, false),
            duration(elapsed_ns)
        ));
        for outcome in outcomes.iter().filter(|o| !o.is_right()) {
            self.line(&format!("\n{}: {}", outcome.name(), what_is_wrong(outcome)));
        }
        if let [Outcome { bug: Some(_), searched: Ok(Report { failure: Some(found), .. }), .. }] =
            outcomes
        {
            self.line(&format!("\n{}\n\n  tidegate replay '{}'", found.failure, found.shrunk_line));
        }
    }
}

/// The columns of a line; the name is last because it has no bound.
fn columns([verdict, runs, states, coverage, time, name]: [&str; 6]) -> String {
    format!("{verdict:13} {runs:>9} {states:>9}  {coverage:23} {time:>8}  {name}")
}

fn line(outcome: &Outcome) -> String {
    let verdict = verdict(outcome);
    match &outcome.searched {
        Ok(report) => {
            // A sampling strategy keeps no states.
            let states =
                if report.states == 0 { "-".to_owned() } else { report.states.to_string() };
            columns([
                verdict,
                &report.runs.to_string(),
                &states,
                &coverage(report),
                &duration(time_ns(report)),
                &outcome.name(),
            ])
        }
        Err(_) => columns([verdict, "-", "-", "-", "-", &outcome.name()]),
    }
}

fn coverage(report: &Report) -> String {
    match report.coverage {
        _ if report.failure.is_some() => "to the first failure".to_owned(),
        Coverage::UpToSwitches(switches) => format!("all up to {switches} switches"),
        other => other.to_string(),
    }
}

/// Marks a search that ended early.
fn verdict(outcome: &Outcome) -> &'static str {
    match (&outcome.searched, outcome.is_right()) {
        (Ok(_), true) if outcome.bug.is_some() => "found",
        (Ok(Report { coverage: Coverage::Sampled | Coverage::CutShort, .. }), true) => "no failure",
        (_, true) => "holds",
        (Ok(_), false) if outcome.bug.is_some() => "NOT FOUND",
        (Ok(report), false) if report.failure.is_none() => "SHOWS NOTHING",
        (_, false) => "FAILS",
    }
}
