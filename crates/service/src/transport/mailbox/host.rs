//! The host's side of a mailbox: requests of a guest, answers, and the room for its objects.
//!
//! Order at the end of a process: its session ends its objects, then the places of its memory are
//! free, then the guest reads that it has ended.

use super::super::attachment::Attachment;
use super::super::eventfd::{new_eventfd, ring};
use super::super::message::{MAX_ATTACHMENTS, MAX_MESSAGE_BYTES, Peer, Received};
use super::super::socket;
use super::*;
use rustix::event::{PollFd, PollFlags};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tidegate_calls::{Handle, RingHint, Status};
use tidegate_platform::{Bulk, ClientAccess, InRoom, Mutex, Page, Platform, Room, Untrusted};

/// Fewest copies that are looked through for unused ones.
const COLLECT_FIRST: usize = 64;

/// The memory of a guest, and what the host and the guest ring.
pub(crate) struct Mailbox {
    room: Room,
    words: Page,
    request: Untrusted<Bulk>,
    answer: Bulk,
    /// Rung by the guest.
    of_host: [OwnedFd; VECTORS],
    /// Rung for the guest.
    of_guest: [OwnedFd; VECTORS],
    /// The connection of the virtual machine. Nothing is received from it.
    machine: OwnedFd,
    /// Readable once the service stops.
    stop: Arc<OwnedFd>,
    /// Readable once the guest is cut off.
    cut: OwnedFd,
    state: Mutex<State>,
    copies: Mutex<Copies>,
    rings: Mutex<BTreeMap<Handle, Arc<dyn RingHint>>>,
}

#[derive(Default)]
struct State {
    /// The number of the last request that was taken.
    taken: u64,
    /// The number and body of the first message of a process, until its session receives it.
    begun: Option<(u64, Vec<u8>)>,
}

/// Copies of pages that the guest may only read, by the addresses of the pages.
#[derive(Default)]
struct Copies {
    of: BTreeMap<u64, InRoom>,
    collect_at: usize,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailbox({:?})", self.machine)
    }
}

impl Mailbox {
    /// Makes the memory of a guest, a power of two of `bytes` bytes, for the virtual machine at the
    /// other end of `machine`.
    ///
    /// # Errors
    /// The system has no memory, descriptor or mapping left.
    pub(crate) fn new(
        platform: &Platform,
        bytes: u64,
        machine: OwnedFd,
        stop: &Arc<OwnedFd>,
    ) -> io::Result<Mailbox> {
        let room = platform.room(bytes, OBJECTS_AT as usize)?;
        let beyond = || io::Error::from(io::ErrorKind::InvalidInput);
        let page = |at| room.page(platform, at, PAGE_WORDS).ok_or_else(beyond);
        let bulk = |at| room.bulk(platform, at, MAX_MESSAGE_BYTES).ok_or_else(beyond);
        let first = page(0)?;
        header(bytes).into_iter().enumerate().for_each(|(word, value)| first.store(word, value));
        let (words, request, answer) = (page(WORDS_AT)?, bulk(REQUEST_AT)?, bulk(ANSWER_AT)?);
        Ok(Mailbox {
            words,
            request: Untrusted::new(request),
            answer,
            of_host: [new_eventfd()?, new_eventfd()?],
            of_guest: [new_eventfd()?, new_eventfd()?],
            machine,
            stop: stop.clone(),
            cut: new_eventfd()?,
            state: platform.mutex("requests of a guest", State::default()),
            copies: platform.mutex("copies for a guest", Copies::default()),
            rings: platform.mutex("rings of a guest", BTreeMap::new()),
            room,
        })
    }

    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    pub(crate) fn machine(&self) -> &OwnedFd {
        &self.machine
    }

    /// Returns the vectors of the host and of the guest.
    pub(crate) fn vectors(&self) -> [&[OwnedFd; VECTORS]; 2] {
        [&self.of_host, &self.of_guest]
    }

    /// Waits until the guest rings a vector of the host. False once the guest is gone or cut off.
    fn wait(&self, vector: usize) -> bool {
        loop {
            let rung = &self.of_host[vector];
            let mut polled = [
                PollFd::new(rung, PollFlags::IN),
                // The virtual machine sends nothing, so what can be received is its end.
                PollFd::new(&self.machine, PollFlags::IN | PollFlags::RDHUP),
                PollFd::new(&self.stop, PollFlags::IN),
                PollFd::new(&self.cut, PollFlags::IN),
            ];
            match rustix::event::poll(&mut polled, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return false,
                Ok(_) if polled[1..].iter().any(|end| !end.revents().is_empty()) => return false,
                Ok(_) => {}
            }
            // Taken before the words are read, so that a later ring ends the next wait.
            let _ = rustix::io::read(rung, &mut [0; 8]);
            return true;
        }
    }

    /// Returns whether the virtual machine has closed its end.
    pub(crate) fn has_left(&self) -> bool {
        let mut polled = [PollFd::new(&self.machine, PollFlags::IN | PollFlags::RDHUP)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&now)).is_ok_and(|ready| ready != 0)
    }

    fn word(&self, index: usize) -> u64 {
        Untrusted::new(self.words.word(index)).load_once()
    }

    /// Takes the next request. Returns its number and kind; its bytes are in `buffer`. `None`: the
    /// guest is gone.
    ///
    /// # Errors
    /// InvalidData for a request that is longer than any message.
    fn next(&self, buffer: &mut Vec<u8>) -> io::Result<Option<(u64, u64)>> {
        loop {
            let number = self.word(REQUEST_NUMBER);
            if self.state.lock_device().taken != number {
                self.state.lock_device().taken = number;
                let (kind, bytes) = (self.word(REQUEST_KIND), self.word(REQUEST_BYTES));
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                if bytes > MAX_MESSAGE_BYTES {
                    let why = "the request is longer than a message";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
                buffer.resize(bytes, 0);
                self.request.read_once(0, buffer).map_err(io::Error::other)?;
                return Ok(Some((number, kind)));
            }
            if !self.wait(REQUESTED) {
                return Ok(None);
            }
        }
    }

    /// Waits for the first message of a process. `None`: the guest is gone.
    pub(crate) fn next_process(self: &Arc<Mailbox>) -> Option<HostEnd> {
        // The first message may have ended the process before.
        let mut begun = self.state.lock_device().begun.take();
        while begun.is_none() {
            let mut body = Vec::new();
            match self.next(&mut body) {
                Ok(Some((number, BEGIN))) => begun = Some((number, body)),
                // A request of a process that has ended already.
                Ok(Some(_)) | Err(_) => {}
                Ok(None) => return None,
            }
        }
        let first = begun.as_ref()?.0;
        self.state.lock_device().begun = begun;
        Some(HostEnd { mailbox: self.clone(), first })
    }

    /// Stores the answer to the last request.
    fn answer<'a>(
        &self,
        body: &[u8],
        attached: impl Iterator<Item = &'a Attachment>,
    ) -> io::Result<()> {
        let places = attached.map(|one| {
            let why = "memory that lies in no room";
            one.place().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, why))
        });
        let places: Vec<(u64, u64)> = places.collect::<io::Result<_>>()?;
        if places.len() > MAX_ATTACHMENTS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many places"));
        }
        self.answer.write(0, body).map_err(io::Error::other)?;
        for (index, (offset, bytes)) in places.iter().enumerate() {
            self.words.store(FIRST_PLACE + 2 * index, *offset);
            self.words.store(FIRST_PLACE + 2 * index + 1, *bytes);
        }
        self.words.store(ANSWER_BYTES, body.len() as u64);
        self.words.store(ANSWER_PLACES, places.len() as u64);
        self.words.store(ANSWER_NUMBER, self.state.lock_device().taken);
        ring(&self.of_guest[ANSWERED]);
        Ok(())
    }

    /// Interrupts the guest, some of whose waits are over.
    pub(crate) fn notify(&self) {
        self.words.fetch_add(NOTICES, 1);
        ring(&self.of_guest[NOTICED]);
    }

    /// Ends the guest: its session and its threads return.
    pub(crate) fn cut_off(&self) {
        ring(&self.cut);
    }

    /// Tells the guest that the service has left.
    pub(crate) fn close(&self) {
        self.cut_off();
        self.words.store(CLOSED, 1);
        self.of_guest.iter().for_each(ring);
    }

    /// Wakes engines when the guest has rung doorbells, until it is gone. Calls `counted` for each
    /// time.
    pub(crate) fn serve_rings(&self, counted: impl Fn()) {
        while self.wait(WOKEN) {
            counted();
            let rung: Vec<Arc<dyn RingHint>> = self.rings.lock().values().cloned().collect();
            rung.iter().for_each(|hint| hint.rung());
        }
    }

    /// Has the guest's ring vector wake the engine of a doorbell, until the result is dropped.
    pub(crate) fn add_ring(
        self: &Arc<Mailbox>,
        doorbell: Handle,
        hint: &Arc<dyn RingHint>,
    ) -> GuestRing {
        self.rings.lock().insert(doorbell, hint.clone());
        GuestRing { mailbox: self.clone(), doorbell, hint: hint.clone() }
    }

    /// Puts a page into the room. Returns it as an attachment, with what a process may do with it.
    ///
    /// # Errors
    /// NO_MEMORY for a page that another client has, or a room that is full.
    // spec: UMS-193
    pub(crate) fn place_page(&self, page: &Page) -> Result<(Attachment, ClientAccess), Status> {
        let (key, bytes) = (page.word(0).cpu_address(), 8 * page.len() as u64);
        let mut copies = self.copies.lock();
        if let Some(copy) = copies.of.get(&key) {
            return Ok((Attachment::in_room(copy.offset, bytes), ClientAccess::ReadOnly));
        }
        let place = self.room.enter_page(page).map_err(|_| Status::NO_MEMORY)?;
        let offset = place.offset;
        if !place.is_copy() {
            return Ok((Attachment::in_room(offset, bytes), ClientAccess::ReadWrite));
        }
        if copies.of.len() >= copies.collect_at {
            copies.of.retain(|_, copy| !copy.is_only_reference());
            copies.collect_at = COLLECT_FIRST.max(2 * copies.of.len());
        }
        copies.of.insert(key, place);
        Ok((Attachment::in_room(offset, bytes), ClientAccess::ReadOnly))
    }

    /// Puts bytes into the room, as [`Mailbox::place_page`] does.
    ///
    /// # Errors
    /// As [`Mailbox::place_page`].
    pub(crate) fn place_bulk(&self, bulk: &Bulk) -> Result<Attachment, Status> {
        let place = self.room.enter_bulk(bulk).map_err(|_| Status::NO_MEMORY)?;
        Ok(Attachment::in_room(place.offset, bulk.len()))
    }
}

/// A doorbell whose engine the guest can wake.
pub(crate) struct GuestRing {
    mailbox: Arc<Mailbox>,
    doorbell: Handle,
    hint: Arc<dyn RingHint>,
}

impl Drop for GuestRing {
    fn drop(&mut self) {
        let mut rings = self.mailbox.rings.lock();
        // A later connect of the doorbell has another hint.
        if rings.get(&self.doorbell).is_some_and(|hint| Arc::ptr_eq(hint, &self.hint)) {
            rings.remove(&self.doorbell);
        }
    }
}

/// The connection of one process of a guest.
#[derive(Debug)]
pub(crate) struct HostEnd {
    mailbox: Arc<Mailbox>,
    /// The number of its first request.
    first: u64,
}

impl HostEnd {
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Takes the first message of this process, unless that is done.
    fn take_first(&self) -> Option<Vec<u8>> {
        let mut state = self.mailbox.state.lock_device();
        state.begun.take_if(|(number, _)| *number == self.first).map(|(_, body)| body)
    }

    pub(in super::super) fn peer(&self) -> io::Result<Peer> {
        socket::peer(&self.mailbox.machine)
    }

    pub(in super::super) fn send<'a>(
        &self,
        body: &[u8],
        attached: impl Iterator<Item = &'a Attachment>,
    ) -> io::Result<()> {
        self.mailbox.answer(body, attached)
    }

    pub(in super::super) fn receive<'a>(
        &self,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<Option<Received<'a>>> {
        if let Some(body) = self.take_first() {
            *buffer = body;
            return Ok(Some(Received { body: buffer, attached: Vec::new() }));
        }
        match self.mailbox.next(buffer)? {
            Some((_, MESSAGE)) => Ok(Some(Received { body: buffer, attached: Vec::new() })),
            // Another process begins. This one has ended, whether or not it has said so.
            Some((number, BEGIN)) => {
                self.mailbox.state.lock_device().begun = Some((number, std::mem::take(buffer)));
                Ok(None)
            }
            Some(_) | None => Ok(None),
        }
    }
}

impl Drop for HostEnd {
    /// Has the guest read that its process has ended. Its session has ended its objects.
    fn drop(&mut self) {
        let _unread = self.take_first();
        self.mailbox.copies.lock().of.clear();
        self.mailbox.words.store(ENDED, self.first);
        self.mailbox.of_guest.iter().for_each(ring);
    }
}
