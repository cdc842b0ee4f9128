//! Owns the bus: which memory stands at a physical address. System memory below, local memory from its base on,
//! and, further up, the part of local memory that the CPU does not see.

use crate::config::Config;
use tidegate_platform::{PhysicalAddress, PhysicalMemory, Platform, Target};

#[derive(Clone)]
pub(crate) struct Bus {
    system: PhysicalMemory,
    local: PhysicalMemory,
    local_base: PhysicalAddress,
    hidden: PhysicalMemory,
    hidden_base: PhysicalAddress,
}

impl Bus {
    pub(crate) fn new(platform: &Platform, system: PhysicalMemory, config: &Config) -> Bus {
        let (local_base, hidden_base) = (config.local_memory_base, config.hidden_memory_base);
        let local = PhysicalMemory::new(platform, local_base);
        let hidden = PhysicalMemory::new(platform, hidden_base);
        Bus { system, local, local_base, hidden, hidden_base }
    }

    pub(crate) fn local(&self) -> &PhysicalMemory {
        &self.local
    }

    pub(crate) fn hidden(&self) -> &PhysicalMemory {
        &self.hidden
    }

    pub(crate) fn resolve(&self, at: PhysicalAddress) -> Option<Target> {
        if at < self.local_base {
            self.system.resolve(at)
        } else if at < self.hidden_base {
            self.local.resolve(at)
        } else {
            self.hidden.resolve(at)
        }
    }
}
