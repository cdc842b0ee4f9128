//! Local memory that is too small: which allocations are resident, which are evicted, which
//! requests are refused, and that results stay right.

use tidegate::calls::{CreatePagingQueue, PagingPriority};
use tidegate::dxgkrnl::PagingBuffers;
use tidegate_testbed::prelude::*;

const KIB: u64 = 1024;
/// Of a test's allocations.
const BYTES: u64 = 64 * KIB;
/// Longer than anything takes.
const SETTLED_NS: u64 = 1_000_000;

/// A machine with room for `allocations` in local memory.
fn small(allocations: u64) -> World {
    world_with(|config| config.gpu.local_memory_bytes = allocations * BYTES)
}

fn on_demand(w: &World) -> Allocation {
    try_allocate(w, Placement::LocalOnDemand).unwrap()
}

fn try_allocate(w: &World, placement: Placement) -> Result<Allocation, Status> {
    w.try_allocate(BYTES, AllocationKind::Bulk, placement)
}

fn window(allocation: &Allocation) -> &BulkWindow {
    let AllocationMemory::Window(window) = &allocation.memory else { panic!("it moves") };
    window
}

fn first_word(allocation: &Allocation) -> u64 {
    let mut bytes = [0; 8];
    window(allocation).read(0, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

/// A queue that fills an allocation when the gate has reached 1.
fn fill_behind(w: &World, gate: &FenceInstance, allocation: &Allocation, value: u32) -> HwQueue {
    let queue = w.hw_queue_on(0);
    w.on_queue(&queue).wait(gate, 1).run(1, &[fill(allocation, value)]);
    queue
}

/// Makes resident, and waits until it is.
fn resident(w: &World, queue: &PagingQueue, of: &[&Allocation]) {
    match w.make_resident(queue, of) {
        Residency::Resident => {}
        Residency::Pending { paging_fence_value } => {
            w.wait(queue.fence.handle, paging_fence_value).unwrap()
        }
        over => panic!("{over:?}"),
    }
}

/// Makes resident what does not fit yet, and returns the paging fence's value for it.
fn pending(w: &World, queue: &PagingQueue, allocation: &Allocation) -> u64 {
    match w.make_resident(queue, &[allocation]) {
        Residency::Pending { paging_fence_value } => paging_fence_value,
        other => panic!("there is room only when another allocation has left: {other:?}"),
    }
}

fn evict(w: &World, of: &[&Allocation]) {
    let allocations: Vec<Handle> = of.iter().map(|a| a.handle).collect();
    w.kernel.evict(w.device, &allocations).unwrap();
}

fn fill(allocation: &Allocation, value: u32) -> Command {
    tidegate_testbed::fill(allocation.gpu_va, BYTES, value)
}

/// What 8 bytes of memory hold that was filled with `value`.
fn filled(value: u64) -> u64 {
    value << 32 | value
}

fn used(w: &World) -> u64 {
    w.adapter().local_memory_use().used_bytes
}

// spec: RES-001, RES-002, RES-003, RES-005
#[test]
fn what_is_made_resident_is_there_when_the_paging_fence_says_so() {
    small(2).run(|w| {
        let queue = w.paging_queue();
        assert!(queue.fence.native, "user-mode queues wait for nothing else");
        let allocation = on_demand(w);
        window(&allocation).write(0, &7u64.to_le_bytes()).unwrap();
        let residency = w.make_resident(&queue, &[&allocation]);
        assert_eq!(residency, Residency::Pending { paging_fence_value: 1 });
        w.wait(queue.fence.handle, 1).unwrap();
        assert_eq!((used(w), first_word(&allocation)), (BYTES, 7));
        let again = w.make_resident(&queue, &[&allocation]);
        assert_eq!(again, Residency::Resident, "there is nothing to wait for");
        // An engine finds there what the CPU wrote, and the CPU what an engine wrote.
        let (out, out_va) = w.bytes(8);
        let hw_queue = w.hw_queue();
        w.on_queue(&hw_queue)
            .run(1, &[copy_word(out_va, allocation.gpu_va), fill(&allocation, 9)])
            .complete();
        assert_eq!(out.read_u64(0), Ok(7));
        assert_eq!(first_word(&allocation), filled(9));
        assert_eq!(w.try_signal(&queue.fence, 99), Err(Status::ACCESS_DENIED));
        w.kernel.destroy_paging_queue(queue.handle).unwrap();
        assert_eq!(w.kernel.destroy_paging_queue(queue.handle), Err(Status::INVALID_PARAMETER));
    });
}

#[test]
fn the_driver_writes_the_commands_and_a_copy_engine_runs_them() {
    let w = small(1).run(|w| {
        let queue = w.paging_queue();
        let (written, never) = (on_demand(w), on_demand(w));
        window(&written).write(8, &[1]).unwrap();
        w.driver.take();
        resident(w, &queue, &[&written]);
        evict(w, &[&written]);
        resident(w, &queue, &[&never]);
        let calls = w.driver.take();
        let count = |which: fn(&&Paging) -> bool| {
            calls.iter().filter_map(|c| c.paging()).filter(which).count()
        };
        let transfers = count(|op| matches!(op, Paging::VirtualTransfer { .. }));
        assert_eq!(transfers, 2, "in, and out again");
        let fills = count(|op| matches!(op, Paging::VirtualFill { .. }));
        assert_eq!(fills, 1, "the other one was never written");
        assert_eq!(calls.iter().filter(|c| c.name() == "SubmitCommandVirtual").count(), 3);
    });
    let stats = w.stats();
    assert_eq!(
        (stats.allocations_paged_in, stats.allocations_paged_out, stats.bytes_paged),
        (2, 1, 3 * BYTES)
    );
}

/// Moves of 8 operations: a buffer has room for the commands of two, and two are used in turn.
// spec: PRE-185
#[test]
fn operations_that_do_not_fit_a_buffer_go_on_in_the_next() {
    let tiny = world_with(|config| {
        config.gpu.local_memory_bytes = BYTES;
        config.kernel.paging_buffers =
            PagingBuffers { bytes: 80, count: 2, operation_bytes: BYTES / 8, at_zero: true };
    });
    let (w, _) = tiny.run_to_report(|w| {
        let queue = w.paging_queue();
        let (written, never) = (on_demand(w), on_demand(w));
        let content: Vec<u8> = (0..BYTES).map(|at| (at / 97) as u8).collect();
        window(&written).write(0, &content).unwrap();
        w.driver.take();
        resident(w, &queue, &[&written]);
        evict(w, &[&written]);
        resident(w, &queue, &[&never]);
        let calls = w.driver.take();
        let operations = calls.iter().filter(|call| call.name() == "BuildPagingBuffer").count();
        // 2, and 1 that does not fit, in the first three buffers of each move; 2 in the last.
        assert_eq!(operations, 3 * 11);
        let packets = calls.iter().filter_map(|call| match call {
            tidegate::ddi::DdiCall::SubmitCommandVirtual { args } => Some(args.dma_buffer_gpu_va),
            _ => None,
        });
        assert_eq!(packets.collect::<Vec<_>>(), [0, 0x1000].repeat(6));
        let mut moved = vec![0; BYTES as usize];
        window(&written).read(0, &mut moved).unwrap();
        assert!(moved == content, "the content was moved in and out");
        // Never without an end: the buffer is empty, and nothing of the operation is in it.
        let full = Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        w.hooked.fail_next(Entry::BuildPagingBuffer, full);
        evict(w, &[&never]);
        let _stopped = w.make_resident(&queue, &[&written]);
        w.pass(SETTLED_NS);
    });
    let ddi = "DxgkDdiBuildPagingBuffer";
    let status = Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    assert_eq!(w.adapter().bug_checks(), [BugCheck::DdiFailed { ddi, status }]);
}

// spec: RES-007
#[test]
fn a_queue_that_uses_an_evicted_allocation_faults_by_name() {
    small(1).run(|w| {
        let queue = w.paging_queue();
        let (gone, other) = (on_demand(w), on_demand(w));
        resident(w, &queue, &[&gone]);
        evict(w, &[&gone]);
        resident(w, &queue, &[&other]);
        let hw_queue = w.hw_queue();
        w.submit(&hw_queue, 1, &[fill(&gone, 1)]);
        let _ = w.wait(hw_queue.progress_fence, 1);
        let Ok(DeviceState::Faulted(report)) = w.state() else { panic!("the device was lost") };
        let number = w.number(hw_queue.handle);
        assert_eq!((report.queue, report.gpu_va, report.write), (number, gone.gpu_va, true));
    });
}

// spec: RES-006
#[test]
fn what_is_in_use_leaves_after_its_last_use() {
    let patient = world_with(|config| {
        config.gpu.local_memory_bytes = BYTES;
        config.kernel.paging_timeout_ns = u64::MAX;
    });
    patient.run(|w| {
        let queue = w.paging_queue();
        let (first, second) = (on_demand(w), on_demand(w));
        for packets in [false, true] {
            let before = w.stats().allocations_paged_out;
            resident(w, &queue, &[&first]);
            let gate = w.native(0);
            let at_gate = at(&gate, 1);
            let (hw_queue, context) = (w.hw_queue(), w.context(0));
            match packets {
                true => {
                    w.kernel.wait_from_gpu(context, &at_gate).unwrap();
                    w.submit_packet(context, &[fill(&first, 5)]);
                }
                false => {
                    w.kernel.submit_wait_to_hw_queue(hw_queue.handle, &at_gate).unwrap();
                    w.submit(&hw_queue, 1, &[fill(&first, 5)]);
                }
            }
            evict(w, &[&first]);
            let paging_fence_value = pending(w, &queue, &second);
            w.pass(1_000_000_000);
            assert!(queue.fence.value.load() < paging_fence_value, "it is in use");
            w.signal(&gate, 1);
            w.wait(queue.fence.handle, paging_fence_value).unwrap();
            assert!(w.stats().allocations_paged_out > before);
            assert_eq!(first_word(&first), filled(5), "the last use was complete");
            evict(w, &[&second]);
        }
    });
}

/// The old doorbell is not destroyed, and has announced less work than the new one.
// spec: RES-006
#[test]
fn the_last_use_of_a_resized_queue_is_what_its_new_ring_announced() {
    let patient = world_with(|config| {
        config.gpu.local_memory_bytes = BYTES;
        config.kernel.paging_timeout_ns = u64::MAX;
    });
    patient.run(|w| {
        let paging = w.paging_queue();
        let (first, second) = (on_demand(w), on_demand(w));
        resident(w, &paging, &[&first]);
        let gate = w.native(0);
        let old = w.connected_queue(0);
        let resize = CreateDoorbellFlags::RESIZE_RING_BUFFER_OPERATION;
        let new = w.with_ring_of(128, resize, old.queue.clone());
        new.connect().unwrap();
        let (commands, bytes) = w.commands(&[fill(&first, 5)]);
        new.put(&wait_packet(&gate, 1, NO_LOG_ENTRY));
        new.put(&RingPacket::execute(GpuVa(commands), bytes, 1));
        new.doorbell.last_queued.store(1);
        new.ring();
        evict(w, &[&first]);
        let paging_fence_value = pending(w, &paging, &second);
        w.pass(1_000_000_000);
        assert!(paging.fence.value.load() < paging_fence_value, "it is in use");
        w.signal(&gate, 1);
        w.wait(paging.fence.handle, paging_fence_value).unwrap();
        assert_eq!(first_word(&first), filled(5), "the last use was complete");
        assert_eq!(old.doorbell.last_queued.load(), 0);
    });
}

// spec: RES-008
#[test]
fn an_allocation_that_needs_the_room_of_waiting_work_is_resident_in_system_memory() {
    small(1).run(|w| {
        let queue = w.paging_queue();
        let (held, needed) = (on_demand(w), on_demand(w));
        resident(w, &queue, &[&held]);
        let (gate, signals) = (w.native(0), w.hw_queue_on(1));
        let waits = fill_behind(w, &gate, &held, 3);
        evict(w, &[&held]);
        // What opens the gate needs the room of what waits at it.
        resident(w, &queue, &[&needed]);
        w.on_queue(&signals).run(1, &[fill(&needed, 4)]).signal(&gate, 1);
        evict(w, &[&needed]);
        w.wait(waits.progress_fence, 1).unwrap();
        assert_eq!((first_word(&held), first_word(&needed)), (filled(3), filled(4)));
        // Another time there is room.
        resident(w, &queue, &[&needed]);
        assert_eq!((used(w), first_word(&needed)), (BYTES, filled(4)));
    });
}

/// Waiting work keeps its room for too long. That room was promised to other allocations, which
/// have been evicted since.
// spec: RES-008
#[test]
fn never_is_more_in_local_memory_than_fits_when_work_keeps_room_that_was_promised() {
    for passing in 1..=3 {
        let w = small(1).run(move |w| {
            let queue = w.paging_queue();
            let (held, needed) = (on_demand(w), on_demand(w));
            let others: Vec<Allocation> = (0..passing).map(|_| on_demand(w)).collect();
            resident(w, &queue, &[&held]);
            let (gate, signals) = (w.native(0), w.hw_queue_on(1));
            let waits = fill_behind(w, &gate, &held, 3);
            evict(w, &[&held]);
            for other in &others {
                pending(w, &queue, other);
                evict(w, &[other]);
            }
            resident(w, &queue, &[&needed]);
            assert_eq!(used(w), BYTES, "the work that waits has it");
            w.on_queue(&signals).run(1, &[fill(&needed, 4)]).signal(&gate, 1);
            w.wait(waits.progress_fence, 1).unwrap();
            assert_eq!((first_word(&held), first_word(&needed)), (filled(3), filled(4)));
            // Later there is room again, and no promise is left.
            evict(w, &[&needed]);
            for allocation in others.iter().chain([&needed]) {
                resident(w, &queue, &[allocation]);
                assert_eq!(used(w), BYTES);
                evict(w, &[allocation]);
            }
            assert_eq!(first_word(&needed), filled(4));
        });
        let memory = w.adapter().local_memory_use();
        assert_eq!(memory.most_bytes, memory.capacity_bytes, "{passing}");
    }
}

// spec: RES-004, RES-014
#[test]
fn too_much_at_once_is_refused_with_the_bytes_to_trim() {
    small(2).run(|w| {
        let queue = w.paging_queue();
        let three = [on_demand(w), on_demand(w), on_demand(w)];
        let all: Vec<&Allocation> = three.iter().collect();
        assert_eq!(w.make_resident(&queue, &all), Residency::OverBudget { bytes_to_trim: BYTES });
        let refused = w.kernel.evict(w.device, &[three[0].handle]);
        assert_eq!(refused, Err(Status::INVALID_PARAMETER), "no reference");
        resident(w, &queue, &all[..2]);
        assert_eq!(
            w.make_resident(&queue, &all[2..]),
            Residency::OverBudget { bytes_to_trim: BYTES }
        );
        assert_eq!(try_allocate(w, Placement::Local).err(), Some(Status::NO_MEMORY));
        let info = w.kernel.query_video_memory_info(SegmentGroup::Local).unwrap();
        assert_eq!((info.budget, info.current_usage), (2 * BYTES, 2 * BYTES));
        // Another process counts on what this one does not hold.
        let other = w.machine.open("other").unwrap();
        assert_eq!(other.query_video_memory_info(SegmentGroup::Local).unwrap().budget, 0);
        evict(w, &all[..1]);
        assert_eq!(other.query_video_memory_info(SegmentGroup::Local).unwrap().budget, BYTES);
        // One that is resident from birth sends another out.
        let born = try_allocate(w, Placement::Local).unwrap();
        window(&born).write(0, &[1]).unwrap();
        assert_eq!(used(w), 2 * BYTES);
        w.kernel.destroy_allocation(born.handle).unwrap();
        assert_eq!(used(w), BYTES);
    });
}

/// Memory that does not move has no paging operation, and its references are counted too.
// spec: RES-004
#[test]
fn each_reference_is_dropped_once() {
    small(2).run(|w| {
        let queue = w.paging_queue();
        let fixed = try_allocate(w, Placement::System).unwrap();
        for allocation in [&fixed, &on_demand(w)] {
            let drop_one = || w.kernel.evict(w.device, &[allocation.handle]);
            let mut held = 0;
            while drop_one().is_ok() {
                held += 1;
            }
            assert!(held <= 1, "an allocation begins with one reference at most");
            resident(w, &queue, &[allocation]);
            resident(w, &queue, &[allocation, allocation]);
            for reference in 1..=3 {
                assert_eq!(drop_one(), Ok(()), "reference {reference}");
            }
            assert_eq!(drop_one(), Err(Status::INVALID_PARAMETER));
        }
    });
}

/// Two operations wait for the same work, the urgent one in the queue that was made later.
// spec: RES-011
#[test]
fn a_paging_queue_of_higher_priority_goes_first_and_each_wait_is_on_the_timeline() {
    let patient = world_with(|config| {
        config.gpu.local_memory_bytes = 2 * BYTES;
        config.kernel.paging_timeout_ns = u64::MAX;
    });
    patient.platform.enable_tracing();
    let w = patient.run(|w| {
        let queue_of = |priority| {
            w.kernel.create_paging_queue(CreatePagingQueue { device: w.device, priority }).unwrap()
        };
        let (usual, urgent) =
            (queue_of(PagingPriority::Normal), queue_of(PagingPriority::AboveNormal));
        let (first, second, gate) = (on_demand(w), on_demand(w), w.native(0));
        resident(w, &usual, &[&first, &second]);
        let [used_first, used_second] =
            [&first, &second].map(|used| fill_behind(w, &gate, used, 5));
        evict(w, &[&first, &second]);
        let small = w.try_allocate(BYTES / 2, AllocationKind::Bulk, Placement::LocalOnDemand);
        let (whole, small) = (on_demand(w), small.unwrap());
        w.pass(1_000);
        let usual_value = pending(w, &usual, &whole);
        w.pass(1_000);
        let urgent_value = pending(w, &urgent, &small);
        w.pass(1_000);
        w.signal(&gate, 1);
        w.wait(usual.fence.handle, usual_value).unwrap();
        w.wait(urgent.fence.handle, urgent_value).unwrap();
        drop((used_first, used_second));
    });
    let trace = w.platform.take_trace("paging");
    let of_last = trace.records.iter().filter(|record| trace.name_of(record) == "page in");
    let of_last: Vec<_> = of_last.map(|r| (r.arg, r.start_ns - r.queued_ns)).skip(2).collect();
    assert_eq!(of_last, [(BYTES / 2, 1_000), (BYTES, 2_000)]);
}

#[test]
fn calls_check_what_they_are_given() {
    let w = small(2);
    let queue = w.paging_queue();
    let allocation = on_demand(&w);
    let other = w.another_device();
    let make = |paging_queue, allocations: &[Handle]| {
        w.kernel.make_resident(MakeResident { paging_queue, allocations })
    };
    let refused = Err(Status::INVALID_PARAMETER);
    assert_eq!(make(queue.handle, &[]), refused);
    assert_eq!(make(allocation.handle, &[allocation.handle]), refused);
    assert_eq!(make(queue.handle, &[queue.handle]), refused);
    assert_eq!(make(queue.handle, &vec![allocation.handle; 4097]), refused);
    let evicted = w.kernel.evict(other.device, &[allocation.handle]);
    assert_eq!(evicted, Err(Status::INVALID_PARAMETER));
    assert_eq!(make(other.paging_queue().handle, &[allocation.handle]), refused);
    let words = w.try_allocate(64, AllocationKind::Protocol, Placement::Local);
    assert_eq!(words.err(), Some(Status::NOT_SUPPORTED));
    w.kernel.destroy_device(other.device).unwrap();
}

/// A user-mode queue whose ring is `ring`.
fn doorbell(w: &World, ring: &Allocation) -> Result<Doorbell, Status> {
    let queue = w.try_hw_queue(0, true).unwrap();
    let control = w.allocate(CONTROL_WORDS as u64 * 8, AllocationKind::Protocol);
    w.kernel.create_doorbell(doorbell_args(queue.handle, ring, &control))
}

// spec: UMS-033, UMS-034, UMS-035
#[test]
fn a_doorbell_needs_its_ring_resident_and_keeps_it_so() {
    small(1).run(|w| {
        let queue = w.paging_queue();
        let (ring, other) = (on_demand(w), on_demand(w));
        let refused = doorbell(w, &ring).err();
        assert_eq!(refused, Some(Status::INVALID_PARAMETER), "its ring is not resident");
        resident(w, &queue, &[&ring]);
        let doorbell = doorbell(w, &ring).unwrap();
        // The process evicts it, and the doorbell keeps it.
        evict(w, &[&ring]);
        assert_eq!(
            w.make_resident(&queue, &[&other]),
            Residency::OverBudget { bytes_to_trim: BYTES }
        );
        w.kernel.destroy_allocation(ring.handle).unwrap();
        assert_eq!(used(w), BYTES);
        window(&ring).write(0, &[1]).unwrap();
        w.kernel.destroy_doorbell(doorbell.handle).unwrap();
        assert_eq!(used(w), 0);
        resident(w, &queue, &[&other]);
    });
}

/// A surface that a pending paging operation will move is not resident yet, although its process
/// has called MakeResident.
// spec: PRE-082
#[test]
fn a_surface_is_presented_when_paging_has_put_it_in_its_place() {
    let w = world_with(|config| {
        config.gpu.local_memory_bytes = BYTES;
        config.gpu.display =
            Some(DisplayConfig { refresh_period_ns: SETTLED_NS, ..DisplayConfig::default() });
    });
    w.run(|w| {
        let queue = w.paging_queue();
        let (surface, other) = (on_demand(w), on_demand(w));
        resident(w, &queue, &[&surface]);
        let (gate, shown, presents) = (w.native(0), w.native(0), w.hw_queue_on(0));
        let present = |value| {
            w.kernel.present(Present {
                queue: PresentQueue::HwQueue(presents.handle),
                allocation: surface.handle,
                surface: Surface::packed(64, 64, PixelFormat::A8B8G8R8),
                vid_pn_source_id: 0,
                sync_interval: 1,
                shown: Some(FenceValue { fence: shown.handle, value }),
            })
        };
        // Waiting work uses the surface. It is evicted when that work is done, and comes back after
        // the other one.
        fill_behind(w, &gate, &surface, 3);
        evict(w, &[&surface]);
        pending(w, &queue, &other);
        evict(w, &[&other]);
        let paging_fence_value = pending(w, &queue, &surface);
        assert_eq!(present(1), Err(Status::INVALID_PARAMETER), "it would move while it is shown");
        w.signal(&gate, 1);
        w.wait(queue.fence.handle, paging_fence_value).unwrap();
        present(1).unwrap();
        w.wait(shown.handle, 1).unwrap();
        // The screen shows it, so nothing else gets its room, although its process evicts it.
        evict(w, &[&surface]);
        assert_eq!(
            w.make_resident(&queue, &[&other]),
            Residency::OverBudget { bytes_to_trim: BYTES }
        );
    });
}

/// The same as [`small`], and power comes and goes.
fn managed(allocations: u64) -> World {
    world_with(|config| {
        config.gpu.local_memory_bytes = allocations * BYTES;
        config.kernel.power = PowerManagement::Managed;
        config.kernel.paging_timeout_ns = u64::MAX;
    })
}

/// A system that goes to sleep.
fn sleep(w: &World) -> DevicePowerState {
    w.pass(SETTLED_NS);
    w.adapter().set_power_state(DevicePowerState::D3).unwrap()
}

// spec: RES-015, UMS-037
#[test]
fn power_takes_rings_along_and_brings_them_back_as_they_were() {
    let w = managed(2).run(|w| {
        let queue = w.paging_queue();
        let (ring, idle) = (on_demand(w), on_demand(w));
        resident(w, &queue, &[&ring, &idle]);
        let doorbell = doorbell(w, &ring).unwrap();
        evict(w, &[&ring, &idle]);
        window(&ring).write(0, &11u64.to_le_bytes()).unwrap();
        assert_eq!(sleep(w), DevicePowerState::D3);
        assert_eq!((used(w), first_word(&ring)), (0, 11));
        // The process sees its memory while the device has no power, and does not wake it for that.
        window(&ring).write(0, &12u64.to_le_bytes()).unwrap();
        w.pass(SETTLED_NS);
        assert_eq!(w.adapter().power_state(), DevicePowerState::D3);
        w.kernel.connect_doorbell(doorbell.handle).unwrap();
        assert_eq!((used(w), first_word(&ring)), (BYTES, 12), "only the ring returns");
        w.kernel.destroy_doorbell(doorbell.handle).unwrap();
        assert_eq!(sleep(w), DevicePowerState::D3);
        resident(w, &queue, &[&idle]);
        assert_eq!((used(w), w.adapter().power_state()), (BYTES, DevicePowerState::D0));
    });
    assert_eq!(w.adapter().local_memory_use().most_bytes, 2 * BYTES);
}

#[test]
fn what_queued_work_uses_is_back_before_it_goes_on() {
    managed(1).run(|w| {
        let (queue, gate) = (w.paging_queue(), w.native(0));
        let (used_later, hw_queue) = (on_demand(w), w.hw_queue());
        for round in 1..=3 {
            resident(w, &queue, &[&used_later]);
            let at_gate = at(&gate, round);
            w.kernel.submit_wait_to_hw_queue(hw_queue.handle, &at_gate).unwrap();
            w.submit(&hw_queue, round, &[fill(&used_later, round as u32)]);
            // Only the queued work still holds it.
            evict(w, &[&used_later]);
            assert_eq!((sleep(w), used(w)), (DevicePowerState::D3, 0));
            w.signal(&gate, round);
            w.adapter().set_power_state(DevicePowerState::D0).unwrap();
            w.wait(hw_queue.progress_fence, round).unwrap();
            assert_eq!((used(w), first_word(&used_later)), (BYTES, filled(round)));
        }
        let state = w.state();
        assert!(matches!(state, Ok(DeviceState::Active)), "{state:?}");
    });
}

#[test]
fn memory_that_is_being_paged_keeps_the_power() {
    managed(1).run(|w| {
        let (queue, gate) = (w.paging_queue(), w.native(0));
        let (first, second) = (on_demand(w), on_demand(w));
        resident(w, &queue, &[&first]);
        fill_behind(w, &gate, &first, 5);
        evict(w, &[&first]);
        let paging_fence_value = pending(w, &queue, &second);
        assert_eq!((sleep(w), used(w)), (DevicePowerState::D0, BYTES));
        w.signal(&gate, 1);
        w.wait(queue.fence.handle, paging_fence_value).unwrap();
        assert_eq!(first_word(&first), filled(5));
        assert_eq!((sleep(w), used(w)), (DevicePowerState::D3, 0));
    });
}

/// The call that powers the device up may already hold what the return of the memory needs.
#[test]
fn every_call_that_wakes_the_device_finds_memory_where_it_was() {
    type Use = fn(&World, &Allocation);
    let uses: [(&str, Use); 5] = [
        ("a mapping in the same address space", |w, _| drop(w.bytes(64))),
        ("a packet that uses it", |w, allocation| {
            let (context, fence) = (w.context(0), w.monitored(0));
            let (commands_gpu_va, command_bytes) = w.commands(&[fill(allocation, 8)]);
            assert_eq!(sleep(w), DevicePowerState::D3);
            let args = SubmitCommand { context, commands_gpu_va, command_bytes };
            w.kernel.submit_command(args).unwrap();
            w.on(context).signal_and_wait(&fence, 1);
            assert_eq!(first_word(allocation), filled(8));
        }),
        ("an allocation that is resident from birth", |w, _| {
            let born = try_allocate(w, Placement::Local).unwrap();
            assert_eq!(used(w), 2 * BYTES);
            assert_eq!(sleep(w), DevicePowerState::D3);
            w.kernel.destroy_allocation(born.handle).unwrap();
        }),
        ("MakeResident", |w, _| {
            let queue = w.paging_queue();
            let other = on_demand(w);
            assert_eq!(sleep(w), DevicePowerState::D3);
            resident(w, &queue, &[&other]);
            evict(w, &[&other]);
            w.kernel.destroy_allocation(other.handle).unwrap();
        }),
        ("the end of another allocation", |w, _| {
            let other = w.allocate(BYTES, AllocationKind::Bulk);
            assert_eq!(sleep(w), DevicePowerState::D3);
            w.kernel.destroy_allocation(other.handle).unwrap();
        }),
    ];
    for (what, action) in uses {
        managed(2).run(move |w| {
            let (queue, allocation) = (w.paging_queue(), on_demand(w));
            resident(w, &queue, &[&allocation]);
            assert_eq!((sleep(w), used(w)), (DevicePowerState::D3, 0), "{what}");
            action(w, &allocation);
            assert_eq!(w.adapter().power_state(), DevicePowerState::D0, "{what}");
            assert_eq!(used(w), BYTES, "{what}");
        });
    }
}

fn buffer(device: &Device, name: &str) -> Buffer {
    let desc = BufferDesc::gpu_upload(name, BYTES);
    device.create_buffer(desc).unwrap()
}

/// An application with room for `allocations` in local memory.
fn app(platform: &Platform, allocations: u64, residency: ResidencyChoice) -> App {
    let options = DeviceOptions { residency, ..DeviceOptions::default() };
    App::on(platform, options, |config| config.gpu.local_memory_bytes = allocations * BYTES)
}

#[test]
fn an_application_can_manage_residency_itself() {
    let platform = Platform::virtual_time(StepCosts::free());
    app(&platform, 2, ResidencyChoice::Explicit).run(|device| {
        let (a, b) = (buffer(device, "a"), buffer(device, "b"));
        a.write(0, &[1]).unwrap();
        assert_eq!(device.video_memory().unwrap().current_usage, 2 * BYTES, "resident from birth");
        device.evict(&[&a]).unwrap();
        let c = buffer(device, "c");
        assert!(matches!(device.make_resident(&[&a]), Err(Error::OverBudget { bytes: BYTES, .. })));
        device.evict(&[&b, &c]).unwrap();
        device.make_resident(&[&a, &b]).unwrap();
        let mut byte = [0];
        a.read(0, &mut byte).unwrap();
        assert_eq!(byte, [1]);
        assert!(device.evict(&[&c]).is_err(), "it has no reference");
    });
}

/// Many buffers through little memory, on two engines that wait for each other, with the CPU
/// writing in between.
fn much_through_little(platform: &Platform, submission: Submission) {
    const BUFFERS: usize = 12;
    // The CPU writes while the first buffer is filled.
    let app = app(platform, 3, ResidencyChoice::Automatic).racing();
    let app = app.run(move |device| {
        let [compute, copy] = [CommandListType::Compute, CommandListType::Copy]
            .map(|list_type| device.queue(list_type, submission));
        let filled = device.fence(0);
        let buffers: Vec<Buffer> = (0..BUFFERS).map(|n| buffer(device, &format!("b{n}"))).collect();
        for round in 1..=3u32 {
            for (n, buffer) in buffers.iter().enumerate() {
                let value = round * 100 + n as u32;
                device.execute(&compute, |list| list.fill(buffer, 0, BYTES, value));
                compute.signal(&filled, u64::from(round) * 100 + n as u64).unwrap();
            }
            // Each one's second half becomes the first half of the one before it.
            for n in 1..BUFFERS {
                copy.wait(&filled, u64::from(round) * 100 + n as u64).unwrap();
                let (to, from) = (&buffers[n - 1], &buffers[n]);
                device.execute(&copy, |list| list.copy(to, 0, from, BYTES / 2, BYTES / 2));
            }
            // While all that is under way: the CPU waits for a move and loses nothing.
            buffers[0].write(BYTES - 4, &round.to_le_bytes()).unwrap();
            device.wait_idle().unwrap();
            for (n, buffer) in buffers.iter().enumerate() {
                let mut second = [0; 4];
                buffer.read(BYTES / 2, &mut second).unwrap();
                let of = |n: usize| round * 100 + n as u32;
                let next = if n + 1 < BUFFERS { n + 1 } else { n };
                assert_eq!(u32::from_le_bytes(second), of(n), "round {round}, buffer {n}");
                assert_eq!(
                    tidegate_testbed::first_word(buffer),
                    of(next),
                    "round {round}, buffer {n}"
                );
            }
        }
        let all: Vec<Arg<'_>> = buffers.iter().map(|b| Arg::Buffer(b, 0)).collect();
        let list = device
            .list(CommandListType::Compute, |list| list.dispatch_by_number(0, [1, 1, 1], &all));
        let refused = compute.execute(&[&list]);
        assert!(matches!(refused, Err(Error::OverBudget { .. })), "{refused:?}");
    });
    let adapter = app.machine.adapter();
    let (stats, memory) = (adapter.stats(), adapter.local_memory_use());
    assert!(stats.allocations_paged_out > 0 && stats.allocations_paged_in > BUFFERS as u64);
    assert!(memory.most_bytes <= memory.capacity_bytes);
}

// spec: RES-009
#[test]
fn submissions_keep_their_memory_resident_under_each_model() {
    for submission in Submission::ALL {
        much_through_little(&Platform::virtual_time(StepCosts::free()), submission);
        much_through_little(&Platform::closed_host(), submission);
    }
}

/// The user-mode queue of the raw surface waits for the paging fence in its ring.
#[test]
fn a_ring_waits_for_the_paging_fence() {
    small(1).run(|w| {
        let paging = w.paging_queue();
        let (first, second) = (on_demand(w), on_demand(w));
        let user = w.connected_queue(0);
        for (round, allocation) in (1u64..).zip([&first, &second, &first]) {
            if let Residency::Pending { paging_fence_value } =
                w.make_resident(&paging, &[allocation])
            {
                user.put(&wait_packet(&paging.fence, paging_fence_value, NO_LOG_ENTRY));
            }
            let packet = w.execute_packet(&[fill(allocation, round as u32)], round);
            user.doorbell.last_queued.store(round);
            user.push(&packet);
            evict(w, &[allocation]);
        }
        w.wait(user.queue.progress_fence, 3).unwrap();
        assert_eq!((first_word(&first), first_word(&second)), (filled(3), filled(2)));
    });
}

#[test]
fn the_fence_of_a_paging_queue_ends_with_the_queue() {
    let w = small(1);
    let before = w.adapter().census().fences;
    let queue = w.paging_queue();
    assert_eq!(w.adapter().census().fences, before + 1);
    w.kernel.destroy_paging_queue(queue.handle).unwrap();
    assert_eq!(w.adapter().census().fences, before);
    assert_eq!(w.wait(queue.fence.handle, 0), Err(Status::INVALID_PARAMETER));
}
