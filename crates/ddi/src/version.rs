//! Versions of the contract that drivers are written for. A driver has no entries of a later
//! version.

use std::fmt;

/// DRIVER_INITIALIZATION_DATA::Version, by the number of the driver model instead of the header's
/// encoding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DdiVersion {
    major: u8,
    minor: u8,
}

impl DdiVersion {
    /// Preemption: DXGKDDI_INTERFACE_VERSION_WIN8. Packets have physical addresses.
    pub const WDDM_1_2: DdiVersion = DdiVersion::wddm(1, 2);
    /// GPU virtual addresses and monitored fences.
    pub const WDDM_2_0: DdiVersion = DdiVersion::wddm(2, 0);
    /// Hardware queues.
    pub const WDDM_2_7: DdiVersion = DdiVersion::wddm(2, 7);
    /// Doorbells, and native fences without feature interfaces.
    pub const WDDM_3_1: DdiVersion = DdiVersion::wddm(3, 1);
    /// Feature interfaces and complete native fences.
    pub const WDDM_3_2: DdiVersion = DdiVersion::wddm(3, 2);

    /// Version `major`.`minor`.
    pub const fn wddm(major: u8, minor: u8) -> DdiVersion {
        DdiVersion { major, minor }
    }
}

impl fmt::Display for DdiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WDDM {}.{}", self.major, self.minor)
    }
}

impl fmt::Debug for DdiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
