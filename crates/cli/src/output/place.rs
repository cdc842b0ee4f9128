//! The target of an output path, with every link followed.
//!
//! [`Place::of`] opens no file: opening a FIFO blocks until it has a reader, and opening a device
//! can have effects.

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Limit on followed links, as on Linux.
const MOST_LINKS: usize = 40;

/// The target of an output.
#[derive(Debug)]
pub(super) enum Place {
    /// Standard output.
    Stdout { id: Option<Id> },
    /// An open descriptor of this process.
    Descriptor { number: RawFd, id: Option<Id> },
    /// A device node, a FIFO, or any other file that is not regular.
    Stream { path: PathBuf, id: Id },
    /// A regular file, or a new one (without an id). The path has no links.
    File { path: PathBuf, id: Option<Id> },
}

/// Device and inode. A descriptor has them where it is open on a regular file.
type Id = (u64, u64);

/// The descriptors of this process.
const OWN_DESCRIPTORS: &str = "/proc/self/fd";

impl Place {
    /// Follows `path`.
    ///
    /// # Errors
    ///
    /// The reason why the target cannot be written, and the next step.
    pub(super) fn of(path: &Path) -> Result<Place, String> {
        if path == Path::new("-") {
            return Ok(Place::Stdout { id: file_behind(&Path::new(OWN_DESCRIPTORS).join("1")) });
        }
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err("it ends in '/' and names a folder; name a file".to_owned());
        }
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let name = path.file_name().ok_or("it names no file; give a file name")?;
            let folder = match path.parent() {
                Some(folder) if folder != Path::new("") => folder,
                _ => Path::new("."),
            };
            let folder =
                folder.canonicalize().map_err(|e| format!("folder {}: {e}", folder.display()))?;
            let whole = folder.join(name);
            if is_own_descriptors(&folder) {
                return descriptor(&folder, name);
            }
            match std::fs::symlink_metadata(&whole) {
                Ok(found) if found.is_symlink() => {
                    let target = std::fs::read_link(&whole).map_err(|e| e.to_string())?;
                    path = folder.join(target);
                }
                Ok(found) => return existing(whole, &found),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    check_folder(&folder)?;
                    return Ok(Place::File { path: whole, id: None });
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!("it leads through more than {MOST_LINKS} links; name the file itself"))
    }

    /// Returns whether two outputs have one target.
    pub(super) fn is_same(&self, other: &Place) -> bool {
        let one_id = self.id().is_some() && self.id() == other.id();
        one_id
            || match (self, other) {
                (Place::Stdout { .. }, Place::Stdout { .. }) => true,
                (Place::Descriptor { number: a, .. }, Place::Descriptor { number: b, .. }) => {
                    a == b
                }
                (Place::File { path: a, .. }, Place::File { path: b, .. }) => a == b,
                _ => false,
            }
    }

    /// Returns whether writing here changes the regular file at `path`, under whatever name.
    pub(super) fn is_file_of(&self, path: &Path) -> bool {
        self.id().is_some() && self.id() == file_behind(path)
    }

    fn id(&self) -> Option<Id> {
        match self {
            Place::Stream { id, .. } => Some(*id),
            Place::Stdout { id } | Place::Descriptor { id, .. } | Place::File { id, .. } => *id,
        }
    }
}

/// The regular file at a path, with every link followed; a descriptor has one where it is open on
/// such a file.
fn file_behind(path: &Path) -> Option<Id> {
    let found = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
    Some((found.dev(), found.ino()))
}

/// Returns whether /dev/fd and /dev/stdout lead to `folder`.
fn is_own_descriptors(folder: &Path) -> bool {
    [OWN_DESCRIPTORS, "/proc/thread-self/fd"]
        .iter()
        .any(|own| Path::new(own).canonicalize().is_ok_and(|own| own == folder))
}

fn descriptor(folder: &Path, name: &OsStr) -> Result<Place, String> {
    let unknown = || "no such descriptor is open; open it for writing, as in 3>FILE".to_owned();
    let number: RawFd = name.to_str().and_then(|name| name.parse().ok()).ok_or_else(unknown)?;
    let information = std::fs::read_to_string(folder.with_file_name("fdinfo").join(name))
        .map_err(|_| unknown())?;
    let flags = information.lines().find_map(|line| line.strip_prefix("flags:"));
    // The lowest two bits of the flags are the access mode, and 0 is O_RDONLY.
    if flags
        .and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok())
        .is_some_and(|flags| flags & 0o3 == 0)
    {
        return Err(
            "the descriptor is open for reading; open it for writing, as in 3>FILE".to_owned()
        );
    }
    let id = file_behind(&folder.join(name));
    Ok(if number == 1 { Place::Stdout { id } } else { Place::Descriptor { number, id } })
}

/// Duplicates descriptor `number`; both share the position in a file.
pub(super) fn duplicate(number: RawFd) -> io::Result<File> {
    let shared = match number {
        2 => io::stderr().as_fd().try_clone_to_owned().ok(),
        _ => pidfd_open(getpid(), PidfdFlags::empty())
            .and_then(|own| pidfd_getfd(own, number, PidfdGetfdFlags::empty()))
            .ok(),
    };
    // Sandboxes refuse pidfd_getfd. A file is then opened again, and what it contains is kept.
    shared.map_or_else(
        || {
            OpenOptions::new()
                .append(true)
                .open(Path::new(OWN_DESCRIPTORS).join(number.to_string()))
        },
        |shared| Ok(File::from(shared)),
    )
}

fn existing(path: PathBuf, found: &Metadata) -> Result<Place, String> {
    if found.is_dir() {
        return Err("it is a folder; name a file".to_owned());
    }
    // The mode bits count for root too, although the system lets root write anyway.
    if found.permissions().readonly() || !is_writable(&path) {
        return Err("it is read-only; name another file, or allow writing with chmod".to_owned());
    }
    let id = (found.dev(), found.ino());
    if !found.is_file() {
        return Ok(Place::Stream { path, id });
    }
    check_folder(path.parent().unwrap_or(Path::new("/")))?;
    Ok(Place::File { path, id: Some(id) })
}

/// Checks that files can be made in a folder.
pub(super) fn check_folder(folder: &Path) -> Result<(), String> {
    match std::fs::metadata(folder) {
        Ok(found) if !found.is_dir() => Err(format!("{} is no folder", folder.display())),
        Ok(found) if !found.permissions().readonly() && is_writable(folder) => Ok(()),
        Ok(_) => Err(format!("folder {} is read-only; choose another", folder.display())),
        Err(error) => Err(format!("folder {}: {error}", folder.display())),
    }
}

fn is_writable(path: &Path) -> bool {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Result<Place, String> {
        Place::of(Path::new(path))
    }

    #[test]
    fn devices_and_descriptors_are_written_through() {
        assert!(matches!(of("/dev/null"), Ok(Place::Stream { .. })));
        for stdout in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            assert!(matches!(of(stdout), Ok(Place::Stdout { .. })), "{stdout}");
        }
        assert!(matches!(of("/dev/stderr"), Ok(Place::Descriptor { .. })));
        assert!(of("/dev/fd/971").is_err_and(|why| why.contains("no such descriptor")));
    }

    #[test]
    fn folders_are_no_files() {
        for path in ["/", "..", "new/", "/tmp", "/no-such-folder/file", "/dev/null/file"] {
            assert!(of(path).is_err(), "{path}");
        }
    }
}
