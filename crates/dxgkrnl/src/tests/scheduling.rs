//! Scheduling without the rest of the kernel, above a double of the objects.

use super::packet_driver::PacketDriver;
use super::start_driver;
use crate::fence::{Fence, Fences};
use crate::memory::Memory;
use crate::scheduling::{
    CommandKind, KernelModeQueue, PacketContext, QueuedPart, ReportPort, Scheduling, SchedulingPort,
};
use std::sync::Arc;
use tidegate_ddi::{DriverHandle, EngineId, Irql, OsHandle, Passive, Priority};
use tidegate_platform::{CpuTime, Mutex, Queued};
use tidegate_vidsch::CommandRange;

const ENGINE: EngineId = EngineId::of_node(0);

/// A context of packets.
struct Context(OsHandle);

impl PacketContext for Context {
    fn os_handle(&self) -> OsHandle {
        self.0
    }

    fn device_handle(&self) -> OsHandle {
        OsHandle(0)
    }

    fn driver_handle(&self) -> DriverHandle {
        DriverHandle(self.0.0)
    }

    fn engine(&self) -> EngineId {
        ENGINE
    }

    fn part(&self, _: u64) -> Option<Arc<QueuedPart>> {
        None
    }

    fn keep_part(&self, _: u64, _: Arc<QueuedPart>) {}

    fn monitored_fences(&self) -> Arc<[Arc<Fence>]> {
        Arc::new([])
    }

    fn is_of_kernel(&self) -> bool {
        false
    }
}

/// The rooms above: the contexts that exist, and the commands that the driver refused.
pub(crate) struct Above {
    contexts: Mutex<Vec<OsHandle>>,
    refused: Mutex<Vec<(OsHandle, u64, u64)>>,
    /// The completion that the interrupt routine has reported, and no DPC has taken.
    pending: Mutex<Option<u32>>,
}

impl SchedulingPort for Above {
    fn packet_context(&self, context: OsHandle) -> Option<Arc<dyn PacketContext>> {
        let exists = self.contexts.lock().contains(&context);
        exists.then(|| Arc::new(Context(context)) as Arc<dyn PacketContext>)
    }

    fn kernel_mode_queue(&self, _: OsHandle) -> Option<Arc<dyn KernelModeQueue>> {
        None
    }

    fn is_active(&self, queue: OsHandle) -> bool {
        self.contexts.lock().contains(&queue)
    }

    fn command_refused(&self, _level: Irql<'_>, queue: OsHandle, position: u64, gpu_va: u64) {
        self.refused.lock().push((queue, position, gpu_va));
    }
}

impl ReportPort for Above {
    fn serve_reports(self: Arc<Self>) {}

    fn flush_reports(self: Arc<Self>, _: &Passive) {}

    fn leave_out(&self, _: u64, _: CpuTime) {}

    fn take_overdue_reports(self: Arc<Self>, _: &Passive, _: CpuTime) {}

    fn ignore_packets(&self, _: EngineId) -> Option<u32> {
        *self.pending.lock()
    }

    fn heed_packets(&self, _: EngineId) {}
}

/// A scheduler of `contexts` with their queues, its driver and what is above it.
pub(crate) fn scheduler(
    contexts: [OsHandle; 2],
) -> (Arc<Scheduling>, Arc<PacketDriver>, Arc<Above>) {
    let (port, driver) = start_driver();
    let platform = &port.platform;
    let memory = Memory::new(&port);
    let scheduling = Scheduling::new(&port, &memory, &Fences::new(&memory));
    let above = Arc::new(Above {
        contexts: platform.mutex("contexts", contexts.to_vec()),
        refused: platform.mutex("last commands", Vec::new()),
        pending: platform.mutex("pending completion", None),
    });
    let rooms = Arc::downgrade(&above);
    scheduling.objects.attach(rooms.clone());
    scheduling.reports.attach(rooms);
    for context in contexts {
        scheduling.lock().add_context(context, ENGINE, Priority::Normal);
    }
    (scheduling, driver, above)
}

#[test]
fn a_packet_whose_context_has_ended_keeps_no_engine() {
    let level = &Passive::enter();
    let [ended, other] = [OsHandle(1), OsHandle(2)];
    let (scheduling, driver, above) = scheduler([ended, other]);
    above.contexts.lock().retain(|context| *context == other);
    scheduling.submit_command(
        level,
        ended,
        CommandKind::Render,
        CommandRange { gpu_va: 0x1_0000, bytes: 64 },
        Queued::default(),
    );
    assert_eq!((driver.submitted(), scheduling.lock().has_packets(ENGINE)), (0, false));
    scheduling.submit_command(
        level,
        other,
        CommandKind::Render,
        CommandRange { gpu_va: 0x2_0000, bytes: 64 },
        Queued::default(),
    );
    assert_eq!((driver.submitted(), scheduling.lock().has_packets(ENGINE)), (1, true));
}

#[test]
fn a_command_that_the_driver_refuses_is_named_to_the_rooms_above_and_leaves_the_engine() {
    let level = &Passive::enter();
    let [context, other] = [OsHandle(1), OsHandle(2)];
    let (scheduling, driver, above) = scheduler([context, other]);
    driver.refuse_next();
    scheduling.submit_command(
        level,
        context,
        CommandKind::Render,
        CommandRange { gpu_va: 0x1_0000, bytes: 64 },
        Queued::default(),
    );
    assert_eq!(*above.refused.lock(), [(context, 1, 0x1_0000)]);
    assert_eq!((driver.submitted(), scheduling.lock().has_packets(ENGINE)), (0, false));
}

/// The DPC of an engine that hangs may be late: what its interrupt routine has read is complete.
// spec: PRE-047
#[test]
fn a_snapshot_has_the_completion_that_no_dpc_has_taken() {
    let level = &Passive::enter();
    let contexts @ [context, _] = [OsHandle(1), OsHandle(2)];
    let (scheduling, driver, above) = scheduler(contexts);
    let range = CommandRange { gpu_va: 0x1_0000, bytes: 64 };
    for _ in 0..3 {
        scheduling.submit_command(level, context, CommandKind::Render, range, Queued::default());
    }
    let submitted = driver.submitted() as u32;
    assert!(submitted >= 2, "{submitted} packets");
    assert_eq!(scheduling.snapshot(ENGINE), (0, submitted), "none is complete");
    *above.pending.lock() = Some(1);
    assert_eq!(scheduling.snapshot(ENGINE), (1, submitted), "a DPC will say so");
    *above.pending.lock() = None;
    scheduling.dma_completed(level.into(), ENGINE, 2);
    assert_eq!(scheduling.snapshot(ENGINE).0, 2);
    // A DPC has taken a later completion.
    *above.pending.lock() = Some(1);
    assert_eq!(scheduling.snapshot(ENGINE).0, 2);
}

/// A part that its context does not keep any more cannot be submitted: there is nothing to patch.
#[test]
fn a_part_that_its_context_does_not_keep_is_refused_and_leaves_the_engine() {
    let level = &Passive::enter();
    let [context, other] = [OsHandle(1), OsHandle(2)];
    let (scheduling, driver, above) = scheduler([context, other]);
    scheduling.submit_command(
        level,
        context,
        CommandKind::Patched { last: true },
        CommandRange { gpu_va: 7, bytes: 64 },
        Queued::default(),
    );
    assert_eq!(*above.refused.lock(), [(context, 1, 7)]);
    assert_eq!((driver.submitted(), scheduling.lock().has_packets(ENGINE)), (0, false));
}
