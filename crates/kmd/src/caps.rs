//! Capabilities that the adapter declares.
//!
//! Order: 1. the kernel reports what it supports; 2. the driver queries what is enabled, and the
//! kernel's table of native fences; 3. the driver declares what is enabled. Adapter start fails if
//! the driver declares native fences that are not enabled.
//!
//! User-mode submission needs native fences, and native fences need hardware scheduling. Features
//! are enabled in this order, up to the first that is missing.

use crate::{Config, InterruptMode, KmdError};
use tidegate_ddi::feature::{
    DriverFeatureTable, FeatureInterface, FeatureSupport, KernelFeatureTable, NativeFenceOsCaps,
    NativeFenceTable1, QueryFeatureInterface,
};
use tidegate_ddi::{
    AdapterCaps, DisplayCaps, FeatureId, MonitoredNotification, NativeFenceCaps, NodeMetadata,
    Passive, PeerSignalCaps, PreemptionCaps, UserModeSubmissionCaps, VidSchCaps,
};
use tidegate_gpu_abi::EngineKind;
use tidegate_gpu_abi::regs::{DeviceTraits, NodeTraits};

/// The version of every feature that this driver implements.
const FEATURE_VERSION: u16 = 1;

/// Bytes of one doorbell write: a 64-bit write pointer.
const DOORBELL_BYTES: u32 = 8;
/// The last row of the binding table for packets with physical addresses.
pub(crate) const LAST_SLOT: u32 = 1;

/// Returns how far this driver supports a feature. The configuration may lower it.
pub(crate) fn support(config: &Config, nodes: u32, feature: FeatureId) -> FeatureSupport {
    let configured = match feature {
        FeatureId::HWSCH => true,
        FeatureId::NATIVE_FENCE => config.native_fence,
        FeatureId::USER_MODE_SUBMISSION => {
            config.native_fence && (0..nodes).any(|node| config.feeds_from_user_mode(node))
        }
        _ => return FeatureSupport::default(),
    };
    FeatureSupport {
        supported_on_current_config: configured,
        ..FeatureSupport::of_versions(FEATURE_VERSION, FEATURE_VERSION)
    }
}

/// The negotiated features of this adapter and this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Negotiated {
    pub(crate) hardware_scheduling: bool,
    pub(crate) native_fence: bool,
    pub(crate) user_mode_submission: bool,
    pub(crate) intra_gpu_fences: bool,
}

impl Negotiated {
    /// Queries the kernel's features and derives what the driver declares.
    // spec: NF-056
    pub(crate) fn negotiate(
        level: &Passive,
        config: &Config,
        features: &dyn FeatureInterface,
    ) -> Result<Negotiated, KmdError> {
        let enabled = |feature| features.is_feature_enabled(level, feature).enabled;
        let hardware_scheduling = enabled(FeatureId::HWSCH);
        let native_fence =
            config.native_fence && hardware_scheduling && enabled(FeatureId::NATIVE_FENCE);
        let os_caps = match native_fence {
            true => os_caps(level, features)?,
            false => NativeFenceOsCaps::empty(),
        };
        Ok(Negotiated {
            hardware_scheduling,
            native_fence,
            user_mode_submission: native_fence && enabled(FeatureId::USER_MODE_SUBMISSION),
            intra_gpu_fences: os_caps.contains(NativeFenceOsCaps::INTRA_GPU_FENCE_TYPE),
        })
    }

    /// Returns the driver's table of a feature. The feature's entries are part of the DDI table, so
    /// an enabled feature has an empty table.
    pub(crate) fn table(
        &self,
        query: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, KmdError> {
        let enabled = match query.feature {
            FeatureId::HWSCH => self.hardware_scheduling,
            FeatureId::NATIVE_FENCE => self.native_fence,
            FeatureId::USER_MODE_SUBMISSION => self.user_mode_submission,
            _ => false,
        };
        if !enabled {
            return Err(KmdError::NotSupported("a feature that is not enabled has no table"));
        }
        if query.version != FEATURE_VERSION {
            return Err(KmdError::Argument(
                "a feature's table was requested at a version other than the negotiated one",
            ));
        }
        Ok(DriverFeatureTable::Empty)
    }
}

/// Queries GetOSCaps from the kernel's table of native fences.
fn os_caps(
    level: &Passive,
    features: &dyn FeatureInterface,
) -> Result<NativeFenceOsCaps, KmdError> {
    let query = QueryFeatureInterface {
        feature: FeatureId::NATIVE_FENCE,
        version: features.is_feature_enabled(level, FeatureId::NATIVE_FENCE).version,
        interface_size: NativeFenceTable1::BYTES,
    };
    match features.query_feature_interface(level, query) {
        Ok(KernelFeatureTable::NativeFence1(table)) => Ok(table.get_os_caps(level)),
        _ => Err(KmdError::NotSupported(
            "the kernel enabled native fences but has no version 1 table for them",
        )),
    }
}

/// Returns the capabilities of native fences on this adapter.
pub(crate) fn native_fence_caps(config: &Config) -> NativeFenceCaps {
    let (lowest, highest) = config.fence_window;
    NativeFenceCaps {
        monitored_value_stride: config.fence_stride_bytes,
        map_to_gpu_system_process: config.system_process_mapping,
        minimum_address: lowest,
        maximum_address: highest,
    }
}

/// Returns the capabilities of user-mode submission on this adapter.
pub(crate) fn user_mode_submission_caps(config: &Config) -> UserModeSubmissionCaps {
    let secondary_doorbell_size_bytes = config.secondary_doorbells.then_some(DOORBELL_BYTES);
    UserModeSubmissionCaps { doorbell_size_bytes: DOORBELL_BYTES, secondary_doorbell_size_bytes }
}

/// What the device reports about itself. All of its physical GPUs have the same nodes.
pub(crate) struct Hardware {
    pub(crate) traits: DeviceTraits,
    /// The class and traits of each node, by node number.
    pub(crate) nodes: Vec<(EngineKind, NodeTraits)>,
    pub(crate) preemption: PreemptionCaps,
    pub(crate) display: Option<DisplayCaps>,
    pub(crate) physical_gpus: u32,
}

/// Returns what the adapter declares. Before start nothing is negotiated, and the minimum
/// is declared.
pub(crate) fn declare(
    config: &Config,
    with: Option<Negotiated>,
    hardware: &Hardware,
) -> AdapterCaps {
    let narrow = hardware.traits.has(DeviceTraits::NO_64BIT_ATOMICS);
    let native_fence = with.is_some_and(|n| n.native_fence);
    let user_mode = with.is_some_and(|n| n.user_mode_submission);
    let mut scheduling = VidSchCaps::MULTI_ENGINE_AWARE;
    scheduling.set(VidSchCaps::PREEMPTION_AWARE, config.preemption_aware);
    // Without patch lists no binding can be left behind. The flag is defined for drivers that are
    // preemption aware only.
    scheduling.set(VidSchCaps::NO_DMA_PATCHING, config.preemption_aware && !config.dma_patching);
    scheduling.set(VidSchCaps::CANCEL_COMMAND_AWARE, config.cancel_command_aware);
    scheduling.set(VidSchCaps::NO_64BIT_ATOMICS, narrow);
    // spec: NF-057
    scheduling.set(VidSchCaps::NATIVE_GPU_FENCE, native_fence);
    // spec: NF-221
    scheduling.set(
        VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT,
        native_fence
            && matches!(config.interrupt, InterruptMode::HwQueue | InterruptMode::HwQueueArray),
    );
    let classes: Vec<EngineKind> = hardware.nodes.iter().map(|(class, _)| *class).collect();
    let names = EngineKind::node_names(&classes);
    let nodes =
        (0..).zip(&hardware.nodes).zip(names).map(|((node, (class, traits)), name)| NodeMetadata {
            engine_type: *class,
            friendly_name: name,
            context_scheduling: with.is_some_and(|n| n.hardware_scheduling),
            // A ring signals fences. An engine that cannot write fences gets packets only.
            user_mode_submission: config.feeds_from_user_mode(node)
                && user_mode
                && !traits.has(NodeTraits::NO_FENCE_WRITES),
            // Half of the driver's own ring, so that the kernel never meets a full one: an engine
            // stores the progress of a slot before it frees the slot.
            max_in_flight_hw_queue_buffers: u16::try_from(config.kernel_ring_slots / 2)
                .unwrap_or(u16::MAX),
            writes_fences: !traits.has(NodeTraits::NO_FENCE_WRITES),
            monitored_notification: match traits.has(NodeTraits::NOTIFIES_FENCE_WRITES) {
                true => MonitoredNotification::Advanced,
                false => MonitoredNotification::Basic,
            },
        });
    AdapterCaps {
        description: config.description.clone(),
        scheduling,
        hw_queue_packet_cap: 0,
        // spec: PRE-008
        preemption: hardware.preemption,
        max_allocation_list_slot_id: LAST_SLOT,
        lazy_context_switch: config.lazy_context_switch,
        per_engine_tdr: true,
        // The display latches at vertical syncs and supports no other flip.
        flip_on_vsync_mmio: hardware.display.is_some(),
        display: hardware.display,
        nodes: nodes.collect(),
        physical_adapters: hardware.physical_gpus,
        signaled_hw_queue_array: native_fence && config.interrupt == InterruptMode::HwQueueArray,
        // Epochs are defined for whole 64-bit values only.
        fence_history: config.fence_history && !narrow,
        fence_history_peaks: config.fence_history_peaks,
        monitored_values_in_memory: !hardware.traits.has(DeviceTraits::MONITORED_SHADOW),
        peer_signal: if native_fence { config.peer_signal } else { PeerSignalCaps::default() },
        patches_addresses: false,
        cache_coherent_memory: !hardware.traits.has(DeviceTraits::NOT_IO_COHERENT),
        io_mmu: hardware.traits.has(DeviceTraits::IO_MMU),
    }
}
