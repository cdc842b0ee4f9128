//! A driver layer that records context allocations and accesses their bytes like the hardware,
//! through the page tables of the system process.

use std::sync::Arc;
use tidegate::ddi::memory::{PagingOperation, Segment};
use tidegate::ddi::queue::{CreateContext, CreateDevice, SetRootPageTable};
use tidegate::ddi::{
    CallbackLayer, Callbacks, ContextAllocation, CreateContextAllocation, Driver, DriverHandle,
    DriverLayer, OsHandle, Passive, StartInfo, Status,
};
use tidegate::gpu_abi::{GpuVa, Pte};
use tidegate::platform::{Bulk, Mutex, PhysicalAddress, PhysicalMemory, Platform, Target};

/// The recorded calls.
#[derive(Default)]
struct Seen {
    callbacks: Option<Arc<dyn Callbacks>>,
    /// System memory, and the segments of the driver.
    memories: Vec<PhysicalMemory>,
    root: Option<PhysicalAddress>,
    areas: Vec<ContextAllocation>,
    freed: Vec<OsHandle>,
    contexts: Vec<OsHandle>,
    devices: Vec<OsHandle>,
    initialised: Vec<OsHandle>,
}

/// A layer that records context allocations.
pub struct SaveAreas {
    inner: Arc<dyn Driver>,
    seen: Arc<Mutex<Seen>>,
    /// Fills an area before the driver writes its first content.
    pub rubbish: u8,
}

impl SaveAreas {
    /// Wraps `inner` in this layer.
    pub fn new(platform: &Platform, inner: Arc<dyn Driver>) -> Arc<SaveAreas> {
        let seen = Arc::new(platform.mutex("what was seen of save areas", Seen::default()));
        Arc::new(SaveAreas { inner, seen, rubbish: 0xA5 })
    }

    /// Returns the areas that the driver allocated, oldest first, with the memory manager's.
    pub fn areas(&self) -> Vec<ContextAllocation> {
        self.seen.lock().areas.clone()
    }

    /// Returns the areas that it freed.
    pub fn freed(&self) -> Vec<OsHandle> {
        self.seen.lock().freed.clone()
    }

    /// Returns the areas that received their first content.
    pub fn initialised(&self) -> Vec<OsHandle> {
        self.seen.lock().initialised.clone()
    }

    /// Returns the contexts passed to DxgkDdiCreateContext.
    pub fn contexts(&self) -> Vec<OsHandle> {
        self.seen.lock().contexts.clone()
    }

    /// Returns the devices passed to DxgkDdiCreateDevice, including the memory manager's.
    pub fn devices(&self) -> Vec<OsHandle> {
        self.seen.lock().devices.clone()
    }

    /// Returns the kernel's callbacks as seen by the driver.
    pub fn callbacks(&self) -> Arc<dyn Callbacks> {
        self.seen.lock().callbacks.clone().unwrap()
    }

    /// Returns the current bus address of a system-process address.
    pub fn at(&self, va: u64) -> Option<PhysicalAddress> {
        let mut at = self.seen.lock().root?;
        for level in 0..4 {
            let (table, start) = self.bulk(at)?;
            let pte = Pte(table.read_u64(start + GpuVa(va).table_index(level) * 8).ok()?);
            at = pte.is_valid().then_some(pte.address())?;
        }
        Some(at)
    }

    fn bulk(&self, at: PhysicalAddress) -> Option<(Bulk, u64)> {
        let memories = self.seen.lock().memories.clone();
        match memories.iter().find_map(|memory| memory.resolve(at))? {
            Target::Bulk(bulk, start) => Some((bulk, start)),
            Target::Protocol(..) => None,
        }
    }

    /// Returns the first bytes of an area, as the hardware would load them.
    pub fn read(&self, va: u64) -> Option<[u8; 64]> {
        let mut bytes = [0; 64];
        let (bulk, start) = self.bulk(self.at(va)?)?;
        bulk.read(start, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Stores context state, as the hardware would.
    pub fn write(&self, va: u64, bytes: &[u8]) {
        let (bulk, start) = self.at(va).and_then(|at| self.bulk(at)).unwrap();
        bulk.write(start, bytes).unwrap();
    }
}

impl DriverLayer for SaveAreas {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status> {
        let (inner, seen) = (start.callbacks.clone(), self.seen.clone());
        let callbacks: Arc<dyn Callbacks> = Arc::new(Watched { inner, seen });
        {
            let mut seen = self.seen.lock();
            seen.callbacks = Some(callbacks.clone());
            seen.memories = vec![start.system_memory.clone()];
        }
        self.inner.start_device(level, StartInfo { callbacks, ..start })
    }

    fn query_segments(&self, level: &Passive) -> Vec<Segment> {
        let segments = self.inner.query_segments(level);
        self.seen.lock().memories.extend(segments.iter().map(|s| s.memory.clone()));
        segments
    }

    fn set_root_page_table(&self, level: &Passive, args: SetRootPageTable) -> Result<(), Status> {
        if args.address_space == 0 && args.physical_adapter == 0 {
            self.seen.lock().root = args.root;
        }
        self.inner.set_root_page_table(level, args)
    }

    fn create_device(&self, level: &Passive, args: CreateDevice) -> Result<DriverHandle, Status> {
        self.seen.lock().devices.push(args.os_handle);
        self.inner.create_device(level, args)
    }

    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        self.seen.lock().contexts.push(args.os_handle);
        self.inner.create_context(level, args)
    }

    fn build_paging_buffer(
        &self,
        level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status> {
        if let PagingOperation::InitContextResource { allocation, .. } = operation {
            let area = self.areas().into_iter().find(|area| area.os_handle == allocation);
            // New memory is all zero, so filling it shows that the content is written. An area of a
            // device is not recorded yet, because it receives its content before the call returns
            // its address.
            if let Some(area) = area {
                self.write(area.system_gpu_va, &[self.rubbish; 64]);
            }
            self.seen.lock().initialised.push(allocation);
        }
        self.inner.build_paging_buffer(level, operation)
    }
}

/// The kernel's callbacks, recorded.
struct Watched {
    inner: Arc<dyn Callbacks>,
    seen: Arc<Mutex<Seen>>,
}

impl CallbackLayer for Watched {
    fn inner(&self) -> &dyn Callbacks {
        &*self.inner
    }

    fn create_context_allocation(
        &self,
        level: &Passive,
        args: CreateContextAllocation,
    ) -> Result<ContextAllocation, Status> {
        let made = self.inner.create_context_allocation(level, args)?;
        self.seen.lock().areas.push(made);
        Ok(made)
    }

    fn destroy_context_allocation(
        &self,
        level: &Passive,
        allocation: OsHandle,
    ) -> Result<(), Status> {
        self.seen.lock().freed.push(allocation);
        self.inner.destroy_context_allocation(level, allocation)
    }
}
