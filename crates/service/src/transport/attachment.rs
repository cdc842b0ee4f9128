//! Attachments travel beside a message: a file over a socket; over queues the memory itself, or a
//! copy that is counted; to a guest a place in the memory that it has mapped.
//!
//! What arrives is not trusted: a file is checked where it is mapped, and its number is the
//! system's.

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tidegate_platform::{Bulk, ClientAccess, DeviceMemory, Page, Platform, Word};

/// What travels beside a message.
#[derive(Debug)]
pub(crate) struct Attachment(Form);

#[derive(Debug)]
enum Form {
    File(OwnedFd),
    Page(Page),
    Bulk(Bulk),
    Word(Word),
    Copy(Copied),
    /// Offset and bytes in the room of a guest, on the host's side.
    InRoom(u64, u64),
    /// The same on the guest's side.
    OfDevice(DeviceMemory, u64, u64),
}

/// A copy of something without content. The word counts the copies.
#[derive(Debug)]
struct Copied {
    copies: Word,
    number: u64,
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.copies.fetch_add(1u64.wrapping_neg());
    }
}

/// Shows whether a copy of an attachment is left anywhere.
pub(crate) enum Remains {
    /// The writing end of the pipe whose reading end is the attachment.
    Pipe(PipeWriter),
    Copies(Word),
}

impl Remains {
    /// Has `closed` become readable when the last copy of a file is closed, and stay so until this
    /// is dropped.
    pub(crate) fn watch(&self, closed: &OwnedFd) -> io::Result<()> {
        match self {
            Remains::Pipe(end) => {
                let data = epoll::EventData::new_u64(0);
                // An error is reported unasked.
                Ok(epoll::add(closed, end, data, epoll::EventFlags::empty())?)
            }
            Remains::Copies(_) => Ok(()),
        }
    }
}

/// The device and inode of a file, or the number of something that is not a file.
pub(crate) type Number = (u64, u64);
/// The device of what is not a file.
const NO_DEVICE: u64 = u64::MAX;
/// The device of memory of a guest's device.
const GUEST_DEVICE: u64 = u64::MAX - 1;

impl From<OwnedFd> for Attachment {
    fn from(file: OwnedFd) -> Attachment {
        Attachment(Form::File(file))
    }
}

/// Returns the device and inode of a file.
pub(crate) fn file_number(file: impl AsFd) -> io::Result<Number> {
    let stat = rustix::fs::fstat(file)?;
    Ok((stat.st_dev, stat.st_ino))
}

fn no_memory() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what came is no memory")
}

impl Attachment {
    pub(super) fn of_word(word: &Word) -> Attachment {
        Attachment(Form::Word(word.clone()))
    }

    /// Returns a place in the room of a guest.
    pub(super) fn in_room(offset: u64, bytes: u64) -> Attachment {
        Attachment(Form::InRoom(offset, bytes))
    }

    /// Returns offset and bytes in the room of a guest, if that is what it is.
    pub(super) fn place(&self) -> Option<(u64, u64)> {
        match &self.0 {
            Form::InRoom(offset, bytes) => Some((*offset, *bytes)),
            _ => None,
        }
    }

    /// Returns a place in the memory of a guest's device.
    pub(super) fn of_device(memory: &DeviceMemory, offset: u64, bytes: u64) -> Attachment {
        Attachment(Form::OfDevice(memory.clone(), offset, bytes))
    }

    /// Returns whether it is memory of a guest's device.
    pub(super) fn is_of_device(&self) -> bool {
        matches!(self.0, Form::OfDevice(..))
    }

    /// Returns a page for a client, and what the client may do with it. `None` for a page that no
    /// client is handed, or where the system has no descriptor left.
    pub(crate) fn of_page(page: &Page) -> Option<(Attachment, ClientAccess)> {
        if let Some(file) = page.shared() {
            return Some((file.as_fd().try_clone_to_owned().ok()?.into(), file.access));
        }
        Some((Attachment(Form::Page(page.clone())), page.client_access()?))
    }

    /// Returns bytes for a client, as [`Attachment::of_page`] does a page.
    pub(crate) fn of_bulk(bulk: &Bulk) -> Option<Attachment> {
        if let Some(file) = bulk.shared() {
            return Some(file.as_fd().try_clone_to_owned().ok()?.into());
        }
        bulk.client_access().map(|_| Attachment(Form::Bulk(bulk.clone())))
    }

    /// Makes something without content that is known by its number, which nothing else can have.
    /// `number` is given to what is not a file.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn new_token(
        platform: &Platform,
        number: u64,
    ) -> io::Result<(Number, Attachment, Remains)> {
        if platform.is_cooperative() {
            let copies = platform.page(1).word(0);
            copies.store(1);
            let copied = Copied { copies: copies.clone(), number };
            let token = Attachment(Form::Copy(copied));
            return Ok(((NO_DEVICE, number), token, Remains::Copies(copies)));
        }
        let (file, end) = io::pipe()?;
        let token = Attachment::from(OwnedFd::from(file));
        Ok((token.number()?, token, Remains::Pipe(end)))
    }

    /// Returns the file, if it is one.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Form::File(file) => Some(file.as_fd()),
            _ => None,
        }
    }

    /// Returns the file, if it is one.
    pub(crate) fn into_file(self) -> Option<OwnedFd> {
        match self.0 {
            Form::File(file) => Some(file),
            _ => None,
        }
    }

    /// Returns another copy of it.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn copy(&self) -> io::Result<Attachment> {
        Ok(Attachment(match &self.0 {
            Form::File(file) => Form::File(file.try_clone()?),
            Form::Page(page) => Form::Page(page.clone()),
            Form::Bulk(bulk) => Form::Bulk(bulk.clone()),
            Form::Word(word) => Form::Word(word.clone()),
            Form::InRoom(offset, bytes) => Form::InRoom(*offset, *bytes),
            Form::OfDevice(memory, offset, bytes) => {
                Form::OfDevice(memory.clone(), *offset, *bytes)
            }
            Form::Copy(Copied { copies, number }) => {
                copies.fetch_add(1);
                Form::Copy(Copied { copies: copies.clone(), number: *number })
            }
        }))
    }

    /// Returns what it is known by while a copy of it is left.
    ///
    /// # Errors
    /// The system does not say; InvalidData for what has no number.
    pub(crate) fn number(&self) -> io::Result<Number> {
        match &self.0 {
            Form::File(file) => file_number(file),
            Form::Page(page) => Ok((NO_DEVICE, page.word(0).cpu_address())),
            Form::Copy(copied) => Ok((NO_DEVICE, copied.number)),
            Form::OfDevice(_, offset, _) => Ok((GUEST_DEVICE, *offset)),
            Form::Bulk(_) | Form::Word(_) | Form::InRoom(..) => Err(no_memory()),
        }
    }

    /// Maps a page.
    ///
    /// # Errors
    /// As [`Platform::map_page`].
    pub(crate) fn map_page(
        &self,
        platform: &Platform,
        words: usize,
        access: ClientAccess,
    ) -> io::Result<Page> {
        match &self.0 {
            Form::File(file) => platform.map_page(file.try_clone()?, words, access),
            Form::Page(page) if page.len() == words && page.client_access() == Some(access) => {
                Ok(page.clone())
            }
            // The device knows no access: the host has the memory that a guest may only read.
            Form::OfDevice(memory, offset, bytes) if 8 * words as u64 <= *bytes => {
                memory.page(platform, *offset, words).ok_or_else(no_memory)
            }
            _ => Err(no_memory()),
        }
    }

    /// Maps bytes.
    ///
    /// # Errors
    /// As [`Platform::map_bulk`].
    pub(crate) fn map_bulk(&self, platform: &Platform, bytes: usize) -> io::Result<Bulk> {
        match &self.0 {
            Form::File(file) => platform.map_bulk(file.try_clone()?, bytes),
            Form::Bulk(bulk) if bulk.len() == bytes as u64 => Ok(bulk.clone()),
            Form::OfDevice(memory, offset, all) if bytes as u64 <= *all => {
                memory.bulk(platform, *offset, bytes).ok_or_else(no_memory)
            }
            _ => Err(no_memory()),
        }
    }

    /// Returns the word, if it is one, or itself.
    pub(super) fn into_word(self) -> Result<Word, Attachment> {
        match self.0 {
            Form::Word(word) => Ok(word),
            other => Err(Attachment(other)),
        }
    }
}

/// Returns the keys that have no copy left.
pub(crate) fn ended<'a, K: Copy>(all: impl Iterator<Item = (K, &'a Remains)>) -> Vec<K> {
    let (mut ended, mut keys, mut polled) = (Vec::new(), Vec::new(), Vec::new());
    for (key, remains) in all {
        match remains {
            Remains::Copies(copies) if copies.load() == 0 => ended.push(key),
            Remains::Copies(_) => {}
            Remains::Pipe(end) => {
                keys.push(key);
                polled.push(PollFd::new(end, PollFlags::empty()));
            }
        }
    }
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if !polled.is_empty() && rustix::event::poll(&mut polled, Some(&now)).is_ok() {
        let closed = |end: &PollFd<'_>| end.revents().contains(PollFlags::ERR);
        ended.extend(keys.iter().zip(&polled).filter(|(_, end)| closed(end)).map(|(key, _)| *key));
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::StepCosts;

    fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
        result.err().map(|error| error.kind())
    }

    #[test]
    fn a_page_in_a_file_is_mapped_by_its_file_with_its_access() {
        let platform = Platform::sharing_host();
        for access in [ClientAccess::ReadOnly, ClientAccess::ReadWrite] {
            let page = platform.client_page(4, access);
            page.store(2, 22);
            let (attached, told) = Attachment::of_page(&page).unwrap();
            assert_eq!(told, access);
            let mapped = attached.map_page(&Platform::host(), 4, access).unwrap();
            page.store(3, 33);
            assert_eq!((mapped.load(2), mapped.load(3)), (22, 33));
        }
        let own = platform.page(4);
        assert!(Attachment::of_page(&own).is_none(), "no client is handed it");
    }

    #[test]
    fn a_page_of_an_agent_is_mapped_as_it_was_handed_over() {
        let platform = Platform::virtual_time(StepCosts::free());
        let page = platform.client_page(4, ClientAccess::ReadOnly);
        let (attached, access) = Attachment::of_page(&page).unwrap();
        assert_eq!((access, attached.file().is_none()), (ClientAccess::ReadOnly, true));
        let map = |words, access| attached.map_page(&platform, words, access);
        assert!(map(4, ClientAccess::ReadOnly).unwrap().same(&page));
        for (words, access) in [(3, ClientAccess::ReadOnly), (4, ClientAccess::ReadWrite)] {
            assert_eq!(kind(map(words, access)), Some(io::ErrorKind::InvalidData));
        }
        assert_eq!(kind(attached.map_bulk(&platform, 32)), Some(io::ErrorKind::InvalidData));
        assert!(Attachment::of_page(&platform.page(4)).is_none());
    }

    #[test]
    fn bytes_of_an_agent_are_mapped_as_long_as_they_are() {
        let platform = Platform::virtual_time(StepCosts::free());
        let bulk = platform.client_bulk(4096);
        let attached = Attachment::of_bulk(&bulk).unwrap().copy().unwrap();
        assert_eq!(attached.map_bulk(&platform, 4096).unwrap().len(), 4096);
        assert_eq!(kind(attached.map_bulk(&platform, 4095)), Some(io::ErrorKind::InvalidData));
        assert!(attached.map_page(&platform, 512, ClientAccess::ReadWrite).is_err());
        assert_eq!(kind(attached.number()), Some(io::ErrorKind::InvalidData), "it has none");
        assert!(Attachment::of_bulk(&platform.bulk(4096)).is_none());
    }

    #[test]
    fn tokens_have_numbers_that_no_other_has_and_end_with_their_last_copy() {
        for platform in [Platform::host(), Platform::virtual_time(StepCosts::free())] {
            let made = [1, 2].map(|number| Attachment::new_token(&platform, number).unwrap());
            let [(first, one, remains_of_one), (second, other, remains_of_other)] = made;
            assert_ne!(first, second);
            let copy = one.copy().unwrap();
            assert_eq!((one.number().unwrap(), copy.number().unwrap()), (first, first));
            let gone = || ended([('a', &remains_of_one), ('b', &remains_of_other)].into_iter());
            drop(one);
            assert_eq!(gone(), [], "a copy is left");
            drop(copy);
            assert_eq!(gone(), ['a']);
            drop(other);
            assert_eq!(gone(), ['a', 'b']);
        }
    }

    #[test]
    fn only_a_word_or_a_file_is_a_bell() {
        let platform = Platform::virtual_time(StepCosts::free());
        let word = platform.page(1).word(0);
        assert!(Attachment::of_word(&word).into_word().unwrap().same(&word));
        let (_, token, _remains) = Attachment::new_token(&platform, 1).unwrap();
        assert!(token.into_word().is_err_and(|token| token.into_file().is_none()));
        let (_, token, _remains) = Attachment::new_token(&platform, 2).unwrap();
        let refused = crate::transport::Bell::of(token);
        assert_eq!(kind(refused), Some(io::ErrorKind::InvalidData));
    }
}
