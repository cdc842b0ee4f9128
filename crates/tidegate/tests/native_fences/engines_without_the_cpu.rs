//! What engines do among themselves reaches no CPU: no interrupt, no wake-up, no kernel call,
//! counted.

use tidegate::d3d12::{CommandListType, Counters, Device, DeviceOptions, Fence, Queue, QueueDesc};
use tidegate::dxgkrnl::KernelStats;
use tidegate::platform::StepCosts;
use tidegate::{Machine, MachineConfig, Platform, Submission};

fn user_queue(device: &Device, name: &str, list_type: CommandListType) -> Queue {
    let name = name.to_owned();
    device.create_queue(QueueDesc { name, ..QueueDesc::new(list_type, Submission::User) }).unwrap()
}

/// What the CPU did for it since the counts in `before`: interrupts, deferred routines, waiters
/// released, kernel calls, and blocking waits that came back.
fn troubled(machine: &Machine, device: &Device, before: &(KernelStats, Counters)) -> [u64; 5] {
    let (kernel, calls) = (machine.adapter().stats(), device.counters().since(&before.1));
    [
        kernel.interrupts - before.0.interrupts,
        kernel.dpcs - before.0.dpcs,
        kernel.cpu_wakes - before.0.cpu_wakes,
        calls.kernel_calls,
        calls.cpu_wakes,
    ]
}

/// Links of the chain; each waits for the other engine.
const LINKS: u64 = 10_000;

// spec: NF-006
#[test]
fn a_chain_of_ten_thousand_waits_between_two_engines_wakes_no_cpu_thread() {
    let platform = Platform::virtual_time(StepCosts::free());
    let machine =
        std::sync::Arc::new(Machine::new(&platform, MachineConfig::standard(&platform)).unwrap());
    let options = DeviceOptions { ring_slots: 16_384, ..DeviceOptions::default() };
    let device = machine.device(options).unwrap();
    let own = machine.clone();
    let report = machine.run(move || {
        let (machine, platform) = (own, platform);
        let queues = [
            user_queue(&device, "3D", CommandListType::Direct),
            user_queue(&device, "copy", CommandListType::Copy),
        ];
        let (gate, chain) =
            (device.create_fence("gate", 0).unwrap(), device.create_fence("chain", 0).unwrap());
        // All of it stands in the rings, behind a gate, before anything runs.
        queues[0].wait(&gate, 1).unwrap();
        for link in 0..LINKS {
            let queue = &queues[link as usize % 2];
            queue.wait(&chain, link).unwrap();
            queue.signal(&chain, link + 1).unwrap();
        }
        platform.sleep_until(platform.now().after(1_000_000));
        assert_eq!(chain.completed_value(), 0);
        gate.signal(1).unwrap();
        let before = (machine.adapter().stats(), device.counters());
        let stalled = |m: &Machine| m.gpu().stats().gpu_waits_stalled;
        let already = stalled(&machine);
        platform.sleep_until(platform.now().after(1_000_000_000));
        assert_eq!(chain.completed_value(), LINKS);
        assert!(stalled(&machine) - already >= LINKS / 2, "they did wait for each other");
        assert_eq!(troubled(&machine, &device, &before), [0; 5]);
    });
    assert!(report.completed(), "{report:?}");
}

/// Signals of two fences by two engines, without a CPU waiter. The submitting thread reads the
/// value now and then, as a polling application does, so that rings do not run full.
fn signals_without_a_waiter(platform: &Platform, signals: u64) {
    let machine =
        std::sync::Arc::new(Machine::new(platform, MachineConfig::standard(platform)).unwrap());
    let device =
        machine.device(DeviceOptions { ring_slots: 4_096, ..DeviceOptions::default() }).unwrap();
    let own = machine.clone();
    let platform = platform.clone();
    let report = machine.run(move || {
        let machine = own;
        let pairs: [(Queue, Fence); 2] = [
            (
                user_queue(&device, "3D", CommandListType::Direct),
                device.create_fence("one", 0).unwrap(),
            ),
            (
                user_queue(&device, "copy", CommandListType::Copy),
                device.create_fence("two", 0).unwrap(),
            ),
        ];
        let reach = |value: u64| {
            while pairs.iter().any(|(_, fence)| fence.completed_value() < value) {
                platform.sleep_until(platform.now().after(1_000));
            }
        };
        // The first ring connects the doorbell, which is a kernel call.
        for (queue, fence) in &pairs {
            queue.signal(fence, 1).unwrap();
        }
        reach(1);
        let before = (machine.adapter().stats(), device.counters());
        let each = signals / 2;
        for value in 2..=each + 1 {
            for (queue, fence) in &pairs {
                queue.signal(fence, value).unwrap();
            }
            if value % 2_048 == 0 {
                reach(value);
            }
        }
        reach(each + 1);
        assert_eq!(troubled(&machine, &device, &before), [0; 5]);
        let suppressed = machine.gpu().stats().interrupts_suppressed;
        assert!(suppressed >= signals, "each was compared with MonitoredValue: {suppressed}");
    });
    assert!(report.completed(), "{report:?}");
}

// spec: NF-006
#[test]
fn signals_without_a_waiter_raise_no_interrupt_and_make_no_kernel_call() {
    signals_without_a_waiter(&Platform::virtual_time(StepCosts::free()), 100_000);
    signals_without_a_waiter(&Platform::closed_host(), 100_000);
}

/// The full form. Run it in release: `cargo test --release -p tidegate --test
/// engines_without_the_cpu -- --ignored`.
#[test]
#[ignore = "a minute: part of cargo xtask full"]
fn a_hundred_million_signals_without_a_waiter_raise_no_interrupt() {
    signals_without_a_waiter(&Platform::closed_host(), 100_000_000);
}
