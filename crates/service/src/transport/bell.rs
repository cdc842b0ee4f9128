//! The bell wakes a client that sleeps without a call: an eventfd, a word of a pair of queues, or
//! an interrupt of a guest.

use super::attachment::Attachment;
use super::eventfd;
use super::mailbox::Mailbox;
use super::queues;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tidegate_platform::{Step, Word};

/// Wakes a client that sleeps for the ends of waits.
#[derive(Clone, Debug)]
pub(crate) enum Bell {
    Eventfd(Arc<OwnedFd>),
    Word(Word),
    /// The host's side of an interrupt.
    Guest(Arc<Mailbox>),
    /// The guest's side.
    Interrupt,
}

impl Bell {
    pub(crate) fn ring(&self) {
        match self {
            Bell::Eventfd(descriptor) => eventfd::ring(descriptor),
            Bell::Word(word) => {
                word.fetch_or(queues::RUNG);
                word.wake(u32::MAX, Step::ThreadWake);
            }
            Bell::Guest(mailbox) => mailbox.notify(),
            Bell::Interrupt => {}
        }
    }

    /// Returns the client's side of what came with a message.
    ///
    /// # Errors
    /// InvalidData for what is not a bell.
    pub(crate) fn of(attached: Attachment) -> io::Result<Bell> {
        match attached.into_word() {
            Ok(word) => Ok(Bell::Word(word)),
            Err(attached) if attached.is_of_device() => Ok(Bell::Interrupt),
            Err(attached) => {
                let refused = || io::Error::new(io::ErrorKind::InvalidData, "what came is no bell");
                Ok(Bell::Eventfd(Arc::new(attached.into_file().ok_or_else(refused)?)))
            }
        }
    }

    /// Returns the bell for the client.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn attachment(&self) -> io::Result<Attachment> {
        match self {
            Bell::Eventfd(descriptor) => Ok(descriptor.try_clone()?.into()),
            Bell::Word(word) => Ok(Attachment::of_word(word)),
            // The mailbox has the word that changes.
            Bell::Guest(_) | Bell::Interrupt => Ok(Attachment::in_room(0, 0)),
        }
    }
}
