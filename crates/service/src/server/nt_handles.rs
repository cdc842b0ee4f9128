//! NT handles as files: the write end of a pipe whose read end the service keeps.
//!
//! A process passes the file on as it likes; the service knows it by its number. When the last copy is
//! closed, wherever it is, the read end hangs up, and the handle ends. No process can make a pipe with
//! the number of another.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::PipeFlags;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tidegate_calls::{NtHandle, Status};
use tidegate_platform::{Mutex, Platform};

struct Kept {
    handle: NtHandle,
    read_end: OwnedFd,
    /// The session that made it.
    session: u64,
}

/// The NT handles that clients hold, by the numbers of their files.
pub(super) struct NtHandles(Mutex<BTreeMap<(u64, u64), Kept>>);

impl NtHandles {
    pub(super) fn new(platform: &Platform) -> NtHandles {
        NtHandles(platform.mutex("NT handles of clients", BTreeMap::new()))
    }

    /// Returns a file for `handle`, whose creator is `session`.
    ///
    /// # Errors
    /// INSUFFICIENT_RESOURCES for more than `most` of one session, or where the system has no file left.
    pub(super) fn export(
        &self,
        handle: NtHandle,
        session: u64,
        most: u32,
    ) -> Result<OwnedFd, Status> {
        self.sweep();
        let made = || -> io::Result<(OwnedFd, OwnedFd, (u64, u64))> {
            let (read_end, file) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            let number = number(&file)?;
            Ok((read_end, file, number))
        };
        let mut kept = self.0.lock();
        if kept.values().filter(|kept| kept.session == session).count() >= most as usize {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let (read_end, file, number) = made().map_err(|_| Status::INSUFFICIENT_RESOURCES)?;
        kept.insert(number, Kept { handle, read_end, session });
        Ok(file)
    }

    /// Returns the handle that a client's file stands for.
    ///
    /// # Errors
    /// INVALID_HANDLE for any other file.
    pub(super) fn import(&self, file: &OwnedFd) -> Result<NtHandle, Status> {
        let number = number(file).map_err(|_| Status::INVALID_HANDLE)?;
        self.0.lock().get(&number).map(|kept| kept.handle.clone()).ok_or(Status::INVALID_HANDLE)
    }

    /// Ends the handles whose files are closed everywhere.
    pub(super) fn sweep(&self) {
        let mut ended = Vec::new();
        {
            let mut kept = self.0.lock();
            let mut polled: Vec<PollFd<'_>> =
                kept.values().map(|kept| PollFd::new(&kept.read_end, PollFlags::empty())).collect();
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if polled.is_empty() || rustix::event::poll(&mut polled, Some(&now)).is_err() {
                return;
            }
            let hung_up: Vec<bool> =
                polled.iter().map(|file| file.revents().contains(PollFlags::HUP)).collect();
            let numbers: Vec<(u64, u64)> = kept.keys().copied().collect();
            for (number, _) in numbers.iter().zip(hung_up).filter(|(_, hung_up)| *hung_up) {
                ended.extend(kept.remove(number));
            }
        }
        // Their objects end outside of the lock.
        drop(ended);
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> usize {
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
        let (_read, forged) = rustix::pipe::pipe().unwrap();
        assert_eq!(handles.import(&forged).unwrap_err(), Status::INVALID_HANDLE);
    }
}
