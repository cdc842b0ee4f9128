//! Owns buffers: GPU memory that lists name, and that the CPU writes and reads through its mapping.

use crate::device::DeviceInner;
use crate::error::{Error, Result};
use crate::model::{BufferDesc, Heap, ResidencyChoice};
use crate::umd::kernel_object::{Object, Owned};
use std::fmt;
use std::sync::Arc;
use tidegate_calls::{
    AllocationKind, AllocationMemory, CreateAllocation, Handle, Placement, Status,
};
use tidegate_platform::{Bulk, BulkWindow, OutOfBounds, Step};
use tidegate_trace::{Kind, LaneId};

/// A buffer. Lists that name it keep it alive, and so does the GPU's use of those lists.
#[derive(Clone)]
pub struct Buffer {
    pub(crate) inner: Arc<BufferInner>,
    lane: Option<LaneId>,
}

pub(crate) struct BufferInner {
    name: String,
    gpu_va: u64,
    memory: Memory,
    bytes: u64,
    allocation: Owned,
    pub(crate) device: Arc<DeviceInner>,
}

/// Where the CPU finds a buffer's bytes.
enum Memory {
    /// They stay there.
    Still(Bulk),
    /// They move, and the window shows them where they are.
    Moving(BulkWindow),
}

impl Memory {
    fn write(&self, offset: u64, data: &[u8]) -> std::result::Result<(), OutOfBounds> {
        match self {
            Memory::Still(bulk) => bulk.write(offset, data),
            Memory::Moving(window) => window.write(offset, data),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::result::Result<(), OutOfBounds> {
        match self {
            Memory::Still(bulk) => bulk.read(offset, out),
            Memory::Moving(window) => window.read(offset, out),
        }
    }
}

impl BufferInner {
    /// Whether it moves between local and system memory.
    pub(crate) fn moves(&self) -> bool {
        matches!(self.memory, Memory::Moving(_))
    }

    pub(crate) fn allocation(&self) -> Handle {
        self.allocation.handle()
    }
}

impl Buffer {
    pub(crate) fn new(
        device: &Arc<DeviceInner>,
        desc: BufferDesc,
        lane: Option<LaneId>,
    ) -> Result<Buffer> {
        let BufferDesc { name, bytes, heap } = desc;
        if bytes == 0 {
            let what = format!("buffer '{name}'");
            return Err(Error::BadValue { what, why: "it has 0 bytes; give it at least one" });
        }
        let placement = match heap {
            Heap::Default if device.options.residency == ResidencyChoice::Automatic => {
                Placement::LocalOnDemand
            }
            Heap::Default => Placement::Local,
            Heap::Upload | Heap::Readback => Placement::System,
        };
        let refused = |status| {
            device.error(
                "D3DKMTCreateAllocation2",
                &format!("buffer '{name}' of {bytes} bytes"),
                status,
            )
        };
        let args = CreateAllocation {
            device: device.handle(),
            bytes,
            kind: AllocationKind::Bulk,
            placement,
        };
        let allocation = device.thunk.enter().create_allocation(args).map_err(refused)?;
        let owned = Owned::new(&device.thunk, Object::Allocation, allocation.handle);
        let memory = match allocation.memory {
            AllocationMemory::Bulk(bulk) => Memory::Still(bulk),
            AllocationMemory::Window(window) => Memory::Moving(window),
            AllocationMemory::Protocol(_) => return Err(refused(Status::OBJECT_TYPE_MISMATCH)),
        };
        let inner = BufferInner {
            name,
            gpu_va: allocation.gpu_va,
            memory,
            bytes,
            allocation: owned,
            device: Arc::clone(device),
        };
        Ok(Buffer { inner: Arc::new(inner), lane })
    }

    /// The same buffer for a CPU thread that is drawn on `lane`.
    pub fn on_lane(&self, lane: LaneId) -> Buffer {
        Buffer { inner: Arc::clone(&self.inner), lane: Some(lane) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    /// Where engines find its first byte.
    pub fn gpu_va(&self) -> u64 {
        self.inner.gpu_va
    }

    /// Writes through the CPU mapping, at once and in no queue's order.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check("a map-write", offset, data.len() as u64)?;
        let kib = data.len().div_ceil(1024);
        (0..kib).for_each(|_| self.inner.device.platform.spend(Step::MapWritePerKib));
        self.bounds("a map-write", self.inner.memory.write(offset, data))
    }

    /// As [`Buffer::write`], and draws it on the lane that this handle is bound to.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn write_traced(&self, offset: u64, data: &[u8]) -> Result<()> {
        let device = &self.inner.device;
        let start = device.stamp(self.lane);
        let written = self.write(offset, data);
        if start.is_some() {
            let name = device.platform.trace_name(self.name());
            device.record_call(start, Kind::MapWrite, name, |r| r.with_arg(data.len() as u64));
        }
        written
    }

    /// Reads through the CPU mapping.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.check("a map-read", offset, out.len() as u64)?;
        self.bounds("a map-read", self.inner.memory.read(offset, out))
    }

    /// Refuses a range that leaves the buffer.
    pub(crate) fn check(&self, command: &'static str, offset: u64, bytes: u64) -> Result<()> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes() => Ok(()),
            _ => Err(self.out_of_range(command, offset, bytes)),
        }
    }

    fn bounds(
        &self,
        command: &'static str,
        result: std::result::Result<(), OutOfBounds>,
    ) -> Result<()> {
        result.map_err(|e| self.out_of_range(command, e.offset, e.len))
    }

    fn out_of_range(&self, command: &'static str, offset: u64, bytes: u64) -> Error {
        Error::OutOfRange {
            command,
            buffer: self.name().to_owned(),
            offset,
            bytes,
            size: self.bytes(),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:?}, {} bytes at {:#x})", self.name(), self.bytes(), self.gpu_va())
    }
}
