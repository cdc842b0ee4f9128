//! Kernel-mode hardware queues of an adapter without native fences: their progress fence is a
//! monitored one, of which the hardware tells as often as it completes commands.

use tidegate_testbed::prelude::*;

/// How a machine is changed for a test.
type Change = fn(&mut MachineConfig);

fn basic(config: &mut MachineConfig) {
    inline(config);
    config.driver.native_fence = false;
}

fn advanced(config: &mut MachineConfig) {
    basic(config);
    config.gpu.nodes.iter_mut().for_each(|node| node.notifies_fence_writes = true);
}

fn narrow(config: &mut MachineConfig) {
    basic(config);
    config.gpu.atomics_64bit = false;
}

fn alike(config: &mut MachineConfig) {
    basic(config);
    config.gpu.tells_fence_kinds = false;
}

const VARIANTS: [Change; 4] = [basic, advanced, narrow, alike];

fn interrupts(w: &World) -> u64 {
    w.stats().interrupts
}

// spec: NF-300
#[test]
fn commands_waits_and_signals_keep_their_order() {
    for change in VARIANTS {
        world_with(change).run(|w| {
            assert!(w.kernel.query_adapter_info().hardware_scheduling);
            assert_eq!(w.try_hw_queue(0, true).err(), Some(Status::NOT_SUPPORTED));
            let (first, second) = (w.hw_queue_on(0), w.hw_queue_on(1));
            assert!(!first.native_progress_fence);
            let (gate, between, done) = (w.monitored(0), w.monitored(0), w.monitored(0));
            w.on_queue(&first).wait(&gate, 1).run(1, &[Command::Timed { ns: 1_000 }]);
            w.on_queue(&first).signal(&between, 1);
            w.on_queue(&second).wait(&between, 1).run(1, &[Command::Timed { ns: 1_000 }]);
            w.on_queue(&second).signal(&done, 1);
            w.pass(10_000);
            assert_eq!(
                (between.value.load(), done.value.load()),
                (0, 0),
                "the wait holds what stands behind it"
            );
            w.signal(&gate, 1);
            w.wait(done.handle, 1).unwrap();
            w.wait(second.progress_fence, 1).unwrap();
            assert_eq!(first.progress_value.load(), 1);
        });
    }
}

// spec: NF-301
#[test]
fn a_command_costs_an_interrupt_with_and_without_a_waiter() {
    const COMMANDS: u64 = 100;
    for change in VARIANTS {
        world_with(change).run(|w| {
            let queue = w.hw_queue();
            let before = interrupts(w);
            for progress in 1..=COMMANDS {
                w.submit(&queue, progress, &[Command::Timed { ns: 1_000 }]);
                // One at a time: the engine's turn ends with it.
                w.wait(queue.progress_fence, progress).unwrap();
            }
            assert_eq!(interrupts(w) - before, COMMANDS);
            // These have no waiter.
            let before = interrupts(w);
            for progress in COMMANDS + 1..=2 * COMMANDS {
                w.submit(&queue, progress, &[Command::Timed { ns: 1_000 }]);
                w.pass(10_000);
            }
            assert_eq!(interrupts(w) - before, COMMANDS, "it cannot tell");
        });
    }
}

#[test]
fn a_native_progress_fence_interrupts_only_for_a_waiter() {
    world_with(inline).run(|w| {
        let queue = w.hw_queue();
        assert!(queue.native_progress_fence);
        let before = interrupts(w);
        for progress in 1..=100 {
            w.submit(&queue, progress, &[Command::Timed { ns: 1_000 }]);
            w.pass(10_000);
        }
        assert_eq!(interrupts(w), before);
    });
}

#[test]
fn a_full_queue_goes_on_when_commands_complete() {
    world_with(basic).run(|w| {
        let queue = w.hw_queue();
        for progress in 1..=500 {
            w.submit(&queue, progress, &[Command::Timed { ns: 100 }]);
        }
        w.wait(queue.progress_fence, 500).unwrap();
    });
}
