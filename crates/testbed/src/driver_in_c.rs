//! Drivers in C for tests: compiled with cc, the project's headers and the functions of the NT
//! kernel. A machine without cc prints a line.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles sources of this repository, by their paths in it, into a driver at `library`, with more
/// options. The functions of the NT kernel are compiled once in the library's folder. Returns
/// whether this machine has a compiler.
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
    let kernel = library.with_file_name("tidegate_nt.o");
    if !kernel.exists() {
        let source = root.join("include/wddm/tidegate_nt.c");
        cc(&root, &[Path::new("-c"), &source, Path::new("-o"), &kernel], &[]);
    }
    let sources: Vec<PathBuf> = sources.iter().map(|source| root.join(source)).collect();
    let mut arguments = vec![Path::new("-shared")];
    arguments.extend(sources.iter().map(PathBuf::as_path));
    arguments.extend([kernel.as_path(), Path::new("-o"), library]);
    cc(&root, &arguments, options);
    true
}

fn cc(root: &Path, arguments: &[&Path], options: &[&str]) {
    let output = Command::new("cc")
        .args(["-std=c11", "-g", "-O1", "-fshort-wchar", "-fPIC"])
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(root.join("include/wddm"))
        .args(arguments)
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
