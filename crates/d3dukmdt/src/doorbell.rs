//! The doorbell's status word, and the hint that goes with a ring.

use tidegate_platform::PlantedFault;
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

    /// The process only stores, and gives the hint late or never: an engine that runs looks at the
    /// doorbell's page itself. An engine that sleeps still needs the hint.
    fn is_not_given(&self) {}

    /// The same as data, for a user-mode driver in another process. `None`: it has to notify the
    /// driver of each ring, as the published contract says.
    fn bits(&self) -> Option<RingBits> {
        None
    }
}

/// The hint of a doorbell that wakes no engine: the engine reads it anyway, or a notification
/// follows each ring.
#[derive(Clone, Copy, Debug)]
pub struct NoHint;

impl RingHint for NoHint {
    fn rung(&self) {}
}

/// What follows a doorbell's store, as data: 1. a full barrier; 2. the bit of `leaf`, then that of
/// `root`, is set unless it is set; 3. if `sleeper` is not 0, the engine sleeps and is woken.
#[derive(Clone, Debug)]
pub struct RingBits {
    /// A word that the process may write and the bit there, if the doorbell has one below the root.
    pub leaf: Option<(Word, u64)>,
    /// A word that the process may write, and the bit there.
    pub root: (Word, u64),
    /// A word that the process may read: not 0 while the engine sleeps.
    pub sleeper: Word,
}

impl RingBits {
    /// Carries out steps 1 and 2. A bit that is set already is only loaded: the scan that takes it
    /// comes later and loads the doorbell.
    #[inline]
    pub fn set(&self) {
        let platform = self.sleeper.platform();
        platform.barrier(PlantedFault::NoSummaryBarrier);
        if let Some((leaf, in_leaf)) = &self.leaf {
            set_bit(leaf, *in_leaf);
        }
        let (root, in_root) = &self.root;
        set_bit(root, *in_root);
    }
}

#[inline]
fn set_bit(word: &Word, bit: u64) {
    if word.load() & bit == 0 {
        set_clear_bit(word, bit);
    }
}

/// Apart from [`set_bit`], so that a ring whose bits are set already saves no registers for it.
#[inline(never)]
fn set_clear_bit(word: &Word, bit: u64) {
    word.fetch_or(bit);
}
