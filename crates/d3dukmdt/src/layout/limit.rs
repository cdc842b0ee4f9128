//! Owns the limits of the interface that are numbers of its headers. Who takes an array bounds it
//! by one of these.

/// Contexts, or hardware queues, that one broadcast names.
#[doc(alias = "D3DDDI_MAX_BROADCAST_CONTEXT")]
pub const MAX_BROADCAST_CONTEXTS: usize = 64;
/// Fences that one queued wait names. A CPU wait has a limit of its own.
#[doc(alias = "D3DDDI_MAX_OBJECT_WAITED_ON")]
pub const MAX_OBJECTS_WAITED_ON: usize = 32;
/// Fences that one signal names, by the CPU or queued.
#[doc(alias = "D3DDDI_MAX_OBJECT_SIGNALED")]
pub const MAX_OBJECTS_SIGNALED: usize = 32;
/// Objects behind one shared NT handle.
#[doc(alias = "D3DKMT_MAX_OBJECTS_PER_HANDLE")]
pub const MAX_OBJECTS_PER_HANDLE: usize = 3;
/// Primaries that one command buffer says it writes.
#[doc(alias = "D3DDDI_MAX_WRITTEN_PRIMARIES")]
pub const MAX_WRITTEN_PRIMARIES: usize = 16;
/// Private driver data of a doorbell, bytes at most.
#[doc(alias = "D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1")]
pub const DOORBELL_PRIVATE_DATA_BYTES: usize = 16;
/// Private driver data of a native fence, bytes always.
#[doc(alias = "D3DDDI_NATIVE_FENCE_PDD_SIZE")]
pub const NATIVE_FENCE_PRIVATE_DATA_BYTES: usize = 64;
