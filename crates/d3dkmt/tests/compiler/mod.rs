//! The C and C++ compilers of the machine, and the shared library that programs are linked with.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler.
pub struct Compiler(&'static str);

impl Compiler {
    /// Finds a compiler; prints a line if there is none.
    pub fn find(name: &'static str) -> Option<Compiler> {
        let found = Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
        if !found {
            println!("skipped: this machine has no {name}");
        }
        found.then_some(Compiler(name))
    }

    /// Runs the compiler on a program, with warnings as errors.
    ///
    /// # Panics
    /// It fails.
    pub fn compile(&self, source: &Path, options: &[&str]) {
        let language = if self.0 == "c++" { "-std=c++17" } else { "-std=gnu11" };
        let common = [language, "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"];
        self.run(source, &[&common[..], options].concat());
    }

    /// Checks a source without extensions of the language that it does not mark.
    ///
    /// # Panics
    /// The compiler warns or fails.
    pub fn check_pedantic(&self, source: &Path, language: &str) {
        self.run(source, &[language, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    }

    fn run(&self, source: &Path, options: &[&str]) {
        let output = Command::new(self.0)
            .arg("-I")
            .arg(root().join("include"))
            .arg("-I")
            .arg(root().join("tests/c"))
            .arg(source)
            .args(options)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {}:\n{errors}", self.0, source.display());
    }

    /// Returns whether programs can be made with AddressSanitizer, and run.
    pub fn has_address_sanitizer(&self, folder: &Path) -> bool {
        let (source, program) = (folder.join("empty.c"), folder.join("empty"));
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let made = Command::new(self.0)
            .args(["-x", "c", "-fsanitize=address"])
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .output();
        made.is_ok_and(|o| o.status.success())
            && Command::new(&program).output().is_ok_and(|o| o.status.success())
    }
}

/// The folder of the package.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The shared library that belongs to this test program.
pub fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let beside = program.parent().unwrap().join("libtidegate_d3dkmt.so");
    assert!(beside.exists(), "{} is missing", beside.display());
    beside
}

/// The names of functions in the public bindings, from their source.
pub fn public_names() -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let manifest = text
        .split("\"manifest_path\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .find(|path| path.contains("/windows-sys-"))
        .expect("windows-sys is a dependency");
    let source = Path::new(manifest).with_file_name("src/Windows/Wdk/Graphics/Direct3D/mod.rs");
    let text = std::fs::read_to_string(source).unwrap();
    let names = text.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
    names.filter(|name| name.starts_with("D3DKMT")).map(str::to_owned).collect()
}
