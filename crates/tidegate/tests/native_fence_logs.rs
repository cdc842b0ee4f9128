//! Native fence logs: what the GPU writes, where it stands, and what the kernel reads out of it when an interrupt names a
//! hardware queue, or none.

mod world;

use tidegate::calls::{FenceInstance, Handle};
use tidegate::ddi::fence::{LogType, SetNativeFenceLogBuffer};
use tidegate::ddi::{DriverHandle, InterruptData};
use tidegate::gpu_abi::log::{LogEntry, LogOperation};
use tidegate::gpu_abi::{GpuVa, RingPacket};
use tidegate::kmd::InterruptMode;
use tidegate::platform::{Event, Page, Target};
use world::{UserQueue, World, inline, signal_packet, wait_packet, world, world_with};

/// A machine whose interrupts name hardware queues, with logs of so many entries.
fn named_queues(log_entries: u32) -> World {
    world_with(|config| {
        let mut config = inline(config);
        config.driver.interrupt = InterruptMode::HwQueue;
        config.kernel.log_entries = log_entries;
        config
    })
}

fn interrupt_of(hw_queue: Option<DriverHandle>) -> InterruptData {
    InterruptData::NativeFenceSignaled {
        node_ordinal: 0,
        fences: None,
        hw_queue,
        evaluate_legacy_monitored_fences: false,
    }
}

/// The logs of the queue made last: of waits and of signals.
fn logs(w: &World) -> [SetNativeFenceLogBuffer; 2] {
    let told = w.hooked.told().logs;
    let [.., waits, signals] = &told[..] else { panic!("a user-mode queue has two logs: {told:?}") };
    assert_eq!((waits.log_type, signals.log_type), (LogType::Waits, LogType::Signals));
    [waits.clone(), signals.clone()]
}

fn driver_handle(w: &World) -> DriverHandle {
    w.hooked.told().queues.last().unwrap().1
}

fn header(w: &World, log: &SetNativeFenceLogBuffer) -> Page {
    match w.hooked.start_info().system_memory.resolve(log.header_address) {
        Some(Target::Protocol(page, 0)) => page,
        other => panic!("a header is a page of words: {other:?}"),
    }
}

fn entry(log: &SetNativeFenceLogBuffer, index: u64) -> LogEntry {
    let mut bytes = [0; 48];
    log.entries.read(index * 48, &mut bytes).unwrap();
    LogEntry::decode(&bytes)
}

/// A fence, and somebody who waits for it to reach 5.
fn awaited(w: &World) -> (FenceInstance, Event) {
    let fence = w.native(0);
    let event = w.wait_event(&fence, 5);
    (fence, event)
}

/// A signal to 5 that is logged and interrupts nobody, so that a test can.
fn quiet(fence: &FenceInstance, log_entry: u32) -> RingPacket {
    quiet_as(fence, fence.handle, log_entry)
}

/// The same with another handle in its log entry.
fn quiet_as(fence: &FenceInstance, handle: Handle, log_entry: u32) -> RingPacket {
    match signal_packet(fence, 5, log_entry) {
        RingPacket::Signal { current_value, value, trace, .. } => {
            let (monitored_value, fence_handle) = (GpuVa(0), handle.0);
            RingPacket::Signal { current_value, monitored_value, value, fence_handle, log_entry, trace }
        }
        other => other,
    }
}

/// Has the queue do it, and waits until the GPU has.
fn make(w: &World, queue: &UserQueue, signals: &[RingPacket]) {
    signals.iter().for_each(|s| queue.put(s));
    queue.ring();
    w.pass(1_000_000);
}

// spec: NF-183, NF-184, NF-187
#[test]
fn a_log_begins_with_its_published_header() {
    world_with(|mut config| {
        config.kernel.log_entries = 3;
        config
    })
    .run(|w| {
        let (queue, fence) = (w.connected_queue(1), w.native(0));
        let [waits, signals] = logs(w);
        let words = |log| (0..5).map(|n| header(w, log).word(n).load()).collect::<Vec<u64>>();
        assert_eq!([LogType::Waits as u32, LogType::Signals as u32], [1, 2]);
        assert_eq!([LogOperation::SignalExecuted as u32, LogOperation::WaitUnblocked as u32], [0, 1]);
        assert_eq!(words(&waits), [0, 1, 3, 0, 0]);
        assert_eq!(words(&signals), [0, 2, 3, 0, 0]);
        for (number, word) in (0..).zip([1, 2, 1 << 32, 1 << 32 | 1, 1 << 32 | 2, 2 << 32, 2 << 32 | 1]) {
            make(w, &queue, &[signal_packet(&fence, number, number as u32 % 3)]);
            assert_eq!(words(&signals), [word, 2, 3, 0, 0], "index below, wraparounds above");
        }
        make(w, &queue, &[wait_packet(&fence, 6, 0)]);
        assert_eq!(words(&waits), [1, 1, 3, 0, 0]);
    });
}

// spec: NF-169, NF-170, NF-185, NF-188, NF-189
#[test]
fn the_gpu_logs_what_it_did_and_when() {
    world().run(|w| {
        let (fence, gate) = (w.native(0), w.native(0));
        let queue = w.connected_queue(1);
        let [waits, signals] = logs(w);
        // Not at the very beginning: a time of 0 says that there is none.
        w.pass(500);
        make(
            w,
            &queue,
            &[signal_packet(&fence, 0x77, 0), wait_packet(&fence, 0x33, 0), wait_packet(&gate, 9, 1)],
        );
        let stalled = w.platform.now().0;
        w.signal(&gate, 10);
        make(w, &queue, &[signal_packet(&fence, 0x78, 1)]);
        // The published places, byte by byte.
        let word = |log: &SetNativeFenceLogBuffer, at| log.entries.read_u64(at).unwrap();
        assert_eq!([word(&signals, 0), word(&signals, 8)], [0x77, u64::from(fence.handle.0)]);
        assert_eq!([word(&waits, 48), word(&waits, 56)], [9, u64::from(gate.handle.0) | 1 << 32]);
        let (observed, ended) = (word(&waits, 48 + 24), word(&waits, 48 + 40));
        assert!(0 < observed && observed < stalled && stalled <= ended, "{observed} {stalled} {ended}");
        assert_eq!((word(&signals, 24), word(&waits, 24)), (0, 0), "what did not stall was not seen to");
        assert!(word(&signals, 40) <= observed && ended <= word(&signals, 48 + 40));
        assert_eq!(word(&waits, 0), 0x33);
        assert_eq!(entry(&signals, 1).fence_value, 0x78);
    });
}

// spec: NF-193
#[test]
fn a_log_entry_has_no_room_for_a_cpu_time() {
    let whole = LogEntry { fence_value: 1, fence_handle: 2, operation: 3, observed_ns: 4, end_ns: 5 };
    // Value, handle, operation and two GPU times, name by name: an entry with more would not compile here.
    let LogEntry { fence_value: _, fence_handle: _, operation: _, observed_ns: _, end_ns: _ } = whole;
    let bytes = whole.encode();
    let reserved = [16..24, 32..40].map(|range| bytes[range].iter().all(|b| *b == 0));
    assert_eq!((reserved, LogEntry::decode(&bytes)), ([true, true], whole));
}

// spec: NF-222, NF-223
#[test]
fn one_interrupt_serves_every_signal_logged_by_the_queue_that_it_names() {
    named_queues(84).run(|w| {
        let other = w.connected_queue(0);
        let [first, second, third, elsewhere] = [(); 4].map(|()| awaited(w));
        make(w, &other, &[quiet(&elsewhere.0, 0)]);
        let queue = w.connected_queue(1);
        make(w, &queue, &[quiet(&first.0, 0), quiet(&second.0, 1)]);
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert!(first.1.is_set() && second.1.is_set());
        assert!(!third.1.is_set() && !elsewhere.1.is_set());
        // The machine's own interrupt does the same, and only what is new is read.
        let looked = w.machine.adapter().stats().fence_reads;
        make(w, &queue, &[signal_packet(&third.0, 5, 2)]);
        assert!(third.1.is_set() && !elsewhere.1.is_set());
        assert_eq!(
            w.machine.adapter().stats().fence_reads - looked,
            1,
            "the one new entry: nobody waits for progress"
        );
    });
}

// spec: NF-214, NF-215, NF-224
#[test]
fn without_a_queue_the_logs_of_all_are_read_and_only_news_is_flushed() {
    named_queues(84).run(|w| {
        let [first, second] = [(); 2].map(|()| awaited(w));
        let mut drivers = Vec::new();
        let queues = [0, 0, 0].map(|node| {
            let queue = w.connected_queue(node);
            drivers.push(driver_handle(w));
            queue
        });
        make(w, &queues[0], &[quiet(&first.0, 0)]);
        make(w, &queues[2], &[quiet(&second.0, 0)]);
        w.hooked.interrupt(interrupt_of(None));
        assert!(first.1.is_set() && second.1.is_set());
        let flushed: Vec<DriverHandle> = w.hooked.told().flushed.into_iter().flatten().collect();
        assert_eq!(flushed, [drivers[0], drivers[2]], "the second queue has written nothing");
        w.hooked.interrupt(interrupt_of(None));
        assert_eq!(w.hooked.told().flushed.into_iter().flatten().count(), 2, "nothing is new");
    });
}

// spec: NF-217
#[test]
fn entries_are_read_when_the_driver_has_flushed_them() {
    named_queues(84).run(|w| {
        let (fence, event) = awaited(w);
        let queue = w.connected_queue(0);
        let [_, signals] = logs(w);
        make(w, &queue, &[quiet_as(&fence, Handle(0), 0)]);
        assert_eq!(entry(&signals, 0).fence_handle, 0);
        // The index says that there is an entry; its bytes come with the driver's barrier.
        let handle = u64::from(fence.handle.0);
        w.hooked.on("UpdateNativeFenceLogs", move || signals.entries.write_u64(8, handle).unwrap());
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert!(event.is_set());
    });
}

// spec: NF-202, NF-203, NF-225
#[test]
fn an_overrun_log_loses_entries_and_no_waiter() {
    named_queues(4).run(|w| {
        let queue = w.connected_queue(0);
        let all: Vec<_> = (0..11).map(|_| awaited(w)).collect();
        let lost = |w: &World| w.machine.adapter().stats().log_entries_lost;
        let signals: Vec<RingPacket> = (0..).zip(&all).map(|(n, (fence, _))| quiet(fence, n % 4)).collect();
        // A log that is just full is no overrun.
        make(w, &queue, &signals[..4]);
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert_eq!((lost(w), all.iter().filter(|(_, e)| e.is_set()).count()), (0, 4));
        make(w, &queue, &signals[4..10]);
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert_eq!((lost(w), all.iter().filter(|(_, e)| e.is_set()).count()), (2, 10));
        assert!(!all[10].1.is_set(), "a scan looks at values");
        make(w, &queue, &signals[10..]);
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert_eq!((lost(w), all[10].1.is_set()), (2, true), "and goes on where the log stands");
    });
}

// spec: NF-192
#[test]
fn what_a_process_writes_into_a_log_is_a_hint_and_no_more() {
    named_queues(8).run(|w| {
        let (fence, event) = awaited(w);
        let queue = w.connected_queue(0);
        let (driver, [_, signals]) = (driver_handle(w), logs(w));
        // Handles of nothing, of a device, of a queue; and of a fence that is logged as reached and is not.
        let handles =
            [0, 1, u32::MAX, w.device.0, queue.queue.handle.0, fence.handle.0 ^ 0x40, fence.handle.0];
        for (index, handle) in (0..).zip(handles) {
            let lie = LogEntry {
                fence_value: u64::MAX,
                fence_handle: handle,
                operation: u32::MAX,
                observed_ns: u64::MAX,
                end_ns: u64::MAX - index,
            };
            signals.entries.write(index * 48, &lie.encode()).unwrap();
        }
        for word in [7, u64::from(u32::MAX), 1 << 32, u64::MAX, 3, 0, 5 << 32 | 9, 1 << 63, 8] {
            signals.header.store(word);
            w.hooked.interrupt(interrupt_of(Some(driver)));
            w.hooked.interrupt(interrupt_of(None));
        }
        assert!(!event.is_set(), "CurrentValue decides");
        assert_eq!(w.machine.adapter().bug_checks(), []);
        w.signal(&fence, 5);
        assert!(event.is_set());
    });
}

// spec: NF-208
#[test]
fn equal_and_zero_times_are_accepted() {
    named_queues(8).run(|w| {
        let [first, second, third] = [(); 3].map(|()| awaited(w));
        let queue = w.connected_queue(0);
        let [_, signals] = logs(w);
        make(w, &queue, &[quiet(&first.0, 0), quiet(&second.0, 1), quiet(&third.0, 2)]);
        let log = signals.entries.clone();
        w.hooked.on("UpdateNativeFenceLogs", move || {
            for (index, time) in [(0, 9), (1, 9), (2, 0)] {
                log.write_u64(index * 48 + 40, time).unwrap();
            }
        });
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert!(first.1.is_set() && second.1.is_set() && third.1.is_set());
    });
}
