//! Owns what both sides read about an adapter: metadata of a node, how finely it is preempted, and
//! the answer about a feature.

use crate::layout;

layout! {
    // spec: PRE-070
    /// How finely the adapter's engines can be preempted: the largest piece of work that has to end
    /// first.
    PreemptionCaps = "D3DKMDT_PREEMPTION_CAPS", 8 bytes {
        /// For graphics: a number of D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY.
        0 "GraphicsPreemptionGranularity" graphics_granularity: u32,
        /// For compute: a number of D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY.
        4 "ComputePreemptionGranularity" compute_granularity: u32,
    }

    /// Metadata of a node. The header packs it, so it ends in the middle of a word.
    #[repr(packed)]
    NodeMetadata = "DXGK_NODEMETADATA", 74 bytes {
        /// A number of DXGK_ENGINE_TYPE.
        0 "EngineType" engine_type: u32,
        /// UTF-16, ended by a zero.
        4 "FriendlyName" friendly_name: [u16; 32],
        /// See [`NodeMetadataFlags`]; the upper half is MaxInFlightHwQueueBuffers.
        68 "Flags" flags: u32,
        /// Not 0: it has GPU page tables.
        72 "GpuMmuSupported" gpu_mmu_supported: u8,
        /// Not 0: it can use the CPU's page tables.
        73 "IoMmuSupported" iommu_supported: u8,
    }

    /// How a feature stands.
    IsFeatureEnabledResult = "DXGK_ISFEATUREENABLED_RESULT", 4 bytes {
        /// The negotiated version.
        0 "Version" version: u16,
        /// See [`FeatureResultFlags`].
        2 "Value" flags: u16,
    }
}

bitflags::bitflags! {
    /// Lower half of the flags of a node.
    #[doc(alias = "DXGK_NODEMETADATA_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NodeMetadataFlags: u32 {
        /// DxgkDdiSetContextSchedulingProperties is understood.
        const CONTEXT_SCHEDULING_SUPPORTED = 1;
        /// Driver or firmware write the progress fence, once nobody reads the buffer any more.
        const RING_BUFFER_FENCE_RELEASE = 1 << 1;
        /// Tracked workloads are supported.
        const SUPPORT_TRACKED_WORKLOAD = 1 << 2;
        /// Queues that take work by doorbell may be made.
        const USER_MODE_SUBMISSION = 1 << 3;
        /// Test command buffers can be built.
        const SUPPORT_BUILD_TEST_COMMAND_BUFFER = 1 << 4;
    }
}

impl NodeMetadataFlags {
    /// Lowest bit of MaxInFlightHwQueueBuffers in the flags word.
    pub const MAX_IN_FLIGHT_SHIFT: u32 = 16;
}

bitflags::bitflags! {
    /// Bits of the answer about a feature.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FeatureResultFlags: u16 {
        /// On for this adapter.
        #[doc(alias = "Enabled")]
        const ENABLED = 1;
        /// The kernel knows the feature.
        #[doc(alias = "KnownFeature")]
        const KNOWN_FEATURE = 1 << 1;
        /// The driver has it.
        #[doc(alias = "SupportedByDriver")]
        const SUPPORTED_BY_DRIVER = 1 << 2;
        /// The driver has it on this hardware as it is configured.
        #[doc(alias = "SupportedOnCurrentConfig")]
        const SUPPORTED_ON_CURRENT_CONFIG = 1 << 3;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Raw;

    #[test]
    fn node_metadata_is_packed() {
        let mut name = [0; 32];
        name[0] = u16::from(b'C');
        let metadata = NodeMetadata {
            engine_type: 6,
            friendly_name: name,
            flags: NodeMetadataFlags::USER_MODE_SUBMISSION.bits()
                | 2 << NodeMetadataFlags::MAX_IN_FLIGHT_SHIFT,
            gpu_mmu_supported: 1,
            iommu_supported: 1,
        };
        let bytes = metadata.to_bytes();
        assert_eq!(bytes.len(), 74);
        for (at, byte) in [(0, 6), (4, b'C'), (68, 8), (70, 2), (72, 1), (73, 1)] {
            assert_eq!(bytes[at], byte, "byte {at}");
        }
        assert_eq!(NodeMetadata::from_bytes(&bytes), Ok(metadata));
    }

    // spec: PRE-070
    #[test]
    fn granularities_stand_side_by_side() {
        let caps = PreemptionCaps { graphics_granularity: 1, compute_granularity: 2 };
        assert_eq!(caps.to_bytes(), [1, 0, 0, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn a_features_answer_is_a_version_and_four_bits() {
        let flags = FeatureResultFlags::ENABLED | FeatureResultFlags::SUPPORTED_ON_CURRENT_CONFIG;
        let result = IsFeatureEnabledResult { version: 0x0102, flags: flags.bits() };
        assert_eq!(result.to_bytes(), [2, 1, 9, 0]);
        assert_eq!(FeatureResultFlags::all().bits(), 0xF);
    }
}
