//! The doorbell's status word, and the hint that goes with a ring.

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
}
