//! Arguments of the entries for signals between GPUs without the CPU. Not published: the documents
//! announce common doorbell memory and shared fence storage for the future, without details.
//!
//! 1. Both adapters declare the caps ([`PeerSignalCaps`]).
//! 2. Each driver returns its common doorbell and receives the peer's, with the peer's
//!    number.
//! 3. For each fence that both have open, each driver receives the list of watching adapters.

use crate::DriverHandle;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use tidegate_platform::PhysicalAddress;

/// Caps of an adapter for signals to other adapters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSignalCaps {
    /// It has a common doorbell and writes to the common doorbells of peers.
    pub common_doorbell: bool,
    /// Peers load each other's MonitoredValues and counts of waiting queues, so a doorbell is
    /// written only for a waiter. Requires `common_doorbell`.
    pub shared_fence_storage: bool,
}

/// A common doorbell, passed from one driver to another. The kernel does not interpret it: it is
/// memory on the bus, in the format of the hardware that both drive.
#[derive(Clone)]
pub struct PeerDoorbell(Arc<dyn Any + Send + Sync>);

impl PeerDoorbell {
    /// Wraps the doorbell of a driver.
    pub fn new(doorbell: impl Any + Send + Sync) -> PeerDoorbell {
        PeerDoorbell(Arc::new(doorbell))
    }

    /// Returns the doorbell, if it is of this type.
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
    /// Address of its MonitoredValue, if this adapter may load it.
    pub monitored_value: Option<PhysicalAddress>,
}

/// The other adapters that have a fence open.
#[derive(Clone, Debug)]
pub struct LinkNativeFence {
    /// The driver's handle of the fence.
    pub fence: DriverHandle,
    /// Bus address of CurrentValue. It identifies the fence between GPUs.
    pub current_value: PhysicalAddress,
    /// Whether the fence has a history.
    pub history: bool,
    /// Address of this adapter's MonitoredValue. The GPU compares it with signals that peers
    /// report.
    pub monitored_value: PhysicalAddress,
    /// All watchers; replaces the list of an earlier call. An empty list unlinks the fence.
    pub peers: Vec<PeerFence>,
}
