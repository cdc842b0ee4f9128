//! Buffers: GPU memory that lists name, and that the CPU writes and reads through its mapping.

use crate::error::{Error, Result};
use crate::model::{BufferDesc, Heap};
use crate::resource::heap::{ResourceHeap, placement};
use crate::resource::tiles::TILE_BYTES;
use crate::shared_device::{RecordedCall, SharedDevice};
use crate::states::facts::{HeapRange, ResourceFacts};
use crate::states::flags::ResourceStates;
use crate::states::policy::ResourceKind;
use crate::umd::buffer::BufferMemory;
use std::fmt;
use std::sync::Arc;
use tidegate_platform::{OutOfBounds, Platform, Step};
use tidegate_trace::{Kind, LaneId};

/// A buffer. Lists that name it keep it alive, also while the GPU runs them.
#[doc(alias = "ID3D12Resource")]
#[derive(Clone)]
pub struct Buffer {
    pub(crate) memory: Arc<BufferMemory>,
    heap: Heap,
    pub(crate) facts: Arc<ResourceFacts>,
    platform: Platform,
    lane: Option<LaneId>,
}

impl Buffer {
    pub(crate) fn new(
        device: &SharedDevice,
        desc: BufferDesc,
        lane: Option<LaneId>,
    ) -> Result<Buffer> {
        let BufferDesc { name, bytes, heap } = desc;
        if bytes == 0 {
            let what = format!("buffer '{name}'");
            return Err(Error::BadValue { what, why: "it has 0 bytes; give it at least one" });
        }
        let refused = |status| {
            let what = format!("buffer '{name}' of {bytes} bytes");
            device.error("D3DKMTCreateAllocation2", &what, status)
        };
        let placement = placement(device, heap);
        let memory = BufferMemory::new(&device.umd.kernel, name.clone(), bytes, placement);
        let memory = Arc::new(memory.map_err(refused)?);
        Ok(Buffer::around(device, memory, heap, None, lane))
    }

    pub(crate) fn placed(
        device: &SharedDevice,
        of: &ResourceHeap,
        offset: u64,
        desc: BufferDesc,
        lane: Option<LaneId>,
    ) -> Result<Buffer> {
        let BufferDesc { name, bytes, heap } = desc;
        let what = format!("buffer '{name}' of {bytes} bytes");
        if bytes == 0 {
            return Err(Error::BadValue { what, why: "give it at least one byte" });
        }
        let (memory, place) = of.place(&what, &name, heap, offset, bytes)?;
        Ok(Buffer::around(device, Arc::new(memory), heap, Some(place), lane))
    }

    pub(crate) fn reserved(
        device: &SharedDevice,
        desc: BufferDesc,
        lane: Option<LaneId>,
    ) -> Result<Buffer> {
        let BufferDesc { name, bytes, heap } = desc;
        let what = format!("reserved buffer '{name}' of {bytes} bytes");
        if bytes == 0 || heap != Heap::Default {
            let why = "give it at least one byte, of the default heap";
            return Err(Error::BadValue { what, why });
        }
        let tiles = bytes.div_ceil(TILE_BYTES);
        let memory = BufferMemory::reserved(&device.umd.kernel, name, tiles * TILE_BYTES);
        let refused = |s| device.error("D3DKMTReserveGpuVirtualAddress", &what, s);
        Ok(Buffer::around(device, Arc::new(memory.map_err(refused)?), heap, None, lane))
    }

    fn around(
        device: &SharedDevice,
        memory: Arc<BufferMemory>,
        heap: Heap,
        place: Option<HeapRange>,
        lane: Option<LaneId>,
    ) -> Buffer {
        let facts = Arc::new(ResourceFacts {
            name: memory.name.clone(),
            kind: ResourceKind::Buffer,
            subresources: 1,
            initial: initial_states(heap),
            fixed: heap.has_fixed_states(),
            place,
        });
        Buffer { memory, facts, heap, platform: device.umd.platform.clone(), lane }
    }

    /// Memory of another resource, with the states of that.
    pub(crate) fn view_of(
        memory: &Arc<BufferMemory>,
        facts: &Arc<ResourceFacts>,
        heap: Heap,
    ) -> Buffer {
        let platform = memory.device().thunk().platform().clone();
        Buffer { memory: Arc::clone(memory), facts: Arc::clone(facts), heap, platform, lane: None }
    }

    /// Returns a handle of the buffer for a CPU thread with the timeline lane `lane`.
    pub fn on_lane(&self, lane: LaneId) -> Buffer {
        Buffer { lane: Some(lane), ..self.clone() }
    }

    /// Returns its description.
    #[doc(alias = "GetDesc")]
    pub fn desc(&self) -> BufferDesc {
        BufferDesc { name: self.name().to_owned(), bytes: self.bytes(), heap: self.heap }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.memory.name
    }

    /// Returns its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.memory.bytes
    }

    /// Returns the GPU virtual address of its first byte.
    pub fn gpu_va(&self) -> u64 {
        self.memory.gpu_va
    }

    /// Returns the number of tiles of a reserved buffer; `None` for every other.
    #[doc(alias = "GetResourceTiling")]
    pub fn tiles(&self) -> Option<u64> {
        self.memory.reserved_handle().map(|_| self.bytes() / TILE_BYTES)
    }

    /// Writes through the CPU mapping. The write takes effect at once and is not ordered with
    /// queues.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::BadValue`] for a buffer of the default heap, which no CPU
    /// maps.
    #[doc(alias = "ID3D12Resource::Map")]
    #[track_caller]
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let _call = self.platform.enter_call("Buffer::write");
        self.check_mapped("a map-write")?;
        self.check("a map-write", offset, data.len() as u64)?;
        let kib = data.len().div_ceil(1024);
        (0..kib).for_each(|_| self.platform.spend(Step::MapWritePerKib));
        self.bounds("a map-write", self.memory.write(offset, data))
    }

    /// Writes as [`Buffer::write`] does, and records the write on the lane of this handle.
    ///
    /// # Errors
    /// As [`Buffer::write`].
    #[track_caller]
    pub fn write_traced(&self, offset: u64, data: &[u8]) -> Result<()> {
        let _call = self.platform.enter_call("Buffer::write_traced");
        let call = RecordedCall::begin(&self.platform, self.lane);
        let written = self.write(offset, data);
        if let Some(call) = call {
            let name = self.platform.trace_name(self.name());
            let bytes = data.len() as u64;
            call.end(&self.platform, Kind::MapWrite, name, |record| record.with_arg(bytes));
        }
        written
    }

    /// Reads through the CPU mapping.
    ///
    /// # Errors
    /// As [`Buffer::write`].
    #[doc(alias = "ID3D12Resource::Map")]
    #[track_caller]
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let _call = self.platform.enter_call("Buffer::read");
        self.check_mapped("a map-read")?;
        self.check("a map-read", offset, out.len() as u64)?;
        self.bounds("a map-read", self.memory.read(offset, out))
    }

    fn check_mapped(&self, access: &str) -> Result<()> {
        if self.heap.is_mapped() {
            return Ok(());
        }
        let what = format!("{access} of buffer '{}'", self.name());
        let why = "no CPU maps the default heap; copy over an upload or readback heap";
        Err(Error::BadValue { what, why })
    }

    /// Refuses a range that ends outside of the buffer.
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

/// The states that a resource of this heap has at its creation.
pub(crate) fn initial_states(heap: Heap) -> ResourceStates {
    match heap {
        Heap::Default | Heap::GpuUpload => ResourceStates::COMMON,
        Heap::Upload => ResourceStates::GENERIC_READ,
        Heap::Readback => ResourceStates::COPY_DEST,
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:?}, {} bytes at {:#x})", self.name(), self.bytes(), self.gpu_va())
    }
}
