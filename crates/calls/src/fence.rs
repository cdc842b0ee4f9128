//! Owns the arguments of synchronisation object calls.

use crate::{Handle, NativeFenceType, ReadOnly, SyncObjectFlags};

bitflags::bitflags! {
    /// D3DDDICB_SIGNALFLAGS.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SignalFlags: u32 {
        /// The caller means to go to a lower value.
        const ALLOW_FENCE_REWIND = 1 << 2;
    }
}

/// D3DKMTCreateSynchronizationObject2 with D3DDDI_MONITORED_FENCE.
#[derive(Clone, Copy, Debug)]
pub struct CreateMonitoredFence<'a> {
    /// The device.
    pub device: Handle,
    /// Starting value.
    pub initial_value: u64,
    /// Rules.
    pub flags: SyncObjectFlags,
    /// A name for reports and timelines; no rule of the interface.
    pub name: &'a str,
}

/// D3DKMTCreateNativeFence.
#[derive(Clone, Copy, Debug)]
pub struct CreateNativeFence<'a> {
    /// The device.
    pub device: Handle,
    /// Starting CurrentValue.
    pub initial_value: u64,
    /// DEFAULT or INTRA_GPU.
    pub fence_type: NativeFenceType,
    /// Rules.
    pub flags: SyncObjectFlags,
    /// A name for reports and timelines; no rule of the interface.
    pub name: &'a str,
}

// spec: NF-016
/// A created or opened fence.
#[derive(Clone, Debug)]
pub struct FenceInstance {
    /// Its handle in this process.
    pub handle: Handle,
    /// The value, for polling.
    pub value: ReadOnly,
    /// The epoch of the fence's cell, which a ring's wait packet carries; `None` where the hardware keeps no history.
    pub epoch: Option<ReadOnly>,
    /// Where engines find the value (CurrentValue of a native fence).
    pub current_value_gpu_va: u64,
    /// Where engines find MonitoredValue; 0 for a monitored fence.
    pub monitored_value_gpu_va: u64,
    /// Whether it is a native fence.
    pub native: bool,
    /// The fence's number on the timeline plus one; 0 for none.
    pub trace_fence: u32,
}

/// One fence and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceValue {
    /// The fence.
    pub fence: Handle,
    /// Waited for, or signalled.
    pub value: u64,
}

/// Whether all or any of several conditions end a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMode {
    /// All, each latched when it becomes true.
    #[default]
    All,
    /// Any one.
    Any,
}

// spec: NF-175
/// D3DKMT_GETNATIVEFENCELOGDETAIL: how many entries a user-mode queue's logs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDetail {
    /// Entries of the wait log; 0 when there is none.
    pub wait_entries: u32,
    /// Entries of the signal log; 0 when there is none.
    pub signal_entries: u32,
}
