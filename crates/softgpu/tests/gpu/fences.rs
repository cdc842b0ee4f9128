//! Fences on engines: waits and signals between queues, conditional interrupts, the signalled list,
//! fence logs.

use crate::packets::{Log, logged};
use tidegate_explorer::machine;
use tidegate_explorer::strategy::replay::Replay;
use tidegate_gpu_abi::log::LOG_ENTRIES;
use tidegate_testbed::prelude::gpu::*;

// spec: NF-004, NF-005, NF-008
#[test]
fn a_wait_before_its_signal_parks_the_queue_and_is_released_by_another_engine() {
    with_process(Config::default(), |machine, process| {
        let [link, done] = process.fences([u64::MAX, 0]);
        let (mut waiter, mut signaler) = (process.queue(THREE_D), process.queue(COPY));
        waiter.submit(&[link.wait(3), done.signal(1)]);
        let mut other = process.queue(THREE_D);
        let other_done = process.fence(0, 0);
        other.run_until(&[other_done.signal(1)], &other_done, 1);
        assert_eq!(
            machine.state(waiter.id),
            QueueState::Waiting,
            "its engine went on with another queue"
        );
        assert_eq!(done.current.load(), 0);
        // 5 satisfies a wait for 3.
        signaler.run_until(&[link.signal(5)], &done, 1);
        assert_eq!(link.current.load(), 5);
        let stats = machine.gpu.stats();
        assert_eq!((stats.gpu_waits, stats.gpu_waits_stalled), (1, 1));
        // The link's own signal raised no interrupt: no thread of the CPU waits for it.
        assert_eq!((stats.interrupts_raised, stats.interrupts_suppressed), (2, 1));
    });
}

#[test]
fn a_wait_that_is_satisfied_already_does_not_stall() {
    with_process(Config::default(), |machine, process| {
        let (reached, done) = (process.fence(7, u64::MAX), process.fence(0, 0));
        let mut queue = process.queue(COMPUTE);
        queue.run_until(&[reached.wait(7), reached.wait(0), done.signal(1)], &done, 1);
        let stats = machine.gpu.stats();
        assert_eq!((stats.gpu_waits, stats.gpu_waits_stalled), (2, 0));
    });
}

/// Two queues on two engines hand a value back and forth `links` times.
fn chain(machine: &Arc<Machine>, links: u64) {
    let process = machine.process();
    let [there, back, done] = process.fences([u64::MAX, u64::MAX, 0]);
    let options =
        || QueueOptions { slots: (2 * links + 2).next_power_of_two(), ..Default::default() };
    let (mut even, mut odd) =
        (process.queue_with(THREE_D, options()), process.queue_with(COPY, options()));
    for link in 1..=links / 2 {
        even.put(&back.wait(link - 1));
        even.put(&there.signal(link));
        odd.put(&there.wait(link));
        odd.put(&back.signal(link));
    }
    even.put(&back.wait(links / 2));
    even.put(&done.signal(1));
    even.publish();
    odd.publish();
    odd.ring();
    even.ring();
    machine.await_signals(&done, 1);
    assert_eq!((there.current.load(), back.current.load()), (links / 2, links / 2));
    assert_eq!(machine.gpu.stats().interrupts_raised, 1, "the links need no CPU");
}

// spec: NF-005, NF-006
#[test]
fn a_chain_of_ten_thousand_links_between_two_engines_needs_no_cpu() {
    on(&Platform::closed_host(), Config::default(), |machine| chain(machine, 10_000));
    on(&Platform::closed_host(), Config { service_threads: 3, ..Config::default() }, |machine| {
        chain(machine, 10_000)
    });
    on(&Platform::virtual_time(StepCosts::free()), Config::default(), |machine| {
        chain(machine, 10_000)
    });
    let explored = machine(Replay::default(), MemoryModel::TotalStoreOrder);
    on(&explored, Config::default(), |machine| chain(machine, 100));
}

/// A time that does not pass while a test runs.
const LONG_NS: u64 = 3_600_000_000_000;

#[test]
fn signals_behind_an_interrupt_share_the_next_one_at_the_end_of_the_ring() {
    with_process(
        Config { interrupt_moderation_ns: LONG_NS, ..Config::default() },
        |machine, process| {
            let done = process.fence(0, 0);
            let mut queue = process.queue(COPY);
            let before = machine.gpu.stats().interrupts_raised;
            let signals: Vec<_> = (1..=10).map(|value| done.signal(value)).collect();
            queue.run_until(&signals, &done, 2);
            assert_eq!(done.current.load(), 10);
            assert_eq!(machine.gpu.stats().interrupts_raised - before, 2);
        },
    );
}

#[test]
fn a_signal_that_is_held_back_interrupts_before_a_command_buffer() {
    with_process(
        Config { interrupt_moderation_ns: LONG_NS, ..Config::default() },
        |machine, process| {
            let done = process.fence(0, 0);
            let mut queue = process.queue(COPY);
            let before = machine.gpu.stats().interrupts_raised;
            let work = process.execute(&[Command::Timed { ns: 1_000 }], 0);
            queue.run_until(&[done.signal(1), done.signal(2), work, done.signal(3)], &done, 3);
            assert_eq!(done.current.load(), 3);
            assert_eq!(machine.gpu.stats().interrupts_raised - before, 3);
        },
    );
}

// spec: NF-006, NF-020, NF-126
#[test]
fn a_signal_interrupts_exactly_when_it_is_above_monitored_value() {
    with_process(Config { interrupt_moderation_ns: 0, ..Config::default() }, |machine, process| {
        let done = process.fence(0, 0);
        let mut queue = process.queue(COPY);
        let mut expected = Vec::new();
        for (round, (monitored, value, interrupts)) in [
            (41, 41, false),
            (41, 42, true),
            (41, 40, false),
            (0, 1, true),
            (0, 0, false),
            (u64::MAX, u64::MAX, false),
            (u64::MAX - 1, u64::MAX, true),
        ]
        .into_iter()
        .enumerate()
        {
            let fence = process.fence(0, monitored);
            let round = round as u64 + 1;
            let before = machine.gpu.stats();
            queue.submit(&[fence.signal(value), done.signal(round)]);
            if interrupts {
                expected.push(Seen::Signaled(queue.id, fence.current_va));
            }
            expected.push(Seen::Signaled(queue.id, done.current_va));
            machine.await_signals(&done, round as usize);
            assert_eq!(fence.current.load(), value);
            let after = machine.gpu.stats();
            assert_eq!(
                after.interrupts_suppressed - before.interrupts_suppressed,
                u64::from(!interrupts)
            );
            assert_eq!(
                after.interrupts_raised - before.interrupts_raised,
                1 + u64::from(interrupts)
            );
        }
        assert_eq!(machine.seen(), expected);
    });
}

#[test]
fn a_fence_without_monitored_value_raises_no_interrupt() {
    with_process(Config::default(), |machine, process| {
        let (mut fence, done) = (process.fence(0, 0), process.fence(0, 0));
        fence.monitored_va = GpuVa(0);
        let mut queue = process.queue(COPY);
        queue.run_until(&[fence.signal(9), done.signal(1)], &done, 1);
        assert_eq!((fence.current.load(), machine.seen().len()), (9, 1));
    });
}

#[test]
fn a_progress_fence_is_signalled_when_its_commands_are_done() {
    with_process(Config::default(), |_, process| {
        let progress = process.fence(0, 1);
        let options = QueueOptions { progress: Some(progress.clone()), ..Default::default() };
        let mut queue = process.queue_with(COMPUTE, options);
        let buffer = process.buffer(8);
        let store = |value| Command::WriteValue { destination: buffer.va, value };
        let (first, second) = (process.execute(&[store(1)], 1), process.execute(&[store(2)], 2));
        queue.run_until(&[first, second], &progress, 1);
        assert_eq!((progress.current.load(), buffer.bulk.read_u64(0)), (2, Ok(2)));
    });
}

/// A line that takes nothing: causes and lists stay as the hardware left them.
struct Deaf;
impl InterruptSink for Deaf {
    fn raise(&self) {}
    fn turn_ended(&self) {}
}

// spec: NF-124
#[test]
fn a_full_signaled_list_collapses_and_says_so() {
    with_process(Config { signaled_list_entries: 3, ..Config::default() }, |machine, process| {
        let mut queue = process.queue(COPY);
        machine.gpu.connect_interrupt(Arc::new(Deaf));
        let fences: Vec<Fence> = (0..5).map(|_| process.fence(0, 0)).collect();
        let last = process.fence(0, u64::MAX);
        let mut packets: Vec<RingPacket> = fences.iter().map(|f| f.signal(1)).collect();
        packets.push(last.signal(1));
        queue.submit(&packets);
        machine.poll_until(|| last.current.load() != 0);
        let read = |r| machine.gpu.read_register(r);
        let cause = Cause(read(Register::INTERRUPT_CAUSE));
        assert_eq!(cause, Cause(Cause::FENCE_SIGNALED.0 | Cause::FENCE_COLLAPSED.0));
        for fence in &fences[..3] {
            assert_eq!(read(Register::SIGNALED_QUEUE), u64::from(queue.id.0) + 1);
            assert_eq!(read(Register::SIGNALED_VA), fence.current_va.0);
        }
        assert_eq!((read(Register::SIGNALED_QUEUE), read(Register::INTERRUPT_CAUSE)), (0, 0));
    });
}

// spec: NF-179, NF-181, NF-186, NF-200, NF-201
#[test]
fn a_signal_log_holds_84_entries_and_wraps() {
    with_process(Config::default(), |machine, process| {
        let [fence, done] = process.fences([u64::MAX, 0]);
        let mut queue = process.queue_with(COPY, QueueOptions { slots: 256, ..Default::default() });
        let log = Log::set(machine, queue.id, LogType::Signals, LOG_ENTRIES, 0);
        for value in 1..=100 {
            queue.put(&logged(fence.signal(value), (value as u32 - 1) % LOG_ENTRIES));
        }
        queue.run_until(&[done.signal(1)], &done, 1);
        // The last signal interrupts and is not logged, so the log says that it does not tell all.
        assert_eq!(log.index(), (16, 2));
        let mut last = 0;
        for value in 17..=100 {
            let entry = log.entry((value - 1) % u64::from(LOG_ENTRIES));
            assert_eq!((entry.fence_value, entry.fence_handle), (value, 7));
            assert_eq!(
                (entry.operation, entry.observed_ns),
                (LogOperation::SignalExecuted as u32, 0)
            );
            assert!(entry.end_ns >= last, "times of a log do not fall");
            last = entry.end_ns;
        }
    });
}

// spec: NF-171, NF-189, NF-207, NF-210
#[test]
fn a_wait_log_tells_when_the_queue_stalled_and_when_it_went_on() {
    timed_process(|machine, process| {
        let (fence, done) = (process.fence(1, u64::MAX), process.fence(0, 0));
        let (mut waiter, mut signaler) = (process.queue(THREE_D), process.queue(COPY));
        let log = Log::set(machine, waiter.id, LogType::Waits, LOG_ENTRIES, 0);
        let start = machine.gpu.read_register(Register::CLOCK);
        waiter.submit(&[logged(fence.wait(1), 0), logged(fence.wait(2), 1), done.signal(1)]);
        signaler.run_until(
            &[process.execute(&[Command::Timed { ns: 5_000 }], 0), fence.signal(2)],
            &done,
            1,
        );
        assert_eq!(log.index(), (2, 0));
        let (met, stalled) = (log.entry(0), log.entry(1));
        assert_eq!((met.observed_ns, met.end_ns, met.fence_value), (0, start, 1));
        assert_eq!(stalled.operation, LogOperation::WaitUnblocked as u32);
        assert_eq!(stalled.end_ns - stalled.observed_ns.max(start), 5_000);
        assert_eq!(machine.gpu.stats().queues[&QueueNumber(0)].blocked_ns, 5_000);
    });
}

/// Looks, when the line goes up, at what is to be there by then.
struct Witness {
    current: Word,
    header: Word,
    payload: Bulk,
    /// CurrentValue, index word, logged value.
    saw: Page,
}

impl InterruptSink for Witness {
    fn raise(&self) {
        self.saw.store(0, self.current.load());
        self.saw.store(1, self.header.load());
        self.saw.store(2, self.payload.read_u64(0).expect("an entry"));
    }

    fn turn_ended(&self) {
        self.saw.store(3, 1);
        self.saw.word(3).wake(1, Step::ThreadWake);
    }
}

// spec: NF-188, NF-198, NF-199
#[test]
fn value_and_log_entry_are_there_when_the_line_goes_up() {
    with_process(Config::default(), |machine, process| {
        let fence = process.fence(0, 41);
        let mut queue = process.queue(COPY);
        let log = Log::set(machine, queue.id, LogType::Signals, LOG_ENTRIES, 0);
        let saw = machine.platform.page(4);
        machine.gpu.connect_interrupt(Arc::new(Witness {
            current: fence.current.word().clone(),
            header: log.header.word(LOG_INDEX_WORD),
            payload: log.payload.clone(),
            saw: saw.clone(),
        }));
        queue.submit(&[logged(fence.signal(42), 0)]);
        while saw.word(3).load() == 0 {
            saw.word(3).wait_while(0, None, "the end of the interrupting turn");
        }
        assert_eq!([0, 1, 2].map(|i| saw.word(i).load()), [42, 1, 42]);
        assert_eq!(
            (log.entry(0).fence_handle, log.entry(0).operation),
            (7, LogOperation::SignalExecuted as u32)
        );
    });
}

#[test]
fn a_number_beyond_the_log_goes_round_and_a_log_must_fit_its_memory() {
    with_process(Config::default(), |machine, process| {
        let [fence, done] = process.fences([u64::MAX, 0]);
        let mut queue = process.queue(COPY);
        let log = Log::set(machine, queue.id, LogType::Signals, 4, 0);
        // The number of a larger log that was there before, and one that no log ever had.
        queue.submit(&[
            logged(fence.signal(1), 7),
            logged(fence.signal(2), u32::MAX - 1),
            done.signal(1),
        ]);
        machine.await_signals(&done, 1);
        assert_eq!((log.entry(3).fence_value, log.entry(2).fence_value), (1, 2));
        assert_eq!((fence.current.load(), log.index()), (2, (3, 2)));
        let (header, _) = machine.system.protocol(LOG_HEADER_WORDS);
        let (payload, _) = machine.system.bulk(47);
        for (header, payload, entries) in [
            (header, payload, 1),
            (payload, payload, 1),
            (header, header, 1),
            (header, PhysicalAddress(8), 1),
        ] {
            let (queue, kind) = (queue.id, LogType::Waits);
            let set = AdminCommand::SetLogBuffer {
                queue,
                kind,
                header,
                payload,
                entries,
                notify_every: 0,
            };
            assert_eq!(machine.admin(set), Err(AdminError::BadAddress));
        }
    });
}

fn taken(machine: &Machine, queue: tidegate_gpu_abi::QueueId) -> u64 {
    machine.admin(AdminCommand::QueryQueue { queue }).expect("a queue").1
}

// spec: NF-212
#[test]
fn a_posted_entry_is_there_behind_the_flush_or_the_next_barrier() {
    with_process(Config { posted_log_entries: true, ..Config::default() }, |machine, process| {
        let (fence, done) = (process.fence(1, u64::MAX), process.fence(0, 0));
        let mut queue = process.queue(COPY);
        let log = Log::set(machine, queue.id, LogType::Waits, 8, 0);
        queue.run_until(&[logged(fence.wait(1), 0), done.signal(1)], &done, 1);
        assert_eq!((log.index(), log.entry(0).fence_value), ((1, 0), 1), "the signal's barrier");
        // A wait has no barrier: the index counts what is not there.
        let nop = process.execute(&[Command::Timed { ns: 1 }], 0);
        queue.submit(&[logged(fence.wait(1), 1), nop]);
        machine.poll_until(|| taken(machine, queue.id) >= 4);
        assert_eq!((log.index(), log.entry(1).fence_value), ((2, 0), 0));
        machine.gpu.read_register(Register::LOG_FLUSH);
        assert_eq!(log.entry(1).fence_value, 1);
    });
}

#[test]
fn a_log_that_is_to_notify_interrupts_behind_so_many_entries() {
    with_process(Config::default(), |machine, process| {
        let (quiet, done) = (process.fence(1, u64::MAX), process.fence(0, 0));
        let mut queue = process.queue(COPY);
        Log::set(machine, queue.id, LogType::Waits, 84, 2);
        Log::set(machine, queue.id, LogType::Signals, 84, 3);
        let packets: Vec<RingPacket> = (0..4)
            .flat_map(|n| [logged(quiet.wait(1), n), logged(quiet.signal(1), n)])
            .chain([done.signal(1)])
            .collect();
        queue.run_until(&packets, &done, 1);
        // Behind the second and the fourth wait, behind the third signal; and the one that is
        // awaited.
        let signals = machine.gpu.stats().interrupts_suppressed;
        assert_eq!(signals, 3, "one of four signals interrupts without a waiter");
        assert!(machine.gpu.stats().interrupts_raised >= 2);
    });
}

// spec: NF-135, NF-136
#[test]
fn a_value_that_the_cpu_stored_is_found_by_notify() {
    with_process(Config::default(), |machine, process| {
        let [fence, done, other] = process.fences([0, 0, 0]);
        let mut queue = process.queue(COPY);
        queue.run_until(&[other.signal(1), fence.wait(4), done.signal(1)], &other, 1);
        machine.poll_until(|| machine.state(queue.id) == QueueState::Waiting);
        let notify = || {
            machine.admin(AdminCommand::NotifyFence {
                address_space: process.id,
                current_value: fence.current_va,
            })
        };
        fence.current.store(3);
        notify().expect("a fence");
        assert_eq!(machine.state(queue.id), QueueState::Waiting);
        fence.current.store(4);
        notify().expect("a fence");
        machine.await_signals(&done, 1);
        let nowhere =
            AdminCommand::NotifyFence { address_space: process.id, current_value: GpuVa(0x5000) };
        assert_eq!(machine.admin(nowhere), Err(AdminError::BadAddress));
    });
}

#[test]
fn a_value_that_the_cpu_stored_is_found_by_its_register() {
    with_process(Config::default(), |machine, process| {
        let [fence, done] = process.fences([u64::MAX, 0]);
        let waiting = machine.gpu.waiting_word(fence.current_at).expect("the device has the words");
        let mut queue = process.queue(COPY);
        assert_eq!(waiting.load(), 0, "no queue waits");
        queue.submit(&[fence.wait(4), done.signal(1)]);
        machine.poll_until(|| machine.state(queue.id) == QueueState::Waiting);
        assert_eq!(waiting.load(), 1);
        for value in [3, 4] {
            assert!(fence.current.raise(value));
            machine.gpu.write_register(Register::FENCE_STORED, fence.current_at.0);
            assert_eq!(waiting.load(), u64::from(value == 3), "at {value}");
        }
        machine.await_signals(&done, 1);
    });
}

#[test]
fn a_latched_wait_survives_a_value_that_falls() {
    with_process(Config::default(), |machine, process| {
        let [fence, done, ready] = process.fences([u64::MAX, 0, 0]);
        let (mut waiter, mut signaler) = (process.queue(THREE_D), process.queue(COPY));
        waiter.run_until(&[ready.signal(1), fence.wait(10), done.signal(1)], &ready, 1);
        machine.poll_until(|| machine.state(waiter.id) == QueueState::Waiting);
        signaler.run_until(&[fence.signal(10), fence.signal(2)], &done, 1);
    });
}

#[test]
fn one_signal_releases_only_the_waits_that_it_satisfies() {
    with_process(Config::default(), |machine, process| {
        let fence = process.fence(0, u64::MAX);
        let done: Vec<Fence> = (0..8).map(|_| process.fence(0, 0)).collect();
        let mut waiters: Vec<_> = (0..8).map(|i| process.queue(i % 3)).collect();
        for (number, (queue, done)) in waiters.iter_mut().zip(&done).enumerate() {
            queue.submit(&[fence.wait(number as u64 + 1), done.signal(1)]);
        }
        let mut signaler = process.queue(COPY);
        let first = process.fence(0, 0);
        signaler.submit(&[fence.signal(5), first.signal(1)]);
        done[..5].iter().for_each(|d| machine.await_signals(d, 1));
        machine.await_signals(&first, 1);
        assert!(done[5..].iter().all(|d| d.current.load() == 0));
        signaler.submit(&[fence.signal(8)]);
        done.iter().for_each(|d| machine.await_signals(d, 1));
    });
}

#[test]
fn a_fence_in_local_memory_and_one_shared_by_two_processes_work() {
    everywhere(Config::default(), |machine| {
        let (one, two) = (machine.process(), machine.process());
        let (at, page) = machine.gpu.local_memory(0).expect("local memory").protocol(1);
        let mut here = one.fence(0, u64::MAX);
        here.current_va = one.map(at, 8, true);
        let mut there = here.clone();
        // Another address in another process, the same cell.
        two.buffer(50_000);
        there.current_va = two.map(at, 8, true);
        there.monitored_va = GpuVa(0);
        assert_ne!(here.current_va, there.current_va);
        let done = two.fence(0, 0);
        let (mut signaler, mut waiter) = (one.queue(COPY), two.queue(COMPUTE));
        waiter.submit(&[there.wait(6), done.signal(1)]);
        signaler.run_until(&[here.signal(6)], &done, 1);
        assert_eq!(page.word(0).load(), 6);
    });
}

// A queue that is parked is found where its fence went, and so is what the fence has been.
#[test]
fn a_page_of_fences_moves_with_its_histories_and_its_waiting_queues() {
    with_process(Config::default(), |machine, process| {
        let [moving, done] = process.fences([u64::MAX, 0]);
        let (mut first, mut second) = (process.queue(THREE_D), process.queue(COPY));
        // Called while the fence is at 0, and come to after a pulse and the move.
        let late = [moving.wait(3), done.signal(2)];
        first.submit(&[moving.wait(9), done.signal(1)]);
        second.run_until(&[moving.signal(4), moving.signal(0), done.signal(0)], &done, 0);
        machine.poll_until(|| {
            machine.state(first.id) == QueueState::Waiting
                && machine.state(second.id) == QueueState::Idle
        });
        let (to, page) = machine.system.protocol(PAGE_WORDS);
        let from = moving.current_at;
        let going = AdminCommand::MoveFencePage { from, to };
        assert_eq!(machine.run_command(going), Err(AdminError::BadValue), "engines are not held");
        machine.run_command(AdminCommand::HoldEngines).unwrap();
        let nowhere = PhysicalAddress(1 << 30);
        let refused = AdminCommand::MoveFencePage { from, to: nowhere };
        assert_eq!(machine.run_command(refused), Err(AdminError::BadAddress));
        let small = machine.system.protocol(8).0;
        assert_eq!(
            machine.run_command(AdminCommand::MoveFencePage { from, to: small }),
            Err(AdminError::BadValue)
        );
        machine.run_command(going).unwrap();
        let parked = machine.gpu.parked_waits();
        assert_eq!(
            parked.iter().map(|w| (w.current_value, w.value)).collect::<Vec<_>>(),
            [(to, 9)]
        );
        process.map_fence_page(moving.current_va, to);
        machine
            .run_command(AdminCommand::InvalidateTlb { address_space: process.id, physical_gpu: 0 })
            .unwrap();
        // A held engine hears of the ring, and executes nothing.
        second.submit(&late);
        machine.poll_until(|| machine.state(second.id) != QueueState::Idle);
        assert_eq!(done.current.load(), 0);
        machine.run_command(AdminCommand::ReleaseEngines).unwrap();
        assert_eq!(machine.run_command(AdminCommand::ReleaseEngines), Err(AdminError::BadValue));
        machine.poll_until(|| done.current.load() == 2);
        assert_eq!(page.word(0).load(), 0, "the pulse of before the move let it pass");
        second.submit(&[moving.signal(9)]);
        machine.poll_until(|| done.current.load() == 1);
        assert_eq!(
            (page.word(0).load(), moving.current.load()),
            (9, 0),
            "no engine stores to the old place"
        );
    });
}

/// More peaks than have room in the page: the annex moves with it.
#[test]
fn a_page_of_fences_moves_with_a_history_that_outgrew_it() {
    with_process(Config::default(), |machine, process| {
        let [head, moving, done] = process.fences([u64::MAX, u64::MAX, 0]);
        let mut queue = process.queue(COPY);
        queue.submit(&[head.wait(1)]);
        for value in (100..140).rev() {
            queue.submit(&[moving.wait(value)]);
            moving.current.store(value);
            moving.current.store(0);
        }
        queue.submit(&[done.signal(1), moving.wait(100), done.signal(2)]);
        let (to, page) = machine.system.protocol(PAGE_WORDS);
        machine.run_command(AdminCommand::HoldEngines).unwrap();
        machine.run_command(AdminCommand::MoveFencePage { from: moving.current_at, to }).unwrap();
        process.map_fence_page(moving.current_va, to);
        machine
            .run_command(AdminCommand::InvalidateTlb { address_space: process.id, physical_gpu: 0 })
            .unwrap();
        machine.run_command(AdminCommand::ReleaseEngines).unwrap();
        process.queue(COMPUTE).submit(&[head.signal(1)]);
        machine.await_signals(&done, 1);
        assert_eq!(
            (page.word(0).load(), done.current.load()),
            (0, 1),
            "the last wait came after all pulses"
        );
        process.queue(COMPUTE).submit(&[moving.signal(100)]);
        machine.await_signals(&done, 2);
    });
}

#[test]
fn the_cmp_makes_and_ends_a_fence_that_no_cpu_reaches() {
    with_process(Config::default(), |machine, process| {
        let hidden = machine.gpu.hidden_memory().expect("local memory that the CPU does not see");
        let ((at, page), (monitored_at, monitored)) =
            (hidden.protocol(PAGE_WORDS), hidden.protocol(512));
        page.store(0, 77);
        let renew = |stride_bytes| AdminCommand::RenewFence {
            current_value: at,
            monitored_value: monitored_at,
            stride_bytes,
        };
        let condemn = |at| AdminCommand::CondemnFence { current_value: PhysicalAddress(at) };
        machine.run_command(renew(64)).unwrap();
        assert_eq!((page.word(0).load(), monitored.word(0).load()), (0, u64::MAX));
        let fence = process.fence(0, u64::MAX);
        process.map_fence_page(fence.current_va, at);
        let done = process.fence(0, 0);
        let mut queue = process.queue(COMPUTE);
        let mut waits_by_value = fence.wait(5);
        if let RingPacket::Wait { epoch, .. } = &mut waits_by_value {
            *epoch = 0;
        }
        queue.submit(&[waits_by_value, done.signal(1)]);
        machine.poll_until(|| machine.state(queue.id) == QueueState::Waiting);
        machine.run_command(condemn(at.0)).unwrap();
        machine.await_signals(&done, 1);
        queue.submit(&[fence.signal(3), fence.wait(u64::MAX), done.signal(2)]);
        machine.poll_until(|| done.current.load() == 2);
        for (command, error) in [
            (condemn(at.0 + 4), AdminError::BadAddress),
            (condemn(at.0 + 4096), AdminError::BadAddress),
            (renew(0), AdminError::BadValue),
        ] {
            assert_eq!(machine.run_command(command), Err(error), "{command:?}");
        }
    });
}

/// What the mailbox says of other GPUs is checked like everything else.
#[test]
fn links_to_other_gpus_are_checked() {
    let platform = Platform::closed_host();
    let (one, other) =
        (Machine::new(&platform, Config::default()), Machine::new(&platform, Config::default()));
    let cell = one.system.protocol(512).0;
    let nowhere = PhysicalAddress(0x10);
    let watch = |current_value, monitored_value| {
        one.admin(AdminCommand::WatchFence { current_value, monitored_value, history: true })
    };
    let link = |peer| {
        let (current_value, monitored_value) = (cell, PhysicalAddress(0));
        one.admin(AdminCommand::LinkPeer { current_value, peer, monitored_value, linked: true })
    };
    assert_eq!(watch(cell, cell), Err(AdminError::BadValue), "no other GPU is connected");
    one.gpu.connect_common_doorbell(1, other.gpu.common_doorbell().unwrap());
    assert_eq!(
        (watch(nowhere, cell), watch(cell, nowhere)),
        (Err(AdminError::BadAddress), Err(AdminError::BadAddress))
    );
    assert_eq!(watch(PhysicalAddress(cell.0 + 4), cell), Err(AdminError::BadAddress));
    assert_eq!(link(2), Err(AdminError::BadValue), "no peer has that number");
    assert!(
        watch(cell, cell).is_ok() && link(1).is_ok() && watch(cell, PhysicalAddress(0)).is_ok()
    );
}
