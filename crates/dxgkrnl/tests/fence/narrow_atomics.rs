//! A GPU that updates only 32 bits atomically: the kernel follows fences through the wrap of their
//! low halves, and refuses what it could not follow.

use tidegate::BadConfig;
use tidegate_testbed::prelude::*;

const BELOW_WRAP: u64 = 0x1_FFFF_FFF0;
const ABOVE_WRAP: u64 = 0x2_0000_0005;
const WINDOW: u64 = 0x7FFF_FFFF;

fn narrow(config: &mut MachineConfig) {
    config.gpu.atomics_64bit = false;
    config.driver.native_fence = false;
}

fn narrow_with(native_fence: bool) -> Result<World, MachineError> {
    setup(move |config| {
        narrow(config);
        config.driver.native_fence = native_fence;
    })
    .caps(|caps| assert!(caps.scheduling.contains(VidSchCaps::NO_64BIT_ATOMICS)))
    .try_start()
}

// spec: MF-017
#[test]
fn the_adapter_declares_it_and_keeps_no_histories() {
    let w = narrow_with(false).unwrap();
    let info = w.kernel.query_adapter_info();
    assert!(info.no_64bit_atomics && !info.native_gpu_fence_supported);
    assert!(w.monitored(0).epoch.is_none(), "it keeps no histories");
}

// spec: MF-017
#[test]
fn native_fences_on_it_are_a_contradiction() {
    let expected = BadConfig::NativeFencesWithout64BitAtomics;
    assert_eq!(narrow_with(true).err(), Some(MachineError::Config(expected)));
}

// spec: MF-018
#[test]
fn a_packet_that_stores_beyond_the_wrap_releases_waiters_for_the_whole_value() {
    world_with(narrow).run(|w| {
        let fence = w.monitored(BELOW_WRAP);
        assert_eq!(fence.value.load(), 0xFFFF_FFF0, "a process sees the low half");
        let [now, next, later] =
            [ABOVE_WRAP - 1, ABOVE_WRAP, ABOVE_WRAP + 1].map(|v| w.wait_event(&fence, v));
        w.submit_packet(w.context(0), &[store(fence.current_value_gpu_va, ABOVE_WRAP)]);
        w.pass(10_000);
        assert_eq!(fence.value.load(), 5);
        assert_eq!([now.is_set(), next.is_set(), later.is_set()], [true, true, false]);
        // A wait for what is behind the wrap is reached, one for what lies before it again is not.
        w.wait(fence.handle, BELOW_WRAP).unwrap();
        w.submit_packet(w.context(0), &[store(fence.current_value_gpu_va, BELOW_WRAP)]);
        w.pass(10_000);
        assert!(!w.wait_event(&fence, ABOVE_WRAP).is_set(), "it was rewound");
        w.signal(&fence, ABOVE_WRAP + 1);
        assert!(later.is_set());
    });
}

#[test]
fn waits_and_signals_of_queues_go_through_many_wraps() {
    world_with(narrow).run(|w| {
        let (ping, pong) = (w.monitored(BELOW_WRAP), w.monitored(BELOW_WRAP));
        let (first, second) = (w.context(0), w.context(1));
        for step in 1..=20 {
            let value = BELOW_WRAP + step * 0x6000_0000;
            w.on(second).wait(&ping, value).signal(&pong, value);
            match step % 3 {
                0 => w.signal(&ping, value),
                1 => w.kernel.signal_from_gpu(first, &at(&ping, value)).unwrap(),
                _ => w.submit_packet(first, &[store(ping.current_value_gpu_va, value)]),
            }
            w.wait(pong.handle, value).unwrap();
            assert_eq!(pong.value.load(), value & 0xFFFF_FFFF);
        }
    });
}

// spec: MF-019, MF-020
#[test]
fn what_lies_outside_the_window_is_refused_by_every_call() {
    let w = world_with(narrow);
    let fence = w.monitored(BELOW_WRAP);
    let (context, event) = (w.context(0), w.platform.event(true));
    let refused = Err(Status::INVALID_PARAMETER);
    for (value, outcome) in [
        (BELOW_WRAP + WINDOW, Ok(())),
        (BELOW_WRAP + WINDOW + 1, refused),
        (BELOW_WRAP - WINDOW, Ok(())),
        (BELOW_WRAP - WINDOW - 1, refused),
        (u64::MAX, refused),
        (0, refused),
    ] {
        let one = at(&fence, value);
        let wait = w.kernel.wait_from_cpu(&one, WaitMode::All, Some(event.clone()));
        assert_eq!(wait, outcome, "{value:#x}");
        assert_eq!(w.kernel.wait_from_gpu(context, &one), outcome, "{value:#x}");
        if outcome.is_err() {
            assert_eq!(w.kernel.signal_from_gpu(context, &one), outcome, "{value:#x}");
            assert_eq!(w.kernel.signal_from_cpu(&one, SignalFlags::ALLOW_FENCE_REWIND), outcome);
        }
    }
    assert_eq!(fence.value.load(), 0xFFFF_FFF0, "nothing of a refused call was done");
    // The window goes along with the value signalled last.
    w.signal(&fence, BELOW_WRAP + WINDOW);
    w.signal(&fence, BELOW_WRAP + 2 * WINDOW);
}

// spec: MF-021
#[test]
fn a_fence_that_the_gpu_never_reaches_is_64_bits_there_too() {
    let w = world_with(narrow);
    let fence = w.try_monitored(BELOW_WRAP, SyncObjectFlags::NO_GPU_ACCESS).unwrap();
    assert_eq!((fence.value.load(), fence.current_value_gpu_va), (BELOW_WRAP, 0));
    let event = w.wait_event(&fence, u64::MAX - 1);
    w.signal(&fence, u64::MAX - 1);
    assert!(event.is_set());
    assert_eq!(fence.value.load(), u64::MAX - 1);
}

#[test]
fn the_queue_api_reads_whole_values() {
    App::new(DeviceOptions::default(), narrow).run(|app| {
        let desc = QueueDesc::new(CommandListType::Copy).submission(Submission::Packet);
        let queue = app.create_queue(QueueDesc { node: Some(2), ..desc }).unwrap();
        let fence = app.fence(BELOW_WRAP);
        assert_eq!(fence.completed_value(), BELOW_WRAP);
        for value in (BELOW_WRAP..).step_by(0x7000_0000).skip(1).take(10) {
            queue.signal_and_wait(&fence, value);
            assert_eq!(fence.completed_value(), value);
        }
        queue.wait_idle().unwrap();
    });
}

/// Two adapters, each with or without 64-bit atomics, and a process on each.
fn pair(wide: [bool; 2]) -> (Arc<Machine>, [Client; 2]) {
    let platform = Platform::virtual_time(StepCosts::free());
    let config = |wide: bool| {
        let mut config = MachineConfig::standard(&platform);
        narrow(&mut config);
        config.gpu.atomics_64bit = wide;
        config
    };
    let machine = Machine::builder(&platform).reference(config(wide[0])).reference(config(wide[1]));
    let machine = Arc::new(machine.start().unwrap());
    let clients = [0, 1].map(|index| {
        let kernel = machine.open_on(index, "app").unwrap();
        let device = kernel.create_device().unwrap();
        Client::of(&platform, kernel, device)
    });
    (machine, clients)
}

const CROSS: SyncObjectFlags = SyncObjectFlags::SHARED
    .union(SyncObjectFlags::NT_SECURITY_SHARING)
    .union(SyncObjectFlags::CROSS_ADAPTER);

// spec: MF-098
#[test]
fn a_fence_is_not_opened_by_a_gpu_with_other_atomics() {
    for wide in [[false, true], [true, false]] {
        let (machine, [one, other]) = pair(wide);
        machine
            .run(move || {
                let handle = one.share_all(&one.try_monitored(0, CROSS).unwrap());
                let opened = other.open_shared(&handle, SyncObjectFlags::empty());
                assert_eq!(opened.err(), Some(Status::NOT_SUPPORTED), "{wide:?}");
                // No GPU accesses it: the kernel stores all 64 bits on both sides.
                let of_cpus = CROSS | SyncObjectFlags::NO_GPU_ACCESS;
                let handle = one.share_all(&one.try_monitored(0, of_cpus).unwrap());
                other.open_shared(&handle, SyncObjectFlags::empty()).unwrap();
            })
            .unwrap();
    }
}

// spec: MF-098
#[test]
fn members_of_a_fence_agree_above_32_bits_on_signals_of_each_side() {
    for wide in [false, true] {
        let (machine, clients) = pair([wide; 2]);
        machine
            .run(move || {
                let platform = clients[0].platform.clone();
                let first = clients[0].try_monitored(BELOW_WRAP, CROSS).unwrap();
                let handle = clients[0].share_all(&first);
                let context = [0, 1].map(|side: usize| clients[side].context(0));
                // The other adapter joins when the fence is above 2^32.
                clients[0].signal(&first, ABOVE_WRAP);
                let second = clients[1].open_shared(&handle, SyncObjectFlags::empty()).unwrap();
                let fences = [first, second];
                let mut value = ABOVE_WRAP;
                for step in 0..12 {
                    value += 0x6000_0000;
                    let side = step % 2;
                    let waits = [0, 1].map(|at: usize| clients[at].wait_event(&fences[at], value));
                    let later =
                        [0, 1].map(|at: usize| clients[at].wait_event(&fences[at], value + 1));
                    match step % 4 {
                        0 | 1 => clients[side].signal(&fences[side], value),
                        _ => {
                            let signal = at(&fences[side], value);
                            clients[side].kernel.signal_from_gpu(context[side], &signal).unwrap();
                        }
                    }
                    platform.sleep_until(platform.now().after(1_000_000));
                    for at in 0..2 {
                        assert!(waits[at].is_set(), "64 bits {wide}: step {step}, side {at}");
                        assert!(!later[at].is_set(), "64 bits {wide}: step {step}, side {at}");
                        let expected = if wide { value } else { value & 0xFFFF_FFFF };
                        assert_eq!(fences[at].value.load(), expected);
                        // What is reached on one side is reached on the other.
                        clients[at].wait(fences[at].handle, value).unwrap();
                    }
                }
            })
            .unwrap();
        for index in 0..2 {
            assert_eq!(machine.adapter_at(index).bug_checks(), []);
        }
    }
}
