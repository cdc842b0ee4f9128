//! Memory that other processes map: what of it each may do, and how it is handed over.
//!
//! A platform of [`Platform::sharing_host`] puts the memory that it hands to processes into files
//! of their own ([`Platform::client_page`], [`Platform::client_bulk`]): a process that is given one
//! page reaches no other. A platform of [`Platform::placing_host`] makes each such page a mapping,
//! which a window can show at an address of its own ([`crate::Mapping::place`]). On a cooperative
//! platform processes are agents of one machine, which share the cells themselves
//! ([`Page::client_access`]). Elsewhere that memory is like any other.

use super::{Bulk, Page};
use crate::platform::{Platform, PlatformKind};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tidegate_machines::ClientAccess;
use tidegate_machines::cells::{Cells, SharedCells};
use tidegate_machines::host::ClientMemory;

/// A file of memory, for another process.
#[derive(Clone, Copy, Debug)]
pub struct SharedFile<'a> {
    file: BorrowedFd<'a>,
    /// What other processes may do.
    pub access: ClientAccess,
    /// Size of the page or of the bytes, from the start of the file.
    pub bytes: u64,
}

impl AsFd for SharedFile<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file
    }
}

impl<'a> SharedFile<'a> {
    fn of(cells: &'a Cells, bytes: u64) -> Option<SharedFile<'a>> {
        let shared = cells.shared()?;
        Some(SharedFile { file: shared.file()?.as_fd(), access: shared.access(), bytes })
    }
}

impl Platform {
    /// Returns whether the memory of [`Platform::client_page`] can be mapped by other processes.
    pub fn shares_memory(&self) -> bool {
        let memory = self.client_memory();
        matches!(memory, Some(ClientMemory::Files | ClientMemory::FilesAndRooms))
    }

    /// Returns whether memory that a process may only read can have copies in rooms.
    pub fn hosts_guests(&self) -> bool {
        self.client_memory() == Some(ClientMemory::FilesAndRooms)
    }

    /// `None` on a cooperative platform.
    fn client_memory(&self) -> Option<ClientMemory> {
        (self.kind() == PlatformKind::Host).then(|| self.host_threads().client_memory())
    }

    /// Returns whether a process can be handed the memory of [`Platform::client_page`]: another one
    /// of the system, or an agent of a cooperative platform.
    pub fn hands_over_memory(&self) -> bool {
        self.shares_memory() || self.is_cooperative()
    }

    /// Returns cells of a kind of their own for a process; `None` if other memory does, or the
    /// system has none left.
    fn client_cells(&self, cells: usize, access: ClientAccess) -> Option<Cells> {
        let bytes = 8 * cells as u64;
        let shared = match self.client_memory() {
            None => {
                let explored = self.kind() == PlatformKind::Explored;
                return Some(Cells::private(cells, explored, Some(access)));
            }
            Some(ClientMemory::Files) => SharedCells::create(bytes, access, false),
            Some(ClientMemory::FilesAndRooms) => SharedCells::create(bytes, access, true),
            Some(ClientMemory::Mappings) => SharedCells::anonymous(bytes, access),
            Some(ClientMemory::Private) => return None,
        };
        Some(Cells::of_file(shared.ok()?, cells))
    }

    /// Creates a zeroed protocol page that is handed to a process, which may do with it what
    /// `access` says. [`Page::shared`] is `None` where the system had no file left for it.
    pub fn client_page(&self, words: usize, access: ClientAccess) -> Page {
        match self.client_cells(words, access) {
            Some(cells) => Page::of(self, cells),
            None => self.page(words),
        }
    }

    /// Creates zeroed bytes that are handed to a process, as [`Platform::client_page`] does. The
    /// process may load and store.
    pub fn client_bulk(&self, bytes: usize) -> Bulk {
        match self.client_cells(bytes.div_ceil(8), ClientAccess::ReadWrite) {
            Some(cells) => Bulk::of(self, cells, bytes),
            None => self.bulk(bytes),
        }
    }

    /// Maps a protocol page of another process. The descriptor is closed.
    ///
    /// # Errors
    /// InvalidData for a file that is not sealed against shrinking, or is shorter than the page;
    /// what the system refuses.
    pub fn map_page(&self, file: OwnedFd, words: usize, access: ClientAccess) -> io::Result<Page> {
        let cells = SharedCells::open(file, 8 * words as u64, access)?;
        Ok(Page::of(self, Cells::of_file(cells, words)))
    }

    /// Maps bytes of another process, for loads and stores. The descriptor is closed.
    ///
    /// # Errors
    /// As [`Platform::map_page`].
    pub fn map_bulk(&self, file: OwnedFd, bytes: usize) -> io::Result<Bulk> {
        let cells = SharedCells::open(file, bytes as u64, ClientAccess::ReadWrite)?;
        Ok(Bulk::of(self, Cells::of_file(cells, bytes.div_ceil(8)), bytes))
    }
}

impl Page {
    /// Returns whether another process of the system can be handed the page.
    pub fn can_be_handed(&self) -> bool {
        self.inner.cells().shared().is_some_and(SharedCells::can_be_handed)
    }

    /// Returns the file that other processes map, which makes it theirs: it moves into no room any
    /// more. `None` if the page is memory of this process or of another one, or lies in a room.
    pub fn shared(&self) -> Option<SharedFile<'_>> {
        SharedFile::of(self.inner.cells(), 8 * self.len() as u64)
    }

    /// Returns what processes may do with the page that are agents of this cooperative platform,
    /// and so are handed the page itself; `None` for memory that no process is handed, and on the
    /// host.
    pub fn client_access(&self) -> Option<ClientAccess> {
        self.inner.cells().client_access()
    }
}

impl Bulk {
    /// As [`Page::shared`].
    pub fn shared(&self) -> Option<SharedFile<'_>> {
        SharedFile::of(self.inner.cells(), self.len())
    }

    /// As [`Page::can_be_handed`].
    pub fn can_be_handed(&self) -> bool {
        self.inner.cells().shared().is_some_and(SharedCells::can_be_handed)
    }

    /// As [`Page::client_access`].
    pub fn client_access(&self) -> Option<ClientAccess> {
        self.inner.cells().client_access()
    }
}
