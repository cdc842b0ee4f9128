//! `cargo xtask dist [FOLDER]`: an archive of what people use without Rust: the program, the C
//! library with header and pkg-config file, man pages, completions and documents.
//!
//! The archive is unpacked into a fresh folder and tried: the program runs, and an example is
//! compiled against the header, linked and run.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo::cargo;
use crate::install;

/// Documents beside the program.
const DOCUMENTS: [&str; 6] = [
    "README.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "docs/d3dkmt.md",
    "docs/service.md",
    "crates/d3dkmt/examples/store.c",
];
const EXAMPLE: &str = "share/doc/tidegate/store.c";

/// Builds the archive in `folder` and tries it.
///
/// # Errors
/// A build, a file, or a step of the trial that fails.
pub fn dist(root: &Path, folder: &Path) -> Result<(), String> {
    let packages = ["--package", "tidegate-cli", "--package", "tidegate-d3dkmt"];
    cargo(root, &[&["build", "--release"], &packages[..]].concat(), &[])?;
    let built = install::target(root).join("release");
    let name = format!("tidegate-{}-{}-linux", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let staged = built.join("dist").join(&name);
    stage(root, &built, &staged).map_err(|e| format!("cannot fill {}: {e}", staged.display()))?;
    pages(&staged)?;
    fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
    let archive = folder.join(format!("{name}.tar.gz"));
    pack(&staged, &archive)?;
    try_out(&archive, &built.join("dist/tried"))?;
    println!("{}", archive.display());
    Ok(())
}

/// Puts the files into the folder, which is emptied first.
fn stage(root: &Path, built: &Path, staged: &Path) -> std::io::Result<()> {
    if staged.exists() {
        fs::remove_dir_all(staged)?;
    }
    let (bin, documents) = (staged.join("bin"), staged.join("share/doc/tidegate"));
    fs::create_dir_all(&bin)?;
    fs::create_dir_all(&documents)?;
    fs::copy(built.join("tidegate"), bin.join("tidegate"))?;
    install::strip(&bin.join("tidegate"));
    // The files lie below whatever folder the archive is unpacked in.
    install::install(built, root, staged, Path::new("${pcfiledir}/../.."))?;
    for document in DOCUMENTS {
        let from = root.join(document);
        fs::copy(&from, documents.join(from.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Has the staged program write its man pages and completions.
fn pages(staged: &Path) -> Result<(), String> {
    let program = staged.join("bin/tidegate");
    let man = staged.join("share/man/man1");
    fs::create_dir_all(&man).map_err(|e| format!("{}: {e}", man.display()))?;
    output(Command::new(&program).arg("man").arg(&man))?;
    for (shell, file) in [
        ("bash", "share/bash-completion/completions/tidegate"),
        ("zsh", "share/zsh/site-functions/_tidegate"),
        ("fish", "share/fish/vendor_completions.d/tidegate.fish"),
    ] {
        let script = output(Command::new(&program).args(["completions", shell]))?;
        let file = staged.join(file);
        let folder = file.parent().unwrap_or(staged);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&file, script))
            .map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

/// Makes the archive, the same from the same files.
fn pack(staged: &Path, archive: &Path) -> Result<(), String> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-czf"]);
    tar.arg(archive).arg("-C").arg(staged.parent().unwrap_or(staged));
    output(tar.arg(staged.file_name().unwrap_or_default())).map(drop)
}

/// Unpacks the archive into an empty folder, runs the program, and compiles and runs the example.
fn try_out(archive: &Path, folder: &Path) -> Result<(), String> {
    let _absent = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
    output(
        Command::new("tar")
            .args(["--strip-components=1", "-xzf"])
            .arg(archive)
            .arg("-C")
            .arg(folder),
    )?;
    let version = output(Command::new(folder.join("bin/tidegate")).arg("--version"))?;
    println!("tried: {}", version.trim());
    let example = folder.join("store");
    let (include, lib) = (folder.join("include"), folder.join("lib"));
    let flags = match output(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "tidegate-d3dkmt"])
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig")),
    ) {
        Ok(flags) => flags,
        Err(e) => {
            println!("pkg-config was not tried: {}", e.lines().next().unwrap_or_default());
            format!("-I{} -L{} -ltidegate_d3dkmt", include.display(), lib.display())
        }
    };
    output(
        Command::new("cc")
            .arg(folder.join(EXAMPLE))
            .args(flags.split_whitespace())
            .arg(format!("-Wl,-rpath,{}", lib.display()))
            .arg("-o")
            .arg(&example),
    )?;
    let printed = output(Command::new(&example).env_remove("TIDEGATE_SOCKET"))?;
    println!("tried: {}", printed.trim());
    Ok(())
}

/// Runs a command. Returns what it prints.
fn output(command: &mut Command) -> Result<String, String> {
    let said = [command.get_program()].into_iter().chain(command.get_args());
    let said: Vec<_> = said.map(OsStr::to_string_lossy).collect();
    let said = said.join(" ");
    let output = command.output().map_err(|e| format!("{said}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(format!(
            "{said}: {}\n{text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn the_archive_has_what_a_user_without_rust_needs() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("built");
        fs::create_dir_all(&built).unwrap();
        fs::write(built.join("tidegate"), "program").unwrap();
        fs::write(built.join("libtidegate_d3dkmt.so"), "library").unwrap();
        let staged = folder.path().join("tidegate-1");
        for _again in 0..2 {
            stage(&tree::root(), &built, &staged).unwrap();
        }
        let archive = folder.path().join("a.tar.gz");
        pack(&staged, &archive).unwrap();
        let listed = output(Command::new("tar").arg("-tzf").arg(&archive)).unwrap();
        for file in [
            "bin/tidegate",
            "include/tidegate_d3dkmt.h",
            "lib/libtidegate_d3dkmt.so",
            "lib/libtidegate_d3dkmt.so.0",
            "lib/pkgconfig/tidegate-d3dkmt.pc",
            EXAMPLE,
            "share/doc/tidegate/README.md",
        ] {
            assert!(listed.lines().any(|l| l == format!("tidegate-1/{file}")), "{file}\n{listed}");
        }
        let package = fs::read_to_string(staged.join("lib/pkgconfig/tidegate-d3dkmt.pc")).unwrap();
        assert!(package.starts_with("prefix=${pcfiledir}/../..\n"), "{package}");
    }
}
