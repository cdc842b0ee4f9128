//! Events of the caller: eventfds that the end of a CPU wait writes.
//!
//! Invariants: an event stays open until its wait is over or cancelled, also if the caller closes
//! its descriptor before. The write is the last use, and the descriptor is closed with it.

use crate::caller::Caller;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
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
    let event = caller.descriptor(handle)?;
    let kind = std::fs::read_link(format!("/proc/self/fd/{}", event.as_raw_fd()));
    match kind.is_ok_and(|kind| kind.as_os_str() == "anon_inode:[eventfd]") {
        true => Ok(File::from(event)),
        false => Err(Status::INVALID_HANDLE),
    }
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
