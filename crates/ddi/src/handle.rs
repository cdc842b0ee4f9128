//! Owns handles. Kernel and driver each name their own objects; several DDIs swap one for the
//! other.

/// A handle that the kernel gave the driver: the driver only ever passes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsHandle(pub u64);

/// A handle that the driver gave the kernel: the kernel only ever passes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverHandle(pub u64);
