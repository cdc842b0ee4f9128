//! C and C++ programs that are compiled against the header, linked with the shared library, and
//! run: as they are, and with AddressSanitizer where the compiler has it.

mod compiler;

use compiler::{Compiler, library, root};
use std::path::Path;
use std::process::Command;

fn run(program: &Path) {
    let folder = library().parent().unwrap().to_owned();
    let output = Command::new(program).env("LD_LIBRARY_PATH", folder).output().unwrap();
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {}\n{out}{errors}", program.display(), output.status);
    assert!(out.contains("all checks hold"), "{out}");
}

/// Compiles and runs a program of `tests/c`.
fn check(language: &'static str, name: &str) {
    let Some(compiler) = Compiler::find(language) else { return };
    let folder = tempfile::tempdir().unwrap();
    // The program finds the library by its soname.
    let (soname, real) = (folder.path().join("libtidegate_d3dkmt.so.0"), library());
    std::os::unix::fs::symlink(&real, soname).unwrap();
    let source = root().join("tests/c").join(name);
    let program = folder.path().join("program");
    let linked = |more: &[&str]| {
        let (program, real) = (program.to_str().unwrap(), real.to_str().unwrap());
        let path = format!("-Wl,-rpath,{}", folder.path().display());
        let options = [&["-o", program, real, &path][..], more].concat();
        compiler.compile(&source, &options);
    };
    linked(&[]);
    run(&program);
    if compiler.has_address_sanitizer(folder.path()) {
        linked(&["-fsanitize=address"]);
        run(&program);
    } else {
        println!("skipped: {language} has no AddressSanitizer");
    }
}

#[test]
fn arguments() {
    check("cc", "arguments.c");
}

#[test]
fn fences() {
    check("cc", "fences.c");
}

#[test]
fn queues() {
    check("cc", "queues.c");
}

#[test]
fn client() {
    check("c++", "client.cpp");
}
