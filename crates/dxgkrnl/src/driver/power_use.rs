//! Power while the driver is called: the port to `power`, and the guards that keep a device or an
//! engine powered.

use super::port::DriverPort;
use std::any::Any;
use tidegate_ddi::{EngineId, Irql, Passive};

/// The port to `power`, used by every DDI call.
pub(crate) trait DevicePower: Send + Sync {
    /// Keeps the device powered until the guard is dropped. Wakes a device in D3 completely. In a
    /// DPC the device is already powered.
    fn awake(&self, level: Irql<'_>) -> Awake<'_>;

    /// Like `awake`. If this woke the device, contexts stay suspended until [`Awake::resume`].
    fn awake_but_suspended(&self, level: &Passive) -> Awake<'_>;

    /// Releases a counted guard.
    fn release(&self);

    /// Powers an engine until [`DevicePower::release_engine`]. A caller that must not wait gets
    /// [`EngineUse::Changing`] while another agent changes the power.
    fn use_engine(&self, level: Irql<'_>, port: &DriverPort, engine: EngineId) -> EngineUse;

    /// Begins a DPC: the device stays powered until [`DevicePower::end_dpc`]. Returns `false` if
    /// the device has no power or is about to lose it.
    fn begin_dpc(&self) -> bool;

    /// A DPC that was begun ends.
    fn end_dpc(&self);

    /// Releases one use of an engine.
    fn release_engine(&self, engine: EngineId);

    /// Records that a doorbell of the engine was connected.
    fn doorbell_connected(&self, port: &DriverPort, engine: EngineId);
}

/// Result of a request to use an engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineUse {
    /// The engine has power until it is released.
    Counted,
    /// Not counted: engines always have power, or the machine stopped.
    Uncounted,
    Changing,
}

/// Keeps the engine powered.
pub(crate) struct EngineInUse<'a> {
    pub(super) counted: Option<(&'a dyn DevicePower, EngineId)>,
}

impl Drop for EngineInUse<'_> {
    fn drop(&mut self) {
        if let Some((power, engine)) = self.counted {
            power.release_engine(engine);
        }
    }
}

/// Keeps the device powered.
pub(crate) struct Awake<'a> {
    counted: Option<&'a dyn DevicePower>,
    /// If this call woke the device, the contexts that stay suspended until this is dropped.
    suspended: Option<Box<dyn Any>>,
}

impl<'a> Awake<'a> {
    /// Creates an uncounted guard: power is permanent, or the caller is the agent that changes it.
    pub(crate) fn uncounted() -> Awake<'a> {
        Awake { counted: None, suspended: None }
    }

    /// Creates a guard counted by `power`.
    pub(crate) fn counted(power: &'a dyn DevicePower, suspended: Option<Box<dyn Any>>) -> Self {
        Awake { counted: Some(power), suspended }
    }

    /// Resumes the contexts of a device that this call woke. The device stays powered until the
    /// guard is dropped.
    pub(crate) fn resume(mut self) -> Self {
        drop(self.suspended.take());
        self
    }
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        // First, since it calls the driver.
        drop(self.suspended.take());
        if let Some(power) = self.counted {
            power.release();
        }
    }
}
