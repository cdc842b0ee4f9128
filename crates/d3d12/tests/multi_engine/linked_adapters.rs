//! One adapter of several physical GPUs: engines by node and engine ordinal, fences by engine
//! affinity, one CMP for all of them.

use tidegate_testbed::prelude::*;

/// Work that keeps an engine for this long, in nanoseconds.
const LONG_NS: u64 = 1_000_000;
const LONG: Command = Command::Timed { ns: LONG_NS };

/// Nodes of the standard machine.
const COMPUTE: u32 = 1;
const COPY: u32 = 2;

fn two(config: &mut MachineConfig) {
    config.gpu.physical_gpus = 2;
}

fn two_inline(config: &mut MachineConfig) {
    two(config);
    tidegate_testbed::inline(config);
}

/// The affinity that is the bit of a physical GPU.
fn on(gpu: u32) -> u32 {
    1 << gpu
}

fn try_context(w: &World, node_ordinal: u32, engine_affinity: u32) -> Result<Handle, Status> {
    w.affine(engine_affinity).try_context(node_ordinal, Priority::Normal)
}

fn context(w: &World, node_ordinal: u32, gpu: u32) -> Handle {
    try_context(w, node_ordinal, on(gpu)).unwrap()
}

fn hw_queue(w: &World, node_ordinal: u32, gpu: u32, user_mode_submission: bool) -> HwQueue {
    w.affine(on(gpu)).try_hw_queue(node_ordinal, user_mode_submission).unwrap()
}

/// A user-mode queue on a physical GPU, connected.
fn user_queue(w: &World, node_ordinal: u32, gpu: u32) -> UserQueue {
    let queue = w.with_ring(hw_queue(w, node_ordinal, gpu, true));
    queue.connect().unwrap();
    queue
}

fn try_fence(w: &World, native: bool, engine_affinity: u32) -> Result<FenceInstance, Status> {
    let (w, flags) = (w.affine(engine_affinity), SyncObjectFlags::empty());
    if native { w.try_native(0, flags) } else { w.try_monitored(0, flags) }
}

fn fault_of(client: &Client) -> FaultReport {
    match client.state() {
        Ok(DeviceState::Faulted(report)) => report,
        other => panic!("a fault was expected: {other:?}"),
    }
}

/// Queue, node ordinal and engine ordinal of a device's fault.
fn place_of_fault(client: &Client) -> (QueueNumber, u32, u32) {
    let fault = fault_of(client);
    (fault.queue, fault.node_ordinal, fault.engine_ordinal)
}

// ---- The queue API

fn linked_device(gpus: u32) -> (Machine, Device) {
    let platform = Platform::virtual_time(StepCosts::free());
    let machine = Machine::new(&platform, MachineConfig::standard(&platform).linked(gpus)).unwrap();
    let device = machine.device(DeviceOptions::default()).unwrap();
    (machine, device)
}

fn desc(submission: Submission, list_type: CommandListType, node_mask: u32) -> QueueDesc {
    let name = format!("{list_type} {node_mask}");
    QueueDesc::new(list_type).name(name).submission(submission).node_mask(node_mask)
}

/// Fills a buffer on the queue, and returns its last word.
fn fill(device: &Device, queue: &Queue, value: u32) -> u32 {
    let heap = Heap::GpuUpload;
    let buffer = device.create_buffer(BufferDesc::new("filled", 4096).heap(heap)).unwrap();
    let done = device.fence(0);
    device.execute(queue, |list| list.fill(&buffer, 0, 4096, value));
    queue.signal_and_wait(&done, 1);
    let mut bytes = [0; 4];
    buffer.read(4092, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

// spec: NF-320, NF-322
#[test]
fn a_program_runs_on_every_physical_gpu_in_every_model() {
    for gpus in 1..=4 {
        let (machine, device) = linked_device(gpus);
        assert_eq!(device.physical_gpus(), gpus);
        machine
            .run(move || {
                for (submission, list_type) in Submission::ALL.into_iter().flat_map(|s| {
                    [CommandListType::Direct, CommandListType::Compute, CommandListType::Copy]
                        .map(|t| (s, t))
                }) {
                    for gpu in 0..gpus {
                        let queue =
                            device.create_queue(desc(submission, list_type, on(gpu))).unwrap();
                        let value = 0x100 * (gpu + 1) + list_type as u32;
                        let filled = fill(&device, &queue, value);
                        assert_eq!(filled, value, "{submission} {list_type} on GPU {gpu}");
                    }
                    // 0 is the first one.
                    let queue = device.create_queue(desc(submission, list_type, 0)).unwrap();
                    assert_eq!(fill(&device, &queue, 9), 9);
                }
                for refused in [on(gpus), 0b11, 1 << 31, u32::MAX] {
                    let queue =
                        device.create_queue(desc(Submission::User, CommandListType::Copy, refused));
                    assert!(matches!(queue, Err(Error::BadValue { .. })), "{refused:#b}");
                }
            })
            .unwrap();
        assert_eq!(machine.adapter().bug_checks(), []);
        assert_eq!(machine.driver().violations(), []);
        let nodes = machine.gpu().stats().nodes;
        assert_eq!(nodes.len() as u32, 3 * gpus);
        assert!(nodes.iter().all(|node| node.packets > 0), "every engine worked: {nodes:?}");
        let name = if gpus == 1 { "copy" } else { "copy of GPU 0" };
        assert_eq!(nodes[2].name, name);
    }
}

#[test]
fn a_fault_says_on_which_physical_gpu() {
    let (machine, device) = linked_device(2);
    let own = device.clone();
    machine
        .run(move || {
            let queue =
                own.create_queue(desc(Submission::User, CommandListType::Copy, on(1))).unwrap();
            own.execute(&queue, |list| list.copy_unchecked(0xdead_0000, 0x1000, 64));
            assert!(queue.wait_idle().is_err());
        })
        .unwrap();
    let reason = device.removed_reason().unwrap().to_string();
    assert!(reason.starts_with("queue 'copy 2' on GPU 1, packet "), "{reason}");
}

// ---- Contexts and engines

// spec: NF-320
#[test]
fn a_context_runs_on_one_physical_gpu_that_is_there() {
    world_with(two).run(|w| {
        let hw = |node_ordinal, affinity| w.affine(affinity).try_hw_context(node_ordinal);
        w.driver.take();
        for affinity in [0b11, 0b100, 0b101, 1 << 31, u32::MAX] {
            let refused = [try_context(w, 0, affinity), hw(0, affinity)];
            assert_eq!(refused, [Err(Status::INVALID_PARAMETER); 2], "{affinity:#b}");
        }
        assert_eq!(try_context(w, 3, on(1)), Err(Status::INVALID_PARAMETER), "nodes do not run on");
        assert_eq!(w.driver.take_names(), Vec::<&str>::new(), "the driver got no call");
        for affinity in [0, 1, 2] {
            assert!(try_context(w, 0, affinity).is_ok() && hw(0, affinity).is_ok());
        }
    });
}

// spec: NF-323
#[test]
fn engines_of_two_physical_gpus_run_at_the_same_time() {
    world_with(two).run(|w| {
        let fences = [0, 1].map(|gpu| {
            let (context, fence) = (context(w, COMPUTE, gpu), w.monitored(0));
            w.on(context).run(&[LONG]).run(&[LONG, store(fence.current_value_gpu_va, 1)]);
            fence
        });
        w.pass(2 * LONG_NS - 10);
        let values = || fences.each_ref().map(|fence| fence.value.load());
        assert_eq!(values(), [0, 0]);
        w.pass(20);
        assert_eq!(values(), [1, 1], "neither waited for the other");
        assert!(w.gpu_stats().overlap_ns >= 2 * LONG_NS - 100);
    });
}

// ---- Fences

// spec: NF-322
#[test]
fn a_signal_on_one_physical_gpu_lets_a_wait_on_the_other_pass_without_the_cpu() {
    world_with(two).run(|w| {
        let (fence, back) = (w.native(0), w.native(0));
        let queues = [0, 1].map(|gpu| user_queue(w, COPY, gpu));
        let (bytes, va) = w.bytes(64);
        bytes.write_u64(0, 77).unwrap();
        let before = w.stats();
        for round in 1..=20 {
            queues[1].push(&wait_packet(&fence, round, 0));
            queues[1].push(&signal_packet(&back, round, 0));
            w.pass(10_000);
            assert_eq!(back.value.load(), round - 1, "GPU 1 waits");
            queues[0].push(&signal_packet(&fence, round, 0));
            queues[0].push(&wait_packet(&back, round, 0));
            w.pass(10_000);
            assert_eq!(back.value.load(), round);
        }
        let after = w.stats();
        assert_eq!(after.interrupts - before.interrupts, 0);
        assert_eq!(after.fence_reads - before.fence_reads, 0);
        // Work between kernel-mode queues of both crosses over as well.
        let (_, target) = w.bytes(64);
        let queue = hw_queue(w, COPY, 1, false);
        w.on_queue(&queue).wait(&fence, 21).run(1, &[copy_word(target, va)]);
        queues[0].push(&signal_packet(&fence, 21, 0));
        w.wait(queue.progress_fence, 1).unwrap();
    });
}

/// Which physical GPUs reach a fence of this affinity: every one signals it once, on a machine of
/// its own.
fn reached_by(native: bool, engine_affinity: u32) -> Vec<u32> {
    let signals = |gpu: u32| {
        let (w, report) = world_with(two).run_to_report(move |w| {
            let fence = try_fence(w, native, engine_affinity).unwrap();
            let queue = hw_queue(w, COPY, gpu, false);
            w.submit(&queue, 1, &[store(fence.current_value_gpu_va, 5)]);
            w.pass(10_000);
            if w.state() == Ok(DeviceState::Active) {
                assert_eq!(fence.value.load(), 5);
                return;
            }
            assert_eq!(place_of_fault(w), (w.number(queue.handle), COPY, gpu));
            let fault = fault_of(w);
            assert_eq!((fault.gpu_va, fault.write), (fence.current_value_gpu_va, true));
        });
        assert!(report.completed());
        assert_eq!(w.adapter().bug_checks(), []);
        assert_eq!(w.machine.driver().violations(), []);
        w.state() == Ok(DeviceState::Active)
    };
    (0..2).filter(|gpu| signals(*gpu)).collect()
}

// spec: MF-014, NF-105, NF-321
#[test]
fn a_fence_is_mapped_where_its_affinity_says_and_elsewhere_its_use_is_a_fault() {
    for native in [true, false] {
        for (affinity, gpus) in [(0, &[0, 1][..]), (0b01, &[0]), (0b10, &[1]), (0b11, &[0, 1])] {
            let reached = reached_by(native, affinity);
            assert_eq!(reached, gpus, "native {native}, affinity {affinity:#b}");
        }
    }
}

// spec: NF-106
#[test]
fn an_affinity_with_bits_of_absent_physical_gpus_is_refused() {
    for gpus in 1..=4 {
        world_with(|config| config.gpu.physical_gpus = gpus).run(move |w| {
            assert_eq!(w.adapter().physical_adapters(), gpus);
            assert_eq!(w.kernel.query_adapter_info().physical_adapters, gpus);
            for native in [true, false] {
                for affinity in 0..1 << gpus {
                    assert!(try_fence(w, native, affinity).is_ok(), "{affinity:#b} of {gpus}");
                }
                for absent in [1 << gpus, 1 << gpus | 1, 1 << 31, u32::MAX] {
                    let refused = try_fence(w, native, absent).err();
                    assert_eq!(refused, Some(Status::INVALID_PARAMETER), "{absent:#b} of {gpus}");
                }
            }
        });
    }
}

// spec: NF-321
#[test]
fn an_opened_fence_is_mapped_where_the_open_says() {
    world_with(two).run(|w| {
        let flags = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
        let made = w.try_native(0, flags).unwrap();
        let nt_handle = w.share_all(&made);
        let open = |affinity| w.affine(affinity).open_native(&nt_handle, SyncObjectFlags::empty());
        assert_eq!(open(0b100).err(), Some(Status::INVALID_PARAMETER));
        let (everywhere, second) = (open(0b11).unwrap(), open(0b10).unwrap());
        let addresses = [&everywhere, &made].map(|fence| fence.current_value_gpu_va);
        assert_eq!(addresses[0], addresses[1], "0 and all bits are the same");
        assert_ne!(second.current_value_gpu_va, made.current_value_gpu_va);
        let again = open(0b10).unwrap();
        assert_eq!(again.current_value_gpu_va, second.current_value_gpu_va);
        // A signal by either address is one of the same fence: it releases waiters on the CPU and
        // on a GPU.
        let queues = [0, 1].map(|gpu| user_queue(w, COPY, gpu));
        let event = w.wait_event(&made, 1);
        let done = w.native(0);
        queues[0].push(&wait_packet(&made, 1, 0));
        queues[0].push(&signal_packet(&done, 1, 0));
        w.pass(10_000);
        queues[1].push(&signal_packet(&second, 1, 0));
        w.pass(10_000);
        assert!(event.is_set());
        assert_eq!((made.value.load(), done.value.load()), (1, 1));
        // A CPU signal reaches queues that wait by an address that only the second GPU has.
        queues[1].push(&wait_packet(&second, 2, 0));
        queues[1].push(&signal_packet(&done, 2, 0));
        w.pass(10_000);
        w.signal(&made, 2);
        w.pass(10_000);
        assert_eq!(done.value.load(), 2);
        queues[0].push(&signal_packet(&second, 3, 0));
        w.pass(10_000);
        assert_eq!(place_of_fault(w), (w.number(queues[0].queue.handle), COPY, 0));
    });
}

#[test]
fn a_cpu_signal_reaches_queues_that_wait_for_a_fence_of_one_physical_gpu_only() {
    world_with(two).run(|w| {
        let (fence, done) = (try_fence(w, true, on(1)).unwrap(), w.native(0));
        let queue = user_queue(w, COPY, 1);
        queue.push(&wait_packet(&fence, 1, 0));
        queue.push(&signal_packet(&done, 1, 0));
        w.pass(10_000);
        w.signal(&fence, 1);
        w.pass(10_000);
        assert_eq!(done.value.load(), 1);
        w.kernel.destroy_synchronization_object(fence.handle).unwrap();
    });
}

// ---- Interrupts

/// What the driver reported, in order.
type Reports = Arc<Mutex<Vec<InterruptData>>>;

/// A world, and the reports of its driver.
fn tapped(change: impl FnOnce(&mut MachineConfig)) -> (World, Reports) {
    let reports: Reports = Arc::new(Platform::host().mutex("reports", Vec::new()));
    let own = reports.clone();
    let keep = filter_reports(move |data| {
        own.lock().push(data.clone());
        true
    });
    (setup(change).overriding(keep).start(), reports)
}

/// Type, node ordinal and engine ordinal of a report.
fn engine_of(data: &InterruptData) -> (&'static str, u32, u32) {
    let (kind, engine) = match data {
        InterruptData::DmaCompleted { engine, .. } => ("completed", engine),
        InterruptData::DmaPreempted { engine, .. } => ("preempted", engine),
        InterruptData::MonitoredFenceSignaled { engine } => ("monitored", engine),
        InterruptData::NativeFenceSignaled { engine, .. } => ("native", engine),
        InterruptData::HwQueuesSignaled { engine, .. } => ("queues", engine),
        InterruptData::DmaPageFaulted { engine, .. } => ("packet fault", engine),
        InterruptData::HwQueuePageFaulted { engine, .. } => ("queue fault", engine),
        InterruptData::EngineStateChange { engine, .. } => ("state", engine),
        InterruptData::SuspendContextCompleted { .. } => panic!("no driver here suspends later"),
        InterruptData::CrtcVsync { .. } => panic!("no machine here has a display"),
    };
    (kind, engine.node_ordinal, engine.engine_ordinal)
}

fn take(reports: &Reports) -> Vec<(&'static str, u32, u32)> {
    std::mem::take(&mut *reports.lock()).iter().map(engine_of).collect()
}

// spec: NF-324
#[test]
fn every_interrupt_names_node_and_physical_gpu() {
    for mode in [InterruptMode::FenceArray, InterruptMode::HwQueueArray] {
        let (w, reports) = tapped(|config| {
            two(config);
            config.gpu.nodes[0].notifies_fence_writes = true;
            config.driver.interrupt = mode;
        });
        w.run(move |w| {
            for gpu in [1, 0] {
                w.submit_packet(context(w, COMPUTE, gpu), &[LONG]);
                w.pass(2 * LONG_NS);
                assert_eq!(take(&reports), [("completed", COMPUTE, gpu)]);

                let (fence, event) = w.native_awaited(1);
                user_queue(w, COPY, gpu).push(&signal_packet(&fence, 1, 0));
                w.pass(10_000);
                let kind = if mode == InterruptMode::FenceArray { "native" } else { "queues" };
                assert_eq!((take(&reports), event.is_set()), (vec![(kind, COPY, gpu)], true));

                let fence = w.monitored(0);
                let event = w.wait_event(&fence, 1);
                w.submit_packet(context(w, 0, gpu), &[store(fence.current_value_gpu_va, 1), LONG]);
                w.pass(10_000);
                assert_eq!((take(&reports), event.is_set()), (vec![("monitored", 0, gpu)], true));
                w.pass(2 * LONG_NS);
                assert_eq!(take(&reports), [("completed", 0, gpu)]);
            }
            // Faults, each of a device of its own.
            for gpu in [0, 1] {
                let other = w.another_device().affine(on(gpu));
                let context = other.context(COPY);
                w.submit_packet(context, &[store(0x8, 1)]);
                w.pass(10_000);
                assert_eq!(take(&reports)[0], ("packet fault", COPY, gpu));
                assert_eq!(place_of_fault(&other), (w.number(context), COPY, gpu));
            }
            let queue = hw_queue(w, COMPUTE, 1, false);
            w.submit(&queue, 1, &[store(0x8, 1)]);
            w.pass(10_000);
            assert_eq!(take(&reports)[0], ("queue fault", COMPUTE, 1));
            assert_eq!(place_of_fault(w), (w.number(queue.handle), COMPUTE, 1));
        });
    }
}

// spec: NF-323
#[test]
fn submission_fence_ids_run_for_each_engine() {
    let (w, reports) = tapped(two);
    w.run(move |w| {
        let contexts = [0, 1].map(|gpu| context(w, COPY, gpu));
        for (gpu, packets) in [(0, 3), (1, 1), (0, 1), (1, 2)] {
            for _ in 0..packets {
                w.submit_packet(contexts[gpu], &[Command::Timed { ns: 1_000 }]);
                w.pass(10_000);
            }
        }
        let completed = |data: &InterruptData| match data {
            InterruptData::DmaCompleted { engine, submission_fence_id } => {
                (engine.engine_ordinal, *submission_fence_id)
            }
            other => panic!("{other:?}"),
        };
        let seen: Vec<_> = reports.lock().iter().map(completed).collect();
        assert_eq!(seen, [(0, 1), (0, 2), (0, 3), (1, 1), (0, 4), (1, 2), (1, 3)]);
    });
}

#[test]
fn with_logs_an_interrupt_without_a_queue_means_those_of_its_engine() {
    let logs = |config: &mut MachineConfig| {
        two(config);
        config.driver.interrupt = InterruptMode::HwQueue;
    };
    world_with(logs).run(|w| {
        for gpu in [0, 1] {
            // Two queues of one engine signal in one turn: none of them can be named.
            let (queues, fences) =
                ([0, 1].map(|_| user_queue(w, COPY, gpu)), [0, 1].map(|_| w.native(0)));
            let events = [0, 1].map(|n: usize| w.wait_event(&fences[n], 1));
            for (queue, fence) in queues.iter().zip(&fences) {
                queue.push(&signal_packet(fence, 1, 0));
            }
            w.pass(10_000);
            assert!(events.iter().all(|event| event.is_set()), "GPU {gpu}");
        }
    });
}

#[test]
fn a_report_of_a_physical_gpu_that_is_not_there_is_a_broken_contract() {
    let absent = |engine_ordinal| InterruptData::NativeFenceSignaled {
        engine: EngineId { node_ordinal: 0, engine_ordinal },
        fences: None,
        hw_queue: None,
        evaluate_legacy_monitored_fences: false,
    };
    let w = world_with(two_inline);
    w.hooked.interrupt(absent(1));
    assert_eq!(w.adapter().bug_checks(), []);
    w.hooked.interrupt(absent(2));
    assert_eq!(w.adapter().bug_checks(), [BugCheck::UnknownPhysicalAdapter(2)]);
    drop(w);
    // A node that is not there is no packet of another engine.
    let w = world_with(two_inline);
    w.hooked.interrupt(InterruptData::DmaCompleted {
        engine: EngineId::of_node(4),
        submission_fence_id: 0,
    });
    assert_eq!(
        w.adapter().bug_checks(),
        [BugCheck::UnknownPacket { node: 4, adapter: 0, fence_id: 0 }]
    );
}

// spec: NF-327
#[test]
fn an_adapter_has_one_to_four_physical_gpus() {
    for declared in [0, 5, u32::MAX] {
        let made = setup(two).caps(move |caps| caps.physical_adapters = declared).try_start();
        let Err(MachineError::Start(error)) = made.map(drop) else {
            panic!("{declared} cannot be")
        };
        assert_eq!(error, StartError::PhysicalAdapters(declared));
    }
}

// ---- Memory

// spec: NF-326
#[test]
fn each_physical_gpu_has_local_memory_that_the_others_reach() {
    world_with(two).run(|w| {
        let allocate = |placement| w.try_allocate(4096, AllocationKind::Bulk, placement);
        let made = [0, 1].map(|gpu| allocate(Placement::LocalOf(gpu)).unwrap());
        assert_eq!(allocate(Placement::LocalOf(2)).err(), Some(Status::INVALID_PARAMETER));
        let mapped: Vec<u64> = w.calls().pages.iter().map(|(at, _)| at.0).collect();
        let base = tidegate::softgpu::Config::default().local_memory_base.0;
        let local: Vec<u64> = mapped.into_iter().filter(|at| *at >= base).collect();
        assert_eq!(local.len(), 4, "two pages, on two physical GPUs each");
        assert_eq!((local[0], local[2]), (local[1], local[3]));
        assert!(local[2] - local[0] >= 1 << 40, "segments of their own");
        let [AllocationMemory::Window(first), AllocationMemory::Bulk(second)] =
            made.each_ref().map(|allocation| &allocation.memory)
        else {
            panic!("local memory of the first GPU moves, that of the second does not")
        };
        first.write(0, &42u64.to_le_bytes()).unwrap();
        for gpu in [0, 1] {
            let queue = hw_queue(w, COPY, gpu, false);
            w.on_queue(&queue)
                .run(1, &[copy_word(made[1].gpu_va + u64::from(gpu) * 8, made[0].gpu_va)])
                .complete();
        }
        assert_eq!([0, 8].map(|at| second.read_u64(at).unwrap()), [42, 42]);
    });
}

// spec: NF-326
#[test]
fn memory_that_is_given_back_is_reached_by_no_physical_gpu() {
    for gpu in [0, 1] {
        world_with(two).run(move |w| {
            let made = w.allocate(4096, AllocationKind::Bulk);
            let (_, source) = w.bytes(64);
            let queue = hw_queue(w, COPY, gpu, false);
            w.on_queue(&queue).run(1, &[copy_word(made.gpu_va, source)]).complete();
            w.kernel.destroy_allocation(made.handle).unwrap();
            w.submit(&queue, 2, &[copy_word(made.gpu_va, source)]);
            w.pass(10_000);
            assert_eq!(fault_of(w).engine_ordinal, gpu);
        });
    }
}

// ---- Loss of a device, and logs

// spec: NF-324
#[test]
fn a_device_that_is_lost_on_one_physical_gpu_leaves_others_on_both_alone() {
    let w = world_with(two);
    let other = w.client("other");
    let w = w.run(move |w| {
        // The other process has work on both, some of it under way.
        let fence = other.monitored(0);
        let contexts = [0, 1].map(|gpu| other.affine(on(gpu)).context(COPY));
        contexts.iter().for_each(|context| other.submit_packet(*context, &[LONG]));
        // This one has a queue on each, and faults on the second.
        let (mine, gate) = (w.native(0), w.native(0));
        let queues = [0, 1].map(|gpu| user_queue(w, COPY, gpu));
        queues[0].push(&wait_packet(&gate, 1, 0));
        let event = w.wait_event(&mine, 9);
        let beyond =
            FenceInstance { current_value_gpu_va: 0x8, monitored_value_gpu_va: 0, ..mine.clone() };
        queues[1].push(&signal_packet(&beyond, 1, 0));
        w.pass(2 * LONG_NS);
        assert!(event.is_set(), "the waiter is released");
        let fault = fault_of(w);
        let number = w.number(queues[1].queue.handle);
        assert_eq!((fault.queue, fault.engine_ordinal, fault.write), (number, 1, true));
        let refused = w.kernel.submit_wait_to_hw_queue(queues[0].queue.handle, &at(&gate, 2));
        assert_eq!(refused, Err(Status::DEVICE_REMOVED));
        // The other goes on.
        for (value, context) in (1..).zip(contexts) {
            other.on(context).run(&[LONG]).signal_and_wait(&fence, value);
        }
        assert_eq!(other.state(), Ok(DeviceState::Active));
    });
    assert_eq!(w.stats().devices_lost, 1);
}

// spec: NF-325
#[test]
fn log_times_that_a_linked_gpu_leaves_out_are_tolerated() {
    for mode in [InterruptMode::FenceArray, InterruptMode::HwQueue] {
        let w = world_with(|config| {
            two(config);
            config.gpu.skips_log_times_on = Some(1);
            config.driver.interrupt = mode;
        })
        .run(move |w| {
            w.pass(500);
            for gpu in [0, 1] {
                let queue = user_queue(w, COPY, gpu);
                let [.., waits, signals] = &w.calls().logs[..] else { panic!("two logs") };
                let (fence, gate) = (w.native(0), w.native(0));
                for (value, entry) in (1..).zip(0..3) {
                    let event = w.wait_event(&fence, value);
                    queue.push(&wait_packet(&gate, value, entry));
                    queue.push(&signal_packet(&fence, value, entry));
                    w.pass(10_000);
                    w.signal(&gate, value);
                    w.pass(10_000);
                    assert!(event.is_set(), "GPU {gpu}, {mode:?}");
                }
                for (log, handle) in [(waits, gate.handle), (signals, fence.handle)] {
                    let mut bytes = [0; 48];
                    log.entries.read(48, &mut bytes).unwrap();
                    let entry = LogEntry::decode(&bytes);
                    assert_eq!((entry.fence_value, entry.fence_handle), (2, handle.0));
                    assert_eq!(entry.end_ns == 0, gpu == 1);
                    assert!(entry.observed_ns == 0 || gpu == 0);
                }
            }
        });
        assert_eq!(w.adapter().log_time_faults(), []);
    }
}

// spec: NF-325
#[test]
fn an_entry_without_a_time_stands_on_the_timeline_where_it_was_read() {
    let app = App::new(DeviceOptions::default(), |config| {
        two(config);
        config.gpu.skips_log_times_on = Some(1);
    });
    app.platform().enable_tracing();
    let app = app.run(|app| {
        let copy = desc(Submission::User, CommandListType::Copy, on(1));
        let (queue, fence) = (app.create_queue(copy).unwrap(), app.fence(0));
        app.pass(LONG_NS);
        queue.signal_and_wait(&fence, 1);
    });
    let trace = app.platform().take_trace("log times");
    let signals: Vec<_> =
        trace.records.iter().filter(|r| r.kind == tidegate::trace::Kind::Signal).collect();
    assert!(!signals.is_empty());
    assert!(signals.iter().all(|record| record.end_ns >= LONG_NS), "{signals:?}");
}

// ---- With hardware variants and other adapters

#[test]
fn a_right_to_signal_that_comes_later_is_one_on_the_same_physical_gpus() {
    world_with(two).run(|w| {
        let flags = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
        let made = w.try_native(0, flags).unwrap();
        let nt_handle = w.share_all(&made);
        let open = |flags| w.affine(on(1)).open_native(&nt_handle, flags).unwrap();
        let silent = open(SyncObjectFlags::NO_SIGNAL);
        let second = open(SyncObjectFlags::empty());
        assert_eq!(silent.current_value_gpu_va, second.current_value_gpu_va);
        let queues = [0, 1].map(|gpu| user_queue(w, COPY, gpu));
        queues[1].push(&signal_packet(&second, 1, 0));
        w.pass(10_000);
        assert_eq!(made.value.load(), 1, "the mapping lets signals through now");
        queues[0].push(&signal_packet(&second, 2, 0));
        w.pass(10_000);
        // The first GPU still has no mapping.
        assert_eq!(place_of_fault(w), (w.number(queues[0].queue.handle), COPY, 0));
        assert!(fault_of(w).write);
    });
}

#[test]
fn the_cmp_keeps_shadows_of_fences_that_only_one_physical_gpu_reaches() {
    for mode in [InterruptMode::FenceArray, InterruptMode::HwQueue] {
        let shadowed = move |config: &mut MachineConfig| {
            (config.gpu.shadow_entries, config.gpu.posted_fence_writes) = (64, true);
            config.driver.interrupt = mode;
            config.gpu.physical_gpus = 2;
        };
        let w = world_with(shadowed).run(move |w| {
            for gpu in [0, 1] {
                let fence = try_fence(w, true, on(gpu)).unwrap();
                let queue = user_queue(w, COPY, gpu);
                let event = w.wait_event(&fence, 5);
                queue.push(&signal_packet(&fence, 5, 0));
                w.pass(10_000);
                assert!(event.is_set(), "GPU {gpu}, {mode:?}");
                // A value that comes while MonitoredValue changes is found by the CMP itself.
                let cell = w.current_word(&fence);
                w.hooked.once(Entry::UpdateMonitoredValues, move || _ = cell.store(9));
                assert!(w.wait_event(&fence, 8).is_set());
                w.pass(10_000);
            }
        });
        let gpu = w.gpu_stats();
        assert_eq!((gpu.shadow_updates, gpu.shadow_interrupts), (8, 2), "{mode:?}");
    }
}

/// Two adapters of two physical GPUs each, linked by doorbells or by the kernel.
#[test]
fn a_cross_adapter_fence_joins_the_physical_gpus_of_two_linked_adapters() {
    let alone = PeerSignalCaps::default();
    let doorbell = PeerSignalCaps { common_doorbell: true, shared_fence_storage: false };
    for caps in [alone, doorbell, PeerSignalCaps { shared_fence_storage: true, ..doorbell }] {
        let platform = Platform::virtual_time(StepCosts::free());
        let two_of_two = Adapters::with(&platform, &[Kind::CAPABLE; 2], move |_, config| {
            config.gpu.physical_gpus = 2;
            config.driver.peer_signal = caps;
        });
        two_of_two.run(|w| {
            let (fences, _handle) = w.fence_from(0, 0);
            let queue = |adapter: usize, submission, gpu| {
                let desc = desc(submission, CommandListType::Copy, on(gpu));
                w.devices[adapter].create_queue(desc).unwrap()
            };
            let mut value = 0;
            for submission in Submission::ALL {
                for (from, to) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let queues = [queue(0, submission, from), queue(1, submission, to)];
                    value += 1;
                    queues[1].wait(&fences[1], value).unwrap();
                    let done = w.devices[1].create_fence("done", 0).unwrap();
                    queues[1].signal(&done, 1).unwrap();
                    queues[0].signal(&fences[0], value).unwrap();
                    done.wait(1).unwrap();
                    // And back, to the CPU.
                    value += 1;
                    queues[1].signal(&fences[1], value).unwrap();
                    fences[0].wait(value).unwrap();
                }
            }
        });
    }
}

#[test]
fn local_memory_of_two_linked_adapters_does_not_meet() {
    use tidegate::gpu_abi::Device as _;
    let platform = Platform::virtual_time(StepCosts::free());
    let config = || MachineConfig::standard(&platform).linked(4);
    let machine = Machine::builder(&platform).reference(config()).reference(config());
    let machine = machine.start().unwrap();
    let memories = (0..2).flat_map(|adapter| (0..4).map(move |gpu| (adapter, gpu)));
    let starts: Vec<u64> =
        memories.map(|(a, gpu)| machine.gpu_at(a).local_memory(gpu).unwrap().bulk(8).0.0).collect();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 1 << 40), "{starts:x?}");
}

#[test]
fn fence_storage_that_moves_stays_on_its_physical_gpus() {
    let local = |config: &mut MachineConfig| {
        config.kernel.native_fence_os_caps = NativeFenceOsCaps::all();
        config.driver.local_monitored_values = true;
        config.gpu.physical_gpus = 2;
    };
    world_with(local).run(|w| {
        let fence = try_fence(w, true, on(1)).unwrap();
        let queues = [0, 1].map(|gpu| user_queue(w, COPY, gpu));
        let event = w.wait_event(&fence, 2);
        queues[1].push(&signal_packet(&fence, 1, 0));
        w.pass(10_000);
        assert!(w.adapter().local_fence_storage_bytes() > 0);
        assert!(w.adapter().trim_fence_storage(0).unwrap() > 0);
        assert_eq!(w.adapter().local_fence_storage_bytes(), 0);
        queues[1].push(&signal_packet(&fence, 2, 1));
        w.pass(10_000);
        assert!(event.is_set() && fence.value.load() == 2, "the second GPU reaches the new place");
        queues[0].push(&signal_packet(&fence, 3, 0));
        w.pass(10_000);
        let number = w.number(queues[0].queue.handle);
        assert_eq!(place_of_fault(w), (number, COPY, 0), "the first GPU does not");
    });
}
