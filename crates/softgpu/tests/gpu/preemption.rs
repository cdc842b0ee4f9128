//! Packets that go back to the kernel: at once, at a boundary, with their state; and engines that
//! hang and are reset.

use crate::packets::{dma, program};
use tidegate_platform::PlatformKind;
use tidegate_testbed::prelude::gpu::*;

/// A node's ring as the kernel has it: its packets, and save areas in the system process.
struct Ring {
    machine: Arc<Machine>,
    engine: u32,
    queue: Queue,
    process: Process,
    system: Process,
}

impl Ring {
    fn new(machine: &Arc<Machine>, engine: u32) -> Ring {
        let system = machine.system_process();
        let queue = machine.kernel_queue(engine, QueueKind::Node, &system);
        Ring { machine: Arc::clone(machine), engine, queue, process: machine.process(), system }
    }

    fn packet(
        &self,
        commands: (GpuVa, u32),
        id: u32,
        save_area: GpuVa,
        flags: DmaFlags,
    ) -> RingPacket {
        dma(&self.process, commands, id, save_area, flags)
    }

    fn plain(&self, commands: &[Command], id: u32) -> RingPacket {
        self.packet(self.process.commands(commands), id, GpuVa(0), DmaFlags::empty())
    }

    /// Runs a packet to its end.
    fn complete(&mut self, commands: &[Command], id: u32) {
        let packet = self.plain(commands, id);
        self.queue.submit(&[packet]);
        self.machine.await_completed(self.engine, id.into());
    }

    fn preempt(&self, id: u32) -> Result<(), AdminError> {
        self.machine
            .run_command(AdminCommand::PreemptNode { engine: self.engine, preemption_fence_id: id })
    }

    fn reset(&self) -> (u64, u64) {
        self.machine.admin(AdminCommand::ResetEngine { engine: self.engine }).expect("an engine")
    }

    fn await_hang(&self) -> EngineAnswer {
        self.machine.poll_until(|| !self.status().responsive);
        self.status()
    }

    fn status(&self) -> EngineAnswer {
        let answer = self.machine.admin(AdminCommand::QueryEngine { engine: self.engine });
        EngineAnswer::decode(answer.expect("an engine"))
    }
}

const TIMED: Command = Command::Timed { ns: 10_000 };

fn fill(buffer: &Buffer, value: u32) -> Command {
    Command::Fill { destination: buffer.va, bytes: buffer.bulk.len(), value }
}

#[test]
fn an_empty_ring_is_preempted_at_once() {
    everywhere(Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        assert_eq!(ring.preempt(1), Ok(()));
        assert_eq!(machine.await_preempted(COPY, 1), 0);
        let target = ring.process.buffer(64);
        ring.complete(&[fill(&target, 3)], 2);
        assert_eq!(ring.preempt(3), Ok(()));
        assert_eq!(machine.await_preempted(COPY, 3), 2);
        assert_eq!(machine.gpu.read_register(Register::PREEMPTED_ENGINES), 0);
        let missing = AdminCommand::PreemptNode { engine: 99, preemption_fence_id: 1 };
        assert_eq!(machine.run_command(missing), Err(AdminError::NoSuchEngine));
        let ringless = AdminCommand::PreemptNode { engine: COMPUTE, preemption_fence_id: 1 };
        assert_eq!(machine.run_command(ringless), Err(AdminError::NoSuchQueue));
    });
}

// spec: PRE-042
#[test]
fn a_packet_behind_a_wait_goes_back_and_its_slot_is_free() {
    everywhere(Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        let gate = ring.system.fence(0, u64::MAX);
        let target = ring.process.buffer(64);
        for round in 0..3 {
            let (first, second) = (round * 10 + 1, round * 10 + 2);
            let packet = ring.plain(&[fill(&target, first)], first);
            let held = ring.plain(&[fill(&target, 99)], second);
            // The ring has 64 slots: more rounds than it has room for would show that slots stay
            // taken.
            ring.queue.submit(&[packet, gate.wait(1), held]);
            (0..20).for_each(|_| ring.queue.put(&held));
            ring.queue.publish();
            machine.await_completed(COPY, u64::from(first));
            // Those that were not kicked go back, too.
            assert_eq!(ring.preempt(second + 1), Ok(()));
            assert_eq!(machine.await_preempted(COPY, u64::from(second) + 1), u64::from(first));
            assert_eq!(ring.queue.read_pointer(), ring.queue.written);
            assert_eq!(machine.state(ring.queue.id), QueueState::Idle);
        }
        assert_eq!(target.bytes()[..4], [21, 0, 0, 0]);
        // The wait that went back is not in the table any more.
        gate.current.store(1);
        machine.run_command(AdminCommand::RescanWaits).expect("obeyed");
        assert_eq!(machine.state(ring.queue.id), QueueState::Idle);
        ring.complete(&[fill(&target, 40)], 40);
        assert_eq!(target.bytes()[..4], [40, 0, 0, 0]);
    });
}

// spec: PRE-020, PRE-033
#[test]
fn a_packet_in_the_middle_goes_on_where_it_was_and_does_nothing_twice() {
    on(&Platform::virtual_time(StepCosts::free()), Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        let save = ring.system.buffer(SAVE_AREA_BYTES as usize);
        let [first, last] = ring.process.fences([0, 0]);
        let write =
            |fence: &Fence, value| Command::WriteValue { destination: fence.current_va, value };
        let commands = ring.process.commands(&[write(&first, 5), TIMED, write(&last, 6)]);
        let start = machine.platform.now();
        let begun = ring.packet(commands, 1, save.va, DmaFlags::empty());
        let behind = ring.plain(&[TIMED], 2);
        ring.queue.submit(&[begun, behind]);
        machine.platform.sleep_until(start.after(4_000));
        // The request stands until the engine has had a turn, and a second one replaces it.
        assert_eq!(ring.preempt(2), Ok(()));
        assert_eq!(ring.preempt(3), Ok(()));
        assert_eq!(machine.await_preempted(COPY, 3), 0);
        assert_eq!(save.bulk.read_u64(0).unwrap(), SAVED_STATE);
        assert_eq!((first.current.load(), last.current.load()), (5, 0));
        // Another packet has the engine for a while, and what was done is not done again.
        first.current.renew(0, 64, MAX_ANNEX_PEAKS);
        let other = ring.plain(&[TIMED], 4);
        let resumed = ring.packet(commands, 5, save.va, DmaFlags::RESUME);
        let again = ring.packet(commands, 6, save.va, DmaFlags::RESUME);
        ring.queue.submit(&[other, resumed, again]);
        machine.platform.sleep_until(start.after(19_999));
        assert_eq!((first.current.load(), last.current.load()), (0, 0));
        machine.await_completed(COPY, 5);
        assert_eq!(machine.platform.now(), CpuTime(start.0 + 4_000 + 10_000 + 6_000));
        assert_eq!(last.current.load(), 6);
        // A state is taken once: the next packet had not been begun, and begins where it begins.
        machine.await_completed(COPY, 6);
        assert_eq!(machine.platform.now(), CpuTime(start.0 + 30_000));
        assert_eq!(first.current.load(), 5);
        assert_eq!(save.bulk.read_u64(0).unwrap(), 0);
    });
}

#[test]
fn a_packet_without_a_save_area_ends_before_its_ring_goes_back() {
    on(&Platform::virtual_time(StepCosts::free()), Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        let start = machine.platform.now();
        let packets = [ring.plain(&[TIMED, TIMED], 1), ring.plain(&[TIMED], 2)];
        ring.queue.submit(&packets);
        machine.platform.sleep_until(start.after(4_000));
        assert_eq!(ring.preempt(3), Ok(()));
        assert_eq!(machine.await_preempted(COPY, 3), 1);
        assert_eq!(machine.platform.now(), CpuTime(start.0 + 20_000));
        let completions = machine.seen().into_iter().filter(|s| matches!(s, Seen::Completed(..)));
        assert_eq!(completions.count(), 1, "the completion was reported before");
    });
}

#[test]
fn a_state_that_cannot_be_is_a_fault_of_its_packet() {
    everywhere(Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        let save = ring.system.buffer(SAVE_AREA_BYTES as usize);
        let target = ring.process.buffer(64);
        let commands = ring.process.commands(&[fill(&target, 1), fill(&target, 2)]);
        let word = |low: u64, high: u64| low | high << 32;
        let head = |next| [SAVED_STATE, commands.0.0, word(commands.1.into(), next), 0, 0];
        let with = |next, kind, rest: &[u64]| {
            let mut words = head(next).to_vec();
            words[4] = kind;
            words.extend(rest);
            words
        };
        let hostile: Vec<Vec<u64>> = vec![
            vec![7],
            with(0, 0, &[]),
            with(12, 0, &[]),
            with(1 << 20, 0, &[]),
            vec![SAVED_STATE, commands.0.0 + 8, word(commands.1.into(), 8), 0, 0],
            with(8, 77, &[]),
            with(8, 1, &[0, 0, 9, 8]),
            with(8, 2, &[0, 0, 8, 0]),
            with(8, 2, &[0, 4, 7, 0]),
            with(8, 3, &[0xFFFF, 0, 0, 0]),
            with(8, 3, &[word(0, 1), word(1, 1), 0, u64::MAX]),
            with(8, 4, &[word(1, 1), word(1, 1), 0, 0]),
        ];
        let count = hostile.len();
        for (number, words) in hostile.into_iter().enumerate() {
            words
                .iter()
                .enumerate()
                .for_each(|(at, w)| save.bulk.write_u64(at as u64 * 8, *w).unwrap());
            let packet = ring.packet(commands, number as u32 + 1, save.va, DmaFlags::RESUME);
            ring.queue.submit(&[packet]);
            let faults =
                |seen: &[Seen]| seen.iter().filter(|s| matches!(s, Seen::Fault { .. })).count();
            machine.await_seen(|seen| faults(seen) > number);
        }
        assert_eq!(target.bytes(), [0; 64]);
        let packet =
            ring.packet(commands, count as u32 + 1, GpuVa(0x7000_0000_0000), DmaFlags::RESUME);
        ring.queue.submit(&[packet]);
        let unmapped = |s: &Seen| matches!(s, Seen::Fault { va: GpuVa(0x7000_0000_0000), .. });
        machine.await_seen(|seen| seen.iter().any(unmapped));
        // The node goes on.
        let packet = ring.packet(commands, 100, save.va, DmaFlags::empty());
        ring.queue.submit(&[packet]);
        machine.await_completed(COPY, 100);
        assert_eq!(target.bytes()[..4], [2, 0, 0, 0]);
    });
}

#[test]
fn a_packet_without_commands_brings_its_context() {
    let costs = StepCosts::free().with(tidegate_platform::Step::ContextSwitch, 700);
    on(&Platform::virtual_time(costs), Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        let start = machine.platform.now();
        ring.complete(&[TIMED], 1);
        let mut switch = ring.packet((GpuVa(0), 0), 2, GpuVa(0), DmaFlags::CONTEXT_SWITCH);
        if let RingPacket::ExecuteDma { os_handle, .. } = &mut switch {
            *os_handle = 8;
        }
        ring.queue.submit(&[switch]);
        machine.await_completed(COPY, 2);
        assert_eq!(machine.platform.now(), CpuTime(start.0 + 10_700));
    });
}

#[test]
fn a_hang_ends_with_a_reset_and_costs_its_packet_alone() {
    everywhere(Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        let target = ring.process.buffer(64);
        let done = ring.process.fence(0, 0);
        let other = ring.process.buffer(64);
        let packets = [
            ring.plain(&[fill(&target, 1)], 1),
            ring.plain(&[Command::Hang, fill(&target, 2)], 2),
            ring.plain(&[fill(&target, 3)], 3),
        ];
        ring.queue.submit(&packets);
        machine.await_completed(COPY, 1);
        let hung = ring.await_hang();
        assert_eq!(hung.queue, Some(ring.queue.id));
        // The engine takes no other queue, and only a reset ends the hang.
        let mut queue = ring.process.queue(COPY);
        queue.submit(&[ring.process.execute(&[fill(&other, 9)], 0), done.signal(1)]);
        assert_eq!(ring.preempt(4), Ok(()));
        // Other engines go on.
        let mut bystander = ring.process.queue(COMPUTE);
        let elsewhere = ring.process.fence(0, 0);
        bystander.run_until(&[elsewhere.signal(1)], &elsewhere, 1);
        assert_eq!((ring.status(), done.current.load()), (hung, 0));
        let suspend = AdminCommand::SuspendQueue { queue: ring.queue.id };
        assert_eq!(machine.run_command(suspend), Err(AdminError::Busy));
        assert_eq!(ring.reset(), (2, 0));
        assert!(ring.status().responsive);
        machine.await_signals(&done, 1);
        assert_eq!((target.bytes()[0], other.bytes()[0]), (1, 9));
        assert_eq!(ring.queue.read_pointer(), 3);
        // The request went with it: the next one is the first.
        assert_eq!(ring.preempt(5), Ok(()));
        assert_eq!(machine.await_preempted(COPY, 5), 1);
        ring.complete(&[fill(&target, 3)], 6);
        assert_eq!(target.bytes()[0], 3);
        assert!(
            !machine
                .seen()
                .iter()
                .any(|s| matches!(s, Seen::Preempted(_, 4, _) | Seen::Fault { .. }))
        );
    });
}

#[test]
fn a_reset_finds_nothing_and_drops_what_is_queued() {
    everywhere(Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        assert_eq!(ring.reset(), (0, 0));
        let target = ring.process.buffer(64);
        let gate = ring.system.fence(0, u64::MAX);
        let packets =
            [ring.plain(&[fill(&target, 1)], 7), gate.wait(1), ring.plain(&[fill(&target, 2)], 8)];
        ring.queue.submit(&packets);
        machine.await_completed(COPY, 7);
        assert_eq!(ring.reset(), (7, 0));
        assert_eq!(
            (machine.state(ring.queue.id), ring.queue.read_pointer()),
            (QueueState::Idle, 3)
        );
        let missing = AdminCommand::ResetEngine { engine: 99 };
        assert_eq!(machine.run_command(missing), Err(AdminError::NoSuchEngine));
    });
}

/// The kernel counts a packet whose fault was reported as complete.
// spec: PRE-151
#[test]
fn a_reset_names_the_last_packet_that_is_complete_or_has_faulted() {
    everywhere(Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        let target = ring.process.buffer(64);
        let nowhere = GpuVa(0x7000_0000_0000);
        let unmapped = || [Command::Fill { destination: nowhere, bytes: 64, value: 1 }];
        let faulted = ring.plain(&unmapped(), 8);
        ring.complete(&[fill(&target, 1)], 7);
        ring.queue.submit(&[faulted]);
        machine.await_seen(|seen| seen.iter().any(|s| matches!(s, Seen::Fault { .. })));
        assert_eq!(ring.reset(), (8, 0));
        let faulted = ring.plain(&unmapped(), 9);
        ring.queue.submit(&[faulted]);
        ring.complete(&[fill(&target, 2)], 10);
        assert_eq!(ring.reset(), (10, 0), "it is complete, and the other one is earlier");
    });
}

#[test]
fn a_hardware_queue_that_hangs_is_stopped_and_the_others_keep_their_state() {
    on(&Platform::virtual_time(StepCosts::free()), Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        let save = ring.system.buffer(SAVE_AREA_BYTES as usize);
        let done = ring.process.fence(0, 0);
        let commands = ring.process.commands(&[TIMED]);
        let packet = ring.packet(commands, 1, save.va, DmaFlags::empty());
        ring.queue.submit(&[packet]);
        machine.platform.sleep_until(CpuTime(3_000));
        let mut bystander =
            ring.process.queue_with(COPY, QueueOptions { priority: 2, ..Default::default() });
        bystander.submit(&[ring.process.execute(&[TIMED], 0), done.signal(1)]);
        machine.platform.sleep_until(CpuTime(7_000));
        let mut culprit =
            ring.process.queue_with(COPY, QueueOptions { priority: 3, ..Default::default() });
        culprit.submit(&[ring.process.execute(&[Command::Hang], 0), done.signal(2)]);
        machine.platform.sleep_until(CpuTime(100_000));
        let status = ring.status();
        assert_eq!((status.responsive, status.queue), (false, Some(culprit.id)));
        assert_eq!(ring.reset(), (0, u64::from(culprit.id.0) + 1));
        assert_eq!(machine.state(culprit.id), QueueState::Faulted);
        machine.await_signals(&done, 1);
        assert_eq!(machine.platform.now(), CpuTime(100_000 + 6_000));
        // The packet was a bystander, too, and its state was kept.
        let resumed = ring.packet(commands, 2, save.va, DmaFlags::RESUME);
        ring.queue.submit(&[resumed]);
        machine.await_completed(COPY, 2);
        assert_eq!(machine.platform.now(), CpuTime(106_000 + 7_000));
        assert_eq!(done.current.load(), 1);
        machine.run_command(AdminCommand::DestroyQueue { queue: culprit.id }).expect("a queue");
    });
}

/// Else a reset for the queue would lose what the packet has done.
#[test]
fn an_engine_leaves_a_packet_in_the_middle_only_if_it_has_a_save_area() {
    for (has_save_area, begins, ends) in [(true, 3_000, 20_000), (false, 10_000, 10_000)] {
        on(&Platform::virtual_time(StepCosts::free()), Config::default(), move |machine| {
            let mut ring = Ring::new(machine, COPY);
            let save = ring.system.buffer(SAVE_AREA_BYTES as usize);
            let [begun, done] = ring.process.fences([0, 0]);
            let area = if has_save_area { save.va } else { GpuVa(0) };
            let commands = ring.process.commands(&[TIMED]);
            ring.queue.submit(&[ring.packet(commands, 1, area, DmaFlags::empty())]);
            machine.platform.sleep_until(CpuTime(3_000));
            let options = QueueOptions { priority: 3, ..Default::default() };
            let mut higher = ring.process.queue_with(COPY, options);
            higher.run_until(
                &[begun.signal(1), ring.process.execute(&[TIMED], 0), done.signal(1)],
                &begun,
                1,
            );
            assert_eq!(machine.platform.now(), CpuTime(begins));
            machine.await_completed(COPY, 1);
            assert_eq!(machine.platform.now(), CpuTime(ends));
            machine.await_signals(&done, 1);
        });
    }
}

#[test]
fn a_hardware_queue_that_runs_is_stopped_by_a_reset() {
    on(&Platform::virtual_time(StepCosts::free()), Config::default(), |machine| {
        let ring = Ring::new(machine, COPY);
        let done = ring.process.fence(0, 0);
        let (mut runs, mut waits) = (ring.process.queue(COPY), ring.process.queue(COPY));
        let gate = ring.process.fence(0, u64::MAX);
        waits.submit(&[gate.wait(1), done.signal(1)]);
        runs.submit(&[ring.process.execute(&[TIMED, TIMED], 0), done.signal(2)]);
        machine.platform.sleep_until(CpuTime(5_000));
        let before = ring.status();
        assert_eq!((before.responsive, before.queue), (true, Some(runs.id)));
        machine.platform.sleep_until(CpuTime(15_000));
        assert!(ring.status().progress > before.progress);
        assert_eq!(ring.reset(), (0, u64::from(runs.id.0) + 1));
        assert_eq!(ring.status().queue, None);
        gate.current.store(1);
        machine.run_command(AdminCommand::RescanWaits).expect("obeyed");
        machine.await_signals(&done, 1);
        assert_eq!(machine.state(runs.id), QueueState::Faulted);
        assert_eq!(machine.gpu.stats().queues[&QueueNumber(0)].busy_ns, 15_000);
    });
}

#[test]
fn a_destroyed_queue_leaves_its_hang_behind() {
    everywhere(Config::default(), |machine| {
        let ring = Ring::new(machine, COPY);
        let done = ring.process.fence(0, 0);
        let mut queue = ring.process.queue(COPY);
        queue.submit(&[ring.process.execute(&[Command::Hang], 0)]);
        ring.await_hang();
        machine.run_command(AdminCommand::DestroyQueue { queue: queue.id }).expect("a queue");
        let mut next = ring.process.queue(COPY);
        next.submit(&[done.signal(1)]);
        assert!(!ring.status().responsive);
        assert_eq!(ring.reset(), (0, u64::from(queue.id.0) + 1));
        machine.await_signals(&done, 1);
    });
}

#[test]
fn a_packet_whose_state_finds_no_place_faults_and_the_others_come_back() {
    on(&Platform::virtual_time(StepCosts::free()), Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        let nowhere = GpuVa(0x7000_0000_0000);
        let (words, page, _) = ring.system.words(512);
        for (round, save) in [nowhere, words].into_iter().enumerate() {
            let id = round as u32 * 10 + 1;
            let start = machine.platform.now();
            let begun = ring.packet(ring.process.commands(&[TIMED]), id, save, DmaFlags::empty());
            let behind = ring.plain(&[TIMED], id + 1);
            ring.queue.submit(&[begun, behind]);
            machine.platform.sleep_until(start.after(4_000));
            assert_eq!(ring.preempt(id + 2), Ok(()));
            assert_eq!(machine.await_preempted(COPY, u64::from(id) + 2), 0);
            let seen = machine.seen();
            let at =
                |wanted: &dyn Fn(&Seen) -> bool| seen.iter().position(wanted).expect("it was seen");
            let of_packet =
                |s: &Seen| matches!(s, Seen::Fault { position, .. } if *position == u64::from(id));
            let of_request =
                |s: &Seen| matches!(s, Seen::Preempted(_, asked, _) if *asked == u64::from(id) + 2);
            // The same interrupt tells both.
            assert_eq!(at(&of_packet), at(&of_request) + 1);
        }
        assert_eq!(page.word(0).load(), 0);
    });
}

/// In virtual time the packet is stopped a known number of times. On host threads the engine and
/// the requests race: how often it is stopped is the machine's, and the bytes are the same.
#[test]
fn packets_that_are_preempted_repeatedly_end_in_the_same_bytes() {
    let stops = preempted_repeatedly(&Platform::virtual_time(StepCosts::free()));
    assert!(stops > 8, "{stops} stops of 8 dispatches, asked for every 50,000 ns");
    preempted_repeatedly(&Platform::closed_host());
}

/// Returns how often the packet was stopped before it came to its end.
fn preempted_repeatedly(platform: &Platform) -> u32 {
    use tidegate_d3dukmdt::{ComputePreemption, GraphicsPreemption};
    use tidegate_gpu_abi::regs::NodePreemption;
    use tidegate_programs::ProgramId;
    use tidegate_softgpu::{EngineKind, NodeConfig};
    let preemption =
        NodePreemption { graphics: GraphicsPreemption::Pixel, compute: ComputePreemption::Thread };
    let node = NodeConfig { preemption, ..NodeConfig::new("3D", EngineKind::ThreeD) };
    let rates = WorkRates { grain_ns: 10, ..WorkRates::default() };
    let config = Config { nodes: vec![node], rates, grains_per_turn: 64, ..Config::default() };
    let stops = Arc::new(platform.mutex("stops", 0));
    let counted = Arc::clone(&stops);
    on(platform, config, move |machine| {
        let mut ring = Ring::new(machine, 0);
        let save = ring.system.buffer(SAVE_AREA_BYTES as usize);
        let n = 40_000u32;
        let floats = |step: f32| {
            (0..n).flat_map(move |i| (i as f32 * step).to_le_bytes()).collect::<Vec<_>>()
        };
        let x = ring.process.buffer(4 * n as usize);
        x.put(0, &floats(0.25));
        let [disturbed, alone] = [0, 1].map(|_| {
            let y = ring.process.buffer(4 * n as usize);
            y.put(0, &floats(1.75));
            let args = vec![x.va.0, y.va.0, u64::from(n), u64::from(0.5f32.to_bits())];
            let commands = vec![program(ProgramId::SAXPY, args); 8];
            (y, ring.process.commands(&commands))
        });
        let whole = ring.packet(alone.1, 1, GpuVa(0), DmaFlags::empty());
        ring.queue.submit(&[whole]);
        machine.await_completed(0, 1);
        let (mut id, mut flags) = (2, DmaFlags::empty());
        loop {
            let packet = ring.packet(disturbed.1, id, save.va, flags);
            ring.queue.submit(&[packet]);
            if machine.platform.kind() == PlatformKind::Virtual {
                machine.platform.sleep_until(machine.platform.now().after(50_000));
            }
            assert_eq!(ring.preempt(id + 1), Ok(()));
            if machine.await_preempted(0, u64::from(id) + 1) == u64::from(id) {
                break;
            }
            *counted.lock() += 1;
            (id, flags) = (id + 2, DmaFlags::RESUME);
            // What is left runs to its end when it was stopped often enough.
            if id > 400 {
                let last = ring.packet(disturbed.1, id, save.va, flags);
                ring.queue.submit(&[last]);
                machine.await_completed(0, u64::from(id));
                break;
            }
        }
        assert!(disturbed.0.bytes() == alone.0.bytes(), "after {id} ids");
    });
    *stops.lock()
}

// spec: PRE-152
#[test]
fn a_late_answer_leaves_packets_that_were_submitted_after_its_request() {
    on(&Platform::virtual_time(StepCosts::free()), Config::default(), |machine| {
        let mut ring = Ring::new(machine, COPY);
        ring.complete(&[TIMED], 1);
        // The kernel withdraws the request, because its packets are complete, and submits the next.
        assert_eq!(ring.preempt(2), Ok(()));
        ring.complete(&[TIMED], 3);
        assert_eq!(machine.await_preempted(COPY, 2), 1);
    });
}
