//! Native fence logs: what the GPU writes, where it is, and what the kernel reads out of it
//! when an interrupt names a hardware queue, or none; logs that change their places, times that
//! fall, and the timeline that comes out of them.

use tidegate::dxgkrnl::LogTimeFault;
use tidegate::platform::Target;
use tidegate::trace::{Kind, Record, Trace};
use tidegate_testbed::prelude::*;

/// A machine whose interrupts name hardware queues, with logs of so many entries.
fn named_queues(log_entries: u32) -> World {
    world_with(|config| {
        inline(config);
        config.driver.interrupt = InterruptMode::HwQueue;
        config.kernel.log_entries = log_entries;
    })
}

fn interrupt_of(hw_queue: Option<DriverHandle>) -> InterruptData {
    hw_queue_signalled(0, hw_queue)
}

/// The logs of the queue made last: of waits and of signals.
fn logs(w: &World) -> [SetNativeFenceLogBuffer; 2] {
    let logs = w.calls().logs;
    let [.., waits, signals] = &logs[..] else {
        panic!("a user-mode queue has two logs: {logs:?}")
    };
    assert_eq!((waits.log_type, signals.log_type), (LogType::Waits, LogType::Signals));
    [waits.clone(), signals.clone()]
}

fn driver_handle(w: &World) -> DriverHandle {
    w.calls().queues.last().unwrap().1
}

/// The five words of a log's header.
fn header(w: &World, log: &SetNativeFenceLogBuffer) -> Vec<u64> {
    match w.hooked.start_info().system_memory.resolve(log.header_address) {
        Some(Target::Protocol(page, at)) => {
            (0..5).map(|n| page.word(at as usize / 8 + n).load()).collect()
        }
        other => panic!("a header is words: {other:?}"),
    }
}

fn entry(log: &SetNativeFenceLogBuffer, index: u64) -> LogEntry {
    let mut bytes = [0; 48];
    log.entries.read(index * 48, &mut bytes).unwrap();
    LogEntry::decode(&bytes)
}

/// A signal to 5 that is logged without an interrupt, so that a test can raise one.
fn quiet(fence: &FenceInstance, log_entry: u32) -> RingPacket {
    quiet_as(fence, fence.handle, log_entry)
}

/// The same with another handle in its log entry.
fn quiet_as(fence: &FenceInstance, handle: Handle, log_entry: u32) -> RingPacket {
    match signal_packet(fence, 5, log_entry) {
        RingPacket::Signal { current_value, value, .. } => {
            let (monitored_value, fence_handle) = (GpuVa(0), handle.0);
            RingPacket::Signal { current_value, monitored_value, value, fence_handle, log_entry }
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
    world_with(|config| config.kernel.log_entries = 3).run(|w| {
        let (queue, fence) = (w.connected_queue(1), w.native(0));
        let [waits, signals] = logs(w);
        let words = |log| header(w, log);
        assert_eq!([LogType::Waits as u32, LogType::Signals as u32], [1, 2]);
        use LogOperation::{SignalExecuted, WaitUnblocked};
        assert_eq!([SignalExecuted as u32, WaitUnblocked as u32], [0, 1]);
        assert_eq!(words(&waits), [0, 1, 3, 0, 0]);
        assert_eq!(words(&signals), [0, 2, 3, 0, 0]);
        for (number, word) in
            (0..).zip([1, 2, 1 << 32, 1 << 32 | 1, 1 << 32 | 2, 2 << 32, 2 << 32 | 1])
        {
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
        let waits_for_gate = wait_packet(&gate, 9, 1);
        let packets =
            [signal_packet(&fence, 0x77, 0), wait_packet(&fence, 0x33, 0), waits_for_gate];
        make(w, &queue, &packets);
        let stalled = w.platform.now().0;
        w.signal(&gate, 10);
        make(w, &queue, &[signal_packet(&fence, 0x78, 1)]);
        // The published places, byte by byte.
        let word = |log: &SetNativeFenceLogBuffer, at| log.entries.read_u64(at).unwrap();
        assert_eq!([word(&signals, 0), word(&signals, 8)], [0x77, u64::from(fence.handle.0)]);
        assert_eq!([word(&waits, 48), word(&waits, 56)], [9, u64::from(gate.handle.0) | 1 << 32]);
        let (observed, ended) = (word(&waits, 48 + 24), word(&waits, 48 + 40));
        let times = [0, observed, stalled, ended];
        assert!(observed < stalled && times.is_sorted() && observed > 0, "{times:?}");
        let unobserved = (word(&signals, 24), word(&waits, 24));
        assert_eq!(unobserved, (0, 0), "what did not stall was not observed");
        assert!(word(&signals, 40) <= observed && ended <= word(&signals, 48 + 40));
        assert_eq!(word(&waits, 0), 0x33);
        assert_eq!(entry(&signals, 1).fence_value, 0x78);
    });
}

// spec: NF-193
#[test]
fn a_log_entry_has_no_room_for_a_cpu_time() {
    let whole = LogEntry {
        fence_value: 1,
        fence_handle: 2,
        operation: 3,
        observed_ns: 4,
        end_ns: 5,
        ..LogEntry::default()
    };
    // Value, handle, operation and two GPU times, name by name: an entry with more would not
    // compile here.
    let LogEntry {
        fence_value: _,
        fence_handle: _,
        operation: _,
        observed_ns: _,
        end_ns: _,
        reserved_0: _,
        reserved_1: _,
    } = whole;
    let bytes = whole.encode();
    let reserved = [16..24, 32..40].map(|range| bytes[range].iter().all(|b| *b == 0));
    assert_eq!((reserved, LogEntry::decode(&bytes)), ([true, true], whole));
}

// spec: NF-222, NF-223
#[test]
fn one_interrupt_serves_every_signal_logged_by_the_queue_that_it_names() {
    named_queues(84).run(|w| {
        let other = w.connected_queue(0);
        let [first, second, third, elsewhere] = [(); 4].map(|()| w.native_awaited(5));
        make(w, &other, &[quiet(&elsewhere.0, 0)]);
        let queue = w.connected_queue(1);
        make(w, &queue, &[quiet(&first.0, 0), quiet(&second.0, 1)]);
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert!(first.1.is_set() && second.1.is_set());
        assert!(!third.1.is_set() && !elsewhere.1.is_set());
        // The machine's own interrupt does the same, and only what is new is read.
        let before = w.stats().fence_reads;
        make(w, &queue, &[signal_packet(&third.0, 5, 2)]);
        assert!(third.1.is_set() && !elsewhere.1.is_set());
        assert_eq!(w.stats().fence_reads - before, 1, "the one new entry: progress has no waiter");
    });
}

// spec: NF-214, NF-215, NF-224
#[test]
fn without_a_queue_the_logs_of_all_are_read_and_only_news_is_flushed() {
    named_queues(84).run(|w| {
        let [first, second] = [(); 2].map(|()| w.native_awaited(5));
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
        let flushed: Vec<DriverHandle> = w.calls().flushed.into_iter().flatten().collect();
        assert_eq!(flushed, [drivers[0], drivers[2]], "the second queue has written nothing");
        w.hooked.interrupt(interrupt_of(None));
        assert_eq!(w.calls().flushed.into_iter().flatten().count(), 2, "nothing is new");
    });
}

// spec: NF-217
#[test]
fn entries_are_read_when_the_driver_has_flushed_them() {
    named_queues(84).run(|w| {
        let (fence, event) = w.native_awaited(5);
        let queue = w.connected_queue(0);
        let [_, signals] = logs(w);
        make(w, &queue, &[quiet_as(&fence, Handle(0), 0)]);
        assert_eq!(entry(&signals, 0).fence_handle, 0);
        // The index says that there is an entry; its bytes come with the driver's barrier.
        let handle = u64::from(fence.handle.0);
        w.hooked.on(Entry::UpdateNativeFenceLogs, move || {
            signals.entries.write_u64(8, handle).unwrap()
        });
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert!(event.is_set());
    });
}

// spec: NF-202, NF-203, NF-225
#[test]
fn an_overrun_log_loses_entries_and_no_waiter() {
    named_queues(4).run(|w| {
        let queue = w.connected_queue(0);
        let all: Vec<_> = (0..11).map(|_| w.native_awaited(5)).collect();
        let lost = |w: &World| w.stats().log_entries_lost;
        let signals: Vec<RingPacket> =
            (0..).zip(&all).map(|(n, (fence, _))| quiet(fence, n % 4)).collect();
        // A log that is just full is not an overrun.
        make(w, &queue, &signals[..4]);
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert_eq!((lost(w), all.iter().filter(|(_, e)| e.is_set()).count()), (0, 4));
        make(w, &queue, &signals[4..10]);
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert_eq!((lost(w), all.iter().filter(|(_, e)| e.is_set()).count()), (2, 10));
        assert!(!all[10].1.is_set(), "a scan reads values");
        make(w, &queue, &signals[10..]);
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert_eq!((lost(w), all[10].1.is_set()), (2, true), "and goes on where the log stands");
    });
}

// spec: NF-192
#[test]
fn what_a_process_writes_into_a_log_is_a_hint_and_no_more() {
    named_queues(8).run(|w| {
        let (fence, event) = w.native_awaited(5);
        let queue = w.connected_queue(0);
        let (driver, [_, signals]) = (driver_handle(w), logs(w));
        // Handles of nothing, of a device, of a queue; and of a fence that is logged as reached and
        // is not.
        let handles = [
            0,
            1,
            u32::MAX,
            w.device.0,
            queue.queue.handle.0,
            fence.handle.0 ^ 0x40,
            fence.handle.0,
        ];
        for (index, handle) in (0..).zip(handles) {
            let lie = LogEntry {
                fence_value: u64::MAX,
                fence_handle: handle,
                operation: u32::MAX,
                observed_ns: u64::MAX,
                end_ns: u64::MAX - index,
                ..LogEntry::default()
            };
            signals.entries.write(index * 48, &lie.encode()).unwrap();
        }
        for word in [7, u64::from(u32::MAX), 1 << 32, u64::MAX, 3, 0, 5 << 32 | 9, 1 << 63, 8] {
            signals.header.store(word);
            w.hooked.interrupt(interrupt_of(Some(driver)));
            w.hooked.interrupt(interrupt_of(None));
        }
        assert!(!event.is_set(), "CurrentValue decides");
        assert_eq!(w.adapter().bug_checks(), []);
        w.signal(&fence, 5);
        assert!(event.is_set());
    });
}

// spec: NF-208
#[test]
fn equal_and_zero_times_are_accepted() {
    named_queues(8).run(|w| {
        let [first, second, third] = [(); 3].map(|()| w.native_awaited(5));
        let queue = w.connected_queue(0);
        let [_, signals] = logs(w);
        make(w, &queue, &[quiet(&first.0, 0), quiet(&second.0, 1), quiet(&third.0, 2)]);
        let log = signals.entries.clone();
        w.hooked.on(Entry::UpdateNativeFenceLogs, move || {
            for (index, time) in [(0, 9), (1, 9), (2, 0)] {
                log.write_u64(index * 48 + 40, time).unwrap();
            }
        });
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert!(first.1.is_set() && second.1.is_set() && third.1.is_set());
    });
}

// spec: NF-174
#[test]
fn a_log_is_mapped_for_the_process_and_the_cmp_to_read_and_write() {
    world().run(|w| {
        let queue = w.user_queue(1);
        let logs = logs(w);
        let places = |log: &SetNativeFenceLogBuffer| {
            [(own_space(w), log.gpu_va), (0, log.system_process_gpu_va)]
                .map(|(space, header)| [header, header + 40].map(|va| leads_to(w, space, va)))
        };
        for log in &logs {
            let mapped = [log.header_address, log.entries_address].map(|at| Some((at, true)));
            let what = format!("{:?}: header and entries, in either space", log.log_type);
            assert_eq!(places(log), [mapped; 2], "{what}");
        }
        // The mappings end with the queue.
        w.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
        w.kernel.destroy_hw_queue(queue.queue.handle).unwrap();
        assert_eq!(logs.each_ref().map(places), [[[None; 2]; 2]; 2]);
    });
}

// spec: NF-191
#[test]
fn a_log_stands_in_the_process_s_address_space_as_published() {
    world().run(|w| {
        let (queue, fence) = (w.connected_queue(1), w.native(0));
        let detail = w.kernel.native_fence_log_detail(queue.queue.handle).unwrap();
        let [waits, signals] = logs(w);
        assert_eq!((detail.wait_entries, detail.signal_entries, detail.numbers), (84, 84, 1_344));
        assert_eq!(detail.wait_log_gpu_va, waits.gpu_va);
        assert_eq!(detail.signal_log_gpu_va, signals.gpu_va);
        make(w, &queue, &[signal_packet(&fence, 7, 0), signal_packet(&fence, 8, 1)]);
        // What an engine of the process loads there: the header, then the entries.
        let (copied, to) = w.bytes(136);
        let source = GpuVa(detail.signal_log_gpu_va);
        let load = |at: u64, bytes| Command::Copy {
            source: source.plus(at),
            destination: GpuVa(to + at),
            bytes,
        };
        let kernel_queue = w.hw_queue();
        w.on_queue(&kernel_queue).run(1, &[load(0, 40), load(40, 96)]).complete();
        let word = |at| copied.read_u64(at).unwrap();
        assert_eq!([0, 8, 16].map(word), [2, 2, 84], "index, type, number of entries");
        assert_eq!([40, 48, 88].map(word), [7, u64::from(fence.handle.0), 8]);
        // The CMP's header is at the same words.
        assert_eq!(header(w, &signals)[0], signals.header.load());
    });
}

// spec: NF-192
#[test]
fn a_process_that_stores_to_the_header_of_its_log_harms_no_other() {
    for index in [0, 1, 83, 84, u64::from(u32::MAX), 1 << 32, u64::MAX - 1, u64::MAX] {
        named_queues(84).run(move |w| {
            let neighbour = w.client("neighbour");
            let (hostile, beside) = (w.connected_queue(1), neighbour.connected_queue(2));
            let calls = w.calls();
            let [.., signals, _, _] = &calls.logs[..] else { panic!("two queues have four logs") };
            let (header, writer) = (signals.gpu_va, w.hw_queue());
            let fence = w.native(0);
            for round in 1..=3 {
                w.submit(&writer, round, &[store(header, index)]);
                w.wait(writer.progress_fence, round).unwrap();
                assert_eq!(signals.header.load(), index, "the process may");
                make(w, &hostile, &[signal_packet(&fence, round, 7)]);
                let (theirs, event) = neighbour.native_awaited(1);
                beside.push(&signal_packet(&theirs, 1, round as u32));
                // Every log of the engines is read, the hostile one among them.
                w.hooked.interrupt(interrupt_of(None));
                w.pass(1_000_000);
                assert!(event.is_set(), "{index:#x}: the neighbour's waiter is released");
            }
            assert_eq!(w.state(), Ok(DeviceState::Active));
            assert_eq!(neighbour.state(), Ok(DeviceState::Active));
        });
    }
}

// spec: NF-190, NF-205, NF-206
#[test]
fn a_log_that_changes_its_place_loses_nothing_and_numbers_in_flight_stay_right() {
    named_queues(4).run(|w| {
        let queue = w.connected_queue(0);
        let [waits, signals] = logs(w);
        let numbers = w.kernel.native_fence_log_detail(queue.queue.handle).unwrap().numbers;
        let all: Vec<_> = (0..12).map(|_| w.native_awaited(5)).collect();
        let set = || all.iter().filter(|(_, event)| event.is_set()).count();
        make(w, &queue, &(0..3).map(|n| quiet(&all[n].0, n as u32)).collect::<Vec<_>>());
        assert_eq!(set(), 0, "logged, and not yet read");
        // In flight: chosen before the change, carried out behind it.
        let gate = w.native(0);
        make(w, &queue, &[wait_packet(&gate, 1, 0)]);
        (3..9).for_each(|n| queue.put(&quiet(&all[n].0, n as u32)));
        queue.ring();
        w.adapter().start_log_tracing().unwrap();
        assert_eq!(set(), 3, "the old log was read a last time");
        let [new_waits, new_signals] = logs(w);
        assert_eq!([&new_waits, &new_signals].map(|log| log.number_of_entries), [numbers; 2]);
        let memory = w.hooked.start_info().system_memory;
        let gone = [waits.header_address, signals.header_address, signals.entries_address];
        let off_the_bus = gone.iter().all(|at| memory.resolve(*at).is_none());
        assert!(off_the_bus, "the old logs are still there");
        let detail = w.kernel.native_fence_log_detail(queue.queue.handle).unwrap();
        assert_eq!((detail.signal_log_gpu_va, detail.numbers), (new_signals.gpu_va, numbers));
        w.signal(&gate, 1);
        w.pass(1_000);
        assert_eq!(header(w, &new_signals)[..3], [9, 2, u64::from(numbers)]);
        assert_eq!(entry(&new_signals, 3).fence_handle, all[3].0.handle.0, "where its number says");
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert_eq!((set(), w.stats().log_entries_lost), (9, 0));
        // Smaller again, under numbers that the smaller one has not.
        w.adapter().stop_log_tracing().unwrap();
        let [_, small] = logs(w);
        assert_eq!(small.number_of_entries, 4);
        make(w, &queue, &(9..12).map(|n| quiet(&all[n].0, n as u32)).collect::<Vec<_>>());
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        let read = (set(), header(w, &small)[0]);
        assert_eq!(read, (12, 1 << 32), "numbers 9 to 11 are entries 1 to 3");
        // A change without an effect is not passed to the driver.
        let logs = w.calls().logs.len();
        w.adapter().stop_log_tracing().unwrap();
        assert_eq!(w.calls().logs.len(), logs);
    });
}

// spec: NF-209
#[test]
fn a_time_that_falls_is_reported_and_harmless() {
    named_queues(8).run(|w| {
        let all: Vec<_> = (0..5).map(|_| w.native_awaited(5)).collect();
        let queue = w.connected_queue(0);
        let [_, signals] = logs(w);
        make(w, &queue, &(0..5).map(|n| quiet(&all[n].0, n as u32)).collect::<Vec<_>>());
        let log = signals.entries.clone();
        w.hooked.on(Entry::UpdateNativeFenceLogs, move || {
            for (index, time) in [(0, 90), (1, 0), (2, 80), (3, 80), (4, 95)] {
                log.write_u64(index * 48 + 40, time).unwrap();
            }
        });
        w.hooked.interrupt(interrupt_of(Some(driver_handle(w))));
        assert!(all.iter().all(|(_, event)| event.is_set()));
        let adapter = w.adapter();
        let fault = LogTimeFault {
            queue: w.number(queue.queue.handle),
            log_type: LogType::Signals,
            entry: 2,
            before_ns: 90,
            end_ns: 80,
        };
        assert_eq!((adapter.stats().log_time_faults, adapter.log_time_faults()), (1, vec![fault]));
        assert_eq!(w.state().unwrap(), DeviceState::Active);
    });
}

// spec: NF-218
#[test]
fn one_call_covers_both_logs_of_every_queue_with_news() {
    named_queues(84).run(|w| {
        w.platform.enable_tracing();
        let fence = w.native(0);
        let queues = [(); 3].map(|()| {
            let queue = w.connected_queue(0);
            (queue, driver_handle(w))
        });
        // A wait log with news, a signal log with news, and both.
        make(w, &queues[0].0, &[wait_packet(&fence, 0, 0)]);
        make(w, &queues[1].0, &[quiet(&fence, 0)]);
        make(w, &queues[2].0, &[wait_packet(&fence, 0, 0), quiet(&fence, 0)]);
        w.hooked.interrupt(interrupt_of(None));
        assert_eq!(w.calls().flushed, [queues.each_ref().map(|(_, driver)| *driver).to_vec()]);
    });
}

/// Two queues of a traced machine: one waits for what the other one signals `signals` times; then
/// the timeline.
fn traced(signals: u64, forgetful: bool, verbose: bool) -> (Arc<Hooked>, Trace, [LaneId; 2]) {
    let platform = Platform::virtual_time(StepCosts::free());
    platform.enable_tracing();
    let mut hooked = None;
    // Inline: a worker that costs nothing would still be behind an engine that does not either.
    let mut config = MachineConfig::standard(&platform);
    inline(&mut config);
    let machine = Machine::builder(&platform).reference_behind(config, |driver| {
        // A forgetful driver does not learn when logs are to be read.
        let overrides = match forgetful {
            true => Overrides::default().set_native_fence_log_buffer(|inner, level, args| {
                let args = SetNativeFenceLogBuffer { notify_every: 0, ..args };
                inner.set_native_fence_log_buffer(level, args);
            }),
            false => Overrides::default(),
        };
        let made = Hooked::new(&platform, overrides.before(driver), None);
        hooked = Some(made.clone());
        made
    });
    let machine = Arc::new(machine.start().unwrap());
    machine.adapter().set_verbose_logs(verbose).unwrap();
    let options = DeviceOptions { ring_slots: 8_192, ..DeviceOptions::default() };
    let device = machine.device(options).unwrap();
    let [waiter, signaller] = [CommandListType::Compute, CommandListType::Copy]
        .map(|list_type| device.queue(list_type, Submission::User));
    let (gate, link) = (device.fence(0), device.fence(0));
    let list = device.list(CommandListType::Copy, |list| list.timed(5_000));
    let lanes = [waiter.timeline_lane(), signaller.timeline_lane()];
    let clock = platform.clone();
    machine
        .run(move || {
            clock.sleep_until(clock.now().after(100));
            waiter.wait(&link, signals).unwrap();
            waiter.signal(&gate, 1).unwrap();
            clock.sleep_until(clock.now().after(100));
            signaller.execute(&[&list]).unwrap();
            (1..=signals).for_each(|value| signaller.signal(&link, value).unwrap());
            gate.wait(1).unwrap();
        })
        .unwrap();
    (hooked.unwrap(), platform.take_trace("logs"), lanes)
}

fn of_lane(trace: &Trace, lane: LaneId, kind: Kind) -> Vec<Record> {
    trace.records.iter().filter(|r| r.lane == lane && r.kind == kind).copied().collect()
}

/// The entries of all logs of a type, with the GPU's times.
fn logged(hooked: &Hooked, log_type: LogType) -> Vec<LogEntry> {
    let logs = hooked.calls().logs.into_iter().filter(|log| log.log_type == log_type);
    let entries =
        logs.flat_map(|log| (0..u64::from(log.number_of_entries)).map(move |n| entry(&log, n)));
    entries.filter(|entry| entry.fence_handle != 0).collect()
}

// spec: NF-169, NF-170, NF-195, NF-220, NF-229
#[test]
fn the_timeline_shows_the_waits_and_signals_of_the_logs() {
    let (hooked, trace, [waiter, signaller]) = traced(3, false, false);
    // All four conditions of the wait and of a signal: queued, and unblocked or executed; and when
    // the wait was first unmet.
    let [wait] = of_lane(&trace, waiter, Kind::Wait)[..] else { panic!("one wait: {trace:?}") };
    assert_eq!((wait.queued_ns, wait.start_ns, wait.end_ns), (100, 100, 5_200));
    let signals = of_lane(&trace, signaller, Kind::Signal);
    let times: Vec<_> = signals.iter().map(|r| (r.queued_ns, r.start_ns, r.end_ns)).collect();
    assert_eq!(times, [(200, 5_200, 5_200); 3]);
    assert_eq!(signals.iter().map(|r| r.fence().unwrap().1).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(signals[0].fence().map(|f| f.0), wait.fence().map(|f| f.0));
    // The same as in the logs, which are always written: nothing else, nothing twice.
    let waits = logged(&hooked, LogType::Waits);
    assert_eq!(
        waits.iter().map(|e| (e.fence_value, e.observed_ns, e.end_ns)).collect::<Vec<_>>(),
        [(3, 100, 5_200)]
    );
    let executed = logged(&hooked, LogType::Signals);
    assert_eq!(executed.iter().map(|e| e.fence_value).collect::<Vec<_>>(), [1, 1, 2, 3]);
    let drawn =
        trace.records.iter().filter(|r| matches!(r.kind, Kind::Wait | Kind::Signal)).count();
    assert_eq!((drawn, trace.lost_records), (5, 0));
    assert!(!trace.records.iter().any(|r| matches!(r.kind, Kind::WaitQueued | Kind::SignalQueued)));
}

// spec: NF-204
#[test]
fn where_log_entries_were_lost_the_timeline_says_how_many_and_where() {
    let signals = 3_000;
    let (_, trace, [_, signaller]) = traced(signals, false, false);
    let drawn = of_lane(&trace, signaller, Kind::Signal).len() as u64;
    let counts = (drawn, trace.lost_records);
    assert_eq!(counts, (signals, 0), "a log that is read at each half loses nothing");

    let (_, trace, [_, signaller]) = traced(signals, true, false);
    let drawn = of_lane(&trace, signaller, Kind::Signal);
    let [lost] = of_lane(&trace, signaller, Kind::Lost)[..] else { panic!("one gap") };
    assert_eq!((drawn.len() as u64, lost.arg), (1_344, signals - 1_344));
    assert_eq!(trace.lost_records, lost.arg);
    assert_eq!(drawn[0].fence().unwrap().1, lost.arg + 1, "the newest are there");
    let gap = (lost.start_ns, lost.end_ns);
    assert_eq!(gap, (0, 5_200), "from the last one before to the first one after");
    let pending = of_lane(&trace, signaller, Kind::SignalQueued).len() as u64;
    assert_eq!(pending, lost.arg, "they were queued, and their entries were lost");
}

#[test]
fn the_verbose_log_is_switched_for_driver_and_user_mode_driver_together() {
    let (hooked, trace, [_, signaller]) = traced(1, false, true);
    let logs = hooked.calls().logs;
    let verbose = logs.iter().filter(|log| log.log_type == LogType::Commands);
    let entries: Vec<u32> = verbose.map(|log| log.number_of_entries).collect();
    assert_eq!(entries, [1_344, 1_344], "one log for each queue");
    let [buffer] = of_lane(&trace, signaller, Kind::Mark)[..] else { panic!("{trace:?}") };
    assert_eq!((buffer.start_ns, buffer.end_ns), (200, 5_200));
    assert_eq!((trace.name_of(&buffer), buffer.arg), ("command buffer", 1), "its progress value");
}

// spec: NF-230
#[test]
fn the_verbose_log_comes_and_goes_under_a_queue_that_runs() {
    world().run(|w| {
        let queue = w.connected_queue(1);
        let enabled =
            w.kernel.native_fence_log_detail(queue.queue.handle).unwrap().verbose.unwrap();
        let adapter = w.adapter();
        let commands = |w: &World| {
            let logs = w.calls().logs;
            logs.iter()
                .filter(|l| l.log_type == LogType::Commands)
                .map(|l| l.number_of_entries)
                .collect::<Vec<_>>()
        };
        let (gpu_va, bytes) = w.commands(&[Command::Timed { ns: 5 }]);
        let run = |entry| RingPacket::Execute {
            commands: GpuVa(gpu_va),
            bytes,
            progress: 0,
            log_entry: Some(entry),
        };
        // An entry that is named while there is no such log is not a mistake: the switch may have
        // been turned meanwhile.
        make(w, &queue, &[run(0)]);
        assert_eq!((enabled.load(), commands(w)), (0, vec![]));
        adapter.set_verbose_logs(true).unwrap();
        assert_eq!((enabled.load(), commands(w)), (1, vec![84]));
        make(w, &queue, &[run(1)]);
        let log = w.calls().logs.last().unwrap().clone();
        let written = entry(&log, 1);
        assert_eq!(header(w, &log), [2, 256, 84, 0, 0]);
        assert_eq!((written.operation, written.end_ns - written.observed_ns), (256, 5));
        adapter.set_verbose_logs(false).unwrap();
        assert_eq!((enabled.load(), commands(w)), (0, vec![84, 0]));
        make(w, &queue, &[run(2)]);
        assert_eq!(w.state().unwrap(), DeviceState::Active);
    });
}
