//! NT handles as files: the reading end of a pipe whose writing end stays with the object.
//!
//! A process passes the file on as it likes. It is known by device and inode, so that a duplicate, and
//! a descriptor that travelled over a socket, name the same object. When the last copy is closed,
//! wherever it is, the writing end says so, and the handle ends. No process can make a pipe with the
//! number of another.

use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::BTreeMap;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use tidegate_calls::{NtHandle, Status};
use tidegate_platform::{Mutex, Platform};

struct Kept {
    handle: NtHandle,
    /// The file is its reading end.
    end: PipeWriter,
    owner: u64,
}

/// The NT handles that processes hold, by the numbers of their files.
pub struct NtHandles(Mutex<BTreeMap<(u64, u64), Kept>>);

impl NtHandles {
    /// Returns an empty list.
    pub fn new(platform: &Platform) -> NtHandles {
        NtHandles(platform.mutex("NT handles", BTreeMap::new()))
    }

    /// Returns a file for `handle`, which counts for `owner`.
    ///
    /// # Errors
    /// INSUFFICIENT_RESOURCES for more than `most` of one owner, or where the system has no file left.
    pub fn export(&self, handle: NtHandle, owner: u64, most: u32) -> Result<OwnedFd, Status> {
        self.sweep();
        let made = || -> io::Result<_> {
            let (file, end) = io::pipe()?;
            Ok((number(&file)?, OwnedFd::from(file), end))
        };
        let mut kept = self.0.lock();
        if kept.values().filter(|kept| kept.owner == owner).count() >= most as usize {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let (number, file, end) = made().map_err(|_| Status::INSUFFICIENT_RESOURCES)?;
        kept.insert(number, Kept { handle, end, owner });
        Ok(file)
    }

    /// Returns the handle that a file stands for.
    ///
    /// # Errors
    /// INVALID_HANDLE for any other file.
    pub fn import(&self, file: &OwnedFd) -> Result<NtHandle, Status> {
        let number = number(file).map_err(|_| Status::INVALID_HANDLE)?;
        self.0.lock().get(&number).map(|kept| kept.handle.clone()).ok_or(Status::INVALID_HANDLE)
    }

    /// Returns how many handles each owner has.
    pub(crate) fn by_owner(&self) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        self.0.lock().values().for_each(|kept| *counts.entry(kept.owner).or_default() += 1);
        counts
    }

    /// Ends the handles whose files are closed everywhere.
    pub fn sweep(&self) {
        let mut ended = Vec::new();
        {
            let mut kept = self.0.lock();
            let mut polled: Vec<PollFd<'_>> =
                kept.values().map(|kept| PollFd::new(&kept.end, PollFlags::empty())).collect();
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if polled.is_empty() || rustix::event::poll(&mut polled, Some(&now)).is_err() {
                return;
            }
            let is_closed = |end: &PollFd<'_>| end.revents().contains(PollFlags::ERR);
            let closed: Vec<(u64, u64)> = kept
                .keys()
                .zip(&polled)
                .filter(|(_, end)| is_closed(end))
                .map(|(n, _)| *n)
                .collect();
            drop(polled);
            ended.extend(closed.iter().filter_map(|number| kept.remove(number)));
        }
        // Their objects end outside of the lock.
        drop(ended);
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }
}

fn number(file: impl AsFd) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(file)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_lives_as_long_as_any_copy_of_its_file() {
        let handles = NtHandles::new(&Platform::host());
        let file = handles.export(NtHandle::new(7u32), 1, 1).unwrap();
        assert_eq!(
            handles.export(NtHandle::new(8u32), 1, 1).unwrap_err(),
            Status::INSUFFICIENT_RESOURCES
        );
        let copy = file.try_clone().unwrap();
        drop(file);
        handles.sweep();
        assert_eq!(handles.import(&copy).unwrap().object::<u32>(), Some(&7));
        drop(copy);
        handles.sweep();
        assert_eq!(handles.count(), 0);
    }

    #[test]
    fn another_file_is_no_handle() {
        let handles = NtHandles::new(&Platform::host());
        let _file = handles.export(NtHandle::new(7u32), 1, 1).unwrap();
        let (forged, _end) = io::pipe().unwrap();
        assert_eq!(handles.import(&forged.into()).unwrap_err(), Status::INVALID_HANDLE);
    }
}
