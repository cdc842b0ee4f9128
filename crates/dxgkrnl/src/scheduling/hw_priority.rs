//! The scheduling priorities of hardware contexts: requests of processes, their checks, and the
//! call of the driver.
//!
//! Order: 1. requests for a context come one after the other; 2. the new properties are checked as
//! a whole; 3. the driver is called; 4. they count from then on, so a refusal changes nothing. Queues
//! that are added to the context later take them over.

use crate::driver::DriverPort;
use tidegate_calls::{Priority, Status};
use tidegate_ddi::scheduling::{
    MAX_IN_PROCESS_PRIORITY, MAX_REALTIME_LEVEL, PriorityBand, SchedulingProperties,
    SetContextSchedulingProperties,
};
use tidegate_ddi::{DriverHandle, Passive};
use tidegate_platform::{Mutex, Platform};

/// The properties of one hardware context.
pub(crate) struct HwPriority {
    /// Orders the driver's calls for the context; held over them.
    calls: Mutex<()>,
    properties: Mutex<SchedulingProperties>,
}

/// A hardware context and its process's rights.
pub(crate) struct PriorityRequest<'a> {
    pub(crate) port: &'a DriverPort,
    pub(crate) context: DriverHandle,
    pub(crate) may_raise: bool,
}

/// The lowest number of D3DKMTSetContextSchedulingPriority that means the REALTIME band.
const FIRST_REALTIME: i32 = 8;

impl HwPriority {
    pub(crate) fn new(platform: &Platform) -> HwPriority {
        let properties = SchedulingProperties::default();
        HwPriority {
            calls: platform.mutex("priorities of a context", ()),
            properties: platform.mutex("priority of a context", properties),
        }
    }

    /// D3DKMTSetContextSchedulingPriority: below 0 is IDLE, 0 is NORMAL, up to 7 is FOCUS, and the
    /// numbers above are the levels of REALTIME.
    pub(crate) fn set(
        &self,
        level: &Passive,
        request: &PriorityRequest<'_>,
        priority: i32,
    ) -> Result<(), Status> {
        let (priority_band, priority_level) = match priority {
            -7..=-1 => (PriorityBand::Idle, 0),
            0 => (PriorityBand::Normal, 0),
            1..=7 => (PriorityBand::Focus, 0),
            _ => (
                PriorityBand::Realtime,
                priority.checked_sub(FIRST_REALTIME).ok_or(Status::INVALID_PARAMETER)?,
            ),
        };
        let realtime_band_priority_level =
            u32::try_from(priority_level).map_err(|_| Status::INVALID_PARAMETER)?;
        if realtime_band_priority_level > MAX_REALTIME_LEVEL {
            return Err(Status::INVALID_PARAMETER);
        }
        self.change(level, request, |now| SchedulingProperties {
            priority_band,
            realtime_band_priority_level,
            ..now
        })
    }

    /// D3DKMTSetContextInProcessSchedulingPriority.
    pub(crate) fn set_in_process(
        &self,
        level: &Passive,
        request: &PriorityRequest<'_>,
        in_process_priority: i32,
    ) -> Result<(), Status> {
        if !(-MAX_IN_PROCESS_PRIORITY..=MAX_IN_PROCESS_PRIORITY).contains(&in_process_priority) {
            return Err(Status::INVALID_PARAMETER);
        }
        self.change(level, request, |now| SchedulingProperties { in_process_priority, ..now })
    }

    /// A queue is made with a priority, which its context gets. Where the hardware has no bands all
    /// contexts are equal.
    pub(crate) fn adopt(
        &self,
        level: &Passive,
        request: &PriorityRequest<'_>,
        priority: Priority,
    ) -> Result<(), Status> {
        if priority == Priority::Normal {
            return Ok(());
        }
        match self.change(level, request, |_| SchedulingProperties::from(priority)) {
            Err(Status::NOT_SUPPORTED) => Ok(()),
            other => other,
        }
    }

    // spec: HS-009
    fn change(
        &self,
        level: &Passive,
        request: &PriorityRequest<'_>,
        change: impl FnOnce(SchedulingProperties) -> SchedulingProperties,
    ) -> Result<(), Status> {
        let PriorityRequest { port, context, may_raise } = *request;
        let _one_call_at_a_time = self.calls.lock_device();
        let old = *self.properties.lock();
        let properties = change(old);
        if properties.is_privileged() && !may_raise {
            return Err(Status::ACCESS_DENIED);
        }
        if !port.priority_bands {
            return Err(Status::NOT_SUPPORTED);
        }
        if properties == old {
            return Ok(());
        }
        let args = SetContextSchedulingProperties { context, properties };
        // spec: HS-002
        port.driver(level).set_context_scheduling_properties(level, args)?;
        *self.properties.lock() = properties;
        Ok(())
    }
}
