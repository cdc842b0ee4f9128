//! Standard output and standard error: the only place that writes to them, but for the view of
//! `top` on a terminal.
//!
//! - A closed pipe on standard output ends the process quietly with status 141, as SIGPIPE would.
//! - Any other error on standard output ends it with status 2 and one line on standard error.
//! - Errors on standard error are ignored, because no stream is left for a report.
//!
//! Entry points: the macros `outln!` and `errln!`, and [`end_for_stdout`].

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Status of a process that a closed pipe ended: 128 + SIGPIPE.
const CLOSED_PIPE: i32 = 141;

/// Prints a line on standard output.
macro_rules! outln {
    () => { $crate::streams::out(format_args!("\n")) };
    ($($words:tt)*) => { $crate::streams::out(format_args!("{}\n", format_args!($($words)*))) };
}

/// Prints a line on standard error.
macro_rules! errln {
    ($($words:tt)*) => { $crate::streams::err(format_args!("{}\n", format_args!($($words)*))) };
}

pub(crate) use {errln, outln};

/// Writes `text` to standard output and flushes it.
pub(crate) fn out(text: Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        end_for_stdout(&error);
    }
}

/// Writes `text` to standard error.
pub(crate) fn err(text: Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Ends the process because standard output cannot be written.
pub(crate) fn end_for_stdout(error: &io::Error) -> ! {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(CLOSED_PIPE);
    }
    errln!(
        "tidegate: cannot write standard output: {error}; send it to a file or device with space left"
    );
    std::process::exit(2);
}
