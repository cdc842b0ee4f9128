//! Owns power: whether the adapter has it (D-states, here) and whether each engine has it
//! (`engine`; `progress` finds those that stand still), and that no call reaches a device that has
//! none: every DDI call goes through [`Adapter::driver`], and the first one wakes a device in D3.
//!
//! D0 to D3 (`go_to_d3`): 1. all hardware contexts are suspended; 2. all doorbells are
//! disconnected, to be connected again; 3. what was rung in between is looked for: an idle device
//! with work stays; 4. unless somebody has called meanwhile, or memory is being paged, rings and
//! all else in the device's memory are moved out; 5. the power goes. Nobody is held up before step
//! 4: whoever calls in steps 1 to 3 is served by a device that has its power still, and the
//! transition is off. From step 4 on callers wait: engines would miss what they use.
//!
//! D3 to D0 (`wake`), for a connect of a doorbell or for any other call: 1. power; 2. rings come
//! back, and what was there with them;
//! 3. the doorbell is connected; 4. the contexts are resumed.
//!
//! A screen that shows something keeps an idle device awake. When a system goes to sleep it goes
//! dark before memory is moved out, and shows its last picture again when memory is back
//! (`display`).
//!
//! Two locks order nothing among others and say who is who: `going_down` is held by who takes the
//! power, `waking` by who gives it; their own DDI calls pass the gate. Nobody waits for another
//! with `going_down` held but for the answers to suspensions, and with `waking` held for nobody:
//! memory is moved on the agent's own CPU.
//!
//! `doorbell`, `hwqueue`, `sched`, `memory` and `interrupt` call in; `suspend`, `memory` and the
//! driver are called. Where power is not managed ([`PowerManagement::AlwaysOn`]) nothing here takes
//! a step.

mod engine;
mod progress;

pub(crate) use engine::engine_is_idle;
pub(crate) use progress::ProgressWatch;

use crate::adapter::Adapter;
use crate::config::{AdapterConfig, PowerManagement};
use crate::context::Context;
use crate::doorbell::Doorbell;
use crate::driver::{Awake, DevicePower, DriverPort};
use crate::error::BugCheck;
use crate::hwqueue::HwQueue;
use crate::stats::Count;
use crate::suspension::{self, Suspendable, Suspended};
use engine::Engine;
use progress::ProgressCheck;
use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::Status;
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{DevicePowerState, EngineId, Passive, PowerAction};
use tidegate_platform::{Event, Mutex, Platform, Step, WaitEnd};

/// What the kernel knows about an adapter's power.
pub(crate) struct Power {
    platform: Platform,
    wake_port: OnceLock<Weak<dyn WakeDevice>>,
    management: PowerManagement,
    going_down: Mutex<()>,
    waking: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    device: Device,
    /// Calls of the driver that are under way.
    calls: u64,
    /// Somebody called while power was being taken.
    wanted: bool,
    /// The contexts that are suspended while the device is in D3.
    suspended: Option<Suspended>,
    engines: Vec<Engine>,
    check: ProgressCheck,
}

enum Device {
    D0,
    /// Steps 1 to 3 of losing power.
    GoingDown,
    /// Power goes or comes, and memory with it; the event says that it has.
    Changing(Event),
    D3,
}

impl Power {
    pub(crate) fn new(platform: &Platform, config: &AdapterConfig, engines: usize) -> Power {
        let state = State {
            device: Device::D0,
            calls: 0,
            wanted: false,
            suspended: None,
            engines: (0..engines).map(|_| Engine::default()).collect(),
            check: ProgressCheck::new(config.tdr.delay_ns, engines),
        };
        Power {
            platform: platform.clone(),
            wake_port: OnceLock::new(),
            management: config.power,
            going_down: platform.mutex("who takes the power", ()),
            waking: platform.mutex("who gives the power", ()),
            state: platform.mutex("power", state),
        }
    }

    /// Whether a paging operation that is under way keeps the power.
    pub(crate) fn waits_for_paging(&self) -> bool {
        self.management != PowerManagement::ManagedWhilePaging
    }

    fn is_managed(&self) -> bool {
        self.management != PowerManagement::AlwaysOn
    }

    /// Whether the caller is who changes the power: its calls pass.
    fn is_mine(&self) -> bool {
        self.going_down.is_mine() || self.waking.is_mine()
    }
}

/// What a caller finds.
enum Found {
    Awake,
    Pass,
    Wait(Event),
    /// D3, and it is the caller who wakes it.
    Asleep(Event),
}

impl DevicePower for Power {
    fn awake(&self) -> Awake<'_> {
        self.awake_but_suspended().resume()
    }

    fn release(&self) {
        self.state.lock().calls -= 1;
    }

    /// Power until the guard is dropped, with the contexts suspended still, if the device was woken
    /// for it.
    fn awake_but_suspended(&self) -> Awake<'_> {
        if !self.is_managed() {
            return Awake::uncounted();
        }
        loop {
            match self.find() {
                Found::Awake => return Awake::counted(self, None),
                Found::Pass => return Awake::uncounted(),
                // A machine that stops wakes every agent; there is nothing left to be protected.
                Found::Wait(change) => {
                    if change.wait_for(None, "the power of an adapter") == WaitEnd::Stopped {
                        return Awake::uncounted();
                    }
                }
                Found::Asleep(change) => {
                    let port = self.wake_port.get().and_then(Weak::upgrade);
                    let Some(port) = port else { return Awake::uncounted() };
                    let suspended = port.wake(&change);
                    return Awake::counted(self, suspended.map(|s| Box::new(s) as Box<dyn Any>));
                }
            }
        }
    }

    fn use_engine(&self, port: &DriverPort, engine: u32) -> bool {
        self.is_managed() && engine::use_engine(self, port, engine)
    }

    fn release_engine(&self, engine: u32) {
        self.state.lock().engines[engine as usize].users -= 1;
    }

    fn doorbell_connected(&self, port: &DriverPort, engine: u32) {
        if !self.is_managed() {
            return;
        }
        let now = self.platform.now();
        let begins = self.state.lock().check.connected(engine as usize, now);
        if begins {
            port.timer.arm_background();
        }
    }
}

impl Power {
    /// Names what wakes the device. Once.
    pub(crate) fn set_wake_port(&self, port: Weak<dyn WakeDevice>) {
        let _first = self.wake_port.set(port);
    }

    fn find(&self) -> Found {
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
            Device::Changing(change) => Found::Wait(change.clone()),
            Device::D3 => {
                let change = self.platform.event(true);
                state.device = Device::Changing(change.clone());
                Found::Asleep(change)
            }
        }
    }
}

/// What wakes a device in D3.
pub(crate) trait WakeDevice: Send + Sync {
    /// D3 to D0, but for the contexts: they stay suspended until what is returned is dropped. Sets
    /// `change`. The caller is counted as one that uses the power.
    fn wake(&self, change: &Event) -> Option<Suspended>;
}

impl WakeDevice for Adapter {
    fn wake(&self, change: &Event) -> Option<Suspended> {
        let start_ns = self.platform.stamp_ns();
        let waking = self.power.waking.lock_device();
        // 1. Power.
        // spec: UMS-059
        let (level, state) = (Passive::enter(), DevicePowerState::D0);
        let given = self.driver_as_it_is().set_power_state(&level, state, PowerAction::None);
        // 2. Rings that were moved out of the device's memory come back.
        // spec: UMS-060
        let _moved = self.memory.page_in_for_power();
        self.screen_on();
        let suspended = {
            let mut state = self.power.state.lock();
            state.device = Device::D0;
            state.calls += 1;
            state.suspended.take()
        };
        drop(waking);
        change.set(Step::ThreadWake);
        self.count(Count::wakes_from_d3);
        self.record_power("D3 to D0", start_ns, 0);
        if let Err(status) = given {
            self.bug_check(BugCheck::DdiFailed { ddi: "DxgkDdiSetPowerState", status });
        }
        suspended
    }
}

impl Adapter {
    /// Whether the device has power now.
    pub fn power_state(&self) -> DevicePowerState {
        match self.power.state.lock().device {
            Device::D0 | Device::GoingDown => DevicePowerState::D0,
            Device::Changing(_) | Device::D3 => DevicePowerState::D3,
        }
    }

    /// Takes or gives the power of an adapter for a system that goes to sleep or comes back: what
    /// is in rings stays there, and runs after D0. Returns the state that it has then: D0 where D3
    /// was asked for and somebody was in the middle of a call, or memory was being paged.
    ///
    /// # Errors
    /// NOT_SUPPORTED where power is not managed.
    #[doc(alias = "DxgkDdiSetPowerState")]
    pub fn set_power_state(&self, state: DevicePowerState) -> Result<DevicePowerState, Status> {
        match state {
            DevicePowerState::D0 => {
                self.must_be_managed()?;
                drop(self.awake());
                Ok(self.power_state())
            }
            DevicePowerState::D3 => self.go_to_d3(PowerAction::Sleep),
        }
    }

    /// Takes the power of an adapter that has nothing to do. Returns the state that it has then: D0
    /// when there was something.
    ///
    /// # Errors
    /// NOT_SUPPORTED where power is not managed.
    pub fn power_down_if_idle(&self) -> Result<DevicePowerState, Status> {
        self.go_to_d3(PowerAction::None)
    }

    fn hold_all_contexts(&self, level: &Passive) -> Suspended {
        let contexts = self.hw_contexts_of(|_| true).into_iter().map(|c| c as Arc<dyn Suspendable>);
        suspension::hold(self, level, contexts.collect())
    }

    /// Takes every hardware context off the run list, as power and the end of a process do, until
    /// the returned hold ends. Blocks until the driver has acknowledged, for the TDR delay at most.
    ///
    /// # Errors
    /// DEVICE_REMOVED when a driver contract was broken.
    pub fn suspend_contexts(&self) -> Result<Suspended, Status> {
        self.check()?;
        Ok(self.hold_all_contexts(&Passive::enter()))
    }

    /// The engines of these contexts were reset: no reference to the contexts is left, so every
    /// suspension of one is complete.
    pub(crate) fn complete_suspensions(&self, which: impl Fn(&Context) -> bool) {
        for context in self.hw_contexts_of(which) {
            context.suspension.complete_by_reset();
        }
    }

    fn must_be_managed(&self) -> Result<(), Status> {
        self.check()?;
        if self.power.is_managed() { Ok(()) } else { Err(Status::NOT_SUPPORTED) }
    }

    /// D0 to D3, in the published order.
    fn go_to_d3(&self, action: PowerAction) -> Result<DevicePowerState, Status> {
        let level = &Passive::enter();
        self.must_be_managed()?;
        // Before the lock, and so dropped after it.
        let (moved_out, _moved_back);
        let _one_at_a_time = self.power.going_down.lock_device();
        let start_ns = self.platform.stamp_ns();
        {
            let mut state = self.power.state.lock();
            match state.device {
                Device::D0 if state.calls == 0 => {
                    (state.device, state.wanted) = (Device::GoingDown, false)
                }
                Device::D3 => return Ok(DevicePowerState::D3),
                _ => return Ok(DevicePowerState::D0),
            }
        }
        // 1. All hardware contexts leave the run list.
        // spec: UMS-056
        let suspended = self.hold_all_contexts(level);
        // 2. All doorbells are disconnected.
        // spec: UMS-057
        let doorbells: Vec<Arc<Doorbell>> = self.doorbells_of(|_| true).collect();
        doorbells.iter().for_each(|doorbell| doorbell.disconnect(level, DisconnectReason::Retry));
        // 3. Work that was rung before its doorbell went.
        let stays = !suspended.is_complete()
            || self.has_packets()
            || (action == PowerAction::None
                && (self.has_announced_work(|_| true) || self.shows_pictures()));
        // One that its process has given up meanwhile ends here, while nobody waits for us.
        drop(doorbells);
        // 4. Unless somebody has called, memory follows: no context is on the run list, and callers
        //    wait from here on.
        let change = self.platform.event(true);
        let goes = {
            let mut state = self.power.state.lock();
            let goes = !stays && !state.wanted && state.calls == 0;
            state.device = if goes { Device::Changing(change.clone()) } else { Device::D0 };
            goes
        };
        if goes {
            self.screen_off();
        }
        // spec: UMS-058
        moved_out =
            if goes { self.memory.evict_for_power(self.power.waits_for_paging()) } else { None };
        // 5. The power.
        let d3 = DevicePowerState::D3;
        let gone = moved_out.is_some()
            && self.driver_as_it_is().set_power_state(level, d3, action).is_ok();
        _moved_back = (moved_out.is_some() && !gone).then(|| self.memory.page_in_for_power());
        if goes && !gone {
            self.screen_on();
        }
        let kept = {
            let mut state = self.power.state.lock();
            state.device = if gone { Device::D3 } else { Device::D0 };
            if gone { state.suspended.replace(suspended) } else { Some(suspended) }
        };
        change.set(Step::ThreadWake);
        drop(kept);
        self.count(if gone { Count::sleeps_in_d3 } else { Count::power_downs_given_up });
        self.record_power(if gone { "D0 to D3" } else { "D0, not D3" }, start_ns, 0);
        Ok(if gone { d3 } else { DevicePowerState::D0 })
    }

    /// Whether a display needs the power for what it shows.
    fn shows_pictures(&self) -> bool {
        self.display.as_ref().is_some_and(|display| display.is_on())
    }

    /// Whether an engine has packets, or VidSch is about to give it some, or to give back one that
    /// knows where memory stands.
    fn has_packets(&self) -> bool {
        self.sched.holds_places()
    }

    /// The look for work that was announced and is not complete, on the engines that `of` picks.
    fn has_announced_work(&self, of: impl Fn(EngineId) -> bool) -> bool {
        if self.power.management == PowerManagement::ManagedWithoutLook {
            return false;
        }
        self.platform.fence();
        let user = self.doorbells_of(|d| of(d.queue.engine()) && d.has_work()).next().is_some();
        user || self.has_kernel_mode_work(of)
    }

    /// The same of what the kernel itself was given.
    fn has_kernel_mode_work(&self, of: impl Fn(EngineId) -> bool) -> bool {
        let kernel = |q: &HwQueue| of(q.engine()) && !q.user_mode_submission && q.has_work(self);
        !self.hw_queues_of(kernel).is_empty()
    }
}
