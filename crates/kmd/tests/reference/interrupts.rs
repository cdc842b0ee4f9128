//! What the kernel is told for each thing that a device can report, in each mode.

use tidegate_gpu_abi::regs::NodeTraits;
use tidegate_testbed::prelude::driver::*;

pub const SIGNALED: u64 = Cause::FENCE_SIGNALED.0;
const COLLAPSED: u64 = Cause::FENCE_COLLAPSED.0;

pub fn native(node_ordinal: u32, fences: Option<&[u64]>, hw_queue: Option<DriverHandle>) -> Event {
    Event::Notify(InterruptData::NativeFenceSignaled {
        engine: EngineId::of_node(node_ordinal),
        fences: fences.map(|f| f.iter().copied().map(OsHandle).collect()),
        hw_queue,
        evaluate_legacy_monitored_fences: false,
    })
}

pub fn with_dpc(mut reports: Vec<Event>) -> Vec<Event> {
    reports.extend([Event::QueueDpc, Event::NotifyDpc]);
    reports
}

/// Node queues are 0 to 2. Process 5: user queue 3 on node 1, user queue 4 on node 1, user queue 5
/// on node 2. Process 6: user queue 6 on node 0. Fences 0xF1 and 0xF2 are open in process 5, 0xF1
/// also in process 6.
pub struct Scene {
    pub machine: Machine,
    queues: [DriverHandle; 4],
}

pub fn scene(interrupt: InterruptMode) -> Scene {
    let machine = Machine::with(Config { interrupt, ..Config::standard() });
    let (five, six) = (machine.owned(5, 1), machine.owned(6, 0));
    let copy = machine.context(five.device, 2, true);
    let [first, second] = [machine.fence(0xF1), machine.fence(0xF2)];
    machine.open(first, five.device, 0x100);
    machine.open(second, five.device, 0x140);
    machine.open(first, six.device, 0x900);
    let progress = machine.fence(0xF3);
    let queues = [(five.context, 0x51), (five.context, 0x52), (copy, 0x53), (six.context, 0x61)]
        .map(|(context, os)| {
            let mut args = tidegate_testbed::bare_driver::queue_args(context, os, true, 0);
            args.progress_fence = tidegate_ddi::queue::ProgressFence::Native(progress);
            args.progress_current_gpu_va = 0x2000;
            args.progress_monitored_gpu_va = 0x3000;
            let queue = machine.driver.create_hw_queue(&machine.passive(), args).unwrap();
            machine.doorbell(queue, os + 0x100);
            queue
        });
    machine.journal.take();
    Scene { machine, queues }
}

// spec: NF-120, NF-121
#[test]
fn signalled_fences_are_named_by_the_kernel_s_own_handles() {
    let Scene { machine, .. } = scene(InterruptMode::FenceArray);
    let signals =
        [(QueueId(4), 0x140), (QueueId(3), 0x100), (QueueId(3), 0x140), (QueueId(6), 0x900)];
    let expected =
        with_dpc(vec![native(0, Some(&[0xF1]), None), native(1, Some(&[0xF1, 0xF2]), None)]);
    assert_eq!(machine.interrupt_with(SIGNALED, &signals), expected);
    assert_eq!(
        machine.interrupt_with(SIGNALED, &[(QueueId(5), 0x2000)]),
        with_dpc(vec![native(2, Some(&[0xF3]), None)])
    );
}

// spec: NF-126
#[test]
fn a_fence_that_cannot_be_told_makes_the_report_one_without_names() {
    let Scene { machine, .. } = scene(InterruptMode::FenceArray);
    // An address that no open fence of that process has, beside one that a fence has.
    let signals = [(QueueId(3), 0x100), (QueueId(3), 0x900), (QueueId(6), 0x900)];
    let expected = with_dpc(vec![native(0, Some(&[0xF1]), None), native(1, None, None)]);
    assert_eq!(machine.interrupt_with(SIGNALED, &signals), expected);
    // A queue that is not there, and a node's own queue, whose packets belong to any process.
    let gone = [(QueueId(77), 0x100), (QueueId(3), 0x100)];
    assert_eq!(machine.interrupt_with(SIGNALED, &gone), with_dpc(vec![native(0, None, None)]));
    assert_eq!(
        machine.interrupt_with(SIGNALED, &[(QueueId(2), 0x100)]),
        with_dpc(vec![native(2, None, None)])
    );
}

// spec: NF-124
#[test]
fn a_list_that_ran_over_names_nothing_and_is_emptied() {
    let Scene { machine, .. } = scene(InterruptMode::FenceArray);
    let reports = machine.interrupt_with(SIGNALED | COLLAPSED, &[(QueueId(3), 0x100)]);
    assert_eq!(reports, with_dpc(vec![native(0, None, None)]));
    assert!(machine.device.script.lock_device().signals.is_empty());
    // A later cause whose records were taken already has nothing to say.
    assert_eq!(machine.interrupt_with(SIGNALED, &[]), with_dpc(vec![]));
}

#[test]
fn a_device_that_cannot_tell_fences_says_which_engine() {
    let Scene { machine, .. } = scene(InterruptMode::NullArray);
    let signals = [(QueueId(3), 0x100), (QueueId(6), 0x900), (QueueId(4), 0x140)];
    assert_eq!(
        machine.interrupt_with(SIGNALED, &signals),
        with_dpc(vec![native(0, None, None), native(1, None, None)])
    );
}

// spec: NF-222, NF-228
#[test]
fn the_optimised_interrupt_names_one_queue_or_none() {
    let Scene { machine, queues } = scene(InterruptMode::HwQueue);
    let same_queue = [(QueueId(3), 0x100), (QueueId(3), 0x140)];
    assert_eq!(
        machine.interrupt_with(SIGNALED, &same_queue),
        with_dpc(vec![native(1, None, Some(queues[0]))])
    );
    let each_its_engine = [(QueueId(5), 0x100), (QueueId(6), 0x900)];
    assert_eq!(
        machine.interrupt_with(SIGNALED, &each_its_engine),
        with_dpc(vec![native(0, None, Some(queues[3])), native(2, None, Some(queues[2]))])
    );
    let two_of_one_engine = [(QueueId(3), 0x100), (QueueId(4), 0x140)];
    assert_eq!(
        machine.interrupt_with(SIGNALED, &two_of_one_engine),
        with_dpc(vec![native(1, None, None)])
    );
    // Nothing is known: each engine's logs must be read.
    let all: Vec<_> = (0..3).map(|node| native(node, None, None)).collect();
    assert_eq!(machine.interrupt_with(COLLAPSED, &[]), with_dpc(all));
}

fn named(node_ordinal: u32, hw_queues: &[DriverHandle]) -> Event {
    Event::Notify(InterruptData::HwQueuesSignaled {
        engine: EngineId::of_node(node_ordinal),
        hw_queues: hw_queues.to_vec(),
        evaluate_legacy_monitored_fences: false,
    })
}

#[test]
fn the_array_of_queues_names_each_queue_of_an_engine_once() {
    let Scene { machine, queues } = scene(InterruptMode::HwQueueArray);
    assert!(machine.driver.query_adapter_caps(&machine.passive()).signaled_hw_queue_array);
    let signals = [
        (QueueId(4), 0x140),
        (QueueId(3), 0x100),
        (QueueId(3), 0x140),
        (QueueId(6), 0x900),
        (QueueId(4), 0x1),
    ];
    let expected = with_dpc(vec![named(0, &queues[3..]), named(1, &queues[..2])]);
    assert_eq!(machine.interrupt_with(SIGNALED, &signals), expected);
    // The node's own queue has no handle: then no queue is named, and the kernel reads the logs of
    // all of the engine.
    let own = [(QueueId(1), 0x100), (QueueId(3), 0x100), (QueueId(5), 0x100)];
    let expected = with_dpc(vec![native(1, None, None), named(2, &queues[2..3])]);
    assert_eq!(machine.interrupt_with(SIGNALED, &own), expected);
    let all: Vec<_> = (0..3).map(|node| native(node, None, None)).collect();
    assert_eq!(machine.interrupt_with(COLLAPSED, &[]), with_dpc(all));
}

/// A started machine whose device says this about itself.
fn with_traits(interrupt: InterruptMode, traits: &[(Register, u64)]) -> Machine {
    let machine = Machine::cold(&Platform::host(), Config { interrupt, ..Config::standard() });
    machine.device.script.lock_device().traits.extend(traits.iter().copied());
    machine.start(tidegate_testbed::bare_driver::ALL).unwrap();
    machine.journal.take();
    machine
}

// spec: NF-129
#[test]
fn a_device_that_cannot_tell_fence_kinds_says_that_any_may_be_meant() {
    let traits = [(Register::DEVICE_TRAITS, DeviceTraits::FENCE_KINDS_ALIKE.0)];
    for (interrupt, nodes) in [(InterruptMode::FenceArray, 1), (InterruptMode::HwQueue, 3)] {
        let machine = with_traits(interrupt, &traits);
        machine.device.script.lock_device().causes.push_back(COLLAPSED);
        assert!(machine.driver.interrupt_routine(&machine.dirql()));
        let any = |node_ordinal| {
            Event::Notify(InterruptData::NativeFenceSignaled {
                engine: EngineId::of_node(node_ordinal),
                fences: None,
                hw_queue: None,
                evaluate_legacy_monitored_fences: true,
            })
        };
        let expected: Vec<_> = (0..nodes).map(any).chain([Event::QueueDpc]).collect();
        assert_eq!(machine.journal.take(), expected, "{interrupt:?}");
    }
}

#[test]
fn a_fence_that_the_cmp_found_is_named_where_fences_are_and_may_be_any_where_logs_tell() {
    let any = |nodes: u32| (0..nodes).map(|node| native(node, None, None)).collect::<Vec<_>>();
    for (interrupt, known, unknown) in [
        (InterruptMode::FenceArray, vec![native(0, Some(&[0xF1]), None)], any(1)),
        (InterruptMode::NullArray, any(1), any(1)),
        (InterruptMode::HwQueue, any(3), any(3)),
        (InterruptMode::HwQueueArray, any(3), any(3)),
    ] {
        let machine = scene(interrupt).machine;
        machine.device.script.lock_device().of_cmp.push_back((6, 0x900));
        assert_eq!(machine.interrupt_with(SIGNALED, &[]), with_dpc(known), "{interrupt:?}");
        machine.device.script.lock_device().of_cmp.push_back((7, 0x900));
        assert_eq!(machine.interrupt_with(SIGNALED, &[]), with_dpc(unknown), "{interrupt:?}");
    }
}

#[test]
fn engines_that_notify_of_fence_writes_are_reported_one_by_one() {
    let node = |n| Register::NODE_TRAITS.offset(n);
    let machine = with_traits(
        InterruptMode::FenceArray,
        &[(node(0), NodeTraits::NOTIFIES_FENCE_WRITES.0), (node(1), NodeTraits::NO_FENCE_WRITES.0)],
    );
    let nodes = machine.driver.query_adapter_caps(&machine.passive()).nodes;
    let (basic, advanced) = (MonitoredNotification::Basic, MonitoredNotification::Advanced);
    let declared = |n: usize| {
        (nodes[n].monitored_notification, nodes[n].writes_fences, nodes[n].user_mode_submission)
    };
    assert_eq!(
        [0, 1, 2].map(declared),
        [(advanced, true, true), (basic, false, false), (basic, true, true)]
    );
    {
        let mut script = machine.device.script.lock_device();
        script.causes.push_back(Cause::MONITORED_SIGNALED.0);
        script.monitored.push_back(0b101);
    }
    assert!(machine.driver.interrupt_routine(&machine.dirql()));
    let monitored = |node_ordinal| {
        Event::Notify(InterruptData::MonitoredFenceSignaled {
            engine: EngineId::of_node(node_ordinal),
        })
    };
    assert_eq!(machine.journal.take(), [monitored(0), monitored(2), Event::QueueDpc]);
}

#[test]
fn a_monitored_progress_fence_is_reported_as_one() {
    let (machine, owned) = Machine::with_owned(5, 1);
    machine.queue(owned.context, 0x51, false, 0x4000);
    machine.journal.take();
    let monitored =
        Event::Notify(InterruptData::MonitoredFenceSignaled { engine: EngineId::of_node(1) });
    assert_eq!(
        machine.interrupt_with(SIGNALED, &[(QueueId(3), 0x4000)]),
        with_dpc(vec![monitored])
    );
    // When it may be among what was lost, the kernel scans monitored fences too.
    let anything = Event::Notify(InterruptData::NativeFenceSignaled {
        engine: EngineId::of_node(0),
        fences: None,
        hw_queue: None,
        evaluate_legacy_monitored_fences: true,
    });
    assert_eq!(machine.interrupt_with(COLLAPSED, &[]), with_dpc(vec![anything]));
}

#[test]
fn without_native_fences_every_signal_is_of_a_monitored_one() {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    machine.start(&[]).unwrap();
    machine.journal.take();
    let routine = |signals: &[(QueueId, u64)], cause| {
        let mut script = machine.device.script.lock_device();
        script.causes.push_back(cause);
        script.signals.extend(signals.iter().copied().map(Some));
        drop(script);
        assert!(machine.driver.interrupt_routine(&machine.dirql()));
        machine.journal.take()
    };
    let monitored = |node_ordinal| {
        Event::Notify(InterruptData::MonitoredFenceSignaled {
            engine: EngineId::of_node(node_ordinal),
        })
    };
    assert_eq!(routine(&[(QueueId(1), 0x10)], SIGNALED), [monitored(1), Event::QueueDpc]);
    assert_eq!(
        routine(&[], COLLAPSED),
        [monitored(0), monitored(1), monitored(2), Event::QueueDpc]
    );
}

#[test]
fn completed_packets_are_reported_for_each_node_that_has_some() {
    let machine = Machine::standard();
    machine.device.script.lock_device().completed.extend([
        (0, 17),
        (1, 99),
        (2, u64::from(u32::MAX)),
    ]);
    let cause = Cause::DMA_COMPLETED.0 | Cause::engine(0).0 | Cause::engine(2).0;
    let done = |node_ordinal, submission_fence_id| {
        Event::Notify(InterruptData::DmaCompleted {
            engine: EngineId::of_node(node_ordinal),
            submission_fence_id,
        })
    };
    assert_eq!(machine.interrupt_with(cause, &[]), with_dpc(vec![done(0, 17), done(2, u32::MAX)]));
}

#[test]
fn a_cause_that_comes_meanwhile_is_served_by_the_same_routine() {
    let Scene { machine, .. } = scene(InterruptMode::FenceArray);
    let mut script = machine.device.script.lock_device();
    script.causes.extend([SIGNALED, Cause::engine(1).0, SIGNALED]);
    script.signals.extend([Some((QueueId(3), 0x100)), None, Some((QueueId(6), 0x900))]);
    script.completed.insert(1, 4);
    drop(script);
    let done = Event::Notify(InterruptData::DmaCompleted {
        engine: EngineId::of_node(1),
        submission_fence_id: 4,
    });
    let expected =
        with_dpc(vec![native(1, Some(&[0xF1]), None), done, native(0, Some(&[0xF1]), None)]);
    assert_eq!(machine.interrupt(), expected);
}

#[test]
fn an_interrupt_of_another_device_is_left_alone() {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    let routine = || machine.driver.interrupt_routine(&machine.dirql());
    machine.device.script.lock_device().causes.push_back(SIGNALED);
    assert!(!routine(), "not started");
    machine.device.script.lock_device().causes.clear();
    machine.start(tidegate_testbed::bare_driver::ALL).unwrap();
    machine.journal.take();
    assert!(!routine(), "no cause");
    machine.device.script.lock_device().causes.push_back(u64::MAX);
    assert!(!routine(), "no device responds on the bus");
    machine.driver.stop_device(&machine.passive());
    machine.journal.take();
    machine.device.script.lock_device().causes.push_back(SIGNALED);
    assert!(!routine(), "stopped");
    machine.driver.dpc_routine(&machine.dispatch());
    assert_eq!(machine.journal.take(), []);
}

#[test]
fn a_closed_fence_is_named_no_more_and_its_address_can_serve_another() {
    let Scene { machine, .. } = scene(InterruptMode::FenceArray);
    let (level, device) = (machine.passive(), machine.device_for(5));
    let fence = machine.driver.create_native_fence(&level, fence_args(0xF9)).unwrap().0;
    let [first, second] = [machine.open(fence, device, 0x700), machine.open(fence, device, 0x700)];
    let named = with_dpc(vec![native(1, Some(&[0xF9]), None)]);
    assert_eq!(machine.interrupt_with(SIGNALED, &[(QueueId(3), 0x700)]), named);
    machine.driver.close_native_fence(&level, first);
    assert_eq!(
        machine.interrupt_with(SIGNALED, &[(QueueId(3), 0x700)]),
        named,
        "another instance is open"
    );
    machine.driver.close_native_fence(&level, second);
    let unnamed = with_dpc(vec![native(1, None, None)]);
    assert_eq!(machine.interrupt_with(SIGNALED, &[(QueueId(3), 0x700)]), unnamed);
    machine.driver.destroy_native_fence(&level, fence);
    let next = machine.fence(0xFA);
    machine.open(next, device, 0x700);
    let named = with_dpc(vec![native(1, Some(&[0xFA]), None)]);
    assert_eq!(machine.interrupt_with(SIGNALED, &[(QueueId(3), 0x700)]), named);
    assert_eq!(machine.driver.violations(), []);
}
