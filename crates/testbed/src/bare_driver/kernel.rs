//! A kernel that records callbacks and returns planted answers. It validates and schedules nothing.

use super::journal::{Event, Journal};
use std::sync::Arc;
use tidegate::ddi::feature::{
    FeatureInterface, KernelFeatureTable, NativeFenceOsCaps, NativeFenceTable1,
    QueryFeatureInterface,
};
use tidegate::ddi::{
    Callbacks, ContextAllocation, CreateContextAllocation, Dirql, DisconnectReason, Dispatch,
    Driver, FeatureId, FeatureState, HwContextLoss, InterruptData, InterruptService, OsHandle,
    Passive, Status,
};
use tidegate::kmd::ReferenceDriver;
use tidegate::platform::{Mutex, Platform, current};

/// A hook that runs before a notification is recorded.
pub type Watch = Box<dyn Fn(&InterruptData) + Send + Sync>;

/// A kernel that records the driver's callbacks and provides the level tokens of its tests.
pub struct ScriptedKernel {
    journal: Journal,
    watch: Option<Watch>,
    /// Result of DxgkCbDisconnectDoorbell.
    pub disconnect_answer: Mutex<Result<(), Status>>,
}

impl ScriptedKernel {
    /// Creates a kernel that records to `journal`.
    pub fn new(platform: &Platform, journal: Journal, watch: Option<Watch>) -> Arc<ScriptedKernel> {
        let disconnect_answer = platform.mutex("answer", Ok(()));
        Arc::new(ScriptedKernel { journal, watch, disconnect_answer })
    }

    /// Returns a token for PASSIVE level.
    pub fn passive(&self) -> Passive {
        Passive::enter()
    }

    /// Returns a token for DISPATCH level.
    pub fn dispatch(&self) -> Dispatch {
        Dispatch::enter()
    }

    /// Returns a token for the interrupt's level.
    pub fn dirql(&self) -> Dirql<'_> {
        Dirql::enter(self)
    }
}

impl Callbacks for ScriptedKernel {
    fn notify_interrupt(&self, _level: &Dirql<'_>, data: InterruptData) {
        current::assert_no_guards("DxgkCbNotifyInterrupt");
        if let Some(watch) = &self.watch {
            watch(&data);
        }
        self.journal.push(Event::Notify(data));
    }

    fn queue_dpc(&self, _level: &Dirql<'_>) {
        current::assert_no_guards("DxgkCbQueueDpc");
        self.journal.push(Event::QueueDpc);
    }

    fn notify_dpc(&self, _level: &Dispatch) {
        current::assert_no_guards("DxgkCbNotifyDpc");
        self.journal.push(Event::NotifyDpc);
    }

    fn disconnect_doorbell(
        &self,
        _level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        current::assert_no_guards("DxgkCbDisconnectDoorbell");
        self.journal.push(Event::Disconnect { hw_queue, doorbell, reason });
        *self.disconnect_answer.lock_device()
    }

    fn create_context_allocation(
        &self,
        _level: &Passive,
        _args: CreateContextAllocation,
    ) -> Result<ContextAllocation, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    fn destroy_context_allocation(
        &self,
        _level: &Passive,
        _allocation: OsHandle,
    ) -> Result<(), Status> {
        Err(Status::NOT_SUPPORTED)
    }

    fn invalidate_hw_context(
        &self,
        _level: &Passive,
        context: OsHandle,
        loss: HwContextLoss,
    ) -> Result<(), Status> {
        current::assert_no_guards("DxgkCbInvalidateHwContext");
        self.journal.push(Event::ContextLoss(context, loss));
        // The kernel may have destroyed the context.
        Err(Status::INVALID_HANDLE)
    }
}

/// The enabled features.
pub struct Features(pub &'static [FeatureId]);

/// All features of the driver.
pub const ALL: &[FeatureId] =
    &[FeatureId::HWSCH, FeatureId::NATIVE_FENCE, FeatureId::USER_MODE_SUBMISSION];

/// Pseudo-feature: the kernel allows INTRA_GPU fences.
const INTRA_GPU: FeatureId = FeatureId(3 << 28);

/// All features of the driver, with INTRA_GPU fences.
pub const ALL_AND_INTRA_GPU: &[FeatureId] =
    &[FeatureId::HWSCH, FeatureId::NATIVE_FENCE, FeatureId::USER_MODE_SUBMISSION, INTRA_GPU];

impl FeatureInterface for Features {
    fn is_feature_enabled(&self, _level: &Passive, feature: FeatureId) -> FeatureState {
        FeatureState {
            version: 1,
            enabled: self.0.contains(&feature),
            known: true,
            supported_by_driver: true,
            supported_on_current_config: true,
        }
    }

    fn query_feature_interface(
        &self,
        _level: &Passive,
        query: QueryFeatureInterface,
    ) -> Result<KernelFeatureTable, Status> {
        assert!(
            self.0.contains(&query.feature),
            "a table is requested only if its feature is enabled"
        );
        assert_eq!((query.feature, query.version), (FeatureId::NATIVE_FENCE, 1));
        assert!(query.interface_size >= NativeFenceTable1::BYTES);
        let mut os_caps = NativeFenceOsCaps::empty();
        os_caps.set(NativeFenceOsCaps::INTRA_GPU_FENCE_TYPE, self.0.contains(&INTRA_GPU));
        Ok(KernelFeatureTable::NativeFence1(NativeFenceTable1::new(move |_| os_caps)))
    }
}

/// Runs the interrupt routine and the DPC on the raising agent.
pub struct InlineInterrupts {
    /// The driver.
    pub driver: Arc<ReferenceDriver>,
    /// The kernel.
    pub kernel: Arc<ScriptedKernel>,
}

impl InterruptService for InlineInterrupts {
    fn raise(&self) {
        assert!(self.driver.interrupt_routine(&self.kernel.dirql()));
    }

    fn turn_ended(&self) {
        self.driver.dpc_routine(&self.kernel.dispatch());
    }
}
