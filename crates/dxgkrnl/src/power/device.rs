//! The power of the device (D-states).
//!
//! An active screen keeps an idle device awake. On system sleep the screen is blanked before memory
//! is evicted, and its last picture is restored after page-in.
//!
//! Lock order: the agent that removes power waits only for suspension acknowledgements, with
//! `going_down` held, and recovers an engine that gives none. No recovery starts a power-down. The
//! agent that restores power never waits: its own CPU copies memory.
//!
//! Entry points: [`PowerTransitions::set_device_state`], [`PowerTransitions::power_down_if_idle`],
//! [`WakeDevice`].

use super::state::{Device, WakeDevice};
use super::transitions::PowerTransitions;
use crate::error::BugCheck;
use crate::object::doorbell::Doorbell;
use crate::stats::Count;
use crate::suspension::Suspended;
use crate::wait_classes::{ADAPTER_POWER, DPCS_OF_ADAPTER};
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{DevicePowerState, Passive, PowerAction};
use tidegate_platform::planted;
use tidegate_platform::{Event, Step, WaitEnd};

impl WakeDevice for PowerTransitions {
    // The doorbell or call that woke the device continues after step 2 and resumes the contexts.
    fn wake(&self, level: &Passive, change: &Event) -> Option<Suspended> {
        let port = &self.objects.port;
        let start_ns = port.platform.stamp_ns();
        let owed = port.platform.owe(&ADAPTER_POWER);
        let waking = self.power.waking.lock_device();
        // 1. Power.
        // spec: UMS-059
        let state = DevicePowerState::D0;
        let given = port.driver_as_it_is().set_power_state(level, state, PowerAction::None);
        // 2. Evicted rings are paged in.
        // spec: UMS-060
        let _moved = self.objects.memory.page_in_for_power(level);
        self.screen_on(level);
        let suspended = {
            let mut state = self.power.state.lock();
            state.device = Device::D0;
            state.calls += 1;
            state.suspended.take()
        };
        drop(waking);
        change.set(Step::ThreadWake);
        drop(owed);
        port.count(Count::wakes_from_d3);
        port.lanes.record_power("D3 to D0", start_ns, 0);
        if let Err(status) = given {
            port.bug_check(level, BugCheck::DdiFailed { ddi: "DxgkDdiSetPowerState", status });
        }
        suspended
    }
}

impl PowerTransitions {
    /// Changes the power state for system sleep or resume. Ring contents are kept and run after D0.
    /// Returns the resulting state: D0 instead of D3 if a call or paging was in progress.
    ///
    /// # Errors
    /// NOT_SUPPORTED where power is not managed.
    #[doc(alias = "DxgkDdiSetPowerState")]
    pub(crate) fn set_device_state(
        &self,
        level: &Passive,
        state: DevicePowerState,
    ) -> Result<DevicePowerState, Status> {
        match state {
            DevicePowerState::D0 => {
                self.must_be_managed()?;
                drop(self.objects.port.awake(level));
                Ok(self.device_state())
            }
            DevicePowerState::D3 => self.go_to_d3(level, PowerAction::Sleep),
        }
    }

    /// Powers down an idle adapter. Returns the resulting state: D0 if it had work.
    ///
    /// # Errors
    /// NOT_SUPPORTED where power is not managed.
    pub(crate) fn power_down_if_idle(&self, level: &Passive) -> Result<DevicePowerState, Status> {
        self.go_to_d3(level, PowerAction::None)
    }

    /// D0 to D3, in the published order.
    fn go_to_d3(&self, level: &Passive, action: PowerAction) -> Result<DevicePowerState, Status> {
        let port = &self.objects.port;
        self.must_be_managed()?;
        // Declared before the lock guard, so dropped after it.
        let (moved_out, _moved_back);
        let _one_at_a_time = self.power.going_down.lock_device();
        let start_ns = port.platform.stamp_ns();
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
        let doorbells: Vec<Arc<Doorbell>> = self.objects.doorbells_of(|_| true).collect();
        doorbells.iter().for_each(|doorbell| doorbell.disconnect(level, DisconnectReason::Retry));
        // 3. Work that was rung before its doorbell was disconnected keeps the device in D0.
        let stays = !suspended.is_complete()
            || self.owes_or_holds_packets()
            || (action == PowerAction::None
                && (self.has_announced_work(|_| true) || self.shows_pictures()));
        // A doorbell released concurrently by its process ends here, before callers wait.
        drop(doorbells);
        // 4. DPCs in progress end. Then memory is evicted, unless the device was called: no context
        //    is on the run list, and later callers wait.
        let change = port.platform.event(true);
        let goes = loop {
            let dpcs_over = {
                let mut state = self.power.state.lock();
                let goes = !stays && !state.wanted && state.calls == 0;
                if !goes || state.dpcs == 0 {
                    state.device = if goes { Device::Changing(change.clone()) } else { Device::D0 };
                    break goes;
                }
                let over = port.platform.event(true);
                state.dpcs_over = Some(over.clone());
                over
            };
            if dpcs_over.wait_for(None, &DPCS_OF_ADAPTER) == WaitEnd::Stopped {
                self.power.state.lock().device = Device::D0;
                break false;
            }
        };
        let owed = goes.then(|| port.platform.owe(&ADAPTER_POWER));
        if goes {
            self.screen_off(level);
        }
        // spec: UMS-058
        moved_out = if goes {
            self.objects.memory.evict_for_power(level, !planted!(port.platform, PagingUnseen))
        } else {
            None
        };
        // 5. The power.
        let d3 = DevicePowerState::D3;
        let gone = moved_out.is_some()
            && port.driver_as_it_is().set_power_state(level, d3, action).is_ok();
        _moved_back =
            (moved_out.is_some() && !gone).then(|| self.objects.memory.page_in_for_power(level));
        if goes && !gone {
            self.screen_on(level);
        }
        let kept = {
            let mut state = self.power.state.lock();
            state.device = if gone { Device::D3 } else { Device::D0 };
            if gone { state.suspended.replace(suspended) } else { Some(suspended) }
        };
        change.set(Step::ThreadWake);
        drop((owed, kept));
        port.count(if gone { Count::sleeps_in_d3 } else { Count::power_downs_given_up });
        port.lanes.record_power(if gone { "D0 to D3" } else { "D0, not D3" }, start_ns, 0);
        Ok(if gone { d3 } else { DevicePowerState::D0 })
    }

    /// Returns whether a display needs power for its picture.
    fn shows_pictures(&self) -> bool {
        self.display.as_ref().is_some_and(|display| display.is_on())
    }

    /// Returns whether the driver owes a report of an engine, or VidSch holds a packet with local
    /// memory addresses.
    fn owes_or_holds_packets(&self) -> bool {
        let sched = self.objects.sched.lock();
        let mut engines = self.objects.port.declared.caps.engines();
        sched.holds_places() || engines.any(|engine| sched.owes_report(engine))
    }

    fn screen_off(&self, level: &Passive) {
        if let Some(display) = &self.display {
            display.screen_off(level);
        }
    }

    fn screen_on(&self, level: &Passive) {
        if let Some(display) = &self.display {
            display.screen_on(level);
        }
    }
}
