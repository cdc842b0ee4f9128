//! The doorbell's status word, and the hint that goes with a ring.

use tidegate_platform::Word;

// spec: UMS-027
/// D3DDDI_DOORBELLSTATUS. The kernel writes it; the user-mode driver reads it as a 64-bit word.
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
    /// Decodes a status word. An unpublished number counts as ABORT.
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

/// Wakes an engine that does not poll the doorbell's page. The kernel-mode driver hands the hint to
/// the user-mode driver of the same vendor; the kernel does not interpret it. Valid for one
/// connect.
pub trait RingHint: Send + Sync {
    /// Call after the doorbell's store.
    fn rung(&self);

    /// The same as data, for a user-mode driver in another process. `None`: it has to notify the
    /// driver of each ring, as the published contract says.
    fn bits(&self) -> Option<RingBits> {
        None
    }
}

/// What follows a doorbell's store, as data: 1. a full barrier; 2. each bit of `bits` is set in its
/// word, in order, unless it is set; 3. a full barrier; 4. if `sleeper` is not 0, the engine sleeps,
/// and the driver is notified.
#[derive(Clone, Debug)]
pub struct RingBits {
    /// Words that the process may write, and a bit of each.
    pub bits: [(Word, u64); 2],
    /// A word that the process may read: not 0 while the engine sleeps.
    pub sleeper: Word,
}
