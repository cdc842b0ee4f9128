//! Owns the numbers by which fence storage in local memory is asked of a driver, and the fields of
//! the question.

use crate::{NativeFenceType, Status};
use tidegate_d3dukmdt::layout;

/// The standard allocation type of fence storage, for DxgkDdiGetStandardAllocationDriverData.
#[doc(alias = "D3DKMDT_STANDARDALLOCATION_FENCESTORAGE")]
pub const FENCE_STORAGE_ALLOCATION: u32 = 6;

/// Which of a fence's two values is stored.
#[doc(alias = "D3DKMDT_FENCESTORAGEVALUETYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FenceStorageValueType {
    /// CurrentValue.
    CurrentValue = 0,
    /// MonitoredValue.
    MonitoredValue = 1,
}

impl TryFrom<u32> for FenceStorageValueType {
    type Error = Status;

    /// The type of that number; INVALID_PARAMETER for any other.
    fn try_from(number: u32) -> Result<FenceStorageValueType, Status> {
        match number {
            0 => Ok(FenceStorageValueType::CurrentValue),
            1 => Ok(FenceStorageValueType::MonitoredValue),
            _ => Err(Status::INVALID_PARAMETER),
        }
    }
}

layout! {
    /// The fields of D3DKMDT_FENCESTORAGESURFACEDATA that stand before its reserved bytes. How many
    /// those are, and with them where the driver's AllocationInfo stands, no public source says;
    /// the answer travels as a type of its own.
    FenceStorageSurfaceFields = "D3DKMDT_FENCESTORAGESURFACEDATA", 32 bytes {
        /// Which physical adapter.
        0 "PhysicalAdapterIndex" physical_adapter_index: u32,
        /// See [`FenceStorageValueType`].
        4 "FenceStorageValueType" value_type: u32,
        /// See [`NativeFenceType`].
        8 "FenceStorageType" fence_type: u32,
        /// Not used.
        12 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Not used.
        16 "pPrivateDriverData" private_driver_data: u64,
        /// Reserved.
        24 "Flags" flags: u32,
    }
}

impl FenceStorageSurfaceFields {
    /// Which value of which type of fence is to be stored. INVALID_PARAMETER for numbers that do
    /// not exist and reserved flags.
    pub fn checked(&self) -> Result<(FenceStorageValueType, NativeFenceType), Status> {
        layout::reserved_is_zero(self.flags)?;
        let value_type = FenceStorageValueType::try_from(self.value_type)?;
        Ok((value_type, NativeFenceType::try_from(self.fence_type)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;
    use tidegate_d3dukmdt::layout::Raw;

    #[test]
    fn the_question_names_value_and_fence_type() {
        let fields = FenceStorageSurfaceFields {
            physical_adapter_index: 0x11,
            value_type: 1,
            fence_type: 1,
            private_driver_data_size: 0x22,
            private_driver_data: 0x33,
            flags: 0,
        };
        let set = [(0, 0x11), (4, 1), (8, 1), (12, 0x22), (16, 0x33)];
        assert_bytes(&fields.to_bytes(), 32, &set);
        let asked = (FenceStorageValueType::MonitoredValue, NativeFenceType::IntraGpu);
        assert_eq!(fields.checked(), Ok(asked));
        let bad = [
            FenceStorageSurfaceFields { value_type: 2, ..fields },
            FenceStorageSurfaceFields { fence_type: 2, ..fields },
            FenceStorageSurfaceFields { flags: 1, ..fields },
        ];
        for fields in bad {
            assert_eq!(fields.checked(), Err(Status::INVALID_PARAMETER));
        }
        assert_eq!(FENCE_STORAGE_ALLOCATION, 6);
    }
}
