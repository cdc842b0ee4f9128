//! Owns where hardware contexts stand among others: what a process asks for, whether it may, and
//! what the driver is told.
//!
//! The order that matters: 1. calls for a context come one after the other; 2. what is asked for is
//! checked as a whole; 3. the driver is told; 4. only then it counts, so that a refusal changes
//! nothing. Queues that a context gets later take it over.
//!
//! The order in which queues run is the hardware's; the packets of other contexts are `sched`'s.

use crate::context::Context;
use std::sync::Arc;
use tidegate_calls::{Priority, Status};
use tidegate_ddi::Passive;
use tidegate_ddi::scheduling::{
    MAX_IN_PROCESS_PRIORITY, MAX_REALTIME_LEVEL, PriorityBand, SchedulingProperties,
    SetContextSchedulingProperties,
};
use tidegate_platform::{Mutex, Platform};

/// How one hardware context stands.
pub(crate) struct Standing {
    /// Orders the driver's calls for the context; held over them.
    calls: Mutex<()>,
    properties: Mutex<SchedulingProperties>,
}

impl Standing {
    pub(crate) fn new(platform: &Platform) -> Standing {
        let properties = SchedulingProperties::default();
        Standing {
            calls: platform.mutex("priorities of a context", ()),
            properties: platform.mutex("priority of a context", properties),
        }
    }
}

/// The lowest number of D3DKMTSetContextSchedulingPriority that means the REALTIME band.
const FIRST_REALTIME: i32 = 8;

/// D3DKMTSetContextSchedulingPriority: below 0 is IDLE, 0 is NORMAL, up to 7 is FOCUS, and what is
/// above are the levels of REALTIME.
pub(crate) fn set_priority(context: &Arc<Context>, priority: i32) -> Result<(), Status> {
    let (priority_band, level) = match priority {
        -7..=-1 => (PriorityBand::Idle, 0),
        0 => (PriorityBand::Normal, 0),
        1..=7 => (PriorityBand::Focus, 0),
        _ => (
            PriorityBand::Realtime,
            priority.checked_sub(FIRST_REALTIME).ok_or(Status::INVALID_PARAMETER)?,
        ),
    };
    let realtime_band_priority_level =
        u32::try_from(level).map_err(|_| Status::INVALID_PARAMETER)?;
    if realtime_band_priority_level > MAX_REALTIME_LEVEL {
        return Err(Status::INVALID_PARAMETER);
    }
    ask(context, |now| SchedulingProperties { priority_band, realtime_band_priority_level, ..now })
}

/// D3DKMTSetContextInProcessSchedulingPriority.
pub(crate) fn set_in_process_priority(
    context: &Arc<Context>,
    in_process_priority: i32,
) -> Result<(), Status> {
    if !(-MAX_IN_PROCESS_PRIORITY..=MAX_IN_PROCESS_PRIORITY).contains(&in_process_priority) {
        return Err(Status::INVALID_PARAMETER);
    }
    ask(context, |now| SchedulingProperties { in_process_priority, ..now })
}

/// A queue is made with a priority: its context gets that. Where hardware knows no bands all
/// contexts are equal.
pub(crate) fn adopt(context: &Arc<Context>, priority: Priority) -> Result<(), Status> {
    if priority == Priority::Normal {
        return Ok(());
    }
    match ask(context, |_| SchedulingProperties::from(priority)) {
        Err(Status::NOT_SUPPORTED) => Ok(()),
        other => other,
    }
}

// spec: HS-009
fn ask(
    context: &Arc<Context>,
    change: impl FnOnce(SchedulingProperties) -> SchedulingProperties,
) -> Result<(), Status> {
    let (device, adapter) = (&context.device, &context.device.adapter);
    device.check()?;
    let _one_call_at_a_time = context.standing.calls.lock_device();
    let old = *context.standing.properties.lock();
    let properties = change(old);
    if properties.is_privileged() && !device.may_raise_priority {
        return Err(Status::ACCESS_DENIED);
    }
    if !adapter.priority_bands {
        return Err(Status::NOT_SUPPORTED);
    }
    if properties == old {
        return Ok(());
    }
    let args = SetContextSchedulingProperties { context: context.driver, properties };
    // spec: HS-002
    adapter.driver().set_context_scheduling_properties(&Passive::enter(), args)?;
    *context.standing.properties.lock() = properties;
    Ok(())
}
