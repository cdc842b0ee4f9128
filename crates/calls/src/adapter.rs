//! Facts about the adapter (D3DKMTQueryAdapterInfo and related calls).

use serde::{Deserialize, Serialize};
use tidegate_platform::CpuTime;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// DXGK_ENGINE_TYPE: 0 other (compute), 1 3D, 6 copy.
    pub engine_type: u32,
    /// A name for display.
    pub name: String,
    /// Whether it takes user-mode queues and doorbells.
    pub user_mode_submission: bool,
    /// Whether its command streams can write a fence. If not, it takes packets, and the kernel
    /// signals for them.
    pub writes_fences: bool,
}

/// Capabilities of an adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterInfo {
    /// A name for display.
    pub description: String,
    /// D3DKMT_WDDM_3_1_CAPS::NativeGpuFenceSupported.
    pub native_gpu_fence_supported: bool,
    /// Hardware queues are supported.
    pub hardware_scheduling: bool,
    /// Its engines update only 32 bits atomically. A process sees the low half of a fence's value
    /// (see `d3dukmdt::low_half`), and waits and signals lie within half of 32 bits of the value
    /// signalled last.
    pub no_64bit_atomics: bool,
    /// Its engines use the process's CPU addresses, for a fence
    /// [`crate::FenceInstance::value_cpu_va`].
    pub io_mmu: bool,
    /// Number of linked physical adapters, from 1.
    pub physical_adapters: u32,
    /// How finely engines are preempted: D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY.
    pub graphics_preemption: u32,
    /// D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY.
    pub compute_preemption: u32,
    /// Nodes of each physical adapter, by ordinal.
    pub nodes: Vec<NodeInfo>,
}

/// D3DKMTQueryClockCalibration: the clocks of an engine and of the CPU at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockCalibration {
    /// GpuFrequency: ticks of the GPU's clock in a second.
    pub gpu_frequency: u64,
    /// GpuClockCounter.
    pub gpu_clock: u64,
    /// CpuClockCounter: nanoseconds of the platform's clock.
    pub cpu: CpuTime,
}
