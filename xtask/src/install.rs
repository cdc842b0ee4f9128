//! `cargo xtask install-d3dkmt PREFIX`: builds the C library of the D3DKMT calls and copies it, its
//! header and a pkg-config file below a folder.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::cargo;

/// The name that programs are linked against, in front of its versions.
const LIBRARY: &str = "libtidegate_d3dkmt.so";
/// The version of the interface, as in the soname.
const SONAME_VERSION: &str = "0";

/// Builds and installs.
pub fn d3dkmt(root: &Path, prefix: &Path) -> Result<(), String> {
    cargo(root, &["build", "--release", "--package", "tidegate-d3dkmt"], &[])?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let header = root.join("crates/d3dkmt/include/tidegate_d3dkmt.h");
    install(&target.join("release").join(LIBRARY), &header, prefix)
        .map_err(|e| format!("cannot install below {}: {e}", prefix.display()))?;
    println!("installed below {}", prefix.display());
    Ok(())
}

fn install(library: &Path, header: &Path, prefix: &Path) -> std::io::Result<()> {
    let (lib, include) = (prefix.join("lib"), prefix.join("include"));
    fs::create_dir_all(lib.join("pkgconfig"))?;
    fs::create_dir_all(&include)?;
    let prefix = prefix.canonicalize()?;
    let soname = format!("{LIBRARY}.{SONAME_VERSION}");
    // Removed first, so that a program which runs keeps its library.
    for name in [LIBRARY, &soname] {
        match fs::remove_file(lib.join(name)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    fs::copy(library, lib.join(&soname))?;
    // Line tables are nine tenths of the file. A machine without binutils keeps them.
    let _ = Command::new("strip")
        .arg("--strip-debug")
        .arg(lib.join(&soname))
        .stderr(Stdio::null())
        .status();
    std::os::unix::fs::symlink(&soname, lib.join(LIBRARY))?;
    fs::copy(header, include.join("tidegate_d3dkmt.h"))?;
    fs::write(lib.join("pkgconfig/tidegate-d3dkmt.pc"), package(&prefix))
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

    #[test]
    fn an_installation_has_library_header_and_package() {
        let folder = std::env::temp_dir().join(format!("tidegate-install-{}", std::process::id()));
        let (library, header) = (folder.join("built.so"), folder.join("built.h"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(&library, "library").unwrap();
        fs::write(&header, "header").unwrap();
        let prefix = folder.join("prefix");
        for _again in 0..2 {
            install(&library, &header, &prefix).unwrap();
            assert_eq!(fs::read_to_string(prefix.join("lib").join(LIBRARY)).unwrap(), "library");
            assert!(prefix.join("lib/libtidegate_d3dkmt.so.0").exists());
            assert!(prefix.join("include/tidegate_d3dkmt.h").exists());
            let package =
                fs::read_to_string(prefix.join("lib/pkgconfig/tidegate-d3dkmt.pc")).unwrap();
            assert!(package.contains("-ltidegate_d3dkmt"), "{package}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
