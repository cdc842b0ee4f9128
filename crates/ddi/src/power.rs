//! Power states that the kernel requests from a driver: D-states of the adapter, F-states of an
//! engine.

/// Whether the adapter has power.
#[doc(alias = "DEVICE_POWER_STATE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DevicePowerState {
    /// PowerDeviceD0: full power.
    D0 = 1,
    /// PowerDeviceD3: no power.
    D3 = 4,
}

/// Why the state changes.
#[doc(alias = "POWER_ACTION")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PowerAction {
    /// PowerActionNone: the kernel found the adapter idle. A driver that has work refuses.
    None = 0,
    /// PowerActionSleep: the system sleeps. Pending work stays in the rings.
    Sleep = 2,
}

/// The state of one engine, a component of the adapter.
#[doc(alias = "DxgkDdiSetPowerComponentFState")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ComponentState {
    /// Full power.
    F0 = 0,
    /// No power.
    F1 = 1,
}
