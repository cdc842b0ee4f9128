//! A driver layer that records context allocations and finds their bytes as the hardware does:
//! through the page tables of the system process.

use std::sync::Arc;
use tidegate::ddi::memory::PagingOperation;
use tidegate::ddi::queue::{CreateContext, CreateDevice, SetRootPageTable};
use tidegate::ddi::{
    CallbackLayer, Callbacks, ContextAllocation, CreateContextAllocation, Driver, DriverHandle,
    DriverLayer, OsHandle, Passive, StartInfo, Status,
};
use tidegate::gpu_abi::{GpuVa, Pte};
use tidegate::platform::{Bulk, Mutex, PhysicalAddress, PhysicalMemory, Platform, Target};

/// What was seen.
#[derive(Default)]
struct Seen {
    callbacks: Option<Arc<dyn Callbacks>>,
    system_memory: Option<PhysicalMemory>,
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
    /// What stands in an area when the driver is asked for its first content.
    pub rubbish: u8,
}

impl SaveAreas {
    /// A layer in front of `inner`.
    pub fn new(platform: &Platform, inner: Arc<dyn Driver>) -> Arc<SaveAreas> {
        let seen = Arc::new(platform.mutex("what was seen of save areas", Seen::default()));
        Arc::new(SaveAreas { inner, seen, rubbish: 0xA5 })
    }

    /// The areas that the driver was given, oldest first; those of the memory manager among them.
    pub fn areas(&self) -> Vec<ContextAllocation> {
        self.seen.lock().areas.clone()
    }

    /// Those that it gave back.
    pub fn freed(&self) -> Vec<OsHandle> {
        self.seen.lock().freed.clone()
    }

    /// Those that got their first content.
    pub fn initialised(&self) -> Vec<OsHandle> {
        self.seen.lock().initialised.clone()
    }

    /// Contexts that the driver got in DxgkDdiCreateContext.
    pub fn contexts(&self) -> Vec<OsHandle> {
        self.seen.lock().contexts.clone()
    }

    /// Devices that the driver got in DxgkDdiCreateDevice, the memory manager's among them.
    pub fn devices(&self) -> Vec<OsHandle> {
        self.seen.lock().devices.clone()
    }

    /// The kernel, as the driver calls it.
    pub fn callbacks(&self) -> Arc<dyn Callbacks> {
        self.seen.lock().callbacks.clone().unwrap()
    }

    /// Where an address of the system process leads now.
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
        let system_memory = self.seen.lock().system_memory.clone()?;
        let local = self.inner.query_segments(&Passive::enter()).into_iter().map(|s| s.memory);
        let found = [system_memory].into_iter().chain(local).find_map(|memory| memory.resolve(at));
        match found? {
            Target::Bulk(bulk, start) => Some((bulk, start)),
            Target::Protocol(..) => None,
        }
    }

    /// The first bytes of an area, as the hardware would load them.
    pub fn read(&self, va: u64) -> Option<[u8; 64]> {
        let mut bytes = [0; 64];
        let (bulk, start) = self.bulk(self.at(va)?)?;
        bulk.read(start, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Stores a state, as the hardware would.
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
            seen.system_memory = Some(start.system_memory.clone());
        }
        self.inner.start_device(level, StartInfo { callbacks, ..start })
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
            // Memory is all zero when it is new: what is filled must be seen to be. An area of a
            // device is not in the list yet: it gets its content before the call returns its
            // address.
            if let Some(area) = area {
                self.write(area.system_gpu_va, &[self.rubbish; 64]);
            }
            self.seen.lock().initialised.push(allocation);
        }
        self.inner.build_paging_buffer(level, operation)
    }
}

/// The kernel, watched.
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
