//! The bus: which memory stands at a physical address. System memory below, local memory from
//! its base on, that of one physical GPU behind that of the other, and behind all of them the part
//! of local memory that the CPU does not see. All physical GPUs see all of it: they are bridged.

use crate::config::{Config, MAX_PHYSICAL_GPUS};
use tidegate_gpu_abi::AdminError;
use tidegate_platform::{CacheType, PhysicalAddress, PhysicalMemory, Platform, Target, Word};

/// Bytes of the bus that the local memory of one physical GPU has for itself; as many has what the
/// CPU does not see.
const LOCAL_SPAN_BYTES: u64 = 1 << 40;
/// Which span that is.
const HIDDEN_SPAN: u32 = MAX_PHYSICAL_GPUS;

/// Bytes of the bus from [`Config::local_memory_base`] on that a GPU takes for local memory,
/// whatever it is linked of. Two GPUs on one bus stand at least so far apart.
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

    /// Whether CPUs keep what stands there in their caches. Local memory they reach over the bus,
    /// and do not.
    pub(crate) fn is_cached(&self, at: PhysicalAddress) -> bool {
        at < self.local_base && self.system.cache_type(at) == Some(CacheType::WriteBack)
    }

    pub(crate) fn resolve(&self, at: PhysicalAddress) -> Option<Target> {
        let Some(within) = at.0.checked_sub(self.local_base.0) else {
            return self.system.resolve(at);
        };
        match u32::try_from(within / LOCAL_SPAN_BYTES).ok()? {
            HIDDEN_SPAN => self.hidden.resolve(at),
            span => self.local(span)?.resolve(at),
        }
    }

    /// The word that fences are kept in at an address.
    pub(crate) fn word(&self, at: PhysicalAddress) -> Result<Word, AdminError> {
        self.resolve(at).and_then(|target| target.word()).ok_or(AdminError::BadAddress)
    }
}
