//! Shell completions and man pages, made from the arguments that the program parses.

use crate::arguments::{self, Tidegate};
use crate::output::Outputs;
use crate::streams::outln;
use crate::{BadInput, End};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::path::Path;

/// `tidegate completions`.
pub(crate) fn completions(
    arguments: &arguments::Completions,
    outputs: &Outputs,
) -> Result<End, BadInput> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Tidegate::command(), "tidegate", &mut script);
    outputs.write(Path::new("-"), |out| out.write_all(&script))?;
    Ok(End::Right)
}

/// `tidegate man`: the page of the program on standard output, or all pages as files.
pub(crate) fn man(arguments: &arguments::Man, outputs: &Outputs) -> Result<End, BadInput> {
    // Building gives each command its whole name, as in tidegate-run.
    let mut program = Tidegate::command();
    program.build();
    let Some(folder) = &arguments.folder else {
        return write(Path::new("-"), program, outputs).map(|()| End::Right);
    };
    Outputs::folder("DIR", folder)?;
    let commands =
        program.get_subcommands().filter(|command| command.get_name() != "help").cloned();
    let pages: Vec<Command> = std::iter::once(program.clone()).chain(commands).collect();
    let count = pages.len();
    for page in pages {
        let name = page.get_display_name().unwrap_or_else(|| page.get_name()).to_owned();
        write(&folder.join(format!("{name}.1")), page, outputs)?;
    }
    outln!("{count} pages; read one with `man -l {}/tidegate.1`", folder.display());
    Ok(End::Right)
}

fn write(path: &Path, page: Command, outputs: &Outputs) -> Result<(), BadInput> {
    outputs.write(path, |out| Man::new(page).render(out))
}
