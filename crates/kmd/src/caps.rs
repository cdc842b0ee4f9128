//! Owns what the adapter declares, and the order in which that is settled: 1. the kernel's features are asked for; 2. only
//! what is enabled is declared. A driver that declares native fences unasked fails adapter start.
//!
//! User-mode submission needs native fences, native fences need hardware scheduling: a chain that is broken anywhere ends
//! there, and the adapter starts with less.

use crate::{Config, InterruptMode};
use tidegate_ddi::{
    AdapterCaps, FeatureId, MonitoredNotification, NativeFenceCaps, NodeMetadata, UserModeSubmissionCaps,
    VidSchCaps, feature,
};
use tidegate_gpu_abi::regs::NodeTraits;

/// Bytes that a ring writes to a doorbell: one 64-bit write pointer.
const DOORBELL_BYTES: u32 = 8;

/// What this adapter can do with this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Negotiated {
    pub(crate) native_fence: bool,
    pub(crate) user_mode_submission: bool,
    pub(crate) intra_gpu_fences: bool,
}

impl Negotiated {
    /// Asks the kernel.
    // spec: NF-056
    pub(crate) fn ask(config: &Config, features: &dyn feature::FeatureInterface) -> Negotiated {
        let enabled = |feature| features.is_feature_enabled(feature).enabled;
        let native_fence =
            config.native_fence && enabled(FeatureId::HWSCH) && enabled(FeatureId::NATIVE_FENCE);
        Negotiated {
            native_fence,
            user_mode_submission: native_fence && enabled(FeatureId::USER_MODE_SUBMISSION),
            intra_gpu_fences: native_fence
                && features.native_fence_os_caps().is_some_and(|caps| caps.intra_gpu),
        }
    }
}

/// The declaration. Before start nothing is negotiated and the least is declared. `traits` is what the device said about its
/// nodes, in their order.
pub(crate) fn declare(config: &Config, with: Option<Negotiated>, traits: &[NodeTraits]) -> AdapterCaps {
    let native_fence = with.is_some_and(|n| n.native_fence);
    let user_mode = with.is_some_and(|n| n.user_mode_submission);
    let mut scheduling =
        VidSchCaps::MULTI_ENGINE_AWARE | VidSchCaps::PREEMPTION_AWARE | VidSchCaps::NO_DMA_PATCHING;
    // spec: NF-057
    scheduling.set(VidSchCaps::NATIVE_GPU_FENCE, native_fence);
    // spec: NF-221
    scheduling.set(
        VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT,
        native_fence && matches!(config.interrupt, InterruptMode::HwQueue | InterruptMode::HwQueueArray),
    );
    let traits = traits.iter().copied().chain(std::iter::repeat(NodeTraits::default()));
    let nodes = config.nodes.iter().zip(traits).map(|(node, traits)| NodeMetadata {
        engine_type: node.engine_type,
        friendly_name: node.friendly_name.clone(),
        // A ring signals fences; an engine that cannot write one gets packets only.
        user_mode_submission: node.user_mode_submission
            && user_mode
            && !traits.has(NodeTraits::NO_FENCE_WRITES),
        // Half of what the driver's own ring holds, so that the kernel never meets a full one: an engine stores the progress of
        // a slot before it gives the slot back.
        max_in_flight_hw_queue_buffers: u16::try_from(config.kernel_ring_slots / 2).unwrap_or(u16::MAX),
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
        nodes: nodes.collect(),
        signaled_hw_queue_array: native_fence && config.interrupt == InterruptMode::HwQueueArray,
        native_fence: NativeFenceCaps::default(),
        user_mode_submission: UserModeSubmissionCaps { doorbell_size_bytes: DOORBELL_BYTES },
        fence_history: config.fence_history,
    }
}
