//! The race of a fence's end with its signal: a CPU thread registers an event for a value and
//! destroys the fence while an engine signals it. The event is set, by the signal or by the fence's
//! end; a late interrupt changes nothing.
//!
//! The signal stands in the ring before the run begins.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, until_quiet};
use tidegate::Platform;
use tidegate::calls::{
    AllocationKind, AllocationMemory, CreateAllocation, CreateDoorbell, CreateDoorbellFlags,
    CreateHwContext, CreateHwQueue, CreateNativeFence, FenceInstance, FenceValue, Kernel,
    NativeFenceType, Placement, Priority, SyncObjectFlags, WaitMode,
};
use tidegate::explorer::{Prepared, Verdict};
use tidegate::gpu_abi::ring::NO_LOG_ENTRY;
use tidegate::gpu_abi::{
    CONTROL_WORDS, CONTROL_WRITE_WORD, DOORBELL_VALUE_WORD, GpuVa, RingPacket, SLOT_BYTES,
};

const INTERRUPTED: &str = "the signal interrupted for the event";
const NOT_INTERRUPTED: &str = "the signal interrupted nobody";

pub(crate) const RACE: Race = Race {
    name: "destroy-against-signal",
    about: "a fence with a registered event is destroyed while an engine signals it: the event is set",
    marks: &[INTERRUPTED, NOT_INTERRUPTED],
    agents: &["engine", "timer", "main"],
    planted: &[],
    plans: Plans {
        short: Plan::bounded(1, 1_000_000),
        full: Plan::exhaustive(5_000_000),
        bugs: Plan::bounded(1, 1_000_000),
    },
    prepare,
    bug: None,
};

/// Slots of the ring.
const SLOTS: u64 = 8;

/// A fence, and a user-mode queue with a signal of it to 1 in its ring, which was rung. By the
/// kernel's calls: a queue of the API would keep the fence.
fn signalled(kernel: &dyn Kernel) -> FenceInstance {
    let device = kernel.create_device().expect("a device");
    let args = CreateNativeFence {
        device,
        initial_value: 0,
        fence_type: NativeFenceType::Default,
        flags: SyncObjectFlags::empty(),
        engine_affinity: 0,
        private_data: [0; 64],
        name: "short-lived",
    };
    let fence = kernel.create_native_fence(args).expect("a fence");
    let args = CreateHwContext { device, node_ordinal: 0, engine_affinity: 0 };
    let hw_context = kernel.create_hw_context(args).expect("a context");
    let priority = Priority::Normal;
    let args = CreateHwQueue { hw_context, user_mode_submission: true, priority, tag: 1 };
    let hw_queue = kernel.create_hw_queue(args).expect("a queue").handle;
    let allocate = |bytes, kind| {
        let args = CreateAllocation { device, bytes, kind, placement: Placement::System };
        kernel.create_allocation(args).expect("memory")
    };
    let ring = allocate(SLOTS * SLOT_BYTES, AllocationKind::Bulk);
    let control = allocate(CONTROL_WORDS as u64 * 8, AllocationKind::Protocol);
    let (flags, private_data) = (CreateDoorbellFlags::empty(), Vec::new());
    let args = CreateDoorbell {
        hw_queue,
        ring: ring.handle,
        control: control.handle,
        flags,
        private_data,
    };
    let doorbell = kernel.create_doorbell(args).expect("a doorbell");
    let (AllocationMemory::Bulk(slots), AllocationMemory::Protocol(pointers)) =
        (ring.memory, control.memory)
    else {
        panic!("bytes and words were asked for")
    };
    let signal = RingPacket::Signal {
        current_value: GpuVa(fence.current_value_gpu_va),
        monitored_value: GpuVa(fence.monitored_value_gpu_va),
        value: 1,
        fence_handle: fence.handle.0,
        log_entry: NO_LOG_ENTRY,
    };
    slots.write(0, &signal.encode()).expect("room for a slot");
    pointers.store(CONTROL_WRITE_WORD, 1);
    let connection = kernel.connect_doorbell(doorbell.handle).expect("hardware");
    doorbell.mapping.store(DOORBELL_VALUE_WORD, connection.value_base + 1);
    connection.hint.rung();
    fence
}

fn prepare(platform: &Platform, _bug: Option<&'static str>) -> Prepared {
    let world = World::new(platform, Setting::default());
    let kernel = world.machine.open("app").expect("a process");
    let fence = signalled(&*kernel).handle;
    let (clock, event) = (platform.clone(), world.device.create_event(true));
    let (set, calls) = (event.clone(), kernel.clone());
    let main = move || {
        let reached = [FenceValue { fence, value: 1 }];
        calls.wait_from_cpu(&reached, WaitMode::All, Some(event.clone())).expect("it is there");
        calls.destroy_synchronization_object(fence).expect("it is there");
        event.wait();
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let interrupted = world.probe.seen(notes::INTERRUPTED).is_some();
        end.eventually("the event is set", set.is_set());
        end.sometimes(INTERRUPTED, interrupted);
        end.sometimes(NOT_INTERRUPTED, !interrupted);
        world.must_be_sound(end);
        drop(kernel);
    })
}
