//! The `tidegate` command line: runs and compares workloads, explores scenarios, replays their
//! failures, measures.
//!
//! Exit codes: 0 ran and right; 1 ran and wrong; 2 bad input or output that cannot be written; 141
//! closed pipe. Results go to standard output, progress and errors to standard error; colours only
//! on a terminal. Rooms: `arguments` · `run` and `compare` (workloads) · `tables` (their output)
//! · `kernels` (tables of kernels) · `diff` · `progress` · `preemption` (its flags) · `adapters` ·
//! `explore` (and replay) · `swarm` · `bench` · `serve` (a machine for other processes) · `top`
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
mod diff;
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
use clap::Parser;
use std::process::ExitCode;
use streams::{end_for_stdout, errln};

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
    let arguments = match Tidegate::try_parse() {
        Ok(arguments) => arguments,
        Err(shown) => return show(&shown),
    };
    let end = match arguments.command {
        Command::Run(run) => run::command(&run),
        Command::Serve(serve) => serve::command(&serve),
        Command::Top(top) => top::command(&top),
        Command::Record(record) => record::command(&record),
        Command::Compare(compare) => compare::command(&compare),
        Command::Diff(diff) => diff::command(&diff),
        Command::Explore(explore) => explore::command(&explore),
        Command::Swarm(swarm) => swarm::command(&swarm),
        Command::Replay(replay) => explore::replay::command(&replay),
        Command::Adapters(adapters) => adapters::command(&adapters),
        Command::Bench(bench) => bench::command(&bench),
        Command::Completions(completions) => manual::completions(&completions),
        Command::Man(man) => manual::man(&man),
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

/// Shows help, the version, or what is wrong with the arguments.
fn show(shown: &clap::Error) -> ExitCode {
    if let Err(error) = shown.print()
        && !shown.use_stderr()
    {
        end_for_stdout(&error);
    }
    ExitCode::from(if shown.use_stderr() { 2 } else { 0 })
}
