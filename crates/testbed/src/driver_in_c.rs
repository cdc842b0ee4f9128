//! Drivers in C for tests, compiled with cc, the project's headers and the functions of the NT
//! kernel, and device models in C. A machine without cc prints a line.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles sources of this repository, by their paths in it, into a driver at `library`, with more
/// options. The functions of the NT kernel are compiled once in the library's folder. Returns
/// whether this machine has a compiler.
///
/// # Panics
/// For sources that do not compile.
pub fn compile_driver(sources: &[&str], options: &[&str], library: &Path) -> bool {
    if !has_compiler() {
        return false;
    }
    let root = root();
    let kernel = library.with_file_name("tidegate_nt.o");
    if !is_newer(&kernel, &root.join("include/wddm")) {
        let source = root.join("include/wddm/tidegate_nt.c");
        cc(&root, &[Path::new("-c"), &source, Path::new("-o"), &kernel], &[]);
    }
    link(&root, sources, &[&kernel], options, library);
    true
}

/// Compiles sources of this repository into a device model at `library`, as [`compile_driver`]
/// does.
///
/// # Panics
/// For sources that do not compile.
pub fn compile_model(sources: &[&str], options: &[&str], library: &Path) -> bool {
    let has_compiler = has_compiler();
    if has_compiler {
        link(&root(), sources, &[], options, library);
    }
    has_compiler
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn has_compiler() -> bool {
    let found = Command::new("cc").arg("--version").output();
    let is_found = found.is_ok_and(|output| output.status.success());
    if !is_found {
        println!("skipped: this machine has no cc");
    }
    is_found
}

fn link(root: &Path, sources: &[&str], objects: &[&Path], options: &[&str], library: &Path) {
    let sources: Vec<PathBuf> = sources.iter().map(|source| root.join(source)).collect();
    let mut arguments = vec![Path::new("-shared")];
    arguments.extend(sources.iter().map(PathBuf::as_path));
    arguments.extend(objects);
    arguments.extend([Path::new("-o"), library]);
    cc(root, &arguments, options);
}

/// Returns whether a file was made after everything in a folder.
fn is_newer(made: &Path, folder: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    let Some(made) = modified(made) else { return false };
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if modified(&path).is_none_or(|changed| changed >= made) {
                return false;
            }
        }
    }
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
