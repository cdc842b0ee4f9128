//! The file descriptor of an event: an eventfd that is readable while the event is set.
//!
//! Invariant: the lock orders updates, and each update reads the state inside it, so the descriptor
//! ends with the last state. Between a change of the state and its update the two may differ.

use crate::platform::PlatformKind;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_machines::os;

/// Errors of [`crate::Event::fd`].
#[derive(Debug, thiserror::Error)]
pub enum DescriptorError {
    /// Agents of the other platforms wait in virtual time, where a descriptor never becomes ready.
    #[error("an event of a {0:?} platform has no file descriptor; wait for it, or use the host")]
    NotOnHost(PlatformKind),
    /// The system refused the descriptor.
    #[error("eventfd: {0}; close descriptors or raise the limit")]
    System(#[from] io::Error),
}

/// The file descriptor of an [`crate::Event`]. It is readable while the event is set; poll, epoll
/// and `AsyncFd` of tokio take it. Do not read or write it: the event does.
#[derive(Clone, Debug)]
pub struct EventFd(Arc<File>);

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The descriptor of one event.
pub(super) struct Readiness {
    file: Arc<File>,
    /// Whether the descriptor is readable.
    readable: Mutex<bool>,
}

impl Readiness {
    pub(super) fn new() -> Result<Readiness, DescriptorError> {
        Ok(Readiness { file: Arc::new(File::from(os::eventfd()?)), readable: Mutex::new(false) })
    }

    pub(super) fn descriptor(&self) -> EventFd {
        EventFd(Arc::clone(&self.file))
    }

    /// Makes the descriptor follow the state of its event.
    pub(super) fn update(&self, is_set: impl Fn() -> bool) {
        let mut readable = self.readable.lock().unwrap_or_else(PoisonError::into_inner);
        let set = is_set();
        if set == *readable {
            return;
        }
        *readable = set;
        // Neither can fail: the counter is 0 or 1, and it is not blocking.
        let _counter = match set {
            true => (&*self.file).write(&1u64.to_ne_bytes()),
            false => (&*self.file).read(&mut [0; 8]),
        };
    }
}
