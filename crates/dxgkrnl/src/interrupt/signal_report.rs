//! Reports of native fence signals: their interpretation, and the release of the waiters
//! they cover.
//!
//! | the adapter declared | the report names | read |
//! |---|---|---|
//! | nothing | fences | those |
//! | nothing | no fence: a NULL array, or an empty one | every native fence with waiters |
//! | optimized | a hardware queue; an array of fences is ignored | its log since the last reading |
//! | optimized | no queue | the logs of all queues of that engine |
//! | queue array | hardware queues | their logs; without any, the logs of all queues of that engine |
//! | optimized or queue array | a log ran over | every native fence of that queue's device |
//!
//! Order: handles are resolved at interrupt level ([`resolve`]), where an unknown handle is a
//! contract violation. Logs and values are read at dispatch level ([`serve`]).

use crate::error::BugCheck;
use crate::fence::{Fence, LoggedQueue, NamedFences, signaled};
use crate::object::Objects;
use crate::object::hw_queue::HwQueue;
use std::sync::{Arc, Weak};
use tidegate_ddi::{DriverHandle, EngineId, Irql, OsHandle, VidSchCaps};

/// The handles in a report.
#[derive(Clone, Copy)]
pub(super) enum ReportedHandles<'a> {
    /// The published data.
    Published { fences: Option<&'a [OsHandle]>, hw_queue: Option<DriverHandle> },
    /// The array of hardware queues.
    HwQueues(&'a [DriverHandle]),
}

/// The fences or queues that a report covers.
pub(super) enum SignalReport {
    /// These fences.
    Fences(NamedFences),
    /// Every native fence.
    AnyFence,
    /// The logs of these hardware queues. Weak, so that a report does not keep a queue alive.
    Queues(Vec<Weak<HwQueue>>),
    /// The logs of all hardware queues of this engine.
    AnyQueue { engine: EngineId },
}

/// Resolves a report at interrupt level, or returns how it violates the contract.
pub(super) fn resolve(
    objects: &Objects,
    engine: EngineId,
    handles: ReportedHandles<'_>,
) -> Result<SignalReport, BugCheck> {
    objects.port.check_engine(engine)?;
    let optimized = objects
        .port
        .declared
        .caps
        .scheduling
        .contains(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT);
    match handles {
        // spec: NF-233
        ReportedHandles::HwQueues(_) if !objects.port.declared.caps.signaled_hw_queue_array => {
            Err(BugCheck::QueueArrayNotDeclared)
        }
        ReportedHandles::HwQueues([]) => Ok(SignalReport::AnyQueue { engine }),
        ReportedHandles::HwQueues(handles) => queues(objects, handles),
        ReportedHandles::Published { hw_queue: Some(handle), .. } if optimized => {
            queues(objects, &[handle])
        }
        // spec: NF-224
        ReportedHandles::Published { hw_queue: None, .. } if optimized => {
            Ok(SignalReport::AnyQueue { engine })
        }
        // spec: NF-125
        // spec: NF-127
        // spec: NF-234
        ReportedHandles::Published { fences: None | Some([]), .. } => Ok(SignalReport::AnyFence),
        ReportedHandles::Published { fences: Some(handles), .. } => {
            match objects.fences.resolve(handles) {
                Ok(fences) => Ok(SignalReport::Fences(fences)),
                // spec: NF-122
                // spec: NF-123
                Err(unknown) => Err(BugCheck::UnknownFence(unknown.0)),
            }
        }
    }
}

// spec: NF-232
fn queues(objects: &Objects, handles: &[DriverHandle]) -> Result<SignalReport, BugCheck> {
    let table = objects.hw_queues.lock();
    let find =
        |handle: &DriverHandle| table.of_driver(*handle).ok_or(BugCheck::UnknownQueue(handle.0));
    handles.iter().map(find).collect::<Result<_, _>>().map(SignalReport::Queues)
}

/// Handles DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED at dispatch level. Returns whether any waiter
/// was released.
pub(super) fn serve(objects: &Objects, level: Irql<'_>, report: &SignalReport) -> bool {
    let (fences, reader) = (&objects.fences, &objects.log_reader);
    match report {
        SignalReport::Fences(named) => {
            let released = signaled::wake_named(level, named);
            read_times(objects, level, named);
            released
        }
        SignalReport::AnyFence => signaled::scan_native(level, fences),
        SignalReport::Queues(queues) => {
            let live: Vec<_> = queues.iter().filter_map(Weak::upgrade).collect();
            signaled::read_and_wake(reader, level, &logged(&live))
        }
        SignalReport::AnyQueue { engine } => {
            let queues = objects.hw_queues_of(|queue| queue.engine() == *engine);
            let released = signaled::read_and_wake(reader, level, &logged(&queues));
            signaled::scan_cross_adapter(level, fences) | released
        }
    }
}

fn logged(queues: &[Arc<HwQueue>]) -> Vec<&dyn LoggedQueue> {
    queues.iter().map(|queue| &***queue as &dyn LoggedQueue).collect()
}

/// Reads signal times for the timeline after an interrupt that named fences and no queues. The
/// times are in the logs of all hardware queues of the fences' devices.
// spec: NF-220
fn read_times(objects: &Objects, level: Irql<'_>, fences: &[Arc<Fence>]) {
    if objects.port.platform.tracing() {
        let of_fences = |q: &HwQueue| fences.iter().any(|f| f.is_open_on(q.device.os_handle));
        let queues = objects.hw_queues_of(of_fences);
        objects.log_reader.read_for_timeline(level, &logged(&queues));
    }
}
