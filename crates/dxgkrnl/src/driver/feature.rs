//! Feature negotiation: the enabled features and versions of an adapter, and the driver's
//! query interface.
//!
//! Negotiation takes place once, before the driver starts, for each known feature after its
//! prerequisites: 1. the driver reports its supported versions; 2. the highest version that both
//! sides support and the settings allow is chosen; 3. the feature is enabled if there is one, the
//! settings allow it and its prerequisite is enabled. The chain is user-mode submission → native
//! fences → hardware scheduling.

use super::entry;
use crate::config::{AdapterConfig, FeatureSetting};
use tidegate_ddi::feature::{
    FeatureSupport, KernelFeatureTable, NativeFenceOsCaps, NativeFenceTable1,
    QueryFeatureInterface, QueryFeatureSupport,
};
use tidegate_ddi::{
    Driver, EntryGroup, FeatureId, FeatureInterface, FeatureState, Passive, Status,
};

/// Lowest and highest version.
type Versions = (u16, u16);

/// A feature that this kernel has.
struct KnownFeature {
    id: FeatureId,
    versions: Versions,
    rests_on: Option<FeatureId>,
    setting: fn(&AdapterConfig) -> FeatureSetting,
}

/// In prerequisite order, which is defined here because no public document states it.
const KNOWN: [KnownFeature; 3] = [
    KnownFeature {
        id: FeatureId::HWSCH,
        versions: (1, 1),
        rests_on: None,
        setting: |config| config.hardware_scheduling,
    },
    KnownFeature {
        id: FeatureId::NATIVE_FENCE,
        versions: (1, 1),
        rests_on: Some(FeatureId::HWSCH),
        setting: |config| config.native_fence,
    },
    KnownFeature {
        id: FeatureId::USER_MODE_SUBMISSION,
        versions: (1, 1),
        rests_on: Some(FeatureId::NATIVE_FENCE),
        setting: |config| config.user_mode_submission,
    },
];

/// What was negotiated for one adapter.
#[derive(Clone, Debug)]
pub(crate) struct Features {
    states: Vec<(FeatureId, FeatureState)>,
    os_caps: NativeFenceOsCaps,
}

impl Features {
    /// Queries the driver and negotiates every feature.
    pub(crate) fn negotiate(
        level: &Passive,
        driver: &dyn Driver,
        config: &AdapterConfig,
    ) -> Features {
        let mut features = Features { states: Vec::new(), os_caps: config.native_fence_os_caps };
        for known in &KNOWN {
            let setting = (known.setting)(config);
            // The versions that the kernel has and the settings allow.
            // spec: NF-283
            let offered = (
                known.versions.0.max(setting.min_version),
                known.versions.1.min(setting.max_version),
            );
            let support = support_of(level, driver, known.id, offered, setting.allow_experimental);
            let base = known.rests_on.is_none_or(|id| features.is_enabled(id));
            features.states.push((known.id, negotiated(offered, support, setting.enabled && base)));
        }
        features
    }

    /// Returns the state of a feature.
    pub(crate) fn state(&self, feature: FeatureId) -> FeatureState {
        let found = self.states.iter().find(|(id, _)| *id == feature);
        found.map(|(_, state)| *state).unwrap_or_default()
    }

    pub(crate) fn is_enabled(&self, feature: FeatureId) -> bool {
        self.state(feature).enabled
    }

    /// Iterates over the enabled features and their versions.
    pub(crate) fn enabled(&self) -> impl Iterator<Item = (FeatureId, u16)> {
        self.states
            .iter()
            .filter(|(_, state)| state.enabled)
            .map(|(id, state)| (*id, state.version))
    }
}

/// Returns the support that the driver reports or, without that interface, that its
/// version implies.
fn support_of(
    level: &Passive,
    driver: &dyn Driver,
    feature: FeatureId,
    offered: Versions,
    allow_experimental: bool,
) -> FeatureSupport {
    let version = driver.ddi_version();
    if version < entry::first_version_of(feature) {
        return FeatureSupport::default();
    }
    // A driver older than the interface shows only by its caps whether it uses a feature whose
    // entries it has.
    if version < EntryGroup::Features.since() {
        return FeatureSupport::of_versions(1, 1);
    }
    let (min_version, max_version) = offered;
    driver.query_feature_support(
        level,
        QueryFeatureSupport { feature, min_version, max_version, allow_experimental },
    )
}

/// Computes the state from both sides' versions. `allowed`: settings and prerequisite permit
/// the feature.
fn negotiated(offered: Versions, support: FeatureSupport, allowed: bool) -> FeatureState {
    let common = highest_common(offered, (support.min_version, support.max_version));
    let version = common.filter(|_| support.supported_by_driver);
    FeatureState {
        version: version.unwrap_or(0),
        enabled: allowed && support.supported_on_current_config && version.is_some(),
        known: true,
        supported_by_driver: support.supported_by_driver,
        supported_on_current_config: support.supported_on_current_config,
    }
}

// spec: NF-066
fn highest_common(ours: Versions, theirs: Versions) -> Option<u16> {
    let (lowest, highest) = (ours.0.max(theirs.0), ours.1.min(theirs.1));
    (lowest <= highest).then_some(highest)
}

impl FeatureInterface for Features {
    // spec: NF-060
    fn is_feature_enabled(&self, _level: &Passive, feature: FeatureId) -> FeatureState {
        self.state(feature)
    }

    fn query_feature_interface(
        &self,
        _level: &Passive,
        query: QueryFeatureInterface,
    ) -> Result<KernelFeatureTable, Status> {
        let state = self.state(query.feature);
        if !state.enabled {
            return Err(Status::NOT_SUPPORTED);
        }
        if query.version != state.version {
            return Err(Status::INVALID_PARAMETER);
        }
        // spec: NF-061
        match (query.feature, query.version) {
            (FeatureId::NATIVE_FENCE, 1) => {
                // spec: NF-062
                if query.interface_size < NativeFenceTable1::BYTES {
                    return Err(Status::BUFFER_TOO_SMALL);
                }
                let os_caps = self.os_caps;
                Ok(KernelFeatureTable::NativeFence1(NativeFenceTable1::new(move |_| os_caps)))
            }
            _ => Ok(KernelFeatureTable::Empty),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: NF-066
    #[test]
    fn the_highest_version_that_both_sides_support_is_taken() {
        let cases = [
            ((1, 1), (1, 1), Some(1)),
            ((1, 3), (1, 2), Some(2)),
            ((1, 3), (2, 9), Some(3)),
            ((2, 4), (1, 3), Some(3)),
            ((3, 4), (1, 2), None),
            ((1, 2), (3, 4), None),
            ((1, 4), (3, 2), None),
            ((4, 2), (1, 9), None),
        ];
        for (ours, theirs, expected) in cases {
            assert_eq!(highest_common(ours, theirs), expected, "{ours:?} {theirs:?}");
            let state = negotiated(ours, FeatureSupport::of_versions(theirs.0, theirs.1), true);
            assert_eq!((state.version, state.enabled), (expected.unwrap_or(0), expected.is_some()));
        }
    }

    #[test]
    fn a_feature_is_enabled_when_driver_kernel_and_settings_allow_it() {
        let full = FeatureSupport::of_versions(1, 1);
        assert!(negotiated((1, 1), full, true).enabled);
        assert!(!negotiated((1, 1), full, false).enabled);
        assert!(
            !negotiated((1, 1), FeatureSupport { supported_by_driver: false, ..full }, true)
                .enabled
        );
        let elsewhere =
            negotiated((1, 1), FeatureSupport { supported_on_current_config: false, ..full }, true);
        assert_eq!(
            (elsewhere.version, elsewhere.enabled, elsewhere.supported_by_driver),
            (1, false, true)
        );
    }
}
