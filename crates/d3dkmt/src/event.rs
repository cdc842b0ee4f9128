//! Events of the caller: eventfds that the end of a CPU wait writes.
//!
//! Invariants: an event stays open until its wait is over or cancelled, also if the caller closes
//! its descriptor before. The write is the last use, and the descriptor is closed with it.

use crate::caller::Caller;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use tidegate_calls::{CpuWaitRegistration, Status, WaitCallback, WaitNotice};
use tidegate_platform::{Mutex, Platform};

/// An eventfd of the caller, for one wait.
struct CallerEvent(Mutex<Option<File>>);

/// An eventfd of the caller, for any number of waits.
pub(crate) struct LastingEvent(File);

impl WaitCallback for LastingEvent {
    fn wait_is_over(&self) {
        set(&self.0);
    }
}

/// Sets an event. An eventfd whose counter is full is set already, and a write to it would block
/// the thread that ends waits: the descriptor may be a blocking one.
fn set(mut event: &File) {
    let mut room = [PollFd::new(event, PollFlags::OUT)];
    if poll(&mut room, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1) {
        let _set = event.write(&1u64.to_ne_bytes());
    }
}

impl WaitCallback for CallerEvent {
    fn wait_is_over(&self) {
        let event = self.0.lock_device().take();
        if let Some(event) = event {
            set(&event);
        }
    }
}

/// Returns a duplicate of the event of a HANDLE.
fn duplicate(caller: &Caller, handle: u64) -> Result<File, Status> {
    let event = File::from(caller.descriptor(handle)?);
    let is_event = match std::fs::read_link(format!("/proc/self/fd/{}", event.as_raw_fd())) {
        Ok(kind) => kind.as_os_str() == "anon_inode:[eventfd]",
        Err(_) => takes_a_count(&event),
    };
    if is_event { Ok(event) } else { Err(Status::INVALID_HANDLE) }
}

/// Returns whether a descriptor is an eventfd, where `/proc` is not mounted. It has no type of a
/// file, and a count of 0 can be added to it. Other descriptors without a type refuse the write.
fn takes_a_count(mut event: &File) -> bool {
    let untyped = |mode| FileType::from_raw_mode(mode) == FileType::Unknown;
    let is_untyped = rustix::fs::fstat(event).is_ok_and(|found| untyped(found.st_mode));
    is_untyped && matches!(event.write(&0u64.to_ne_bytes()), Ok(8))
}

/// Returns the notice that sets the event of a HANDLE once.
///
/// # Errors
/// INVALID_HANDLE for anything but an eventfd.
pub(crate) fn notice(
    platform: &Platform,
    caller: &Caller,
    handle: u64,
) -> Result<WaitNotice, Status> {
    let event = platform.mutex("an event of the caller", Some(duplicate(caller, handle)?));
    Ok(WaitNotice::Callback(Arc::new(CallerEvent(event))))
}

/// Returns the event of a HANDLE, for any number of waits.
///
/// # Errors
/// INVALID_HANDLE for anything but an eventfd.
pub(crate) fn lasting(caller: &Caller, handle: u64) -> Result<Arc<LastingEvent>, Status> {
    Ok(Arc::new(LastingEvent(duplicate(caller, handle)?)))
}

/// Registered waits whose events are not set yet. Those that are over are dropped when their number
/// has doubled.
pub(crate) struct PendingWaits(Mutex<List>);

struct List {
    waits: Vec<CpuWaitRegistration>,
    /// Number of waits at which those that are over are dropped.
    limit: usize,
}

const FEWEST: usize = 16;
/// Most waits of a device that are pending at the same time.
const MOST: usize = 1 << 16;

impl PendingWaits {
    pub(crate) fn new(platform: &Platform) -> PendingWaits {
        PendingWaits(platform.mutex("pending waits", List { waits: Vec::new(), limit: FEWEST }))
    }

    /// Keeps a wait until it is over.
    ///
    /// # Errors
    /// INSUFFICIENT_RESOURCES if too many are pending. The wait is cancelled then.
    pub(crate) fn keep(&self, wait: CpuWaitRegistration) -> Result<(), Status> {
        if wait.is_over() {
            return Ok(());
        }
        // Dropped outside of the lock, because a cancellation calls the kernel.
        let (over, refused) = {
            let mut list = self.0.lock_device();
            let mut over = Vec::new();
            if list.waits.len() >= list.limit {
                let (ended, waits) = list.waits.drain(..).partition(CpuWaitRegistration::is_over);
                (over, list.waits) = (ended, waits);
                list.limit = (2 * list.waits.len()).max(FEWEST);
            }
            if list.waits.len() < MOST {
                list.waits.push(wait);
                (over, None)
            } else {
                (over, Some(wait))
            }
        };
        drop(over);
        match refused {
            None => Ok(()),
            Some(_wait) => Err(Status::INSUFFICIENT_RESOURCES),
        }
    }

    /// Cancels what is pending.
    pub(crate) fn cancel_all(&self) {
        let waits = std::mem::take(&mut self.0.lock_device().waits);
        drop(waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::OwnedFd;

    #[test]
    fn only_an_event_takes_a_count() {
        let event = File::from(eventfd(5, EventfdFlags::NONBLOCK).unwrap());
        assert!(takes_a_count(&event));
        let mut count = [0; 8];
        rustix::io::read(&event, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 5, "the probe adds nothing");
        let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC);
        let (_pipe, end) = std::io::pipe().unwrap();
        let memory = rustix::fs::memfd_create(c"memory", rustix::fs::MemfdFlags::CLOEXEC);
        let memory = File::from(memory.unwrap());
        for other in [
            File::from(epoll.unwrap()),
            File::from(OwnedFd::from(end)),
            memory.try_clone().unwrap(),
        ] {
            assert!(!takes_a_count(&other));
        }
        assert_eq!(memory.metadata().unwrap().len(), 0);
    }
}
