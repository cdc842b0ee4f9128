//! The start of a driver.
//!
//! Order: 1. its version; 2. features are negotiated; 3. DxgkDdiStartDevice, in which the driver
//! asks for them; 4. caps, of declared features too (a contradiction fails the start); 5. entries
//! that the driver lacks are closed.

use super::declaration::Declaration;
use super::entry::{self, OpenGroups};
use super::feature::Features;
use super::port::PortParts;
use crate::config::AdapterConfig;
use crate::error::StartError;
use std::sync::Arc;
use tidegate_ddi::{Callbacks, Driver, Passive, StartInfo};
use tidegate_platform::{PhysicalMemory, Platform};

/// Starts `driver`. A driver that fails a step after DxgkDdiStartDevice is stopped.
#[doc(alias = "DxgkDdiStartDevice")]
pub(crate) fn start(
    level: &Passive,
    platform: &Platform,
    driver: &Arc<dyn Driver>,
    system_memory: &PhysicalMemory,
    config: AdapterConfig,
    callbacks: Arc<dyn Callbacks>,
) -> Result<PortParts, StartError> {
    // 1.
    let version = driver.ddi_version();
    let (oldest, newest) = (entry::OLDEST, entry::NEWEST);
    if !(oldest..=newest).contains(&version) {
        return Err(StartError::UnknownDdiVersion { states: version, oldest, newest });
    }
    // 2.
    let interface = entry::admit(driver, OpenGroups::new(version, |_| false));
    let features = Arc::new(Features::negotiate(level, &*interface, &config));
    // 3.
    let system_memory = system_memory.clone();
    let info = (features.clone(), system_memory.clone());
    let start = StartInfo { callbacks, features: info.0, system_memory: info.1 };
    driver.start_device(level, start).map_err(StartError::Driver)?;
    let open = || {
        // 4.
        let declared = Declaration::query(level, driver, &features)?;
        // 5.
        let driver = entry::admit(driver, declared.open_groups(version));
        let bands = declared.set_up_priority_bands(level, &*driver, config.priority_bands)?;
        Ok((driver, declared, bands))
    };
    let (driver, declared, priority_bands) = open().inspect_err(|_| driver.stop_device(level))?;
    let platform = platform.clone();
    Ok(PortParts { platform, driver, declared, priority_bands, features, config, system_memory })
}
