//! Owns the structures of the native fence calls.

use super::{OpenInstance, handle};
use crate::{Handle, LogDetail, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{
    NATIVE_FENCE_PRIVATE_DATA_BYTES, NativeFenceInfo, NativeFenceMapping, reserved_is_zero,
};

layout! {
    // spec: NF-094
    /// Makes a native fence.
    CreateNativeFence = "D3DKMT_CREATENATIVEFENCE", 216 bytes {
        /// The owning device. In.
        0 "hDevice" device: u32,
        /// Its handle in this process. Out.
        4 "hSyncObject" sync_object: u32,
        /// Private driver data. In and out.
        8 "PrivateDriverData" private_driver_data: [u8; NATIVE_FENCE_PRIVATE_DATA_BYTES],
        /// What it is to be. In, and its mapping out.
        72 "Info" info: NativeFenceInfo,
        /// Reserved. In.
        184 "Flags" flags: u32,
        /// Zero.
        188 "Reserved" reserved: [u8; 28],
    }

    // spec: NF-097
    /// Opens an instance of a shared native fence.
    OpenNativeFenceFromNtHandle = "D3DKMT_OPENNATIVEFENCEFROMNTHANDLE", 176 bytes {
        /// The shared handle. In.
        0 "hNtHandle" nt_handle: u64,
        /// The opening device. In.
        8 "hDevice" device: u32,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all. In.
        12 "EngineAffinity" engine_affinity: u32,
        /// Rules of this instance. In.
        16 "Flags" flags: u32,
        /// Its handle in this process. Out.
        20 "hSyncObject" sync_object: u32,
        /// Where its values are. Out.
        24 "NativeFenceMapping" mapping: NativeFenceMapping,
        /// Private driver data. In and out.
        80 "PrivateDriverData" private_driver_data: [u8; NATIVE_FENCE_PRIVATE_DATA_BYTES],
        /// Zero.
        144 "Reserved" reserved: [u8; 32],
    }

    // spec: NF-290
    /// Asks for the logs of a user-mode queue.
    GetNativeFenceLogDetail = "D3DKMT_GETNATIVEFENCELOGDETAIL", 96 bytes {
        /// The queue. In.
        0 "hHwQueue" hw_queue: u32,
        /// Reserved. In.
        4 "Flags" flags: u32,
        /// Entries of the wait log; 0 when there is none. Out.
        8 "WaitLogNumberOfEntries" wait_log_number_of_entries: u32,
        /// Entries of the signal log; 0 when there is none. Out.
        12 "SignalLogNumberOfEntries" signal_log_number_of_entries: u32,
        /// Where engines find the wait log. Out.
        16 "WaitLogGpuBaseAddress" wait_log_gpu_va: u64,
        /// Where engines find the signal log. Out.
        24 "SignalLogGpuBaseAddress" signal_log_gpu_va: u64,
        /// Zero.
        32 "Reserved" reserved: [u8; 64],
    }
}

impl CreateNativeFence {
    /// The call. `name` is for reports.
    ///
    /// Errors: INVALID_PARAMETER for a zero device, reserved bits and bytes, and a type that does
    /// not exist.
    pub fn to_call<'a>(&self, name: &'a str) -> Result<crate::CreateNativeFence<'a>, Status> {
        let device = handle(self.device)?;
        reserved_is_zero(self.flags)?;
        reserved_is_zero(self.reserved)?;
        let (fence_type, flags) = self.info.checked()?;
        let (initial_value, engine_affinity) =
            (self.info.initial_fence_value, self.info.engine_affinity);
        let private_data = self.private_driver_data;
        Ok(crate::CreateNativeFence {
            device,
            initial_value,
            fence_type,
            flags,
            engine_affinity,
            private_data,
            name,
        })
    }

    /// Puts in what came out of the call.
    pub fn answer(
        &mut self,
        fence: Handle,
        mapping: NativeFenceMapping,
        private_data: [u8; NATIVE_FENCE_PRIVATE_DATA_BYTES],
    ) {
        self.sync_object = fence.0;
        self.info.mapping = mapping;
        self.private_driver_data = private_data;
    }
}

impl OpenNativeFenceFromNtHandle {
    /// What is asked for.
    ///
    /// Errors: INVALID_PARAMETER for a zero device and reserved bits and bytes, INVALID_HANDLE for
    /// no handle.
    pub fn checked(&self) -> Result<OpenInstance, Status> {
        reserved_is_zero(self.reserved)?;
        OpenInstance::checked(self.nt_handle, self.device, self.flags, self.engine_affinity)
    }

    /// Puts in what came out of the call.
    pub fn answer(
        &mut self,
        fence: Handle,
        mapping: NativeFenceMapping,
        private_data: [u8; NATIVE_FENCE_PRIVATE_DATA_BYTES],
    ) {
        self.sync_object = fence.0;
        self.mapping = mapping;
        self.private_driver_data = private_data;
    }
}

impl GetNativeFenceLogDetail {
    /// The queue. INVALID_PARAMETER for 0 and for reserved bits and bytes.
    pub fn to_call(&self) -> Result<Handle, Status> {
        reserved_is_zero(self.flags)?;
        reserved_is_zero(self.reserved)?;
        handle(self.hw_queue)
    }

    /// Puts in what came out of the call.
    pub fn answer(&mut self, detail: &LogDetail) {
        self.wait_log_number_of_entries = detail.wait_entries;
        self.signal_log_number_of_entries = detail.signal_entries;
        self.wait_log_gpu_va = detail.wait_log_gpu_va;
        self.signal_log_gpu_va = detail.signal_log_gpu_va;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;
    use crate::{NativeFenceType, SyncObjectFlags};
    use tidegate_d3dukmdt::layout::Raw;

    fn private_data(first: u8, last: u8) -> [u8; 64] {
        let mut data = [0; 64];
        (data[0], data[63]) = (first, last);
        data
    }

    fn create() -> CreateNativeFence {
        let info =
            NativeFenceInfo { initial_fence_value: 0x22, fence_type: 1, flags: 0x80, ..Raw::ZERO };
        CreateNativeFence {
            device: 0x11,
            private_driver_data: private_data(1, 2),
            info,
            ..Raw::ZERO
        }
    }

    // spec: NF-094
    #[test]
    fn creation_carries_device_private_data_and_info() {
        let mut args = create();
        let asked = [(0, 0x11), (72, 0x22), (84, 1), (88, 0x80)];
        assert_bytes(&args.to_bytes(), 216, &[&asked[..], &[(8, 1), (71, 2)]].concat());
        let call = args.to_call("fence").unwrap();
        assert_eq!((call.device, call.initial_value, call.name), (Handle(0x11), 0x22, "fence"));
        assert_eq!(
            (call.fence_type, call.flags),
            (NativeFenceType::IntraGpu, SyncObjectFlags::NO_GPU_ACCESS)
        );
        args.answer(Handle(0x33), NativeFenceMapping::new(0x44, 0x55, 0x66), private_data(3, 4));
        let answered = [(4, 0x33), (8, 3), (71, 4), (96, 0x44), (104, 0x55), (112, 0x66)];
        assert_bytes(&args.to_bytes(), 216, &[&asked[..], &answered].concat());
    }

    #[test]
    fn creation_that_makes_no_sense_is_refused() {
        let mut reserved = [0; 28];
        reserved[27] = 1;
        let info = create().info;
        let bad = [
            CreateNativeFence { device: 0, ..create() },
            CreateNativeFence { flags: 1, ..create() },
            CreateNativeFence { reserved, ..create() },
            CreateNativeFence { info: NativeFenceInfo { reserved, ..info }, ..create() },
            CreateNativeFence { info: NativeFenceInfo { fence_type: 2, ..info }, ..create() },
            CreateNativeFence { info: NativeFenceInfo { flags: 1 << 9, ..info }, ..create() },
        ];
        for args in bad {
            assert_eq!(args.to_call("").unwrap_err(), Status::INVALID_PARAMETER, "{args:?}");
        }
    }

    // spec: NF-097
    #[test]
    fn opening_carries_handle_device_and_rules() {
        let mut args = OpenNativeFenceFromNtHandle {
            nt_handle: 0x11,
            device: 0x22,
            engine_affinity: 1,
            flags: 0x20,
            ..Raw::ZERO
        };
        let opened = args.checked().unwrap();
        assert_eq!((opened.nt_handle, opened.device), (0x11, Handle(0x22)));
        assert_eq!((opened.flags, opened.engine_affinity), (SyncObjectFlags::NO_WAIT, 1));
        args.answer(Handle(0x33), NativeFenceMapping::new(0x44, 0x55, 0x66), private_data(7, 8));
        let set = [
            (0, 0x11),
            (8, 0x22),
            (12, 1),
            (16, 0x20),
            (20, 0x33),
            (24, 0x44),
            (32, 0x55),
            (40, 0x66),
            (80, 7),
            (143, 8),
        ];
        assert_bytes(&args.to_bytes(), 176, &set);
        let mut reserved = [0; 32];
        reserved[0] = 1;
        let bad = OpenNativeFenceFromNtHandle { reserved, ..args };
        assert_eq!(bad.checked(), Err(Status::INVALID_PARAMETER));
        let nobody = OpenNativeFenceFromNtHandle { nt_handle: 0, ..args };
        assert_eq!(nobody.checked(), Err(Status::INVALID_HANDLE));
    }

    // spec: NF-290
    #[test]
    fn log_detail_carries_counts_and_addresses() {
        let mut args = GetNativeFenceLogDetail { hw_queue: 0x11, ..Raw::ZERO };
        assert_eq!(args.to_call(), Ok(Handle(0x11)));
        args.answer(&LogDetail {
            wait_entries: 84,
            signal_entries: 85,
            wait_log_gpu_va: 0x22,
            signal_log_gpu_va: 0x33,
            numbers: 1344,
            verbose: None,
        });
        assert_bytes(&args.to_bytes(), 96, &[(0, 0x11), (8, 84), (12, 85), (16, 0x22), (24, 0x33)]);
        let bad = [
            GetNativeFenceLogDetail { hw_queue: 0, ..args },
            GetNativeFenceLogDetail { flags: 1, ..args },
            GetNativeFenceLogDetail { reserved: [1; 64], ..args },
        ];
        for args in bad {
            assert_eq!(args.to_call(), Err(Status::INVALID_PARAMETER));
        }
    }
}
