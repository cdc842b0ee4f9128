//! Calls and their answers over the socket, one at a time.

use crate::transport::{Attachment, Bell, Heard, Link};
use crate::wire::{self, Message, OwnMessage};
use serde::de::DeserializeOwned;
use tidegate_calls::{Handle, Status};
use tidegate_platform::planted;
use tidegate_platform::{Mutex, Platform, Word};

/// The connection of a process.
pub(super) struct Channel {
    link: Link,
    /// The buffer of answers. Held over a call and its answer.
    turn: Mutex<Vec<u8>>,
    /// 1 once the service is gone.
    lost: Word,
}

impl Channel {
    pub(super) fn new(platform: &Platform, link: Link) -> Channel {
        let turn = platform.mutex("the socket of a service", Vec::new());
        Channel { link, turn, lost: platform.page(1).word(0) }
    }

    /// Makes a call that hands over `files`. Returns its value, and what came with it.
    ///
    /// # Errors
    /// That of the call. DEVICE_REMOVED when the service is gone, or answers with something else.
    pub(super) fn call_with<T: DeserializeOwned>(
        &self,
        call: impl Into<Message>,
        files: &[Attachment],
    ) -> Result<(T, Vec<Attachment>), Status> {
        if !files.is_empty() && !self.link.carries_attachments() {
            return Err(Status::NOT_SUPPORTED);
        }
        let body = wire::encode(&call.into());
        if body.len() > crate::transport::MAX_MESSAGE_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        let mut buffer = self.turn.lock_device();
        if self.is_lost() {
            return Err(Status::DEVICE_REMOVED);
        }
        let sent = self.link.send(&body, files);
        // The fault is the mistake that the scenario served-call-against-call must find.
        if planted!(self.lost.platform(), TurnGivenBackBeforeTheAnswer) {
            drop(buffer);
            buffer = self.turn.lock_device();
        }
        let received = match sent {
            Ok(()) => self.link.receive(&mut buffer).ok().flatten(),
            Err(_) => None,
        };
        let answer = received.and_then(|received| {
            Some((wire::decode::<Result<T, Status>>(received.body)?, received.attached))
        });
        match answer {
            Some((result, files)) => result.map(|value| (value, files)),
            None => {
                self.close();
                Err(Status::DEVICE_REMOVED)
            }
        }
    }

    /// As [`Channel::call_with`], without files.
    pub(super) fn call<T: DeserializeOwned>(&self, call: impl Into<Message>) -> Result<T, Status> {
        self.call_with(call, &[]).map(|(value, _)| value)
    }

    /// Wakes the engine of a doorbell that was rung. Its service is gone when this fails, and so is
    /// the engine.
    pub(super) fn wake_engine(&self, doorbell: Handle) {
        if !self.link.wake_engines() {
            let _: Result<(), Status> = self.call(OwnMessage::WakeEngine { doorbell });
        }
    }

    /// Returns whether the service wakes threads that sleep on words of its memory.
    pub(super) fn wakes_sleepers(&self) -> bool {
        self.link.wakes_sleepers()
    }

    /// Returns whether calls may hand over files.
    pub(super) fn carries_files(&self) -> bool {
        self.link.carries_attachments()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load() != 0
    }

    /// Waits until the bell rings or the connection ends.
    pub(super) fn wait_for(&self, bell: &Bell) -> Heard {
        self.link.wait_for(bell)
    }

    /// Ends the connection in order: the service ends the process when its queued work is complete.
    /// Waits for no other thread, of which one may be in a call.
    pub(super) fn say_goodbye(&self) {
        if self.lost.fetch_or(1) == 0 {
            self.link.send_last(&wire::encode(&Message::from(OwnMessage::Goodbye)));
        }
    }

    /// Ends the connection.
    pub(super) fn close(&self) {
        self.lost.store(1);
        self.link.shut_down();
    }
}
