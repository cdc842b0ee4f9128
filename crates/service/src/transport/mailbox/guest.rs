//! The guest's side of a mailbox: a process that has mapped the device.
//!
//! A guest has no driver for the device in its kernel: it maps the BARs by sysfs. It sleeps for an
//! interrupt where it has a descriptor for that, and else looks again after a while.

use super::super::attachment::Attachment;
use super::super::eventfd::{new_eventfd, ring};
use super::super::message::{Heard, MAX_ATTACHMENTS, MAX_MESSAGE_BYTES, Received};
use super::*;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use tidegate_platform::{Bulk, DeviceMemory, Mutex, Page, Platform, Word};

/// The register of BAR0 that rings a vector of a peer.
const DOORBELL_REGISTER: usize = 12;
/// Looks without a sleep, and the sleep before each later look.
const QUICK_LOOKS: u32 = 64;
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000 };

/// The device as a process has mapped it.
pub struct GuestDevice {
    memory: DeviceMemory,
    doorbell: Doorbell,
    /// Readable after an interrupt of each vector; `None` without a driver that has them.
    interrupts: Option<[OwnedFd; VECTORS]>,
}

/// What rings the vectors of the host.
enum Doorbell {
    /// BAR0 of the device.
    Register(DeviceMemory),
    Eventfds([OwnedFd; VECTORS]),
}

impl fmt::Debug for GuestDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestDevice({:?})", self.memory)
    }
}

impl GuestDevice {
    /// Maps a PCI device by its folder in sysfs, as /sys/bus/pci/devices/0000:00:04.0, and switches
    /// it on. Needs root.
    ///
    /// # Errors
    /// The device does not exist, or may not be mapped.
    pub fn open(platform: &Platform, folder: &Path) -> io::Result<GuestDevice> {
        std::fs::write(folder.join("enable"), "1")?;
        let map = |name: &str| {
            let file =
                std::fs::OpenOptions::new().read(true).write(true).open(folder.join(name))?;
            platform.map_device(&file.into())
        };
        let doorbell = Doorbell::Register(map("resource0")?);
        Ok(GuestDevice { memory: map("resource2")?, doorbell, interrupts: None })
    }

    /// The device of a process that a virtual machine is: the file of the memory, what rings the
    /// vectors of the host, and what is readable after interrupts.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn of_files(
        platform: &Platform,
        memory: &OwnedFd,
        doorbells: [OwnedFd; 2],
        interrupts: [OwnedFd; 2],
    ) -> io::Result<GuestDevice> {
        Ok(GuestDevice {
            memory: platform.map_device(memory)?,
            doorbell: Doorbell::Eventfds(doorbells),
            interrupts: Some(interrupts),
        })
    }

    fn ring(&self, vector: usize) {
        match &self.doorbell {
            Doorbell::Register(registers) => {
                let value = u32::from(HOST_PEER) << 16 | vector as u32;
                registers.store_register(DOORBELL_REGISTER, value);
            }
            Doorbell::Eventfds(eventfds) => ring(&eventfds[vector]),
        }
    }
}

/// A process's end of a mailbox.
pub(crate) struct GuestEnd {
    device: GuestDevice,
    words: Page,
    request: Bulk,
    answer: Bulk,
    /// Readable once this end is shut down.
    shut: OwnedFd,
    is_shut: Word,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The numbers of the first request and of the last one.
    first: Option<u64>,
    last: u64,
    /// [`NOTICES`] when it was read last.
    notices: u64,
}

impl fmt::Debug for GuestEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestEnd({:?})", self.device)
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl GuestEnd {
    /// # Errors
    /// InvalidData for a device of another layout; the system has no descriptor left.
    pub(crate) fn new(platform: &Platform, device: GuestDevice) -> io::Result<GuestEnd> {
        let beyond = || invalid("the device has too little memory");
        let page = |at| device.memory.page(platform, at, PAGE_WORDS).ok_or_else(beyond);
        let bulk = |at| device.memory.bulk(platform, at, MAX_MESSAGE_BYTES).ok_or_else(beyond);
        let first = page(0)?;
        let expected = header(device.memory.bytes());
        // The versions of messages are compared by the first message.
        let same = |word: &usize| *word == 2 || first.load(*word) == expected[*word];
        if let Some(word) = (0..expected.len()).find(|word| !same(word)) {
            let (seen, expected) = (first.load(word), expected[word]);
            let what = format!("word {word} of the device is {seen:#x}, expected {expected:#x}");
            return Err(invalid(&what));
        }
        Ok(GuestEnd {
            words: page(WORDS_AT)?,
            request: bulk(REQUEST_AT)?,
            answer: bulk(ANSWER_AT)?,
            shut: new_eventfd()?,
            is_shut: platform.page(1).word(0),
            state: platform.mutex("requests to a host", State::default()),
            device,
        })
    }

    pub(in super::super) fn send(&self, body: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock_device();
        let last = self.words.load(REQUEST_NUMBER);
        let kind = match state.first {
            None => BEGIN,
            // Another process of the guest has taken the mailbox.
            Some(_) if last != state.last => return Err(io::ErrorKind::BrokenPipe.into()),
            Some(_) => MESSAGE,
        };
        self.request.write(0, body).map_err(io::Error::other)?;
        self.post(&mut state, kind, body.len());
        Ok(())
    }

    fn post(&self, state: &mut State, kind: u64, bytes: usize) {
        state.last = self.words.load(REQUEST_NUMBER).wrapping_add(1).max(1);
        state.first.get_or_insert(state.last);
        self.words.store(REQUEST_KIND, kind);
        self.words.store(REQUEST_BYTES, bytes as u64);
        self.words.store(REQUEST_NUMBER, state.last);
        self.device.ring(REQUESTED);
    }

    /// Returns whether the process or the service has ended.
    fn has_ended(&self) -> bool {
        let first = self.state.lock_device().first;
        let ended = self.words.load(ENDED);
        self.is_shut.load() != 0
            || self.words.load(CLOSED) != 0
            || first.is_some_and(|first| ended >= first)
    }

    /// Waits for an interrupt, or a while.
    fn pause(&self, vector: usize, looks: u32) {
        let shut = PollFd::new(&self.shut, PollFlags::IN);
        match &self.device.interrupts {
            Some(interrupts) => {
                let interrupt = &interrupts[vector];
                let mut polled = [shut, PollFd::new(interrupt, PollFlags::IN)];
                let _ = rustix::event::poll(&mut polled, None);
                // Taken before the words are read again. Of two that wait, both look.
                let _ = rustix::io::read(interrupt, &mut [0; 8]);
            }
            None => {
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                let while_ = if looks < QUICK_LOOKS { &now } else { &LOOK_AGAIN };
                let _ = rustix::event::poll(&mut [shut], Some(while_));
            }
        }
    }

    /// Has the next process of the guest look again, whose interrupt this one may have taken.
    fn pass_on(&self, vector: usize) {
        self.device.interrupts.iter().for_each(|interrupts| ring(&interrupts[vector]));
    }

    pub(in super::super) fn receive<'a>(
        &self,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<Option<Received<'a>>> {
        let number = self.state.lock_device().last;
        let mut looks = 0;
        while self.words.load(ANSWER_NUMBER) != number {
            // An answer is stored before the end.
            if self.has_ended() && self.words.load(ANSWER_NUMBER) != number {
                self.pass_on(ANSWERED);
                return Ok(None);
            }
            self.pause(ANSWERED, looks);
            looks += 1;
        }
        let (bytes, places) = (self.words.load(ANSWER_BYTES), self.words.load(ANSWER_PLACES));
        if bytes > MAX_MESSAGE_BYTES as u64 || places > MAX_ATTACHMENTS as u64 {
            return Err(invalid("the answer is too long"));
        }
        buffer.resize(bytes as usize, 0);
        self.answer.read(0, buffer).map_err(io::Error::other)?;
        let place = |index: usize| {
            let at = FIRST_PLACE + 2 * index;
            let (offset, bytes) = (self.words.load(at), self.words.load(at + 1));
            Attachment::of_device(&self.device.memory, offset, bytes)
        };
        let attached = (0..places as usize).map(place).collect();
        Ok(Some(Received { body: buffer, attached }))
    }

    /// As [`super::super::Link::send_last`], unless another process has the mailbox.
    pub(in super::super) fn send_last(&self, body: &[u8]) {
        self.end(MESSAGE, body);
    }

    /// Ends the process, unless another one has the mailbox.
    pub(in super::super) fn shut_down(&self) {
        self.end(END, &[]);
    }

    /// Sends the last request, once.
    fn end(&self, kind: u64, body: &[u8]) {
        if self.is_shut.exchange(1) != 0 {
            return;
        }
        let mut state = self.state.lock_device();
        if state.first.is_some() && self.words.load(REQUEST_NUMBER) == state.last {
            // A request of another thread that the host has not taken yet is lost with its caller.
            let _written = self.request.write(0, body);
            self.post(&mut state, kind, body.len());
        }
        drop(state);
        ring(&self.shut);
    }

    /// Wakes engines that sleep, by a register of the device and without a message.
    // spec: UMS-191
    pub(in super::super) fn wake_engines(&self) {
        self.device.ring(WOKEN);
    }

    pub(in super::super) fn wait_for_notices(&self) -> Heard {
        let mut looks = 0;
        loop {
            if self.has_ended() {
                self.pass_on(NOTICED);
                return Heard::End;
            }
            let notices = self.words.load(NOTICES);
            let mut state = self.state.lock_device();
            if std::mem::replace(&mut state.notices, notices) != notices {
                return Heard::Bell;
            }
            drop(state);
            self.pause(NOTICED, looks);
            looks += 1;
        }
    }
}

impl Drop for GuestEnd {
    fn drop(&mut self) {
        self.shut_down();
    }
}
