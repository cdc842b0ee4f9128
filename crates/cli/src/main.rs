//! The `tidegate` command line: runs and compares workloads, explores scenarios, replays their
//! failures, measures.
//!
//! Exit codes: 0 ran and right; 1 ran and wrong; 2 bad input or output that cannot be written; 141
//! closed pipe. Results go to standard output, progress and errors to standard error; colours only
//! on a terminal. Rooms: `arguments` · `run` and `compare` (workloads) · `tables` (their output)
//! · `kernels` (tables of kernels) · `diff` · `progress` · `preemption` (its flags) · `adapters` ·
//! `explore` (and replay) · `swarm` · `conform` (checks of a driver) · `bench` · `serve` (a
//! machine for other processes) · `top`
//! (its view) · `record` (its timeline) · `manual` (completions, man pages) · `output` (files,
//! checked before and written after a run) · `streams` (standard output and error).
#![deny(clippy::print_stdout, clippy::print_stderr)]

/// An explored schedule and a machine of virtual time make and free many small blocks
/// (decisions/0136).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod adapters;
mod arguments;
mod bench;
mod compare;
mod conform;
mod diff;
mod driver;
mod explore;
mod kernels;
mod manual;
mod output;
mod preemption;
mod progress;
mod record;
mod run;
mod serve;
mod streams;
mod swarm;
mod tables;
mod top;

use arguments::{Command, Tidegate};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches};
use output::Outputs;
use std::process::ExitCode;
use streams::{end_for_stdout, errln, outln};
use tidegate::workload;

/// How a command ended.
pub(crate) enum End {
    /// It ran, and the results are right.
    Right,
    /// It ran, and something is wrong; it has been said.
    Wrong,
}

/// Bad input: what, where, and what to do. Nothing was written.
pub(crate) struct BadInput(pub(crate) String);

fn main() -> ExitCode {
    let parsed = Tidegate::command().try_get_matches().and_then(|matches| {
        let arguments = Tidegate::from_arg_matches(&matches)?;
        Ok((arguments, matches))
    });
    let end = match parsed {
        Ok((arguments, matches)) => Outputs::of(&matches).and_then(|mut outputs| {
            let end = carry_out(arguments.command, &mut outputs)?;
            if !outputs.take_stdout() {
                outputs.lines().iter().for_each(|line| outln!("{line}"));
            }
            Ok(end)
        }),
        Err(shown) => return show(shown),
    };
    match end {
        Ok(End::Right) => ExitCode::SUCCESS,
        Ok(End::Wrong) => ExitCode::from(1),
        Err(BadInput(text)) => {
            errln!("tidegate: {text}");
            ExitCode::from(2)
        }
    }
}

/// Every command writes its files through `outputs`, which are checked against its inputs.
fn carry_out(command: Command, outputs: &mut Outputs) -> Result<End, BadInput> {
    match command {
        Command::Run(run) => run::command(&run, outputs),
        Command::Serve(serve) => serve::command(&serve),
        Command::Top(top) => top::command(&top, outputs),
        Command::Record(record) => record::command(&record, outputs),
        Command::Compare(compare) => compare::command(&compare, outputs),
        Command::Diff(diff) => diff::command(&diff, outputs),
        Command::Explore(explore) => explore::command(&explore, outputs),
        Command::Swarm(swarm) => swarm::command(&swarm, outputs),
        Command::Conform(conform) => conform::command(&conform, outputs),
        Command::Replay(replay) => explore::replay::command(&replay, outputs),
        Command::Adapters(adapters) => adapters::command(&adapters, outputs),
        Command::Bench(bench) => bench::command(&bench, outputs),
        Command::Completions(completions) => manual::completions(&completions, outputs),
        Command::Man(man) => manual::man(&man, outputs),
    }
}

/// Adds the command that a misspelt one most likely means.
fn suggest_command(error: &mut clap::Error) {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let program = Tidegate::command();
    let known: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
    if let Some(near) = workload::nearest_name(wrong, &known) {
        let near = ContextValue::Strings(vec![near.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, near);
    }
}

/// Shows help, the version, or what is wrong with the arguments.
fn show(mut shown: clap::Error) -> ExitCode {
    suggest_command(&mut shown);
    if let Err(error) = shown.print()
        && !shown.use_stderr()
    {
        end_for_stdout(&error);
    }
    ExitCode::from(if shown.use_stderr() { 2 } else { 0 })
}
