//! Owns the structures by which a process learns what an adapter can do.

use super::handle;
use crate::{AdapterInfo, Handle, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{IsFeatureEnabledResult, Raw};

layout! {
    /// Asks something about an adapter.
    QueryAdapterInfo = "D3DKMT_QUERYADAPTERINFO", 24 bytes {
        /// The adapter.
        0 "hAdapter" adapter: u32,
        /// What is asked: a number of KMTQUERYADAPTERINFOTYPE.
        4 "Type" query_type: u32,
        /// Where the answer goes.
        8 "pPrivateDriverData" data: u64,
        /// Bytes that there are for it.
        16 "PrivateDriverDataSize" data_bytes: u32,
    }

    // spec: NF-073
    /// What of WDDM 3.1 and 3.2 the adapter has.
    Wddm31Caps = "D3DKMT_WDDM_3_1_CAPS", 4 bytes {
        /// See [`Wddm31CapsFlags`].
        0 "Value" flags: u32,
    }

    // spec: NF-291
    /// Asks whether a feature is on.
    IsFeatureEnabled = "D3DKMT_ISFEATUREENABLED", 12 bytes {
        /// The adapter. In.
        0 "hAdapter" adapter: u32,
        /// A number of DXGK_FEATURE_ID. In.
        4 "FeatureId" feature_id: u32,
        /// How it stands. Out.
        8 "Result" result: IsFeatureEnabledResult,
    }
}

bitflags::bitflags! {
    /// Bits of [`Wddm31Caps`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Wddm31CapsFlags: u32 {
        /// Native fences may be made.
        #[doc(alias = "NativeGpuFenceSupported")]
        const NATIVE_GPU_FENCE_SUPPORTED = 1;
    }
}

impl Wddm31Caps {
    /// KMTQAITYPE_WDDM_3_1_CAPS: the number by which it is asked for.
    #[doc(alias = "KMTQAITYPE_WDDM_3_1_CAPS")]
    pub const QUERY_TYPE: u32 = 80;
}

impl From<&AdapterInfo> for Wddm31Caps {
    fn from(info: &AdapterInfo) -> Wddm31Caps {
        let mut flags = Wddm31CapsFlags::empty();
        flags.set(Wddm31CapsFlags::NATIVE_GPU_FENCE_SUPPORTED, info.native_gpu_fence_supported);
        Wddm31Caps { flags: flags.bits() }
    }
}

impl QueryAdapterInfo {
    /// The bytes that go to [`Self::data`].
    ///
    /// Errors: INVALID_PARAMETER for a zero adapter and no place, NOT_SUPPORTED for a type that
    /// nobody here answers, BUFFER_TOO_SMALL when the answer is longer than the place.
    pub fn answer(&self, info: &AdapterInfo) -> Result<Vec<u8>, Status> {
        handle(self.adapter)?;
        if self.data == 0 {
            return Err(Status::INVALID_PARAMETER);
        }
        let bytes = match self.query_type {
            Wddm31Caps::QUERY_TYPE => Wddm31Caps::from(info).to_bytes(),
            _ => return Err(Status::NOT_SUPPORTED),
        };
        if bytes.len() > self.data_bytes as usize {
            Err(Status::BUFFER_TOO_SMALL)
        } else {
            Ok(bytes)
        }
    }
}

impl IsFeatureEnabled {
    /// The adapter and the feature's number. INVALID_PARAMETER for a zero adapter.
    pub fn to_call(&self) -> Result<(Handle, u32), Status> {
        Ok((handle(self.adapter)?, self.feature_id))
    }

    /// Puts in how the feature stands.
    pub fn answer(&mut self, result: IsFeatureEnabledResult) {
        self.result = result;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;

    fn info(native_gpu_fence_supported: bool) -> AdapterInfo {
        AdapterInfo {
            description: String::new(),
            native_gpu_fence_supported,
            hardware_scheduling: false,
            no_64bit_atomics: false,
            io_mmu: false,
            physical_adapters: 1,
            nodes: Vec::new(),
        }
    }

    // spec: NF-073
    #[test]
    fn type_80_says_whether_native_fences_may_be_made() {
        let query = QueryAdapterInfo { adapter: 0x11, query_type: 80, data: 0x22, data_bytes: 4 };
        assert_bytes(&query.to_bytes(), 24, &[(0, 0x11), (4, 80), (8, 0x22), (16, 4)]);
        assert_eq!(query.answer(&info(true)), Ok(vec![1, 0, 0, 0]));
        assert_eq!(query.answer(&info(false)), Ok(vec![0, 0, 0, 0]));
        let refused = |query: QueryAdapterInfo| query.answer(&info(true)).unwrap_err();
        assert_eq!(refused(QueryAdapterInfo { data_bytes: 3, ..query }), Status::BUFFER_TOO_SMALL);
        assert_eq!(refused(QueryAdapterInfo { query_type: 81, ..query }), Status::NOT_SUPPORTED);
        assert_eq!(refused(QueryAdapterInfo { adapter: 0, ..query }), Status::INVALID_PARAMETER);
        assert_eq!(refused(QueryAdapterInfo { data: 0, ..query }), Status::INVALID_PARAMETER);
    }

    // spec: NF-291
    #[test]
    fn a_feature_is_asked_for_by_number() {
        let mut args = IsFeatureEnabled { adapter: 0x11, feature_id: 37, ..Raw::ZERO };
        assert_eq!(args.to_call(), Ok((Handle(0x11), 37)));
        args.answer(IsFeatureEnabledResult { version: 1, flags: 0xF });
        assert_bytes(&args.to_bytes(), 12, &[(0, 0x11), (4, 37), (8, 1), (10, 0xF)]);
        assert_eq!(IsFeatureEnabled::ZERO.to_call(), Err(Status::INVALID_PARAMETER));
    }
}
