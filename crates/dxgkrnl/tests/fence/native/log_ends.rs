//! Logs that are not there, and what the kernel reads out of a log when its queue ends.

use tidegate_testbed::prelude::*;

/// Without logs the kernel finds signalled fences by their values.
// spec: NF-173
#[test]
fn without_logs_signals_release_their_waiters_all_the_same() {
    for mode in [InterruptMode::HwQueue, InterruptMode::FenceArray] {
        world_with(|config| {
            config.driver.interrupt = mode;
            config.kernel.log_entries = 0;
        })
        .run(|w| {
            let (user, hardware, fence) = (w.connected_queue(0), w.hw_queue_on(1), w.native(0));
            assert!(w.calls().logs.is_empty(), "no log is named to the driver");
            user.signal_and_wait(&fence, 1);
            w.on_queue(&hardware).signal(&fence, 2).run(1, &[Command::Timed { ns: 10 }]).finish();
            w.wait(fence.handle, 2).unwrap();
            assert_eq!((w.stats().log_entries_lost, w.state()), (0, Ok(DeviceState::Active)));
        });
    }
}

/// The driver may write the last entries while it destroys the queue. They are read with a barrier
/// of the CPU, because the queue must not be named to the driver any more. The time of the last
/// entry falls, which shows that it was read.
// spec: NF-209
#[test]
fn what_the_driver_logs_while_it_destroys_a_queue_is_read() {
    let w = world();
    w.platform.enable_tracing();
    w.run(|w| {
        // A time of 0 says that the adapter records none.
        w.pass(500);
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        let log = w.calls().logs.last().unwrap().clone();
        assert_eq!(log.log_type, LogType::Signals);
        queue.push(&signal_packet(&fence, 1, 0));
        w.wait(fence.handle, 1).unwrap();
        w.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
        w.hooked.once(Entry::DestroyHwQueue, move || {
            let mut bytes = [0; 48];
            log.entries.read(0, &mut bytes).unwrap();
            let first = LogEntry::decode(&bytes);
            let last = LogEntry { fence_value: 77, end_ns: first.end_ns - 100, ..first };
            log.entries.write(48, &last.encode()).unwrap();
            log.header.store(2);
        });
        w.driver.take();
        w.kernel.destroy_hw_queue(queue.queue.handle).unwrap();
        let calls = w.driver.take_names().into_iter();
        let after: Vec<_> = calls.skip_while(|name| *name != "DestroyHwQueue").skip(1).collect();
        assert!(!after.contains(&"UpdateNativeFenceLogs"), "{after:?}");
        let faults = w.adapter().log_time_faults();
        let [fault] = &faults[..] else { panic!("{faults:?}") };
        assert_eq!((fault.entry, fault.before_ns - fault.end_ns), (1, 100));
    });
}
