//! The calls of a system on a whole adapter: power, timeouts, removal. Each is an entry point at
//! PASSIVE level.

use super::{Adapter, entered};
use crate::recovery::{RecoveryHook, RecoveryReport};
use crate::suspension::Suspended;
use tidegate_calls::{DisplayStats, Status, TdrTest};
use tidegate_ddi::{ComponentState, DevicePowerState, EngineId};

impl Adapter {
    /// Returns the presentation statistics; all zero without a display.
    pub fn display_stats(&self) -> DisplayStats {
        self.display.as_ref().map_or_else(DisplayStats::default, |display| display.stats())
    }

    /// Returns the device's power state.
    pub fn power_state(&self) -> DevicePowerState {
        self.power.device_state()
    }

    /// Changes the power state for system sleep or resume. Ring contents are kept and run after D0.
    /// Returns the resulting state: D0 instead of D3 if a call or paging was in progress.
    ///
    /// # Errors
    /// NOT_SUPPORTED where power is not managed.
    #[doc(alias = "DxgkDdiSetPowerState")]
    pub fn set_power_state(&self, state: DevicePowerState) -> Result<DevicePowerState, Status> {
        self.power.set_device_state(&entered(), state)
    }

    /// Powers down an idle adapter. Returns the resulting state: D0 if it had work.
    ///
    /// # Errors
    /// NOT_SUPPORTED where power is not managed.
    pub fn power_down_if_idle(&self) -> Result<DevicePowerState, Status> {
        self.power.power_down_if_idle(&entered())
    }

    /// Powers down every idle engine, as the driver's offer does for one.
    pub fn power_down_idle_engines(&self) {
        self.power.power_down_idle_engines(&entered());
    }

    /// Returns the engine's own power state. An engine in F0 has no power while its adapter is
    /// in D3.
    ///
    /// # Panics
    /// If there is no such engine.
    pub fn engine_power_state(&self, engine: EngineId) -> ComponentState {
        self.power.engine_state(engine)
    }

    /// Takes every hardware context off the run list until the returned hold ends. Blocks until the
    /// driver has acknowledged, for at most the TDR delay.
    ///
    /// # Errors
    /// DEVICE_REMOVED when a driver contract was broken.
    pub fn suspend_contexts(&self) -> Result<Suspended, Status> {
        self.power.suspend_contexts(&entered())
    }

    /// Returns the reports of the last 16 recoveries, oldest first.
    pub fn recoveries(&self) -> Vec<RecoveryReport> {
        self.recovery.reports()
    }

    /// Sets the hook that runs before a recovery begins, if TdrDebugMode or
    /// [`TdrTest::EnableBreak`] enables it. The recovery continues when the hook returns.
    pub fn before_recovery(&self, hook: RecoveryHook) {
        self.recovery.before_recovery(hook);
    }

    /// D3DKMT_TDRDBGCTRLTYPE: forces a timeout of the adapter, or changes how timeouts are handled.
    /// A forced recovery is complete on return.
    ///
    /// # Errors
    /// NOT_SUPPORTED for tests of displays; INVALID_PARAMETER for an unknown engine; DEVICE_REMOVED
    /// when a driver contract was broken.
    pub fn debug_timeouts(&self, test: TdrTest) -> Result<(), Status> {
        self.recovery.debug_timeouts(&entered(), test)
    }

    /// Removes the adapter while processes use it, as a surprise removal does. On return every
    /// device reads [`DeviceState::Removed`](tidegate_calls::DeviceState::Removed), fences read
    /// `u64::MAX`, all waiters are released, and the driver has stopped. Later calls return
    /// DEVICE_REMOVED. A second removal waits for the first and does nothing.
    ///
    /// A shared fence created with NO_SIGNAL_MAX_VALUE_ON_TDR keeps its value and its waiters on
    /// other adapters. Blocks for calls in progress in the adapter, for at most TdrDdiDelay.
    #[doc(alias = "IRP_MN_SURPRISE_REMOVAL")]
    pub fn remove(&self) {
        self.removal.remove(&entered());
    }

    /// Stops the adapter and its driver. The same as [`Adapter::remove`]: a process that still has
    /// the adapter open loses it.
    #[doc(alias = "DxgkDdiStopDevice")]
    pub fn stop(&self) {
        self.remove();
    }
}
