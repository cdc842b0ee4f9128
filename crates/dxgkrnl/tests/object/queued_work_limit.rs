//! A process may queue a bounded amount of work with the kernel. A call beyond it is refused, and
//! succeeds once queued work has gone on.

use tidegate::calls::TILE_BYTES;
use tidegate::variants;
use tidegate_testbed::prelude::*;

const LIMIT: u32 = 12;

/// A process with the limit, and a fence that only a CPU signals.
fn limited(w: &World) -> (Client, FenceInstance) {
    let kind = ProcessKind { queued: Some(LIMIT), ..ProcessKind::default() };
    let process = w.machine.process_of_kind(0, "limited", kind).unwrap();
    let device = process.create_device().unwrap();
    let client = Client::of(&w.platform, process, device);
    let gate = client.monitored(0);
    (client, gate)
}

/// A call that queues work.
type Call<'a> = &'a dyn Fn() -> Result<(), Status>;

/// Makes a call until it is refused. Returns the number of calls before that.
fn calls_until_refused(mut call: impl FnMut() -> Result<(), Status>) -> u32 {
    for made in 0..=LIMIT {
        match call() {
            Ok(()) => {}
            Err(status) => {
                assert_eq!(status, Status::INSUFFICIENT_RESOURCES);
                return made;
            }
        }
    }
    panic!("no call was refused")
}

fn semaphore(client: &Client) -> Handle {
    let made = client.kernel.create_synchronization_object(CreateSynchronizationObject {
        device: client.device,
        object: OlderObject::Semaphore { max_count: 100, initial_count: 100 },
        flags: SyncObjectFlags::empty(),
    });
    made.unwrap().handle
}

#[test]
fn a_context_behind_a_wait_takes_work_up_to_the_limit() {
    world().run(|w| {
        let (client, gate) = limited(w);
        let (context, other, done) = (client.context(0), client.context(0), client.monitored(0));
        let (kernel, semaphore) = (&client.kernel, semaphore(&client));
        let (commands_gpu_va, command_bytes) = client.commands(&[Command::Timed { ns: 1 }]);
        let submit = tidegate::calls::SubmitCommand { context, commands_gpu_va, command_bytes };
        let contexts = [context, other];
        let both = SignalFromGpu2 {
            contexts: &contexts,
            fences: &at(&done, 1),
            flags: SignalFlags::empty(),
            cpu_event: None,
        };
        let none = SignalFlags::empty();
        let calls: [(u32, Call<'_>); 6] = [
            (1, &|| kernel.submit_command(submit)),
            (1, &|| kernel.signal_from_gpu(context, &at(&done, 1))),
            (2, &|| kernel.signal_from_gpu2(both.clone())),
            (3, &|| {
                let three = [at(&gate, 1)[0], at(&done, 1)[0], at(&done, 1)[0]];
                kernel.wait_from_gpu(context, &three)
            }),
            (2, &|| kernel.wait_for_synchronization_objects(context, &[semaphore], 0)),
            (1, &|| kernel.signal_synchronization_objects(&[context], &[semaphore], none, 0)),
        ];
        for (round, (cost, call)) in (1..).zip(calls) {
            let value = 10 * round - 9;
            // The wait for the gate is the first entry.
            kernel.wait_from_gpu(context, &at(&gate, value)).unwrap();
            assert_eq!(calls_until_refused(call), (LIMIT - 1) / cost, "call {round}");
            // The other process is not concerned.
            let theirs = w.context(0);
            w.kernel.signal_from_gpu(theirs, &at(&w.monitored(0), 1)).unwrap();
            client.signal(&gate, value);
            let idle = client.monitored(0);
            kernel.signal_from_gpu(context, &at(&idle, 1)).unwrap();
            client.wait(idle.handle, 1).unwrap();
        }
    });
}

#[test]
fn a_hardware_queue_behind_a_wait_takes_work_up_to_the_limit() {
    world().run(|w| {
        let (client, gate) = limited(w);
        let (queue, kernel) = (client.hw_queue(), &client.kernel);
        let (commands_gpu_va, command_bytes) = client.commands(&[Command::Timed { ns: 1 }]);
        kernel.submit_wait_to_hw_queue(queue.handle, &at(&gate, 1)).unwrap();
        let mut progress_fence_id = 0;
        let mut submit = || {
            progress_fence_id += 1;
            kernel.submit_command_to_hw_queue(SubmitCommandToHwQueue {
                hw_queue: queue.handle,
                progress_fence_id,
                commands_gpu_va,
                command_bytes,
            })
        };
        assert_eq!(calls_until_refused(&mut submit), LIMIT - 1);
        let signal = || {
            kernel.submit_signal_to_hw_queues(SubmitSignalToHwQueues {
                hw_queues: &[queue.handle],
                fences: &at(&gate, 2),
                flags: SignalFlags::empty(),
            })
        };
        assert_eq!(signal(), Err(Status::INSUFFICIENT_RESOURCES));
        let waits = kernel.submit_wait_to_hw_queue(queue.handle, &at(&gate, 2));
        assert_eq!(waits, Err(Status::INSUFFICIENT_RESOURCES));
        client.signal(&gate, 1);
        client.finish(&queue, u64::from(LIMIT - 1));
        signal().unwrap();
        client.wait(gate.handle, 2).unwrap();
    });
}

#[test]
fn updates_of_addresses_behind_a_fence_are_taken_up_to_the_limit() {
    world().run(|w| {
        let (client, gate) = limited(w);
        let kernel = &client.kernel;
        let wanted = ReserveGpuVirtualAddress { device: client.device, bytes: 4 * TILE_BYTES };
        let reserved = kernel.reserve_gpu_virtual_address(wanted).unwrap().handle;
        let operations = &[TileOperation { first: 0, count: 1, memory: None }; 3];
        for value in [1, 11, 21] {
            let update =
                UpdateGpuVirtualAddress { reserved, operations, fence: gate.handle, value };
            let call = || kernel.update_gpu_virtual_address(update);
            assert_eq!(calls_until_refused(call), LIMIT / 3);
            let context = client.context(0);
            let signal = kernel.signal_from_gpu(context, &at(&gate, value));
            assert_eq!(
                signal,
                Err(Status::INSUFFICIENT_RESOURCES),
                "the limit is one for all work"
            );
            client.signal(&gate, value);
            client.wait(gate.handle, value + 1).unwrap();
        }
    });
}

#[test]
fn the_work_of_a_queue_that_ends_leaves_its_room() {
    world().run(|w| {
        let (client, gate) = limited(w);
        for _ in 0..3 {
            let context = client.context(0);
            let wait = || client.kernel.wait_from_gpu(context, &at(&gate, 1));
            assert_eq!(calls_until_refused(wait), LIMIT);
            client.kernel.destroy_context(context).unwrap();
        }
    });
}

/// A driver that patches commands has a copy of them for each context.
#[test]
fn commands_for_two_contexts_take_room_for_both() {
    let linked = |config: &mut MachineConfig| {
        variants::find("patching").unwrap().apply(config);
        config.gpu.physical_gpus = 2;
    };
    world_with(linked).run(|w| {
        let (client, gate) = limited(w);
        let contexts = [1, 2].map(|gpu| client.affine(gpu).context(2));
        let memory = client.allocate_in(4096, Placement::LocalOnDemand);
        let mut commands = CommandWriter::new();
        commands.push(&fill(memory.gpu_va, 8, 1));
        let (commands, allocations) = (commands.to_bytes(), [(memory.handle, true)]);
        let render = || {
            client.kernel.render(Render {
                contexts: &contexts,
                commands: &commands,
                allocations: &allocations,
            })
        };
        for context in contexts {
            client.on(context).wait(&gate, 1);
        }
        assert_eq!(calls_until_refused(render), (LIMIT - 2) / 2);
        client.signal(&gate, 1);
    });
}
