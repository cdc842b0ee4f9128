//! A queue's place among the queues of its engine, and the parameters of the bands.

use tidegate_gpu_abi::AddressSpaceId;

/// Bands are 0 (IDLE), 1 (NORMAL), 2 (FOCUS) and 3 (REALTIME).
pub(crate) const BANDS: u32 = 4;
pub(super) const NORMAL: u32 = 1;
pub(super) const FOCUS: u32 = 2;
/// The highest level inside the REALTIME band.
pub(crate) const MAX_REALTIME_LEVEL: u32 = 31;
/// In-process priorities go from minus this to this.
pub(crate) const MAX_IN_PROCESS: i32 = 7;
/// The highest percentage that can be guaranteed to NORMAL.
pub(crate) const MAX_NORMAL_PERCENT: u32 = 50;
/// IDLE, NORMAL, FOCUS, and the levels of REALTIME.
pub(super) const TIERS: usize = 3 + MAX_REALTIME_LEVEL as usize + 1;

/// A queue's place among the queues of its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its process.
    pub(crate) process: u32,
    /// Its context.
    pub(crate) context: u64,
    /// The band, below [`BANDS`].
    pub(crate) band: u32,
    /// The level inside the REALTIME band; higher runs first.
    pub(crate) realtime_level: u32,
    /// The priority among the contexts of its process; higher runs first.
    pub(crate) in_process: i32,
    /// The time slice of its context in nanoseconds while others of its process wait; 0 for a turn.
    pub(crate) quantum_ns: u64,
}

impl Place {
    /// Returns the place of a new queue: level, priority and quantum 0 of its band.
    pub(crate) fn new(process: AddressSpaceId, context: u64, band: u32) -> Place {
        let process = process.0;
        Place { process, context, band, realtime_level: 0, in_process: 0, quantum_ns: 0 }
    }

    pub(super) fn tier(&self) -> usize {
        let level = if self.band == BANDS - 1 { self.realtime_level } else { 0 };
        self.band as usize + level as usize
    }
}

/// The scheduling parameters of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bands {
    /// The time slice of a process in nanoseconds while others of its band wait.
    pub(crate) process_quantum_ns: [u64; BANDS as usize],
    /// The percentage guaranteed to NORMAL under FOCUS load.
    pub(crate) normal_percent: u32,
}

/// The defaults: processes take turns at every packet, and NORMAL gets a tenth.
impl Default for Bands {
    fn default() -> Bands {
        Bands { process_quantum_ns: [0; BANDS as usize], normal_percent: 10 }
    }
}

impl Bands {
    pub(super) fn quantum_ns(&self, tier: usize) -> u64 {
        self.process_quantum_ns[tier.min(BANDS as usize - 1)]
    }
}
