//! The driver entries that may be called.
//!
//! Invariant: a group is open when the driver's version has it and its feature is in use.
//! [`admit`] puts a layer that hides closed groups in front of the driver, so the kernel cannot
//! reach a closed entry. Rooms reject calls that need one at the call surface; the layer enforces
//! the rule everywhere.
//!
//! A driver before WDDM 2.0 has no GPU virtual addresses. The kernel then keeps page tables for
//! itself: an address is the name by which a process finds an allocation, and no entry is called.

use std::sync::Arc;
use tidegate_ddi::memory::{PageTableShape, PagingOperation, UpdatePageTable};
use tidegate_ddi::queue::{CreateContext, SetRootPageTable, SubmitCommandVirtual};
use tidegate_ddi::{
    DdiVersion, Dispatch, Driver, DriverHandle, DriverLayer, EntryGroup, FeatureId, Passive, Status,
};

// spec: PRE-110
/// The versions that this kernel drives. The oldest is DXGKDDI_INTERFACE_VERSION_WIN8 (WDDM 1.2),
/// which drivers that are preempted need.
pub(crate) const OLDEST: DdiVersion = DdiVersion::WDDM_1_2;
pub(crate) const NEWEST: DdiVersion = DdiVersion::WDDM_3_2;

/// Returns the first version that has every group of a feature.
pub(crate) fn first_version_of(feature: FeatureId) -> DdiVersion {
    let of_feature = EntryGroup::ALL.iter().filter(|group| group.feature() == Some(feature));
    of_feature.map(|group| group.since()).max().unwrap_or(OLDEST)
}

/// The kernel's page tables of an adapter whose driver has none.
const KEPT_BY_KERNEL: PageTableShape =
    PageTableShape { page_bytes: 4096, levels: 4, index_bits: 9, table_bytes: 4096 };

/// Returns whether a driver of a version may have GPU virtual addresses.
pub(crate) fn knows_virtual_addresses(version: DdiVersion) -> bool {
    version >= DdiVersion::WDDM_2_0
}

/// The groups that may be called, and whether the entries of GPU virtual addresses may.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OpenGroups {
    groups: Vec<EntryGroup>,
    virtual_addresses: bool,
}

impl OpenGroups {
    /// Returns the groups of a driver of `version`, with the features that are in use.
    pub(crate) fn new(version: DdiVersion, in_use: impl Fn(FeatureId) -> bool) -> OpenGroups {
        let open =
            |group: &EntryGroup| version >= group.since() && group.feature().is_none_or(&in_use);
        OpenGroups {
            groups: EntryGroup::ALL.iter().copied().filter(open).collect(),
            virtual_addresses: knows_virtual_addresses(version),
        }
    }

    /// The same groups, with the entries of GPU virtual addresses or without.
    pub(crate) fn with_virtual_addresses(self, virtual_addresses: bool) -> OpenGroups {
        OpenGroups { virtual_addresses, ..self }
    }

    pub(crate) fn has(&self, group: EntryGroup) -> bool {
        self.groups.contains(&group)
    }
}

/// Returns the driver as the kernel may call it.
// spec: NF-280, NF-282
pub(crate) fn admit(driver: &Arc<dyn Driver>, open: OpenGroups) -> Arc<dyn Driver> {
    if open.groups == EntryGroup::ALL && open.virtual_addresses {
        return driver.clone();
    }
    Arc::new(OpenEntries { inner: driver.clone(), open })
}

/// A driver with its closed groups hidden.
struct OpenEntries {
    inner: Arc<dyn Driver>,
    open: OpenGroups,
}

impl OpenEntries {
    fn demand(&self, group: EntryGroup) -> Result<(), Status> {
        if self.open.has(group) { Ok(()) } else { Err(Status::NOT_SUPPORTED) }
    }
}

impl DriverLayer for OpenEntries {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn hides(&self, group: EntryGroup) -> bool {
        !self.open.has(group)
    }

    fn page_table_shape(&self, level: &Passive) -> PageTableShape {
        match self.open.virtual_addresses {
            true => self.inner.page_table_shape(level),
            false => KEPT_BY_KERNEL,
        }
    }

    fn update_page_table(&self, level: &Passive, args: UpdatePageTable<'_>) -> Result<(), Status> {
        match self.open.virtual_addresses {
            true => self.inner.update_page_table(level, args),
            false => Ok(()),
        }
    }

    fn set_root_page_table(&self, level: &Passive, args: SetRootPageTable) -> Result<(), Status> {
        match self.open.virtual_addresses {
            true => self.inner.set_root_page_table(level, args),
            false => Ok(()),
        }
    }

    fn submit_command_virtual(
        &self,
        level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        match self.open.virtual_addresses {
            true => self.inner.submit_command_virtual(level, args),
            false => Err(Status::NOT_SUPPORTED),
        }
    }

    fn build_paging_buffer(
        &self,
        level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status> {
        // Byte transfers exist in the first version. Operations on fence storage came with
        // native fences.
        let moves_bytes = matches!(
            operation,
            PagingOperation::VirtualTransfer { .. }
                | PagingOperation::VirtualFill { .. }
                | PagingOperation::Transfer { .. }
                | PagingOperation::Fill { .. }
                | PagingOperation::InitContextResource { .. }
        );
        if !moves_bytes {
            self.demand(EntryGroup::NativeFences)?;
        }
        self.inner.build_paging_buffer(level, operation)
    }

    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        if args.hardware_scheduled {
            self.demand(EntryGroup::HwQueues)?;
        }
        self.inner.create_context(level, args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_ddi::doorbell::ConnectDoorbellFlags;
    use tidegate_ddi::feature::{FeatureSupport, QueryFeatureInterface, QueryFeatureSupport};
    use tidegate_ddi::fence::UpdateCurrentMode;
    use tidegate_ddi::memory::{
        FenceStorageSurfaceData, FenceStorageValueType, StandardAllocation, StandardAllocationType,
    };
    use tidegate_ddi::scheduling::SetupPriorityBands;
    use tidegate_ddi::{Dirql, NativeFenceCaps, NativeFenceType};

    const ALL: [FeatureId; 3] =
        [FeatureId::HWSCH, FeatureId::NATIVE_FENCE, FeatureId::USER_MODE_SUBMISSION];

    /// The open groups that depend on the version or on a feature.
    fn open(version: DdiVersion, in_use: &[FeatureId]) -> Vec<EntryGroup> {
        let open = OpenGroups::new(version, |feature| in_use.contains(&feature));
        assert!(open.has(EntryGroup::Power), "a group of the first version is open");
        open.groups.into_iter().filter(|group| group.since() > OLDEST).collect()
    }

    #[test]
    fn a_version_opens_what_came_with_it() {
        use EntryGroup::*;
        assert_eq!(open(DdiVersion::WDDM_1_2, &ALL), []);
        assert_eq!(open(DdiVersion::WDDM_2_0, &ALL), []);
        assert_eq!(open(DdiVersion::wddm(2, 6), &ALL), []);
        assert_eq!(open(DdiVersion::WDDM_2_7, &ALL), [HwQueues, PriorityBands]);
        assert_eq!(open(DdiVersion::wddm(3, 0), &ALL), [HwQueues, PriorityBands]);
        let with_doorbells = [HwQueues, PriorityBands, UserModeSubmission];
        assert_eq!(open(DdiVersion::WDDM_3_1, &ALL), with_doorbells);
        let all = [Features, HwQueues, PriorityBands, NativeFences, UserModeSubmission];
        assert_eq!(open(DdiVersion::WDDM_3_2, &ALL), all);
    }

    #[test]
    fn a_feature_that_is_off_closes_its_groups() {
        use EntryGroup::*;
        let newest = DdiVersion::WDDM_3_2;
        assert_eq!(open(newest, &[]), [Features]);
        assert_eq!(open(newest, &[FeatureId::HWSCH]), [Features, HwQueues, PriorityBands]);
        let native = [FeatureId::HWSCH, FeatureId::NATIVE_FENCE];
        assert_eq!(open(newest, &native), [Features, HwQueues, PriorityBands, NativeFences]);
    }

    /// A driver of which no entry may be called.
    struct Untouchable;

    impl DriverLayer for Untouchable {
        fn inner(&self) -> &dyn Driver {
            panic!("a closed entry was called")
        }
    }

    // spec: NF-280, NF-282
    #[test]
    fn a_closed_entry_is_never_called() {
        let driver: Arc<dyn Driver> = Arc::new(Untouchable);
        let (level, dispatch) = (Passive::enter(), Dispatch::enter());
        let (none, refused) = (DriverHandle(0), Err(Status::NOT_SUPPORTED));
        let closed = [
            OpenGroups::new(DdiVersion::WDDM_1_2, |_| true),
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
    fn page_tables_of_a_driver_without_virtual_addresses_are_the_kernels() {
        let driver: Arc<dyn Driver> = Arc::new(Untouchable);
        let (level, dispatch) = (Passive::enter(), Dispatch::enter());
        let platform = tidegate_platform::Platform::closed_host();
        let gate = admit(&driver, OpenGroups::new(DdiVersion::wddm(1, 3), |_| true));
        let shape = gate.page_table_shape(&level);
        assert_eq!((shape.page_bytes, shape.va_end()), (4096, 1 << 48));
        let table = platform.bulk(8);
        let update = UpdatePageTable {
            address_space: 1,
            physical_adapter: 0,
            table: &table,
            level: 3,
            start_index: 0,
            entries: &[],
        };
        assert_eq!(gate.update_page_table(&level, update), Ok(()));
        let root = SetRootPageTable { address_space: 1, physical_adapter: 0, root: None };
        assert_eq!(gate.set_root_page_table(&level, root), Ok(()));
        let packet = SubmitCommandVirtual {
            context: DriverHandle(0),
            engine: tidegate_ddi::EngineId::of_node(0),
            dma_buffer_gpu_va: 0,
            dma_buffer_bytes: 0,
            submission_fence_id: 1,
            flags: tidegate_ddi::SubmitCommandFlags::empty(),
        };
        let refused = gate.submit_command_virtual(&dispatch, packet);
        assert_eq!(refused, Err(Status::NOT_SUPPORTED));
    }

    #[test]
    fn a_feature_needs_the_version_of_its_last_group() {
        assert_eq!(
            ALL.map(first_version_of),
            [DdiVersion::WDDM_2_7, DdiVersion::WDDM_3_2, DdiVersion::WDDM_3_1]
        );
    }
}
