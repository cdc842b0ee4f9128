//! Checks what other programs do with tables of tidegate: the queries of `docs/tables.md` and
//! `docs/swarm.md` in DuckDB, and `scripts/trace_folder.py` and `scripts/swarm_shards.py` on a
//! local Ray cluster.
//!
//! Entry point: [`check`]. Without Python or its packages the check is skipped with one line.

use std::path::Path;
use std::process::Command;

use crate::cargo::cargo;
use crate::{setup, tree};

/// Runs `scripts/check_tables.py` with a program that writes Parquet.
///
/// # Errors
///
/// A build or a check that fails.
pub fn check(root: &Path) -> Result<(), String> {
    let python = match setup::python(
        root,
        "tables-python",
        &["duckdb", "pyarrow", "ray"],
        "import duckdb, pyarrow, ray",
    ) {
        Ok(python) => python,
        Err(why) => {
            println!(
                "{why}: the queries of docs/tables.md and docs/swarm.md, scripts/trace_folder.py and \
                 scripts/swarm_shards.py are not checked"
            );
            return Ok(());
        }
    };
    let features = [
        "--package",
        "tidegate-runner",
        "--features",
        "tidegate-runner/columns",
        "--lib",
        "columns",
    ];
    cargo(root, &[&["test", "--quiet"], &features[..]].concat(), &[])?;
    cargo(root, &["build", "--quiet", "--package", "tidegate-cli", "--features", "columns"], &[])?;
    let program = tree::build_folder(root).join("debug/tidegate");
    let mut script = Command::new(python);
    script
        .arg(root.join("scripts/check_tables.py"))
        .arg("--tidegate")
        .arg(program)
        .arg("--parquet");
    let status =
        script.current_dir(root).status().map_err(|e| format!("cannot run python: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("scripts/check_tables.py: {status}")) }
}
