//! What an adapter is configured with: features, interrupts, fence logs, power, timeouts, quanta.
//!
//! Invariants: plain values, read by every room and changed by none.
//!
//! Entry points: [`AdapterConfig::standard`], [`TdrConfig::standard`].

mod tdr;

pub use tdr::{TdrConfig, TdrDebugMode, TdrLevel};

use tidegate_ddi::feature::NativeFenceOsCaps;
use tidegate_ddi::scheduling::SetupPriorityBands;
use tidegate_platform::Platform;

/// What is set for one feature: the overrides that a registry holds on the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureSetting {
    /// Off means off, whatever both sides support. On forces nothing: a driver that does not
    /// support a feature has none.
    pub enabled: bool,
    /// Lowest version that may be negotiated.
    pub min_version: u16,
    /// Highest version that may be negotiated.
    pub max_version: u16,
    /// The driver may offer what its maker still calls experimental.
    pub allow_experimental: bool,
}

impl FeatureSetting {
    /// Enabled, nothing overridden.
    pub const ON: FeatureSetting = FeatureSetting {
        enabled: true,
        min_version: 0,
        max_version: u16::MAX,
        allow_experimental: false,
    };
    /// Not enabled.
    pub const OFF: FeatureSetting = FeatureSetting { enabled: false, ..FeatureSetting::ON };
}

impl Default for FeatureSetting {
    fn default() -> FeatureSetting {
        FeatureSetting::ON
    }
}

/// Whether an adapter and its engines may lose power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerManagement {
    /// Always powered. The driver's power-down requests are declined.
    AlwaysOn,
    /// Powered down when idle, and powered up on use.
    Managed,
}

/// Where the interrupt routine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptDelivery {
    /// The interrupt routine immediately on the raising agent, the DPC at the end of its turn.
    Inline,
    /// Both on an agent of their own, as on another processor.
    Worker,
}

/// How paging operations are put into DMA buffers.
#[derive(Clone, Copy, Debug)]
pub struct PagingBuffers {
    /// Bytes of a buffer, at most a page. Commands that do not fit go on in the next buffer.
    pub bytes: u32,
    /// Buffers that may be in flight together, from 1 to 16. A move that needs more waits until
    /// all are complete, and uses them again.
    pub count: u32,
    /// Most bytes of one operation. A move of more is several operations, one after the other in
    /// the buffers.
    pub operation_bytes: u64,
    /// Whether the first buffer has the GPU virtual address 0.
    pub at_zero: bool,
}

impl PagingBuffers {
    /// Each move is one operation in one buffer.
    pub const fn standard() -> PagingBuffers {
        PagingBuffers { bytes: 0x1000, count: 1, operation_bytes: u64::MAX, at_zero: false }
    }
}

/// What a kernel is configured with.
#[derive(Clone, Copy, Debug)]
pub struct AdapterConfig {
    /// DXGK_FEATURE_HWSCH.
    pub hardware_scheduling: FeatureSetting,
    /// DXGK_FEATURE_NATIVE_FENCE; rests on hardware scheduling.
    pub native_fence: FeatureSetting,
    /// DXGK_FEATURE_USER_MODE_SUBMISSION; rests on native fences.
    pub user_mode_submission: FeatureSetting,
    /// The fence types that this kernel makes, and says so. Without the optimised one DEFAULT
    /// fences are in system memory, whatever segments the driver names. Today's Windows answers
    /// GetOSCaps with neither.
    pub native_fence_os_caps: NativeFenceOsCaps,
    /// Most bytes of fence storage in local memory; the oldest leaves for system memory when there
    /// would be more.
    pub fence_storage_budget_bytes: u64,
    /// How long a paging operation waits for engines that use what it sends out, in nanoseconds,
    /// before it makes do without.
    pub paging_timeout_ns: u64,
    /// How paging operations are put into DMA buffers.
    pub paging_buffers: PagingBuffers,
    /// Verification of drivers that patch addresses: a part of a split buffer that leaves a binding
    /// behind is refused.
    pub verify_split_buffers: bool,
    /// Where interrupts run.
    pub interrupts: InterruptDelivery,
    /// Entries in each fence log of a user-mode queue: 84 in the published 4 KiB, fewer for tests.
    /// Logging is mandatory: 0 makes no logs and is outside of the contract. It is for the bench
    /// that measures the cost of a log entry (decision 14).
    pub log_entries: u32,
    /// User-mode queues also log their command buffers. `Adapter::set_verbose_logs` changes it.
    pub verbose_logs: bool,
    /// How long a CPU wait that blocks on one fence polls its value before it registers and sleeps,
    /// in nanoseconds; 0 for never. It polls only while a processor of the process is free for it.
    pub cpu_wait_poll_ns: u64,
    /// A signal below its fence's value that does not announce it is refused, instead of made,
    /// counted and reported.
    pub strict_fence_rewind: bool,
    /// Whether adapter and engines may lose power.
    pub power: PowerManagement,
    /// Timeout detection and recovery.
    pub tdr: TdrConfig,
    /// The priority bands for the driver.
    pub priority_bands: SetupPriorityBands,
    /// How long a packet may keep its engine, in nanoseconds, while packets of contexts of the same
    /// priority wait for it.
    pub quantum_ns: u64,
    /// Submission fence ids that each engine leaves out while it is idle, so that the ids of a
    /// short run wrap; 0 for none.
    pub fence_ids_ahead: u32,
    /// Which adapter of its machine it is, for people: adapter n's lanes on the timeline are those
    /// of "GPU n"; `None` where there is only one.
    pub ordinal: Option<u32>,
}

impl AdapterConfig {
    /// All features and fence types on, without a budget. Interrupts run on a worker where time is
    /// modelled, so that they do not hold up the engine, else inline.
    pub fn standard(platform: &Platform) -> AdapterConfig {
        let interrupts = match platform.models_time() {
            true => InterruptDelivery::Worker,
            false => InterruptDelivery::Inline,
        };
        AdapterConfig {
            hardware_scheduling: FeatureSetting::ON,
            native_fence: FeatureSetting::ON,
            user_mode_submission: FeatureSetting::ON,
            native_fence_os_caps: NativeFenceOsCaps::all(),
            fence_storage_budget_bytes: u64::MAX,
            paging_timeout_ns: 2_000_000,
            paging_buffers: PagingBuffers::standard(),
            verify_split_buffers: true,
            interrupts,
            log_entries: 84,
            verbose_logs: false,
            cpu_wait_poll_ns: 20_000,
            strict_fence_rewind: false,
            power: PowerManagement::AlwaysOn,
            tdr: TdrConfig::standard(),
            priority_bands: SetupPriorityBands::default(),
            quantum_ns: 10_000_000,
            fence_ids_ahead: 0,
            ordinal: None,
        }
    }
}
