//! Owns which features this kernel has enabled for an adapter, and the interface by which the driver asks.

use tidegate_ddi::feature::NativeFenceOsCaps;
use tidegate_ddi::{FeatureId, FeatureInterface, FeatureState};

/// The configuration of the features; what a registry holds on the original.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    pub(crate) native_fence: bool,
    pub(crate) user_mode_submission: bool,
}

impl FeatureInterface for Features {
    // spec: NF-060
    fn is_feature_enabled(&self, feature: FeatureId) -> FeatureState {
        let (known, enabled) = match feature {
            FeatureId::HWSCH => (true, true),
            FeatureId::NATIVE_FENCE => (true, self.native_fence),
            FeatureId::USER_MODE_SUBMISSION => (true, self.user_mode_submission && self.native_fence),
            _ => (false, false),
        };
        FeatureState { version: u16::from(known), enabled, known }
    }

    fn native_fence_os_caps(&self) -> Option<NativeFenceOsCaps> {
        self.native_fence.then(NativeFenceOsCaps::default)
    }
}
