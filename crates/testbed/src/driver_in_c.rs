//! Drivers in C for tests: compiled with cc, the project's headers and the functions of the NT
//! kernel. A machine without cc prints a line.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles sources of this repository, by their paths in it, into a driver at `library`, with more
/// options. Returns whether this machine has a compiler.
///
/// # Panics
/// For sources that do not compile.
pub fn compile_driver(sources: &[&str], options: &[&str], library: &Path) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = Command::new("cc").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!("skipped: this machine has no cc");
        return false;
    }
    let sources: Vec<PathBuf> = sources.iter().map(|source| root.join(source)).collect();
    let output = Command::new("cc")
        .args(["-std=c11", "-g", "-O1", "-fshort-wchar", "-fPIC", "-shared"])
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(root.join("include/wddm"))
        .args(sources)
        .arg(root.join("include/wddm/tidegate_nt.c"))
        .arg("-o")
        .arg(library)
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}
