//! The bus, which maps physical addresses to memory. In ascending order: system memory, the local
//! memory of each physical GPU, and local memory that the CPU cannot see. All physical GPUs are
//! bridged and reach all of it.

use crate::config::{Config, MAX_PHYSICAL_GPUS};
use tidegate_gpu_abi::AdminError;
use tidegate_platform::{
    CacheType, FoundRegion, PhysicalAddress, PhysicalMemory, Platform, Target, Word,
};

/// Address space on the bus for the local memory of one physical GPU, in bytes. Hidden local memory
/// gets the same amount.
const LOCAL_SPAN_BYTES: u64 = 1 << 40;
/// The index of the span of hidden local memory.
const HIDDEN_SPAN: u32 = MAX_PHYSICAL_GPUS;

/// Address space that a GPU takes for local memory, in bytes from [`Config::local_memory_base`],
/// for any number of physical GPUs. Two GPUs on one bus must be at least this far apart.
pub const LOCAL_WINDOW_BYTES: u64 = (HIDDEN_SPAN as u64 + 1) * LOCAL_SPAN_BYTES;

#[derive(Clone)]
pub(crate) struct Bus {
    system: PhysicalMemory,
    local: Vec<PhysicalMemory>,
    local_base: PhysicalAddress,
    hidden: PhysicalMemory,
}

impl Bus {
    pub(crate) fn new(platform: &Platform, system: PhysicalMemory, config: &Config) -> Bus {
        let local_base = config.local_memory_base;
        let base_of =
            |span: u32| PhysicalAddress(local_base.0 + u64::from(span) * LOCAL_SPAN_BYTES);
        let at = |span: u32| PhysicalMemory::new(platform, base_of(span));
        Bus {
            system,
            local: (0..config.physical_gpus).map(at).collect(),
            local_base,
            hidden: at(HIDDEN_SPAN),
        }
    }

    pub(crate) fn local(&self, physical_gpu: u32) -> Option<&PhysicalMemory> {
        self.local.get(physical_gpu as usize)
    }

    pub(crate) fn hidden(&self) -> &PhysicalMemory {
        &self.hidden
    }

    /// Returns whether CPUs cache the memory at `at`. They access local memory over the
    /// bus, uncached.
    pub(crate) fn is_cached(&self, at: PhysicalAddress) -> bool {
        at < self.local_base && self.system.cache_type(at) == Some(CacheType::WriteBack)
    }

    pub(crate) fn resolve(&self, at: PhysicalAddress) -> Option<Target> {
        self.memory_of(at)?.resolve(at)
    }

    /// Returns the same as [`Bus::resolve`]. `last` is the region that was found last.
    pub(crate) fn resolve_near(
        &self,
        at: PhysicalAddress,
        last: &mut Option<FoundRegion>,
    ) -> Option<Target> {
        self.memory_of(at)?.resolve_near(at, last)
    }

    fn memory_of(&self, at: PhysicalAddress) -> Option<&PhysicalMemory> {
        let Some(within) = at.0.checked_sub(self.local_base.0) else {
            return Some(&self.system);
        };
        match u32::try_from(within / LOCAL_SPAN_BYTES).ok()? {
            HIDDEN_SPAN => Some(&self.hidden),
            span => self.local(span),
        }
    }

    /// Returns the protocol word at an address, which may hold a fence value.
    pub(crate) fn word(&self, at: PhysicalAddress) -> Result<Word, AdminError> {
        self.resolve(at).and_then(|target| target.word()).ok_or(AdminError::BadAddress)
    }
}
