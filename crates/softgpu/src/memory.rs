//! Owns the bus: which memory stands at a physical address. System memory below, local memory from its base on.

use tidegate_platform::{PhysicalAddress, PhysicalMemory, Target};

#[derive(Clone)]
pub(crate) struct Bus {
    system: PhysicalMemory,
    local: PhysicalMemory,
    local_base: PhysicalAddress,
}

impl Bus {
    pub(crate) fn new(system: PhysicalMemory, local: PhysicalMemory, local_base: PhysicalAddress) -> Bus {
        Bus { system, local, local_base }
    }

    pub(crate) fn local(&self) -> &PhysicalMemory {
        &self.local
    }

    pub(crate) fn resolve(&self, at: PhysicalAddress) -> Option<Target> {
        if at < self.local_base { self.system.resolve(at) } else { self.local.resolve(at) }
    }
}
