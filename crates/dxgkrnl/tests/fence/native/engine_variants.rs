//! What an engine does with fences by itself: whether it writes them, interrupts for a write, and
//! knows their kinds apart.

use tidegate_testbed::prelude::*;

/// Work that keeps an engine for a while.
const LONG: Command = Command::Timed { ns: 1_000_000 };

/// The engine of `node` interrupts for its writes to monitored fences.
fn advanced(node: usize) -> impl FnOnce(&mut MachineConfig) {
    move |config| {
        inline(config);
        config.gpu.nodes[node].notifies_fence_writes = true;
    }
}

/// A monitored fence, with a waiter for 5.
fn awaited(w: &World) -> (FenceInstance, Event) {
    let fence = w.monitored(0);
    let event = w.wait_event(&fence, 5);
    (fence, event)
}

/// Has the copy engine raise the fence to 5 from a hardware queue, whose completion the kernel does
/// not hear of.
fn raise_unheard(w: &World, fence: &FenceInstance) {
    let queue = w.hw_queue_on(2);
    w.on_queue(&queue).run(1, &[store(fence.current_value_gpu_va, 5)]).complete();
    assert_eq!(fence.value.load(), 5);
}

fn reads(w: &World) -> u64 {
    w.stats().fence_reads
}

// spec: MF-025
#[test]
fn a_completed_packet_has_the_fences_of_its_own_process_read() {
    let w = inline_world();
    // A second process, with a fence that its GPU work raises, and a context.
    let other = w.client("other");
    let (theirs, kernel) = (other.monitored(0), other.kernel.clone());
    let event = other.wait_event(&theirs, 5);
    w.run(move |w| {
        let mine = [awaited(w), awaited(w)];
        let unawaited = w.monitored(0);
        raise_unheard(w, &mine[0].0);
        assert!(!mine[0].1.is_set());
        let before = reads(w);
        w.submit_packet(w.context(0), &[store(unawaited.current_value_gpu_va, 1)]);
        w.pass(10_000);
        assert!(mine[0].1.is_set() && !mine[1].1.is_set());
        assert_eq!(
            reads(w) - before,
            2,
            "what this process waits for, and nothing of the other one"
        );
        assert!(!event.is_set());
        kernel.destroy_device(other.device).unwrap();
        assert!(event.is_set(), "a wait ends with its fence");
    });
}

// spec: MF-026, MF-053
#[test]
fn an_engine_with_advanced_monitoring_interrupts_for_each_write_and_not_for_completion() {
    world_with(advanced(0)).run(|w| {
        let caps = w.kernel.query_adapter_info();
        assert!(caps.nodes[0].writes_fences);
        let context = w.context(0);
        // The write is heard of while the packet still runs.
        let (fence, event) = awaited(w);
        w.submit_packet(context, &[store(fence.current_value_gpu_va, 5), LONG]);
        w.pass(1_000);
        assert!(event.is_set(), "no need to wait for the end of the packet");
        w.pass(2_000_000);
        // From a hardware queue too.
        let (fence, event) = awaited(w);
        let queue = w.hw_queue_on(0);
        w.submit(&queue, 1, &[store(fence.current_value_gpu_va, 5)]);
        w.pass(10_000);
        assert!(event.is_set());
        // After a completion nothing is read.
        let (raised, event) = awaited(w);
        raise_unheard(w, &raised);
        let before = reads(w);
        w.submit_packet(context, &[LONG]);
        w.pass(2_000_000);
        assert_eq!((event.is_set(), reads(w)), (false, before));
        // On an engine of the other sort it does.
        w.submit_packet(w.context(1), &[LONG]);
        w.pass(2_000_000);
        assert!(event.is_set());
    });
}

#[test]
fn a_copy_onto_a_monitored_fence_is_a_write_of_it() {
    world_with(advanced(2)).run(|w| {
        let (fence, event) = awaited(w);
        let (bytes, source) = w.bytes(64);
        bytes.write_u64(0, 5).unwrap();
        w.submit_packet(w.context(2), &[copy_word(fence.current_value_gpu_va, source), LONG]);
        w.pass(10_000);
        assert!(event.is_set());
        let before = w.stats().interrupts;
        let (_, scratch) = w.bytes(64);
        let queue = w.hw_queue_on(2);
        w.submit(&queue, 1, &[copy_word(scratch, source)]);
        w.pass(2_000_000);
        let stats = w.stats();
        assert_eq!(
            stats.interrupts - before,
            1,
            "the packet's end, and no word of the copy to memory without fences"
        );
    });
}

// spec: NF-128, NF-129
#[test]
fn hardware_that_does_not_know_fence_kinds_releases_waiters_of_both() {
    for mode in [
        InterruptMode::FenceArray,
        InterruptMode::NullArray,
        InterruptMode::HwQueue,
        InterruptMode::HwQueueArray,
    ] {
        world_with(|config| {
            advanced(2)(config);
            config.gpu.tells_fence_kinds = false;
            config.driver.interrupt = mode;
        })
        .run(move |w| {
            let (monitored, heard) = awaited(w);
            let (packets, ring) = (w.context(2), w.connected_queue(0));
            w.submit_packet(packets, &[store(monitored.current_value_gpu_va, 5), LONG]);
            w.pass(10_000);
            assert!(heard.is_set(), "{mode:?}");
            let (native, event) = w.native_awaited(5);
            ring.push(&signal_packet(&native, 5, 0));
            w.pass(10_000);
            assert!(event.is_set(), "{mode:?}");
            assert_eq!(w.gpu_stats().signals_collapsed, 0, "it is not that a list ran over");
        });
    }
}

/// The copy engine cannot write a fence.
fn without_writes(config: &mut MachineConfig) {
    config.gpu.nodes[2].writes_fences = false;
}

// spec: MF-052
#[test]
fn an_engine_that_cannot_write_a_fence_takes_packets_only() {
    world_with(without_writes).run(|w| {
        let nodes = w.kernel.query_adapter_info().nodes;
        assert_eq!([0, 1, 2].map(|n: usize| nodes[n].writes_fences), [true, true, false]);
        assert_eq!([0, 1, 2].map(|n: usize| nodes[n].user_mode_submission), [true, true, false]);
        assert_eq!(w.try_hw_queue(2, true).err(), Some(Status::NOT_SUPPORTED));
        assert_eq!(w.try_hw_queue(2, false).err(), Some(Status::NOT_SUPPORTED));
        assert!(w.try_hw_queue(1, true).is_ok());
        // Packets it takes, and the kernel signals for it.
        let (context, fence) = (w.context(2), w.monitored(0));
        w.on(context).run(&[LONG]).signal_and_wait(&fence, 1);
        assert!(w.platform.now().0 >= 1_000_000);
        assert_eq!(w.state(), Ok(DeviceState::Active));
    });
    let declared =
        setup(without_writes).caps(|caps| caps.nodes[2].user_mode_submission = true).try_start();
    let Err(MachineError::Start(error)) = declared else { panic!("its rings signal fences") };
    assert_eq!(error, StartError::UserModeSubmissionWithoutFenceWrites(2));
}

#[test]
fn a_fence_write_on_such_an_engine_is_a_command_that_it_cannot_run() {
    let (w, report) = world_with(without_writes).run_to_report(|w| {
        let fence = w.monitored(0);
        w.submit_packet(w.context(2), &[store(fence.current_value_gpu_va, 1)]);
        w.pass(10_000);
    });
    assert!(report.completed());
    let Ok(DeviceState::Faulted(fault)) = w.state() else { panic!("it faulted") };
    assert_eq!(fault.what, "a command that this engine cannot run");
}

// spec: MF-022
#[test]
fn the_queue_api_signals_by_kernel_call_for_an_engine_that_cannot() {
    for fences in [FenceChoice::Native, FenceChoice::Monitored] {
        let options = DeviceOptions { fences, ..DeviceOptions::default() };
        App::new(options, without_writes).run(|app| {
            let create = |submission| {
                let desc = QueueDesc::new(CommandListType::Copy).submission(submission);
                app.create_queue(QueueDesc { node: Some(2), ..desc })
            };
            for refused in [Submission::User, Submission::Hardware] {
                assert!(matches!(create(refused), Err(Error::NotSupported { .. })));
            }
            let queue = create(Submission::Packet).unwrap();
            let (fence, buffer) = (app.fence(0), app.readback(8));
            // So many that command memory must be used again, which progress allows.
            for value in 1..=500 {
                app.execute(&queue, |list| list.fill(&buffer, 0, 4, value));
                queue.signal(&fence, u64::from(value)).unwrap();
                if value % 50 == 0 {
                    queue.wait_idle().unwrap();
                }
            }
            fence.wait(500).unwrap();
            assert_eq!(first_word(&buffer), 500);
        });
    }
}

#[test]
fn basic_monitoring_is_what_an_engine_has_unless_it_says_otherwise() {
    assert_eq!(MonitoredNotification::default(), MonitoredNotification::Basic);
    let w = inline_world();
    let nodes = w.kernel.query_adapter_info().nodes;
    assert!(nodes.iter().all(|n| n.writes_fences));
}
