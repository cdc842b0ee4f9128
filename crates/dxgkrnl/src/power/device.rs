//! The power of the device (D-states).
//!
//! A screen that shows something keeps an idle device awake. When a system goes to sleep the screen
//! goes dark before memory is moved out, and shows its last picture again when memory is back.
//!
//! Lock order: the agent that takes the power waits for the acknowledgements of suspensions with
//! `going_down` held, and for nothing else. The agent that gives it waits for nothing: memory is
//! moved on its own CPU.
//!
//! Entry points: [`Adapter::set_power_state`], [`Adapter::power_down_if_idle`], [`WakeDevice`].

use super::state::{Device, WakeDevice};
use crate::adapter::Adapter;
use crate::error::BugCheck;
use crate::object::context::Context;
use crate::object::doorbell::Doorbell;
use crate::object::hw_queue::HwQueue;
use crate::stats::Count;
use crate::suspension::{self, Suspendable, Suspended};
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{DevicePowerState, EngineId, Passive, PowerAction};
use tidegate_platform::{Event, Step, WaitEnd};

impl WakeDevice for Adapter {
    // The doorbell or call that woke the device goes on after step 2, and resumes the contexts.
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

    /// Takes or gives the power of an adapter for a system that goes to sleep or comes back. The
    /// content of rings stays there, and runs after D0. Returns the state that the adapter has
    /// then: D0 in place of D3 where a call was under way, or memory was being paged.
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

    /// Takes the power of an idle adapter. Returns the state that it has then: D0 when it had work.
    ///
    /// # Errors
    /// NOT_SUPPORTED where power is not managed.
    pub fn power_down_if_idle(&self) -> Result<DevicePowerState, Status> {
        self.go_to_d3(PowerAction::None)
    }

    fn hold_all_contexts(&self, level: &Passive) -> Suspended {
        let contexts =
            self.objects.hw_contexts_of(|_| true).into_iter().map(|c| c as Arc<dyn Suspendable>);
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
        for context in self.objects.hw_contexts_of(which) {
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
        let doorbells: Vec<Arc<Doorbell>> = self.objects.doorbells_of(|_| true).collect();
        doorbells.iter().for_each(|doorbell| doorbell.disconnect(level, DisconnectReason::Retry));
        // 3. Work that was rung before its doorbell went.
        let stays = !suspended.is_complete()
            || self.has_packets()
            || (action == PowerAction::None
                && (self.has_announced_work(|_| true) || self.shows_pictures()));
        // A doorbell that its process has released meanwhile ends here, before callers wait.
        drop(doorbells);
        // 4. DPCs that are under way end. Unless the device was called, memory follows: no context
        //    is on the run list, and callers wait from here on.
        let change = self.platform.event(true);
        let goes = loop {
            let dpcs_over = {
                let mut state = self.power.state.lock();
                let goes = !stays && !state.wanted && state.calls == 0;
                if !goes || state.dpcs == 0 {
                    state.device = if goes { Device::Changing(change.clone()) } else { Device::D0 };
                    break goes;
                }
                let over = self.platform.event(true);
                state.dpcs_over = Some(over.clone());
                over
            };
            if dpcs_over.wait_for(None, "the DPCs of an adapter") == WaitEnd::Stopped {
                self.power.state.lock().device = Device::D0;
                break false;
            }
        };
        if goes {
            self.screen_off();
        }
        // spec: UMS-058
        moved_out = if goes {
            self.memory.evict_for_power(!self.platform.fault("paging unseen"))
        } else {
            None
        };
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

    /// Whether an engine has packets, or VidSch has one with addresses of local memory.
    fn has_packets(&self) -> bool {
        self.sched.lock().holds_places()
    }

    /// Whether the engines that `of` picks have announced work that is not complete.
    pub(super) fn has_announced_work(&self, of: impl Fn(EngineId) -> bool) -> bool {
        if self.platform.fault("announced work unseen") {
            return false;
        }
        self.platform.fence();
        let user =
            self.objects.doorbells_of(|d| of(d.queue.engine()) && d.has_work()).next().is_some();
        user || self.has_kernel_mode_work(of)
    }

    /// The same of kernel-mode queues.
    pub(super) fn has_kernel_mode_work(&self, of: impl Fn(EngineId) -> bool) -> bool {
        let kernel =
            |q: &HwQueue| of(q.engine()) && !q.user_mode_submission && q.has_work(&self.objects);
        !self.objects.hw_queues_of(kernel).is_empty()
    }
}
