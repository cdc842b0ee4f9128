//! `tidegate swarm`: random programs on the whole machine, their failures shrunk to a few lines.
//!
//! The programs of the seeds are run. A failure is shrunk and printed with its line and a test. A
//! summary follows, and with `--coverage` the pairs of operations that never overlapped and the
//! states that no object entered.
//!
//! Invariants: a shard runs every n-th seed, so shards of one first seed are disjoint. Programs on
//! threads and in processes run in child processes, so their overlaps are not counted.

use crate::output::Outputs;
use crate::streams::outln;
use crate::{BadInput, End, arguments};
use serde::Serialize;
use std::cell::Cell;
use std::panic;
use tidegate::Platform;
use tidegate_swarm::coverage::Coverage;
use tidegate_swarm::hunt::{Bounds, Caught, Ground, Hunted, hunt};
use tidegate_swarm::line::Where;
use tidegate_swarm::operation::Kind;
use tidegate_swarm::states::STATES;
use tidegate_swarm::{Failure, Program, children, client};

/// `tidegate swarm`.
pub(crate) fn command(arguments: &arguments::Swarm, outputs: &Outputs) -> Result<End, BadInput> {
    if arguments.client {
        let served = client::serve().map_err(|error| BadInput(format!("--client: {error}")));
        return served.map(|()| End::Right);
    }
    let is_counted = arguments.on.grounds().iter().any(|ground| ground.has_coverage());
    if arguments.coverage && !is_counted {
        return Err(BadInput(NO_COVERAGE.to_owned()));
    }
    if arguments.faulty.is_some() && arguments.on.grounds().contains(&Ground::Processes) {
        return Err(BadInput(NO_FAULTY.to_owned()));
    }
    let is_text = !outputs.take_stdout();
    // A failing program panics in many runs; its failure has the text.
    panic::set_hook(Box::new(|_| ()));
    let clock = Platform::host();
    let grounds = arguments.on.grounds();
    let mut rows = Vec::new();
    let mut coverage = Coverage::default();
    for ground in &grounds {
        let begun = clock.now().0;
        let hunted = hunt_on(*ground, arguments, &clock, is_text);
        let row = Row::of(*ground, &hunted, clock.now().0 - begun);
        if is_text {
            outln!("{}", row.text());
        }
        coverage.add(&hunted.coverage);
        rows.push(row);
    }
    if arguments.coverage && is_text {
        print_coverage(&coverage);
    }
    let failed = rows.iter().any(|row| row.failed > 0);
    if let Some(path) = &arguments.json {
        let never_entered = coverage.states.never().collect();
        let never_overlapped = never(&coverage);
        outputs.write_json(path, &Results { grounds: rows, never_overlapped, never_entered })?;
    }
    Ok(if failed { End::Wrong } else { End::Right })
}

fn hunt_on(
    ground: Ground,
    arguments: &arguments::Swarm,
    clock: &Platform,
    is_text: bool,
) -> Hunted {
    let (shard, shards) = arguments.shard.map_or((0, 1), |shard| (shard.index, shard.count));
    let limit_ns = arguments.seconds.map_or(u64::MAX, |s| s.saturating_mul(1_000_000_000));
    let end = clock.now().0.saturating_add(limit_ns);
    let programs = match (arguments.programs, arguments.seconds) {
        (Some(programs), _) => programs,
        (None, Some(_)) => u64::MAX,
        (None, None) => PROGRAMS,
    };
    let first = arguments.seed;
    let mut seeds = (0..programs)
        .map(|index| first.wrapping_add(index.wrapping_mul(shards)).wrapping_add(shard));
    let shrinking_since = Cell::new(0);
    let shrink_ns = arguments.shrink_seconds.saturating_mul(1_000_000_000);
    let keep_shrinking = |runs: u32| {
        if runs == 1 {
            shrinking_since.set(clock.now().0);
        }
        clock.now().0 - shrinking_since.get() < shrink_ns
    };
    let has_failed = Cell::new(false);
    let mut report = |caught: &Caught| {
        has_failed.set(true);
        if is_text {
            print_caught(ground, caught);
        }
    };
    hunt(
        ground,
        Bounds {
            seeds: &mut seeds,
            steps: arguments.operations.map(usize::from),
            keep_going: &|| clock.now().0 < end && !(arguments.first_failure && has_failed.get()),
            keep_shrinking: &keep_shrinking,
            is_verified: arguments.verify_driver,
            faulty: arguments.faulty,
            on_host: &in_child,
            report: &mut report,
        },
    )
}

/// Runs a program in a child, because one that stands still ends its process.
fn in_child(on: Where, program: &Program) -> Option<Failure> {
    let run = std::env::current_exe().and_then(|exe| children::run_in_child(&exe, on, program));
    run.unwrap_or_else(|error| Some(Failure::Panic(format!("no child process: {error}"))))
}

/// Programs on each ground without `--programs` or `--seconds`.
const PROGRAMS: u64 = 500;
const NO_FAULTY: &str = "--faulty: clients in processes judge their own results, which may be wrong; \
    use --on virtual, explored or threads";

const NO_COVERAGE: &str = "--coverage: programs on threads and in processes run in child processes, \
    whose overlaps are not counted; use --on virtual, explored or all";

fn print_caught(ground: Ground, caught: &Caught) {
    let Caught { seed, failure, steps, shrunk, line } = caught;
    outln!("seed {seed}, {}: {}", ground.name(), in_lines(failure));
    outln!(
        "shrunk from {steps} to {} operations in {} runs:",
        shrunk.program.steps.len(),
        shrunk.runs
    );
    for item in shrunk.program.to_string().lines() {
        outln!("    {item}");
    }
    if shrunk.failure.to_string() != failure.to_string() {
        outln!("it fails with: {}", in_lines(&shrunk.failure));
    }
    outln!("replay: tidegate replay '{line}'");
    outln!("as a test:\n{}", line.test(&format!("seed_{seed}")));
}

/// A standstill is a list of waits or stacks, a line each.
fn in_lines(failure: &Failure) -> String {
    let Failure::Standstill(waits) = failure else { return failure.to_string() };
    let mut text = failure.oracle().to_owned();
    for wait in waits {
        text.push_str("\n    ");
        text.push_str(wait);
    }
    text
}

fn never(Coverage { pairs, .. }: &Coverage) -> Vec<String> {
    let mut never = Vec::new();
    for (index, one) in Kind::ALL.iter().enumerate() {
        for other in &Kind::ALL[index..] {
            if !pairs.contains_key(&(*one, *other)) {
                never.push(format!("{} with {}", one.name(), other.name()));
            }
        }
    }
    never
}

fn print_coverage(coverage: &Coverage) {
    let never = never(coverage);
    let all = Kind::ALL.len() * (Kind::ALL.len() + 1) / 2;
    outln!("{} of {all} pairs of operations have overlapped in time", all - never.len());
    for pair in never {
        outln!("    never: {pair}");
    }
    let never: Vec<_> = coverage.states.never().collect();
    let entered = STATES.len() - never.len();
    outln!("{entered} of {} states of objects were entered", STATES.len());
    for state in never {
        outln!("    never: {state}");
    }
}

#[derive(Serialize)]
struct Results {
    grounds: Vec<Row>,
    /// Pairs of operations that never overlapped in time.
    never_overlapped: Vec<String>,
    /// States of objects that no run entered.
    never_entered: Vec<&'static str>,
}

/// The results on one ground.
#[derive(Serialize)]
struct Row {
    /// virtual time, explored, threads or processes.
    ground: &'static str,
    programs: u64,
    operations: u64,
    /// Programs that failed.
    failed: u64,
    seconds: f64,
    programs_per_minute: f64,
    failures: Vec<Failed>,
}

#[derive(Serialize)]
struct Failed {
    seed: u64,
    oracle: &'static str,
    failure: String,
    /// Operations before and after shrinking.
    operations: usize,
    shrunk_operations: usize,
    line: String,
}

impl Row {
    fn of(ground: Ground, hunted: &Hunted, ns: u64) -> Row {
        let seconds = ns as f64 / 1e9;
        let failures = hunted.caught.iter().map(|caught| Failed {
            seed: caught.seed,
            oracle: caught.failure.oracle(),
            failure: caught.failure.to_string(),
            operations: caught.steps,
            shrunk_operations: caught.shrunk.program.steps.len(),
            line: caught.line.to_string(),
        });
        Row {
            ground: ground.name(),
            programs: hunted.programs,
            operations: hunted.steps,
            failed: hunted.failed,
            seconds,
            programs_per_minute: hunted.programs as f64 * 60.0 / seconds.max(1e-9),
            failures: failures.collect(),
        }
    }

    fn text(&self) -> String {
        let failed = match (self.failed, self.failures.len()) {
            (0, _) => "none failed".to_owned(),
            (failed, 1) => format!("{failed} failed, 1 kind of failure"),
            (failed, kinds) => format!("{failed} failed, {kinds} kinds of failure"),
        };
        format!(
            "{}: {} programs of {:.0} operations in {:.1} s ({:.0} a minute), {failed}",
            self.ground,
            self.programs,
            self.operations as f64 / (self.programs.max(1)) as f64,
            self.seconds,
            self.programs_per_minute,
        )
    }
}
