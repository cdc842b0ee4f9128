//! Feature negotiation: the kernel's interface ([`FeatureInterface`], DXGK_FEATURE_INTERFACE) and
//! the arguments of the driver's ([`crate::FeatureDdi`], DXGKDDI_FEATURE_INTERFACE).
//!
//! 1. Before the driver starts, the kernel queries the versions that it supports.
//! 2. While it starts, the driver queries which features are enabled, and at which version.
//! 3. Each side may then fetch the table of that version from its peer.
//! 4. The driver declares enabled features only.
//!
//! All calls are at PASSIVE level. A table is a typed value here. The request still carries the
//! caller's size, so a caller built against a smaller table gets an error and no truncated table.

use crate::{Passive, Status};
use std::fmt;
use std::sync::Arc;
use tidegate_wddm_abi::d3dkmddi::feature;

/// DXGK_FEATURE_ID: category in the upper 4 bits, number below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeatureId(pub u32);

impl FeatureId {
    /// DXGK_FEATURE_HWSCH
    pub const HWSCH: FeatureId = FeatureId(feature::HWSCH);
    /// DXGK_FEATURE_USER_MODE_SUBMISSION
    pub const USER_MODE_SUBMISSION: FeatureId = FeatureId(feature::USER_MODE_SUBMISSION);
    /// DXGK_FEATURE_NATIVE_FENCE
    // spec: NF-059
    pub const NATIVE_FENCE: FeatureId = FeatureId(feature::NATIVE_FENCE);
}

impl fmt::Display for FeatureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FeatureId::HWSCH => f.write_str("hardware scheduling"),
            FeatureId::USER_MODE_SUBMISSION => f.write_str("user-mode submission"),
            FeatureId::NATIVE_FENCE => f.write_str("native fences"),
            FeatureId(id) => write!(f, "feature {} of category {}", id & 0x0FFF_FFFF, id >> 28),
        }
    }
}

/// DXGK_ISFEATUREENABLED_RESULT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureState {
    /// Negotiated version: the highest that both sides support; 0 for none.
    pub version: u16,
    /// On for this adapter.
    pub enabled: bool,
    /// The kernel knows the feature.
    pub known: bool,
    /// The driver supports some version of it.
    pub supported_by_driver: bool,
    /// The driver supports it on this machine in its present configuration.
    pub supported_on_current_config: bool,
}

/// DXGKARG_QUERYFEATURESUPPORT, the part that the kernel fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryFeatureSupport {
    /// The feature.
    pub feature: FeatureId,
    /// Lowest version that the kernel accepts.
    pub min_version: u16,
    /// Highest version that the kernel accepts.
    pub max_version: u16,
    /// Experimental support counts.
    pub allow_experimental: bool,
}

/// DXGKARG_QUERYFEATURESUPPORT, the part that the driver fills. The default is no support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureSupport {
    /// Lowest version that the driver supports.
    pub min_version: u16,
    /// Highest version that the driver supports.
    pub max_version: u16,
    /// The driver supports the feature.
    pub supported_by_driver: bool,
    /// The driver supports it on this machine in its present configuration.
    pub supported_on_current_config: bool,
}

impl FeatureSupport {
    /// Full support of these versions.
    pub fn of_versions(min_version: u16, max_version: u16) -> FeatureSupport {
        FeatureSupport {
            min_version,
            max_version,
            supported_by_driver: true,
            supported_on_current_config: true,
        }
    }
}

/// DXGKARGCB_QUERYFEATUREINTERFACE and DXGKARG_QUERYFEATUREINTERFACE: a request for the peer's
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryFeatureInterface {
    /// The feature.
    pub feature: FeatureId,
    /// Version of the table: the negotiated one.
    pub version: u16,
    /// Size of the caller's buffer in bytes, at least the table's.
    pub interface_size: u16,
}

bitflags::bitflags! {
    /// DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    // spec: NF-064
    pub struct NativeFenceOsCaps: u32 {
        /// SupportOptimizedDefaultFenceType: DEFAULT fences whose MonitoredValue is in local
        /// memory.
        const OPTIMIZED_DEFAULT_FENCE_TYPE = 1;
        /// SupportIntraGpuFenceType: INTRA_GPU fences.
        const INTRA_GPU_FENCE_TYPE = 1 << 1;
    }
}

/// GetOSCaps.
type GetOsCaps = Arc<dyn Fn(&Passive) -> NativeFenceOsCaps + Send + Sync>;

/// DXGKCBINT_FEATURE_NATIVEFENCE_1: the kernel's calls of the native fence feature, version 1.
#[derive(Clone)]
pub struct NativeFenceTable1 {
    get_os_caps: GetOsCaps,
}

impl NativeFenceTable1 {
    /// Bytes of the published table: one pointer.
    pub const BYTES: u16 = 8;

    /// Creates the kernel's table.
    pub fn new(
        get_os_caps: impl Fn(&Passive) -> NativeFenceOsCaps + Send + Sync + 'static,
    ) -> NativeFenceTable1 {
        NativeFenceTable1 { get_os_caps: Arc::new(get_os_caps) }
    }

    /// GetOSCaps: the fence types that this kernel creates.
    #[doc(alias = "DXGKCB_FEATURE_NATIVEFENCE_CAPS_1")]
    // spec: NF-063
    pub fn get_os_caps(&self, level: &Passive) -> NativeFenceOsCaps {
        (self.get_os_caps)(level)
    }
}

/// The kernel's table of a feature at a version. A new version is a new variant; old variants stay.
#[derive(Clone)]
#[non_exhaustive]
pub enum KernelFeatureTable {
    /// The feature adds no calls to the kernel.
    Empty,
    /// Native fences, version 1.
    NativeFence1(NativeFenceTable1),
}

/// The driver's table of a feature at a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverFeatureTable {
    /// The feature has no table: its entries are in the groups of [`crate::Driver`].
    Empty,
}

/// The kernel's feature queries.
#[doc(alias = "DXGK_FEATURE_INTERFACE")]
pub trait FeatureInterface: Send + Sync {
    /// IsFeatureEnabled. A feature unknown to the kernel is not enabled.
    #[doc(alias = "DXGKCB_ISFEATUREENABLED")]
    // spec: NF-067
    fn is_feature_enabled(&self, level: &Passive, feature: FeatureId) -> FeatureState;

    /// Returns the kernel's table of an enabled feature.
    ///
    /// # Errors
    /// NOT_SUPPORTED: the feature is not enabled. INVALID_PARAMETER: not the negotiated version.
    /// BUFFER_TOO_SMALL: `interface_size` is less than the table's size.
    #[doc(alias = "DXGKCB_QUERYFEATUREINTERFACE")]
    fn query_feature_interface(
        &self,
        level: &Passive,
        query: QueryFeatureInterface,
    ) -> Result<KernelFeatureTable, Status>;
}
