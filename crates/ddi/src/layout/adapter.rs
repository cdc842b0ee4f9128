//! Owns the structures by which a driver says what its adapter can do.

use crate::{NodeMetadata, Status, VidSchCaps};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{NodeMetadataFlags, Raw, reserved_is_zero};

layout! {
    // spec: NF-072
    /// How the driver wants native fences stored and mapped.
    NativeFenceCaps = "DXGK_NATIVE_FENCE_CAPS", 56 bytes {
        /// Bytes between two fences packed into a page.
        0 "MonitoredValueStride" monitored_value_stride: u32,
        /// 1: map both values into the system process, too.
        4 "MapToGpuSystemProcess" map_to_gpu_system_process: u8,
        /// Lowest GPU address for them; 0 for no bound.
        8 "MinimumAddress" minimum_address: u64,
        /// Highest GPU address for them; 0 for no bound.
        16 "MaximumAddress" maximum_address: u64,
        /// Zero.
        24 "Reserved" reserved: [u8; 28],
    }

    // spec: UMS-013
    /// What the driver's doorbells take.
    UserModeSubmissionCaps = "DXGK_USERMODESUBMISSION_CAPS", 28 bytes {
        /// See [`UserModeSubmissionCapsFlags`].
        0 "Flags" flags: u32,
        /// Bytes of a doorbell.
        4 "DoorbellSizeInBytes" doorbell_size_bytes: u32,
        /// Bytes of a secondary doorbell.
        8 "SecondaryDoorbellSizeInBytes" secondary_doorbell_size_bytes: u32,
        /// Zero.
        12 "Reserved" reserved: [u8; 16],
    }
}

bitflags::bitflags! {
    /// Bits of [`UserModeSubmissionCaps`]; the others are reserved.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct UserModeSubmissionCapsFlags: u32 {
        /// There are secondary doorbells.
        #[doc(alias = "SecondaryDoorbellSupported")]
        const SECONDARY_DOORBELL_SUPPORTED = 1;
    }
}

impl NativeFenceCaps {
    /// DXGKQAITYPE_NATIVE_FENCE_CAPS: the number by which they are asked for.
    #[doc(alias = "DXGKQAITYPE_NATIVE_FENCE_CAPS")]
    pub const QUERY_TYPE: u32 = 37;

    /// The caps. INVALID_PARAMETER for reserved bytes and a boolean that is none; whether the
    /// stride fits is looked at where the adapter starts.
    pub fn to_caps(&self) -> Result<crate::NativeFenceCaps, Status> {
        reserved_is_zero(self.reserved)?;
        if self.map_to_gpu_system_process > 1 {
            return Err(Status::INVALID_PARAMETER);
        }
        Ok(crate::NativeFenceCaps {
            monitored_value_stride: self.monitored_value_stride,
            map_to_gpu_system_process: self.map_to_gpu_system_process == 1,
            minimum_address: (self.minimum_address != 0).then_some(self.minimum_address),
            maximum_address: (self.maximum_address != 0).then_some(self.maximum_address),
        })
    }
}

impl From<crate::NativeFenceCaps> for NativeFenceCaps {
    fn from(caps: crate::NativeFenceCaps) -> NativeFenceCaps {
        NativeFenceCaps {
            monitored_value_stride: caps.monitored_value_stride,
            map_to_gpu_system_process: u8::from(caps.map_to_gpu_system_process),
            minimum_address: caps.minimum_address.unwrap_or(0),
            maximum_address: caps.maximum_address.unwrap_or(0),
            ..Raw::ZERO
        }
    }
}

impl UserModeSubmissionCaps {
    /// DXGKQAITYPE_USERMODESUBMISSION_CAPS: the number by which they are asked for.
    #[doc(alias = "DXGKQAITYPE_USERMODESUBMISSION_CAPS")]
    pub const QUERY_TYPE: u32 = 38;

    /// The caps. INVALID_PARAMETER for reserved bits and bytes, and for a doorbell, or a secondary
    /// one that is supported, without bytes.
    pub fn to_caps(&self) -> Result<crate::UserModeSubmissionCaps, Status> {
        reserved_is_zero(self.reserved)?;
        let flags =
            UserModeSubmissionCapsFlags::from_bits(self.flags).ok_or(Status::INVALID_PARAMETER)?;
        let secondary = flags.contains(UserModeSubmissionCapsFlags::SECONDARY_DOORBELL_SUPPORTED);
        let secondary_doorbell_size_bytes = secondary.then_some(self.secondary_doorbell_size_bytes);
        if self.doorbell_size_bytes == 0 || secondary_doorbell_size_bytes == Some(0) {
            return Err(Status::INVALID_PARAMETER);
        }
        Ok(crate::UserModeSubmissionCaps {
            doorbell_size_bytes: self.doorbell_size_bytes,
            secondary_doorbell_size_bytes,
        })
    }
}

impl From<crate::UserModeSubmissionCaps> for UserModeSubmissionCaps {
    fn from(caps: crate::UserModeSubmissionCaps) -> UserModeSubmissionCaps {
        let flags = match caps.secondary_doorbell_size_bytes {
            Some(_) => UserModeSubmissionCapsFlags::SECONDARY_DOORBELL_SUPPORTED,
            None => UserModeSubmissionCapsFlags::empty(),
        };
        UserModeSubmissionCaps {
            flags: flags.bits(),
            doorbell_size_bytes: caps.doorbell_size_bytes,
            secondary_doorbell_size_bytes: caps.secondary_doorbell_size_bytes.unwrap_or(0),
            ..Raw::ZERO
        }
    }
}

/// Lowest bit of HwQueuePacketCap, which takes four.
const PACKET_CAP_SHIFT: u32 = 7;
const PACKET_CAP_MASK: u32 = 0xF << PACKET_CAP_SHIFT;

/// The word of scheduling caps: bits and HwQueuePacketCap.
#[doc(alias = "DXGK_VIDSCHCAPS")]
pub mod vidsch_caps {
    use super::{PACKET_CAP_MASK, PACKET_CAP_SHIFT, Status, VidSchCaps};

    // spec: NF-292
    /// The word. INVALID_PARAMETER for a HwQueuePacketCap above 15.
    pub fn to_word(caps: VidSchCaps, hw_queue_packet_cap: u32) -> Result<u32, Status> {
        if hw_queue_packet_cap > PACKET_CAP_MASK >> PACKET_CAP_SHIFT {
            return Err(Status::INVALID_PARAMETER);
        }
        Ok(caps.bits() | hw_queue_packet_cap << PACKET_CAP_SHIFT)
    }

    /// Bits and HwQueuePacketCap. INVALID_PARAMETER for reserved bits.
    pub fn of_word(word: u32) -> Result<(VidSchCaps, u32), Status> {
        let caps =
            VidSchCaps::from_bits(word & !PACKET_CAP_MASK).ok_or(Status::INVALID_PARAMETER)?;
        Ok((caps, (word & PACKET_CAP_MASK) >> PACKET_CAP_SHIFT))
    }
}

// spec: UMS-134
/// A node's metadata as it is handed up, with the adapter's page tables; a name of more than 31
/// UTF-16 units is cut.
#[doc(alias = "DxgkDdiGetNodeMetadata")]
pub fn node_metadata(node: &NodeMetadata, gpu_mmu: bool, iommu: bool) -> layout::NodeMetadata {
    let mut friendly_name = [0; 32];
    for (unit, from) in friendly_name[..31].iter_mut().zip(node.friendly_name.encode_utf16()) {
        *unit = from;
    }
    let mut flags = NodeMetadataFlags::empty();
    flags.set(NodeMetadataFlags::CONTEXT_SCHEDULING_SUPPORTED, node.context_scheduling);
    flags.set(NodeMetadataFlags::USER_MODE_SUBMISSION, node.user_mode_submission);
    let in_flight = u32::from(node.max_in_flight_hw_queue_buffers);
    layout::NodeMetadata {
        engine_type: node.engine_type as u32,
        friendly_name,
        flags: flags.bits() | in_flight << NodeMetadataFlags::MAX_IN_FLIGHT_SHIFT,
        gpu_mmu_supported: u8::from(gpu_mmu),
        iommu_supported: u8::from(iommu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineType;
    use crate::layout::tests::assert_bytes;

    // spec: NF-072
    #[test]
    fn native_fence_caps_stand_where_the_header_has_them() {
        let caps = crate::NativeFenceCaps {
            monitored_value_stride: 64,
            map_to_gpu_system_process: true,
            minimum_address: Some(0x22),
            maximum_address: Some(0x33),
        };
        let raw = NativeFenceCaps::from(caps);
        assert_bytes(&raw.to_bytes(), 56, &[(0, 64), (4, 1), (8, 0x22), (16, 0x33)]);
        assert_eq!(raw.to_caps(), Ok(caps));
        let unbound = crate::NativeFenceCaps::default();
        assert_bytes(&NativeFenceCaps::from(unbound).to_bytes(), 56, &[(0, 64)]);
        assert_eq!(NativeFenceCaps::from(unbound).to_caps(), Ok(unbound));
        assert_eq!(
            NativeFenceCaps { reserved: [1; 28], ..raw }.to_caps(),
            Err(Status::INVALID_PARAMETER)
        );
        let no_boolean = NativeFenceCaps { map_to_gpu_system_process: 2, ..raw };
        assert_eq!(no_boolean.to_caps(), Err(Status::INVALID_PARAMETER));
        assert_eq!(NativeFenceCaps::QUERY_TYPE, 37);
    }

    // spec: UMS-013
    #[test]
    fn user_mode_submission_caps_say_how_long_a_doorbell_is() {
        let caps = crate::UserModeSubmissionCaps {
            doorbell_size_bytes: 8,
            secondary_doorbell_size_bytes: None,
        };
        let raw = UserModeSubmissionCaps::from(caps);
        assert_bytes(&raw.to_bytes(), 28, &[(4, 8)]);
        assert_eq!(raw.to_caps(), Ok(caps));
        let with_second =
            crate::UserModeSubmissionCaps { secondary_doorbell_size_bytes: Some(4), ..caps };
        let second = UserModeSubmissionCaps::from(with_second);
        assert_bytes(&second.to_bytes(), 28, &[(0, 1), (4, 8), (8, 4)]);
        assert_eq!(second.to_caps(), Ok(with_second));
        let bad = [
            UserModeSubmissionCaps { flags: 2, ..raw },
            UserModeSubmissionCaps { flags: 1, ..raw },
            UserModeSubmissionCaps { doorbell_size_bytes: 0, ..raw },
            UserModeSubmissionCaps { reserved: [1; 16], ..raw },
        ];
        for raw in bad {
            assert_eq!(raw.to_caps(), Err(Status::INVALID_PARAMETER));
        }
        assert_eq!(UserModeSubmissionCaps::QUERY_TYPE, 38);
    }

    // spec: NF-292
    #[test]
    fn scheduling_caps_and_packet_cap_share_a_word() {
        let caps =
            VidSchCaps::NATIVE_GPU_FENCE | VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT;
        assert_eq!(vidsch_caps::to_word(caps, 15), Ok(0x1800 | 0x780));
        assert_eq!(vidsch_caps::of_word(0x1800 | 0x100), Ok((caps, 2)));
        assert_eq!(vidsch_caps::to_word(caps, 16), Err(Status::INVALID_PARAMETER));
        for bit in 13..32 {
            assert_eq!(vidsch_caps::of_word(1 << bit), Err(Status::INVALID_PARAMETER));
        }
        let all = (0..13).fold(0, |word, bit| word | 1 << bit);
        assert_eq!(vidsch_caps::of_word(all), Ok((VidSchCaps::all(), 15)));
    }

    // spec: UMS-134
    #[test]
    fn a_nodes_metadata_says_what_it_takes() {
        let node = NodeMetadata {
            engine_type: EngineType::Copy,
            friendly_name: "x".repeat(40),
            context_scheduling: true,
            user_mode_submission: true,
            max_in_flight_hw_queue_buffers: 5,
            writes_fences: true,
            monitored_notification: crate::MonitoredNotification::Basic,
        };
        let raw = node_metadata(&node, true, false).to_bytes();
        assert_eq!(raw.len(), 74);
        assert_eq!(
            (raw[0], raw[4], raw[64], raw[66]),
            (6, b'x', b'x', 0),
            "cut, and ended by a zero"
        );
        assert_eq!((raw[68], raw[70], raw[72], raw[73]), (9, 5, 1, 0));
    }
}
