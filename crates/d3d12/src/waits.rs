//! Events of a device, and waits for several fences: all of them or any, blocking, with a limit, or
//! with an event.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::event::{Event, EventDesc, EventRegistration, Waited};
use crate::fence::Fence;
use crate::hazards;
use crate::shared_device::{Condition, RecordedCall};
use crate::umd::fence::FenceObject;
use crate::umd::registration::Registration;
use crate::umd::thunk::CPU_WAIT_CALL;
use std::time::Duration;
use tidegate_calls::{MAX_OBJECTS_PER_CPU_WAIT, WaitMode, WaitNotice};
use tidegate_trace::Kind;

fn objects<'a>(fences: &'a [(&Fence, u64)]) -> impl Iterator<Item = (&'a FenceObject, u64)> {
    fences.iter().map(|(fence, value)| (&*fence.object, *value))
}

const SEVERAL: &str = "several fences";

impl Device {
    // spec: ME-079
    /// Creates an event. It may be used with fences of every device of the machine.
    #[doc(alias = "CreateEvent")]
    #[track_caller]
    pub fn create_event(&self, desc: EventDesc) -> Event {
        let _call = self.shared.umd.platform.enter_call("Device::create_event");
        Event::new(&self.shared.umd.platform, desc)
    }

    // spec: ME-045
    /// Has `event` set once all or any of `fences` have reached their values, and returns at once.
    /// Without an event it blocks until then, as [`Device::wait_multiple`] does. Dropping the last
    /// handle of the event cancels the registration.
    ///
    /// # Errors
    /// As [`Device::wait_multiple`].
    #[doc(alias = "SetEventOnMultipleFenceCompletion")]
    #[track_caller]
    pub fn set_event_on_multiple_fence_completion<'e>(
        &self,
        fences: &[(&Fence, u64)],
        mode: WaitMode,
        event: impl Into<Option<&'e Event>>,
    ) -> Result<()> {
        let _call =
            self.shared.umd.platform.enter_call("Device::set_event_on_multiple_fence_completion");
        match event.into() {
            Some(event) => {
                event.own(self.register_event(fences, mode, event)?.0);
                Ok(())
            }
            None => self.wait_multiple(fences, mode),
        }
    }

    /// Has `event` set as [`Device::set_event_on_multiple_fence_completion`] does, until the result
    /// is dropped.
    ///
    /// # Errors
    /// As [`Device::wait_multiple`].
    #[track_caller]
    pub fn register_event(
        &self,
        fences: &[(&Fence, u64)],
        mode: WaitMode,
        event: &Event,
    ) -> Result<EventRegistration> {
        let _call = self.shared.umd.platform.enter_call("Device::register_event");
        self.check_fences(fences)?;
        let values: Vec<_> = objects(fences).map(|(fence, value)| fence.at(value)).collect();
        fences.iter().for_each(|(fence, value)| fence.arm_states(*value));
        hazards::arm_event(event, mode, objects(fences));
        let notice = WaitNotice::Event(event.signal().clone());
        let thunk = self.shared.umd.kernel.thunk();
        let registered = Registration::new(thunk, &values, mode, notice);
        registered.map(EventRegistration).map_err(|s| self.shared.error(CPU_WAIT_CALL, SEVERAL, s))
    }

    /// Blocks until all or any of several fences have reached their values. Each condition latches:
    /// it counts even if its fence falls again before the wait ends.
    ///
    /// # Errors
    /// As [`Fence::wait`]; [`Error::BadValue`] for no fences at all, and for more than 4,096;
    /// [`Error::Foreign`] for a fence of another device.
    #[track_caller]
    pub fn wait_multiple(&self, fences: &[(&Fence, u64)], mode: WaitMode) -> Result<()> {
        let _call = self.shared.umd.platform.enter_call("Device::wait_multiple");
        self.wait_for(fences, mode, None).map(|_| ())
    }

    /// Blocks as [`Device::wait_multiple`] does, for `limit` at most. After a time-out nothing of
    /// the wait stays with the fences.
    ///
    /// # Errors
    /// As [`Device::wait_multiple`].
    #[track_caller]
    pub fn wait_multiple_timeout(
        &self,
        fences: &[(&Fence, u64)],
        mode: WaitMode,
        limit: Duration,
    ) -> Result<Waited> {
        let _call = self.shared.umd.platform.enter_call("Device::wait_multiple_timeout");
        self.wait_for(fences, mode, Some(limit))
    }

    fn wait_for(
        &self,
        fences: &[(&Fence, u64)],
        mode: WaitMode,
        limit: Option<Duration>,
    ) -> Result<Waited> {
        self.check_fences(fences)?;
        let objects_waited_for: Vec<_> = objects(fences).collect();
        let call = RecordedCall::begin(&self.shared.umd.platform, self.lane);
        let what = || SEVERAL.to_owned();
        let condition = Condition { fences: &objects_waited_for, mode, what: &what };
        let result = self.shared.block(&condition, limit);
        if matches!(result, Ok(Waited::Signalled(()))) {
            hazards::cpu_wait(&self.shared.umd.platform, mode, objects(fences));
        }
        let checks_states = self.shared.states.is_some();
        for (fence, value) in fences {
            if checks_states && result.is_ok() && fence.object.value.load() >= *value {
                fence.note_reached(*value);
            }
            fence.end_call(call, Kind::CpuWait, *value);
        }
        result
    }

    fn check_fences(&self, fences: &[(&Fence, u64)]) -> Result<()> {
        if fences.is_empty() {
            let what = "a wait for several fences".to_owned();
            return Err(Error::BadValue { what, why: "it names no fence; name at least one" });
        }
        if fences.len() > MAX_OBJECTS_PER_CPU_WAIT {
            let what = format!("a wait for {} fences", fences.len());
            return Err(Error::BadValue {
                what,
                why: "one wait names at most 4096 fences; divide it",
            });
        }
        for (fence, _) in fences {
            fence.check_cpu_access()?;
            let what = || format!("fence '{}'", fence.name());
            self.shared.check_owner(fence.object.device(), what)?;
        }
        Ok(())
    }
}
