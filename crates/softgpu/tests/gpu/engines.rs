//! What engines do with memory: copies, fills, programs and stored values through GPU virtual
//! addresses, on every platform.

use crate::packets::program;
use tidegate_d3dukmdt::RenderPipelineStage;
use tidegate_gpu_abi::regs::FaultInfo;
use tidegate_programs::layout::VERTEX_LEN;
use tidegate_testbed::prelude::gpu::*;

/// Runs `commands` on a new queue of `node` and waits until they are done.
fn run(process: &Process, node: u32, commands: &[Command]) {
    let done = process.fence(0, 0);
    let mut queue = process.queue(node);
    queue.run_until(&[process.execute(commands, 0), done.signal(1)], &done, 1);
}

/// Runs `commands` on a new queue of `node` and returns the fault that they end in.
fn run_into_fault(
    machine: &Arc<Machine>,
    process: &Process,
    node: u32,
    commands: &[Command],
) -> (GpuVa, FaultKind) {
    let mut queue = process.queue(node);
    queue.submit(&[process.execute(commands, 0)]);
    let Seen::Fault { queue: faulted, va, position: 0, kind, .. } = machine.await_fault() else {
        panic!("not a fault of the first slot: {:?}", machine.seen());
    };
    assert_eq!(faulted, queue.id);
    assert_eq!(machine.state(queue.id), QueueState::Faulted);
    (va, kind)
}

#[test]
fn a_copy_goes_through_page_tables_and_over_page_borders() {
    with_process(Config::default(), |machine, process| {
        let (from, to) = (process.buffer(20_000), process.local_buffer(20_000));
        let data: Vec<u8> = (0..20_000u32).map(|i| (i * 7 % 251) as u8).collect();
        from.put(0, &data);
        for node in [THREE_D, COMPUTE, COPY] {
            to.put(0, &[0; 20_000]);
            let copy = Command::Copy {
                source: from.va.plus(3),
                destination: to.va.plus(4_090),
                bytes: 15_000,
            };
            run(&process, node, &[copy]);
            let mut expected = vec![0; 20_000];
            expected[4_090..19_090].copy_from_slice(&data[3..15_003]);
            assert!(to.bytes() == expected, "{:?}", machine.platform.kind());
        }
    });
}

#[test]
fn a_copy_larger_than_a_turn_is_whole() {
    on(&Platform::closed_host(), Config::default(), |machine| {
        let process = machine.process();
        let (from, to) = (process.buffer(3 << 20), process.buffer(3 << 20));
        let data: Vec<u8> =
            (0..3u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        from.put(0, &data);
        let copy = Command::Copy { source: from.va, destination: to.va, bytes: 3 << 20 };
        run(&process, COPY, &[copy]);
        assert!(to.bytes() == data);
        let stats = machine.gpu.stats();
        let of_queue = &stats.queues[&QueueNumber(0)];
        assert_eq!((of_queue.commands, of_queue.packets), (1, 1));
        let busy_ns = stats.nodes[COPY as usize].busy_ns;
        assert!(of_queue.busy_ns > 0 && busy_ns == of_queue.busy_ns);
    });
}

#[test]
fn a_fill_repeats_its_pattern_from_its_first_byte() {
    with_process(Config::default(), |_, process| {
        let to = process.buffer(16_384);
        // An odd start, so that the pattern is cut by page borders.
        let fill =
            Command::Fill { destination: to.va.plus(4_095), bytes: 8_196, value: 0x4433_2211 };
        run(&process, COPY, &[fill]);
        let mut expected = vec![0; 16_384];
        for (number, byte) in expected[4_095..12_291].iter_mut().enumerate() {
            *byte = [0x11, 0x22, 0x33, 0x44][number % 4];
        }
        assert!(to.bytes() == expected);
    });
}

#[test]
fn a_dispatch_computes_over_gpu_addresses() {
    with_process(Config::default(), |machine, process| {
        let count = 3_000u64;
        let (x, y) = (process.buffer(12_000), process.local_buffer(12_000));
        let floats =
            |f: fn(u32) -> f32| (0..3_000).flat_map(|i| f(i).to_le_bytes()).collect::<Vec<u8>>();
        x.put(0, &floats(|i| i as f32));
        y.put(0, &floats(|i| 1.0 + i as f32));
        let args = vec![x.va.0, y.va.0, count, u64::from(2.0f32.to_bits())];
        let dispatch = program(ProgramId::SAXPY, args);
        run(&process, COMPUTE, std::slice::from_ref(&dispatch));
        assert!(y.bytes() == floats(|i| 2.0 * i as f32 + (1.0 + i as f32)));
        assert_eq!(run_into_fault(machine, &process, COPY, &[dispatch]).1, FaultKind::WrongEngine);
    });
}

#[test]
fn a_draw_is_for_the_three_d_engine_alone() {
    // The engine takes it and its arguments are wrong; the other one does not take it.
    for (node, fault) in [(THREE_D, FaultKind::BadArguments), (COMPUTE, FaultKind::WrongEngine)] {
        on(&Platform::closed_host(), Config::default(), move |machine| {
            let process = machine.process();
            let (program, groups) = (ProgramId::DRAW.0, [1, 1, 1]);
            let draw = Command::Draw { program, groups, args: vec![] };
            assert_eq!(run_into_fault(machine, &process, node, &[draw]).1, fault, "node {node}");
        });
    }
}

#[test]
fn a_draw_paints_its_target_in_local_memory() {
    with_process(Config::default(), |_, process| {
        let colour = [200, 100, 3, 255];
        let corner = |x, y| Vertex {
            position: [x, y, 0.5, 1.0],
            normal: [0.0, 0.0, -1.0],
            uv: [0.0; 2],
            colour,
        };
        let (a, b, c, d) =
            (corner(-1.0, -1.0), corner(-1.0, 1.0), corner(1.0, 1.0), corner(1.0, -1.0));
        let vertices = process.buffer(6 * VERTEX_LEN);
        vertices.put(0, &vertex_bytes(&[a, b, c, a, c, d]));
        let (target, depth) =
            (process.local_buffer(4 * 70 * 33), process.local_buffer(4 * 70 * 33));
        depth.put(0, &[1.0f32.to_le_bytes(); 70 * 33].concat());
        let mut args = vec![0; 16];
        (args[0], args[1], args[4]) = (vertices.va.0, 6, 2);
        (args[6], args[7], args[8], args[9]) = (target.va.0, depth.va.0, 70, 33);
        run(&process, THREE_D, &[program(ProgramId::DRAW, args)]);
        assert!(target.bytes().chunks_exact(4).all(|pixel| pixel == colour));
    });
}

#[test]
fn a_stored_value_is_visible_and_unblocks_without_an_interrupt() {
    with_process(Config::default(), |machine, process| {
        let [first, done] = process.fences([0, 0]);
        let (mut storer, mut waiter) = (process.queue(COPY), process.queue(COMPUTE));
        waiter.submit(&[first.wait(5), done.signal(1)]);
        let store = Command::WriteValue { destination: first.current_va, value: 5 };
        storer.run_until(&[process.execute(&[store], 0)], &done, 1);
        assert_eq!(first.current.load(), 5);
        let of_first = |s: &Seen| matches!(s, Seen::Signaled(_, va) if *va == first.current_va);
        assert!(!machine.seen().iter().any(of_first));
    });
}

#[test]
fn a_copy_onto_a_current_value_is_a_signal() {
    with_process(Config::default(), |_, process| {
        let [first, done] = process.fences([u64::MAX, 0]);
        let value = process.buffer(8);
        value.put(0, &9u64.to_le_bytes());
        let (mut copier, mut waiter) = (process.queue(COPY), process.queue(THREE_D));
        waiter.submit(&[first.wait(9), done.signal(1)]);
        let copy = Command::Copy { source: value.va, destination: first.current_va, bytes: 8 };
        copier.run_until(&[process.execute(&[copy], 0)], &done, 1);
        assert_eq!(first.current.load(), 9);
    });
}

// spec: NF-013
#[test]
fn a_protocol_page_takes_whole_words_only() {
    with_process(Config::default(), |machine, process| {
        let (fence, bytes): (Fence, _) = (process.fence(1, u64::MAX), process.buffer(64));
        let torn = Command::Copy { source: bytes.va, destination: fence.current_va, bytes: 4 };
        assert_eq!(
            run_into_fault(machine, &process, COPY, &[torn]),
            (fence.current_va, FaultKind::BadPacket)
        );
        assert_eq!(fence.current.load(), 1);
    });
}

#[test]
fn a_page_fault_names_its_address() {
    with_process(Config::default(), |machine, process| {
        let (from, to) = (process.buffer(8_192), process.read_only_buffer(8_192));
        let beyond = Command::Copy { source: from.va, destination: GpuVa(0xDEAD_B000), bytes: 64 };
        let fault = run_into_fault(machine, &process, COPY, &[beyond]);
        assert_eq!(fault, (GpuVa(0xDEAD_B000), FaultKind::WriteUnmapped));
        let mut queue = process.queue(COPY);
        let cases = [
            (from.va, to.va, 64, (to.va, FaultKind::WriteUnmapped)),
            (from.va.plus(8_000), from.va, 1_000, (from.va.plus(8_192), FaultKind::ReadUnmapped)),
            (GpuVa(u64::MAX - 7), from.va, 64, (GpuVa(u64::MAX - 7), FaultKind::ReadUnmapped)),
            (GpuVa(1 << 48), from.va, 64, (GpuVa(1 << 48), FaultKind::ReadUnmapped)),
        ];
        for (before, (source, destination, bytes, expected)) in cases.into_iter().enumerate() {
            queue.submit(&[process.execute(&[Command::Copy { source, destination, bytes }], 0)]);
            let is_fault = |s: &&Seen| matches!(s, Seen::Fault { .. });
            let seen = machine.await_seen(|s| s.iter().filter(is_fault).count() == before + 2);
            let Some(Seen::Fault { va, kind, .. }) = seen.last() else { panic!("{seen:?}") };
            assert_eq!((*va, *kind), expected);
            queue = process.queue(COPY);
        }
    });
}

#[test]
fn an_invalidated_translation_is_not_used_again() {
    with_process(Config::default(), |machine, process| {
        let (from, old) = (process.buffer(4_096), process.buffer(4_096));
        let (new_at, new) = machine.system.bulk(4_096);
        let done = process.fence(0, 0);
        let mut queue = process.queue(COPY);
        let fill = process.execute(&[Command::Fill { destination: old.va, bytes: 4, value: 1 }], 0);
        queue.run_until(&[fill, done.signal(1)], &done, 1);
        let invalidate = AdminCommand::InvalidateTlb { address_space: process.id, physical_gpu: 0 };
        process.map_page(old.va, new_at, true);
        machine.admin(invalidate).expect("an address space");
        queue.run_until(&[fill, done.signal(2)], &done, 2);
        assert_eq!(new.read_u64(0), Ok(1));
        process.unmap_page(from.va);
        machine.admin(invalidate).expect("an address space");
        let copy = Command::Copy { source: from.va, destination: old.va, bytes: 8 };
        assert_eq!(
            run_into_fault(machine, &process, COPY, &[copy]),
            (from.va, FaultKind::ReadUnmapped)
        );
    });
}

// spec: ME-001
#[test]
fn engines_work_at_the_same_time_and_the_overlap_is_counted() {
    timed_process(|machine, process| {
        let done = [process.fence(0, 0), process.fence(0, 0)];
        let start = machine.platform.now();
        for (node, (fence, ns)) in [COMPUTE, COPY].into_iter().zip(done.iter().zip([1_000, 3_000]))
        {
            let mut queue = process.queue(node);
            queue.submit(&[process.execute(&[Command::Timed { ns }], 0), fence.signal(1)]);
        }
        machine.await_signals(&done[1], 1);
        assert_eq!(machine.platform.now().since(start), 3_000);
        let stats = machine.gpu.stats();
        assert_eq!((stats.overlap_ns, stats.queues[&QueueNumber(0)].busy_ns), (1_000, 4_000));
    });
}

#[test]
fn work_takes_its_stated_rate_on_the_virtual_clock() {
    let rates = WorkRates { byte_ps: 500, group_ns: 70, ..WorkRates::default() };
    on(
        &Platform::virtual_time(StepCosts::free()),
        Config { rates, ..Config::default() },
        |machine| {
            let process = machine.process();
            let (x, y) = (process.buffer(1 << 20), process.buffer(1 << 20));
            let start = machine.platform.now();
            let copy = Command::Copy { source: x.va, destination: y.va, bytes: 1 << 20 };
            run(&process, COPY, &[copy]);
            assert_eq!(machine.platform.now().since(start), (1 << 20) / 2);
            let start = machine.platform.now();
            let saxpy = program(ProgramId::SAXPY, vec![x.va.0, y.va.0, 10_240, 0]);
            let Command::Dispatch { groups: [groups, ..], .. } = saxpy else { panic!("{saxpy:?}") };
            run(&process, COMPUTE, &[saxpy]);
            assert_eq!(machine.platform.now().since(start), 70 * u64::from(groups));
        },
    );
}

#[test]
fn a_program_that_faults_says_where() {
    with_process(Config::default(), |machine, process| {
        let x = process.buffer(4_096);
        let args = vec![x.va.0, 0x7777_0000, 1_000, 0];
        let saxpy = program(ProgramId::SAXPY, args);
        let fault = run_into_fault(machine, &process, COMPUTE, &[saxpy]);
        assert_eq!(fault, (GpuVa(0x7777_0000), FaultKind::ReadUnmapped));
    });
}

/// Runs packets on a new queue of `node`; returns progress value and command number of the fault,
/// and what is known of it.
fn fault_in(
    machine: &Arc<Machine>,
    process: &Process,
    node: u32,
    packets: &[RingPacket],
) -> (u64, u64, FaultInfo) {
    let before = machine.seen().len();
    let mut queue = process.queue(node);
    queue.submit(packets);
    let is_fault = |s: &Seen| matches!(s, Seen::Fault { queue: q, .. } if *q == queue.id);
    let seen = machine.await_seen(|seen| seen.iter().skip(before).any(is_fault));
    match seen.iter().find(|s| is_fault(s)) {
        Some(Seen::Fault { progress, command, info, .. }) => (*progress, *command, *info),
        _ => panic!("it was seen"),
    }
}

// spec: HS-016
#[test]
fn a_fault_record_says_which_buffer_command_level_argument_and_stage() {
    with_process(Config::default(), |machine, process| {
        let (words, read_only) = (process.buffer(4_096), process.read_only_buffer(4_096));
        let store = |destination| Command::WriteValue { destination, value: 1 };
        let unmapped = |page_table_level, argument, stage| FaultInfo {
            kind: Some(FaultKind::WriteUnmapped),
            page_table_level,
            stage,
            argument,
        };
        let load = |argument, stage| FaultInfo {
            kind: Some(FaultKind::ReadUnmapped),
            ..unmapped(3, argument, stage)
        };
        let (nowhere, assembler) =
            (RenderPipelineStage::Unknown, RenderPipelineStage::InputAssembler);
        let (target, depth) = (process.buffer(4 * 64 * 64), process.buffer(4 * 64 * 64));
        let (label, far) = (Command::Label { name: 1 }, store(GpuVa(1 << 46)));
        let saxpy = program(ProgramId::SAXPY, vec![words.va.0, 1 << 46, 1_000, 0]);
        let mut args = vec![0; 16];
        (args[0], args[1], args[4]) = (1 << 46, 3, 1);
        (args[6], args[7], args[8], args[9]) = (target.va.0, depth.va.0, 64, 64);
        let draw = program(ProgramId::DRAW, args);
        for (what, node, buffers, expected) in [
            // Labels do not count. Nothing is mapped near the address: the root does not lead on.
            (
                "the second store of the second buffer",
                COPY,
                vec![vec![store(words.va)], vec![label, store(words.va), far]],
                (7, 2, unmapped(3, 0, nowhere)),
            ),
            (
                "a page for reading",
                COPY,
                vec![vec![store(read_only.va)]],
                (6, 1, unmapped(0, 0, nowhere)),
            ),
            ("the second argument", COMPUTE, vec![vec![saxpy]], (6, 1, load(2, nowhere))),
            ("the vertices of a draw", THREE_D, vec![vec![draw]], (6, 1, load(1, assembler))),
        ] {
            let packets = (6..).zip(&buffers).map(|(progress, b)| process.execute(b, progress));
            let packets: Vec<_> = packets.collect();
            assert_eq!(fault_in(machine, &process, node, &packets), expected, "{what}");
        }
        // A slot that is not a packet belongs to no buffer.
        let mut queue = process.queue(COPY);
        queue.put_bytes(&[0xEE; 64]);
        queue.submit(&[]);
        let is_fault = |s: &Seen| matches!(s, Seen::Fault { queue: q, .. } if *q == queue.id);
        let seen = machine.await_seen(|seen| seen.iter().any(is_fault));
        let of_ring = |s: &Seen| matches!(s, Seen::Fault { progress: 0, command: 0, .. });
        assert!(seen.iter().any(|s| is_fault(s) && of_ring(s)), "{seen:?}");
    });
}

#[test]
fn timed_work_gives_way_to_a_higher_priority_and_loses_no_time() {
    let platform = Platform::virtual_time(StepCosts::free().with(Step::ThreadWake, 0));
    on(&platform, Config::default(), |machine| {
        let process = machine.process();
        let [low_done, high_done] = process.fences([0, 0]);
        let options = |priority, os_handle| crate::machine::QueueOptions {
            priority,
            os_handle,
            ..Default::default()
        };
        let mut low = process.queue_with(COMPUTE, options(0, 1));
        let mut high = process.queue_with(COMPUTE, options(2, 2));
        let timed = |ns| process.execute(&[Command::Timed { ns }], 0);
        let start = machine.platform.now();
        low.submit(&[timed(10_000), low_done.signal(1)]);
        machine.platform.sleep_until(start.after(4_000));
        high.run_until(&[timed(1_000), high_done.signal(1)], &high_done, 1);
        assert_eq!(machine.platform.now().since(start), 5_000);
        machine.await_signals(&low_done, 1);
        assert_eq!(machine.platform.now().since(start), 11_000);
        let stats = machine.gpu.stats();
        assert_eq!(
            (stats.queues[&QueueNumber(1)].busy_ns, stats.queues[&QueueNumber(2)].busy_ns),
            (10_000, 1_000)
        );
    });
}

#[test]
fn a_packet_of_many_commands_runs_them_in_order() {
    with_process(Config::default(), |machine, process| {
        let buffer = process.buffer(8);
        let store = |value| Command::WriteValue { destination: buffer.va, value };
        let mut commands: Vec<Command> = (1..200).map(store).collect();
        commands.push(Command::Label { name: 3 });
        run(&process, THREE_D, &commands);
        assert_eq!(buffer.bulk.read_u64(0), Ok(199));
        let stats = machine.gpu.stats();
        assert_eq!(
            (stats.queues[&QueueNumber(0)].commands, stats.queues[&QueueNumber(0)].packets),
            (200, 1)
        );
    });
}

#[test]
fn commands_that_end_with_the_mapped_memory_are_read() {
    with_process(Config::default(), |machine, process| {
        let (page, buffer) = (process.buffer(4_096), process.buffer(8));
        let mut writer = tidegate_gpu_abi::CommandWriter::new();
        writer.push(&Command::WriteValue { destination: buffer.va, value: 77 });
        let bytes = writer.to_bytes();
        let at = 4_096 - bytes.len() as u64;
        page.put(at, &bytes);
        // The packet claims more than is mapped: what is there runs, then the fault names the first
        // byte that is not.
        let packet = RingPacket::execute(page.va.plus(at), 1_024, 0);
        let mut queue = process.queue(COPY);
        queue.submit(&[packet]);
        let Seen::Fault { va, kind, .. } = machine.await_fault() else { panic!("no fault") };
        assert_eq!((va, kind), (page.va.plus(4_096), FaultKind::ReadUnmapped));
        assert_eq!(buffer.bulk.read_u64(0), Ok(77));
    });
}
