//! A recording of a service's machine.

use super::connect::{ConnectError, first_message};
use crate::transport::Link;
use crate::wire::{self, Purpose, RecordCall, Recorded};
use std::path::Path;
use tidegate_platform::Part;

/// A connection that records. Dropping it ends the recording.
pub struct Recording {
    link: Link,
    buffer: Vec<u8>,
}

impl Recording {
    /// Begins to record the machine of the service that listens at `path`.
    ///
    /// # Errors
    /// As [`super::connect`]; [`crate::Refusal::Recorded`] beside another recording.
    pub fn attach(path: &Path) -> Result<Recording, ConnectError> {
        let (link, (), _) = first_message(path, Purpose::Record)?;
        Ok(Recording { link, buffer: Vec::new() })
    }

    /// Returns a part of what was recorded, and whether more is there. `end`: nothing that comes
    /// after this is wanted.
    ///
    /// # Errors
    /// [`ConnectError::Ended`] when the service is gone.
    pub fn take(&mut self, end: bool) -> Result<(Part, bool), ConnectError> {
        let received = match self.link.send(&wire::encode(&RecordCall { end }), []) {
            Ok(()) => self.link.receive(&mut self.buffer).ok().flatten(),
            Err(_) => None,
        };
        let recorded = received.and_then(|received| wire::decode::<Recorded>(received.body));
        recorded.map(|Recorded { part, left }| (part, left)).ok_or(ConnectError::Ended)
    }
}
