//! Page faults of hardware queues: all that is reported of them, the object that they name, which
//! reports are invalid, and that other devices are not affected.

use tidegate_testbed::prelude::*;

/// Nothing is ever mapped here.
const NOWHERE: u64 = 1 << 46;

/// A process with a hardware queue of its own.
struct Neighbour {
    client: Client,
    queue: HwQueue,
}

impl Neighbour {
    fn new(w: &World, node_ordinal: u32) -> Neighbour {
        Neighbour::of(w.client("a neighbour"), node_ordinal)
    }

    fn of(client: Client, node_ordinal: u32) -> Neighbour {
        let queue = client.hw_queue_on(node_ordinal);
        Neighbour { client, queue }
    }

    fn submit(&self, progress_fence_id: u64, commands: &[Command]) {
        self.client.submit(&self.queue, progress_fence_id, commands);
    }

    fn wait(&self, value: u64) -> Result<(), Status> {
        self.client.wait_progress(&self.queue, value)
    }

    fn state(&self) -> DeviceState {
        self.client.state().unwrap()
    }
}

fn report_of(state: DeviceState) -> FaultReport {
    match state {
        DeviceState::Faulted(report) => report,
        other => panic!("a fault was expected: {other:?}"),
    }
}

fn faulted(w: &World) -> FaultReport {
    report_of(w.state().unwrap())
}

// spec: HS-016, HS-018, HS-020
#[test]
fn a_fault_of_a_queue_comes_back_with_all_its_fields_and_others_do_not_notice() {
    world().run(|w| {
        let (queue, neighbour) = (w.hw_queue(), Neighbour::new(w, 0));
        let (_, here) = w.bytes(4096);
        neighbour.submit(1, &[Command::Timed { ns: 1_000_000 }]);
        w.submit(&queue, 3, &[store(here, 1)]);
        w.submit(&queue, 7, &[store(here, 2), Command::Label { name: 1 }, store(NOWHERE, 3)]);
        neighbour.submit(2, &[Command::Timed { ns: 1_000_000 }]);
        let _lost = w.wait(queue.progress_fence, 7);
        let report = faulted(w);
        let expected = FaultReport {
            queue: w.number(queue.handle),
            position: 1,
            fence_id: 7,
            gpu_va: NOWHERE,
            write: true,
            flags: PageFaultFlags::WRITE,
            primitive_api_sequence_number: 2,
            page_table_level: 3,
            what: report.what.clone(),
            ..FaultReport::default()
        };
        assert_eq!(report, expected);
        // The neighbour goes on.
        neighbour.wait(2).unwrap();
        neighbour.submit(3, &[Command::Timed { ns: 1_000 }]);
        neighbour.wait(3).unwrap();
        assert_eq!(neighbour.state(), DeviceState::Active);
        assert_eq!(w.stats().devices_lost, 1);
    });
}

// spec: HS-016
#[test]
fn user_mode_queues_fault_with_the_same_fields() {
    world().run(|w| {
        let queue = w.connected_queue(0);
        let packet = w.execute_packet(&[store(NOWHERE, 1)], 5);
        queue.push(&RingPacket::Nop);
        queue.push(&packet);
        w.pass(1_000_000);
        let report = faulted(w);
        let place = (report.position, report.fence_id, report.primitive_api_sequence_number);
        assert_eq!(place, (1, 5, 1));
        assert_eq!((report.gpu_va, report.error_code), (NOWHERE, FaultErrorCode(0)));
    });
    // A slot that makes no sense is not a command of any buffer, and no page fault: an instruction
    // that makes none.
    world().run(|w| {
        let queue = w.connected_queue(0);
        queue.push(&RingPacket::execute(GpuVa(NOWHERE), 64, 9));
        w.pass(1_000_000);
        let report = faulted(w);
        assert_eq!((report.fence_id, report.write, report.page_table_level), (9, false, 3));
    });
}

/// The engine goes on behind a packet that faulted, so the packet is complete and leaves its room.
#[test]
fn a_packet_that_faulted_leaves_its_room_to_the_next_one() {
    world().run(|w| {
        let engine = EngineId::of_node(0);
        w.hooked.plant(|planted| planted.keeps_packets = true);
        let clients = ["a", "b", "c"].map(|name| w.client(name));
        for client in &clients {
            client.submit_packet(client.context(0), &[Command::Timed { ns: 1 }]);
        }
        let given = || {
            w.pass(1_000);
            let packets = w.calls().packets;
            packets.iter().map(|packet| packet.submission_fence_id).collect::<Vec<_>>()
        };
        assert_eq!(given(), [1, 2], "an engine has two packets");
        let fault = PageFault { gpu_va: NOWHERE, ..PageFault::default() };
        w.hooked.raise(&[InterruptData::DmaPageFaulted { engine, faulted_fence_id: 1, fault }]);
        assert_eq!(given(), [1, 2, 3]);
        let states = clients.each_ref().map(|client| client.state().unwrap());
        assert_eq!(report_of(states[0].clone()).gpu_va, NOWHERE);
        assert_eq!(states[1..], [DeviceState::Active, DeviceState::Active]);
        w.hooked.raise(&[InterruptData::DmaCompleted { engine, submission_fence_id: 3 }]);
        w.pass(1_000);
    });
}

// spec: HS-017, HS-018
#[test]
fn hardware_that_knows_less_than_the_queue_names_context_process_or_engine() {
    use FaultNaming::{Engine, HwContext, HwQueue, Process};
    for faults_name in [HwQueue, HwContext, Process, Engine] {
        world_with(|config| config.driver.faults_name = faults_name).run(move |w| {
            let (queue, neighbour) = (w.hw_queue(), Neighbour::new(w, 0));
            let twin = Neighbour::of(w.another_device(), 1);
            w.submit(&queue, 4, &[store(NOWHERE, 3)]);
            w.pass(1_000_000);
            let state = w.state().unwrap();
            let twins = matches!(twin.state(), DeviceState::Faulted(_));
            assert_eq!(twins, faults_name == Process, "all devices of a process, or one");
            match faults_name {
                Engine => {
                    assert!(matches!(state, DeviceState::Hung(_)), "it has work on the engine")
                }
                _ => {
                    let report = report_of(state);
                    let arm = match faults_name {
                        HwContext => PageFaultFlags::HW_CONTEXT_VALID,
                        Process => PageFaultFlags::PROCESS_HANDLE_VALID,
                        _ => PageFaultFlags::empty(),
                    };
                    assert!(report.flags.contains(arm));
                    let knows_it = faults_name == HwQueue;
                    assert_eq!(report.flags.contains(PageFaultFlags::FENCE_INVALID), !knows_it);
                    assert_eq!(report.fence_id, if knows_it { 4 } else { 0 });
                    assert_eq!(report.gpu_va, NOWHERE);
                }
            }
            neighbour.submit(1, &[Command::Timed { ns: 1_000 }]);
            neighbour.wait(1).unwrap();
            assert_eq!(neighbour.state(), DeviceState::Active);
        });
    }
}

/// The engine goes on with the neighbour's work until it is reset.
// spec: HS-018
#[test]
fn a_reset_for_a_fault_without_a_name_blames_the_queue_that_faulted() {
    world_with(|config| config.driver.faults_name = FaultNaming::Engine).run(|w| {
        let (queue, neighbour) = (w.hw_queue(), Neighbour::new(w, 0));
        w.submit(&queue, 1, &[store(NOWHERE, 3)]);
        neighbour.submit(1, &[Command::Timed { ns: 1_000_000 }]);
        w.pass(2_000_000);
        let DeviceState::Hung(hang) = w.state().unwrap() else { panic!("{:?}", w.state()) };
        assert_eq!(hang.queue, QueueNumber::from(w.calls().queues[0].0.os_handle));
        assert!(matches!(neighbour.state(), DeviceState::Reset(_)), "{:?}", neighbour.state());
    });
}

fn planted(faulted: OsHandle, flags: PageFaultFlags) -> InterruptData {
    let fault = PageFault {
        gpu_va: 0x10,
        flags,
        pipeline_stage: RenderPipelineStage::PixelShader,
        what: "a planted fault",
        ..PageFault::default()
    };
    InterruptData::HwQueuePageFaulted {
        engine: EngineId::of_node(0),
        faulted,
        faulted_fence_id: 0,
        slot: 0,
        fault,
    }
}

fn on_node(node: u32, adapter: u32, mut data: InterruptData) -> InterruptData {
    if let InterruptData::HwQueuePageFaulted { engine, .. } = &mut data {
        *engine = EngineId { node_ordinal: node, engine_ordinal: adapter };
    }
    data
}

// spec: HS-017
#[test]
fn reports_that_make_no_sense_are_bug_checks() {
    type Case = fn(OsHandle, OsHandle) -> (InterruptData, BugCheck);
    const INVALID: PageFaultFlags = PageFaultFlags::FENCE_INVALID;
    const CONTEXT: PageFaultFlags = PageFaultFlags::HW_CONTEXT_VALID;
    const PROCESS: PageFaultFlags = PageFaultFlags::PROCESS_HANDLE_VALID;
    const BY_CONTEXT: PageFaultFlags = INVALID.union(CONTEXT);
    const BY_PROCESS: PageFaultFlags = INVALID.union(PROCESS);
    const UNKNOWN: OsHandle = OsHandle(0xDEAD_BEEF);
    const UNKNOWN_FLAG: PageFaultFlags = PageFaultFlags::from_bits_retain(0x100);
    const WRITE: PageFaultFlags = PageFaultFlags::WRITE;
    fn on_node_1(faulted: OsHandle) -> BugCheck {
        let [runs_on, engine] = [0, 1].map(EngineId::of_node);
        BugCheck::FaultOnAnotherEngine { engine, faulted: faulted.0, runs_on }
    }
    let cases: [Case; 11] = [
        |queue, _| (planted(queue, CONTEXT), BugCheck::PageFaultFlags(0x40)),
        |queue, _| (planted(queue, PROCESS), BugCheck::PageFaultFlags(0x80)),
        |queue, _| (planted(queue, INVALID | CONTEXT | PROCESS), BugCheck::PageFaultFlags(0xC2)),
        |queue, _| (planted(queue, UNKNOWN_FLAG), BugCheck::PageFaultFlags(0x100)),
        |queue, _| (on_node(9, 0, planted(queue, WRITE)), BugCheck::UnknownNode(9)),
        |queue, _| (on_node(0, 2, planted(queue, WRITE)), BugCheck::UnknownPhysicalAdapter(2)),
        |_, _| (planted(UNKNOWN, PageFaultFlags::empty()), BugCheck::UnknownQueue(UNKNOWN.0)),
        |queue, _| (planted(queue, BY_CONTEXT), BugCheck::UnknownContext(queue.0)),
        |_, _| (planted(UNKNOWN, BY_PROCESS), BugCheck::UnknownProcess(UNKNOWN.0)),
        |queue, _| (on_node(1, 0, planted(queue, PageFaultFlags::empty())), on_node_1(queue)),
        |_, context| (on_node(1, 0, planted(context, BY_CONTEXT)), on_node_1(context)),
    ];
    for case in cases {
        let w = inline_world();
        let _queue = w.hw_queue();
        let calls = w.calls();
        let (queue, context) = (calls.queues[0].0.os_handle, calls.contexts[0].0.os_handle);
        let (data, bug) = case(queue, context);
        w.hooked.interrupt(data);
        assert_eq!(w.adapter().bug_checks(), [bug]);
        assert_eq!(w.state(), Ok(DeviceState::Stopped));
    }
}

/// A planted fault of command buffer 1 of the first queue.
fn planted_buffer_1(w: &World) -> (OsHandle, InterruptData) {
    let hw_queue = w.calls().queues[0].0.os_handle;
    let mut data = planted(hw_queue, PageFaultFlags::empty());
    if let InterruptData::HwQueuePageFaulted { faulted_fence_id, .. } = &mut data {
        *faulted_fence_id = 1;
    }
    (hw_queue, data)
}

// spec: HS-017
#[test]
fn a_fault_of_a_command_buffer_that_was_never_submitted_is_a_bug_check() {
    let w = inline_world();
    let _queue = w.hw_queue();
    let (hw_queue, data) = planted_buffer_1(&w);
    w.hooked.interrupt(data);
    let bug = BugCheck::UnknownFaultedFence { hw_queue: hw_queue.0, fence_id: 1, submitted: 0 };
    assert_eq!(w.adapter().bug_checks(), [bug]);
}

// spec: HS-017
#[test]
fn the_faulted_fence_id_of_a_user_mode_queue_is_not_checked() {
    let w = inline_world();
    let _queue = w.connected_queue(0);
    let (_, data) = planted_buffer_1(&w);
    w.hooked.interrupt(data);
    assert_eq!(w.adapter().bug_checks(), []);
    assert_eq!(faulted(&w).pipeline_stage, RenderPipelineStage::PixelShader);
}

// spec: HS-019
#[test]
fn what_must_be_reset_takes_others_along() {
    let engine = PageFaultFlags::ENGINE_RESET_REQUIRED;
    let adapter = PageFaultFlags::ADAPTER_RESET_REQUIRED;
    let broken = PageFaultFlags::FATAL_HARDWARE_ERROR;
    for (flags, busy_lost, idle_lost, resets) in [
        (PageFaultFlags::WRITE, false, false, (0, 0)),
        (engine, true, false, (1, 0)),
        (adapter, true, true, (0, 1)),
        (broken, true, true, (0, 0)),
        (adapter | engine, true, true, (0, 1)),
    ] {
        world().run(move |w| {
            let (busy, idle) = (Neighbour::new(w, 0), Neighbour::new(w, 1));
            let _queue = w.hw_queue();
            busy.submit(1, &[Command::Timed { ns: 5_000_000 }]);
            let hw_queue = w.calls().queues.last().unwrap().0.os_handle;
            w.hooked.interrupt(planted(hw_queue, flags));
            w.pass(10_000_000);
            assert_eq!(faulted(w).flags, flags);
            assert_eq!(busy.state() != DeviceState::Active, busy_lost, "{flags:?}");
            if flags == engine {
                assert!(matches!(busy.state(), DeviceState::Reset(_)), "{:?}", busy.state());
            }
            assert_eq!(idle.state() != DeviceState::Active, idle_lost, "{flags:?}");
            let stats = w.stats();
            assert_eq!((stats.engine_timeouts, stats.adapter_resets), resets, "{flags:?}");
            assert_eq!(w.adapter().bug_checks(), []);
            // What was reset works for a new device.
            let next = Neighbour::new(w, 0);
            next.submit(1, &[Command::Timed { ns: 1_000 }]);
            next.wait(1).unwrap();
            assert_eq!(next.state(), DeviceState::Active, "{flags:?}");
        });
    }
}

// spec: HS-019
#[test]
fn an_adapter_that_a_fault_wants_reset_is_reset_unless_recovery_is_off() {
    let faults = |w: &World| {
        let idle = Neighbour::new(w, 1);
        let _queue = w.hw_queue();
        let hw_queue = w.calls().queues.last().unwrap().0.os_handle;
        w.hooked.interrupt(planted(hw_queue, PageFaultFlags::ADAPTER_RESET_REQUIRED));
        w.pass(1_000_000);
        let DeviceState::Reset(what) = idle.state() else { panic!("the adapter was reset") };
        assert!(what.contains("requested an adapter reset"), "{what}");
        assert_eq!(w.adapter().bug_checks(), []);
        w.stats().adapter_resets
    };
    world_with(tidegate_testbed::inline).run(move |w| assert_eq!(faults(w), 1));
    let without_recovery = world_with(|config| config.kernel.tdr.level = TdrLevel::Off);
    without_recovery.run(move |w| assert_eq!(faults(w), 0));
}

/// A fault may be reported while the queue or the context that it names is being destroyed. Nothing
/// is left that it could cost, and the contract is kept.
// spec: HS-017
#[test]
fn a_fault_of_an_object_that_is_being_destroyed_costs_nothing() {
    let by_context = PageFaultFlags::FENCE_INVALID | PageFaultFlags::HW_CONTEXT_VALID;
    for (entry, flags) in
        [(Entry::DestroyHwQueue, PageFaultFlags::empty()), (Entry::DestroyContext, by_context)]
    {
        world_with(tidegate_testbed::inline).run(move |w| {
            let (n, mine) = (w.client("ends"), w.hw_queue());
            let _queue = n.hw_queue();
            let calls = w.calls();
            let named = match entry {
                Entry::DestroyHwQueue => calls.queues.last().unwrap().0.os_handle,
                _ => calls.contexts.last().unwrap().0.os_handle,
            };
            let hooked = w.hooked.clone();
            w.hooked.once(entry, move || hooked.interrupt(planted(named, flags)));
            n.kernel.destroy_device(n.device).unwrap();
            w.on_queue(&mine).run(1, &[Command::Timed { ns: 1_000 }]).finish();
            assert_eq!((w.state(), w.stats().engine_timeouts), (Ok(DeviceState::Active), 0));
        });
    }
}
