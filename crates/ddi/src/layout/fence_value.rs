//! Owns the structures of the two DDIs that hand down values in batches. The three arrays run in
//! parallel: fence, value, and the kernel CPU address of the cell.

use crate::Status;
use crate::fence::UpdateCurrentMode;
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{Raw, reserved_is_zero};

layout! {
    // spec: NF-134
    /// New MonitoredValues.
    UpdateMonitoredValues = "DXGKARG_UPDATEMONITOREDVALUES", 64 bytes {
        /// Where the driver's handles of the fences stand.
        0 "NativeFenceArray" native_fence_array: u64,
        /// Where the new values stand.
        8 "UpdatedValueArray" updated_value_array: u64,
        /// Where the addresses of the cells stand.
        16 "MonitoredValueKernelCpuVa" monitored_value_kernel_cpu_va: u64,
        /// How many of each.
        24 "NumFences" num_fences: u32,
        /// Reserved.
        28 "Flags" flags: u32,
        /// Zero.
        32 "Reserved" reserved: [u8; 28],
    }

    /// New CurrentValues.
    UpdateCurrentValuesFromCpu = "DXGKARG_UPDATECURRENTVALUESFROMCPU", 64 bytes {
        /// Where the driver's handles of the fences stand.
        0 "NativeFenceArray" native_fence_array: u64,
        /// Where the new values stand.
        8 "UpdatedValueArray" updated_value_array: u64,
        /// Where the addresses of the cells stand.
        16 "CurrentValueKernelCpuVa" current_value_kernel_cpu_va: u64,
        /// How many of each.
        24 "NumFences" num_fences: u32,
        /// See [`UpdateCurrentValuesFlags`].
        28 "Flags" flags: u32,
        /// Zero.
        32 "Reserved" reserved: [u8; 28],
    }
}

bitflags::bitflags! {
    /// How CurrentValues change; the other bits are reserved.
    #[doc(alias = "DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct UpdateCurrentValuesFlags: u32 {
        /// The parent device is in error.
        #[doc(alias = "AlwaysSignaled")]
        const ALWAYS_SIGNALED = 1;
        /// The values have changed already.
        #[doc(alias = "NotificationOnly")]
        const NOTIFICATION_ONLY = 1 << 1;
    }
}

impl From<UpdateCurrentMode> for UpdateCurrentValuesFlags {
    fn from(mode: UpdateCurrentMode) -> Self {
        match mode {
            UpdateCurrentMode::Write => UpdateCurrentValuesFlags::empty(),
            UpdateCurrentMode::NotificationOnly => UpdateCurrentValuesFlags::NOTIFICATION_ONLY,
            UpdateCurrentMode::AlwaysSignaled => UpdateCurrentValuesFlags::ALWAYS_SIGNALED,
        }
    }
}

impl UpdateMonitoredValues {
    /// Names the arrays.
    pub fn new(fences: u64, values: u64, cells: u64, num_fences: u32) -> Self {
        Self {
            native_fence_array: fences,
            updated_value_array: values,
            monitored_value_kernel_cpu_va: cells,
            num_fences,
            ..Self::ZERO
        }
    }

    /// How many fences. INVALID_PARAMETER for reserved bits and bytes, and for arrays that stand
    /// nowhere.
    pub fn checked(&self) -> Result<usize, Status> {
        reserved_is_zero(self.flags)?;
        reserved_is_zero(self.reserved)?;
        let arrays =
            [self.native_fence_array, self.updated_value_array, self.monitored_value_kernel_cpu_va];
        count(self.num_fences, arrays)
    }
}

impl UpdateCurrentValuesFromCpu {
    /// Names the arrays.
    pub fn new(
        fences: u64,
        values: u64,
        cells: u64,
        num_fences: u32,
        mode: UpdateCurrentMode,
    ) -> Self {
        Self {
            native_fence_array: fences,
            updated_value_array: values,
            current_value_kernel_cpu_va: cells,
            num_fences,
            flags: UpdateCurrentValuesFlags::from(mode).bits(),
            ..Self::ZERO
        }
    }

    /// How many fences, and how they change. INVALID_PARAMETER for reserved bits and bytes, both
    /// flags at once, and arrays that stand nowhere.
    pub fn checked(&self) -> Result<(usize, UpdateCurrentMode), Status> {
        reserved_is_zero(self.reserved)?;
        let flags =
            UpdateCurrentValuesFlags::from_bits(self.flags).ok_or(Status::INVALID_PARAMETER)?;
        let modes = [
            UpdateCurrentMode::Write,
            UpdateCurrentMode::NotificationOnly,
            UpdateCurrentMode::AlwaysSignaled,
        ];
        let mode = modes.into_iter().find(|m| UpdateCurrentValuesFlags::from(*m) == flags);
        let arrays =
            [self.native_fence_array, self.updated_value_array, self.current_value_kernel_cpu_va];
        Ok((count(self.num_fences, arrays)?, mode.ok_or(Status::INVALID_PARAMETER)?))
    }
}

fn count(num_fences: u32, arrays: [u64; 3]) -> Result<usize, Status> {
    if num_fences > 0 && arrays.contains(&0) {
        Err(Status::INVALID_PARAMETER)
    } else {
        Ok(num_fences as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;

    // spec: NF-134
    #[test]
    fn both_batches_stand_where_the_header_has_them() {
        let monitored = UpdateMonitoredValues::new(0x11, 0x22, 0x33, 4);
        assert_bytes(&monitored.to_bytes(), 64, &[(0, 0x11), (8, 0x22), (16, 0x33), (24, 4)]);
        assert_eq!(monitored.checked(), Ok(4));
        let mode = UpdateCurrentMode::NotificationOnly;
        let current = UpdateCurrentValuesFromCpu::new(0x11, 0x22, 0x33, 4, mode);
        assert_bytes(
            &current.to_bytes(),
            64,
            &[(0, 0x11), (8, 0x22), (16, 0x33), (24, 4), (28, 2)],
        );
        assert_eq!(current.checked(), Ok((4, mode)));
    }

    #[test]
    fn each_mode_is_a_flag_and_both_flags_are_none() {
        let with = |flags| UpdateCurrentValuesFromCpu { flags, ..Raw::ZERO }.checked();
        assert_eq!(with(0), Ok((0, UpdateCurrentMode::Write)));
        assert_eq!(with(1), Ok((0, UpdateCurrentMode::AlwaysSignaled)));
        assert_eq!(with(2), Ok((0, UpdateCurrentMode::NotificationOnly)));
        assert_eq!(with(3), Err(Status::INVALID_PARAMETER));
        assert_eq!(with(4), Err(Status::INVALID_PARAMETER));
    }

    #[test]
    fn arrays_that_stand_nowhere_are_refused() {
        for arrays in [(0, 2, 3), (1, 0, 3), (1, 2, 0)] {
            let args = UpdateMonitoredValues::new(arrays.0, arrays.1, arrays.2, 1);
            assert_eq!(args.checked(), Err(Status::INVALID_PARAMETER));
        }
        let flags = UpdateMonitoredValues { flags: 1, ..Raw::ZERO };
        assert_eq!(flags.checked(), Err(Status::INVALID_PARAMETER));
    }
}
