//! Owns the structures by which a native fence is described to the kernel and its addresses are
//! told to the process. The calls that carry them stand in `calls`.

use super::{Raw, reserved_is_zero};
use crate::{NativeFenceType, Status, SyncObjectFlags, layout};

layout! {
    // spec: NF-096
    /// Where a process finds the two values of a native fence. Out.
    NativeFenceMapping = "D3DDDI_NATIVEFENCEMAPPING", 56 bytes {
        /// CurrentValue, process CPU address, read-only; 0 for INTRA_GPU.
        0 "CurrentValueCpuVa" current_value_cpu_va: u64,
        /// CurrentValue, process GPU address: engines read it to wait and write it to signal.
        8 "CurrentValueGpuVa" current_value_gpu_va: u64,
        /// MonitoredValue, process GPU address: engines compare against it.
        16 "MonitoredValueGpuVa" monitored_value_gpu_va: u64,
        /// Zero.
        24 "Reserved" reserved: [u8; 32],
    }

    // spec: NF-095
    /// What a native fence is to be, and where it then is.
    NativeFenceInfo = "D3DDDI_NATIVEFENCEINFO", 112 bytes {
        /// CurrentValue at birth. In.
        0 "InitialFenceValue" initial_fence_value: u64,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all. In.
        8 "EngineAffinity" engine_affinity: u32,
        /// See [`NativeFenceType`]. In.
        12 "Type" fence_type: u32,
        /// See [`SyncObjectFlags`]. In.
        16 "Flags" flags: u32,
        /// Where its values are. Out.
        24 "NativeFenceMapping" mapping: NativeFenceMapping,
        /// Zero. A later header takes the first four bytes for a PhysicalAdapterIndex.
        80 "Reserved" reserved: [u8; 28],
    }
}

impl NativeFenceInfo {
    /// Type and flags, once nothing in the structure is out of its range.
    ///
    /// Errors: INVALID_PARAMETER for a type that does not exist and for reserved bits and bytes.
    pub fn checked(&self) -> Result<(NativeFenceType, SyncObjectFlags), Status> {
        let fence_type = NativeFenceType::try_from(self.fence_type)?;
        let flags = SyncObjectFlags::from_caller(self.flags)?;
        reserved_is_zero(self.reserved)?;
        Ok((fence_type, flags))
    }
}

impl NativeFenceMapping {
    /// The addresses, reserved bytes zero.
    pub fn new(
        current_value_cpu_va: u64,
        current_value_gpu_va: u64,
        monitored_value_gpu_va: u64,
    ) -> Self {
        Self { current_value_cpu_va, current_value_gpu_va, monitored_value_gpu_va, ..Self::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: NF-095, NF-096
    #[test]
    fn every_field_stands_where_the_header_has_it() {
        let info = NativeFenceInfo {
            initial_fence_value: 0x0102,
            engine_affinity: 3,
            fence_type: 1,
            flags: 4,
            mapping: NativeFenceMapping::new(5, 6, 7),
            reserved: [0; 28],
        };
        let bytes = info.to_bytes();
        assert_eq!(bytes.len(), 112);
        for (at, byte) in [(0, 2), (1, 1), (8, 3), (12, 1), (16, 4), (24, 5), (32, 6), (40, 7)] {
            assert_eq!(bytes[at], byte, "byte {at}");
        }
        assert_eq!(bytes.iter().filter(|b| **b != 0).count(), 8);
        assert_eq!(info.mapping.to_bytes(), bytes[24..80]);
        assert_eq!(NativeFenceInfo::from_bytes(&bytes), Ok(info));
    }

    #[test]
    fn types_flags_and_reserved_bytes_are_checked() {
        let good = NativeFenceInfo { fence_type: 1, flags: 0x3, ..Raw::ZERO };
        let shared = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
        assert_eq!(good.checked(), Ok((NativeFenceType::IntraGpu, shared)));
        let mut reserved = [0; 28];
        reserved[27] = 1;
        let bad = [
            NativeFenceInfo { fence_type: 2, ..good },
            NativeFenceInfo { flags: 1 << 11, ..good },
            NativeFenceInfo { flags: 1 << 31, ..good },
            NativeFenceInfo { reserved, ..good },
        ];
        for info in bad {
            assert_eq!(info.checked(), Err(Status::INVALID_PARAMETER));
        }
    }
}
