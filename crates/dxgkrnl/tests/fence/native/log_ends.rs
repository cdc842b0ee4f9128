//! Queues without logs, and the end of logs.

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
