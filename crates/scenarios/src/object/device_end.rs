//! The end of a device while its process works on (decision 27).
//!
//! *destroy-device-against-ring*: a thread of the process submits while another destroys the
//! device. The work that was announced before is done.
//!
//! *terminate-against-destroy-device*: a thread destroys a device with work that never completes,
//! and the process is terminated. Neither waits for the work.

use crate::prelude::*;

const BOTH_RAN: &str = "the work of the other thread ran, too";
const CUT_OFF: &str = "the work of the other thread did not run";

pub(crate) const AGAINST_RING: Race = Race {
    name: "destroy-device-against-ring",
    about: "a device is destroyed while a thread of its process submits: work that was announced before is done, and no object is left",
    marks: &[BOTH_RAN, CUT_OFF],
    planted: bugs! {
        "queue-destroyed-first" => Scenario,
            "doorbell and queue are destroyed at once: work that was announced before does not run";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare: against_ring,
};

const DESTROYED: &str = "the device was destroyed by force";
const REFUSED: &str = "the process had ended before the call";

pub(crate) const AGAINST_TERMINATION: Race = Race {
    name: "terminate-against-destroy-device",
    about: "a process is terminated while a thread destroys a device with work that never completes: neither waits for the work",
    marks: &[DESTROYED, REFUSED],
    planted: bugs! {
        "wait-goes-on" => Scenario,
            "the end of the process leaves the wait of the other thread, which lasts for the TDR delay";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare: against_termination,
};

const ENDED: usize = notes::OWN;
const WAITED: usize = notes::OWN + 1;

/// Values that the fence reaches.
const BEFORE: u64 = 1;
const BESIDE: u64 = 2;

fn counted(world: &World) -> (usize, usize, usize) {
    let census = world.machine.adapter().census();
    (census.devices, census.hw_queues, census.doorbells)
}

fn against_ring(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (client, watcher) = (world.client("app"), world.client("watcher"));
    let flags = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
    let fence = watcher.try_native(0, flags).expect("a fence");
    let handle = watcher.share_all(&fence);
    let before = counted(&world);
    let ending = client.another_device();
    let (opened, queue) = (ending.open_fence(&handle), ending.connected_queue(0));
    let work = [BEFORE, BESIDE].map(|value| {
        let commands = [Command::Timed { ns: 1 }];
        (signal_packet(&opened, value, u32::MAX), ending.execute_packet(&commands, value))
    });
    let submit = move |queue: &UserQueue, value: u64| {
        let (signal, execute) = &work[value as usize - 1];
        queue.put(signal);
        queue.doorbell.last_queued.store(value);
        queue.push(execute);
    };
    submit(&queue, BEFORE);
    let destroys_queue = run.has("queue-destroyed-first");
    let [doorbell, hw_queue] = [queue.doorbell.handle, queue.queue.handle];
    let (kernel, device) = (ending.kernel.clone(), ending.device);
    let main = move |platform: &Platform| {
        let thread = platform.spawn("thread", move || submit(&queue, BESIDE));
        if destroys_queue {
            kernel.destroy_doorbell(doorbell).expect("it exists");
            kernel.destroy_hw_queue(hw_queue).expect("it exists");
        }
        kernel.destroy_device(device).expect("it exists");
        thread.join();
    };
    world.race(main, move |world, end| {
        let value = fence.value.load();
        end.eventually("the work that was announced before is done", value >= BEFORE);
        end.eventually("no object of the device is left", counted(world) == before);
        end.sometimes(BOTH_RAN, value == BESIDE);
        end.sometimes(CUT_OFF, value == BEFORE);
    })
}

fn against_termination(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let before = counted(&world);
    let process = world.machine.process("victim").expect("a process");
    let kernel: Arc<dyn Kernel> = process.clone();
    let device = kernel.create_device().expect("a device");
    let client = Client::of(world.machine.platform(), kernel.clone(), device);
    let queue = client.connected_queue(0);
    // Announced, and never submitted.
    queue.doorbell.last_queued.store(1);
    let leaves_the_wait = run.has("wait-goes-on");
    let (probe, noted) = (world.probe.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let from = platform.now();
        let destroyer = platform.spawn("destroyer", move || {
            noted.note(ENDED, u64::from(kernel.destroy_device(device).is_ok()));
        });
        match leaves_the_wait {
            false => process.terminate(),
            true => process.close(),
        }
        destroyer.join();
        probe.note(WAITED, platform.now().since(from));
    };
    world.race(main, move |world, end| {
        let destroyed = world.probe.seen(ENDED);
        end.eventually("both threads come back", world.probe.seen(WAITED).is_some());
        end.always("no end waits for the work", world.probe.seen(WAITED).is_none_or(|ns| ns == 0));
        end.eventually("no object of the process is left", counted(world) == before);
        end.sometimes(DESTROYED, destroyed == Some(1));
        end.sometimes(REFUSED, destroyed == Some(0));
    })
}
