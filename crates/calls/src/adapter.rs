//! Facts about the adapter (D3DKMTQueryAdapterInfo and related calls).

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// DXGK_ENGINE_TYPE: 0 other (compute), 1 3D, 6 copy.
    pub engine_type: u32,
    /// A name for people.
    pub name: String,
    /// Whether user-mode queues and doorbells may be made on it.
    pub user_mode_submission: bool,
    /// Whether command streams on it can write a fence; without that it takes packets, and the
    /// kernel signals for them.
    pub writes_fences: bool,
}

/// What the adapter offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInfo {
    /// A name for people.
    pub description: String,
    /// D3DKMT_WDDM_3_1_CAPS::NativeGpuFenceSupported.
    pub native_gpu_fence_supported: bool,
    /// Hardware queues may be made.
    pub hardware_scheduling: bool,
    /// Its engines update only 32 bits atomically: what a process sees of a fence is the low half
    /// of its value (see `d3dukmdt::low_half`), and waits and signals lie within half of 32 bits of
    /// the value signalled last.
    pub no_64bit_atomics: bool,
    /// Its engines use the process's CPU addresses: they reach a fence by
    /// [`crate::FenceInstance::value_cpu_va`].
    pub io_mmu: bool,
    /// Physical adapters behind this one; more than one where GPUs are linked.
    pub physical_adapters: u32,
    /// Nodes of each, by ordinal.
    pub nodes: Vec<NodeInfo>,
}
