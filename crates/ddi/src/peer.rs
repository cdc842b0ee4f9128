//! The arguments for signals between GPUs without the CPU. Ours: the documents announce common
//! doorbell memory and shared fence storage for the future, without details.
//!
//! Order: 1. both adapters declare it ([`PeerSignalCaps`]); 2. each driver gives its common
//! doorbell, and is given the other's, under a number that means that adapter from then on; 3. for
//! each fence that both have open, each driver receives the list of adapters that watch it.

use crate::DriverHandle;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use tidegate_platform::PhysicalAddress;

/// What an adapter can do with others of its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSignalCaps {
    /// It has a common doorbell, and writes to those of others.
    pub common_doorbell: bool,
    /// It loads other adapters' MonitoredValues and counts of waiting queues, and lets its own be
    /// loaded, so that a doorbell is written only for a waiter. Only together with
    /// `common_doorbell`.
    pub shared_fence_storage: bool,
}

/// A common doorbell, as one driver gives it and another takes it. The kernel hands it on and does
/// not look inside: it is memory on the bus, in the format of the hardware that both drive.
#[derive(Clone)]
pub struct PeerDoorbell(Arc<dyn Any + Send + Sync>);

impl PeerDoorbell {
    /// For the driver that gives it.
    pub fn new(doorbell: impl Any + Send + Sync) -> PeerDoorbell {
        PeerDoorbell(Arc::new(doorbell))
    }

    /// For the driver that takes it: the doorbell, if it is of this kind.
    pub fn of_kind<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for PeerDoorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerDoorbell({:p})", Arc::as_ptr(&self.0))
    }
}

/// Another adapter that has a fence open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerFence {
    /// The adapter's number.
    pub peer: u32,
    /// Where its MonitoredValue stands, if this adapter may load it.
    pub monitored_value: Option<PhysicalAddress>,
}

/// Which other adapters have a fence open.
#[derive(Clone, Debug)]
pub struct LinkNativeFence {
    /// The driver's handle of the fence.
    pub fence: DriverHandle,
    /// Where CurrentValue stands on the bus: the fence's name between GPUs.
    pub current_value: PhysicalAddress,
    /// Whether its history stands behind it.
    pub history: bool,
    /// Where this adapter's MonitoredValue stands: what the GPU compares with when another one
    /// tells it of a signal.
    pub monitored_value: PhysicalAddress,
    /// All others, in the place of those of an earlier call; with none, the GPU forgets the fence.
    pub peers: Vec<PeerFence>,
}
