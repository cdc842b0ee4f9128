//! Workload files, imported traces, and the runner against a plain interpreter.

mod other_traces;
mod plain_interpreter;
mod real_traces;
mod workload_files;
