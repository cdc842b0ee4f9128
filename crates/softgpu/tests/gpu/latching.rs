//! Waits of rings latch on every platform: threads on the host race for real, the others repeat.

use tidegate_platform::PlatformKind;
use tidegate_testbed::prelude::gpu::*;

#[test]
fn a_wait_behind_a_blocked_head_passes_though_its_value_came_and_fell() {
    with_process(Config::default(), |_, process| {
        let [head, gate, done, over] = process.fences([u64::MAX, u64::MAX, 0, 0]);
        let (mut waiter, mut pulsing, mut freeing) =
            (process.queue(THREE_D), process.queue(COPY), process.queue(COMPUTE));
        waiter.submit(&[head.wait(1), gate.wait(5), done.signal(1)]);
        pulsing.run_until(&[gate.signal(5), gate.signal(0), over.signal(1)], &over, 1);
        // Called after the pulse: it waits for the next one.
        let mut late = process.queue(COPY);
        let late_done = process.fence(0, 0);
        late.submit(&[gate.wait(5), late_done.signal(1)]);
        freeing.run_until(&[head.signal(1)], &done, 1);
        assert_eq!((gate.current.load(), late_done.current.load()), (0, 0));
        pulsing.run_until(&[gate.signal(5), gate.signal(0)], &late_done, 1);
    });
}

/// More falling pulses than have room beside the value: the queue that waits is behind its head
/// all the time.
#[test]
fn pulses_that_fall_without_end_lose_no_wait() {
    everywhere(Config::default(), |machine| {
        let pulses: u64 = if machine.platform.kind() == PlatformKind::Explored { 34 } else { 500 };
        let process = machine.process();
        let [head, gate, done, over] =
            [u64::MAX, u64::MAX, 0, 0].map(|monitored| process.fence(0, monitored));
        let slots = QueueOptions { slots: 512, ..QueueOptions::default() };
        let (mut waiter, mut pulsing) = (process.queue_with(THREE_D, slots), process.queue(COPY));
        waiter.submit(&[head.wait(1)]);
        for number in 0..pulses {
            let value = 1_000 - number;
            waiter.submit(&[gate.wait(value)]);
            pulsing.run_until(
                &[gate.signal(value), gate.signal(0), over.signal(number + 1)],
                &over,
                number as usize + 1,
            );
        }
        waiter.submit(&[done.signal(1)]);
        assert_eq!(done.current.load(), 0);
        process.queue(COMPUTE).submit(&[head.signal(1)]);
        machine.await_signals(&done, 1);
        assert_eq!((gate.current.load(), gate.current.history_lost()), (0, 0));
    });
}

/// Two engines pulse one fence while a third waits for each round's pulse, at the head or behind
/// it.
#[test]
fn pulses_of_two_engines_lose_no_wait() {
    everywhere(Config::default(), |machine| {
        let rounds = if machine.platform.kind() == PlatformKind::Explored { 3 } else { 300 };
        let process = machine.process();
        let [gate, done] = process.fences([u64::MAX, 0]);
        let ends = [process.fence(0, 0), process.fence(0, 0)];
        let mut waiter = process.queue(THREE_D);
        let mut pulsing = [process.queue(COPY), process.queue(COMPUTE)];
        for round in 1..=rounds {
            waiter.submit(&[gate.wait(5), gate.wait(6), done.signal(round as u64)]);
            for (number, (queue, end)) in pulsing.iter_mut().zip(&ends).enumerate() {
                let value = 6 + number as u64;
                queue.submit(&[gate.signal(value), gate.signal(0), end.signal(round as u64)]);
            }
            machine.await_signals(&done, round);
            ends.iter().for_each(|end| machine.await_signals(end, round));
        }
        assert_eq!((gate.current.load(), gate.current.history_lost()), (0, 0));
    });
}

/// The history has room for two values. The third one below 9 takes the place of the second, so
/// the wait of the parked queue can no longer be judged.
// spec: NF-343
#[test]
fn a_parked_queue_whose_wait_is_lost_faults_when_the_value_is_dropped() {
    with_process(Config::default(), |machine, process| {
        let [gate, kept, done, over] = process.fences([u64::MAX, u64::MAX, 0, 0]);
        [&gate, &kept].into_iter().for_each(|fence| fence.current.renew(0, 8, 0));
        gate.current.store(9);
        gate.current.store(0);
        let (mut waiter, mut beside) = (process.queue(THREE_D), process.queue(COMPUTE));
        let mut falling = process.queue(COPY);
        waiter.submit(&[gate.wait(7), done.signal(1)]);
        // No value of this fence is dropped, and the wait is for more than each of them.
        beside.submit(&[kept.wait(7), done.signal(2)]);
        machine.poll_until(|| {
            [waiter.id, beside.id].map(|queue| machine.state(queue)) == [QueueState::Waiting; 2]
        });
        let below = |fence: &Fence| [fence.signal(5), fence.signal(0), fence.signal(3)];
        falling.submit(&[&below(&gate)[..], &below(&kept), &[over.signal(1)]].concat());
        machine.await_signals(&over, 1);
        assert_eq!(machine.state(waiter.id), QueueState::Waiting, "5 and 3 are not 7");
        falling.submit(&[gate.signal(0), kept.signal(0)]);
        let Seen::Fault { queue, va, position, kind, .. } = machine.await_fault() else {
            unreachable!("a fault is awaited");
        };
        assert_eq!((queue, va, position), (waiter.id, gate.current_va, 0));
        assert_eq!(kind, FaultKind::LostHistory);
        assert_eq!((gate.current.history_lost(), kept.current.history_lost()), (1, 0));
        falling.run_until(&[kept.signal(7)], &done, 1);
        assert_eq!(done.current.load(), 2, "the other queue goes on, and the faulted one does not");
    });
}

#[test]
fn a_suspended_queue_keeps_its_latched_wait() {
    with_process(Config::default(), |machine, process| {
        let [gate, done, over] = process.fences([u64::MAX, 0, 0]);
        let (mut waiter, mut pulsing) = (process.queue(THREE_D), process.queue(COPY));
        waiter.submit(&[gate.wait(5), done.signal(1)]);
        machine.poll_until(|| machine.state(waiter.id) == QueueState::Waiting);
        machine.admin(AdminCommand::SuspendQueue { queue: waiter.id }).unwrap();
        pulsing.run_until(&[gate.signal(5), gate.signal(0), over.signal(1)], &over, 1);
        assert_eq!(done.current.load(), 0);
        machine.admin(AdminCommand::ResumeQueue { queue: waiter.id }).unwrap();
        machine.await_signals(&done, 1);
    });
}

/// A new fence moves into the cell of one that a queue still waits for, as the kernel does it.
#[test]
fn a_cell_made_anew_lets_the_old_wait_pass_and_starts_afresh() {
    with_process(Config::default(), |_, process| {
        let [head, cell, done] = process.fences([u64::MAX, u64::MAX, 0]);
        let (mut waiter, mut freeing) = (process.queue(THREE_D), process.queue(COPY));
        waiter.submit(&[head.wait(1), cell.wait(5), done.signal(1)]);
        cell.current.condemn();
        cell.current.renew(1, 64, MAX_ANNEX_PEAKS);
        let mut late = process.queue(COPY);
        let late_done = process.fence(0, 0);
        late.submit(&[cell.wait(2), late_done.signal(1)]);
        freeing.run_until(&[head.signal(1)], &done, 1);
        assert_eq!((cell.current.load(), late_done.current.load()), (1, 0));
        freeing.run_until(&[cell.signal(2)], &late_done, 1);
    });
}

/// The fence keeps no history, so only the latch of the wait remembers the value.
#[test]
fn a_wait_that_was_satisfied_passes_when_its_engine_is_free_though_its_fence_has_fallen() {
    timed_process(|machine, process| {
        let (current_va, page, current_at) = process.words(1);
        let current = FenceCell::plain(page.word(0));
        let gate = Fence { current_va, current, current_at, ..process.fence(0, u64::MAX) };
        let [done, over] = process.fences([0, 0]);
        let [mut waiter, mut busy] = [process.queue(THREE_D), process.queue(THREE_D)];
        let mut pulsing = process.queue(COPY);
        waiter.submit(&[gate.wait(5), done.signal(1)]);
        machine.poll_until(|| machine.state(waiter.id) == QueueState::Waiting);
        busy.submit(&[process.execute(&[Command::Timed { ns: 100_000 }], 0)]);
        machine.platform.sleep_until(machine.platform.now().after(1_000));
        pulsing.run_until(&[gate.signal(5), gate.signal(0), over.signal(1)], &over, 1);
        assert_eq!((gate.current.load(), done.current.load()), (0, 0));
        machine.await_signals(&done, 1);
    });
}
