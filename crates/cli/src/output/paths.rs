//! The paths of a command line: which are read, and which are written.
//!
//! Invariant: every argument that holds a path has a [`PathUse`]; a test fails for one without.
//! Entry points: [`uses`], [`PathUse`].

use crate::arguments::Tidegate;
use clap::{Arg, ArgMatches, Command, CommandFactory};
use std::any::TypeId;
use std::path::PathBuf;

/// What a command does with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathUse {
    /// Reads a file.
    Reads,
    /// Writes a file.
    Writes,
    /// Writes files into a folder. Their names are known when they are written.
    WritesInto,
    /// Binds or connects a socket, which no output can replace.
    Socket,
}

/// The use of a path argument; `None` for an argument that this list lacks.
fn path_use(argument: &str) -> Option<PathUse> {
    Some(match argument {
        "workload" | "beside" | "a" | "b" | "config" | "driver" | "device" => PathUse::Reads,
        "timeline" | "perfetto" | "chrome" | "kernels" | "json" | "html" | "output" | "junit" => {
            PathUse::Writes
        }
        "frames" | "curves" | "folder" => PathUse::WritesInto,
        "socket" | "connect" | "killable" | "listening" | "ivshmem" => PathUse::Socket,
        _ => return None,
    })
}

/// Whether an argument holds paths.
fn is_path(argument: &Arg) -> bool {
    argument.get_value_parser().type_id() == TypeId::of::<PathBuf>()
}

/// The name of an argument in messages: its flag, or the placeholder of a positional one.
fn shown(argument: &Arg) -> String {
    match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().as_str().to_uppercase(),
    }
}

fn paths_of(command: &Command) -> impl Iterator<Item = (&Arg, Option<PathUse>)> {
    command.get_arguments().filter(|a| is_path(a)).map(|a| (a, path_use(a.get_id().as_str())))
}

/// The paths of a parsed command line, each with the name of its argument.
pub(super) fn uses(matches: &ArgMatches) -> Vec<(String, PathBuf, PathUse)> {
    let Some((name, of_command)) = matches.subcommand() else { return Vec::new() };
    let program = Tidegate::command();
    let Some(command) = program.find_subcommand(name) else { return Vec::new() };
    let mut all = Vec::new();
    for (argument, known) in paths_of(command) {
        // An argument that the list lacks counts as an output, so that it cannot replace an input.
        let known = known.unwrap_or(PathUse::Writes);
        let given = of_command.get_many::<PathBuf>(argument.get_id().as_str());
        all.extend(given.into_iter().flatten().map(|p| (shown(argument), p.clone(), known)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::Outputs;
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// Each argument of each command that holds a path.
    fn each_path(mut of: impl FnMut(&Command, &Arg, Option<PathUse>)) {
        for command in Tidegate::command().get_subcommands() {
            paths_of(command).for_each(|(argument, known)| of(command, argument, known));
        }
    }

    #[test]
    fn every_path_of_the_command_line_has_a_use() {
        let mut count = 0;
        each_path(|command, argument, known| {
            count += 1;
            let (command, id) = (command.get_name(), argument.get_id());
            assert!(known.is_some(), "{command}: give the path '{id}' a row in path_use");
        });
        assert!(count >= 25, "{count} paths were found: the walk misses arguments");
    }

    /// A command line with these paths, and words for the other arguments that it needs.
    fn line(command: &Command, given: &[(&Arg, &Path)], spare: &Path) -> Vec<String> {
        let mut words = vec!["tidegate".to_owned(), command.get_name().to_owned()];
        for argument in command.get_arguments() {
            let of = given.iter().find(|(a, _)| a.get_id() == argument.get_id());
            let value = match of {
                Some((_, path)) => path.to_str().unwrap().to_owned(),
                None if !argument.is_required_set() => continue,
                None if is_path(argument) => spare.to_str().unwrap().to_owned(),
                None => "word".to_owned(),
            };
            words.extend(argument.get_long().map(|long| format!("--{long}")));
            words.push(value);
        }
        words
    }

    fn outputs(words: &[String]) -> Result<Outputs, String> {
        let matches = Tidegate::command().try_get_matches_from(words);
        let matches = matches.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        Outputs::of(&matches).map_err(|bad| bad.0)
    }

    #[test]
    fn no_output_of_any_command_replaces_an_input() {
        let folder = tempfile::tempdir().unwrap();
        let (input, spare) = (folder.path().join("input"), folder.path().join("spare"));
        fs::write(&input, "kept").unwrap();
        fs::write(&spare, "").unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        symlink("input", folder.path().join("link")).unwrap();
        fs::hard_link(&input, folder.path().join("hard")).unwrap();
        let names =
            ["input", "link", "hard", "below/../input"].map(|name| folder.path().join(name));
        let mut pairs = 0;
        for command in Tidegate::command().get_subcommands() {
            let of = |wanted| paths_of(command).filter(move |(_, known)| *known == Some(wanted));
            for (read, _) in of(PathUse::Reads) {
                for (written, _) in of(PathUse::Writes) {
                    pairs += 1;
                    for (from, to) in names.iter().flat_map(|a| names.iter().map(move |b| (a, b))) {
                        let words = line(command, &[(read, from), (written, to)], &spare);
                        let refused = outputs(&words).err().unwrap_or_default();
                        assert!(refused.contains(&shown(written)), "{words:?}: {refused}");
                        assert!(refused.contains("is an input"), "{words:?}: {refused}");
                    }
                }
                // The names of files in a folder are known when they are written.
                for (folder_argument, _) in of(PathUse::WritesInto) {
                    let given = [(read, input.as_path()), (folder_argument, folder.path())];
                    let outputs = outputs(&line(command, &given, &spare)).unwrap();
                    for name in &names {
                        let refused = outputs.write(name, |out| out.write_all(b"lost"));
                        assert!(refused.is_err(), "{}", name.display());
                    }
                }
            }
        }
        assert!(pairs >= 14, "{pairs} pairs of an input and an output");
        assert_eq!(fs::read_to_string(&input).unwrap(), "kept");
    }

    #[test]
    fn the_other_files_of_a_run_are_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("1_kernel_trace.csv"), "").unwrap();
        fs::write(file("1_hip_api_trace.csv"), "").unwrap();
        let path = |name| file(name).to_str().unwrap().to_owned();
        let words = ["tidegate", "run", &path("1_kernel_trace.csv"), "--json"].map(str::to_owned);
        let with = |output| [&words[..], &[path(output)]].concat();
        assert!(
            outputs(&with("1_hip_api_trace.csv")).is_err_and(|why| why.contains("is an input"))
        );
        assert!(outputs(&with("2_hip_api_trace.csv")).is_ok());
    }
}
