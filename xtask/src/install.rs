//! `cargo xtask install-d3dkmt PREFIX`: builds the C library of the D3DKMT calls and copies it, its
//! header and a pkg-config file below a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::cargo;

/// The name that programs are linked against, in front of its versions.
const LIBRARY: &str = "libtidegate_d3dkmt.so";
/// The version of the interface, as in the soname.
const SONAME_VERSION: &str = "0";

/// The header, from the root of the tree.
const HEADER: &str = "crates/d3dkmt/include/tidegate_d3dkmt.h";

/// Builds and installs.
pub fn d3dkmt(root: &Path, prefix: &Path) -> Result<(), String> {
    cargo(root, &["build", "--release", "--package", "tidegate-d3dkmt"], &[])?;
    fs::create_dir_all(prefix)
        .and_then(|()| {
            install(&target(root).join("release"), root, prefix, &prefix.canonicalize()?)
        })
        .map_err(|e| format!("cannot install below {}: {e}", prefix.display()))?;
    println!("installed below {}", prefix.display());
    Ok(())
}

/// The folder of builds.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into)
}

/// Copies library, header and pkg-config file below a folder, which `prefix` names in the latter.
pub fn install(built: &Path, root: &Path, below: &Path, prefix: &Path) -> std::io::Result<()> {
    let (lib, include) = (below.join("lib"), below.join("include"));
    fs::create_dir_all(lib.join("pkgconfig"))?;
    fs::create_dir_all(&include)?;
    let soname = format!("{LIBRARY}.{SONAME_VERSION}");
    // Removed first, so that a program which runs keeps its library.
    for name in [LIBRARY, &soname] {
        match fs::remove_file(lib.join(name)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    fs::copy(built.join(LIBRARY), lib.join(&soname))?;
    strip(&lib.join(&soname));
    std::os::unix::fs::symlink(&soname, lib.join(LIBRARY))?;
    fs::copy(root.join(HEADER), include.join("tidegate_d3dkmt.h"))?;
    fs::write(lib.join("pkgconfig/tidegate-d3dkmt.pc"), package(prefix))
}

/// Removes line tables, which are nine tenths of a file. A machine without binutils keeps them.
pub fn strip(file: &Path) {
    let _ = Command::new("strip").arg("--strip-debug").arg(file).stderr(Stdio::null()).status();
}

/// The pkg-config file.
fn package(prefix: &Path) -> String {
    format!(
        "prefix={}\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\n\
         Name: tidegate-d3dkmt\n\
         Description: The D3DKMT calls, on a software GPU\n\
         Version: {}\n\
         Libs: -L${{libdir}} -ltidegate_d3dkmt\n\
         Cflags: -I${{includedir}}\n",
        prefix.display(),
        env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn an_installation_has_library_header_and_package() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(LIBRARY), "library").unwrap();
        let prefix = folder.path().join("prefix");
        for _again in 0..2 {
            install(folder.path(), &tree::root(), &prefix, &prefix).unwrap();
            assert_eq!(fs::read_to_string(prefix.join("lib").join(LIBRARY)).unwrap(), "library");
            assert!(prefix.join("lib/libtidegate_d3dkmt.so.0").exists());
            assert!(prefix.join("include/tidegate_d3dkmt.h").exists());
            let package =
                fs::read_to_string(prefix.join("lib/pkgconfig/tidegate-d3dkmt.pc")).unwrap();
            let first = format!("prefix={}\n", prefix.display());
            assert!(package.starts_with(&first) && package.contains("-ltidegate_d3dkmt"));
        }
    }
}
