//! Owns which entries of a driver may be called: one table says for each group of entries since
//! which version of the contract a driver has it, and to which feature it belongs.
//!
//! [`admit`] puts a gate before a driver that lacks a group, so that no room of the kernel can
//! reach an entry that is not there, whatever it believes. A driver with all groups is called
//! directly. Rooms refuse what needs a closed entry at the call surface; the gate is what makes the
//! rule hold everywhere.

use std::sync::Arc;
use tidegate_ddi::doorbell::{ConnectDoorbellFlags, ConnectedDoorbell, CreateDoorbell};
use tidegate_ddi::feature::{
    DriverFeatureTable, FeatureSupport, QueryFeatureInterface, QueryFeatureSupport,
};
use tidegate_ddi::fence::{
    CreateNativeFence, OpenNativeFence, SetNativeFenceLogBuffer, UpdateCurrentMode,
    UpdateCurrentValue, UpdateMonitoredValue,
};
use tidegate_ddi::memory::{AllocationSegments, PagingOperation, StandardAllocation};
use tidegate_ddi::queue::{CreateContext, CreateHwQueue, SubmitCommandToHwQueue};
use tidegate_ddi::scheduling::{SetContextSchedulingProperties, SetupPriorityBands};
use tidegate_ddi::{
    DdiVersion, Dirql, Dispatch, Driver, DriverHandle, DriverLayer, EngineId, FeatureId,
    NativeFenceCaps, Passive, Status, UserModeSubmissionCaps,
};

// spec: PRE-110
/// The versions that this kernel drives. The oldest is above DXGKDDI_INTERFACE_VERSION_WIN8 (WDDM
/// 1.2), which drivers that are preempted need.
pub(crate) const OLDEST: DdiVersion = DdiVersion::WDDM_2_0;
pub(crate) const NEWEST: DdiVersion = DdiVersion::WDDM_3_2;

/// Entries that came together and serve one feature. All others are there since [`OLDEST`], for
/// every driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryGroup {
    /// DXGKDDI_FEATURE_INTERFACE.
    FeatureInterface,
    /// Hardware contexts and queues, suspend and resume.
    HwQueues,
    /// Doorbells, NotifyWorkSubmission, the caps of user-mode submission.
    Doorbells,
    /// Native fences as they came first: create, destroy, MonitoredValue.
    NativeFences,
    /// What makes native fences whole: their caps, storage in local memory, instances, updates from
    /// the CPU, logs.
    NativeFenceInstances,
}

const GROUPS: [EntryGroup; 5] = [
    EntryGroup::FeatureInterface,
    EntryGroup::HwQueues,
    EntryGroup::Doorbells,
    EntryGroup::NativeFences,
    EntryGroup::NativeFenceInstances,
];

impl EntryGroup {
    /// Since which version a driver has the group, and whose it is; the interface for features is
    /// nobody's.
    fn needs(self) -> (DdiVersion, Option<FeatureId>) {
        match self {
            EntryGroup::FeatureInterface => (DdiVersion::WDDM_3_2, None),
            EntryGroup::HwQueues => (DdiVersion::WDDM_2_7, Some(FeatureId::HWSCH)),
            EntryGroup::Doorbells => (DdiVersion::WDDM_3_1, Some(FeatureId::USER_MODE_SUBMISSION)),
            EntryGroup::NativeFences => (DdiVersion::WDDM_3_1, Some(FeatureId::NATIVE_FENCE)),
            EntryGroup::NativeFenceInstances => {
                (DdiVersion::WDDM_3_2, Some(FeatureId::NATIVE_FENCE))
            }
        }
    }
}

/// The first version that has every entry of a feature.
pub(crate) fn first_version_of(feature: FeatureId) -> DdiVersion {
    let of_feature =
        GROUPS.iter().map(|group| group.needs()).filter(|(_, owner)| *owner == Some(feature));
    of_feature.map(|(since, _)| since).max().unwrap_or(OLDEST)
}

/// The groups that may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenGroups([bool; GROUPS.len()]);

impl OpenGroups {
    /// What a driver of `version` has of the features that are in use.
    pub(crate) fn new(version: DdiVersion, in_use: impl Fn(FeatureId) -> bool) -> OpenGroups {
        OpenGroups(GROUPS.map(|group| {
            let (since, feature) = group.needs();
            version >= since && feature.is_none_or(&in_use)
        }))
    }

    pub(crate) fn has(self, group: EntryGroup) -> bool {
        self.0[group as usize]
    }

    fn demand(self, group: EntryGroup) -> Result<(), Status> {
        if self.has(group) { Ok(()) } else { Err(Status::NOT_SUPPORTED) }
    }
}

/// The driver as the kernel may call it.
// spec: NF-280, NF-282
pub(crate) fn admit(driver: &Arc<dyn Driver>, open: OpenGroups) -> Arc<dyn Driver> {
    if GROUPS.iter().all(|group| open.has(*group)) {
        return driver.clone();
    }
    Arc::new(Gate { inner: driver.clone(), open })
}

/// Stands before a driver that lacks a group. Where an entry can fail, it fails with NOT_SUPPORTED;
/// where it cannot, its argument names an object that only a closed entry makes, so there is
/// nothing to do.
struct Gate {
    inner: Arc<dyn Driver>,
    open: OpenGroups,
}

impl DriverLayer for Gate {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn query_feature_support(&self, level: &Passive, args: QueryFeatureSupport) -> FeatureSupport {
        if self.open.has(EntryGroup::FeatureInterface) {
            self.inner.query_feature_support(level, args)
        } else {
            FeatureSupport::default()
        }
    }

    fn query_feature_interface(
        &self,
        level: &Passive,
        args: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, Status> {
        self.open.demand(EntryGroup::FeatureInterface)?;
        self.inner.query_feature_interface(level, args)
    }

    fn query_native_fence_caps(&self, level: &Passive) -> NativeFenceCaps {
        if self.open.has(EntryGroup::NativeFenceInstances) {
            self.inner.query_native_fence_caps(level)
        } else {
            NativeFenceCaps::default()
        }
    }

    fn get_standard_allocation_driver_data(
        &self,
        level: &Passive,
        args: StandardAllocation<'_>,
    ) -> Result<AllocationSegments, Status> {
        self.open.demand(EntryGroup::NativeFenceInstances)?;
        self.inner.get_standard_allocation_driver_data(level, args)
    }

    fn build_paging_buffer(
        &self,
        level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status> {
        // Bytes are moved since the first version; what moves fence storage came with that.
        let moves_bytes = matches!(
            operation,
            PagingOperation::VirtualTransfer { .. }
                | PagingOperation::VirtualFill { .. }
                | PagingOperation::InitContextResource { .. }
        );
        if !moves_bytes {
            self.open.demand(EntryGroup::NativeFenceInstances)?;
        }
        self.inner.build_paging_buffer(level, operation)
    }

    fn query_user_mode_submission_caps(&self, level: &Passive) -> UserModeSubmissionCaps {
        if self.open.has(EntryGroup::Doorbells) {
            self.inner.query_user_mode_submission_caps(level)
        } else {
            UserModeSubmissionCaps::default()
        }
    }

    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        if args.hardware_scheduled {
            self.open.demand(EntryGroup::HwQueues)?;
        }
        self.inner.create_context(level, args)
    }

    fn suspend_context(
        &self,
        level: &Passive,
        context: DriverHandle,
        suspend_fence: u64,
    ) -> Result<bool, Status> {
        self.open.demand(EntryGroup::HwQueues)?;
        self.inner.suspend_context(level, context, suspend_fence)
    }

    fn resume_context(&self, level: &Passive, context: DriverHandle) -> Result<(), Status> {
        self.open.demand(EntryGroup::HwQueues)?;
        self.inner.resume_context(level, context)
    }

    fn reset_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.open.demand(EntryGroup::HwQueues)?;
        self.inner.reset_hw_engine(level, engine)
    }

    fn resume_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.open.demand(EntryGroup::HwQueues)?;
        self.inner.resume_hw_engine(level, engine)
    }

    fn setup_priority_bands(
        &self,
        level: &Passive,
        args: SetupPriorityBands,
    ) -> Result<(), Status> {
        self.open.demand(EntryGroup::HwQueues)?;
        self.inner.setup_priority_bands(level, args)
    }

    fn set_context_scheduling_properties(
        &self,
        level: &Passive,
        args: SetContextSchedulingProperties,
    ) -> Result<(), Status> {
        self.open.demand(EntryGroup::HwQueues)?;
        self.inner.set_context_scheduling_properties(level, args)
    }

    fn create_hw_queue(
        &self,
        level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        self.open.demand(EntryGroup::HwQueues)?;
        self.inner.create_hw_queue(level, args)
    }

    fn destroy_hw_queue(&self, level: &Passive, hw_queue: DriverHandle) {
        if self.open.has(EntryGroup::HwQueues) {
            self.inner.destroy_hw_queue(level, hw_queue);
        }
    }

    fn submit_command_to_hw_queue(
        &self,
        level: &Dispatch,
        args: SubmitCommandToHwQueue,
    ) -> Result<(), Status> {
        self.open.demand(EntryGroup::HwQueues)?;
        self.inner.submit_command_to_hw_queue(level, args)
    }

    fn create_native_fence(
        &self,
        level: &Passive,
        args: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status> {
        self.open.demand(EntryGroup::NativeFences)?;
        self.inner.create_native_fence(level, args)
    }

    fn open_native_fence(
        &self,
        level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        self.open.demand(EntryGroup::NativeFenceInstances)?;
        self.inner.open_native_fence(level, args)
    }

    fn close_native_fence(&self, level: &Passive, local: DriverHandle) {
        if self.open.has(EntryGroup::NativeFenceInstances) {
            self.inner.close_native_fence(level, local);
        }
    }

    fn destroy_native_fence(&self, level: &Passive, global: DriverHandle) {
        if self.open.has(EntryGroup::NativeFences) {
            self.inner.destroy_native_fence(level, global);
        }
    }

    fn update_monitored_values(&self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]) {
        if self.open.has(EntryGroup::NativeFences) {
            self.inner.update_monitored_values(level, fences);
        }
    }

    fn update_current_values_from_cpu(
        &self,
        level: &Dispatch,
        fences: &[UpdateCurrentValue<'_>],
        mode: UpdateCurrentMode,
    ) {
        if self.open.has(EntryGroup::NativeFenceInstances) {
            self.inner.update_current_values_from_cpu(level, fences, mode);
        }
    }

    fn set_native_fence_log_buffer(&self, level: &Dispatch, args: SetNativeFenceLogBuffer) {
        if self.open.has(EntryGroup::NativeFenceInstances) {
            self.inner.set_native_fence_log_buffer(level, args);
        }
    }

    fn update_native_fence_logs(&self, level: &Dispatch, hw_queues: &[DriverHandle]) {
        if self.open.has(EntryGroup::NativeFenceInstances) {
            self.inner.update_native_fence_logs(level, hw_queues);
        }
    }

    fn create_doorbell(
        &self,
        level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        self.open.demand(EntryGroup::Doorbells)?;
        self.inner.create_doorbell(level, args)
    }

    fn connect_doorbell(
        &self,
        level: &Passive,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        self.open.demand(EntryGroup::Doorbells)?;
        self.inner.connect_doorbell(level, doorbell, flags)
    }

    fn disconnect_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        if self.open.has(EntryGroup::Doorbells) {
            self.inner.disconnect_doorbell(level, doorbell);
        }
    }

    fn destroy_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        if self.open.has(EntryGroup::Doorbells) {
            self.inner.destroy_doorbell(level, doorbell);
        }
    }

    fn notify_work_submission(&self, level: &Passive, hw_queue: DriverHandle) {
        if self.open.has(EntryGroup::Doorbells) {
            self.inner.notify_work_submission(level, hw_queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_ddi::NativeFenceType;
    use tidegate_ddi::memory::{
        FenceStorageSurfaceData, FenceStorageValueType, StandardAllocationType,
    };

    const ALL: [FeatureId; 3] =
        [FeatureId::HWSCH, FeatureId::NATIVE_FENCE, FeatureId::USER_MODE_SUBMISSION];

    fn open(version: DdiVersion, in_use: &[FeatureId]) -> Vec<EntryGroup> {
        let open = OpenGroups::new(version, |feature| in_use.contains(&feature));
        GROUPS.into_iter().filter(|group| open.has(*group)).collect()
    }

    #[test]
    fn a_version_opens_what_came_with_it() {
        use EntryGroup::*;
        assert_eq!(open(DdiVersion::WDDM_2_0, &ALL), []);
        assert_eq!(open(DdiVersion::wddm(2, 6), &ALL), []);
        assert_eq!(open(DdiVersion::WDDM_2_7, &ALL), [HwQueues]);
        assert_eq!(open(DdiVersion::wddm(3, 0), &ALL), [HwQueues]);
        assert_eq!(open(DdiVersion::WDDM_3_1, &ALL), [HwQueues, Doorbells, NativeFences]);
        assert_eq!(open(DdiVersion::WDDM_3_2, &ALL), GROUPS);
    }

    #[test]
    fn a_feature_that_is_off_closes_its_groups() {
        use EntryGroup::*;
        let newest = DdiVersion::WDDM_3_2;
        assert_eq!(open(newest, &[]), [FeatureInterface]);
        assert_eq!(open(newest, &[FeatureId::HWSCH]), [FeatureInterface, HwQueues]);
        let native = [FeatureId::HWSCH, FeatureId::NATIVE_FENCE];
        assert_eq!(
            open(newest, &native),
            [FeatureInterface, HwQueues, NativeFences, NativeFenceInstances]
        );
    }

    /// A driver in which nothing may be called.
    struct Untouchable;

    impl DriverLayer for Untouchable {
        fn inner(&self) -> &dyn Driver {
            panic!("an entry was called that is closed")
        }
    }

    // spec: NF-280, NF-282
    #[test]
    fn a_closed_entry_is_not_called_whoever_tries() {
        let driver: Arc<dyn Driver> = Arc::new(Untouchable);
        let (level, dispatch) = (Passive::enter(), Dispatch::enter());
        let (none, refused) = (DriverHandle(0), Err(Status::NOT_SUPPORTED));
        let closed = [
            OpenGroups::new(DdiVersion::WDDM_2_0, |_| true),
            OpenGroups::new(DdiVersion::wddm(3, 0), |_| false),
        ];
        for open in closed {
            let gate = admit(&driver, open);
            let feature = FeatureId::NATIVE_FENCE;
            let query = QueryFeatureInterface { feature, version: 1, interface_size: 0 };
            assert_eq!(
                gate.query_feature_interface(&level, query).err(),
                Some(Status::NOT_SUPPORTED)
            );
            let ask = QueryFeatureSupport {
                feature,
                min_version: 1,
                max_version: 1,
                allow_experimental: true,
            };
            assert_eq!(gate.query_feature_support(&level, ask), FeatureSupport::default());
            assert_eq!(gate.query_native_fence_caps(&level), NativeFenceCaps::default());
            let surface = FenceStorageSurfaceData {
                physical_adapter_index: 0,
                value: FenceStorageValueType::MonitoredValue,
                fence_type: NativeFenceType::Default,
                private_driver_data: &[],
            };
            let storage = StandardAllocation {
                allocation_type: StandardAllocationType::FenceStorage,
                surface,
            };
            let answer = gate.get_standard_allocation_driver_data(&level, storage);
            assert_eq!(answer.err(), Some(Status::NOT_SUPPORTED));
            assert_eq!(gate.build_paging_buffer(&level, PagingOperation::HoldEngines), refused);
            assert_eq!(gate.query_user_mode_submission_caps(&level).doorbell_size_bytes, 0);
            assert_eq!(gate.suspend_context(&level, none, 0).err(), Some(Status::NOT_SUPPORTED));
            assert_eq!(gate.resume_context(&level, none), refused);
            assert_eq!(gate.setup_priority_bands(&level, SetupPriorityBands::default()), refused);
            gate.destroy_hw_queue(&level, none);
            gate.close_native_fence(&level, none);
            gate.destroy_native_fence(&level, none);
            gate.update_monitored_values(&Dirql::enter(&()), &[]);
            gate.update_current_values_from_cpu(&dispatch, &[], UpdateCurrentMode::Write);
            gate.update_native_fence_logs(&dispatch, &[]);
            assert!(gate.connect_doorbell(&level, none, ConnectDoorbellFlags::empty()).is_err());
            gate.disconnect_doorbell(&level, none);
            gate.destroy_doorbell(&level, none);
            gate.notify_work_submission(&level, none);
        }
    }

    #[test]
    fn a_feature_needs_the_version_of_its_last_group() {
        assert_eq!(
            ALL.map(first_version_of),
            [DdiVersion::WDDM_2_7, DdiVersion::WDDM_3_2, DdiVersion::WDDM_3_1]
        );
    }
}
