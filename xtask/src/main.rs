//! The tasks of the repository, run as `cargo xtask TASK`.
//!
//! `spec` compares the requirements of `spec/*.toml` with the tags on tests and code. `tidy` checks
//! the laws that the compiler does not check. `fuzz` builds and runs the fuzz targets.
//! `test_programs` runs the tests under a limit. `swarm` runs random programs. `stages` runs all of
//! these in order. `facade` checks the reference and the crates of the library. `source` reads Rust
//! as far as the other rooms need, `performance` writes a table, `pictures` draws those of the
//! documents, `install` installs the C library, `dist` packs it with the program, and `tree` finds
//! files. The product does not depend on this program, and this program does not depend on the
//! product.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the explorer never runs this program"
)]

mod cargo;
mod coverage;
mod dist;
mod facade;
mod finding;
mod fuzz;
mod install;
mod instructions;
mod mutants;
mod performance;
mod pictures;
mod setup;
mod source;
mod spec;
mod stages;
mod swarm;
mod tables;
mod test_programs;
mod tidy;
mod tree;

use std::path::Path;
use std::process::ExitCode;

use mutants::planted::{self, Form};
use mutants::random;

const USAGE: &str = "\
usage: cargo xtask TASK

tasks:
  spec              compare the requirements of spec/*.toml with the tags on tests and code
  spec --missing    print every must that lacks a tag and has no exception
  spec --stale      print every exception whose requirement now has both tags
  spec --prune      remove those exceptions from spec/exceptions.toml
  mutants [ID...]   switch off the code under each tag (or under tags whose ids begin so): a tagged test must fail
  mutants --touched the same for tags whose code or tests have changed since the verdict in spec/mutants.toml
  mutants --bounded the part of --touched that `test` runs
  mutants --random [N] [--seed N] [PATH...]
                    change N drawn places of the code (of files whose path has one of the words), and list what no test notices
  mistakes [WORD...] put each mistake of xtask/mistakes.toml (or those that name a word) into the code: a test must fail
  planted [WORD...] put each bug of xtask/planted.toml (or those that name a word) into the code: the swarm must find it
  planted --lines [WORD...]
                    the same with the shrunk program of each bug, without a search
  coverage [PACKAGE...]
                    list the lines of product crates that no test reaches and xtask/coverage.toml does not accept
  tidy              check the laws that the compiler does not check
  documentation     build the reference, and check that the library's has the pages of its parts
  packaging         check which crates the library needs without its features
  fuzz [--target NAME] [--seconds N]
                    run the fuzz targets of fuzz/, or one of them, for so long each
  fuzz --short      the part that `test` runs: the same inputs each time
  swarm [--seconds N] [--seed N]
                    run random programs of new seeds on every ground, for so long on each
  instructions      count the instructions of single operations with valgrind, and compare with xtask/instructions.toml
  instructions --update
                    write that file
  performance       write docs/performance-tables.md from crates/bench/performance.json
  pictures          draw the timelines and the frame of the documents again, with chromium
  tests             the test programs alone: each under a limit, printed as it ends
  install-d3dkmt PREFIX
                    build the C library, and copy it below PREFIX with its header and its pkg-config file
  dist [FOLDER]     make an archive for machines without Rust (program, C library, header, man pages, completions), and try it
  tables            check the queries of docs/tables.md and docs/swarm.md with DuckDB, and the scripts for Ray
  test              everything that has to pass before a change is merged
  full              test, and the long forms: full exploration, ignored tests, an hour of random programs, mutants,
                    mistakes, planted bugs, coverage, fuzzing, tables, instructions, bench";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if std::env::var_os(fuzz::WRAPPER_VARIABLE).is_some() {
        return end(fuzz::compile(&words));
    }
    let root = tree::root();
    let outcome = match words.as_slice() {
        ["spec"] => spec::check(&root),
        ["spec", "--missing"] => spec::print_missing(&root),
        ["spec", "--stale"] => spec::print_stale(&root),
        ["spec", "--prune"] => spec::prune(&root),
        ["mutants", "--touched"] => mutants::run_touched(&root),
        ["mutants", "--bounded"] => mutants::run_touched_bounded(&root),
        ["mutants", "--random", words @ ..] => match random::request(words) {
            Some(request) => random::run(&root, &request),
            None => Err(USAGE.to_owned()),
        },
        ["mutants", ids @ ..] => mutants::run(&root, ids),
        ["mistakes", words @ ..] => mutants::mistakes::run(&root, words),
        ["planted", "--lines", words @ ..] => planted::run(&root, Form::Lines, words),
        ["planted", words @ ..] => planted::run(&root, Form::Hunts, words),
        ["coverage", packages @ ..] => coverage::run(&root, packages),
        ["tidy"] => tidy::check(&root),
        ["documentation"] => facade::documentation(&root),
        ["packaging"] => facade::packaging(&root),
        ["fuzz", "--short"] => fuzz::short(&root),
        ["fuzz", words @ ..] => match fuzz::request(words) {
            Some(request) => fuzz::run(&root, &request),
            None => Err(USAGE.to_owned()),
        },
        ["swarm", words @ ..] => match swarm::request(words) {
            Some(request) => swarm::run(&root, &request),
            None => Err(USAGE.to_owned()),
        },
        ["instructions"] => instructions::check(&root),
        ["instructions", "--update"] => instructions::update(&root),
        ["performance"] => performance::write(&root),
        ["pictures"] => pictures::draw(&root),
        ["install-d3dkmt", prefix] => install::d3dkmt(&root, Path::new(prefix)),
        ["dist"] => dist::dist(&root, &root.join("target/dist")),
        ["dist", folder] => dist::dist(&root, Path::new(folder)),
        ["tests"] => stages::tests(&root),
        ["tables"] => tables::check(&root),
        ["test"] => stages::test(&root),
        ["full"] => stages::full(&root),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    end(outcome)
}

fn end(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
