//! The tables of a run: clauses, rows, peers. The terminal has them padded, and
//! `docs/performance-tables.md` as Markdown.

use crate::clause::GoalResult;
use crate::results::{AimedResult, PeerResult, Results};
use std::fmt::Write as _;
use tidegate_measure::{Shown, time};

/// How a table is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Markdown,
    Padded,
}

/// A table: its head, and rows of as many cells.
struct Grid(Vec<Vec<String>>);

impl Grid {
    fn new(head: &[&str]) -> Grid {
        Grid(vec![head.iter().map(|cell| (*cell).to_owned()).collect()])
    }

    fn text(mut self, form: Form) -> String {
        let columns = self.0[0].len();
        self.0.insert(1, vec!["---".to_owned(); columns]);
        let width = |column: usize| match form {
            Form::Markdown => 0,
            Form::Padded => {
                self.0.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
            }
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (number, row) in self.0.iter().enumerate() {
            text.push('|');
            for (cell, width) in row.iter().zip(&widths) {
                // Writing to a text cannot fail.
                let _ = match (number, form) {
                    (1, Form::Markdown) => write!(text, "{cell}|"),
                    (1, Form::Padded) => write!(text, " {} |", "-".repeat(*width)),
                    _ => write!(text, " {cell:width$} |"),
                };
            }
            text.push('\n');
        }
        text
    }
}

/// All tables that the results fill.
pub(crate) fn all(results: &Results, form: Form) -> String {
    let parts = [goals(&results.goals, form), rows(results, form), peers(results, form)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// The clauses, and how many are met; `None` if none is measured.
fn goals(goals: &[GoalResult], form: Form) -> Option<String> {
    let of_goals = || goals.iter().filter(|goal| !goal.stretch);
    let met = of_goals().filter(|goal| goal.met == Some(true)).count();
    let missed = of_goals().filter(|goal| goal.met == Some(false)).count();
    if goals.iter().all(|goal| goal.met.is_none()) {
        return None;
    }
    let mut grid =
        Grid::new(&["goal", "", "row", "against", "ratio", "of the passes", "limit", ""]);
    for goal in goals {
        let verdict = match (goal.met, &goal.note) {
            (Some(true), _) => "met",
            (Some(false), _) => "missed",
            // Most clauses are not measured when a filter chooses the rows.
            (None, _) if form == Form::Padded => continue,
            (None, Some(note)) => note,
            (None, None) => "not measured",
        };
        let end = |ratio: Option<f64>| ratio.map_or_else(|| "∞".to_owned(), number);
        let spread = goal.spread.map(|[least, most]| format!("{} to {}", end(least), end(most)));
        grid.0.push(vec![
            if goal.stretch { format!("{} (stretch)", goal.id) } else { goal.id.clone() },
            goal.text.clone(),
            goal.row.clone(),
            goal.against.clone(),
            goal.ratio.map_or_else(String::new, number),
            spread.unwrap_or_default(),
            format!("{} {}", goal.sense, number(goal.limit)),
            verdict.to_owned(),
        ]);
    }
    Some(format!(
        "## Goals\n\n{met} of {} clauses are met, {missed} are missed, {} are not measured. A stretch is beyond its goal\n\
         and not among them. A ratio `at least` says how many times better the row is.\n\n{}",
        of_goals().count(),
        of_goals().count() - met - missed,
        grid.text(form)
    ))
}

/// A ratio, with as many digits as say something.
fn number(value: f64) -> String {
    match value.abs() {
        100_000.0.. => format!("{value:.2e}"),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn rows(results: &Results, form: Form) -> Option<String> {
    let aimed = || results.rows.iter().filter_map(|row| row.times_off_goal);
    let mut grid =
        Grid::new(&["row", "median", "p99", "floor", "of the floor", "ratio", "goal", "verdict"]);
    for AimedResult { row, goal, times_off_goal, .. } in &results.rows {
        let Shown { median, p99, floor, ratio } = row.shown.clone();
        let verdict = match times_off_goal {
            None => String::new(),
            Some(..=1.0) => "met".to_owned(),
            Some(off @ ..=3.0) => format!("within 3x ({off:.1}x)"),
            Some(off @ ..100.0) => format!("off ({off:.1}x)"),
            Some(off) => format!("off ({off:.0}x)"),
        };
        let (name, floor_name) = (format!("`{}`", row.name), format!("`{}`", row.floor.name));
        let goal = goal.clone().unwrap_or_default();
        grid.0.push(vec![name, median, p99, floor_name, floor, ratio, goal, verdict]);
    }
    let share = results.rows.iter().map(|row| row.row.foreign_share).reduce(f64::max)?;
    let about = results.rows.iter().filter(|_| form == Form::Markdown);
    let about = about.map(|row| format!("- `{}`: {}\n", row.row.name, row.row.about));
    let about = match about.collect::<String>() {
        none if none.is_empty() => none,
        lines => format!("\nOne operation of each:\n\n{lines}"),
    };
    Some(format!(
        "## Rows\n\n{}; {} passes. {} of {} rows meet their goal.\n\
         Other programs used at most {:.0} % of the machine while a row was measured.\n\n{}{about}",
        results.machine,
        results.passes,
        aimed().filter(|off| *off <= 1.0).count(),
        aimed().count(),
        share * 100.0,
        grid.text(form)
    ))
}

/// Name of the count of an object's memory.
const BYTES_EACH: &str = "bytes of resident memory each";

/// The rows beside their peers; `None` for results without peers.
fn peers(results: &Results, form: Form) -> Option<String> {
    let beside = || results.rows.iter().flat_map(|row| row.peers.iter().map(move |p| (row, p)));
    beside().next()?;
    let faster = beside().filter(|(_, peer)| peer.times_faster >= 1.0).count();
    let mut text = format!(
        "## Peers\n\nEach is measured directly after its row. The row is faster in {faster} of {} pairs. Bytes are resident\n\
         memory of an object.\n\n",
        beside().count()
    );
    // Writing to a text cannot fail.
    for peer in &results.peers {
        let _ = writeln!(text, "- {}: {}", peer.name, peer.about);
    }
    for peer in &results.missing_peers {
        let _ = writeln!(text, "- {} is not measured: {}", peer.name, peer.why);
    }
    for AimedResult { row, no_peer, .. } in &results.rows {
        if let Some(why) = no_peer {
            let _ = writeln!(text, "- `{}` has no peer: {why}", row.name);
        }
    }
    let mut grid = Grid::new(&[
        "row",
        "median",
        "bytes",
        "peer",
        "calls",
        "median",
        "bytes",
        "the row is",
        "the peer does",
    ]);
    for (AimedResult { row, .. }, peer) in beside() {
        let PeerResult { median_ns, times_faster, bytes_each, .. } = peer;
        let bytes = |bytes: Option<&u64>| bytes.map_or_else(String::new, u64::to_string);
        let speed = match times_faster {
            times @ 1.0.. => format!("{times:.1}x faster"),
            times => format!("{:.1}x slower", 1.0 / times),
        };
        grid.0.push(vec![
            format!("`{}`", row.name),
            row.shown.median.clone(),
            bytes(row.counts.get(BYTES_EACH)),
            peer.peer.clone(),
            peer.calls.clone(),
            time(*median_ns),
            bytes(bytes_each.as_ref()),
            speed,
            peer.does.clone(),
        ]);
    }
    Some(format!("{text}\n{}", grid.text(form)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recorded run, with the results of a few rows and clauses changed.
    fn results() -> Results {
        let mut results: Results =
            serde_json::from_str(include_str!("../performance.json")).unwrap();
        results.goals.retain(|goal| ["1a", "1b", "1f", "5h"].contains(&goal.id.as_str()));
        results.goals[0].spread = Some([Some(1.1), None]);
        results.rows.truncate(2);
        results.rows[0].times_off_goal = Some(2.84);
        results.rows[1].goal = None;
        results.rows[1].times_off_goal = None;
        results.rows[1].no_peer = Some("as it is".to_owned());
        results
    }

    #[test]
    fn clauses_rows_and_peers_have_a_table_each() {
        let text = all(&results(), Form::Markdown);
        for line in [
            "1 of 2 clauses are met, 1 are missed, 0 are not measured.",
            "| 1.60 | 1.10 to ∞ | at most 1.50 | missed |",
            "| 1f (stretch) |",
            "|  |  | at most 1.00 | not measured: the barrier is",
            "0 of 1 rows meet their goal.",
            "| `doorbell_round_trip` | 521 ns | 1.60x | ≤ 1.5x | within 3x (2.8x) |",
            "| 10.16x |  |  |",
            "- `submissions_streamed` has no peer: as it is",
            "x faster | less: no queue",
            "x slower | less: no queue",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let padded = all(&results(), Form::Padded);
        assert!(!padded.contains("5h"), "a terminal leaves out what is not measured: {padded}");
        let widths = padded.lines().filter(|line| line.starts_with('|')).map(|l| l.chars().count());
        assert_eq!(widths.collect::<std::collections::BTreeSet<_>>().len(), 3, "{padded}");
    }
}
