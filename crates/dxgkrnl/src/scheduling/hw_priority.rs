//! Scheduling priorities of hardware contexts: requests of processes, their checks, and the
//! DDI call.
//!
//! Order: 1. requests for a context are serialised; 2. the new properties are checked as a whole;
//! 3. the driver is called; 4. the properties take effect, so a failure changes nothing. Queues
//! added to the context later inherit them.

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
    /// Serialises the driver calls for the context. Held across them.
    calls: Mutex<()>,
    properties: Mutex<SchedulingProperties>,
}

/// A hardware context and its process's rights.
pub(crate) struct PriorityRequest<'a> {
    pub(crate) port: &'a DriverPort,
    pub(crate) context: DriverHandle,
    pub(crate) may_raise: bool,
}

/// Lowest priority of D3DKMTSetContextSchedulingPriority in the REALTIME band.
const FIRST_REALTIME: i32 = 8;

impl HwPriority {
    pub(crate) fn new(platform: &Platform) -> HwPriority {
        let properties = SchedulingProperties::default();
        HwPriority {
            calls: platform.mutex("priorities of a context", ()),
            properties: platform.mutex("priority of a context", properties),
        }
    }

    /// D3DKMTSetContextSchedulingPriority: negative values are IDLE, 0 is NORMAL, 1 to 7 are FOCUS,
    /// and higher values are levels of REALTIME.
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

    /// Applies the priority of a new queue to its context. Without hardware bands all contexts
    /// are equal.
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
