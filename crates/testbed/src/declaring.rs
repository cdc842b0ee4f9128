//! A driver layer that changes what a driver declares: its version, the features that it supports,
//! its tables, and the caps of native fences.

use std::sync::Arc;
use tidegate::ddi::feature::{
    DriverFeatureTable, FeatureSupport, QueryFeatureInterface, QueryFeatureSupport,
};
use tidegate::ddi::{DdiVersion, Driver, DriverLayer, FeatureId, NativeFenceCaps, Passive, Status};

/// An answer to QueryFeatureSupport.
pub type Support = fn(QueryFeatureSupport) -> FeatureSupport;

/// A changed declaration. Fields that are `None` stay as the driver behind declares them.
#[derive(Clone, Copy, Default)]
pub struct Declaration {
    /// The version of the contract.
    pub ddi_version: Option<DdiVersion>,
    /// The caps of native fences.
    pub native_fence: Option<NativeFenceCaps>,
    /// A feature and the answer to its query.
    pub support: Option<(FeatureId, Support)>,
    /// The feature whose table is refused.
    pub no_table: Option<FeatureId>,
}

struct Declaring {
    inner: Arc<dyn Driver>,
    declared: Declaration,
}

impl Declaration {
    /// A driver of this version.
    pub fn version(version: DdiVersion) -> Declaration {
        Declaration { ddi_version: Some(version), ..Declaration::default() }
    }

    /// A layer with this declaration in front of a driver.
    pub fn before(self, inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
        Arc::new(Declaring { inner, declared: self })
    }
}

impl DriverLayer for Declaring {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn ddi_version(&self) -> DdiVersion {
        self.declared.ddi_version.unwrap_or_else(|| self.inner.ddi_version())
    }

    fn query_feature_support(&self, level: &Passive, args: QueryFeatureSupport) -> FeatureSupport {
        match self.declared.support {
            Some((feature, support)) if feature == args.feature => support(args),
            _ => self.inner.query_feature_support(level, args),
        }
    }

    fn query_feature_interface(
        &self,
        level: &Passive,
        args: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, Status> {
        if self.declared.no_table == Some(args.feature) {
            return Err(Status::NOT_SUPPORTED);
        }
        self.inner.query_feature_interface(level, args)
    }

    fn query_native_fence_caps(&self, level: &Passive) -> NativeFenceCaps {
        self.declared.native_fence.unwrap_or_else(|| self.inner.query_native_fence_caps(level))
    }
}
