//! Power of an adapter and of its engines: states and counted calls.
//!
//! Invariants: every DDI call is counted, and the first one wakes a device in D3. Calls made before
//! memory eviction are served and abort the transition; later calls wait. The agent that removes
//! power holds `going_down`, the agent that restores it holds `waking`. DDI calls of both pass.
//!
//! Entry points: [`DevicePower`].

use super::progress::{ProgressCheck, Watched};
use crate::config::{AdapterConfig, PowerManagement};
use crate::driver::{Awake, DevicePower, DriverPort, EngineUse};
use crate::error::BugCheck;
use crate::port::Port;
use crate::suspension::Suspended;
use crate::wait_classes::{ADAPTER_POWER, ENGINE_POWER};
use std::any::Any;
use tidegate_ddi::{AdapterCaps, ComponentState, EngineId, EngineMap, Irql, Passive};
use tidegate_platform::{Event, Mutex, Platform, Step, WaitEnd};

/// The power state of an adapter.
pub(crate) struct Power {
    platform: Platform,
    pub(crate) wake: Port<dyn WakeDevice>,
    pub(super) management: PowerManagement,
    pub(super) going_down: Mutex<()>,
    pub(super) waking: Mutex<()>,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) device: Device,
    /// Number of driver calls in progress.
    pub(super) calls: u64,
    /// Number of DPCs in progress; 0 while the power changes.
    pub(super) dpcs: u64,
    /// Set when the last DPC ends.
    pub(super) dpcs_over: Option<Event>,
    /// The device was called during a power-down, which aborts it.
    pub(super) wanted: bool,
    /// The contexts suspended while the device is in D3.
    pub(super) suspended: Option<Suspended>,
    pub(super) engines: EngineMap<Engine>,
    pub(super) check: ProgressCheck,
}

pub(super) enum Device {
    D0,
    /// Steps 1 to 3 of losing power.
    GoingDown,
    /// Power goes or comes, and memory with it; the event says that it has.
    Changing(Event),
    D3,
}

impl Power {
    pub(crate) fn new(platform: &Platform, config: &AdapterConfig, caps: &AdapterCaps) -> Power {
        let state = State {
            device: Device::D0,
            calls: 0,
            dpcs: 0,
            dpcs_over: None,
            wanted: false,
            suspended: None,
            engines: caps.engine_map(|_| Engine::default()),
            check: ProgressCheck::new(config.tdr.delay_ns, caps.engine_map(|_| Watched::default())),
        };
        Power {
            platform: platform.clone(),
            wake: Port::default(),
            management: config.power,
            going_down: platform.mutex("the way to D3", ()),
            waking: platform.mutex("the way to D0", ()),
            state: platform.mutex("power", state),
        }
    }

    pub(super) fn is_managed(&self) -> bool {
        self.management != PowerManagement::AlwaysOn
    }

    /// Returns whether the caller is the agent that changes the power. Its calls pass.
    fn is_mine(&self) -> bool {
        self.going_down.is_mine() || self.waking.is_mine()
    }
}

/// Power state as found by a caller.
enum Found<'a> {
    Awake,
    Pass,
    Wait(Event),
    /// D3: the caller wakes the device.
    Asleep(&'a Passive, Event),
}

impl DevicePower for Power {
    fn awake(&self, level: Irql<'_>) -> Awake<'_> {
        self.awake_at(level).resume()
    }

    fn release(&self) {
        self.state.lock().calls -= 1;
    }

    fn awake_but_suspended(&self, level: &Passive) -> Awake<'_> {
        self.awake_at(level.into())
    }

    fn use_engine(&self, level: Irql<'_>, port: &DriverPort, engine: EngineId) -> EngineUse {
        match self.is_managed() {
            true => use_engine(self, level, port, engine),
            false => EngineUse::Uncounted,
        }
    }

    fn begin_dpc(&self) -> bool {
        if !self.is_managed() {
            return true;
        }
        let mut state = self.state.lock();
        let powered = matches!(state.device, Device::D0 | Device::GoingDown);
        state.dpcs += u64::from(powered);
        powered
    }

    fn end_dpc(&self) {
        if !self.is_managed() {
            return;
        }
        let over = {
            let mut state = self.state.lock();
            state.dpcs -= 1;
            if state.dpcs == 0 { state.dpcs_over.take() } else { None }
        };
        over.iter().for_each(|event| event.set(Step::ThreadWake));
    }

    fn release_engine(&self, engine: EngineId) {
        self.state.lock().engines[engine].users -= 1;
    }

    fn doorbell_connected(&self, port: &DriverPort, engine: EngineId) {
        if !self.is_managed() {
            return;
        }
        let now = self.platform.now();
        let begins = self.state.lock().check.connected(engine, now);
        if begins {
            port.timer.arm_background();
        }
    }
}

impl Power {
    /// Keeps the device powered until the guard is dropped. If this woke the device, contexts are
    /// still suspended.
    fn awake_at(&self, level: Irql<'_>) -> Awake<'_> {
        if !self.is_managed() {
            return Awake::uncounted();
        }
        loop {
            match self.find(level) {
                Found::Awake => return Awake::counted(self, None),
                Found::Pass => return Awake::uncounted(),
                // A stopping machine wakes every agent, and the power state no longer matters.
                Found::Wait(change) => {
                    if change.wait_for(None, &ADAPTER_POWER) == WaitEnd::Stopped {
                        return Awake::uncounted();
                    }
                }
                Found::Asleep(level, change) => {
                    let Some(port) = self.wake.get() else { return Awake::uncounted() };
                    let suspended = port.wake(level, &change);
                    return Awake::counted(self, suspended.map(|s| Box::new(s) as Box<dyn Any>));
                }
            }
        }
    }

    fn find<'a>(&self, level: Irql<'a>) -> Found<'a> {
        let mine = self.is_mine();
        let mut state = self.state.lock();
        match &state.device {
            _ if mine => Found::Pass,
            Device::D0 => {
                state.calls += 1;
                Found::Awake
            }
            Device::GoingDown => {
                state.calls += 1;
                state.wanted = true;
                Found::Awake
            }
            unpowered => {
                let level = level.passive();
                debug_assert!(level.is_some(), "a device keeps its power while a DPC runs");
                let Some(level) = level else { return Found::Pass };
                if let Device::Changing(change) = unpowered {
                    return Found::Wait(change.clone());
                }
                let change = self.platform.event(true);
                state.device = Device::Changing(change.clone());
                Found::Asleep(level, change)
            }
        }
    }
}

/// Wakes a device in D3.
pub(crate) trait WakeDevice: Send + Sync {
    /// D3 to D0, but for the contexts: they stay suspended until the result is dropped. Sets
    /// `change`. Counts the caller as a call.
    fn wake(&self, level: &Passive, change: &Event) -> Option<Suspended>;
}

/// The power state of one engine.
#[derive(Default)]
pub(super) struct Engine {
    pub(super) state: EngineState,
    /// Number of present users.
    pub(super) users: u64,
    /// The engine was used during a power-down, which aborts it.
    pub(super) wanted: bool,
}

#[derive(Default)]
pub(super) enum EngineState {
    #[default]
    F0,
    /// Steps 1 and 2 of losing power.
    GoingDown,
    /// Power goes or comes; the event says that it has.
    Changing(Event),
    F1,
}

/// Power state as found by a user of the engine.
enum FoundEngine {
    Powered,
    Wait(Event),
    Unpowered(Event),
}

/// Keeps the engine powered until its user releases it.
// spec: UMS-054
fn use_engine(power: &Power, level: Irql<'_>, port: &DriverPort, engine: EngineId) -> EngineUse {
    loop {
        match enter(power, engine) {
            FoundEngine::Powered => return EngineUse::Counted,
            FoundEngine::Wait(_) if level.passive().is_none() => return EngineUse::Changing,
            FoundEngine::Wait(change) => {
                if change.wait_for(None, &ENGINE_POWER) == WaitEnd::Stopped {
                    return EngineUse::Uncounted;
                }
            }
            FoundEngine::Unpowered(change) => {
                let owed = port.platform.owe(&ENGINE_POWER);
                let start_ns = port.platform.stamp_ns();
                let f0 = ComponentState::F0;
                let given = port.driver(level).set_power_component_f_state(level, engine, f0);
                end_change(power, engine, EngineState::F0, 1, &change);
                drop(owed);
                port.record_engine_power("F1 to F0", start_ns, engine);
                if let Err(status) = given {
                    let ddi = "DxgkDdiSetPowerComponentFState";
                    port.bug_check(level, BugCheck::DdiFailed { ddi, status });
                }
                return EngineUse::Counted;
            }
        }
    }
}

fn enter(power: &Power, engine: EngineId) -> FoundEngine {
    let mut state = power.state.lock();
    let engine = &mut state.engines[engine];
    match &engine.state {
        EngineState::F0 => {
            engine.users += 1;
            FoundEngine::Powered
        }
        EngineState::GoingDown => {
            engine.users += 1;
            engine.wanted = true;
            FoundEngine::Powered
        }
        EngineState::Changing(change) => FoundEngine::Wait(change.clone()),
        EngineState::F1 => {
            let change = power.platform.event(true);
            engine.state = EngineState::Changing(change.clone());
            FoundEngine::Unpowered(change)
        }
    }
}

pub(super) fn end_change(
    power: &Power,
    engine: EngineId,
    becomes: EngineState,
    users: u64,
    change: &Event,
) {
    {
        let mut state = power.state.lock();
        if matches!(becomes, EngineState::F1) {
            state.check.unpowered(engine);
        }
        let engine = &mut state.engines[engine];
        engine.state = becomes;
        engine.users += users;
    }
    change.set(Step::ThreadWake);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::power::managed_device;
    use tidegate_ddi::{DevicePowerState, Dispatch};
    use tidegate_platform::StepCosts;
    use tidegate_platform::level::{Level, raise};

    /// A call in a DPC cannot wait for power, and the device has it: `begin_dpc` says so.
    #[test]
    #[should_panic(expected = "a device keeps its power while a DPC runs")]
    fn a_call_at_dispatch_level_on_a_device_without_power_is_a_mistake_of_the_kernel() {
        let (port, power) = managed_device(&Platform::closed_host());
        power.power.state.lock().device = Device::D3;
        let _level = raise(Level::Dispatch);
        let _driver = port.driver(&Dispatch::enter());
    }

    /// What waits while the machine stops.
    #[derive(Clone, Copy, Debug)]
    enum Waits {
        /// The way to D3, for the end of a DPC.
        PowerDown,
        /// A call of the driver, for the end of the way to D3.
        Call,
        /// A user of an engine, for the end of the engine's way to F1.
        Engine,
    }

    /// A machine that stands still ends every wait for power, and the agent that waited goes on
    /// without a count that it would have to give back.
    #[test]
    fn a_wait_for_power_ends_with_the_machine() {
        for waits in [Waits::PowerDown, Waits::Call, Waits::Engine] {
            let platform = Platform::virtual_time(StepCosts::free());
            let ended = platform.page(1).word(0);
            let (world, noted) = (platform.clone(), ended.clone());
            let report = platform.run(move || {
                let level = &Passive::enter();
                let (port, power) = managed_device(&world);
                match waits {
                    Waits::PowerDown => {
                        assert!(port.begin_dpc());
                        let state = power.set_device_state(level, DevicePowerState::D3);
                        assert_eq!(state, Ok(DevicePowerState::D0), "the DPC has its power");
                        port.end_dpc();
                    }
                    Waits::Call => {
                        let change = world.event(true);
                        power.power.state.lock().device = Device::Changing(change);
                        drop(port.driver(level));
                        assert_eq!(power.power.state.lock().calls, 0);
                    }
                    Waits::Engine => {
                        let engine = EngineId::of_node(0);
                        let change = world.event(true);
                        power.power.state.lock().engines[engine].state =
                            EngineState::Changing(change);
                        drop(port.engine_in_use(level, engine));
                        assert_eq!(power.power.state.lock().engines[engine].users, 0);
                    }
                }
                noted.store(1);
            });
            assert_eq!((report.blocked.len(), ended.load()), (1, 1), "{waits:?}: {report:?}");
        }
    }
}
