//! Single operations and nothing else, for a program that counts the instructions of a process: the
//! difference between two counts is the operations'.
//!
//! The GPU is stopped while a client fills its rings, and started while the client sleeps. One
//! thread runs at a time, so that polling adds nothing to a count.

use crate::rows::chain::Ends;
use crate::rows::explore;
use std::hint::black_box;
use tidegate::d3d12::{BufferDesc, CommandListType, Event, EventDesc, Fence, Queue};
use tidegate::gpu_abi::GpuVa;
use tidegate::gpu_abi::ring::{NO_LOG_ENTRY, RingPacket};
use tidegate_measure::rows::virtual_time;
use tidegate_measure::{Found, Setup, Shape};

/// An operation: its name, and what does it a number of times.
type Operation = (&'static str, fn(u64) -> Found<()>);

const OPERATIONS: &[Operation] = &[
    ("queue-signal", |times| Rig::new(false)?.signals(times, false)),
    ("run-signal", |times| Rig::new(false)?.signals(times, true)),
    ("queue-signal-logged", |times| Rig::new(true)?.signals(times, false)),
    ("run-signal-logged", |times| Rig::new(true)?.signals(times, true)),
    ("queue-list", |times| Rig::new(false)?.lists(times, false)),
    ("run-list", |times| Rig::new(false)?.lists(times, true)),
    ("queue-link", |times| Rig::new(true)?.links(times, false)),
    ("run-link", |times| Rig::new(true)?.links(times, true)),
    ("encode-packet", encode),
    ("decode-packet", decode),
    ("signal-of-cpu", |times| Rig::new(false)?.cpu_signals(times)),
    ("create-event", |times| kept(Rig::new(false)?, |rig| rig.events(times))),
    ("register-waiter", |times| kept(Rig::new(false)?, |rig| rig.waiters(times))),
    ("release-waiter", |times| kept(Rig::new(false)?, |rig| rig.releases(times))),
    ("create-fence", |times| Rig::new(false)?.fences(times)),
    ("record-copy", |times| Rig::new(false)?.copies(times)),
    ("explore-litmus", |times| explore::random_schedules("litmus", times)),
    ("explore-seven-stations", |times| explore::random_schedules("seven-stations", times)),
    ("submit-in-virtual-time", virtual_time::submissions),
];

/// Does operation `name` `times` times.
pub(crate) fn run(name: &str, times: u64) -> Found<()> {
    let Some((_, operation)) = OPERATIONS.iter().find(|(other, _)| *other == name) else {
        let names: Vec<&str> = OPERATIONS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no operation '{name}'; operations: {}", names.join(", ")).into());
    };
    Ok(operation(times).map_err(|e| format!("{name}: {e}"))?)
}

/// Does the operation and keeps what it made: the end of waiters and events is not counted.
fn kept<T>(rig: Rig, operation: impl FnOnce(&Rig) -> Found<T>) -> Found<()> {
    let made = operation(&rig)?;
    std::mem::forget((rig, made));
    Ok(())
}

/// A machine with two queues on two engines of one service thread.
struct Rig {
    setup: Setup,
    queue: Queue,
    ends: Ends,
    fence: Fence,
    mark: Fence,
}

impl Rig {
    fn new(fence_logs: bool) -> Found<Rig> {
        /// Rings for tens of thousands of operations.
        const SLOTS: u64 = 1 << 17;
        let setup = Setup::new(Shape { ring_slots: SLOTS, fence_logs, ..Shape::default() })?;
        let (queue, fence) = setup.queue_and_fence()?;
        let other = setup.queue(CommandListType::Copy)?;
        let mark = setup.device.create_fence("mark", 0)?;
        let ends = Ends([(queue.clone(), fence.clone()), (other, fence.clone())]);
        Ok(Rig { setup, queue, ends, fence, mark })
    }

    /// Queues work while the GPU is stopped. If it is to run, the client sleeps until it is done.
    fn queued(self, queue: impl FnOnce(&Rig) -> Found<()>, runs: bool) -> Found<()> {
        self.setup.machine.gpu().stop();
        queue(&self)?;
        if runs {
            self.setup.machine.gpu().start();
            let mark = self.mark.clone();
            self.setup.machine.run(move || mark.wait(1))??;
        } else {
            // The machine's end would run what is queued.
            std::mem::forget(self);
        }
        Ok(())
    }

    fn signals(self, times: u64, runs: bool) -> Found<()> {
        let queue = |rig: &Rig| {
            for value in 1..=times {
                rig.queue.signal(&rig.fence, value)?;
            }
            Ok(rig.queue.signal(&rig.mark, 1)?)
        };
        self.queued(queue, runs)
    }

    /// Executes an empty list.
    fn lists(self, times: u64, runs: bool) -> Found<()> {
        let list = self.setup.device.create_command_list(CommandListType::Compute).close()?;
        let queue = |rig: &Rig| {
            for _ in 0..times {
                rig.queue.execute(&[&list])?;
            }
            Ok(rig.queue.signal(&rig.mark, 1)?)
        };
        self.queued(queue, runs)
    }

    /// Each queue waits for what the other queue signals.
    fn links(self, times: u64, runs: bool) -> Found<()> {
        let queue = |rig: &Rig| {
            (0..times).try_for_each(|value| rig.ends.link(value))?;
            rig.queue.wait(&rig.fence, times)?;
            Ok(rig.queue.signal(&rig.mark, 1)?)
        };
        self.queued(queue, runs)
    }

    fn cpu_signals(&self, times: u64) -> Found<()> {
        for value in 1..=times {
            self.fence.signal(value)?;
        }
        Ok(())
    }

    fn events(&self, times: u64) -> Found<Vec<Event>> {
        Ok((0..times).map(|_| self.setup.device.create_event(EventDesc::manual_reset())).collect())
    }

    /// Creates a fence and destroys it.
    fn fences(&self, times: u64) -> Found<()> {
        for _ in 0..times {
            drop(black_box(self.setup.device.create_fence("short-lived", 0)?));
        }
        Ok(())
    }

    fn waiters(&self, times: u64) -> Found<Vec<Event>> {
        let events = self.events(times)?;
        for (event, value) in events.iter().zip(1..) {
            self.fence.set_event_on_completion(value, event)?;
        }
        Ok(events)
    }

    fn releases(&self, times: u64) -> Found<Vec<Event>> {
        let events = self.waiters(times)?;
        self.cpu_signals(times)?;
        match events.iter().all(Event::is_set) {
            true => Ok(events),
            false => Err("a waiter was not released".into()),
        }
    }

    fn copies(&self, times: u64) -> Found<()> {
        const COPIES_IN_A_LIST: u64 = 100;
        let buffer = |name: &str| self.setup.device.create_buffer(BufferDesc::new(name, 4_096));
        let (source, target) = (buffer("source")?, buffer("target")?);
        for _ in 0..times / COPIES_IN_A_LIST {
            let mut list = self.setup.device.create_command_list(CommandListType::Compute);
            for n in 0..COPIES_IN_A_LIST {
                list.copy(&target, 4 * n, &source, 4 * n, 4)?;
            }
            black_box(list.close()?);
        }
        Ok(())
    }
}

fn packet(value: u64) -> RingPacket {
    RingPacket::Signal {
        current_value: GpuVa(0x1000),
        monitored_value: GpuVa(0x2000),
        value,
        fence_handle: 7,
        log_entry: NO_LOG_ENTRY,
    }
}

fn encode(times: u64) -> Found<()> {
    for value in 0..times {
        black_box(black_box(packet(value)).encode());
    }
    Ok(())
}

fn decode(times: u64) -> Found<()> {
    let bytes = packet(7).encode();
    for _ in 0..times {
        black_box(RingPacket::decode(black_box(&bytes))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_runs() {
        for (name, _) in OPERATIONS {
            run(name, 200).unwrap();
        }
        assert!(run("another", 1).unwrap_err().to_string().contains("encode-packet"));
    }
}
