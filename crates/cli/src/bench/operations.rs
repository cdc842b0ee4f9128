//! Single operations, as often as they are wanted and nothing else, for a program that
//! counts the instructions of a process: the difference between two counts is the operations'.
//!
//! The GPU is stopped while a client fills its rings, and started while the client sleeps. One
//! thread runs at a time, so that polling adds nothing to a count.

use super::rows::operation_setup as setup;
use super::rows::setup::Setup;
use super::rows::{explore, virtual_time};
use std::hint::black_box;
use tidegate::d3d12::{BufferDesc, CommandListType, Event, EventDesc, Fence, Queue};
use tidegate::gpu_abi::GpuVa;
use tidegate::gpu_abi::ring::{NO_LOG_ENTRY, RingPacket};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// An operation: its name, and what does it so many times.
type Operation = (&'static str, fn(u64) -> Result<()>);

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
    ("explore-litmus", |times| Ok(explore::random_schedules("litmus", times)?)),
    ("explore-seven-stations", |times| Ok(explore::random_schedules("seven-stations", times)?)),
    ("submit-in-virtual-time", |times| Ok(virtual_time::submissions(times)?)),
];

/// Does operation `name` so many times.
pub(super) fn run(name: &str, times: u64) -> std::result::Result<(), String> {
    let Some((_, operation)) = OPERATIONS.iter().find(|(other, _)| *other == name) else {
        let names: Vec<&str> = OPERATIONS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no operation '{name}'; operations: {}", names.join(", ")));
    };
    operation(times).map_err(|e| format!("{name}: {e}"))
}

/// Does the operation and keeps what it made: the end of waiters and events is not counted.
fn kept<T>(rig: Rig, operation: impl FnOnce(&Rig) -> Result<T>) -> Result<()> {
    let made = operation(&rig)?;
    std::mem::forget((rig, made));
    Ok(())
}

/// A machine with two queues on two engines of one service thread.
struct Rig {
    setup: Setup,
    queues: [Queue; 2],
    fence: Fence,
    mark: Fence,
}

impl Rig {
    fn new(fence_logs: bool) -> Result<Rig> {
        let setup = setup(fence_logs)?;
        let queues = [setup.queue(CommandListType::Compute)?, setup.queue(CommandListType::Copy)?];
        let (fence, mark) =
            (setup.device.create_fence("counted", 0)?, setup.device.create_fence("mark", 0)?);
        Ok(Rig { setup, queues, fence, mark })
    }

    /// Queues work while the GPU is stopped. If it is to run, the client sleeps until it is done.
    fn queued(self, queue: impl FnOnce(&Rig) -> Result<()>, runs: bool) -> Result<()> {
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

    fn signals(self, times: u64, runs: bool) -> Result<()> {
        let queue = |rig: &Rig| {
            for value in 1..=times {
                rig.queues[0].signal(&rig.fence, value)?;
            }
            Ok(rig.queues[0].signal(&rig.mark, 1)?)
        };
        self.queued(queue, runs)
    }

    /// Executes an empty list.
    fn lists(self, times: u64, runs: bool) -> Result<()> {
        let list = self.setup.device.create_command_list(CommandListType::Compute).close()?;
        let queue = |rig: &Rig| {
            for _ in 0..times {
                rig.queues[0].execute(&[&list])?;
            }
            Ok(rig.queues[0].signal(&rig.mark, 1)?)
        };
        self.queued(queue, runs)
    }

    /// Each queue waits for what the other one signals.
    fn links(self, times: u64, runs: bool) -> Result<()> {
        let queue = |rig: &Rig| {
            for value in 0..times {
                let queue = &rig.queues[(value % 2) as usize];
                queue.wait(&rig.fence, value)?;
                queue.signal(&rig.fence, value + 1)?;
            }
            rig.queues[0].wait(&rig.fence, times)?;
            Ok(rig.queues[0].signal(&rig.mark, 1)?)
        };
        self.queued(queue, runs)
    }

    fn cpu_signals(&self, times: u64) -> Result<()> {
        for value in 1..=times {
            self.fence.signal(value)?;
        }
        Ok(())
    }

    fn events(&self, times: u64) -> Result<Vec<Event>> {
        Ok((0..times).map(|_| self.setup.device.create_event(EventDesc::manual_reset())).collect())
    }

    /// Creates a fence and destroys it.
    fn fences(&self, times: u64) -> Result<()> {
        for _ in 0..times {
            drop(black_box(self.setup.device.create_fence("short-lived", 0)?));
        }
        Ok(())
    }

    fn waiters(&self, times: u64) -> Result<Vec<Event>> {
        let events = self.events(times)?;
        for (event, value) in events.iter().zip(1..) {
            self.fence.set_event_on_completion(value, event)?;
        }
        Ok(events)
    }

    fn releases(&self, times: u64) -> Result<Vec<Event>> {
        let events = self.waiters(times)?;
        self.cpu_signals(times)?;
        match events.iter().all(Event::is_set) {
            true => Ok(events),
            false => Err("a waiter was not released".into()),
        }
    }

    fn copies(&self, times: u64) -> Result<()> {
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

fn encode(times: u64) -> Result<()> {
    for value in 0..times {
        black_box(black_box(packet(value)).encode());
    }
    Ok(())
}

fn decode(times: u64) -> Result<()> {
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
            assert_eq!(run(name, 200), Ok(()));
        }
        assert!(run("another", 1).unwrap_err().contains("encode-packet"));
    }
}
