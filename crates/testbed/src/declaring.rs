//! Owns a driver that says of itself what a test wants: the version that it is written for, the
//! features that it supports, its tables, and the caps of native fences. What it does is what the
//! driver behind it does.

use std::sync::Arc;
use tidegate::ddi::feature::{
    DriverFeatureTable, FeatureSupport, QueryFeatureInterface, QueryFeatureSupport,
};
use tidegate::ddi::{DdiVersion, Driver, DriverLayer, FeatureId, NativeFenceCaps, Passive, Status};

/// An answer to QueryFeatureSupport.
pub type Support = fn(QueryFeatureSupport) -> FeatureSupport;

/// What is said instead; what is `None` stays as the driver behind it says.
#[derive(Clone, Copy, Default)]
pub struct Says {
    /// The version of the contract.
    pub ddi_version: Option<DdiVersion>,
    /// The caps of native fences.
    pub native_fence: Option<NativeFenceCaps>,
    /// Of which feature something else is said.
    pub support: Option<(FeatureId, Support)>,
    /// The feature whose table is refused.
    pub no_table: Option<FeatureId>,
}

struct Declaring {
    inner: Arc<dyn Driver>,
    says: Says,
}

impl Says {
    /// A driver of this version.
    pub fn version(version: DdiVersion) -> Says {
        Says { ddi_version: Some(version), ..Says::default() }
    }

    /// Puts it before a driver.
    pub fn before(self, inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
        Arc::new(Declaring { inner, says: self })
    }
}

impl DriverLayer for Declaring {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn ddi_version(&self) -> DdiVersion {
        self.says.ddi_version.unwrap_or_else(|| self.inner.ddi_version())
    }

    fn query_feature_support(&self, level: &Passive, args: QueryFeatureSupport) -> FeatureSupport {
        match self.says.support {
            Some((feature, support)) if feature == args.feature => support(args),
            _ => self.inner.query_feature_support(level, args),
        }
    }

    fn query_feature_interface(
        &self,
        level: &Passive,
        args: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, Status> {
        if self.says.no_table == Some(args.feature) {
            return Err(Status::NOT_SUPPORTED);
        }
        self.inner.query_feature_interface(level, args)
    }

    fn query_native_fence_caps(&self, level: &Passive) -> NativeFenceCaps {
        self.says.native_fence.unwrap_or_else(|| self.inner.query_native_fence_caps(level))
    }
}
