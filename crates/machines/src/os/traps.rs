//! Traps on stores to pages of this process (userfaultfd).
//!
//! A store to an armed page stops its thread. A trap takes effect once: the thread that waits for
//! traps lets later stores pass, learns the page's address, and lets the stopped store pass. Arming
//! a page executes a barrier on every processor that runs a thread of the process, so a store that
//! was not stopped is visible afterwards.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::ioctl::{Ioctl, Updater, ioctl, opcode};
use rustix::mm::UserfaultfdFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// `_UFFDIO` of linux/userfaultfd.h.
const GROUP: u8 = 0xAA;
const API: u64 = 0xAA;
/// UFFD_USER_MODE_ONLY: stores by the system's calls are not trapped, so no privilege is needed.
const USER_MODE_ONLY: u32 = 1;
/// UFFD_FEATURE_PAGEFAULT_FLAG_WP and UFFD_FEATURE_WP_HUGETLBFS_SHMEM (Linux 5.19).
const PROTECTS_SHARED_MEMORY: u64 = 1 << 0 | 1 << 12;
/// UFFDIO_REGISTER_MODE_WP and UFFDIO_WRITEPROTECT_MODE_WP.
const REGISTER_FOR_STORES: u64 = 1 << 1;
const PROTECT: u64 = 1 << 0;
/// UFFDIO_WRITEPROTECT_MODE_DONTWAKE: no protection, and a stopped store stays stopped.
const UNPROTECT: u64 = 1 << 1;
/// UFFD_EVENT_PAGEFAULT.
const PAGE_FAULT: u8 = 0x12;
/// `struct uffd_msg`: the event in the first byte, the address of a page fault from byte 16.
const MESSAGE_BYTES: usize = 32;
const ADDRESS: std::ops::Range<usize> = 16..24;

/// `struct uffdio_api`.
#[repr(C)]
struct Handshake {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_range`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    bytes: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Registration {
    range: Range,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct Protection {
    range: Range,
    mode: u64,
}

type ApiCall<'a> = Updater<'a, { opcode::read_write::<Handshake>(GROUP, 0x3F) }, Handshake>;
type Register<'a> = Updater<'a, { opcode::read_write::<Registration>(GROUP, 0x00) }, Registration>;
type Wake<'a> = Updater<'a, { opcode::read::<Range>(GROUP, 0x02) }, Range>;
type Protect<'a> = Updater<'a, { opcode::read_write::<Protection>(GROUP, 0x06) }, Protection>;

/// Traps of this process.
pub struct PageTraps {
    faults: OwnedFd,
    poked: OwnedFd,
    page_bytes: u64,
}

impl PageTraps {
    /// # Errors
    /// The system has no traps on stores to shared memory, does not let this process have them, or
    /// has no descriptor left.
    pub fn new() -> io::Result<PageTraps> {
        let flags = UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY)
            | UserfaultfdFlags::CLOEXEC
            | UserfaultfdFlags::NONBLOCK;
        // SAFETY: the descriptor stays here, and `arm` names only pages that its caller owns.
        let faults = unsafe { rustix::mm::userfaultfd(flags)? };
        let page_bytes = rustix::param::page_size() as u64;
        let traps = PageTraps { faults, poked: super::eventfd()?, page_bytes };
        let mut handshake = Handshake { api: API, features: PROTECTS_SHARED_MEMORY, ioctls: 0 };
        // SAFETY: the number and the structure are those of linux/userfaultfd.h.
        traps.command(unsafe { ApiCall::new(&mut handshake) })?;
        Ok(traps)
    }

    fn command<'a>(&self, command: impl Ioctl<Output = ()> + 'a) -> io::Result<()> {
        // SAFETY: each command is made with its own number and structure. They change which stores
        // of this process are stopped, and no memory.
        unsafe { ioctl(&self.faults, command) }.map_err(io::Error::from)
    }

    fn range(&self, page: u64) -> Range {
        Range { start: page, bytes: self.page_bytes }
    }

    fn protect(&self, page: u64, mode: u64) -> io::Result<()> {
        let mut protection = Protection { range: self.range(page), mode };
        // SAFETY: as in `new`.
        self.command(unsafe { Protect::new(&mut protection) })
    }

    /// Has the next store to the page at this address trapped.
    ///
    /// # Errors
    /// The page is not memory that can be shared, or the system has no memory left.
    pub fn arm(&self, page: u64) -> io::Result<()> {
        let (range, mode) = (self.range(page), REGISTER_FOR_STORES);
        // What a window shows is a new mapping after each rotation, and known to no trap.
        let mut registration = Registration { range, mode, ioctls: 0 };
        // SAFETY: as in `new`.
        self.command(unsafe { Register::new(&mut registration) })?;
        self.protect(page, PROTECT)
    }

    /// Lets stores to the page at this address pass, also one that was stopped.
    pub fn release(&self, page: u64) {
        self.disarm(page);
        self.wake(page);
    }

    /// Lets later stores to the page at this address pass.
    fn disarm(&self, page: u64) {
        // A page that shows another mapping by now has no trap any more.
        let _ = self.protect(page, UNPROTECT);
    }

    /// Lets a stopped store to the page at this address pass, also one that was stopped before the
    /// window was rotated.
    fn wake(&self, page: u64) {
        let mut range = self.range(page);
        // SAFETY: as in `new`.
        let _ = self.command(unsafe { Wake::new(&mut range) });
    }

    /// Has a wait return.
    pub fn poke(&self) {
        // A counter at its limit is not 0, and so returns too.
        let _ = rustix::io::write(&self.poked, &1u64.to_ne_bytes());
    }

    /// Waits until a store is trapped, for a poke, or for `timeout`. Calls `trapped` with the
    /// address of each page while the store is stopped, and then lets it pass. Stores of other
    /// threads pass meanwhile.
    pub fn wait(&self, timeout: Option<Duration>, mut trapped: impl FnMut(u64)) {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut ready = [&self.faults, &self.poked].map(|file| PollFd::new(file, PollFlags::IN));
        // A signal ends the wait, as a poke does.
        let _ = poll(&mut ready, timeout.as_ref());
        let mut message = [0; MESSAGE_BYTES];
        let _ = rustix::io::read(&self.poked, &mut message[..8]);
        while rustix::io::read(&self.faults, &mut message).is_ok_and(|n| n == MESSAGE_BYTES) {
            let address = message[ADDRESS].try_into().map_or(0, u64::from_ne_bytes);
            if message[0] == PAGE_FAULT {
                let page = address - address % self.page_bytes;
                // The longer call comes first. The callback wakes the engine, and the sooner the
                // store follows, the sooner a look of the engine finds it.
                self.disarm(page);
                trapped(page);
                self.wake(page);
            }
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::ClientAccess;
    use crate::cells::{PlacedPage, SharedCells};

    /// Waits until a store is trapped.
    fn trapped(traps: &PageTraps) -> Vec<u64> {
        let mut pages = Vec::new();
        while pages.is_empty() {
            traps.wait(None, |page| pages.push(page));
        }
        pages
    }

    /// `None` on a system without traps.
    fn traps() -> Option<PageTraps> {
        PageTraps::new().map_err(|error| println!("skipped: no traps on stores: {error}")).ok()
    }

    #[test]
    fn an_armed_page_traps_one_store_and_then_none() {
        let Some(traps) = traps() else { return };
        let placed = PlacedPage::reserve().unwrap();
        let memory = SharedCells::anonymous(64, ClientAccess::ReadWrite).unwrap();
        placed.show(&memory).unwrap();
        for round in 1..100 {
            traps.arm(placed.address()).unwrap();
            std::thread::scope(|threads| {
                threads.spawn(|| placed.store(0, 2 * round));
                assert_eq!(trapped(&traps), [placed.address()]);
            });
            assert_eq!(placed.load(0), 2 * round);
            placed.store(0, 2 * round + 1);
            assert_eq!(placed.load(0), 2 * round + 1, "the trap is released");
        }
    }

    #[test]
    fn a_trapped_store_is_reported_before_it_is_carried_out() {
        let Some(traps) = traps() else { return };
        let placed = PlacedPage::reserve().unwrap();
        let memory = SharedCells::anonymous(64, ClientAccess::ReadWrite).unwrap();
        placed.show(&memory).unwrap();
        placed.store(0, 1);
        traps.arm(placed.address()).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| placed.store(0, 2));
            let mut at_the_trap = Vec::new();
            while at_the_trap.is_empty() {
                traps.wait(None, |_| at_the_trap.push(placed.load(0)));
            }
            assert_eq!(at_the_trap, [1]);
        });
        assert_eq!(placed.load(0), 2);
    }

    #[test]
    fn other_stores_pass_while_a_trapped_one_is_stopped() {
        let Some(traps) = traps() else { return };
        let placed = PlacedPage::reserve().unwrap();
        let memory = SharedCells::anonymous(64, ClientAccess::ReadWrite).unwrap();
        placed.show(&memory).unwrap();
        traps.arm(placed.address()).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| placed.store(0, 2));
            let mut words = None;
            while words.is_none() {
                traps.wait(None, |_| {
                    placed.store(1, 3);
                    words = Some([placed.load(0), placed.load(1)]);
                });
            }
            assert_eq!(words, Some([0, 3]));
        });
        assert_eq!([placed.load(0), placed.load(1)], [2, 3]);
    }

    #[test]
    fn a_store_that_is_stopped_goes_on_after_the_page_shows_other_memory() {
        let Some(traps) = traps() else { return };
        let placed = PlacedPage::reserve().unwrap();
        let [first, second] =
            [64, 64].map(|bytes| SharedCells::anonymous(bytes, ClientAccess::ReadWrite).unwrap());
        placed.show(&first).unwrap();
        traps.arm(placed.address()).unwrap();
        std::thread::scope(|threads| {
            let stores = threads.spawn(|| placed.store(0, 7));
            // Not released yet: the message is only looked for.
            let mut ready = [PollFd::new(&traps.faults, PollFlags::IN)];
            while poll(&mut ready, None).is_err() {}
            placed.show(&second).unwrap();
            assert_eq!(trapped(&traps), [placed.address()]);
            stores.join().unwrap();
        });
        assert_eq!(placed.load(0), 7);
        placed.show(&first).unwrap();
        assert_eq!(placed.load(0), 0);
    }

    #[test]
    fn a_poke_and_a_time_end_a_wait() {
        let Some(traps) = traps() else { return };
        let mut pages = Vec::new();
        traps.poke();
        traps.wait(None, |page| pages.push(page));
        traps.wait(Some(Duration::ZERO), |page| pages.push(page));
        assert!(pages.is_empty());
        traps.release(PlacedPage::reserve().unwrap().address());
    }
}
