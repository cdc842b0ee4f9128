//! Detection at rest: work that hangs long after every queue was quiet is found, whatever started
//! it. Each test is one way in which work starts; most of them call no kernel.

use crate::timeouts::hung;
use tidegate_testbed::prelude::*;

const S: u64 = 1_000_000_000;
/// Much longer than detection needs to come to rest.
const LONG: u64 = 100 * S;
/// The sample after the start finds the hang, or the next one if the driver reports progress; the
/// probe has a delay.
const FOUND_WITHIN: u64 = 6 * S;

/// A process with a queue that hangs as soon as its fence is signalled.
struct Guilty {
    client: Client,
    queue: UserQueue,
    gate: FenceInstance,
    /// A waiter for the work that hangs.
    waiter: Event,
}

impl Guilty {
    fn new(client: Client, flags: SyncObjectFlags, announced: bool) -> Guilty {
        let gate = client.try_native(0, flags).unwrap();
        let queue = client.connected_queue(0);
        queue.doorbell.last_queued.store(u64::from(announced));
        queue.wait(&gate, 5);
        queue.push(&client.execute_packet(&[Command::Hang], 1));
        let done = [FenceValue { fence: queue.queue.progress_fence, value: 1 }];
        let waiter = client.platform.event(true);
        let mode = WaitMode::All;
        client.kernel.wait_from_cpu(&done, mode, Some(waiter.clone())).unwrap();
        Guilty { client, queue, gate, waiter }
    }

    /// Asserts that it was found, by a waiter that sleeps without a deadline.
    fn is_found(&self) {
        let from = self.client.platform.now();
        self.waiter.wait_for(None, "the work that hangs");
        let took = self.client.platform.now().since(from);
        assert!(hung(self.client.state()) && took <= FOUND_WITHIN, "{took}");
        assert_eq!(self.queue.status(), DoorbellStatus::DisconnectedAbort);
    }
}

fn at_rest(w: &World) {
    w.pass(LONG);
    assert_eq!(w.adapter().recoveries(), [], "a queue that waits is not hung");
}

/// A signal that starts the work of another process.
type Signal = fn(&Signaller);

/// A process with an instance of the fence, and queues that were connected before the rest.
struct Signaller {
    client: Client,
    gate: FenceInstance,
    user: UserQueue,
    hardware: Handle,
    packets: Handle,
}

impl Signaller {
    fn new(client: Client, gate: FenceInstance) -> Signaller {
        let (user, hardware) = (client.connected_queue(1), client.hw_queue_on(1).handle);
        let packets = client.context(1);
        Signaller { client, gate, user, hardware, packets }
    }
}

const SIGNALS: [Signal; 5] = [
    |of| of.client.signal(&of.gate, 5),
    |of| of.user.push(&signal_packet(&of.gate, 5, u32::MAX)),
    |of| {
        of.client.kernel.submit_signal_to_hw_queue(of.hardware, &at(&of.gate, 5)).unwrap();
    },
    |of| of.client.kernel.signal_from_gpu(of.packets, &at(&of.gate, 5)).unwrap(),
    // A queue that had waited as well: the signal follows another one.
    |of| {
        let first = of.client.native(0);
        of.user.wait(&first, 1).signal(&of.gate, 5);
        of.client.platform.sleep_until(of.client.platform.now().after(LONG));
        of.client.signal(&first, 1);
    },
];

// spec: PRE-102
#[test]
fn work_that_a_signal_unblocks_is_found_whatever_made_the_signal() {
    for signal in SIGNALS {
        for announced in [true, false] {
            world().run(move |w| {
                let guilty = Guilty::new(w.client("guilty"), SHARED, announced);
                let other = w.client("other");
                let gate = other.open_fence(&guilty.client.share_all(&guilty.gate));
                let signaller = Signaller::new(other, gate);
                at_rest(w);
                signal(&signaller);
                guilty.is_found();
                assert_eq!(signaller.client.state(), Ok(DeviceState::Active));
            });
        }
    }
}

// spec: PRE-102
#[test]
fn work_that_a_signal_on_another_adapter_unblocks_is_found() {
    for signal in SIGNALS {
        let platform = Platform::virtual_time(StepCosts::free());
        let config = || MachineConfig::standard(&platform);
        let machine = Machine::builder(&platform).reference(config()).reference(config());
        let machine = Arc::new(machine.start().unwrap());
        let (m, p) = (machine.clone(), platform.clone());
        let run = move || {
            let client = |adapter: usize| {
                let kernel: Arc<dyn Kernel> = m.open_on(adapter, "a process").unwrap();
                let device = kernel.create_device().unwrap();
                Client::of(&p, kernel, device)
            };
            let cross = SHARED.union(SyncObjectFlags::CROSS_ADAPTER);
            let guilty = Guilty::new(client(0), cross, true);
            let other = client(1);
            let gate = other.open_fence(&guilty.client.share_all(&guilty.gate));
            let signaller = Signaller::new(other, gate);
            p.sleep_until(p.now().after(LONG));
            assert_eq!(m.adapter_at(0).recoveries(), []);
            signal(&signaller);
            guilty.is_found();
            assert_eq!(m.adapter_at(1).recoveries(), []);
        };
        machine.run(run).unwrap();
    }
}

// spec: PRE-102
#[test]
fn work_that_a_doorbell_starts_is_found() {
    for announced in [true, false] {
        world().run(move |w| {
            let guilty = w.connected_queue(0);
            let waiter = w.platform.event(true);
            let done = [FenceValue { fence: guilty.queue.progress_fence, value: 1 }];
            let mode = WaitMode::All;
            w.kernel.wait_from_cpu(&done, mode, Some(waiter.clone())).unwrap();
            let packet = w.execute_packet(&[Command::Hang], 1);
            at_rest(w);
            guilty.doorbell.last_queued.store(u64::from(announced));
            guilty.push(&packet);
            waiter.wait_for(None, "the work that hangs");
            assert!(hung(w.state()));
        });
    }
}

// spec: PRE-102
#[test]
fn work_that_starts_with_a_connect_is_found() {
    world().run(|w| {
        let guilty = w.user_queue(0);
        guilty.doorbell.last_queued.store(1);
        guilty.put(&w.execute_packet(&[Command::Hang], 1));
        at_rest(w);
        guilty.connect().unwrap();
        guilty.ring();
        w.pass(FOUND_WITHIN);
        assert!(hung(w.state()));
    });
}

// spec: PRE-102
#[test]
fn work_that_starts_when_its_context_resumes_is_found() {
    world().run(|w| {
        let guilty = w.connected_queue(0);
        let held = w.adapter().suspend_contexts().unwrap();
        guilty.doorbell.last_queued.store(1);
        guilty.push(&w.execute_packet(&[Command::Hang], 1));
        at_rest(w);
        held.resume();
        w.pass(FOUND_WITHIN);
        assert!(hung(w.state()));
    });
}

// spec: PRE-102
#[test]
fn work_that_starts_after_power_is_back_is_found() {
    world_with(|config| config.kernel.power = PowerManagement::Managed).run(|w| {
        let guilty = Guilty::new(w.client("guilty"), SHARED, true);
        at_rest(w);
        w.adapter().set_power_state(DevicePowerState::D3).unwrap();
        at_rest(w);
        w.adapter().set_power_state(DevicePowerState::D0).unwrap();
        at_rest(w);
        guilty.client.signal(&guilty.gate, 5);
        guilty.is_found();
    });
}

// spec: PRE-102
#[test]
fn work_that_a_page_in_starts_is_found() {
    world_with(|config| config.gpu.local_memory_bytes = 1 << 20).run(|w| {
        let n = w.client("guilty");
        let (queue, paging) = (n.connected_queue(0), n.paging_queue());
        let allocation = n.allocate_in(64 << 10, Placement::LocalOnDemand);
        queue.doorbell.last_queued.store(1);
        queue.wait(&paging.fence, 1);
        queue.push(&n.execute_packet(&[Command::Hang], 1));
        at_rest(w);
        assert_eq!(paging.fence.value.load(), 0);
        n.make_resident(&paging, &[&allocation]);
        w.pass(FOUND_WITHIN);
        assert!(paging.fence.value.load() >= 1 && hung(n.state()));
    });
}

/// The engine may not leave the work of a queue without a timeout. The work after it hangs when it
/// gets the engine.
// spec: PRE-102
#[test]
fn work_that_gets_the_engine_from_another_queue_is_found() {
    let coarse = |config: &mut MachineConfig| {
        config.gpu.nodes[0].preemption.compute = ComputePreemption::DmaBuffer;
    };
    world_with(coarse).run(|w| {
        let trusted = Client::privileged(&w.machine, "trusted");
        let long = trusted.connected_queue(0);
        trusted.kernel.disable_gpu_timeout(long.queue.handle).unwrap();
        long.doorbell.last_queued.store(1);
        long.push(&trusted.execute_packet(&[Command::Timed { ns: LONG }], 1));
        w.pass(S);
        let guilty = w.connected_queue(0);
        guilty.doorbell.last_queued.store(1);
        guilty.push(&w.execute_packet(&[Command::Hang], 1));
        w.pass(LONG - 2 * S);
        assert_eq!(w.adapter().recoveries(), []);
        w.pass(S + FOUND_WITHIN);
        assert!(hung(w.state()));
        assert_eq!(trusted.state(), Ok(DeviceState::Active));
        assert_eq!(long.queue.progress_value.load(), 1);
    });
}

/// A machine whose queues wait for ever still counts as stalled.
#[test]
fn a_deadlock_is_no_hang_and_ends_the_run() {
    let (w, report) = world().run_to_report(|w| {
        let (queue, never) = (w.connected_queue(0), w.native(0));
        queue.doorbell.last_queued.store(1);
        queue.wait(&never, 1);
        assert_eq!(w.wait(never.handle, 1), Err(Status::CANCELLED));
    });
    assert_eq!(report.blocked.len(), 1, "{report:?}");
    assert_eq!(w.adapter().recoveries(), []);
}

/// Rings with nothing in them cost one look for each delay, and no context is suspended for it.
#[test]
fn detection_at_rest_suspends_nothing() {
    world().run(|w| {
        let queue = w.connected_queue(0);
        queue.doorbell.last_queued.store(1);
        queue.push(&w.execute_packet(&[Command::Timed { ns: 10 }], 1));
        w.wait(queue.queue.progress_fence, 1).unwrap();
        w.pass(10 * S);
        w.driver.take();
        w.pass(LONG);
        let names = w.driver.take_names();
        assert!(names.iter().all(|name| *name == "QueryEngineStatus"), "{names:?}");
        assert!(names.len() as u64 <= 4 * LONG / (2 * S), "{}", names.len());
    });
}
