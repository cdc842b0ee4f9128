//! Owns the states of power that the kernel asks a driver for: of the adapter as a whole (D-states)
//! and of one engine (F-states).

/// Whether the adapter has power.
#[doc(alias = "DEVICE_POWER_STATE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DevicePowerState {
    /// PowerDeviceD0: it works.
    D0 = 1,
    /// PowerDeviceD3: it does not.
    D3 = 4,
}

/// Why the state changes.
#[doc(alias = "POWER_ACTION")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PowerAction {
    /// PowerActionNone: the adapter is idle. A driver that knows better refuses.
    None = 0,
    /// PowerActionSleep: the system sleeps. What is in rings stays there.
    Sleep = 2,
}

/// The state of one engine, a component of the adapter.
#[doc(alias = "DxgkDdiSetPowerComponentFState")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ComponentState {
    /// It works.
    F0 = 0,
    /// It does not.
    F1 = 1,
}
