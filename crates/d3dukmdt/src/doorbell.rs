//! Owns the doorbell's status word and the hint that goes with a ring.

use crate::Status;

// spec: UMS-027
/// D3DDDI_DOORBELLSTATUS. The kernel writes it, the user-mode driver reads it as a 64-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum DoorbellStatus {
    /// A ring is enough.
    Connected = 0,
    /// Ring, then D3DKMTNotifyWorkSubmission.
    ConnectedNotify = 1,
    /// Connect and submit again.
    DisconnectedRetry = 2,
    /// Give up this queue: destroy and re-create it.
    DisconnectedAbort = 3,
}

impl DoorbellStatus {
    /// What a status word says; a number that no document names counts as ABORT.
    pub fn from_word(word: u64) -> DoorbellStatus {
        match word {
            0 => DoorbellStatus::Connected,
            1 => DoorbellStatus::ConnectedNotify,
            2 => DoorbellStatus::DisconnectedRetry,
            _ => DoorbellStatus::DisconnectedAbort,
        }
    }

    /// Whether the doorbell has hardware.
    pub fn is_connected(self) -> bool {
        matches!(self, DoorbellStatus::Connected | DoorbellStatus::ConnectedNotify)
    }
}

impl TryFrom<u32> for DoorbellStatus {
    type Error = Status;

    /// The status of that number, as a driver states it; INVALID_PARAMETER for any other.
    fn try_from(number: u32) -> Result<DoorbellStatus, Status> {
        if number <= DoorbellStatus::DisconnectedAbort as u32 {
            Ok(DoorbellStatus::from_word(u64::from(number)))
        } else {
            Err(Status::INVALID_PARAMETER)
        }
    }
}

/// What a ringer does beside its store so that an engine that looks elsewhere, or sleeps, finds the
/// ring. It travels from the kernel-mode driver to the user-mode driver of the same vendor, opaque
/// to the kernel, and is valid for one connect.
pub trait RingHint: Send + Sync {
    /// Call after the doorbell's store.
    fn rung(&self);
}
