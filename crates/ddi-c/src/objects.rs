//! What the host keeps of a driver's objects: what the published calls name besides handles of the
//! driver.

use std::collections::BTreeMap;
use tidegate_ddi::AdapterCaps;
use tidegate_ddi::memory::{PageTableShape, Segment};
use tidegate_platform::PhysicalAddress;

/// What the host keeps of the driver's objects.
#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) declared: Declared,
    /// By address space.
    pub(crate) processes: BTreeMap<u32, Process>,
    /// The address space of each device.
    pub(crate) devices: BTreeMap<u64, u32>,
    pub(crate) contexts: BTreeMap<u64, Context>,
    /// CurrentValue of each hardware queue's progress fence.
    pub(crate) hw_queues: BTreeMap<u64, u64>,
    /// The driver's allocations of each doorbell's ring and control area.
    pub(crate) rings: BTreeMap<u64, [u64; 2]>,
    /// The driver's allocation of surfaces, by the two words of their description.
    pub(crate) primaries: BTreeMap<(u64, u64), u64>,
}

/// What the driver has answered to the queries of its start; empty before.
#[derive(Default)]
pub(crate) struct Declared {
    pub(crate) caps: AdapterCaps,
    pub(crate) shape: PageTableShape,
    pub(crate) segments: Vec<Segment>,
    /// Of a driver without GPU virtual addresses.
    pub(crate) addresses: SegmentAddresses,
    /// Whether each engine is a component that has F-states.
    pub(crate) has_components: bool,
}

/// Where the driver's segments have the memory of the bus. A segment is 0 if there is none.
#[derive(Clone, Copy, Default)]
pub(crate) struct SegmentAddresses {
    /// The segment of system memory, and its BaseAddress.
    pub(crate) system: (u32, u64),
    /// The segment of local memory, and its BaseAddress.
    pub(crate) local: (u32, u64),
    /// The bus address of local memory, which is after all system memory.
    pub(crate) local_base: u64,
}

impl SegmentAddresses {
    /// Returns the segment and the address in it of a bus address.
    pub(crate) fn of(&self, at: PhysicalAddress) -> (u32, u64) {
        match at.0.checked_sub(self.local_base) {
            Some(offset) if self.local.0 != 0 => (self.local.0, self.local.1 + offset),
            _ => (self.system.0, self.system.1 + at.0),
        }
    }
}

/// DXGK_CONTEXTINFO: sizes of a context's DMA buffers and their lists.
#[derive(Clone, Copy, Default)]
pub(crate) struct BufferSizes {
    pub(crate) dma_buffer_bytes: u32,
    pub(crate) private_data_bytes: u32,
    pub(crate) allocations: u32,
    pub(crate) patch_locations: u32,
}

pub(crate) struct Process {
    /// hKmdProcess
    pub(crate) handle: u64,
    /// Bus address of the root page table; 0 before the first.
    pub(crate) root: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) address_space: u32,
    pub(crate) sizes: BufferSizes,
    /// It is for hardware queues.
    pub(crate) hardware_scheduled: bool,
}

impl Objects {
    /// Keeps a root page table. Returns the contexts that get it.
    pub(crate) fn set_root(&mut self, address_space: u32, root: u64) -> Vec<u64> {
        if let Some(process) = self.processes.get_mut(&address_space) {
            process.root = root;
        }
        let of_space = |(handle, context): (&u64, &Context)| {
            (context.address_space == address_space).then_some(*handle)
        };
        self.contexts.iter().filter_map(of_space).collect()
    }

    pub(crate) fn root_of(&self, address_space: u32) -> u64 {
        self.processes.get(&address_space).map_or(0, |process| process.root)
    }
}
