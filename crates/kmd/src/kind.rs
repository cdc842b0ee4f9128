//! The kinds of objects that a driver's handle names.

/// The kind of object that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A device: a process on the adapter.
    Device = 1,
    /// A context.
    Context = 2,
    /// A hardware queue.
    HwQueue = 3,
    /// A native fence, on the adapter.
    Fence = 4,
    /// An instance of a native fence, in a device.
    LocalFence = 5,
    /// A doorbell.
    Doorbell = 6,
    /// Memory of a process.
    Allocation = 7,
    /// A device's handle of an allocation.
    OpenedAllocation = 8,
}
