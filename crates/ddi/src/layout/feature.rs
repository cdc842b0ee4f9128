//! Owns the numbers of features that the house gives no behaviour of its own to, so that a driver
//! may ask for them by name.

use crate::FeatureId;

/// Who owns a feature: the upper four bits of its id.
#[doc(alias = "DXGK_FEATURE_CATEGORY")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FeatureCategory {
    /// Drivers.
    Driver = 0,
    /// The operating system.
    Os = 1,
    /// Corrections.
    BugFix = 2,
    /// Tests.
    Test = 3,
}

const NUMBER_BITS: u32 = 28;

impl FeatureId {
    /// DXGK_FEATURE_HWFLIPQUEUE
    pub const HW_FLIP_QUEUE: FeatureId = FeatureId(1);
    /// DXGK_FEATURE_LDA_GPUPV
    pub const LDA_GPUPV: FeatureId = FeatureId(2);
    /// DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT
    pub const KMD_SIGNAL_CPU_EVENT: FeatureId = FeatureId(3);
    /// DXGK_FEATURE_SHARE_BACKING_STORE_WITH_KMD
    pub const SHARE_BACKING_STORE_WITH_KMD: FeatureId = FeatureId(5);
    /// DXGK_FEATURE_PAGE_BASED_MEMORY_MANAGER
    pub const PAGE_BASED_MEMORY_MANAGER: FeatureId = FeatureId(32);
    /// DXGK_FEATURE_KERNEL_MODE_TESTING
    pub const KERNEL_MODE_TESTING: FeatureId = FeatureId(33);
    /// DXGK_FEATURE_64K_PT_DEMOTION_FIX
    pub const PT_DEMOTION_FIX_64K: FeatureId = FeatureId(34);
    /// DXGK_FEATURE_GPUPV_PRESENT_HWQUEUE
    pub const GPUPV_PRESENT_HW_QUEUE: FeatureId = FeatureId(35);
    /// DXGK_FEATURE_GPUVAIOMMU
    pub const GPU_VA_IOMMU: FeatureId = FeatureId(36);
    /// DXGK_FEATURE_SYNC_PRESENT_RENDER_HWQ_ONLY
    pub const SYNC_PRESENT_RENDER_HWQ_ONLY: FeatureId = FeatureId(41);
    /// DXGK_FEATURE_PANEL_BUFFER_CONTROL
    pub const PANEL_BUFFER_CONTROL: FeatureId = FeatureId(46);

    /// The id of feature `number` of a category.
    ///
    /// # Panics
    ///
    /// If the number takes more than 28 bits.
    pub const fn of(category: FeatureCategory, number: u32) -> FeatureId {
        assert!(number >> NUMBER_BITS == 0, "a feature's number has 28 bits");
        FeatureId((category as u32) << NUMBER_BITS | number)
    }

    /// Whose feature it is; `None` for a category that no document names.
    pub fn category(self) -> Option<FeatureCategory> {
        match self.0 >> NUMBER_BITS {
            0 => Some(FeatureCategory::Driver),
            1 => Some(FeatureCategory::Os),
            2 => Some(FeatureCategory::BugFix),
            3 => Some(FeatureCategory::Test),
            _ => None,
        }
    }

    /// Its number within the category.
    pub fn number(self) -> u32 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: NF-059
    #[test]
    fn the_category_stands_above_the_number() {
        assert_eq!(FeatureId::of(FeatureCategory::Driver, 37), FeatureId::NATIVE_FENCE);
        let test = FeatureId::of(FeatureCategory::Test, 0x0FFF_FFFF);
        assert_eq!(test, FeatureId(0x3FFF_FFFF));
        assert_eq!((test.category(), test.number()), (Some(FeatureCategory::Test), 0x0FFF_FFFF));
        assert_eq!(FeatureId::of(FeatureCategory::Os, 5), FeatureId(0x1000_0005));
        assert_eq!(FeatureId(0x4000_0000).category(), None);
    }
}
