//! The tasks of the house, run as `cargo xtask TASK`.
//!
//! What is where: `spec` compares the requirements of `spec/*.toml` with the tags on tests and code, `tidy` checks the
//! laws that the compiler does not, `fuzz` builds and runs the fuzz targets, `stages` runs everything that has to pass, in order. `source` and `items` read Rust
//! as far as the other rooms need; `tree` finds the files. Nothing here is part of the product, and nothing in the
//! product depends on it.

mod finding;
mod fuzz;
mod items;
mod setup;
mod source;
mod spec;
mod stages;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

tasks:
  spec              compare the requirements of spec/*.toml with the tags on tests and code
  spec --missing    print every must that lacks a tag and has no exception
  spec --stale      print every exception whose requirement now has both tags
  spec --prune      remove those exceptions from spec/exceptions.toml
  tidy              check the laws that the compiler does not check
  fuzz [--target NAME] [--seconds N]
                    run the fuzz targets of fuzz/, or one of them, for so long each
  test              everything that has to pass before a change is merged
  full              test, and the long forms: full exploration, ignored tests, fuzzing, bench";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = tree::root();
    let outcome = match words.as_slice() {
        ["spec"] => spec::check(&root),
        ["spec", "--missing"] => spec::print_missing(&root),
        ["spec", "--stale"] => spec::print_stale(&root),
        ["spec", "--prune"] => spec::prune(&root),
        ["tidy"] => tidy::check(&root),
        ["fuzz", words @ ..] => match fuzz::request(words) {
            Some(request) => fuzz::run(&root, &request),
            None => Err(USAGE.to_owned()),
        },
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
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
