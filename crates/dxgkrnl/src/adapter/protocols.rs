//! The calls of a system on a whole adapter: power, timeouts, removal. Each is an entry point at
//! PASSIVE level.

use super::{Adapter, entered};
use crate::recovery::{RecoveryHook, RecoveryReport};
use crate::suspension::Suspended;
use tidegate_calls::{DisplayStats, Status, TdrTest};
use tidegate_ddi::{ComponentState, DevicePowerState, EngineId};

impl Adapter {
    /// What became of what was presented; nothing without a display.
    pub fn display_stats(&self) -> DisplayStats {
        self.display.as_ref().map_or_else(DisplayStats::default, |display| display.stats())
    }

    /// Whether the device has power now.
    pub fn power_state(&self) -> DevicePowerState {
        self.power.device_state()
    }

    /// Takes or gives the power of an adapter for a system that goes to sleep or comes back. The
    /// content of rings stays there, and runs after D0. Returns the state that the adapter has
    /// then: D0 in place of D3 where a call was under way, or memory was being paged.
    ///
    /// # Errors
    /// NOT_SUPPORTED where power is not managed.
    #[doc(alias = "DxgkDdiSetPowerState")]
    pub fn set_power_state(&self, state: DevicePowerState) -> Result<DevicePowerState, Status> {
        self.power.set_device_state(&entered(), state)
    }

    /// Takes the power of an idle adapter. Returns the state that it has then: D0 when it had work.
    ///
    /// # Errors
    /// NOT_SUPPORTED where power is not managed.
    pub fn power_down_if_idle(&self) -> Result<DevicePowerState, Status> {
        self.power.power_down_if_idle(&entered())
    }

    /// Takes the power of every idle engine, as the driver's offer does for one.
    pub fn power_down_idle_engines(&self) {
        self.power.power_down_idle_engines(&entered());
    }

    /// The engine's own power state. An engine in F0 has no power while its adapter is in D3.
    ///
    /// # Panics
    /// When there is no such engine.
    pub fn engine_power_state(&self, engine: EngineId) -> ComponentState {
        self.power.engine_state(engine)
    }

    /// Takes every hardware context off the run list, as power and the end of a process do, until
    /// the returned hold ends. Blocks until the driver has acknowledged, for the TDR delay at most.
    ///
    /// # Errors
    /// DEVICE_REMOVED when a driver contract was broken.
    pub fn suspend_contexts(&self) -> Result<Suspended, Status> {
        self.power.suspend_contexts(&entered())
    }

    /// The reports of the last 16 recoveries, the oldest first.
    pub fn recoveries(&self) -> Vec<RecoveryReport> {
        self.recovery.reports()
    }

    /// Names the hook that runs before a recovery begins, where TdrDebugMode or
    /// [`TdrTest::EnableBreak`] asks for it. The recovery continues when the hook returns.
    pub fn before_recovery(&self, hook: RecoveryHook) {
        self.recovery.before_recovery(hook);
    }

    /// D3DKMT_TDRDBGCTRLTYPE: has the adapter behave as if it had timed out, or changes how
    /// timeouts are treated. A forced recovery is over when this returns.
    ///
    /// # Errors
    /// NOT_SUPPORTED for tests of displays; INVALID_PARAMETER for an unknown engine; DEVICE_REMOVED
    /// when a driver contract was broken.
    pub fn debug_timeouts(&self, test: TdrTest) -> Result<(), Status> {
        self.recovery.debug_timeouts(&entered(), test)
    }

    /// Removes the adapter while processes use it, as a surprise removal does. On return every
    /// device of it reads [`DeviceState::Removed`](tidegate_calls::DeviceState::Removed), its fences
    /// read `u64::MAX`, everything that waited on it is released, and its driver has stopped. Every
    /// later call on it returns DEVICE_REMOVED. A second removal waits for the first and does nothing.
    ///
    /// A shared fence that is made with NO_SIGNAL_MAX_VALUE_ON_TDR keeps its value on the other
    /// adapters, where its waiters wait on. Blocks for calls that are under way in the adapter, for
    /// TdrDdiDelay at most.
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
