//! NT handles as files: the reading end of a pipe whose writing end stays with the object. Over
//! queues of a cooperative platform a counted copy takes the place of the file
//! ([`Attachment::new_token`]).
//!
//! A process passes the file on as it likes. It is known by device and inode, so that a duplicate,
//! and a descriptor that travelled over a socket, name the same object. When the last copy is
//! closed, wherever it is, the writing end says so, and the handle ends. No process can make a pipe
//! with the number of another.

use crate::transport::{Attachment, Number, Remains, ended, file_number};
use rustix::event::{PollFd, PollFlags, epoll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tidegate_calls::{NtHandle, Status};
use tidegate_platform::planted;
use tidegate_platform::{Mutex, Platform};

struct Kept {
    handle: NtHandle,
    remains: Remains,
    owner: u64,
    /// Memory that the object holds.
    bytes: u64,
}

/// Memory that the object of a handle holds, and how much the handles of one owner and the handles
/// of all may keep, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeptMemory {
    pub(crate) bytes: u64,
    pub(crate) most_of_owner: u64,
    pub(crate) most_of_all: u64,
}

/// Returns whether another object fits beside these.
fn has_room(kept: &BTreeMap<Number, Kept>, owner: u64, wanted: KeptMemory) -> bool {
    let (mut of_owner, mut of_all) = (wanted.bytes, wanted.bytes);
    for other in kept.values() {
        of_all = of_all.saturating_add(other.bytes);
        of_owner = of_owner.saturating_add(if other.owner == owner { other.bytes } else { 0 });
    }
    wanted.bytes == 0 || (of_owner <= wanted.most_of_owner && of_all <= wanted.most_of_all)
}

/// The NT handles that processes hold.
pub struct NtHandles {
    platform: Platform,
    all: Mutex<All>,
    /// Held while closed handles end, and while a session hands one over.
    sweeping: Mutex<()>,
    /// Readable while a handle is left whose files are closed. `None` where no thread waits for
    /// that, and where the system had no descriptor left: such a handle ends with the next sweep.
    closed: Option<OwnedFd>,
}

#[derive(Default)]
struct All {
    /// By the numbers of their files.
    kept: BTreeMap<Number, Kept>,
    /// How many were made.
    made: u64,
}

impl NtHandles {
    /// Returns an empty list.
    pub fn new(platform: &Platform) -> NtHandles {
        let all = platform.mutex("NT handles", All::default());
        let sweeping = platform.mutex("closed NT handles", ());
        NtHandles { platform: platform.clone(), all, sweeping, closed: None }
    }

    /// As [`NtHandles::new`], for [`NtHandles::sweep_until`].
    pub(crate) fn watched(platform: &Platform) -> NtHandles {
        let create = || epoll::create(epoll::CreateFlags::CLOEXEC).ok();
        let closed = (!platform.is_cooperative()).then(create).flatten();
        NtHandles { closed, ..NtHandles::new(platform) }
    }

    /// Returns a file for `handle`, which counts for `owner`.
    ///
    /// # Errors
    /// INSUFFICIENT_RESOURCES for more than `most` of one owner, or where the system has no file
    /// left.
    ///
    /// # Panics
    /// The platform is cooperative, where it is not a file.
    pub fn export(&self, handle: NtHandle, owner: u64, most: u32) -> Result<OwnedFd, Status> {
        let made = self.attach(handle, owner, most, KeptMemory::default())?;
        Ok(made.into_file().expect("an NT handle of the host is a file"))
    }

    /// As [`NtHandles::export`], for a message.
    ///
    /// # Errors
    /// Also NO_MEMORY for more memory than handles may keep.
    pub(crate) fn attach(
        &self,
        handle: NtHandle,
        owner: u64,
        most: u32,
        memory: KeptMemory,
    ) -> Result<Attachment, Status> {
        self.sweep();
        let mut all = self.all.lock();
        if all.kept.values().filter(|kept| kept.owner == owner).count() >= most as usize {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        if !has_room(&all.kept, owner, memory) {
            return Err(Status::NO_MEMORY);
        }
        all.made += 1;
        let made = Attachment::new_token(&self.platform, all.made);
        let (number, token, remains) = made.map_err(|_| Status::INSUFFICIENT_RESOURCES)?;
        if let Some(closed) = &self.closed {
            remains.watch(closed).map_err(|_| Status::INSUFFICIENT_RESOURCES)?;
        }
        let bytes = memory.bytes;
        all.kept.insert(number, Kept { handle, remains, owner, bytes });
        Ok(token)
    }

    /// Returns the handle that a file stands for.
    ///
    /// # Errors
    /// INVALID_HANDLE for any other file.
    pub fn import(&self, file: impl AsFd) -> Result<NtHandle, Status> {
        self.of_number(file_number(file))
    }

    /// As [`NtHandles::import`], for what came with a message.
    pub(crate) fn of_attachment(&self, attached: &Attachment) -> Result<NtHandle, Status> {
        self.of_number(attached.number())
    }

    fn of_number(&self, number: io::Result<Number>) -> Result<NtHandle, Status> {
        let number = number.map_err(|_| Status::INVALID_HANDLE)?;
        let all = self.all.lock();
        all.kept.get(&number).map(|kept| kept.handle.clone()).ok_or(Status::INVALID_HANDLE)
    }

    /// Returns how many handles each owner has.
    pub(crate) fn by_owner(&self) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        let all = self.all.lock();
        all.kept.values().for_each(|kept| *counts.entry(kept.owner).or_default() += 1);
        counts
    }

    /// Ends the handles whose files are closed everywhere.
    pub fn sweep(&self) {
        // Two sweeps do not overlap: what the other one has found closed has ended when this one
        // returns, and its name is free. The fault is the mistake that the scenario
        // served-handle-against-death must find.
        let overlaps = planted!(self.platform, SweepsOverlap);
        let _turn = (!overlaps).then(|| self.sweeping.lock_device());
        let closed: Vec<Kept> = {
            let kept = &mut self.all.lock().kept;
            let numbers = ended(kept.iter().map(|(number, kept)| (*number, &kept.remains)));
            numbers.iter().filter_map(|number| kept.remove(number)).collect()
        };
        // Their objects end outside of the list's lock.
        drop(closed);
    }

    /// Ends handles as soon as their files are closed, until `stop` is readable.
    pub(crate) fn sweep_until(&self, stop: &OwnedFd) {
        let Some(closed) = &self.closed else { return };
        loop {
            let mut polled = [PollFd::new(closed, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match rustix::event::poll(&mut polled, None) {
                Err(Errno::INTR) => continue,
                Ok(_) if polled[1].revents().is_empty() => self.sweep(),
                _ => return,
            }
        }
    }

    /// Sends an answer that hands over an NT handle, and closes the sender's own copy. No sweep
    /// looks for copies in between: the client may have closed its own.
    pub(crate) fn hand_over<R>(&self, send: impl FnOnce() -> R) -> R {
        let _turn = self.sweeping.lock_device();
        send()
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.all.lock().kept.len()
    }
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
    fn handles_keep_so_much_memory() {
        let handles = NtHandles::new(&Platform::host());
        let attach = |owner, bytes| {
            let memory = KeptMemory { bytes, most_of_owner: 10, most_of_all: 15 };
            handles.attach(NtHandle::new(7u32), owner, 9, memory)
        };
        let first = attach(1, 8).unwrap();
        assert_eq!(attach(1, 3).unwrap_err(), Status::NO_MEMORY);
        assert_eq!(attach(2, 8).unwrap_err(), Status::NO_MEMORY, "8 of 15 are taken");
        let _second = attach(2, 7).unwrap();
        let _small = attach(1, 0).unwrap();
        drop(first);
        let _again = attach(1, 8).unwrap();
    }

    #[test]
    fn another_file_is_no_handle() {
        let handles = NtHandles::new(&Platform::host());
        let _file = handles.export(NtHandle::new(7u32), 1, 1).unwrap();
        let (forged, _end) = io::pipe().unwrap();
        assert_eq!(handles.import(&forged).unwrap_err(), Status::INVALID_HANDLE);
    }

    #[test]
    fn a_counted_copy_is_as_good_as_a_file() {
        let handles = NtHandles::new(&Platform::virtual_time(tidegate_platform::StepCosts::free()));
        let first = handles.attach(NtHandle::new(7u32), 1, 2, KeptMemory::default()).unwrap();
        let second = handles.attach(NtHandle::new(8u32), 1, 2, KeptMemory::default()).unwrap();
        let copy = first.copy().unwrap();
        drop(first);
        handles.sweep();
        assert_eq!(handles.of_attachment(&copy).unwrap().object::<u32>(), Some(&7));
        assert_eq!(handles.of_attachment(&second).unwrap().object::<u32>(), Some(&8));
        drop(copy);
        handles.sweep();
        assert_eq!(handles.count(), 1);
    }

    #[test]
    fn room_is_of_each_owner_and_of_all() {
        let handles = NtHandles::new(&Platform::host());
        let kept: Vec<OwnedFd> = [(1, 9), (2, 9), (1, 9)]
            .map(|(owner, most)| handles.export(NtHandle::new(owner), owner, most).unwrap())
            .into();
        let export = |owner, most| handles.export(NtHandle::new(7u32), owner, most).map(drop);
        assert_eq!(export(1, 2), Err(Status::INSUFFICIENT_RESOURCES));
        assert_eq!(export(3, 0), Err(Status::INSUFFICIENT_RESOURCES));
        assert_eq!((export(1, 3), export(2, 2)), (Ok(()), Ok(())));
        // Those two were closed at once.
        handles.sweep();
        let expected: BTreeMap<u64, u64> = [(1, 2), (2, 1)].into();
        assert_eq!(handles.by_owner(), expected);
        drop(kept);
        handles.sweep();
        assert_eq!((handles.by_owner().len(), handles.count()), (0, 0));
    }

    #[test]
    fn memory_beyond_any_sum_has_no_room() {
        let handles = NtHandles::new(&Platform::host());
        let attach = |bytes, most_of_owner, most_of_all| {
            let memory = KeptMemory { bytes, most_of_owner, most_of_all };
            handles.attach(NtHandle::new(7u32), 1, 9, memory)
        };
        let _kept = attach(5, 5, 5).unwrap();
        assert_eq!(attach(u64::MAX, u64::MAX - 1, u64::MAX).unwrap_err(), Status::NO_MEMORY);
        assert_eq!(attach(1, 5, 9).unwrap_err(), Status::NO_MEMORY, "of the owner");
        assert_eq!(attach(1, 9, 5).unwrap_err(), Status::NO_MEMORY, "of all");
        assert!(attach(1, 6, 6).is_ok());
        assert!(attach(0, 0, 0).is_ok(), "what keeps none is not refused for it");
    }

    #[test]
    fn a_refused_handle_and_the_ends_of_closed_ones_end_their_objects() {
        let handles = NtHandles::new(&Platform::host());
        let object = std::sync::Arc::new(());
        let export = |most| handles.export(NtHandle::new(object.clone()), 1, most);
        let file = export(1).unwrap();
        assert!(export(1).is_err());
        assert_eq!(std::sync::Arc::strong_count(&object), 2);
        let imported = handles.import(&file).unwrap();
        drop(file);
        handles.sweep();
        // The process that has imported it holds the object itself.
        assert_eq!(std::sync::Arc::strong_count(&object), 2);
        drop(imported);
        assert_eq!(std::sync::Arc::strong_count(&object), 1);
    }
}
