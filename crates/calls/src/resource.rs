//! Shared resources: allocations that several processes have open. Each process has allocations of
//! its own, of the same memory, which lives while a process or an NT handle has the resource.

use crate::{Allocation, Handle, NtHandle};
use serde::{Deserialize, Serialize};

/// Most allocations of a shared resource.
pub const MAX_SHARED_ALLOCATIONS: usize = 1024;
/// Most bytes that a shared resource carries for its openers.
pub const MAX_RESOURCE_DATA_BYTES: usize = 64 << 10;

/// What the creator of a resource passes to those that open it. The kernel does not read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceData {
    /// Private data of the runtime.
    pub runtime: Vec<u8>,
    /// Private data of the driver about the resource.
    pub driver: Vec<u8>,
    /// Private data of the driver about each allocation.
    pub allocations: Vec<Vec<u8>>,
}

impl ResourceData {
    /// Returns the bytes of all parts.
    pub fn bytes(&self) -> usize {
        let of_allocations: usize = self.allocations.iter().map(Vec::len).sum();
        self.runtime.len() + self.driver.len() + of_allocations
    }
}

/// D3DKMTCreateAllocation2 with CreateShared, after the creation of the allocations.
#[derive(Clone, Copy, Debug)]
pub struct CreateResource<'a> {
    /// The device.
    pub device: Handle,
    /// Its allocations, at most [`MAX_SHARED_ALLOCATIONS`], in memory that does not move. The
    /// resource ends them.
    pub allocations: &'a [Handle],
    /// One entry for each allocation; at most [`MAX_RESOURCE_DATA_BYTES`].
    pub data: &'a ResourceData,
    /// NtSecuritySharing: it is shared by NT handle, and has no global handle.
    pub nt_security_sharing: bool,
}

/// A shared resource, as its creator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// Its handle in the process.
    pub handle: Handle,
    /// Its global handle, as of [`crate::SynchronizationObject`]; 0 for none.
    pub shared_handle: u32,
}

/// How a shared resource is named by another process.
#[derive(Clone, Copy, Debug)]
pub enum ResourceName<'a> {
    /// By global handle, which keeps nothing alive.
    Shared(u32),
    /// By NT handle.
    NtHandle(&'a NtHandle),
}

/// A shared resource that was opened.
#[derive(Clone, Debug)]
pub struct OpenedResource {
    /// Its handle in the process.
    pub handle: Handle,
    /// What its creator has passed.
    pub data: ResourceData,
    /// The allocations of this process, resident with one reference and mapped. The resource ends
    /// them.
    pub allocations: Vec<Allocation>,
}
