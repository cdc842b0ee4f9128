//! Capabilities that a driver declares at start, and their consistency rules. A contradiction fails
//! the start.
//!
//! Order: 1. each enabled feature's table; 2. DRIVERCAPS, checked against the driver's version and
//! the features; 3. the caps of declared features only, checked in turn.

use super::entry::{self, OpenGroups};
use super::feature::Features;
use crate::error::StartError;
use std::sync::Arc;
use tidegate_ddi::feature::QueryFeatureInterface;
use tidegate_ddi::memory::{PageTableShape, Segment};
use tidegate_ddi::scheduling::SetupPriorityBands;
use tidegate_ddi::{
    AdapterCaps, DdiVersion, Driver, EntryGroup, FeatureId, NativeFenceCaps, Passive, Status,
    UserModeSubmissionCaps, VidSchCaps,
};
use tidegate_vidmm::fence_window;

/// A driver's declarations, checked.
pub(crate) struct Declaration {
    pub(crate) caps: AdapterCaps,
    /// Whether packets have GPU virtual addresses. Without them the driver patches physical ones.
    pub(crate) virtual_addresses: bool,
    /// Whether allocations of processes are objects of the driver.
    pub(crate) opens_allocations: bool,
    pub(crate) shape: PageTableShape,
    pub(crate) segments: Vec<Segment>,
    /// The default if native fences are not declared, since monitored fences are packed too.
    pub(crate) native_fence: NativeFenceCaps,
    pub(crate) user_mode_submission: Option<UserModeSubmissionCaps>,
}

impl Declaration {
    /// Queries a started driver.
    pub(crate) fn query(
        level: &Passive,
        driver: &Arc<dyn Driver>,
        features: &Features,
    ) -> Result<Declaration, StartError> {
        let version = driver.ddi_version();
        let open = OpenGroups::new(version, |f| features.is_enabled(f));
        let enabled = entry::admit(driver, open.clone());
        // 1. A driver of the negotiated version has a table, which may be empty. Older drivers have
        //    no interface for it.
        if version >= EntryGroup::Features.since() {
            for (feature, version) in features.enabled() {
                let query = QueryFeatureInterface { feature, version, interface_size: 0 };
                enabled
                    .query_feature_interface(level, query)
                    .map_err(|status| StartError::FeatureTable { feature, version, status })?;
            }
        }
        // 2. Adapter caps.
        let caps = enabled.query_adapter_caps(level);
        check(&caps, version, features)?;
        check_groups(&caps, &**driver)?;
        let knows = entry::knows_virtual_addresses(version);
        let virtual_addresses = knows && !caps.patches_addresses;
        if !virtual_addresses && !driver.has(EntryGroup::Patching) {
            let capability = match knows {
                true => "no GPU virtual addresses",
                false => "no GPU virtual addresses, because its version is before WDDM 2.0",
            };
            return Err(StartError::MissingEntries { capability, group: EntryGroup::Patching });
        }
        let enabled = entry::admit(driver, open.with_virtual_addresses(virtual_addresses));
        let shape = enabled.page_table_shape(level);
        let segments = enabled.query_segments(level);
        // 3. Feature caps.
        let mut native_fence = NativeFenceCaps::default();
        if declares(&caps, FeatureId::NATIVE_FENCE) {
            native_fence = enabled.query_native_fence_caps(level);
            check_native_fence(&native_fence, &shape)?;
        }
        let user_mode_submission = declares(&caps, FeatureId::USER_MODE_SUBMISSION)
            .then(|| enabled.query_user_mode_submission_caps(level));
        Ok(Declaration {
            caps,
            virtual_addresses,
            opens_allocations: driver.has(EntryGroup::Allocations),
            shape,
            segments,
            native_fence,
            user_mode_submission,
        })
    }

    /// Passes the priority band parameters to a driver with hardware scheduling. Returns whether
    /// the hardware supports bands.
    pub(crate) fn set_up_priority_bands(
        &self,
        level: &Passive,
        driver: &dyn Driver,
        bands: SetupPriorityBands,
    ) -> Result<bool, StartError> {
        if !declares(&self.caps, FeatureId::HWSCH) {
            return Ok(false);
        }
        match bands.check().and_then(|()| driver.setup_priority_bands(level, bands)) {
            Ok(()) => Ok(true),
            Err(Status::NOT_SUPPORTED) => Ok(false),
            Err(status) => Err(StartError::Driver(status)),
        }
    }

    /// Returns the entries that may be called: entries of enabled, checked and declared features.
    pub(crate) fn open_groups(&self, version: DdiVersion) -> OpenGroups {
        let open = OpenGroups::new(version, |feature| declares(&self.caps, feature));
        open.with_virtual_addresses(self.virtual_addresses)
    }
}

/// Returns whether the caps use a feature.
fn declares(caps: &AdapterCaps, feature: FeatureId) -> bool {
    match feature {
        FeatureId::HWSCH => caps.nodes.iter().any(|n| n.context_scheduling),
        FeatureId::NATIVE_FENCE => caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE),
        FeatureId::USER_MODE_SUBMISSION => caps.nodes.iter().any(|n| n.user_mode_submission),
        _ => false,
    }
}

/// Maximum number of linked physical adapters.
const MAX_PHYSICAL_ADAPTERS: u32 = 4;

/// Checks the consistency rules.
fn check(caps: &AdapterCaps, version: DdiVersion, features: &Features) -> Result<(), StartError> {
    let has = |flag| caps.scheduling.contains(flag);
    if caps.nodes.is_empty() || caps.nodes.len() > 64 {
        return Err(StartError::Nodes(caps.nodes.len()));
    }
    // spec: NF-327
    if !(1..=MAX_PHYSICAL_ADAPTERS).contains(&caps.physical_adapters) {
        return Err(StartError::PhysicalAdapters(caps.physical_adapters));
    }
    if caps.display.is_some_and(|display| display.refresh_period_ns == 0) {
        return Err(StartError::RefreshPeriod);
    }
    // spec: PRE-017
    if caps.display.is_some() && has(VidSchCaps::PREEMPTION_AWARE) && !caps.flip_on_vsync_mmio {
        return Err(StartError::CapDependency(
            "PreemptionAware on an adapter with a display",
            "FlipOnVSyncMmIo",
        ));
    }
    // spec: PRE-007
    if has(VidSchCaps::PREEMPTION_AWARE) && !has(VidSchCaps::MULTI_ENGINE_AWARE) {
        return Err(StartError::CapDependency("PreemptionAware", "MultiEngineAware"));
    }
    if has(VidSchCaps::CANCEL_COMMAND_AWARE) && !has(VidSchCaps::MULTI_ENGINE_AWARE) {
        return Err(StartError::CapDependency("CancelCommandAware", "MultiEngineAware"));
    }
    if has(VidSchCaps::NO_DMA_PATCHING) && !has(VidSchCaps::PREEMPTION_AWARE) {
        return Err(StartError::CapDependency("NoDmaPatching", "PreemptionAware"));
    }
    if has(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT)
        && !has(VidSchCaps::NATIVE_GPU_FENCE)
    {
        return Err(StartError::CapDependency(
            "OptimizedNativeFenceSignaledInterrupt",
            "NativeGpuFence",
        ));
    }
    if caps.signaled_hw_queue_array && !has(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT) {
        return Err(StartError::CapDependency(
            "signaled_hw_queue_array",
            "OptimizedNativeFenceSignaledInterrupt",
        ));
    }
    check_versions(caps, version)?;
    // spec: NF-058
    if has(VidSchCaps::NATIVE_GPU_FENCE) && !features.is_enabled(FeatureId::NATIVE_FENCE) {
        return Err(StartError::NativeFenceNotEnabled);
    }
    // spec: NF-069
    if has(VidSchCaps::NATIVE_GPU_FENCE) && has(VidSchCaps::NO_64BIT_ATOMICS) {
        return Err(StartError::NativeFenceWithout64BitAtomics);
    }
    check_chain(caps, features)
}

/// A capability, whether it is declared, and the group of entries that it needs.
type Needs = (&'static str, fn(&AdapterCaps) -> bool, EntryGroup);

/// Every capability that needs a group of entries. The compiler demands the other entries.
// spec: PRE-045, PRE-091
const NEEDED_GROUPS: [Needs; 9] = [
    (
        "PreemptionAware",
        |caps| caps.scheduling.contains(VidSchCaps::PREEMPTION_AWARE),
        EntryGroup::Preemption,
    ),
    (
        "CancelCommandAware",
        |caps| caps.scheduling.contains(VidSchCaps::CANCEL_COMMAND_AWARE),
        EntryGroup::Cancellation,
    ),
    ("SupportPerEngineTDR", |caps| caps.per_engine_tdr, EntryGroup::EngineReset),
    (
        "ContextSchedulingSupported on a node",
        |caps| declares(caps, FeatureId::HWSCH),
        EntryGroup::HwQueues,
    ),
    ("NativeGpuFence", |caps| declares(caps, FeatureId::NATIVE_FENCE), EntryGroup::NativeFences),
    (
        "UserModeSubmission on a node",
        |caps| declares(caps, FeatureId::USER_MODE_SUBMISSION),
        EntryGroup::UserModeSubmission,
    ),
    (
        "MaxAllocationListSlotId without NoDmaPatching",
        |caps| {
            caps.max_allocation_list_slot_id > 0
                && !caps.scheduling.contains(VidSchCaps::NO_DMA_PATCHING)
        },
        EntryGroup::Patching,
    ),
    ("a display", |caps| caps.display.is_some(), EntryGroup::Display),
    ("a common doorbell", |caps| caps.peer_signal.common_doorbell, EntryGroup::Peers),
];

/// Rejects a capability whose entry group the driver lacks.
fn check_groups(caps: &AdapterCaps, driver: &dyn Driver) -> Result<(), StartError> {
    for (capability, declared, group) in NEEDED_GROUPS {
        if declared(caps) && !driver.has(group) {
            return Err(StartError::MissingEntries { capability, group });
        }
    }
    Ok(())
}

/// Rejects a declaration whose entries are newer than the driver's version.
// spec: NF-281
fn check_versions(caps: &AdapterCaps, version: DdiVersion) -> Result<(), StartError> {
    for feature in [FeatureId::HWSCH, FeatureId::NATIVE_FENCE, FeatureId::USER_MODE_SUBMISSION] {
        let needs = entry::first_version_of(feature);
        if declares(caps, feature) && version < needs {
            return Err(StartError::DdiVersionTooLow { feature, needs, states: version });
        }
    }
    Ok(())
}

/// User-mode submission → native fences → hardware scheduling.
// spec: NF-068
fn check_chain(caps: &AdapterCaps, features: &Features) -> Result<(), StartError> {
    let native_fence = declares(caps, FeatureId::NATIVE_FENCE);
    if native_fence && !declares(caps, FeatureId::HWSCH) {
        return Err(StartError::NativeFenceWithoutHardwareScheduling);
    }
    for (node, metadata) in (0..).zip(&caps.nodes) {
        if metadata.context_scheduling && !features.is_enabled(FeatureId::HWSCH) {
            return Err(StartError::HardwareSchedulingNotEnabled(node));
        }
        if !metadata.user_mode_submission {
            continue;
        }
        // spec: MF-052
        if !metadata.writes_fences {
            return Err(StartError::UserModeSubmissionWithoutFenceWrites(node));
        }
        if !native_fence {
            return Err(StartError::UserModeSubmissionWithoutNativeFence(node));
        }
        if !metadata.context_scheduling {
            return Err(StartError::UserModeSubmissionWithoutHardwareScheduling(node));
        }
        if !features.is_enabled(FeatureId::USER_MODE_SUBMISSION) {
            return Err(StartError::UserModeSubmissionNotEnabled(node));
        }
    }
    Ok(())
}

fn check_native_fence(caps: &NativeFenceCaps, shape: &PageTableShape) -> Result<(), StartError> {
    // spec: NF-028
    let stride = caps.monitored_value_stride;
    if !stride.is_power_of_two() || !(8..=4096).contains(&stride) {
        return Err(StartError::FenceStride(stride));
    }
    // spec: NF-284
    let end = shape.va_end();
    let (minimum, maximum) =
        (caps.minimum_address.unwrap_or(0), caps.maximum_address.unwrap_or(end.saturating_sub(1)));
    if minimum > maximum || maximum >= end {
        return Err(StartError::FenceAddresses { minimum, maximum, end });
    }
    match fence_window(caps, *shape) {
        Some(window) if window.is_empty() => Err(StartError::FenceWindow(window.start, window.end)),
        _ => Ok(()),
    }
}
