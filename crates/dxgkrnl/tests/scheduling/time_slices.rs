//! Time slices inside a band, in virtual time and in all three submission models. Work of one
//! process that never ends keeps equal work of another process waiting for one slice only, where
//! the engine may leave it.

use tidegate_testbed::prelude::*;

const MS: u64 = 1_000_000;
/// The process quantum of a band, and the quantum of packets.
const PROCESS_QUANTUM_NS: u64 = MS;
const PACKET_QUANTUM_NS: u64 = 10 * MS;
/// Longer than the timeout delay.
const LONG_MS: usize = 6_000;

/// One buffer of many commands of a millisecond, or of a single one that is as long.
fn long(single: bool) -> Vec<Command> {
    match single {
        true => vec![Command::Timed { ns: LONG_MS as u64 * MS }],
        false => vec![Command::Timed { ns: MS }; LONG_MS],
    }
}

const SHORT: [Command; 1] = [Command::Timed { ns: 1_000 }];

/// How two processes give work to node 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Packets,
    HardwareQueues,
    Rings,
}

impl Model {
    const ALL: [Model; 3] = [Model::Packets, Model::HardwareQueues, Model::Rings];

    fn quantum_ns(self) -> u64 {
        if self == Model::Packets { PACKET_QUANTUM_NS } else { PROCESS_QUANTUM_NS }
    }
}

/// Node 0 of a machine that keeps the state of preempted packets, preempted at `compute`.
fn preempted_at(compute: ComputePreemption) -> World {
    world_with(move |config: &mut MachineConfig| {
        config.driver.save_areas = true;
        config.gpu.nodes[0].preemption.compute = compute;
    })
}

/// A queue or context of one process on node 0, and how it is given work.
#[allow(clippy::large_enum_variant, reason = "three of them in a test")]
enum Lane {
    Packets(Handle),
    Queue(HwQueue),
    Ring(UserQueue),
}

impl Lane {
    fn new(owner: &Client, model: Model) -> Lane {
        match model {
            Model::Packets => Lane::Packets(owner.context(0)),
            Model::HardwareQueues => Lane::Queue(owner.hw_queue_on(0)),
            Model::Rings => Lane::Ring(owner.connected_queue(0)),
        }
    }

    /// Gives it its only buffer.
    fn submit(&self, owner: &Client, commands: &[Command]) {
        match self {
            Lane::Packets(context) => owner.submit_packet(*context, commands),
            Lane::Queue(queue) => owner.submit(queue, 1, commands),
            Lane::Ring(ring) => {
                let (gpu_va, bytes) = owner.commands(commands);
                ring.doorbell.last_queued.store(1);
                ring.push(&RingPacket::execute(GpuVa(gpu_va), bytes, 1));
            }
        }
    }

    /// Blocks until that buffer is done.
    fn finish(&self, w: &World, owner: &Client) {
        match self {
            Lane::Packets(context) => {
                let event = w.platform.event(true);
                let signal = SignalFromGpu2 {
                    contexts: &[*context],
                    fences: &[],
                    flags: SignalFlags::ENQUEUE_CPU_EVENT,
                    cpu_event: Some(WaitNotice::Event(event.clone())),
                };
                owner.kernel.signal_from_gpu2(signal).unwrap();
                event.wait();
            }
            Lane::Queue(queue) => owner.wait_progress(queue, 1).unwrap(),
            Lane::Ring(ring) => owner.wait_progress(&ring.queue, 1).unwrap(),
        }
    }
}

/// How long 1 us of work of one process waits behind work of another that has had the engine for
/// 100 ms, in ns.
fn waits_ns(w: &World, model: Model, commands: &[Command]) -> u64 {
    let (busy, short) = (w.client("busy"), w.client("short"));
    let (endless, own) = (Lane::new(&busy, model), Lane::new(&short, model));
    endless.submit(&busy, commands);
    w.pass(100 * MS);
    let start = w.platform.now();
    own.submit(&short, &SHORT);
    own.finish(w, &short);
    let waited_ns = w.platform.now().since(start);
    endless.finish(w, &busy);
    assert_eq!(w.adapter().recoveries(), [], "nothing hangs");
    waited_ns
}

// spec: HS-021
#[test]
fn endless_work_of_another_process_is_left_in_the_middle_of_its_buffer_when_its_slice_is_over() {
    for model in Model::ALL {
        for single in [false, true] {
            preempted_at(ComputePreemption::ThreadGroup).run(move |w| {
                let waited_ns = waits_ns(w, model, &long(single));
                let most_ns = model.quantum_ns() + 10_000;
                let which = format!("{model:?}, single {single}");
                assert!(waited_ns <= most_ns, "{which}: {waited_ns} ns, at most {most_ns}");
            });
        }
    }
}

// spec: HS-021
#[test]
fn a_slice_ends_where_the_granularity_lets_the_engine_go() {
    for model in Model::ALL {
        for (compute, most_ns) in [
            (ComputePreemption::Dispatch, model.quantum_ns() + MS),
            (ComputePreemption::DmaBuffer, 500 * MS),
        ] {
            preempted_at(compute).run(move |w| {
                let waited_ns = waits_ns(w, model, &vec![Command::Timed { ns: MS }; 500]);
                let coarse = compute == ComputePreemption::DmaBuffer;
                assert!(waited_ns <= most_ns + 10_000, "{model:?} {compute}: {waited_ns} ns");
                assert_eq!(waited_ns > 100 * MS, coarse, "{model:?} {compute}: {waited_ns} ns");
            });
        }
    }
}

/// Two queues of one process, each with a buffer of 20 ms: neither waits for the other's end.
// spec: HS-021
#[test]
fn queues_of_one_process_take_turns_in_the_middle_of_their_buffers() {
    for model in Model::ALL {
        preempted_at(ComputePreemption::ThreadGroup).run(move |w| {
            let process = w.client("two queues");
            let lanes = [(); 2].map(|()| Lane::new(&process, model));
            let start = w.platform.now();
            lanes.iter().for_each(|lane| lane.submit(&process, &[Command::Timed { ns: 20 * MS }]));
            let third = Lane::new(&process, model);
            third.submit(&process, &SHORT);
            third.finish(w, &process);
            let waited_ns = w.platform.now().since(start);
            let most_ns = 2 * model.quantum_ns() + 10_000;
            assert!(waited_ns <= most_ns, "{model:?}: {waited_ns} ns, at most {most_ns}");
            lanes.iter().for_each(|lane| lane.finish(w, &process));
            let all_ns = w.platform.now().since(start);
            let expected_ns = 40 * MS..=40 * MS + 10_000;
            assert!(expected_ns.contains(&all_ns), "{model:?}: {all_ns} ns for all of it");
        });
    }
}
