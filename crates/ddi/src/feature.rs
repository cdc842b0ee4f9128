//! Owns feature negotiation (DXGK_FEATURE_INTERFACE): a driver asks what the kernel has enabled before it declares caps.

/// DXGK_FEATURE_ID: category in the upper 4 bits, number below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeatureId(pub u32);

impl FeatureId {
    /// DXGK_FEATURE_HWSCH
    pub const HWSCH: FeatureId = FeatureId(0);
    /// DXGK_FEATURE_USER_MODE_SUBMISSION
    pub const USER_MODE_SUBMISSION: FeatureId = FeatureId(4);
    /// DXGK_FEATURE_NATIVE_FENCE
    // spec: NF-059
    pub const NATIVE_FENCE: FeatureId = FeatureId(37);
}

/// DXGK_ISFEATUREENABLED_RESULT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureState {
    /// Negotiated version.
    pub version: u16,
    /// On for this adapter.
    pub enabled: bool,
    /// The kernel knows the feature.
    pub known: bool,
}

/// DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeFenceOsCaps {
    /// Optimized DEFAULT fences (MonitoredValue in local memory) may be created.
    pub optimized_default: bool,
    /// INTRA_GPU fences may be created.
    pub intra_gpu: bool,
}

/// What the kernel answers about features. PASSIVE level.
pub trait FeatureInterface: Send + Sync {
    /// IsFeatureEnabled.
    #[doc(alias = "DXGKCB_ISFEATUREENABLED")]
    fn is_feature_enabled(&self, feature: FeatureId) -> FeatureState;

    /// The kernel's native fence table, version 1 (DXGKCBINT_FEATURE_NATIVEFENCE_1::GetOSCaps); `None` while the feature is
    /// off.
    #[doc(alias = "DXGKCB_FEATURE_NATIVEFENCE_CAPS_1")]
    // spec: NF-063
    fn native_fence_os_caps(&self) -> Option<NativeFenceOsCaps>;
}
