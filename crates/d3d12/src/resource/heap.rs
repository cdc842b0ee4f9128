//! Heaps: memory in which an application places resources, which may share bytes.

use crate::error::{Error, Result};
use crate::model::{Heap, ResidencyChoice};
use crate::shared_device::SharedDevice;
use crate::states::facts::HeapRange;
use crate::umd::buffer::{BufferMemory, MappedAllocation};
use crate::umd::kernel_object::KernelDevice;
use std::fmt;
use std::sync::Arc;
use tidegate_calls::{Handle, Placement};

/// The alignment of placed resources and of the lengths of heaps in bytes
/// (D3D12_DEFAULT_RESOURCE_PLACEMENT_ALIGNMENT). Multisampled resources, which need 4 MiB, do not
/// exist here.
pub const PLACEMENT_ALIGNMENT: u64 = 64 << 10;

/// Describes a heap to create (D3D12_HEAP_DESC). The default is in local memory, without a length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapDesc {
    /// Its name in messages.
    pub name: String,
    /// Its length in bytes; it is rounded up to a multiple of [`PLACEMENT_ALIGNMENT`].
    pub bytes: u64,
    /// Its memory.
    pub heap: Heap,
}

impl HeapDesc {
    /// Describes a heap in local memory.
    pub fn new(name: impl Into<String>, bytes: u64) -> HeapDesc {
        HeapDesc { name: name.into(), bytes, heap: Heap::Default }
    }

    /// Sets the memory.
    pub fn heap(self, heap: Heap) -> HeapDesc {
        HeapDesc { heap, ..self }
    }
}

/// A heap of an application (ID3D12Heap). Resources that are placed in it keep it alive.
#[derive(Clone)]
pub struct ResourceHeap {
    allocation: Arc<MappedAllocation>,
    name: Arc<str>,
    heap: Heap,
}

/// Returns the placement of a heap type for the kernel.
pub(crate) fn placement(device: &SharedDevice, heap: Heap) -> Placement {
    match heap {
        Heap::Default | Heap::GpuUpload
            if device.umd.options.residency == ResidencyChoice::Automatic =>
        {
            Placement::LocalOnDemand
        }
        Heap::Default | Heap::GpuUpload => Placement::Local,
        Heap::Upload | Heap::Readback => Placement::System,
    }
}

impl ResourceHeap {
    pub(crate) fn new(device: &SharedDevice, desc: HeapDesc) -> Result<ResourceHeap> {
        let HeapDesc { name, bytes, heap } = desc;
        let what = || format!("heap '{name}' of {bytes} bytes");
        let rounded = bytes.checked_next_multiple_of(PLACEMENT_ALIGNMENT).filter(|b| *b > 0);
        let Some(rounded) = rounded else {
            return Err(Error::BadValue { what: what(), why: "give it at least one byte" });
        };
        let made = MappedAllocation::new(&device.umd.kernel, rounded, placement(device, heap));
        let made = made.map_err(|s| device.error("D3DKMTCreateAllocation2", &what(), s))?;
        Ok(ResourceHeap { allocation: Arc::new(made), name: name.into(), heap })
    }

    /// Returns its description, with the length that it has.
    #[doc(alias = "GetDesc")]
    pub fn desc(&self) -> HeapDesc {
        HeapDesc { name: self.name().to_owned(), bytes: self.bytes(), heap: self.heap }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.allocation.bytes()
    }

    pub(crate) fn heap_type(&self) -> Heap {
        self.heap
    }

    /// Returns the GPU address of its first byte.
    pub(crate) fn gpu_va(&self) -> u64 {
        self.allocation.gpu_va()
    }

    pub(crate) fn allocation(&self) -> Handle {
        self.allocation.handle()
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        self.allocation.device()
    }

    /// Bytes of the heap for a resource of heap type `of`.
    pub(crate) fn place(
        &self,
        what: &str,
        name: &str,
        of: Heap,
        offset: u64,
        bytes: u64,
    ) -> Result<(BufferMemory, HeapRange)> {
        let refuse = |why| {
            let heap = &self.name;
            let what = format!("{what} at {offset} of heap '{heap}' of {} bytes", self.bytes());
            Err(Error::BadValue { what, why })
        };
        if of != self.heap {
            return refuse("the heap is of another type; describe the resource for the heap's");
        }
        if !offset.is_multiple_of(PLACEMENT_ALIGNMENT) {
            return refuse("place it at a multiple of 65536 bytes");
        }
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes()) {
            return refuse("it leaves the heap; place it lower or make the heap longer");
        }
        let memory = BufferMemory::placed(&self.allocation, name.to_owned(), offset, bytes);
        Ok((memory, HeapRange { heap: Arc::clone(&self.name), offset, bytes }))
    }
}

impl fmt::Debug for ResourceHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceHeap({:?}, {} bytes)", self.name(), self.bytes())
    }
}
