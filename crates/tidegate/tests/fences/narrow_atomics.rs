//! A GPU that updates only 32 bits atomically: the kernel follows fences through the wrap of their
//! low halves, and refuses what it could not follow.

use tidegate::calls::{SignalFlags, Status, SyncObjectFlags, WaitMode};
use tidegate::d3d12::{CommandListType, DeviceOptions, QueueDesc};
use tidegate::ddi::VidSchCaps;
use tidegate::{BadConfig, MachineConfig, MachineError, Submission};
use tidegate_testbed::{App, QueueApi, World, at, setup, store, world_with};

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
            w.kernel.wait_from_gpu(second, &at(&ping, value)).unwrap();
            w.kernel.signal_from_gpu(second, &at(&pong, value)).unwrap();
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
            queue.signal(&fence, value).unwrap();
            fence.wait(value).unwrap();
            assert_eq!(fence.completed_value(), value);
        }
        queue.wait_idle().unwrap();
    });
}
