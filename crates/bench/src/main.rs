//! `tidegate-bench`: the laboratory of the project's own performance goals.
//!
//! It measures all rows pass by pass beside their floors, with `--peers` beside other
//! implementations, computes the clauses of the goals, and draws curves. A run fails by a count
//! that must not happen, and not by a missed goal. `docs/performance.md` explains the rows.
//!
//! Rooms: `aim` (goals and counterparts of a row) · `rows` (what is measured) · `floors` (beside
//! what) · `peer` (the peers' program) · `operations` (for counts of instructions) · `clause`,
//! `clauses` and `goals` · `curves` and `chart` · `results` (JSON) · `tables`. The measuring itself
//! is `tidegate-measure`.

/// An explored schedule and a machine of virtual time make and free many small blocks
/// (decisions/0136).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod aim;
mod chart;
mod clause;
mod clauses;
mod curves;
mod floors;
mod goals;
mod operations;
mod peer;
mod results;
mod rows;
mod sizes;
mod tables;

use aim::{Aimed, Counterpart};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use peer::{PeerMeasured, Peers};
use results::{Beside, Results, Taken};
use rows::all_rows;
use rows::service::{Role, play};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::Form;
use tidegate_measure::{Finished, Found, Pass, Scale, choose, needs_two_processors};

/// Measures tidegate against its own goals.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  cargo run -p tidegate-bench --release                     all rows, 3 passes
  cargo run -p tidegate-bench --release -- chain --peers    rows named chain, beside the peers
  cargo run -p tidegate-bench --release -- --peers --passes 5 --json crates/bench/performance.json
  cargo run -p tidegate-bench --release -- --curves curves  growth, as SVG files

Build the peers first: cargo build --release -p tidegate-peers --features all
Exit codes: 0 measured; 1 a count differs from its only right value, or a row cannot be measured;
2 bad arguments, or no processors 0 and 1. A missed goal is no failure.
Takes about a minute a pass; leave the machine at rest.")]
struct Arguments {
    /// Rows, or curves, whose name contains this (default: all)
    filter: Option<String>,
    /// Write rows, goals and peers as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Passes, 1 to 99; the median pass counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    passes: u8,
    /// Measure the peers that are installed after each row that has some
    #[arg(long)]
    peers: bool,
    /// Measure growth instead of rows, and write a curve of each kind as DIR/NAME.svg
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "passes"])]
    curves: Option<PathBuf>,
    /// Measure nothing; write the tables of this JSON to standard output as Markdown
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "curves", "filter"])]
    tables: Option<PathBuf>,
    /// Divide the operations and objects of the rows by this, where they can be fewer
    #[arg(long, value_name = "N", default_value_t = 1, hide = true)]
    divide: u64,
    /// Do one operation --times times and nothing else, for counts of instructions
    #[arg(long, value_name = "NAME", hide = true)]
    operation: Option<String>,
    #[arg(long, value_name = "N", default_value_t = 1_000, hide = true)]
    times: u64,
    /// Be a process of a row, at a socket, until it is killed
    #[arg(long, hide = true, requires = "socket")]
    role: Option<Role>,
    #[arg(long, hide = true)]
    socket: Option<PathBuf>,
}

/// Why a run gives no results.
enum Failure {
    /// Bad arguments or a machine that cannot measure.
    Input(String),
    /// A row could not be measured, or a count is wrong.
    Run(String),
}

fn main() -> ExitCode {
    let (code, what) = match run(&Arguments::parse()) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Input(what)) => (2, what),
        Err(Failure::Run(what)) => (1, what),
    };
    eprintln!("tidegate-bench: {what}");
    ExitCode::from(code)
}

fn input(error: impl ToString) -> Failure {
    Failure::Input(error.to_string())
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(operation) = &arguments.operation {
        return operations::run(operation, arguments.times).map_err(input);
    }
    if let (Some(role), Some(socket)) = (arguments.role, &arguments.socket) {
        return play(role, socket).map_err(input);
    }
    if let Some(file) = &arguments.tables {
        print!("{}", tables_of(file).map_err(input)?);
        return Ok(());
    }
    let filter = arguments.filter.as_deref().unwrap_or("");
    let (curves, rows) = match &arguments.curves {
        Some(_) => (curves::choose(filter).map_err(input)?, Vec::new()),
        None => (Vec::new(), chosen(filter).map_err(input)?),
    };
    needs_two_processors().map_err(input)?;
    if cfg!(debug_assertions) {
        eprintln!("tidegate-bench: a debug build; its figures say nothing: build with --release");
    }
    let mut peers = arguments.peers.then(peers_or_line).flatten();
    let scale = Scale(arguments.divide);
    let run = |error: &dyn ToString| Failure::Run(error.to_string());
    if let Some(folder) = &arguments.curves {
        fs::create_dir_all(folder).map_err(|e| input(format!("{}: {e}", folder.display())))?;
        for curve in curves {
            let drawn = curve.draw(scale, peers.as_mut()).map_err(|e| run(&e))?;
            let file = folder.join(format!("{}.svg", curve.name));
            fs::write(&file, drawn).map_err(|e| input(format!("{}: {e}", file.display())))?;
            println!("wrote {}", file.display());
        }
        return Ok(());
    }
    let passes = u32::from(arguments.passes);
    let taken = measured(&rows, passes, scale, peers.as_mut()).map_err(|e| run(&e))?;
    let results = Results::of(&taken, goals::goals(&taken), passes, peers.as_ref());
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&results).map_err(input)? + "\n";
        fs::write(file, text).map_err(|e| input(format!("{}: {e}", file.display())))?;
    }
    println!("{}", tables::all(&results, Form::Padded));
    for Taken { aimed, finished, .. } in &taken {
        let remark = finished.remark();
        if !remark.is_empty() {
            println!("  {}: {remark}", aimed.row.name);
        }
    }
    let wrong: Vec<String> = taken.iter().flat_map(|row| row.finished.wrong_counts()).collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Run(wrong.join("; "))) }
}

/// The page of a run's tables.
fn tables_of(file: &Path) -> Found<String> {
    let named = |error: &dyn ToString| format!("{}: {}", file.display(), error.to_string());
    let text = fs::read_to_string(file).map_err(|e| named(&e))?;
    let results: Results = serde_json::from_str(&text).map_err(|e| named(&e))?;
    Ok(format!("{PAGE}{}", tables::all(&results, Form::Markdown)))
}

/// The head of `docs/performance-tables.md`.
const PAGE: &str = "# Performance: the tables of one run\n\n\
    Written by `cargo xtask performance` from `crates/bench/performance.json`, a release build. [Performance](performance.md)\n\
    explains rows, goals and peers.\n\n";

/// The rows that a filter means.
fn chosen(filter: &str) -> Result<Vec<&'static Aimed>, String> {
    let rows = choose(all_rows().map(|aimed| &aimed.row), filter)?;
    let is_chosen = |aimed: &&Aimed| rows.iter().any(|row| row.name == aimed.row.name);
    Ok(all_rows().filter(is_chosen).collect())
}

/// Starts the peers, and says in a line what is missing.
fn peers_or_line() -> Option<Peers> {
    let started = Peers::start();
    match &started {
        Ok(peers) => peers.missing().iter().for_each(|missing| {
            eprintln!("tidegate-bench: no {}: {}", missing.name, missing.why);
        }),
        Err(missing) => eprintln!("tidegate-bench: no peer: {missing}"),
    }
    started.ok()
}

/// Measures the rows pass by pass, and the peers of each directly after it.
fn measured(
    wanted: &[&'static Aimed],
    count: u32,
    scale: Scale,
    mut peers: Option<&mut Peers>,
) -> Found<Vec<Taken>> {
    let bar = ProgressBar::new(u64::from(count) * wanted.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let mut passes: Vec<(Vec<Pass>, Beside)> = wanted.iter().map(|_| Default::default()).collect();
    for _ in 0..count {
        for (aimed, (passes, beside)) in wanted.iter().zip(&mut passes) {
            bar.set_message(aimed.row.name);
            passes.push(aimed.row.pass(scale)?);
            beside.push(match &mut peers {
                Some(peers) => measure_peers(aimed, scale, peers)?,
                None => Vec::new(),
            });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let taken = wanted.iter().zip(passes).filter_map(|(aimed, (passes, peers))| {
        let finished = Finished::new(&aimed.row, passes)?;
        Some(Taken { aimed, finished, peers })
    });
    Ok(taken.collect())
}

/// Measures the counterparts of a row; `None` for a peer that is missing.
fn measure_peers(
    aimed: &Aimed,
    scale: Scale,
    peers: &mut Peers,
) -> Found<Vec<Option<PeerMeasured>>> {
    let measure = |counterpart: &Counterpart| match *counterpart {
        Counterpart::Calls { peer, key, size, .. } => peers.measure(peer, key, size.scaled(scale)),
        Counterpart::None(_) => Ok(None),
    };
    aimed.peers.iter().map(measure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_a_part_of_their_name() {
        let count = |filter| chosen(filter).map_or(0, |rows| rows.len());
        assert_eq!(
            ["", "preempt_", "release_1_of_10"].map(count),
            [all_rows().count(), 4, 1],
            "a whole name is that row, though it may begin the name of another"
        );
        assert!(chosen("nothing of this name").is_err());
    }

    #[test]
    fn the_page_of_tables_is_made_of_the_recorded_run() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = fs::read_to_string(root.join("../../docs/performance-tables.md")).unwrap();
        let made = tables_of(&root.join("performance.json")).unwrap();
        assert!(page == made, "run `cargo xtask performance`");
    }
}
