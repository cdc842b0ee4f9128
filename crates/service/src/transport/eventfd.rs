//! Event counters of the system, with which one process wakes another.

use rustix::event::EventfdFlags;
use std::io;
use std::os::fd::OwnedFd;

/// Returns a counter of 0, which no read or write blocks on.
pub(crate) fn new_eventfd() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Makes the counter readable.
pub(super) fn ring(eventfd: &OwnedFd) {
    // A counter that is full is readable, too.
    let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
}
