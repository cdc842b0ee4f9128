//! The files of the repository, as the tasks see them: no build output, no version control, nothing
//! generated.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file: where it lies below the root, and what it says.
pub struct TextFile {
    pub path: PathBuf,
    pub text: String,
}

/// The root of the repository, which is one above this package.
pub fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder that cargo builds into.
pub fn build_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |given| root.join(given))
}

/// Every file below `folder` (relative to `root`) with one of the extensions, in order of path.
///
/// Fails when a file cannot be read, and says which.
pub fn files(root: &Path, folder: &str, extensions: &[&str]) -> Result<Vec<TextFile>, String> {
    let mut paths = Vec::new();
    let start = root.join(folder);
    if start.is_dir() {
        walk(&start, &mut paths)?;
    } else if start.is_file() {
        paths.push(start);
    }
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if !path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e)) {
            continue;
        }
        let text = fs::read_to_string(&path)
            .map_err(|e| format!("{}: cannot read: {e}", path.display()))?;
        let path = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
        found.push(TextFile { path, text });
    }
    Ok(found)
}

/// Every path below `folder`, whatever its extension.
pub fn paths(root: &Path, folder: &str) -> Result<Vec<PathBuf>, String> {
    let mut paths = Vec::new();
    let start = root.join(folder);
    if start.is_dir() {
        walk(&start, &mut paths)?;
    }
    paths.sort();
    Ok(paths.into_iter().map(|p| p.strip_prefix(root).unwrap_or(&p).to_path_buf()).collect())
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries =
        fs::read_dir(folder).map_err(|e| format!("{}: cannot list: {e}", folder.display()))?;
    for entry in entries {
        let entry = entry.map_err(|e| format!("{}: cannot list: {e}", folder.display()))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type().map_err(|e| format!("{}: {e}", entry.path().display()))?;
        if kind.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci" && name != ".cargo";
            if !hidden && name != "target" && !name.starts_with("target-") && name != "out" {
                walk(&entry.path(), found)?;
            }
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    Ok(())
}
