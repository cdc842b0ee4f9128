//! Queues on the hardware: doorbells, kicks, suspending, priorities, DMA packets, and rings
//! with hostile contents.

use crate::packets;
use std::sync::Weak;
use tidegate_testbed::prelude::gpu::*;

// spec: UMS-004, UMS-006
#[test]
fn a_ring_is_found_wherever_the_engine_is() {
    with_process(Config { interrupt_moderation_ns: 0, ..Config::default() }, |machine, process| {
        let done = process.fence(0, 0);
        let mut queue = process.queue(COPY);
        for value in 1..=20 {
            queue.submit(&[done.signal(value)]);
            // Every other round the engine has gone to sleep by the time of the ring.
            if value % 2 == 0 {
                machine.await_signals(&done, value as usize);
            }
        }
        machine.await_signals(&done, 20);
        assert_eq!(done.current.load(), 20);
    });
}

#[test]
fn a_ring_of_more_than_its_slots_wraps() {
    with_process(Config::default(), |machine, process| {
        let done = process.fence(0, 0);
        let mut queue =
            process.queue_with(COMPUTE, QueueOptions { slots: 4, ..Default::default() });
        for value in 1..=40 {
            queue.run_until(&[RingPacket::Nop, done.signal(value)], &done, value as usize);
        }
        // The turn of the last slots stores the read pointer at its end, after the interrupt.
        machine.gpu.stats();
        assert_eq!(queue.read_pointer(), 80);
    });
}

// spec: UMS-047
#[test]
fn work_rung_while_suspended_runs_on_resume_without_another_ring() {
    with_process(Config::default(), |machine, process| {
        let [first, second, other] = process.fences([0, 0, 0]);
        let (mut queue, mut bystander) = (process.queue(COPY), process.queue(COPY));
        queue.run_until(&[first.signal(1)], &first, 1);
        machine.admin(AdminCommand::SuspendQueue { queue: queue.id }).expect("a queue");
        assert_eq!(machine.state(queue.id), QueueState::Suspended);
        queue.submit(&[second.signal(1)]);
        bystander.run_until(&[other.signal(1)], &other, 1);
        assert_eq!(second.current.load(), 0);
        machine.admin(AdminCommand::ResumeQueue { queue: queue.id }).expect("a queue");
        machine.await_signals(&second, 1);
    });
}

#[test]
fn a_wait_that_is_satisfied_while_suspended_goes_on_at_resume() {
    with_process(Config::default(), |machine, process| {
        let [link, done, other] = process.fences([u64::MAX, 0, 0]);
        let (mut queue, mut signaler) = (process.queue(COPY), process.queue(COMPUTE));
        queue.submit(&[link.wait(1), done.signal(1)]);
        machine.admin(AdminCommand::SuspendQueue { queue: queue.id }).expect("a queue");
        signaler.run_until(&[link.signal(1), other.signal(1)], &other, 1);
        assert_eq!((machine.state(queue.id), done.current.load()), (QueueState::Suspended, 0));
        machine.admin(AdminCommand::ResumeQueue { queue: queue.id }).expect("a queue");
        machine.await_signals(&done, 1);
    });
}

#[test]
fn timed_work_that_is_suspended_keeps_the_rest_of_its_time() {
    timed_process(|machine, process| {
        let done = process.fence(0, 0);
        let mut queue = process.queue(COPY);
        let start = machine.platform.now();
        queue.submit(&[process.execute(&[Command::Timed { ns: 10_000 }], 0), done.signal(1)]);
        machine.platform.sleep_until(start.after(4_000));
        machine.admin(AdminCommand::SuspendQueue { queue: queue.id }).expect("a queue");
        machine.platform.sleep_until(start.after(50_000));
        assert_eq!(done.current.load(), 0);
        machine.admin(AdminCommand::ResumeQueue { queue: queue.id }).expect("a queue");
        machine.await_signals(&done, 1);
        assert_eq!(machine.platform.now(), CpuTime(start.0 + 56_000));
        assert_eq!(machine.gpu.stats().queues[&QueueNumber(0)].busy_ns, 10_000);
    });
}

// spec: UMS-009, UMS-029
#[test]
fn a_disconnected_doorbell_is_read_a_last_time_and_then_never() {
    with_process(Config::default(), |machine, process| {
        let done = process.fence(0, 0);
        let mut queue = process.queue(COPY);
        let (old, summary, bit) = queue.doorbell.clone().expect("connected");
        // A ring whose summary bit is still on its way when the doorbell goes.
        queue.put(&done.signal(1));
        queue.publish();
        old.store(DOORBELL_VALUE_WORD, queue.written);
        machine.admin(AdminCommand::DisconnectDoorbell { queue: queue.id }).expect("a queue");
        machine.await_signals(&done, 1);
        // The interrupt may come before the turn is over; this command waits for its end.
        machine.admin(invalidate(process.id)).expect("a space");
        // From now on the old page rings no queue.
        queue.put(&done.signal(2));
        queue.publish();
        old.store(DOORBELL_VALUE_WORD, queue.written);
        summary.ringer(bit).ring();
        assert!(machine.gpu.doorbell_page(queue.id).is_none());
        assert_eq!(machine.state(queue.id), QueueState::Idle);
        queue.connect();
        let fresh = queue.doorbell.clone().expect("connected");
        assert!(!fresh.0.same(&old), "each connect has a page of its own");
        assert_eq!(done.current.load(), 1);
        queue.ring();
        machine.await_signals(&done, 2);
    });
}

#[test]
fn an_engine_that_runs_looks_at_doorbells_whose_rings_set_no_bit() {
    with_process(Config::default(), |machine, process| {
        let [gate, one, other, done] = process.fences([0; 4]);
        let (mut polled, mut beside) = (process.queue(COPY), process.queue(COPY));
        let mut signaler = process.queue(COMPUTE);
        let page = polled.doorbell.clone().expect("connected").0;
        let store = |queue: &mut Queue, packet: &RingPacket| {
            queue.put(packet);
            queue.publish();
            page.store(DOORBELL_VALUE_WORD, queue.written);
        };
        // An engine that sleeps sees nothing, and no other engine runs the queue's work.
        store(&mut polled, &one.signal(1));
        machine.admin(invalidate(process.id)).expect("a space");
        assert_eq!(one.current.load(), 0);
        machine.gpu.poll_doorbell(polled.id);
        machine.await_signals(&one, 1);
        // It runs the other queue's work, and finds the ring on the way; also while it keeps a
        // queue that waits.
        for value in 2..=4 {
            beside.submit(&[gate.wait(value)]);
            store(&mut polled, &one.signal(value));
            beside.ring();
            machine.await_signals(&one, value as usize);
            signaler.submit(&[gate.signal(value)]);
        }
        // A disconnected doorbell is not looked at any more.
        machine.admin(AdminCommand::DisconnectDoorbell { queue: polled.id }).expect("a queue");
        store(&mut polled, &other.signal(1));
        beside.run_until(&[done.signal(1)], &done, 1);
        machine.admin(invalidate(process.id)).expect("a space");
        assert_eq!(other.current.load(), 0);
    });
}

/// The engine sleeps between its looks, so it looks when a sleep ends.
#[test]
fn an_idle_engine_looks_at_such_doorbells_at_an_interval() {
    on(&Platform::virtual_time(StepCosts::free()), Config::default(), |machine| {
        let process = machine.process();
        let done = process.fence(0, 0);
        let mut queue = process.queue(COPY);
        let page = queue.doorbell.clone().expect("connected").0;
        machine.gpu.poll_doorbell(queue.id);
        queue.run_until(&[done.signal(1)], &done, 1);
        let idle = machine.platform.now();
        for (value, at_ns, found_ns) in [(2, 1_000, 40_000), (3, 90_000, 120_000)] {
            machine.platform.sleep_until(idle.after(at_ns));
            queue.put(&done.signal(value));
            queue.publish();
            page.store(DOORBELL_VALUE_WORD, queue.written);
            machine.await_signals(&done, value as usize);
            assert_eq!(machine.platform.now().since(idle), found_ns);
        }
    });
}

#[test]
fn a_kick_reads_the_write_pointer_anew() {
    with_process(Config::default(), |machine, process| {
        let done = process.fence(0, 0);
        let mut queue = machine.kernel_queue(COMPUTE, QueueKind::Kernel, &process);
        // A command that takes time, so that no interrupt reports two signals.
        for value in 1..=5 {
            queue.submit(&[process.execute(&[Command::Timed { ns: 1 }], 0), done.signal(value)]);
        }
        machine.await_signals(&done, 5);
        let mut user =
            process.queue_with(COPY, QueueOptions { connect: false, ..Default::default() });
        user.submit(&[done.signal(6)]);
        machine.admin(AdminCommand::KickQueue { queue: user.id }).expect("a queue");
        machine.await_signals(&done, 6);
    });
}

fn dma(process: &Process, commands: &[Command], id: u32) -> RingPacket {
    let mut packet =
        packets::dma(process, process.commands(commands), id, GpuVa(0), DmaFlags::empty());
    if let RingPacket::ExecuteDma { os_handle, .. } = &mut packet {
        *os_handle = id.into();
    }
    packet
}

#[test]
fn dma_packets_of_several_processes_complete_in_order() {
    everywhere(Config::default(), |machine| {
        let (one, two) = (machine.process(), machine.process());
        let buffers = [one.buffer(8), two.buffer(8)];
        let mut ring = machine.kernel_queue(THREE_D, QueueKind::Node, &one);
        let store = |b: &Buffer, value| [Command::WriteValue { destination: b.va, value }];
        let packets: Vec<RingPacket> = (1..=12)
            .map(|id| match id % 2 {
                0 => dma(&one, &store(&buffers[0], u64::from(id)), id),
                _ => dma(&two, &store(&buffers[1], u64::from(id)), id),
            })
            .collect();
        ring.submit(&packets);
        let last = Seen::Completed(THREE_D, 12);
        let seen = machine.await_seen(|seen| seen.contains(&last));
        let ids: Vec<u64> =
            seen.iter().map(|s| if let Seen::Completed(0, id) = s { *id } else { 0 }).collect();
        assert!(ids.is_sorted(), "{ids:?}");
        assert_eq!(buffers.map(|b| b.bulk.read_u64(0).unwrap()), [12, 11]);
        assert_eq!(machine.gpu.stats().queues[&QueueNumber(5)].packets, 1);
    });
}

#[test]
fn a_new_ring_of_an_engine_begins_its_line_of_ids() {
    with_process(Config::default(), |machine, process| {
        let buffer = process.buffer(8);
        let store = [Command::WriteValue { destination: buffer.va, value: 1 }];
        let mut ring = machine.kernel_queue(COPY, QueueKind::Node, &process);
        ring.submit(&[dma(&process, &store, 12)]);
        machine.await_completed(COPY, 12);
        machine.run_command(AdminCommand::DestroyQueue { queue: ring.id }).unwrap();
        let mut again = machine.kernel_queue(COPY, QueueKind::Node, &process);
        assert_eq!(machine.gpu.read_register(Register::COMPLETED_FENCE.offset(COPY)), 0);
        again.submit(&[dma(&process, &store, 1)]);
        machine.await_seen(|seen| seen.contains(&Seen::Completed(COPY, 1)));
    });
}

#[test]
fn a_dma_packet_that_faults_is_its_contexts_fault_and_the_node_goes_on() {
    with_process(Config::default(), |machine, process| {
        let buffer = process.buffer(8);
        let mut ring = machine.kernel_queue(COPY, QueueKind::Node, &process);
        let bad = [Command::WriteValue { destination: GpuVa(0x9000), value: 1 }];
        let good = [Command::WriteValue { destination: buffer.va, value: 1 }];
        ring.submit(&[dma(&process, &bad, 70), dma(&process, &good, 71)]);
        let seen = machine.await_seen(|seen| seen.contains(&Seen::Completed(COPY, 71)));
        let is_fault = |s: &Seen| {
            matches!(s, Seen::Fault { queue, va: GpuVa(0x9000), position: 70, kind, .. }
                if *queue == ring.id && *kind == FaultKind::WriteUnmapped)
        };
        assert!(
            seen.iter().any(is_fault) && !seen.contains(&Seen::Completed(COPY, 70)),
            "{seen:?}"
        );
        assert_ne!(machine.state(ring.id), QueueState::Faulted);
    });
}

#[test]
fn the_higher_priority_runs_first_and_equals_take_turns() {
    timed_process(|machine, process| {
        let [done, gate] = process.fences([0, u64::MAX]);
        let order = process.buffer(64);
        let mut blocker =
            process.queue_with(COPY, QueueOptions { priority: 3, ..Default::default() });
        blocker.submit(&[process.execute(&[Command::Timed { ns: 1_000 }], 0)]);
        // Each queue's packet copies a running number to its own place, and counts it up by a copy
        // from a table.
        let table = process.buffer(64 * 8);
        (0..64u64).for_each(|i| table.put(i * 8, &(i + 1).to_le_bytes()));
        let mut queues = Vec::new();
        for (number, priority) in [(0u64, 0), (1, 1), (2, 3), (3, 1), (4, 2)] {
            let queue = process.queue_with(
                COPY,
                QueueOptions { priority, os_handle: number, ..Default::default() },
            );
            queues.push((number, queue));
        }
        for (number, queue) in &mut queues {
            // Timed work puts a stamp between the packets: their order is the order of the signals.
            let timed = process.execute(&[Command::Timed { ns: 10 }], 0);
            let mark = Command::WriteValue { destination: order.va.plus(*number * 8), value: 1 };
            queue.submit(&[timed, process.execute(&[mark], 0), done.signal(*number + 1)]);
        }
        machine.await_signals(&done, 5);
        let ran: Vec<u32> = machine
            .seen()
            .iter()
            .filter_map(|s| match s {
                Seen::Signaled(queue, _) => {
                    queues.iter().position(|(_, q)| q.id == *queue).map(|p| p as u32)
                }
                _ => None,
            })
            .collect();
        assert_eq!(ran, [2, 4, 1, 3, 0]);
        drop(gate);
    });
}

/// How much of `ns` each of these queues gets of an engine, all with more timed work than that; by
/// process, band and length of a piece.
fn shares(machine: &Arc<Machine>, ns: u64, queues: &[(&Process, u32, u64)]) -> Vec<u64> {
    let mut made = Vec::new();
    for (os_handle, (process, band, piece)) in (1..).zip(queues) {
        let options = QueueOptions { priority: *band, os_handle, ..Default::default() };
        let mut queue = process.queue_with(COMPUTE, options);
        let packets: Vec<_> =
            (0..60).map(|_| process.execute(&[Command::Timed { ns: *piece }], 0)).collect();
        packets.iter().for_each(|packet| queue.put(packet));
        queue.publish();
        made.push(queue);
    }
    let end = machine.platform.now().after(ns);
    made.iter().for_each(|queue| queue.ring());
    machine.platform.sleep_until(end);
    made.iter().for_each(|q| {
        machine.run_command(AdminCommand::SuspendQueue { queue: q.id }).expect("a queue")
    });
    let stats = machine.gpu.stats();
    (1..=queues.len()).map(|n| stats.of(&[QueueNumber(n as u64)]).busy_ns).collect()
}

const MS: u64 = 1_000_000;

// spec: HS-004
#[test]
fn an_engine_under_focus_load_leaves_normal_its_share_in_the_middle_of_long_work() {
    on(&Platform::virtual_time(StepCosts::free()), Config::default(), |machine| {
        let (a, b) = (machine.process(), machine.process());
        let bands =
            |normal_percent| AdminCommand::SetBands { process_quantum_ns: [0; 4], normal_percent };
        machine.run_command(bands(25)).expect("bands");
        // FOCUS: one piece of work that takes longer than the test.
        let got = shares(machine, 500 * MS, &[(&a, 2, 1_000 * MS), (&b, 1, 40 * MS), (&b, 0, MS)]);
        assert!(got[1].abs_diff(125 * MS) <= 5 * MS && got[2] == 0, "{got:?}");
        assert!(
            got[0] + got[1] >= 495 * MS,
            "the engine is never idle but for the last slice, which is not counted yet"
        );
    });
}

// spec: HS-006
#[test]
fn an_engine_gives_a_process_with_ten_queues_as_much_as_one_with_one() {
    on(&Platform::virtual_time(StepCosts::free()), Config::default(), |machine| {
        let (one, ten) = (machine.process(), machine.process());
        let bands = AdminCommand::SetBands { process_quantum_ns: [4 * MS; 4], normal_percent: 10 };
        machine.run_command(bands).expect("bands");
        let mut loads = vec![(&one, 1, 10 * MS)];
        loads.extend((0..10).map(|_| (&ten, 1, 7 * MS)));
        let got = shares(machine, 400 * MS, &loads);
        let of_ten: u64 = got[1..].iter().sum();
        assert!(got[0].abs_diff(of_ten) <= 2 * (4 + 10) * MS, "{got:?}");
    });
}

/// Waits until `queue` is stopped, and returns where and why.
fn fault_of(machine: &Machine, queue: QueueId) -> (u64, FaultKind) {
    let of_queue = |s: &Seen| matches!(s, Seen::Fault { queue: q, .. } if *q == queue);
    let seen = machine.await_seen(|seen| seen.iter().any(of_queue));
    match seen.iter().find(|s| of_queue(s)) {
        Some(Seen::Fault { position, kind, .. }) => (*position, *kind),
        _ => panic!("it was seen"),
    }
}

/// After whatever happened, another queue of the same node works.
fn still_works(machine: &Arc<Machine>, node: u32) {
    let process = machine.process();
    let done = process.fence(0, 0);
    process.queue(node).submit(&[done.signal(1)]);
    machine.await_signals(&done, 1);
}

/// Waits until there were more faults than that: a queue that does harm is served in turn with
/// those that it does not harm.
fn await_faults(machine: &Machine, more_than: u64) {
    machine.poll_until(|| machine.gpu.stats().faults > more_than);
}

/// Rings with a write pointer of the test's choice.
fn ring_with(queue: &Queue, value: u64) {
    let (page, summary, bit) = queue.doorbell.clone().expect("connected");
    page.store(DOORBELL_VALUE_WORD, value);
    summary.ringer(bit).ring();
}

#[test]
fn a_write_pointer_that_jumps_stops_its_queue_alone() {
    with_process(Config::default(), |machine, process| {
        for value in [65, 1 << 40, u64::MAX] {
            let queue = process.queue(COPY);
            ring_with(&queue, value);
            assert_eq!(fault_of(machine, queue.id), (0, FaultKind::BadPacket));
            assert_eq!(machine.state(queue.id), QueueState::Faulted);
            still_works(machine, COPY);
        }
        // Backwards in the control area, forwards beyond the ring there.
        for value in [0, 1_000] {
            let mut queue = process.queue(COPY);
            let done = process.fence(0, 0);
            queue.run_until(&[RingPacket::Nop, done.signal(1)], &done, 1);
            queue.control.word(CONTROL_WRITE_WORD).store(value);
            machine.admin(AdminCommand::KickQueue { queue: queue.id }).expect("a queue");
            assert_eq!(fault_of(machine, queue.id).1, FaultKind::BadPacket);
        }
        still_works(machine, COPY);
    });
}

/// The bound counts from the last slot that is finished, not from the last one that is announced.
#[test]
fn a_write_pointer_may_not_pass_a_blocked_head_by_more_than_the_ring() {
    with_process(Config::default(), |machine, process| {
        let slots = QueueOptions::default().slots;
        // The head of the queue is a blocked wait in slot 0. Ten packets behind it are announced.
        let blocked = || {
            let (mut queue, gate) = (process.queue(COPY), process.fence(0, u64::MAX));
            queue.put(&gate.wait(1));
            (0..10).for_each(|_| queue.put(&RingPacket::Nop));
            queue.submit(&[]);
            machine.poll_until(|| machine.state(queue.id) == QueueState::Waiting);
            (queue, gate)
        };
        let open = |gate: &Fence| {
            gate.current.store(1);
            let current_value = gate.current_va;
            machine
                .admin(AdminCommand::NotifyFence { address_space: process.id, current_value })
                .expect("a fence");
        };
        // A doorbell is read at once.
        for beyond in [slots + 1, slots + 11] {
            let (queue, _gate) = blocked();
            ring_with(&queue, beyond);
            let fault = fault_of(machine, queue.id);
            assert_eq!(fault, (0, FaultKind::BadPacket), "a doorbell shows {beyond}");
        }
        // The control area is read again when the wait is over: slot 0 is finished then.
        for beyond in [slots + 2, slots + 11] {
            let (queue, gate) = blocked();
            queue.control.word(CONTROL_WRITE_WORD).store(beyond);
            machine.admin(AdminCommand::KickQueue { queue: queue.id }).expect("a queue");
            open(&gate);
            let fault = fault_of(machine, queue.id);
            assert_eq!(fault, (1, FaultKind::BadPacket), "the control area shows {beyond}");
        }
        // A ring that is full to its last slot is valid.
        let ((mut full, gate), done) = (blocked(), process.fence(0, 0));
        while full.written < slots - 1 {
            full.put(&RingPacket::Nop);
        }
        full.submit(&[done.signal(1)]);
        open(&gate);
        machine.await_signals(&done, 1);
        still_works(machine, COPY);
    });
}

// spec: UMS-008
#[test]
fn a_late_ring_of_an_old_value_is_harmless() {
    with_process(Config::default(), |_, process| {
        let done = process.fence(0, 0);
        let mut queue = process.queue(COPY);
        queue.run_until(&[RingPacket::Nop, done.signal(1)], &done, 1);
        ring_with(&queue, 1);
        queue.run_until(&[done.signal(2)], &done, 2);
    });
}

#[test]
fn garbage_in_a_ring_faults_and_never_hangs() {
    on(&Platform::closed_host(), Config::default(), |machine| {
        let process = machine.process();
        let mut random = 0x1234_5678_9ABC_DEF0u64;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let (mut faults, fence) = (0, process.fence(0, u64::MAX));
        for _ in 0..300 {
            let mut queue = process.queue((next() % 3) as u32);
            let mut bytes = [0; SLOT_BYTES as usize];
            for chunk in bytes.chunks_exact_mut(8) {
                chunk.copy_from_slice(&next().to_le_bytes());
            }
            // Half of them look like packets at first sight.
            if next() % 2 == 0 {
                (bytes[0], bytes[1]) = ((next() % 6) as u8, 1);
                let at = if next() % 2 == 0 { fence.current_va.0 } else { queue.ring_va.0 };
                bytes[8..16].copy_from_slice(&at.to_le_bytes());
            }
            queue.put_bytes(&bytes);
            queue.submit(&[]);
            faults += 1;
        }
        (0..3).for_each(|node| still_works(machine, node));
        await_faults(machine, faults / 2);
    });
}

#[test]
fn garbage_commands_fault_and_never_hang() {
    on(&Platform::closed_host(), Config::default(), |machine| {
        let process = machine.process();
        let mut random = 0x0F0F_1234_5678_9ABCu64;
        let mut next = move || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            random >> 16
        };
        for _ in 0..300 {
            let buffer = process.buffer(512);
            let mut words: Vec<u64> = (0..64).map(|_| next() % (1 << (next() % 60 + 1))).collect();
            words[0] = (next() % 9) | ((next() % 10) << 16);
            // Timed work of centuries is legal and would keep the engine.
            if words[0] as u16 == 5 {
                words[1] %= 1_000;
            }
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            buffer.put(0, &bytes[..]);
            let mut queue = process.queue((next() % 3) as u32);
            queue.submit(&[RingPacket::execute(buffer.va, 48, 0)]);
        }
        (0..3).for_each(|node| still_works(machine, node));
        await_faults(machine, 100);
    });
}

#[test]
fn a_ring_that_rewrites_itself_harms_no_other_queue() {
    with_process(Config::default(), |machine, process| {
        let mut queue = process.queue(COPY);
        // A packet whose commands copy garbage over the next slot and over their own command
        // buffer.
        let garbage = process.buffer(64);
        garbage.put(0, &[0xEE; 64]);
        let commands = process.buffer(4_096);
        let mut writer = tidegate_gpu_abi::CommandWriter::new();
        writer.push(&Command::Copy {
            source: garbage.va,
            destination: queue.ring_va.plus(SLOT_BYTES),
            bytes: 64,
        });
        writer.push(&Command::Copy {
            source: garbage.va,
            destination: commands.va.plus(64),
            bytes: 64,
        });
        writer.push(&Command::Label { name: 1 });
        commands.put(0, &writer.to_bytes());
        let bytes = writer.bytes() as u32;
        let execute = RingPacket::execute(commands.va, bytes, 0);
        let fence = process.fence(0, u64::MAX);
        queue.submit(&[execute, fence.signal(1)]);
        let (_, kind) = fault_of(machine, queue.id);
        assert_eq!((kind, fence.current.load()), (FaultKind::BadPacket, 0));
        still_works(machine, COPY);
    });
}

#[test]
fn a_user_ring_may_not_hold_kernel_packets() {
    with_process(Config::default(), |machine, process| {
        let mut queue = process.queue(COPY);
        queue.submit(&[dma(&process, &[Command::Label { name: 1 }], 1)]);
        assert_eq!(fault_of(machine, queue.id), (0, FaultKind::BadPacket));
    });
}

/// Waits for the end of every turn.
fn invalidate(address_space: AddressSpaceId) -> AdminCommand {
    AdminCommand::InvalidateTlb { address_space, physical_gpu: 0 }
}

fn shape(engine: u32, address_space: AddressSpaceId) -> QueueShape {
    QueueShape {
        engine,
        kind: QueueKind::User,
        address_space,
        ring: GpuVa(64),
        slots: 64,
        control: GpuVa(64),
        progress_current: GpuVa(0),
        progress_monitored: GpuVa(0),
    }
}

#[test]
fn a_ring_or_control_area_that_is_not_there_is_a_fault() {
    with_process(Config::default(), |machine, process| {
        let shape = shape(COPY, process.id);
        let create = |ring, control| AdminCommand::CreateQueue {
            shape: QueueShape { ring, control, ..shape },
            band: 1,
            os_handle: 0,
            context: 0,
        };
        let (control, words, _) = process.words(16);
        words.word(CONTROL_WRITE_WORD).store(1);
        for (command, kind) in [
            (create(GpuVa(0x4000), control), FaultKind::ReadUnmapped),
            (create(control, GpuVa(0x8000)), FaultKind::ReadUnmapped),
        ] {
            let (id, _) = machine.admin(command).expect("a queue");
            let queue = QueueId(id as u32);
            machine.admin(AdminCommand::KickQueue { queue }).expect("a queue");
            assert_eq!(fault_of(machine, queue).1, kind);
        }
        still_works(machine, COPY);
    });
}

#[test]
fn the_mailbox_refuses_what_makes_no_sense() {
    with_process(Config::default(), |machine, process| {
        let create = |engine, slots, band, kind| AdminCommand::CreateQueue {
            shape: QueueShape { slots, kind, ..shape(engine, process.id) },
            band,
            os_handle: 0,
            context: 0,
        };
        let schedule = |band, realtime_level, in_process| AdminCommand::SetScheduling {
            queue: QueueId(99),
            band,
            realtime_level,
            in_process,
            quantum_ns: 0,
        };
        let user = QueueKind::User;
        for (command, error) in [
            (create(3, 64, 1, user), AdminError::NoSuchEngine),
            (create(0, 63, 1, user), AdminError::BadValue),
            (create(0, 0, 1, user), AdminError::BadValue),
            (create(0, 1 << 21, 1, user), AdminError::BadValue),
            (create(0, 64, 4, user), AdminError::BadValue),
            (create(0, 64, 1, QueueKind::Node), AdminError::BadAddress),
            (schedule(4, 0, 0), AdminError::BadValue),
            (schedule(3, 32, 0), AdminError::BadValue),
            (schedule(1, 0, -8), AdminError::BadValue),
            (schedule(1, 0, 8), AdminError::BadValue),
            (schedule(3, 31, -7), AdminError::NoSuchQueue),
            (
                AdminCommand::SetBands { process_quantum_ns: [0; 4], normal_percent: 51 },
                AdminError::BadValue,
            ),
            (AdminCommand::KickQueue { queue: QueueId(99) }, AdminError::NoSuchQueue),
            (AdminCommand::DestroyQueue { queue: QueueId(99) }, AdminError::NoSuchQueue),
            (invalidate(AddressSpaceId(u32::MAX)), AdminError::BadValue),
        ] {
            assert_eq!(machine.admin(command), Err(error), "{command:?}");
        }
    });
}

#[test]
fn a_destroyed_queue_takes_its_waits_and_its_doorbell_with_it() {
    with_process(Config::default(), |machine, process| {
        let [fence, done] = process.fences([u64::MAX, 0]);
        let mut queue = process.queue(COPY);
        queue.submit(&[fence.wait(1)]);
        let (page, summary, bit) = queue.doorbell.clone().expect("connected");
        machine.admin(AdminCommand::DestroyQueue { queue: queue.id }).expect("a queue");
        assert_eq!(
            machine.admin(AdminCommand::QueryQueue { queue: queue.id }),
            Err(AdminError::NoSuchQueue)
        );
        page.store(DOORBELL_VALUE_WORD, 2);
        summary.ringer(bit).ring();
        let mut other = process.queue(COPY);
        other.run_until(&[fence.signal(1), done.signal(1)], &done, 1);
    });
}

#[test]
fn queues_are_taken_from_their_engine_in_the_middle_of_long_work() {
    let config = Config { service_threads: 3, ..Config::default() };
    on(&Platform::closed_host(), config, |machine| {
        let process = machine.process();
        let (from, to) = (process.buffer(8 << 20), process.buffer(8 << 20));
        let done = process.fence(0, 0);
        let mut queue = process.queue(COPY);
        let copy = Command::Copy { source: from.va, destination: to.va, bytes: 8 << 20 };
        queue.submit(&[process.execute(&[copy], 0), done.signal(1)]);
        for _ in 0..20 {
            machine.admin(AdminCommand::SuspendQueue { queue: queue.id }).expect("a queue");
            let before = machine.gpu.stats().signals;
            machine.admin(invalidate(process.id)).expect("a space");
            assert_eq!(machine.gpu.stats().signals, before, "a suspended queue does nothing");
            machine.admin(AdminCommand::ResumeQueue { queue: queue.id }).expect("a queue");
        }
        machine.await_signals(&done, 1);
        machine.admin(AdminCommand::DestroyQueue { queue: queue.id }).expect("a queue");
    });
}

#[test]
fn hundreds_of_queues_share_three_engines() {
    with_process(Config::default(), |machine, process| {
        let mut done = Vec::new();
        for number in 0..200u32 {
            let options = QueueOptions { slots: 4, priority: number % 4, ..Default::default() };
            let mut queue = process.queue_with(number % 3, options);
            let fence = process.fence(0, 0);
            queue.submit(&[process.execute(&[Command::Label { name: 1 }], 0), fence.signal(1)]);
            done.push(fence);
        }
        done.iter().for_each(|f| machine.await_signals(f, 1));
    });
}

/// Posts an invalidation from the interrupt routine, and keeps its answer.
struct Posting {
    machine: Weak<Machine>,
    space: AddressSpaceId,
    answer: OnceLock<(u64, u64)>,
    raised: Event,
}

impl InterruptSink for Posting {
    fn raise(&self) {
        let machine = self.machine.upgrade().expect("the machine runs");
        let (status, (ticket, _)) = machine.exchange(invalidate(self.space));
        let _first = self.answer.set((status, ticket));
        self.raised.set(Step::ThreadWake);
    }

    fn turn_ended(&self) {}
}

// spec: PRE-150
#[test]
fn a_command_from_inside_of_a_turn_is_pending_until_that_turn_ends() {
    with_process(Config::default(), |machine, process| {
        let fence = process.fence(0, 0);
        let sink = Arc::new(Posting {
            machine: Arc::downgrade(machine),
            space: process.id,
            answer: OnceLock::new(),
            raised: machine.platform.event(true),
        });
        machine.gpu.connect_interrupt(sink.clone());
        let mut queue = process.queue(COPY);
        queue.submit(&[fence.signal(1)]);
        sink.raised.wait();
        let (status, ticket) = *sink.answer.get().expect("it is raised");
        assert_eq!(status, PENDING, "the turn goes on while its interrupt routine runs");
        let completed = machine.admin(AdminCommand::Continue { ticket, at_once: false });
        assert_eq!(completed, Ok((0, 0)));
        let again = machine.admin(AdminCommand::Continue { ticket, at_once: false });
        assert_eq!(again, Err(AdminError::BadValue), "it is complete");
    });
}

#[test]
fn a_queue_that_ends_gives_its_doorbell_back() {
    with_process(Config::default(), |machine, process| {
        let [first, second] = [process.queue(COPY), process.queue(COPY)];
        for (queue, left) in [(&second, 1), (&first, 0)] {
            assert_eq!(machine.gpu.census().doorbells, left + 1);
            machine.run_command(AdminCommand::DestroyQueue { queue: queue.id }).unwrap();
            assert_eq!(machine.gpu.census().doorbells, left);
        }
    });
}

/// Submits a second packet when the first has completed, from inside of the turn.
struct Following {
    machine: Weak<Machine>,
    queue: QueueId,
    control: Page,
    first: OnceLock<()>,
    second: Event,
}

impl InterruptSink for Following {
    fn raise(&self) {
        let machine = self.machine.upgrade().expect("the machine runs");
        machine.gpu.read_register(Register::INTERRUPT_CAUSE);
        if self.first.set(()).is_err() {
            return self.second.set(Step::ThreadWake);
        }
        self.control.word(CONTROL_WRITE_WORD).store(2);
        let kick = AdminCommand::KickQueue { queue: self.queue };
        assert_eq!(machine.exchange(kick).0, 0);
    }

    fn turn_ended(&self) {}
}

#[test]
fn a_kick_from_inside_of_a_turn_is_not_lost() {
    everywhere(Config::default(), |machine| {
        let (process, system) = (machine.process(), machine.system_process());
        let commands = process.commands(&[Command::Timed { ns: 1 }]);
        let dma = |id| packets::dma(&process, commands, id, GpuVa(0), DmaFlags::empty());
        let mut queue = machine.kernel_queue(COPY, QueueKind::Node, &system);
        queue.put(&dma(1));
        queue.publish();
        queue.put(&dma(2));
        let sink = Arc::new(Following {
            machine: Arc::downgrade(machine),
            queue: queue.id,
            control: queue.control.clone(),
            first: OnceLock::new(),
            second: machine.platform.event(true),
        });
        machine.gpu.connect_interrupt(sink.clone());
        queue.ring();
        sink.second.wait();
        let completed = machine.gpu.read_register(Register::COMPLETED_FENCE.offset(COPY));
        assert_eq!(completed, 2);
    });
}

/// Stores to the doorbell of a queue as its signal is reported. The bit of the doorbell stays
/// clear, so the engine finds the ring only in the doorbell of the queue that it keeps.
struct Ringing {
    doorbell: Page,
    value: u64,
}

impl InterruptSink for Ringing {
    fn raise(&self) {
        self.doorbell.store(DOORBELL_VALUE_WORD, self.value);
    }

    fn turn_ended(&self) {}
}

#[test]
fn a_ring_that_the_engine_finds_in_the_doorbell_makes_it_young() {
    let platform = Platform::virtual_time(StepCosts::free());
    let config = Config { interrupt_moderation_ns: 0, ..Config::default() };
    on(&platform, config, |machine| {
        let process = machine.process();
        let [told, done] = [0, u64::MAX].map(|monitored| process.fence(0, monitored));
        let [mut queue, other] = [process.queue(COPY), process.queue(COPY)];
        // Ages count the rings of all queues, connects among them.
        let age = |id: QueueId| machine.gpu.read_register(Register::LAST_RING.offset(id.place()));
        let before = age(other.id);
        queue.put(&told.signal(1));
        queue.publish();
        let (page, ..) = queue.doorbell.clone().expect("it is connected");
        queue.ring();
        queue.put(&done.signal(1));
        let ringing = Ringing { doorbell: page, value: queue.written };
        machine.gpu.connect_interrupt(Arc::new(ringing));
        machine.poll_until(|| told.current.load() == 1);
        machine.run_command(AdminCommand::SuspendQueue { queue: queue.id }).unwrap();
        assert_eq!(done.current.load(), 1, "the ring was found");
        assert_eq!(age(queue.id), before + 2, "once by its bit, once without");
    });
}
