//! Reads only TOML workloads, where the feature `import` is off.
//!
//! Entry points: [`open`], [`read`].

use std::path::{Path, PathBuf};

use crate::contents::Contents;
use crate::error::Error;

/// Endings of files that only the readers of recordings know.
const OTHER_KINDS: [&str; 7] = [".json", ".gz", ".csv", ".pb", ".pftrace", ".sqlite", ".db"];

/// A TOML workload is one file.
pub fn siblings(_: &Path) -> Vec<PathBuf> {
    Vec::new()
}

/// Reads a file.
///
/// # Errors
/// As [`read`], and [`Error::Unreadable`].
pub fn open(path: &Path) -> Result<Contents, Error> {
    let file = path.display().to_string();
    match std::fs::read(path) {
        Ok(bytes) => text_of(bytes, &file),
        Err(source) => Err(Error::Unreadable { file, source }),
    }
}

/// Reads a file from memory. `file` is its name for messages.
///
/// # Errors
/// [`Error::UnknownKind`]: it is not a text, or its name belongs to a recording.
pub fn read(bytes: &[u8], file: &str) -> Result<Contents, Error> {
    text_of(bytes.to_owned(), file)
}

fn text_of(bytes: Vec<u8>, file: &str) -> Result<Contents, Error> {
    let name = file.to_ascii_lowercase();
    let is_other = OTHER_KINDS.iter().any(|end| name.ends_with(end));
    let text = String::from_utf8(bytes).ok().filter(|_| !is_other);
    text.map(Contents::Toml).ok_or_else(|| Error::UnknownKind {
        file: file.to_owned(),
        found: "not a TOML workload".to_owned(),
        advice: "build with the feature `import` to read recordings".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_refused_with_the_feature_that_reads_them() {
        let files: [(&[u8], &str); 3] =
            [(b"{}", "run.json"), (b"[workload]", "run.json.gz"), (b"\xff\xfe", "run.toml")];
        for (bytes, file) in files {
            let error = read(bytes, file).err().unwrap().to_string();
            let advice = "not a TOML workload; build with the feature `import` to read recordings";
            assert_eq!(error, format!("{file}: {advice}"));
        }
    }

    #[test]
    fn text_is_a_workload_under_any_other_name() {
        for file in ["run.toml", "-", "run"] {
            let read = read(b"[workload]\n", file).unwrap();
            assert!(matches!(read, Contents::Toml(text) if text == "[workload]\n"));
        }
        assert!(matches!(open(Path::new("no such file.toml")), Err(Error::Unreadable { .. })));
        assert!(siblings(Path::new("run.toml")).is_empty());
    }
}
