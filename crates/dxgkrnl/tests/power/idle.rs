//! What an idle machine costs: on the host, with thousands of connected queues without rings. Not
//! part of the usual run, since it measures processor time:
//! `cargo test --profile quick -p tidegate-dxgkrnl --test power idle -- --ignored --nocapture`.

use tidegate::dxgkrnl::TdrConfig;
use tidegate::platform::os::process_cpu_ns;
use tidegate_testbed::prelude::*;

const QUEUES: u32 = 4_096;
const IDLE_NS: u64 = 10_000_000_000;
/// Of one processor.
const MOST_PERCENT: f64 = 0.1;

#[test]
#[ignore = "measures ten seconds of the wall clock"]
fn an_idle_gpu_with_4096_connected_queues_uses_no_cpu() {
    let platform = Platform::closed_host();
    let mut config = MachineConfig::standard(&platform);
    config.driver.doorbells = DoorbellModel::Global;
    let machine = Machine::new(&platform, config).unwrap();
    let options = DeviceOptions { ring_slots: 16, ..DeviceOptions::default() };
    let device = machine.device(options).unwrap();
    let queue = |number: u32| {
        device.create_queue(QueueDesc {
            name: format!("queue {number}"),
            node: Some(number % 3),
            ..QueueDesc::new(CommandListType::Copy).submission(Submission::User)
        })
    };
    let queues: Vec<Queue> = (0..QUEUES).map(|number| queue(number).unwrap()).collect();
    let fence = device.create_fence("rung", 0).unwrap();
    let used: Arc<OnceLock<u64>> = Arc::default();
    let (measured, clock) = (used.clone(), platform.clone());
    machine
        .run(move || {
            for (value, queue) in (1..).zip(&queues) {
                queue.signal_and_wait(&fence, value);
            }
            assert!(queues.iter().all(|queue| queue.stats().connects == 1));
            // The engines poll for a moment before they park, and the kernel checks once more what
            // was submitted last, a timeout delay later.
            clock.sleep_until(clock.now().after(2 * TdrConfig::standard().delay_ns));
            let (before, parked) = (process_cpu_ns(), clock.parking_counts());
            clock.sleep_until(clock.now().after(IDLE_NS));
            measured.set(process_cpu_ns() - before).unwrap();
            // No thread has woken, not even the watch for machines that stand still.
            assert_eq!(clock.parking_counts(), parked);
            // A ring of each queue is still served.
            for (value, queue) in (u64::from(QUEUES) + 1..).zip([&queues[0], &queues[4_095]]) {
                queue.signal_and_wait(&fence, value);
            }
        })
        .unwrap();
    let percent = *used.get().unwrap() as f64 / IDLE_NS as f64 * 100.0;
    println!(
        "{QUEUES} connected idle queues: {percent:.4} % of one processor over {} s",
        IDLE_NS / 1_000_000_000
    );
    assert!(percent < MOST_PERCENT, "{percent} % of one processor");
}
